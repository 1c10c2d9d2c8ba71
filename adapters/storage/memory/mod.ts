import type { Storage } from '../../../core/ports/mod.ts'
import { callStorage } from './calls.ts'
import { coordination } from './coordination.ts'
import { ledgerReads } from './ledger_reads.ts'
import { recordStorage } from './records.ts'
import { retention } from './retention.ts'
import { noRows } from './tables.ts'

/**
 * The reference storage, in memory: the other storages must give the same answers. Everything is lost with the process
 * and some verbs scan every row, so it is for tests and demos. Values are copied in and out.
 *
 * @example
 * const storage = memoryStorage()
 */
export function memoryStorage(): Storage {
  const tables = noRows()
  return {
    ...callStorage(tables),
    ...coordination(tables),
    ...ledgerReads(tables),
    ...recordStorage(tables),
    ...retention(tables),
    async close() {},
  }
}
