import type { Objects } from '../../core/ports.ts'
import { checkObject } from './check.ts'

/** The reference object store: copies in and out, forgets with the process. */
export function memoryObjects(): Objects {
  const stored = new Map<string, { bytes: Uint8Array; type: string }>()
  return {
    async put(key, bytes, type) {
      checkObject(key, type)
      if (!stored.has(key)) stored.set(key, { bytes: bytes.slice(), type })
    },
    async get(key) {
      const found = stored.get(key)
      return found && { body: found.bytes.slice(), size: found.bytes.length, type: found.type }
    },
  }
}
