/**
 * How many wallets paid on each day, remembered once they were counted: to count those of a year of 10,000,000 calls
 * takes seconds. Whatever changes the sums of a day forgets its counts, in the same transaction.
 */
import type { Values } from '../sql/statement.ts'
import type { SqliteDriver, SqliteStatement, SqliteValue } from './driver.ts'
import { type Answers, ask } from './statements.ts'

const DAY_MS = 86_400_000
const NAMES = ['gateway', 'endpoint', 'model'] as const

const KNOWN = 'SELECT day, buyers FROM buyers_by_day WHERE day >= ? AND day < ? AND names = ? ORDER BY day'
const COUNT = `INSERT OR REPLACE INTO buyers_by_day SELECT ?, ?, count(DISTINCT payer) FROM spend_totals
  WHERE day = ? AND gateway = coalesce(?, gateway) AND endpoint = coalesce(?, endpoint) AND model = coalesce(?, model)`
const FORGET = 'DELETE FROM buyers_by_day WHERE day = ?'
const FORGET_AMONG = `DELETE FROM buyers_by_day WHERE day IN (
  SELECT settled_at / ${DAY_MS} FROM calls WHERE id IN (SELECT value FROM json_each(?)) AND settled_at IS NOT NULL)`

type Range = { readonly since: number; readonly until: number }

export function rememberedBuyers(database: SqliteDriver) {
  const prepared = new Map<string, SqliteStatement>()
  const statement = (sql: string): SqliteStatement => {
    const found = prepared.get(sql) ?? database.prepare(sql)
    prepared.set(sql, found)
    return found
  }

  const answers: Answers = {
    [ask.buyersByDay.name](values: Values & Range) {
      const { since, until } = values
      const given = NAMES.map((name) => values[name] as SqliteValue)
      const names = JSON.stringify(given)
      const read = () => statement(KNOWN).values(since, until, names) as [day: number, buyers: number][]
      const known = new Set(read().map(([day]) => day))
      for (let day = since; day < until; day++) if (!known.has(day)) statement(COUNT).run(day, names, day, ...given)
      return read().flatMap(([day, buyers]) => (buyers > 0 ? [{ day, buyers }] : []))
    },
  }
  return {
    answers,
    forget: (day: number): void => void statement(FORGET).run(day),
    /** To be called before these calls are deleted. */
    forgetDaysOf: (ids: readonly string[]): void => void statement(FORGET_AMONG).run(JSON.stringify(ids)),
  }
}
