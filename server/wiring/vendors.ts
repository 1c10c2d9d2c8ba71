/** Builds the model vendors from the configuration. All gateways of a process share them. */
import { hostOf, type VendorSlots } from '../../adapters/http/vendor_slots.ts'
import { mediaFetcher, mediaStreamer } from '../../adapters/http/media_download.ts'
import type { ModelKind, ModelPorts, Models } from '../../adapters/providers/manifest.ts'
import { pictureResizer } from '../../adapters/providers/lib/resize.ts'
import type { Clock, VideoRow, Vendors } from '../../core/mod.ts'
import type { Config } from '../config/mod.ts'
import { protocolOf, protocolsOf } from '../config/providers.ts'
import type { RpcNodes } from '../config/rpc.ts'
import { serviceVendors } from './services.ts'
import type { ServerLog } from '../log.ts'
import { ownProtocol, type OwnProtocols } from './own_files.ts'
import type { Timed } from '../metrics.ts'

/** `undo` are the shutdown steps, run in reverse order. */
export type Opening = { readonly log: ServerLog; readonly clock: Clock; readonly undo: (() => unknown)[] }
type Vending = Opening & { readonly timed: Timed; readonly isDevnet: boolean; readonly nodes: RpcNodes }
type Counting = {
  readonly slots?: VendorSlots
  countTokens(text: string): Promise<number>
  readonly own?: OwnProtocols
}

export const untimed: Timed = (_name, vendor) => vendor

export function vendorsOf(config: Config, vending: Vending & Counting): Vendors {
  const trusted = { trusted: config.trusted_hosts }
  return {
    ...serviceVendors(config, vending),
    images: imageVendors(config, vending),
    chat: chatVendors(config, vending),
    video: videoVendors(config, vending),
    media: mediaFetcher(trusted),
    stream: mediaStreamer(trusted),
  }
}

/** How a row is served: a protocol with its settings, and further input of the protocol. */
type Served<Kind extends ModelKind> = { readonly protocol: string; readonly baseUrl: string | undefined } & Omit<
  Models[Kind]['config'],
  'baseUrl' | 'maker' | 'clock' | 'log'
>
type Row = { readonly id: string; readonly maker: string; readonly vendor: string }

/** Creates the vendors of rows. Rows with equal settings share one, and all rows of a kind share its demo. */
function builderOf<Kind extends ModelKind>(
  kind: Kind,
  { log, clock, undo, timed, countTokens, slots, own = new Map() }: Vending & Counting,
  shared: Partial<Models[Kind]['config']> = {},
) {
  const ports: ModelPorts = { log, clock, countTokens, onClose: (step) => void undo.push(step) }
  const built = new Map<string, Models[Kind]['vendor']>()
  const standing = new WeakMap<Row, Models[Kind]['vendor']>()
  const demo = [...protocolsOf(kind)].find(([, { isDemo }]) => isDemo)
  return { build, standIn }

  function build({ maker, vendor: account }: Omit<Row, 'id'>, serving: Served<Kind>): Models[Kind]['vendor'] {
    const { protocol: name, baseUrl, ...settings } = serving
    const protocol = ownProtocol(own, kind, name) ?? protocolOf(kind, name)
    const alike = protocol.isDemo ? name : JSON.stringify([maker, account, serving])
    const config = { ...shared, ...settings, baseUrl: baseUrl ?? protocol.baseUrl, maker, clock, log }
    const make = () => limited(protocol.create(config as unknown as Models[Kind]['config'], ports), config.baseUrl)
    const vendor = built.get(alike) ?? timed(protocol.isDemo ? name : account, make())
    built.set(alike, vendor)
    return vendor
  }

  /** The vendor, which is full as well where no request to its host may begin. */
  function limited<Vendor extends { isFull?(): boolean }>(vendor: Vendor, baseUrl: string | undefined): Vendor {
    if (!slots || baseUrl === undefined) return vendor
    const host = hostOf(baseUrl)
    return { ...vendor, isFull: () => vendor.isFull?.() === true || slots.isFull(host) }
  }

  /** The demo, for rows without a configured vendor. Every quote asks for it. */
  function standIn(row: Row): Models[Kind]['vendor'] | undefined {
    const known = standing.get(row)
    if (known) return known
    const [name, { standsInFor = row.vendor }] = demo ?? ['', {}]
    if (!demo || standsInFor !== row.vendor) return undefined
    const made = build(row, { protocol: name, baseUrl: undefined, timeoutMs: 0 } as Served<Kind>)
    standing.set(row, made)
    return made
  }
}

/** Warns of rows whose buyers would pay real money for the demo. */
function warnOfDemo(
  kind: ModelKind,
  rows: readonly string[],
  { servings, log }: { servings: ReadonlyMap<string, { readonly protocol: string }>; log: ServerLog },
): void {
  for (const model of rows) {
    const serving = servings.get(model)
    if (serving && protocolOf(kind, serving.protocol).isDemo)
      log.warn('this model is served by the demo, not by a model, for real money', { model })
  }
}

/** Rows are served as configured. On devnet the demo serves the rest; elsewhere the rest is unavailable. */
function imageVendors({ images }: Config, vending: Vending & Counting): Vendors['images'] {
  const { log, isDevnet } = vending
  const { build, standIn } = builderOf('images', vending)
  const byRow = new Map(
    images.rows.flatMap((row) => {
      const serving = images.servings.get(row.id)
      return serving ? [[row.id, build(row, serving)] as const] : []
    }),
  )
  if (!isDevnet) warnOfDemo('images', idsOf(images.rows), { ...images, log })
  return (row) => byRow.get(row.id) ?? (isDevnet ? standIn(row) : undefined)
}

/** On devnet the demo serves its own rows. */
function chatVendors({ chat }: Config, vending: Vending & Counting): Vendors['chat'] {
  const { log, isDevnet } = vending
  const { build, standIn } = builderOf('chat', vending)
  const byRow = new Map(
    chat.rows.flatMap((row) => {
      const serving = chat.servings.get(row.id)
      if (serving) return [[row.id, build(row, serving)] as const]
      const demo = isDevnet ? standIn(row) : undefined
      return demo ? [[row.id, demo] as const] : []
    }),
  )
  const paid = chat.rows.filter(({ billing }) => billing.mode !== 'free')
  if (!isDevnet) warnOfDemo('chat', idsOf(paid), { ...chat, log })
  return (row) => byRow.get(row.id)
}

/**
 * A job is polled at the vendor that accepted it: a row with another vendor than its own selects that vendor. On devnet
 * the demo serves rows without a configured vendor, except those of family f, whose maker has shut down its videos.
 */
function videoVendors(
  { videos, trusted_hosts: trustedHosts }: Config,
  vending: Vending & Counting,
): NonNullable<Vendors['video']> {
  const { log, isDevnet } = vending
  const media = mediaFetcher({ trusted: trustedHosts })
  const { build, standIn } = builderOf('videos', vending, { resize: pictureResizer(), media })
  const own = new Map(videos.rows.map((row) => [row.id, row.vendor]))
  if (!isDevnet) warnOfDemo('videos', idsOf(videos.rows), { ...videos, log })
  return (row: VideoRow) => {
    const serving = own.get(row.id) === row.vendor ? videos.servings.get(row.id) : videos.byVendor.get(row.vendor)
    if (serving) return build(row, serving)
    return isDevnet && row.family !== 'f' ? standIn(row) : undefined
  }
}

const idsOf = (rows: readonly { readonly id: string }[]): readonly string[] => rows.map(({ id }) => id)
