/** The smallest pictures of each format, for tests of what recognises them. Only the PNG has pixels. */
import { crc32, deflateSync } from 'node:zlib'

type Size = { readonly width: number; readonly height: number }

const ascii = (text: string) => new TextEncoder().encode(text)
const join = (...parts: readonly Uint8Array[]) => new Uint8Array(Buffer.concat(parts))

/** Numbers as bytes: 16 or 32 bits, big-endian unless told. */
function word(bits: 16 | 32, value: number, isLittle = false): Uint8Array {
  const view = new DataView(new ArrayBuffer(bits / 8))
  if (bits === 16) view.setUint16(0, value, isLittle)
  if (bits === 32) view.setUint32(0, value, isLittle)
  return new Uint8Array(view.buffer)
}

/** A transparent PNG that decodes. */
export function png({ width, height }: Size = { width: 1, height: 1 }): Uint8Array {
  const chunk = (type: string, data: Uint8Array) => {
    const named = join(ascii(type), data)
    return join(word(32, data.length), named, word(32, crc32(named)))
  }
  const header = join(word(32, width), word(32, height), new Uint8Array([8, 6, 0, 0, 0]))
  const pixels = new Uint8Array(deflateSync(new Uint8Array((width * 4 + 1) * height)))
  const signature = new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
  return join(signature, chunk('IHDR', header), chunk('IDAT', pixels), chunk('IEND', new Uint8Array()))
}

export function jpeg({ width, height }: Size): Uint8Array {
  const app = join(word(16, 0xffe0), word(16, 16), ascii('JFIF\0'), new Uint8Array(9))
  const frame = join(
    word(16, 0xffc0),
    word(16, 11),
    new Uint8Array([8]),
    word(16, height),
    word(16, width),
    new Uint8Array([1, 1, 0x11, 0]),
  )
  return join(word(16, 0xffd8), app, frame, word(16, 0xffd9))
}

export function gif({ width, height }: Size): Uint8Array {
  return join(ascii('GIF89a'), word(16, width, true), word(16, height, true), new Uint8Array([0, 0, 0, 0x3b]))
}

export function bmp({ width, height }: Size): Uint8Array {
  const sizes = join(word(32, 40, true), word(32, width, true), word(32, height, true))
  return join(ascii('BM'), word(32, 54, true), new Uint8Array(4), word(32, 54, true), sizes, new Uint8Array(28))
}

/** Lossless WebP, whose size is 14 and 14 bits after the signature byte. */
function webp({ width, height }: Size): Uint8Array {
  const body = join(new Uint8Array([0x2f]), word(32, (width - 1) | ((height - 1) << 14), true), new Uint8Array(5))
  return join(ascii('RIFF'), word(32, 12 + body.length, true), ascii('WEBPVP8L'), word(32, body.length, true), body)
}

export const box = (type: string, ...content: readonly Uint8Array[]) => {
  const data = join(...content)
  return join(word(32, 8 + data.length), ascii(type), data)
}

export const ispe = ({ width, height }: Size) => box('ispe', new Uint8Array(4), word(32, width), word(32, height))

/** An ISO-BMFF picture of a brand such as `heic`, with these properties. */
export function isobmff(brand: string, ...properties: readonly Uint8Array[]): Uint8Array {
  const ftyp = box('ftyp', ascii(brand), new Uint8Array(4), ascii(brand))
  return join(ftyp, box('meta', new Uint8Array(4), box('iprp', box('ipco', ...properties))))
}

const SIZE = { width: 40, height: 30 }

/** Every format that the contract accepts, 40 by 30 pixels, by the type that its bytes say. */
export const pictures: Readonly<Record<string, Uint8Array>> = {
  'image/png': png(SIZE),
  'image/jpeg': jpeg(SIZE),
  'image/gif': gif(SIZE),
  'image/bmp': bmp(SIZE),
  'image/webp': webp(SIZE),
  'image/heic': isobmff('heic', ispe(SIZE)),
  'image/heif': isobmff('mif1', ispe(SIZE)),
  'image/avif': isobmff('avif', ispe(SIZE)),
}

export const dataUri = (bytes: Uint8Array, type = 'image/png'): string =>
  `data:${type};base64,${Buffer.from(bytes).toString('base64')}`
