/**
 * Drizzle's statements over any driver. What a statement binds and how a row is read is worked out once, when it is
 * prepared: half the time of a short statement would go to working it out again with each run.
 */
import { Column, is, Param, Placeholder, type Query, SQL } from 'drizzle-orm'
import { BaseSQLiteDatabase, type SelectedFieldsOrdered, SQLiteSyncDialect } from 'drizzle-orm/sqlite-core'
import type { SqliteDriver, SqliteValue } from './driver.ts'

/** What the statements are built with. */
export type SqliteDatabase = BaseSQLiteDatabase<'sync', unknown>

type Named = Readonly<Record<string, unknown>>

/** Drizzle asks a session for prepared statements only; the storage begins and ends transactions by the driver. */
export function drizzleOver(driver: SqliteDriver): SqliteDatabase {
  const prepareQuery = ({ sql, params }: Query, fields: SelectedFieldsOrdered | undefined) =>
    preparedStatement(driver.prepare(sql), { bind: binder(params), read: fields ? reader(fields) : (row) => row })
  return new BaseSQLiteDatabase('sync', new SQLiteSyncDialect(), { prepareQuery } as never, undefined)
}

function preparedStatement(
  statement: ReturnType<SqliteDriver['prepare']>,
  { bind, read }: { bind: (given: Named) => SqliteValue[]; read: (row: unknown[]) => unknown },
) {
  const values = (given: Named = {}) => statement.values(...bind(given))
  return {
    values,
    run: (given: Named = {}) => statement.run(...bind(given)),
    all: (given?: Named) => values(given).map(read),
    get(given?: Named) {
      const [row] = values(given)
      return row && read(row)
    },
  }
}

type Slot = { readonly name: string; readonly encode: ((value: unknown) => unknown) | undefined }

/** Makes the list of a statement's parameters from values by name. Throws where one is missing. */
function binder(params: readonly unknown[]): (given: Named) => SqliteValue[] {
  const slots = params.map((param): Slot | { readonly fixed: unknown } => {
    if (is(param, Placeholder)) return { name: param.name, encode: undefined }
    if (!is(param, Param) || !is(param.value, Placeholder)) return { fixed: param }
    const { encoder, value } = param
    const isPlain = is(encoder, Column) && encoder.mapToDriverValue === Column.prototype.mapToDriverValue
    return { name: value.name, encode: isPlain ? undefined : (each) => encoder.mapToDriverValue(each) }
  })
  return (given) =>
    slots.map((slot) => {
      if ('fixed' in slot) return slot.fixed as SqliteValue
      const value = given[slot.name]
      if (value === undefined && !(slot.name in given)) throw new Error(`no value for "${slot.name}" of a statement`)
      return (slot.encode ? slot.encode(value) : value) as SqliteValue
    })
}

/** Makes an object from the values of a row, in the order of the selected fields. NULL stays null. */
function reader(fields: SelectedFieldsOrdered): (row: unknown[]) => unknown {
  const slots = fields.map(({ path, field }) => {
    const [name] = path
    if (name === undefined || path.length > 1) throw new Error(`a statement selects a nested field: ${path.join('.')}`)
    const isPlain = is(field, Column) && field.mapFromDriverValue === Column.prototype.mapFromDriverValue
    return { name, decode: isPlain ? undefined : decoderOf(field) }
  })
  return (row) => {
    const made: Record<string, unknown> = {}
    for (let at = 0; at < slots.length; at++) {
      const slot = slots[at] as (typeof slots)[number]
      const value = row[at]
      made[slot.name] = slot.decode === undefined || value === null ? value : slot.decode(value)
    }
    return made
  }
}

type Decoder = { mapFromDriverValue(value: unknown): unknown }

function decoderOf(field: SelectedFieldsOrdered[number]['field']): (value: unknown) => unknown {
  if (is(field, Column)) return (value) => field.mapFromDriverValue(value)
  const { decoder } = (is(field, SQL) ? field : (field as SQL.Aliased).sql) as unknown as { readonly decoder: Decoder }
  return (value) => decoder.mapFromDriverValue(value)
}
