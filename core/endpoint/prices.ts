/**
 * Prices as buyers see them (decision 147). A quote, a price list, a rate of a model and a part of a 402 all come from
 * here: what the catalog says, with the gateway's markup and the operator's margin on the product.
 */
import type { Json } from '../lib/json.ts'
import { type Dollars, dollars, print, type Usdc, usdc } from '../x402/money.ts'
import { asNumber, type Markup, raise, STANDARD_MARKUP } from '../x402/pricing.ts'

/** Margins are looked up by the endpoint's own name, then by its tag. */
export type Product = { readonly name: string; readonly tag: string }

/** The markup of a gateway, and the operator's margins as they change. */
export type Prices = Markup & {
  /** The operator's margin on a product in percent, as quotes have it now. */
  marginOf(product: Product): string
  /** Changes whenever a margin does. */
  version(): string
  /** For how many seconds what has been shown stays true. */
  steadySeconds(): number
}

/** The prices of a gateway whose operator has changed nothing. */
export const STANDARD_PRICES: Prices = {
  ...STANDARD_MARKUP,
  marginOf: () => '0',
  version: () => '',
  steadySeconds: () => 60,
}

/** Price of an order. Frozen if orders share it, so that values derived from it can be cached by it. */
export type Price = {
  readonly amount: Usdc
  /** Lifetime of the signed authorization; work and settlement must fit into it. */
  readonly maxTimeoutSeconds: number
  /** Added to `amount` and `currency` in the body's `price`. */
  readonly publicPrice: Readonly<Record<string, Json>>
  /** The parts of `amount` in US dollars: shown as numbers in the body's `price`, with the operator's margin. */
  readonly rates?: Readonly<Record<string, Dollars>>
  /** The operator's margin that `amount` includes, in percent. */
  readonly margin?: string
  /** Added to the body of the 402, for example `generation_info`. */
  readonly also?: Readonly<Record<string, Json>>
}

/** Makes the price of a variant of a catalog row once for a gateway: orders of the same variant share it. */
export function sharedPrices<Row extends object>(): (
  of: { readonly row: Row; readonly variant: string; readonly prices?: Prices | undefined },
  make: () => Price,
) => Price {
  const byGateway = new WeakMap<Prices, WeakMap<Row, Map<string, Price>>>()
  return ({ row, variant, prices = STANDARD_PRICES }, make) => {
    const byRow = byGateway.get(prices) ?? new WeakMap<Row, Map<string, Price>>()
    byGateway.set(prices, byRow)
    const variants = byRow.get(row) ?? new Map<string, Price>()
    byRow.set(row, variants)
    const known = variants.get(variant)
    if (known) return known
    const price = Object.freeze(make())
    if (variants.size < MAX_VARIANTS) variants.set(variant, price)
    return price
  }
}

const MAX_VARIANTS = 200

/** Reads a margin: percent as a decimal, below zero for a discount. */
export function percentOf(text: string): Dollars {
  const { num, den } = dollars(text.replace('-', ''))
  return { num: text.startsWith('-') ? -num : num, den }
}

/** An amount with the operator's margin, rounded up to a base unit. */
export function withMarginOf(amount: Usdc, percent: string): Usdc {
  const { num, den } = percentOf(percent)
  const whole = 100n * den
  return usdc((amount * (whole + num) + whole - 1n) / whole)
}

const MADE = new WeakMap<Price, Map<string, Price>>()

/** The price with the operator's margin. The same object for the same price and margin. */
export function withMargin(price: Price, percent: string): Price {
  if (price.amount === 0n || Number(percent) === 0) return price
  const made = MADE.get(price) ?? new Map<string, Price>()
  const known = made.get(percent)
  if (known) return known
  const amount = withMarginOf(price.amount, percent)
  const { publicPrice, rates } = price
  const marked = {
    ...price,
    amount,
    margin: percent,
    ...(rates && { rates: ratesWith(rates, percent) }),
    // Products that write the amount in fewer digits would round what is signed.
    ...('amount' in publicPrice && { publicPrice: { ...publicPrice, amount: print(amount) } }),
  }
  MADE.set(price, made.set(percent, marked))
  return marked
}

function ratesWith(rates: NonNullable<Price['rates']>, percent: string): NonNullable<Price['rates']> {
  const margin = percentOf(percent)
  return Object.fromEntries(Object.entries(rates).map(([name, rate]) => [name, raise(rate, margin)]))
}

/** The rates of a price as its 402 shows them. */
export const listedRates = ({ rates = {} }: Price): Readonly<Record<string, number>> =>
  Object.fromEntries(Object.entries(rates).map(([name, rate]) => [name, asNumber(rate)]))

/** Shows a rate of the catalog with the operator's margin on a product. */
export function rateOf({ prices = STANDARD_PRICES }: { readonly prices?: Prices }, product: Product) {
  const margin = percentOf(prices.marginOf(product))
  return (rate: Dollars): number => asNumber(raise(rate, margin))
}

/** Lets caches keep a page with prices, but never past a change of a margin. */
export const cachedWhileTrue = ({ prices = STANDARD_PRICES }: { readonly prices?: Prices }) => ({
  'cache-control': `public, max-age=${prices.steadySeconds()}`,
})

/** The price as its 402 asks it now. */
export const asQuoted = (product: Product, price: Price, { prices = STANDARD_PRICES }: { readonly prices?: Prices }) =>
  withMargin(price, prices.marginOf(product))

/** Lowest and highest quote of an endpoint now. */
export function quotedRange<Offering extends { readonly prices?: Prices }>(
  endpoint: Product & { priceRange(offering: Offering): { readonly min: Usdc; readonly max: Usdc } },
  offering: Offering,
): { readonly min: Usdc; readonly max: Usdc } {
  const { min, max } = endpoint.priceRange(offering)
  const percent = (offering.prices ?? STANDARD_PRICES).marginOf(endpoint)
  return { min: withMarginOf(min, percent), max: withMarginOf(max, percent) }
}
