/** What the search vendors have in common: how the operator configures one, how it refuses, and two of them in a row. */
import { type Clock, ApiError, type Fields, type Log, type SearchVendor } from '../../../core/mod.ts'
import { type Fetch, type VendorHttp, vendorHttp } from '../../http/fetch.ts'
import { envelope, errorFor, type Judge, usualTrouble } from '../../http/refusals.ts'

export type SearchVendorConfig = {
  /** Root of the API, up to where the protocol's own paths begin. */
  readonly baseUrl: string
  readonly key?: string | undefined
  /** Who is named as the source of a rate limit. */
  readonly maker: string
  /** Longest that one upstream call may take, in milliseconds. */
  readonly timeoutMs: number
  /** Joins every request, below the order. */
  readonly parameters?: Fields | undefined
  /** Joins every request above all else. A null leaves a field out. */
  readonly overrides?: Fields | undefined
  readonly clock: Clock
  readonly log: Log
  readonly fetch?: Fetch | undefined
}

/** Two in a row, with a settlement after them, fit into the 120 s that a one-shot call may take. */
export const SEARCH_TIMEOUT_MS = 55_000

const MAX_REPLY_BYTES = 16 * 1024 * 1024

/** Calls one search vendor. What the caller cannot mend is thrown as a plain error, or as UPSTREAM_TIMEOUT. */
export function searchHttp(config: SearchVendorConfig, name: string): VendorHttp {
  return vendorHttp({ ...config, name, maxBytes: MAX_REPLY_BYTES, errorFor })
}

const POLICY_WORDS = /violates usage guidelines|SAFETY_CHECK_TYPE|content[ _-](policy|moderation|filter)|usage polic/i
const CREDIT_WORDS = /credits|spending limit|balance|quota/i
const JUDGED = new Set([400, 403, 422])

/** Every body is ours but for the query: what is refused for another reason than its words is the operator's to see, and never the caller's. */
export const searchJudge: Judge = ({ status, body }) => {
  const { code, message } = envelope(body)
  const words = `${code} ${message.slice(0, 4000)}`
  if (JUDGED.has(status) && POLICY_WORDS.test(words)) return 'policy'
  if (status === 429 && CREDIT_WORDS.test(words)) return 'operator'
  const usual = usualTrouble(status)
  return usual === 'image' ? 'operator' : usual
}

/** Verdicts on the words of a query; a second vendor is not asked to overrule the first. */
const FINAL = new Set(['CONTENT_POLICY', 'INVALID_BODY', 'INVALID_PARAMETER'])

/** Asks the second where the first has no answer: away, out of money, at its limit or too slow. Not where it refuses the query, or our time is up. */
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
