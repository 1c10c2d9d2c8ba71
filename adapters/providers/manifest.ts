/**
 * The manifest of a provider. The server derives from it the settings of the file, the environment variables, which
 * provider serves which product, the report at the start and the tables of the guide. A provider is named nowhere else.
 */
import { type Static, type TObject, type TOptional, type TProperties, type TSchema, Type } from '@sinclair/typebox'
import type { ChatVendor, Clock, ImageVendor, Log, Vendors, VideoVendor } from '../../core/mod.ts'
import { Url } from '../settings.ts'
import type { ChatStyle as Style, ChatVendorConfig } from './lib/chat/provider.ts'
import type { ImageVendorConfig } from './lib/image_provider.ts'
import type { VideoVendorConfig } from './lib/video_provider.ts'

type KeyOptions = {
  /** The form of the key, as error messages describe it. */
  readonly pattern?: string
  readonly form?: string
}

/** A secret. It can only be set by the environment, is never shown, and is a valid header value. */
export function key(description: string, { pattern = '^[\\x21-\\x7e]+$', form }: KeyOptions = {}) {
  return Type.String({ description, pattern, isSecret: true, ...(form !== undefined && { form }) })
}

/** A setting that can only be set by the environment, and is not secret. */
export function environmentOnly<Schema extends TSchema>(description: string, schema: Schema): TOptional<Schema> {
  return Type.Optional({ ...schema, description, isEnvironmentOnly: true }) as unknown as TOptional<Schema>
}

/** The base URL of an API. Its value is not shown, because it may contain a key. */
export const RootUrl = Type.String({ pattern: '^https?://', isRoot: true })

/** How a chat server expects the output limit and reasoning parameters. */
export const CHAT_STYLES = ['openai', 'compatible'] as const satisfies readonly Style[]

export type ChatStyle = (typeof CHAT_STYLES)[number]

/** Values of settings by name, from the file and the environment. */
export type Values = Readonly<Record<string, unknown>>

// ── what a provider serves ──────────────────────────────────────────────────────────────────────────────────────────

/** Products that one provider serves as a whole, with their vendor interfaces. */
export type ServiceVendors = {
  readonly [Product in keyof Omit<Vendors, 'images' | 'chat' | 'video' | 'media' | 'stream'>]-?: MadeFor<
    NonNullable<Vendors[Product]>
  >
}

/** For products with catalog rows, such as audio, the row names its provider, which creates the vendor. */
type MadeFor<Member> = Member extends (row: never) => infer Vendor ? NonNullable<Vendor> : Member

export type Service = keyof ServiceVendors

/** Services whose providers act in the world, or move money, on the account of their key. */
export const ACTING_SERVICES: readonly Service[] = ['phone', 'voice', 'onramp', 'bridge']

/** Ports that a provider gets. Heavy packages are imported by the first call that needs them. */
export type ProviderPorts = {
  readonly clock: Clock
  readonly log: Log
  random(bytes: number): Uint8Array
  /** Signs requests to Coinbase, as the facilitator adapter does: a bearer token for one method and address. */
  cdpBearer(key: {
    readonly keyId: string
    readonly keySecret: string
  }): (method: string, url: URL, now: number) => Promise<string>
  /** Adds a step to the shutdown of the process. */
  onClose(step: () => unknown): void
}

/** How a provider serves one product. */
export type Offer<Settings, Vendor> = {
  /** Its name in the product's setting; by default the name of the provider. */
  readonly as?: string
  /** The settings that it reads, by default all. It requires those that the schema requires. */
  readonly uses?: readonly (keyof Settings & string)[]
  /** The settings of which any one turns it on when the product's setting is absent; by default the required ones. */
  readonly startedBy?: readonly (keyof Settings & string)[]
  /** A note that operators should read before they choose it. */
  readonly note?: string
  /** The account that pays for its calls; by default its name. */
  readonly account?: string
  /** Order among the providers of a product, highest first; by default 0. */
  readonly rank?: number
  /** Other products that it requires, each with the reason. */
  readonly requires?: Readonly<Partial<Record<Service, string>>>
  /** Used on devnet when nothing is configured. */
  readonly isOnDevnet?: boolean
  /** Its answers are made up; the log warns when they are sold for real money. */
  readonly isSample?: boolean
  /** It belongs to one process, and other replicas cannot find what it sold. */
  readonly isOneProcess?: boolean
  /** Checks that a schema cannot express. */
  check?(settings: Partial<Settings>): readonly string[]
  /** Audio: models of the operator's own server, each of which becomes a catalog row. */
  models?(settings: Partial<Settings>): readonly string[]
  /** Undefined when it cannot run on this machine; the log then says why. */
  create(settings: Settings, ports: ProviderPorts): Vendor | undefined
}

// ── models ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Kinds of models whose rows are served by accounts: the configuration of each kind, and its vendor interface. */
export type Models = {
  readonly images: { readonly config: ImageVendorConfig; readonly vendor: ImageVendor }
  readonly chat: { readonly config: ChatVendorConfig; readonly vendor: ChatVendor }
  readonly videos: { readonly config: VideoVendorConfig; readonly vendor: VideoVendor }
}

export type ModelKind = keyof Models

export type ModelPorts = Pick<ProviderPorts, 'clock' | 'log' | 'onClose'> & {
  countTokens(text: string): Promise<number>
}

/** A free request: a path below the base URL, such as a list of models, and the headers that carry the key. */
export type KeyCheck = { readonly path: string; headers(key: string): Readonly<Record<string, string>> }

/** The list of models of OpenAI and of servers like it. */
export const bearerModels: KeyCheck = { path: '/models', headers: (key) => ({ authorization: `Bearer ${key}` }) }

export type Protocol<Kind extends ModelKind> = {
  /** The base URL of its maker; empty when no address is needed. */
  readonly baseUrl: string
  /** Many servers implement it, so accounts of other makers must set an address. */
  readonly isCommon?: boolean
  /** Our own program, which replaces models on devnet. */
  readonly isDemo?: boolean
  /** For the demo: the vendor whose rows it replaces; by default all rows of its kind. */
  readonly standsInFor?: string
  /** Protocols that share a base URL, as chat completions and responses do; by default its own name. */
  readonly family?: string
  /** How `farebox check` finds out, without a charge, whether a key is accepted. */
  readonly keyCheck?: KeyCheck
  create(config: Models[Kind]['config'], ports: ModelPorts): Models[Kind]['vendor']
}

/** Protocols by the name that accounts use. */
type Protocols = { readonly [Kind in ModelKind]?: Readonly<Record<string, Protocol<Kind>>> }

/** The account of a maker, which its API key turns on. Catalog rows name it as their vendor. */
export type Account<Settings = Values> = {
  readonly name: string
  readonly key: keyof Settings & string
  /** The setting with an alternative address. */
  readonly address: keyof Settings & string
  /** The setting with the chat style, for servers at another address. */
  readonly chatStyle?: keyof Settings & string
  /** Its protocol for each kind. */
  readonly speaks: Readonly<Partial<Record<ModelKind, string>>>
  /** The base URL of its chat API; by default that of the protocol's maker. */
  readonly chatBaseUrl?: string
}

export type Manifest = {
  /** The name of its folder, used in settings. */
  readonly name: string
  /** Its display name. */
  readonly title: string
  /** Its settings by name, each with a description. Secrets and environment-only settings are not part of the file. */
  readonly settings: TProperties
  /** Environment variables, each with its setting. */
  readonly environment: Readonly<Record<string, string>>
  readonly serves: { readonly [Product in Service]?: Offer<Values, ServiceVendors[Product]> }
  readonly protocols?: Protocols
  readonly account?: Account
}

/** The settings of a maker's account: its key and its address. */
export const addressOf = (title: string) => environmentOnly(`Another address of the ${title} API.`, Url)

/** A manifest, type-checked against its own settings. */
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

/** Whether a setting may be in the configuration file. */
export const isInFile = (schema: TSchema): boolean => !isSecret(schema) && schema.isEnvironmentOnly !== true

/** Settings that an offer reads. */
export function usedBy({ settings }: Manifest, { uses }: Pick<Offer<Values, unknown>, 'uses'>): readonly string[] {
  return uses ?? Object.keys(settings)
}

/** The settings that an offer requires. */
export function requiredBy(manifest: Manifest, offer: Pick<Offer<Values, unknown>, 'uses'>): readonly string[] {
  const { required = [] } = Type.Object(manifest.settings)
  return usedBy(manifest, offer).filter((name) => required.includes(name))
}

/** Creates the vendor of an offer. Throws a RangeError that names the first missing setting. */
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
