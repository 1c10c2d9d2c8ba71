/**
 * Writes still pictures as H.264 in MP4: each scene is one key frame of raw samples (I_PCM), followed by frames that
 * repeat it. Every decoder reads it, and no codec is needed.
 */
import { setImmediate } from 'node:timers/promises'
import type { Size } from '../../../adapters/providers/lib/fitting.ts'
import type { Raster } from '../../../adapters/providers/lib/png.ts'

type Scene = { readonly picture: Raster; readonly frames: number }

export const FRAMES_PER_SECOND = 8

/** Bits are text here: 0 and 1. */
const fixed = (count: number, value: number): string => value.toString(2).padStart(count, '0')
/** Exp-Golomb codes, `ue(v)` in the standard. */
const ue = (...values: readonly number[]): string =>
  values.map((value) => fixed(2 * Math.floor(Math.log2(value + 1)) + 1, value + 1)).join('')

function bytesOf(bits: string): Buffer {
  return Buffer.from(Array.from({ length: Math.ceil(bits.length / 8) }, (_, at) => byteAt(bits, at)))
}
const byteAt = (bits: string, at: number): number => Number.parseInt(bits.slice(at * 8, at * 8 + 8).padEnd(8, '0'), 2)

/** Ends a unit, and escapes what would read as the start of the next. */
function unit(bits: string): Buffer {
  const bytes: number[] = []
  for (const byte of bytesOf(`${bits}1`))
    bytes.push(...(byte <= 3 && bytes.at(-1) === 0 && bytes.at(-2) === 0 ? [3, byte] : [byte]))
  return Buffer.from(bytes)
}

const macroblocks = ({ width, height }: Size) => ({ across: Math.ceil(width / 16), down: Math.ceil(height / 16) })

/** Constrained baseline, one reference frame, order of output is order of decoding. */
function sequenceParameters(size: Size): Buffer {
  const { across, down } = macroblocks(size)
  const level = across * down > 8192 ? 51 : 40
  const cropped = ue(0, (across * 16 - size.width) / 2, 0, (down * 16 - size.height) / 2)
  const profile = [0x67, 66, 0xc0, level].map((byte) => fixed(8, byte)).join('')
  return unit(`${profile}${ue(0, 0, 2, 1)}0${ue(across - 1, down - 1)}111${cropped}0`)
}

const PICTURE_PARAMETERS = unit(`${fixed(8, 0x68)}${ue(0, 0)}00${ue(0, 0, 0)}000${ue(0, 0, 0)}100`)
/** The type I_PCM, aligned to a byte. Samples are never 0, so only the header could need an escape, and it has none. */
const RAW_MACROBLOCK = bytesOf(ue(25))

async function keyFrame(picture: Raster, id: number): Promise<Buffer> {
  const { across, down } = macroblocks(picture)
  const header = `${fixed(8, 0x65)}${ue(0, 7, 0)}0000${ue(id)}00${ue(0, 1)}${ue(25)}`
  const parts: Uint8Array[] = []
  for (let at = 0; at < across * down; at++) {
    if (at % 1_024 === 0) await setImmediate()
    parts.push(RAW_MACROBLOCK, samplesOf(picture, (at % across) * 16, Math.floor(at / across) * 16))
  }
  return Buffer.concat([bytesOf(header), ...parts.slice(1), Uint8Array.of(0x80)])
}

/** A frame that skips every macroblock. `number` counts from the key frame on. */
function repeatFrame(size: Size, number: number): Buffer {
  const { across, down } = macroblocks(size)
  return unit(`${fixed(8, 0x41)}${ue(0, 5, 0)}${fixed(4, number % 16)}000${ue(0, 1)}${ue(across * down)}`)
}

/** 16x16 luma, then 8x8 of both chromas, in BT.709 limited range. Beyond the picture its edge is repeated. */
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

const u16 = (...values: readonly number[]): number[] => values.flatMap((value) => [(value >>> 8) & 255, value & 255])
const u32 = (...values: readonly number[]): number[] => values.flatMap((value) => u16(value >>> 16, value))
const MATRIX = u32(0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)

function box(type: string, ...parts: readonly (string | Uint8Array | readonly number[])[]): Buffer {
  const body = Buffer.concat(parts.map((part) => (part instanceof Uint8Array ? part : Buffer.from(part as string))))
  return Buffer.concat([Buffer.from(u32(8 + body.length)), Buffer.from(type, 'latin1'), body])
}

/** The index comes first, so that a film plays while it loads. Without a date: equal films are equal files. */
export async function mp4Of(scenes: readonly Scene[]): Promise<Uint8Array> {
  const { width, height } = (scenes[0] as Scene).picture
  const frames: Buffer[] = []
  const keys: number[] = []
  for (const [id, { picture, frames: wanted }] of scenes.entries()) {
    keys.push(frames.push(await keyFrame(picture, id)))
    for (let number = 1; number < wanted; number++) frames.push(repeatFrame(picture, number))
  }
  const count = frames.length
  const sps = sequenceParameters({ width, height })
  const [spsPart, ppsPart] = [sps, PICTURE_PARAMETERS].map((part) => Buffer.from([...u16(part.length), ...part])) as [
    Buffer,
    Buffer,
  ]
  const avcC = box('avcC', [1, ...sps.subarray(1, 4), 0xff, 0xe1], spsPart, [1], ppsPart)
  const entry = [u32(0, 1, 0, 0, 0, 0), u16(width, height), u32(0x480000, 0x480000, 0), u16(1), Buffer.alloc(32)]

  const index = (start: number) => {
    const stbl = [
      box('stsd', u32(0, 1), box('avc1', ...entry, u16(24, 0xffff), avcC)),
      box('stts', u32(0, 1, count, 1)),
      box('stss', u32(0, keys.length, ...keys)),
      box('stsc', u32(0, 1, 1, count, 1)),
      box('stsz', u32(0, 0, count, ...frames.map(({ length }) => length + 4))),
      box('stco', u32(0, 1, start)),
    ]
    const dinf = box('dinf', box('dref', u32(0, 1), box('url ', u32(1))))
    const minf = box('minf', box('vmhd', u32(1, 0, 0)), dinf, box('stbl', ...stbl))
    const mdhd = box('mdhd', u32(0, 0, 0, FRAMES_PER_SECOND, count), u16(0x55c4, 0))
    const mdia = box('mdia', mdhd, box('hdlr', u32(0, 0), 'vide', u32(0, 0, 0), 'film\0'), minf)
    const tkhd = box('tkhd', u32(3, 0, 0, 1, 0, count, 0, 0, 0, 0), MATRIX, u32(width << 16, height << 16))
    const times = u32(0, 0, 0, FRAMES_PER_SECOND, count, 0x10000)
    const mvhd = box('mvhd', times, u16(0x100, 0), u32(0, 0), MATRIX, u32(0, 0, 0, 0, 0, 0, 2))
    return box('moov', mvhd, box('trak', tkhd, mdia))
  }
  const type = box('ftyp', 'isom', u32(512), 'isomiso2avc1mp41')
  const start = type.length + index(0).length + 8
  const media = frames.flatMap((frame) => [Buffer.from(u32(frame.length)), frame])
  return Buffer.concat([type, index(start), box('mdat', ...media)])
}
