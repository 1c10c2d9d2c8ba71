/** Reads JSON from a price feed: within 5 s, with one retry (contract 10.18). */
import { outages } from '../../../core/lib/mod.ts'
import { ApiError, type Clock, type Log } from '../../../core/mod.ts'
import { type Fetch } from '../../http/fetch.ts'
import { readAtMost } from '../../http/read_body.ts'
import { bearer } from './image_provider.ts'
import { orAbort } from '../../http/or_abort.ts'
import { safeCode } from '../../http/error_replies.ts'

type MarketHttpConfig = {
  /** Name of the feed, for logs. */
  readonly name: string
  readonly key?: string | undefined
  readonly clock: Clock
  readonly log: Log
  readonly fetch?: Fetch | undefined
}

/**
 * Parses a reply. Undefined, or a SyntaxError, means that it does not answer the question: a failure like any other.
 */
type ReplyParser<T> = {
  read(text: string): T | undefined
  /** Parses a 404 that is an answer; any other 404 means that our URL is wrong. */
  missing?(text: string): T | undefined
}
type MarketHttp = { get<T>(url: string, signal: AbortSignal, parser: ReplyParser<T>): Promise<T> }

const TIMEOUT_MS = 5_000
const RETRY_PAUSE_MS = 250
const MAX_BYTES = 32 * 1024 * 1024

/** The result of an attempt. `isOurs`: our key or settings are wrong, so a retry is useless. */
type Attempt<T> = { kind: 'got'; answer: T } | Failed
type Failed = { kind: 'failed'; what: string; status?: number; isOurs?: true }

/**
 * A client of one price feed. Throws FEED_UNAVAILABLE, without the feed's text, when there is no answer. Follows no
 * redirects, which would forward the key. Ends with `signal` at any point, with its reason.
 */
export function marketHttp({ name, key, clock, log, fetch = globalThis.fetch }: MarketHttpConfig): MarketHttp {
  const refusing = outages({ log, clock, over: 'a price feed serves this gateway again' })
  const headers = { accept: 'application/json', 'user-agent': 'farebox', ...bearer(key) }

  return {
    async get(url, signal, parser) {
      signal.throwIfAborted()
      const first = await attempt(url, signal, parser)
      if (first.kind === 'got') return got(first.answer)
      if (first.isOurs) throw unavailable(first)
      await clock.wait(RETRY_PAUSE_MS, signal)
      const second = await attempt(url, signal, parser)
      if (second.kind === 'got') return got(second.answer)
      throw unavailable(second)
    },
  }

  function got<T>(answer: T): T {
    refusing.worked(name)
    return answer
  }

  async function attempt<T>(url: string, signal: AbortSignal, parser: ReplyParser<T>): Promise<Attempt<T>> {
    signal.throwIfAborted()
    const done = new AbortController()
    const late = new AbortController()
    void clock
      .wait(TIMEOUT_MS, done.signal)
      .then(() => done.signal.aborted || late.abort(new Error(`no answer within ${TIMEOUT_MS} ms`)))
    const either = AbortSignal.any([signal, late.signal])
    try {
      return await orAbort(exchange(url, either, parser), either)
    } catch {
      if (signal.aborted) throw signal.reason
      return {
        kind: 'failed',
        what: late.signal.aborted
          ? (late.signal.reason as Error).message
          : 'could not be reached, or the connection broke',
      }
    } finally {
      done.abort()
    }
  }

  async function exchange<T>(url: string, signal: AbortSignal, { read, missing }: ReplyParser<T>): Promise<Attempt<T>> {
    const response = await fetch(url, { headers, redirect: 'manual', signal })
    const { status, ok } = response
    const text = new TextDecoder().decode(await readAtMost(response.body ?? [], ok ? MAX_BYTES : 65_536))
    const parse = ok ? read : status === 404 && missing
    const answer = parse ? parseQuietly(() => parse(text)) : undefined
    if (answer !== undefined) return { kind: 'got', answer }
    const isBusy = status === 429 || status >= 500
    const code = safeCode(parseQuietly(() => JSON.parse(text) as unknown))
    if (ok)
      return {
        kind: 'failed',
        what: `answered something other than what was requested${code && ` (${code})`}`,
        status,
      }
    return {
      kind: 'failed',
      what: `answered ${status}${code && ` (${code})`}`,
      status,
      ...(!isBusy && { isOurs: true as const }),
    }
  }

  function unavailable({ what, status, isOurs }: Failed): ApiError {
    const fields = { feed: name, what, ...(status && { status }) }
    if (isOurs)
      refusing.failed(name, {
        reason: what,
        message: 'a price feed refuses this gateway: check its key, plan and settings',
        fields,
      })
    else log.warn('a price feed is unavailable', fields)
    return new ApiError('FEED_UNAVAILABLE', {
      message: 'The price feed did not answer. Nothing was charged; try again.',
    })
  }
}

/** Text that is not JSON reads as undefined. */
function parseQuietly<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}
