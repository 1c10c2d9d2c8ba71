import type { Prices } from '../../endpoint/mod.ts'
import type { Usdc } from '../../x402/money.ts'
import { flatPrice } from '../../x402/pricing.ts'

/** Lowest and highest of these quotes; the fee alone if there are none. */
export function priceRangeOf(
  amounts: readonly Usdc[],
  { prices }: { readonly prices?: Prices | undefined },
): { min: Usdc; max: Usdc } {
  const [first = flatPrice('0', prices)] = amounts
  return {
    min: amounts.reduce((a, b) => (a < b ? a : b), first),
    max: amounts.reduce((a, b) => (a > b ? a : b), first),
  }
}
