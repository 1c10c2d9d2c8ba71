/** What this visit may spend, so that a page never signs more than its reader expects. It ends with the browser tab. */
import { atomic, usdc } from '../lib/x402.ts'

export type Allowance = {
  /** In USDC, as written. */
  readonly cap: string
  /** In USDC. */
  readonly spent: string
}

const CAP = 'farebox.cap'
const SPENT = 'farebox.spent'
const DEFAULT_CAP = '1'

export const readAllowance = (): Allowance => ({
  cap: sessionStorage.getItem(CAP) ?? DEFAULT_CAP,
  spent: usdc(sessionStorage.getItem(SPENT) ?? '0'),
})

export const setCap = (cap: string): void => sessionStorage.setItem(CAP, cap)

/** Counts an amount in millionths of a USDC. What is not charged is not given back: a cap may only be too small. */
export function spend(amount: string): void {
  const spent = BigInt(sessionStorage.getItem(SPENT) ?? '0') + BigInt(amount)
  sessionStorage.setItem(SPENT, spent.toString())
}

/** Why an amount may not be spent; undefined where it may. */
export function overCap(amount: string): string | undefined {
  const { cap, spent } = readAllowance()
  const limit = atomic(cap)
  if (limit === undefined) return 'The limit of this visit is no amount of USDC: write it like 1 or 0.50.'
  const left = limit - (atomic(spent) ?? 0n)
  if (BigInt(amount) <= left) return undefined
  return `This costs ${usdc(amount)} USDC, and of the ${cap} USDC for this visit ${usdc((left > 0n ? left : 0n).toString())} are left. Raise the limit to buy it.`
}
