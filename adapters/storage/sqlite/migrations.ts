import { BASELINE, checkSteps, countedSteps, type Migration, minReaderOf, type TakenStep } from '../migration.ts'
import { baseline } from './baseline.ts'
import type { SqliteDriver } from './driver.ts'

/**
 * The migrations, in order. A released step is never edited; a later step follows it, with an upgrade test from the
 * last release (test/adapters/storage/releases.ts). sql/schema.ts describes the result of all of them.
 */
export const migrations: readonly Migration[] = [
  { name: BASELINE, sql: baseline },
  {
    // sums.ts writes them once for each transaction. An older Farebox would leave its calls out of them.
    name: 'sums by transaction',
    sql: `
      DROP TRIGGER IF EXISTS calls_count_settled;
      DROP TRIGGER IF EXISTS calls_total_again;
      DROP TRIGGER IF EXISTS calls_total_work;
      DROP TRIGGER IF EXISTS calls_total_payment;`,
  },
  {
    // Counts that buyers.ts remembers. An older Farebox would not forget those that it changes.
    name: 'buyers by day',
    sql: `
      CREATE TABLE IF NOT EXISTS buyers_by_day (
        day INTEGER NOT NULL, names TEXT NOT NULL, buyers INTEGER NOT NULL, PRIMARY KEY (day, names)
      ) WITHOUT ROWID;`,
  },
]

/** The steps of the last development version before the first release, which made what the baseline makes. */
const EARLIER = [
  'baseline',
  'ledger retention',
  'payments looked up',
  'spend totals',
  'indexes by day',
  'call totals',
  'records listed by id',
]

/** Called before the first step that changes a database which has taken some before; throws to prevent it. */
type BeforeUpgrade = (taken: number) => void

/**
 * Applies the steps of `wanted` that the database lacks, one transaction per step. Throws, and changes nothing, when
 * the database has taken steps that this binary neither knows nor suits.
 */
export function migrate(
  database: SqliteDriver,
  wanted: readonly Migration[] = migrations,
  beforeUpgrade: BeforeUpgrade = () => {},
): void {
  const { steps: before, isEarlier: isBehind } = countedSteps(database.filename, storedSteps(database) ?? [], EARLIER)
  checkSteps(database.filename, before, wanted)
  if (isBehind) beforeUpgrade(0)
  else if (before.length > 0 && before.length < wanted.length) beforeUpgrade(before.length)
  database.exec(
    'CREATE TABLE IF NOT EXISTS migrations (step INTEGER PRIMARY KEY NOT NULL, name TEXT NOT NULL, min_reader INTEGER NOT NULL DEFAULT 1)',
  )
  const record = database.prepare('INSERT INTO migrations (step, name, min_reader) VALUES (?, ?, ?)')
  // Another process may be migrating as well: the steps taken are known only inside the write transaction.
  const next = (): boolean => {
    const { steps: taken, isEarlier } = countedSteps(database.filename, storedSteps(database) ?? [], EARLIER)
    checkSteps(database.filename, taken, wanted)
    if (isEarlier) {
      database.exec('DELETE FROM migrations')
      record.run(1, BASELINE, 1)
    }
    const step = wanted[taken.length]
    if (!step) return false
    database.exec(step.sql)
    record.run(taken.length + 1, step.name, minReaderOf(step, taken))
    return true
  }
  while (database.transaction(next));
}

/** The steps that the database has taken, in order; undefined where it has no table of them. */
export function readSteps(database: SqliteDriver): readonly TakenStep[] | undefined {
  const stored = storedSteps(database)
  return stored && countedSteps(database.filename, stored, EARLIER).steps
}

function storedSteps(database: SqliteDriver): readonly TakenStep[] | undefined {
  const table = database.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'migrations'")
  if (table.values().length === 0) return undefined
  const rows = database.prepare('SELECT * FROM migrations ORDER BY step').values()
  return rows.map(([, name, reader]) => ({ name: String(name), minReader: Number(reader ?? 1) }))
}
