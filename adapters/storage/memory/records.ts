import { mayMoveRecord, unexpired } from '../../../core/payment/mod.ts'
import type { RecordStorage } from '../../../core/ports/mod.ts'
import { copied } from '../copied.ts'
import { type Tables, nameOf } from './tables.ts'

export function recordStorage(tables: Tables): RecordStorage {
  const { records } = tables
  return {
    async putRecord(record, now) {
      if (unexpired(records.get(nameOf(record)), now)) return false
      records.set(nameOf(record), copied(record))
      return true
    },

    async getRecord(kind, id, now) {
      return copied(unexpired(records.get(nameOf({ kind, id })), now))
    },

    async moveRecord(record, from, now) {
      if (!mayMoveRecord(records.get(nameOf(record)), { record, from, now })) return false
      records.set(nameOf(record), copied(record))
      return true
    },

    async listRecords(kind, owner, { now, after = '', limit }) {
      const found = [...records.values()].filter(
        (record) => record.kind === kind && record.owner === owner && record.id > after && unexpired(record, now),
      )
      return copied(found.sort((a, b) => (a.id < b.id ? -1 : 1)).slice(0, limit))
    },
  }
}
