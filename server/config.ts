/** One schema for the file and the environment. Reports every mistake at once, by name, and never prints a secret. */
import { existsSync, readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { parse } from 'smol-toml'
import { hasKeys, ImageSetting, resolveShelf, type Shelf, Variable, VendorRow } from './config_vendors.ts'

const strict = { additionalProperties: false }
const Address = Type.String({ pattern: '^0x[0-9a-fA-F]{40}$' })

const GatewayRow = Type.Object(
  {
    name: Type.String({ pattern: '^[a-z0-9-]{1,40}$' }),
    /** CAIP-2; EVM networks for now. */
    network: Type.String({ pattern: '^eip155:[0-9]{1,12}$' }),
    label: Type.Optional(Type.String({ pattern: '^[a-z0-9-]{1,40}$' })),
    hosts: Type.Optional(Type.Array(Type.String({ minLength: 1 }))),
    pay_to: Address,
    asset: Type.Optional(Address),
    asset_name: Type.Optional(Type.String({ minLength: 1 })),
    asset_version: Type.Optional(Type.String({ minLength: 1 })),
    rpc_url: Type.Optional(Type.String({ pattern: '^https?://' })),
    rpc_url_env: Type.Optional(Variable),
    relayer_key_env: Variable,
  },
  strict,
)

const File = Type.Object(
  {
    port: Type.Optional(Type.Integer({ minimum: 0, maximum: 65_535 })),
    host: Type.Optional(Type.String({ minLength: 1 })),
    public_origin: Type.Optional(Type.String({ pattern: '^https?://[^/]+$' })),
    database_url: Type.Optional(Type.String({ pattern: '^(memory:|sqlite:.+|postgres(ql)?://.+)$' })),
    object_store: Type.Optional(Type.String({ pattern: '^(memory:|file:.+|s3://.+)$' })),
    operator_token: Type.Optional(Type.String({ minLength: 16 })),
    max_body_bytes: Type.Optional(Type.Integer({ minimum: 1_024, maximum: 1 << 28 })),
    inline_window_seconds: Type.Optional(Type.Number({ minimum: 0, maximum: 240 })),
    drain_seconds: Type.Optional(Type.Number({ minimum: 0, maximum: 3_600 })),
    trusted_proxies: Type.Optional(Type.Array(Type.String({ minLength: 2 }))),
    bare_v1: Type.Optional(Type.Boolean()),
    log_level: Type.Optional(Type.Union(['silent', 'error', 'warn', 'info'].map((level) => Type.Literal(level)))),
    gateways: Type.Optional(Type.Array(GatewayRow)),
    vendors: Type.Optional(Type.Record(Type.String({ pattern: '^[a-z0-9-]{1,40}$' }), VendorRow)),
    images: Type.Optional(Type.Array(ImageSetting)),
    trusted_hosts: Type.Optional(Type.Array(Type.String({ pattern: '^[^/ ]+$' }))),
  },
  strict,
)

/** Environment variables that stand for a setting of the file, and win over it. */
const fromEnvironment: Readonly<Record<string, keyof Static<typeof File>>> = {
  PORT: 'port',
  HOST: 'host',
  PUBLIC_ORIGIN: 'public_origin',
  DATABASE_URL: 'database_url',
  OBJECT_STORE: 'object_store',
  OPERATOR_TOKEN: 'operator_token',
  MAX_BODY_BYTES: 'max_body_bytes',
  INLINE_WINDOW_SECONDS: 'inline_window_seconds',
  DRAIN_SECONDS: 'drain_seconds',
  LOG_LEVEL: 'log_level',
}

export type GatewayConfig = {
  readonly name: string
  readonly label: string
  readonly hosts: readonly string[]
  readonly network: string
  readonly asset: string
  readonly payTo: string
  readonly domain: { readonly name: string; readonly version: string }
  readonly rpcUrl: string
  readonly relayerKey: string
}

export type Config = {
  readonly port: number
  readonly host: string
  readonly publicOrigin: string | undefined
  readonly database: { readonly kind: 'memory' } | { readonly kind: 'sqlite'; readonly path: string }
  readonly objects: { readonly kind: 'memory' } | { readonly kind: 'file'; readonly dir: string }
  readonly operatorToken: string | undefined
  readonly maxBody: number
  readonly inlineMs: number | undefined
  readonly drainMs: number
  readonly trustedProxies: readonly string[]
  readonly bareV1: boolean
  readonly logLevel: string
  /** Empty means devnet: the embedded local system. */
  readonly gateways: readonly GatewayConfig[]
  /** Rows for sale and how each is served; devnet serves all of its rows with the embedded vendor. */
  readonly shelf: Shelf
  /** `host:port` of vendors on the operator's own network, whose media may be fetched from private addresses. */
  readonly trustedHosts: readonly string[]
}

export type Environment = Readonly<Record<string, string | undefined>>
export type ConfigResult = { ok: true; config: Config } | { ok: false; mistakes: readonly string[] }

/** Where everything is kept when nothing else is said, relative to the working directory. */
export const DEFAULT_DIR = '.farebox'

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
    return { ok: false, mistakes: [`${path}: ${(error as Error).message.split('\n', 1)[0]}`] }
  }
  const settings: Record<string, unknown> = { ...file }
  const origin = new Map<string, string>()
  for (const [variable, setting] of Object.entries(fromEnvironment)) {
    const value = env[variable]
    if (value === undefined || value === '') continue
    settings[setting] = typed(File.properties[setting], value)
    origin.set(setting, variable)
  }
  const mistakes = problems(settings, origin)
  if (mistakes.length > 0) return { ok: false, mistakes }
  return resolve(settings as Static<typeof File>, env)
}

/** Environment values are text; numbers and booleans are read where the schema wants them. */
function typed(schema: TSchema, value: string): unknown {
  const isNumber = schema.type === 'integer' || schema.type === 'number'
  return isNumber && value.trim() !== '' && Number.isFinite(Number(value)) ? Number(value) : value
}

function problems(settings: unknown, origin: ReadonlyMap<string, string>): string[] {
  const found = new Map<string, string>()
  for (const { path, message, value, schema } of Value.Errors(File, settings)) {
    const name = path.slice(1).replaceAll('/', '.')
    if (found.has(name)) continue
    const isUnknown = message.startsWith('Unexpected property')
    const problem = isUnknown ? 'there is no such setting' : `${allowed(schema, message)}${shown(name, value)}`
    found.set(name, `${origin.get(name) ?? name}: ${problem}`)
  }
  return [...found.values()]
}

function allowed(schema: TSchema, message: string): string {
  if (typeof schema.pattern === 'string') return `must match ${schema.pattern}`
  if (Array.isArray(schema.anyOf)) return `must be one of ${schema.anyOf.map((option: TSchema) => option.const).join(', ')}`
  return message.charAt(0).toLowerCase() + message.slice(1)
}

function shown(name: string, value: unknown): string {
  if (value === undefined) return ''
  if (/token|key|secret|url|store/.test(name)) return ' (its value is not shown)'
  return `, got ${JSON.stringify(value)?.slice(0, 80)}`
}

function resolve(file: Static<typeof File>, env: Environment): ConfigResult {
  const mistakes: string[] = []
  const database = file.database_url ?? `sqlite:${DEFAULT_DIR}/farebox.db`
  const objects = file.object_store ?? `file:${DEFAULT_DIR}/media`
  if (database.startsWith('postgres')) mistakes.push('DATABASE_URL: this version stores on memory: or sqlite:<path>')
  if (objects.startsWith('s3:')) mistakes.push('OBJECT_STORE: this version stores on memory: or file:<dir>')
  const gateways = (file.gateways ?? []).map((row, index) => resolveGateway(row, `gateways.${index}`, env, mistakes))
  const names = gateways.map(({ name }) => name)
  for (const name of new Set(names.filter((name, index) => names.indexOf(name) !== index))) mistakes.push(`gateways: two are called ${name}`)
  const hosts = gateways.flatMap((row) => row.hosts.map((host) => host.toLowerCase()))
  for (const host of new Set(hosts.filter((host, index) => hosts.indexOf(host) !== index))) mistakes.push(`gateways: two answer for the host ${host}`)
  for (const [index, range] of (file.trusted_proxies ?? []).entries()) {
    if (!isRange(range)) mistakes.push(`trusted_proxies.${index}: must be an address or a range such as 10.0.0.0/8, got ${JSON.stringify(range)}`)
  }
  const isDevnet = gateways.length === 0
  const host = file.host ?? '127.0.0.1'
  const shelf = resolveShelf(file.vendors ?? {}, file.images ?? [], env, mistakes)
  if (isDevnet && !isLoopback(host) && hasKeys(shelf)) {
    mistakes.push(`HOST: on ${host} others could buy real work with play money; name a gateway, or listen on 127.0.0.1, or remove the vendors' keys`)
  }
  if (mistakes.length > 0) return { ok: false, mistakes }
  return {
    ok: true,
    config: {
      port: file.port ?? 4020,
      host,
      publicOrigin: file.public_origin,
      database: database === 'memory:' ? { kind: 'memory' } : { kind: 'sqlite', path: database.slice('sqlite:'.length) },
      objects: objects === 'memory:' ? { kind: 'memory' } : { kind: 'file', dir: objects.slice('file:'.length) },
      operatorToken: file.operator_token,
      maxBody: file.max_body_bytes ?? 1 << 20,
      inlineMs: file.inline_window_seconds === undefined ? undefined : file.inline_window_seconds * 1000,
      drainMs: (file.drain_seconds ?? 30) * 1000,
      trustedProxies: file.trusted_proxies ?? [],
      bareV1: file.bare_v1 ?? false,
      logLevel: file.log_level ?? 'info',
      gateways: isDevnet ? [] : gateways,
      shelf,
      trustedHosts: file.trusted_hosts ?? [],
    },
  }
}

/** USDC where the reference gives its address and signing domain (x402 2.1). Elsewhere the row has to say them. */
const usdc: Readonly<Record<string, { label: string; asset: string; name: string }>> = {
  'eip155:8453': { label: 'base', asset: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913', name: 'USD Coin' },
  'eip155:84532': { label: 'base-sepolia', asset: '0x036CbD53842c5426634e7929541eC2318f3dCF7e', name: 'USDC' },
}

function resolveGateway(row: Static<typeof GatewayRow>, at: string, env: Environment, mistakes: string[]): GatewayConfig {
  const known = usdc[row.network]
  const rpcUrl = row.rpc_url ?? secret(row.rpc_url_env, `${at}.rpc_url_env`, env, mistakes)
  const relayerKey = secret(row.relayer_key_env, `${at}.relayer_key_env`, env, mistakes)
  if (!row.rpc_url && !row.rpc_url_env) mistakes.push(`${at}.rpc_url: missing; or name an environment variable in rpc_url_env`)
  if (relayerKey && !/^0x[0-9a-fA-F]{64}$/.test(relayerKey)) mistakes.push(`${row.relayer_key_env}: must be 0x and 64 hex digits (its value is not shown)`)
  const asset = row.asset ?? known?.asset
  const name = row.asset_name ?? known?.name
  if (!asset) mistakes.push(`${at}.asset: missing; USDC on ${row.network} is not known here`)
  if (!name) mistakes.push(`${at}.asset_name: missing; the token's EIP-712 name on ${row.network} is not known here`)
  return {
    name: row.name,
    label: row.label ?? known?.label ?? row.name,
    hosts: row.hosts ?? [],
    network: row.network,
    asset: asset ?? '',
    payTo: row.pay_to,
    domain: { name: name ?? '', version: row.asset_version ?? '2' },
    rpcUrl: rpcUrl ?? '',
    relayerKey: relayerKey ?? '',
  }
}

function secret(variable: string | undefined, at: string, env: Environment, mistakes: string[]): string | undefined {
  if (!variable) return undefined
  const value = env[variable]
  if (!value) mistakes.push(`${at}: the environment variable ${variable} is not set`)
  return value
}

/** An address, or a range of them in CIDR notation. */
function isRange(text: string): boolean {
  const [address = '', bits, ...more] = text.split('/')
  const family = isIP(address)
  if (family === 0 || more.length > 0) return false
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 6 ? 128 : 32))
}

/** Loopback names and addresses: where play money may be shown. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host)
}
