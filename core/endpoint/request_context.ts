/** The payment side of a request: its header, the offer that it matches, and whether its caller is still connected. */
import type { Caller } from './gateway.ts'
import type { Free, JobDescription, Sold } from './mod.ts'
import { isBrowser } from '../http/browser_402.ts'
import type { RequestUrl } from '../http/request_url.ts'
import { ApiError } from '../http/errors.ts'
import { credentialsIn, decodeCredential, type DecodedCredential } from '../mpp/credential.ts'
import type { ChargeMethod, Credential } from '../mpp/method.ts'
import type { OpenedKey, Proof } from '../ports/mod.ts'
import type { Bazaar, Resource } from '../x402/challenge.ts'
import { decodePayment, type Decoded, PAYMENT_HEADERS } from '../x402/protocol.ts'

/** A payment as it came: in a header of x402, or as a credential of MPP. */
export type Presented = Decoded | DecodedCredential

/** One HTTP request, as the call engine sees it. */
export type RequestContext = {
  readonly request: Request
  readonly origin: string
  /** Whether the origin is the gateway's own, and not only what the Host header says. */
  readonly isHostTrusted: boolean
  /** Path as called, without the query; used for `resource.url`. */
  readonly path: string
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  /** The decoded payment; undefined without one. */
  readonly payment: Presented | undefined
  /** The API key that pays; undefined where the request brings a payment, or none. */
  readonly apiKey?: OpenedKey | undefined
  /** Client address for rate limits. */
  readonly ip: string
  /** Aborts when the caller disconnects. */
  readonly gone: AbortSignal
  /** The bazaar extension of an endpoint as JSON; undefined when it should not be advertised. */
  readonly bazaar: (endpoint: Sold | Free) => Bazaar | undefined
}

/** `methods`: those of MPP that the gateway takes. */
type Arriving = { readonly caller: Caller; readonly methods?: readonly ChargeMethod[] | undefined } & Pick<
  RequestContext,
  'params' | 'bazaar' | 'apiKey'
>

/** Accessing the signal of a request costs more than a whole quote, so it is read only by work that waits. */
export function requestContextOf(
  request: Request,
  url: RequestUrl,
  { caller: { ip, origin = url.origin, isHostTrusted = true, gone }, params, bazaar, apiKey, methods = [] }: Arriving,
): RequestContext {
  let query: URLSearchParams | undefined
  let payment: Presented | null | undefined
  return {
    request,
    bazaar,
    apiKey,
    origin,
    isHostTrusted,
    path: url.path,
    params,
    get query() {
      return (query ??= new URLSearchParams(url.search))
    },
    get payment() {
      if (payment !== undefined) return payment ?? undefined
      payment = presentedIn(request, methods)
      return payment ?? undefined
    },
    ip,
    get gone() {
      return gone ?? request.signal
    },
  }
}

/** The payment of a request, in a header of x402 or as a credential of MPP; null without one. */
export function paymentHeader({ headers }: Request): string | null {
  return x402Header(headers) ?? credentialsIn(headers)[0] ?? null
}

/** The header of x402 under either name. When both are present they are equal, or the protocol's own name wins. */
function x402Header(headers: Headers): string | null {
  for (const name of PAYMENT_HEADERS) {
    const value = headers.get(name)
    if (value !== null) return value
  }
  return null
}

function presentedIn({ headers }: Request, methods: readonly ChargeMethod[]): Presented | null {
  const header = x402Header(headers)
  if (header !== null) return decodePayment(header)
  const [credential] = credentialsIn(headers)
  if (credential === undefined) return null
  return decodeCredential(credential, { methods, idempotencyKey: headers.get('idempotency-key') })
}

/** The credential of a request; undefined for payments of x402 and for what cannot be read. */
export const credentialIn = (presented: Presented | undefined): Credential | undefined =>
  presented?.ok && 'credential' in presented ? presented.credential : undefined

/** Refuses two payments for one call: which of them was charged would be a guess. */
export function requireOnePayment({ headers }: Request): void {
  const found = credentialsIn(headers)
  if (found.length === 0) return
  if (new Set(found).size + (x402Header(headers) === null ? 0 : 1) < 2) return
  throw new ApiError('INVALID_PARAMETER', {
    message:
      'The request brings two payments. Send one: PAYMENT-SIGNATURE (or X-Payment) of x402, or one MPP credential in Authorization or Payment-Authorization. Nothing was charged.',
  })
}

/**
 * Proof that a job belongs to a wallet, without a payment: headers signed as `poll:v1:<kind>:<job id>:<unix seconds>`
 * (contract 2.17).
 */
export type PollProof = Proof & { readonly seconds: number }

/** Undefined when the headers are absent, or when a payment already identifies the caller. */
export function proofOf(
  request: Request,
  { job, id }: { job: Pick<JobDescription, 'object'>; id: string },
): PollProof | undefined {
  if (paymentHeader(request) !== null) return undefined
  const [wallet, timestamp, signature] = ['wallet', 'timestamp', 'signature'].map((name) =>
    request.headers.get(`x-poll-${name}`),
  )
  if (!wallet || !timestamp || !signature) return undefined
  const [kind] = job.object.split('.')
  return { wallet, signature, seconds: Number(timestamp), message: `poll:v1:${kind}:${id}:${timestamp}` }
}

/** Whether the timestamp is within five minutes of our clock. */
export function isTimely({ seconds }: PollProof, now: number): boolean {
  return Math.abs(now / 1000 - seconds) <= 300
}

/** The resource that the challenge names. */
export function resourceOf(endpoint: Sold | Free, { origin, path, bazaar }: RequestContext): Resource {
  return {
    url: `${origin}${path}`,
    description: endpoint.summary,
    mimeType: 'application/json',
    bazaar: bazaar(endpoint),
  }
}

/** Bytes that a 402 carries beside its challenge: CORS headers, and those of the HTML page for browsers. */
export function besideOf({ headers }: Request, isPage = isBrowser(headers)): number {
  return (headers.has('origin') ? 150 : 0) + (isPage ? 100 : 0)
}

/** Resolves when the caller disconnects, and never after `stop`. */
export function gone(signal: AbortSignal, stop: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve(undefined)
    signal.addEventListener('abort', () => resolve(undefined), { once: true, signal: stop })
  })
}
