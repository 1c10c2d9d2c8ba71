/**
 * The tables of `server/docs/configuration.md`, made from the schema of the configuration.
 * `bun test/server/settings_tables.ts --write` writes them into the page.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { TObject, TSchema } from '@sinclair/typebox'
import { isInFile, type Service } from '../../adapters/providers/manifest.ts'
import { File, sections, variables } from '../../server/config/file.ts'
import { AudioSetting } from '../../server/config/audio.ts'
import { ChatSetting } from '../../server/config/chat.ts'
import { GatewayRow } from '../../server/config/gateways.ts'
import { batchedSettings } from '../../adapters/chains/settings.ts'
import { FacilitatorRow } from '../../adapters/chains/lib/settings.ts'
import { declaredSettings, rowTables } from '../../server/config/rows.ts'
import { RetentionTable } from '../../server/config/retention.ts'
import { ImageSetting, VendorRow } from '../../server/config/vendors.ts'
import { providers } from '../../server/config/providers.ts'
import { products } from '../../server/config/services/products.ts'
import { settingsFor } from '../../server/config/services/settings.ts'
import { VideoSetting } from '../../server/config/video.ts'

export const PAGE = join(import.meta.dirname, '../../server/docs/configuration.md')

/** The schemas of tables inside the file, by the name that a marker gives them. */
export const rows: Readonly<Record<string, TObject>> = {
  gateways: GatewayRow,
  facilitators: FacilitatorRow,
  batched: batchedSettings.row,
  vendors: VendorRow,
  images: ImageSetting,
  chat: ChatSetting,
  videos: VideoSetting,
  audio: AudioSetting,
  ...rowTables,
  retention: RetentionTable,
}

/**
 * `<!-- settings: server -->` names a section of the file, `<!-- settings of gateways -->` a table of it, `<!--
 * settings for search, market -->` products, with the settings of their providers, and `<!-- keys -->` what the
 * environment alone gives. A table ends at the next marker.
 */
const MARKED = /(<!-- (?:keys|settings(?:: ([\w, ]+)| of (\w+)| for ([\w, ]+))) -->\n)[^]*?(<!-- end -->)/g

/** The page with its tables as the schema has them now. A kind of models that a product declares gets a section. */
export function withTables(written: string, kinds = Object.keys(rowTables)): string {
  const page = withSections(written, kinds)
  const named = namedBy(page)
  return page.replaceAll(MARKED, (_all, start: string, _names?: string, row?: string) => {
    const table = tableOf(named.get(start), row)
    return `${start}${table.join('\n')}\n<!-- end -->`
  })
}

function withSections(page: string, kinds: readonly string[]): string {
  const made = kinds
    .filter((kind) => !page.includes(`<!-- settings of ${kind} -->`))
    .map((kind) => {
      const words = `\`[[${kind}]]\`: changes to the ${kind} catalog, by model \`id\`.`
      return `### ${kind}\n\n${words}\n\n<!-- settings of ${kind} -->\n<!-- end -->\n\n`
    })
  return page.replace(/^### retention$/m, (heading) => made.join('') + heading)
}

function tableOf(names: readonly string[] | undefined, row: string | undefined): readonly string[] {
  if (names) return fileTable(names)
  if (row === undefined) return keyTable()
  const isInEnvironment = Object.values(variables).some((name) => name.startsWith(`${row}.`))
  return isInEnvironment ? environmentTable(row, rowOf(row)) : rowTable(rowOf(row))
}

/** Settings of the file that a marker of the page names, in order. */
export function namedIn(page: string): readonly string[] {
  return [...namedBy(page).values()].flat()
}

/** The same by marker. A setting that several products share stands in the first table. */
function namedBy(page: string): ReadonlyMap<string, readonly string[]> {
  const seen = new Set<string>()
  return new Map(
    [...page.matchAll(MARKED)].flatMap(([, start = '', names, , services]) => {
      const all = names
        ? Object.keys(sectionOf(names))
        : services?.split(', ').flatMap((name) => settingsFor(productOf(name)))
      const fresh = all?.filter((name) => names !== undefined || !seen.has(name))
      for (const name of fresh ?? []) seen.add(name)
      return fresh ? [[start, [...new Set(fresh)]] as const] : []
    }),
  )
}

function sectionOf(name: string): Readonly<Record<string, TSchema>> {
  const all = { ...sections, tables: { ...sections.tables, ...declaredSettings } }
  const found = Object.entries(all).find(([each]) => each === name)
  if (!found)
    throw new Error(`a marker names the section ${name}, which is none of ${Object.keys(sections).join(', ')}`)
  return found[1]
}

function productOf(name: string): Service {
  const found = products.find((each) => each === name)
  if (!found) throw new Error(`a marker names ${name}, which is none of ${products.join(', ')}`)
  return found
}

/** Keys and addresses of providers that the environment alone gives. */
function keyTable(): readonly string[] {
  const lines = providers.flatMap(({ title, environment, settings }) =>
    Object.entries(environment).flatMap(([variable, name]) => {
      const schema = settings[name]
      return schema && !isInFile(schema) ? [line([`\`${variable}\``, title, String(schema.description)])] : []
    }),
  )
  return [line(['Variable', 'Provider', 'Description']), '|---|---|---|', ...lines]
}

function rowOf(name: string): TObject {
  const found = rows[name]
  if (!found) throw new Error(`a marker names ${name}, which is none of ${Object.keys(rows).join(', ')}`)
  return found
}

function fileTable(names: readonly string[]): readonly string[] {
  const properties: Readonly<Record<string, TSchema>> = File.properties
  const lines = names.map((name) => {
    const schema = properties[name]
    if (!schema) throw new Error(`a marker names the setting ${name}, which does not exist`)
    const variable = Object.keys(variables).find((each) => variables[each] === name)
    return line([`\`${name}\``, variable ? `\`${variable}\`` : '', usual(schema), described(schema)])
  })
  return [line(['Setting', 'Environment', 'Default', 'Description']), '|---|---|---|---|', ...lines]
}

/** A table whose settings the environment has as well. */
function environmentTable(table: string, { properties }: TObject): readonly string[] {
  const lines = Object.entries(properties).map(([name, schema]) => {
    const variable = Object.keys(variables).find((each) => variables[each] === `${table}.${name}`)
    return line([`\`${name}\``, `\`${variable}\``, usual(schema), described(schema)])
  })
  return [line(['Setting', 'Environment', 'Default', 'Description']), '|---|---|---|---|', ...lines]
}

function rowTable({ properties }: TObject): readonly string[] {
  const lines = Object.entries(properties).map(([name, schema]) =>
    line([`\`${name}\``, usual(schema), described(schema)]),
  )
  return [line(['Setting', 'Default', 'Description']), '|---|---|---|', ...lines]
}

const line = (cells: readonly string[]): string => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`

function usual({ default: value, usual: words }: TSchema): string {
  if (words !== undefined) return String(words)
  return value === undefined ? '' : `\`${value}\``
}

/** Its description, and its allowed values. */
function described(schema: TSchema): string {
  const range = allowed(schema)
  return range === '' ? String(schema.description) : `${schema.description} ${range}`
}

function allowed(schema: TSchema): string {
  const words = (schema.anyOf as readonly TSchema[] | undefined)?.flatMap((each) =>
    each.const === undefined ? [] : [`\`${each.const}\``],
  )
  const isDescribed = words?.every((word) => String(schema.description).includes(word))
  if (words && words.length === schema.anyOf.length) return isDescribed ? '' : `One of ${words.join(', ')}.`
  if (schema.type === 'boolean') return '`true` or `false`.'
  if (schema.type !== 'integer' && schema.type !== 'number') return ''
  const kind = schema.type === 'integer' ? 'Integer' : 'Number'
  return schema.maximum === undefined
    ? `${kind}, at least ${count(schema.minimum)}.`
    : `${kind}, ${count(schema.minimum)} to ${count(schema.maximum)}.`
}

const count = (value: number): string => value.toLocaleString('en-US')

if (import.meta.main) {
  const page = await readFile(PAGE, 'utf8')
  const written = withTables(page)
  if (process.argv.includes('--write')) await writeFile(PAGE, written)
  const news = process.argv.includes('--write') ? 'the tables were written' : 'the tables have changed; use --write'
  console.log(written === page ? 'the tables are up to date' : news)
}
