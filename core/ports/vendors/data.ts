/** The vendor interface for services whose replies are passed through: prediction markets and DeFi data. */
import type { Fields } from '../../lib/json.ts'

/**
 * A passthrough request: a path below the service's root and a query, both checked by
 * core/products/lib/passthrough_path.ts; a POST when there is a body.
 */
export type PassthroughRequest = { readonly path: string; readonly query: string; readonly body?: Fields }

/**
 * Throws an `ApiError`: PASSED_ON for a refusal that is meant for the caller, UPSTREAM_FAILED when there is no answer.
 */
export interface DataVendor {
  ask(request: PassthroughRequest, at: { signal: AbortSignal }): Promise<string>
}
