/** Sums of what wallets paid, by day, as databases keep them. */
import type { Spend } from '../../core/ports/mod.ts'
import { usdc } from '../../core/x402/money.ts'

const DAY_MS = 86_400_000
const BILLION = 1_000_000_000n

/** The first whole day at or after `since`, in days since 1970, and when it begins: calls before it are read singly. */
export function wholeDays(since: number): { readonly day: number; readonly until: number } {
  const day = Math.ceil(since / DAY_MS)
  return { day, until: day * DAY_MS }
}

type Total = Omit<Spend, 'spent' | 'model'> & {
  readonly model: string | null
  readonly billions: bigint | number
  readonly rest: bigint | number
}

/** One stored sum. */
export function spendOfTotal({ billions, rest, ...total }: Total): Spend {
  return {
    ...total,
    spent: usdc(BigInt(billions) * BILLION + BigInt(rest)),
  }
}
