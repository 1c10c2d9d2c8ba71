/** What wallets and gateways have spent in a day and in a month, with what is under way. */
import type { Call, LedgerCursor, LedgerEntry, Storage } from '../../ports/mod.ts'
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

/** Calls that this process has opened and that may still be charged. */
type Pending = Pick<Call, 'payer' | 'gateway'> & {
  readonly amount: bigint
  readonly until: number
  isSettled: boolean
}

export type Spending = {
  /** The storage, observed: what it opens counts until it is settled or has failed. */
  observed<Some extends Storage>(storage: Some): Some
  /** Reads the settlements since the last time, for totals of gateways. In small steps. */
  follow(now: number): Promise<void>
  wallet(payer: string, period: Period, now: number): Promise<bigint>
  gateway(name: string, period: Period, now: number): bigint
}

const BATCH = 500
/** Settlements are read again for this long, because replicas record them in no strict order. */
const OVERLAP_MS = 10_000
/** An authorization lives no longer than this, so neither does what is counted for it. */
const PENDING_MS = 3_600_000

export function spendings(ledger: Pick<Storage, 'listSettled' | 'spendByModel'>): Spending {
  const pending = new Map<string, Pending>()
  /** By gateway and day; a month is the sum of its days. */
  const totals = new Map<string, bigint>()
  /** Settlements of the overlap that were counted. */
  const seen = new Map<string, number>()
  let cursor: LedgerCursor | undefined
  let month = 0

  function count(entry: LedgerEntry): void {
    if (seen.has(entry.id)) return
    const settledAt = entry.settledAt ?? 0
    seen.set(entry.id, settledAt)
    pending.delete(entry.id)
    const key = `${periodOf('day', settledAt).from} ${entry.gateway}`
    totals.set(key, (totals.get(key) ?? 0n) + (parseAtomic(entry.receipt?.amount) ?? entry.quote))
  }

  function underWay(fits: (call: Pending) => boolean, now: number): bigint {
    let sum = 0n
    for (const [id, call] of pending) {
      if (call.until <= now) pending.delete(id)
      else if (fits(call)) sum += call.amount
    }
    return sum
  }

  return {
    observed: (storage) => ({
      ...storage,
      async openCall(...given) {
        const opened = await storage.openCall(...given)
        if (opened.kind === 'opened' && opened.call.quote > 0n) {
          const { id, payer, gateway, quote, createdAt } = opened.call
          pending.set(id, { payer, gateway, amount: quote, until: createdAt + PENDING_MS, isSettled: false })
        }
        return opened
      },
      async moveCall(id, from, patch) {
        const isMoved = await storage.moveCall(id, from, patch)
        if (isMoved && patch.workStatus === 'failed') pending.delete(id)
        return isMoved
      },
      async finishSettlement(id, token, outcome, at) {
        const isRecorded = await storage.finishSettlement(id, token, outcome, at)
        const known = pending.get(id)
        // The ledger has it now; a gateway's total has it once it has been followed.
        if (known && outcome.kind === 'paid') known.isSettled = true
        if (known && (outcome.kind === 'refused' || outcome.kind === 'dead')) pending.delete(id)
        return isRecorded
      },
    }),

    async follow(now) {
      const { from } = periodOf('month', now)
      if (from !== month) {
        totals.clear()
        seen.clear()
        cursor = undefined
        month = from
      }
      for (;;) {
        const entries = await ledger.listSettled({ since: from, limit: BATCH, ...(cursor && { after: cursor }) })
        for (const entry of entries) count(entry)
        const last = entries.at(-1)
        if (last) cursor = { at: last.settledAt ?? 0, id: last.id }
        if (entries.length < BATCH) break
      }
      if (!cursor) return
      const overlap = Math.min(cursor.at, now) - OVERLAP_MS
      cursor = { at: Math.max(from, overlap), id: '' }
      for (const [id, at] of seen) if (at < cursor.at) seen.delete(id)
    },

    async wallet(payer, period, now) {
      const spends = await ledger.spendByModel(payer, periodOf(period, now).from)
      const spent = spends.reduce((sum, each) => sum + each.spent, 0n)
      return spent + underWay((call) => call.payer === payer && !call.isSettled, now)
    },

    gateway(name, period, now) {
      const { from } = periodOf(period, now)
      let sum = underWay((call) => call.gateway === name, now)
      for (const [key, amount] of totals) {
        const [day = '', gateway] = key.split(' ')
        if (gateway === name && Number(day) >= from) sum += amount
      }
      return sum
    },
  }
}
