/** The formulas of the contract. Each is exact until its last step; the fee is added once per paid call. */
import { type Dollars, dollars, plus, roundUp, times, type Usdc } from './money.ts'

/** Flat transaction fee per paid call (contract 1.14). */
export const FEE = dollars('0.001')

const MEDIA_MARGIN = dollars('1.05')

/**
 * Images: `rate * n * 1.05 + 0.001` (contract 5.4). `rate` is the catalog rate for one image.
 *
 * @example
 * const price = mediaPrice(dollars('0.04'), 2)
 */
export function mediaPrice(rate: Dollars, n: number): Usdc {
  return roundUp(plus(withMargin(times(rate, BigInt(n))), FEE))
}

/** The price of one image with margin and without fee, as the model listing shows it. */
export const withMargin = (rate: Dollars): Dollars => times(rate, MEDIA_MARGIN)

/**
 * A flat price per call plus the fee: `0.01` is 0.011.
 *
 * @example
 * const price = flatPrice('0.01')
 */
export function flatPrice(usd: string): Usdc {
  return roundUp(plus(dollars(usd), FEE))
}

/**
 * A price per piece plus the fee once: `0.002` for 3 is 0.007.
 *
 * @example
 * const price = piecePrice('0.002', 3)
 */
export function piecePrice(usd: string, pieces: number): Usdc {
  return roundUp(plus(times(dollars(usd), BigInt(pieces)), FEE))
}

export const NOTHING = dollars('0')
export const FLOOR = dollars('0.001')
const ONE_TOKEN = dollars('0.000001')

export const perToken = (perMillion: Dollars): Dollars => times(perMillion, ONE_TOKEN)

/** Whether `a` is less than `b`, exactly. */
export const isBelow = (a: Dollars, b: Dollars): boolean => a.num * b.den < b.num * a.den

/** As a JSON number, for listings. */
export const asNumber = ({ num, den }: Dollars): number => Number(num) / Number(den)
