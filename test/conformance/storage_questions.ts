/** Random questions for a storage: two that are asked the same have to answer the same. */
import { usdc } from '../../core/x402/money.ts'
import type { Authorization, NewCall, Outcome, Storage, WorkStatus } from '../../core/ports/mod.ts'

export const T = 1_800_000_000_000

type Question = { readonly verb: string; put(storage: Storage): Promise<unknown> }

/** Random questions over few names, so that they concern each other. Time moves on a little with each. */
export function questions(random: () => number): () => Question {
  let now = T
  let count = 0
  const upTo = (limit: number) => Math.floor(random() * limit)
  const one = <V>(...list: readonly V[]): V => list[upTo(list.length)] as V
  const id = () => `call ${Math.max(0, count - 1 - upTo(8))}`
  const auth = () => signed(`key ${Math.max(0, count - upTo(8))}`, now + upTo(2_000))
  const work = () => one<WorkStatus>('queued', 'in_progress', 'completed', 'failed')
  const outcome = (): Outcome => {
    const kind = one('paid', 'unknown', 'refused', 'dead', 'unresolved')
    return kind === 'paid'
      ? {
          kind,
          receipt: {
            ...receipt(`0x${'0'.repeat(16)}${count}`, one('5', '0', '12345678901', '0.5')),
            ...(random() < 0.5 && { block: upTo(9) }),
          },
        }
      : { kind }
  }

  return () => {
    now += upTo(60)
    const [at, some, key, pick] = [now, id(), auth(), random()]
    if (pick < 0.2) {
      const who = {
        payer: one('0xa', '0xb'),
        workerId: one('me', 'you'),
        model: one(null, 'small', 'large'),
        endpoint: one('images', 'chat'),
      }
      const call = newCall(`call ${count++}`, { ...who, quote: usdc(BigInt(upTo(50))), expiresAt: at + upTo(3_000) })
      const limit = { calls: 2, worth: usdc(60n), endpoints: ['chat'] }
      const seen = {
        ...(random() < 0.8 && { observed: usdc(BigInt(upTo(300))) }),
        ...(random() < 0.5 && { block: upTo(9) }),
        ...(random() < 0.3 && { newWallet: limit }),
        ...(random() < 0.3 && { newWallets: { paid: usdc(BigInt(upTo(60))), isFull: random() < 0.3 } }),
      }
      const cap = random() < 0.5 ? { cap: { ...seen, asOf: at - upTo(9_000) } } : {}
      const until = at + upTo(400)
      return { verb: 'openCall', put: (storage) => storage.openCall(call, key, { now: at, until, ...cap }) }
    }
    if (pick < 0.4) {
      const [from, to] = [[work(), work()], work()]
      const patch = {
        workStatus: to,
        endedAt: at,
        ...(to === 'completed' && { result: { at } }),
        ...(to === 'failed' && { error: 'upstream' }),
        ...(pick < 0.25 && { usage: { input: 1, output: 2 } }),
      }
      return {
        verb: 'moveCall',
        put: (storage) => storage.moveCall(some, { workStatus: from, paymentStatus: 'verified' }, patch),
      }
    }
    if (pick < 0.6) {
      const offered = one(undefined, key, signed(some.replace('call', 'key'), at + 999))
      const result =
        random() < 0.3
          ? {
              result: {
                result: [at],
                expiresAt: at + upTo(3_000),
                usage: one(null, { input: upTo(900), output: upTo(90) }),
              },
            }
          : {}
      const until = at + upTo(200)
      return {
        verb: 'claimSettlement',
        put: (storage) => storage.claimSettlement(some, offered, { now: at, until, ...result }),
      }
    }
    if (pick < 0.75) {
      const [token, end] = [1 + upTo(3), outcome()]
      const expiry = random() < 0.3 ? { expiresAt: at + upTo(3_000) } : {}
      return {
        verb: 'finishSettlement',
        put: (storage) => storage.finishSettlement(some, token, end, { now: at, ...expiry, reason: `reason ${at}` }),
      }
    }
    const owner = one('me', 'you')
    const bucket = { key: one('x', 'y'), limit: 5, windowMs: 500 }
    const take = upTo(4)
    const seen = upTo(2)
    const next = id()
    const after = one('', some)
    const payer = one('0xa', '0xb')
    const record = {
      kind: one('asset', 'number'),
      id: one('x', 'y'),
      owner,
      data: { count: upTo(2) },
      expiresAt: at + upTo(1_500),
    }
    const paidCall = newCall(take === 0 ? some : `paid ${count++}`, { payer, createdAt: at - upTo(90) })
    const paid = { result: [at], usage: null, receipt: receipt('', '3'), expiresAt: at + upTo(3_000) }
    const moved = { record, from: { count: seen } }
    const name = one(some, key.key, `0x${count}`, `0x${'0'.repeat(16)}${Math.max(0, count - upTo(9))}`)
    return one<Question>(
      {
        verb: 'listCalls',
        put: (storage) =>
          storage.listCalls({
            since: T,
            until: T + 1,
            limit: 1 + 2 * take,
            ...(seen === 1 && { payer }),
            ...(take > 1 && { after: { at: T, id: next } }),
          }),
      },
      { verb: 'listSettled', put: (storage) => storage.listSettled({ since: at - 500 * take, limit: 1 + take }) },
      { verb: 'findCalls', put: (storage) => storage.findCalls(name, 1 + take) },
      { verb: 'listAuthorizations', put: (storage) => storage.listAuthorizations(some) },
      { verb: 'getCall', put: (storage) => storage.getCall(some) },
      { verb: 'callOf', put: (storage) => storage.callOf(key.key, at) },
      {
        verb: 'renew',
        put: async (storage) => [...(await storage.renew(owner, [...new Set([some, next])], at + 300))].sort(),
      },
      { verb: 'lostCalls', put: (storage) => storage.lostCalls(at, 1 + take) },
      {
        verb: 'unfinishedCalls',
        put: (storage) => storage.unfinishedCalls(owner, { gateway: 'devnet', after, limit: 1 + take }),
      },
      { verb: 'unsettled', put: (storage) => storage.unsettled(at, 1 + take) },
      { verb: 'spendByModel', put: (storage) => storage.spendByModel(payer, take % 2 === 0 ? 0 : at - 500 * take) },
      {
        verb: 'callTotals',
        put: (storage) =>
          storage.callTotals({
            unit: take % 2 === 0 ? 'hour' : 'day',
            since: 0,
            until: at + 99_999_999,
            by: 'model',
            ...(take > 2 && { endpoint: 'chat' }),
          }),
      },
      { verb: 'buyersByDay', put: (storage) => storage.buyersByDay({ since: 0, until: at + 99_999_999 }) },
      { verb: 'listOpen', put: (storage) => storage.listOpen(1 + take) },
      { verb: 'putRecord', put: (storage) => storage.putRecord(record, at) },
      { verb: 'getRecord', put: (storage) => storage.getRecord(record.kind, record.id, at) },
      {
        verb: 'listRecords',
        put: (storage) =>
          storage.listRecords(record.kind, owner, { now: at, limit: 9, ...(take > 2 && { after: record.id }) }),
      },
      {
        verb: 'recordPaid',
        put: (storage) => storage.recordPaid(paidCall, key, { paid: { ...paid, spent: moved }, now: at }),
      },
      { verb: 'moveRecord', put: (storage) => storage.moveRecord(record, { count: seen }, at) },
      { verb: 'lease', put: (storage) => storage.lease('sweep', owner, { now: at, until: at + 100 }) },
      { verb: 'hit', put: (storage) => storage.hit(bucket, take, at) },
      { verb: 'prune', put: (storage) => storage.prune(at) },
      { verb: 'pruneLedger', put: (storage) => storage.pruneLedger(at - 500 * take, at) },
    )
  }
}

const offer = {
  scheme: 'exact',
  network: 'eip155:84532',
  amount: '5',
  asset: '0xa',
  payTo: '0xb',
  maxTimeoutSeconds: 60,
}

export function newCall(id: string, more: Partial<NewCall> = {}): NewCall {
  return {
    id,
    gateway: 'devnet',
    endpoint: 'images',
    model: null,
    payer: '0xa',
    asset: 'eip155:84532/0xa',
    quote: usdc(5n),
    offer,
    fingerprint: 'f',
    request: { prompt: 'a cat' },
    createdAt: T,
    workerId: 'me',
    expiresAt: T + 99_999,
    ...more,
  }
}

export function signed(key: string, expiresAt = T + 60_000): Authorization {
  return { key, payer: '0xa', payment: { x402Version: 2, accepted: offer, payload: { key } }, offer, expiresAt }
}

function receipt(transaction: string, amount: string) {
  return { transaction, network: 'eip155:84532', payer: '0xa', amount }
}
