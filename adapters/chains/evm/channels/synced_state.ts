/** The state of a channel as the record and the chain have it together: read again when it is old. */
import type { Unavailable } from '../../../../core/ports/mod.ts'
import type { CallOptions } from '../../lib/results.ts'
import { readMirror } from './mirror.ts'
import type { Channeled } from './payload.ts'
import { unreadClaims, withPublished } from './published.ts'
import type { VoucherScheme } from './scheme.ts'
import { type ChannelState, claimableOf, type Mirror, newState, withMirror } from './state.ts'

export const claimable = (vouchers: VoucherScheme, mirror: Mirror, now: number) =>
  claimableOf(mirror, { now, withdrawDelay: vouchers.config.withdrawDelay })

/** Returns the state of the channel, read again if it is old or if `isStale` says so. */
export async function current(
  vouchers: VoucherScheme,
  parsed: Channeled,
  { now, signal }: CallOptions,
  isStale: (state: ChannelState) => boolean = () => false,
): Promise<ChannelState | Unavailable> {
  const state = await vouchers.states.get(parsed.channelId, now)
  if (state && now - state.syncedAt <= vouchers.freshMs && !isStale(state))
    return await withClaims(vouchers, state, now)
  const mirror = await readMirror(vouchers, parsed.channelId, signal)
  if ('kind' in mirror) return mirror
  // No record is made before money is confirmed and spent.
  return await withClaims(
    vouchers,
    (await vouchers.states.mirror(parsed.channelId, mirror, now)) ?? newState(parsed, mirror, now),
    now,
  )
}

export async function withClaims(
  vouchers: VoucherScheme,
  state: ChannelState,
  now: number,
): Promise<ChannelState | Unavailable> {
  const read = await readClaims(vouchers, state)
  if (read?.kind !== 'read') return read ?? state
  return (await vouchers.states.change(state.channelId, now, read.noted)) ?? read.noted(state)
}

/** Reads vouchers that claims have published, if the record is older than the claims (decision 150). */
async function readClaims(vouchers: VoucherScheme, state: ChannelState) {
  const unread = unreadClaims(state)
  if (!unread) return undefined
  const ceilings = await vouchers.published({ channelId: state.channelId, ...unread })
  if ('kind' in ceilings) return ceilings
  return { kind: 'read', noted: (current: ChannelState) => withPublished(current, ceilings, unread.claimed) } as const
}

export const isFresh = (vouchers: VoucherScheme, state: ChannelState, now: number): boolean =>
  now - state.syncedAt <= vouchers.freshMs

/** Returns the state of the channel, read again if it is old or does not cover the charge. */
export async function chargeable(
  vouchers: VoucherScheme,
  parsed: Channeled,
  before: ChannelState | undefined,
  { now, signal, due }: CallOptions & { readonly due: bigint },
): Promise<ChannelState | Unavailable> {
  if (before && isFresh(vouchers, before, now) && before.charged + due <= claimable(vouchers, before, now))
    return before
  const mirror = await readMirror(vouchers, parsed.channelId, signal)
  if ('kind' in mirror) return mirror
  const state = before ? withMirror(before, mirror, now) : newState(parsed, mirror, now)
  const read = await readClaims(vouchers, state)
  return read?.kind === 'read' ? read.noted(state) : (read ?? state)
}
