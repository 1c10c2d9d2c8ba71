/**
 * Calls that the buyer abandoned, cancelled, or gave too little time after the vendor was asked: the operator pays the
 * vendor and receives nothing. A pure decision over the recorded calls of a wallet (contract 1.62, decision 109).
 */
import { print, type Usdc, usdc } from '../../x402/money.ts'

/** Maximum number of uncovered calls per wallet. */
const MAX_ABANDONED = 5

/** This many are tolerated whatever they were worth: a client that retries twice after a broken connection. */
export const USUAL_ABANDONED = 3

type AbandonedCall = { readonly worth: Usdc; readonly until: number }

/** Why a wallet is blocked; `until` is when the block ends if nothing is paid meanwhile. */
export type Abandoned = { readonly calls: number; readonly worth: Usdc; readonly until: number }

/**
 * Decides whether a wallet has abandoned too much. `calls` are ordered by `until`; what the wallet has `spent` lately
 * covers them, oldest first. `newWorth` is the limit for a wallet that has spent nothing.
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

/** The reason of the refusal, and what to do. */
export function abandonedText({ calls, worth, until }: Abandoned, now: number): string {
  const minutes = Math.ceil((until - now) / 60_000)
  return `this wallet abandoned or cancelled ${calls} unpaid calls in the last 24 hours, or lost them after searches, worth ${print(worth)} USDC in total; wait ${minutes} minutes, or first pay the same amount for calls that settle before their reply, such as images`
}
