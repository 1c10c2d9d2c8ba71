/**
 * Answers of other services, passed on. Whoever asks chooses a path below a root that the operator has set, and a query; never the host. Nothing of
 * his headers travels, no redirect is followed, and what comes back is JSON of a known most.
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
import { envelope, type ErrorFor, type Judge, record } from '../../http/refusals.ts'

export type PassthroughConfig = {
  /** Name in logs, and what buyers are told who refused. */
  readonly name: string
  readonly source: string
  /** With our key, if any; nothing else is sent beside the type of the body. */
  readonly headers?: Readonly<Record<string, string>>
  /** Never to be read by a buyer, wherever it is quoted. */
  readonly secrets?: readonly string[]
  /** Longest that one call may take, in milliseconds. */
  readonly timeoutMs: number
  /** Largest answer, in bytes. */
  readonly maxBytes: number
  /** How a service that is too slow, or fails, reads; 502 unless told. */
  readonly failure?: { readonly code: ApiErrorCode; readonly error?: string }
  readonly clock: Clock
  readonly log: Log
  readonly fetch?: Fetch | undefined
}

export type Passthrough = {
  /** Throws a Fault: PASSED_ON with the service's own 4xx, RATE_LIMITED, NOT_CONFIGURED where the operator is meant, else `failure`. */
  ask(root: string, passage: PassthroughRequest, at: { signal: AbortSignal }): Promise<string>
}

/** About us, not about the question: our key, balance, address or plan. A redirect is an address that has moved. */
const OURS = new Set([401, 402, 403, 405, 407, 411, 415, 426, 451])
const MAX_REASON = 300
const MAX_DETAILS = 8_192

export function passthrough(config: PassthroughConfig): Passthrough {
  const { source, headers = {}, secrets = [] } = config
  const http = vendorHttp({ ...config, maker: source, errorFor: toldOf(config) })

  /** 4xx keeps its status, in the words of contract 15.3. */
  const judge: Judge = ({ status, body }) => {
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
      return await http.passText(url, { signal, headers, judge, ...(body && { body }) })
    },
  }

  /** The service's own error body, where it is short and says nothing of us. */
  function detailsOf(body: unknown): Json {
    const told = JSON.stringify(body ?? null)
    return told.length <= MAX_DETAILS && withoutSecrets(told, secrets) === told ? ((body ?? null) as Json) : null
  }
}

export type Naming = {
  readonly source: string
  readonly timeoutMs: number
  readonly failure?: { readonly code: ApiErrorCode; readonly error?: string }
}

/** What buyers are told of the troubles of a service, by its name. */
export function toldOf({ source, timeoutMs, failure = { code: 'UPSTREAM_FAILED' } }: Naming): ErrorFor {
  return (trouble, { retrySeconds }) => {
    if (trouble === 'rate_limited') return rateLimited(source, retrySeconds)
    if (trouble === 'operator')
      return new ApiError('NOT_CONFIGURED', {
        message: `${source} does not accept this gateway just now; its operator has been told. Payment was NOT charged.`,
      })
    const what =
      trouble === 'timeout' ? `did not answer within ${timeoutMs / 1000} s` : 'failed, or could not be reached'
    return new ApiError(failure.code, {
      ...(failure.error && { error: failure.error }),
      message: `${source} ${what}. Payment was NOT charged.`,
    })
  }
}

/**
 * The URL of a path below a root. Throws a RangeError for one that would lead anywhere else, however it came here: what was judged before the quote is
 * judged again, and the URL that is called must be the root and the path, letter by letter.
 */
export function urlUnder(root: string, path: string, query: string): string {
  const home = new URL(root).href.replace(/\/+$/, '')
  const wanted = `${home}/${path}${query && `?${query}`}`
  if (pathProblem(path) !== undefined || query.includes('#') || URL.parse(wanted)?.href !== wanted)
    throw new RangeError('a path that leads out of its root is not asked for')
  return wanted
}

/** What services write where they say why: an envelope, or FastAPI's `detail`. */
function reasonOf(body: unknown): string {
  const { detail } = record(body)
  return envelope(body).message || (typeof detail === 'string' ? detail : '')
}

/** A reason that may be repeated: without our keys, and cut only then, for half a key is no longer found. */
export const plainReason = (reason: string, secrets: readonly string[]): string =>
  withoutSecrets(reason, secrets)
    .replaceAll(/[\p{Cc}\p{Cs}]/gu, ' ')
    .slice(0, MAX_REASON)

/** A service that quotes what it was sent quotes our key. */
export function withoutSecrets(text: string, secrets: readonly string[]): string {
  const written = secrets
    .filter((secret) => secret !== '')
    .flatMap((secret) => [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)])
  return written.reduce((rest, each) => rest.replaceAll(each, '***'), text)
}
