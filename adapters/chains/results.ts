/** Types and replies that all chains share. */
import type { Unavailable } from '../../core/ports/mod.ts'

/** The time of a call in milliseconds, and the signal that ends it. */
export type CallOptions = { readonly now: number; readonly signal: AbortSignal }

/**
 * The result of comparing a configuration with its chain. `problems` and `warnings` start with the name of the setting,
 * and contain no secret.
 */
export type CheckResult<Details = unknown> =
  | ({ readonly kind: 'ready'; readonly warnings: readonly string[] } & Details)
  /** The configuration does not match the chain; the gateway must not sell with it. */
  | { readonly kind: 'wrong'; readonly problems: readonly string[] }
  /** The node does not answer; try again. */
  | { readonly kind: 'unavailable'; readonly reason: string }

export function unavailable(reason: string): Unavailable {
  return { kind: 'unavailable', reason }
}
