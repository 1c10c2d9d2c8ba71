/** The vendors of models, and changes to the catalog's image rows. */
import { type Static, Type } from '@sinclair/typebox'
import {
  chatRows,
  type ImageOverride,
  type ImageRow,
  imageRows,
  type Json,
  overrideImages,
  videoRows,
} from '../../core/mod.ts'
import { CHAT_STYLES, oneOf, setting, Url } from '../../adapters/providers/manifest.ts'
import type { ModelKind } from '../../adapters/providers/manifest.ts'
import { makers, protocolsOf } from './providers.ts'
import { type Environment, FilePath, nearestName, Rate, Variable } from './settings.ts'

const strict = { additionalProperties: false }

const Fields = Type.Record(Type.String(), Type.Unknown())
const Seconds = Type.Number({ minimum: 1, maximum: 3_600 })
/** Timeout of a job submission: the buyer waits for it, and public clients wait for a minute. */
export const SubmitSeconds = Type.Number({ minimum: 1, maximum: 55 })

const PARAMETERS = 'Fields that are added to every upstream request, below what the buyer ordered.'
const OVERRIDES = 'Fields that are added to every upstream request, above what the buyer ordered. Objects merge.'
const CHAT_SECONDS = 'Longest wait for a whole chat answer, or for the first event of a stream, in seconds.'
const SUBMIT_SECONDS = 'Longest wait until the vendor has accepted a video job, in seconds.'
const per = (usual: number) => ({ usual: String(usual) })

/** Settings of a vendor, which one row may override. */
export const serving = {
  base_url: setting('The root of the vendor’s API, such as `https://api.example.com/v1`.', Url, {
    usual: 'the maker’s own',
  }),
  key_env: setting('The environment variable that holds the API key.', Variable, { usual: 'no key' }),
  timeout_seconds: setting('Longest wait for one upstream call, in seconds.', Seconds, {
    usual: '600 for images, 120 for chat',
  }),
  parameters: setting(PARAMETERS, Fields),
  overrides: setting(OVERRIDES, Fields),
}
export const chatStyle = setting(
  'How the protocol openai-chat spells the output cap and reasoning at this server: as OpenAI does (`max_completion_tokens`, no `thinking`), or as compatible servers do (`max_tokens`, `thinking`, `reasoning_content`).',
  oneOf(...CHAT_STYLES),
  { usual: 'by the family of each model: OpenAI’s models as OpenAI, all others as compatible' },
)
const imageServing = {
  ...serving,
  per_call: setting('Maximum number of images per upstream call.', Type.Integer({ minimum: 1, maximum: 10 }), {
    usual: 'the protocol’s limit',
  }),
  mask_marks: setting(
    'Which part of a mask marks the area to edit, when the server differs from its protocol.',
    oneOf('transparent', 'white'),
    { usual: 'as the protocol defines' },
  ),
}
const named = (kind: ModelKind) =>
  Type.Union([...[...protocolsOf(kind).keys()].map((name) => Type.Literal(name)), FilePath])
const ProtocolName = named('images')
export const ChatProtocolName = named('chat')
export const VideoProtocolName = named('videos')

/**
 * An account of the operator: `protocol` is for images, `chat` for chat, `video` for videos, all with the same address
 * and key unless set otherwise.
 */
export const VendorRow = Type.Object(
  {
    protocol: setting('The protocol for images.', ProtocolName),
    ...imageServing,
    timeout_seconds: setting('Images: longest wait for one upstream call, in seconds.', Seconds, per(600)),
    parameters: setting(`Images: ${lower(PARAMETERS)}`, Fields),
    overrides: setting(`Images: ${lower(OVERRIDES)}`, Fields),
    chat: setting('The protocol for chat.', ChatProtocolName),
    chat_base_url: setting('The root of the chat API.', Url, { usual: '`base_url`' }),
    chat_timeout_seconds: setting(CHAT_SECONDS, Seconds, per(120)),
    chat_style: chatStyle,
    chat_parameters: setting(`Chat: ${lower(PARAMETERS)}`, Fields),
    chat_overrides: setting(`Chat: ${lower(OVERRIDES)}`, Fields),
    video: setting('The protocol for videos.', VideoProtocolName),
    video_base_url: setting('The root of the video API.', Url, { usual: '`base_url`' }),
    video_timeout_seconds: setting(SUBMIT_SECONDS, SubmitSeconds, per(20)),
    video_parameters: setting(`Videos: ${lower(PARAMETERS)}`, Fields),
    video_overrides: setting(`Videos: ${lower(OVERRIDES)}`, Fields),
  },
  strict,
)
export type VendorTable = Readonly<Record<string, Static<typeof VendorRow>>>

function lower(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1)
}

const SIZE = '^[0-9]{2,4}x[0-9]{2,4}$'
const Text = Type.String({ minLength: 1 })

export const ImageSetting = Type.Object(
  {
    id: Type.String({ pattern: '^[\\w./:-]{1,100}$', description: 'The model to change or to add.' }),
    aliases: setting('Other names that requests may use.', Type.Array(Type.String({ minLength: 1, maxLength: 100 }))),
    name: setting('The name that lists show.', Text),
    maker: setting('Who made the model, as lists show it.', Text),
    vendor: setting('The vendor that serves it: a table of `[vendors]`.', Text),
    upstream: setting('The name of the model at its vendor.', Text),
    sizes: setting(
      'Prices in US dollars per image by size, as text, before the margin on media and the fee: `{ "1024x1024" = "0.02" }`.',
      Type.Record(Type.String({ pattern: SIZE }), Rate),
    ),
    edits: setting(
      'Editing: `max_images` source images (1 to 16), and whether a `mask` is accepted.',
      Type.Object({ max_images: Type.Integer({ minimum: 1, maximum: 16 }), mask: Type.Boolean() }, strict),
    ),
    slow: setting('Never answers inline; every call is a job.', Type.Boolean()),
    hidden: setting('Sells the model without listing it.', Type.Boolean()),
    redirect: setting('The id of the model that serves requests instead.', Text),
    protocol: setting('The protocol of this model, if it is not its vendor’s.', ProtocolName),
    ...imageServing,
    timeout_seconds: setting('Longest wait for one upstream call, in seconds.', Seconds, per(600)),
  },
  strict,
)

/** How one row is served: a protocol with its settings, and the key from the environment. */
export type Serving = {
  readonly protocol: string
  /** By default that of the protocol's maker. */
  readonly baseUrl: string | undefined
  readonly key: string | undefined
  readonly timeoutMs: number
  readonly parameters: Readonly<Record<string, Json>> | undefined
  readonly overrides: Readonly<Record<string, Json>> | undefined
  readonly perCall: number | undefined
  readonly maskMarks: 'transparent' | 'white' | undefined
}

/** The rows for sale, and how each is served; a row without a configured vendor has no serving. */
export type ServedCatalog<Row = ImageRow, Served = Serving> = {
  readonly rows: readonly Row[]
  readonly servings: ReadonlyMap<string, Served>
}

type Settings = readonly Static<typeof ImageSetting>[]

/** 600 s: the time that an image of the slowest model may take upstream (contract 5.22). */
const TIMEOUT_S = 600

/** Settings for one kind of service, in a table that does not name that service. */
export function checkVendors(vendors: VendorTable, mistakes: string[]): void {
  for (const [name, { protocol, chat, video, base_url: _url, key_env: _key, ...rest }] of Object.entries(vendors)) {
    const named = { chat, video }
    const others = (['chat', 'video'] as const).filter((service) => named[service])
    if (!protocol && others.length === 0)
      mistakes.push(`vendors.${name}: set at least one of protocol (for images), chat and video`)
    for (const setting of Object.keys(rest)) {
      const service = (['chat', 'video'] as const).find((each) => setting.startsWith(`${each}_`))
      if (service && !named[service]) mistakes.push(`vendors.${name}.${setting}: has no effect without ${service}`)
      if (service || protocol || others.length === 0) continue
      const meant = others
        .filter((each) => `${each}_${setting}` in VendorRow.properties)
        .map((each) => `; for ${each} it is ${each}_${setting}`)
      mistakes.push(`vendors.${name}.${setting}: is for images, which need a protocol${meant.join('')}`)
    }
  }
}

/** Rows of these lists name vendors. */
const BUILT_IN = { images: imageRows, chat: chatRows, videos: videoRows }
type NamedRow = { readonly id: string; readonly vendor?: string; readonly protocol?: string }

/**
 * Vendors that rows name and that nobody has set up. Makers need no table: a key in the environment is enough, and a
 * row with a protocol of its own needs no vendor.
 */
export function checkVendorNames(
  file: { readonly [Kind in keyof typeof BUILT_IN]?: readonly NamedRow[] | undefined },
  { vendors, mistakes }: { readonly vendors: VendorTable; readonly mistakes: string[] },
): void {
  for (const kind of Object.keys(BUILT_IN) as (keyof typeof BUILT_IN)[]) {
    const known = new Set([...Object.keys(vendors), ...makers.keys(), ...BUILT_IN[kind].map(({ vendor }) => vendor)])
    for (const { id, vendor, protocol } of file[kind] ?? []) {
      if (vendor === undefined || protocol !== undefined || known.has(vendor)) continue
      const meant = nearestName(vendor, [...known])
      mistakes.push(
        `${kind} ${id}.vendor: there is no table [vendors.${vendor}]${meant === undefined ? '' : `; did you mean ${meant}?`}` +
          ` (known: ${[...known].sort().join(', ')})`,
      )
    }
  }
}

/** Adds mistakes by name; keys are looked up, never shown. */
export function resolveImages(
  vendors: VendorTable,
  settings: Settings,
  env: Environment,
  mistakes: string[],
): ServedCatalog {
  const overridden = overrideImages(imageRows, settings.map(overrideOf))
  mistakes.push(...overridden.mistakes)
  const own = new Map(settings.map((setting) => [setting.id, setting]))
  const servings = new Map<string, Serving>()
  for (const row of overridden.rows) {
    const fields = servingFields(own.get(row.servedBy ?? row.id))
    const at = fields.key_env ? `images ${row.id}` : `vendors.${row.vendor}`
    const merged = above(vendors[row.vendor], fields)
    if (!merged.protocol) continue
    servings.set(row.id, {
      protocol: merged.protocol,
      baseUrl: merged.base_url,
      key: keyOf(merged, { at, env, mistakes }),
      timeoutMs: (merged.timeout_seconds ?? TIMEOUT_S) * 1000,
      parameters: merged.parameters as Serving['parameters'],
      overrides: merged.overrides as Serving['overrides'],
      perCall: merged.per_call,
      maskMarks: merged.mask_marks,
    })
  }
  return { rows: overridden.rows, servings }
}

/**
 * Settings of a row override those of its vendor. With another protocol the row is another service, which must not get
 * the vendor's key.
 */
export function above<Table extends { readonly protocol?: string }>(
  table: Table | undefined,
  own: Partial<Table>,
): Partial<Table> {
  return own.protocol && own.protocol !== table?.protocol ? own : { ...table, ...own }
}

/**
 * Reads the key from its variable. A variable that is not set is reported once, for the vendor or row that names it.
 */
export function keyOf(
  { key_env }: { readonly key_env?: string },
  { at, env, mistakes }: { readonly at: string; readonly env: Environment; readonly mistakes: string[] },
): string | undefined {
  const key = key_env && env[key_env]
  const missing = `.key_env: the environment variable ${key_env} is not set`
  if (key_env && !key && !mistakes.some((mistake) => mistake.endsWith(missing))) mistakes.push(`${at}${missing}`)
  return key || undefined
}

/** Vendors whose keys buy real work. */
export function keyedVendors({
  rows,
  servings,
}: ServedCatalog<
  { readonly id: string; readonly vendor: string },
  { readonly key: string | undefined }
>): readonly string[] {
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
