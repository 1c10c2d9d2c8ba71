/** Lists the models that this gateway can serve and their prices (contract 8.1, 8.14). */
import { Type } from '@sinclair/typebox'
import { vendorOf } from '../audio/rows.ts'
import type { Catalog, Offering } from '../../endpoint/offering.ts'
import type { GatewayFacts } from '../../endpoint/gateway_info.ts'
import { free, type Prices, STANDARD_PRICES } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { json, type Reply } from '../../http/reply.ts'
import { quoted } from '../../lib/text.ts'
import { isListed } from '../video/request.ts'
import { audioEntry, chatEntry, declaredEntry, imageEntry, modelSchema, videoEntry } from './model_entry.ts'

const list = free({
  name: 'models',
  path: '/api/v1/models',
  summary: 'List the models and their prices',
  tag: 'models',
  output: Type.Object({ object: Type.Literal('list'), data: Type.Array(modelSchema) }),
  answer: (_request, offering) => listModels(offering),
})

const get = free({
  name: 'models.get',
  path: '/api/v1/models/{id...}',
  summary: 'One model and its price',
  description:
    'By its id or any alias; the slash of the id may be raw or %2F. Also answers for models that are not listed and can be bought.',
  tag: 'models',
  errorFormat: 'chat',
  errors: ['MODEL_NOT_FOUND'],
  sample: (offering) => ({ path: { id: firstId(offering) } }),
  output: modelSchema,
  answer({ params }, offering) {
    const entry = entryOf(params.id ?? '', offering)
    if (entry) return json(200, entry)
    throw new ApiError('MODEL_NOT_FOUND', {
      message: `There is no model ${quoted(params.id ?? '')} here. All models: GET /api/v1/models.`,
      param: 'model',
    })
  },
})

export const models = [list, get]

// ── one model ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** The entry of a model that can be bought here, listed or not. */
function entryOf(id: string, { catalog, vendors, prices, gateway }: Selling) {
  const listing = { vendors, prices: prices ?? STANDARD_PRICES }
  const chat = catalog.chat.get(id)
  if (chat && vendors.chat(chat)) return chatEntry(chat, listing)
  const image = catalog.images.get(id)
  if (image && vendors.images(image)) return imageEntry(image, listing)
  const video = catalog.video.get(id)
  if (video && !video.retired && vendors.video?.(video)) return videoEntry(video, listing)
  const audio = catalog.audio.get(id)
  if (audio && vendorOf(audio, { vendors })) return audioEntry(audio, listing)
  for (const { get, kind } of catalog.declared.values()) {
    const row = get(id)
    if (row && kind.vendorOf(row, vendors))
      return declaredEntry(row, { ...listing, kind, product: gateway.sellerOf(kind.kind) })
  }
  return undefined
}

/** The catalog, vendors and prices behind a list of models. */
type Selling = Pick<Offering, 'catalog' | 'vendors' | 'prices'> & { readonly gateway: Pick<GatewayFacts, 'sellerOf'> }

/** The first model that can be bought; else any, so that the documentation has an example. */
function firstId({ catalog, vendors }: Offering): string {
  const { declared, chat, images, video, audio } = catalog
  const others = [...declared.values()].map(({ all }) => all)
  const ids = [chat.all, images.all, video.all, audio.all, ...others].flatMap((rows) => rows.map(({ id }) => id))
  const gateway = { sellerOf: (kind: string) => ({ name: kind, tag: kind }) }
  return ids.find((id) => entryOf(id, { catalog, vendors, gateway })) ?? ids[0] ?? 'model'
}

// ── the list ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Cached until a margin changes: rows and vendors do not, while a gateway runs. */
const replies = new WeakMap<Catalog, WeakMap<Prices, { readonly version: string; readonly reply: Reply }>>()

export function listModels(selling: Selling): Reply {
  const { catalog, prices = STANDARD_PRICES } = selling
  const byPrices = replies.get(catalog) ?? new WeakMap<Prices, { readonly version: string; readonly reply: Reply }>()
  replies.set(catalog, byPrices)
  const version = prices.version()
  const known = byPrices.get(prices)
  if (known?.version === version) return known.reply
  const reply = written(selling)
  byPrices.set(prices, { version, reply })
  return reply
}

function written({ catalog, vendors, prices = STANDARD_PRICES, gateway }: Selling): Reply {
  const listing = { vendors, prices }
  const chat = catalog.chat.all.filter((row) => !row.hidden && vendors.chat(row) !== undefined)
  const images = catalog.images.all.filter((row) => !row.hidden && vendors.images(row) !== undefined)
  const videos = catalog.video.all.filter((row) => isListed(row) && vendors.video?.(row) !== undefined)
  const sounds = catalog.audio.all.filter((row) => !row.hidden && vendorOf(row, { vendors }) !== undefined)
  const others = [...catalog.declared.values()].flatMap(({ all, kind }) =>
    all
      .filter((row) => !row.hidden && kind.vendorOf(row, vendors))
      .map((row) => declaredEntry(row, { ...listing, kind, product: gateway.sellerOf(kind.kind) })),
  )
  const data = [
    ...chat.map((row) => chatEntry(row, listing)),
    ...images.map((row) => imageEntry(row, listing)),
    ...videos.map((row) => videoEntry(row, listing)),
    ...sounds.map((row) => audioEntry(row, listing)),
    ...others,
  ]
  return {
    status: 200,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ object: 'list', data }),
  }
}
