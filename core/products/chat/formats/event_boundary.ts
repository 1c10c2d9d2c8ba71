/** Splits a byte stream at the blank lines between server-sent events, without decoding it (decision 39). */
import { concatBytes } from '../../../lib/bytes.ts'
import { brokenOff } from './answer_start.ts'
import { MAX_EVENT } from '../../../lib/event_splitter.ts'

const LF = 10
export const CR = 13

/**
 * Splits bytes after the last blank line, with which most chunks end, and buffers the rest. Buffered bytes are not
 * searched again.
 */
export function eventBoundary() {
  let buffered: Uint8Array[] = []
  let size = 0
  /** The last three buffered bytes: a blank line may be split anywhere. */
  let tail: readonly number[] = []

  function buffer(bytes: Uint8Array): void {
    if (bytes.length === 0) return
    buffered.push(bytes)
    size += bytes.length
    tail = [...tail, ...bytes.subarray(-3)].slice(-3)
    if (size > MAX_EVENT) throw brokenOff()
  }

  function rest(): Uint8Array | undefined {
    const [only] = buffered
    const bytes = buffered.length > 1 ? concatBytes(buffered, size) : only
    buffered = []
    size = 0
    tail = []
    return bytes
  }

  return {
    push(bytes: Uint8Array): Uint8Array | undefined {
      // Most pieces are whole events.
      if (size === 0 && bytes[bytes.length - 1] === LF && bytes[bytes.length - 2] === LF) return bytes
      const end =
        lastEventEnd(bytes) ||
        (tail.length > 0 ? Math.max(0, lastEventEnd([...tail, ...bytes.subarray(0, 3)]) - tail.length) : 0)
      if (end === 0) {
        buffer(bytes)
        return undefined
      }
      if (buffered.length === 0 && end === bytes.length) return bytes
      buffer(bytes.subarray(0, end))
      const whole = rest()
      buffer(bytes.subarray(end))
      return whole
    },
    rest,
    /** The bytes followed by the buffered ones, as if they had not been split. */
    withBuffered(bytes: Uint8Array): Uint8Array {
      const more = rest()
      return more ? concatBytes([bytes, more], bytes.length + more.length) : bytes
    },
  }
}

/** The offset after the last blank line; 0 where there is none. */
function lastEventEnd(bytes: Uint8Array | readonly number[]): number {
  for (let at = bytes.lastIndexOf(LF); at > 0; at = bytes.lastIndexOf(LF, at - 1)) {
    if (bytes[at - 1] === LF || (bytes[at - 1] === CR && bytes[at - 2] === LF)) return at + 1
  }
  return 0
}
