/** PNG files of 8-bit RGBA: reads what `Bun.Image` writes, and writes pixels with text chunks. */
import { Readable } from 'node:stream'
import { promisify } from 'node:util'
import { crc32, createDeflate, inflate } from 'node:zlib'
import { pacer } from './pacer.ts'

/** `data` is RGBA, four bytes per pixel, not premultiplied. */
export type Raster = { readonly width: number; readonly height: number; readonly data: Uint8Array }

const SIGNATURE = Buffer.from('\u0089PNG\r\n\u001a\n', 'latin1')
const SIGNATURE_AND_IHDR = 8 + 25
/** Bytes of pixels that are filtered in one turn of the event loop: a few milliseconds' worth. */
const STRIP = 1 << 18
const EIGHT_BIT_RGBA = [8, 6, 0, 0, 0]

/** Adds text chunks after the header. Names are Latin letters, texts are UTF-8. */
export function described(png: Uint8Array, words: Readonly<Record<string, string>>): Uint8Array {
  const chunks = Object.entries(words).map(([name, text]) => {
    const plain = text.slice(0, 300).replace(/\p{Cc}/gu, ' ')
    return chunk('iTXt', Buffer.from(`${name}\0\0\0\0\0${plain}`))
  })
  return Buffer.concat([png.subarray(0, SIGNATURE_AND_IHDR), ...chunks, png.subarray(SIGNATURE_AND_IHDR)])
}

/** Compresses strip by strip, so that a large image is not in memory twice. */
export async function encodePng({ width, height, data }: Raster): Promise<Uint8Array> {
  const header = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, ...EIGHT_BIT_RGBA])
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  const strips = function* () {
    const rows = Math.max(1, Math.floor(STRIP / (width * 4 + 1)))
    for (let y = 0; y < height; y += rows) yield filtered(data, width * 4, y, Math.min(height, y + rows))
  }
  const parts = Readable.from(strips(), { objectMode: false, highWaterMark: 1 }).pipe(
    createDeflate({ level: 5, chunkSize: 1 << 18 }),
  )
  const chunks: Uint8Array[] = []
  for await (const part of parts) chunks.push(chunk('IDAT', part as Uint8Array))
  return Buffer.concat([SIGNATURE, chunk('IHDR', header), ...chunks, chunk('IEND', new Uint8Array())])
}

/** Applies the Paeth filter to rows `first` up to, but not including, `end`. */
function filtered(data: Uint8Array, stride: number, first: number, end: number): Uint8Array {
  const rows = new Uint8Array((stride + 1) * (end - first))
  for (let y = first; y < end; y++) {
    const [from, to] = [y * stride, (y - first) * (stride + 1) + 1]
    rows[to - 1] = 4
    for (let i = 0; i < stride; i++) {
      const left = i > 3 ? (data[from + i - 4] as number) : 0
      const up = y > 0 ? (data[from + i - stride] as number) : 0
      const corner = i > 3 && y > 0 ? (data[from + i - stride - 4] as number) : 0
      rows[to + i] = (data[from + i] as number) - nearest(left, up, corner)
    }
  }
  return rows
}

/** Reads non-interlaced 8-bit RGBA, which is all that `Bun.Image` writes. Throws for anything else. */
export async function decodePng(png: Uint8Array): Promise<Raster> {
  const bytes = Buffer.from(png.buffer, png.byteOffset, png.byteLength)
  if (!bytes.subarray(24, 29).equals(Buffer.from(EIGHT_BIT_RGBA))) throw new Error('not an 8-bit RGBA PNG')
  const [width, height] = [bytes.readUInt32BE(16), bytes.readUInt32BE(20)]
  const parts: Buffer[] = []
  for (let at = 8; at < bytes.length;) {
    const end = at + 8 + bytes.readUInt32BE(at)
    if (bytes.toString('latin1', at + 4, at + 8) === 'IDAT') parts.push(bytes.subarray(at + 8, end))
    at = end + 4
  }
  const inflated = await promisify(inflate)(Buffer.concat(parts), {
    maxOutputLength: (width * 4 + 1) * height,
    chunkSize: 1 << 20,
  })
  const rows = new Uint8Array(inflated.buffer, inflated.byteOffset, inflated.length)
  const turn = pacer(STRIP)
  for (let y = 0; y < height; y++) {
    unfilter(rows, y, width * 4)
    await turn(width * 4)
  }
  return { width, height, data: rows.subarray(0, width * 4 * height) }
}

/** Restores a row and moves it up in the same memory, over the filter bytes of the rows before it. */
function unfilter(rows: Uint8Array, y: number, stride: number): void {
  const [from, to] = [y * (stride + 1) + 1, y * stride]
  const filter = rows[from - 1]
  if (filter === 0) return void rows.copyWithin(to, from, from + stride)
  for (let i = 0; i < stride; i++) {
    const left = i > 3 ? (rows[to + i - 4] as number) : 0
    const up = y > 0 ? (rows[to + i - stride] as number) : 0
    const corner = i > 3 && y > 0 ? (rows[to + i - stride - 4] as number) : 0
    rows[to + i] = (rows[from + i] as number) + guess(filter, left, up, corner)
  }
}

function guess(filter: number | undefined, left: number, up: number, corner: number): number {
  if (filter === 1) return left
  if (filter === 2) return up
  if (filter === 3) return (left + up) >> 1
  return nearest(left, up, corner)
}

/** The Paeth predictor: whichever of the three is nearest to left + up - corner. */
function nearest(left: number, up: number, corner: number): number {
  const a = Math.abs(up - corner)
  const b = Math.abs(left - corner)
  const c = Math.abs(left + up - 2 * corner)
  if (a <= b && a <= c) return left
  return b <= c ? up : corner
}

function chunk(type: 'IHDR' | 'iTXt' | 'IDAT' | 'IEND', data: Uint8Array): Uint8Array {
  const framed = Buffer.alloc(data.length + 12)
  framed.writeUInt32BE(data.length, 0)
  framed.write(type, 4, 'latin1')
  framed.set(data, 8)
  framed.writeUInt32BE(crc32(framed.subarray(4, data.length + 8)), data.length + 8)
  return framed
}
