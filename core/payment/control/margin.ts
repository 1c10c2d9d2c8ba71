/** Margins of the operator on top of the prices of products. */
import { withMarginOf } from '../../endpoint/prices.ts'
import type { Usdc } from '../../x402/money.ts'
import type { MarginChange } from './rules.ts'

/**
 * Milliseconds from a change to its effect. Replicas read changes every few seconds, and by then all know it, so that
 * none quotes what another would refuse.
 */
export const MARGIN_DELAY_MS = 10_000

/** Charge for a cost: with the margin of its quote, and at most the quote. */
export function chargeOf(
  cost: Usdc,
  { margin = '0', quote }: { readonly margin?: string; readonly quote: Usdc },
): Usdc {
  const charge = withMarginOf(cost, margin)
  return charge < quote ? charge : quote
}

/** The margin that quotes have at this time. */
export function marginAt(changes: readonly MarginChange[], now: number): string {
  return changes.findLast(({ from }) => from <= now)?.percent ?? '0'
}

/** Margins of quotes that may still be paid: those in force at a time since `since`, the newest first. */
export function marginsSince(changes: readonly MarginChange[], since: number, now: number): readonly string[] {
  const started = changes.filter(({ from }) => from <= now)
  const ended = started.filter((_, at) => (started[at + 1]?.from ?? Number.POSITIVE_INFINITY) >= since)
  const before = (started[0]?.from ?? now) >= since ? ['0'] : []
  return [...ended.map(({ percent }) => percent).toReversed(), ...before]
}

/** Adds a change, and forgets those that no quote can have any more. */
export function changedMargin(
  changes: readonly MarginChange[],
  percent: string,
  { now, quoteMs }: { readonly now: number; readonly quoteMs: number },
): readonly MarginChange[] {
  const from = now + MARGIN_DELAY_MS
  const retained = changes.filter(
    (change, at) => change.from <= now && (changes[at + 1]?.from ?? from) >= now - quoteMs,
  )
  return [...retained, { percent, from }]
}
