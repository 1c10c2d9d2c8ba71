/** The part of the configuration that says who searches the web page by page, and whose data are passed on. */
import { type Static, Type } from '@sinclair/typebox'
import { oneOf, setting, Url } from './settings.ts'

/** Settings of the file; their keys come from the environment only. */
export const dataSettings = {
  websearch: setting(
    'Who finds and reads web pages for `/api/v1/websearch`: `exa`, `corpus` (bundled documents) or `off`.',
    oneOf('exa', 'corpus', 'off'),
    { usual: '`exa` with its key; `corpus` on devnet; else `off`' },
  ),
  prediction: setting(
    'Who answers `/api/v1/pm`: `predexon`, `venues` (Polymarket and Kalshi, without a key), `sample` (made-up data) or `off`.',
    oneOf('predexon', 'venues', 'sample', 'off'),
    { usual: '`predexon` with its key; `sample` on devnet; else `off`' },
  ),
  predexon_base_url: setting('Another address of the Predexon API.', Url, { usual: 'the public API' }),
  defidata: setting(
    'Who answers `/api/v1/defidata`: `defillama` (its key is optional), `sample` (made-up data) or `off`.',
    oneOf('defillama', 'sample', 'off'),
    { usual: '`defillama` with its key; `sample` on devnet; else `off`' },
  ),
  defillama_base_url: setting('Another address of the DefiLlama API.', Url, { usual: 'the public API' }),
}
const Settings = Type.Object(dataSettings)
type Given = Static<typeof Settings> & { readonly exa_base_url?: string }

export const dataVariables = {
  WEBSEARCH: 'websearch',
  PREDICTION: 'prediction',
  PREDEXON_BASE_URL: 'predexon_base_url',
  DEFIDATA: 'defidata',
  DEFILLAMA_BASE_URL: 'defillama_base_url',
} as const

export const dataUrls = ['predexon_base_url', 'defillama_base_url'] as const

export type WebSearchConfig =
  | { readonly by: 'exa'; readonly key: string; readonly baseUrl: string | undefined }
  | { readonly by: 'corpus' | 'off' }
/** `venues` are asked themselves, without a key. */
export type PredictionConfig =
  | { readonly by: 'predexon'; readonly key: string; readonly baseUrl: string | undefined }
  | { readonly by: 'venues' | 'sample' | 'off' }
export type DefiConfig =
  | { readonly by: 'defillama'; readonly key: string | undefined; readonly baseUrl: string | undefined }
  | { readonly by: 'sample' | 'off' }

export type DataServices = {
  readonly websearch?: WebSearchConfig | undefined
  readonly prediction?: PredictionConfig | undefined
  readonly defi?: DefiConfig | undefined
}

/** How the rest of the configuration reads keys and tells mistakes. */
type Tools = {
  key(variable: string): string | undefined
  mistake(text: string): void
  unread(settings: Readonly<Record<string, string | undefined>>, why: string): void
}

const KEYS = { exa: 'EXA_API_KEY', predexon: 'PREDEXON_API_KEY', defillama: 'DEFILLAMA_API_KEY' } as const

/** A key brings its service to life; what needs none has to be named. */
export function resolveData(given: Given, tools: Tools): DataServices {
  return {
    websearch: resolveWebSearch(given, tools),
    prediction: resolvePrediction(given, tools),
    defi: resolveDefi(given, tools),
  }
}

function resolveWebSearch(
  { websearch, exa_base_url: baseUrl }: Given,
  { key, mistake }: Tools,
): WebSearchConfig | undefined {
  const found = key(KEYS.exa)
  const by = websearch ?? (found ? 'exa' : undefined)
  if (by !== 'exa') return by && { by }
  if (!found) mistake(`websearch: exa needs the environment variable ${KEYS.exa}, which is not set`)
  return { by, key: found ?? '', baseUrl }
}

function resolvePrediction(
  { prediction, predexon_base_url: baseUrl }: Given,
  { key, mistake, unread }: Tools,
): PredictionConfig | undefined {
  const found = key(KEYS.predexon)
  const by = prediction ?? (found ? 'predexon' : undefined)
  if (by !== 'predexon') {
    unread({ predexon_base_url: baseUrl }, `unless prediction (PREDICTION) is predexon, which needs ${KEYS.predexon}`)
    return by && { by }
  }
  if (!found)
    mistake(`prediction: predexon needs the environment variable ${KEYS.predexon}, which is not set; venues needs none`)
  return { by, key: found ?? '', baseUrl }
}

function resolveDefi({ defidata, defillama_base_url: baseUrl }: Given, { key, unread }: Tools): DefiConfig | undefined {
  const found = key(KEYS.defillama)
  const by = defidata ?? (found ? 'defillama' : undefined)
  if (by === 'defillama') return { by, key: found, baseUrl }
  unread({ defillama_base_url: baseUrl }, 'unless defidata (DEFIDATA) is defillama')
  return by && { by }
}

/** Those whose calls are the operator's to pay for, with the variable of their key. */
export function keyedData({ websearch, prediction, defi }: DataServices): readonly (readonly [string, string])[] {
  return [
    ...(websearch?.by === 'exa' ? [['exa', KEYS.exa] as const] : []),
    ...(prediction?.by === 'predexon' ? [['predexon', KEYS.predexon] as const] : []),
    ...(defi?.by === 'defillama' && defi.key ? [['defillama', KEYS.defillama] as const] : []),
  ]
}

/** What a real gateway does not sell, and the setting that would change it: for the operator's log. */
export function notForSale({ websearch, prediction, defi }: DataServices): readonly string[] {
  return [
    ...(websearch ? [] : [`websearch: ${KEYS.exa} is not set`]),
    ...(prediction ? [] : [`pm: neither ${KEYS.predexon} nor prediction (PREDICTION) is set`]),
    ...(defi ? [] : ['defidata: defidata (DEFIDATA) is not set']),
  ]
}
