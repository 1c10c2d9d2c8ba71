/** One schema for the file and the environment. Reports every mistake at once, by name, and never prints a secret. */
import { existsSync, readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { parse } from 'smol-toml'
import { databases } from '../../adapters/storage/databases.ts'
import type { CatalogRow, Retention } from '../../core/mod.ts'
import { isFields } from '../../core/lib/json.ts'
import { dollars, roundUp, type Usdc } from '../../core/x402/money.ts'
import { type GatewayConfig, GatewayRow, resolveGateways } from './gateways.ts'
import { type ServedChat, ChatSetting, resolveChat } from './chat.ts'
import { type Environment, nearestName } from './settings.ts'
import { fromEnvironment } from './makers.ts'
import { type AudioConfig, audioSettings, resolveAudio } from './audio.ts'
import { keyedServices, resolveServices, type Services, serviceSettings, serviceVariables } from './services.ts'
import { resolveRetention, RetentionTable, retentionVariables } from './retention.ts'
import { declaredSettings, resolveRows } from './rows.ts'
import { resolveRpc, type RpcNodes } from './rpc.ts'
import { resolveVideos, type ServedVideos, VideoSetting } from './video.ts'
import { oneOf, setting } from '../../adapters/providers/manifest.ts'
import { checkVendors, ImageSetting, keyedVendors, resolveImages, type ServedCatalog, VendorRow } from './vendors.ts'

/** Where everything is kept when nothing else is said, relative to the working directory. */
export const DEFAULT_DIR = '.farebox'

const strict = { additionalProperties: false }
const Wallets = Type.Array(Type.String({ pattern: '^0x[0-9a-fA-F]{40}$' }))
const Requests = (usual: number) => Type.Integer({ minimum: 1, maximum: 1_000_000, default: usual })
const Bytes = (usual: number) => Type.Integer({ minimum: 1_024, maximum: 1 << 28, default: usual })

/** The configuration file. Descriptions and defaults are shown in `docs/configuration.md`. */
export const File = Type.Object(
  {
    port: setting(
      'The port that all gateways share. 0 picks a free port.',
      Type.Integer({ minimum: 0, maximum: 65_535, default: 4020 }),
    ),
    host: setting(
      'The address to listen on. Use `0.0.0.0` to accept connections from other machines.',
      Type.String({ minLength: 1, default: '127.0.0.1' }),
    ),
    public_origin: setting(
      'The origin of poll and media URLs, such as `https://ai.example.com`. Gateways that are called by another host name keep that name and use the scheme given here.',
      Type.String({ pattern: '^https?://[^/]+$' }),
      { usual: 'the Host header of each request' },
    ),
    contact: setting(
      'Where to reach you, for the documents that clients and indexers read: an http(s) URL or an e-mail address.',
      Type.String({ pattern: '^(https?://\\S+|[^\\s@:/]+@[^\\s@:/]+)$', maxLength: 200 }),
      { usual: 'the docs page of the gateway' },
    ),
    database_url: setting(
      'Where calls and payments are recorded: `memory:`, `sqlite:<path>` or `postgres://…`. SQLite serves one process; Postgres serves any number of replicas.',
      Type.String({ pattern: '^(memory:|sqlite:.+|postgres(ql)?://.+)$', default: `sqlite:${DEFAULT_DIR}/farebox.db` }),
    ),
    object_store: setting(
      'Where images, clips and sounds are stored: `memory:`, `file:<dir>` or `s3://bucket/prefix?region=&endpoint=&public=&path_style=`.',
      Type.String({ pattern: '^(memory:|file:.+|s3://.+)$', default: `file:${DEFAULT_DIR}/media` }),
    ),
    operator_token: setting(
      'Enables `/metrics` and the operator routes for requests with `Authorization: Bearer <token>`. At least 16 printable ASCII characters without spaces.',
      Type.String({ pattern: '^[!-~]{16,}$' }),
      { usual: 'operator routes are off' },
    ),
    max_body_bytes: setting('The largest request body, in bytes. A larger one is answered with 413.', Bytes(1 << 20)),
    max_upload_bytes: setting(
      'The largest request body of routes that take files and of chat, in bytes. A larger one is answered with 413.',
      Bytes(32 << 20),
    ),
    body_memory_bytes: setting(
      'Memory for request bodies over 64 KiB until they are answered, in bytes. Each body counts three times (bytes, text, parsed values), and six times if it has characters beyond Latin-1. When the budget is used up, further bodies get 503. At least six times `max_upload_bytes`.',
      Type.Integer({ minimum: 1 << 20 }),
      { usual: '8 × `max_upload_bytes`' },
    ),
    inline_window_seconds: setting(
      'How long a request waits for its result before it becomes a job to poll, in seconds. 0 makes every such call a job.',
      Type.Number({ minimum: 0, maximum: 240 }),
      { usual: '30 for images, 60 for music' },
    ),
    drain_seconds: setting(
      'How long a process that received SIGTERM or SIGINT waits for work in progress, in seconds.',
      Type.Number({ minimum: 0, maximum: 3_600, default: 30 }),
    ),
    lease_seconds: setting(
      'How long the calls and the relayer key of a crashed process stay reserved before other replicas take them over, in seconds.',
      Type.Number({ minimum: 5, maximum: 600, default: 30 }),
    ),
    trusted_proxies: setting(
      'Addresses and CIDR ranges of reverse proxies, such as `10.0.0.0/8`. `X-Forwarded-For`, `-Host` and `-Proto` count only from these.',
      Type.Array(Type.String({ minLength: 2 })),
      { usual: 'none' },
    ),
    bare_v1: setting(
      'Serves `/v1/*` like `/api/v1/*`, for clients that append `/v1` themselves.',
      Type.Boolean({ default: false }),
    ),
    log_level: setting('The least important level that is logged. The access log is written at `info`.', {
      ...oneOf('silent', 'error', 'warn', 'info'),
      default: 'info',
    }),
    gateways: setting(
      'Gateways: where they answer, what they sell and how they are paid. See [gateways](#gateways).',
      Type.Array(GatewayRow),
      { usual: 'the devnet' },
    ),
    vendors: setting(
      'Accounts at vendors of images, chat and video, by name. See [vendors](#vendors).',
      Type.Record(Type.String({ pattern: '^[a-z0-9-]{1,40}$' }), VendorRow),
      { usual: 'vendors whose API keys are set' },
    ),
    images: setting('Changes to the image catalog, by model `id`. See [images](#images).', Type.Array(ImageSetting), {
      usual: 'the built-in catalog',
    }),
    chat: setting('Changes to the chat catalog, by model `id`. See [chat](#chat).', Type.Array(ChatSetting), {
      usual: 'the built-in catalog',
    }),
    videos: setting('Changes to the video catalog, by model `id`. See [videos](#videos).', Type.Array(VideoSetting), {
      usual: 'the built-in catalog',
    }),
    reference_media: setting(
      'Accepts reference videos and sounds in video requests. `false` answers them with 503.',
      Type.Boolean({ default: true }),
    ),
    retention: setting(
      'How long results, ledger rows and media are kept. See [retention](#retention).',
      RetentionTable,
      {
        usual: '48 hours unpaid, 30 days paid',
      },
    ),
    poll_keys: setting(
      'Hex keys of 16 to 64 bytes that sign poll URLs. The first one signs; all of them are accepted.',
      Type.Array(Type.String({ pattern: '^([0-9a-fA-F]{2}){16,64}$' }), { minItems: 1, maxItems: 20 }),
      { usual: 'one generated key, kept in the database' },
    ),
    chat_receipt_seconds: setting(
      'How long a finished chat answer waits for its settlement, in seconds. After that it is delivered unless the payment is known to be refused.',
      Type.Number({ minimum: 0, maximum: 60, default: 10 }),
    ),
    new_wallet_calls: setting(
      'How many chat calls a wallet that has never paid here may have open at once.',
      Type.Integer({ minimum: 1, maximum: 1_000_000, default: 2 }),
    ),
    new_wallet_usdc: setting(
      'What these calls may be worth together, in USDC, as text. The first call is accepted whatever it costs.',
      Type.String({ pattern: '^[0-9]{1,6}(\\.[0-9]{1,6})?$', default: '0.05' }),
    ),
    free_per_minute: setting('Requests to free models per minute and client address.', Requests(30)),
    free_per_hour: setting('Requests to free models per hour and client address.', Requests(300)),
    max_connections: setting(
      'Open connections of this process. When there are more, idle ones are closed first. Linux only.',
      Type.Integer({ minimum: 16, maximum: 1_000_000 }),
      { usual: 'three quarters of the open-file limit, at most 20,000' },
    ),
    max_connections_per_address: setting(
      'Open connections of one client address. Trusted proxies have no limit of their own. Linux only.',
      Type.Integer({ minimum: 1, maximum: 1_000_000 }),
      { usual: 'half of `max_connections`' },
    ),
    unpaid_characters_per_minute: setting(
      'Characters of chat prompts that are tokenized per minute and client address for requests without a verified payment, in each process. A character beyond ASCII counts as its UTF-8 bytes, and a body of more than 64 KiB for an eighth of its bytes besides. More is answered with 429.',
      Type.Integer({ minimum: 100_000, maximum: 10_000_000_000, default: 10_000_000 }),
    ),
    generate_content_payers: setting('Wallets (`0x…`) that may use `:generateContent`.', Wallets, {
      usual: 'nobody; on devnet its buyer',
    }),
    background_payers: setting('Wallets (`0x…`) that may use `background: true` of `/api/v1/responses`.', Wallets, {
      usual: 'everybody',
    }),
    trusted_hosts: setting(
      'Hosts (`host:port`) on your own network from which vendor media may be fetched although their addresses are private.',
      Type.Array(Type.String({ pattern: '^[^/ ]+$' })),
      { usual: 'none' },
    ),
    ...audioSettings,
    ...(declaredSettings as Record<never, never>),
    // Known by name to the providers alone.
    ...(serviceSettings as Record<never, never>),
  },
  strict,
)

/** Environment variables that stand for a setting of the file, and win over it. */
export const variables: Readonly<Record<string, string>> = {
  PORT: 'port',
  HOST: 'host',
  PUBLIC_ORIGIN: 'public_origin',
  OPERATOR_CONTACT: 'contact',
  DATABASE_URL: 'database_url',
  OBJECT_STORE: 'object_store',
  OPERATOR_TOKEN: 'operator_token',
  MAX_BODY_BYTES: 'max_body_bytes',
  MAX_UPLOAD_BYTES: 'max_upload_bytes',
  BODY_MEMORY_BYTES: 'body_memory_bytes',
  INLINE_WINDOW_SECONDS: 'inline_window_seconds',
  DRAIN_SECONDS: 'drain_seconds',
  LEASE_SECONDS: 'lease_seconds',
  LOG_LEVEL: 'log_level',
  POLL_KEYS: 'poll_keys',
  CHAT_RECEIPT_SECONDS: 'chat_receipt_seconds',
  NEW_WALLET_CALLS: 'new_wallet_calls',
  NEW_WALLET_USDC: 'new_wallet_usdc',
  FREE_PER_MINUTE: 'free_per_minute',
  FREE_PER_HOUR: 'free_per_hour',
  MAX_CONNECTIONS: 'max_connections',
  MAX_CONNECTIONS_PER_ADDRESS: 'max_connections_per_address',
  UNPAID_CHARACTERS_PER_MINUTE: 'unpaid_characters_per_minute',
  ...retentionVariables,
  ...serviceVariables,
}

export type Config = Services & {
  readonly port: number
  readonly host: string
  readonly publicOrigin: string | undefined
  /** Where to reach the operator: an http(s) URL or an e-mail address. */
  readonly contact: string | undefined
  readonly database:
    | { readonly kind: 'memory' }
    | { readonly kind: 'sqlite'; readonly path: string }
    | { readonly kind: 'postgres'; readonly url: string }
  readonly objects:
    | { readonly kind: 'memory' }
    | { readonly kind: 'file'; readonly dir: string }
    | { readonly kind: 's3'; readonly url: string; readonly env: Environment }
  /** Opens `/metrics` and the operator's routes; without one they do not exist. */
  readonly operatorToken: string | undefined
  readonly maxBody: number
  readonly maxUpload: number
  /** Memory of request bodies until they are answered. */
  readonly bodyMemory: number
  readonly inlineMs: number | undefined
  readonly drainMs: number
  /** How long a process that died keeps its work and its relayer key from the others. */
  readonly leaseMs: number
  readonly trustedProxies: readonly string[]
  readonly bareV1: boolean
  readonly logLevel: string
  /** Empty means devnet: the embedded local system. */
  readonly gateways: readonly GatewayConfig[]
  /** Image rows for sale and how each is served; what nobody is configured for, the embedded vendor draws on devnet. */
  readonly images: ServedCatalog
  /** Chat rows for sale and how each is served; nobody stands in for a model. */
  readonly chat: ServedChat
  /**
   * Video rows for sale and how each is served; on devnet the embedded vendor films what nobody is configured for,
   * vendor-f's rows aside.
   */
  readonly videos: ServedVideos
  readonly featureFlags: { readonly referenceMedia?: boolean }
  readonly retention: Retention
  /** In hex, newest first; undefined where storage keeps one. */
  readonly pollKeys: readonly string[] | undefined
  /** Vendors that no file names: a key in the environment brought them. */
  readonly environmentVendors: readonly string[]
  /** How long an answer that is ready waits for its settlement. */
  readonly receiptMs: number
  /** What a wallet that has never paid may have open of what is served before it is paid for. */
  readonly newWallet: { readonly calls: number; readonly worth: Usdc }
  readonly freePerMinute: number
  readonly freePerHour: number
  /** Undefined: by the limit of descriptors. */
  readonly maxConnections: number | undefined
  readonly maxConnectionsPerAddress: number | undefined
  /** Text that one address may have counted without paying. */
  readonly unpaidCharacters: number
  /** Wallets by list; a list that is not set is everybody's, or nobody's, as the endpoint says. */
  readonly allowlists: { readonly generate_content?: readonly string[]; readonly background?: readonly string[] }
  /** `host:port` of vendors on the operator's own network, whose media may be fetched from private addresses. */
  readonly trustedHosts: readonly string[]
  /** Audio rows for sale. */
  readonly audio: AudioConfig
  /** Rows for sale of the kinds that products declare, by kind. */
  readonly declared: ReadonlyMap<string, readonly CatalogRow[]>
  /** Nodes that answer JSON-RPC, by the slug of their network. */
  readonly rpc: RpcNodes
}

export type ConfigResult = { ok: true; config: Config } | { ok: false; mistakes: readonly string[] }

/** Reads `farebox.toml`, or the file that FAREBOX_CONFIG names, then the environment. */
export function readConfig(env: Environment): ConfigResult {
  const path = env.FAREBOX_CONFIG ?? 'farebox.toml'
  if (!existsSync(path)) {
    if (env.FAREBOX_CONFIG) return { ok: false, mistakes: [`FAREBOX_CONFIG: there is no file at ${path}`] }
    return parseConfig('', env)
  }
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    return { ok: false, mistakes: [`${path}: cannot be read (${(error as { code?: string }).code})`] }
  }
  return parseConfig(text, env, path)
}

export function parseConfig(toml: string, env: Environment = {}, path = 'farebox.toml'): ConfigResult {
  let file: Record<string, unknown>
  try {
    file = parse(toml)
  } catch (error) {
    const { message, line, column } = error as Error & { line?: number; column?: number }
    const at = line === undefined ? '' : `:${line}:${column}`
    // The parser quotes the line, which may hold a secret: only its first sentence is shown.
    return { ok: false, mistakes: [`${path}${at}: ${message.split('\n', 1)[0]}`] }
  }
  const settings: Record<string, unknown> = { ...file }
  const origin = new Map<string, string>()
  for (const [variable, setting] of Object.entries(variables)) {
    const value = env[variable]
    if (value === undefined || value === '') continue
    const [name = setting, member] = setting.split('.')
    const read = typed(schemaOf(name, member), value)
    // A table that is none is told as it stands in the file.
    if (member === undefined) settings[name] = read
    else if (isFields(settings[name] ?? {})) settings[name] = { ...(settings[name] as object), [member]: read }
    origin.set(setting, variable)
  }
  const mistakes = problems(settings, origin)
  if (mistakes.length > 0) return { ok: false, mistakes }
  return resolve(settings as Static<typeof File>, env)
}

function schemaOf(name: string, member?: string): TSchema {
  const properties: Readonly<Record<string, TSchema>> = File.properties
  const table = properties[name]
  const schema = member === undefined ? table : (table?.properties as Record<string, TSchema> | undefined)?.[member]
  if (!schema) throw new Error(`a variable stands for ${name}${member ? `.${member}` : ''}, which is no setting`)
  return schema
}

/** Environment values are text; numbers are read where the schema wants them, and lists at their commas. */
function typed(schema: TSchema, value: string): unknown {
  if (schema.type === 'array')
    return value
      .split(',')
      .map((part) => part.trim())
      .filter((part) => part !== '')
  const isNumber = schema.type === 'integer' || schema.type === 'number'
  return isNumber && value.trim() !== '' && Number.isFinite(Number(value)) ? Number(value) : value
}

function problems(settings: unknown, origin: ReadonlyMap<string, string>): string[] {
  const found = new Map<string, string>()
  for (const { path, message, value, schema } of Value.Errors(File, settings)) {
    const name = path.slice(1).replaceAll('/', '.')
    if (found.has(name)) continue
    const isUnknown = message.startsWith('Unexpected property')
    const problem = isUnknown
      ? unknownSetting(name, schema)
      : `${allowed(schema, { name, message, value })}${valueText(name, value)}`
    found.set(name, `${origin.get(name) ?? origin.get(name.split('.', 1)[0] ?? name) ?? name}: ${problem}`)
  }
  return [...found.values()]
}

function unknownSetting(name: string, { properties = {} }: TSchema): string {
  const meant = nearestName(name.split('.').at(-1) ?? name, Object.keys(properties as object))
  return `there is no such setting${meant === undefined ? '' : `; did you mean ${meant}?`}`
}

/** What a pattern asks for, in words. */
const WORDS: Readonly<Record<string, string>> = {
  database_url: 'must be memory:, sqlite:FILE or postgres://…',
  contact: 'must be an http or https URL, or an e-mail address',
  operator_token: 'must have at least 16 characters, without spaces',
  poll_keys: 'must be 32 to 128 hex digits, an even number of them',
}

function allowed(
  schema: TSchema,
  { name, message, value }: { readonly name: string; readonly message: string; readonly value: unknown },
): string {
  if (schema.type === 'string' && typeof value === 'number') return 'must be text: write it in quotes'
  const words = WORDS[name.split('.', 1)[0] ?? name]
  if (typeof schema.pattern === 'string') return words ?? `must match ${schema.pattern}`
  if (Array.isArray(schema.anyOf))
    return `must be one of ${schema.anyOf.map((option: TSchema) => option.const).join(', ')}`
  return message.charAt(0).toLowerCase() + message.slice(1)
}

function valueText(name: string, value: unknown): string {
  if (value === undefined) return ''
  if (/token|key|secret|url|store/.test(name)) return ' (its value is not shown)'
  return `, got ${JSON.stringify(value)?.slice(0, 80)}`
}

function resolve(file: Static<typeof File>, env: Environment): ConfigResult {
  const mistakes: string[] = []
  const [perMinute, perHour] = [file.free_per_minute ?? 30, file.free_per_hour ?? 300]
  if (perHour < perMinute)
    mistakes.push(`free_per_hour: must be at least free_per_minute, which is ${perMinute}, got ${perHour}`)
  const database = file.database_url ?? `sqlite:${DEFAULT_DIR}/farebox.db`
  const objects = file.object_store ?? `file:${DEFAULT_DIR}/media`
  const gateways = resolveGateways(file.gateways ?? [], { env, mistakes, port: file.port ?? 4020 })
  for (const [index, range] of (file.trusted_proxies ?? []).entries()) {
    if (!isRange(range))
      mistakes.push(
        `trusted_proxies.${index}: must be an address or a range such as 10.0.0.0/8, got ${JSON.stringify(range)}`,
      )
  }
  const maxUpload = file.max_upload_bytes ?? 32 << 20
  if ((file.body_memory_bytes ?? Number.POSITIVE_INFINITY) < 6 * maxUpload)
    mistakes.push(
      `body_memory_bytes: must be at least six times max_upload_bytes (${6 * maxUpload}), got ${file.body_memory_bytes}`,
    )
  const retention = resolveRetention(file.retention ?? {}, mistakes)
  const isDevnet = gateways.length === 0
  const host = file.host ?? '127.0.0.1'
  const named = file.vendors ?? {}
  checkVendors(named, mistakes)
  const found = fromEnvironment(env, { named, isDevnet, mistakes })
  const vendors = { ...found.vendors, ...named }
  const images = resolveImages(vendors, file.images ?? [], env, mistakes)
  const chat = resolveChat(vendors, file.chat ?? [], { env, added: found.rows, mistakes })
  const videos = resolveVideos(vendors, file.videos ?? [], { env, mistakes })
  const isShared = databases[databaseOf(database).kind].isShared
  const { services } = resolveServices(file, { env, mistakes, isDevnet, isShared })
  const audio = resolveAudio(file, { services, mistakes })
  const declared = resolveRows(file, { mistakes })
  const rpc = resolveRpc(file as { rpc?: RpcNodes }, { env, mistakes })
  const variables = keyedServices({ services })
  const keyed = realVendors({ images, chat, videos, services }).map((name) => {
    const variable = vendors[name]?.key_env ?? variables.get(name)
    return variable ? `${name} (${variable})` : name
  })
  if (isDevnet && !isLoopback(host) && keyed.length > 0) {
    mistakes.push(
      `HOST: on ${host} others could buy real work with play money; name a gateway, or listen on 127.0.0.1, or remove the keys of ${keyed.join(', ')}`,
    )
  }
  if (mistakes.length > 0) return { ok: false, mistakes }
  return {
    ok: true,
    config: {
      port: file.port ?? 4020,
      host,
      publicOrigin: file.public_origin,
      contact: file.contact,
      database: databaseOf(database),
      objects: objectsOf(objects, env),
      operatorToken: file.operator_token,
      maxBody: file.max_body_bytes ?? 1 << 20,
      maxUpload,
      bodyMemory: file.body_memory_bytes ?? 8 * maxUpload,
      inlineMs: file.inline_window_seconds === undefined ? undefined : file.inline_window_seconds * 1000,
      drainMs: (file.drain_seconds ?? 30) * 1000,
      leaseMs: (file.lease_seconds ?? 30) * 1000,
      trustedProxies: file.trusted_proxies ?? [],
      bareV1: file.bare_v1 ?? false,
      logLevel: file.log_level ?? 'info',
      gateways: isDevnet ? [] : gateways,
      images,
      chat,
      videos,
      featureFlags: file.reference_media === undefined ? {} : { referenceMedia: file.reference_media },
      retention,
      pollKeys: file.poll_keys,
      environmentVendors: Object.keys(found.vendors),
      receiptMs: (file.chat_receipt_seconds ?? 10) * 1000,
      newWallet: { calls: file.new_wallet_calls ?? 2, worth: roundUp(dollars(file.new_wallet_usdc ?? '0.05')) },
      freePerMinute: file.free_per_minute ?? 30,
      freePerHour: file.free_per_hour ?? 300,
      maxConnections: file.max_connections,
      maxConnectionsPerAddress: file.max_connections_per_address,
      unpaidCharacters: file.unpaid_characters_per_minute ?? 10_000_000,
      allowlists: {
        ...(file.generate_content_payers && { generate_content: file.generate_content_payers }),
        ...(file.background_payers && { background: file.background_payers }),
      },
      trustedHosts: file.trusted_hosts ?? [],
      rpc,
      services,
      audio,
      declared,
    },
  }
}

function databaseOf(url: string): Config['database'] {
  if (url === 'memory:') return { kind: 'memory' }
  if (url.startsWith('sqlite:')) return { kind: 'sqlite', path: url.slice('sqlite:'.length) }
  return { kind: 'postgres', url }
}

function objectsOf(url: string, env: Environment): Config['objects'] {
  if (url === 'memory:') return { kind: 'memory' }
  if (url.startsWith('file:')) return { kind: 'file', dir: url.slice('file:'.length) }
  const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION } = env
  return { kind: 's3', url, env: { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION } }
}

/** An address, or a range of them in CIDR notation. */
function isRange(text: string): boolean {
  const [address = '', bits, ...more] = text.split('/')
  const family = isIP(address)
  if (family === 0 || more.length > 0) return false
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 6 ? 128 : 32))
}

/** Vendors and services whose calls are charged to the operator. */
export function realVendors({
  images,
  chat,
  videos,
  services,
}: Pick<Config, 'images' | 'chat' | 'videos' | 'services'>): readonly string[] {
  return [
    ...new Set([
      ...keyedVendors(images),
      ...keyedVendors(chat),
      ...keyedVendors(videos),
      ...keyedServices({ services }).keys(),
    ]),
  ]
}

/** Loopback names and addresses: where play money may be shown. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host)
}
