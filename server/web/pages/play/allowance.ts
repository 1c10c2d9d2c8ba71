/** Spending limit of this visit: a page never signs more than its reader expects. It ends with the browser tab. */
import { atomic, usdc } from '../lib/x402.ts'

type Allowance = {
  /** In USDC, as written. */
  readonly cap: string
  /** In USDC. */
  readonly spent: string
}

const CAP = 'farebox.cap'
const SPENT = 'farebox.spent'
const DEFAULT_CAP = '1'

/** Where a browser keeps nothing for the page, its own memory has to do. */
const memory = new Map<string, string>()

function read(name: string): string | undefined {
  try {
    return sessionStorage.getItem(name) ?? memory.get(name)
  } catch {
    return memory.get(name)
  }
}

function write(name: string, value: string): void {
  memory.set(name, value)
  try {
    sessionStorage.setItem(name, value)
  } catch {
    // It is in memory.
  }
}

export const readAllowance = (): Allowance => ({
  cap: read(CAP) ?? DEFAULT_CAP,
  spent: usdc(read(SPENT) ?? '0'),
})

export const setCap = (cap: string): void => write(CAP, cap)

/** Counts millionths of a USDC. What is signed and not charged is not given back: a cap may be too small. */
export const spend = (amount: string): void => write(SPENT, (BigInt(read(SPENT) ?? '0') + BigInt(amount)).toString())

/** Gives back what was not signed. */
export const unspend = (amount: string): void => spend(`-${amount}`)

/** Why an amount may not be spent; undefined where it may. */
export function overCap(amount: string): string | undefined {
  const { cap, spent } = readAllowance()
  const limit = atomic(cap)
  if (limit === undefined) return 'The limit of this visit is no amount of USDC: write it like 1 or 0.50.'
  const left = limit - (atomic(spent) ?? 0n)
  if (BigInt(amount) <= left) return undefined
  return `This costs ${usdc(amount)} USDC, and of the ${cap} USDC for this visit ${usdc((left > 0n ? left : 0n).toString())} are left. Raise the limit, on the playground, to buy it.`
}
