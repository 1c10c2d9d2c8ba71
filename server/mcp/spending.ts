/** What a local wallet has spent today: a small file, so that a cap per day holds over restarts. */
import { readFile } from 'node:fs/promises'
import type { Usdc } from '../../core/mod.ts'
import { usdc } from '../../core/mod.ts'
import { replaceFile } from '../devnet/anvil.ts'

export type Spending = {
  /** Notes an amount if the day's total stays within the cap. Resolves with what is left of today when it does not. */
  reserve(amount: Usdc, cap: Usdc | undefined): Promise<{ readonly left: Usdc } | undefined>
  /** Takes back what was noted for a call that was not charged. */
  release(amount: Usdc): Promise<void>
}

type Stored = { readonly day: string; readonly micros: string }

/** Days begin at midnight UTC. A file that cannot be read as one stops every payment: nobody knows what was spent. */
export function spendingIn(path: string, now: () => number): Spending {
  let last: Promise<unknown> = Promise.resolve()
  /** One change at a time. */
  function change<T>(step: (spent: bigint) => { readonly next?: bigint; readonly answer: T }): Promise<T> {
    const result = last.then(async () => {
      const day = new Date(now()).toISOString().slice(0, 10)
      const { next, answer } = step(await spentOn(path, day))
      if (next !== undefined) await replaceFile(path, `${JSON.stringify({ day, micros: String(next) })}\n`)
      return answer
    })
    last = result.catch(() => {})
    return result
  }
  return {
    reserve: (amount, cap) =>
      change((spent) => {
        const total = spent + amount
        if (cap !== undefined && total > cap) return { answer: { left: usdc(cap > spent ? cap - spent : 0n) } }
        return { next: total, answer: undefined }
      }),
    release: (amount) => change((spent) => ({ next: spent > amount ? spent - amount : 0n, answer: undefined })),
  }
}

async function spentOn(today: string, day: string): Promise<bigint> {
  const text = await readFile(today, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  if (text === undefined) return 0n
  try {
    const stored = JSON.parse(text) as Stored
    return stored.day === day ? BigInt(stored.micros) : 0n
  } catch {
    throw new Error(`${today} is not a record of what was spent; remove it to begin at 0`)
  }
}
