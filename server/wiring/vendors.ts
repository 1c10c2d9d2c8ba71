/** From configuration to vendors: who makes, answers and finds what is sold. All gateways of a process share them. */
import { randomBytes } from '../../adapters/local.ts'
import { arkAssets } from '../../adapters/providers/bytedance/assets.ts'
import { MUSIC_TIMEOUT_MS, SOUND_TIMEOUT_MS } from '../../adapters/providers/lib/audio_provider.ts'
import { demoAudio } from '../../adapters/providers/demo/audio.ts'
import { demoImages } from '../../adapters/providers/demo/images.ts'
import { demoVideos } from '../../adapters/providers/demo/videos.ts'
import { demoSearch } from '../../adapters/providers/demo/search.ts'
import { ELEVENLABS, elevenlabs } from '../../adapters/providers/elevenlabs/audio.ts'
import { EXA_SEARCH, exaSearch } from '../../adapters/providers/exa/search.ts'
import { mediaFetcher } from '../../adapters/http/fetch.ts'
import { demoCharacters } from '../../adapters/providers/demo/characters.ts'
import { cachedMarket } from '../../adapters/providers/lib/market_cache.ts'
import { mediaStreamer } from '../../adapters/http/media_download.ts'
import { MINIMAX, minimaxMusic } from '../../adapters/providers/minimax/music.ts'
import {
  chatBaseUrls,
  chatProtocols,
  imageBaseUrls,
  imageProtocols,
  videoBaseUrls,
  videoProtocols,
} from '../../adapters/providers/mod.ts'
import { openaiSpeech } from '../../adapters/providers/openai/speech.ts'
import { echoVendor } from '../../adapters/providers/demo/chat.ts'
import { pythMarket } from '../../adapters/providers/pyth/market.ts'
import { pictureResizer } from '../../adapters/providers/lib/resize.ts'
import { rpcNodes } from '../../adapters/providers/json_rpc/nodes.ts'
import { demoMarket } from '../../adapters/providers/demo/market.ts'
import { firstOf, SEARCH_TIMEOUT_MS } from '../../adapters/providers/lib/search_provider.ts'
import { XAI_SEARCH, xaiSearch } from '../../adapters/providers/xai/search.ts'
import { zerox } from '../../adapters/providers/zerox/swap.ts'
import type {
  AudioVendor,
  ChatRow,
  ChatVendor,
  Clock,
  ImageRow,
  ImageVendor,
  SearchVendor,
  Vendors,
  VideoRow,
  VideoVendor,
} from '../../core/mod.ts'
import type { Config } from '../config/mod.ts'
import { AUDIO_NEEDS } from '../config/audio.ts'
import type { ChatServing } from '../config/chat.ts'
import type { RpcNodes } from '../config/rpc.ts'
import type { SearchConfig } from '../config/services.ts'
import { dataVendors } from './data.ts'
import { effectVendors } from './effects.ts'
import { sandboxVendor } from './sandbox.ts'
import type { Serving } from '../config/vendors.ts'
import type { VideoServing } from '../config/video.ts'
import type { ServerLog } from '../log.ts'
import type { Timed } from '../metrics.ts'

/** `undo` are steps of the stop, the last one first. */
export type Opening = { readonly log: ServerLog; readonly clock: Clock; readonly undo: (() => unknown)[] }
type Vending = Opening & { readonly timed: Timed; readonly isDevnet: boolean; readonly nodes: RpcNodes }
type Counting = { countTokens(text: string): Promise<number> }

export const untimed: Timed = (_name, vendor) => vendor

export function vendorsOf(config: Config, vending: Vending & Counting): Vendors {
  const trusted = { trusted: config.trustedHosts }
  return {
    ...services(config, vending),
    ...dataVendors(config, vending),
    ...rpcVendor(vending),
    ...effectVendors(config, vending),
    ...sandboxVendor(config, vending),
    images: imageVendors(config, vending),
    chat: chatVendors(config, vending),
    video: videoVendors(config, vending),
    audio: audioVendors(config, vending),
    media: mediaFetcher(trusted),
    stream: mediaStreamer(trusted),
  }
}

function rpcVendor({ nodes, log, clock, timed }: Vending): Pick<Vendors, 'rpc'> {
  return Object.keys(nodes).length === 0 ? {} : { rpc: timed('rpc', rpcNodes({ nodes, log, clock })) }
}

/** A row is served as the operator configured it; on devnet the embedded vendor draws the rest, elsewhere the rest is not for sale. */
function imageVendors({ images }: Config, { log, clock, undo, timed, isDevnet }: Vending): Vendors['images'] {
  const drawing = demoImages()
  undo.push(() => drawing.close())
  const demo = timed('demo', drawing)
  const build = (row: ImageRow, { protocol, baseUrl, ...settings }: Serving): ImageVendor => {
    if (protocol === 'demo') return demo
    return timed(
      row.vendor,
      imageProtocols[protocol]({
        ...settings,
        baseUrl: baseUrl ?? imageBaseUrls[protocol],
        maker: row.maker,
        clock,
        log,
      }),
    )
  }
  const byRow = new Map<string, ImageVendor>()
  for (const row of images.rows) {
    const serving = images.servings.get(row.id)
    if (serving) byRow.set(row.id, build(row, serving))
    if (serving?.protocol === 'demo' && !isDevnet)
      log.warn('this model is served by the demo, not by a model, for real money', { model: row.id })
  }
  return (row) => byRow.get(row.id) ?? (isDevnet ? demo : undefined)
}

/** Rows served alike share one vendor. Nobody stands in for a model: on devnet too, the echo model serves its own rows only, unless told. */
function chatVendors(
  { chat }: Config,
  { log, clock, timed, isDevnet, countTokens }: Vending & Counting,
): Vendors['chat'] {
  const echo = timed('echo', echoVendor({ countTokens, now: clock.now }))
  const built = new Map<string, ChatVendor>()
  const build = (row: ChatRow, serving: ChatServing): ChatVendor => {
    const { protocol, baseUrl, ...settings } = serving
    if (protocol === 'echo') return echo
    const alike = JSON.stringify([row.maker, row.vendor, serving])
    const vendor =
      built.get(alike) ??
      timed(
        row.vendor,
        chatProtocols[protocol]({
          ...settings,
          baseUrl: baseUrl ?? chatBaseUrls[protocol],
          maker: row.maker,
          clock,
          log,
        }),
      )
    built.set(alike, vendor)
    return vendor
  }
  const byRow = new Map<string, ChatVendor>()
  for (const row of chat.rows) {
    const serving = chat.servings.get(row.id)
    if (serving) byRow.set(row.id, build(row, serving))
    else if (isDevnet && row.vendor === 'embedded') byRow.set(row.id, echo)
    if (serving?.protocol === 'echo' && !isDevnet && row.billing.mode !== 'free')
      log.warn('this model is served by the echo model, a small text program, for real money', { model: row.id })
  }
  return (row) => byRow.get(row.id)
}

/**
 * A job is looked for where it was submitted: a row that names another vendor than its own means that one. On devnet the embedded vendor films
 * what nobody is configured for; it does not stand in for vendor-f, whose maker has shut its videos down.
 */
function videoVendors(
  { videos, trustedHosts }: Config,
  { log, clock, undo, timed, isDevnet }: Vending,
): NonNullable<Vendors['video']> {
  const filming = demoVideos({ log })
  undo.push(() => filming.close())
  const demo = timed('demo', filming)
  const resize = pictureResizer()
  const media = mediaFetcher({ trusted: trustedHosts })
  const built = new Map<string, VideoVendor>()
  const build = ({ maker, vendor: name }: VideoRow, serving: VideoServing): VideoVendor => {
    const { protocol, baseUrl, ...settings } = serving
    if (protocol === 'demo') return demo
    const alike = JSON.stringify([maker, name, serving])
    const vendor =
      built.get(alike) ??
      timed(
        name,
        videoProtocols[protocol]({
          ...settings,
          baseUrl: baseUrl ?? videoBaseUrls[protocol],
          maker,
          clock,
          log,
          resize,
          media,
        }),
      )
    built.set(alike, vendor)
    return vendor
  }
  const own = new Map(videos.rows.map((row) => [row.id, row.vendor]))
  for (const row of videos.rows) {
    const isDemo = videos.servings.get(row.id)?.protocol === 'demo'
    if (isDemo && !isDevnet)
      log.warn('this model is served by the demo, not by a model, for real money', { model: row.id })
  }
  return (row) => {
    const serving = own.get(row.id) === row.vendor ? videos.servings.get(row.id) : videos.byVendor.get(row.vendor)
    if (serving) return build(row, serving)
    return isDevnet && row.family !== 'f' ? demo : undefined
  }
}

/** A row is served by the vendor that it names; on devnet the embedded one speaks and plays for those that are not set up. */
function audioVendors(
  { audio }: Config,
  { log, clock, undo, timed, isDevnet }: Vending,
): NonNullable<Vendors['audio']> {
  const { rows, elevenlabs: eleven, minimax, speech } = audio
  const playing = demoAudio()
  undo.push(() => playing.close())
  const demo = timed('demo', playing)
  const common = { clock, log }
  const built: Readonly<Record<string, AudioVendor | undefined>> = {
    embedded: demo,
    elevenlabs:
      eleven &&
      timed(
        'elevenlabs',
        elevenlabs({
          ...common,
          key: eleven.key,
          baseUrl: eleven.baseUrl ?? ELEVENLABS.baseUrl,
          maker: 'elevenlabs',
          timeoutMs: SOUND_TIMEOUT_MS,
        }),
      ),
    minimax:
      minimax &&
      timed(
        'minimax',
        minimaxMusic({
          ...common,
          key: minimax.key,
          baseUrl: minimax.baseUrl ?? MINIMAX.baseUrl,
          maker: 'minimax',
          timeoutMs: MUSIC_TIMEOUT_MS,
        }),
      ),
    speech:
      speech && timed('speech', openaiSpeech({ ...common, ...speech, maker: 'local', timeoutMs: SOUND_TIMEOUT_MS })),
  }
  const missing = new Set(rows.filter(({ vendor }) => !built[vendor]).map(({ vendor }) => vendor))
  for (const vendor of isDevnet ? [] : missing)
    log.info('audio models are not for sale: their vendor is not set up', {
      vendor,
      setting: AUDIO_NEEDS[vendor] ?? 'another vendor in [[audio]]',
    })
  for (const { id } of isDevnet ? [] : rows.filter(({ vendor }) => vendor === 'embedded'))
    log.warn('this model is served by the embedded audio vendor, for real money', { model: id })
  return ({ vendor }) => built[vendor] ?? (isDevnet ? demo : undefined)
}

/** Search, prices and swaps, shared by all gateways: one cache stands before the price feed. On devnet the embedded ones fill in where nothing is set. */
function services(
  { search, market, swap, portraits }: Config,
  { log, clock, timed, isDevnet }: Vending,
): Pick<Vendors, 'search' | 'market' | 'swap' | 'portraits'> {
  const sources = (search ?? (isDevnet ? [{ by: 'corpus' as const }] : [])).map((source) =>
    timed(source.by, searchVendor(source, { log, clock })),
  )
  const [first, ...rest] = sources
  const prices = market ?? { by: isDevnet ? ('sample' as const) : ('off' as const) }
  if (!isDevnet && search?.some(({ by }) => by === 'corpus'))
    log.warn('search answers from a few bundled documents, for real money')
  if (!isDevnet && prices.by === 'sample') log.warn('prices are made up by the embedded sample market, for real money')
  return {
    ...(first && { search: rest.reduce(firstOf, first) }),
    ...(prices.by === 'sample' && { market: demoMarket({ clock }) }),
    ...(prices.by === 'pyth' && {
      market: cachedMarket(timed('pyth', pythMarket({ ...prices, clock, log })), { clock, log }),
    }),
    ...(swap && { swap: timed('zerox', zerox({ ...swap, log })) }),
    ...(portraits && { portraits: timed('ark-assets', arkAssets({ ...portraits, maker: 'vendor-e', clock, log })) }),
    ...(!portraits && isDevnet && { portraits: demoCharacters({ random: randomBytes }) }),
  }
}

function searchVendor(source: SearchConfig, { log, clock }: Pick<Vending, 'log' | 'clock'>): SearchVendor {
  if (source.by === 'corpus') return demoSearch()
  const common = { key: source.key, timeoutMs: SEARCH_TIMEOUT_MS, clock, log }
  if (source.by === 'exa') return exaSearch({ ...common, baseUrl: source.baseUrl ?? EXA_SEARCH.baseUrl, maker: 'Exa' })
  return xaiSearch({
    ...common,
    baseUrl: source.baseUrl ?? XAI_SEARCH.baseUrl,
    model: source.model ?? XAI_SEARCH.model,
    maker: 'xAI',
  })
}
