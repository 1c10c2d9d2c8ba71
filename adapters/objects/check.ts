import { type ByteRange, isObjectKey } from '../../core/ports/mod.ts'

/** Printable ASCII, as a type is sent in a header, and short enough for the first read of a file. */
const TYPE = /^[\x21-\x7e][\x20-\x7e]{0,199}$/

/** Throws RangeError for an invalid object key or content type. */
export function checkObject(key: string, type: string): void {
  if (!isObjectKey(key)) throw new RangeError(`not an object key: ${JSON.stringify(key).slice(0, 80)}`)
  if (!TYPE.test(type)) throw new RangeError(`not a content type: ${JSON.stringify(type).slice(0, 80)}`)
}

/** The bytes of a range in an object of this size; null when it contains none. */
export function resolveRange(
  { first, last = Number.POSITIVE_INFINITY }: ByteRange,
  size: number,
): { first: number; last: number } | null {
  const from = first < 0 ? Math.max(0, size + first) : first
  const to = Math.min(first < 0 ? size - 1 : last, size - 1)
  return from <= to ? { first: from, last: to } : null
}

/** Cancels a body that is no longer read. Does nothing to one that has ended. */
export function cancelBody(body: ReadableStream<Uint8Array>): void {
  if (!body.locked) void body.cancel().catch(() => {})
}
