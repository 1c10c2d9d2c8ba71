/** Changes to the catalog's video rows, and how each row is served. */
import { type Static, Type } from '@sinclair/typebox'
import { overrideVideos, type VideoOverride, type VideoRow, videoRows } from '../../core/mod.ts'
import { named, setting } from '../../adapters/settings.ts'
import { type Environment, Rate, without, defined } from './settings.ts'
import {
  type ServedCatalog,
  type Serving,
  servingOf,
  servingSettings,
  servingsOf,
  tablesFor,
  type VendorTable,
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
    ...servingSettings.videos,
  },
  strict,
)
export type VideoSetting = Static<typeof VideoSetting>

/** Rows for sale, and how each is served. `byVendor` finds the jobs of a row whose vendor has changed. */
export type ServedVideos = ServedCatalog<VideoRow, Serving<'videos'>> & {
  readonly byVendor: ReadonlyMap<string, Serving<'videos'>>
}

/** Adds mistakes by name; keys are looked up, never shown. */
export function resolveVideos(
  vendors: VendorTable,
  settings: readonly VideoSetting[],
  reading: { readonly env: Environment; readonly mistakes: string[] },
): ServedVideos {
  const overrides = settings.map((setting) => overrideOf(setting, reading.mistakes))
  const { rows, mistakes } = overrideVideos(videoRows, overrides)
  reading.mistakes.push(...mistakes.map((mistake) => mistake.replace('.usualResolution:', '.usual_resolution:')))
  const tables = tablesFor('videos', vendors, { prefix: 'video', address: 'video_base_url' }, reading.mistakes)
  const servings = servingsOf('videos', rows, { settings, tables, ...reading })
  const byVendor = [...tables].map(
    ([name, table]) => [name, servingOf('videos', table, { at: `vendors.${name}`, ...reading })] as const,
  )
  return { rows, servings, byVendor: new Map(byVendor) }
}

function overrideOf(setting: VideoSetting, mistakes: string[]): VideoOverride {
  const { rates, ...fields } = setting
  const own = without(VideoSetting.properties, { ...servingSettings.videos, rates })
  return { ...named(own, fields), ...(rates && defined({ rates: ratesOf(setting.id, rates, mistakes) })) }
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
