/** Signatures of a chain in memory. They prove nothing to anyone who can run this code. */
import type { Offer, Payment } from '../../../../core/x402/mod.ts'
import { type Hex, lower } from '../../lib/hex.ts'
import type { Exact } from '../exact/payload.ts'
import { UPTO_PROXY } from '../upto/payload.ts'
import { type MemoryLedger, digest } from './ledger.ts'
import type { Authorized } from './payload.ts'

/** Fields to sign besides the offer. Times are the authorization's, in seconds; `now` is in milliseconds. */
export type SignOptions = {
  readonly from: string
  readonly now: number
  readonly nonce?: string
  readonly to?: string
  readonly value?: bigint
  readonly validAfter?: bigint
  readonly validBefore?: bigint
  /** The account whose key signs. Default: `from`. */
  readonly by?: string
  /** The domain's name. Default: the offer's. */
  readonly name?: string
}

export function isSignedBy(ledger: MemoryLedger, exact: Authorized, offer: Offer): boolean {
  return exact.signature === signFields(exact, exact.from, nameOf(offer, ledger.domain.name))
}

export function sign(ledger: MemoryLedger, offer: Offer, signing: SignOptions): Payment {
  const from = lower(signing.from)
  const now = BigInt(Math.floor(signing.now / 1000))
  if (offer.scheme === 'upto') return signUpTo(ledger, offer, signing)
  const authorization = {
    from,
    to: signing.to ?? offer.payTo,
    value: String(signing.value ?? offer.amount),
    validAfter: String(signing.validAfter ?? 0n),
    validBefore: String(signing.validBefore ?? now + BigInt(offer.maxTimeoutSeconds)),
    nonce: signing.nonce ?? `0x${digest(`nonce ${ledger.nonces++}`)}`,
  }
  const content = { ...authorization, to: lower(authorization.to), nonce: lower(authorization.nonce) }
  const signature = signFields(content, lower(signing.by ?? from), signing.name ?? nameOf(offer, ledger.domain.name))
  return { x402Version: 2, accepted: offer, payload: { signature, authorization } }
}

function signUpTo(ledger: MemoryLedger, offer: Offer, signing: SignOptions): Payment {
  const from = lower(signing.from)
  const now = BigInt(Math.floor(signing.now / 1000))
  const to = signing.to ?? offer.payTo
  const validAfter = signing.validAfter ?? 0n
  const value = signing.value ?? BigInt(offer.amount)
  const validBefore = signing.validBefore ?? now + BigInt(offer.maxTimeoutSeconds)
  const nonce = signing.nonce ?? `0x${digest(`nonce ${ledger.nonces++}`)}`
  const content = { from, to: lower(to), value, validAfter, validBefore, nonce: lower(nonce) }
  const signature = signFields(content, lower(signing.by ?? from), signing.name ?? nameOf(offer, ledger.domain.name))
  const permit2Authorization = {
    from,
    permitted: { token: ledger.asset, amount: String(value) },
    spender: UPTO_PROXY,
    nonce: String(BigInt(nonce)),
    deadline: String(validBefore),
    witness: { to, facilitator: FACILITATOR, validAfter: String(validAfter) },
  }
  return { x402Version: 2, accepted: offer, payload: { signature, permit2Authorization } }
}

export const offerOf = (
  ledger: MemoryLedger,
  scheme: 'exact' | 'upto',
  amount: bigint,
  maxTimeoutSeconds: number,
): Offer => {
  return {
    scheme,
    network: ledger.network,
    asset: ledger.asset,
    payTo: ledger.payTo,
    amount: String(amount),
    maxTimeoutSeconds,
    extra: ledger.extras[scheme],
  }
}

/** The account that would send `upto` payments. */
export const FACILITATOR: Hex = '0x00000000000000000000000000000000facade00'

type SignedFields = Pick<Exact, 'from' | 'to' | 'nonce'> &
  Record<'value' | 'validAfter' | 'validBefore', bigint | string>

/** 65 bytes in the form of a signature. They prove nothing to anyone who can run this code. */
function signFields(content: SignedFields, key: string, name: string): Hex {
  const { from, to, value, validAfter, validBefore, nonce } = content
  const r = digest(['sealed', key, name, from, to, value, validAfter, validBefore, nonce].join('|'))
  return `0x${r}0${digest(r).slice(1)}1b`
}

export const signedText = (key: string, text: string): Hex => `0x${digest(`text ${key} ${text}`)}`

function nameOf(offer: Offer, otherwise: string): string {
  return typeof offer.extra?.name === 'string' ? offer.extra.name : otherwise
}
