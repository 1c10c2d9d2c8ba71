/** Backups of the configured database. Only SQLite has backups of our own. */
import { backupSqlite, type Contents, type Restored, restoreSqlite } from '../../adapters/storage/sqlite/backup.ts'

export type BackupContents = Contents

/** Writes a consistent copy of the database at `path` to `file`. Throws, in words for the operator, when it cannot. */
export function backupDatabase(path: string, file: string): BackupContents {
  return backupSqlite(path, file)
}

/** Puts `file` in the place of the database at `path`; what is there is moved to `aside`, where that is given. */
export function restoreDatabase(file: string, path: string, aside?: string): Restored {
  return restoreSqlite(file, path, aside)
}
