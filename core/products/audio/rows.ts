/** The audio models, and those that this gateway can sell. */
import type { AudioKind, AudioRow, AudioVendor } from '../../ports/vendors/audio.ts'
import type { Catalog } from '../../endpoint/offering.ts'
import type { Context, Offering, Product } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { clip } from '../../lib/text.ts'

/** All rows of a kind, including hidden ones. */
export const rowsOf = (catalog: Catalog, kind: AudioKind): readonly AudioRow[] =>
  catalog.audio.all.filter((row) => row.kind === kind)

/** The requested row, or the first of its kind by default. Throws INVALID_MODEL, which lists the valid ids. */
export function rowFor(
  { catalog, vendors }: Context & Partial<Pick<Offering, 'vendors'>>,
  kind: AudioKind,
  model: string | undefined,
): AudioRow {
  const rows = rowsOf(catalog, kind)
  const row = model === undefined ? rows[0] : catalog.audio.get(model)
  if (row?.kind === kind) return row
  const available = rows.filter((each) => !each.hidden && (!vendors || vendorOf(each, { vendors }))).map(({ id }) => id)
  const problem = row ? `${row.id} makes ${row.kind}, not ${kind}.` : `Unknown model: ${clip(model)}.`
  throw new ApiError('INVALID_MODEL', {
    message: `${problem} Available models: ${available.join(', ') || 'none'}.`,
    fields: { available_models: available },
  })
}

/** The vendor of a row, if it supports the row's kind. */
export function vendorOf(row: AudioRow | undefined, { vendors }: Pick<Offering, 'vendors'>): AudioVendor | undefined {
  const vendor = row && vendors.audio?.(row)
  return vendor?.makes[row?.kind ?? 'speech'] === undefined ? undefined : vendor
}

/** Longest text of a row, in characters: that of its vendor where a speech may be no longer there. */
export function maxCharactersOf(row: AudioRow, offering: Pick<Offering, 'vendors'>): number {
  const own = row.kind === 'speech' ? vendorOf(row, offering)?.maxCharacters : undefined
  return Math.min(row.maxCharacters, own ?? row.maxCharacters)
}

/** Names of the rates in listings, by billing mode. */
export const RATE_NAMES = {
  per_character: 'per_1k_chars',
  per_second: 'per_second',
  per_generation: 'per_generation',
  per_track: 'per_track',
} as const

/** The listed rows that are available here; all listed rows where none is, so that the documentation has a price. */
export function availableRows(offering: Offering, kind: AudioKind): readonly AudioRow[] {
  const listed = rowsOf(offering.catalog, kind).filter(({ hidden }) => !hidden)
  const made = listed.filter((row) => vendorOf(row, offering) !== undefined)
  return made.length > 0 ? made : listed
}

export const KINDS = ['speech', 'sound-effects', 'music'] as const satisfies readonly AudioKind[]

/** Whether any listed row of a kind is available here. */
export const isOffered =
  (kind: AudioKind) =>
  (offering: Offering): boolean =>
    rowsOf(offering.catalog, kind).some((row) => !row.hidden && vendorOf(row, offering) !== undefined)

export const isAvailable =
  (kind: AudioKind) =>
  ({ model }: { readonly model?: string }, offering: Offering): boolean =>
    vendorOf(rowFor(offering, kind, model), offering) !== undefined

/** The example, with a model that is available here. */
export function sampleOf<Order extends object>(example: Order, kind: AudioKind, offering: Offering): Order {
  const [row] = availableRows(offering, kind)
  return row ? { ...example, model: row.id } : example
}

/** The endpoint that sells models of a kind. */
export const productOf = (kind: AudioKind): Product => ({ name: SOLD_BY[kind], tag: 'audio' })

const SOLD_BY = { speech: 'audio.speech', 'sound-effects': 'audio.sound_effects', music: 'audio.generations' } as const
