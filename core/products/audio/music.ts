/**
 * Music from a prompt: inline if it is ready within a minute, else as a job; and the list of audio models (contract
 * 14.8).
 */
import { Type } from '@sinclair/typebox'
import { checkText, modelField, noteField } from './fields.ts'
import { priceRangeOf } from '../lib/price_range.ts'
import {
  KINDS,
  RATE_NAMES,
  availableRows,
  isAvailable,
  isOffered,
  maxCharactersOf,
  productOf,
  rowFor,
  sampleOf,
  vendorOf,
} from './rows.ts'
import { FOLDER, notConfigured, workOf } from './sounds.ts'
import type { AudioRow } from '../../ports/vendors/audio.ts'
import { free, type Offering, paid, polled, rateOf, STANDARD_PRICES } from '../../endpoint/mod.ts'
import { json } from '../../http/reply.ts'
import { quoted, charactersIn } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'
import type { Json } from '../../lib/json.ts'
import { asNumber } from '../../x402/pricing.ts'
import { audioPrice } from './price.ts'
import { READS } from '../../endpoint/replies.ts'

const HOUR_MS = 3_600_000
/** Public music clients do not poll, so the reply waits as long as they do. */
const INLINE_WINDOW_MS = 60_000
const MAX_LYRICS = 3_500
const POLL_PATH = '/api/v1/audio/generations/{id}'
const JOB = 'audio.generation.job'

const EXAMPLE = { model: 'minimax/music-2.5+', prompt: 'calm lo-fi piano with soft drums', instrumental: true }

const piece = Type.Object({
  url: Type.String({ description: 'Hosted URL, or the vendor URL if the track was not mirrored.' }),
  duration_seconds: Type.Optional(Type.Number()),
  lyrics: Type.Optional(Type.String({ description: 'The lyrics, if sent by you or reported by the vendor.' })),
  backed_up: Type.Boolean({ description: 'Whether the track was mirrored to durable storage.' }),
  note: noteField,
})

const compose = paid({
  name: 'audio.generations',
  path: '/api/v1/audio/generations',
  summary: 'Compose a piece of music',
  description:
    'Answers 200 with the track within 60 seconds, else 202 with a job to poll. One price a track; charged only when it is ready.',
  tag: 'audio',
  input: Type.Object({
    model: modelField,
    prompt: Type.String({ minLength: 1, description: 'Style, mood and instruments: at most 2,000 characters.' }),
    instrumental: Type.Optional(Type.Boolean({ default: false, description: 'Whether the track has no vocals.' })),
    lyrics: Type.Optional(
      Type.String({
        minLength: 1,
        description: `Lyrics, at most ${MAX_LYRICS} characters; written by the model if absent. Cannot be combined with instrumental.`,
      }),
    ),
    duration_seconds: Type.Optional(Type.Number({ minimum: 5, maximum: 240, description: 'A hint.' })),
  }),
  output: Type.Object({
    id: Type.String(),
    object: Type.Literal(JOB),
    status: Type.Literal('completed'),
    created: Type.Integer({ description: 'Unix time in seconds.' }),
    model: Type.String(),
    data: Type.Array(piece),
    price: Type.Object({ amount: Type.String(), currency: Type.Literal('USD') }),
    payment: Type.Object({
      status: Type.Union([Type.Literal('settled'), Type.Literal('already_settled')]),
      tx_hash: Type.String(),
      network: Type.String(),
    }),
  }),
  example: EXAMPLE,
  failure: 'Music generation failed',
  errors: ['UPSTREAM_TIMEOUT'],
  job: {
    object: JOB,
    poll: POLL_PATH,
    instructions:
      'GET poll_url, as it is, every 3 to 5 seconds with a payment header of the same wallet; its key is for you alone. You are charged once, by the first poll that finds the track ready.',
    running:
      'Still working; a track takes up to a few minutes. Nothing has been charged. Poll again in 3 to 5 seconds.',
  },

  check({ model, prompt, instrumental = false, lyrics, duration_seconds }, offering) {
    const row = rowFor(offering, 'music', model)
    checkText('prompt', prompt, { length: charactersIn(prompt), max: row.maxCharacters, of: row.id })
    if (lyrics !== undefined && instrumental)
      throw refused('lyrics', `cannot be combined with instrumental: true, got ${quoted(lyrics)}; send one of them`)
    if (lyrics !== undefined) checkText('lyrics', lyrics, { length: charactersIn(lyrics), max: MAX_LYRICS, of: row.id })
    return {
      model: row.id,
      prompt,
      instrumental,
      ...(lyrics !== undefined && { lyrics }),
      ...(duration_seconds !== undefined && { duration_seconds }),
    }
  },

  price({ model }, { catalog, prices = STANDARD_PRICES }) {
    const row = rowFor({ catalog }, 'music', model)
    const generation_info = {
      model: row.id,
      generation_time: 'up to a few minutes',
      flow: 'hybrid',
      note: 'Ready within 60 seconds: 200 and settled in that response. Otherwise 202 with a poll_url; nothing is charged until a poll finds the track ready.',
    }
    return {
      amount: audioPrice(row.billing, { markup: prices }),
      maxTimeoutSeconds: 600,
      rates: { pricePerTrack: row.billing.rate, transactionFee: prices.fee },
      publicPrice: { marginPercent: asNumber(prices.mediaPercent) },
      also: { generation_info },
    }
  },

  sample: (offering) => sampleOf(EXAMPLE, 'music', offering),
  isAvailable: isAvailable('music'),
  priceRange: (offering) =>
    priceRangeOf(
      availableRows(offering, 'music').map(({ billing }) => audioPrice(billing, { markup: offering.prices })),
      offering,
    ),
  remember: ({ model = null }) => ({ model, request: { model } }),
  delivery: 'hybrid',
  windowMs: INLINE_WINDOW_MS,

  async run(order) {
    const { row, vendor } = workOf('music', order)
    const { prompt, instrumental = false, lyrics, duration_seconds: seconds } = order.input
    const job = {
      model: row.upstream,
      prompt,
      instrumental,
      ...(lyrics !== undefined && { lyrics }),
      ...(seconds !== undefined && { seconds }),
    }
    if (!vendor.compose) throw notConfigured(row.id)
    const { url, note, ...made } = await vendor.compose(job, { signal: order.signal })
    const sung = instrumental ? undefined : (made.lyrics ?? lyrics)
    const track = {
      ...(made.seconds !== undefined && { duration_seconds: made.seconds }),
      ...(sung !== undefined && { lyrics: sung }),
      ...(note !== undefined && { note }),
    }
    return { result: { model: row.id, track }, media: { folder: FOLDER, urls: [url], kinds: ['audio'] } }
  },

  show({ made, media, created }, { href }) {
    const { model, track } = made as unknown as { model: string; track: Record<string, Json> }
    const data = media.map(({ key, url }) => ({
      url: key === null ? (url ?? '') : href(key),
      ...track,
      backed_up: key !== null,
    }))
    return { object: JOB, status: 'completed', created, model, data }
  },
})

const jobPoll = polled({
  name: 'audio.poll',
  path: POLL_PATH,
  summary: 'Collect a music job',
  description: `${READS} The first poll that finds the job completed settles it, once.`,
  tag: 'audio',
  of: ['audio.generations'],
})

const rate = (description: string) =>
  Type.Optional(Type.Number({ description: `US dollars ${description}, before the margin on media and the fee.` }))

const models = free({
  name: 'audio.models',
  path: '/api/v1/audio/models',
  summary: 'List the audio models and their catalog rates',
  tag: 'audio',
  isOffered: (offering) => KINDS.some((kind) => isOffered(kind)(offering)),
  limit: { requests: 100, windowMs: HOUR_MS },
  output: Type.Object({
    object: Type.Literal('list'),
    data: Type.Array(
      Type.Object({
        id: Type.String(),
        object: Type.Literal('model'),
        name: Type.String(),
        owned_by: Type.String(),
        kind: Type.String({ description: 'speech, sound-effects or music.' }),
        billing_mode: Type.String({ description: 'per_character, per_second, per_generation or per_track.' }),
        pricing: Type.Object({
          per_track: rate('a track'),
          per_generation: rate('a sound'),
          per_1k_chars: rate('for 1,000 characters'),
          per_second: rate('a second that is estimated; no margin is added'),
          transaction_fee: Type.Number(),
        }),
        max_input_chars: Type.Integer(),
        response_formats: Type.Array(Type.String()),
        supports_lyrics: Type.Optional(Type.Boolean()),
        supports_instrumental: Type.Optional(Type.Boolean()),
      }),
    ),
  }),
  answer(_request, offering) {
    const listed = offering.catalog.audio.all.flatMap((row) => {
      const vendor = row.hidden ? undefined : vendorOf(row, offering)
      return vendor
        ? [
            {
              ...listing(row, offering),
              response_formats: vendor.makes[row.kind],
              ...(row.kind === 'music' && { supports_lyrics: true, supports_instrumental: true }),
            },
          ]
        : []
    })
    return json(200, { object: 'list', data: listed })
  },
})

export const music = [compose, jobPoll, models]

function listing(row: AudioRow, offering: Pick<Offering, 'vendors' | 'prices'>) {
  const { id, name, maker, kind, billing } = row
  const { prices = STANDARD_PRICES } = offering
  const rate = rateOf({ prices }, productOf(kind))
  const pricing = { [RATE_NAMES[billing.mode]]: rate(billing.rate), transaction_fee: rate(prices.fee) }
  return {
    id,
    object: 'model',
    name,
    owned_by: maker,
    kind,
    billing_mode: billing.mode,
    pricing,
    max_input_chars: maxCharactersOf(row, offering),
  }
}
