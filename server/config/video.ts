/** Changes to the catalog's video rows, and how each row is served. */
import { type Static, Type } from '@sinclair/typebox'
import { type Json, overrideVideos, type VideoOverride, type VideoRow, videoRows } from '../../core/mod.ts'
import { addressOf, protocolOf } from './providers.ts'
import { setting } from '../../adapters/providers/manifest.ts'
import { type Environment, Rate } from './settings.ts'
import {
  above,
  keyOf,
  serving,
  type ServedCatalog,
  SubmitSeconds,
  type VendorTable,
  VideoProtocolName,
} from './vendors.ts'

const strict = { additionalProperties: false }
const Name = Type.String({ minLength: 1, maxLength: 200 })
const Names = Type.Array(Name, { maxItems: 100 })
const Length = Type.Integer({ minimum: 1, maximum: 3_600 })
const Rates = Type.Object(
  {
    per_second: Type.Optional(Rate),
    per_second_by_resolution: Type.Optional(Type.Record(Type.String(), Rate)),
    per_generation: Type.Optional(Rate),
    per_million_tokens: Type.Optional(Rate),
  },
  strict,
)

export const VideoSetting = Type.Object(
  {
    id: Type.String({ pattern: '^[\\w./:-]{1,100}$', description: 'The model to change or to add.' }),
    aliases: setting('Other names that requests may use.', Names),
    name: setting('The name that lists show.', Name),
    maker: setting('Who made the model, as lists show it.', Name),
    vendor: setting('The vendor that serves it: a table of `[vendors]`.', Name),
    upstream: setting('The name of the model at its vendor.', Name),
    family: setting(
      'Whose request rules it follows.',
      Type.Union([Type.Literal('c'), Type.Literal('e'), Type.Literal('f')]),
    ),
    seconds: setting(
      'Lengths of a clip in whole seconds: `min`, `max`, the default `usual`, and `only` for a list of allowed lengths.',
      Type.Object(
        { min: Length, max: Length, usual: Length, only: Type.Optional(Type.Array(Length, { minItems: 1 })) },
        strict,
      ),
    ),
    resolutions: setting('Resolutions, the lowest first.', Type.Array(Name, { minItems: 1 })),
    usual_resolution: setting('The default resolution.', Name),
    caps_resolution: setting(
      'Accepts a resolution above its highest, and renders and bills its highest.',
      Type.Boolean(),
    ),
    ratios: setting('Supported aspect ratios.', Names),
    audio: setting('Supports clips with sound.', Type.Boolean()),
    last_frame: setting('Supports a last frame.', Type.Boolean()),
    references: setting('Supports reference pictures, clips and sounds.', Type.Boolean()),
    assets: setting('Supports enrolled characters.', Type.Boolean()),
    rates: setting(
      'Prices in US dollars, as text: exactly one of `per_second`, `per_second_by_resolution` (a table, with `per_generation` on top) and `per_million_tokens`.',
      Rates,
    ),
    hidden: setting('Sells the model without listing it.', Type.Boolean()),
    retired: setting('No longer sold.', Type.Boolean()),
    redirect: setting('The id of the model that serves requests instead.', Name),
    protocol: setting('The protocol of this model, if it is not its vendor’s.', VideoProtocolName),
    ...serving,
    timeout_seconds: setting('Longest wait until the vendor has accepted a job, in seconds.', SubmitSeconds, {
      usual: '20',
    }),
  },
  strict,
)
export type VideoSetting = Static<typeof VideoSetting>

/** How a row is served: a protocol with its settings, and the key from the environment. */
export type VideoServing = {
  readonly protocol: string
  /** By default that of the protocol's maker. */
  readonly baseUrl: string | undefined
  readonly key: string | undefined
  /** Timeout of a job submission. */
  readonly timeoutMs: number
  readonly parameters: Readonly<Record<string, Json>> | undefined
  readonly overrides: Readonly<Record<string, Json>> | undefined
}

/** Rows for sale, and how each is served. `byVendor` finds the jobs of a row whose vendor has changed. */
export type ServedVideos = ServedCatalog<VideoRow, VideoServing> & {
  readonly byVendor: ReadonlyMap<string, VideoServing>
}

/** 20 s: timeout of a job submission (contract 12.41). */
const TIMEOUT_S = 20

type Resolving = { readonly env: Environment; readonly mistakes: string[] }
type Fields = Partial<Pick<VideoSetting, 'protocol' | keyof typeof serving>>

/** Adds mistakes by name; keys are looked up, never shown. */
export function resolveVideos(
  vendors: VendorTable,
  settings: readonly VideoSetting[],
  { env, mistakes }: Resolving,
): ServedVideos {
  const overridden = overrideVideos(
    videoRows,
    settings.map((setting) => overrideOf(setting, mistakes)),
  )
  mistakes.push(...overridden.mistakes.map((mistake) => mistake.replace('.usualResolution:', '.usual_resolution:')))
  const tables = new Map(
    Object.entries(vendors).flatMap(([name, row]) =>
      row.video ? [[name, tableOf(name, row, mistakes)] as const] : [],
    ),
  )
  const own = new Map(settings.map((setting) => [setting.id, servingFields(setting)]))
  const servings = new Map<string, VideoServing>()
  for (const row of overridden.rows) {
    const table = tables.get(row.vendor)
    const fields = own.get(row.servedBy ?? row.id) ?? {}
    const merged = above(table, fields)
    const isNowhere =
      merged.protocol &&
      protocolOf('videos', merged.protocol).isCommon &&
      table?.protocol !== merged.protocol &&
      !merged.base_url
    if (isNowhere && !row.servedBy)
      mistakes.push(`videos ${row.id}.base_url: missing; the protocol ${merged.protocol} is served by many servers`)
    const served = servingOf(merged, {
      at: fields.key_env ? `videos ${row.id}` : `vendors.${row.vendor}`,
      env,
      mistakes,
    })
    if (served) servings.set(row.id, served)
  }
  const byVendor = new Map(
    [...tables].flatMap(([name, table]) =>
      [servingOf(table, { at: `vendors.${name}`, env, mistakes })].flatMap((served) =>
        served ? [[name, served] as const] : [],
      ),
    ),
  )
  return { rows: overridden.rows, servings, byVendor }
}

function servingOf(
  { protocol, base_url, timeout_seconds, parameters, overrides, ...keyed }: Fields,
  resolving: Resolving & { readonly at: string },
): VideoServing | undefined {
  if (!protocol) return undefined
  return {
    protocol,
    baseUrl: base_url,
    key: keyOf(keyed, resolving),
    timeoutMs: (timeout_seconds ?? TIMEOUT_S) * 1000,
    parameters: parameters as VideoServing['parameters'],
    overrides: overrides as VideoServing['overrides'],
  }
}

/** The video settings of a vendor's table. A key of one maker is never sent to another. */
function tableOf(
  name: string,
  {
    video,
    base_url,
    key_env,
    video_base_url,
    video_timeout_seconds,
    video_parameters,
    video_overrides,
  }: VendorTable[string],
  mistakes: string[],
): Fields {
  const address = video_base_url ?? base_url ?? (video && addressOf(name, 'videos', video))
  if (address === 'unknown')
    mistakes.push(`vendors.${name}.video_base_url: missing; the protocol ${video} is served by many servers`)
  return given({
    protocol: video,
    base_url: address === 'own' ? undefined : address,
    key_env,
    timeout_seconds: video_timeout_seconds,
    parameters: video_parameters,
    overrides: video_overrides,
  })
}

function servingFields({ protocol, base_url, key_env, timeout_seconds, parameters, overrides }: VideoSetting): Fields {
  return given({ protocol, base_url, key_env, timeout_seconds, parameters, overrides })
}

function given<Each extends object>(fields: { readonly [Name in keyof Each]: Each[Name] | undefined }): Each {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Each
}

function overrideOf(setting: VideoSetting, mistakes: string[]): VideoOverride {
  const {
    protocol: _protocol,
    base_url: _url,
    key_env: _key,
    timeout_seconds: _time,
    parameters: _parameters,
    overrides: _overrides,
    ...fields
  } = setting
  const { usual_resolution, caps_resolution, last_frame, rates, ...rest } = fields
  return {
    ...rest,
    ...given<Partial<VideoOverride>>({
      usualResolution: usual_resolution,
      capsResolution: caps_resolution,
      lastFrame: last_frame,
      rates: rates && ratesOf(setting.id, rates, mistakes),
    }),
  }
}

/** A clip has exactly one kind of rate. */
function ratesOf(id: string, rates: NonNullable<VideoSetting['rates']>, mistakes: string[]): VideoOverride['rates'] {
  const { per_second, per_second_by_resolution, per_generation, per_million_tokens } = rates
  const ways = [per_second, per_second_by_resolution, per_million_tokens].filter((way) => way !== undefined)
  if (ways.length !== 1)
    mistakes.push(
      `videos ${id}.rates: needs one of per_second, per_second_by_resolution and per_million_tokens, got ${ways.length}`,
    )
  if (per_generation !== undefined && !per_second_by_resolution)
    mistakes.push(`videos ${id}.rates.per_generation: goes with per_second_by_resolution only`)
  if (per_second_by_resolution)
    return {
      perSecondByResolution: per_second_by_resolution,
      ...(per_generation !== undefined && { perGeneration: per_generation }),
    }
  if (per_million_tokens !== undefined) return { perMillionTokens: per_million_tokens }
  return per_second === undefined ? undefined : { perSecond: per_second }
}
