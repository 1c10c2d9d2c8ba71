/**
 * What speech, sound effects and music have in common: rows and formats, how a vendor is found, and how its failures
 * read.
 */
import { Type } from '@sinclair/typebox'
import type { AudioKind, AudioRow, AudioFormat, AudioVendor, MadeAudio } from '../../ports/vendors/audio.ts'
import type { Catalog } from '../../endpoint/offering.ts'
import type { Hosted, Made, Offering, Order, Showing, Stored } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { clip, quoted } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'
import type { Usdc } from '../../x402/money.ts'
import type { Json } from '../../lib/json.ts'
import { flatPrice } from '../../x402/pricing.ts'

/** Where sounds are mirrored to. */
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
      'mp3, opus, pcm or wav, where the vendor makes it; its usual one unless told. pcm is 16 bits, little-endian, one channel.',
  }),
)

export const noteField = Type.Optional(Type.String({ description: 'Where no model made it: what did.' }))

/** A one-shot reply: the sound is where its URL says, never in the body. */
export const soundResult = Type.Object({
  created: Type.Integer({ description: 'Unix time in seconds.' }),
  model: Type.String(),
  data: Type.Array(
    Type.Object({
      url: Type.String({ description: 'Hosted URL.' }),
      format: Type.String(),
      characters: Type.Optional(Type.Integer({ description: 'Characters that were spoken.' })),
      credits: Type.Optional(Type.Number({ description: 'What the vendor counted for it, where it says.' })),
      duration_seconds: Type.Optional(Type.Number()),
      sample_rate: Type.Optional(Type.Integer({ description: 'Of bare samples, which do not say it.' })),
      note: noteField,
    }),
  ),
})

// ── rows and vendors ────────────────────────────────────────────────────────────────────────────────────────────────

/** The rows of a kind, hidden ones too. */
export const rowsOf = (catalog: Catalog, kind: AudioKind): readonly AudioRow[] =>
  catalog.audio.all.filter((row) => row.kind === kind)

/**
 * The row that is ordered; the first of its kind where none is named. Throws INVALID_MODEL, which lists those on show.
 */
export function rowFor(catalog: Catalog, kind: AudioKind, model: string | undefined): AudioRow {
  const rows = rowsOf(catalog, kind)
  const row = model === undefined ? rows[0] : catalog.audio.get(model)
  if (row?.kind === kind) return row
  const available = rows.filter(({ hidden }) => !hidden).map(({ id }) => id)
  const problem = row ? `${row.id} makes ${row.kind}, not ${kind}.` : `Unknown model: ${clip(model)}.`
  throw new ApiError('INVALID_MODEL', {
    message: `${problem} Available models: ${available.join(', ')}.`,
    fields: { available_models: available },
  })
}

/** The vendor of a row, where it makes what the row promises. */
export function makerOf(row: AudioRow | undefined, { vendors }: Pick<Offering, 'vendors'>): AudioVendor | undefined {
  const vendor = row && vendors.audio?.(row)
  return vendor?.makes[row?.kind ?? 'speech'] === undefined ? undefined : vendor
}

/** What a rate is for, as listings call it. */
export const RATE_NAMES = {
  per_character: 'per_1k_chars',
  per_second: 'per_second',
  per_generation: 'per_generation',
  per_track: 'per_track',
} as const

/**
 * Rows on show that the operator's vendors make; all that are on show where they make none, so that documents have a
 * price.
 */
export function configured(offering: Offering, kind: AudioKind): readonly AudioRow[] {
  const listed = rowsOf(offering.catalog, kind).filter(({ hidden }) => !hidden)
  const made = listed.filter((row) => makerOf(row, offering) !== undefined)
  return made.length > 0 ? made : listed
}

export const isAvailable =
  (kind: AudioKind) =>
  ({ model }: { readonly model?: string }, offering: Offering): boolean =>
    makerOf(rowFor(offering.catalog, kind, model), offering) !== undefined

/** The same order of a row that is made here. */
export function sampleOf<Order extends object>(example: Order, kind: AudioKind, offering: Offering): Order {
  const [row] = configured(offering, kind)
  return row ? { ...example, model: row.id } : example
}

/** Lowest and highest of these quotes; the fee alone where there are none. */
export function spanOf(amounts: readonly Usdc[]): { min: Usdc; max: Usdc } {
  const [first = flatPrice('0')] = amounts
  return {
    min: amounts.reduce((a, b) => (a < b ? a : b), first),
    max: amounts.reduce((a, b) => (a > b ? a : b), first),
  }
}

/** The format that is made: what was asked for, else the vendor's usual one. Throws for one that it does not make. */
export function formatFor(kind: AudioKind, asked: string | undefined, vendor: AudioVendor | undefined): AudioFormat {
  const formats = vendor?.makes[kind] ?? ['mp3']
  const [usual = 'mp3'] = formats
  if (asked === undefined) return usual
  const format = formats.find((each) => each === asked.toLowerCase())
  if (format) return format
  throw refused('response_format', `must be one of ${formats.join(', ')} here, got ${quoted(asked)}`)
}

/** Nothing of these is seen or heard: joiners, fillers, marks of direction, blank braille. */
const UNHEARD = /[\p{Default_Ignorable_Code_Point}\u2800]/gu
/** What can be said aloud: a letter, a digit, or a sign that has a name. */
const SAYABLE = /[\p{L}\p{N}\p{S}]/u

/** A text that is there and not too long; one of dots and invisible letters would be paid for, and be silence. */
export function checkText(
  path: string,
  text: string,
  { length, most, of }: { length: number; most: number; of: string },
): void {
  if (text.trim() === '') throw refused(path, `must not be blank, got ${quoted(text)}`)
  if (length > most) throw refused(path, `may have at most ${most} characters with ${of}, got ${length}`)
  if (/\p{Cs}/u.test(text)) throw refused(path, `must be Unicode, and holds half a character; got ${quoted(text)}`)
  if (!SAYABLE.test(text.replace(UNHEARD, '')))
    throw refused(path, `must hold a letter, a digit or a sign, got ${quoted(text)}`)
}

// ── work ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The row and the vendor of checked work. */
export function workOf(
  kind: AudioKind,
  { input, catalog, vendors }: Order<{ readonly model?: string }>,
): { row: AudioRow; vendor: AudioVendor } {
  const row = rowFor(catalog, kind, input.model)
  const vendor = makerOf(row, { vendors })
  if (!vendor) throw notMade()
  return { row, vendor }
}

export const notMade = (): ApiError =>
  new ApiError('NOT_CONFIGURED', { message: 'The operator has not configured who makes this. Nothing was charged.' })

/** What is nobody's fault here reads as the vendor's: 504 where it was too slow, else 502 (contract 14.13). */
export function orUpstream(work: Promise<MadeAudio> | undefined): Promise<MadeAudio> {
  if (!work) throw notMade()
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
 * What a vendor's sound becomes. Where it cannot be hosted the call fails, uncharged: its reply would hold nothing
 * (contract 14.10).
 */
export function hosted(
  made: MadeAudio,
  { format, model, ...said }: { readonly format: AudioFormat; readonly model: string; readonly characters?: number },
): Made {
  const { url, seconds, sampleRate, credits, note } = made
  const piece = {
    format,
    ...said,
    ...(credits !== undefined && { credits }),
    ...(seconds !== undefined && { duration_seconds: seconds }),
    ...(format === 'pcm' && sampleRate !== undefined && { sample_rate: sampleRate }),
    ...(note !== undefined && { note }),
  }
  return { result: { model, piece }, media: { folder: FOLDER, urls: [url] }, recordsToStore: nothingUnlessHosted }
}

function nothingUnlessHosted(media: readonly Hosted[]): [] {
  if (media.every(({ key }) => key !== null)) return []
  throw new ApiError('WORK_FAILED', {
    error: 'Audio could not be stored',
    details: 'The sound was made, and could not be stored for you. Nothing was charged; try again.',
  })
}

type Kept = { readonly model: string; readonly piece: Record<string, Json> }

export function shownSound({ made, media, created }: Stored, { href }: Pick<Showing, 'href'>): Record<string, Json> {
  const { model, piece } = made as unknown as Kept
  const urls = media.map(({ key, url }) => (key === null ? (url ?? '') : href(key)))
  return { created, model, data: urls.map((url) => ({ url, ...piece })) }
}
