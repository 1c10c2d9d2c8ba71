/**
 * Films without a codec to bring along: H.264 in which a macroblock is sent as plain samples (I_PCM) where it changed,
 * and skipped where it did not. Every decoder reads it; a film that hardly moves takes little room.
 */
import type { Size } from '../lib/fitting.ts'
import type { Raster } from '../lib/png.ts'

/** Ends of an area in pixels, to be sent again. */
export type Area = { readonly left: number; readonly top: number; readonly right: number; readonly bottom: number }

function bits(capacity: number) {
  const bytes = new Uint8Array(capacity)
  let [at, open] = [0, 0]
  const put = (count: number, value: number) => {
    for (let bit = count - 1; bit >= 0; bit--) {
      bytes[at] = (bytes[at] as number) | (((value >>> bit) & 1) << (7 - open))
      if (++open === 8) [at, open] = [at + 1, 0]
    }
  }
  /** Exp-Golomb, as `ue(v)` of the standard. */
  const ue = (...values: readonly number[]) => {
    for (const value of values) put(2 * Math.floor(Math.log2(value + 1)) + 1, value + 1)
  }
  return {
    put,
    ue,
    align: () => (open > 0 ? put(8 - open, 0) : undefined),
    samples: (values: Uint8Array) => (bytes.set(values, at), (at += values.length)),
    /** Ends the unit, and escapes what would read as its beginning. */
    unit(): Buffer {
      put(1, 1)
      if (open > 0) put(8 - open, 0)
      const parts: Uint8Array[] = []
      let [from, zeros] = [0, 0]
      for (let index = 0; index < at; index++) {
        const value = bytes[index] as number
        if (zeros >= 2 && value <= 3) {
          parts.push(bytes.subarray(from, index), Uint8Array.of(3))
          ;[from, zeros] = [index, 0]
        }
        zeros = value === 0 ? zeros + 1 : 0
      }
      return Buffer.concat([...parts, bytes.subarray(from, at)])
    },
  }
}

const sizesOf = ({ width, height }: Size) => ({ across: Math.ceil(width / 16), down: Math.ceil(height / 16) })

/** What a decoder must know before the first frame: constrained baseline, one reference, colours of BT.709. */
function parameters(size: Size): { sps: Buffer; pps: Buffer } {
  const { across, down } = sizesOf(size)
  const sps = bits(64)
  for (const byte of [0x67, 66, 0xc0, across * down > 8192 ? 51 : 40]) sps.put(8, byte)
  sps.ue(0, 0, 2, 1)
  sps.put(1, 0)
  sps.ue(across - 1, down - 1)
  sps.put(3, 0b111)
  sps.ue(0, (across * 16 - size.width) / 2, 0, (down * 16 - size.height) / 2)
  sps.put(1, 1)
  // Of the usability information, only the colours: 5 is no format of old, then three times BT.709.
  sps.put(3, 0b001)
  sps.put(5, 0b10101)
  for (const byte of [1, 1, 1]) sps.put(8, byte)
  sps.put(6, 0)
  const pps = bits(16)
  pps.put(8, 0x68)
  pps.ue(0, 0)
  pps.put(2, 0)
  pps.ue(0, 0, 0)
  pps.put(3, 0)
  pps.ue(0, 0, 0)
  pps.put(3, 0b100)
  return { sps: sps.unit(), pps: pps.unit() }
}

/** One frame; without `changed` a key frame. `number` counts frames from the key frame on. */
export function frame(picture: Raster, number: number, changed?: readonly Area[]): Buffer {
  const { across, down } = sizesOf(picture)
  const isIn = (column: number, row: number) =>
    changed?.some(({ left, top, right, bottom }) => {
      return column * 16 < right && column * 16 + 16 > left && row * 16 < bottom && row * 16 + 16 > top
    }) ?? true
  const sent = Array.from({ length: across * down }, (_, at) => isIn(at % across, Math.floor(at / across)))
  const slice = bits(sent.filter(Boolean).length * 392 + 128)
  slice.put(8, changed ? 0x41 : 0x65)
  slice.ue(0, changed ? 5 : 7, 0)
  slice.put(4, number % 16)
  if (changed) slice.put(3, 0)
  else {
    slice.ue(0)
    slice.put(2, 0)
  }
  slice.ue(0, 1)
  let skipped = 0
  for (const [at, isSent] of sent.entries()) {
    if (!isSent) {
      skipped++
      continue
    }
    if (changed) slice.ue(skipped)
    skipped = 0
    slice.ue(changed ? 30 : 25)
    slice.align()
    slice.samples(samplesOf(picture, (at % across) * 16, Math.floor(at / across) * 16))
  }
  if (skipped > 0) slice.ue(skipped)
  return slice.unit()
}

/** 16 by 16 of luma, then 8 by 8 of both chromas, in the narrow range; beyond the picture its edge is repeated. */
function samplesOf({ data, width, height }: Raster, x: number, y: number): Uint8Array {
  const samples = new Uint8Array(384)
  const sums = new Float64Array(128)
  for (let at = 0; at < 256; at++) {
    const [column, row] = [Math.min(width - 1, x + (at % 16)), Math.min(height - 1, y + (at >> 4))]
    const from = (row * width + column) * 4
    const [r, g, b] = [data[from] as number, data[from + 1] as number, data[from + 2] as number]
    samples[at] = Math.round(16 + 0.1826 * r + 0.6142 * g + 0.062 * b)
    const chroma = (at >> 5) * 8 + ((at % 16) >> 1)
    sums[chroma] = (sums[chroma] as number) - 0.1006 * r - 0.3386 * g + 0.4392 * b
    sums[64 + chroma] = (sums[64 + chroma] as number) + 0.4392 * r - 0.3989 * g - 0.0403 * b
  }
  for (let at = 0; at < 128; at++) samples[256 + at] = Math.round(128 + (sums[at] as number) / 4)
  return samples
}

// ── the file ────────────────────────────────────────────────────────────────────────────────────────────────────────

type Part = string | Uint8Array | readonly number[]
const words = (...values: readonly number[]): number[] =>
  values.flatMap((value) => [value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255])
const halves = (...values: readonly number[]): number[] => values.flatMap((value) => [value >>> 8, value & 255])
const MATRIX = words(0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)

function boxed(type: string, ...parts: readonly Part[]): Buffer {
  const body = parts.map((part) => (typeof part === 'string' ? Buffer.from(part, 'latin1') : Uint8Array.from(part)))
  return Buffer.concat([
    Uint8Array.from(words(8 + body.reduce((sum, { length }) => sum + length, 0))),
    Buffer.from(type, 'latin1'),
    ...body,
  ])
}

/**
 * The frames as a file whose index comes first, so that it plays while it loads. It has no date: the same film is the
 * same file.
 */
export function mp4Of(
  frames: readonly Uint8Array[],
  film: Size & { rate: number; comment: string },
): Uint8Array<ArrayBuffer> {
  const { width, height, rate, comment } = film
  const { sps, pps } = parameters(film)
  const count = frames.length
  const avcC = boxed(
    'avcC',
    [1, ...sps.subarray(1, 4), 0xff, 0xe1],
    halves(sps.length),
    sps,
    [1],
    halves(pps.length),
    pps,
  )
  const sampleEntry = [
    words(0, 1),
    words(0, 0, 0, 0),
    halves(width, height),
    words(0x480000, 0x480000, 0),
    halves(1),
    Buffer.alloc(32),
    halves(24, 0xffff),
  ]
  const table = (start: number) =>
    boxed(
      'stbl',
      boxed('stsd', words(0, 1), boxed('avc1', ...sampleEntry, avcC)),
      boxed('stts', words(0, 1, count, 1)),
      boxed('stss', words(0, 1, 1)),
      boxed('stsc', words(0, 1, 1, count, 1)),
      boxed('stsz', words(0, 0, count, ...frames.map(({ length }) => length + 4))),
      boxed('stco', words(0, 1, start)),
    )
  const media = (start: number) =>
    boxed(
      'minf',
      boxed('vmhd', words(1, 0, 0)),
      boxed('dinf', boxed('dref', words(0, 1), boxed('url ', words(1)))),
      table(start),
    )
  const track = (start: number) =>
    boxed(
      'trak',
      boxed('tkhd', words(3, 0, 0, 1, 0, count, 0, 0, 0, 0), MATRIX, words(width << 16, height << 16)),
      boxed(
        'mdia',
        boxed('mdhd', words(0, 0, 0, rate, count), halves(0x55c4, 0)),
        boxed('hdlr', words(0, 0), 'vide', words(0, 0, 0), 'film\0'),
        media(start),
      ),
    )
  const value = boxed('data', words(1, 0), Buffer.from(comment))
  const meta = boxed(
    'meta',
    words(0),
    boxed('hdlr', words(0, 0), 'mdirappl', words(0, 0), [0]),
    boxed('ilst', boxed('\u00a9cmt', value)),
  )
  const index = (start: number) =>
    boxed(
      'moov',
      boxed(
        'mvhd',
        words(0, 0, 0, rate, count, 0x10000),
        halves(0x100, 0),
        words(0, 0),
        MATRIX,
        words(0, 0, 0, 0, 0, 0, 2),
      ),
      track(start),
      boxed('udta', meta),
    )
  const type = boxed('ftyp', 'isom', words(512), 'isomiso2avc1mp41')
  const start = type.length + index(0).length + 8
  const body = frames.flatMap((each) => [Uint8Array.from(words(each.length)), each])
  const size = start + frames.reduce((sum, { length }) => sum + 4 + length, 0)
  const file = new Uint8Array(size)
  let at = 0
  for (const part of [type, index(start), Uint8Array.from(words(size - start + 8)), Buffer.from('mdat'), ...body]) {
    file.set(part, at)
    at += part.length
  }
  return file
}
