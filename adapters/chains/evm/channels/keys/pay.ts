/** Makes the payment of an order by a key: from which of its channels, and with what name. */
import type { KeyOrder, KeyPayment, OpenedKey } from '../../../../../core/ports/mod.ts'
import { type Offer, parseAtomic } from '../../../../../core/x402/mod.ts'
import type { CallOptions } from '../../../lib/results.ts'
import { childLeft, childName } from './child_calls.ts'
import { isOurs, type KeyParts, type Opened, statesOf } from './key_channels.ts'

/** How long the reservation of a result that is paid for again lasts, in milliseconds. */
const AGAIN_MS = 60_000

export async function pay(
  parts: KeyParts,
  { key, order }: { readonly key: OpenedKey; readonly order: KeyOrder },
  at: CallOptions,
): Promise<KeyPayment | undefined> {
  const { calls, channels } = parts
  const offer = order.offers.find((each) => isOurs(parts, each))
  if (key.isChild) return offer && (await payAsChild(parts, { address: key.address, order, offer }, at))
  const found = await statesOf(parts, key.address, at.now)
  const price = parseAtomic(offer?.amount ?? '0') ?? 0n
  const state = found.find((each) => calls.available(each, at.now) >= price) ?? found[0]
  if (!offer || !state) return undefined
  const { signer } = key as Opened
  const named = { name: `key/${order.name}`, isLate: order.isLate, until: order.until }
  return { kind: 'payment', payment: channels.payment({ offer, config: state.config, signer }, named), offer }
}

/** The voucher of a child's calls was signed with its cap, so nothing is signed with its key. */
async function payAsChild(
  { children, states, channels }: KeyParts,
  { address, order, offer }: { readonly address: string; readonly order: KeyOrder; readonly offer: Offer },
  { now }: CallOptions,
): Promise<KeyPayment | undefined> {
  const child = await children.find(address, now)
  const state = child && (await states.get(child.channelId, now))
  if (!state || childLeft(state, childName(address), now) === undefined) return undefined
  const named = { name: `${childName(address)}/${order.name}`, isLate: false, until: order.until }
  return { kind: 'payment', payment: channels.payment({ offer, config: state.config }, named), offer }
}

/** The payment of an earlier call of this key; undefined for one of another key. */
export async function payAgain(
  { network, calls, channels, states }: KeyParts,
  { key, authorization, offer }: { readonly key: OpenedKey; readonly authorization: string; readonly offer: Offer },
  { now }: CallOptions,
): Promise<KeyPayment | undefined> {
  const call = channels.callOf(network, authorization)
  const isOwn = call?.name.startsWith(key.isChild ? `${childName(key.address)}/` : 'key/')
  const state = call && isOwn ? await states.get(call.channelId, now) : undefined
  if (!call || !state || (!key.isChild && state.config.payerAuthorizer !== key.address)) return undefined
  const { signer } = key as Opened
  if (!key.isChild) calls.present({ ...call, signer })
  const named = { name: call.name, isLate: false, until: now + AGAIN_MS }
  const paying = { offer, config: state.config, ...(!key.isChild && { signer }) }
  return { kind: 'payment', payment: channels.payment(paying, named), offer }
}
