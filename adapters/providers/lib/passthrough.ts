/**
 * Passthrough to other services. The caller chooses a path below a root that the operator set, and a query, never the
 * host. None of the caller's headers are sent, redirects are not followed, and replies are JSON of limited size.
 */
import {
  type Clock,
  ApiError,
  type ApiErrorCode,
  type Json,
  type Log,
  type PassthroughRequest,
  pathProblem,
  rateLimited,
} from '../../../core/mod.ts'
import { type Fetch, vendorHttp } from '../../http/fetch.ts'
import { envelope, type ErrorFor, type ErrorClassifier, record } from '../../http/error_replies.ts'

export type PassthroughConfig = {
  /** Name in logs. `source` names the service to buyers. */
  readonly name: string
  readonly source: string
  /** Sent with each request, including our key if any; nothing else is sent but the body's type. */
  readonly headers?: Readonly<Record<string, string>>
  /** Values that a buyer must never see, even when the service quotes them. */
  readonly secrets?: readonly string[]
  /** Longest duration of one call, in milliseconds. */
  readonly timeoutMs: number
  /** Largest reply in bytes. */
  readonly maxBytes: number
  /** The error for a slow or failing service. Default: UPSTREAM_FAILED (502). */
  readonly failure?: { readonly code: ApiErrorCode; readonly error?: string }
  readonly clock: Clock
  readonly log: Log
  readonly fetch?: Fetch | undefined
}

export type Passthrough = {
  /**
   * Throws an ApiError: PASSED_ON with the service's own 4xx, RATE_LIMITED, NOT_CONFIGURED for the operator's mistakes,
   * else `failure`.
   */
  ask(root: string, request: PassthroughRequest, at: { signal: AbortSignal }): Promise<string>
}

/**
 * Statuses about this gateway, not the request: our key, balance, address or plan. A redirect means a moved address.
 */
const OURS = new Set([401, 402, 403, 405, 407, 411, 415, 426, 451])
const MAX_REASON = 300
const MAX_DETAILS = 8_192

export function passthrough(config: PassthroughConfig): Passthrough {
  const { source, headers = {}, secrets = [] } = config
  const http = vendorHttp({ ...config, maker: source, errorFor: serviceErrorFor(config) })

  /** A 4xx keeps its status; wording by contract 15.3. */
  const classify: ErrorClassifier = ({ status, body }) => {
    if (status < 400 || OURS.has(status)) return 'operator'
    if (status === 408 || status === 429 || status >= 500) return status === 429 ? 'rate_limited' : 'failed'
    const reason = plainReason(reasonOf(body), secrets)
    return new ApiError('PASSED_ON', {
      status,
      message: `${source} ${status}${reason && `: ${reason}`} (payment NOT charged)`,
      fields: { status },
      details: detailsOf(body),
    })
  }

  return {
    async ask(root, { path, query, body }, { signal }) {
      const url = urlUnder(root, path, query)
      return await http.requestText(url, { signal, headers, classify, ...(body && { body }) })
    },
  }

  /** The service's error body, if it is short and contains no secret. */
  function detailsOf(body: unknown): Json {
    const text = JSON.stringify(body ?? null)
    return text.length <= MAX_DETAILS && withoutSecrets(text, secrets) === text ? ((body ?? null) as Json) : null
  }
}

type ServiceErrorOptions = {
  readonly source: string
  readonly timeoutMs: number
  readonly failure?: { readonly code: ApiErrorCode; readonly error?: string }
}

/** Errors for a service's failures, by its name. */
export function serviceErrorFor({
  source,
  timeoutMs,
  failure = { code: 'UPSTREAM_FAILED' },
}: ServiceErrorOptions): ErrorFor {
  return (kind, { retrySeconds }) => {
    if (kind === 'rate_limited') return rateLimited(source, retrySeconds)
    if (kind === 'operator')
      return new ApiError('NOT_CONFIGURED', {
        message: `${source} does not accept this gateway at the moment; its operator has been notified. Payment was NOT charged.`,
      })
    const what = kind === 'timeout' ? `did not answer within ${timeoutMs / 1000} s` : 'failed, or could not be reached'
    return new ApiError(failure.code, {
      ...(failure.error && { error: failure.error }),
      message: `${source} ${what}. Payment was NOT charged.`,
    })
  }
}

/**
 * Builds the URL of a path below a root. Throws RangeError for a path that would lead elsewhere. The path was checked
 * before the quote and is checked again: the parsed URL must equal root and path letter by letter.
 */
export function urlUnder(root: string, path: string, query: string): string {
  const rootUrl = new URL(root).href.replace(/\/+$/, '')
  const target = `${rootUrl}/${path}${query && `?${query}`}`
  if (pathProblem(path) !== undefined || query.includes('#') || URL.parse(target)?.href !== target)
    throw new RangeError('the path leads out of its root')
  return target
}

/** Where services put the reason: an error envelope, or FastAPI's `detail`. */
function reasonOf(body: unknown): string {
  const { detail } = record(body)
  return envelope(body).message || (typeof detail === 'string' ? detail : '')
}

/** A reason that may be shown: secrets are removed before it is cut, because half a key would not be found. */
export const plainReason = (reason: string, secrets: readonly string[]): string =>
  withoutSecrets(reason, secrets)
    .replaceAll(/[\p{Cc}\p{Cs}]/gu, ' ')
    .slice(0, MAX_REASON)

/** Removes secrets from a text; a service that quotes its request quotes our key. */
export function withoutSecrets(text: string, secrets: readonly string[]): string {
  const written = secrets
    .filter((secret) => secret !== '')
    .flatMap((secret) => [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)])
  return written.reduce((rest, each) => rest.replaceAll(each, '***'), text)
}
