/** The configuration as it is in force, for the operator. Secrets are named as set or not set, never shown. */
import { type Config, databaseInWords } from '../config/mod.ts'
import type { GatewayConfig } from '../config/gateways.ts'
import type { PaymentMethod } from '../config/payment_methods.ts'

export type SettingRow = { readonly name: string; readonly value: string }
export type Section = { readonly title: string; readonly settings: readonly SettingRow[] }

type SettingValue = string | number | boolean | readonly string[] | undefined

/** Nothing is shown that is not named here, so a new setting cannot leak a secret. */
export function configurationOf(config: Config, gateways: readonly GatewayConfig[]): readonly Section[] {
  const { retention } = config
  return [
    section('Process', {
      host: config.host,
      port: config.port,
      public_origin: config.public_origin,
      contact: config.contact,
      buyer_command: config.buyer_command,
      log_level: config.log_level,
      trusted_proxies: config.trusted_proxies ?? [],
      products: config.products,
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
      unclaimed_results: days(retention.unclaimedMs),
      settled_results: days(retention.settledMs),
      background_responses: days(retention.backgroundMs),
      ledger_rows: days(retention.ledgerMs),
      archived_after: days(retention.archiveMs),
      media: days(retention.mediaMs),
    }),
    section(
      'Limits',
      chosen(config, [
        'max_body_bytes',
        'max_upload_bytes',
        'body_memory_bytes',
        'max_connections',
        'max_connections_per_address',
        'free_per_minute',
        'free_per_hour',
        'unpaid_characters_per_minute',
      ]),
    ),
    section('Times', chosen(config, ['drain_grace_seconds', 'drain_seconds', 'lease_seconds', 'chat_receipt_seconds'])),
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

function chosen<Name extends keyof Config>(config: Config, names: readonly Name[]): Pick<Config, Name> {
  return Object.fromEntries(names.map((name) => [name, config[name]])) as Pick<Config, Name>
}

function gatewaySection({ name, ...row }: GatewayConfig): Section {
  const methods = row.paymentMethods.map((method, index) => [`payment ${index + 1}`, methodOf(method)] as const)
  return section(`Gateway ${name}`, {
    label: row.label,
    hosts: row.hosts,
    port: row.port,
    public_origin: row.publicOrigin,
    catalog: row.catalog,
    hidden: row.hidden,
    retired: row.retired,
    ...Object.fromEntries(methods),
  })
}

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
