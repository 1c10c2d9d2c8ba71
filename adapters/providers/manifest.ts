/**
 * What a provider says of itself. The server derives from it the settings of the file, the variables of the
 * environment, which provider serves which product, the report at the start and the tables of the guide. Nothing else
 * names a provider.
 */
import { type Static, type TObject, type TOptional, type TProperties, type TSchema, Type } from '@sinclair/typebox'
import type { ChatVendor, Clock, ImageVendor, Log, Vendors, VideoVendor } from '../../core/mod.ts'
import type { ChatStyle as Style, ChatVendorConfig } from './lib/chat/provider.ts'
import type { ImageVendorConfig } from './lib/image_provider.ts'
import type { VideoVendorConfig } from './lib/video_provider.ts'

// ── settings ────────────────────────────────────────────────────────────────────────────────────────────────────────

type Usual = {
  /** What applies without the setting, in words. A constant is the `default` of the schema instead. */
  readonly usual?: string
}

/** An optional setting with its description: what it does, its unit and its limits, in plain English. */
export function setting<Schema extends TSchema>(
  description: string,
  schema: Schema,
  options: Usual = {},
): TOptional<Schema> {
  return Type.Optional(needed(description, schema, options)) as unknown as TOptional<Schema>
}

/**
 * A setting that its product cannot do without. The rest of the gateway can, so in the file it is optional all the
 * same.
 */
export function needed<Schema extends TSchema>(description: string, schema: Schema, { usual }: Usual = {}): Schema {
  return { ...schema, description, ...(usual !== undefined && { usual }) }
}

type KeyOptions = {
  /** The form of the key, and how a mistake tells of it. */
  readonly pattern?: string
  readonly form?: string
}

/** A secret. It comes from the environment only, is never shown, and fits into a header as it stands. */
export function key(description: string, { pattern = '^[\\x21-\\x7e]+$', form }: KeyOptions = {}) {
  return Type.String({ description, pattern, isSecret: true, ...(form !== undefined && { form }) })
}

/** A setting that the environment alone gives, and that is no secret. */
export function environmentOnly<Schema extends TSchema>(description: string, schema: Schema): TOptional<Schema> {
  return Type.Optional({ ...schema, description, isEnvironmentOnly: true }) as unknown as TOptional<Schema>
}

/** An `http` or `https` URL. */
export const Url = Type.String({ pattern: '^https?://' })
/** The root of an API, to which paths are added. Its value is not shown: an address may hold a key. */
export const RootUrl = Type.String({ pattern: '^https?://', isRoot: true })

/** How a chat server takes the output limit and reasoning. */
export const CHAT_STYLES = ['openai', 'compatible'] as const satisfies readonly Style[]
export type ChatStyle = (typeof CHAT_STYLES)[number]

/** One of these words. */
export const oneOf = <const Words extends readonly string[]>(...words: Words) =>
  Type.Union(words.map((word: Words[number]) => Type.Literal(word)))

/** Values of settings by name, as the file and the environment give them. */
export type Values = Readonly<Record<string, unknown>>

// ── what a provider serves ──────────────────────────────────────────────────────────────────────────────────────────

/** Products that a provider serves as a whole, each with the interface of its vendor. */
export type ServiceVendors = {
  readonly [Product in keyof Omit<Vendors, 'images' | 'chat' | 'video' | 'media' | 'stream'>]-?: MadeFor<
    NonNullable<Vendors[Product]>
  >
}
/** A row of the catalog, of sounds for example, names the provider that serves it: a provider makes the vendor. */
type MadeFor<Member> = Member extends (row: never) => infer Vendor ? NonNullable<Vendor> : Member
export type Service = keyof ServiceVendors

/** What a provider may use of the machine. Heavy packages are imported by the first call that needs them. */
export type ProviderPorts = {
  readonly clock: Clock
  readonly log: Log
  random(bytes: number): Uint8Array
  /** Signs requests to Coinbase, as its facilitator does: a bearer token for one method and address. */
  cdpBearer(key: {
    readonly keyId: string
    readonly keySecret: string
  }): (method: string, url: URL, now: number) => Promise<string>
  /** Adds a step to the stop of the process. */
  onClose(step: () => unknown): void
}

/** How a provider serves one product. */
export type Offer<Settings, Vendor> = {
  /** What the setting of the product calls it; the name of the provider unless told. */
  readonly as?: string
  /** Settings that it reads; all of the provider's unless told. Those that the schema requires must be there. */
  readonly uses?: readonly (keyof Settings & string)[]
  /**
   * Settings any of which turns it on, where the setting of the product says nothing; those that it requires unless
   * told.
   */
  readonly startedBy?: readonly (keyof Settings & string)[]
  /** What an operator should know before choosing it. */
  readonly note?: string
  /** Whose account pays for its calls; as it is called unless told. */
  readonly account?: string
  /** Where several serve a product, higher ones are asked first; 0 unless told. */
  readonly rank?: number
  /** Other products that it works with only, each with the reason. */
  readonly requires?: Readonly<Partial<Record<Service, string>>>
  /** Fills in on devnet where nothing is set. */
  readonly isOnDevnet?: boolean
  /** Its answers are made up; the log warns where they are sold for real money. */
  readonly isSample?: boolean
  /** What it sells belongs to one process, and replicas would not know of each other's. */
  readonly isOneProcess?: boolean
  /** Mistakes that no schema finds. */
  check?(settings: Partial<Settings>): readonly string[]
  /** Audio: models of the operator's own server, each of which becomes a row. */
  models?(settings: Partial<Settings>): readonly string[]
  /** Undefined where this machine cannot run it; the log then says why. */
  create(settings: Settings, ports: ProviderPorts): Vendor | undefined
}

// ── models ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Kinds of models whose rows are served by accounts, each with what its protocols are made from and what they make. */
export type Models = {
  readonly images: { readonly config: ImageVendorConfig; readonly vendor: ImageVendor }
  readonly chat: { readonly config: ChatVendorConfig; readonly vendor: ChatVendor }
  readonly videos: { readonly config: VideoVendorConfig; readonly vendor: VideoVendor }
}
export type ModelKind = keyof Models

export type ModelPorts = Pick<ProviderPorts, 'clock' | 'log' | 'onClose'> & {
  countTokens(text: string): Promise<number>
}

export type Protocol<Kind extends ModelKind> = {
  /** The root under which its maker serves it; empty for what needs no address. */
  readonly baseUrl: string
  /** Many servers speak it, so an account that is none of ours has to say its address. */
  readonly isCommon?: boolean
  /** A program of ours, which stands in for models on devnet. */
  readonly isDemo?: boolean
  /** The demo's: it stands in for rows of this vendor only; for every row of its kind unless told. */
  readonly standsInFor?: string
  /** Protocols with one root, as chat completions and responses have; its own name unless told. */
  readonly family?: string
  create(config: Models[Kind]['config'], ports: ModelPorts): Models[Kind]['vendor']
}

/** Protocols by the name that an account calls them. */
export type Protocols = { readonly [Kind in ModelKind]?: Readonly<Record<string, Protocol<Kind>>> }

/** The account of a maker, which its key alone turns on. Rows of the catalog name it as their vendor. */
export type Account<Settings = Values> = {
  readonly name: string
  readonly key: keyof Settings & string
  /** The setting of another address. */
  readonly address: keyof Settings & string
  /** The setting of the style of its chat, where servers at another address differ. */
  readonly chatStyle?: keyof Settings & string
  /** The protocol that it speaks for each kind. */
  readonly speaks: Readonly<Partial<Record<ModelKind, string>>>
  /** Where it serves the family of its chat protocol; where the protocol's own maker does unless told. */
  readonly chatBaseUrl?: string
}

export type Manifest = {
  /** The name of its folder, and what settings call it. */
  readonly name: string
  /** What people call it. */
  readonly title: string
  /**
   * Its settings by name, each with a description. Secrets and what the environment alone gives are no part of the
   * file.
   */
  readonly settings: TProperties
  /** Variables of the environment, each with the setting that it stands for. */
  readonly environment: Readonly<Record<string, string>>
  readonly serves: { readonly [Product in Service]?: Offer<Values, ServiceVendors[Product]> }
  readonly protocols?: Protocols
  readonly account?: Account
}

/** The settings of a maker's account: its key and its address. */
export const addressOf = (title: string) => environmentOnly(`Another address of the ${title} API.`, Url)

/** A manifest, whose parts are checked against its own settings. */
export function provider<const Properties extends TProperties>(manifest: {
  readonly name: string
  readonly title: string
  readonly settings: Properties
  readonly environment: Readonly<Record<string, keyof Properties & string>>
  readonly serves: {
    readonly [Product in Service]?: Offer<Static<TObject<Properties>>, ServiceVendors[Product]>
  }
  readonly protocols?: Protocols
  readonly account?: Account<Properties>
}): Manifest {
  return manifest as unknown as Manifest
}

// ── reading a manifest ──────────────────────────────────────────────────────────────────────────────────────────────

export const isSecret = (schema: TSchema | undefined): boolean => schema?.isSecret === true
/** May stand in the configuration file. */
export const isInFile = (schema: TSchema): boolean => !isSecret(schema) && schema.isEnvironmentOnly !== true

/** Settings that an offer reads. */
export function usedBy({ settings }: Manifest, { uses }: Pick<Offer<Values, unknown>, 'uses'>): readonly string[] {
  return uses ?? Object.keys(settings)
}

/** Settings that an offer cannot do without. */
export function requiredBy(manifest: Manifest, offer: Pick<Offer<Values, unknown>, 'uses'>): readonly string[] {
  const { required = [] } = Type.Object(manifest.settings)
  return usedBy(manifest, offer).filter((name) => required.includes(name))
}

/**
 * What is served: an offer that has all that it requires. Throws a RangeError that names the first setting that is
 * missing.
 */
export function createVendor<Product extends Service>(
  { manifest, product, settings }: { manifest: Manifest; product: Product; settings: Values },
  ports: ProviderPorts,
): ServiceVendors[Product] | undefined {
  const offer = manifest.serves[product] as Offer<Values, ServiceVendors[Product]> | undefined
  if (!offer) throw new RangeError(`${manifest.title} does not serve ${product}`)
  const missing = requiredBy(manifest, offer).find((name) => settings[name] === undefined || settings[name] === '')
  if (missing !== undefined) throw new RangeError(`${manifest.title}: the setting ${missing} is missing`)
  return offer.create(settings, ports)
}
