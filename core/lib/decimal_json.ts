/** Decimals that reach the client as exact JSON numbers, never as binary floats (contract 10.10). */
import type { Json } from './json.ts'

/** A decimal in a reply; stored like any other JSON. */
type Exact = { readonly exact: string }

const DECIMAL = /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/

/** Throws a RangeError for anything but a plain decimal, because it is written to the output unchanged. */
export function exact(decimal: string): Exact {
  if (!DECIMAL.test(decimal)) throw new RangeError(`not a decimal: ${JSON.stringify(decimal.slice(0, 40))}`)
  return { exact: decimal }
}

/** `units` times ten to the power of `exponent`, exactly and without trailing zeros: 6412312n and -2 give 64123.12. */
export function scaled(units: bigint, exponent: number): Exact {
  if (exponent >= 0) return exact((units * 10n ** BigInt(exponent)).toString())
  const sign = units < 0n ? '-' : ''
  const digits = (units < 0n ? -units : units).toString().padStart(1 - exponent, '0')
  const fraction = digits.slice(exponent).replace(/0+$/, '')
  return exact(`${sign}${digits.slice(0, exponent)}${fraction && `.${fraction}`}`)
}

/** Serializes JSON with every `Exact` as a number. */
export function exactJson(value: Json): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(exactJson).join(',')}]`
  const fields = value as Readonly<Record<string, Json>>
  if (typeof fields.exact === 'string' && DECIMAL.test(fields.exact) && Object.keys(fields).length === 1)
    return fields.exact
  const members = Object.entries(fields).filter(([, member]) => member !== undefined)
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${exactJson(member)}`).join(',')}}`
}
