/** One deliberately broken object store per law. Each has a single defect, on which its law must fail and every other must hold. */
import { memoryObjects } from '../../adapters/objects/memory.ts'
import { isObjectKey } from '../../core/keys.ts'
import type { Objects } from '../../core/ports.ts'
import type { Broken } from './law.ts'

type Defect = (good: Objects) => Partial<Objects>

export const brokenObjects: readonly Broken<Objects>[] = [
  broken('what was put comes back, byte for byte', 'takes bytes for text', (good) => ({
    put: (key, bytes, type) => good.put(key, new TextEncoder().encode(new TextDecoder().decode(bytes)), type),
  })),
  broken('size is the length of the body', 'reports what the file takes on disk', (good) => ({
    async get(key) {
      const found = await good.get(key)
      return found && { ...found, size: Math.ceil(found.size / 4096) * 4096 }
    },
  })),
  broken('an object keeps its type', 'knows one type only', (good) => ({
    put: (key, bytes, type) => good.put(key, bytes, type === 'audio/mpeg' ? 'image/png' : type),
  })),
  broken('what is put is never changed', 'overwrites', (good) => {
    const puts = new Map<string, number>()
    return {
      async put(key, bytes, type) {
        await good.put(key, bytes, type)
        const count = (puts.get(key) ?? 0) + 1
        if (count > 1) await good.put(`${key}.put${count}`, bytes, type)
        puts.set(key, count)
      },
      async get(key) {
        const count = puts.get(key) ?? 0
        return good.get(count > 1 ? `${key}.put${count}` : key)
      },
    }
  }),
  broken('of twenty racers for a key one is stored whole', 'writes in two halves', (good) => {
    const writers = new Map<string, Uint8Array[]>()
    return {
      async put(key, given, type) {
        const rivals = writers.get(key) ?? []
        writers.set(key, rivals)
        rivals.push(given.slice())
        await new Promise((resolve) => setImmediate(resolve))
        const [first = given] = rivals
        const half = first.length >> 1
        await good.put(key, new Uint8Array([...first.subarray(0, half), ...(rivals.at(-1) ?? given).subarray(half)]), type)
        writers.delete(key)
      },
    }
  }),
  broken('nobody holds the bytes of the store', 'hands out its own', (good) => {
    const handed = new Map<string, Awaited<ReturnType<Objects['get']>>>()
    return {
      async get(key) {
        if (!handed.has(key)) {
          const found = await good.get(key)
          if (!found) return undefined
          handed.set(key, found)
        }
        return handed.get(key)
      },
    }
  }),
  broken('a body can be read by many at once', 'has one stream per object', (good) => {
    const streams = new Map<string, ReadableStream<Uint8Array>>()
    return {
      async get(key) {
        const found = await good.get(key)
        if (!found || key !== 'shared') return found
        const stream = streams.get(key) ?? new Blob([found.body as Uint8Array<ArrayBuffer>]).stream()
        streams.set(key, stream)
        return { ...found, body: stream }
      },
    }
  }),
  broken('what was never put is undefined', 'finds an empty object everywhere', (good) => ({
    async get(key) {
      const isPutable = isObjectKey(key) && key.length > 1
      return (await good.get(key)) ?? (isPutable ? { body: new Uint8Array(0), size: 0, type: 'image/png' } : undefined)
    },
  })),
  broken('a key may be the folder of another', 'has files in the way of folders', (good) => {
    const keys = new Set<string>()
    return {
      async put(key, bytes, type) {
        const isInTheWay = [...keys].some((other) => other.startsWith(`${key}/`) || key.startsWith(`${other}/`))
        if (isInTheWay) throw new Error(`ENOTDIR: ${key}`)
        await good.put(key, bytes, type)
        keys.add(key)
      },
    }
  }),
  broken('keys outside the rule are refused, and never found', 'makes them fit instead', (good) => ({
    put: (key, bytes, type) => good.put(key.replaceAll('../', '') || 'empty', bytes, type),
  })),
  broken('a type that is no header value is refused', 'takes any', (good) => ({
    put: (key, bytes, type) => good.put(key, bytes, type).catch(() => good.put(key, bytes, 'image/png')),
  })),
  broken('two handles on one store agree', 'keeps its own', () => memoryObjects(), { perHandle: true }),
]

function broken(law: string, but: string, defect: Defect, { perHandle = false } = {}): Broken<Objects> {
  return {
    law,
    but,
    async make() {
      const good = memoryObjects()
      const once = { ...good, ...defect(good) }
      return { open: async () => (perHandle ? { ...good, ...defect(good) } : once), close: async () => {} }
    },
  }
}
