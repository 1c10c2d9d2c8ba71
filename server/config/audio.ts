/** Changes to the catalog's audio rows. */
import { type Static, Type } from '@sinclair/typebox'
import { AUDIO_KINDS, type AudioOverride, type AudioRow, audioRows, overrideAudio } from '../../core/mod.ts'
import { setting } from '../../adapters/settings.ts'
import { candidatesFor, type Services } from './services/products.ts'
import { enumerated } from './services/settings.ts'
import { Rate } from './settings.ts'

const VENDORS = candidatesFor('audio').map(({ by }) => by)
const Name = Type.String({ minLength: 1, maxLength: 200 })
export const AudioSetting = Type.Object(
  {
    id: Type.String({ pattern: '^[\\w.+/:-]{1,100}$', description: 'The model to change or to add.' }),
    aliases: setting('Other names that requests may use.', Type.Array(Name, { maxItems: 100 })),
    name: setting('The name that lists show.', Name),
    kind: setting('What the model makes.', Type.Union(AUDIO_KINDS.map((kind) => Type.Literal(kind)))),
    maker: setting('Who made the model, as lists show it.', Name),
    vendor: setting(
      `The provider that serves it: ${enumerated(
        VENDORS.map((name) => `\`${name}\``),
        'or',
      )}.`,
      Type.String({ pattern: '^[a-z0-9-]{1,40}$' }),
    ),
    upstream: setting('The name of the model at its vendor.', Name),
    rate: setting(
      'Its price in US dollars, as text, in the unit of its catalog row: 1,000 characters, a second, a sound or a track.',
      Rate,
    ),
    max_characters: setting('The longest text.', Type.Integer({ minimum: 1, maximum: 100_000 })),
    hidden: setting('Sells the model without listing it.', Type.Boolean()),
  },
  { additionalProperties: false },
)

/** Settings of the file. */
export const audioSettings = {
  audio: setting('Changes to the audio catalog, by model `id`. See [audio](#audio).', Type.Array(AudioSetting), {
    usual: 'the built-in catalog',
  }),
}
const Settings = Type.Object(audioSettings)

/** Rows for sale; a row names the provider that serves it. */
export type AudioConfig = { readonly rows: readonly AudioRow[] }

/** Adds rows for the models of the operator's own servers. Adds mistakes by name. */
export function resolveAudio(
  { audio = [] }: Static<typeof Settings>,
  { services, mistakes }: Services & { readonly mistakes: string[] },
): AudioConfig {
  const own = (services.audio ?? []).flatMap(({ by, offer, settings }) =>
    (offer.models?.(settings) ?? []).map((model) => rowOf(model, by)),
  )
  const { rows, mistakes: found } = overrideAudio([...audioRows, ...own], audio.map(overrideOf))
  mistakes.push(...found)
  for (const { id, vendor } of audio) {
    if (vendor && !VENDORS.includes(vendor))
      mistakes.push(`audio ${id}.vendor: must be one of ${VENDORS.join(', ')}, got ${JSON.stringify(vendor)}`)
  }
  return { rows }
}

/** A row for a model of the operator's own server, at the lowest rate of the contract. */
function rowOf(model: string, vendor: string): AudioRow {
  const [cheapest] = audioRows
  if (!cheapest) throw new Error('an empty catalog')
  return {
    ...cheapest,
    id: `local/${model}`,
    aliases: [],
    name: model,
    maker: 'local',
    vendor,
    upstream: model,
    maxCharacters: 4_096,
  }
}

function overrideOf({ max_characters: maxCharacters, ...fields }: Static<typeof AudioSetting>): AudioOverride {
  return { ...fields, ...(maxCharacters !== undefined && { maxCharacters }) }
}
