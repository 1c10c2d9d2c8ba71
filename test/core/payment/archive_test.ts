/** The archive of the ledger: a crash at any point loses and doubles nothing. */
import { expect, test } from 'bun:test'
import { memoryObjects } from '../../../adapters/objects/memory.ts'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { sqliteStorage } from '../../../adapters/storage/sqlite/mod.ts'
import {
  archivedFiles,
  archiveLedger,
  type ArchiveStore,
  readArchive,
} from '../../../core/payment/reports/ledger_archive.ts'
import type { Storage } from '../../../core/ports/mod.ts'
import { newCall, signed } from '../../conformance/storage_questions.ts'
import { scaled } from '../../scope.ts'
import { archiveExpired, pruneExpired } from '../../../core/payment/prune.ts'
import { retention } from '../../../core/payment/retention.ts'
import { kit, testClock } from '../../kit.ts'

const DAY = 86_400_000
const PAYER = newCall('x').payer

/** `count` calls of a cent and more, settled through two months, whose results are gone. */
async function filled(storage: Storage, now: number, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    const [id, at] = [`call ${n}`, now - 100 * DAY + Math.floor((n * 60 * DAY) / count)]
    await storage.openCall(newCall(id, { createdAt: at, expiresAt: at + 1 }), signed(id, at + 1), {
      now: at,
      until: at + 1,
    })
    const claim = await storage.claimSettlement(id, undefined, {
      now: at,
      until: at + 1,
      result: { result: { made: id }, expiresAt: at + 1 },
    })
    const receipt = { transaction: `0x${n}`, network: 'eip155:8453', payer: PAYER, amount: String(10_000 + n) }
    if ('token' in claim) await storage.finishSettlement(id, claim.token, { kind: 'paid', receipt }, { now: at })
  }
  await storage.prune(now)
}

async function everything(store: ArchiveStore, now: number): Promise<readonly { id: string; spent: string }[]> {
  const found: { id: string; spent: string }[] = []
  for (let month = 0; month < 6; month++) {
    const date = new Date(now)
    date.setUTCDate(1)
    date.setUTCMonth(date.getUTCMonth() - month)
    for await (const { id, spent } of readArchive(store, date.toISOString().slice(0, 7))) found.push({ id, spent })
  }
  return found
}

const spentBy = async (storage: Storage) =>
  (await storage.spendByModel(PAYER, 0)).reduce((sum, { spent }) => sum + spent, 0n)

for (const [name, open] of [
  ['memory', memoryStorage],
  ['SQLite', () => sqliteStorage(':memory:')],
] as const)
  test(`${name}: an archive that crashes at any step has each call once, in the ledger or in it, and the sums stay`, async () => {
    const clock = testClock()
    const count = scaled(12, 40)
    let isFinished = false
    for (let steps = 0; !isFinished; steps++) {
      const [storage, objects] = [open(), memoryObjects()]
      await filled(storage, clock.now(), count)
      const before = await spentBy(storage)
      let left = steps
      const faulty = <T extends object>(inner: T): T =>
        new Proxy(inner, {
          get: (target, key) => {
            const verb = Reflect.get(target, key) as unknown
            if (typeof verb !== 'function') return verb
            return async (...args: unknown[]) => {
              // Half of the crashes come before the step has worked, the others after it.
              if (left-- === 0) throw new Error('crash')
              const answer: unknown = await verb.apply(target, args)
              if (left-- === 0) throw new Error('crash')
              return answer
            }
          },
        })
      const store = { put: objects.put, get: objects.get }
      const run = () =>
        archiveLedger({ storage: faulty(storage), clock, store: faulty(store) }, { archiveMs: 31 * DAY })
      isFinished = await run().then(
        () => true,
        () => false,
      )
      left = Number.POSITIVE_INFINITY
      await run()
      const found = await everything(store, clock.now())
      expect({ steps, calls: found.length, different: new Set(found.map(({ id }) => id)).size }).toEqual({
        steps,
        calls: count,
        different: count,
      })
      expect(found.reduce((sum, { spent }) => sum + BigInt(spent), 0n)).toBe(before)
      expect(await spentBy(storage)).toBe(before)
      expect(await storage.ledgerRows(clock.now(), clock.now(), 9)).toEqual([])
      await storage.close()
    }
  })

test('a file of which it is not known that it was kept is put again before its calls leave the ledger', async () => {
  const clock = testClock()
  const [memory, { put, get }] = [memoryStorage(), memoryObjects()]
  await filled(memory, clock.now(), 1)
  const steps: string[] = []
  const storage: Storage = {
    ...memory,
    archiveCalls: async (...args) => (steps.push('archiveCalls'), await memory.archiveCalls(...args)),
  }
  const store: ArchiveStore = {
    get,
    async put(...args) {
      await put(...args)
      if (steps.push('put') === 1) throw new Error('the disk cannot be synced')
    },
  }
  const archive = () => archiveLedger({ storage, clock, store }, { archiveMs: 31 * DAY })
  await expect(archive()).rejects.toThrow('cannot be synced')
  expect(await archive()).toBe(1)
  expect(steps).toEqual(['put', 'put', 'archiveCalls'])
})

test('what was archived is summed on the first day of its month', async () => {
  const clock = testClock()
  const [storage, { put, get }] = [memoryStorage(), memoryObjects()]
  await filled(storage, clock.now(), 1)
  const [settled] = await storage.ledgerRows(clock.now(), clock.now(), 1)
  const date = new Date(settled?.settledAt ?? 0)
  const first = Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1)
  await archiveLedger({ storage, clock, store: { put, get } }, { archiveMs: 31 * DAY })
  expect(await storage.spendByModel(PAYER, first)).toMatchObject([{ calls: 1, spent: 10_000n }])
  expect(await storage.spendByModel(PAYER, first + 1)).toEqual([])
})

test('the archive takes at least 1,000 calls a second, rests after each file, and ends where it is stopped', async () => {
  const { now } = testClock()
  const [storage, { put, get }] = [memoryStorage(), memoryObjects()]
  await filled(storage, now(), 4_000)
  const [rests, stop] = [[] as number[], new AbortController()]
  const writingMs = 120
  let ms = 0
  const clock = {
    now: () => now() + ms,
    async wait(rest: number) {
      ms += rest
      if (rests.push(rest) === 2) stop.abort()
    },
  }
  const archive = { get, put: async (...given: Parameters<typeof put>) => ((ms += writingMs), await put(...given)) }
  const retained = { ...retention, archiveMs: 31 * DAY }
  const left = async () => (await storage.ledgerRows(now(), now(), 5_000)).length
  await archiveExpired({ storage, clock, archive, mayGoOn: async () => true }, retained, stop.signal)
  expect(rests).toEqual([450 - writingMs, 450 - writingMs])
  expect(await left()).toBe(3_000)
  expect(1_000 / (ms / 1_000)).toBeGreaterThan(1_000)
  await archiveExpired({ storage, clock, archive, mayGoOn: async () => false }, retained)
  expect(await left()).toBe(3_000)
  await archiveExpired({ storage, clock, archive, mayGoOn: async () => true }, retained)
  expect(await left()).toBe(0)
})

test('a row past its lifetime stays while the archive lacks it', async () => {
  const { ports, clock } = kit()
  const storage = memoryStorage()
  await filled(storage, clock.now(), 5)
  const retained = { ...retention, archiveMs: 31 * DAY, ledgerMs: 35 * DAY }
  const prune = (isArchived: boolean) => pruneExpired({ ...ports, storage }, retained, { isArchived })
  const count = async () => (await storage.ledgerRows(clock.now(), clock.now(), 9)).length
  await prune(true)
  expect(await count()).toBe(5)
  await archiveLedger({ storage, clock, store: memoryObjects() }, retained)
  expect(await count()).toBe(0)
  await filled(storage, clock.now(), 5)
  await prune(false)
  expect(await count()).toBe(0)
})

test('a store that does not keep what it was given loses no call: nothing is deleted', async () => {
  const clock = testClock()
  const storage = memoryStorage()
  await filled(storage, clock.now(), 5)
  const store: ArchiveStore = { put: async () => {}, get: async () => undefined }
  await expect(archiveLedger({ storage, clock, store }, { archiveMs: 31 * DAY })).rejects.toThrow('nothing was deleted')
  expect(await storage.ledgerRows(clock.now(), clock.now(), 9)).toHaveLength(5)
})

test('the hash of each file of the archive is kept beside the ledger', async () => {
  const clock = testClock()
  const [storage, objects] = [memoryStorage(), memoryObjects()]
  await filled(storage, clock.now(), 1_100)
  const keys: string[] = []
  const store: ArchiveStore = {
    ...objects,
    async put(key, bytes, type) {
      keys.push(key)
      await objects.put(key, bytes, type)
    },
  }
  await archiveLedger({ storage, clock, store }, { archiveMs: 0 })
  const months = [...new Set(keys.map((key) => key.split('/')[1] ?? ''))]
  const listed = await Promise.all(months.map((month) => archivedFiles(storage, month, clock.now())))
  expect(listed.flat().map(({ key }) => key)).toEqual(keys)
  expect(listed.flat().reduce((sum, { calls }) => sum + calls, 0)).toBe(1_100)
  expect(keys.some((key) => key.endsWith('000002.jsonl.gz'))).toBe(true)
  for (const { key, sha256 } of listed.flat()) {
    const bytes = await new Response((await objects.get(key))?.body as BodyInit).arrayBuffer()
    expect({ key, sha256 }).toEqual({ key, sha256: new Bun.CryptoHasher('sha256').update(bytes).digest('hex') })
  }
})
