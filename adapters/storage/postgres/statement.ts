/** Named statements and their parameters: what all statements of the Postgres storage are built from. */
import { type GetColumnData, type SQL, eq, fillPlaceholders, getTableColumns, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import type { authorizations, calls, leases, records, rateWindows } from './schema.ts'

export type Values = Readonly<Record<string, unknown>>

/** A statement for any connection. The server prepares `text` under `name` on first use. */
export type Statement<Row> = {
  readonly name: string
  readonly text: string
  /** The parameters, in order. Throws for a value that its column cannot write. */
  encode(values: Values): unknown[]
  decode(row: readonly unknown[]): Row
}

type Decoded<Fields extends Record<string, PgColumn>> = { [Field in keyof Fields]: GetColumnData<Fields[Field]> }

/** A statement that returns `fields`, in their order. */
export function rows<Fields extends Record<string, PgColumn>>(
  name: string,
  fields: Fields,
  query: { toSQL(): { sql: string; params: unknown[] } },
): Statement<Decoded<Fields>> {
  const { sql: text, params } = query.toSQL()
  const columns = Object.entries(fields)
  return {
    name,
    text,
    encode: (values) => fillPlaceholders(params, { ...values }),
    decode(row) {
      const read = columns.map(([field, column], at) => [
        field,
        row[at] === null ? null : column.mapFromDriverValue(row[at]),
      ])
      return Object.fromEntries(read) as Decoded<Fields>
    },
  }
}

/** A parameter that its column encodes: text, money and JSON are stored in another form. */
export function given(name: string, column: PgColumn) {
  return sql.param(sql.placeholder(name), column)
}

/** The column equals the parameter `name`, by default the name of the column. */
export function same(column: PgColumn, name = column.name) {
  return eq(column, given(name, column))
}

/** The column is one of the values of the parameter `ids`. */
export function among(column: PgColumn): SQL {
  const ids = sql.param(sql.placeholder('ids'), {
    mapToDriverValue: (list: unknown) => (list as readonly string[]).map((each) => column.mapToDriverValue(each)),
  })
  return sql`${column} = any(${ids}::text[])`
}

/**
 * The column is one of those that `chosen` selects. Through an array, so that the rows are selected and locked once.
 */
export function anyOf(column: PgColumn, chosen: SQL): SQL {
  return sql`${column} = any(array(${chosen}))`
}

export function aFew(): SQL {
  return sql`limit ${sql.placeholder('limit')} for update skip locked`
}

type Table = typeof calls | typeof authorizations | typeof records | typeof leases | typeof rateWindows

/** `values` in which every field is the placeholder of its name. */
export function everyField<T extends Table>(
  table: T,
): { [Field in keyof T['$inferSelect']]: ReturnType<typeof sql.placeholder> } {
  const fields = Object.keys(getTableColumns(table)).map((field) => [field, sql.placeholder(field)])
  return Object.fromEntries(fields)
}

/** `set` of an upsert: every field but the keys takes the value of the insert. */
export function fromExcluded(table: Table, ...keys: readonly string[]): Record<string, SQL> {
  const fields = Object.entries(getTableColumns(table)).filter(([field]) => !keys.includes(field))
  return Object.fromEntries(fields.map(([field, column]) => [field, sql.raw(`excluded."${column.name}"`)]))
}
