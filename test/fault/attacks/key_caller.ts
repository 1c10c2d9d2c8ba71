/** API keys as their owners use them: made, funded, and sent with requests. */
import { toHex } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { lower } from '../../../adapters/chains/lib/hex.ts'
import { keySalt, keyText, privateKeyOf } from '../../../core/x402/api_key.ts'
import type { Offer, Payment } from '../../../core/x402/protocol.ts'
import { channelOf, signDeposit } from '../../conformance/schemes/signers.ts'
import { type Answer, post, walletWith } from './caller.ts'
import type { Target } from './target.ts'

const DEPOSIT = 2_000_000n
export const KEYS = '/api/v1/keys'

export type Key = { readonly text: string; readonly account: PrivateKeyAccount }

export function newKey(): Key {
  const seed = crypto.getRandomValues(new Uint8Array(32))
  return { text: keyText(seed, 'test'), account: privateKeyToAccount(toHex(privateKeyOf(seed))) }
}

export type Asking = { readonly path: string; readonly key: Key; readonly body?: unknown }

/** A request with a key, each from an address of its own. */
let requests = 0
export async function ask(target: Target, { path, key, body }: Asking): Promise<Answer> {
  const ip = `203.0.${100 + Math.floor(requests / 250)}.${(requests++ % 250) + 1}`
  const response = await fetch(target.origin + path, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { authorization: `Bearer ${key.text}`, 'content-type': 'application/json', 'x-forwarded-for': ip },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, text, body: JSON.parse(text) }
}

export const channelFor = (offer: Offer, wallet: PrivateKeyAccount, key: Key) =>
  channelOf(offer, {
    payer: wallet.address,
    authorizer: key.account.address,
    salt: BigInt(keySalt(lower(key.account.address))),
  })

/** A deposit into the channel of a key, with a voucher for `price`. */
export async function deposit(
  offer: Offer,
  { wallet, key, price }: { wallet: PrivateKeyAccount; key: Key; price: string },
) {
  const signing = { offer: { ...offer, amount: price }, channel: channelFor(offer, wallet, key) }
  const payment = await signDeposit(key.account, { ...signing, amount: DEPOSIT, by: wallet })
  return { ...payment, accepted: offer }
}

export async function depositAlone(target: Target, payment: Payment): Promise<Answer> {
  const body = { payment: Buffer.from(JSON.stringify({ ...payment })).toString('base64') }
  return await post(target, { path: `${KEYS}/deposit`, body })
}

export async function funded(target: Target, offer: Offer) {
  const [wallet, key] = [await walletWith(target, 2n * DEPOSIT), newKey()]
  const { status, text } = await depositAlone(target, await deposit(offer, { wallet, key, price: '0' }))
  if (status !== 200) throw new Error(`a deposit was refused: ${status} ${text.slice(0, 300)}`)
  return { wallet, key }
}

export const usageOf = async (target: Target, key: Key): Promise<number> =>
  (await ask(target, { path: '/v1/key', key })).body.data.usage
