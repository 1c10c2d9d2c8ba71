/** Interface of a SQL database to the verbs of the storage: reads and transactions, as lists of statements. */
import type { NewCall } from '../../../core/ports/mod.ts'
import type { Row, RowPatch } from '../../../core/payment/mod.ts'
import type { Query, Statement, Values } from './statement.ts'
import type { Statements } from './statements.ts'

type QueryOf<Row> = readonly [Statement<Row>, Values]

type RowsOf<Each> =
  Each extends QueryOf<infer Row>
    ? readonly Row[]
    : Each extends (first: never) => QueryOf<infer Row>
      ? readonly Row[]
      : never

/**
 * The rows of each query; none of one that is undefined. A function makes its query of the rows of the first one.
 */
type Found<Queries extends readonly unknown[]> = { readonly [At in keyof Queries]: RowsOf<Queries[At]> }

/** The statements that follow from what was found, and what the verb answers once they are written. */
export type Decided<Answer> = {
  readonly writes: readonly Query[]
  answer(written: readonly (readonly unknown[])[]): Answer
}

/**
 * One atomic step: it locks, in the same order everywhere; decides on what it reads under the locks; then it writes.
 */
export type Transaction<Queries extends readonly unknown[], Answer> = {
  /** Steps with the same turn run one after another in this process, so that they use one connection, not all. */
  readonly turn: string
  /** Names locked on all replicas until the step ends. Always in the same order of kinds: authorization, payer. */
  readonly locks?: readonly string[]
  /** The wallet whose exposed calls the step sums: its row is locked until the step ends. */
  readonly payer?: { readonly payer: string; readonly asset: string }
  /** About how many characters the step writes, where they are many. */
  readonly weight?: number
  readonly ask: Queries
  /** Has no other effects, because the step may run more than once. If it throws, nothing is written. */
  decide(found: Found<Queries>): Decided<Answer>
}

export type SqlReader = {
  readonly statements: Statements
  read<const Queries extends readonly unknown[], Answer>(
    queries: Queries,
    answer: (found: Found<Queries>) => Answer,
  ): Promise<Answer>
  /** Hours or days that are read at once, so that others are served between the parts; absent: all. */
  readonly partOfTotals?: number
}

export type SqlDatabase = SqlReader & {
  write<const Queries extends readonly unknown[], Answer>(step: Transaction<Queries, Answer>): Promise<Answer>
  /** Rows that one step of `prune` or `renew` reads: bounds how long it holds up others. */
  readonly batch: number
  /** An update of exactly the fields of a patch. */
  patch(id: string, patch: RowPatch): readonly Query[]
  /** A new call as it is after a change, where no trigger has to see the change. */
  readonly insertChanged?: (row: Row, patch: RowPatch) => readonly Query[]
  /** Told of each settlement within its transaction, where the database remembers them. */
  readonly noteSettlement?: (call: Settling, patch: RowPatch) => void
}

export type Settling = Pick<NewCall, 'id' | 'payer' | 'asset' | 'endpoint' | 'quote'> & {
  readonly charge: NewCall['quote'] | null
  readonly workStatus: 'queued' | 'in_progress' | 'completed' | 'failed'
  readonly startedAt: number | null
}

/** Writes, then answers. */
export function decided<Answer>(writes: readonly Query[], answer: Answer): Decided<Answer> {
  return { writes, answer: () => answer }
}

/** Writes, then answers with what a last query finds. */
export function decidedBy<Row, Answer>(
  writes: readonly Query[],
  last: Query<Row>,
  answer: (rows: readonly Row[]) => Answer,
): Decided<Answer> {
  return { writes: [...writes, last], answer: (written) => answer(written.at(-1) as readonly Row[]) }
}

/** Throws where a row is missing that another one refers to. */
export function present<T>(value: T | null | undefined, what: string): T {
  if (value === null || value === undefined) throw new Error(`the database has lost ${what}`)
  return value
}

/** About how many characters a result takes: the length of its texts. */
export function weightOf(value: unknown): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 0
  return Object.values(value).reduce((sum: number, each: unknown) => sum + weightOf(each), 0)
}
