/**
 * Calls that are paid out of a reservation in their channel: those of an API key, and the vouchers of other clients on
 * a channel of a key. A charge uses up its reservation, so no call is charged without one, nor twice (decision 151).
 */
import type { SettleOptions } from '../../../../../core/ports/mod.ts'
import type { Hex } from '../../../lib/hex.ts'
import type { CallOptions } from '../../../lib/results.ts'
import { type ChannelState, freshMsOf, withoutReservation } from '../state.ts'
import type { KeySigner } from './api_key.ts'
import { recorded } from './channel_reads.ts'
import { drawDown, fate, settle } from './charge.ts'
import { childrenIn, withoutCall, withoutChildren } from './child_calls.ts'
import {
  available,
  forget,
  inTurn,
  type KeyCalling,
  type KeyCallsConfig,
  type KeyCallsContext,
  noteRecorded,
  present,
  processCallsOf,
  reserved,
  type ReservedCall,
  withdraw,
} from './open_calls.ts'
import { secure, verify } from './reserve.ts'

export function keyCalls(context: KeyCallsContext, config: KeyCallsConfig) {
  const inProcess = processCallsOf(context.storage)
  const keys: KeyCalling = { ...context, ...config, freshMs: freshMsOf(config.withdrawDelay), inProcess }
  return {
    verify: (call: ReservedCall, at: CallOptions) => verify(keys, call, at),
    secure: (call: ReservedCall, at: CallOptions) => secure(keys, call, at),
    settle: (call: ReservedCall, at: SettleOptions & { readonly due: bigint }) => settle(keys, call, at),
    drawDown: (call: ReservedCall, at: Omit<SettleOptions, 'signal'> & { readonly due: bigint }) =>
      drawDown(keys, call, at),
    fate: (call: ReservedCall, now: number) => fate(keys, call, now),
    release: (channelId: Hex, name: string, now: number) => release(keys, { channelId, name }, now),
    endChildren: (channelId: Hex, now: number, child?: string) => endChildren(keys, { channelId, child }, now),
    recorded: (
      channel: Pick<ReservedCall, 'channelId' | 'config'>,
      at: { readonly now: number; readonly signal?: AbortSignal },
    ) => recorded(keys, channel, at),
    isSigning: (signer: KeySigner) => inProcess.signing.has(signer),
    present: (call: Pick<ReservedCall, 'channelId' | 'name'> & { readonly signer: KeySigner }) => present(keys, call),
    withdraw: (signer: KeySigner) => withdraw(keys, signer),
    noteRecorded: (channelId: Hex, name: string) => noteRecorded(keys, channelId, name),
    available: (state: ChannelState, now: number) => available(keys, state, now),
    reserved: (state: ChannelState, now: number) => reserved(keys, state, now),
  }
}

export type KeyCalls = ReturnType<typeof keyCalls>

/** Ends the reservation of a call that has failed. */
async function release(
  keys: KeyCalling,
  { channelId, name }: Pick<ReservedCall, 'channelId' | 'name'>,
  now: number,
): Promise<void> {
  const { states } = keys
  await inTurn(keys, channelId, async () => {
    forget(keys, channelId, name)
    const state = await states.get(channelId, now)
    if (state?.reserved?.[name]) await states.change(channelId, now, (current) => withoutCall(current, name))
  })
}

/** Ends a child of a channel, or all of them. Open calls go on. False for one that is not there. */
async function endChildren(
  keys: KeyCalling,
  { channelId, child }: { readonly channelId: Hex; readonly child: string | undefined },
  now: number,
): Promise<boolean> {
  const { states } = keys
  return await inTurn(keys, channelId, async () => {
    const state = await states.get(channelId, now)
    if (!state || (child === undefined ? childrenIn(state, now).length === 0 : !state.reserved?.[child])) return false
    const without = (current: ChannelState) =>
      child === undefined ? withoutChildren(current) : withoutReservation(current, child)
    return (await states.change(channelId, now, without)) !== undefined
  })
}
