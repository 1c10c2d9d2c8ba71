/**
 * The configuration of a process, resolved from the file and the environment. Reports every mistake at once, by name,
 * and never prints a secret.
 */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { isIP } from 'node:net'
import { dirname, join, resolve as resolvePath } from 'node:path'
import { parse } from 'smol-toml'
import { storageManifest } from '../../adapters/storage/manifests.ts'
import type { CatalogRow, Jwk, Retention } from '../../core/mod.ts'
import { DEFAULT_DIR, DEVNET_DIR, File, readSettings, type Settings, settings, variables } from './file.ts'
import { type Position, positionOf, positionsIn } from './errors/positions.ts'
import { type GatewayConfig, resolveGateways } from './gateways.ts'
import { defaultBuyerCommand } from './buyer_command.ts'
import { type ServedChat, resolveChat } from './chat.ts'
import { type Environment, filled, isFile, secretsFromFiles } from './settings.ts'
import { fromEnvironment } from './makers.ts'
import { type AudioConfig, resolveAudio } from './audio.ts'
import { keyedServices } from './services/reports.ts'
import { resolveServices } from './services/resolve.ts'
import { type Services } from './services/products.ts'
import { resolveRetention } from './retention.ts'
import { resolveRows } from './rows.ts'
import { readSigningKey } from './keys/signing_key.ts'
import { resolveRpc, type RpcNodes } from './rpc.ts'
import { productionSettings } from './production.ts'
import { resolveVideos, type ServedVideos } from './video.ts'
import { readTelemetry, type TelemetryConfig } from '../signals/otel_config.ts'
import { checkVendorNames, checkVendors, keyedVendors, resolveImages, type ServedCatalog } from './vendors.ts'

export { DEFAULT_DIR, DEVNET_DIR, File } from './file.ts'

/** Settings as they are read, and what is derived from them in place of some. */
export type Config = Omit<Settings, Resolved | keyof Derived> & Derived

/** Settings whose derived form is shown under another name. */
type Resolved =
  | 'alert_webhook_secret'
  | 'alert_webhook_url'
  | 'database_url'
  | 'object_store'
  | 'signing_key'
  | 'vendors'

type Derived = Services & {
  /** The URL of the storage. It may hold a password. */
  readonly database: string
  readonly objects:
    | { readonly kind: 'memory' }
    | { readonly kind: 'file'; readonly dir: string }
    | { readonly kind: 's3'; readonly url: string; readonly env: Environment }
  /** Where old ledger rows are moved. */
  readonly archive: Config['objects'] | undefined
  /** Where alerts are posted, and what signs them. */
  readonly alertWebhook: { readonly url: string; readonly secret: string | undefined } | undefined
  /** Where traces and metrics are exported to. */
  readonly telemetry: TelemetryConfig | undefined
  readonly body_memory_bytes: number
  readonly drain_grace_seconds: number
  readonly buyer_command: string
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
  readonly retention: Retention
  /** Signs offers and receipts; undefined when they are not signed. */
  readonly signingKey: Jwk | undefined
  /** Vendors that are configured by a key in the environment alone. */
  readonly environmentVendors: readonly string[]
  /** Audio rows for sale. */
  readonly audio: AudioConfig
  /** Rows for sale of the kinds that products declare, by kind. */
  readonly declared: ReadonlyMap<string, readonly CatalogRow[]>
  /** JSON-RPC nodes by network slug. */
  readonly rpc: RpcNodes
}

type ConfigResult = { ok: true; config: Config } | { ok: false; mistakes: readonly string[] }

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
  const { port, host } = file ?? rest?.file ?? (filled(File, {}) as Settings)
  const reached = LOOPBACK[host] ?? host
  return `http://${reached.includes(':') ? `[${reached}]` : reached}:${port === 0 ? settings.port.default : port}`
}

/** A mistake and where it is; without a line, it is in the environment. */
type ConfigError = Partial<Position> & { readonly file?: string; readonly message: string }
type ReadResult =
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
    // A rule of devnet alone does not count where the gateways could not be read.
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
function withOwnFiles(file: Settings, directory: string): Settings {
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

function resolve(file: Settings, env: Environment): ConfigResult {
  const mistakes: string[] = []
  const { port, host, free_per_minute, free_per_hour, max_upload_bytes, body_memory_bytes } = file
  if (free_per_hour < free_per_minute)
    mistakes.push(`free_per_hour: must be at least free_per_minute, which is ${free_per_minute}, got ${free_per_hour}`)
  const isDevnet = (file.gateways ?? []).length === 0
  const dir = isDevnet ? DEVNET_DIR : DEFAULT_DIR
  const database = file.database_url ?? `sqlite:${dir}/farebox.db`
  const objects = file.object_store ?? `file:${dir}/media`
  const archive = file.retention.archive_store ?? `file:${dir}/archive`
  if (archive === objects)
    mistakes.push(`retention.archive_store: must not be object_store, whose files are served, got ${archive}`)
  const gateways = resolveGateways(file.gateways ?? [], { env, mistakes, port })
  for (const [index, range] of (file.trusted_proxies ?? []).entries()) {
    if (!isRange(range))
      mistakes.push(
        `trusted_proxies.${index}: must be an address or a range such as 10.0.0.0/8, got ${JSON.stringify(range)}`,
      )
  }
  if (body_memory_bytes !== undefined && body_memory_bytes < 6 * max_upload_bytes)
    mistakes.push(
      `body_memory_bytes: must be at least six times max_upload_bytes (${6 * max_upload_bytes}), got ${body_memory_bytes}`,
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
  const retention = resolveRetention(file.retention, mistakes)
  const named = file.vendors ?? {}
  checkVendors(named, mistakes)
  const found = fromEnvironment(env, { named, isDevnet, mistakes })
  const vendors = { ...found.vendors, ...named }
  checkVendorNames(file, { vendors, mistakes })
  const images = resolveImages(vendors, file.images ?? [], { env, mistakes })
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
      ...ownSettings(file),
      body_memory_bytes: body_memory_bytes ?? 8 * max_upload_bytes,
      drain_grace_seconds: file.drain_grace_seconds ?? (isDevnet ? 0 : 5),
      buyer_command: file.buyer_command ?? defaultBuyerCommand(isDevnet),
      database,
      objects: objectsOf(objects, env),
      archive: file.retention.archive_days === undefined ? undefined : objectsOf(archive, env),
      alertWebhook: file.alert_webhook_url
        ? { url: file.alert_webhook_url, secret: file.alert_webhook_secret }
        : undefined,
      telemetry,
      gateways,
      devnetDir: isDevnet ? chainDir(file.database_url) : undefined,
      production: isDevnet ? productionSettings(file, env) : [],
      images,
      chat,
      videos,
      retention,
      signingKey,
      environmentVendors: Object.keys(found.vendors),
      rpc,
      services,
      audio,
      declared,
    },
  }
}

/** The settings that keep their names. */
function ownSettings(file: Settings): Omit<Settings, Resolved> {
  const { vendors, alert_webhook_url, alert_webhook_secret, database_url, object_store, signing_key, ...own } = file
  return Object.fromEntries(Object.entries(own).filter(([name]) => name in settings)) as typeof own
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

/**
 * The contents of a file with a secret; the error is for the operator. Throws unless it is a file: a pipe that nobody
 * writes to would hold up the start for ever.
 */
function readSecret(path: string): string {
  if (!statSync(path).isFile()) throw Object.assign(new Error(`${path} is no file`), { code: 'it is no file' })
  return readFileSync(path, 'utf8')
}
