/** The part of the configuration that says who makes what: vendors, and changes to the catalog's rows. */
import { type Static, Type } from '@sinclair/typebox'
import { type ImageOverride, type ImageRow, imageRows, type Json, overrideImages } from '../core/mod.ts'

const strict = { additionalProperties: false }
/** The name of an environment variable; too short and too plain to be a key pasted in the wrong place. */
export const Variable = Type.String({ pattern: '^[A-Z_][A-Z0-9_]{0,49}$' })

/** What `protocol` may say; wiring knows an adapter for each. */
const protocols = ['openai-images', 'gemini-images', 'xai-images', 'cogview', 'seedream', 'sdapi', 'sketch'] as const
export type Protocol = (typeof protocols)[number]

const Fields = Type.Record(Type.String(), Type.Unknown())

const serving = {
  base_url: Type.Optional(Type.String({ pattern: '^https?://' })),
  key_env: Type.Optional(Variable),
  timeout_seconds: Type.Optional(Type.Number({ minimum: 1, maximum: 3_600 })),
  parameters: Type.Optional(Fields),
  overrides: Type.Optional(Fields),
  per_call: Type.Optional(Type.Integer({ minimum: 1, maximum: 10 })),
  mask_marks: Type.Optional(Type.Union([Type.Literal('transparent'), Type.Literal('white')])),
}
const ProtocolName = Type.Union(protocols.map((name) => Type.Literal(name)))

export const VendorRow = Type.Object({ protocol: ProtocolName, ...serving }, strict)

const SIZE = '^[0-9]{2,4}x[0-9]{2,4}$'

export const ImageSetting = Type.Object(
  {
    id: Type.String({ pattern: '^[\\w./:-]{1,100}$' }),
    aliases: Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 100 }))),
    name: Type.Optional(Type.String({ minLength: 1 })),
    maker: Type.Optional(Type.String({ minLength: 1 })),
    vendor: Type.Optional(Type.String({ minLength: 1 })),
    upstream: Type.Optional(Type.String({ minLength: 1 })),
    sizes: Type.Optional(Type.Record(Type.String({ pattern: SIZE }), Type.String({ pattern: '^[0-9]{1,6}(\\.[0-9]{1,9})?$' }))),
    edits: Type.Optional(Type.Object({ max_images: Type.Integer({ minimum: 1, maximum: 16 }), mask: Type.Boolean() }, strict)),
    slow: Type.Optional(Type.Boolean()),
    hidden: Type.Optional(Type.Boolean()),
    redirect: Type.Optional(Type.String({ minLength: 1 })),
    protocol: Type.Optional(ProtocolName),
    ...serving,
  },
  strict,
)

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
export type Shelf = { readonly rows: readonly ImageRow[]; readonly servings: ReadonlyMap<string, Serving> }

type VendorTable = Readonly<Record<string, Static<typeof VendorRow>>>
type Settings = readonly Static<typeof ImageSetting>[]

/** 600 s: what an image of the slowest model may take upstream (spec 1, Limits). */
const TIMEOUT_S = 600

/** Mistakes are added by name; keys are looked up, never shown. */
export function resolveShelf(vendors: VendorTable, settings: Settings, env: Readonly<Record<string, string | undefined>>, mistakes: string[]): Shelf {
  const overridden = overrideImages(imageRows, settings.map(overrideOf))
  mistakes.push(...overridden.mistakes)
  const own = new Map(settings.map((setting) => [setting.id, setting]))
  const missing = new Set<string>()
  const servings = new Map<string, Serving>()
  for (const row of overridden.rows) {
    const served = row.servedBy ?? row.id
    const fields = servingFields(own.get(served))
    const table = vendors[row.vendor]
    // A row of another protocol is another service: it is not to be shown the key of the vendor's own.
    const merged = fields.protocol && fields.protocol !== table?.protocol ? fields : { ...table, ...fields }
    const { protocol } = merged
    if (!protocol) continue
    const key = merged.key_env && env[merged.key_env]
    if (merged.key_env && !key) missing.add(`vendors: the environment variable ${merged.key_env} is not set`)
    servings.set(row.id, {
      protocol,
      baseUrl: merged.base_url,
      key: key || undefined,
      timeoutMs: (merged.timeout_seconds ?? TIMEOUT_S) * 1000,
      parameters: merged.parameters as Serving['parameters'],
      overrides: merged.overrides as Serving['overrides'],
      perCall: merged.per_call,
      maskMarks: merged.mask_marks,
    })
  }
  mistakes.push(...missing)
  return { rows: overridden.rows, servings }
}

/** Whether a vendor's key would buy real work. */
export function hasKeys({ servings }: Shelf): boolean {
  return [...servings.values()].some(({ key }) => key !== undefined)
}

function overrideOf(setting: Settings[number]): ImageOverride {
  const { edits, protocol: _protocol, base_url: _url, key_env: _key, timeout_seconds: _time, parameters: _p, overrides: _o, per_call: _n, mask_marks: _m, ...fields } = setting
  return { ...fields, ...(edits && { edits: { maxImages: edits.max_images, mask: edits.mask } }) }
}

function servingFields(setting: Settings[number] | undefined) {
  if (!setting) return {}
  const { protocol, base_url, key_env, timeout_seconds, parameters, overrides, per_call, mask_marks } = setting
  return Object.fromEntries(
    Object.entries({ protocol, base_url, key_env, timeout_seconds, parameters, overrides, per_call, mask_marks }).filter(([, value]) => value !== undefined),
  ) as Partial<Static<typeof VendorRow>>
}
