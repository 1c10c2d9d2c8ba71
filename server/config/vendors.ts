/** The part of the configuration that says who makes what: vendors, and changes to the catalog's image rows. */
import { type Static, Type } from '@sinclair/typebox'
import { type ImageOverride, type ImageRow, imageRows, type Json, overrideImages } from '../../core/mod.ts'

const strict = { additionalProperties: false }
/** The name of an environment variable; too short and too plain to be a key pasted in the wrong place. */
export const Variable = Type.String({ pattern: '^[A-Z_][A-Z0-9_]{0,49}$' })

/** What `protocol` may say; wiring knows an adapter for each. */
const protocols = ['openai-images', 'gemini-images', 'xai-images', 'cogview', 'seedream', 'sdapi', 'sketch'] as const
export type Protocol = (typeof protocols)[number]
/** What `chat` may say. */
const chatProtocols = ['openai', 'openai-chat', 'openai-responses', 'anthropic-messages', 'gemini', 'parrot'] as const
export type ChatProtocol = (typeof chatProtocols)[number]
/** What `video` may say. */
const videoProtocols = ['xai-videos', 'seedance', 'openai-videos', 'reseller-videos', 'sketch'] as const
export type VideoProtocol = (typeof videoProtocols)[number]

const Fields = Type.Record(Type.String(), Type.Unknown())
const Url = Type.String({ pattern: '^https?://' })
const Seconds = Type.Number({ minimum: 1, maximum: 3_600 })
/** Until a vendor has taken a job: its buyer waits for that, and public clients wait for a minute. */
export const SubmitSeconds = Type.Number({ minimum: 1, maximum: 55 })

/** How anything is served: by a vendor, or one row of it. */
export const serving = {
  base_url: Type.Optional(Url),
  key_env: Type.Optional(Variable),
  timeout_seconds: Type.Optional(Seconds),
  parameters: Type.Optional(Fields),
  overrides: Type.Optional(Fields),
}
const imageServing = {
  ...serving,
  per_call: Type.Optional(Type.Integer({ minimum: 1, maximum: 10 })),
  mask_marks: Type.Optional(Type.Union([Type.Literal('transparent'), Type.Literal('white')])),
}
const ProtocolName = Type.Union(protocols.map((name) => Type.Literal(name)))
export const ChatProtocolName = Type.Union(chatProtocols.map((name) => Type.Literal(name)))
export const VideoProtocolName = Type.Union(videoProtocols.map((name) => Type.Literal(name)))

/** One account of the operator's: `protocol` makes images, `chat` converses, `video` films, all with the same address and key unless told. */
export const VendorRow = Type.Object(
  {
    protocol: Type.Optional(ProtocolName),
    ...imageServing,
    chat: Type.Optional(ChatProtocolName),
    chat_base_url: Type.Optional(Url),
    chat_timeout_seconds: Type.Optional(Seconds),
    chat_parameters: Type.Optional(Fields),
    chat_overrides: Type.Optional(Fields),
    video: Type.Optional(VideoProtocolName),
    video_base_url: Type.Optional(Url),
    video_timeout_seconds: Type.Optional(SubmitSeconds),
    video_parameters: Type.Optional(Fields),
    video_overrides: Type.Optional(Fields),
  },
  strict,
)
export type VendorTable = Readonly<Record<string, Static<typeof VendorRow>>>

const SIZE = '^[0-9]{2,4}x[0-9]{2,4}$'

export const ImageSetting = Type.Object(
  {
    id: Type.String({ pattern: '^[\\w./:-]{1,100}$' }),
    aliases: Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 100 }))),
    name: Type.Optional(Type.String({ minLength: 1 })),
    maker: Type.Optional(Type.String({ minLength: 1 })),
    vendor: Type.Optional(Type.String({ minLength: 1 })),
    upstream: Type.Optional(Type.String({ minLength: 1 })),
    sizes: Type.Optional(
      Type.Record(Type.String({ pattern: SIZE }), Type.String({ pattern: '^[0-9]{1,6}(\\.[0-9]{1,9})?$' })),
    ),
    edits: Type.Optional(
      Type.Object({ max_images: Type.Integer({ minimum: 1, maximum: 16 }), mask: Type.Boolean() }, strict),
    ),
    slow: Type.Optional(Type.Boolean()),
    hidden: Type.Optional(Type.Boolean()),
    redirect: Type.Optional(Type.String({ minLength: 1 })),
    protocol: Type.Optional(ProtocolName),
    ...imageServing,
  },
  strict,
)

export type Environment = Readonly<Record<string, string | undefined>>

/** How one row is served: a protocol with its settings, the key read from the environment. */
export type Serving = {
  readonly protocol: Protocol
  /** The maker's own unless told. */
  readonly baseUrl: string | undefined
  readonly key: string | undefined
  readonly timeoutMs: number
  readonly parameters: Readonly<Record<string, Json>> | undefined
  readonly overrides: Readonly<Record<string, Json>> | undefined
  readonly perCall: number | undefined
  readonly maskMarks: 'transparent' | 'white' | undefined
}

/** Rows for sale, and by row id how each is served; a row whose vendor is not configured has no serving. */
export type Shelf<Row = ImageRow, Served = Serving> = {
  readonly rows: readonly Row[]
  readonly servings: ReadonlyMap<string, Served>
}

type Settings = readonly Static<typeof ImageSetting>[]

/** 600 s: what an image of the slowest model may take upstream (contract 5.22). */
const TIMEOUT_S = 600

/** Settings that speak of one service only, in a table that does not name that service. */
export function checkVendors(vendors: VendorTable, mistakes: string[]): void {
  for (const [name, { protocol, chat, video, base_url: _url, key_env: _key, ...rest }] of Object.entries(vendors)) {
    const named = { chat, video }
    const others = (['chat', 'video'] as const).filter((service) => named[service])
    if (!protocol && others.length === 0)
      mistakes.push(`vendors.${name}: name a protocol, which makes images, or chat, or video, or several of them`)
    for (const setting of Object.keys(rest)) {
      const service = (['chat', 'video'] as const).find((each) => setting.startsWith(`${each}_`))
      if (service && !named[service]) mistakes.push(`vendors.${name}.${setting}: has no meaning without ${service}`)
      if (service || protocol || others.length === 0) continue
      const meant = others
        .filter((each) => `${each}_${setting}` in VendorRow.properties)
        .map((each) => `; for ${each} it is ${each}_${setting}`)
      mistakes.push(`vendors.${name}.${setting}: is about images, which need a protocol${meant.join('')}`)
    }
  }
}

/** Mistakes are added by name; keys are looked up, never shown. */
export function resolveShelf(vendors: VendorTable, settings: Settings, env: Environment, mistakes: string[]): Shelf {
  const overridden = overrideImages(imageRows, settings.map(overrideOf))
  mistakes.push(...overridden.mistakes)
  const own = new Map(settings.map((setting) => [setting.id, setting]))
  const servings = new Map<string, Serving>()
  for (const row of overridden.rows) {
    const fields = servingFields(own.get(row.servedBy ?? row.id))
    const merged = above(vendors[row.vendor], fields)
    if (!merged.protocol) continue
    servings.set(row.id, {
      protocol: merged.protocol,
      baseUrl: merged.base_url,
      key: keyOf(merged, env, mistakes),
      timeoutMs: (merged.timeout_seconds ?? TIMEOUT_S) * 1000,
      parameters: merged.parameters as Serving['parameters'],
      overrides: merged.overrides as Serving['overrides'],
      perCall: merged.per_call,
      maskMarks: merged.mask_marks,
    })
  }
  return { rows: overridden.rows, servings }
}

/** What a row says above what its vendor says. A row of another protocol is another service: it is not to be shown the vendor's own key. */
export function above<Said extends { readonly protocol?: string }>(
  table: Said | undefined,
  own: Partial<Said>,
): Partial<Said> {
  return own.protocol && own.protocol !== table?.protocol ? own : { ...table, ...own }
}

/** The key that a variable holds; a variable that is not set is a mistake, told once. */
export function keyOf(
  { key_env }: { readonly key_env?: string },
  env: Environment,
  mistakes: string[],
): string | undefined {
  const key = key_env && env[key_env]
  const missing = `vendors: the environment variable ${key_env} is not set`
  if (key_env && !key && !mistakes.includes(missing)) mistakes.push(missing)
  return key || undefined
}

/** The vendors whose key would buy real work. */
export function keyedVendors({
  rows,
  servings,
}: Shelf<{ readonly id: string; readonly vendor: string }, { readonly key: string | undefined }>): readonly string[] {
  return [...new Set(rows.filter(({ id }) => servings.get(id)?.key !== undefined).map(({ vendor }) => vendor))]
}

function overrideOf(setting: Settings[number]): ImageOverride {
  const {
    edits,
    protocol: _protocol,
    base_url: _url,
    key_env: _key,
    timeout_seconds: _time,
    parameters: _p,
    overrides: _o,
    per_call: _n,
    mask_marks: _m,
    ...fields
  } = setting
  return { ...fields, ...(edits && { edits: { maxImages: edits.max_images, mask: edits.mask } }) }
}

function servingFields(setting: Settings[number] | undefined) {
  if (!setting) return {}
  const { protocol, base_url, key_env, timeout_seconds, parameters, overrides, per_call, mask_marks } = setting
  return Object.fromEntries(
    Object.entries({
      protocol,
      base_url,
      key_env,
      timeout_seconds,
      parameters,
      overrides,
      per_call,
      mask_marks,
    }).filter(([, value]) => value !== undefined),
  ) as Partial<Static<typeof VendorRow>>
}
