/**
 * The credential of a challenge: an authorization as the challenge prescribes it (decision 153). It is read as the
 * payment of an `exact` offer, and goes on as one.
 */
import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { IDENTIFIER, type Payment, VERSION, wrongField } from '../x402/protocol.ts'
import { fieldsOf, isFields } from '../lib/json.ts'
import { unquoted } from '../lib/text.ts'
import { endOf, type Issuer } from './challenge.ts'
import { decodeUrl } from './codec.ts'
import { type ChargeMethod, type Credential, INTENT, methodNamed } from './method.ts'
import type { Problem } from './problem.ts'

/** Characters of a header that carries a credential. Servers must take 4 KB; a contract wallet signs up to 4 KiB. */
const MAX_CREDENTIAL = 16_384
const MAX_SOURCE = 200
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
const isEcho = TypeCompiler.Compile(Echo)

/** A credential as a payment, or why it is none. */
export type DecodedCredential =
  | { readonly ok: true; readonly payment: Payment; readonly credential: Credential; readonly method: ChargeMethod }
  | { readonly ok: false; readonly reason: string; readonly problem: Problem }

type HeaderFields = { get(name: string): string | null }

/** The credentials of a request, as their fields have them. */
export function credentialsIn(headers: HeaderFields): readonly string[] {
  let found = NONE
  for (const name of FIELDS) {
    const value = headers.get(name)
    if (value !== null) found = [...found, ...value.split(',').flatMap(credentialOf)]
  }
  return found
}
const NONE: readonly string[] = []

function credentialOf(text: string): readonly string[] {
  const trimmed = text.trim()
  return SCHEME.test(trimmed) ? [trimmed] : NONE
}

type DecodeOptions = {
  readonly methods: readonly ChargeMethod[]
  /** Names the purchase, as the payment identifier of x402 does. */
  readonly idempotencyKey: string | null
}

/** Reads a credential. Never throws. */
export function decodeCredential(text: string, { methods, idempotencyKey }: DecodeOptions): DecodedCredential {
  if (text.length > MAX_CREDENTIAL) return malformed(`the credential is longer than ${MAX_CREDENTIAL} characters`)
  const decoded = decodeUrl(text.replace(/^payment\s*/i, ''))
  if (!decoded) return malformed('the credential is not base64url of a JSON object')
  const { challenge, payload, source } = decoded
  if (!isEcho.Check(challenge)) {
    const error = isEcho.Errors(challenge).First()
    return malformed(`the credential is malformed at challenge${error ? `${error.path}: ${wrongField(error)}` : ''}`)
  }
  if (!isFields(payload)) return invalid('it must be an object')
  if (source !== undefined && !(typeof source === 'string' && source.length <= MAX_SOURCE))
    return malformed('the credential is malformed at source: it must be a text')
  const method = methodNamed(methods, challenge.method)
  if (!method) return { ok: false, problem: 'invalid-challenge', reason: unknownMethod(challenge.method, methods) }
  const credential = { challenge, payload, ...(source !== undefined && { source }) }
  const charged = method.read(credential)
  if (typeof charged === 'string') return invalid(charged)
  const { amount, currency, recipient } = fieldsOf(decodeUrl(challenge.request))
  const { payload: moved, ...offered } = charged
  const payment: Payment = {
    x402Version: VERSION,
    accepted: {
      scheme: 'exact',
      amount: String(amount),
      asset: String(currency),
      payTo: String(recipient),
      maxTimeoutSeconds: 0,
      ...offered,
    },
    payload: moved,
    ...(idempotencyKey !== null && { extensions: { [IDENTIFIER]: { info: { id: unquoted(idempotencyKey) } } } }),
  }
  return { ok: true, credential, method, payment }
}

const unknownMethod = (name: string, methods: readonly ChargeMethod[]): string =>
  `the challenge is of the method ${name}; this gateway has ${methods.map((each) => each.name).join(' and ') || 'none'}`

export type ChargeProblem = { readonly problem: Problem; readonly reason: string }

/**
 * Whether the credential answers a challenge of ours, as far as the credential tells by itself; undefined if it does.
 * One that has expired passes if it is right otherwise: it buys nothing (`EXPIRED`), and may have paid a call whose
 * result it still collects. `now` in milliseconds.
 */
export function credentialProblem(
  { credential, method }: { readonly credential: Credential; readonly method: ChargeMethod },
  { issuer, realm, now }: { readonly issuer: Pick<Issuer, 'isIssued'>; readonly realm: string; readonly now: number },
): ChargeProblem | undefined {
  const { challenge } = credential
  if (challenge.realm !== realm)
    return unissued(`the challenge is of ${challenge.realm.slice(0, 100)}, and this is ${realm}`)
  if (!issuer.isIssued(challenge)) return unissued('the challenge was not issued here, or was changed')
  const end = endOf(challenge)
  if (challenge.intent !== INTENT || end === undefined)
    return unissued(`the challenge is not one of ${method.name}/${INTENT}`)
  const wrong = method.problem(credential, end)
  if (wrong === undefined) return undefined
  return end * 1000 <= now
    ? { problem: 'payment-expired', reason: EXPIRED }
    : { problem: 'invalid-payload', reason: wrong }
}

export const EXPIRED = 'the challenge has expired; pay the one of this reply'

const unissued = (reason: string): ChargeProblem => ({ problem: 'invalid-challenge', reason })
const malformed = (reason: string) => ({ ok: false, reason, problem: 'malformed-credential' }) as const
const invalid = (wrong: string) =>
  ({
    ok: false,
    problem: 'invalid-payload',
    reason: `the payload of the credential is malformed at ${wrong.startsWith('/') ? wrong : `/: ${wrong}`}`,
  }) as const
