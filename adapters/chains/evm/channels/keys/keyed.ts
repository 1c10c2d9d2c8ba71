/**
 * The scheme `batch-settlement` with the calls of API keys, which bring no voucher of their own. Vouchers of other
 * clients on the channel of a key are paid out of reservations too: both kinds move it at the same time.
 */
import { checksummed, type Verbs } from '../../../../../core/lib/mod.ts'
import type {
  DrawDown,
  Fate,
  Identity,
  Securing,
  Settlement,
  SettleOptions,
  Verdict,
} from '../../../../../core/ports/mod.ts'
import type { Offer, Payment } from '../../../../../core/x402/mod.ts'
import { BATCH_SETTLEMENT } from '../../node/x402_contracts.ts'
import { lower } from '../../../lib/hex.ts'
import type { CallOptions } from '../../../lib/results.ts'
import type { KeySigner } from './api_key.ts'
import type { ChannelConfig } from '../digests.ts'
import {
  authorizationOf,
  callOfAuthorization,
  keyCallOf,
  type Keyed,
  type KeyedContext,
  keyPayment,
  voucherCallOf,
} from './keyed_calls.ts'
import type { EvmChannels } from '../vouchers.ts'
import type { ReservedCall } from './open_calls.ts'
import { dueOf } from '../payload.ts'
import { busy } from '../refunds/record.ts'
import { buyerOf, signedIn } from '../state.ts'

/** A voucher never expires; a call that is not settled by then never is. */
const LIFE_MS = 30 * 86_400_000
/** How long the reservation of a voucher is kept if nobody ends it. */
const VOUCHER_MS = 86_400_000

export function keyedChannels(context: KeyedContext) {
  const keyed: Keyed = { ...context, made: new WeakMap<Payment, KeySigner | null>(), ids: new WeakMap() }
  const { terms, refund, wrongDepositing, isIdle } = context.channels
  const verbs: Verbs<EvmChannels> = {
    terms,
    refund,
    wrongDepositing,
    isIdle,
    identify: (payment: Payment, offer: Offer, at: CallOptions) => identify(keyed, { payment, offer }, at),
    verify: (payment: Payment, offer: Offer, at: CallOptions) => verify(keyed, { payment, offer }, at),
    secure: (payment: Payment, offer: Offer, at: CallOptions) => secure(keyed, { payment, offer }, at),
    settle: (payment: Payment, offer: Offer, at: SettleOptions) => settle(keyed, { payment, offer }, at),
    drawDown: (payment: Payment, offer: Offer, at: Omit<SettleOptions, 'signal'>) =>
      drawDown(keyed, { payment, offer }, at),
    fate: (payment: Payment, offer: Offer, at: SettleOptions) => fate(keyed, { payment, offer }, at),
  }
  return {
    ...verbs,
    /** The payment of a call by the key of `signer`. */
    payment: (
      paying: { readonly offer: Offer; readonly config: ChannelConfig; readonly signer?: KeySigner },
      call: Pick<ReservedCall, 'name' | 'isLate' | 'until'>,
    ): Payment => keyPayment(keyed, paying, call),
    keyOf: authorizationOf,
    callOf: callOfAuthorization,
  }
}

export type KeyedChannels = ReturnType<typeof keyedChannels>

type Paying = { readonly payment: Payment; readonly offer: Offer }

async function identify(keyed: Keyed, { payment, offer }: Paying, at: CallOptions): Promise<Identity> {
  const call = keyed.made.has(payment) ? keyCallOf(keyed, payment, offer) : undefined
  if (!call) return await keyed.channels.identify(payment, offer, at)
  const state = await keyed.states.get(call.channelId, at.now)
  const { config } = call
  const payer = buyerOf(state ?? { config })
  const [signer, other] = [checksummed(config.payerAuthorizer), checksummed(config.payer)]
  const fundedBy = `${offer.network}/${lower(BATCH_SETTLEMENT)}/${call.channelId}`
  const key = authorizationOf(offer.network, call)
  const addresses = { otherAddress: payer === signer ? other : signer, signer }
  return { kind: 'known', payer, key, expiresAt: at.now + LIFE_MS, fundedBy, ...addresses }
}

async function verify(keyed: Keyed, { payment, offer }: Paying, at: CallOptions): Promise<Verdict> {
  const call = keyCallOf(keyed, payment, offer)
  if (call) return await keyed.calls.verify(call, at)
  const verdict = await keyed.channels.verify(payment, offer, at)
  const voucher = verdict.kind === 'valid' ? voucherCallOf(keyed, payment, offer) : undefined
  const state = voucher && (await keyed.states.get(voucher.channelId, at.now))
  // A call that is charged later without a key needs a voucher over this one too, and nobody could sign it.
  if (!state || !voucher || signedIn(state, at.now) === 0n || state.reserved?.[voucher.name]) return verdict
  return busy(state, 'a call of the API key is not collected yet; ask again when it is')
}

async function secure(keyed: Keyed, { payment, offer }: Paying, at: CallOptions): Promise<Securing> {
  const call = keyCallOf(keyed, payment, offer)
  if (call) return await keyed.calls.secure(call, at)
  const secured = await keyed.channels.secure(payment, offer, at)
  const voucher = secured.kind === 'secured' ? voucherCallOf(keyed, payment, offer) : undefined
  if (!voucher) return secured
  const reserved = await reserve(keyed, voucher, at)
  return reserved.kind === 'secured' ? secured : reserved
}

async function reserve({ states, calls }: Keyed, voucher: ReservedCall, at: CallOptions): Promise<Securing> {
  const state = (await states.get(voucher.channelId, at.now)) ?? (await calls.recorded(voucher, at))
  if ('kind' in state) return state
  return await calls.secure({ ...voucher, until: at.now + VOUCHER_MS }, at)
}

/**
 * A poll may bring a voucher that no order has reserved, or the key of a call whose process was killed between its
 * result and its charge.
 */
async function settle(keyed: Keyed, { payment, offer }: Paying, at: SettleOptions): Promise<Settlement> {
  const { calls, channels, made } = keyed
  const [keyCall, voucher] = [keyCallOf(keyed, payment, offer), voucherCallOf(keyed, payment, offer)]
  const due = dueOf(offer, at.charge)
  const call = keyCall ?? voucher
  if (!call) return await channels.settle(payment, offer, at)
  if ((voucher || made.has(payment)) && (await calls.fate(call, at.now)).kind === 'dead') {
    const reserved = voucher ? await reserve(keyed, voucher, at) : await calls.secure(call, at)
    if (reserved.kind === 'refused') return { kind: 'refused', reason: reserved.reason }
    if (reserved.kind !== 'secured') return { kind: 'unknown', reason: reserved.reason }
  }
  return await calls.settle(call, { ...at, due })
}

const reservedCallOf = (keyed: Keyed, { payment, offer }: Paying): ReservedCall | undefined =>
  keyCallOf(keyed, payment, offer) ?? voucherCallOf(keyed, payment, offer)

async function fate(keyed: Keyed, { payment, offer }: Paying, at: SettleOptions): Promise<Fate> {
  const { calls, channels, states } = keyed
  const call = reservedCallOf(keyed, { payment, offer })
  if (!call) return await channels.fate(payment, offer, at)
  const own = await calls.fate(call, at.now)
  const state = call.voucher && own.kind === 'dead' ? await states.get(call.channelId, at.now) : undefined
  // A voucher that was never used is as good as on any other channel.
  return state && call.name === String(state.charged) ? await channels.fate(payment, offer, at) : own
}

async function drawDown(
  keyed: Keyed,
  { payment, offer }: Paying,
  at: Omit<SettleOptions, 'signal'>,
): Promise<DrawDown | undefined> {
  const call = reservedCallOf(keyed, { payment, offer })
  if (!call) return await keyed.channels.drawDown(payment, offer, at)
  return await keyed.calls.drawDown(call, { ...at, due: dueOf(offer, at.charge) })
}
