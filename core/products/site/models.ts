/** Lists the models that this gateway can serve and their prices (contract 8.1, 8.14). */
import { Type } from '@sinclair/typebox'
import { vendorOf } from '../audio/shared.ts'
import type { Catalog, Offering } from '../../endpoint/offering.ts'
import { free } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { json, type Reply } from '../../http/reply.ts'
import { quoted } from '../../lib/text.ts'
import type { Vendors } from '../../ports/vendors/mod.ts'
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
function entryOf(id: string, { catalog, vendors }: Pick<Offering, 'catalog' | 'vendors'>) {
  const chat = catalog.chat.get(id)
  if (chat && vendors.chat(chat)) return chatEntry(chat)
  const image = catalog.images.get(id)
  if (image && vendors.images(image)) return imageEntry(image)
  const video = catalog.video.get(id)
  if (video && !video.retired && vendors.video?.(video)) return videoEntry(video)
  const audio = catalog.audio.get(id)
  if (audio && vendorOf(audio, { vendors })) return audioEntry(audio, { vendors })
  for (const { get, kind } of catalog.declared.values()) {
    const row = get(id)
    if (row && kind.vendorOf(row, vendors)) return declaredEntry(row, kind)
  }
  return undefined
}

/** The first model that can be bought; else any, so that the documentation has an example. */
function firstId(offering: Offering): string {
  const { declared, chat, images, video, audio } = offering.catalog
  const others = [...declared.values()].map(({ all }) => all)
  const ids = [chat.all, images.all, video.all, audio.all, ...others].flatMap((rows) => rows.map(({ id }) => id))
  return ids.find((id) => entryOf(id, offering)) ?? ids[0] ?? 'model'
}

// ── the list ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Cached, since rows and vendors do not change while a gateway runs. */
const replies = new WeakMap<Catalog, WeakMap<Vendors, Reply>>()

export function listModels({ catalog, vendors }: Pick<Offering, 'catalog' | 'vendors'>): Reply {
  const known = replies.get(catalog) ?? new WeakMap<Vendors, Reply>()
  replies.set(catalog, known)
  const reply = known.get(vendors) ?? written(catalog, vendors)
  known.set(vendors, reply)
  return reply
}

function written(catalog: Catalog, vendors: Vendors): Reply {
  const chat = catalog.chat.all.filter((row) => !row.hidden && vendors.chat(row) !== undefined).map(chatEntry)
  const images = catalog.images.all.filter((row) => !row.hidden && vendors.images(row) !== undefined).map(imageEntry)
  const videos = catalog.video.all.filter((row) => isListed(row) && vendors.video?.(row) !== undefined).map(videoEntry)
  const sounds = catalog.audio.all
    .filter((row) => !row.hidden && vendorOf(row, { vendors }) !== undefined)
    .map((row) => audioEntry(row, { vendors }))
  const others = [...catalog.declared.values()].flatMap(({ all, kind }) =>
    all.filter((row) => !row.hidden && kind.vendorOf(row, vendors)).map((row) => declaredEntry(row, kind)),
  )
  return {
    status: 200,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ object: 'list', data: [...chat, ...images, ...videos, ...sounds, ...others] }),
  }
}
