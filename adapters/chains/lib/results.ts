/** Types and replies that all chains share. */
import type { CheckResult as Checked, Unavailable } from '../../../core/ports/mod.ts'

/** The result of comparing a configuration with its chain. */
export type CheckResult<Details = unknown> = Checked<Details>

/** The time of a call in milliseconds, and the signal that ends it. */
export type CallOptions = { readonly now: number; readonly signal: AbortSignal }

export function unavailable(reason: string): Unavailable {
  return { kind: 'unavailable', reason }
}

/**
 * Asks a chain again if its first answers say that the configuration is wrong. A wrong answer stops a start, and one
 * node behind a balancer may be broken: only the problems that both rounds find count.
 */
export async function confirmedCheck<Details>(
  check: () => Promise<CheckResult<Details>>,
): Promise<CheckResult<Details>> {
  const first = await check()
  if (first.kind !== 'wrong') return first
  const again = await check()
  if (again.kind !== 'wrong') return again
  const problems = again.problems.filter((problem) => first.problems.includes(problem))
  if (problems.length > 0) return { kind: 'wrong', problems }
  return unavailable(`the node does not repeat its answers: ${[...first.problems, ...again.problems].join('; ')}`)
}
