/** Micro-USDC: the only unit in which Farebox holds money (decision 10). One USDC is 1,000,000. */
export type Usdc = bigint & { readonly __unit: 'micro-USDC' }

/** An exact fraction of a dollar. Rates are decimals that a binary float cannot hold. */
export type Dollars = { readonly num: bigint; readonly den: bigint }

const MICRO = 1_000_000n

/**
 * Brands a number of micro-USDC. Throws on a negative one: no price is below zero.
 *
 * @example
 * const cent = usdc(10_000n)
 */
export function usdc(micro: bigint): Usdc {
  if (micro < 0n) throw new RangeError(`money cannot be negative: ${micro} micro-USDC`)
  return micro as Usdc
}

/**
 * Reads a plain decimal such as `0.0535` exactly. Throws on anything else: no exponent, no sign, no spaces.
 *
 * @example
 * const rate = dollars('0.0535')
 */
export function dollars(decimal: string): Dollars {
  const match = /^(\d{1,15})(?:\.(\d{1,18}))?$/.exec(decimal)
  if (!match) throw new RangeError(`not a decimal amount: ${JSON.stringify(decimal)}`)
  const fraction = match[2] ?? ''
  return { num: BigInt(`${match[1]}${fraction}`), den: 10n ** BigInt(fraction.length) }
}

/**
 * Multiplies exactly.
 *
 * @example
 * const three = times(dollars('0.05'), 3n)
 */
export function times(a: Dollars, by: Dollars | bigint): Dollars {
  if (typeof by === 'bigint') return { num: a.num * by, den: a.den }
  return { num: a.num * by.num, den: a.den * by.den }
}

/**
 * Adds exactly.
 *
 * @example
 * const sum = plus(dollars('0.05'), dollars('0.001'))
 */
export function plus(a: Dollars, b: Dollars): Dollars {
  return { num: a.num * b.den + b.num * a.den, den: a.den * b.den }
}

/**
 * The one rounding rule: up to the next micro-USDC, done once, last.
 *
 * @example
 * const amount = roundUp(times(dollars('0.0535'), 3n))
 */
export function roundUp(amount: Dollars): Usdc {
  return usdc((amount.num * MICRO + amount.den - 1n) / amount.den)
}

/**
 * Formats US dollars with `decimals` places, by default six, rounding half up: the form of `price.amount`.
 *
 * @example
 * const text = print(usdc(10_000n)) // 0.010000
 */
export function print(amount: Usdc, decimals = 6): string {
  const unit = 10n ** BigInt(6 - decimals)
  const units = (amount + unit / 2n) / unit
  if (decimals === 0) return units.toString()
  const digits = units.toString().padStart(decimals + 1, '0')
  return `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`
}

/**
 * Parses an `amount`: canonical base units, at most 20 digits. Undefined for anything else.
 *
 * @example
 * const amount = parseAtomic('10000')
 */
export function parseAtomic(text: unknown): Usdc | undefined {
  if (typeof text !== 'string' || !/^(0|[1-9]\d{0,19})$/.test(text)) return undefined
  return BigInt(text) as Usdc
}
