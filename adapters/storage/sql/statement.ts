/** Statements of one SQL text for every database: how their parameters are written and their rows are read. */
import { type Column, type Fields, JSON_FIELDS, type Kind, type RowOf } from './schema.ts'

export type Values = Readonly<Record<string, unknown>>

/** A statement for any connection of its database. `name` is unique among the statements of a database. */
export type Statement<Row> = {
  readonly name: string
  readonly text: string
  /** The columns that it returns, in order. */
  readonly fields: Fields
  /** Whether it returns rows. */
  readonly hasRows: boolean
  /** The parameters, in order. Throws where one is missing. */
  encode(values: Values): unknown[]
  decode(row: readonly unknown[]): Row
}

/** A statement with the values of its parameters, by name. */
export type Query<Row = unknown> = readonly [statement: Statement<Row>, values: Values]

/** How a database spells what is not the same everywhere. */
export type Dialect = {
  /** Whether several processes may use one database at the same time. */
  readonly isShared: boolean
  /** The parameter at this position, which counts from 1. */
  placeholder(position: number): string
  /** A parameter as the driver takes it. JSON is text already. */
  encode(value: unknown): unknown
  /** How each kind is read, where it is not as the driver returns it. Never called with null. */
  readonly decode: Readonly<Partial<Record<Kind, (stored: never) => unknown>>>
  /** Locks of the rows that a statement selects, where the whole database is not locked already. */
  readonly lock: string
  readonly lockInOrder: string
  readonly lockCalls: string
  readonly lockUnlocked: string
  /** The column is one of the texts of the parameter `ids`. */
  among(column: string): string
  /** Deletes at most `limit` rows of a table. */
  deleteSome(table: string, condition: string): string
  /** A flag, as the conditions of partial indexes spell it. */
  is(flag: string, value: boolean): string
  /** A number in a column of JSON. */
  number(column: string, key: string): string
  /** A sum that is 0 where there is nothing to sum. */
  total(of: string): string
  /** An amount without its last nine digits, and these: SQLite has no integers that could hold a sum of amounts. */
  billions(of: string): string
  rest(of: string): string
  greater(one: string, other: string): string
  /** Where calls are looked up that are open or settled, and what their authorizations may still spend. */
  readonly lookups: Lookups
  /** Conditions that use an index on the last characters, which the parameter `tail` is compared with. */
  readonly nonceEndsInTail: string
  readonly transactionEndsInTail: string
}

/** `from` clauses that find calls, and names of the columns that they are found by. */
type Lookups = {
  readonly open: string
  readonly settled: string
  readonly wallet: string
  readonly settledAt: string
  readonly settledId: string
  /** Leaves out settled calls whose block is in the balance that was read: a condition that may be empty. */
  readonly missing: string
  /** Authorizations that may be spent, with their calls. */
  readonly spendable: string
  readonly spender: string
  readonly spendableUntil: string
  /** When to look whether a call has expired: not later than it does. */
  readonly dueAt: string
  /** Further columns that an insert of a call writes, and an update of when it expires. */
  readonly inserted: Readonly<Record<string, string>>
  readonly expiring: string
  /** Makes a call due when it expires. */
  readonly postponed: string
}

/**
 * Makes statements of a dialect. `@name` in the text is a parameter.
 *
 * @example
 * const { select } = statementsIn(dialect)
 * const call = select('call', calls.fields, 'from calls where id = @id')
 */
export function statementsIn(dialect: Dialect) {
  function statement<F extends Fields>(name: string, fields: F, text: string): Statement<RowOf<F>> {
    const params: string[] = []
    const spelled = text
      .replaceAll(/\s+/g, ' ')
      .trim()
      .replaceAll(/@(\w+)/g, (_, param: string) => dialect.placeholder(params.push(param)))
    const slots = params.map((param) => ({ param, isJson: JSON_FIELDS.has(param) }))
    return {
      name,
      text: spelled,
      fields,
      hasRows: Object.keys(fields).length > 0,
      encode: (values) =>
        slots.map(({ param, isJson }) => {
          const value = values[param]
          if (value === undefined) throw new Error(`no value for "${param}" of the statement ${name}`)
          if (value === null) return null
          return isJson ? JSON.stringify(value) : dialect.encode(value)
        }),
      decode: reader(fields, dialect),
    }
  }

  return {
    statement,
    /** A statement that returns these fields. */
    select: <F extends Fields>(name: string, fields: F, rest: string) =>
      statement(name, fields, `select ${listOf(fields)} ${rest}`),
    /** A statement that returns nothing. */
    run: (name: string, text: string) => statement(name, {}, text),
  }
}

/** The select list of the fields. */
export function listOf(fields: Fields): string {
  return Object.values(fields)
    .map(({ sql }) => sql)
    .join(', ')
}

/** The name of a column without its table. */
export const nameOf = ({ sql }: Column): string => sql.slice(sql.indexOf('.') + 1)

/** Makes an object of a row, in the order of the fields. What it takes is worked out once. */
function reader<F extends Fields>(fields: F, { decode }: Dialect): (row: readonly unknown[]) => RowOf<F> {
  const slots = Object.entries(fields).map(([name, { kind }]) => ({ name, read: decode[kind] }))
  return (row) => {
    const made: Record<string, unknown> = {}
    for (let at = 0; at < slots.length; at++) {
      const { name, read } = slots[at] as (typeof slots)[number]
      const stored = row[at] ?? null
      made[name] = read === undefined || stored === null ? stored : read(stored as never)
    }
    return made as RowOf<F>
  }
}
