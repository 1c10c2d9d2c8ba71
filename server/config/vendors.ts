/** The vendors of models, and changes to the catalog's image rows. */
import { type Static, type TObject, type TSchema, Type } from '@sinclair/typebox'
import { chatRows, type ImageRow, imageRows, type Json, overrideImages, videoRows } from '../../core/mod.ts'
import { CHAT_STYLES, type ModelKind } from '../../adapters/providers/manifest.ts'
import { named, type Named, oneOf, setting, Url, Variable } from '../../adapters/settings.ts'
import { addressOf, makers, protocolOf, protocolsOf } from './providers.ts'
import { type Environment, FilePath, nearestName, Rate, without, defined } from './settings.ts'

const strict = { additionalProperties: false }

const Fields = Type.Record(Type.String(), Type.Unsafe<Json>(Type.Unknown()))
/** Longest waits: an image of the slowest model, a chat answer, a submitted job (contract 5.22, 6.52, 12.41). */
const TIMEOUT_S = { images: 600, chat: 120, videos: 20 } as const
const waits = (description: string, kind: ModelKind, maximum = 3_600) =>
  setting(description, Type.Number({ minimum: 1, maximum }), { usual: String(TIMEOUT_S[kind]) })

const serving = {
  base_url: setting('The root of the vendor’s API, such as `https://api.example.com/v1`.', Url, {
    usual: 'the maker’s own',
  }),
  key_env: setting('The environment variable that holds the API key.', Variable, { usual: 'no key' }),
  parameters: setting('Fields that are added to every upstream request, below what the buyer ordered.', Fields),
  overrides: setting(
    'Fields that are added to every upstream request, above what the buyer ordered. Objects merge.',
    Fields,
  ),
}
const protocolSetting = (kind: ModelKind) =>
  setting(
    'The protocol of this model, if it is not its vendor’s.',
    Type.Union([...[...protocolsOf(kind).keys()].map((name) => Type.Literal(name)), FilePath]),
  )

/** How a model is served, by kind: settings of a vendor, which one row may override. */
export const servingSettings = {
  images: {
    protocol: protocolSetting('images'),
    ...serving,
    timeout_seconds: waits('Longest wait for one upstream call, in seconds.', 'images'),
    per_call: setting('Maximum number of images per upstream call.', Type.Integer({ minimum: 1, maximum: 10 }), {
      usual: 'the protocol’s limit',
    }),
    mask_marks: setting(
      'Which part of a mask marks the area to edit, when the server differs from its protocol.',
      oneOf('transparent', 'white'),
      { usual: 'as the protocol defines' },
    ),
  },
  chat: {
    protocol: protocolSetting('chat'),
    ...serving,
    style: setting(
      'How the protocol openai-chat spells the output cap and reasoning at this server: as OpenAI does (`max_completion_tokens`, no `thinking`), or as compatible servers do (`max_tokens`, `thinking`, `reasoning_content`).',
      oneOf(...CHAT_STYLES),
      { usual: 'by the family of each model: OpenAI’s models as OpenAI, all others as compatible' },
    ),
    timeout_seconds: waits('Longest wait for a whole answer, or for the first event of a stream, in seconds.', 'chat'),
  },
  videos: {
    protocol: protocolSetting('videos'),
    ...serving,
    // The buyer waits for it, and public clients wait for a minute.
    timeout_seconds: waits('Longest wait until the vendor has accepted a job, in seconds.', 'videos', 55),
  },
}
type ServingSettings = typeof servingSettings

type Prefixed<Prefix extends string, Schemas> = {
  [Name in Exclude<keyof Schemas, 'protocol' | 'key_env'> & string as `${Prefix}_${Name}`]: Schemas[Name]
}

/** A vendor's settings of one kind: its protocol under the name of the kind, the others behind that name. */
function forKind<Prefix extends string, Schemas extends ServingSettings['chat' | 'videos']>(
  prefix: Prefix,
  title: string,
  schemas: Schemas,
): Prefixed<Prefix, Schemas> {
  const { base_url, protocol: _protocol, key_env: _key, ...others } = schemas
  return Object.fromEntries([
    [`${prefix}_base_url`, { ...base_url, description: `The root of the ${prefix} API.`, usual: '`base_url`' }],
    ...Object.entries(others).map(([name, schema]) => [`${prefix}_${name}`, about(title, schema)]),
  ]) as Prefixed<Prefix, Schemas>
}

function about<Schema extends TSchema>(title: string, schema: Schema): Schema {
  const { description = '' } = schema
  return { ...schema, description: `${title}: ${description.charAt(0).toLowerCase()}${description.slice(1)}` }
}

const { images, chat, videos } = servingSettings
/**
 * An account of the operator: `protocol` is for images, `chat` for chat, `video` for videos, all with the same address
 * and key unless set otherwise.
 */
export const VendorRow = Type.Object(
  {
    ...images,
    protocol: { ...images.protocol, description: 'The protocol for images.' },
    timeout_seconds: about('Images', images.timeout_seconds),
    parameters: about('Images', images.parameters),
    overrides: about('Images', images.overrides),
    chat: { ...chat.protocol, description: 'The protocol for chat.' },
    ...forKind('chat', 'Chat', chat),
    video: { ...videos.protocol, description: 'The protocol for videos.' },
    ...forKind('video', 'Videos', videos),
  },
  strict,
)
export type VendorTable = Readonly<Record<string, Static<typeof VendorRow>>>

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
    ...servingSettings.images,
  },
  strict,
)

/** How one row is served: a protocol with its settings, and the key from the environment. */
export type Serving<Kind extends ModelKind = 'images'> = Omit<
  Named<ServingSettings[Kind]>,
  'protocol' | 'baseUrl' | 'timeoutSeconds'
> & {
  readonly protocol: string
  /** By default that of the protocol's maker. */
  readonly baseUrl: string | undefined
  readonly key: string | undefined
  /** Of a whole answer or of the first event of a stream; for videos, of the submission. */
  readonly timeoutMs: number
}

/** The rows for sale, and how each is served; a row without a configured vendor has no serving. */
export type ServedCatalog<Row = ImageRow, Served = Serving> = {
  readonly rows: readonly Row[]
  readonly servings: ReadonlyMap<string, Served>
}

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

type Reading = { readonly env: Environment; readonly mistakes: string[] }
type Common = Omit<ServingSettings['images'], 'per_call' | 'mask_marks'>
type Fields<Kind extends ModelKind> = Partial<Static<TObject<ServingSettings[Kind]>>> & Static<TObject<Common>>

/** Adds mistakes by name; keys are looked up, never shown. */
export function resolveImages(
  vendors: VendorTable,
  settings: readonly Static<typeof ImageSetting>[],
  reading: Reading,
): ServedCatalog {
  const overrides = settings.map(({ edits, ...setting }) => ({
    ...without(setting, servingSettings.images),
    ...(edits && { edits: { maxImages: edits.max_images, mask: edits.mask } }),
  }))
  const { rows, mistakes } = overrideImages(imageRows, overrides)
  reading.mistakes.push(...mistakes)
  const tables = new Map(Object.entries(vendors).map(([name, row]) => [name, only('images', row)]))
  return { rows, servings: servingsOf('images', rows, { settings, tables, ...reading }) }
}

/** The settings of a table that say how one kind is served. */
function only<Kind extends ModelKind>(kind: Kind, table: object): Fields<Kind> {
  return Object.fromEntries(
    Object.entries(table).filter(([name]) => Object.hasOwn(servingSettings[kind], name)),
  ) as Fields<Kind>
}

/**
 * The settings of vendors for one kind. By default the address is the maker's; a key of one maker is never sent to
 * another.
 */
export function tablesFor<Kind extends 'chat' | 'videos'>(
  kind: Kind,
  vendors: VendorTable,
  { prefix, address }: { readonly prefix: 'chat' | 'video'; readonly address: string },
  mistakes: string[],
): ReadonlyMap<string, Fields<Kind>> {
  return new Map(
    Object.entries(vendors).flatMap(([name, { [prefix]: protocol, ...row }]) => {
      if (!protocol) return []
      const own = Object.entries(row).flatMap(([setting, value]) =>
        setting.startsWith(`${prefix}_`) ? [[setting.slice(prefix.length + 1), value]] : [],
      )
      const url = row[`${prefix}_base_url`] ?? row.base_url ?? addressOf(name, kind, protocol)
      if (url === 'unknown')
        mistakes.push(`vendors.${name}.${address}: missing; the protocol ${protocol} is served by many servers`)
      const base_url = url === 'own' ? undefined : url
      const table = { ...Object.fromEntries(own), protocol, base_url, key_env: row.key_env }
      return [[name, defined(table) as Fields<Kind>] as const]
    }),
  )
}

type ServedRow = { readonly id: string; readonly vendor: string; readonly servedBy?: string }
type Settings<Kind extends ModelKind> = readonly (Fields<Kind> & { readonly id: string })[]

/** How each row is served: by its own settings above those of its vendor. */
export function servingsOf<Kind extends ModelKind>(
  kind: Kind,
  rows: readonly ServedRow[],
  {
    settings,
    tables,
    ...reading
  }: Reading & { readonly settings: Settings<Kind>; readonly tables: ReadonlyMap<string, Fields<Kind>> },
): ReadonlyMap<string, Serving<Kind>> {
  const own = new Map(settings.map((setting) => [setting.id, only(kind, setting)]))
  return new Map(
    rows.flatMap(({ id, vendor, servedBy }) => {
      const fields = own.get(servedBy ?? id) ?? ({} as Fields<Kind>)
      const table = tables.get(vendor)
      // With another protocol the row is another service, which must not get the vendor's key.
      const isOther = fields.protocol && fields.protocol !== table?.protocol
      const merged = isOther ? fields : { ...table, ...fields }
      const { protocol, base_url } = merged
      if (!protocol) return []
      if (protocolOf(kind, protocol).isCommon && table?.protocol !== protocol && !base_url && !servedBy)
        reading.mistakes.push(`${kind} ${id}.base_url: missing; the protocol ${protocol} is served by many servers`)
      const at = fields.key_env ? `${kind} ${id}` : `vendors.${vendor}`
      return [[id, servingOf(kind, merged, { at, ...reading })] as const]
    }),
  )
}

export function servingOf<Kind extends ModelKind>(
  kind: Kind,
  table: Fields<Kind>,
  reading: Reading & { readonly at: string },
): Serving<Kind> {
  const common = named<Common>(servingSettings[kind], table)
  const { protocol, baseUrl, timeoutSeconds = TIMEOUT_S[kind], ...others } = common
  return { ...others, protocol, baseUrl, key: keyOf(table, reading), timeoutMs: timeoutSeconds * 1000 } as Serving<Kind>
}

/**
 * Reads the key from its variable. A variable that is not set is reported once, for the vendor or row that names it.
 */
function keyOf(
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
