/** Balances of one Solana gateway's fee payers, and when to stop offering one. */
import type { Address } from '@solana/kit'
import type { SolanaReads } from './reads.ts'

/** Amounts in lamports. */
export type FeePayerState = {
  readonly address: Address
  /** Minus what was spent since the last read; undefined until the first read. */
  readonly balance: number | undefined
  readonly floor: number
  /** Why it is not offered, in one line for the operator; undefined while it may be. */
  readonly low: string | undefined
}

export type FeePayerMonitor = {
  states(): readonly FeePayerState[]
  isLow(address: Address): boolean
  /** Reads all balances if the last read is a minute old or a fee could not be paid. Never rejects. */
  refresh(now: number): Promise<void>
  read(now: number): Promise<void>
  recordSpent(address: Address, lamports: number): void
  /** Reports that a fee could not be paid. The fee payer is not offered until its balance is read again. */
  reportUnderfunded(address: Address): void
}

/** An account must hold 890,880 lamports or none; the rest covers about fifty payments with a usual priority fee. */
export const FEE_PAYER_FLOOR = 2_000_000
const READ_EVERY_MS = 60_000

/** Monitors fee payers. It has no timer: call `refresh` every few seconds. */
export function feePayerMonitor(
  reads: SolanaReads,
  { addresses, floor = FEE_PAYER_FLOOR }: { addresses: readonly Address[]; floor?: number | undefined },
): FeePayerMonitor {
  const balances = new Map<Address, number>()
  const underfunded = new Set<Address>()
  let readAt = Number.NEGATIVE_INFINITY
  let reading: Promise<void> | undefined

  async function readBalances(now: number): Promise<void> {
    const before = new Map(balances)
    const bank = await reads.accounts(addresses, { commitment: 'confirmed' })
    if (bank.kind === 'failure') return
    for (const [i, address] of addresses.entries()) {
      // A payment sent during the read may not be in the balance yet, so its cost stays subtracted.
      const since = (before.get(address) ?? 0) - (balances.get(address) ?? 0)
      balances.set(address, (bank.found[i]?.lamports ?? 0) - since)
    }
    underfunded.clear()
    readAt = now
  }

  function read(now: number): Promise<void> {
    reading ??= readBalances(now).finally(() => (reading = undefined))
    return reading
  }

  function stateOf(address: Address): FeePayerState {
    const balance = balances.get(address)
    const isLow = underfunded.has(address) || (balance !== undefined && balance < floor)
    const balanceText = balance === undefined ? 'an unknown balance' : `${balance} lamports`
    return {
      address,
      balance,
      floor,
      low: isLow
        ? `account ${address} holds ${balanceText} for fees, below the floor of ${floor}; top it up`
        : undefined,
    }
  }

  return {
    states: () => addresses.map(stateOf),
    isLow: (address) => stateOf(address).low !== undefined,
    read,
    async refresh(now) {
      if (underfunded.size > 0 || Math.abs(now - readAt) >= READ_EVERY_MS) await read(now)
    },
    recordSpent(address, lamports) {
      const balance = balances.get(address)
      if (balance !== undefined) balances.set(address, balance - lamports)
    },
    reportUnderfunded: (address) => void underfunded.add(address),
  }
}
