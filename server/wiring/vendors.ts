/** From configuration to vendors: who makes, answers and finds what is sold. All gateways of a process share them. */
import { demoImages } from '../../adapters/providers/demo/images.ts'
import { demoVideos } from '../../adapters/providers/demo/videos.ts'
import { mediaFetcher } from '../../adapters/http/fetch.ts'
import { mediaStreamer } from '../../adapters/http/media_download.ts'
import {
  chatBaseUrls,
  chatProtocols,
  imageBaseUrls,
  imageProtocols,
  videoBaseUrls,
  videoProtocols,
} from '../../adapters/providers/mod.ts'
import { echoVendor } from '../../adapters/providers/demo/chat.ts'
import { pictureResizer } from '../../adapters/providers/lib/resize.ts'
import type {
  ChatRow,
  ChatVendor,
  Clock,
  ImageRow,
  ImageVendor,
  Vendors,
  VideoRow,
  VideoVendor,
} from '../../core/mod.ts'
import type { Config } from '../config/mod.ts'
import type { ChatServing } from '../config/chat.ts'
import type { RpcNodes } from '../config/rpc.ts'
import { serviceVendors } from './services.ts'
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
    ...serviceVendors(config, vending),
    images: imageVendors(config, vending),
    chat: chatVendors(config, vending),
    video: videoVendors(config, vending),
    media: mediaFetcher(trusted),
    stream: mediaStreamer(trusted),
  }
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
