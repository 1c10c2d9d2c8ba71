/**
 * How much text is counted for callers who have not paid (yet): a token bucket for each address, in the memory of one
 * process.
 */
import { addressKey } from './caller_address.ts'
import { ApiError } from './errors.ts'
import type { Clock } from '../lib/clock.ts'
import type { CountTokens } from '../ports/vendors/chat.ts'

export type UnpaidWork = {
  /** The count for one request of this address. It throws TOO_MANY_REQUESTS where its budget is spent. */
  from(ip: string): UnpaidCount
}

export type UnpaidCount = {
  readonly countTokens: CountTokens
  /**
   * Spends for a large body of so many bytes, which is read and checked before anybody knows that it is paid for.
   * Throws like a count.
   */
  read(bytes: number): void
  /** Returns what this request has spent: its payment has been verified. */
  refund(): void
}

type Options = {
  readonly countTokens: CountTokens
  readonly clock: Clock
  /**
   * Characters that an address may have counted in a minute. Requests that begin within it may go on to as many again,
   * which are then missing.
   */
  readonly perMinute: number
  /** Addresses remembered at once; the one unused for longest is forgotten, and starts with a full budget. */
  readonly remembered?: number
}

type Bucket = { left: number; at: number }

/** To read a byte costs about an eighth of what it costs to count a character. */
const BYTES_PER_CHARACTER = 8

/** A refused caller is told to wait until a tenth of the budget is back. */
const WORTH_WAITING = 0.1

/**
 * Whether a payment header is worth anything is known only once its request is priced, and the price needs the count.
 * So every request spends the budget of its address, and one whose payment is verified gets it back. Text that was
 * counted lately costs nothing: a buyer's second request, with its payment, is not refused for the first.
 */
export function unpaidWork({ countTokens, clock, perMinute, remembered = 10_000 }: Options): UnpaidWork {
  const buckets = new Map<string, Bucket>()
  return {
    from(ip) {
      const key = addressKey(ip)
      let spent = 0
      return {
        countTokens: (text, options) => countTokens(text, { ...options, spend }),
        read: (bytes) => spend(Math.ceil(bytes / BYTES_PER_CHARACTER)),
        refund() {
          if (spent === 0) return
          const bucket = bucketOf(key)
          bucket.left = Math.min(perMinute, bucket.left + spent)
          spent = 0
        },
      }

      function spend(characters: number): void {
        const bucket = bucketOf(key)
        // A count that has begun may go on into debt, so that a long prompt gets done; the debt of all that began
        // together has an end, too.
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
    buckets.delete(key)
    buckets.set(key, bucket)
    if (buckets.size > remembered) buckets.delete(buckets.keys().next().value ?? '')
    return bucket
  }

  function overspent(left: number): ApiError {
    const seconds = Math.ceil(((WORTH_WAITING * perMinute - left) * 60) / perMinute)
    const message = `Unpaid requests from one address may have ${perMinute} characters of text counted per minute; a large body counts for an eighth of its bytes. Retry after ${seconds} s, or send less. Nothing was charged.`
    return new ApiError('TOO_MANY_REQUESTS', {
      message,
      fields: { retryAfterSeconds: seconds },
      headers: { 'retry-after': String(seconds) },
    })
  }
}
