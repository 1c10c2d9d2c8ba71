/** Services whose answers are passed on: prediction markets and DeFi data. */
import type { Fields } from '../../lib/json.ts'

/**
 * A question to a service whose answers are passed on: a path below its root and a query that
 * core/products/lib/passthrough_path.ts has judged; a POST where there is a body.
 */
export type PassthroughRequest = { readonly path: string; readonly query: string; readonly body?: Fields }

/** Throws an `ApiError`: PASSED_ON for what the caller should hear of, UPSTREAM_FAILED where there is no answer. */
export interface DataVendor {
  ask(request: PassthroughRequest, at: { signal: AbortSignal }): Promise<string>
}
