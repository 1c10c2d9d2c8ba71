/** Just enough MP4 to put right what the encoder's muxer leaves out, and to say what made the film. */

/** Boxes on the way to the table of samples. */
const NESTED = new Set(['moov', 'trak', 'mdia', 'minf', 'stbl'])
/** Boxes with a moment of creation and one of modification behind four bytes. */
const DATED = new Set(['mvhd', 'tkhd', 'mdhd'])

type Box = { readonly type: string; readonly start: number; readonly bytes: Buffer }

/**
 * The same film with its index first, so that it plays while it loads; with the key frames named, so that it can be searched; without
 * the time of day, so that the same film is the same file; and with words in its comment. `keys` counts frames from 1.
 */
export function finished(mp4: Uint8Array, { keys, comment }: { keys: readonly number[]; comment: string }): Uint8Array {
  const boxes = boxesOf(Buffer.from(mp4.buffer, mp4.byteOffset, mp4.byteLength))
  const [ftyp, moov, mdat] = ['ftyp', 'moov', 'mdat'].map((type) => boxes.find((box) => box.type === type))
  if (!ftyp || !moov || !mdat) throw new Error('the encoder wrote no whole MP4')
  const index = (shift: number) => rewritten(moov, { shift, stss: keyTable(keys), udta: commentBox(comment) })
  const start = ftyp.bytes.length + index(0).length
  return Buffer.concat([ftyp.bytes, index(start - mdat.start), mdat.bytes])
}

function boxesOf(bytes: Buffer): Box[] {
  const boxes: Box[] = []
  for (let start = 0; start < bytes.length;) {
    const size = bytes.readUInt32BE(start)
    if (size < 8 || start + size > bytes.length) throw new Error('the encoder wrote a damaged MP4')
    boxes.push({
      type: bytes.toString('latin1', start + 4, start + 8),
      start,
      bytes: bytes.subarray(start, start + size),
    })
    start += size
  }
  return boxes
}

function rewritten({ type, bytes }: Box, change: { shift: number; stss: Buffer; udta: Buffer }): Buffer {
  if (NESTED.has(type)) {
    const parts = boxesOf(bytes.subarray(8)).map((box) => rewritten(box, change))
    if (type === 'stbl') parts.push(change.stss)
    if (type === 'moov') parts.push(change.udta)
    return boxed(type, parts)
  }
  const copy = Buffer.from(bytes)
  if (DATED.has(type)) copy.fill(0, 12, 20)
  if (type === 'stco') {
    for (let at = 16; at < copy.length; at += 4) copy.writeUInt32BE(copy.readUInt32BE(at) + change.shift, at)
  }
  return copy
}

function keyTable(keys: readonly number[]): Buffer {
  const table = Buffer.alloc(8 + keys.length * 4)
  table.writeUInt32BE(keys.length, 4)
  for (const [at, key] of keys.entries()) table.writeUInt32BE(key, 8 + at * 4)
  return boxed('stss', [table])
}

/** The comment where players look for one: movie metadata in the manner of iTunes. */
function commentBox(comment: string): Buffer {
  const hdlr = boxed('hdlr', [Buffer.from('\0\0\0\0\0\0\0\0mdirappl\0\0\0\0\0\0\0\0\0', 'latin1')])
  const data = boxed('data', [Buffer.from([0, 0, 0, 1, 0, 0, 0, 0]), Buffer.from(comment)])
  return boxed('udta', [boxed('meta', [Buffer.alloc(4), hdlr, boxed('ilst', [boxed('\u00a9cmt', [data])])])])
}

function boxed(type: string, parts: readonly Uint8Array[]): Buffer {
  const head = Buffer.alloc(8)
  head.writeUInt32BE(8 + parts.reduce((sum, part) => sum + part.length, 0))
  head.write(type, 4, 'latin1')
  return Buffer.concat([head, ...parts])
}
