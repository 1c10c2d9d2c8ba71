/** The formulas of the contract. Each is exact until its last step; the fee is added once per paid call. */
import { type Dollars, dollars, plus, roundUp, times, type Usdc } from './money.ts'

/** Flat transaction fee per paid call (spec 1, Limits). */
export const FEE = dollars('0.001')

const MEDIA_MARGIN = dollars('1.05')

/** Images: `rate * n * 1.05 + 0.001` (spec 1, "Pricing formula"). `rate` is the catalog rate for one image. */
export function mediaPrice(rate: Dollars, n: number): Usdc {
  return roundUp(plus(times(times(rate, BigInt(n)), MEDIA_MARGIN), FEE))
}

/** A flat price per call: what it says plus the fee, for example `0.01` is 0.011. */
export function flatPrice(usd: string): Usdc {
  return roundUp(plus(dollars(usd), FEE))
}

/** One output size of an image model, in pixels, and its catalog rate for one image, before margin and fee. */
export type ImageSize = { readonly size: string; readonly width: number; readonly height: number; readonly rate: Dollars }

/** Reads `{ '1024x1024': '0.02' }`: catalog rates in US dollars for one image. Throws on a malformed size or rate. */
export function imageSizes(rates: Readonly<Record<string, string>>): readonly ImageSize[] {
  return Object.entries(rates).map(([size, rate]) => {
    const [, width, height] = /^(\d{2,5})x(\d{2,5})$/.exec(size) ?? []
    if (!width || !height) throw new RangeError(`not an image size such as 1024x1024: ${size}`)
    return { size, width: Number(width), height: Number(height), rate: dollars(rate) }
  })
}
