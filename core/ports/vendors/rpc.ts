/** The operator's nodes. */
import type { Json } from '../../lib/json.ts'

/** One call of JSON-RPC 2.0, and what a node says to it or to a list of them. */
export type RpcCall = {
  readonly jsonrpc: '2.0'
  readonly id: string | number
  readonly method: string
  readonly params?: readonly Json[]
}

export type RpcAnswer = { readonly text: string; readonly isCached: boolean }

/**
 * The operator's nodes. Throws an `ApiError` UPSTREAM_FAILED where there is no answer, or only one that the node is at
 * fault for.
 */
export interface RpcVendor {
  /** Networks that there is a node of, by slug. */
  readonly networks: readonly string[]
  ask(network: string, calls: RpcCall | readonly RpcCall[], at: { signal: AbortSignal }): Promise<RpcAnswer>
}
