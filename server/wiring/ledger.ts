import { sqliteLedger } from '../../adapters/storage/sqlite/mod.ts'
import type { LedgerReads } from '../../core/ports/mod.ts'
import type { Config } from '../config/mod.ts'

export type OpenedLedger = LedgerReads & { close(): Promise<void> }

/** Opens the ledger to read it beside a running gateway. Throws where there is none to read. */
export async function openLedger({ database }: Pick<Config, 'database'>): Promise<OpenedLedger> {
  if (database.kind === 'memory')
    throw new Error('The database is in memory, so only the running gateway can read it: use --url.')
  if (database.kind === 'sqlite') return sqliteLedger(database.path)
  const { postgresStorage } = await import('../../adapters/storage/postgres/mod.ts')
  return postgresStorage(database.url)
}
