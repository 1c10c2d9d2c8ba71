/** Which payments are calls of keys, and how their payloads and authorizations are written. */
import { type Static, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { type Offer, parseAtomic, type Payment } from '../../../../../core/x402/mod.ts'
import { type Hex, lower } from '../../../lib/hex.ts'
import { BATCH_SETTLEMENT } from '../../node/x402_contracts.ts'
import type { ChannelConfig, ChannelDigests } from '../digests.ts'
import type { EvmChannels } from '../vouchers.ts'
import { parseChanneled } from '../payload.ts'
import type { ChannelStates } from '../records.ts'
import type { KeySigner } from './api_key.ts'
import type { KeyCalls } from './calls.ts'
import { isKeyChannel } from './key_index.ts'
import type { ReservedCall } from './open_calls.ts'

export type KeyedContext = {
  readonly channels: EvmChannels
  readonly calls: KeyCalls
  readonly states: ChannelStates
  readonly digests: ChannelDigests
  /** False: no new call of a key is taken, and vouchers are paid as on every channel. */
  readonly takesKeys: boolean
}

/** State of `keyedChannels`. */
export type Keyed = KeyedContext & {
  /** Payments that this process has made, with the key that pays; null for a child, which signs nothing. */
  readonly made: WeakMap<Payment, KeySigner | null>
  /** Hashing a config costs 20 us, and a call is asked about several times. */
  readonly ids: WeakMap<ChannelConfig, Hex>
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

/** The payment of a call by the key of `signer`. */
export function keyPayment(
  { made }: Pick<Keyed, 'made'>,
  { offer, config, signer }: { readonly offer: Offer; readonly config: ChannelConfig; readonly signer?: KeySigner },
  { name, isLate, until }: Pick<ReservedCall, 'name' | 'isLate' | 'until'>,
): Payment {
  const payload = { type: 'key', channelConfig: config, call: name, isLate, until }
  const payment: Payment = { x402Version: 2, accepted: offer, payload }
  made.set(payment, signer ?? null)
  return payment
}

/** The call of a key; undefined for every other payment. */
export function keyCallOf(
  { digests, made, ids }: Pick<Keyed, 'digests' | 'made' | 'ids'>,
  payment: Payment,
  offer: Offer,
): ReservedCall | undefined {
  const { payload } = payment
  if (payload.type !== 'key' || !isKeyPayload.Check(payload)) return undefined
  const { call, isLate, until } = payload as Static<typeof KeyPayload>
  const config = payload.channelConfig as ChannelConfig
  const signer = made.get(payment)
  const channelId = ids.get(config) ?? digests.channelId(config)
  ids.set(config, channelId)
  const common = { channelId, config, name: call, isLate, until }
  return { ...common, price: parseAtomic(offer.amount) ?? 0n, ...(signer && { signer }) }
}

/** The voucher of another client on the channel of a key; undefined for every other payment. */
export function voucherCallOf(
  { digests, takesKeys }: Pick<Keyed, 'digests' | 'takesKeys'>,
  payment: Payment,
  offer: Offer,
): ReservedCall | undefined {
  if (!takesKeys || !isOnKeyChannel(payment)) return undefined
  const parsed = parseChanneled(payment, offer, digests)
  if (parsed.kind === 'refused' || !isKeyChannel(parsed.config)) return undefined
  const { channelId, config, base, ceiling, signature } = parsed
  const voucher = { ceiling, signature }
  const price = parseAtomic(offer.amount) ?? 0n
  return { channelId, config, name: String(base), price, until: Number.MAX_SAFE_INTEGER, isLate: false, voucher }
}

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

/** Authorization of a call, by which the ledger knows it. */
export const authorizationOf = (
  network: string,
  { channelId, name }: Pick<ReservedCall, 'channelId' | 'name'>,
): string => `${network}/${lower(BATCH_SETTLEMENT)}/${channelId}/${name}`

/** The call of an authorization; undefined for one of another scheme or network. */
export function callOfAuthorization(
  network: string,
  authorization: string,
): Pick<ReservedCall, 'channelId' | 'name'> | undefined {
  const start = `${network}/${lower(BATCH_SETTLEMENT)}/`
  const [channelId = '', ...rest] = authorization.startsWith(start) ? authorization.slice(start.length).split('/') : []
  return channelId === '' ? undefined : { channelId: channelId as Hex, name: rest.join('/') }
}
