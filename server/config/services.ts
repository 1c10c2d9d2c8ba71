/** The part of the configuration that says who searches, who knows prices, and who finds swaps. */
import { type Static, Type } from '@sinclair/typebox'
import { getAddress } from 'viem'
import { type AudioConfig, audioSettings, audioVariables, keyedAudio, resolveAudio } from './audio.ts'
import { type DataServices, dataSettings, dataUrls, dataVariables, keyedData, resolveData } from './data.ts'
import {
  effectSettings,
  effectUrls,
  effectVariables,
  type EffectServices,
  keyedEffects,
  resolveEffects,
} from './effects.ts'
import {
  keyedSandbox,
  resolveSandbox,
  type SandboxConfig,
  sandboxSettings,
  sandboxUrls,
  sandboxVariables,
} from './sandbox.ts'
import type { Environment } from './vendors.ts'
import { oneOf, setting, Url } from './settings.ts'

/** Settings of the file; their keys come from the environment only. */
export const serviceSettings = {
  ...dataSettings,
  ...effectSettings,
  ...sandboxSettings,
  search: setting(
    'Who answers `/api/v1/search`, in the order in which they are asked: `xai`, `exa`, or `corpus` (a few bundled documents, alone only). An empty list turns search off.',
    Type.Array(oneOf('xai', 'exa', 'corpus'), { maxItems: 2 }),
    { usual: '`xai` and `exa` with their keys; `corpus` on devnet' },
  ),
  xai_search_model: setting('The model that searches at xAI.', Type.String({ minLength: 1, maxLength: 100 }), {
    usual: '`grok-4.20-non-reasoning`',
  }),
  exa_base_url: setting('Another address of the Exa API.', Url, { usual: 'the public API' }),
  market: setting('Who answers prices: `pyth`, `sample` (made-up prices) or `off`.', oneOf('pyth', 'sample', 'off'), {
    usual: '`pyth` with its key; `sample` on devnet; else `off`',
  }),
  pyth_hermes_url: setting(
    'Another address of Pyth Hermes (latest prices). With `pyth_history_url` no key is needed.',
    Url,
    { usual: 'the public API' },
  ),
  pyth_history_url: setting('Another address of the Pyth price history.', Url, { usual: 'the public API' }),
  swap_fee_recipient: setting(
    'The address that receives the 0.2% fee of swaps. `ZEROX_API_KEY` needs it.',
    Type.String({ pattern: '^0x[0-9a-fA-F]{40}$' }),
  ),
  zerox_base_url: setting('Another address of the 0x API.', Url, { usual: 'the public API' }),
  ark_assets_base_url: setting(
    'Another address of the ModelArk control plane, where characters for video are enrolled.',
    Url,
    { usual: 'BytePlus' },
  ),
  ark_assets_region: setting('The region of that control plane.', Type.String({ pattern: '^[a-z0-9-]{2,40}$' }), {
    usual: '`ap-southeast-1`',
  }),
  ...audioSettings,
}
const Settings = Type.Object(serviceSettings)

/** Environment variables that stand for those settings. */
export const serviceVariables = {
  ...dataVariables,
  ...effectVariables,
  ...sandboxVariables,
  XAI_SEARCH_MODEL: 'xai_search_model',
  EXA_BASE_URL: 'exa_base_url',
  MARKET: 'market',
  PYTH_HERMES_URL: 'pyth_hermes_url',
  PYTH_HISTORY_URL: 'pyth_history_url',
  SWAP_FEE_RECIPIENT: 'swap_fee_recipient',
  ZEROX_BASE_URL: 'zerox_base_url',
  ARK_ASSETS_BASE_URL: 'ark_assets_base_url',
  ARK_ASSETS_REGION: 'ark_assets_region',
  ...audioVariables,
} as const

/** Addresses and models are the maker's own unless told. */
export type SearchConfig =
  | {
      readonly by: 'xai'
      readonly key: string
      readonly baseUrl: string | undefined
      readonly model: string | undefined
    }
  | { readonly by: 'exa'; readonly key: string; readonly baseUrl: string | undefined }
  | { readonly by: 'corpus' }
export type MarketConfig =
  | {
      readonly by: 'pyth'
      readonly key: string | undefined
      readonly hermesUrl: string | undefined
      readonly historyUrl: string | undefined
    }
  | { readonly by: 'sample' }
  | { readonly by: 'off' }
export type SwapConfig = { readonly key: string; readonly feeRecipient: string; readonly baseUrl: string | undefined }

/** ModelArk's control plane, whose keys are others than those of inference. */
export type PortraitConfig = {
  readonly accessKey: string
  readonly secretKey: string
  readonly baseUrl: string | undefined
  readonly region: string | undefined
}

/** What is not set here is embedded on devnet, and not for sale elsewhere. A swap has nothing embedded. */
export type Services = DataServices &
  EffectServices & { readonly sandbox?: SandboxConfig | undefined } & {
    readonly search?: readonly SearchConfig[] | undefined
    readonly market?: MarketConfig | undefined
    readonly swap?: SwapConfig | undefined
    readonly portraits?: PortraitConfig | undefined
    readonly audio: AudioConfig
  }

type Reading = { readonly env: Environment; readonly mistakes: string[] }
type Given = Static<typeof Settings>

/** Mistakes are added by name; keys are looked up, never shown. */
export function resolveServices(given: Given, reading: Reading): Services {
  reading.mistakes.push(...urlMistakes(given))
  const secret = (variable: string) => reading.env[variable] || undefined
  const tools = {
    key: (variable: string) => keyIn(reading, variable),
    secret,
    mistake: (text: string) => void reading.mistakes.push(text),
    unread: (settings: Parameters<typeof unread>[0], why: string) => unread(settings, why, reading),
  }
  return {
    ...resolveData(given, tools),
    ...resolveEffects(given, tools),
    sandbox: resolveSandbox(given, tools),
    search: resolveSearch(given, reading),
    market: resolveMarket(given, reading),
    swap: resolveSwap(given, reading),
    portraits: resolvePortraits(given, reading),
    audio: resolveAudio(given, { ...reading, keyIn: tools.key, unread: tools.unread }),
  }
}

/** The setting and the variable that stands for it: either may have said it. */
const named = (setting: keyof Given): string => {
  const variable = Object.entries(serviceVariables).find(([, each]) => each === setting)?.[0]
  return variable ? `${setting} (${variable})` : setting
}

/** Roots, to which paths are added. Their values are not shown: an address may hold a key. */
function urlMistakes(given: Given): readonly string[] {
  return (
    [
      'exa_base_url',
      'pyth_hermes_url',
      'pyth_history_url',
      'zerox_base_url',
      'ark_assets_base_url',
      'elevenlabs_base_url',
      'minimax_base_url',
      'speech_base_url',
      ...dataUrls,
      ...effectUrls,
      ...sandboxUrls,
    ] as const
  ).flatMap((setting) => {
    const value = given[setting]
    return value === undefined || isRoot(value)
      ? []
      : [
          `${named(setting)}: must be the root of an API, such as https://api.example/v1, without a user, a query or a fragment (its value is not shown)`,
        ]
  })
}

function isRoot(text: string): boolean {
  const url = /^https?:\/\/[^\s/?#\\]+[^\s?#\\]*$/.test(text) ? URL.parse(text) : null
  return url !== null && url.username === '' && url.password === ''
}

/** A key goes into a header as it stands: a blank or a line break in it would fail every call. */
function keyIn({ env, mistakes }: Reading, variable: string): string | undefined {
  const key = env[variable]
  if (!key) return undefined
  const mistake = `${variable}: holds a blank, a line break or a letter that no key has (its value is not shown)`
  if (!/^[\x21-\x7e]+$/.test(key) && !mistakes.includes(mistake)) mistakes.push(mistake)
  return key
}

/** A setting that nothing reads is a gateway that is not what its operator thinks. */
function unread(settings: Readonly<Record<string, string | undefined>>, why: string, { mistakes }: Reading): void {
  for (const [setting, value] of Object.entries(settings))
    if (value !== undefined) mistakes.push(`${named(setting as keyof Given)}: has no meaning ${why}`)
}

const ARK = { access: 'ARK_ACCESS_KEY', secret: 'ARK_SECRET_KEY' } as const
const KEYS = { xai: 'XAI_API_KEY', exa: 'EXA_API_KEY', pyth: 'PYTH_API_KEY', zerox: 'ZEROX_API_KEY' } as const

function resolveSearch(
  { search, websearch, xai_search_model: model, exa_base_url: exaUrl }: Given,
  reading: Reading,
): Services['search'] {
  const { env, mistakes } = reading
  const found = (['xai', 'exa'] as const).filter((name) => env[KEYS[name]])
  const order = search ?? (found.length > 0 ? found : undefined)
  if (search && new Set(search).size < search.length) mistakes.push('search: names one twice')
  if (search?.includes('corpus') && search.length > 1)
    mistakes.push('search: corpus answers from a few bundled documents, so it stands alone')
  if (!order?.includes('xai'))
    unread({ xai_search_model: model }, `unless xAI searches, which needs ${KEYS.xai}`, reading)
  if (!order?.includes('exa') && websearch !== 'exa' && (websearch || !env[KEYS.exa]))
    unread({ exa_base_url: exaUrl }, `unless Exa searches, which needs ${KEYS.exa}`, reading)
  return order?.map((name): SearchConfig => {
    if (name === 'corpus') return { by: 'corpus' }
    const key = keyIn(reading, KEYS[name])
    if (!key) mistakes.push(`search: ${name} needs the environment variable ${KEYS[name]}, which is not set`)
    if (name === 'exa') return { by: 'exa', key: key ?? '', baseUrl: exaUrl }
    // The address beside the key, which the maker's chat and images use as well; a bad one is told where they are read.
    return { by: 'xai', key: key ?? '', baseUrl: env.XAI_BASE_URL || undefined, model }
  })
}

function resolveMarket(
  { market, pyth_hermes_url: hermesUrl, pyth_history_url: historyUrl }: Given,
  reading: Reading,
): Services['market'] {
  const by = market ?? (reading.env[KEYS.pyth] ? 'pyth' : undefined)
  if (by !== 'pyth') {
    unread(
      { pyth_hermes_url: hermesUrl, pyth_history_url: historyUrl },
      `unless market (MARKET) is pyth, which needs ${KEYS.pyth} or both of them`,
      reading,
    )
    return by && { by }
  }
  const key = keyIn(reading, KEYS.pyth)
  const { mistakes } = reading
  const isElsewhere = hermesUrl !== undefined && historyUrl !== undefined
  if (!key && !isElsewhere)
    mistakes.push(
      `market: pyth needs the environment variable ${KEYS.pyth}, which is not set; without a key, name both pyth_hermes_url and pyth_history_url`,
    )
  return { by, key, hermesUrl, historyUrl }
}

function resolveSwap(
  { swap_fee_recipient: feeRecipient, zerox_base_url: baseUrl }: Given,
  reading: Reading,
): Services['swap'] {
  const { mistakes } = reading
  const key = keyIn(reading, KEYS.zerox)
  if (!key) unread({ zerox_base_url: baseUrl }, `without ${KEYS.zerox}`, reading)
  if (!key && !feeRecipient) return undefined
  if (!key) mistakes.push(`${KEYS.zerox}: not set; swap_fee_recipient (SWAP_FEE_RECIPIENT) has no meaning without it`)
  if (!feeRecipient)
    mistakes.push(
      `SWAP_FEE_RECIPIENT: not set; ${KEYS.zerox} needs it, or swap_fee_recipient: the address that the fee of 0.2% goes to`,
    )
  if (feeRecipient && /^0x0+$/.test(feeRecipient))
    mistakes.push('SWAP_FEE_RECIPIENT: the zero address would burn every fee')
  if (feeRecipient && isMistyped(feeRecipient))
    mistakes.push('SWAP_FEE_RECIPIENT: its capitals do not match its checksum (EIP-55); a digit may be wrong')
  return { key: key ?? '', feeRecipient: feeRecipient ?? '', baseUrl }
}

function resolvePortraits(
  { ark_assets_base_url: baseUrl, ark_assets_region: region }: Given,
  reading: Reading,
): Services['portraits'] {
  const [accessKey, secretKey] = [keyIn(reading, ARK.access), keyIn(reading, ARK.secret)]
  if (!accessKey && !secretKey) {
    unread(
      { ark_assets_base_url: baseUrl, ark_assets_region: region },
      `without ${ARK.access} and ${ARK.secret}`,
      reading,
    )
    return undefined
  }
  if (!accessKey || !secretKey)
    reading.mistakes.push(`${accessKey ? ARK.secret : ARK.access}: not set; the two go together`)
  return { accessKey: accessKey ?? '', secretKey: secretKey ?? '', baseUrl, region }
}

/** Of one case, an address has no checksum. */
function isMistyped(address: string): boolean {
  const isMixed = /[a-f]/.test(address.slice(2)) && /[A-F]/.test(address.slice(2))
  return isMixed && getAddress(address.toLowerCase()) !== address
}

/** Services whose calls are the operator's to pay for or to answer for, by the name of their account, with the variable of their key. */
export function keyedServices({
  search = [],
  market,
  swap,
  portraits,
  audio,
  sandbox,
  ...data
}: Services): ReadonlyMap<string, string> {
  const keyed = new Map<string, string>([...keyedData(data), ...keyedEffects(data), ...keyedSandbox(sandbox)])
  for (const { by } of search) if (by !== 'corpus') keyed.set(by === 'xai' ? 'vendor-c' : by, KEYS[by])
  if (market?.by === 'pyth' && market.key) keyed.set('pyth', KEYS.pyth)
  if (swap) keyed.set('zerox', KEYS.zerox)
  if (portraits) keyed.set('ark-assets', ARK.access)
  for (const [name, variable] of keyedAudio(audio)) keyed.set(name, variable)
  return keyed
}
