/** MPP over MCP (`draft-payment-transport-mcp-00`): what its headers carry over HTTP is in `_meta`. */
import { fieldsOf, isFields } from '../../core/lib/mod.ts'
import { canonicalJson, decodeUrl, encodeUrl, readChallenges } from '../../core/mpp/mod.ts'

const CREDENTIAL = 'org.paymentauth/credential'
export const REQUIRED = 'org.paymentauth/payment-required'
const RECEIPT = 'org.paymentauth/receipt'
/** Errors of JSON-RPC: a payment is required; the payment of the call was refused. */
const CODES = { required: -32_042, refused: -32_043 } as const

/** The credential of a call as the header of the HTTP API, beside which a key may stand; empty without one. */
export function credentialHeader(meta: unknown): Record<string, string> {
  const credential = fieldsOf(meta)[CREDENTIAL]
  if (credential === undefined) return {}
  const { challenge, ...rest } = fieldsOf(credential)
  const { request, ...parameters } = fieldsOf(challenge)
  const written = isFields(request) ? encodeUrl(canonicalJson(request)) : request
  const whole = { challenge: { ...parameters, request: written }, ...rest }
  return { 'payment-authorization': `Payment ${encodeUrl(JSON.stringify(whole))}` }
}

/** The challenges of a 402, whose requests are objects; undefined without any. */
export function demandIn({ status, headers }: Pick<Response, 'status' | 'headers'>, body: unknown) {
  if (status !== 402) return undefined
  const challenges = readChallenges(headers.get('www-authenticate') ?? '').flatMap(
    ({ request = '', ...parameters }) => {
      const decoded = decodeUrl(request)
      return decoded ? [{ ...parameters, request: decoded }] : []
    },
  )
  if (challenges.length === 0) return undefined
  const { type, title, detail } = fieldsOf(body)
  return { httpStatus: 402, challenges, problem: { type, title, status: 402, detail } }
}
export type ChargeDemand = NonNullable<ReturnType<typeof demandIn>>

/** The receipt of a reply as `_meta`; empty without one. */
export function receiptMeta({ headers }: Pick<Response, 'headers'>): Readonly<Record<string, unknown>> {
  const receipt = decodeUrl(headers.get('payment-receipt') ?? '')
  return receipt ? { [RECEIPT]: receipt } : {}
}

/** Whether a client declares payments by MPP, and none by x402: it reads no demand in a result. */
export function speaksOnlyMpp(capabilities: unknown): boolean {
  const { payment, x402 } = fieldsOf(fieldsOf(capabilities).experimental)
  return Array.isArray(fieldsOf(payment).methods) || isFields(fieldsOf(payment).methods) ? x402 === undefined : false
}

/** The code of the error that demands a payment. */
export const errorCodeOf = (meta: unknown): number =>
  fieldsOf(meta)[CREDENTIAL] === undefined ? CODES.required : CODES.refused
