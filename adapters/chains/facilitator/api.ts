import { type Bearer, cdpBearer, type CdpKey } from './cdp_auth.ts'
import { readText } from '../lib/json_rpc.ts'

/** One remote verify/settle API. */
export type FacilitatorRow = {
  /** Base URL of /verify, /settle and /supported. It appears in no message: its path or query may hold a key. */
  readonly url: string
  /** Key for Coinbase's CDP; sent over https only, or to this machine. */
  readonly cdp?: CdpKey
  /** Other origins that a redirect may lead to, without the key, such as `https://www.x402.org`. */
  readonly redirectOrigins?: readonly string[]
  /** False follows no redirect, not even within its own origin. Default true. */
  readonly redirects?: boolean
}

export type ApiConfig = {
  /** Returns strong random bytes. */
  readonly random: (bytes: number) => Uint8Array
  readonly fetch?: typeof globalThis.fetch
  /** Largest reply in bytes. Default 64 KiB. */
  readonly maxReplyBytes?: number
  /** Failures in a row that open the circuit breaker. Default 5. */
  readonly failures?: number
  /** How long the breaker stays open before one request may try. Default 30 s. */
  readonly openMs?: number
  /**
   * Concurrent verify requests; others wait. Default 128. Signatures are free to make, so a crowd of them must not look
   * like an outage.
   */
  readonly maxVerdicts?: number
}

/**
 * `unsent`: nobody acted on the request. `setting` and `movedTo` (an origin) are for the operator; a buyer may read
 * `reason`.
 */
export type ApiFailure = {
  readonly kind: 'failure'
  readonly reason: string
  readonly unsent: boolean
  readonly setting?: 'url' | 'cdp_key_id' | 'cdp_key_secret'
  readonly movedTo?: string
}
export type ApiResult<T> = { readonly kind: 'result'; readonly value: T } | ApiFailure

/**
 * `read` returns undefined for an inconclusive reply. `now`, in milliseconds, drives the breaker and dates the token.
 */
type ApiRequest<T> = {
  readonly read: (body: unknown, isOk: boolean, headers: Headers) => T | undefined
  /** Sent by POST; without a body the request is a GET. */
  readonly body?: unknown
  readonly query?: Readonly<Record<string, string>>
  readonly now: number
  readonly timeoutMs: number
  readonly signal?: AbortSignal
}

type FacilitatorApi = {
  /**
   * Requests a path below its URL. Never rejects. Ends at `timeoutMs` or with `signal`; the request then counts as
   * sent.
   */
  request<T>(path: string, options: ApiRequest<T>): Promise<ApiResult<T>>
  close(): void
}

export type NamedApi = { readonly name: string; readonly api: FacilitatorApi }

/**
 * Creates the clients, named by their position. Throws RangeError, without quoting a URL, for an empty list or a
 * malformed row.
 */
export function namedApis(rows: readonly FacilitatorRow[], config: ApiConfig): readonly NamedApi[] {
  if (rows.length === 0) throw new RangeError('facilitators: at least one is required')
  return rows.map((row, i) => {
    const name = `facilitators.${i}`
    try {
      return { name, api: facilitatorApi(row, config) }
    } catch (error) {
      throw new RangeError(`${name}.${(error as Error).message}`)
    }
  })
}

/** Problems that the operator must fix; an unreachable facilitator is not one. */
export function settingProblems(name: string, result: ApiFailure): readonly string[] {
  const moved = result.movedTo ? `; configure its new origin ${result.movedTo}` : ''
  return result.setting ? [`${name}.${result.setting}: ${result.reason}${moved}`] : []
}

/** Meaning of a request for the facilitator's circuit breaker. */
type Outcome = 'good' | 'bad' | 'neither'
type Ended<T> = { readonly result: ApiResult<T>; readonly outcome: Outcome }

/** Throws RangeError, without quoting the URL, when it is malformed or may not carry a key. */
export function facilitatorApi(row: FacilitatorRow, config: ApiConfig): FacilitatorApi {
  const base = baseOf(row)
  const bearer: Bearer | undefined = row.cdp && cdpBearer(row.cdp, config.random)
  const fetchUrl = config.fetch ?? globalThis.fetch
  const maxBytes = config.maxReplyBytes ?? 64 * 1024
  const breaker = circuitBreaker(config.failures ?? 5, config.openMs ?? 30_000)
  const slots = slotLimiter(config.maxVerdicts ?? 128)
  const closing = new AbortController()

  async function request<T>(path: string, options: ApiRequest<T>): Promise<ApiResult<T>> {
    const { now, timeoutMs, signal } = options
    if (signal?.aborted || closing.signal.aborted) return failure('no time left for the request', { unsent: true })
    const report = breaker.enter(now)
    if (!report) return failure('it failed too often and is paused for a while', { unsent: true })
    const stop = deadline(timeoutMs, [signal, closing.signal])
    const release = path === 'verify' ? await slots.acquire(stop.signal) : undefined
    if (path === 'verify' && !release) {
      report('neither')
      return failure(`too many concurrent requests: no slot within ${timeoutMs} ms`, { unsent: true })
    }
    const timeout = stop.over.then((cause) =>
      cause === 'late' ? bad(failure(`no reply in ${timeoutMs} ms`)) : neither(failure("the caller's time ran out")),
    )
    const work = exchange(path, options, stop.signal).catch(() =>
      stop.signal.aborted ? timeout : bad(failure('the connection broke')),
    )
    const { result, outcome } = await Promise.race([timeout, work])
    stop.end()
    release?.()
    report(outcome)
    return result
  }

  async function exchange<T>(
    path: string,
    { read, body, query = {}, now }: ApiRequest<T>,
    signal: AbortSignal,
  ): Promise<Ended<T>> {
    const method = body === undefined ? 'GET' : 'POST'
    const text = body === undefined ? {} : { body: JSON.stringify(body) }
    let url = endpointUrl(base, path, query)
    for (let hop = 0; ; hop++) {
      const headers = await headersFor(method, url, now)
      if (!headers) return neither(failure('its key cannot sign', { unsent: true, setting: 'cdp_key_secret' }))
      const response = await fetchUrl(url.href, { method, headers, redirect: 'manual', signal, ...text }).catch(
        (error: unknown) => ({ error }),
      )
      if ('error' in response) {
        signal.throwIfAborted()
        return bad(connectionFailure(response.error))
      }
      const { status } = response
      if (status !== 307 && status !== 308) return await readReply(response, read)
      void response.body?.cancel().catch(() => {})
      const next = parseUrl(response.headers.get('location') ?? '', url)
      if (next && hop === 0 && isAllowed(next)) {
        url = next
        continue
      }
      // A server that redirects with 307 or 308 has not acted on the request.
      const moved = failure(`it redirects to another origin (HTTP status ${status})`, { unsent: true, setting: 'url' })
      return bad(next ? { ...moved, movedTo: next.origin } : moved)
    }
  }

  async function readReply<T>(response: Response, read: ApiRequest<T>['read']): Promise<Ended<T>> {
    const { status, ok } = response
    const text = await readText(response, maxBytes)
    if (text === undefined) return bad(failure(`its reply was longer than ${maxBytes} bytes`))
    const value = read(parseJson(text), ok, response.headers)
    if (value !== undefined) return { result: { kind: 'result', value }, outcome: 'good' }
    const undecided = failure(`its reply is inconclusive (HTTP status ${status})`, faultySetting(status))
    // A buyer whose payment it cannot read must not open the breaker for everybody else.
    return status === 400 || status === 413 || status === 422 ? neither(undecided) : bad(undecided)
  }

  function faultySetting(status: number): { setting?: 'url' | 'cdp_key_id' } {
    if (status === 404 || status === 405 || status === 410) return { setting: 'url' }
    if (status === 401 || status === 403) return { setting: bearer ? 'cdp_key_id' : 'url' }
    return {}
  }

  /** The key goes only to its own origin, with a token per address. Undefined when the key cannot sign. */
  async function headersFor(method: string, url: URL, now: number): Promise<Record<string, string> | undefined> {
    const plain = { accept: 'application/json', 'content-type': 'application/json' }
    if (!bearer || url.origin !== base.origin) return plain
    const token = await bearer(method, url, now).catch(() => undefined)
    return token === undefined ? undefined : { ...plain, authorization: `Bearer ${token}` }
  }

  function isAllowed({ origin, username, password }: URL): boolean {
    if (row.redirects === false) return false
    const isKnown = origin === base.origin || (row.redirectOrigins ?? []).includes(origin)
    return isKnown && !username && !password
  }

  return { request, close: () => closing.abort() }
}

const bad = (result: ApiFailure): Ended<never> => ({ result, outcome: 'bad' })
const neither = (result: ApiFailure): Ended<never> => ({ result, outcome: 'neither' })

function failure(reason: string, more: { unsent?: boolean; setting?: ApiFailure['setting'] } = {}): ApiFailure {
  return { kind: 'failure', reason, unsent: more.unsent ?? false, ...(more.setting && { setting: more.setting }) }
}

/** Opens after `limit` failures in a row, for `openMs`; then one request at a time may try, and a success closes it. */
function circuitBreaker(
  limit: number,
  openMs: number,
): { enter(now: number): ((outcome: Outcome) => void) | undefined } {
  let failed = 0
  let until = 0
  let isTrying = false
  return {
    enter(now) {
      const isTrial = failed >= limit
      if (isTrial && (now < until || isTrying)) return undefined
      if (isTrial) isTrying = true
      return (outcome) => {
        if (isTrial) isTrying = false
        if (outcome === 'good') failed = 0
        if (outcome !== 'bad') return
        failed++
        until = Math.max(until, now + openMs)
      }
    },
  }
}

/** FIFO slots, `limit` at once. Returns a function that releases the slot, or undefined when `signal` aborts first. */
function slotLimiter(limit: number): { acquire(signal: AbortSignal): Promise<(() => void) | undefined> } {
  let used = 0
  const queue = new Set<() => void>()
  const release = () => {
    const [next] = queue
    if (!next) return void used--
    queue.delete(next)
    next()
  }
  return {
    async acquire(signal) {
      if (signal.aborted) return undefined
      if (used < limit) {
        used++
        return release
      }
      return await new Promise((resolve) => {
        const grant = () => {
          signal.removeEventListener('abort', onAbort)
          resolve(release)
        }
        const onAbort = () => {
          queue.delete(grant)
          resolve(undefined)
        }
        queue.add(grant)
        signal.addEventListener('abort', onAbort, { once: true })
      })
    },
  }
}

/** A signal that aborts after `ms` or with any of the others; `over` tells which. `end` removes timer and listeners. */
export function deadline(ms: number, others: readonly (AbortSignal | undefined)[]) {
  const stop = new AbortController()
  let cause: 'late' | 'aborted' | undefined
  const over = new Promise<'late' | 'aborted'>((resolve) =>
    stop.signal.addEventListener('abort', () => resolve(cause ?? 'aborted'), { once: true }),
  )
  const end = (reason: 'late' | 'aborted') => {
    cause ??= reason
    stop.abort()
  }
  const onAbort = () => end('aborted')
  const timer = setTimeout(() => end('late'), ms)
  for (const other of others) other?.addEventListener('abort', onAbort, { once: true })
  if (others.some((other) => other?.aborted)) onAbort()
  return {
    signal: stop.signal,
    over,
    isAborted: () => cause === 'aborted',
    end() {
      clearTimeout(timer)
      for (const other of others) other?.removeEventListener('abort', onAbort)
    },
  }
}

/**
 * Unsent when no connection was made, by the error codes of Bun, Node and Deno; after any other error it may have been
 * read.
 */
function connectionFailure(error: unknown): ApiFailure {
  const { code, cause, message } = error as { code?: unknown; cause?: { code?: unknown }; message?: unknown }
  const isCode = [code, cause?.code].some((name) => CONNECT_ERRORS.test(String(name)))
  const unsent = isCode || /client error \(Connect\)/.test(String(message))
  return failure(unsent ? 'it cannot be reached' : 'the connection broke', { unsent })
}

const CONNECT_ERRORS =
  /^(ECONNREFUSED|ConnectionRefused|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT|FailedToOpenSocket)$/

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function parseUrl(text: string, base?: URL): URL | undefined {
  try {
    const url = new URL(text, base)
    return url.protocol === 'http:' || url.protocol === 'https:' ? url : undefined
  } catch {
    return undefined
  }
}

function baseOf({ url, cdp }: FacilitatorRow): URL {
  const base = parseUrl(url)
  if (!base) throw new RangeError('url must be an http or https URL')
  if (base.username || base.password) throw new RangeError('url must not hold a user name or password')
  const isLocal = /^(localhost|127\.[\d.]+|\[::1\])$/.test(base.hostname)
  if (cdp && base.protocol !== 'https:' && !isLocal) throw new RangeError('url must be https: a key is sent there')
  return base
}

/** Keeps the colon of a CAIP-2 name: not every API decodes it. */
function endpointUrl(base: URL, name: string, query: Readonly<Record<string, string>>): URL {
  const url = new URL(base)
  url.pathname = `${base.pathname.replace(/\/+$/, '')}/${name}`
  const entries = Object.entries(query)
  for (const [field, value] of entries) url.searchParams.set(field, value)
  if (entries.length > 0) url.search = url.search.replaceAll('%3A', ':')
  return url
}
