/** Vouchers that the gateway signs with a key that it was given (decision 151). */
import { type ChannelState, signedIn, withCeiling } from '../state.ts'
import type { KeyCalling, ReservedCall } from './open_calls.ts'

/** The channel with a voucher over what is charged, and over what is charged later without a key. */
export async function covering(
  { digests }: Pick<KeyCalling, 'digests'>,
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
