/** Sound effects from words, at one price (contract 14.7). */
import { Type } from '@sinclair/typebox'
import * as sale from './shared.ts'
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
    model: sale.modelField,
    text: Type.String({ minLength: 1, description: 'What is heard: at most 1,000 characters.' }),
    duration_seconds: Type.Optional(
      Type.Number({ minimum: 0.5, maximum: 22, description: 'As the model sees fit unless told.' }),
    ),
    prompt_influence: Type.Optional(
      Type.Number({ minimum: 0, maximum: 1, description: 'How closely the words are followed.' }),
    ),
    response_format: sale.formatField,
  }),
  output: sale.soundResult,
  example: EXAMPLE,
  delivery: 'inline',
  failure: 'Sound generation failed',
  errors: ['UPSTREAM_FAILED', 'UPSTREAM_TIMEOUT'],

  check({ model, response_format, text, ...said }, offering) {
    const row = sale.rowFor(offering.catalog, KIND, model)
    sale.checkText('text', text, { length: charactersIn(text), most: row.maxCharacters, of: row.id })
    return {
      ...said,
      model: row.id,
      text,
      response_format: sale.formatFor(KIND, response_format, sale.makerOf(row, offering)),
    }
  },

  price({ model }, { catalog }) {
    const row = sale.rowFor(catalog, KIND, model)
    return {
      amount: audioPrice(row.billing),
      maxTimeoutSeconds: 300,
      publicPrice: {},
      also: { generation_info: { model: row.id, note: 'Settled in the reply, which says where the sound is hosted.' } },
    }
  },

  sample: (offering) => sale.sampleOf(EXAMPLE, KIND, offering),
  isAvailable: sale.isAvailable(KIND),
  priceRange: (offering) => sale.spanOf(sale.configured(offering, KIND).map(({ billing }) => audioPrice(billing))),
  remember: ({ model = null }) => ({ model, request: { model } }),

  async run(order) {
    const { row, vendor } = sale.workOf(KIND, order)
    const { text, duration_seconds: seconds, prompt_influence: promptInfluence, response_format } = order.input
    const format = sale.formatFor(KIND, response_format, vendor)
    const job = {
      model: row.upstream,
      text,
      format,
      ...(seconds !== undefined && { seconds }),
      ...(promptInfluence !== undefined && { promptInfluence }),
    }
    const made = await sale.orUpstream(vendor.sound?.(job, { signal: order.signal }))
    return sale.hosted(made, { format, model: row.id })
  },

  show: (stored, showing) => sale.shownSound(stored, showing),
})

export const soundEffects = [generate]
