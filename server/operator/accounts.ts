/** The accounts that pay for settlements, and how long they last at the pace of this process. */
import { iso } from './payment.ts'

export type Account = {
  readonly gateway: string
  readonly address: string
  readonly unit: 'wei' | 'lamports'
  /** Undefined until it was read. */
  readonly amount: number | undefined
  /** Why it cannot pay for long. */
  readonly low: string | undefined
}

export type AccountReport = {
  readonly gateway: string
  readonly address: string
  readonly unit: 'wei' | 'lamports'
  readonly balance: string | null
  /** The balance in whole coins: ETH or SOL. */
  readonly coins: number | null
  readonly low: string | null
  /** Amount spent since this process first read its balance. */
  readonly spent: string | null
  readonly observed_since: string | null
  /** Hours until it is empty at that pace; null while nothing was spent, or for less than ten minutes. */
  readonly lasts_hours: number | null
}

type Pace = { readonly since: number; readonly last: number; readonly spent: number }

const COIN = { wei: 1e18, lamports: 1e9 }
const MIN_OBSERVED_MS = 600_000

/** Reports accounts, and remembers what they had before. A balance that rises was topped up, which is not spending. */
export function accountReports(read: () => readonly Account[], clock: { now(): number }) {
  const paces = new Map<string, Pace>()

  function reportOf({ gateway, address, unit, amount, low }: Account): AccountReport {
    const now = clock.now()
    const key = `${gateway}\n${address}`
    const before = paces.get(key)
    if (amount !== undefined) {
      const { since, last, spent } = before ?? { since: now, last: amount, spent: 0 }
      paces.set(key, { since, last: amount, spent: spent + Math.max(0, last - amount) })
    }
    const pace = paces.get(key)
    const observed = pace ? now - pace.since : 0
    const lasts =
      pace && pace.spent > 0 && observed >= MIN_OBSERVED_MS
        ? pace.last / (pace.spent / (observed / 3_600_000))
        : undefined
    return {
      gateway,
      address,
      unit,
      balance: amount === undefined ? null : whole(amount),
      coins: amount === undefined ? null : amount / COIN[unit],
      low: low ?? null,
      spent: pace ? whole(pace.spent) : null,
      observed_since: pace ? iso(pace.since) : null,
      lasts_hours: lasts === undefined ? null : Math.round(lasts * 10) / 10,
    }
  }

  return (): readonly AccountReport[] => read().map(reportOf)
}

const whole = (amount: number): string => BigInt(Math.round(amount)).toString()
