/**
 * One deliberately broken object store per law. Each has a single defect, on which its law must fail and every other
 * must hold.
 */
import { memoryObjects } from '../../adapters/objects/memory.ts'
import { isObjectKey } from '../../core/ports/objects.ts'
import type { Objects } from '../../core/ports/mod.ts'
import { breaking, type Broken } from './law.ts'
import { SHORT_PIECE } from './objects.ts'

const broken = breaking<Objects>(memoryObjects)

export const brokenObjects: readonly Broken<Objects>[] = [
  broken('what was put comes back, byte for byte', 'takes bytes for text', (good) => ({
    put: (key, bytes, type) => good.put(key, new TextEncoder().encode(new TextDecoder().decode(bytes)), type),
  })),
  broken('size is the length of the body', 'reports what the file takes on disk', (good) => ({
    async get(key, range) {
      const found = await good.get(key, range)
      return found && { ...found, size: range ? found.size : Math.ceil(found.size / 4096) * 4096 }
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
      async get(key, range) {
        const count = puts.get(key) ?? 0
        return good.get(count > 1 ? `${key}.put${count}` : key, range)
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
        await good.put(
          key,
          new Uint8Array([...first.subarray(0, half), ...(rivals.at(-1) ?? given).subarray(half)]),
          type,
        )
        writers.delete(key)
      },
    }
  }),
  broken('nobody holds the bytes of the store', 'hands out its own', (good) => {
    const handed = new Map<string, Awaited<ReturnType<Objects['get']>>>()
    return {
      async get(key, range) {
        if (range) return good.get(key, range)
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
      async get(key, range) {
        const found = await good.get(key, range)
        if (!found || key !== 'shared') return found
        const stream = streams.get(key) ?? new Blob([found.body as Uint8Array<ArrayBuffer>]).stream()
        streams.set(key, stream)
        return { ...found, body: stream }
      },
    }
  }),
  broken('what was never put is undefined', 'finds an empty object everywhere', (good) => ({
    async get(key, range) {
      const isPutable = isObjectKey(key) && key.startsWith('images') && !range
      return (
        (await good.get(key, range)) ??
        (isPutable ? { body: new Uint8Array(0), size: 0, type: 'image/png' } : undefined)
      )
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
  broken('what is put as a stream comes back whole', 'stops after sixteen pieces', (good) => ({
    putStream: (key, body, type) => {
      let length = 0
      const read = async (reader: Reader) => {
        const next = await reader.read()
        length += next.value?.length ?? 0
        return length > 16 * SHORT_PIECE ? { done: true } : next
      }
      return poured(good, key, { body: relayed(body, { read }), type })
    },
  })),
  broken('a stream that breaks leaves nothing', 'takes the break for the end', (good) => ({
    async putStream(key, body, type) {
      let broken: unknown
      const read = (reader: Reader) =>
        reader.read().catch((error: unknown) => {
          broken = error
          return { done: true }
        })
      const stored = await poured(good, key, { body: relayed(body, { read }), type })
      if (broken) throw broken
      return stored
    },
  })),
  broken('of a stream a few parts are held at a time', 'holds on to every one', (good) => ({
    async putStream(key, body, type) {
      const pieces: unknown[] = []
      const read = async (reader: Reader) => {
        const next = await reader.read()
        pieces.push(next.value)
        return next
      }
      const stored = await poured(good, key, { body: relayed(body, { read }), type })
      pieces.length = 0
      return stored
    },
  })),
  broken(
    'no stream changes what was put, and one that is not needed is let go',
    'forgets what it does not need',
    (good) => ({
      putStream: (key, body, type) => poured(good, key, { body: relayed(body, { leave: async () => {} }), type }),
    }),
  ),
  broken('what is deleted is gone, and its key can be put again', 'deletes nothing', () => ({
    delete: async () => {},
  })),
  broken('a range is that part of the object', 'leaves the last byte out', (good) => ({
    async get(key, range) {
      const found = await good.get(key, range)
      return found?.part ? { ...found, body: (found.body as Uint8Array).subarray(0, -1) } : found
    },
  })),
]

type Reader = ReadableStreamDefaultReader<Uint8Array>
type Next = { readonly done: boolean; readonly value?: Uint8Array | undefined }

/** The same stream, but for what is told. */
function relayed(
  body: ReadableStream<Uint8Array>,
  {
    read = (reader) => reader.read(),
    leave = (reader) => reader.cancel(),
  }: { read?: (reader: Reader) => Promise<Next>; leave?: (reader: Reader) => Promise<void> },
): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  return new ReadableStream(
    {
      async pull(controller) {
        const { done, value } = await read(reader)
        if (done || !value) controller.close()
        else controller.enqueue(value)
      },
      cancel: () => leave(reader),
    },
    { highWaterMark: 0 },
  )
}

function poured(
  good: Objects,
  key: string,
  { body, type }: { body: ReadableStream<Uint8Array>; type: string },
): Promise<{ readonly size: number }> {
  if (!good.putStream) throw new Error('it takes no streams')
  return good.putStream(key, body, type)
}
