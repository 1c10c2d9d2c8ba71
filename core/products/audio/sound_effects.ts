/** Sound effects from a prompt, at a fixed price (contract 14.7). */
import { Type } from '@sinclair/typebox'
import * as shared from './shared.ts'
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
    model: shared.modelField,
    text: Type.String({ minLength: 1, description: 'What is heard: at most 1,000 characters.' }),
    duration_seconds: Type.Optional(
      Type.Number({ minimum: 0.5, maximum: 22, description: 'Chosen by the model if absent.' }),
    ),
    prompt_influence: Type.Optional(
      Type.Number({ minimum: 0, maximum: 1, description: 'How closely the prompt is followed.' }),
    ),
    response_format: shared.formatField,
  }),
  output: shared.soundResult,
  example: EXAMPLE,
  delivery: 'inline',
  failure: 'Sound generation failed',
  errors: ['UPSTREAM_FAILED', 'UPSTREAM_TIMEOUT'],

  check({ model, response_format, text, ...options }, offering) {
    const row = shared.rowFor(offering, KIND, model)
    shared.checkText('text', text, { length: charactersIn(text), max: row.maxCharacters, of: row.id })
    return {
      ...options,
      model: row.id,
      text,
      response_format: shared.formatFor(KIND, response_format, shared.vendorOf(row, offering)),
    }
  },

  price({ model }, { catalog, prices }) {
    const row = shared.rowFor({ catalog }, KIND, model)
    return {
      amount: audioPrice(row.billing, { markup: prices }),
      maxTimeoutSeconds: 300,
      publicPrice: {},
      also: { generation_info: { model: row.id, note: 'Settled in the reply, which says where the sound is hosted.' } },
    }
  },

  sample: (offering) => shared.sampleOf(EXAMPLE, KIND, offering),
  isAvailable: shared.isAvailable(KIND),
  priceRange: (offering) =>
    shared.priceRangeOf(
      shared.availableRows(offering, KIND).map(({ billing }) => audioPrice(billing, { markup: offering.prices })),
      offering,
    ),
  remember: ({ model = null }) => ({ model, request: { model } }),

  async run(order) {
    const { row, vendor } = shared.workOf(KIND, order)
    const { text, duration_seconds: seconds, prompt_influence: promptInfluence, response_format } = order.input
    const format = shared.formatFor(KIND, response_format, vendor)
    const job = {
      model: row.upstream,
      text,
      format,
      ...(seconds !== undefined && { seconds }),
      ...(promptInfluence !== undefined && { promptInfluence }),
    }
    const made = await shared.withUpstreamErrors(vendor.sound?.(job, { signal: order.signal }))
    return shared.hosted(made, { format, model: row.id })
  },

  show: (stored, showing) => shared.soundResponse(stored, showing),
})

export const soundEffects = [generate]
