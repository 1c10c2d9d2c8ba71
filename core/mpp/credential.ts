/**
 * The credential of `evm/charge`: an EIP-3009 authorization with the nonce that a challenge prescribes. It is read as
 * the payment of an `exact` offer, and goes on as one.
 */
import { Type, type Static } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { IDENTIFIER, type Payment, VERSION, wrongField } from '../x402/protocol.ts'
import { fieldsOf } from '../lib/json.ts'
import { unquoted } from '../lib/text.ts'
import { CHARGE, type Challenge, endOf, type Issuer, nonceOf } from './challenge.ts'
import { decodeUrl } from './codec.ts'
import type { Problem } from './problem.ts'

/** Characters of a header that carries a credential. Servers must take 4 KB; a contract wallet signs up to 4 KiB. */
const MAX_CREDENTIAL = 16_384
const SCHEME = /^payment(?:\s|$)/i
/** Fields that carry a credential. */
const FIELDS = ['authorization', 'payment-authorization'] as const

const Echo = Type.Object({
  id: Type.String({ minLength: 1, maxLength: 200 }),
  realm: Type.String({ maxLength: 300 }),
  method: Type.String({ maxLength: 64 }),
  intent: Type.String({ maxLength: 64 }),
  request: Type.String({ maxLength: 8_192 }),
  expires: Type.Optional(Type.String({ maxLength: 64 })),
  digest: Type.Optional(Type.String({ maxLength: 200 })),
  description: Type.Optional(Type.String({ maxLength: 1_000 })),
  header: Type.Optional(Type.String({ maxLength: 64 })),
  opaque: Type.Optional(Type.String({ maxLength: 1_024 })),
})
const Address = Type.String({ pattern: '^0x[0-9a-fA-F]{40}$', description: 'an address: 0x and 40 hex digits' })
const Uint = Type.String({
  pattern: '^(0|[1-9][0-9]{0,77})$',
  description: 'a whole number in decimal digits, as text',
})
const Payload = Type.Object({
  type: Type.Literal('authorization', { description: '"authorization"' }),
  from: Address,
  to: Address,
  value: Uint,
  validAfter: Uint,
  validBefore: Uint,
  nonce: Type.String({ pattern: '^0x[0-9a-fA-F]{64}$', description: '32 bytes: 0x and 64 hex digits' }),
  signature: Type.String({ pattern: '^0x([0-9a-fA-F]{2})+$', maxLength: 8_194, description: '0x and hex digits' }),
})
const Source = Type.String({ maxLength: 200 })
const [isEcho, isPayload] = [TypeCompiler.Compile(Echo), TypeCompiler.Compile(Payload)]

export type Credential = {
  readonly challenge: Challenge
  readonly payload: Static<typeof Payload>
  readonly source?: string
}

/** A credential as a payment, or why it is none. */
export type DecodedCredential =
  | { readonly ok: true; readonly payment: Payment; readonly credential: Credential }
  | { readonly ok: false; readonly reason: string; readonly problem: Problem }

type HeaderFields = { get(name: string): string | null }

/** The credentials of a request, as their fields have them. */
export const credentialsIn = (headers: HeaderFields): readonly string[] =>
  FIELDS.flatMap((name) =>
    (headers.get(name) ?? '')
      .split(',')
      .map((text) => text.trim())
      .filter((text) => SCHEME.test(text)),
  )

/** Reads a credential. `idempotencyKey` names the purchase, as the payment identifier of x402 does. Never throws. */
export function decodeCredential(text: string, idempotencyKey: string | null): DecodedCredential {
  if (text.length > MAX_CREDENTIAL) return malformed(`the credential is longer than ${MAX_CREDENTIAL} characters`)
  const decoded = decodeUrl(text.replace(/^payment\s*/i, ''))
  if (!decoded) return malformed('the credential is not base64url of a JSON object')
  const { challenge, payload, source } = decoded
  if (!isEcho.Check(challenge))
    return malformed(`the credential is malformed at challenge${problemOf(isEcho.Errors(challenge).First())}`)
  if (!isPayload.Check(payload))
    return invalid(`the payload of the credential is malformed at ${problemOf(isPayload.Errors(payload).First())}`)
  const isSource = source === undefined || (typeof source === 'string' && source.length <= (Source.maxLength ?? 0))
  if (!isSource) return malformed('the credential is malformed at source: it must be a text')
  const credential = { challenge, payload, ...(typeof source === 'string' && { source }) }
  return { ok: true, credential, payment: paymentOf(credential, idempotencyKey) }
}

function paymentOf({ challenge, payload }: Credential, idempotencyKey: string | null): Payment {
  const { type: _, signature, ...authorization } = payload
  const { amount, currency, recipient, methodDetails } = fieldsOf(decodeUrl(challenge.request))
  return {
    x402Version: VERSION,
    accepted: {
      scheme: 'exact',
      network: `eip155:${String(fieldsOf(methodDetails).chainId)}`,
      amount: String(amount),
      asset: String(currency),
      payTo: String(recipient),
      maxTimeoutSeconds: 0,
    },
    payload: { signature, authorization },
    ...(idempotencyKey !== null && { extensions: { [IDENTIFIER]: { info: { id: unquoted(idempotencyKey) } } } }),
  }
}

export type ChargeProblem = { readonly problem: Problem; readonly reason: string }

/**
 * Whether the credential answers a challenge of ours, as far as the credential tells by itself; undefined if it does.
 * One that has expired passes if it is right otherwise: its authorization has expired too, and may have paid a call
 * whose result it still collects. `now` in milliseconds.
 */
export function credentialProblem(
  { challenge, payload, source }: Credential,
  { issuer, realm, now }: { readonly issuer: Pick<Issuer, 'isIssued'>; readonly realm: string; readonly now: number },
): ChargeProblem | undefined {
  if (challenge.realm !== realm)
    return unissued(`the challenge is of ${challenge.realm.slice(0, 100)}, and this is ${realm}`)
  if (!issuer.isIssued(challenge)) return unissued('the challenge was not issued here, or was changed')
  const end = endOf(challenge)
  const wrong = mismatch({ challenge, payload, ...(source !== undefined && { source }) }, end)
  if (!wrong) return undefined
  return end !== undefined && end * 1000 <= now ? { problem: 'payment-expired', reason: EXPIRED } : wrong
}

export const EXPIRED = 'the challenge has expired; pay the one of this reply'

function mismatch({ challenge, payload, source }: Credential, end: number | undefined): ChargeProblem | undefined {
  const { amount, recipient, methodDetails } = fieldsOf(decodeUrl(challenge.request))
  const { from, to, value, validBefore, nonce } = payload
  if (challenge.method !== CHARGE.method || challenge.intent !== CHARGE.intent || end === undefined)
    return unissued('the challenge is not one of evm/charge')
  if (to.toLowerCase() !== String(recipient).toLowerCase())
    return { problem: 'invalid-payload', reason: `payload.to is ${to}; it must be ${String(recipient)}` }
  if (value !== amount)
    return { problem: 'invalid-payload', reason: `payload.value is ${value}; it must be ${String(amount)}` }
  if (BigInt(validBefore) > BigInt(end))
    return { problem: 'invalid-payload', reason: `payload.validBefore is ${validBefore}; it must be ${end} at most` }
  if (nonce.toLowerCase() !== nonceOf(challenge))
    return { problem: 'invalid-payload', reason: `payload.nonce is ${nonce}; it must be ${nonceOf(challenge)}` }
  const payer = `did:pkh:eip155:${String(fieldsOf(methodDetails).chainId)}:${from}`.toLowerCase()
  if (source !== undefined && source.toLowerCase() !== payer)
    return { problem: 'invalid-payload', reason: `source is ${source.slice(0, 100)}; it must name the payer, ${from}` }
  return undefined
}

const unissued = (reason: string): ChargeProblem => ({ problem: 'invalid-challenge', reason })
const malformed = (reason: string) => ({ ok: false, reason, problem: 'malformed-credential' }) as const
const invalid = (reason: string) => ({ ok: false, reason, problem: 'invalid-payload' }) as const

const problemOf = (error: (Parameters<typeof wrongField>[0] & { readonly path: string }) | undefined): string =>
  error ? `${error.path || '/'}: ${wrongField(error)}` : ''
