/** Admits a call: its price is reserved in its channel, in one compare and set. */
import type { Refused, Securing, Unavailable, Verdict } from '../../../../../core/ports/mod.ts'
import { usdc } from '../../../../../core/x402/mod.ts'
import type { CallOptions } from '../../../lib/results.ts'
import { outOfStep, refusedChannel } from '../payload.ts'
import { BUSY, busy } from '../refunds/record.ts'
import { type ChannelState, isRefunding, signedIn, withReservation } from '../state.ts'
import { fresh } from './channel_reads.ts'
import { childOf, childrenIn, isChild, MAX_CHILDREN, withChildCall } from './child_calls.ts'
import { covering } from './covering.ts'
import {
  coversAll,
  isReserved,
  type KeyCalling,
  MAX_RACES,
  note,
  openOf,
  reserved,
  type ReservedCall,
  room,
  turn,
} from './open_calls.ts'

/** Orders that nothing covers make the gateway read their channel so often, in milliseconds, whoever sends them. */
const ORDER_READS_MS = 3_000

export async function verify(keys: KeyCalling, call: ReservedCall, at: CallOptions): Promise<Verdict> {
  const { channelId, name, price } = call
  const called = { name, now: at.now }
  const covers = (state: ChannelState) => isReserved(keys, state, called) || room(keys, state, called) >= price
  const state = await fresh(keys, { channelId, covers }, { ...at, everyMs: ORDER_READS_MS })
  if (!state) return unknownChannel()
  if ('kind' in state) return state
  if (state.charges?.[name] === undefined && !isReserved(keys, state, called)) {
    const refused = openOf(keys, channelId, name)
      ? await reservedAgain(keys, call, at)
      : refusal(keys, state, { name, price, now: at.now })
    if (refused) return refused
  }
  const balance = state.balance - state.withdrawing - state.charged
  const valid = { kind: 'valid', balance: usdc(balance > 0n ? balance : 0n), asOf: at.now, block: 0 } as const
  // Whether its money is still there is seen when it is reserved.
  return { ...valid, isSecured: true, isPrepaid: true, holds: async () => true }
}

/** This process stood still until another one took the call for lost, and gave its price back to the key. */
async function reservedAgain(
  keys: KeyCalling,
  call: ReservedCall,
  at: CallOptions,
): Promise<Refused | Unavailable | undefined> {
  if (call.until <= at.now) return unfunded('the reservation of the call has ended')
  const securing = await secure(keys, call, at)
  if (securing.kind === 'secured') return undefined
  return securing.kind === 'refused' ? securing : { kind: 'unavailable', reason: securing.reason }
}

/** Reserves the price. The ceiling of a call that is charged later is signed here. */
export async function secure(keys: KeyCalling, call: ReservedCall, at: CallOptions): Promise<Securing> {
  const end = await turn(keys, call.channelId)
  try {
    for (let race = 0; race < MAX_RACES; race++) {
      const securing = await reserve(keys, call, at)
      if (securing) return securing
    }
    return { kind: 'unavailable', reason: 'the record of the channel is changed by others' }
  } finally {
    end()
  }
}

/** Undefined where the channel has changed meanwhile. */
async function reserve(keys: KeyCalling, call: ReservedCall, at: CallOptions): Promise<Securing | undefined> {
  const { channelId, name, price, isLate, signer } = call
  const { now } = at
  const covers = (state: ChannelState) => room(keys, state, { name, now }) >= price
  const before = await fresh(keys, { channelId, covers }, { ...at, everyMs: ORDER_READS_MS })
  if (!before) return unknownChannel()
  if ('kind' in before) return before
  if (isReserved(keys, before, { name, now })) return { kind: 'secured' }
  const refused = voucherRefusal(before, call, now) ?? refusal(keys, before, { name, price, now })
  if (refused) return refused
  if (isLate && !keys.storage.isShared && childOf(name) === undefined) return await reserveInProcess(keys, call, now)
  const next = await withCall(keys, before, { call, now })
  if (!(await keys.states.replace(before, next, now))) return undefined
  if (isLate && signer) note(keys, call, 0n)
  return { kind: 'secured' }
}

async function reserveInProcess(keys: KeyCalling, call: ReservedCall, now: number): Promise<Securing> {
  const { channelId, name, price } = call
  note(keys, call, price)
  // A refund may have begun since the channel was read; from now on it leaves this call its price.
  const after = await keys.states.get(channelId, now)
  if (after && !isRefunding(after) && coversAll(keys, after, now)) return { kind: 'secured' }
  keys.inProcess.open.get(channelId)?.delete(name)
  return unfunded(`${BUSY}; ask again when it is done`)
}

/** The channel with the reservation of a call, and with a voucher that covers it where it is not signed later. */
async function withCall(
  keys: KeyCalling,
  before: ChannelState,
  { call, now }: { readonly call: ReservedCall; readonly now: number },
): Promise<ChannelState> {
  const { name, price, until, isLate, voucher, signer } = call
  // The ceiling that was signed for the child covers its calls.
  if (childOf(name) !== undefined) return withChildCall(before, { name, price, until, now })
  const reservation = { amount: String(price), until, ...(!isLate && { isSigned: true as const }) }
  const next = withReservation(before, { name, reservation, now })
  return isLate || voucher ? next : await covering(keys, next, { signer, now })
}

/**
 * A voucher covers its own price above what was charged when it was signed. What else its charge must cover nobody
 * could sign then, so it waits; calls that are reserved after it sign for it too.
 */
function voucherRefusal(state: ChannelState, { name, voucher }: ReservedCall, now: number): Refused | undefined {
  if (!voucher) return undefined
  if (signedIn(state, now) > 0n) return busy(state, 'a call of the API key is not collected yet; ask again when it is')
  return name === String(state.charged) ? undefined : outOfStep(voucher.ceiling, state)
}

function refusal(
  keys: KeyCalling,
  state: ChannelState,
  { name, price, now }: Pick<ReservedCall, 'name' | 'price'> & { readonly now: number },
): Refused | undefined {
  if (isRefunding(state)) return unfunded(`${BUSY}; ask again when it is done`)
  if (isChild(name) && childrenIn(state, now).length >= MAX_CHILDREN)
    return refusedChannel('PAYMENT_INVALID', 'children', `a key has at most ${MAX_CHILDREN} children at once`)
  if (childOf(name) !== undefined && state.ceiling < state.charged + signedIn(state, now)) return childNotSigned()
  const left = room(keys, state, { name, now })
  if (left < price && childOf(name) !== undefined) return childNotCovered(left, price)
  return left >= price ? undefined : notCovered(state, { price, reserved: reserved(keys, state, now) })
}

const unfunded = (reason: string): Refused => ({ kind: 'refused', code: 'PAYMENT_UNFUNDED', reason })
const unknownChannel = (): Refused => unfunded('the channel of the key is not known')

function notCovered(
  { balance, charged, withdrawing, withdrawRequestedAt, config, closing }: ChannelState,
  { price, reserved }: { readonly price: bigint; readonly reserved: bigint },
): Refused {
  const left = closing ? 0n : balance - charged - withdrawing - reserved
  const also = [
    ...(reserved > 0n ? [`${dollarsOf(reserved)} are reserved by calls that are open`] : []),
    ...(withdrawing > 0n
      ? [`${dollarsOf(withdrawing)} are being withdrawn until ${ended(withdrawRequestedAt + config.withdrawDelay)}`]
      : []),
    ...(closing ? ['it was closed, so what open calls leave goes back to its payer; deposit again to use it'] : []),
  ]
  const state = `the key has ${dollarsOf(left > 0n ? left : 0n)} left, and the call may cost ${dollarsOf(price)}`
  return unfunded([state, ...also].join('; '))
}

const childNotCovered = (left: bigint, price: bigint): Refused =>
  unfunded(`the child key has ${dollarsOf(left)} left of its cap, and the call may cost ${dollarsOf(price)}`)

/** The record is of a backup that is older than the last claim: nobody but the parent can sign for the caps again. */
const childNotSigned = (): Refused =>
  unfunded(
    'the gateway has restored a backup without a voucher for the child key; it buys again once its parent has made a call',
  )

const dollarsOf = (amount: bigint): string => {
  const digits = String(amount).padStart(7, '0')
  return `${digits.slice(0, -6)}.${digits.slice(-6)} USDC`
}
const ended = (seconds: number): string => new Date(seconds * 1000).toISOString()
