import {
  expiryAction,
  HOUR_MS,
  HOURS_RETENTION_MS,
  isArchivable,
  isLedgerRowOver,
  type Row,
  spendOf,
} from '../../../core/payment/mod.ts'
import type { RetentionStorage } from '../../../core/ports/mod.ts'
import { type Tables, bindingsOf, deleteCall, perform, where } from './tables.ts'

export function retention(tables: Tables): RetentionStorage {
  const { rows, records, leases, rateWindows, totals, archived } = tables
  return {
    async prune(now) {
      let touched = 0
      for (const call of rows.values()) {
        const own = bindingsOf(tables, call.id)
        const action = expiryAction(call, own, now)
        if (action === 'none') continue
        touched++
        if (action === 'empty') {
          perform(tables, { kind: 'patch', id: call.id, patch: { request: null, result: null, emptied: true } })
          continue
        }
        deleteCall(tables, call)
      }
      for (const [key, { unit, at }] of totals)
        if (unit === HOUR_MS && at < now - HOURS_RETENTION_MS) totals.delete(key)
      for (const [name, { expiresAt }] of records) if (expiresAt <= now && records.delete(name)) touched++
      for (const [name, { expiresAt }] of leases) if (expiresAt <= now && leases.delete(name)) touched++
      for (const [key, { resetAt }] of rateWindows) if (resetAt <= now && rateWindows.delete(key)) touched++
      return touched
    },

    async pruneLedger(before, now) {
      let deleted = 0
      for (const call of rows.values()) {
        const own = bindingsOf(tables, call.id)
        if (!isLedgerRowOver(call, own, { before, now })) continue
        deleteCall(tables, call)
        deleted++
      }
      return deleted
    },

    async ledgerRows(before, now, limit) {
      const isOver = (call: Row) => isLedgerRowOver(call, bindingsOf(tables, call.id), { before, now })
      return where(tables, isOver, { order: (call) => call.settledAt ?? 0, limit })
    },

    async archiveCalls(ids, day) {
      const found = ids.flatMap((id) => rows.get(id) ?? []).filter((call) => isArchivable(call))
      for (const call of found) {
        const spend = spendOf(call, call.payer, 0)
        if (spend) archived.push({ ...spend, payer: call.payer, day })
        deleteCall(tables, call)
      }
      return found.length
    },
  }
}
