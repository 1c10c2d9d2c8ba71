/** Promises of a storage to those who look payments up, and the broken storages that show that each law is needed. */
import { expect } from 'bun:test'
import { memoryStorage } from '../../adapters/storage/memory/mod.ts'
import { LOST } from '../../core/payment/ledger/mod.ts'
import type { CallTotalsQuery, Claim, LedgerEntry, NewCall, Outcome, Storage } from '../../core/ports/mod.ts'
import { portLaw, breaking, type Broken, type Law } from './law.ts'
import { usdc } from '../../core/x402/money.ts'
import { newCall, signed, T } from './storage_questions.ts'

const PAYER = '0x00000000000000000000000000000000000000Aa'
const NONCE = `0x${'7'.repeat(48)}${'0123456789abcdef'}`
const OTHER_NONCE = `0x${'8'.repeat(48)}${'0123456789abcdef'}`
const TRANSACTION = `0x${'5'.repeat(48)}${'fedcba9876543210'}`
const OTHER_TRANSACTION = `0x${'6'.repeat(48)}${'fedcba9876543210'}`
const KEY = `eip155:84532/0xasset/${PAYER}/${NONCE}`

const HOUR = 3_600_000
const DAY = 24 * HOUR

export const listingLaws: readonly Law<Storage>[] = [
  portLaw(
    'listCalls() lists what was opened in a time, newest first, page by page, whatever became of it',
    async (storage) => {
      for (const [id, createdAt] of [
        ['b', T + 1],
        ['a', T + 1],
        ['early', T - 1],
        ['first', T],
        ['end', T + 9],
        ['c', T + 5],
      ] as const)
        await opened(storage, id, { createdAt })
      await settled(storage, 'c', T + 6)
      const list = (at: Partial<Parameters<Storage['listCalls']>[0]> = {}) =>
        storage.listCalls({ since: T, until: T + 9, limit: 9, ...at })
      expect(ids(await list())).toEqual(['c', 'b', 'a', 'first'])
      expect(ids(await list({ limit: 2 }))).toEqual(['c', 'b'])
      expect(ids(await list({ limit: 2, after: { at: T + 1, id: 'b' } }))).toEqual(['a', 'first'])
      expect(ids(await list({ since: T + 1, after: { at: T + 1, id: 'b' } }))).toEqual(['a'])
      expect(await list({ since: T + 10, until: T + 20 })).toEqual([])
    },
  ),
  portLaw('listCalls() lists the calls of one wallet, by the spelling in which it is stored', async (storage) => {
    const payers = [PAYER, PAYER.toLowerCase(), '0xother', PAYER]
    for (const [n, payer] of payers.entries()) await opened(storage, `call ${n}`, { payer, createdAt: T + n })
    const of = async (payer: string) => ids(await storage.listCalls({ payer, since: T, until: T + 9, limit: 9 }))
    expect([await of(PAYER), await of(PAYER.toLowerCase()), await of('0xnobody')]).toEqual([
      ['call 3', 'call 0'],
      ['call 1'],
      [],
    ])
  }),
  portLaw(
    'listCalls() of one wallet and findCalls() look through all days, also behind days without a call',
    async (storage) => {
      const days = [0, 1, 1, 2, 400]
      for (const [n, day] of days.entries()) {
        const key = `eip155:84532/0xasset ${n}/${PAYER}/${NONCE}`
        const call = newCall(`call ${n}`, { payer: n === 3 ? '0xother' : PAYER, createdAt: T + day * DAY })
        await storage.openCall(call, signed(key, T + (1 + day) * DAY), { now: T, until: T + 60_000 })
        const claim = await storage.claimSettlement(call.id, undefined, {
          now: T,
          until: T + 60_000,
          result: { result: 'of the buyer', expiresAt: T + 99_999 },
        })
        const receipt = { transaction: TRANSACTION, network: 'eip155:84532', payer: PAYER, amount: '5' }
        const outcome: Outcome = { kind: 'paid', receipt }
        await storage.finishSettlement(call.id, tokenOf(claim), outcome, { now: T + day * DAY })
      }
      const list = async (at: Partial<Parameters<Storage['listCalls']>[0]>) =>
        ids(await storage.listCalls({ payer: PAYER, since: 0, until: T + 500 * DAY, limit: 9, ...at }))
      expect(await list({})).toEqual(expect.arrayContaining(['call 4', 'call 2', 'call 1', 'call 0']))
      const behind = await list({ after: { at: T + DAY, id: 'call 2' } })
      expect(behind).toEqual(expect.arrayContaining(['call 1', 'call 0']))
      const between = await list({ since: T + 1, until: T + 400 * DAY })
      expect(between).toEqual(expect.arrayContaining(['call 2', 'call 1']))
      for (const name of [NONCE, TRANSACTION])
        expect(ids(await storage.findCalls(name, 9)).toSorted()).toEqual(days.map((_, n) => `call ${n}`))
    },
  ),
  portLaw(
    'an entry of the ledger has what the operator may read, and neither the request nor the result',
    async (storage) => {
      await opened(storage, 'call', { model: 'demo/small', quotedAt: T - 2, verifiedAt: T - 1 })
      await settled(storage, 'call', T + 6)
      const [entry] = await storage.listCalls({ since: T, until: T + 1, limit: 9 })
      const { gateway, endpoint, payer, asset, quote, offer, createdAt, expiresAt } = newCall('call')
      expect(entry).toEqual({
        id: 'call',
        gateway,
        endpoint,
        payer,
        asset,
        quote,
        offer,
        createdAt,
        expiresAt,
        model: 'demo/small',
        authorization: 'key of call',
        workStatus: 'completed',
        paymentStatus: 'settled',
        startedAt: null,
        endedAt: T + 2,
        error: null,
        usage: null,
        charge: usdc(5n),
        receipt: receipt(),
        settledAt: T + 6,
        emptied: false,
        quotedAt: T - 2,
        verifiedAt: T - 1,
        settlingAt: T + 3,
        settledBy: 'reply',
        vendorError: null,
        paymentError: null,
        paymentErrorAt: null,
      } satisfies LedgerEntry)
    },
  ),
  portLaw(
    'the notes of a call say why its work failed, and why and when its payment moved no money',
    async (storage) => {
      const notes = async (id: string) => (await storage.findCalls(id, 1))[0]
      await opened(storage, 'failed')
      const failing = { workStatus: 'failed', error: 'for the buyer', vendorError: 'HTTP 529', endedAt: T } as const
      await storage.moveCall('failed', { workStatus: ['queued'] }, failing)
      expect(await notes('failed')).toMatchObject({
        error: 'for the buyer',
        vendorError: 'HTTP 529',
        settlingAt: null,
        paymentErrorAt: null,
      })
      expect(await storage.getCall('failed')).not.toHaveProperty('vendorError')
      await completed(storage, 'refused')
      const refused = { now: T + 4, reason: 'no USDC', by: 'reply' } as const
      await storage.finishSettlement('refused', await claimed(storage, 'refused', T + 3), { kind: 'refused' }, refused)
      expect(await notes('refused')).toMatchObject({
        paymentStatus: 'refused',
        settlingAt: T + 3,
        settledBy: null,
        paymentError: 'no USDC',
        paymentErrorAt: T + 4,
      })
      await storage.finishSettlement('refused', await claimed(storage, 'refused', T + 8), paid(), {
        now: T + 9,
        by: 'poll',
      })
      expect(await notes('refused')).toMatchObject({
        paymentStatus: 'settled',
        settlingAt: T + 3,
        settledAt: T + 9,
        settledBy: 'poll',
        paymentError: 'no USDC',
        paymentErrorAt: T + 4,
      })
    },
  ),
  portLaw(
    'listSettled() follows the settlements, oldest first, from exactly the time or the entry that it is given',
    async (storage) => {
      for (const [id, at] of [
        ['b', T + 3],
        ['a', T + 3],
        ['late', T + 9],
        ['early', T - 1],
        ['exact', T],
      ] as const) {
        await completed(storage, id)
        await settled(storage, id, at)
      }
      await completed(storage, 'unpaid')
      await claimed(storage, 'unpaid')
      expect(ids(await storage.listSettled({ since: T, limit: 9 }))).toEqual(['exact', 'a', 'b', 'late'])
      expect(ids(await storage.listSettled({ since: T, limit: 2 }))).toEqual(['exact', 'a'])
      expect(ids(await storage.listSettled({ since: T, after: { at: T + 3, id: 'a' }, limit: 9 }))).toEqual([
        'b',
        'late',
      ])
    },
  ),
  portLaw(
    'findCalls() finds a call by its id, its authorization, its nonce and its transaction, and by no part of them',
    async (storage) => {
      await opened(storage, 'call', { key: KEY })
      await opened(storage, 'same end', { key: `eip155:84532/0xasset/${PAYER}/${OTHER_NONCE}` })
      await completed(storage, 'paid')
      await settled(storage, 'paid', T, { stated: { ...receipt(), transaction: TRANSACTION } })
      await completed(storage, 'paid with the same end')
      await settled(storage, 'paid with the same end', T, { stated: { ...receipt(), transaction: OTHER_TRANSACTION } })
      const find = async (name: string) => ids(await storage.findCalls(name, 9))
      expect([await find('call'), await find(KEY), await find(NONCE), await find(TRANSACTION)]).toEqual([
        ['call'],
        ['call'],
        ['call'],
        ['paid'],
      ])
      for (const part of ['cal', '', NONCE.slice(-16), TRANSACTION.slice(-16), `${TRANSACTION} `, '%', '_'])
        expect({ part, found: await find(part) }).toEqual({ part, found: [] })
    },
  ),
  portLaw('findCalls() lists what shares a name newest first, each call once, as many as it may', async (storage) => {
    for (const [n, asset] of ['0xone', '0xtwo', '0xthree'].entries()) {
      const key = `eip155:84532/${asset}/${PAYER}/${NONCE}`
      await completed(storage, `call ${n}`, { key, createdAt: T + n })
      await settled(storage, `call ${n}`, T + n, { key, stated: { ...receipt(), transaction: NONCE } })
    }
    expect(ids(await storage.findCalls(NONCE, 9))).toEqual(['call 2', 'call 1', 'call 0'])
    expect(ids(await storage.findCalls(NONCE, 2))).toEqual(['call 2', 'call 1'])
  }),
  portLaw('listAuthorizations() lists what a call is bound to, by position, and what became of it', async (storage) => {
    await completed(storage, 'call')
    await storage.finishSettlement('call', await claimed(storage, 'call'), { kind: 'dead' }, { now: T })
    const second = await storage.claimSettlement('call', signed('second', T + 70_000), { now: T, until: T + 60_000 })
    await storage.finishSettlement('call', tokenOf(second), paid(), { now: T })
    expect(await storage.listAuthorizations('call')).toEqual([
      { key: 'key of call', call: 'call', position: 0, status: 'dead', expiresAt: T + 60_000 },
      { key: 'second', call: 'call', position: 1, status: 'paid', expiresAt: T + 70_000 },
    ])
    expect(await storage.listAuthorizations('nothing')).toEqual([])
  }),
  portLaw(
    'callTotals() sums what ended and what was paid by hour and day, also when the calls are gone',
    async (storage) => {
      const day = Math.floor(T / DAY) * DAY
      const at = day + 5 * HOUR
      await opened(storage, 'quick', { model: 'a', createdAt: at - 40 })
      await worked(storage, 'quick', at, 'completed')
      await opened(storage, 'slow', { model: 'a', createdAt: at - 900 })
      await worked(storage, 'slow', at + HOUR, 'completed')
      await opened(storage, 'unpaid', { model: null, endpoint: 'other', createdAt: at - 40 })
      await worked(storage, 'unpaid', at, 'failed')
      await paidAt(storage, 'quick', at + 1)
      await paidAt(storage, 'slow', at + HOUR)
      const range = { since: day, until: day + DAY } as const
      const sums = async (query: Partial<CallTotalsQuery> = {}) =>
        (await storage.callTotals({ unit: 'day', ...range, ...query })).map(
          (each) =>
            `${(each.at - day) / HOUR} ${each.name} ${each.outcome} ${each.upToMs}: ${each.calls} ${each.spent}`,
        )
      const byDay = ['0 null completed 50: 1 0', '0 null completed 86400000: 1 0', '0 null failed 0: 1 0']
      const all = [...byDay, '0 null settled 0: 2 10']
      expect(await sums()).toEqual(all)
      expect(await sums({ unit: 'hour' })).toEqual([
        '5 null completed 50: 1 0',
        '5 null failed 0: 1 0',
        '5 null settled 0: 1 5',
        '6 null completed 86400000: 1 0',
        '6 null settled 0: 1 5',
      ])
      expect(await sums({ unit: 'hour', since: at + 1 })).toEqual([
        '6 null completed 86400000: 1 0',
        '6 null settled 0: 1 5',
      ])
      expect(await sums({ by: 'model' })).toEqual([
        '0 null failed 0: 1 0',
        '0 a completed 50: 1 0',
        '0 a completed 86400000: 1 0',
        '0 a settled 0: 2 10',
      ])
      expect(await sums({ by: 'endpoint', endpoint: 'other' })).toEqual(['0 other failed 0: 1 0'])
      expect(await sums({ model: 'a' })).toEqual(all.toSpliced(2, 1))
      expect(await sums({ gateway: 'nowhere' })).toEqual([])
      await storage.prune(T + 30 * DAY)
      await storage.pruneLedger(T + 30 * DAY, T + 30 * DAY)
      expect(await sums()).toEqual(all)
      expect(await sums({ unit: 'hour' })).toHaveLength(5)
      await storage.prune(T + 70 * DAY)
      expect([await sums(), await sums({ unit: 'hour' })]).toEqual([all, []])
    },
  ),
  portLaw('callTotals() counts work that goes on after it was given up as it ends at last', async (storage) => {
    await opened(storage, 'call', { createdAt: T })
    await storage.moveCall('call', { workStatus: ['queued'] }, { workStatus: 'failed', error: LOST, endedAt: T + 5 })
    const outcomes = async () =>
      (await storage.callTotals({ unit: 'day', since: 0, until: T + DAY })).map(
        ({ outcome, calls }) => `${calls} ${outcome}`,
      )
    expect(await outcomes()).toEqual(['1 failed'])
    // Whether it can be taken back is another law.
    const isBack = (await storage.renew(newCall('call').workerId, ['call'], T + 90_000)).length > 0
    expect(await outcomes()).toEqual(isBack ? [] : ['1 failed'])
    if (!isBack) return
    await worked(storage, 'call', T + 6, 'completed')
    expect(await outcomes()).toEqual(['1 completed'])
  }),
  portLaw('buyersByDay() counts each wallet once for each day on which a call of it settled', async (storage) => {
    const day = Math.floor(T / DAY) * DAY
    const sales = [
      ['0xa', 'a', 0],
      ['0xa', 'b', 0],
      ['0xb', 'a', 0],
      ['0xa', 'a', 2],
    ] as const
    for (const [n, [payer, model, after]] of sales.entries()) {
      await opened(storage, `call ${n}`, { payer, model })
      await worked(storage, `call ${n}`, day, 'completed')
      await paidAt(storage, `call ${n}`, day + after * DAY)
    }
    await opened(storage, 'unpaid', { payer: '0xc' })
    const buyers = async (query: Partial<CallTotalsQuery> = {}) =>
      (await storage.buyersByDay({ since: day, until: day + 9 * DAY, ...query })).map(
        ({ at, buyers: count }) => `${(at - day) / DAY}: ${count}`,
      )
    expect(await buyers()).toEqual(['0: 2', '2: 1'])
    expect(await buyers({ model: 'b' })).toEqual(['0: 1'])
    expect(await buyers({ until: day + 2 * DAY })).toEqual(['0: 2'])
  }),
  portLaw('listOpen() lists unfinished work and payments in doubt, oldest first, and nothing else', async (storage) => {
    await opened(storage, 'working', { createdAt: T + 2 })
    await completed(storage, 'settling', { createdAt: T + 1 })
    await claimed(storage, 'settling', T + 3)
    await completed(storage, 'in doubt', { createdAt: T })
    const token = await claimed(storage, 'in doubt', T + 3)
    await storage.finishSettlement('in doubt', token, { kind: 'unresolved' }, { now: T + 4 })
    await completed(storage, 'uncollected')
    await opened(storage, 'paid')
    await settled(storage, 'paid', T + 6)
    expect(ids(await storage.listOpen(9))).toEqual(['in doubt', 'settling', 'working'])
    expect(ids(await storage.listOpen(1))).toEqual(['in doubt', 'working'])
  }),
]

const broken = breaking<Storage>(memoryStorage, { close: (good) => good.close() })

export const brokenListings: readonly Broken<Storage>[] = [
  broken(
    'listCalls() lists what was opened in a time, newest first, page by page, whatever became of it',
    'lists the last one of a page again',
    (good) => ({
      listCalls: ({ after, ...at }) =>
        good.listCalls({ ...at, ...(after && { after: { ...after, id: `${after.id}~` } }) }),
    }),
  ),
  broken(
    'listCalls() lists the calls of one wallet, by the spelling in which it is stored',
    'lists those of every wallet',
    (good) => ({ listCalls: ({ payer, ...at }) => good.listCalls(at) }),
  ),
  broken(
    'listCalls() of one wallet and findCalls() look through all days, also behind days without a call',
    'ends at the first day without a call',
    (good) => ({
      async listCalls(at) {
        const listed = await good.listCalls(at)
        const gap = listed.findIndex(({ createdAt }, n) => n > 0 && (listed[n - 1]?.createdAt ?? 0) - createdAt > DAY)
        return gap < 0 ? listed : listed.slice(0, gap)
      },
    }),
  ),
  broken(
    'an entry of the ledger has what the operator may read, and neither the request nor the result',
    'shows the request',
    (good) => ({
      async listCalls(at) {
        const listed = await good.listCalls(at)
        return await Promise.all(listed.map(async (entry) => ({ ...(await good.getCall(entry.id)), ...entry })))
      },
    }),
  ),
  broken(
    'the notes of a call say why its work failed, and why and when its payment moved no money',
    'forgets why',
    (good) => ({
      finishSettlement: (id, token, outcome, { reason, ...at }) => good.finishSettlement(id, token, outcome, at),
    }),
  ),
  broken(
    'listSettled() follows the settlements, oldest first, from exactly the time or the entry that it is given',
    'skips what settled in the same millisecond',
    (good) => ({
      listSettled: ({ after, ...at }) => good.listSettled({ ...at, ...(after && { after: { ...after, id: '~' } }) }),
    }),
  ),
  broken(
    'findCalls() finds a call by its id, its authorization, its nonce and its transaction, and by no part of them',
    'finds by the last characters alone',
    (good) => ({
      findCalls: async (name, limit) => await good.findCalls(name.length === 16 ? NONCE : name, limit),
    }),
  ),
  broken(
    'findCalls() lists what shares a name newest first, each call once, as many as it may',
    'lists the oldest first',
    (good) => ({ findCalls: async (name, limit) => (await good.findCalls(name, limit)).toReversed() }),
  ),
  broken(
    'listAuthorizations() lists what a call is bound to, by position, and what became of it',
    'lists the latest first',
    (good) => ({ listAuthorizations: async (call) => (await good.listAuthorizations(call)).toReversed() }),
  ),
  broken(
    'callTotals() sums what ended and what was paid by hour and day, also when the calls are gone',
    'sums by hour what was asked for by day',
    (good) => ({
      callTotals: (query) =>
        query.endpoint === undefined && query.model === undefined && query.by === 'model'
          ? good.callTotals({ ...query, unit: 'hour' })
          : good.callTotals(query),
    }),
  ),
  broken(
    'callTotals() counts work that goes on after it was given up as it ends at last',
    'counts what was given up as failed for ever',
    (good) => {
      let renewed = 0
      return {
        async renew(...given) {
          const ids = await good.renew(...given)
          renewed += ids.length
          return ids
        },
        async callTotals(query) {
          const sums = await good.callTotals(query)
          const failed = { at: 0, name: null, outcome: 'failed', upToMs: 0, calls: renewed, spent: usdc(0n) } as const
          return renewed === 0 ? sums : [...sums, failed]
        },
      }
    },
  ),
  broken(
    'buyersByDay() counts each wallet once for each day on which a call of it settled',
    'counts calls',
    (good) => ({
      async buyersByDay(query) {
        const sums = await good.callTotals({ ...query, unit: 'day' })
        return sums.filter(({ outcome }) => outcome === 'settled').map(({ at, calls }) => ({ at, buyers: calls }))
      },
    }),
  ),
  broken(
    'listOpen() lists unfinished work and payments in doubt, oldest first, and nothing else',
    'lists the newest first',
    (good) => ({ listOpen: async (limit) => (await good.listOpen(limit)).toReversed() }),
  ),
]

// ── words that the laws are written in ──────────────────────────────────────────────────────────────────────────────

type Shape = Partial<NewCall> & { readonly key?: string }

const receipt = () => ({ transaction: '0xabc', network: 'eip155:84532', payer: PAYER, amount: '5' })
const paid = (stated = receipt()): Outcome => ({ kind: 'paid', receipt: stated })
const ids = (entries: readonly LedgerEntry[]): string[] => entries.map(({ id }) => id)

async function opened(storage: Storage, id: string, { key = `key of ${id}`, ...shape }: Shape = {}): Promise<void> {
  const answer = await storage.openCall(newCall(id, shape), signed(key), { now: T, until: T + 60_000 })
  expect(answer.kind).toBe('opened')
}

async function completed(storage: Storage, id: string, shape: Shape = {}): Promise<void> {
  await opened(storage, id, shape)
  await storage.moveCall(id, { workStatus: ['queued'] }, { workStatus: 'completed', result: 1, endedAt: T })
}

/** Settles a call by the reply to its order; one without a result gets it in the same step. */
async function settled(
  storage: Storage,
  id: string,
  settledAt: number,
  { stated = receipt(), key = `key of ${id}` } = {},
): Promise<void> {
  const claim = await storage.claimSettlement(id, signed(key), {
    now: T + 3,
    until: T + 60_000,
    result: { result: 'of the buyer', expiresAt: T + 99_999 },
  })
  await storage.moveCall(id, { workStatus: ['completed'] }, { endedAt: T + 2 })
  await storage.finishSettlement(id, tokenOf(claim), paid(stated), { now: settledAt, by: 'reply' })
}

async function worked(
  storage: Storage,
  id: string,
  endedAt: number,
  workStatus: 'completed' | 'failed',
): Promise<void> {
  const patch = workStatus === 'completed' ? { result: 1 } : { error: 'upstream' }
  await storage.moveCall(id, { workStatus: ['queued'] }, { workStatus, endedAt, ...patch })
}

async function paidAt(storage: Storage, id: string, now: number): Promise<void> {
  await storage.finishSettlement(id, await claimed(storage, id, now), paid(), { now })
}

async function claimed(storage: Storage, id: string, now = T): Promise<number> {
  return tokenOf(await storage.claimSettlement(id, signed(`key of ${id}`), { now, until: now + 60_000 }))
}

function tokenOf(claim: Claim): number {
  if (claim.kind === 'yours' || claim.kind === 'retry') return claim.token
  throw new Error(`there should have been a token, but: ${claim.kind}`)
}
