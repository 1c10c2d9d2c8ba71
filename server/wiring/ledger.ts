import type { StorageManifest } from '../../adapters/storage/manifest.ts'
import { storageManifest } from '../../adapters/storage/manifests.ts'
import type { LedgerReads } from '../../core/ports/mod.ts'
import type { Config } from '../config/mod.ts'

type OpenedLedger = LedgerReads & { close(): Promise<void> }
export type BackupContents = Awaited<ReturnType<StorageManifest['backup']>>

/** Opens the ledger to read it beside a running gateway. Throws where there is none to read. */
export async function openLedger({ database }: Pick<Config, 'database'>): Promise<OpenedLedger> {
  return await storageManifest(database).openLedger(database)
}

/** Opens the storage for a command of the operator. Throws where another process has the database for itself. */
export async function openForWriting(database: Config['database']) {
  const { hold, open } = storageManifest(database)
  const lock = hold?.(database)
  if (hold && !lock) throw new Error('Another process uses the database. Stop the gateway first.')
  const storage = await open(database)
  return {
    storage,
    async close(): Promise<void> {
      await storage.close()
      lock?.release()
    },
  }
}

/** Backups of the configured database. */
export function backupsOf({ database }: Pick<Config, 'database'>): Pick<StorageManifest, 'backup' | 'restore'> & {
  readonly hasBackups: boolean
} {
  const { backup, capabilities, restore } = storageManifest(database)
  return { backup, restore, hasBackups: capabilities.hasBackups }
}
