/** Types and replies that all chains share. */
import type { CheckResult as Checked, Unavailable } from '../../../core/ports/mod.ts'

/** The result of comparing a configuration with its chain. */
export type CheckResult<Details = unknown> = Checked<Details>

/** The time of a call in milliseconds, and the signal that ends it. */
export type CallOptions = { readonly now: number; readonly signal: AbortSignal }

export function unavailable(reason: string): Unavailable {
  return { kind: 'unavailable', reason }
}
