/** The part of the configuration that says who speaks, who makes sounds and who composes, and what is changed about the catalog's audio rows. */
import { type Static, Type } from '@sinclair/typebox'
import { AUDIO_KINDS, type AudioOverride, type AudioRow, audioRows, overrideAudio } from '../../core/mod.ts'
import { Rate, setting, Url } from './settings.ts'

const Name = Type.String({ minLength: 1, maxLength: 200 })
const Names = Type.Array(Type.String({ pattern: '^[\\w.+:/-]{1,90}$' }), { maxItems: 100 })
export const AudioSetting = Type.Object(
  {
    id: Type.String({ pattern: '^[\\w.+/:-]{1,100}$', description: 'The model to change or to add.' }),
    aliases: setting('Other names that requests may use.', Type.Array(Name, { maxItems: 100 })),
    name: setting('The name that lists show.', Name),
    kind: setting('What the model makes.', Type.Union(AUDIO_KINDS.map((kind) => Type.Literal(kind)))),
    maker: setting('Who made the model, as lists show it.', Name),
    vendor: setting(
      'Who serves it: `elevenlabs`, `minimax`, `speech` or `embedded`.',
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

/** Settings of the file; their keys come from the environment only. */
export const audioSettings = {
  audio: setting('Changes to the audio catalog, by model `id`. See [audio](#audio).', Type.Array(AudioSetting), {
    usual: 'the built-in catalog',
  }),
  elevenlabs_base_url: setting('Another address of the ElevenLabs API (speech, sound effects).', Url, {
    usual: 'the public API',
  }),
  minimax_base_url: setting('Another address of the MiniMax API (music).', Url, { usual: 'the public API' }),
  speech_base_url: setting('A server that speaks the OpenAI speech protocol, such as `http://localhost:8880/v1`.', Url),
  speech_models: setting('Models of that server. Each is sold as `local/<model>`.', Names),
  speech_voices: setting('Voices of that server, the default first.', Names),
}
const Settings = Type.Object(audioSettings)

/** Environment variables that stand for those settings. */
export const audioVariables = {
  ELEVENLABS_BASE_URL: 'elevenlabs_base_url',
  MINIMAX_BASE_URL: 'minimax_base_url',
  SPEECH_BASE_URL: 'speech_base_url',
  SPEECH_MODELS: 'speech_models',
  SPEECH_VOICES: 'speech_voices',
} as const

type Account = { readonly key: string | undefined; readonly baseUrl: string | undefined }

/** Rows for sale, and the vendors that are set up: a row names its own. Addresses are the maker's unless told. */
export type AudioConfig = {
  readonly rows: readonly AudioRow[]
  readonly elevenlabs?: Account | undefined
  readonly minimax?: Account | undefined
  /** A server of the operator's that speaks the OpenAI speech protocol. */
  readonly speech?:
    | { readonly key: string | undefined; readonly baseUrl: string; readonly voices: readonly string[] }
    | undefined
}

const KEYS = { elevenlabs: 'ELEVENLABS_API_KEY', minimax: 'MINIMAX_API_KEY', speech: 'SPEECH_API_KEY' } as const
export const AUDIO_VENDORS = ['elevenlabs', 'minimax', 'speech', 'embedded'] as const
/** What brings each to life. */
export const AUDIO_NEEDS: Readonly<Record<string, string>> = { ...KEYS, speech: 'SPEECH_BASE_URL' }

/** `keyIn` reads a key, and tells of a bad one; `unread` tells of settings that nothing reads. */
type Reading = {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly mistakes: string[]
  keyIn(variable: string): string | undefined
  unread(settings: Readonly<Record<string, string | undefined>>, why: string): void
}

/** Mistakes are added by name; keys are looked up, never shown. */
export function resolveAudio(given: Static<typeof Settings>, { env, mistakes, keyIn, unread }: Reading): AudioConfig {
  const { audio = [], speech_base_url: speechUrl, speech_models: models = [], speech_voices: voices = [] } = given
  const account = (name: 'elevenlabs' | 'minimax', baseUrl: string | undefined): Account | undefined => {
    const key = keyIn(KEYS[name])
    if (!key) unread({ [`${name}_base_url`]: baseUrl }, `without ${KEYS[name]}`)
    return key ? { key, baseUrl } : undefined
  }
  if (!speechUrl)
    unread({ speech_models: models[0], speech_voices: voices[0] }, 'without speech_base_url (SPEECH_BASE_URL)')
  if (!speechUrl && env[KEYS.speech]) mistakes.push(`${KEYS.speech}: has no meaning without SPEECH_BASE_URL`)
  const own = speechUrl ? models.map(rowOf) : []
  const { rows, mistakes: found } = overrideAudio([...audioRows, ...own], audio.map(overrideOf))
  mistakes.push(...found)
  for (const { id, vendor } of audio) {
    if (vendor && !AUDIO_VENDORS.some((name) => name === vendor))
      mistakes.push(`audio ${id}.vendor: must be one of ${AUDIO_VENDORS.join(', ')}, got ${JSON.stringify(vendor)}`)
  }
  return {
    rows,
    elevenlabs: account('elevenlabs', given.elevenlabs_base_url),
    minimax: account('minimax', given.minimax_base_url),
    speech: speechUrl ? { key: keyIn(KEYS.speech), baseUrl: speechUrl, voices } : undefined,
  }
}

/** A model of the operator's own server, at the lowest rate of the contract. */
function rowOf(model: string): AudioRow {
  const [cheapest] = audioRows
  if (!cheapest) throw new Error('an empty catalog')
  return {
    ...cheapest,
    id: `local/${model}`,
    aliases: [],
    name: model,
    maker: 'local',
    vendor: 'speech',
    upstream: model,
    maxCharacters: 4_096,
  }
}

function overrideOf({ max_characters: maxCharacters, ...fields }: Static<typeof AudioSetting>): AudioOverride {
  return { ...fields, ...(maxCharacters !== undefined && { maxCharacters }) }
}

/** Accounts whose calls are charged to the operator, with the variable of their key. */
export function keyedAudio(audio: AudioConfig): ReadonlyMap<string, string> {
  return new Map(
    (['elevenlabs', 'minimax', 'speech'] as const).flatMap((name) =>
      audio[name]?.key ? [[name, KEYS[name]] as const] : [],
    ),
  )
}
