/** The part of the configuration that says who calls people, rents numbers, sells links and takes deposits. Each acts upon the world, so none begins by a key alone: it has to be named. */
import { type Static, Type } from '@sinclair/typebox'
import { oneOf, setting, Url } from './settings.ts'

/** Off until it is named. */
const off = { usual: '`off`' }

/** Settings of the file; their keys come from the environment only. */
export const effectSettings = {
  voice: setting('Who places phone calls. Needs `phone` as well.', oneOf('bland', 'off'), off),
  bland_base_url: setting('Another address of the Bland API.', Url, { usual: 'the public API' }),
  phone: setting('Who looks up and rents phone numbers.', oneOf('twilio', 'off'), off),
  twilio_base_url: setting('Another address of the Twilio API.', Url, { usual: 'the public API' }),
  twilio_lookups_url: setting('Another address of the Twilio Lookup API.', Url, { usual: 'the public API' }),
  phone_countries: setting(
    'Countries in which numbers are rented (ISO 3166, separated by commas). All cost the buyer the same.',
    Type.String({ pattern: '^[A-Z]{2}(,[A-Z]{2})*$', maxLength: 300 }),
    { usual: '`US,CA`' },
  ),
  twilio_fraud_fields: setting(
    'Twilio Lookup packages of a fraud lookup, separated by commas. Some, such as `sim_swap`, need Twilio’s approval.',
    Type.String({ pattern: '^[a-z_]+(,[a-z_]+)*$', maxLength: 300 }),
    { usual: '`line_type_intelligence,sms_pumping_risk`' },
  ),
  onramp: setting('Who sells USDC to wallets.', oneOf('coinbase', 'off'), off),
  onramp_base_url: setting('Another address of the Coinbase API.', Url, { usual: 'the public API' }),
  polymarket_funding: setting(
    'Who takes Polymarket deposits. Works on gateways that are paid directly on an EVM network.',
    oneOf('bridge', 'off'),
    off,
  ),
  polymarket_bridge_url: setting('Another address of the Polymarket bridge.', Url, { usual: 'the public API' }),
}
const Settings = Type.Object(effectSettings)
type Given = Static<typeof Settings>

export const effectVariables = {
  VOICE: 'voice',
  BLAND_BASE_URL: 'bland_base_url',
  PHONE: 'phone',
  TWILIO_BASE_URL: 'twilio_base_url',
  TWILIO_LOOKUPS_URL: 'twilio_lookups_url',
  PHONE_COUNTRIES: 'phone_countries',
  TWILIO_FRAUD_FIELDS: 'twilio_fraud_fields',
  ONRAMP: 'onramp',
  ONRAMP_BASE_URL: 'onramp_base_url',
  POLYMARKET_FUNDING: 'polymarket_funding',
  POLYMARKET_BRIDGE_URL: 'polymarket_bridge_url',
} as const

export const effectUrls = [
  'bland_base_url',
  'twilio_base_url',
  'twilio_lookups_url',
  'onramp_base_url',
  'polymarket_bridge_url',
] as const

export type VoiceConfig = { readonly key: string; readonly encryptedKey: string; readonly baseUrl: string | undefined }
export type PhoneConfig = {
  readonly accountSid: string
  readonly authToken: string
  readonly baseUrl: string | undefined
  readonly lookupsUrl: string | undefined
  readonly fraudFields: string | undefined
  readonly countries: readonly string[] | undefined
}
export type OnrampConfig = { readonly keyId: string; readonly keySecret: string; readonly baseUrl: string | undefined }
export type BridgeConfig = { readonly baseUrl: string | undefined }

/** What is not here is not for sale, on devnet as elsewhere. */
export type EffectServices = {
  readonly voice?: VoiceConfig | undefined
  readonly phone?: PhoneConfig | undefined
  readonly onramp?: OnrampConfig | undefined
  readonly bridge?: BridgeConfig | undefined
}

/** `secret` is a key that may hold blanks and line breaks. */
type Tools = {
  key(variable: string): string | undefined
  secret(variable: string): string | undefined
  mistake(text: string): void
  unread(settings: Readonly<Record<string, string | undefined>>, why: string): void
}

const KEYS = {
  voice: ['BLAND_API_KEY', 'BLAND_ENCRYPTED_KEY'],
  phone: ['TWILIO_ACCOUNT_SID', 'TWILIO_AUTH_TOKEN'],
  onramp: ['CDP_API_KEY_ID', 'CDP_API_KEY_SECRET'],
} as const

export function resolveEffects(given: Given, tools: Tools): EffectServices {
  const phone = resolvePhone(given, tools)
  const voice = resolveVoice(given, tools)
  if (voice && !phone)
    tools.mistake(
      'voice: people are called from numbers that their callers rent here, so it needs phone (PHONE) as well',
    )
  return { voice, phone, onramp: resolveOnramp(given, tools), bridge: resolveBridge(given, tools) }
}

function resolveVoice(
  { voice, bland_base_url: baseUrl }: Given,
  { key, mistake, unread }: Tools,
): VoiceConfig | undefined {
  if (voice !== 'bland') return void unread({ bland_base_url: baseUrl }, 'unless voice (VOICE) is bland')
  const [own, account] = KEYS.voice
  const [found, encryptedKey] = [key(own), key(account)]
  if (!found) mistake(`voice: bland needs the environment variable ${own}, which is not set`)
  if (!encryptedKey)
    mistake(
      `voice: bland needs the environment variable ${account}, which is not set: what Bland gives for the Twilio account that rents the numbers`,
    )
  return { key: found ?? '', encryptedKey: encryptedKey ?? '', baseUrl }
}

function resolvePhone(
  {
    phone,
    twilio_base_url: baseUrl,
    twilio_lookups_url: lookupsUrl,
    twilio_fraud_fields: fraudFields,
    phone_countries: countries,
  }: Given,
  { key, mistake, unread }: Tools,
): PhoneConfig | undefined {
  if (phone !== 'twilio')
    return void unread(
      {
        twilio_base_url: baseUrl,
        twilio_lookups_url: lookupsUrl,
        twilio_fraud_fields: fraudFields,
        phone_countries: countries,
      },
      'unless phone (PHONE) is twilio',
    )
  const [sid, token] = KEYS.phone
  const [accountSid, authToken] = [key(sid), key(token)]
  if (!accountSid) mistake(`phone: twilio needs the environment variable ${sid}, which is not set`)
  if (accountSid && !/^AC[0-9a-fA-F]{32}$/.test(accountSid)) mistake(`${sid}: must be AC and 32 hex digits`)
  if (!authToken) mistake(`phone: twilio needs the environment variable ${token}, which is not set`)
  return {
    accountSid: accountSid ?? '',
    authToken: authToken ?? '',
    baseUrl,
    lookupsUrl,
    fraudFields,
    countries: countries?.split(','),
  }
}

function resolveOnramp(
  { onramp, onramp_base_url: baseUrl }: Given,
  { key, secret, mistake, unread }: Tools,
): OnrampConfig | undefined {
  if (onramp !== 'coinbase') return void unread({ onramp_base_url: baseUrl }, 'unless onramp (ONRAMP) is coinbase')
  const [id, signedQuery] = KEYS.onramp
  const [keyId, keySecret] = [key(id), secret(signedQuery)]
  if (!keyId) mistake(`onramp: coinbase needs the environment variable ${id}, which is not set`)
  if (!keySecret) mistake(`onramp: coinbase needs the environment variable ${signedQuery}, which is not set`)
  return { keyId: keyId ?? '', keySecret: keySecret ?? '', baseUrl }
}

function resolveBridge(
  { polymarket_funding: funding, polymarket_bridge_url: baseUrl }: Given,
  { unread }: Tools,
): BridgeConfig | undefined {
  if (funding === 'bridge') return { baseUrl }
  return void unread({ polymarket_bridge_url: baseUrl }, 'unless polymarket_funding (POLYMARKET_FUNDING) is bridge')
}

/** Those whose calls are the operator's to pay for, with the variable of their key. */
export function keyedEffects({ voice, phone, onramp }: EffectServices): readonly (readonly [string, string])[] {
  return [
    ...(voice ? [['bland', KEYS.voice[0]] as const] : []),
    ...(phone ? [['twilio', KEYS.phone[0]] as const] : []),
    ...(onramp ? [['coinbase', KEYS.onramp[0]] as const] : []),
  ]
}

/** What is not sold, and the settings that would change it: for the operator's log. */
export function effectsOff({ voice, phone, onramp, bridge }: EffectServices): readonly string[] {
  return [
    ...(voice ? [] : [`voice: needs voice = "bland" (VOICE), ${KEYS.voice.join(', ')} and phone`]),
    ...(phone ? [] : [`phone: needs phone = "twilio" (PHONE), ${KEYS.phone.join(' and ')}`]),
    ...(onramp ? [] : [`onramp: needs onramp = "coinbase" (ONRAMP), ${KEYS.onramp.join(' and ')}`]),
    ...(bridge ? [] : ['polymarket-funding: needs polymarket_funding = "bridge" (POLYMARKET_FUNDING)']),
  ]
}
