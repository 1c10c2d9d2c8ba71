/** Reads the channel of a key: its record, and its state on chain where the record is old or covers too little. */
import type { Unavailable } from '../../../../../core/ports/mod.ts'
import type { Hex } from '../../../lib/hex.ts'
import { readMirror } from '../mirror.ts'
import { type ChannelState, newState, withMirror } from '../state.ts'
import type { KeyCalling, ReservedCall } from './open_calls.ts'

type ReadOptions = { readonly now: number; readonly signal?: AbortSignal }

/** The record of a channel that others have funded, made with its first call. */
export async function recorded(
  keys: KeyCalling,
  { channelId, config }: Pick<ReservedCall, 'channelId' | 'config'>,
  { now, signal }: ReadOptions,
): Promise<ChannelState | Unavailable> {
  const { states } = keys
  const mirror = await readMirror(keys, channelId, signal)
  if ('kind' in mirror) return mirror
  const state = newState({ channelId, config }, mirror, now)
  return (await states.replace(undefined, state, now)) ? state : ((await states.get(channelId, now)) ?? state)
}

/** The channel, read again if it is old, or does not cover what is asked for; not again within `everyMs`. */
export async function fresh(
  keys: KeyCalling,
  { channelId, covers }: { readonly channelId: Hex; readonly covers: (state: ChannelState) => boolean },
  { now, signal, everyMs = 0 }: ReadOptions & { readonly everyMs?: number },
): Promise<ChannelState | Unavailable | undefined> {
  const { states, freshMs } = keys
  const state = await states.get(channelId, now)
  const age = state ? now - state.syncedAt : 0
  if (!state || age < everyMs || (age <= freshMs && covers(state))) return state
  const mirror = await readMirror(keys, channelId, signal)
  if ('kind' in mirror) return mirror
  return (await states.mirror(channelId, mirror, now)) ?? withMirror(state, mirror, now)
}
