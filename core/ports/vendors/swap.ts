/** Who quotes swaps. */
import type { Json } from '../../lib/json.ts'

/** One call of the swap aggregator: `path` under its root, `query` with its question mark or ''. */
export type SwapCall = {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly query: string
  readonly body?: Uint8Array
}

/**
 * `text` is the JSON as it came, for its numbers are not ours to round; `body` the same, parsed, or null where it was
 * none.
 */
export type SwapAnswer = {
  readonly status: number
  readonly text: string
  readonly body: Json
  /** As the upstream wrote it. */ readonly retryAfter?: string
}

/**
 * The aggregator's own answer, whatever its status. Throws an `ApiError` UPSTREAM_TIMEOUT or MODEL_UNAVAILABLE where
 * there is none.
 */
export interface SwapVendor {
  call(call: SwapCall, at: { signal: AbortSignal }): Promise<SwapAnswer>
  /** Where the affiliate fee goes: the treasury, as an address. */
  readonly feeRecipient: string
}
