/** The configuration as it is in force, for the operator. Secrets are named as set or not set, never shown. */
import type { TProperties, TSchema } from '@sinclair/typebox'
import { sections } from '../config/file.ts'
import { type Config, databaseInWords } from '../config/mod.ts'
import type { GatewayConfig } from '../config/gateways.ts'
import type { PaymentMethod } from '../config/payment_methods.ts'

type SettingRow = { readonly name: string; readonly value: string }
export type Section = { readonly title: string; readonly settings: readonly SettingRow[] }

type SettingValue = string | number | boolean | readonly string[] | undefined

/**
 * Settings in the sections of the file. Numbers, choices and amounts are shown by their schemas; a text could hold a
 * secret, so it is shown only where it is named here.
 */
export function configurationOf(config: Config, gateways: readonly GatewayConfig[]): readonly Section[] {
  const { retention } = config
  const plain = (schemas: TProperties) => plainSettings(config, schemas)
  return [
    section('Process', {
      host: config.host,
      public_origin: config.public_origin,
      contact: config.contact,
      buyer_command: config.buyer_command,
      trusted_proxies: config.trusted_proxies ?? [],
      ...plain(sections.server),
      operator_token: secret(config.operator_token),
      alert_webhook_url: hostOf(config.alertWebhook?.url),
      alert_webhook_secret: secret(config.alertWebhook?.secret),
      telemetry: config.telemetry ? 'on' : 'off',
      signing_key: config.signingKey ? 'set' : 'not set',
      poll_keys: config.poll_keys ? `set (${config.poll_keys.length})` : 'kept by the storage',
    }),
    section('Storage', {
      database: databaseInWords(config.database),
      object_store: objectsOf(config.objects),
      archive: config.archive ? objectsOf(config.archive) : 'off',
      ...plain(sections.storage),
      unclaimed_results: days(retention.unclaimedMs),
      settled_results: days(retention.settledMs),
      background_responses: days(retention.backgroundMs),
      ledger_rows: days(retention.ledgerMs),
      archived_after: days(retention.archiveMs),
      media: days(retention.mediaMs),
    }),
    section('Requests', { ...plain(sections.requests), products: config.products }),
    section('Prices', plain(sections.prices)),
    section('Chat', plain(sections.chat)),
    section('Vendors', {
      found_in_the_environment: config.environmentVendors,
      image_models: config.images.rows.length,
      chat_models: config.chat.rows.length,
      video_models: config.videos.rows.length,
      audio_models: config.audio.rows.length,
    }),
    ...gateways.map(gatewaySection),
  ]
}

/** Values of these settings that cannot hold a secret. */
function plainSettings(config: Config, schemas: TProperties): Readonly<Record<string, SettingValue>> {
  const values = config as Readonly<Record<string, unknown>>
  const plain = Object.keys(schemas).filter((name) => schemas[name] && isPlain(schemas[name]))
  return Object.fromEntries(plain.map((name) => [name, values[name] as SettingValue]))
}

/** A number, a switch, an amount as text, or one of a few words. */
function isPlain({ type, pattern, anyOf }: TSchema): boolean {
  if (['number', 'integer', 'boolean'].includes(type)) return true
  if (type === 'string') return String(pattern).startsWith('^[0-9]')
  return Array.isArray(anyOf) && anyOf.every((each: TSchema) => each.const !== undefined)
}

/** Settings of a gateway's own row hold no secrets: those of its payments are named apart. */
function gatewaySection({ name, paymentMethods, ...row }: GatewayConfig): Section {
  const methods = paymentMethods.map((method, index) => [`payment ${index + 1}`, methodOf(method)] as const)
  const settings = Object.entries(row).map(([setting, value]) => [snakeCase(setting), value as SettingValue] as const)
  return section(`Gateway ${name}`, Object.fromEntries([...settings, ...methods]))
}

const snakeCase = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

function methodOf(method: PaymentMethod): string {
  if (method.kind === 'batched') return `batched through ${hostOf(method.url)}, to ${method.payTo}`
  const { settles } = method
  const settler =
    settles.by === 'facilitators'
      ? `by ${settles.rows.map(({ url }) => hostOf(url)).join(', ')}`
      : `by own accounts (${settles.keys.length} ${settles.keys.length === 1 ? 'key' : 'keys'}, hidden)`
  return `${method.network}, ${method.asset}, to ${method.payTo}, node ${hostOf(method.rpcUrl)}, settled ${settler}`
}

function section(title: string, settings: Readonly<Record<string, SettingValue>>): Section {
  return { title, settings: Object.entries(settings).map(([name, value]) => ({ name, value: textOf(value) })) }
}

function textOf(value: SettingValue): string {
  if (value === undefined) return 'not set'
  if (typeof value === 'object') return value.length === 0 ? 'none' : value.join(', ')
  return String(value)
}

const secret = (value: string | undefined): string => (value === undefined ? 'not set' : 'set (hidden)')

/** Paths and queries of URLs may hold keys, and user names come before the host. */
function hostOf(url: string | undefined): string | undefined {
  return url === undefined ? undefined : (URL.parse(url)?.host ?? 'set (hidden)')
}

function objectsOf(objects: Config['objects']): string {
  if (objects.kind === 'memory') return 'memory'
  return objects.kind === 'file' ? `disk, ${objects.dir}` : `S3, ${hostOf(objects.url)}`
}

const DAY_MS = 86_400_000
const days = (ms: number | undefined): string | undefined =>
  ms === undefined ? undefined : `${Math.round((ms / DAY_MS) * 100) / 100} days`
