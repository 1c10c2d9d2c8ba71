/**
 * A step in one transaction: decided on rows that it has locked, or on those that this process has seen last (decision
 * 36).
 */
import { DatabaseError } from '../database_error.ts'
import type { Decided, Transaction } from '../sql/database.ts'
import type { Query } from '../sql/statement.ts'
import { commitInDoubt, handled, type Session, together } from './connections.ts'
import type { Guess, seenRows } from './seen_rows.ts'
import { grouped, lockingOf, readTogether, rowsOf, type Sent } from './steps.ts'

type Step<Answer> = Omit<Transaction<readonly unknown[], Answer>, 'decide'> & {
  decide(found: readonly (readonly unknown[])[]): Decided<Answer>
}
type Seen = ReturnType<typeof seenRows>
type Reads = readonly (Query | undefined | ((first: never) => Query))[]

export async function transact<Answer>(session: Session, step: Step<Answer>, seen: Seen): Promise<Answer> {
  const guess = seen.guess(step.ask as Reads)
  const guessed = guess && (await onGuess(session, step, { seen, guess }))
  return guessed ? guessed.answer : await locked(session, step, seen)
}

/** One statement, without a transaction around it. Undefined, and nothing written, where the rows have changed. */
async function onGuess<Answer>(
  session: Session,
  { decide, locks = [] }: Step<Answer>,
  { seen, guess }: { readonly seen: Seen; readonly guess: Guess },
): Promise<{ readonly answer: Answer } | undefined> {
  const { writes, answer } = decide(guess.found)
  const statement = guess.statementOf(writes, { known: session.known, locks })
  if (!statement) return undefined
  guess.forget()
  const [row] = await session.send(statement).catch((error: unknown) => {
    if (error instanceof DatabaseError && error.kind === 'undone') return []
    return commitInDoubt(error)
  })
  if (row?.[0] !== 1) return undefined
  guess.restore()
  seen.note(writes)
  return { answer: answer([]) }
}

/** Two round trips: what locks and reads is sent with BEGIN, what writes with COMMIT. */
async function locked<Answer>(session: Session, step: Step<Answer>, seen: Seen): Promise<Answer> {
  const started = session.run(session.begin)
  const locking = lockingOf(step.locks ?? [], step.payer)
  const isLocked = locking ? session.send(locking) : undefined
  const [, , found] = await together([started, isLocked ?? started, foundBy(session, step)])
  const { writes, answer } = step.decide(found)
  const groups = grouped(writes, session.known)
  const acting = groups.map((each) => (isQuery(each) ? session.ask(...each) : session.send(each)))
  const [written, command] = await together([together(acting), session.run('COMMIT')]).catch(commitInDoubt)
  if (command !== 'COMMIT') throw new DatabaseError('failed', '', 'the database did not commit')
  seen.note(writes)
  // Only what reads has an answer, and nothing is read twice.
  return answer(written.filter((_, at) => isQuery(groups[at])))
}

const isQuery = (group: Query | Sent | undefined): group is Query => Array.isArray(group)

/** Sends queries without waiting for their answers, unless one is made of what the first one finds. */
export function foundBy(session: Session, { ask, payer }: Pick<Step<unknown>, 'ask' | 'payer'>) {
  const queries = ask as readonly (Query | undefined | ((first: readonly unknown[]) => Query))[]
  if (payer) return inOne(session, queries as readonly (Query | undefined)[])
  const found: Promise<unknown[]>[] = []
  for (const query of queries) {
    const first = found[0] ?? Promise.resolve([])
    if (typeof query === 'function') found.push(handled(first.then((rows) => session.ask(...query(rows)))))
    else found.push(query ? session.ask(...query) : Promise.resolve([]))
  }
  return together(found)
}

/** Reads after the lock of the payer, of one snapshot. */
async function inOne(session: Session, queries: readonly (Query | undefined)[]): Promise<(readonly unknown[])[]> {
  const [row = []] = await session.send(readTogether(queries))
  return [...rowsOf(queries, row)]
}
