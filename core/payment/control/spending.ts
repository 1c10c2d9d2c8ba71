/** Spending of wallets and gateways by day and month, open calls included. */
import type { CallObserver } from '../../ports/call_events.ts'
import type { Call, LedgerCursor, LedgerEntry, LedgerReads } from '../../ports/mod.ts'
import { parseAtomic } from '../../x402/money.ts'
import { HOUR_MS } from '../reports/call_totals.ts'

export type Period = 'day' | 'month'

/** When the current day or month of UTC began and ends, in milliseconds. */
export function periodOf(period: Period, now: number): { readonly from: number; readonly until: number } {
  const date = new Date(now)
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()]
  return period === 'day'
    ? { from: Date.UTC(year, month, day), until: Date.UTC(year, month, day + 1) }
    : { from: Date.UTC(year, month, 1), until: Date.UTC(year, month + 1, 1) }
}

/** Calls that this process is about to open, or has opened, and that may still be charged. */
type Pending = Pick<Call, 'payer' | 'gateway'> & {
  amount: bigint
  readonly until: number
  /** Which settlement of this process it was. A sum that was being read then may lack it. */
  settlement?: number
}

/** An amount that counts as under way. */
export type SpendingHold = {
  /** Called before a call is opened: the amount then counts until the call ends. */
  opening(id: string): void
  /** No call was opened. */
  release(): void
}

export type Spending = {
  /** Counts each call from its opening until it is settled or has failed. */
  readonly observer: CallObserver
  /** Reads the settlements since the last time, for totals of gateways: the sums first, then in small steps. */
  follow(now: number): Promise<void>
  /** Forgets calls that no sum lacks, and totals unless they are followed. To be called every few seconds. */
  forget(now: number, isFollowed: boolean): void
  /** Reads what a wallet has spent in each period. The sums then count what is under way when they are called. */
  wallet(payer: string, periods: readonly Period[], now: number): Promise<(period: Period) => bigint>
  gateway(name: string, period: Period, now: number): bigint
  /** Counts an order as under way. */
  hold(order: Pick<Call, 'payer' | 'gateway'> & { readonly amount: bigint }, now: number): SpendingHold
}

const BATCH = 500
/** Settlements are read again for this long, because replicas record them in no strict order. */
const OVERLAP_MS = 10_000
/** An authorization lives no longer than this, so neither does what is counted for it. */
const PENDING_MS = 3_600_000

type State = {
  readonly ledger: Pick<LedgerReads, 'listSettled' | 'spendByModel' | 'callTotals'>
  readonly pending: Map<string, Pending>
  settlements: number
  /** How many settlements there were when each sum of a wallet began to be read. */
  readonly reads: Set<{ readonly settlements: number }>
  /** As many settlements no sum lacked when calls were forgotten last. */
  summed: number
  holds: number
  /** By gateway and day; a month is the sum of its days. */
  readonly totals: Map<string, bigint>
  /** Settlements of the overlap that were counted. */
  readonly seen: Map<string, number>
  cursor: LedgerCursor | undefined
  /** Up to here, totals are the sums that storage keeps. */
  summedUntil: number
  month: number
}

export function spendings(ledger: State['ledger']): Spending {
  const state: State = {
    ledger,
    pending: new Map(),
    settlements: 0,
    reads: new Set(),
    summed: 0,
    holds: 0,
    totals: new Map(),
    seen: new Map(),
    cursor: undefined,
    summedUntil: 0,
    month: 0,
  }
  return {
    observer: observerOf(state),
    follow: (now) => follow(state, now),
    forget: (now, isFollowed) => forget(state, now, isFollowed),
    wallet: (payer, periods, now) => walletSums(state, { payer, periods, now }),
    hold: (order, now) => hold(state, order, now),
    gateway: (name, period, now) => gatewaySum(state, { name, period, now }),
  }
}

function observerOf(state: State): CallObserver {
  const { pending } = state
  return {
    opened({ call: { id, payer, gateway, quote, createdAt } }) {
      if (quote > 0n) pending.set(id, { payer, gateway, amount: quote, until: createdAt + PENDING_MS })
    },
    recorded({ call: { id, payer, gateway, quote, createdAt }, receipt }) {
      const amount = parseAtomic(receipt.amount) ?? quote
      pending.set(id, { payer, gateway, amount, until: createdAt + PENDING_MS, settlement: ++state.settlements })
    },
    moved({ id, patch }) {
      if (patch.workStatus === 'failed') pending.delete(id)
    },
    // An authorization is counted with the order that brought it.
    claimed: 'ignored',
    finished({ id, outcome }) {
      const known = pending.get(id)
      // The ledger has it now; a gateway's total has it once it has been followed.
      if (known && outcome.kind === 'paid') {
        known.amount = parseAtomic(outcome.receipt.amount) ?? known.amount
        known.settlement = ++state.settlements
      }
      if (known && (outcome.kind === 'refused' || outcome.kind === 'dead')) pending.delete(id)
    },
  }
}

function count({ seen, pending, totals }: State, entry: LedgerEntry): void {
  if (seen.has(entry.id)) return
  const settledAt = entry.settledAt ?? 0
  seen.set(entry.id, settledAt)
  pending.delete(entry.id)
  const key = `${periodOf('day', settledAt).from} ${entry.gateway}`
  totals.set(key, (totals.get(key) ?? 0n) + (parseAtomic(entry.receipt?.amount) ?? entry.quote))
}

async function follow(state: State, now: number): Promise<void> {
  const { ledger, seen } = state
  const { from } = periodOf('month', now)
  if (from !== state.month) state.cursor = undefined
  if (!state.cursor) await readSums(state, from, now)
  for (;;) {
    const after = state.cursor
    const entries = await ledger.listSettled({ since: from, limit: BATCH, ...(after && { after }) })
    for (const entry of entries) count(state, entry)
    const last = entries.at(-1)
    if (last) state.cursor = { at: last.settledAt ?? 0, id: last.id }
    if (entries.length < BATCH) break
  }
  if (!state.cursor) return
  const overlap = Math.min(state.cursor.at, now) - OVERLAP_MS
  const at = Math.max(state.summedUntil, overlap)
  state.cursor = { at, id: '' }
  for (const [id, settledAt] of seen) if (settledAt < at) seen.delete(id)
}

/**
 * Begins a month with the sums that storage keeps, of its days and of the hours of the last one: after a restart only
 * the settlements of the current hour are read one by one.
 */
async function readSums(state: State, from: number, now: number): Promise<void> {
  const { ledger, pending, totals, seen, settlements } = state
  const until = Math.max(from, Math.floor((now - OVERLAP_MS) / HOUR_MS) * HOUR_MS)
  const day = periodOf('day', until).from
  const sums = [
    ...(day > from ? await ledger.callTotals({ unit: 'day', since: from, until: day, by: 'gateway' }) : []),
    ...(until > day ? await ledger.callTotals({ unit: 'hour', since: day, until, by: 'gateway' }) : []),
  ]
  totals.clear()
  seen.clear()
  for (const { outcome, at, name, spent } of sums) {
    if (outcome !== 'settled' || name === null) continue
    const key = `${periodOf('day', at).from} ${name}`
    totals.set(key, (totals.get(key) ?? 0n) + spent)
  }
  // Settled before the sums were read: the sums have it, or the list of what settled since then.
  for (const [id, { settlement = Infinity }] of pending) if (settlement <= settlements) pending.delete(id)
  state.month = from
  state.summedUntil = until
  state.cursor = { at: until, id: '' }
}

/** A sum that was being read the last time has been used since, so what it may have lacked is not needed any more. */
function forget(state: State, now: number, isFollowed: boolean): void {
  const { pending, reads, settlements, summed } = state
  state.summed = Math.min(settlements, ...[...reads].map((read) => read.settlements))
  for (const [id, { until, settlement = Infinity }] of pending)
    if (until <= now || (!isFollowed && settlement <= summed)) pending.delete(id)
  if (isFollowed) return
  state.totals.clear()
  state.seen.clear()
  state.cursor = undefined
}

function underWay({ pending }: State, fits: (call: Pending) => boolean, now: number): bigint {
  let sum = 0n
  for (const [id, call] of pending) {
    if (call.until <= now) pending.delete(id)
    else if (fits(call)) sum += call.amount
  }
  return sum
}

async function walletSums(
  state: State,
  { payer, periods, now }: { readonly payer: string; readonly periods: readonly Period[]; readonly now: number },
): Promise<(period: Period) => bigint> {
  const { ledger, reads } = state
  const read = { settlements: state.settlements }
  reads.add(read)
  try {
    const sums = new Map<Period, () => bigint>()
    for (const period of periods) {
      const before = state.settlements
      const spends = await ledger.spendByModel(payer, periodOf(period, now).from)
      const spent = spends.reduce((sum, each) => sum + each.spent, 0n)
      const isMissing = ({ settlement = Infinity }: Pending) => settlement > before
      sums.set(period, () => spent + underWay(state, (call) => call.payer === payer && isMissing(call), now))
    }
    return (period) => sums.get(period)?.() ?? 0n
  } finally {
    reads.delete(read)
  }
}

function gatewaySum(
  state: State,
  { name, period, now }: { readonly name: string; readonly period: Period; readonly now: number },
): bigint {
  const { from } = periodOf(period, now)
  let sum = underWay(state, (call) => call.gateway === name, now)
  for (const [key, amount] of state.totals) {
    const [day = '', gateway] = key.split(' ')
    if (gateway === name && Number(day) >= from) sum += amount
  }
  return sum
}

function hold(state: State, { payer, gateway, amount }: Parameters<Spending['hold']>[0], now: number): SpendingHold {
  const { pending } = state
  let name = `hold ${++state.holds}`
  const entry: Pending = { payer, gateway, amount, until: now + PENDING_MS }
  pending.set(name, entry)
  return {
    opening(id) {
      // An order that is sent twice has one id.
      if (pending.has(id)) return
      pending.delete(name)
      pending.set((name = id), entry)
    },
    release() {
      if (pending.get(name) === entry) pending.delete(name)
    },
  }
}
