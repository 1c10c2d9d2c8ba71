/** Sums that SQLite keeps once for each transaction: the same as if every call were counted again. */
import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import * as fc from 'fast-check'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sqliteStorage } from '../../../adapters/storage/sqlite/mod.ts'
import type { Storage } from '../../../core/ports/mod.ts'
import { usdc } from '../../../core/x402/mod.ts'
import { newCall, signed, T } from '../../conformance/storage_questions.ts'
import { scaled } from '../../scope.ts'

const DAY = 86_400_000
const FOREVER = T + 99 * DAY

type Work = 'paid' | 'by voucher' | 'failed' | 'open' | 'refused' | 'counted late' | 'beside a failure'
type Sale = {
  readonly work: Work
  readonly payer: string
  readonly model: string | null
  readonly amount: number
  readonly afterMs: number
}

/** One call, to its end. Those that run together share commits. */
async function sell(storage: Storage, id: string, { work, payer, model, amount, afterMs }: Sale): Promise<void> {
  const [now, ended] = [T + (amount % 3) * DAY, T + (amount % 3) * DAY + afterMs]
  const call = newCall(id, { payer, model, quote: usdc(BigInt(amount) * 1_000_000_007n), createdAt: now })
  const authorization = { ...signed(id, FOREVER), payer }
  const usage = { input: amount, output: 2 }
  const receipt = { transaction: id, network: 'eip155:84532', payer, amount: String(call.quote) }
  const result = { result: { made: 1 }, expiresAt: FOREVER, usage }
  if (work === 'by voucher') {
    const record = { kind: 'channel', id, owner: 'o', data: { charged: '1' }, expiresAt: FOREVER }
    await storage.putRecord({ ...record, data: { charged: '0' } }, now)
    const paid = { ...result, receipt, spent: { record, from: { charged: '0' } } }
    return void (await storage.recordPaid(call, authorization, { paid, now: ended }))
  }
  await storage.openCall(call, authorization, { now, until: now + 60_000 })
  if (work === 'open') return
  if (work === 'failed')
    return void (await storage.moveCall(id, { workStatus: ['queued'] }, { workStatus: 'failed', endedAt: ended }))
  const { usage: _, ...uncounted } = result
  const at = { now: ended, until: ended + 60_000, result: work === 'counted late' ? uncounted : result }
  const claim = await storage.claimSettlement(id, undefined, at)
  if (!('token' in claim)) throw new Error(`not claimed: ${claim.kind}`)
  const outcome = work === 'refused' ? ({ kind: 'refused', reason: 'no' } as never) : { kind: 'paid' as const, receipt }
  // They share a commit. A step that throws takes the others back; each is then made again on its own.
  await Promise.all([
    storage.finishSettlement(id, claim.token, outcome, { now: ended + 5 }),
    work === 'counted late' && storage.moveCall(id, { workStatus: ['completed'] }, { usage }),
    work === 'beside a failure' && storage.moveRecord({ kind: 'x' } as never, {}, now).catch(() => {}),
  ])
}

/** The sums by counting every call, as the triggers of the first release did. */
function counted(path: string) {
  const database = new Database(path, { readonly: true })
  const of = (sql: string) => database.query(sql).values().map(String).toSorted()
  const found = {
    totals: of(`SELECT unit, at, gateway, endpoint, model, outcome, sum(calls), sum(billions) * 1000000000 + sum(rest)
      FROM call_totals GROUP BY 1, 2, 3, 4, 5, 6 HAVING sum(calls) <> 0`),
    again: [3_600_000, DAY]
      .flatMap((unit) =>
        [
          ['work_status', 'ended_at', '0', `work_status IN ('completed', 'failed')`],
          [
            'payment_status',
            'coalesce(settled_at, claim_expires_at, created_at)',
            'cast(paid AS INTEGER)',
            `payment_status = 'settled'`,
          ],
          [
            'payment_status',
            'coalesce(settled_at, claim_expires_at, created_at)',
            '0',
            `payment_status IN ('refused', 'unresolved')`,
          ],
        ].flatMap(([outcome, at, spent, which]) =>
          of(`SELECT ${unit}, ${at} - ${at} % ${unit}, gateway, endpoint, coalesce(':' || model, ''), ${outcome}, count(*), sum(${spent})
          FROM calls WHERE ${which} GROUP BY 1, 2, 3, 4, 5, 6`),
        ),
      )
      .toSorted(),
    spent: of(
      `SELECT payer, day, model, calls, billions * 1000000000 + rest, input_tokens, output_tokens, last_at FROM spend_totals`,
    ),
    spentAgain: of(`SELECT payer, settled_at / ${DAY}, coalesce(':' || model, ''), count(*), sum(cast(paid AS INTEGER)),
      sum(coalesce(usage ->> 'input', 0)), sum(coalesce(usage ->> 'output', 0)), max(settled_at)
      FROM calls WHERE payment_status = 'settled' GROUP BY 1, 2, 3`),
  }
  database.close()
  return found
}

const sale = fc.record({
  work: fc.constantFrom<Work>('paid', 'by voucher', 'failed', 'open', 'refused', 'counted late', 'beside a failure'),
  payer: fc.constantFrom('0xa', '0xb'),
  model: fc.constantFrom(null, '', 'large'),
  amount: fc.integer({ min: 1, max: 5_000_000 }),
  afterMs: fc.constantFrom(1, 700, 9_000_000),
})

test('sums of calls that share commits are those of every call counted again, though steps fail among them', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(sale, { minLength: 1, maxLength: 24 }), async (sales) => {
      const dir = mkdtempSync(join(tmpdir(), 'farebox-sums-'))
      const path = join(dir, 'farebox.db')
      const storage = sqliteStorage(path)
      await Promise.all(sales.map((each, index) => sell(storage, `call ${index}`, each)))
      const { totals, again, spent, spentAgain } = counted(path)
      expect(totals).toEqual(again)
      expect(spent).toEqual(spentAgain)
      await storage.close()
      rmSync(dir, { recursive: true })
    }),
    { numRuns: scaled(15, 40) },
  )
})

test('a call that is settled, counted and deleted in one commit leaves no payment in the sums', async () => {
  const storage = sqliteStorage(':memory:')
  const paid: Sale = { work: 'paid', payer: '0xa', model: null, amount: 3, afterMs: 1 }
  await sell(storage, 'kept', paid)
  const call = newCall('gone', { payer: '0xa', createdAt: T })
  await storage.openCall(call, { ...signed('gone', T + 1), payer: '0xa' }, { now: T, until: T + 9 })
  const at = { now: T, until: T + 9, result: { result: {}, expiresAt: T } }
  const claim = await storage.claimSettlement('gone', undefined, at)
  if (!('token' in claim)) throw new Error(`not claimed: ${claim.kind}`)
  const receipt = { transaction: 'gone', network: 'eip155:84532', payer: '0xa', amount: '5' }
  const finish = storage.finishSettlement('gone', claim.token, { kind: 'paid', receipt }, { now: T, expiresAt: T })
  await Promise.all([finish, storage.prune(T + DAY), storage.pruneLedger(T + DAY, T + DAY)])
  await storage.pruneLedger(T + DAY, T + DAY)
  expect(await storage.getCall('gone')).toBeUndefined()
  const spends = await storage.spendByModel('0xa', 0)
  expect(spends.map(({ calls, spent }) => [calls, spent])).toEqual([[1, usdc(3_000_000_021n)]])
  await storage.close()
})

test('buyers of a day are counted again after a sale, a deletion or the archive has changed them', async () => {
  const storage = sqliteStorage(':memory:')
  const day = Math.floor(T / DAY) * DAY
  const buyers = async (names = {}) =>
    (await storage.buyersByDay({ since: day - 40 * DAY, until: day + 9 * DAY, ...names })).map(({ at, buyers }) => [
      (at - day) / DAY,
      buyers,
    ])
  const on = (amount: number, payer: string): Sale => ({ work: 'paid', payer, model: 'large', amount, afterMs: 1 })
  await sell(storage, 'one', on(3, '0xa'))
  await sell(storage, 'two', on(1, '0xa'))
  expect([await buyers(), await buyers({ model: 'small' })]).toEqual([
    [
      [0, 1],
      [1, 1],
    ],
    [],
  ])
  await sell(storage, 'three', on(3, '0xb'))
  expect(await buyers()).toEqual([
    [0, 2],
    [1, 1],
  ])
  await storage.prune(FOREVER)
  const month = Math.floor(T / DAY) - 20
  expect(await storage.archiveCalls(['one'], month)).toBe(1)
  expect(await buyers()).toEqual([
    [-20, 1],
    [0, 1],
    [1, 1],
  ])
  expect(await storage.archiveCalls(['three'], month)).toBe(1)
  expect(await storage.pruneLedger(FOREVER, FOREVER)).toBe(1)
  expect(await buyers()).toEqual([[-20, 2]])
  await storage.close()
})
