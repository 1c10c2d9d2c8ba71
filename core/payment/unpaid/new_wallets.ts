/**
 * Common limit on what wallets that have not paid yet may have open or leave unpaid (decision 148). A wallet costs
 * nothing to make, so limits on each of them bound nothing (contract 1.95). An order counts for an hour after its
 * authorization or its offer ended, or until it is paid, or fails without cost. It is written first and counted then:
 * of orders at the same time, on any replica, none is let through that does not count the others.
 */
import { Type } from '@sinclair/typebox'
import { type ReadRecord, recordKind } from '../../endpoint/record_kind.ts'
import { type BoundedMap, boundedMap } from '../../lib/bounded_map.ts'
import type { Authorization, Call, CallStorage, LedgerReads, Log, RecordStorage } from '../../ports/mod.ts'
import { isCumulative } from '../../x402/offer.ts'
import { dollars, print, roundUp, type Usdc, usdc } from '../../x402/money.ts'
import type { Offer } from '../../x402/protocol.ts'
import { wasAbandoned } from './unpaid_calls.ts'

/**
 * Most that new wallets may have open or unpaid: at a gateway, and from one address (an IPv6 /64). Once it comes to
 * `streamed` at the gateway, further streams are settled before any content is sent.
 */
export type NewWalletsLimit = { readonly gateway: Usdc; readonly address: Usdc; readonly streamed: Usdc }

/** The worth of the open calls of a wallet that has never paid, in USDC, by default. */
export const NEW_WALLET_USDC = '0.05'

/** Limits of one wallet that has not paid, on calls that are served before settlement, where none are set. */
export const NEW_WALLET_LIMIT = { calls: 2, worth: roundUp(dollars(NEW_WALLET_USDC)) }

/** The limits of all of them where none are set, in USDC (decision 141). */
export const NEW_WALLETS_USDC = { gateway: '4', address: '1.5', streamed: '1' }

/** The same in base units; other limits in place of them where they are given. */
export function newWalletsLimit({
  gateway,
  address,
  streamed,
}: Partial<typeof NEW_WALLETS_USDC> = {}): NewWalletsLimit {
  return {
    gateway: roundUp(dollars(gateway ?? NEW_WALLETS_USDC.gateway)),
    address: roundUp(dollars(address ?? NEW_WALLETS_USDC.address)),
    streamed: roundUp(dollars(streamed ?? NEW_WALLETS_USDC.streamed)),
  }
}

const UNPROVEN = recordKind({
  kind: 'new_wallet_call',
  version: 1,
  schema: Type.Object({ worth: Type.String({ pattern: '^[0-9]+$' }), address: Type.String() }),
})

/** An order of a new wallet that counts. `address` is a keyed hash, empty where the address is unknown. */
type UnprovenCall = { readonly id: string; readonly worth: bigint; readonly address: string }

/** How long an unpaid order counts after its authorization. */
const HOUR_MS = 3_600_000
/** Orders that are counted at a gateway. More than these are too many, whatever they are worth. */
const MAX_CALLS = 1_000
/** How long this process believes that there is no room, without asking storage again. */
const FULL_MS = 250
/** Looking for what was paid waits so long for each order, because under attack most of them stay unpaid. */
const SWEEP_MS = 10
const MAX_ADDRESSES = 10_000
/** Wallets that are remembered as not new. */
const MAX_PROVEN = 10_000
/** From so many orders on, those that were paid are looked for although there is room. */
const MANY_CALLS = 64
/** Orders that are looked at together. */
const AT_ONCE = 50
/** Longest wait that is asked for: what others pay makes room at any time. */
export const MAX_RETRY_S = 60

/** `settlesEarly`: new wallets have so much open or unpaid that a stream is settled before any content is sent. */
export type Counted = { readonly kind: 'counted'; readonly settlesEarly: boolean } | Full

export type Full = {
  readonly kind: 'full'
  readonly whose: 'gateway' | 'address'
  readonly retryAfterSeconds: number
}

/**
 * Whether an order has room beside the others. One that is worth more than a whole limit has room while no other such
 * order counts; the rest count apart from it, so that a video keeps nobody from a chat answer.
 */
export function judgeUnproven(
  call: Omit<UnprovenCall, 'id'>,
  others: readonly UnprovenCall[],
  limit: NewWalletsLimit,
): Full['whose'] | undefined {
  const fits = (counted: readonly UnprovenCall[], most: bigint): boolean => {
    if (call.worth > most) return !counted.some(({ worth }) => worth > most)
    return counted.reduce((sum, { worth }) => (worth > most ? sum : sum + worth), call.worth) <= most
  }
  const sameAddress = others.filter(({ address }) => address === call.address)
  if (call.address !== '' && !fits(sameAddress, limit.address)) return 'address'
  return others.length < MAX_CALLS && fits(others, limit.gateway) ? undefined : 'gateway'
}

/** Whether an order and the others come to more than may be streamed before settlement. */
function isBeyondStreamed(worth: bigint, others: readonly UnprovenCall[], limit: NewWalletsLimit): boolean {
  return others.reduce((sum, other) => sum + other.worth, worth) > limit.streamed
}

export type UnprovenContext = {
  readonly storage: CallStorage & LedgerReads & RecordStorage
  readonly log: Log
  readonly gateway: string
  readonly limit: NewWalletsLimit
  readonly known: KnownWallets
  /** A keyed hash of a caller's address: no address is stored. */
  hashOf(address: string): Promise<string>
}

/** Memory of a process of a gateway's new wallets, and of those that are not new. */
export type KnownWallets = {
  fullUntil: number
  checkedAt: number
  streamsAt: number
  alertedAt: number
  /** Until when there is no room for an address. */
  readonly addresses: BoundedMap<number>
  /** The highest price for which a wallet was found not to be new. The one that has waited longest goes first. */
  readonly proven: BoundedMap<Usdc>
}

export const knownWallets = (): KnownWallets => ({
  fullUntil: Number.NEGATIVE_INFINITY,
  checkedAt: Number.NEGATIVE_INFINITY,
  streamsAt: Number.NEGATIVE_INFINITY,
  alertedAt: Number.NEGATIVE_INFINITY,
  addresses: boundedMap<number>(MAX_ADDRESSES),
  proven: boundedMap<Usdc>(MAX_PROVEN),
})

/** Whether there was no room a moment ago, at the gateway or for this address. Asks nobody. */
export function isKnownFull({ fullUntil, addresses }: KnownWallets, address: string, now: number): boolean {
  return now < Math.max(fullUntil, addresses.get(address) ?? fullUntil)
}

type Wallet = Pick<Call, 'payer' | 'asset'>
const nameOf = ({ payer, asset }: Wallet): string => `${asset} ${payer}`

/**
 * Amount that a wallet must have paid so that an order does not count as a new wallet's; 0 if that is known, so that no
 * sum is read.
 */
export function unprovenPrice({ proven }: KnownWallets, wallet: Wallet, price: Usdc): Usdc {
  return (proven.get(nameOf(wallet)) ?? 0n) >= price ? usdc(0n) : price
}

/** Remembers that a wallet is known for orders of this price. */
export function notePaid({ proven }: KnownWallets, wallet: Wallet, price: Usdc): void {
  const name = nameOf(wallet)
  const before = proven.get(name) ?? usdc(0n)
  proven.set(name, before > price ? before : price)
}

/** Value of an order of a new wallet: its price or, if higher, what the upstream may cost. */
export function worthOf(price: Usdc, worstCost: Usdc | undefined): Usdc {
  return worstCost !== undefined && worstCost > price ? worstCost : price
}

type NewOrder = {
  readonly call: Pick<Call, 'id'>
  readonly authorization: Pick<Authorization, 'expiresAt' | 'offer'>
  readonly worth: Usdc
  /** Empty where it is unknown. */
  readonly caller: string
}

/** Counts an open call of a new wallet, unless there is no room for it. */
export async function countUnproven(
  context: UnprovenContext,
  { call, authorization, worth, caller }: NewOrder,
  now: number,
): Promise<Counted> {
  const { storage, gateway, limit } = context
  const address = caller === '' ? '' : await context.hashOf(caller)
  // Whoever signs for a day would otherwise keep all others waiting for a day.
  const end = Math.min(authorization.expiresAt, now + authorization.offer.maxTimeoutSeconds * 1_000)
  const expiresAt = Math.max(now, end) + HOUR_MS
  const record = { id: call.id, owner: ownerOf(gateway), data: { worth: String(worth), address }, expiresAt }
  const own = await UNPROVEN.put(storage, record, now)
  const others = async () => (await listed(context, now)).filter(({ id }) => id !== call.id)
  const judged = (calls: readonly Listed[]) => {
    const unproven = calls.map(unprovenOf)
    // The same order, sent twice, is counted already.
    const whose = own && judgeUnproven({ worth, address }, unproven, limit)
    return { whose, settlesEarly: isBeyondStreamed(worth, unproven, limit) }
  }
  let counted = await others()
  let answer = judged(counted)
  const isNeeded = answer.whose !== undefined || counted.length >= MANY_CALLS
  const isShort = answer.whose !== undefined || answer.settlesEarly
  // Two times: one that looks so that a stream need not wait must not keep the next order from its own look.
  const isSwept =
    (isNeeded || isShort) && (await forgetProven(context, counted, { now, at: isNeeded ? 'checkedAt' : 'streamsAt' }))
  if (isShort && isSwept) answer = judged((counted = await others()))
  const { whose, settlesEarly } = answer
  if (!own || !whose) return { kind: 'counted', settlesEarly }
  await UNPROVEN.move(storage, own, { expiresAt: now }, now)
  return noteFull(context, { whose, caller, counted }, now)
}

type Listed = ReadRecord<{ worth: string; address: string }>

const ownerOf = (gateway: string): string => `gateway ${gateway}`
const unprovenOf = ({ id, data: { worth, address } }: Listed): UnprovenCall => ({ id, worth: BigInt(worth), address })

const listed = ({ storage, gateway }: UnprovenContext, now: number): Promise<readonly Listed[]> =>
  UNPROVEN.list(storage, ownerOf(gateway), { now, limit: MAX_CALLS + 1 })

/** Stops counting what was paid or has cost nothing. False where that was done a moment ago. */
async function forgetProven(
  context: UnprovenContext,
  calls: readonly Listed[],
  { now, at }: { readonly now: number; readonly at: 'checkedAt' | 'streamsAt' },
): Promise<boolean> {
  const { storage, known } = context
  if (now - known[at] < calls.length * SWEEP_MS) return false
  known[at] = now
  for (let from = 0; from < calls.length; from += AT_ONCE)
    await Promise.all(
      calls.slice(from, from + AT_ONCE).map(async (each) => {
        const call = await storage.getCall(each.id)
        if (call && (await isProven(storage, call, now))) await UNPROVEN.move(storage, each, { expiresAt: now }, now)
      }),
    )
  return true
}

async function isProven(storage: CallStorage & LedgerReads & RecordStorage, call: Call, now: number): Promise<boolean> {
  if (call.paymentStatus === 'settled') return true
  return call.workStatus === 'failed' && call.paymentStatus === 'verified' && !(await wasAbandoned(storage, call, now))
}

function noteFull(
  { log, gateway, limit, known }: UnprovenContext,
  { whose, caller, counted }: { whose: Full['whose']; caller: string; counted: readonly Listed[] },
  now: number,
): Full {
  if (whose === 'gateway') known.fullUntil = now + FULL_MS
  if (whose === 'address') known.addresses.set(caller, now + FULL_MS)
  if (whose === 'gateway' && now - known.alertedAt >= HOUR_MS) {
    known.alertedAt = now
    const sum = usdc(counted.reduce((all, each) => all + BigInt(each.data.worth), 0n))
    log.alert('new wallets have as much unpaid as they may have together; further ones wait or pay from a channel', {
      gateway,
      calls: counted.length,
      unpaid: print(sum),
      limit: print(limit.gateway),
    })
  }
  const first = Math.min(...counted.map(({ expiresAt }) => expiresAt))
  return {
    kind: 'full',
    whose,
    retryAfterSeconds: Math.max(1, Math.min(MAX_RETRY_S, Math.ceil((first - now) / 1_000))),
  }
}

/** The reason of the refusal, and what to do. */
export function fullText({ retryAfterSeconds }: Pick<Full, 'retryAfterSeconds'>, offers: readonly Offer[]): string {
  const channel = offers.some(isCumulative) ? 'pay from a payment channel (scheme batch-settlement), or ' : ''
  return `wallets that have not paid here yet have as much open and unpaid as they may have together; ${channel}wait ${retryAfterSeconds} seconds, then send the same signed request again`
}
