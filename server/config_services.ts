/** The part of the configuration that says who searches, who knows prices, and who finds swaps. */
import { type Static, Type } from '@sinclair/typebox'
import type { Environment } from './config_vendors.ts'

const Url = Type.Optional(Type.String({ pattern: '^https?://' }))
const oneOf = <const Words extends readonly string[]>(...words: Words) => Type.Union(words.map((word: Words[number]) => Type.Literal(word)))

/** Settings of the file; their keys come from the environment only. */
export const serviceSettings = {
  /** In the order in which they are asked; an empty list sells no search. */
  search: Type.Optional(Type.Array(oneOf('xai', 'exa', 'corpus'), { maxItems: 2 })),
  xai_search_model: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
  exa_base_url: Url,
  market: Type.Optional(oneOf('pyth', 'sample', 'off')),
  pyth_hermes_url: Url,
  pyth_history_url: Url,
  swap_fee_recipient: Type.Optional(Type.String({ pattern: '^0x[0-9a-fA-F]{40}$' })),
  zerox_base_url: Url,
}
const Settings = Type.Object(serviceSettings)

/** Environment variables that stand for those settings. */
export const serviceVariables = {
  XAI_SEARCH_MODEL: 'xai_search_model',
  EXA_BASE_URL: 'exa_base_url',
  MARKET: 'market',
  PYTH_HERMES_URL: 'pyth_hermes_url',
  PYTH_HISTORY_URL: 'pyth_history_url',
  SWAP_FEE_RECIPIENT: 'swap_fee_recipient',
  ZEROX_BASE_URL: 'zerox_base_url',
} as const

/** Addresses and models are the maker's own unless told. */
export type SearchConfig =
  | { readonly by: 'xai'; readonly key: string; readonly baseUrl: string | undefined; readonly model: string | undefined }
  | { readonly by: 'exa'; readonly key: string; readonly baseUrl: string | undefined }
  | { readonly by: 'corpus' }
export type MarketConfig = { readonly by: 'pyth'; readonly key: string | undefined; readonly hermesUrl: string | undefined; readonly historyUrl: string | undefined } | { readonly by: 'sample' } | { readonly by: 'off' }
export type SwapConfig = { readonly key: string; readonly feeRecipient: string; readonly baseUrl: string | undefined }

/** What is not set here is embedded on devnet, and not for sale elsewhere. A swap has nothing embedded. */
export type Services = { readonly search?: readonly SearchConfig[] | undefined; readonly market?: MarketConfig | undefined; readonly swap?: SwapConfig | undefined }

type Reading = { readonly env: Environment; readonly mistakes: string[] }
type Given = Static<typeof Settings>

/** Mistakes are added by name; keys are looked up, never shown. */
export function resolveServices(given: Given, reading: Reading): Services {
  return { search: resolveSearch(given, reading), market: resolveMarket(given, reading), swap: resolveSwap(given, reading) }
}

const KEYS = { xai: 'XAI_API_KEY', exa: 'EXA_API_KEY', pyth: 'PYTH_API_KEY', zerox: 'ZEROX_API_KEY' } as const

function resolveSearch({ search, xai_search_model: model, exa_base_url: exaUrl }: Given, { env, mistakes }: Reading): Services['search'] {
  const found = (['xai', 'exa'] as const).filter((name) => env[KEYS[name]])
  const order = search ?? (found.length > 0 ? found : undefined)
  if (search && new Set(search).size < search.length) mistakes.push('search: names one twice')
  if (search?.includes('corpus') && search.length > 1) mistakes.push('search: corpus answers from a few bundled documents, so it stands alone')
  return order?.map((name): SearchConfig => {
    if (name === 'corpus') return { by: 'corpus' }
    const key = env[KEYS[name]]
    if (!key) mistakes.push(`search: ${name} needs the environment variable ${KEYS[name]}, which is not set`)
    if (name === 'exa') return { by: 'exa', key: key ?? '', baseUrl: exaUrl }
    // The address beside the key, which the maker's chat and images use as well; a bad one is told where they are read.
    return { by: 'xai', key: key ?? '', baseUrl: env.XAI_BASE_URL || undefined, model }
  })
}

function resolveMarket({ market, pyth_hermes_url: hermesUrl, pyth_history_url: historyUrl }: Given, { env, mistakes }: Reading): Services['market'] {
  const key = env[KEYS.pyth] || undefined
  const by = market ?? (key ? 'pyth' : undefined)
  if (by !== 'pyth') return by && { by }
  const isElsewhere = hermesUrl !== undefined && historyUrl !== undefined
  if (!key && !isElsewhere) mistakes.push(`market: pyth needs the environment variable ${KEYS.pyth}, which is not set; without a key, name both pyth_hermes_url and pyth_history_url`)
  return { by, key, hermesUrl, historyUrl }
}

function resolveSwap({ swap_fee_recipient: feeRecipient, zerox_base_url: baseUrl }: Given, { env, mistakes }: Reading): Services['swap'] {
  const key = env[KEYS.zerox]
  if (!key && !feeRecipient) return undefined
  if (!key) mistakes.push(`${KEYS.zerox}: not set; swap_fee_recipient (SWAP_FEE_RECIPIENT) has no meaning without it`)
  if (!feeRecipient) mistakes.push(`SWAP_FEE_RECIPIENT: not set; ${KEYS.zerox} needs it, or swap_fee_recipient: the address that the fee of 0.2% goes to`)
  if (feeRecipient && /^0x0+$/.test(feeRecipient)) mistakes.push('SWAP_FEE_RECIPIENT: the zero address would burn every fee')
  return { key: key ?? '', feeRecipient: feeRecipient ?? '', baseUrl }
}

/** Services whose calls are the operator's to pay for or to answer for, by the name of their account, with the variable of their key. */
export function keyedServices({ search = [], market, swap }: Services): ReadonlyMap<string, string> {
  const keyed = new Map<string, string>()
  for (const { by } of search) if (by !== 'corpus') keyed.set(by === 'xai' ? 'vendor-c' : by, KEYS[by])
  if (market?.by === 'pyth' && market.key) keyed.set('pyth', KEYS.pyth)
  if (swap) keyed.set('zerox', KEYS.zerox)
  return keyed
}
