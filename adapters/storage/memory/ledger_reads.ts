import {
  DAY_MS,
  ENTRY_FIELDS,
  isOf,
  isUnfinished,
  type Row,
  spendOf,
  summed,
  totalled,
  wholeDays,
} from '../../../core/payment/mod.ts'
import { type LedgerCursor, type LedgerEntry, type LedgerReads, LOOKUP_CHARACTERS } from '../../../core/ports/mod.ts'
import { copied } from '../copied.ts'
import { type Tables, bindingsOf, callsOf } from './tables.ts'

export function ledgerReads(tables: Tables): Omit<LedgerReads, 'getRecord'> {
  const { rows, archived, totals } = tables
  return {
    async spendByModel(payer, since) {
      const { day: first } = wholeDays(since)
      const old = archived.filter((spend) => spend.payer === payer && spend.day >= first)
      return summed([
        ...[...rows.values()].flatMap((row) => spendOf(row, payer, since) ?? []),
        ...old.map(({ payer: _payer, day: _day, ...spend }) => spend),
      ])
    },

    async listCalls({ payer, since, until, after = { at: until, id: '' }, limit }) {
      const found = (payer === undefined ? [...rows.values()] : callsOf(tables, payer)).filter(
        (call) => call.createdAt >= since && isBefore({ at: call.createdAt, id: call.id }, after),
      )
      return found.sort(newestFirst).slice(0, limit).map(entryOf)
    },

    async listSettled({ since, after = { at: since, id: '' }, limit }) {
      const settledAt = (call: Row) => ({ at: call.settledAt ?? 0, id: call.id })
      const found = [...rows.values()].filter(
        (call) => call.paymentStatus === 'settled' && isBefore(after, settledAt(call)),
      )
      return found
        .sort((a, b) => (isBefore(settledAt(a), settledAt(b)) ? -1 : 1))
        .slice(0, limit)
        .map(entryOf)
    },

    async findCalls(name, limit) {
      const isNamed = (call: Row) =>
        call.id === name ||
        call.receipt?.transaction === name ||
        bindingsOf(tables, call.id).some(({ key }) => key === name || key.endsWith(`/${name}`))
      const found =
        name.length < LOOKUP_CHARACTERS
          ? [...rows.values()].filter(
              (call) => call.id === name || bindingsOf(tables, call.id).some(({ key }) => key === name),
            )
          : [...rows.values()].filter(isNamed)
      return found.sort(newestFirst).slice(0, limit).map(entryOf)
    },

    async callTotals(query) {
      return totalled(totals.values(), query)
    },

    async buyersByDay({ since, until, ...names }) {
      const wallets = new Map<number, Set<string>>()
      const add = (day: number, payer: string) => wallets.set(day, (wallets.get(day) ?? new Set()).add(payer))
      for (const { settledAt, paymentStatus, payer, ...call } of rows.values())
        if (paymentStatus === 'settled' && isOf(call, names)) add(Math.floor((settledAt ?? 0) / DAY_MS), payer)
      for (const { day, payer, ...call } of archived) if (isOf(call, names)) add(day, payer)
      return [...wallets]
        .map(([day, { size }]) => ({ at: day * DAY_MS, buyers: size }))
        .filter(({ at }) => at >= since && at < until)
        .toSorted((a, b) => a.at - b.at)
    },

    async listOpen(limit) {
      const unfinished = [...rows.values()]
        .filter(({ workStatus }) => isUnfinished(workStatus))
        .sort((a, b) => a.leaseExpiresAt - b.leaseExpiresAt || (a.id < b.id ? -1 : 1))
        .slice(0, limit)
      const inDoubt = [...rows.values()]
        .filter(({ paymentStatus: status }) => status === 'settling' || status === 'unresolved')
        .filter(({ workStatus }) => !isUnfinished(workStatus))
        .sort((a, b) => newestFirst(b, a))
        .slice(0, limit)
      return [...unfinished, ...inDoubt].sort((a, b) => newestFirst(b, a)).map(entryOf)
    },

    async listAuthorizations(call) {
      return bindingsOf(tables, call).map(({ authorization, payer, ...binding }) => binding)
    },
  }
}

function entryOf(row: Row): LedgerEntry {
  return copied(Object.fromEntries(ENTRY_FIELDS.map((field) => [field, row[field]])) as LedgerEntry)
}

function isBefore(one: LedgerCursor, other: LedgerCursor): boolean {
  return one.at < other.at || (one.at === other.at && one.id < other.id)
}

function newestFirst(a: Row, b: Row): number {
  return isBefore({ at: a.createdAt, id: a.id }, { at: b.createdAt, id: b.id }) ? 1 : -1
}
