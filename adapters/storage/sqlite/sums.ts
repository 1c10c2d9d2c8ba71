/**
 * Sums of what calls paid and how they ended (decision 127). What the changes of one transaction add is collected and
 * written at its end: calls that share a commit mostly share their hour, their day and their model.
 */
import { type Counted, type CountedRow, countedOf, DAY_MS, HOUR_MS, type RowPatch } from '../../../core/payment/mod.ts'
import type { Call } from '../../../core/ports/mod.ts'
import { calls } from '../sql/schema.ts'
import { statementsIn, type Values } from '../sql/statement.ts'
import { headFields, PAIR, pick } from '../sql/statements.ts'
import { sqliteDialect } from './dialect.ts'
import type { SqliteDriver, SqliteStatement, SqliteValue } from './driver.ts'
import { type Answers, ask, type Run } from './statements.ts'

const BILLION = 1_000_000_000n
/** Part of spend_totals that is kept here: it was kept by triggers before. */
const PART = 1

const names = ['gateway', 'model', 'payer', 'asset', 'endpoint', 'quote', 'charge', 'usage', 'createdAt'] as const
const states = ['workStatus', 'paymentStatus', 'endedAt', 'settledAt', 'claimExpiresAt'] as const
const counted = pick(calls.fields, ...names, ...states)
type Changing = CountedRow & Pick<Call, 'payer' | 'asset' | 'usage'>
/** A change of others can neither count nor change what counts. */
const COUNTED = new Set<string>(Object.keys(counted))

const { select } = statementsIn(sqliteDialect)
const changing = select('changing', counted, 'from calls where id = @id')
/** As the statements of the verbs, with what is counted: decisions and sums read a call once. */
const seenHead = select('seen_head', { ...headFields, ...counted }, 'from calls where id = @id')
const seenPair = select('seen_pair', { ...headFields, ...counted }, `from calls where ${PAIR}`)

type Sum = { readonly keys: readonly SqliteValue[]; calls: number; spent: bigint }
type WalletSum = Sum & { input: number; output: number; lastAt: number }

const TOTALS = `INSERT INTO call_totals VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?) ON CONFLICT DO UPDATE SET
  calls = calls + excluded.calls, billions = billions + excluded.billions, rest = rest + excluded.rest`
const SPENT = `INSERT INTO spend_totals VALUES (?, ?, ?, ?, ?, ?, ${PART}, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
  calls = calls + excluded.calls, billions = billions + excluded.billions, rest = rest + excluded.rest,
  input_tokens = input_tokens + excluded.input_tokens, output_tokens = output_tokens + excluded.output_tokens,
  last_at = max(last_at, excluded.last_at)`

/** The sums of a database. `transaction` runs steps as the database does, and writes what they add. */
export function transactionSums(database: SqliteDriver, run: Run, forgetDay: (day: number) => void) {
  const totals = new Map<string, Sum>()
  const spent = new Map<string, WalletSum>()
  const prepared = new Map<string, SqliteStatement>()

  function write(sql: string, values: SqliteValue[]): void {
    const statement = prepared.get(sql) ?? database.prepare(sql)
    prepared.set(sql, statement)
    statement.run(...values)
  }

  function clear(): void {
    totals.clear()
    spent.clear()
  }

  function flush(): void {
    for (const { keys, calls: count, ...sum } of totals.values())
      if (count !== 0 || sum.spent !== 0n) write(TOTALS, [...keys, count, ...partsOf(sum.spent)])
    for (const day of new Set([...spent.values()].map(({ lastAt }) => dayOf(lastAt)))) forgetDay(day)
    for (const { keys, calls: count, input, output, lastAt, ...sum } of spent.values())
      write(SPENT, [...keys, count, ...partsOf(sum.spent), input, output, lastAt])
    clear()
  }

  function addTotal(unit: number, { at, gateway, endpoint, model, outcome, upToMs, ...one }: Counted): void {
    const keys = [unit, at - (at % unit), gateway, endpoint, nameOf(model), outcome, upToMs]
    const name = keys.join('\0')
    const sum = totals.get(name) ?? { keys, calls: 0, spent: 0n }
    totals.set(name, sum)
    sum.calls += one.calls
    sum.spent += one.spent
  }

  function addSpent({ payer, gateway, endpoint, model, asset, usage, quote, charge }: Changing, at: number): void {
    const keys = [payer, dayOf(at), gateway, endpoint, nameOf(model), asset]
    const name = keys.join('\0')
    const sum = spent.get(name) ?? { keys, calls: 0, spent: 0n, input: 0, output: 0, lastAt: at }
    spent.set(name, sum)
    sum.calls += 1
    sum.spent += charge ?? quote
    sum.input += Math.trunc(usage?.input ?? 0)
    sum.output += Math.trunc(usage?.output ?? 0)
    sum.lastAt = Math.max(sum.lastAt, at)
  }

  /** Calls as the step that runs has read them, until it changes them. */
  const seen = new Map<string, Changing>()
  const reading = (statement: typeof seenHead) => (values: Values) => {
    const rows = run(statement, values)
    for (const row of rows) seen.set(row.id, row)
    return rows
  }
  const answers: Answers = { [ask.head.name]: reading(seenHead), [ask.pair.name]: reading(seenPair) }

  return {
    answers,
    transaction: <T>(step: () => T): T =>
      database.transaction(() => {
        // Those of a transaction that was rolled back.
        clear()
        const made = step()
        flush()
        return made
      }),
    flush,
    /** To be called before each step: what an earlier one has read may have changed. */
    begin: () => seen.clear(),
    isCounted: (patch: RowPatch): boolean => Object.keys(patch).some((field) => COUNTED.has(field)),
    /** Counts a change that is about to be made: of the call as it is stored, or of `row`. */
    count(id: string, patch: RowPatch, row: Changing | undefined = seen.get(id)): void {
      seen.delete(id)
      const { workStatus, paymentStatus, usage } = patch
      if (workStatus === undefined && paymentStatus === undefined && usage === undefined) return
      const before = row ?? run(changing, { id })[0]
      if (!before) return
      // A trigger adds tokens to the sum of a settled call, which must be there by then.
      if (before.paymentStatus === 'settled' && usage !== undefined) flush()
      const after: Changing = { ...before, ...patch }
      for (const each of countedOf(before, after)) for (const unit of [HOUR_MS, DAY_MS]) addTotal(unit, each)
      const isSettled = before.paymentStatus !== 'settled' && after.paymentStatus === 'settled'
      if (isSettled && after.settledAt !== null) addSpent(after, after.settledAt)
    },
  }
}

const dayOf = (at: number): number => Math.floor(at / DAY_MS)

/** A model is stored with a colon before it, because an empty name is not the same as none. */
const nameOf = (model: string | null): string => (model === null ? '' : `:${model}`)

const partsOf = (amount: bigint) => [Number(amount / BILLION), Number(amount % BILLION)] as const
