/** Hex as Ethereum writes it: 0x and digits. */
export type Hex = `0x${string}`

/** Lower case, which is how hex is compared. */
export function lower(hex: string): Hex {
  return hex.toLowerCase() as Hex
}

export function isHex(value: unknown): value is Hex {
  return typeof value === 'string' && /^0x[0-9a-fA-F]*$/.test(value)
}

/** A number as nodes write it: at least one digit, so that BigInt takes it. */
export function isQuantity(value: unknown): value is Hex {
  return typeof value === 'string' && /^0x[0-9a-fA-F]{1,64}$/.test(value)
}

export function hexOf(number: bigint): Hex {
  return `0x${number.toString(16)}`
}

/** A 32-byte word without its 0x: numbers and addresses fill it from the right. */
export function word(value: string | bigint, fill: 'right' | 'left' = 'right'): string {
  const digits = typeof value === 'bigint' ? value.toString(16) : value.replace(/^0x/, '').toLowerCase()
  return fill === 'right' ? digits.padStart(64, '0') : digits.padEnd(64, '0')
}

/** A count or a time; undefined when it is not one that a double holds exactly. */
export function numberIn(value: unknown): number | undefined {
  if (!isQuantity(value)) return undefined
  const number = Number(BigInt(value))
  return Number.isSafeInteger(number) ? number : undefined
}

/** A bool that a contract returned; undefined when it returned anything else. */
export function flagIn(result: { ok: boolean; data: Hex } | undefined): boolean | undefined {
  if (!result?.ok || !/^0x0{63}[01]$/.test(result.data)) return undefined
  return result.data.endsWith('1')
}

/** A uint256 that a contract returned; undefined when it returned anything else. */
export function uintIn(result: { ok: boolean; data: Hex } | undefined): bigint | undefined {
  return result?.ok && result.data.length === 66 ? BigInt(result.data) : undefined
}
