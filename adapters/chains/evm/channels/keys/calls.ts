/**
 * Calls that are paid out of a reservation in their channel: those of an API key, and the vouchers of other clients on
 * a channel of a key. A charge uses up its reservation, so no call is charged without one, nor twice (decision 151).
 */
import { usdc } from '../../../../../core/x402/mod.ts'
import type {
  DrawDown,
  Fate,
  Refused,
  Securing,
  Settlement,
  SettleOptions,
  Unavailable,
  Verdict,
} from '../../../../../core/ports/mod.ts'
import type { Receipt } from '../../../../../core/x402/mod.ts'
import { oncePer } from '../../../../../core/lib/mod.ts'
import type { KeySigner } from './api_key.ts'
import type { Hex } from '../../../lib/hex.ts'
import { type CallOptions, unavailable } from '../../../lib/results.ts'
import type { Reads } from '../../node/reads.ts'
import { mirrorCalls, mirrorIn } from '../contract.ts'
import {
  childLeft,
  childOf,
  childrenIn,
  isChild,
  MAX_CHILDREN,
  withChildCall,
  withoutCall,
  withoutChildren,
} from './child_calls.ts'
import type { ChannelConfig, ChannelDigests } from '../digests.ts'
import { outOfStep, refusedChannel } from '../payload.ts'
import { BUSY, busy } from '../refunds.ts'
import {
  buyerOf,
  chargedState,
  channelStateOf,
  type ChannelState,
  type ChannelStates,
  type ChannelStorage,
  claimableOf,
  freshMsOf,
  isRefunding,
  type Mirror,
  newState,
  reservedIn,
  signedIn,
  withCharge,
  withCeiling,
  withMirror,
  withoutReservation,
  withReservation,
} from '../state.ts'

/** A call that a reservation pays. `name` identifies it in its channel. */
export type ReservedCall = {
  readonly channelId: Hex
  readonly config: ChannelConfig
  readonly name: string
  /** In base units. */
  readonly price: bigint
  /** When its reservation ends by itself, in milliseconds. */
  readonly until: number
  /** Its voucher is signed when it is charged. */
  readonly isLate: boolean
  /** The voucher that its buyer has signed. */
  readonly voucher?: { readonly ceiling: bigint; readonly signature: Hex } | undefined
  /** The signer of a key that was presented just now. */
  readonly signer?: KeySigner | undefined
}

export type KeyCallsContext = {
  readonly storage: ChannelStorage
  readonly states: ChannelStates
  readonly digests: ChannelDigests
  readonly reads: Pick<Reads, 'view'>
}

export type KeyCallsConfig = {
  readonly network: string
  /** In seconds. */
  readonly withdrawDelay: number
  readonly lagSeconds: number
}

const MAX_RACES = 16
/** Orders that nothing covers make the gateway read their channel so often, in milliseconds, whoever sends them. */
const ORDER_READS_MS = 3_000

/** State of a call in this process: its signer, and its reservation where no other process has the storage. */
type Open = { readonly amount: bigint; readonly signer?: KeySigner }

/** The calls of keys in this process, of all gateways over a storage. */
const processCallsOf = oncePer(() => ({
  /** Of each channel, by the name of the call. An amount of 0 is reserved in the record. */
  open: new Map<Hex, Map<string, Open>>(),
  /** Signers that the end of a call closes. */
  signing: new WeakSet<KeySigner>(),
  turns: new Map<Hex, Promise<void>>(),
}))

export function keyCalls({ storage, states, digests, reads }: KeyCallsContext, config: KeyCallsConfig) {
  const { network, withdrawDelay, lagSeconds } = config
  const freshMs = freshMsOf(withdrawDelay)
  const claimable = (mirror: Mirror, now: number) => claimableOf(mirror, { now, withdrawDelay })
  const { open, signing, turns } = processCallsOf(storage)

  /** Changes of one channel take turns, so that those of one process never race. Ends with the returned function. */
  async function turn(channelId: Hex): Promise<() => void> {
    const before = turns.get(channelId)
    let end = () => {}
    const mine = new Promise<void>((resolve) => (end = resolve))
    turns.set(channelId, mine)
    await before
    return () => {
      if (turns.get(channelId) === mine) turns.delete(channelId)
      end()
    }
  }

  async function inTurn<T>(channelId: Hex, work: () => Promise<T>): Promise<T> {
    const end = await turn(channelId)
    try {
      return await work()
    } finally {
      end()
    }
  }

  const openOf = (channelId: Hex, name: string): Open | undefined => open.get(channelId)?.get(name)

  function note(channelId: Hex, name: string, call: Open): void {
    const calls = open.get(channelId) ?? new Map<string, Open>()
    open.set(channelId, calls.set(name, call))
    if (call.signer) signing.add(call.signer)
  }

  /** The call has ended: nothing more is signed for it. */
  function forget(channelId: Hex, name: string): void {
    const calls = open.get(channelId)
    calls?.get(name)?.signer?.close()
    calls?.delete(name)
    if (calls?.size === 0) open.delete(channelId)
  }

  /** Everything that open calls of this channel may be charged. */
  function reserved(state: ChannelState, now: number): bigint {
    let sum = reservedIn(state, now)
    for (const { amount } of open.get(state.channelId)?.values() ?? []) sum += amount
    return sum
  }

  const available = (state: ChannelState, now: number): bigint => {
    const left = state.balance - state.withdrawing - state.charged - reserved(state, now)
    return left > 0n ? left : 0n
  }

  const coversAll = (state: ChannelState, now: number): boolean =>
    state.balance - state.withdrawing - state.charged >= reserved(state, now)

  /** Largest charge of this call. A child has its cap, unless what is being withdrawn leaves less than all caps. */
  function room(state: ChannelState, name: string, now: number): bigint {
    const child = childOf(name)
    if (child === undefined) return available(state, now)
    return coversAll(state, now) ? (childLeft(state, child, now) ?? 0n) : 0n
  }

  const isReserved = (state: ChannelState, name: string, now: number): boolean =>
    (state.reserved?.[name]?.until ?? 0) > now || (openOf(state.channelId, name)?.amount ?? 0n) > 0n

  async function readMirror(channelId: Hex, signal?: AbortSignal): Promise<Mirror | Unavailable> {
    const seen = await reads.view(mirrorCalls(channelId), { lagSeconds, ...(signal && { signal }) })
    if (seen.kind === 'failure') return unavailable(seen.reason)
    return mirrorIn(seen.results) ?? unavailable('the settlement contract does not answer on this network')
  }

  /** The record of a channel that others have funded, made with its first call. */
  async function recorded(
    { channelId, config }: Pick<ReservedCall, 'channelId' | 'config'>,
    { now, signal }: Pick<CallOptions, 'now'> & { readonly signal?: AbortSignal },
  ) {
    const mirror = await readMirror(channelId, signal)
    if ('kind' in mirror) return mirror
    const state = newState({ channelId, config }, mirror, now)
    return (await states.replace(undefined, state, now)) ? state : ((await states.get(channelId, now)) ?? state)
  }

  /** The channel, read again if it is old, or does not cover what is asked for; not again within `everyMs`. */
  async function fresh(
    channelId: Hex,
    { now, signal, everyMs = 0 }: { readonly now: number; readonly signal?: AbortSignal; readonly everyMs?: number },
    covers: (state: ChannelState) => boolean,
  ): Promise<ChannelState | Unavailable | undefined> {
    const state = await states.get(channelId, now)
    const age = state ? now - state.syncedAt : 0
    if (!state || age < everyMs || (age <= freshMs && covers(state))) return state
    const mirror = await readMirror(channelId, signal)
    if ('kind' in mirror) return mirror
    return (await states.mirror(channelId, mirror, now)) ?? withMirror(state, mirror, now)
  }

  async function verify({ channelId, name, price }: ReservedCall, at: CallOptions): Promise<Verdict> {
    const covers = (state: ChannelState) => isReserved(state, name, at.now) || room(state, name, at.now) >= price
    const state = await fresh(channelId, { ...at, everyMs: ORDER_READS_MS }, covers)
    if (!state) return unknownChannel()
    if ('kind' in state) return state
    if (state.charges?.[name] === undefined && !isReserved(state, name, at.now)) {
      const refused = refusal(state, { name, price, now: at.now })
      if (refused) return refused
    }
    const balance = state.balance - state.withdrawing - state.charged
    const valid = { kind: 'valid', balance: usdc(balance > 0n ? balance : 0n), asOf: at.now, block: 0 } as const
    return { ...valid, isSecured: true, isPrepaid: true }
  }

  function refusal(
    state: ChannelState,
    { name, price, now }: Pick<ReservedCall, 'name' | 'price'> & { readonly now: number },
  ): Refused | undefined {
    if (isRefunding(state)) return unfunded(`${BUSY}; ask again when it is done`)
    if (isChild(name) && childrenIn(state, now).length >= MAX_CHILDREN)
      return refusedChannel('PAYMENT_INVALID', 'children', `a key has at most ${MAX_CHILDREN} children at once`)
    const left = room(state, name, now)
    if (left < price && childOf(name) !== undefined) return childNotCovered(left, price)
    return left >= price ? undefined : notCovered(state, { price, reserved: reserved(state, now) })
  }

  /**
   * A voucher covers its own price above what was charged when it was signed. What else its charge must cover nobody
   * could sign then, so it waits; calls that are reserved after it sign for it too.
   */
  function voucherRefusal(state: ChannelState, { name, voucher }: ReservedCall, now: number): Refused | undefined {
    if (!voucher) return undefined
    if (signedIn(state, now) > 0n)
      return busy(state, 'a call of the API key is not collected yet; ask again when it is')
    return name === String(state.charged) ? undefined : outOfStep(voucher.ceiling, state)
  }

  /** Reserves the price, in one compare and set. The ceiling of a call that is charged later is signed here. */
  async function secure(call: ReservedCall, at: CallOptions): Promise<Securing> {
    const { channelId, name, price, isLate, signer } = call
    const again = { ...at, everyMs: ORDER_READS_MS }
    return await inTurn(channelId, async () => {
      for (let race = 0; race < MAX_RACES; race++) {
        const before = await fresh(channelId, again, (state) => room(state, name, at.now) >= price)
        if (!before) return unknownChannel()
        if ('kind' in before) return before
        if (isReserved(before, name, at.now)) return { kind: 'secured' }
        const refused = voucherRefusal(before, call, at.now) ?? refusal(before, { name, price, now: at.now })
        if (refused) return refused
        if (isLate && !storage.isShared && childOf(name) === undefined) {
          note(channelId, name, { amount: price, ...(signer && { signer }) })
          // A refund may have begun since the channel was read; from now on it leaves this call its price.
          const after = await states.get(channelId, at.now)
          if (after && !isRefunding(after) && coversAll(after, at.now)) return { kind: 'secured' }
          open.get(channelId)?.delete(name)
          return unfunded(`${BUSY}; ask again when it is done`)
        }
        const next = await withCall(before, call, at.now)
        if (!(await states.replace(before, next, at.now))) continue
        if (isLate && signer) note(channelId, name, { amount: 0n, signer })
        return { kind: 'secured' }
      }
      return { kind: 'unavailable', reason: 'the record of the channel is changed by others' }
    })
  }

  /** The channel with the reservation of a call, and with a voucher that covers it where it is not signed later. */
  async function withCall(
    before: ChannelState,
    { name, price, until, isLate, voucher, signer }: ReservedCall,
    now: number,
  ): Promise<ChannelState> {
    // The ceiling that was signed for the child covers its calls.
    if (childOf(name) !== undefined) return withChildCall(before, { name, price, until, now })
    const reservation = { amount: String(price), until, ...(!isLate && { isSigned: true as const }) }
    const next = withReservation(before, { name, reservation, now })
    return isLate || voucher ? next : await covering(next, { signer, now })
  }

  /** The channel with a voucher over what is charged, and over what is charged later without a key. */
  async function covering(
    state: ChannelState,
    { signer, voucher, now }: Pick<ReservedCall, 'signer' | 'voucher'> & { readonly now: number },
  ): Promise<ChannelState> {
    const needed = state.charged + signedIn(state, now)
    if (needed <= state.ceiling) return state
    if (voucher && voucher.ceiling >= needed) return withCeiling(state, voucher)
    if (!signer) throw new Error('the vouchers of the channel do not cover the charge')
    return withCeiling(state, {
      ceiling: needed,
      signature: await signer.sign(digests.voucher(state.channelId, needed)),
    })
  }

  type Charging = Omit<SettleOptions, 'signal'> & { readonly due: bigint }

  /** The channel after the charge; a reason where it cannot be charged. */
  async function charged(
    before: ChannelState,
    call: ReservedCall,
    { now, due }: Charging,
  ): Promise<ChannelState | string> {
    const { channelId, name, voucher } = call
    if (!isReserved(before, name, now)) return 'the reservation of the call has ended'
    if (before.charged + due > claimable(before, now)) return `insufficient_balance: the channel has ${before.balance}`
    const rest = { ...withoutCall(before, name, due), usedAt: now }
    const { ceiling, signature } = rest
    const moved = chargedState(rest, { due, ceiling, signature })
    const signer = openOf(channelId, name)?.signer ?? call.signer
    if (moved.charged > moved.ceiling && !signer && !voucher) return 'the process that had the key is gone'
    return await covering(moved, { signer, voucher, now })
  }

  const isFresh = (state: ChannelState, now: number) => now - state.syncedAt <= freshMs

  /** The channel for a charge, read again if it is old or does not cover it. */
  async function chargeable(channelId: Hex, { now, due }: Charging, signal: AbortSignal) {
    return await fresh(channelId, { now, signal }, (state) => state.charged + due <= claimable(state, now))
  }

  async function settle(call: ReservedCall, at: SettleOptions & { readonly due: bigint }): Promise<Settlement> {
    const { channelId, name } = call
    return await inTurn(channelId, async () => {
      for (let race = 0; race < MAX_RACES; race++) {
        const before = await chargeable(channelId, at, at.signal)
        if (!before) return { kind: 'refused', reason: 'the channel is not known' }
        if ('kind' in before) return { kind: 'unknown', reason: before.reason }
        const earlier = before.charges?.[name]
        if (earlier !== undefined)
          return { kind: 'settled', receipt: receiptOf(before, { name, due: BigInt(earlier), now: at.now }) }
        // A refund on its way leaves what is reserved.
        const next = await charged(before, call, at)
        if (typeof next === 'string') return { kind: 'refused', reason: next }
        if (at.signal.aborted) return { kind: 'unknown', reason: 'no time left to settle' }
        const noted = withCharge(next, name, at.due)
        if (!(await states.replace(before, noted, at.now))) continue
        forget(channelId, name)
        return { kind: 'settled', receipt: receiptOf(noted, { name, due: at.due, now: at.now }) }
      }
      return { kind: 'unknown', reason: 'the record of the channel is changed by others' }
    })
  }

  /** The turn of the channel ends with the change, stored or not. */
  async function drawDown(call: ReservedCall, at: Charging): Promise<DrawDown | undefined> {
    const { channelId, name } = call
    const end = await turn(channelId)
    let isMoving = false
    try {
      const before = await states.get(channelId, at.now)
      if (!before || !isFresh(before, at.now)) return undefined
      const next = await charged(before, call, at)
      if (typeof next === 'string') return undefined
      const moving = states.moving(before, next, at.now)
      isMoving = true
      return {
        spent: moving.spent,
        receipt: receiptOf(next, { name, due: at.due, now: at.now, ending: openOf(channelId, name)?.amount }),
        end(isStored) {
          moving.end(isStored)
          if (isStored) forget(channelId, name)
          end()
        },
      }
    } finally {
      if (!isMoving) end()
    }
  }

  async function fate({ channelId, name }: ReservedCall, now: number): Promise<Fate> {
    const state = await states.get(channelId, now)
    const earlier = state?.charges?.[name]
    if (state && earlier !== undefined)
      return { kind: 'paid', receipt: receiptOf(state, { name, due: BigInt(earlier), now }) }
    return state && isReserved(state, name, now) ? { kind: 'open' } : { kind: 'dead' }
  }

  /** Ends the reservation of a call that has failed. */
  async function release(channelId: Hex, name: string, now: number): Promise<void> {
    await inTurn(channelId, async () => {
      forget(channelId, name)
      const state = await states.get(channelId, now)
      if (state?.reserved?.[name]) await states.change(channelId, now, (current) => withoutCall(current, name))
    })
  }

  /** `ending`: part of the reservations that this charge ends, which a record does not know of. */
  function receiptOf(
    state: ChannelState,
    { name, due, now, ending = 0n }: { name: string; due: bigint; now: number; ending?: bigint | undefined },
  ): Receipt {
    const child = childOf(name)
    const left = child === undefined ? available(state, now) + ending : (childLeft(state, child, now) ?? 0n)
    return {
      transaction: '',
      network,
      payer: buyerOf(state),
      amount: String(due),
      block: 0,
      extra: {
        chargedAmount: String(due),
        channelState: channelStateOf(state),
        available: String(left),
      },
    }
  }

  /** Ends a child of a channel, or all of them. Open calls go on. False for one that is not there. */
  async function endChildren(channelId: Hex, now: number, child?: string): Promise<boolean> {
    return await inTurn(channelId, async () => {
      const state = await states.get(channelId, now)
      if (!state || (child === undefined ? childrenIn(state, now).length === 0 : !state.reserved?.[child])) return false
      const without = (current: ChannelState) =>
        child === undefined ? withoutChildren(current) : withoutReservation(current, child)
      return (await states.change(channelId, now, without)) !== undefined
    })
  }

  return {
    verify,
    secure,
    endChildren,
    settle,
    drawDown,
    fate,
    release,
    recorded,
    isSigning: (signer: KeySigner) => signing.has(signer),
    available,
    reserved,
  }
}

export type KeyCalls = ReturnType<typeof keyCalls>

const unfunded = (reason: string): Refused => ({ kind: 'refused', code: 'PAYMENT_UNFUNDED', reason })
const unknownChannel = (): Refused => unfunded('the channel of the key is not known')

function notCovered(
  { balance, charged, withdrawing, withdrawRequestedAt, config }: ChannelState,
  { price, reserved }: { readonly price: bigint; readonly reserved: bigint },
): Refused {
  const left = balance - charged - withdrawing - reserved
  const also = [
    ...(reserved > 0n ? [`${dollarsOf(reserved)} are reserved by calls that are open`] : []),
    ...(withdrawing > 0n
      ? [`${dollarsOf(withdrawing)} are being withdrawn until ${ended(withdrawRequestedAt + config.withdrawDelay)}`]
      : []),
  ]
  const state = `the key has ${dollarsOf(left > 0n ? left : 0n)} left, and the call may cost ${dollarsOf(price)}`
  return unfunded([state, ...also].join('; '))
}

const childNotCovered = (left: bigint, price: bigint): Refused =>
  unfunded(`the child key has ${dollarsOf(left)} left of its cap, and the call may cost ${dollarsOf(price)}`)

const dollarsOf = (amount: bigint): string => {
  const digits = String(amount).padStart(7, '0')
  return `${digits.slice(0, -6)}.${digits.slice(-6)} USDC`
}
const ended = (seconds: number): string => new Date(seconds * 1000).toISOString()
