/** Shared by speech, sound effects and music: rows, formats, vendor lookup and error mapping. */
import { Type } from '@sinclair/typebox'
import type { AudioKind, AudioRow, AudioFormat, AudioVendor, MadeAudio } from '../../ports/vendors/audio.ts'
import type { Catalog } from '../../endpoint/offering.ts'
import type { Context, Hosted, Made, Offering, Order, Product, Showing, Stored } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { clip, quoted } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'
import type { Usdc } from '../../x402/money.ts'
import type { Json } from '../../lib/json.ts'
import { flatPrice } from '../../x402/pricing.ts'

/** Folder of mirrored audio. */
export const FOLDER = 'audios'

// ── fields ──────────────────────────────────────────────────────────────────────────────────────────────────────────

export const modelField = Type.Optional(
  Type.String({
    minLength: 1,
    maxLength: 200,
    description: 'Id of an audio model, as listed by /api/v1/audio/models.',
  }),
)
export const formatField = Type.Optional(
  Type.String({
    maxLength: 20,
    description:
      'mp3, opus, pcm or wav, if the vendor supports it. Default: that of the vendor. pcm is 16 bits, little-endian, mono.',
  }),
)

export const noteField = Type.Optional(
  Type.String({ description: 'Set if the audio was not made by a model: how it was made.' }),
)

/** An inline reply. The audio is at its URL, never in the body. */
export const soundResult = Type.Object({
  created: Type.Integer({ description: 'Unix time in seconds.' }),
  model: Type.String(),
  data: Type.Array(
    Type.Object({
      url: Type.String({ description: 'Hosted URL.' }),
      format: Type.String(),
      characters: Type.Optional(Type.Integer({ description: 'Number of characters spoken.' })),
      credits: Type.Optional(Type.Number({ description: 'Credits reported by the vendor.' })),
      duration_seconds: Type.Optional(Type.Number()),
      sample_rate: Type.Optional(Type.Integer({ description: 'For pcm, which has no header.' })),
      note: noteField,
    }),
  ),
})

// ── rows and vendors ────────────────────────────────────────────────────────────────────────────────────────────────

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

/** Lowest and highest of these quotes; the fee alone if there are none. */
export function priceRangeOf(amounts: readonly Usdc[], { prices }: Context): { min: Usdc; max: Usdc } {
  const [first = flatPrice('0', prices)] = amounts
  return {
    min: amounts.reduce((a, b) => (a < b ? a : b), first),
    max: amounts.reduce((a, b) => (a > b ? a : b), first),
  }
}

/** The requested format, or the vendor's default. Throws for one that the vendor does not support. */
export function formatFor(
  kind: AudioKind,
  requested: string | undefined,
  vendor: AudioVendor | undefined,
): AudioFormat {
  const formats = vendor?.makes[kind] ?? ['mp3']
  const [usual = 'mp3'] = formats
  if (requested === undefined) return usual
  const format = formats.find((each) => each === requested.toLowerCase())
  if (format) return format
  throw refused('response_format', `must be one of ${formats.join(', ')} here, got ${quoted(requested)}`)
}

/** Characters without sound: joiners, fillers, direction marks, blank braille. */
const SILENT = /[\p{Default_Ignorable_Code_Point}\u2800]/gu
/** Characters that can be spoken: letters, digits and symbols. */
const SPEAKABLE = /[\p{L}\p{N}\p{S}]/u

/** Checks the length of a text, and that it can be spoken: dots or invisible characters would be paid silence. */
export function checkText(
  path: string,
  text: string,
  { length, max, of }: { length: number; max: number; of: string },
): void {
  if (text.trim() === '') throw refused(path, `must not be blank, got ${quoted(text)}`)
  if (length > max) throw refused(path, `may have at most ${max} characters with ${of}, got ${length}`)
  if (/\p{Cs}/u.test(text))
    throw refused(path, `must be valid Unicode, but has an unpaired surrogate; got ${quoted(text)}`)
  if (!SPEAKABLE.test(text.replace(SILENT, '')))
    throw refused(path, `must contain a letter, a digit or a symbol, got ${quoted(text)}`)
}

// ── work ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The row and the vendor of a validated request. */
export function workOf(
  kind: AudioKind,
  { input, catalog, vendors }: Order<{ readonly model?: string }>,
): { row: AudioRow; vendor: AudioVendor } {
  const row = rowFor({ catalog, vendors }, kind, input.model)
  const vendor = vendorOf(row, { vendors })
  if (!vendor) throw notConfigured(row.id)
  return { row, vendor }
}

export const notConfigured = (id: string): ApiError =>
  new ApiError('NOT_CONFIGURED', {
    message: `${id}: the operator has not configured it. Nothing was charged.`,
  })

/** Maps vendor failures to 504 for a timeout, else 502 (contract 14.13). */
export function withUpstreamErrors(work: Promise<MadeAudio> | undefined): Promise<MadeAudio> {
  if (!work) throw notConfigured('audio')
  return work.catch((error: unknown) => {
    if (error instanceof ApiError) throw error
    if ((error as Error).name === 'TimeoutError')
      throw new ApiError('UPSTREAM_TIMEOUT', {
        message: 'The sound was not made in time. Payment was NOT charged; try again.',
      })
    throw new ApiError('UPSTREAM_FAILED', {
      message: 'The provider of this sound failed. Payment was NOT charged; try again.',
      details: 'The model did not deliver a result.',
    })
  })
}

/**
 * Converts a vendor's audio to a result. If it cannot be hosted the call fails uncharged, since its reply would have no
 * URL (contract 14.10).
 */
export function hosted(
  made: MadeAudio,
  { format, model, ...details }: { readonly format: AudioFormat; readonly model: string; readonly characters?: number },
): Made {
  const { url, seconds, sampleRate, credits, note } = made
  const piece = {
    format,
    ...details,
    ...(credits !== undefined && { credits }),
    ...(seconds !== undefined && { duration_seconds: seconds }),
    ...(format === 'pcm' && sampleRate !== undefined && { sample_rate: sampleRate }),
    ...(note !== undefined && { note }),
  }
  return { result: { model, piece }, media: { folder: FOLDER, urls: [url] }, recordsToStore: requireHosted }
}

function requireHosted(media: readonly Hosted[]): [] {
  if (media.every(({ key }) => key !== null)) return []
  throw new ApiError('WORK_FAILED', {
    error: 'Audio could not be stored',
    details: 'The audio could not be stored. Nothing was charged; try again.',
  })
}

type StoredSound = { readonly model: string; readonly piece: Record<string, Json> }

export function soundResponse({ made, media, created }: Stored, { href }: Pick<Showing, 'href'>): Record<string, Json> {
  const { model, piece } = made as unknown as StoredSound
  const urls = media.map(({ key, url }) => (key === null ? (url ?? '') : href(key)))
  return { created, model, data: urls.map((url) => ({ url, ...piece })) }
}
