/** Remembers how many wallets paid on days that are over; see buyers.ts. */
import type { Values } from '../sql/statement.ts'
import { together, type Session } from './connections.ts'
import { ask } from './statements.ts'

/** Days that one transaction counts: bounds how long the archive waits for it. */
const DAYS = 7

type Write = <Answer>(turn: string, step: (session: Session) => Promise<Answer>) => Promise<Answer>

/**
 * Counts and remembers the days of a query that are over and not remembered. Whatever is missing is counted by the
 * query itself, so nothing is wrong without it, only slower, and its errors are not reported.
 */
export async function rememberBuyers(write: Write, query: Values): Promise<void> {
  const values = { ...query, limit: DAYS }
  const count = async (session: Session) => {
    const isNeeded = await session.ask(ask.uncountedDays, { ...values, limit: 1 })
    if (isNeeded.length === 0) return 0
    const sent = [
      session.run(session.begin),
      session.run('LOCK TABLE buyers_by_day IN SHARE ROW EXCLUSIVE MODE'),
      session.ask(ask.countDays, values),
      session.run('COMMIT'),
    ] as const
    return (await together(sent))[2].length
  }
  try {
    while ((await write('buyers by day', count)) === DAYS);
  } catch {
    // The query counts.
  }
}
