/** Operator overrides of the rows that a product declares: rows edited, added or hidden (decision 21). */
import { type TObject, type TSchema, Type } from '@sinclair/typebox'
import type { CatalogRow, RowKind } from '../../endpoint/mod.ts'
import { duplicatesIn } from '../../lib/text.ts'
import { dollars } from '../../x402/money.ts'

/** A rate in US dollars, as text, because prices are exact decimals. The row has it as `Dollars`. */
export const rate = (description: string) =>
  Type.String({ pattern: '^[0-9]{1,6}(\\.[0-9]{1,9})?$', description, isRate: true })

const Name = Type.String({ minLength: 1, maxLength: 200 })
const named = (description: string) => Type.Optional({ ...Name, description })

/**
 * The table of the configuration that changes one row of a kind.
 *
 * @example
 * const schemas = rowKinds.map(rowSettings)
 */
export function rowSettings({ settings }: RowKind): TObject {
  const own = Object.entries(settings).map(([name, schema]) => [name, Type.Optional(schema)] as const)
  return Type.Object(
    {
      id: Type.String({ pattern: '^[\\w.+/:-]{1,100}$', description: 'The model to change or to add.' }),
      aliases: Type.Optional(Type.Array(Name, { maxItems: 100, description: 'Other names that requests may use.' })),
      name: named('The name that lists show.'),
      maker: named('Who made the model, as lists show it.'),
      vendor: named('The provider that serves it.'),
      upstream: named('The name of the model at its vendor.'),
      hidden: Type.Optional(Type.Boolean({ description: 'Sells the model without listing it.' })),
      ...Object.fromEntries(own),
    },
    { additionalProperties: false },
  )
}

type Table = Readonly<Record<string, unknown>> & { readonly id: string }

/**
 * Applies overrides in order. Mistakes name the row and the setting; use the rows only if there are none. `vendors` are
 * the names that a row may give as its vendor.
 *
 * @example
 * const results = rowKinds.map((kind) => overrideRows(kind, [], []))
 */
export function overrideRows(
  { kind, builtIn, settings, usual = {} }: RowKind,
  tables: readonly Table[],
  vendors: readonly string[],
): { readonly rows: readonly CatalogRow[]; readonly mistakes: readonly string[] } {
  const mistakes: string[] = []
  const byId = new Map(builtIn.map((row) => [row.id, row]))
  for (const id of duplicatesIn(tables.map((table) => table.id))) mistakes.push(`${kind}: two entries change ${id}`)
  for (const table of tables) {
    const { id, vendor } = table
    if (vendor !== undefined && !vendors.includes(vendor as string))
      mistakes.push(`${kind} ${id}.vendor: must be one of ${vendors.join(', ')}, got ${JSON.stringify(vendor)}`)
    const fields = fieldsOfRow(table, settings)
    const existing = byId.get(id)
    const row = existing ? { ...existing, ...fields } : { aliases: [], name: id, maker: vendor, ...usual, ...fields }
    const missing = ['vendor', 'upstream', ...Object.keys(settings)].filter((name) => !(fieldOf(name) in row))
    if (missing.length > 0)
      mistakes.push(`${kind} ${id}: not in the built-in catalog, so ${missing.join(', ')} must be set`)
    else byId.set(id, row as unknown as CatalogRow)
  }
  const rows = [...byId.values()]
  for (const name of duplicatesIn(rows.flatMap((row) => [row.id, ...row.aliases])))
    mistakes.push(`${kind}: two rows are called ${name}`)
  return { rows, mistakes }
}

const fieldOf = (setting: string): string => setting.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase())

function fieldsOfRow(table: Table, settings: Readonly<Record<string, TSchema>>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    Object.entries(table).map(([name, value]) => [
      fieldOf(name),
      settings[name]?.isRate === true ? dollars(value as string) : value,
    ]),
  )
}

/** Why a row cannot be added: the required settings that it does not have. Undefined when it has all. */
export function missingOf(required: Readonly<Record<string, unknown>>): string | undefined {
  const missing = Object.keys(required).filter((name) => required[name] === undefined || required[name] === '')
  const [last = ''] = missing.slice(-1)
  if (missing.length === 0) return undefined
  const names = missing.length === 1 ? last : `${missing.slice(0, -1).join(', ')} and ${last}`
  return `not in the built-in catalog, so ${names} ${missing.length === 1 ? 'is' : 'are'} required`
}
