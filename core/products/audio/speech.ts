/** Text to speech, sold by the character or by the second, and the voices that speak (contract 14.1, 14.12). */
import { type Static, Type } from '@sinclair/typebox'
import * as sale from './shared.ts'
import type { AudioRow, AudioVendor, Voice, VoiceNames } from '../../ports/vendors/audio.ts'
import { within } from '../../lib/timers.ts'
import { type Context, free, type FreeContext, paid } from '../../endpoint/mod.ts'
import { json } from '../../http/reply.ts'
import { ApiError } from '../../http/errors.ts'
import { quoted, charactersIn } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'
import type { Json } from '../../lib/json.ts'
import { audioPrice, spokenSeconds } from './price.ts'

const USUAL_VOICE = 'sarah'
const MINUTE_MS = 60_000
/** Longest wait for a vendor in a free request. */
const ASK_MS = 10_000
const VOICES_KEPT_MS = 5 * MINUTE_MS

const input = Type.Object({
  model: sale.modelField,
  input: Type.String({
    minLength: 1,
    description: 'What is said: at most 40,000 characters, or fewer, as the model takes.',
  }),
  voice: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 100,
      default: USUAL_VOICE,
      description: 'An alias in any case, or a voice_id; /api/v1/audio/voices lists both.',
    }),
  ),
  response_format: sale.formatField,
  speed: Type.Optional(Type.Number({ minimum: 0.7, maximum: 1.2, default: 1, description: 'How fast it is said.' })),
})

const EXAMPLE = { model: 'elevenlabs/flash-v2.5', input: 'Hello from a gateway that is paid by the call.' }

const speak = paid({
  name: 'audio.speech',
  path: '/api/v1/audio/speech',
  summary: 'Speak a text',
  description:
    'Answers with the URL of the spoken text, not with its bytes. Priced by the character, or by the second that the text is thought to take; charged only when the sound is hosted.',
  tag: 'audio',
  input,
  output: sale.soundResult,
  example: EXAMPLE,
  delivery: 'inline',
  failure: 'Speech generation failed',
  errors: ['UPSTREAM_FAILED', 'UPSTREAM_TIMEOUT'],

  check({ model, input: text, voice, response_format, speed = 1 }, offering) {
    const row = sale.rowFor(offering.catalog, 'speech', model)
    const vendor = sale.makerOf(row, offering)
    sale.checkText('input', text, { length: charactersIn(text), most: mostOf(row, vendor), of: row.id })
    if (vendor) voiceFor(voice, vendor.voiceNames)
    return {
      model: row.id,
      input: text,
      ...(voice !== undefined && { voice }),
      response_format: sale.formatFor('speech', response_format, vendor),
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

  sample: (offering) => sale.sampleOf(EXAMPLE, 'speech', offering),
  isAvailable: sale.isAvailable('speech'),

  priceRange(offering) {
    const rows = sale.configured(offering, 'speech')
    const sizes = (row: AudioRow) => [
      { characters: 1, seconds: 1 },
      { characters: row.maxCharacters, seconds: spokenSeconds('x'.repeat(row.maxCharacters)) },
    ]
    return sale.spanOf(rows.flatMap((row) => sizes(row).map((size) => audioPrice(row.billing, size))))
  },

  remember: ({ model = null }) => ({ model, request: { model } }),

  async run(order) {
    const { row, vendor } = sale.workOf('speech', order)
    const { input: text, voice, response_format, speed = 1 } = order.input
    const format = sale.formatFor('speech', response_format, vendor)
    const job = { model: row.upstream, text, voice: voiceFor(voice, vendor.voiceNames), format, speed }
    const made = await sale.orUpstream(vendor.speak?.(job, { signal: order.signal }))
    return sale.hosted(made, { format, model: row.id, characters: charactersIn(text) })
  },

  show: (stored, showing) => sale.shownSound(stored, showing),
})

const mostOf = ({ maxCharacters }: AudioRow, vendor: AudioVendor | undefined): number =>
  Math.min(maxCharacters, vendor?.maxCharacters ?? maxCharacters)

function quoteOf({ model, input: text }: Static<typeof input>, { catalog }: Context) {
  const row = sale.rowFor(catalog, 'speech', model)
  const size = { characters: charactersIn(text), seconds: spokenSeconds(text) }
  return { row, ...size, amount: audioPrice(row.billing, size) }
}

/** The vendor's own id of a voice; the usual one where none is named. Throws for one that it cannot have. */
function voiceFor(asked: string | undefined, { aliases, ids }: VoiceNames): string {
  const known = (name: string) => (Object.hasOwn(aliases, name) ? aliases[name] : undefined)
  if (asked === undefined) return known(USUAL_VOICE) ?? Object.values(aliases)[0] ?? USUAL_VOICE
  const id = known(asked.toLowerCase()) ?? (ids.test(asked) ? asked : undefined)
  if (id !== undefined) return id
  throw refused(
    'voice',
    `must be one of ${Object.keys(aliases).join(', ')}, or a voice_id of /api/v1/audio/voices, got ${quoted(asked)}`,
  )
}

// ── voices ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const voices = free({
  name: 'audio.voices',
  path: '/api/v1/audio/voices',
  summary: 'List the voices',
  description: 'Asked of their vendors at most every five minutes.',
  tag: 'audio',
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
    const makers = new Set(
      sale.rowsOf(context.catalog, 'speech').flatMap((row) => (row.hidden ? [] : (sale.makerOf(row, context) ?? []))),
    )
    if (makers.size === 0)
      throw new ApiError('NOT_CONFIGURED', { message: 'The operator has not configured who speaks.' })
    const lists = await Promise.all([...makers].map((vendor) => listOf(vendor, context)))
    const note = 'Send voice_id or alias as voice. A voice speaks with the models of its own vendor.'
    return json(
      200,
      { object: 'list', endpoint: speak.path, note, data: lists.flat() },
      { 'cache-control': 'public, max-age=300' },
    )
  },
})

type Listed = { readonly until: number; readonly list: Promise<readonly Json[]> }
const lists = new WeakMap<AudioVendor, Listed>()

/** What a vendor said within the last five minutes, or says now; many who ask at once wait for one answer. */
function listOf(vendor: AudioVendor, { clock }: Pick<FreeContext, 'clock'>): Promise<readonly Json[]> {
  const known = lists.get(vendor)
  if (known && known.until > clock.now()) return known.list
  const asked = within(clock, ASK_MS, async (signal) =>
    (await (vendor.voices?.({ signal }) ?? Promise.resolve([]))).map((voice) => voiceShown(voice, vendor.voiceNames)),
  )
  const list = asked.catch((error: unknown) => {
    lists.delete(vendor)
    if (error instanceof ApiError) throw error
    throw new ApiError('UPSTREAM_FAILED', { message: 'The voices could not be asked for. Try again.' })
  })
  lists.set(vendor, { until: clock.now() + VOICES_KEPT_MS, list })
  return list
}

function voiceShown({ id, name, category, labels, previewUrl }: Voice, { aliases }: VoiceNames): Json {
  const alias = Object.keys(aliases).find((each) => aliases[each] === id)
  return { voice_id: id, name, category, labels, preview_url: previewUrl, ...(alias !== undefined && { alias }) }
}

export const speech = [speak, voices]
