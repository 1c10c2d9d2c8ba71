/**
 * Limits how much text is tokenized for callers who have not paid: a token bucket per address, in the memory of one
 * process (decision 90).
 */
import { boundedMap } from '../lib/bounded_map.ts'
import { addressKey } from './caller_address.ts'
import { ApiError } from './errors.ts'
import type { Clock } from '../lib/clock.ts'
import type { CountTokens } from '../ports/vendors/chat.ts'

/** Characters per minute and address that are tokenized without a payment, by default. */
export const UNPAID_CHARACTERS = 10_000_000

export type UnpaidWork = {
  /** The counter for one request of this address. It throws TOO_MANY_REQUESTS when the budget is spent. */
  from(ip: string): UnpaidCount
}

export type UnpaidCount = {
  readonly countTokens: CountTokens
  /** Charges for reading a large body of this many bytes, before its payment is verified. Throws like a count. */
  read(bytes: number): void
  /** Refunds what this request has spent, because its payment has been verified. */
  refund(): void
}

type Options = {
  readonly countTokens: CountTokens
  readonly clock: Clock
  /** Characters per minute and address. Requests that start within the budget may overdraw it by as much again. */
  readonly perMinute: number
  /**
   * Addresses remembered at once. When full, the least recently used one is dropped, and starts again with a full
   * budget.
   */
  readonly remembered?: number
}

type Bucket = { left: number; at: number }

/** Reading a byte costs about an eighth of counting a character. */
const BYTES_PER_CHARACTER = 8

/** A refused caller is told to wait until a tenth of the budget is back. */
const WORTH_WAITING = 0.1

/**
 * Whether a payment header is valid is known only once its request is priced, and the price needs the count. So every
 * request spends the budget of its address, and gets it back when its payment is verified. Text that was counted lately
 * costs nothing: the paid retry of a quoted request is not refused for the first attempt.
 */
export function unpaidWork({ countTokens, clock, perMinute, remembered = 10_000 }: Options): UnpaidWork {
  const buckets = boundedMap<Bucket>(remembered)
  return {
    from(ip) {
      let spent = 0
      return {
        countTokens: (text, options) => countTokens(text, { ...options, spend }),
        read: (bytes) => spend(Math.ceil(bytes / BYTES_PER_CHARACTER)),
        refund() {
          if (spent === 0) return
          const bucket = bucketOf(addressKey(ip))
          bucket.left = Math.min(perMinute, bucket.left + spent)
          spent = 0
        },
      }

      function spend(characters: number): void {
        const bucket = bucketOf(addressKey(ip))
        // A count in progress may overdraw the budget, so that a long prompt gets done; the total overdraft is bounded
        // too.
        if (bucket.left <= (spent === 0 ? 0 : -perMinute)) throw overspent(bucket.left)
        bucket.left -= characters
        spent += characters
      }
    },
  }

  function bucketOf(key: string): Bucket {
    const now = clock.now()
    const bucket = buckets.get(key) ?? { left: perMinute, at: now }
    bucket.left = Math.min(perMinute, bucket.left + (Math.max(0, now - bucket.at) * perMinute) / 60_000)
    bucket.at = now
    buckets.set(key, bucket)
    return bucket
  }

  function overspent(left: number): ApiError {
    const seconds = Math.ceil(((WORTH_WAITING * perMinute - left) * 60) / perMinute)
    const message = `Unpaid requests from one address may have ${perMinute} characters of text counted per minute; each byte of a large body counts as an eighth of a character. Retry after ${seconds} s, or send less. Nothing was charged.`
    return new ApiError('TOO_MANY_REQUESTS', {
      message,
      fields: { retryAfterSeconds: seconds },
      headers: { 'retry-after': String(seconds) },
    })
  }
}
