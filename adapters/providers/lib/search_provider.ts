/** Shared by the search vendors: the operator's configuration, error replies, and fallback to a second vendor. */
import { type Clock, ApiError, type Fields, type Log, type SearchVendor } from '../../../core/mod.ts'
import { type Fetch, type VendorHttp, vendorHttp } from '../../http/fetch.ts'
import { envelope, errorFor, type ErrorClassifier, failureKindOf } from '../../http/error_replies.ts'

export type SearchVendorConfig = {
  /** Root of the API, before the protocol's own paths. */
  readonly baseUrl: string
  readonly key?: string | undefined
  /** Named to the buyer as the source of a rate limit. */
  readonly maker: string
  /** Longest duration of one upstream call, in milliseconds. */
  readonly timeoutMs: number
  /** Merged into every request, below the order. */
  readonly parameters?: Fields | undefined
  /** Merged into every request above everything else. A null removes a field. */
  readonly overrides?: Fields | undefined
  readonly clock: Clock
  readonly log: Log
  readonly fetch?: Fetch | undefined
}

/**
 * Timeout of one search in milliseconds. Two searches and a settlement fit into the 120 s of a one-shot call.
 *
 * @example
 * const search = exaSearch({ ...EXA_SEARCH, key, maker: 'Exa', timeoutMs: SEARCH_TIMEOUT_MS, clock, log })
 */
export const SEARCH_TIMEOUT_MS = 55_000

const MAX_REPLY_BYTES = 16 * 1024 * 1024

/** A client of one search vendor. Errors that the caller cannot fix are plain Errors, or UPSTREAM_TIMEOUT. */
export function searchHttp(config: SearchVendorConfig, name: string): VendorHttp {
  return vendorHttp({ ...config, name, maxBytes: MAX_REPLY_BYTES, errorFor })
}

const POLICY_WORDS = /violates usage guidelines|SAFETY_CHECK_TYPE|content[ _-](policy|moderation|filter)|usage polic/i
const CREDIT_WORDS = /credits|spending limit|balance|quota/i
const JUDGED = new Set([400, 403, 422])

/** Only the query comes from the caller, so a rejection for anything but its words is for the operator. */
export const classifySearchError: ErrorClassifier = ({ status, body }) => {
  const { code, message } = envelope(body)
  const text = `${code} ${message.slice(0, 4000)}`
  if (JUDGED.has(status) && POLICY_WORDS.test(text)) return 'policy'
  if (status === 429 && CREDIT_WORDS.test(text)) return 'operator'
  const kind = failureKindOf(status)
  return kind === 'image' ? 'operator' : kind
}

/** Final verdicts on a query; a second vendor is not asked to overrule the first. */
const FINAL = new Set(['CONTENT_POLICY', 'INVALID_BODY', 'INVALID_PARAMETER'])

/**
 * Falls back to the second vendor when the first fails: unreachable, out of credit, rate-limited or too slow. Does not
 * when the first rejects the query, or the signal aborts.
 *
 * @example
 * const search = firstOf(exaSearch(exa), xaiSearch(xai))
 */
export function firstOf(first: SearchVendor, second: SearchVendor): SearchVendor {
  return {
    async search(job, at) {
      try {
        return await first.search(job, at)
      } catch (error) {
        at.signal.throwIfAborted()
        if (error instanceof ApiError && FINAL.has(error.code)) throw error
        return await second.search(job, at)
      }
    },
  }
}
