/**
 * Calls that their buyer left, cancelled, or gave too little time, after the vendor was asked: the vendor is paid for
 * them, and nobody pays us. A pure decision over what was noted of a wallet (contract 1.62, decision 109).
 */
import { print, type Usdc, usdc } from '../x402/money.ts'

/** How many a wallet may have uncovered at a time. */
const MAX_ABANDONED = 5

/** So many are nothing unusual, whatever they were worth: a client that tries again twice after a broken connection. */
export const USUAL_ABANDONED = 3

export type AbandonedCall = { readonly worth: Usdc; readonly until: number }

/** Why a wallet is not worked for; `until` is when it is again, if nothing is paid meanwhile. */
export type Abandoned = { readonly calls: number; readonly worth: Usdc; readonly until: number }

/**
 * Whether a wallet has abandoned too much. `calls` are in the order of their `until`; what the wallet has `spent`
 * lately covers them, the oldest first. `newWorth` is what those of a wallet that spent nothing may be worth together.
 */
export function judgeAbandoned(
  calls: readonly AbandonedCall[],
  { spent, newWorth }: { readonly spent: Usdc; readonly newWorth: Usdc },
): Abandoned | undefined {
  let credit: bigint = spent
  const uncovered = calls.filter(({ worth }) => {
    if (worth > credit) return true
    credit -= worth
    return false
  })
  const worth = usdc(uncovered.reduce((sum, call) => sum + call.worth, 0n))
  const isDear = spent === 0n && uncovered.length >= USUAL_ABANDONED && worth > newWorth
  if (uncovered.length < MAX_ABANDONED && !isDear) return undefined
  const next = uncovered[Math.max(0, uncovered.length - MAX_ABANDONED)]
  return next && { calls: uncovered.length, worth, until: next.until }
}

/** Why an order is refused, and what to do. */
export function abandonedText({ calls, worth, until }: Abandoned, now: number): string {
  const minutes = Math.ceil((until - now) / 60_000)
  return `this wallet left or cancelled ${calls} calls before their answers in the last 24 hours, worth ${print(worth)} USDC together, and paid for none in their place; wait ${minutes} minutes, or pay for as much that settles before its reply, such as images`
}
