import type { Objects } from '../../core/ports/mod.ts'
import { checkObject, cancelBody, resolveRange } from './check.ts'

/**
 * The reference object store, in memory. Copies bytes in and out.
 *
 * @example
 * const objects = memoryObjects()
 * await objects.put('images/a.png', bytes, 'image/png')
 */
export function memoryObjects(): Objects {
  const stored = new Map<string, { bytes: Uint8Array; type: string }>()
  const sizeOf = (key: string) => stored.get(key)?.bytes.length

  return {
    async put(key, bytes, type) {
      checkObject(key, type)
      if (!stored.has(key)) stored.set(key, { bytes: bytes.slice(), type })
    },

    async putStream(key, body, type) {
      try {
        checkObject(key, type)
        const pieces: Uint8Array[] = []
        if (!stored.has(key)) for await (const piece of body) pieces.push(piece.slice())
        if (!stored.has(key)) stored.set(key, { bytes: concat(pieces), type })
        return { size: sizeOf(key) ?? 0 }
      } finally {
        cancelBody(body)
      }
    },

    async get(key, range) {
      const found = stored.get(key)
      if (!found) return undefined
      const { bytes, type } = found
      const size = bytes.length
      if (!range) return { body: bytes.slice(), size, type }
      const part = resolveRange(range, size)
      return { body: part ? bytes.slice(part.first, part.last + 1) : new Uint8Array(0), size, type, part }
    },

    async delete(key) {
      stored.delete(key)
    },
  }
}

function concat(pieces: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const piece of pieces) {
    bytes.set(piece, at)
    at += piece.length
  }
  return bytes
}
