/** The formulas of the contract. Each is exact until its last step; the fee is added once per paid call. */
import { type Dollars, dollars, plus, print, roundUp, times, type Usdc } from './money.ts'

/** The markup of a gateway on the rates of its catalog. */
export type Markup = {
  /** US dollars per paid call (contract 1.14). */
  readonly fee: Dollars
  /** The margin on media, in percent (contract 1.15). */
  readonly mediaPercent: Dollars
}

/** The standard markup as text. */
export const STANDARD_FEE_USD = '0.001'
export const STANDARD_MEDIA_PERCENT = '5'

/** Reads a markup: US dollars per call, and percent on media. */
export function markupOf(feeUsd: string, mediaPercent: string): Markup {
  return { fee: dollars(feeUsd), mediaPercent: dollars(mediaPercent) }
}

/** The markup of a gateway whose operator has set none. */
export const STANDARD_MARKUP: Markup = markupOf(STANDARD_FEE_USD, STANDARD_MEDIA_PERCENT)

/**
 * Images: `rate * n * 1.05 + 0.001` (contract 5.4). `rate` is the catalog rate for one image.
 *
 * @example
 * const price = mediaPrice(dollars('0.04'), 2)
 */
export function mediaPrice(rate: Dollars, n: number, markup: Markup = STANDARD_MARKUP): Usdc {
  return roundUp(plus(mediaRate(times(rate, BigInt(n)), markup), markup.fee))
}

/** A rate of media with their margin and without the fee. */
export const mediaRate = (rate: Dollars, { mediaPercent }: Markup): Dollars => raise(rate, mediaPercent)

/** An amount with a margin in percent, exactly. */
export function raise(amount: Dollars, { num, den }: Dollars): Dollars {
  return times(amount, { num: 100n * den + num, den: 100n * den })
}

/**
 * A flat price per call plus the fee: `0.01` is 0.011.
 *
 * @example
 * const price = flatPrice('0.01')
 */
export function flatPrice(usd: string, { fee }: Pick<Markup, 'fee'> = STANDARD_MARKUP): Usdc {
  return roundUp(plus(dollars(usd), fee))
}

/**
 * A price per piece plus the fee once: `0.002` for 3 is 0.007.
 *
 * @example
 * const price = piecePrice('0.002', 3)
 */
export function piecePrice(usd: string, pieces: number, { fee }: Pick<Markup, 'fee'> = STANDARD_MARKUP): Usdc {
  return roundUp(plus(times(dollars(usd), BigInt(pieces)), fee))
}

/** A price with four decimals where that is exact, else with six. */
export const shortAmount = (amount: Usdc): string => print(amount, amount % 100n === 0n ? 4 : 6)

export const NOTHING = dollars('0')
export const FLOOR = dollars('0.001')
const ONE_TOKEN = dollars('0.000001')

export const perToken = (perMillion: Dollars): Dollars => times(perMillion, ONE_TOKEN)

/** Whether `a` is less than `b`, exactly. */
export const isBelow = (a: Dollars, b: Dollars): boolean => a.num * b.den < b.num * a.den

/** As a JSON number, for listings. */
export const asNumber = ({ num, den }: Dollars): number => Number(num) / Number(den)
