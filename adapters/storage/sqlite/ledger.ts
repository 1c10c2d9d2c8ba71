import { existsSync } from 'node:fs'
import type { LedgerReads } from '../../../core/ports/mod.ts'
import { checkSteps } from '../migration.ts'
import type { SqlReader } from '../sql/database.ts'
import { ledgerReads } from '../sql/ledger_reads.ts'
import { retryWhileBusy } from './writer.ts'
import { openDriver } from './driver.ts'
import { migrations, readSteps } from './migrations.ts'
import { answering, ask, listingByDay, PART_OF_TOTALS, runner } from './statements.ts'

/**
 * The ledger of a SQLite file, read beside the process that has it. It takes no lock and writes nothing. Throws when
 * there is no such file, or when its schema is not that of this version.
 *
 * @example
 * const ledger = sqliteLedger('.farebox/farebox.db')
 */
export function sqliteLedger(path: string): LedgerReads & { close(): Promise<void> } {
  if (!existsSync(path)) throw new Error(`There is no database at ${path}.`)
  const driver = openDriver(path)
  try {
    driver.exec('PRAGMA query_only = ON; PRAGMA busy_timeout = 2000')
    const steps = readSteps(driver) ?? []
    checkSteps(path, steps, migrations)
    if (steps.length < migrations.length)
      throw new Error(
        `${path} is of an older version. Start this version of Farebox on it once; it migrates the database.`,
      )
    const run = runner(driver)
    const answerer = answering(run, listingByDay(run))
    const read: SqlReader['read'] = (queries, answer) => retryWhileBusy(() => answer(answerer(queries) as never))
    return {
      ...ledgerReads({ statements: ask, partOfTotals: PART_OF_TOTALS, read }),
      async close() {
        driver.close()
      },
    }
  } catch (error) {
    driver.close()
    throw error
  }
}
