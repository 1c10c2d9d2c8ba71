/** What every object store promises, as data. */
import { expect } from 'bun:test'
import type { Objects } from '../../core/ports.ts'
import type { Law } from './law.ts'

const PNG = 'image/png'

export const objectLaws: readonly Law<Objects>[] = [
  {
    name: 'what was put comes back, byte for byte',
    async check(subject) {
      const objects = await subject.open()
      const contents = [new Uint8Array(0), Uint8Array.from({ length: 256 }, (_, n) => n), pattern(70_001), pattern(1_500_000)]
      for (const [n, bytes] of contents.entries()) {
        await objects.put(`images/2026-11-20/all_kinds.${n}.png`, bytes, PNG)
        expect(await read(objects, `images/2026-11-20/all_kinds.${n}.png`)).toEqual(bytes)
      }
    },
  },
  {
    name: 'size is the length of the body',
    async check(subject) {
      const objects = await subject.open()
      for (const length of [0, 1, 262_000, 262_144, 262_200, 1_000_000]) {
        await objects.put(`of-${length}`, new Uint8Array(length), PNG)
        expect((await objects.get(`of-${length}`))?.size).toBe(length)
      }
    },
  },
  {
    name: 'an object keeps its type',
    async check(subject) {
      const objects = await subject.open()
      for (const [n, type] of [PNG, 'audio/mpeg', 'text/plain; charset="utf-8"'].entries()) {
        await objects.put(`typed/${n}`, text('x'), type)
        expect((await objects.get(`typed/${n}`))?.type).toBe(type)
      }
    },
  },
  {
    name: 'what is put is never changed',
    async check(subject) {
      const objects = await subject.open()
      await objects.put('a', text('first'), PNG)
      await objects.put('a', text('second'), PNG)
      expect(await read(objects, 'a')).toEqual(text('first'))
    },
  },
  {
    name: 'of twenty racers for a key one is stored whole',
    async check(subject) {
      const [one, two] = [await subject.open(), await subject.open()]
      const contents = Array.from({ length: 20 }, (_, n) => text(String.fromCharCode(65 + n).repeat(5_000 + n)))
      await Promise.all(contents.map((bytes, n) => (n % 2 ? one : two).put('raced', bytes, PNG)))
      const stored = await read(one, 'raced')
      expect(contents.filter((bytes) => Bun.deepEquals(bytes, stored)).length).toBe(1)
    },
  },
  {
    name: 'nobody holds the bytes of the store',
    async check(subject) {
      const objects = await subject.open()
      const given = text('given')
      const putting = objects.put('a', given, PNG)
      given.fill(0)
      await putting
      const found = await objects.get('a')
      if (found?.body instanceof Uint8Array) found.body.fill(0)
      expect(await read(objects, 'a')).toEqual(text('given'))
    },
  },
  {
    name: 'a body can be read by many at once',
    async check(subject) {
      const objects = await subject.open()
      const bytes = pattern(400_000).map((byte) => byte & 127)
      await objects.put('shared', bytes, PNG)
      const bodies = await Promise.all(Array.from({ length: 4 }, () => read(objects, 'shared')))
      for (const body of bodies) expect(body).toEqual(bytes)
    },
  },
  {
    name: 'what was never put is undefined',
    async check(subject) {
      const objects = await subject.open()
      expect(await objects.get('images/nothing.png')).toBeUndefined()
      await objects.put('images/something.png', text('x'), PNG)
      for (const key of ['images', 'images/something', 'images/something.png/more']) expect(await objects.get(key)).toBeUndefined()
    },
  },
  {
    name: 'a key may be the folder of another',
    async check(subject) {
      const objects = await subject.open()
      const keys = ['a', 'a/b', 'a/b/c', 'z/y', 'z']
      for (const key of keys) await objects.put(key, text(key), PNG)
      for (const key of keys) expect(await read(objects, key)).toEqual(text(key))
    },
  },
  {
    name: 'keys outside the rule are refused, and never found',
    async check(subject) {
      const objects = await subject.open()
      const climbing = ['.', '..', '/etc/passwd', '../x', 'a/../b', 'a/..', '%2e%2e/x', 'C:/x', 'a\\b']
      const malformed = ['', 'a//b', 'a/', '/a', '.hidden', 'a/.b', '-a', '_a', 'a b', 'a\0b', 'a\n', 'ä', 'a@', 'x'.repeat(201)]
      for (const key of [...climbing, ...malformed]) {
        expect(await rejection(objects.put(key, text('x'), PNG))).toBeInstanceOf(RangeError)
        expect(await objects.get(key)).toBeUndefined()
      }
      for (const key of ['x'.repeat(200), 'A.b-c_d/9..z']) {
        await objects.put(key, text(key), PNG)
        expect(await read(objects, key)).toEqual(text(key))
      }
    },
  },
  {
    name: 'a type that is no header value is refused',
    async check(subject) {
      const objects = await subject.open()
      for (const type of ['', ' ', 'image/png\r\nset-cookie: x', 'image/\u00fcml', 'x'.repeat(201)]) {
        expect(await rejection(objects.put('a', text('x'), type))).toBeInstanceOf(RangeError)
      }
      expect(await objects.get('a')).toBeUndefined()
    },
  },
  {
    name: 'two handles on one store agree',
    async check(subject) {
      const [one, two] = [await subject.open(), await subject.open()]
      await one.put('from/one', text('1'), PNG)
      await two.put('from/two', text('2'), PNG)
      expect(await read(two, 'from/one')).toEqual(text('1'))
      expect(await read(one, 'from/two')).toEqual(text('2'))
    },
  },
]

function text(content: string): Uint8Array {
  return new TextEncoder().encode(content)
}

/** Bytes of every value, newlines included, in an order that a shifted copy does not have. */
function pattern(length: number): Uint8Array {
  return Uint8Array.from({ length }, (_, n) => (n * 31 + (n >> 8)) & 255)
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
