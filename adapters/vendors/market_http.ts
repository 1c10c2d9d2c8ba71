/** Reads JSON from a price feed: 5 s, and once more (spec 2, Errors 502). */
import { type Clock, Fault, type Log } from '../../core/mod.ts'
import type { Fetch } from './http.ts'
import { bearer } from './image_vendor.ts'
import { safeCode } from './refusals.ts'

export type MarketHttpConfig = {
  /** The feed, for logs. */
  readonly name: string
  readonly key?: string | undefined
  readonly clock: Clock
  readonly log: Log
  readonly fetch?: Fetch | undefined
}

/** A reply that means something: JSON, or undefined for a 404. */
export type MarketHttp = { get(url: string, signal: AbortSignal): Promise<unknown> }

export const TIMEOUT_MS = 5_000
const RETRY_PAUSE_MS = 250
const MAX_BYTES = 32 * 1024 * 1024

/** What an attempt came to. `isOurs`: our key or settings, so that asking again is of no use. */
type Attempt = { kind: 'got'; body: unknown } | { kind: 'failed'; what: string; status?: number; isOurs?: true }

/**
 * Throws FEED_UNAVAILABLE where there is no answer; nothing of the feed's own words is in it. Redirects are not followed, for they would carry the key
 * away. Ends with `signal` at any point, and with its reason.
 */
export function marketHttp({ name, key, clock, log, fetch = globalThis.fetch }: MarketHttpConfig): MarketHttp {
  const headers = { accept: 'application/json', 'user-agent': 'farebox', ...bearer(key) }

  return {
    async get(url, signal) {
      signal.throwIfAborted()
      const first = await attempt(url, signal)
      if (first.kind === 'got') return first.body
      if (first.isOurs) throw away(first)
      await clock.wait(RETRY_PAUSE_MS, signal)
      const second = await attempt(url, signal)
      if (second.kind === 'got') return second.body
      throw away(second)
    },
  }

  async function attempt(url: string, signal: AbortSignal): Promise<Attempt> {
    signal.throwIfAborted()
    const done = new AbortController()
    const late = new AbortController()
    void clock.wait(TIMEOUT_MS, done.signal).then(() => done.signal.aborted || late.abort(new Error(`no answer within ${TIMEOUT_MS} ms`)))
    const either = AbortSignal.any([signal, late.signal])
    try {
      return await orAbort(converse(url, either), either)
    } catch {
      if (signal.aborted) throw signal.reason
      return { kind: 'failed', what: late.signal.aborted ? (late.signal.reason as Error).message : 'could not be reached, or broke off' }
    } finally {
      done.abort()
    }
  }

  async function converse(url: string, signal: AbortSignal): Promise<Attempt> {
    const response = await fetch(url, { headers, redirect: 'manual', signal })
    const { status } = response
    if (status === 404) {
      await response.body?.cancel()
      return { kind: 'got', body: undefined }
    }
    const body = parse(await readAtMost(response, response.ok ? MAX_BYTES : 65_536))
    if (response.ok) return body === undefined ? { kind: 'failed', what: 'answered with something that is not JSON', status } : { kind: 'got', body }
    const isBusy = status === 429 || status >= 500
    const code = safeCode(body)
    return { kind: 'failed', what: `answered ${status}${code && ` (${code})`}`, status, ...(!isBusy && { isOurs: true as const }) }
  }

  function away({ what, status, isOurs }: Extract<Attempt, { kind: 'failed' }>): Fault {
    const fields = { feed: name, what, ...(status && { status }) }
    if (isOurs) log.alert('a price feed refuses us: its key, plan or settings need the operator', fields)
    else log.warn('a price feed is away', fields)
    return new Fault('FEED_UNAVAILABLE', { message: 'The price feed did not answer. Nothing was charged; try again.' })
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) ?? undefined
  } catch {
    return undefined
  }
}

async function readAtMost(response: Response, maxBytes: number): Promise<string> {
  const decoder = new TextDecoder()
  let [text, length] = ['', 0]
  for await (const chunk of response.body ?? []) {
    length += chunk.length
    if (length > maxBytes) throw new Error(`more than ${maxBytes} bytes`)
    text += decoder.decode(chunk, { stream: true })
  }
  return text + decoder.decode()
}

/** Ends with the signal, and with its reason, while the work goes on for others who wait for it. */
export function orAbort<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason)
    signal.addEventListener('abort', abort, { once: true })
    if (signal.aborted) abort()
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}
