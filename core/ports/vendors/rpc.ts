/** The vendor interface for blockchain nodes. */
import type { Json } from '../../lib/json.ts'

/** One JSON-RPC 2.0 call, and a node's reply to one call or to a batch. */
export type RpcCall = {
  readonly jsonrpc: '2.0'
  readonly id: string | number
  readonly method: string
  readonly params?: readonly Json[]
}

export type RpcAnswer = { readonly text: string; readonly isCached: boolean }

/**
 * The operator's nodes. Throws an `ApiError` UPSTREAM_FAILED when there is no answer, or when the node itself failed.
 */
export interface RpcVendor {
  /** Networks with a node, by slug. */
  readonly networks: readonly string[]
  ask(network: string, calls: RpcCall | readonly RpcCall[], at: { signal: AbortSignal }): Promise<RpcAnswer>
}
