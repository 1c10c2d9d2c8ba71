/** Reads and writes WAV files. */

/**
 * `samples` are 16-bit little-endian, channels interleaved. `software`, `comment` and `title` are written as metadata.
 */
export type Samples = {
  readonly samples: Uint8Array
  readonly rate: number
  readonly channels: number
  readonly software?: string
  readonly comment?: string
  readonly title?: string
}

const BYTES = 2

export function wavOf({ samples, rate, channels, software, comment, title }: Samples): Uint8Array {
  const format = Buffer.alloc(16)
  format.writeUInt16LE(1, 0)
  format.writeUInt16LE(channels, 2)
  format.writeUInt32LE(rate, 4)
  format.writeUInt32LE(rate * channels * BYTES, 8)
  format.writeUInt16LE(channels * BYTES, 12)
  format.writeUInt16LE(8 * BYTES, 14)
  const words = Object.entries({ INAM: title, ICMT: comment, ISFT: software }).flatMap(([name, text]) =>
    text ? [chunk(name, Buffer.from(`${plain(text)}\0`, 'latin1'))] : [],
  )
  const info = words.length > 0 ? [chunk('LIST', Buffer.concat([Buffer.from('INFO'), ...words]))] : []
  return chunk('RIFF', Buffer.concat([Buffer.from('WAVE'), chunk('fmt ', format), ...info, chunk('data', samples)]))
}

/** Reads a 16-bit WAV file. Undefined for anything else. */
export function readWav(file: Uint8Array): Samples | undefined {
  const bytes = Buffer.from(file.buffer, file.byteOffset, file.byteLength)
  if (bytes.toString('latin1', 0, 4) !== 'RIFF' || bytes.toString('latin1', 8, 12) !== 'WAVE') return undefined
  let format: Buffer | undefined
  for (let at = 12; at + 8 <= bytes.length;) {
    const [name, size] = [bytes.toString('latin1', at, at + 4), bytes.readUInt32LE(at + 4)]
    const body = bytes.subarray(at + 8, at + 8 + size)
    if (name === 'fmt ') format = body
    if (name === 'data' && format && format.readUInt16LE(0) === 1 && format.readUInt16LE(14) === 8 * BYTES) {
      return { samples: body, channels: format.readUInt16LE(2), rate: format.readUInt32LE(4) }
    }
    at += 8 + size + (size % 2)
  }
  return undefined
}

export const secondsOf = ({ samples, rate, channels }: Pick<Samples, 'samples' | 'rate' | 'channels'>): number =>
  Math.round((samples.length / BYTES / channels / rate) * 1000) / 1000

/** RIFF chunks start at even offsets. */
function chunk(name: string, body: Uint8Array): Buffer {
  const head = Buffer.alloc(8, name, 'latin1')
  head.writeUInt32LE(body.length, 4)
  return Buffer.concat([head, body, Buffer.alloc(body.length % 2)])
}

const plain = (text: string): string => text.slice(0, 300).replace(/[^\x20-\x7e]/g, '?')
