/** The statements of a SQLite ledger, and how they are run. */
import type { LedgerEntry } from '../../../core/ports/mod.ts'
import type { Query, Statement, Values } from '../sql/statement.ts'
import { patchesOf, statementsOf } from '../sql/statements.ts'
import { sqliteDialect } from './dialect.ts'
import type { SqliteDriver, SqliteStatement, SqliteValue } from './driver.ts'

const DAY_MS = 86_400_000
/** Hours or days of sums that are read at once. */
export const PART_OF_TOTALS = 12

export const ask = statementsOf(sqliteDialect)
export const patchOf = patchesOf(sqliteDialect)

export type Run = <Row>(statement: Statement<Row>, values: Values) => readonly Row[]

/** Runs statements, each prepared when it is first run. */
export function runner(database: SqliteDriver): Run {
  const prepared = new Map<Statement<unknown>, SqliteStatement>()
  return (statement, values) => {
    const known = prepared.get(statement) ?? database.prepare(statement.text)
    prepared.set(statement, known)
    const given = statement.encode(values) as SqliteValue[]
    if (statement.hasRows) return known.values(...given).map(statement.decode)
    known.run(...given)
    return []
  }
}

/** Statements that are answered in another way than by their text, by name. */
export type Answers = Readonly<Record<string, (values: never) => readonly object[]>>

/** Answers queries one after the other. */
export function answering(run: Run, answers: Answers) {
  return (queries: readonly unknown[]): (readonly never[])[] => {
    const found: (readonly never[])[] = []
    for (const query of queries as readonly (Query | ((first: unknown) => Query) | undefined)[]) {
      const [statement, values] = (typeof query === 'function' ? query(found[0]) : query) ?? []
      if (!statement) found.push([])
      else found.push((answers[statement.name]?.(values as never) ?? run(statement, values as Values)) as never[])
    }
    return found
  }
}

/** From day to day, because the index has the day first (decision 126). Passes over days without a call. */
export function listingByDay(run: Run): Answers {
  type At = { payer: string; since: number; at: number; id: string; limit: number }
  return {
    [ask.listedOfPayer.name](values: At) {
      const found: LedgerEntry[] = []
      // Calls of the same millisecond may follow the one that was listed last.
      for (let before = values.at + 1; found.length < values.limit;) {
        const at = run(ask.openedBefore, { before })[0]?.at ?? values.since - 1
        if (at < values.since) break
        const day = Math.floor(at / DAY_MS)
        found.push(...run(ask.listedOnDay, { ...values, day, limit: values.limit - found.length }))
        before = day * DAY_MS
      }
      return found
    },
  }
}
