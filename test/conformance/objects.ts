/** Promises of every object store, as data. */
import { expect } from 'bun:test'
import type { ByteRange, Objects } from '../../core/ports/mod.ts'
import { law, portLaw, type Law } from './law.ts'

const PNG = 'image/png'

const MIB = 1024 * 1024
/** Of what the broken stores are given, which keep all in memory: there a long stream is many pieces, however small. */
export const SHORT_PIECE = 64 * 1024

/** On streams whose pieces are as long as those of real media, and on the same ones with short pieces. */
export const [objectLaws, shortObjectLaws] = [lawsOf(MIB), lawsOf(SHORT_PIECE)]

function lawsOf(piece: number): readonly Law<Objects>[] {
  return [
    portLaw('what was put comes back, byte for byte', async (objects) => {
      const contents = [
        new Uint8Array(0),
        Uint8Array.from({ length: 256 }, (_, n) => n),
        pattern(70_001),
        pattern(1_500_000),
      ]
      for (const [n, bytes] of contents.entries()) {
        await objects.put(`images/2026-11-20/all_kinds.${n}.png`, bytes, PNG)
        expect(await read(objects, `images/2026-11-20/all_kinds.${n}.png`)).toEqual(bytes)
      }
    }),
    portLaw('size is the length of the body', async (objects) => {
      for (const length of [0, 1, 262_000, 262_144, 262_200, 1_000_000]) {
        await objects.put(`of-${length}`, new Uint8Array(length), PNG)
        expect((await objects.get(`of-${length}`))?.size).toBe(length)
      }
    }),
    portLaw('an object keeps its type', async (objects) => {
      for (const [n, type] of [PNG, 'audio/mpeg', 'text/plain; charset="utf-8"'].entries()) {
        await objects.put(`typed/${n}`, text('x'), type)
        expect((await objects.get(`typed/${n}`))?.type).toBe(type)
      }
    }),
    portLaw('what is put is never changed', async (objects) => {
      await objects.put('a', text('first'), PNG)
      await objects.put('a', text('second'), PNG)
      expect(await read(objects, 'a')).toEqual(text('first'))
    }),
    law('of twenty racers for a key one is stored whole', async (subject) => {
      const [one, two] = [await subject.open(), await subject.open()]
      const contents = Array.from({ length: 20 }, (_, n) => text(String.fromCharCode(65 + n).repeat(5_000 + n)))
      await Promise.all(contents.map((bytes, n) => (n % 2 ? one : two).put('raced', bytes, PNG)))
      const stored = await read(one, 'raced')
      expect(contents.filter((bytes) => Bun.deepEquals(bytes, stored)).length).toBe(1)
    }),
    portLaw('nobody holds the bytes of the store', async (objects) => {
      const given = text('given')
      const putting = objects.put('a', given, PNG)
      given.fill(0)
      await putting
      const found = await objects.get('a')
      if (found?.body instanceof Uint8Array) found.body.fill(0)
      expect(await read(objects, 'a')).toEqual(text('given'))
    }),
    portLaw('a body can be read by many at once', async (objects) => {
      const bytes = pattern(400_000).map((byte) => byte & 127)
      await objects.put('shared', bytes, PNG)
      const bodies = await Promise.all(Array.from({ length: 4 }, () => read(objects, 'shared')))
      for (const body of bodies) expect(body).toEqual(bytes)
    }),
    portLaw('what was never put is undefined', async (objects) => {
      expect(await objects.get('images/nothing.png')).toBeUndefined()
      await objects.put('images/something.png', text('x'), PNG)
      for (const key of ['images', 'images/something', 'images/something.png/more'])
        expect(await objects.get(key)).toBeUndefined()
    }),
    portLaw('a key may be the folder of another', async (objects) => {
      const keys = ['a', 'a/b', 'a/b/c', 'z/y', 'z']
      for (const key of keys) await objects.put(key, text(key), PNG)
      for (const key of keys) expect(await read(objects, key)).toEqual(text(key))
      await objects.delete('a')
      for (const key of keys.slice(1)) expect(await read(objects, key)).toEqual(text(key))
    }),
    portLaw('keys outside the rule are refused, and never found', async (objects) => {
      const climbing = ['.', '..', '/etc/passwd', '../x', 'a/../b', 'a/..', '%2e%2e/x', 'C:/x', 'a\\b']
      const malformed = [
        '',
        'a//b',
        'a/',
        '/a',
        '.hidden',
        'a/.b',
        '-a',
        '_a',
        'a b',
        'a\0b',
        'a\n',
        'ä',
        'a@',
        'x'.repeat(201),
      ]
      for (const key of [...climbing, ...malformed]) {
        expect(await rejection(objects.put(key, text('x'), PNG))).toBeInstanceOf(RangeError)
        expect(await objects.get(key)).toBeUndefined()
      }
      for (const key of ['x'.repeat(200), 'A.b-c_d/9..z']) {
        await objects.put(key, text(key), PNG)
        expect(await read(objects, key)).toEqual(text(key))
      }
    }),
    portLaw('a type that is no header value is refused', async (objects) => {
      for (const type of ['', ' ', 'image/png\r\nset-cookie: x', 'image/\u00fcml', 'x'.repeat(201)]) {
        expect(await rejection(objects.put('a', text('x'), type))).toBeInstanceOf(RangeError)
      }
      expect(await objects.get('a')).toBeUndefined()
    }),
    law('two handles on one store agree', async (subject) => {
      const [one, two] = [await subject.open(), await subject.open()]
      await one.put('from/one', text('1'), PNG)
      await two.put('from/two', text('2'), PNG)
      expect(await read(two, 'from/one')).toEqual(text('1'))
      expect(await read(one, 'from/two')).toEqual(text('2'))
    }),
    portLaw('what is put as a stream comes back whole', async (objects) => {
      for (const length of [0, 1, Math.floor(0.3 * piece), 8 * piece, Math.floor(19.1 * piece)]) {
        const bytes = pattern(length)
        expect(
          await putStream(objects, `video/of-${length}.mp4`, pieces(bytes, Math.ceil(0.67 * piece)), 'video/mp4'),
        ).toEqual({ size: length })
        const found = await objects.get(`video/of-${length}.mp4`)
        expect(found?.type).toBe('video/mp4')
        expect(Bun.hash(await new Response(found?.body as BodyInit).bytes())).toBe(Bun.hash(bytes))
      }
    }),
    portLaw('a stream that breaks leaves nothing', async (objects) => {
      for (const length of [0, 100, 9 * piece]) {
        const broken = new Error(`broken after ${length}`)
        expect(
          await rejection(putStream(objects, 'video/broken.mp4', pieces(pattern(length), piece, broken), 'video/mp4')),
        ).toBe(broken)
        expect(await objects.get('video/broken.mp4')).toBeUndefined()
      }
      await objects.put('video/broken.mp4', text('whole'), 'video/mp4')
      expect(await read(objects, 'video/broken.mp4')).toEqual(text('whole'))
    }),
    portLaw('of a stream a few parts are held at a time', async (objects) => {
      const given: WeakRef<Uint8Array>[] = []
      let buffered = 0
      const body = new ReadableStream<Uint8Array>(
        {
          async pull(controller) {
            if (given.length === 48) {
              await new Promise((resolve) => setImmediate(resolve))
              Bun.gc(true)
              buffered = given.filter((bytes) => bytes.deref() !== undefined).length
              return controller.close()
            }
            const bytes = new Uint8Array(piece)
            given.push(new WeakRef(bytes))
            controller.enqueue(bytes)
          },
        },
        { highWaterMark: 0 },
      )
      await putStream(objects, 'video/long.mp4', body, 'video/mp4')
      expect(buffered).toBeLessThan(32)
    }),
    portLaw('no stream changes what was put, and one that is not needed is let go', async (objects) => {
      await objects.put('a', text('first'), PNG)
      for (const [key, type] of [
        ['a', PNG],
        ['../a', PNG],
        ['b', 'no type\n'],
      ] as const) {
        let isLetGo = false
        const body = new ReadableStream<Uint8Array>(
          { pull: (controller) => controller.enqueue(text('second')), cancel: () => void (isLetGo = true) },
          { highWaterMark: 0 },
        )
        const outcome = await putStream(objects, key, body, type).catch((error: unknown) => error)
        if (key === 'a') expect(outcome).toEqual({ size: 5 })
        else expect(outcome).toBeInstanceOf(RangeError)
        expect([key, isLetGo]).toEqual([key, true])
      }
      expect(await read(objects, 'a')).toEqual(text('first'))
      expect(await objects.get('b')).toBeUndefined()
      const rivals = [9 * piece, 9 * piece + 1].map((length, n) => pattern(length).fill(65 + n, 0, 100))
      await Promise.all(rivals.map((bytes) => putStream(objects, 'raced', pieces(bytes, piece), PNG)))
      const stored = Bun.hash(await read(objects, 'raced'))
      expect(rivals.map((bytes) => Bun.hash(bytes))).toContain(stored)
      await putStream(objects, 'raced', pieces(text('late'), 2), PNG)
      expect(Bun.hash(await read(objects, 'raced'))).toBe(stored)
    }),
    portLaw('what is deleted is gone, and its key can be put again', async (objects) => {
      await objects.put('gone', text('first'), PNG)
      await objects.put('stays', text('beside'), PNG)
      await objects.delete('gone')
      expect([await objects.get('gone'), await objects.get('gone', { first: 0, last: 1 })]).toEqual([
        undefined,
        undefined,
      ])
      for (const key of ['gone', 'never', 'never/there', '../stays', '', '/stays', '.incoming'])
        await objects.delete(key)
      expect(await read(objects, 'stays')).toEqual(text('beside'))
      await putStream(objects, 'gone', pieces(text('second'), 2), PNG)
      expect(await read(objects, 'gone')).toEqual(text('second'))
    }),
    portLaw('a range is that part of the object', async (objects) => {
      const bytes = pattern(700_000).map((byte) => byte & 127)
      await objects.put('ranged', bytes, 'video/mp4')
      const whole = bytes.length - 1
      const ranges: readonly [ByteRange, number, number][] = [
        [{ first: 0 }, 0, whole],
        [{ first: 0, last: 1 }, 0, 1],
        [{ first: 5, last: 5 }, 5, 5],
        [{ first: 1_000, last: 400_000 }, 1_000, 400_000],
        [{ first: 699_000, last: 800_000 }, 699_000, whole],
        [{ first: whole }, whole, whole],
        [{ first: -10 }, whole - 9, whole],
        [{ first: -800_000 }, 0, whole],
      ]
      for (const [range, first, last] of ranges) {
        const found = await objects.get('ranged', range)
        expect(found).toMatchObject({ size: bytes.length, type: 'video/mp4', part: { first, last } })
        expect(Bun.hash(await new Response(found?.body as BodyInit).bytes())).toBe(
          Bun.hash(bytes.subarray(first, last + 1)),
        )
      }
      expect(await objects.get('ranged', { first: bytes.length })).toMatchObject({ size: bytes.length, part: null })
      await objects.put('empty', new Uint8Array(0), 'video/mp4')
      expect(await objects.get('empty', { first: -1 })).toMatchObject({ size: 0, part: null })
      expect(await objects.get('nothing', { first: -1 })).toBeUndefined()
      expect(await objects.get('nothing', { first: 1 })).toBeUndefined()
    }),
  ]
}

function putStream(
  objects: Objects,
  key: string,
  body: ReadableStream<Uint8Array>,
  type: string,
): Promise<{ readonly size: number }> {
  if (!objects.putStream) throw new Error('it takes no streams')
  return objects.putStream(key, body, type)
}

/** The bytes, cut into pieces, as they are asked for; then the end, or an error. */
function pieces(bytes: Uint8Array, length: number, broken?: Error): ReadableStream<Uint8Array> {
  let at = 0
  return new ReadableStream({
    pull(controller) {
      if (at < bytes.length) controller.enqueue(bytes.slice(at, at + length))
      else if (broken) controller.error(broken)
      else controller.close()
      at += length
    },
  })
}

function text(content: string): Uint8Array {
  return new TextEncoder().encode(content)
}

/** After so many bytes the pattern begins again. */
const PERIOD = 65_536

/** Bytes of every value, newlines included, in an order that a shifted copy does not have. */
function pattern(length: number): Uint8Array {
  const bytes = new Uint8Array(length)
  for (let n = 0; n < Math.min(length, PERIOD); n++) bytes[n] = (n * 31 + (n >> 8)) & 255
  for (let made = PERIOD; made < length; made *= 2) bytes.copyWithin(made, 0, made)
  return bytes
}

async function read(objects: Objects, key: string): Promise<Uint8Array> {
  const found = await objects.get(key)
  if (!found) throw new Error(`${key} is not there`)
  return new Uint8Array(await new Response(found.body as BodyInit).arrayBuffer())
}

function rejection(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    (error: unknown) => error,
  )
}
