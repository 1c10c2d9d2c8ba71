/**
 * Records that outlive a call have a declared kind, a version and a schema, and older versions are brought up to date
 * when they are read.
 */
import { describe, expect, test } from 'bun:test'
import { Type } from '@sinclair/typebox'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { flatPrice, type Json, paid, type StoredRecord } from '../../../core/mod.ts'
import { callContextIn } from '../../../core/endpoint/call_context.ts'
import { checkedRecords, recordKind } from '../../../core/endpoint/record_kind.ts'
import { kit } from '../../kit.ts'

const NOW = 1_800_000_000_000
const LATER = NOW + 3_600_000

/** The third version: the first had one name, the second a list of them. */
const MUG = recordKind({
  kind: 'test_mug',
  version: 3,
  schema: Type.Object({ names: Type.Array(Type.String()), isFull: Type.Boolean() }),
  upgrade(data, from) {
    const { name, names } = data as { readonly name?: string; readonly names?: readonly string[] }
    return { names: from === 1 ? [name ?? ''] : (names ?? []), isFull: false }
  },
})
const stored = (data: Json, more: Partial<StoredRecord> = {}): StoredRecord => ({
  kind: MUG.kind,
  id: 'mug-1',
  owner: 'alice',
  data,
  expiresAt: LATER,
  ...more,
})
const mug = { id: 'mug-1', owner: 'alice', data: { names: ['Ada'], isFull: true }, expiresAt: LATER }

describe('a record', () => {
  test('is read as it was written, with its owner and its end', async () => {
    const storage = memoryStorage()
    expect(await MUG.put(storage, mug, NOW)).toMatchObject(mug)
    expect(await MUG.get(storage, 'mug-1', NOW)).toMatchObject(mug)
    expect(await MUG.list(storage, 'alice', { now: NOW, limit: 10 })).toMatchObject([mug])
    expect(await MUG.get(storage, 'mug-2', NOW)).toBeUndefined()
    expect(await MUG.get(storage, 'mug-1', LATER)).toBeUndefined()
  })

  test('is stored once', async () => {
    const storage = memoryStorage()
    await MUG.put(storage, mug, NOW)
    expect(await MUG.put(storage, { ...mug, owner: 'bob' }, NOW)).toBeUndefined()
  })

  test.each([
    [1, { name: 'Ada' }, { names: ['Ada'], isFull: false }],
    [2, { names: ['Ada', 'Grace'] }, { names: ['Ada', 'Grace'], isFull: false }],
    [3, { names: [], isFull: true }, { names: [], isFull: true }],
  ])('of version %p is read in the current version', async (version, data, expected) => {
    const storage = memoryStorage()
    await storage.putRecord(stored({ version, data }), NOW)
    expect((await MUG.get(storage, 'mug-1', NOW))?.data).toEqual(expected)
    expect((await MUG.list(storage, 'alice', { now: NOW, limit: 10 })).map(({ data: each }) => each)).toEqual([
      expected,
    ])
  })

  test('of an old version is changed by who has read it, once, and is then of the current one', async () => {
    const storage = checkedRecords(memoryStorage())
    const old = memoryStorage()
    await old.putRecord(stored({ version: 1, data: { name: 'Ada' } }), NOW)
    const both = { ...storage, ...checkedRecords(old) }
    const read = await MUG.get(both, 'mug-1', NOW)
    if (!read) throw new Error('no mug')
    const full = await MUG.move(both, read, { data: { ...read.data, isFull: true } }, NOW)
    expect(full?.data).toEqual({ names: ['Ada'], isFull: true })
    expect(await MUG.move(both, read, { data: { names: [], isFull: false } }, NOW)).toBeUndefined()
    expect(await old.getRecord(MUG.kind, 'mug-1', NOW)).toMatchObject({
      data: { version: 3, data: { names: ['Ada'], isFull: true } },
    })
    if (full) await MUG.move(both, full, { expiresAt: NOW }, NOW)
    expect(await MUG.get(both, 'mug-1', NOW)).toBeUndefined()
  })

  test.each([
    ['of a later version', { version: 4, data: { names: [], isFull: true } }, /version 4; this program reads up to 3/],
    ['without a version', { names: [], isFull: true }, /has no version/],
    ['that does not fit', { version: 3, data: { names: 'Ada', isFull: true } }, /names: Expected array/],
  ])('%s is not read', async (_, data, why) => {
    const storage = memoryStorage()
    await storage.putRecord(stored(data), NOW)
    await expect(MUG.get(storage, 'mug-1', NOW)).rejects.toThrow(why)
  })
})

describe('storage', () => {
  const storage = checkedRecords(memoryStorage())

  test.each([
    [
      'a kind that nobody has declared',
      { kind: 'teapot', data: { version: 1, data: {} } },
      /record kind teapot is not declared/,
    ],
    ['an old version', { data: { version: 2, data: { names: [] } } }, /must be written in version 3/],
    ['what has no version', { data: { names: [], isFull: true } }, /must be written in version 3/],
    ['what does not fit', { data: { version: 3, data: { names: [1], isFull: true } } }, /does not fit its schema/],
  ] as const)('refuses %s', async (_, wrong, why) => {
    const { data, ...more } = wrong
    await expect(storage.putRecord(stored(data as Json, more), NOW)).rejects.toThrow(why)
    await expect(storage.moveRecord(stored(data as Json, more), null, NOW)).rejects.toThrow(why)
  })

  test('of a gateway is one that refuses them: the work fails, uncharged', async () => {
    const brew = paid({
      name: 'teapots',
      path: '/api/v1/teapots',
      summary: 'Put a kettle on',
      tag: 'tea',
      input: Type.Object({ leaf: Type.String() }),
      output: Type.Object({}),
      example: { leaf: 'oolong' },
      delivery: 'inline',
      price: () => ({ amount: flatPrice('0.01'), maxTimeoutSeconds: 300, publicPrice: {} }),
      async run(order) {
        const record = stored({ version: 1, data: {} }, { kind: 'teapot' })
        return { result: { isStored: await callContextIn(order).records.putRecord(record, order.now) } }
      },
      show: () => ({}),
    })
    const { buyer, chain, ports, clock } = kit({ endpoints: [brew] })
    expect((await buyer().buy({ leaf: 'oolong' }, { path: brew.path })).status).toBe(500)
    expect(chain.transfers).toEqual([])
    expect(await ports.storage.getRecord('teapot', 'mug-1', clock.now())).toBeUndefined()
  })
})

describe('a kind', () => {
  test('is declared once', () => {
    expect(() => recordKind({ kind: 'test_mug', version: 1, schema: Type.Object({}) })).toThrow('declared twice')
  })

  test('of a later version reads the earlier ones', () => {
    expect(() => recordKind({ kind: 'test_cup', version: 2, schema: Type.Object({}) })).toThrow('needs an upgrade()')
  })
})
