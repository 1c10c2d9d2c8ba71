/** Converts masks: from alpha 0 for the area to edit (contract 5.39) to the white of Stable Diffusion servers. */
import { deflateSync, inflateSync } from 'node:zlib'
import { invalidImage } from '../../http/media_input.ts'

const SIGNATURE = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1')
const MAX_PIXELS = 16 * 1024 * 1024
/**
 * Samples per pixel by PNG colour type: grey, RGB, palette, grey with alpha, RGB with alpha (PNG 3rd edition, 11.2.1).
 */
const CHANNELS: Readonly<Record<number, number>> = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 }

type Header = {
  readonly width: number
  readonly height: number
  readonly depth: number
  readonly color: number
  readonly channels: number
}

/**
 * Returns a grey PNG of the same size: white where the mask is transparent, black where it is opaque. Throws
 * INVALID_IMAGE for a PNG that is broken, interlaced, or larger than 16 megapixels.
 */
export function whiteMask(png: Uint8Array): Uint8Array {
  const chunks = readChunks(Buffer.from(png.buffer, png.byteOffset, png.byteLength))
  const header = readHeader(chunks.get('IHDR'))
  const rows = unfilter(inflate(chunks.get('IDAT'), header), header)
  return writeGrey(header, transparency(rows, header, chunks.get('tRNS')))
}

const broken = () => invalidImage('The mask is a PNG that cannot be decoded.')

function readChunks(png: Buffer): ReadonlyMap<string, Buffer> {
  if (!png.subarray(0, 8).equals(SIGNATURE)) throw broken()
  const parts = new Map<string, Buffer[]>()
  for (let at = 8; at + 12 <= png.length;) {
    const length = png.readUInt32BE(at)
    const name = png.toString('latin1', at + 4, at + 8)
    if (at + 12 + length > png.length) throw broken()
    const pieces = parts.get(name) ?? []
    pieces.push(png.subarray(at + 8, at + 8 + length))
    parts.set(name, pieces)
    at += 12 + length
  }
  return new Map([...parts].map(([name, pieces]) => [name, Buffer.concat(pieces)]))
}

function readHeader(chunk: Buffer | undefined): Header {
  if (chunk?.length !== 13) throw broken()
  const [width, height] = [chunk.readUInt32BE(0), chunk.readUInt32BE(4)]
  const [depth = 0, color = 0, , , interlaced] = chunk.subarray(8)
  const channels = CHANNELS[color]
  if (!channels || ![1, 2, 4, 8, 16].includes(depth) || width * height === 0) throw broken()
  if (interlaced || width * height > MAX_PIXELS)
    throw invalidImage('The mask is an interlaced PNG, or larger than 16 megapixels.')
  return { width, height, depth, color, channels }
}

const rowBytes = ({ width, depth, channels }: Header) => Math.ceil((width * depth * channels) / 8)

function inflate(data: Buffer | undefined, header: Header): Buffer {
  const size = (rowBytes(header) + 1) * header.height
  try {
    const raw = inflateSync(data ?? Buffer.alloc(0), { maxOutputLength: size })
    if (raw.length === size) return raw
  } catch {
    // Too long, too short and not deflated are the same error for the buyer.
  }
  throw broken()
}

/** Undoes the filter of each row and drops its filter byte (PNG 9.2). */
function unfilter(raw: Buffer, header: Header): Buffer {
  const stride = rowBytes(header)
  const step = Math.max(1, (header.depth * header.channels) / 8)
  const rows = Buffer.alloc(stride * header.height)
  for (let y = 0; y < header.height; y++) {
    const filter = raw[y * (stride + 1)] ?? 0
    if (filter > 4) throw broken()
    for (let x = 0; x < stride; x++) {
      const left = x >= step ? (rows[y * stride + x - step] ?? 0) : 0
      const up = y > 0 ? (rows[(y - 1) * stride + x] ?? 0) : 0
      const corner = x >= step && y > 0 ? (rows[(y - 1) * stride + x - step] ?? 0) : 0
      rows[y * stride + x] = (raw[y * (stride + 1) + 1 + x] ?? 0) + predict(filter, left, up, corner)
    }
  }
  return rows
}

function predict(filter: number, left: number, up: number, corner: number): number {
  if (filter === 1) return left
  if (filter === 2) return up
  if (filter === 3) return (left + up) >> 1
  if (filter !== 4) return 0
  const guess = left + up - corner
  const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)]
  if (a <= b && a <= c) return left
  return b <= c ? up : corner
}

/** 255 minus alpha, per pixel. */
function transparency(rows: Buffer, header: Header, key: Buffer | undefined): Buffer {
  const { width, height, depth, color, channels } = header
  const stride = rowBytes(header)
  const sample = (y: number, index: number): number => {
    if (depth === 16) return rows.readUInt16BE(y * stride + index * 2)
    const bit = index * depth
    return ((rows[y * stride + (bit >> 3)] ?? 0) >> (8 - depth - (bit & 7))) & ((1 << depth) - 1)
  }
  const isKey = (y: number, x: number) =>
    key !== undefined &&
    Array.from({ length: channels }, (_, c) => sample(y, x * channels + c) === key.readUInt16BE(c * 2)).every(Boolean)
  const alpha = (y: number, x: number): number => {
    if (color >= 4) return depth === 16 ? sample(y, (x + 1) * channels - 1) >> 8 : sample(y, (x + 1) * channels - 1)
    if (color === 3) return key?.[sample(y, x)] ?? 255
    return isKey(y, x) ? 0 : 255
  }
  if (key && color < 3 && key.length < channels * 2) throw broken()
  const clear = Buffer.alloc(width * height)
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) clear[y * width + x] = 255 - alpha(y, x)
  return clear
}

function writeGrey({ width, height }: Header, pixels: Buffer): Uint8Array {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header[8] = 8
  const rows = Buffer.alloc((width + 1) * height)
  for (let y = 0; y < height; y++) pixels.copy(rows, y * (width + 1) + 1, y * width, (y + 1) * width)
  return Buffer.concat([
    SIGNATURE,
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(rows)),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

function chunk(name: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(name, 'latin1'), data])
  const ends = Buffer.alloc(8)
  ends.writeUInt32BE(data.length, 0)
  ends.writeUInt32BE(crc32(body), 4)
  return Buffer.concat([ends.subarray(0, 4), body, ends.subarray(4)])
}

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1
  return crc
})

function crc32(bytes: Uint8Array): number {
  let crc = 0xffffffff
  for (const byte of bytes) crc = (CRC_TABLE[(crc ^ byte) & 255] ?? 0) ^ (crc >>> 8)
  return (crc ^ 0xffffffff) >>> 0
}
