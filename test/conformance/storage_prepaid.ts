/** Promises of a storage for calls that are stored done and paid, and the broken storages that each law refuses. */
import { expect } from 'bun:test'
import { memoryStorage } from '../../adapters/storage/memory/mod.ts'
import type { PaidWork, Storage, StoredRecord } from '../../core/ports/mod.ts'
import { law, portLaw, breaking, type Broken, type Law } from './law.ts'
import { newCall, signed, T } from './storage_questions.ts'

const DAY = 86_400_000

export const prepaidLaws: readonly Law<Storage>[] = [
  portLaw(
    'recordPaid() stores a call that is done and settled, with its authorization and the record that paid',
    async (storage) => {
      await storage.putRecord(channel(0), T)
      const at = { paid: work({ from: 0, to: 7 }), now: T + 5 }
      expect(await storage.recordPaid(newCall('a', { quotedAt: T, verifiedAt: T + 1 }), signed('key'), at)).toEqual({
        kind: 'recorded',
      })
      const call = await storage.getCall('a')
      expect(call).toMatchObject({ authorization: 'key', workStatus: 'completed', paymentStatus: 'settled' })
      expect(call).toMatchObject({ result: { from: 0 }, usage: { input: 3, output: 4 }, charge: 7n, quote: 5n })
      expect(call).toMatchObject({ receipt: receipt(7), settledAt: T + 5, endedAt: T + 5, expiresAt: T + DAY })
      expect((await storage.callOf('key', T + 9))?.id).toBe('a')
      expect(await storage.listAuthorizations('a')).toMatchObject([{ key: 'key', position: 0, status: 'paid' }])
      expect(await storage.getRecord('channel', 'c', T + 9)).toEqual(channel(7))
      const again = await storage.claimSettlement('a', signed('key'), { now: T + 9, until: T + 99 })
      expect(again).toEqual({ kind: 'settled', receipt: receipt(7) })
    },
  ),
  law(
    'recordPaid() is won once among twenty racers for a record, and of the others nothing is stored',
    async (subject) => {
      const [one, two] = [await subject.open(), await subject.open()]
      await one.putRecord(channel(0), T)
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, n) =>
          (n % 2 ? one : two).recordPaid(newCall(`call ${n}`), signed(`key ${n}`), {
            paid: work({ from: 0, to: n + 1 }),
            now: T,
          }),
        ),
      )
      const winner = answers.findIndex(({ kind }) => kind === 'recorded')
      expect(answers.filter(({ kind }) => kind === 'recorded')).toHaveLength(1)
      expect(answers.filter(({ kind }) => kind === 'moved')).toHaveLength(19)
      expect((await one.getRecord('channel', 'c', T))?.data).toEqual({ charged: winner + 1 })
      const stored = await Promise.all(answers.map((_, n) => two.getCall(`call ${n}`)))
      expect(stored.flatMap((call) => call?.id ?? [])).toEqual([`call ${winner}`])
      const bound = await Promise.all(answers.map((_, n) => two.callOf(`key ${n}`, T)))
      expect(bound.flatMap((call) => call?.id ?? [])).toEqual([`call ${winner}`])
    },
  ),
  portLaw(
    'recordPaid() leaves the record alone where the authorization serves another call, and names that one',
    async (storage) => {
      await storage.putRecord(channel(0), T)
      await storage.openCall(newCall('first'), signed('key'), { now: T, until: T + 99 })
      const answer = await storage.recordPaid(newCall('second'), signed('key'), {
        paid: work({ from: 0, to: 7 }),
        now: T + 98,
      })
      expect(answer).toMatchObject({ kind: 'replayed', call: { id: 'first', workStatus: 'queued' } })
      expect(await storage.getCall('second')).toBeUndefined()
      expect(await storage.getRecord('channel', 'c', T)).toEqual(channel(0))
    },
  ),
  portLaw('recordPaid() takes over the authorization of a call whose lease has ended, which fails', async (storage) => {
    await storage.putRecord(channel(0), T)
    await storage.openCall(newCall('lost'), signed('key'), { now: T, until: T + 99 })
    const at = { paid: work({ from: 0, to: 7 }), now: T + 99 }
    expect(await storage.recordPaid(newCall('next'), signed('key'), at)).toEqual({ kind: 'recorded' })
    expect(await storage.getCall('lost')).toMatchObject({ workStatus: 'failed', paymentStatus: 'verified' })
    expect((await storage.callOf('key', T + 99))?.id).toBe('next')
  }),
  portLaw('recordPaid() under an id that exists is rejected, and nothing is stored', async (storage) => {
    await storage.putRecord(channel(0), T)
    await storage.openCall(newCall('same'), signed('first'), { now: T, until: T + 99 })
    const at = { paid: work({ from: 0, to: 7 }), now: T }
    await expect(storage.recordPaid(newCall('same'), signed('second'), at)).rejects.toThrow()
    expect(await storage.getCall('same')).toMatchObject({ authorization: 'first', workStatus: 'queued' })
    expect(await storage.callOf('second', T)).toBeUndefined()
    expect(await storage.getRecord('channel', 'c', T)).toEqual(channel(0))
  }),
  portLaw('what recordPaid() stores counts in every sum as what is settled in steps', async (storage) => {
    await storage.putRecord(channel(0), T)
    await storage.recordPaid(newCall('a'), signed('a'), { paid: work({ from: 0, to: 7 }), now: T })
    await storage.openCall(newCall('b'), signed('b'), { now: T, until: T + 99 })
    const { result, usage } = work({ from: 7, to: 14 })
    const made = { result, usage, expiresAt: T + DAY }
    const claim = await storage.claimSettlement('b', signed('b'), { now: T, until: T + 99, result: made })
    const outcome = { kind: 'paid', receipt: receipt(7) } as const
    await storage.finishSettlement('b', claim.kind === 'yours' ? claim.token : 0, outcome, { now: T })
    const day = { unit: 'day', since: T - 2 * DAY, until: T + 2 * DAY } as const
    expect(await storage.spendByModel('0xa', 0)).toMatchObject([{ calls: 2, spent: 14n, inputTokens: 6 }])
    expect(await storage.callTotals(day)).toMatchObject([
      { outcome: 'completed', calls: 2 },
      { outcome: 'settled', calls: 2, spent: 14n },
    ])
    const listed = await storage.listSettled({ since: 0, limit: 9 })
    expect(listed.map(({ id }) => id)).toEqual(['a', 'b'])
    expect(await storage.listOpen(9)).toEqual([])
  }),
]

const breakingOne = breaking<Storage>(memoryStorage, { close: (good) => good.close() })
const broken = (law: string, but: string, wrap: (good: Storage) => Storage['recordPaid']) =>
  breakingOne(law, but, (good) => ({ recordPaid: wrap(good) }))

export const brokenPrepaid: readonly Broken<Storage>[] = [
  broken(
    'recordPaid() stores a call that is done and settled, with its authorization and the record that paid',
    'forgets the result',
    (good) => (call, authorization, at) =>
      good.recordPaid(call, authorization, { ...at, paid: { ...at.paid, result: null } }),
  ),
  broken(
    'recordPaid() is won once among twenty racers for a record, and of the others nothing is stored',
    'takes the record as it is',
    (good) => async (call, authorization, at) => {
      const answer = await good.recordPaid(call, authorization, at)
      if (answer.kind !== 'moved') return answer
      const { record } = at.paid.spent
      const from = (await good.getRecord(record.kind, record.id, at.now))?.data ?? null
      return await good.recordPaid(call, authorization, { ...at, paid: { ...at.paid, spent: { record, from } } })
    },
  ),
  broken(
    'recordPaid() leaves the record alone where the authorization serves another call, and names that one',
    'moves the record first',
    (good) => async (call, authorization, at) => {
      const { record, from } = at.paid.spent
      const answer = await good.recordPaid(call, authorization, at)
      if (answer.kind === 'replayed') await good.moveRecord(record, from, at.now)
      return answer
    },
  ),
  broken(
    'recordPaid() takes over the authorization of a call whose lease has ended, which fails',
    'takes every bound authorization for one in use',
    (good) => (call, authorization, at) => good.recordPaid(call, authorization, { ...at, lostBy: 0 }),
  ),
  broken(
    'recordPaid() under an id that exists is rejected, and nothing is stored',
    'moves the record all the same',
    (good) => async (call, authorization, at) => {
      const { record, from } = at.paid.spent
      try {
        return await good.recordPaid(call, authorization, at)
      } catch (error) {
        await good.moveRecord(record, from, at.now)
        throw error
      }
    },
  ),
  broken(
    'what recordPaid() stores counts in every sum as what is settled in steps',
    'counts it twice',
    (good) => async (call, authorization, at) => {
      const { record } = at.paid.spent
      const answer = await good.recordPaid(call, authorization, at)
      const again = { ...at, paid: { ...at.paid, spent: { record, from: record.data } } }
      // Only of an order that has no notes, because the first law reads the lists of one that has.
      if (call.quotedAt === undefined) await good.recordPaid({ ...call, id: 'again' }, signed('again'), again)
      return answer
    },
  ),
]

// ── words that the laws are written in ──────────────────────────────────────────────────────────────────────────────

const receipt = (amount: number) => ({
  transaction: '',
  network: 'eip155:84532',
  payer: '0xa',
  amount: String(amount),
})

const channel = (charged: number): StoredRecord => ({
  kind: 'channel',
  id: 'c',
  owner: '0xa',
  data: { charged },
  expiresAt: T + 9 * DAY,
})

/** Work that was paid by moving the record from one sum to another. */
const work = ({ from, to }: { from: number; to: number }): PaidWork => ({
  result: { from },
  usage: { input: 3, output: 4 },
  receipt: receipt(to - from),
  expiresAt: T + DAY,
  spent: { record: channel(to), from: channel(from).data },
})
