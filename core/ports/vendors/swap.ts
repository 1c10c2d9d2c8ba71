/** The vendor interface for swap quotes. */
import type { Json } from '../../lib/json.ts'

/** One request to the swap aggregator: `path` below its root, `query` with its question mark, or ''. */
export type SwapCall = {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly query: string
  readonly body?: Uint8Array
}

/**
 * `text` is the raw JSON, because its numbers must not be rounded; `body` the same, parsed, or null when it is not
 * JSON.
 */
export type SwapAnswer = {
  readonly status: number
  readonly text: string
  readonly body: Json
  readonly retryAfter?: string
}

/**
 * Returns the aggregator's reply, whatever its status. Throws an `ApiError` UPSTREAM_TIMEOUT or MODEL_UNAVAILABLE when
 * there is none.
 */
export interface SwapVendor {
  call(call: SwapCall, at: { signal: AbortSignal }): Promise<SwapAnswer>
  /** Recipient of the affiliate fee: the treasury address. */
  readonly feeRecipient: string
}
