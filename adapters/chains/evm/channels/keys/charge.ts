/** Charges a call out of its reservation, which the charge uses up: no call is charged without one, nor twice. */
import type { DrawDown, Fate, Settlement, SettleOptions } from '../../../../../core/ports/mod.ts'
import type { Receipt } from '../../../../../core/x402/mod.ts'
import { buyerOf, chargedState, channelStateOf, type ChannelState, withCharge } from '../state.ts'
import { fresh } from './channel_reads.ts'
import { childLeft, childOf, withoutCall } from './child_calls.ts'
import { covering } from './covering.ts'
import {
  available,
  claimable,
  forget,
  inTurn,
  isRecorded,
  isReserved,
  type KeyCalling,
  MAX_RACES,
  openOf,
  presented,
  type ReservedCall,
  suspend,
  turn,
} from './open_calls.ts'

type Charging = Omit<SettleOptions, 'signal'> & { readonly due: bigint }

/** The channel after the charge; a reason where it cannot be charged. */
async function charged(
  keys: KeyCalling,
  before: ChannelState,
  { call, now, due }: Pick<Charging, 'now' | 'due'> & { readonly call: ReservedCall },
): Promise<ChannelState | string> {
  const { channelId, name, voucher } = call
  if (!isReserved(keys, before, { name, now })) return 'the reservation of the call has ended'
  if (before.charged + due > claimable(keys, before, now))
    return `insufficient_balance: the channel has ${before.balance}`
  const rest = { ...withoutCall(before, name, due), usedAt: now }
  const { ceiling, signature } = rest
  const moved = chargedState(rest, { due, ceiling, signature })
  const signer = openOf(keys, channelId, name)?.signer ?? call.signer ?? presented(keys, channelId, name)
  if (moved.charged > moved.ceiling && !signer && !voucher) return 'the process that had the key is gone'
  return await covering(keys, moved, { signer, voucher, now })
}

export async function settle(
  keys: KeyCalling,
  call: ReservedCall,
  at: SettleOptions & { readonly due: bigint },
): Promise<Settlement> {
  return await inTurn(keys, call.channelId, async () => {
    for (let race = 0; race < MAX_RACES; race++) {
      const settlement = await settleOnce(keys, call, at)
      if (settlement) return settlement
    }
    return { kind: 'unknown', reason: 'the record of the channel is changed by others' }
  })
}

/** Undefined where the channel has changed meanwhile. */
async function settleOnce(
  keys: KeyCalling,
  call: ReservedCall,
  { now, due, signal }: SettleOptions & { readonly due: bigint },
): Promise<Settlement | undefined> {
  const { channelId, name } = call
  const covers = (state: ChannelState) => state.charged + due <= claimable(keys, state, now)
  const before = await fresh(keys, { channelId, covers }, { now, signal })
  if (!before) return { kind: 'refused', reason: 'the channel is not known' }
  if ('kind' in before) return { kind: 'unknown', reason: before.reason }
  const earlier = before.charges?.[name]
  if (earlier !== undefined)
    return { kind: 'settled', receipt: receiptOf(keys, before, { name, due: BigInt(earlier), now }) }
  // A refund on its way leaves what is reserved.
  const next = await charged(keys, before, { call, now, due })
  if (typeof next === 'string') return { kind: 'refused', reason: next }
  if (signal.aborted) return { kind: 'unknown', reason: 'no time left to settle' }
  const noted = withCharge(next, { name, due, isRecorded: (each) => isRecorded(keys, channelId, each) })
  if (!(await keys.states.replace(before, noted, now))) return undefined
  forget(keys, channelId, name)
  return { kind: 'settled', receipt: receiptOf(keys, noted, { name, due, now }) }
}

/**
 * The turn of the channel ends with the change, stored or not. Alone, it ends at once: the next charge begins from this
 * one, and both are stored together, or this call has its reservation again.
 */
export async function drawDown(
  keys: KeyCalling,
  call: ReservedCall,
  { now, due }: Charging,
): Promise<DrawDown | undefined> {
  const { channelId, name } = call
  const { states, freshMs } = keys
  const end = await turn(keys, channelId)
  let isMoving = false
  try {
    const before = await states.get(channelId, now)
    if (!before || now - before.syncedAt > freshMs) return undefined
    const next = await charged(keys, before, { call, now, due })
    if (typeof next === 'string') return undefined
    const advancing = states.advancing(before, next, now)
    if (advancing) {
      const giveBack = suspend(keys, next, name)
      return {
        spent: advancing.spent,
        receipt: receiptOf(keys, next, { name, due, now }),
        end(isStored) {
          advancing.end(isStored)
          if (isStored) forget(keys, channelId, name)
          else giveBack()
        },
      }
    }
    const moving = states.moving(before, next, now)
    isMoving = true
    return {
      spent: moving.spent,
      receipt: receiptOf(keys, next, { name, due, now }),
      end(isStored) {
        moving.end(isStored)
        if (isStored) forget(keys, channelId, name)
        end()
      },
    }
  } finally {
    if (!isMoving) end()
  }
}

export async function fate(keys: KeyCalling, { channelId, name }: ReservedCall, now: number): Promise<Fate> {
  const state = await keys.states.get(channelId, now)
  const earlier = state?.charges?.[name]
  if (state && earlier !== undefined)
    return { kind: 'paid', receipt: receiptOf(keys, state, { name, due: BigInt(earlier), now }) }
  return state && isReserved(keys, state, { name, now }) ? { kind: 'open' } : { kind: 'dead' }
}

function receiptOf(
  keys: KeyCalling,
  state: ChannelState,
  { name, due, now }: { readonly name: string; readonly due: bigint; readonly now: number },
): Receipt {
  const child = childOf(name)
  const own = available(keys, state, now)
  const left = child === undefined ? own : (childLeft(state, child, now) ?? 0n)
  return {
    transaction: '',
    network: keys.network,
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
