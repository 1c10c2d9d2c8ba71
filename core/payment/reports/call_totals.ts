/** Sums of calls by hour and day (decision 127): each change of a call adds to one of them. */
import type { CallTotal, CallTotalsQuery } from '../../ports/mod.ts'
import { type Usdc, usdc } from '../../x402/money.ts'
import type { Row } from '../ledger/mod.ts'

export const HOUR_MS = 3_600_000
export const DAY_MS = 86_400_000
/** Sums by hour are deleted after this time; those by day stay. */
export const HOURS_RETENTION_MS = 60 * DAY_MS

/** Upper bounds, in milliseconds, of how long completed calls took. The last stands for everything above. */
export const DURATION_BOUNDS_MS = [
  50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 320_000, 86_400_000,
] as const

/** Counts that one change of a call adds. `calls` is -1 if work that was given up goes on. */
export type Counted = Pick<Row, 'gateway' | 'endpoint' | 'model'> & {
  readonly at: number
  readonly outcome: CallTotal['outcome']
  readonly upToMs: number
  readonly calls: 1 | -1
  readonly spent: Usdc
}

/** The part of a row that its counts depend on. */
export type CountedRow = Pick<
  Row,
  | 'gateway'
  | 'endpoint'
  | 'model'
  | 'quote'
  | 'charge'
  | 'createdAt'
  | 'endedAt'
  | 'settledAt'
  | 'claimExpiresAt'
  | 'workStatus'
  | 'paymentStatus'
>

/** Returns the counts that a change of a row adds. */
export function countedOf(before: CountedRow, after: CountedRow): readonly Counted[] {
  const { gateway, endpoint, model } = after
  const counted: Counted[] = []
  const add = (part: Omit<Counted, 'gateway' | 'endpoint' | 'model'>) =>
    counted.push({ gateway, endpoint, model, ...part })
  if (before.workStatus !== after.workStatus) {
    const [was, is] = [workOf(before), workOf(after)]
    if (was) add({ ...was, calls: -1, spent: usdc(0n) })
    if (is) add({ ...is, calls: 1, spent: usdc(0n) })
  }
  if (before.paymentStatus !== after.paymentStatus) {
    const { paymentStatus: outcome } = after
    if (outcome === 'settled' || outcome === 'refused' || outcome === 'unresolved') {
      const at = after.settledAt ?? after.claimExpiresAt ?? after.createdAt
      const spent = outcome === 'settled' ? (after.charge ?? after.quote) : usdc(0n)
      add({ at, outcome, upToMs: 0, calls: 1, spent })
    }
  }
  return counted
}

function workOf({ workStatus, endedAt, createdAt }: CountedRow) {
  if (workStatus !== 'completed' && workStatus !== 'failed') return undefined
  const at = endedAt ?? createdAt
  if (workStatus === 'failed') return { at, outcome: workStatus, upToMs: 0 }
  return { at, outcome: workStatus, upToMs: boundOf(at - createdAt) }
}

function boundOf(ms: number): number {
  return DURATION_BOUNDS_MS.find((bound) => ms <= bound) ?? DAY_MS
}

/** A stored sum: of one hour or one day, of one model of one product of one gateway. */
export type StoredTotal = Omit<Counted, 'calls'> & { readonly unit: number; readonly calls: number }

/** The sums that a query asks for, in the order of time and name. */
export function totalled(stored: Iterable<StoredTotal>, query: CallTotalsQuery): readonly CallTotal[] {
  const { since, until, by } = query
  const unit = query.unit === 'hour' ? HOUR_MS : DAY_MS
  const sums = new Map<string, CallTotal>()
  for (const total of stored) {
    if (total.unit !== unit || total.at < since || total.at >= until || !isOf(total, query)) continue
    const name = by === undefined ? null : total[by]
    const { at, outcome, upToMs, calls, spent } = total
    const key = JSON.stringify([at, name, outcome, upToMs])
    const sum = sums.get(key)
    sums.set(key, {
      at,
      name,
      outcome,
      upToMs,
      calls: calls + (sum?.calls ?? 0),
      spent: usdc(spent + (sum?.spent ?? 0n)),
    })
  }
  return [...sums.values()].filter(({ calls }) => calls !== 0).toSorted(byTime)
}

/** Whether a query asks for this gateway, product and model. */
export function isOf(
  one: Pick<Row, 'gateway' | 'endpoint' | 'model'>,
  { gateway, endpoint, model }: Pick<CallTotalsQuery, 'gateway' | 'endpoint' | 'model'>,
): boolean {
  return (
    (gateway === undefined || one.gateway === gateway) &&
    (endpoint === undefined || one.endpoint === endpoint) &&
    (model === undefined || one.model === model)
  )
}

/** The order in which all storages list sums; names by their characters' codes. */
export function byTime(a: CallTotal, b: CallTotal): number {
  return a.at - b.at || compared(a.name ?? '', b.name ?? '') || compared(a.outcome, b.outcome) || a.upToMs - b.upToMs
}

const compared = (a: string, b: string): number => Number(a > b) - Number(a < b)
