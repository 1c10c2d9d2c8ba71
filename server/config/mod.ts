/**
 * The configuration of a process, resolved from the file and the environment. Reports every mistake at once, by name,
 * and never prints a secret.
 */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { isIP } from 'node:net'
import { dirname, join, resolve as resolvePath } from 'node:path'
import type { Static } from '@sinclair/typebox'
import { parse } from 'smol-toml'
import { storageManifest } from '../../adapters/storage/manifests.ts'
import type { CatalogRow, Jwk, Retention } from '../../core/mod.ts'
import { NEW_WALLET_LIMIT, newWalletsLimit, type NewWalletsLimit } from '../../core/payment/unpaid/new_wallets.ts'
import { dollars, roundUp, type Usdc } from '../../core/x402/money.ts'
import type { Markup } from '../../core/x402/pricing.ts'
import { DEFAULT_DIR, DEVNET_DIR, type File, readSettings, variables } from './file.ts'
import { type Position, positionOf, positionsIn } from './errors/positions.ts'
import { type GatewayConfig, resolveGateways } from './gateways.ts'
import { type ServedChat, resolveChat } from './chat.ts'
import { type Environment, isFile, secretsFromFiles } from './settings.ts'
import { fromEnvironment } from './makers.ts'
import { type AudioConfig, resolveAudio } from './audio.ts'
import { keyedServices, resolveServices, type Services } from './services.ts'
import { resolveRetention } from './retention.ts'
import { resolveRows } from './rows.ts'
import { readSigningKey } from './keys/signing_key.ts'
import { resolveRpc, type RpcNodes } from './rpc.ts'
import { productionSettings } from './errors/production.ts'
import { resolveVideos, type ServedVideos } from './video.ts'
import { readTelemetry, type TelemetryConfig } from '../signals/otel_config.ts'
import { checkVendorNames, checkVendors, keyedVendors, resolveImages, type ServedCatalog } from './vendors.ts'

export { DEFAULT_DIR, DEVNET_DIR, File, variables } from './file.ts'

export type Config = Services & {
  readonly port: number
  readonly host: string
  readonly publicOrigin: string | undefined
  /** Where to reach the operator: an http(s) URL or an e-mail address. */
  readonly contact: string | undefined
  /** The URL of the storage. It may hold a password. */
  readonly database: string
  /** A SQLite file of at most this size is checked at the start. */
  readonly databaseCheckBytes: number
  readonly objects:
    | { readonly kind: 'memory' }
    | { readonly kind: 'file'; readonly dir: string }
    | { readonly kind: 's3'; readonly url: string; readonly env: Environment }
  /** Where old ledger rows are moved. */
  readonly archive: Config['objects'] | undefined
  /** Grants access to `/metrics` and the operator's routes; without a token they return 404. */
  readonly operatorToken: string | undefined
  /** Where alerts are posted, and what signs them. */
  readonly alertWebhook: { readonly url: string; readonly secret: string | undefined } | undefined
  /** Where traces and metrics are exported to. */
  readonly telemetry: TelemetryConfig | undefined
  readonly maxBody: number
  readonly maxUpload: number
  /** Memory for request bodies until they are answered, in bytes. */
  readonly bodyMemory: number
  readonly inlineMs: number | undefined
  /** How long a stopping process still accepts requests. */
  readonly drainGraceMs: number
  readonly drainMs: number
  /** How long the work and the relayer key of a crashed process stay reserved. */
  readonly leaseMs: number
  /** The most requests under way at one vendor. */
  readonly vendorRequests: number
  readonly trustedProxies: readonly string[]
  readonly bareV1: boolean
  readonly logLevel: string
  /** Empty for devnet, the embedded local system. */
  readonly gateways: readonly GatewayConfig[]
  /** Where a devnet keeps its chain and its keys; undefined where it keeps nothing. */
  readonly devnetDir: string | undefined
  /** Settings that no devnet needs, by the names that they were given. */
  readonly production: readonly string[]
  /** Image rows for sale, and how each is served; on devnet the demo serves rows without a configured vendor. */
  readonly images: ServedCatalog
  /** Chat rows for sale, and how each is served; the demo never replaces a chat model. */
  readonly chat: ServedChat
  /**
   * Video rows for sale, and how each is served; on devnet the demo serves rows without a configured vendor, except
   * those of vendor-f.
   */
  readonly videos: ServedVideos
  readonly featureFlags: { readonly referenceMedia?: boolean }
  readonly retention: Retention
  /** In hex, newest first; undefined when storage keeps one. */
  readonly pollKeys: readonly string[] | undefined
  /** Signs offers and receipts; undefined when they are not signed. */
  readonly signingKey: Jwk | undefined
  /** Vendors that are configured by a key in the environment alone. */
  readonly environmentVendors: readonly string[]
  /** What is added to the rates of the catalogs. */
  readonly markup: Markup
  /** How long a finished answer waits for its settlement. */
  readonly receiptMs: number
  /** Limits for wallets that have never paid, on calls that are served before settlement. */
  readonly newWallet: { readonly calls: number; readonly worth: Usdc }
  /** Limits for all wallets that have not paid yet, together. */
  readonly newWallets: NewWalletsLimit
  readonly freePerMinute: number
  readonly freePerHour: number
  /** Undefined: derived from the limit of file descriptors. */
  readonly maxConnections: number | undefined
  readonly maxConnectionsPerAddress: number | undefined
  /** Characters per minute and address that are tokenized without a payment. */
  readonly unpaidCharacters: number
  /** Wallets by allowlist. Without a list, all or no wallets are allowed, as the endpoint defines. */
  readonly allowlists: { readonly generate_content?: readonly string[]; readonly background?: readonly string[] }
  /** `host:port` of vendors on the operator's own network, whose media may have private addresses. */
  readonly trustedHosts: readonly string[]
  /** Audio rows for sale. */
  readonly audio: AudioConfig
  /** Rows for sale of the kinds that products declare, by kind. */
  readonly declared: ReadonlyMap<string, readonly CatalogRow[]>
  /** Absolute paths of files with products of the operator's own. */
  readonly products: readonly string[]
  /** JSON-RPC nodes by network slug. */
  readonly rpc: RpcNodes
}

export type ConfigResult = { ok: true; config: Config } | { ok: false; mistakes: readonly string[] }

/** How this machine reaches a gateway that listens on all addresses. */
const LOOPBACK: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' }

/**
 * Where a gateway of this machine listens, by the file and the environment, even if other settings are wrong or secrets
 * are missing.
 */
export function listenUrl(env: Environment): string {
  const path = env.FAREBOX_CONFIG || 'farebox.toml'
  let text = ''
  try {
    text = readFileSync(path, 'utf8')
  } catch {
    // Without a readable file, the environment and the defaults tell.
  }
  const { file, rest } = readSettings(text, env, path)
  const { port = 4020, host = '127.0.0.1' } = file ?? rest?.file ?? {}
  const reached = LOOPBACK[host] ?? host
  return `http://${reached.includes(':') ? `[${reached}]` : reached}:${port === 0 ? 4020 : port}`
}

/** A mistake and where it is; without a line, it is in the environment. */
export type ConfigError = Partial<Position> & { readonly file?: string; readonly message: string }
export type ReadResult =
  | { ok: true; config: Config }
  /** `mistakes` are the errors as lines of text. */
  | { ok: false; mistakes: readonly string[]; errors: readonly ConfigError[] }

/** Reads `farebox.toml`, or the file that FAREBOX_CONFIG names, then the environment. */
export function readConfig(environment: Environment): ReadResult {
  const { env, mistakes } = secretsFromFiles(environment, Object.keys(variables), readSecret)
  if (mistakes.length > 0) return wrong(mistakes.map((message) => ({ message })))
  const path = env.FAREBOX_CONFIG || 'farebox.toml'
  if (!existsSync(path))
    return env.FAREBOX_CONFIG
      ? wrong([{ message: `FAREBOX_CONFIG: no file at ${path}` }])
      : checkedConfig('', env, path)
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    return wrong([{ message: `${path}: cannot be read (${(error as { code?: string }).code})` }])
  }
  return checkedConfig(text, env, path)
}

/** Reads a configuration. Each mistake has its place in the text. */
export function checkedConfig(toml: string, env: Environment, path: string): ReadResult {
  const read = parseConfig(toml, env, path)
  if (read.ok) return read
  const [syntax = ''] = read.mistakes
  const [, line, column, message] = syntax.startsWith(`${path}:`)
    ? (/^:(\d+):(\d+): ([^]*)$/.exec(syntax.slice(path.length)) ?? [])
    : []
  if (message !== undefined) return wrong([{ file: path, line: Number(line), column: Number(column), message }])
  const source = { positions: positionsIn(toml), file: parse(toml) }
  return wrong(
    read.mistakes.map((message) => {
      const position = positionOf(message, source)
      return { ...(position && { file: path, ...position }), message }
    }),
  )
}

const wrong = (errors: readonly ConfigError[]): ReadResult => ({
  ok: false,
  mistakes: inOrder(errors).map(({ file, line, column, message }) =>
    file === undefined ? message : `${file}:${line}:${column}: ${message}`,
  ),
  errors: inOrder(errors),
})

/** By line; the environment's come first. */
const inOrder = (errors: readonly ConfigError[]): readonly ConfigError[] =>
  errors.toSorted((one, other) => (one.line ?? 0) - (other.line ?? 0))

/** Reports every mistake by the name of its setting. `path` names the file in errors of TOML. */
export function parseConfig(toml: string, env: Environment = {}, path = 'farebox.toml'): ConfigResult {
  const { file, mistakes, rest } = readSettings(toml, env, path)
  const directory = dirname(resolvePath(path))
  if (file) return resolve(withOwnFiles(file, directory), env)
  const others = rest && resolve(withOwnFiles(rest.file, directory), env)
  if (!rest || !others || others.ok) return { ok: false, mistakes }
  return { ok: false, mistakes: [...mistakes, ...others.mistakes.filter((each) => !isConsequence(each, rest.removed))] }
}

/** Whether a mistake may be there only because settings were removed: it names one, or is in the same table. */
function isConsequence(mistake: string, removed: readonly string[]): boolean {
  const isMissingVariable = /: the environment variable \w+ is not set$/.test(mistake)
  return (
    // What a devnet must not do is no mistake where the gateways could not be read.
    mistake.startsWith('HOST: ') ||
    removed.some((name) => {
      const table = name.slice(0, Math.max(0, name.lastIndexOf('.')))
      const isInTable = table !== '' && mistake.startsWith(table) && !isMissingVariable
      const parts = name.split('.')
      const words = parts.filter((_, index) => index >= 2 || index === parts.length - 1)
      return isInTable || words.some((word) => new RegExp(`\\b${word.replace(/\W/g, '.')}\\b`).test(mistake))
    })
  )
}

/** Makes the paths of own files absolute: they are relative to the configuration file. */
function withOwnFiles(file: Static<typeof File>, directory: string): Static<typeof File> {
  const absolute = (path: string) => (isFile(path) ? resolvePath(directory, path) : path)
  const row = <Row extends object>(fields: Row): Row => ({
    ...fields,
    ...Object.fromEntries(
      Object.entries(fields).flatMap(([name, value]) =>
        ['protocol', 'chat', 'video'].includes(name) && typeof value === 'string' ? [[name, absolute(value)]] : [],
      ),
    ),
  })
  const { vendors, images, chat, videos, products } = file
  return {
    ...file,
    ...(vendors && { vendors: Object.fromEntries(Object.entries(vendors).map(([name, table]) => [name, row(table)])) }),
    ...(images && { images: images.map(row) }),
    ...(chat && { chat: chat.map(row) }),
    ...(videos && { videos: videos.map(row) }),
    ...(products && { products: products.map(absolute) }),
  }
}

function resolve(file: Static<typeof File>, env: Environment): ConfigResult {
  const mistakes: string[] = []
  const [perMinute, perHour] = [file.free_per_minute ?? 30, file.free_per_hour ?? 300]
  if (perHour < perMinute)
    mistakes.push(`free_per_hour: must be at least free_per_minute, which is ${perMinute}, got ${perHour}`)
  const isDevnet = (file.gateways ?? []).length === 0
  const dir = isDevnet ? DEVNET_DIR : DEFAULT_DIR
  const database = file.database_url ?? `sqlite:${dir}/farebox.db`
  const objects = file.object_store ?? `file:${dir}/media`
  const archive = file.retention?.archive_store ?? `file:${dir}/archive`
  if (archive === objects)
    mistakes.push(`retention.archive_store: must not be object_store, whose files are served, got ${archive}`)
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
  if (file.alert_webhook_secret !== undefined && file.alert_webhook_url === undefined)
    mistakes.push('alert_webhook_secret: has no effect without alert_webhook_url')
  const signingKey = file.signing_key === undefined ? undefined : readSigningKey(file.signing_key)
  if (file.signing_key !== undefined && !signingKey)
    mistakes.push(
      'signing_key: must be a private Ed25519 or P-256 key, as PEM, JWK, or 64 hex digits; make one with openssl genpkey -algorithm ed25519',
    )
  if (signingKey && file.public_origin === undefined && gateways.some(({ publicOrigin }) => publicOrigin === undefined))
    mistakes.push('signing_key: needs public_origin, because a signature speaks for a host')
  const telemetry = readTelemetry(env, mistakes)
  const retention = resolveRetention(file.retention ?? {}, mistakes)
  const host = file.host ?? '127.0.0.1'
  const named = file.vendors ?? {}
  checkVendors(named, mistakes)
  const found = fromEnvironment(env, { named, isDevnet, mistakes })
  const vendors = { ...found.vendors, ...named }
  checkVendorNames(file, { vendors, mistakes })
  const images = resolveImages(vendors, file.images ?? [], env, mistakes)
  const chat = resolveChat(vendors, file.chat ?? [], { env, added: found.rows, mistakes })
  const videos = resolveVideos(vendors, file.videos ?? [], { env, mistakes })
  const isShared = storageManifest(database).isShared
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
      `HOST: on ${host} others could buy real work with test money; configure a gateway, or listen on 127.0.0.1, or remove the keys of ${keyed.join(', ')}`,
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
      database,
      databaseCheckBytes: (file.database_check_mb ?? 500) * 1_000_000,
      objects: objectsOf(objects, env),
      archive: file.retention?.archive_days === undefined ? undefined : objectsOf(archive, env),
      operatorToken: file.operator_token,
      alertWebhook: file.alert_webhook_url
        ? { url: file.alert_webhook_url, secret: file.alert_webhook_secret }
        : undefined,
      telemetry,
      maxBody: file.max_body_bytes ?? 1 << 20,
      maxUpload,
      bodyMemory: file.body_memory_bytes ?? 8 * maxUpload,
      inlineMs: file.inline_window_seconds === undefined ? undefined : file.inline_window_seconds * 1000,
      drainGraceMs: (file.drain_grace_seconds ?? (isDevnet ? 0 : 5)) * 1000,
      drainMs: (file.drain_seconds ?? 30) * 1000,
      vendorRequests: file.vendor_requests ?? 512,
      leaseMs: (file.lease_seconds ?? 30) * 1000,
      trustedProxies: file.trusted_proxies ?? [],
      bareV1: file.bare_v1 ?? false,
      logLevel: file.log_level ?? 'info',
      gateways,
      devnetDir: isDevnet ? chainDir(file.database_url) : undefined,
      production: isDevnet ? productionSettings(file, env) : [],
      images,
      chat,
      videos,
      featureFlags: file.reference_media === undefined ? {} : { referenceMedia: file.reference_media },
      retention,
      pollKeys: file.poll_keys,
      signingKey,
      environmentVendors: Object.keys(found.vendors),
      markup: {
        fee: dollars(file.transaction_fee_usd ?? '0.001'),
        mediaPercent: dollars(file.media_margin_percent ?? '5'),
      },
      receiptMs: (file.chat_receipt_seconds ?? 10) * 1000,
      newWallet: {
        calls: file.new_wallet_calls ?? NEW_WALLET_LIMIT.calls,
        worth: file.new_wallet_usdc === undefined ? NEW_WALLET_LIMIT.worth : roundUp(dollars(file.new_wallet_usdc)),
      },
      newWallets: newWalletsLimit({
        ...(file.new_wallets_usdc !== undefined && { gateway: file.new_wallets_usdc }),
        ...(file.new_wallets_usdc_per_address !== undefined && { address: file.new_wallets_usdc_per_address }),
        ...(file.new_wallets_streamed_usdc !== undefined && { streamed: file.new_wallets_streamed_usdc }),
      }),
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
      products: file.products ?? [],
      rpc,
      services,
      audio,
      declared,
    },
  }
}

/** The chain of a devnet is kept where its ledger is. */
function chainDir(url: string | undefined): string | undefined {
  if (url === undefined) return DEVNET_DIR
  const path = databasePath(url)
  return path === undefined ? undefined : join(dirname(path), 'devnet')
}

/** The file of a database; undefined where it is none. */
export const databasePath = (url: string): string | undefined => storageManifest(url).pathOf?.(url)

/** A database in words, without its secrets. */
export const databaseInWords = (url: string): string => storageManifest(url).describe(url)

function objectsOf(url: string, env: Environment): Config['objects'] {
  if (url === 'memory:') return { kind: 'memory' }
  if (url.startsWith('file:')) return { kind: 'file', dir: url.slice('file:'.length) }
  const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION } = env
  return { kind: 's3', url, env: { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION } }
}

/** An address, or a range in CIDR notation. */
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

/** Loopback names and addresses, where /devnet may be shown. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host)
}

/** The contents of a file with a secret; the error is for the operator. */
/** Throws for what is no file: a pipe that nobody writes to would hold up the start for ever. */
function readSecret(path: string): string {
  if (!statSync(path).isFile()) throw Object.assign(new Error(`${path} is no file`), { code: 'it is no file' })
  return readFileSync(path, 'utf8')
}
