/** Changes to the catalog rows of the kinds that products declare. */
import { type TSchema, Type } from '@sinclair/typebox'
import { type CatalogRow, overrideRows, rowKinds, rowSettings } from '../../core/mod.ts'
import { setting } from '../../adapters/settings.ts'
import { type Values } from '../../adapters/providers/manifest.ts'
import { candidatesFor } from './services/products.ts'

/** The table of one row, by kind. */
export const rowTables = Object.fromEntries(rowKinds.map((kind) => [kind.kind, rowSettings(kind)] as const))

/** Settings of the file: a list of tables for each kind. */
export const declaredSettings: Readonly<Record<string, TSchema>> = Object.fromEntries(
  Object.entries(rowTables).map(([kind, table]) => [
    kind,
    setting(`Changes to the ${kind} catalog, by model \`id\`. See [${kind}](#${kind}).`, Type.Array(table), {
      usual: 'the built-in catalog',
    }),
  ]),
)

/** Rows for sale by kind. Adds mistakes by name. */
export function resolveRows(
  file: Values,
  { mistakes, kinds = rowKinds }: { readonly mistakes: string[]; readonly kinds?: typeof rowKinds },
): ReadonlyMap<string, readonly CatalogRow[]> {
  return new Map(
    kinds.map((kind) => {
      const vendors = candidatesFor(kind.kind as Parameters<typeof candidatesFor>[0]).map(({ by }) => by)
      const tables = (file[kind.kind] ?? []) as Parameters<typeof overrideRows>[1]
      const { rows, mistakes: found } = overrideRows(kind, tables, vendors)
      mistakes.push(...found)
      return [kind.kind, rows] as const
    }),
  )
}
