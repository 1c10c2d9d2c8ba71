import { isObjectKey } from '../../core/keys.ts'
import type { Objects } from '../../core/mod.ts'

/** Objects in memory: the reference. Copies in and out, so that nobody can change what was put. */
export function memoryObjects(): Objects {
  const objects = new Map<string, { readonly bytes: Uint8Array; readonly type: string }>()
  return {
    async put(key, bytes, type) {
      if (!isObjectKey(key)) throw new RangeError(`not an object key: ${JSON.stringify(key)}`)
      if (!objects.has(key)) objects.set(key, { bytes: bytes.slice(), type })
    },
    async get(key) {
      const found = objects.get(key)
      return found && { body: found.bytes.slice(), size: found.bytes.length, type: found.type }
    },
  }
}
