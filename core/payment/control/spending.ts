/** Spending of wallets and gateways by day and month, open calls included. */
import type { CallObserver } from '../../ports/call_events.ts'
import type { Call, LedgerCursor, LedgerEntry, LedgerReads } from '../../ports/mod.ts'
import { parseAtomic } from '../../x402/money.ts'

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
  /** Which settlement of this process it was. A wallet's sum, once read, may lack those that came later. */
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
  /** Reads the settlements since the last time, for totals of gateways. In small steps. */
  follow(now: number): Promise<void>
  /** Reads what a wallet has spent. The sum then counts what is under way when it is called. */
  wallet(payer: string, period: Period, now: number): Promise<() => bigint>
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
  readonly ledger: Pick<LedgerReads, 'listSettled' | 'spendByModel'>
  readonly pending: Map<string, Pending>
  settlements: number
  holds: number
  /** By gateway and day; a month is the sum of its days. */
  readonly totals: Map<string, bigint>
  /** Settlements of the overlap that were counted. */
  readonly seen: Map<string, number>
  cursor: LedgerCursor | undefined
  month: number
}

export function spendings(ledger: State['ledger']): Spending {
  const state: State = {
    ledger,
    pending: new Map(),
    settlements: 0,
    holds: 0,
    totals: new Map(),
    seen: new Map(),
    cursor: undefined,
    month: 0,
  }
  return {
    observer: observerOf(state),
    follow: (now) => follow(state, now),
    wallet: (payer, period, now) => walletSum(state, { payer, period, now }),
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
  const { ledger, totals, seen } = state
  const { from } = periodOf('month', now)
  if (from !== state.month) {
    totals.clear()
    seen.clear()
    state.cursor = undefined
    state.month = from
  }
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
  const at = Math.max(from, overlap)
  state.cursor = { at, id: '' }
  for (const [id, settledAt] of seen) if (settledAt < at) seen.delete(id)
}

function underWay({ pending }: State, fits: (call: Pending) => boolean, now: number): bigint {
  let sum = 0n
  for (const [id, call] of pending) {
    if (call.until <= now) pending.delete(id)
    else if (fits(call)) sum += call.amount
  }
  return sum
}

async function walletSum(
  state: State,
  { payer, period, now }: { readonly payer: string; readonly period: Period; readonly now: number },
): Promise<() => bigint> {
  const before = state.settlements
  const spends = await state.ledger.spendByModel(payer, periodOf(period, now).from)
  const spent = spends.reduce((sum, each) => sum + each.spent, 0n)
  const isMissing = ({ settlement = Infinity }: Pending) => settlement > before
  return () => spent + underWay(state, (call) => call.payer === payer && isMissing(call), now)
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
