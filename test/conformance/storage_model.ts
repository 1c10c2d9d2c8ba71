/**
 * A random life of calls, settlers and a chain over one storage: crashes, stalled settlers, dropped and late
 * broadcasts, cancels, lost owners, polls with fresh signatures. Whatever happens, no buyer may be charged twice for a
 * call.
 */
import { usdc } from '../../core/x402/money.ts'
import type { Authorization, Claim, NewCall, Outcome, Storage } from '../../core/ports/mod.ts'

const START = 1_800_000_000_000
const LIFE = 3_000
const LEASE = 400
/** Calls and authorizations of one game at most: they have to meet again and again. */
const FEW = 5

/** State of an authorization on the chain. A broadcast one may land until it expires or is cancelled. */
type Coin = {
  state: 'unspent' | 'spent' | 'cancelled'
  expiresAt: number
  readonly sentFor: Set<string>
  isPending: boolean
}

type Settler = {
  readonly call: string
  readonly key: string
  readonly token: number
  hasSent: boolean
  readonly mustPoll: boolean
}

/**
 * Plays `steps` random moves, then lets the reconciler finish. Answers with what went wrong: the empty list is the law.
 */
export async function playMoney(storage: Storage, seed: number, steps: number): Promise<readonly string[]> {
  const random = dice(seed)
  const coins = new Map<string, Coin>()
  const calls: string[] = []
  const settlers: Settler[] = []
  let now = START

  const chance = (probability: number) => random() < probability
  const one = <T>(list: readonly T[]): T | undefined => list[Math.floor(random() * list.length)]

  /** A defect of a broken storage may hide a key behind a suffix; the chain sees the same signature. */
  function coin(key: string): Coin {
    const real = key.split(' disguised', 1)[0] ?? key
    const known = coins.get(real)
    if (known) return known
    const made: Coin = { state: 'unspent', expiresAt: now + LIFE, sentFor: new Set(), isPending: false }
    coins.set(real, made)
    return made
  }

  const isDead = (each: Coin) => each.state === 'cancelled' || (each.state === 'unspent' && each.expiresAt <= now)
  const canLand = (each: Coin) => each.isPending && each.state === 'unspent' && each.expiresAt > now
  const someKey = () => (coins.size < FEW && chance(0.3) ? `coin ${coins.size}` : (one([...coins.keys()]) ?? 'coin 0'))

  async function open(): Promise<void> {
    if (calls.length >= FEW) return
    const id = `call ${calls.length}`
    const key = someKey()
    if (isDead(coin(key)) || coin(key).state === 'spent') return
    const answer = await storage.openCall(newCall(id, now), authorization(key, coin(key)), { now, until: now + 300 })
    if (answer.kind === 'opened') calls.push(id)
  }

  async function work(): Promise<void> {
    const id = one(calls)
    if (id === undefined) return
    const ended = chance(0.7)
      ? ({ workStatus: 'completed', result: id } as const)
      : ({ workStatus: 'failed', error: 'upstream' } as const)
    await storage.moveCall(
      id,
      { workStatus: ['queued', 'in_progress'], paymentStatus: 'verified' },
      { ...ended, endedAt: now },
    )
  }

  async function claim(): Promise<void> {
    const id = one(calls)
    if (id === undefined) return
    const original = (await storage.getCall(id))?.authorization ?? 'coin 0'
    const key = chance(0.5) ? original : someKey()
    const offered = chance(0.2) || isDead(coin(key)) ? undefined : authorization(key, coin(key))
    const result = chance(0.2) ? { result: { result: id, expiresAt: now + 10 * LIFE } } : {}
    hire(id, key, await storage.claimSettlement(id, offered, { now, until: now + LEASE, ...result }))
  }

  function hire(call: string, key: string, answer: Claim): void {
    if (answer.kind === 'yours') settlers.push({ call, key, token: answer.token, hasSent: false, mustPoll: false })
    if (answer.kind !== 'retry') return
    settlers.push({ call, key: answer.authorization.key, token: answer.token, hasSent: false, mustPoll: answer.sent })
  }

  async function settle(): Promise<void> {
    const settler = one(settlers)
    if (!settler || chance(0.5)) return
    const its = coin(settler.key)
    if (settler.mustPoll || settler.hasSent) {
      if (its.state === 'spent') return await finish(settler, { kind: 'paid', receipt: receiptOf(settler.key) })
      if (isDead(its)) return await finish(settler, { kind: 'dead' })
    }
    if (!settler.hasSent && chance(0.3)) return await finish(settler, { kind: 'refused' })
    if (!settler.hasSent) {
      settler.hasSent = true
      its.isPending = true
      its.sentFor.add(settler.call)
      if (chance(0.4)) land(its)
    }
    if (chance(0.2)) return leave(settler)
    if (chance(0.3)) await finish(settler, { kind: chance(0.9) ? 'unknown' : 'unresolved' })
  }

  async function finish(settler: Settler, outcome: Outcome): Promise<void> {
    leave(settler)
    await storage.finishSettlement(settler.call, settler.token, outcome, { now })
  }

  function leave(settler: Settler): void {
    settlers.splice(settlers.indexOf(settler), 1)
  }

  function land(each: Coin): void {
    if (canLand(each)) each.state = 'spent'
  }

  function weather(): void {
    const each = one([...coins.values()])
    if (!each) return
    const sky = random()
    if (sky < 0.3) land(each)
    if (sky > 0.8 && each.state === 'unspent') each.state = 'cancelled'
  }

  async function reconcile(): Promise<void> {
    for (const { id } of await storage.unsettled(now, 1_000)) {
      const answer = await storage.claimSettlement(id, undefined, { now, until: now + LEASE })
      if (answer.kind !== 'retry') continue
      const isSpent = coin(answer.authorization.key).state === 'spent'
      const outcome: Outcome = isSpent
        ? { kind: 'paid', receipt: receiptOf(answer.authorization.key) }
        : { kind: 'dead' }
      await storage.finishSettlement(id, answer.token, outcome, { now })
    }
  }

  const moves = [
    open,
    work,
    claim,
    claim,
    settle,
    settle,
    settle,
    weather,
    () => void (now += Math.floor(random() * 200)),
  ]
  for (let step = 0; step < steps; step++) await one(moves)?.()

  now += 10 * LIFE
  await reconcile()
  const wrong = (await storage.unsettled(now, 1_000)).map(({ id }) => `${id} is still unsettled after the reconciler`)
  for (const [key, { sentFor }] of coins)
    if (sentFor.size > 1) wrong.push(`${key} was sent for ${[...sentFor].join(' and ')}`)
  for (const id of calls) {
    const paidBy = [...coins].filter(([, each]) => each.state === 'spent' && each.sentFor.has(id)).map(([key]) => key)
    const money = (await storage.getCall(id))?.paymentStatus
    if (paidBy.length > 1) wrong.push(`${id} was paid by ${paidBy.join(' and ')}`)
    if (money === 'settled' && paidBy.length === 0) wrong.push(`${id} is settled, but nothing paid for it`)
    if (money !== 'settled' && money !== 'unresolved' && paidBy.length > 0)
      wrong.push(`${id} was paid, but is ${money}`)
  }
  const settled = (await Promise.all(calls.map((id) => storage.getCall(id)))).filter(
    (call) => call?.paymentStatus === 'settled',
  ).length
  const spent = (await storage.spendByModel('0xpayer', START)).reduce((sum, each) => sum + each.calls, 0)
  if (spent !== settled) wrong.push(`${settled} calls are settled, but ${spent} are in the ledger`)
  return wrong
}

/** Numbers from 0 to 1 that only the seed decides (mulberry32). */
export function dice(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

const offer = {
  scheme: 'exact',
  network: 'eip155:84532',
  amount: '1',
  asset: '0xa',
  payTo: '0xb',
  maxTimeoutSeconds: 5,
}

function newCall(id: string, now: number): NewCall {
  return {
    id,
    gateway: 'devnet',
    endpoint: 'images',
    model: null,
    payer: '0xpayer',
    asset: 'eip155:84532/0xa',
    quote: usdc(1n),
    offer,
    fingerprint: '',
    request: null,
    createdAt: now,
    workerId: 'me',
    expiresAt: now + 100 * LIFE,
  }
}

function authorization(key: string, { expiresAt }: Coin): Authorization {
  return { key, payer: '0xpayer', payment: { x402Version: 2, accepted: offer, payload: { key } }, offer, expiresAt }
}

function receiptOf(key: string) {
  return { transaction: `0x${key}`, network: 'eip155:84532', payer: '0xpayer', amount: '1' }
}
