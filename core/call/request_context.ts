/** What a request says about paying: its header, the offer that it fits, and whether its caller is still there. */
import type { Free, JobDescription, Sold } from '../endpoint/mod.ts'
import { isBrowser } from '../http/browser_402.ts'
import type { Proof } from '../ports/mod.ts'
import { type Bazaar, PAYMENT_HEADERS, type Resource } from '../x402/protocol.ts'

/** One HTTP request, as far as selling needs it. */
export type RequestContext = {
  readonly request: Request
  readonly origin: string
  /** Path as called, without the query; it goes into `resource.url`. */
  readonly path: string
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  /** Address for rate windows. */
  readonly ip: string
  /** Aborts when the caller has gone. */
  readonly gone: AbortSignal
  /** How an indexer may call what is sold, as JSON; undefined where it is not to be told. */
  readonly bazaar: (endpoint: Sold | Free) => Bazaar | undefined
}

/** Either header name; when both are there they are equal, or the protocol's own wins. */
export function paymentHeader(request: Request): string | null {
  for (const name of PAYMENT_HEADERS) {
    const value = request.headers.get(name)
    if (value !== null) return value
  }
  return null
}

/**
 * How a wallet shows that a job is its own without paying: headers, signed as `poll:v1:<kind>:<job id>:<unix seconds>`
 * (contract 2.17).
 */
export type PollProof = Proof & { readonly seconds: number }

/** Nothing where the headers are not there, or where a payment says who asks. */
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

/** Five minutes to either side of our clock. */
export function isTimely({ seconds }: PollProof, now: number): boolean {
  return Math.abs(now / 1000 - seconds) <= 300
}

/** What the challenge says is being paid for. */
export function resourceOf(endpoint: Sold | Free, { origin, path, bazaar }: RequestContext): Resource {
  return {
    url: `${origin}${path}`,
    description: endpoint.summary,
    mimeType: 'application/json',
    bazaar: bazaar(endpoint),
  }
}

/**
 * Bytes that a 402 carries beside its challenge, in headers for a page of another origin and in those of the page that
 * a browser is shown.
 */
export function besideOf({ headers }: Request): number {
  return (headers.has('origin') ? 150 : 0) + (isBrowser(headers) ? 100 : 0)
}

/** Resolves when the caller has gone, and never after `stop`. */
export function gone(signal: AbortSignal, stop: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve(undefined)
    signal.addEventListener('abort', () => resolve(undefined), { once: true, signal: stop })
  })
}
