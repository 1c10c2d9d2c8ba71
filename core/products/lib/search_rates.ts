/** Rates and prices of web search. */
import { type Context, type Price, type Prices, STANDARD_PRICES } from '../../endpoint/mod.ts'
import { oncePer } from '../../lib/once_per.ts'
import { dollars } from '../../x402/money.ts'
import { flatPrice, shortAmount } from '../../x402/pricing.ts'

/** In US dollars before the fee: for a call, and for a page that is read. */
export const PER_CALL = '0.01'
export const PER_PAGE = '0.002'

/** A flat price that lists its parts. It is made once for a gateway, and its orders share it. */
export function searchPrice(usd: string): (input: unknown, context: Pick<Context, 'prices'>) => Price {
  const priceOf = oncePer((prices: Prices): Price => {
    const amount = flatPrice(usd, prices)
    return Object.freeze({
      amount,
      maxTimeoutSeconds: 300,
      rates: { perCallPrice: dollars(usd), transactionFee: prices.fee },
      publicPrice: { amount: shortAmount(amount) },
    })
  })
  return (_input, { prices = STANDARD_PRICES }) => priceOf(prices)
}
