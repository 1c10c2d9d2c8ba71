/** Margins of the operator on top of the prices of products. */
import type { Price } from '../../endpoint/mod.ts'
import { dollars, print, type Usdc, usdc } from '../../x402/money.ts'
import type { MarginChange } from './rules.ts'

/**
 * Milliseconds from a change to its effect. Replicas read changes every few seconds, and by then all know it, so that
 * none quotes what another would refuse.
 */
export const MARGIN_DELAY_MS = 10_000

const MADE = new WeakMap<Price, Map<string, Price>>()

/** The price with a margin in percent, rounded up to a base unit. The same object for the same price and margin. */
export function withMargin(price: Price, percent: string): Price {
  if (price.amount === 0n || Number(percent) === 0) return price
  const made = MADE.get(price) ?? new Map<string, Price>()
  const known = made.get(percent)
  if (known) return known
  const amount = raised(price.amount, percent)
  const { publicPrice } = price
  const marked = {
    ...price,
    amount,
    margin: percent,
    // Products that write the amount in fewer digits would round what is signed.
    ...('amount' in publicPrice && { publicPrice: { ...publicPrice, amount: print(amount) } }),
  }
  MADE.set(price, made.set(percent, marked))
  return marked
}

function raised(amount: Usdc, percent: string): Usdc {
  const { num, den } = dollars(percent)
  const whole = 100n * den
  return usdc((amount * (whole + num) + whole - 1n) / whole)
}

/** What a cost comes to: with the margin of its quote, and at most the quote. */
export function chargeOf(
  cost: Usdc,
  { margin = '0', quote }: { readonly margin?: string; readonly quote: Usdc },
): Usdc {
  const charge = raised(cost, margin)
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
