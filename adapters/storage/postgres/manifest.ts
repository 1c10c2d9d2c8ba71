import type { StorageManifest } from '../manifest.ts'
import { postgresDialect } from './dialect.ts'

/** Seconds between two clocks that are worth a warning, and that stop sales. */
const SKEW = { warning: 1, wrong: 5 } as const

/** One database for any number of processes. */
export const postgresManifest: StorageManifest = {
  name: 'Postgres',
  schemes: ['postgres://', 'postgresql://'],
  pattern: 'postgres(ql)?://.+',
  usage: 'postgres://…',
  isShared: postgresDialect.isShared,
  capabilities: { isDurable: true, hasBackups: false, backupTool: 'pg_dump', hasDevnet: false },
  async open(url) {
    const storage = (await import('./mod.ts')).postgresStorage(url)
    await storage.ready().catch(async (error: unknown) => {
      await storage.close()
      throw error
    })
    return storage
  },
  openLedger: async (url) => (await import('./mod.ts')).postgresStorage(url),
  backup: (_, file) => Promise.reject(new Error(backupWords(file).join('\n'))),
  restore: () =>
    Promise.reject(
      new Error('restore is for SQLite, and the database is Postgres: use pg_restore, or recovery to a point in time.'),
    ),
  describe: (url) => `Postgres on ${URL.parse(url)?.host ?? 'set (hidden)'}`,
  async check(url, now) {
    try {
      const { postgresTime } = await import('./probe.ts')
      const before = now()
      const theirs = await postgresTime(url)
      const skew = Math.round((theirs - (before + now()) / 2) / 100) / 10
      const size = Math.abs(skew)
      const text = `this clock is ${size} s ${skew > 0 ? 'behind' : 'ahead of'} the database`
      if (size > SKEW.wrong) return { level: 'wrong', message: `${text}: sales stop above ${SKEW.wrong} s` }
      return { level: size > SKEW.warning ? 'warning' : 'ok', message: `Postgres answers; ${text}` }
    } catch (error) {
      return { level: 'wrong', message: (error as Error).message }
    }
  },
}

/** Postgres has tools of its own. Nothing here names the URL, which holds a password. */
function backupWords(file: string): readonly string[] {
  return [
    'The database is Postgres, which has backup tools of its own. Continuous archiving loses the least:',
    '  postgresql.conf: archive_mode = on, archive_timeout = 60, archive_command = (your archive; 0 only when stored)',
    '  pg_basebackup --pgdata=/backups/base --checkpoint=fast --dbname="$DATABASE_URL"',
    'A dump of one moment, for a move or a test:',
    `  pg_dump --format=custom --file=${JSON.stringify(file)} --dbname="$DATABASE_URL"`,
    `  pg_restore --clean --if-exists --dbname="$DATABASE_URL" ${JSON.stringify(file)}`,
    'After any restore, run farebox reconcile before selling.',
  ]
}
