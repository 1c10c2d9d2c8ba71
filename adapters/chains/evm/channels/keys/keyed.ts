/**
 * The scheme `batch-settlement` with the calls of API keys, which bring no voucher of their own. Vouchers of other
 * clients on the channel of a key are paid out of reservations too: both kinds move it at the same time.
 */
import { type Static, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { checksummed, type Verbs } from '../../../../../core/lib/mod.ts'
import type { Fate, Identity, Securing, Settlement, SettleOptions, Verdict } from '../../../../../core/ports/mod.ts'
import { parseAtomic } from '../../../../../core/x402/mod.ts'
import type { Offer, Payment } from '../../../../../core/x402/mod.ts'
import { BATCH_SETTLEMENT } from '../../node/x402_contracts.ts'
import { type Hex, lower } from '../../../lib/hex.ts'
import type { CallOptions } from '../../../lib/results.ts'
import type { KeySigner } from './api_key.ts'
import type { ChannelConfig, ChannelDigests } from '../digests.ts'
import type { KeyCalls, ReservedCall } from './calls.ts'
import { isKeyChannel } from './key_index.ts'
import type { EvmChannels } from '../mod.ts'
import { dueOf, parseChanneled } from '../payload.ts'
import { busy } from '../refunds.ts'
import { buyerOf, type ChannelStates, signedIn } from '../state.ts'

export type KeyedContext = {
  readonly channels: EvmChannels
  readonly calls: KeyCalls
  readonly states: ChannelStates
  readonly digests: ChannelDigests
  /** False: no new call of a key is taken, and vouchers are paid as on every channel. */
  readonly takesKeys: boolean
}

/** The gateway's own payload in place of a voucher. It comes from this process and from storage, not from callers. */
const KeyPayload = Type.Object({
  type: Type.Literal('key'),
  channelConfig: Type.Unknown(),
  call: Type.String(),
  isLate: Type.Boolean(),
  until: Type.Integer(),
})
const isKeyPayload = TypeCompiler.Compile(KeyPayload)

/** A voucher never expires; a call that is not settled by then never is. */
const LIFE_MS = 30 * 86_400_000
/** How long the reservation of a voucher is kept if nobody ends it. */
const VOUCHER_MS = 86_400_000

export function keyedChannels({ channels, calls, states, digests, takesKeys }: KeyedContext) {
  /** Payments that this process has made, with the key that pays; null for a child, which signs nothing. */
  const made = new WeakMap<Payment, KeySigner | null>()

  const keyOf = (network: string, { channelId, name }: Pick<ReservedCall, 'channelId' | 'name'>): string =>
    `${network}/${lower(BATCH_SETTLEMENT)}/${channelId}/${name}`

  /** The call of a key; undefined for every other payment. */
  function keyCallOf(payment: Payment, offer: Offer): ReservedCall | undefined {
    const { payload } = payment
    if (payload.type !== 'key' || !isKeyPayload.Check(payload)) return undefined
    const { call, isLate, until } = payload as Static<typeof KeyPayload>
    const config = payload.channelConfig as ChannelConfig
    const signer = made.get(payment)
    const common = { channelId: digests.channelId(config), config, name: call, isLate, until }
    return { ...common, price: parseAtomic(offer.amount) ?? 0n, ...(signer && { signer }) }
  }

  /** The voucher of another client on the channel of a key; undefined for every other payment. */
  function voucherCallOf(payment: Payment, offer: Offer): ReservedCall | undefined {
    if (!takesKeys || !isOnKeyChannel(payment)) return undefined
    const parsed = parseChanneled(payment, offer, digests)
    if (parsed.kind === 'refused' || !isKeyChannel(parsed.config)) return undefined
    const { channelId, config, base, ceiling, signature } = parsed
    const voucher = { ceiling, signature }
    const price = parseAtomic(offer.amount) ?? 0n
    return { channelId, config, name: String(base), price, until: Number.MAX_SAFE_INTEGER, isLate: false, voucher }
  }

  const reservedCallOf = (payment: Payment, offer: Offer) => keyCallOf(payment, offer) ?? voucherCallOf(payment, offer)

  async function identify(payment: Payment, offer: Offer, at: CallOptions): Promise<Identity> {
    const call = made.has(payment) ? keyCallOf(payment, offer) : undefined
    if (!call) return await channels.identify(payment, offer, at)
    const state = await states.get(call.channelId, at.now)
    const { config } = call
    const payer = buyerOf(state ?? { config })
    const [signer, other] = [checksummed(config.payerAuthorizer), checksummed(config.payer)]
    const fundedBy = `${offer.network}/${lower(BATCH_SETTLEMENT)}/${call.channelId}`
    const key = keyOf(offer.network, call)
    const addresses = { otherAddress: payer === signer ? other : signer, signer }
    return { kind: 'known', payer, key, expiresAt: at.now + LIFE_MS, fundedBy, ...addresses }
  }

  async function verify(payment: Payment, offer: Offer, at: CallOptions): Promise<Verdict> {
    const call = keyCallOf(payment, offer)
    if (call) return await calls.verify(call, at)
    const verdict = await channels.verify(payment, offer, at)
    const voucher = verdict.kind === 'valid' ? voucherCallOf(payment, offer) : undefined
    const state = voucher && (await states.get(voucher.channelId, at.now))
    // A call that is charged later without a key needs a voucher over this one too, and nobody could sign it.
    if (!state || !voucher || signedIn(state, at.now) === 0n || state.reserved?.[voucher.name]) return verdict
    return busy(state, 'a call of the API key is not collected yet; ask again when it is')
  }

  async function secure(payment: Payment, offer: Offer, at: CallOptions): Promise<Securing> {
    const call = keyCallOf(payment, offer)
    if (call) return await calls.secure(call, at)
    const secured = await channels.secure(payment, offer, at)
    const voucher = secured.kind === 'secured' ? voucherCallOf(payment, offer) : undefined
    if (!voucher) return secured
    const reserved = await reserve(voucher, at)
    return reserved.kind === 'secured' ? secured : reserved
  }

  async function reserve(voucher: ReservedCall, at: CallOptions): Promise<Securing> {
    const state = (await states.get(voucher.channelId, at.now)) ?? (await calls.recorded(voucher, at))
    if ('kind' in state) return state
    return await calls.secure({ ...voucher, until: at.now + VOUCHER_MS }, at)
  }

  /** A poll may bring a voucher that no order has reserved. */
  async function settle(payment: Payment, offer: Offer, at: SettleOptions): Promise<Settlement> {
    const [keyCall, voucher] = [keyCallOf(payment, offer), voucherCallOf(payment, offer)]
    const due = dueOf(offer, at.charge)
    if (keyCall) return await calls.settle(keyCall, { ...at, due })
    if (!voucher) return await channels.settle(payment, offer, at)
    if ((await calls.fate(voucher, at.now)).kind === 'dead') {
      const reserved = await reserve(voucher, at)
      if (reserved.kind === 'refused') return { kind: 'refused', reason: reserved.reason }
      if (reserved.kind !== 'secured') return { kind: 'unknown', reason: reserved.reason }
    }
    return await calls.settle(voucher, { ...at, due })
  }

  async function fate(payment: Payment, offer: Offer, at: SettleOptions): Promise<Fate> {
    const call = reservedCallOf(payment, offer)
    if (!call) return await channels.fate(payment, offer, at)
    const own = await calls.fate(call, at.now)
    const state = call.voucher && own.kind === 'dead' ? await states.get(call.channelId, at.now) : undefined
    // A voucher that was never used is as good as on any other channel.
    return state && call.name === String(state.charged) ? await channels.fate(payment, offer, at) : own
  }

  const verbs: Verbs<EvmChannels> = {
    terms: channels.terms,
    refund: channels.refund,
    wrongDepositing: channels.wrongDepositing,
    isIdle: channels.isIdle,
    identify,
    verify,
    secure,
    settle,
    async drawDown(payment: Payment, offer: Offer, at: Omit<SettleOptions, 'signal'>) {
      const call = reservedCallOf(payment, offer)
      if (!call) return await channels.drawDown(payment, offer, at)
      return await calls.drawDown(call, { ...at, due: dueOf(offer, at.charge) })
    },
    fate,
  }
  return {
    ...verbs,
    /** The payment of a call by the key of `signer`. */
    payment(
      { offer, config, signer }: { readonly offer: Offer; readonly config: ChannelConfig; readonly signer?: KeySigner },
      { name, isLate, until }: Pick<ReservedCall, 'name' | 'isLate' | 'until'>,
    ): Payment {
      const payload = { type: 'key', channelConfig: config, call: name, isLate, until }
      const payment: Payment = { x402Version: 2, accepted: offer, payload }
      made.set(payment, signer ?? null)
      return payment
    },
    keyOf,
    /** The call of an authorization, by its key. */
    callOf(network: string, key: string): { readonly channelId: Hex; readonly name: string } | undefined {
      const start = `${network}/${lower(BATCH_SETTLEMENT)}/`
      const [channelId = '', ...rest] = key.startsWith(start) ? key.slice(start.length).split('/') : []
      return channelId === '' ? undefined : { channelId: channelId as Hex, name: rest.join('/') }
    },
  }
}

export type KeyedChannels = ReturnType<typeof keyedChannels>

/** Cheap: most payments are of channels that no key has. */
function isOnKeyChannel({ payload }: Payment): boolean {
  const config = payload.channelConfig as Partial<ChannelConfig> | undefined
  if (typeof config?.salt !== 'string' || typeof config.payerAuthorizer !== 'string') return false
  return isKeyChannel({
    ...config,
    salt: lower(config.salt),
    payerAuthorizer: lower(config.payerAuthorizer),
  } as ChannelConfig)
}
