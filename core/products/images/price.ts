/** Sizes of images and their rates. */
import type { ImageSize } from '../../ports/vendors/images.ts'
import { dollars } from '../../x402/money.ts'

/** Reads `{ '1024x1024': '0.02' }`: catalog rates in US dollars for one image. Throws on a malformed size or rate. */
export function imageSizes(rates: Readonly<Record<string, string>>): readonly ImageSize[] {
  return Object.entries(rates).map(([size, rate]) => {
    const [, width, height] = /^(\d{2,5})x(\d{2,5})$/.exec(size) ?? []
    if (!width || !height) throw new RangeError(`not an image size such as 1024x1024: ${size}`)
    return { size, width: Number(width), height: Number(height), rate: dollars(rate) }
  })
}
