/** Sound effects from a prompt, at a fixed price (contract 14.7). */
import { Type } from '@sinclair/typebox'
import { checkText, formatField, formatFor, modelField, soundResult } from './fields.ts'
import { priceRangeOf } from '../lib/price_range.ts'
import { availableRows, isAvailable, rowFor, sampleOf, vendorOf } from './rows.ts'
import { hosted, soundResponse, withUpstreamErrors, workOf } from './sounds.ts'
import { paid } from '../../endpoint/mod.ts'
import { audioPrice } from './price.ts'
import { charactersIn } from '../../lib/text.ts'

const KIND = 'sound-effects'
const EXAMPLE = { model: 'elevenlabs/sound-effects', text: 'rain on a tin roof, distant thunder' }

const generate = paid({
  name: 'audio.sound_effects',
  path: '/api/v1/audio/sound-effects',
  summary: 'Make a sound effect',
  description:
    'Answers with the URL of the sound. One price, however long it is; charged only when the sound is hosted.',
  tag: 'audio',
  input: Type.Object({
    model: modelField,
    text: Type.String({ minLength: 1, description: 'What is heard: at most 1,000 characters.' }),
    duration_seconds: Type.Optional(
      Type.Number({ minimum: 0.5, maximum: 22, description: 'Chosen by the model if absent.' }),
    ),
    prompt_influence: Type.Optional(
      Type.Number({ minimum: 0, maximum: 1, description: 'How closely the prompt is followed.' }),
    ),
    response_format: formatField,
  }),
  output: soundResult,
  example: EXAMPLE,
  delivery: 'inline',
  failure: 'Sound generation failed',
  errors: ['UPSTREAM_FAILED', 'UPSTREAM_TIMEOUT'],

  check({ model, response_format, text, ...options }, offering) {
    const row = rowFor(offering, KIND, model)
    checkText('text', text, { length: charactersIn(text), max: row.maxCharacters, of: row.id })
    return {
      ...options,
      model: row.id,
      text,
      response_format: formatFor(KIND, response_format, vendorOf(row, offering)),
    }
  },

  price({ model }, { catalog, prices }) {
    const row = rowFor({ catalog }, KIND, model)
    return {
      amount: audioPrice(row.billing, { markup: prices }),
      maxTimeoutSeconds: 300,
      publicPrice: {},
      also: { generation_info: { model: row.id, note: 'Settled in the reply, which says where the sound is hosted.' } },
    }
  },

  sample: (offering) => sampleOf(EXAMPLE, KIND, offering),
  isAvailable: isAvailable(KIND),
  priceRange: (offering) =>
    priceRangeOf(
      availableRows(offering, KIND).map(({ billing }) => audioPrice(billing, { markup: offering.prices })),
      offering,
    ),
  remember: ({ model = null }) => ({ model, request: { model } }),

  async run(order) {
    const { row, vendor } = workOf(KIND, order)
    const { text, duration_seconds: seconds, prompt_influence: promptInfluence, response_format } = order.input
    const format = formatFor(KIND, response_format, vendor)
    const job = {
      model: row.upstream,
      text,
      format,
      ...(seconds !== undefined && { seconds }),
      ...(promptInfluence !== undefined && { promptInfluence }),
    }
    const made = await withUpstreamErrors(vendor.sound?.(job, { signal: order.signal }))
    return hosted(made, { format, model: row.id })
  },

  show: (stored, showing) => soundResponse(stored, showing),
})

export const soundEffects = [generate]
