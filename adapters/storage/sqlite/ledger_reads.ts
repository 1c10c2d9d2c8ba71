import { existsSync } from 'node:fs'
import { type Usdc, usdc } from '../../../core/x402/money.ts'
import type { LedgerCursor, LedgerEntry, LedgerReads } from '../../../core/ports/mod.ts'
import { unexpired } from '../../../core/payment/ledger.ts'
import { spendOfTotal, wholeDays } from '../spend_total.ts'
import { summed } from '../../../core/payment/spend_report.ts'
import { named, oldestFirst, tailOf } from '../named_calls.ts'
import { retryWhileBusy } from '../writer.ts'
import { checkSteps } from '../migration.ts'
import { totalsReads } from './call_totals.ts'
import { openDriver, type SqliteDriver } from './driver.ts'
import { migrations, readSteps } from './migrations.ts'
import { drizzleOver } from './session.ts'
import { statements } from './statements.ts'

const BILLION = 1_000_000_000n
const DAY_MS = 86_400_000

/** A sum as the statements read it. Undefined where there was nothing to sum. */
export function amountOf({ billions, rest }: { billions: string | null; rest: string | null }): Usdc | undefined {
  return billions === null || rest === null ? undefined : usdc(BigInt(billions) * BILLION + BigInt(rest))
}

/** What is read of the ledger beside the calls of buyers. */
export function ledgerReads(
  { database, ask }: { readonly database: SqliteDriver; readonly ask: ReturnType<typeof statements> },
  read: <T>(step: () => T) => Promise<T> = retryWhileBusy,
): LedgerReads {
  /** From day to day, because the index has the day first (decision 126). Days without a call are passed over. */
  function listOfPayer(payer: string, { since, after, limit }: { since: number; after: LedgerCursor; limit: number }) {
    const found: LedgerEntry[] = []
    // Calls of the same millisecond may follow the one that was listed last.
    for (let before = after.at + 1; found.length < limit;) {
      const at = ask.openedBefore.get({ before })?.at ?? since - 1
      if (at < since) break
      const day = Math.floor(at / DAY_MS)
      found.push(...ask.listedOfPayer.all({ payer, day, since, ...after, limit: limit - found.length }))
      before = day * DAY_MS
    }
    return found
  }

  return {
    ...totalsReads(database, read),

    getRecord: (kind, id, now) => read(() => unexpired(ask.record.get({ kind, id }), now)),

    listOpen: (limit) =>
      read(() => [...ask.listedUnfinished.all({ limit }), ...ask.listedInDoubt.all({ limit })].toSorted(oldestFirst)),

    listCalls: ({ payer, since, until, after = { at: until, id: '' }, limit }) =>
      read(() =>
        payer === undefined ? ask.listed.all({ since, ...after, limit }) : listOfPayer(payer, { since, after, limit }),
      ),

    listSettled: ({ since, after = { at: since, id: '' }, limit }) =>
      read(() => ask.listedSettled.all({ ...after, limit })),

    findCalls: (name, limit) =>
      read(() => {
        const tail = tailOf(name)
        const exact = [...ask.entry.all({ name }), ...ask.entriesByKey.all({ name })]
        if (tail === undefined) return named(name, { exact, byNonce: [], byTransaction: [] }, limit)
        const found = {
          exact,
          byNonce: ask.entriesByNonce.all({ tail }),
          byTransaction: ask.entriesByTransaction.all({ tail }),
        }
        return named(name, found, limit)
      }),

    listAuthorizations: (call) => read(() => ask.bindings.all({ id: call }).map(({ payer, ...binding }) => binding)),

    spendByModel: (payer, since) =>
      read(() => {
        const { day, until } = wholeDays(since)
        const groups = ask.spent.all({ payer, since, until })
        const first = groups.map(({ billions, rest, ...group }) => ({
          ...group,
          spent: amountOf({ billions, rest }) ?? usdc(0n),
        }))
        return summed([...first, ...ask.spendTotals.all({ payer, day }).map(withBareModel).map(spendOfTotal)])
      }),
  }
}

/**
 * A model is stored with a colon before it, because an empty name is not the same as none. SQL would cut a name at its
 * first U+0000.
 */
const withBareModel = <Row extends { readonly model: string }>(row: Row) => ({
  ...row,
  model: row.model === '' ? null : row.model.slice(1),
})

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
    return {
      ...ledgerReads({ database: driver, ask: statements(drizzleOver(driver)) }),
      async close() {
        driver.close()
      },
    }
  } catch (error) {
    driver.close()
    throw error
  }
}
