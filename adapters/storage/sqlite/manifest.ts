import { unwritable } from '../unwritable.ts'
import type { StorageManifest } from '../manifest.ts'
import { sqliteDialect } from './dialect.ts'
import { holdAlone } from './hold.ts'

const MEMORY = ':memory:'

function pathOf(url: string): string {
  const path = url.slice('sqlite:'.length)
  if (path === '') throw new RangeError('sqlite: needs a file, such as sqlite:farebox.db')
  return path
}

/** One file for one process. */
export const sqliteManifest: StorageManifest = {
  name: 'SQLite',
  schemes: ['sqlite:'],
  pattern: 'sqlite:.+',
  usage: 'sqlite:FILE',
  isShared: sqliteDialect.isShared,
  capabilities: { isDurable: true, hasBackups: true, hasDevnet: true },
  pathOf,
  hold: (url) => (pathOf(url) === MEMORY ? { release() {} } : holdAlone(pathOf(url))),
  open: async (url, options) => (await import('./mod.ts')).sqliteStorage(pathOf(url), options),
  openLedger: async (url) => (await import('./ledger.ts')).sqliteLedger(pathOf(url)),
  backup: async (url, file) => (await import('./backup.ts')).backupSqlite(pathOf(url), file),
  restore: async (file, url, aside) => (await import('./backup.ts')).restoreSqlite(file, pathOf(url), aside),
  describe: (url) => `SQLite, ${pathOf(url)}`,
  async check(url) {
    const problem = await unwritable(pathOf(url))
    return problem ? { level: 'wrong', message: problem } : { level: 'ok', message: `${pathOf(url)} can be written` }
  },
  async devnetLedgers() {
    const { claimForDevnet, isDevnetLedger, ledgerOrigin, markForDevnet } = await import('./devnet_ledger.ts')
    const { moveAside } = await import('./backup.ts')
    return { claim: claimForDevnet, mark: markForDevnet, isMarked: isDevnetLedger, originOf: ledgerOrigin, moveAside }
  },
}
