/** The settings of the file and their environment variables: schema, parsing, and errors that name each mistake. */
import { STORAGE_URL_PATTERN } from '../../adapters/storage/manifests.ts'
import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { Value, ValuePointer } from '@sinclair/typebox/value'
import { parse } from 'smol-toml'
import { isFields } from '../../core/lib/mod.ts'
import { FREE_TIER, MAX_BODY, MAX_UPLOAD, UNPAID_CHARACTERS } from '../../core/http/mod.ts'
import { timeouts } from '../../core/mod.ts'
import { NEW_WALLET_LIMIT, NEW_WALLET_USDC, NEW_WALLETS_USDC } from '../../core/payment/mod.ts'
import { STANDARD_FEE_USD, STANDARD_MEDIA_PERCENT } from '../../core/x402/mod.ts'
import { defaulted, oneOf, setting } from '../../adapters/settings.ts'
import { audioSettings } from './audio.ts'
import { ChatSetting } from './chat.ts'
import { allowedText } from './errors/wording.ts'
import { GatewayRow } from './gateways.ts'
import { RetentionTable } from './retention.ts'
import { declaredSettings } from './rows.ts'
import { serviceSettings, serviceVariables } from './services/settings.ts'
import { DEFAULT_PORT, type Environment, FilePath, filled, nearestName } from './settings.ts'
import { ImageSetting, VendorRow } from './vendors.ts'
import { VideoSetting } from './video.ts'

/** The default directory of all data, relative to the working directory. */
export const DEFAULT_DIR = '.farebox'
/** The default directory of a devnet: its ledger, its media, its chain and its keys. */
export const DEVNET_DIR = `${DEFAULT_DIR}/devnet`

const strict = { additionalProperties: false }
const Wallets = Type.Array(Type.String({ pattern: '^0x[0-9a-fA-F]{40}$' }))
const BYTE = '(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])'
/** IPv4, IPv6, or a name whose last part has a letter: 999.1.1.1 is neither. */
const HOST = `^(${BYTE}(\\.${BYTE}){3}|[0-9a-fA-F.]*(:[0-9a-fA-F.]*){2,7}(%[\\w.-]+)?|([\\w-]+\\.)*[\\w-]*[A-Za-z][\\w-]*\\.?)$`
const Requests = (usual: number) => Type.Integer({ minimum: 1, maximum: 1_000_000, default: usual })
const Bytes = (usual: number) => Type.Integer({ minimum: 1_024, maximum: 1 << 28, default: usual })

/**
 * The settings of a process, by their sections of `docs/configuration.md`, which shows descriptions, defaults and
 * variables.
 */
export const sections = {
  server: {
    port: defaulted(
      'The port that all gateways share. 0 picks a free port.',
      Type.Integer({ minimum: 0, maximum: 65_535, default: DEFAULT_PORT }),
    ),
    host: defaulted(
      'The address to listen on. Use `0.0.0.0` to accept connections from other machines.',
      Type.String({
        pattern: HOST,
        words: 'an IP address such as 127.0.0.1, 0.0.0.0 for all addresses, or a host name of this machine',
        default: '127.0.0.1',
      }),
    ),
    public_origin: setting(
      'The origin of poll and media URLs, such as `https://ai.example.com`. Gateways with other host names keep their name and use the scheme of this setting.',
      Type.String({ pattern: '^https?://[^/]+$' }),
      { usual: 'the Host header of each request' },
    ),
    contact: setting(
      'Where to reach you, for the documents that clients and indexers read: an http(s) URL or an e-mail address.',
      Type.String({ pattern: '^(https?://\\S+|[^\\s@:/]+@[^\\s@:/]+)$', maxLength: 200 }),
      { usual: 'the docs page of the gateway', env: 'OPERATOR_CONTACT' },
    ),
    buyer_command: setting(
      'How the pages for buyers start the command `farebox`, such as `/opt/farebox/farebox`. No package of that name is published: a line that installs one would run the program of a stranger.',
      Type.String({
        pattern: '^[\\w@%+=:,./-]+( [\\w@%+=:,./-]+)*$',
        maxLength: 200,
        words: 'words of letters, digits and @%+=:,./- with one space between them',
      }),
      { usual: '`farebox`, the executable; from a checkout on devnet `npx -y bun@1.4.4 run farebox`' },
    ),
    trusted_proxies: setting(
      'Addresses and CIDR ranges of reverse proxies, such as `10.0.0.0/8`. `X-Forwarded-For`, `-Host` and `-Proto` count only from these.',
      Type.Array(Type.String({ minLength: 2 })),
      { usual: 'none', env: null },
    ),
    bare_v1: defaulted(
      'Serves `/v1/*` like `/api/v1/*`, for clients that append `/v1` themselves.',
      Type.Boolean({ default: false }),
    ),
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
    vendor_requests: defaulted(
      'How many requests may be under way at one vendor, by its host. An order beyond it gets 503 before it is paid for. At most half of what all vendors may have, which is the pool of outgoing requests without 256 for chains and storage.',
      Type.Integer({ minimum: 1, maximum: 60_000, default: 512 }),
    ),
    drain_grace_seconds: setting(
      'How long a process that stops still accepts requests while `/readyz` already answers 503, in seconds: the time that your load balancer takes to notice.',
      Type.Number({ minimum: 0, maximum: 600 }),
      { usual: '5; 0 on devnet' },
    ),
    drain_seconds: defaulted(
      'How long a process that received SIGTERM, SIGINT or SIGHUP then waits for work in progress, in seconds. Streams that are left are ended after it, and settled.',
      Type.Number({ minimum: 0, maximum: 3_600, default: 30 }),
    ),
    log_level: defaulted('The least important level that is logged. The access log is written at `info`.', {
      ...oneOf('silent', 'error', 'warn', 'info'),
      default: 'info',
    }),
    operator_token: setting(
      'Enables `/metrics` and the operator routes for requests with `Authorization: Bearer <token>`. At least 16 printable ASCII characters without spaces.',
      Type.String({ pattern: '^[!-~]{16,}$' }),
      { usual: 'operator routes are off' },
    ),
    alert_webhook_url: setting(
      'Where alerts are posted as JSON: a URL of Slack, Mattermost, Discord (with `/slack`) or your own program. It may be on your own network.',
      Type.String({ pattern: '^https?://\\S+$', maxLength: 2_000 }),
      { usual: 'alerts are only logged' },
    ),
    alert_webhook_secret: setting(
      'Signs alerts as Standard Webhooks do: `whsec_` and base64, or any text of at least 16 characters.',
      Type.String({ minLength: 16, maxLength: 500 }),
      { usual: 'alerts are not signed' },
    ),
  },
  storage: {
    database_url: setting(
      'Where calls and payments are recorded: `memory:`, `sqlite:<path>` or `postgres://…`. SQLite serves one process; Postgres serves any number of replicas. The devnet keeps its own in `.farebox/devnet`.',
      Type.String({ pattern: STORAGE_URL_PATTERN }),
      { usual: `\`sqlite:${DEFAULT_DIR}/farebox.db\`` },
    ),
    database_check_mb: defaulted(
      'A SQLite file of at most so many megabytes is checked for damage before anything is sold from it. 100 MB take about 0.4 seconds. 0 checks none.',
      Type.Integer({ minimum: 0, maximum: 1_000_000, default: 500 }),
    ),
    object_store: setting(
      'Where images, clips and sounds are stored: `memory:`, `file:<dir>` or `s3://bucket/prefix?region=&endpoint=&public=&path_style=`.',
      Type.String({ pattern: '^(memory:|file:.+|s3://.+)$' }),
      { usual: `\`file:${DEFAULT_DIR}/media\`` },
    ),
    lease_seconds: defaulted(
      'How long the calls and the relayer key of a crashed process stay reserved before other replicas take them over, in seconds.',
      Type.Number({ minimum: 5, maximum: 600, default: timeouts.workLeaseMs / 1000 }),
    ),
    poll_keys: setting(
      'Hex keys of 16 to 64 bytes that sign poll URLs. The first one signs; all of them are accepted.',
      Type.Array(Type.String({ pattern: '^([0-9a-fA-F]{2}){16,64}$' }), { minItems: 1, maxItems: 20 }),
      { usual: 'one generated key, kept in the database' },
    ),
    signing_key: setting(
      'Signs offers and receipts (`offer-receipt`): a private Ed25519 or P-256 key as PEM or JWK, or an Ed25519 seed of 64 hex digits. It moves no money. Needs `public_origin`.',
      Type.String({ minLength: 64, maxLength: 4_000 }),
      { usual: 'offers and receipts are not signed; on devnet a key of its own' },
    ),
  },
  requests: {
    max_body_bytes: defaulted(
      'The largest request body, in bytes. A larger one is answered with 413.',
      Bytes(MAX_BODY),
    ),
    max_upload_bytes: defaulted(
      'The largest request body of routes that take files and of chat, in bytes. A larger one is answered with 413.',
      Bytes(MAX_UPLOAD),
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
    unpaid_characters_per_minute: defaulted(
      'Characters of chat prompts that are tokenized per minute and client address for requests without a verified payment, in each process. A character beyond ASCII counts as its UTF-8 bytes, and each byte of a body over 64 KiB counts as an eighth of a character in addition. Above the limit the answer is 429.',
      Type.Integer({ minimum: 100_000, maximum: 10_000_000_000, default: UNPAID_CHARACTERS }),
    ),
    free_per_minute: defaulted(
      'Requests to free models per minute and client address.',
      Requests(FREE_TIER[0].requests),
    ),
    free_per_hour: defaulted('Requests to free models per hour and client address.', Requests(FREE_TIER[1].requests)),
    reference_media: defaulted(
      'Accepts reference videos and sounds in video requests. `false` answers them with 503.',
      Type.Boolean({ default: true }),
    ),
    trusted_hosts: defaulted(
      'Hosts (`host:port`) on your own network from which vendor media may be fetched although their addresses are private.',
      Type.Array(Type.String({ pattern: '^[^/ ]+$' }), { default: [], usual: 'none', env: null }),
    ),
    products: defaulted(
      'Files with products of your own, relative to this file: `["./haiku.ts"]`. See [sell your API](sell_your_api.md).',
      Type.Array(FilePath, { default: [], usual: 'none' }),
    ),
  },
  prices: {
    transaction_fee_usd: defaulted(
      'The fee that is part of every paid price, once per call: US dollars as text. Models with a flat price include it.',
      Type.String({ pattern: '^[0-9]{1,6}(\\.[0-9]{1,6})?$', default: STANDARD_FEE_USD }),
    ),
    media_margin_percent: defaulted(
      'The margin on images, sounds and videos that are sold at a rate, in percent, as text. Margins by product are set while the gateway runs: see [operations](operations.md#limits-and-switches).',
      Type.String({
        pattern: '^[0-9]{1,4}(\\.[0-9]{1,4})?$',
        words: 'a percentage as text, such as "5" or "7.5"',
        default: STANDARD_MEDIA_PERCENT,
      }),
    ),
  },
  chat: {
    chat_receipt_seconds: defaulted(
      'How long a finished chat answer waits for its settlement, in seconds. After that it is delivered unless the payment is known to be refused.',
      Type.Number({ minimum: 0, maximum: 60, default: timeouts.receiptMs / 1000 }),
    ),
    new_wallet_calls: defaulted(
      'How many chat calls a wallet that has never paid here may have open at once.',
      Type.Integer({ minimum: 1, maximum: 1_000_000, default: NEW_WALLET_LIMIT.calls }),
    ),
    new_wallet_usdc: defaulted(
      'What these calls may be worth together, in USDC, as text. The first call is accepted whatever it costs.',
      Type.String({ pattern: '^[0-9]{1,6}(\\.[0-9]{1,6})?$', default: NEW_WALLET_USDC }),
    ),
    new_wallets_usdc: defaulted(
      'What all wallets that have not paid here yet may have open, and leave unpaid within an hour, together: for each gateway, in USDC, as text. Chat counts what the model may cost at most. An order that is worth more is accepted while no other such order counts. Those who pay from a channel are exempt.',
      Type.String({ pattern: '^[0-9]{1,6}(\\.[0-9]{1,6})?$', default: NEW_WALLETS_USDC.gateway }),
    ),
    new_wallets_usdc_per_address: defaulted(
      'The same for wallets at one client address; an IPv6 /64 is one.',
      Type.String({ pattern: '^[0-9]{1,6}(\\.[0-9]{1,6})?$', default: NEW_WALLETS_USDC.address }),
    ),
    new_wallets_streamed_usdc: defaulted(
      'Once new wallets at a gateway have this much open or unpaid together, in USDC, as text, their further streams are settled before any content is sent.',
      Type.String({ pattern: '^[0-9]{1,6}(\\.[0-9]{1,6})?$', default: NEW_WALLETS_USDC.streamed }),
    ),
    generate_content_payers: setting('Wallets (`0x…`) that may use `:generateContent`.', Wallets, {
      usual: 'none; on devnet its buyer',
    }),
    background_payers: setting('Wallets (`0x…`) that may use `background: true` of `/api/v1/responses`.', Wallets, {
      usual: 'all wallets',
    }),
  },
  tables: {
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
    ...audioSettings,
    retention: defaulted(
      'How long results, ledger rows and media are kept. See [retention](#retention).',
      RetentionTable,
    ),
  },
}

const { server, storage, requests, prices, chat, tables } = sections
export const settings = { ...server, ...storage, ...requests, ...prices, ...chat, ...tables }

/** The configuration file. */
export const File = Type.Object(
  {
    ...settings,
    ...(declaredSettings as Record<never, never>),
    // Only the providers know its name.
    ...(serviceSettings as Record<never, never>),
  },
  strict,
)

/** Parsed file: a setting with a default always has a value. */
export type Settings = Static<typeof File>

/** Environment variables by setting; they override the file. */
export const variables: Readonly<Record<string, string>> = { ...variablesOf(settings), ...serviceVariables }

/** A setting other than a table has a variable of its name in capitals, unless its schema names another or none. */
function variablesOf(schemas: Readonly<Record<string, TSchema>>, table = ''): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(schemas).flatMap(([name, schema]): readonly (readonly [string, string])[] => {
      const path = table + name
      if (schema.properties) return Object.entries(variablesOf(schema.properties as never, `${path}.`))
      const isTable = schema.type === 'object' || (schema.items as TSchema | undefined)?.type === 'object'
      return isTable || schema.env === null ? [] : [[String(schema.env ?? path.replace('.', '_').toUpperCase()), path]]
    }),
  )
}

type SettingsResult =
  | { readonly file: Settings; readonly mistakes?: never; readonly rest?: never }
  | {
      readonly file?: never
      readonly mistakes: readonly string[]
      /** The file without its wrong settings, and their names, to find errors of other kinds as well. */
      readonly rest?: { readonly file: Settings; readonly removed: readonly string[] }
    }

/** Reads TOML and the environment. `path` names the file in errors. */
export function readSettings(toml: string, env: Environment, path: string): SettingsResult {
  let file: Record<string, unknown>
  try {
    file = parse(toml)
  } catch (error) {
    const { message, line, column } = error as Error & { line?: number; column?: number }
    const at = line === undefined ? '' : `:${line}:${column}`
    // The parser's message quotes the line, which may contain a secret, so only its first sentence is shown.
    return { mistakes: [`${path}${at}: ${message.split('\n', 1)[0]}`] }
  }
  const given: Record<string, unknown> = { ...file }
  const origin = new Map<string, string>()
  for (const [variable, setting] of Object.entries(variables)) {
    const value = env[variable]
    if (value === undefined || value === '') continue
    const [name = setting, member] = setting.split('.')
    const read = typed(schemaOf(name, member), value)
    // A value that is not a table is reported below, as it is in the file.
    if (member === undefined) given[name] = read
    else if (isFields(given[name] ?? {})) given[name] = { ...(given[name] as object), [member]: read }
    origin.set(setting, variable)
  }
  const whole = filled(File, given)
  const found = problems(whole, origin)
  if (found.size === 0) return { file: whole as Settings }
  const mistakes = [...found.values()]
  const rest = filled(File, without(given, [...found.keys()]))
  for (const { path, message, schema } of Value.Errors(File, rest))
    if (message === 'Expected required property' && schema.type === 'string')
      ValuePointer.Set(rest, path, `unnamed${path.replace(/\D/g, '')}`)
  if (!Value.Check(File, rest)) return { mistakes }
  const removed = [...found].flatMap(([name, text]) => [name, / did you mean (\w+)\?$/.exec(text)?.[1] ?? name])
  return { mistakes, rest: { file: rest, removed } }
}

/** A copy without these settings. An entry of a list takes the whole list with it, so that no other entry moves. */
function without(settings: Readonly<Record<string, unknown>>, names: readonly string[]): Record<string, unknown> {
  const copy = structuredClone(settings) as Record<string, unknown>
  for (const name of names) {
    const path = name.split('.')
    let table: Record<string, unknown> = copy
    for (const [index, part] of path.entries()) {
      const next = table[part]
      const isLast = index === path.length - 1
      if (isLast || (Array.isArray(next) && index === path.length - 2)) delete table[part]
      else if (typeof next === 'object' && next !== null) table = next as Record<string, unknown>
      else break
    }
  }
  return copy
}

function schemaOf(name: string, member?: string): TSchema {
  const properties: Readonly<Record<string, TSchema>> = File.properties
  const table = properties[name]
  const schema = member === undefined ? table : (table?.properties as Record<string, TSchema> | undefined)?.[member]
  if (!schema) throw new Error(`a variable is mapped to ${name}${member ? `.${member}` : ''}, which is not a setting`)
  return schema
}

/** Environment values are text: numbers are parsed where the schema expects them, and lists are split at commas. */
function typed(schema: TSchema, value: string): unknown {
  if (schema.type === 'array')
    return value
      .split(',')
      .map((part) => part.trim())
      .filter((part) => part !== '')
  if (schema.type === 'boolean' && /^(true|false)$/.test(value)) return value === 'true'
  const isNumber = schema.type === 'integer' || schema.type === 'number'
  return isNumber && value.trim() !== '' && Number.isFinite(Number(value)) ? Number(value) : value
}

/** Mistakes by the name of the setting. */
function problems(settings: unknown, origin: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  for (const { path, message, value, schema } of Value.Errors(File, settings)) {
    const name = path.slice(1).replaceAll('/', '.')
    if (found.has(name)) continue
    const isUnknown = message.startsWith('Unexpected property')
    const problem = isUnknown
      ? unknownSetting(name, schema)
      : `${allowedText(schema, { message, value })}${valueText(name, value)}`
    found.set(name, `${origin.get(name) ?? origin.get(name.split('.', 1)[0] ?? name) ?? name}: ${problem}`)
  }
  return found
}

function unknownSetting(name: string, { properties, patternProperties }: TSchema): string {
  const [pattern] = Object.keys((patternProperties as object | undefined) ?? {})
  if (!properties && pattern !== undefined) return `the name ${allowedText({ pattern } as never, NOTHING)}`
  const meant = nearestName(name.split('.').at(-1) ?? name, Object.keys((properties as object | undefined) ?? {}))
  return `there is no such setting${meant === undefined ? '' : `; did you mean ${meant}?`}`
}

const NOTHING = { message: '', value: undefined }

function valueText(name: string, value: unknown): string {
  if (value === undefined) return ''
  if (/token|key|secret|url|store/.test(name)) return ' (its value is not shown)'
  return `, got ${JSON.stringify(value)?.slice(0, 80)}`
}
