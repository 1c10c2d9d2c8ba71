/** Text to speech, priced by character or by second, and the list of voices (contract 14.1, 14.12). */
import { type Static, Type } from '@sinclair/typebox'
import { checkText, formatField, formatFor, modelField, soundResult } from './fields.ts'
import { priceRangeOf } from '../lib/price_range.ts'
import { availableRows, isAvailable, isOffered, maxCharactersOf, rowFor, rowsOf, sampleOf, vendorOf } from './rows.ts'
import { FOLDER, hosted, soundResponse, withUpstreamErrors, workOf } from './sounds.ts'
import type { AudioRow, AudioVendor, Voice, VoiceNames } from '../../ports/vendors/audio.ts'
import { within } from '../../lib/timers.ts'
import { type Context, free, type FreeContext, paid } from '../../endpoint/mod.ts'
import { json } from '../../http/reply.ts'
import { ApiError } from '../../http/errors.ts'
import { quoted, charactersIn } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'
import type { Json } from '../../lib/json.ts'
import { audioPrice, spokenSeconds } from './price.ts'

const DEFAULT_VOICE = 'sarah'
const MINUTE_MS = 60_000
/** Timeout of vendor calls in free requests. */
const VENDOR_TIMEOUT_MS = 10_000
const VOICES_TTL_MS = 5 * MINUTE_MS

const input = Type.Object({
  model: modelField,
  input: Type.String({
    minLength: 1,
    description:
      'The text to speak: at most `max_input_chars` characters, as /api/v1/audio/models lists them for the model.',
  }),
  voice: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 100,
      default: DEFAULT_VOICE,
      description: 'An alias in any case, or a voice_id; /api/v1/audio/voices lists both.',
    }),
  ),
  response_format: formatField,
  speed: Type.Optional(Type.Number({ minimum: 0.7, maximum: 1.2, default: 1, description: 'Speaking rate.' })),
})

const EXAMPLE = { model: 'elevenlabs/flash-v2.5', input: 'Hello from a gateway that is paid by the call.' }

const speak = paid({
  name: 'audio.speech',
  path: '/api/v1/audio/speech',
  summary: 'Speak a text',
  description:
    'Answers with the URL of the spoken text; with the sound itself where `Accept` has `audio/*` or `application/octet-stream` and no JSON. Priced by the character, or by the second that the text is thought to take; charged only when the sound is hosted.',
  tag: 'audio',
  input,
  output: soundResult,
  example: EXAMPLE,
  delivery: 'inline',
  file: { kind: 'audio', folder: FOLDER },
  failure: 'Speech generation failed',
  errors: ['UPSTREAM_FAILED', 'UPSTREAM_TIMEOUT'],

  check({ model, input: text, voice, response_format, speed = 1 }, offering) {
    const row = rowFor(offering, 'speech', model)
    const vendor = vendorOf(row, offering)
    checkText('input', text, {
      length: charactersIn(text),
      max: maxCharactersOf(row, offering),
      of: row.id,
    })
    if (vendor) voiceFor(voice, vendor.voiceNames)
    return {
      model: row.id,
      input: text,
      ...(voice !== undefined && { voice }),
      response_format: formatFor('speech', response_format, vendor),
      speed,
    }
  },

  price(order, context) {
    const { row, characters, seconds, amount } = quoteOf(order, context)
    const size = row.billing.mode === 'per_second' ? { estimated_seconds: seconds } : { characters }
    const note = 'Settled in the reply, which says where the sound is hosted. Nothing is charged for a failure.'
    return {
      amount,
      maxTimeoutSeconds: 300,
      publicPrice: {},
      also: { generation_info: { ...size, model: row.id, note } },
    }
  },

  sample: (offering) => sampleOf(EXAMPLE, 'speech', offering),
  isAvailable: isAvailable('speech'),

  priceRange(offering) {
    const rows = availableRows(offering, 'speech')
    const sizes = (row: AudioRow) => {
      const most = maxCharactersOf(row, offering)
      return [
        { characters: 1, seconds: 1 },
        { characters: most, seconds: spokenSeconds('x'.repeat(most)) },
      ]
    }
    const markup = offering.prices
    const amounts = rows.flatMap((row) => sizes(row).map((size) => audioPrice(row.billing, { ...size, markup })))
    return priceRangeOf(amounts, offering)
  },

  remember: ({ model = null }) => ({ model, request: { model } }),

  async run(order) {
    const { row, vendor } = workOf('speech', order)
    const { input: text, voice, response_format, speed = 1 } = order.input
    const format = formatFor('speech', response_format, vendor)
    const job = { model: row.upstream, text, voice: voiceFor(voice, vendor.voiceNames), format, speed }
    const made = await withUpstreamErrors(vendor.speak?.(job, { signal: order.signal }))
    return hosted(made, { format, model: row.id, characters: charactersIn(text) })
  },

  show: (stored, showing) => soundResponse(stored, showing),
})

function quoteOf({ model, input: text }: Static<typeof input>, { catalog, prices }: Context) {
  const row = rowFor({ catalog }, 'speech', model)
  const size = { characters: charactersIn(text), seconds: spokenSeconds(text) }
  return { row, ...size, amount: audioPrice(row.billing, { ...size, markup: prices }) }
}

/** The vendor's id of a voice; the default one if absent. Throws for an unknown voice. */
function voiceFor(requested: string | undefined, { aliases, ids }: VoiceNames): string {
  const known = (name: string) => (Object.hasOwn(aliases, name) ? aliases[name] : undefined)
  if (requested === undefined) return known(DEFAULT_VOICE) ?? Object.values(aliases)[0] ?? DEFAULT_VOICE
  const id = known(requested.toLowerCase()) ?? (ids.test(requested) ? requested : undefined)
  if (id !== undefined) return id
  throw refused(
    'voice',
    `must be one of ${Object.keys(aliases).join(', ')}, or a voice_id of /api/v1/audio/voices, got ${quoted(requested)}`,
  )
}

// ── voices ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const voices = free({
  name: 'audio.voices',
  path: '/api/v1/audio/voices',
  summary: 'List the voices',
  description: 'Cached for five minutes.',
  tag: 'audio',
  isOffered: isOffered('speech'),
  limit: { requests: 60, windowMs: MINUTE_MS },
  errors: ['UPSTREAM_FAILED', 'NOT_CONFIGURED'],
  output: Type.Object({
    object: Type.Literal('list'),
    endpoint: Type.Literal(speak.path),
    note: Type.String(),
    data: Type.Array(
      Type.Object({
        voice_id: Type.String(),
        name: Type.String(),
        category: Type.String(),
        labels: Type.Record(Type.String(), Type.String(), {
          description: 'accent, gender, age, language, and what else the vendor says.',
        }),
        preview_url: Type.Union([Type.String(), Type.Null()]),
        alias: Type.Optional(Type.String({ description: 'Taken as `voice`, in any case.' })),
      }),
    ),
  }),
  async answer(_request, context) {
    const vendors = new Set(
      rowsOf(context.catalog, 'speech').flatMap((row) => (row.hidden ? [] : (vendorOf(row, context) ?? []))),
    )
    if (vendors.size === 0)
      throw new ApiError('NOT_CONFIGURED', { message: 'speech: the operator has not configured it.' })
    const lists = await Promise.all([...vendors].map((vendor) => listOf(vendor, context)))
    const note = 'Send voice_id or alias as voice. A voice speaks with the models of its own vendor.'
    return json(
      200,
      { object: 'list', endpoint: speak.path, note, data: lists.flat() },
      { 'cache-control': 'public, max-age=300' },
    )
  },
})

type CachedVoices = { readonly until: number; readonly list: Promise<readonly Json[]> }
const lists = new WeakMap<AudioVendor, CachedVoices>()

/** The voices of a vendor, cached for five minutes. Concurrent requests share one vendor call. */
function listOf(vendor: AudioVendor, { clock }: Pick<FreeContext, 'clock'>): Promise<readonly Json[]> {
  const known = lists.get(vendor)
  if (known && known.until > clock.now()) return known.list
  const fetched = within(clock, VENDOR_TIMEOUT_MS, async (signal) =>
    (await (vendor.voices?.({ signal }) ?? Promise.resolve([]))).map((voice) => voiceEntry(voice, vendor.voiceNames)),
  )
  const list = fetched.catch((error: unknown) => {
    lists.delete(vendor)
    if (error instanceof ApiError) throw error
    throw new ApiError('UPSTREAM_FAILED', { message: 'The list of voices is temporarily unavailable. Try again.' })
  })
  lists.set(vendor, { until: clock.now() + VOICES_TTL_MS, list })
  return list
}

function voiceEntry({ id, name, category, labels, previewUrl }: Voice, { aliases }: VoiceNames): Json {
  const alias = Object.keys(aliases).find((each) => aliases[each] === id)
  return { voice_id: id, name, category, labels, preview_url: previewUrl, ...(alias !== undefined && { alias }) }
}

export const speech = [speak, voices]
