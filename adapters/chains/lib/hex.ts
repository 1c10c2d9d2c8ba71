/** Hex in Ethereum's notation: 0x followed by digits. */
export type Hex = `0x${string}`

/** Converts hex to lower case, the form in which hex values are compared. */
export function lower(hex: string): Hex {
  return hex.toLowerCase() as Hex
}

export function isHex(value: unknown): value is Hex {
  return typeof value === 'string' && /^0x[0-9a-fA-F]*$/.test(value)
}

/** Whether the value is a JSON-RPC quantity with at least one digit, so that BigInt accepts it. */
export function isQuantity(value: unknown): value is Hex {
  return typeof value === 'string' && /^0x[0-9a-fA-F]{1,64}$/.test(value)
}

export function hexOf(number: bigint): Hex {
  return `0x${number.toString(16)}`
}

/** A 32-byte ABI word without 0x; numbers and addresses are right-aligned. */
export function word(value: string | bigint, fill: 'right' | 'left' = 'right'): string {
  const digits = typeof value === 'bigint' ? value.toString(16) : value.replace(/^0x/, '').toLowerCase()
  return fill === 'right' ? digits.padStart(64, '0') : digits.padEnd(64, '0')
}

/** Parses a quantity; undefined unless a double holds it exactly. */
export function numberIn(value: unknown): number | undefined {
  if (!isQuantity(value)) return undefined
  const number = Number(BigInt(value))
  return Number.isSafeInteger(number) ? number : undefined
}

/** Decodes a bool returned by a contract; undefined for anything else. */
export function flagIn(result: { ok: boolean; data: Hex } | undefined): boolean | undefined {
  if (!result?.ok || !/^0x0{63}[01]$/.test(result.data)) return undefined
  return result.data.endsWith('1')
}

/** Decodes a uint256 returned by a contract; undefined for anything else. */
export function uintIn(result: { ok: boolean; data: Hex } | undefined): bigint | undefined {
  return result?.ok && result.data.length === 66 ? BigInt(result.data) : undefined
}
