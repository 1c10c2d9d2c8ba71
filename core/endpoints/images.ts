/** Text-to-image generation, its poll, and the image catalog (spec 1). */
import { type Static, Type } from '@sinclair/typebox'
import type { ImageRow } from '../catalog/mod.ts'
import { type Context, free, hybrid, json, onPoll, paid, poll, type Stored } from '../endpoint.ts'
import { Fault } from '../faults.ts'
import { clip } from '../intake.ts'
import type { Usdc } from '../money.ts'
import type { MadeImage } from '../ports.ts'
import { type ImageSize, mediaPrice } from '../pricing.ts'

const DEFAULT_SIZE = '1024x1024'
const INLINE_WINDOW_MS = 30_000
const HOUR_MS = 3_600_000
const POLL_PATH = '/api/v1/images/generations/{id}'

const input = Type.Object({
  model: Type.String({ minLength: 1, maxLength: 200, description: 'Id of an image model, as listed by /api/v1/images/models.' }),
  prompt: Type.String({ minLength: 1, maxLength: 32_000, description: 'What the image shows.' }),
  size: Type.Optional(Type.String({ description: `One of the sizes of the model; ${DEFAULT_SIZE} unless told.`, default: DEFAULT_SIZE })),
  n: Type.Optional(Type.Integer({ minimum: 1, maximum: 10, description: 'How many images.', default: 1 })),
})
type Input = Static<typeof input>

const image = Type.Object({
  url: Type.String({ description: 'Hosted URL; the raw upstream value where mirroring failed.' }),
  source_url: Type.String({ description: 'Upstream URL; of inline data only the type.' }),
  backed_up: Type.Boolean({ description: 'Whether the image was mirrored to durable storage.' }),
  revised_prompt: Type.Optional(Type.String()),
})

export const imageResult = Type.Object({
  id: Type.String(),
  created: Type.Integer({ description: 'Unix time in seconds.' }),
  data: Type.Array(image),
  price: Type.Object({ amount: Type.String(), currency: Type.Literal('USD') }),
  payment: Type.Object({ status: Type.Union([Type.Literal('settled'), Type.Literal('already_settled')]), tx_hash: Type.String(), network: Type.String() }),
})

const generations = paid({
  name: 'images.generations',
  path: '/api/v1/images/generations',
  summary: 'Generate images from a prompt',
  description: 'Answers 200 with the images within 30 seconds, else 202 with a job to poll. Charged only when the images are ready.',
  tag: 'images',
  input,
  output: imageResult,
  example: { model: 'vendor-a/image-1', prompt: 'a red fox in the snow' },
  failure: 'Image generation failed',
  job: {
    object: 'image.generation.job',
    poll: POLL_PATH,
    instructions: 'GET poll_url every 2 to 5 seconds with a payment header of the same wallet. You are charged once, by the first poll that finds the images ready.',
    running: 'Still working. Nothing has been charged. Poll again in 2 to 5 seconds.',
  },

  check({ model, prompt, size = DEFAULT_SIZE, n = 1 }, { catalog }) {
    const row = catalog.images.get(model)
    if (!row) throw unknownModel(model, catalog.images.all)
    if (prompt.trim() === '') throw new Fault('INVALID_BODY', { message: 'prompt: must not be blank.', details: [{ path: 'prompt', message: 'must not be blank' }] })
    if (!row.sizes.some((offered) => offered.size === size)) throw invalidSize(row, size)
    return { model: row.id, prompt, size, n }
  },

  price(order, context) {
    const { row, size, n } = resolve(order, context)
    return {
      amount: mediaPrice(size.rate, n),
      maxTimeoutSeconds: 600,
      shown: { pricePerImage: decimal(size), totalImages: n },
      also: {
        generation_info: {
          generation_time: row.slow ? 'about 2 minutes' : 'usually under 30 seconds',
          flow: 'hybrid',
          note: 'Ready within 30 seconds: 200 and settled in that response. Otherwise 202 with a poll_url; nothing is charged until a poll finds the images ready.',
        },
      },
    }
  },

  span({ catalog }) {
    const amounts = catalog.images.all.flatMap((row) => row.sizes.flatMap((size) => [mediaPrice(size.rate, 1), mediaPrice(size.rate, 10)]))
    return { min: amounts.reduce(lesser), max: amounts.reduce(greater) }
  },

  serves(order, { catalog, vendors }) {
    const row = catalog.images.get(order.model)
    return row !== undefined && vendors.images(row) !== undefined
  },

  remember({ model, size = DEFAULT_SIZE, n = 1 }) {
    return { model, request: { model, size, n } }
  },

  settle: (order, context) => (resolve(order, context).row.slow ? onPoll : hybrid(INLINE_WINDOW_MS)),

  async run({ input: order, catalog, vendors, signal }) {
    const { row, size, n } = resolve(order, { catalog })
    const vendor = vendors.images(row)
    if (!vendor) throw new Fault('NOT_CONFIGURED')
    const images = await vendor.generate({ model: row.upstream, prompt: order.prompt, width: size.width, height: size.height, n }, { signal })
    if (images.length === 0) throw new Error(`${row.vendor} answered without an image`)
    return { result: images.map(promptOf), media: { folder: 'images', urls: images.map(({ url }) => url) } }
  },

  show({ made, media, created }, { href }) {
    const prompts = made as readonly ReturnType<typeof promptOf>[]
    return { created, data: media.map((hosted, index) => shownImage(hosted, href, prompts[index] ?? {})) }
  },
})

const generationPoll = poll({
  name: 'images.poll',
  path: POLL_PATH,
  summary: 'Collect a slow image job',
  description: 'Needs a payment header of the wallet that submitted the job; a fresh signature will do. The first poll that finds the job completed settles it, once.',
  tag: 'images',
  of: ['images.generations'],
})

const models = free({
  name: 'images.models',
  path: '/api/v1/images/models',
  summary: 'List the image models and their catalog rates',
  tag: 'images',
  limit: { requests: 100, windowMs: HOUR_MS },
  output: Type.Object({
    object: Type.Literal('list'),
    data: Type.Array(
      Type.Object({
        id: Type.String(),
        object: Type.Literal('model'),
        name: Type.String(),
        owned_by: Type.String(),
        pricing: Type.Object({ sizes: Type.Array(Type.Object({ size: Type.String(), price: Type.Number({ description: 'US dollars for one image, before margin and fee.' }) })) }),
      }),
    ),
  }),
  answer(_request, { catalog, vendors }) {
    const listed = catalog.images.all.filter((row) => vendors.images(row) !== undefined)
    return json(200, { object: 'list', data: listed.map(listing) })
  },
})

export const images = [generations, generationPoll, models]

/** One image on the wire; shared by results of generations and polled edits. */
export function shownImage({ key, url, source }: Stored['media'][number], href: (key: string) => string, prompt: { revised_prompt?: string }) {
  return { url: key === null ? (url ?? '') : href(key), source_url: source, backed_up: key !== null, ...prompt }
}

export function unknownModel(model: string, rows: readonly ImageRow[]): Fault {
  const available = rows.map(({ id }) => id)
  return new Fault('INVALID_MODEL', {
    message: `Unknown model: ${clip(model)}. Available models: ${available.join(', ')}.`,
    fields: { available_models: available },
  })
}

export function invalidSize(row: ImageRow, size: string): Fault {
  const valid = row.sizes.map((offered) => offered.size)
  return new Fault('INVALID_SIZE', { message: `${row.id} does not make ${clip(size)}. Valid sizes: ${valid.join(', ')}.`, fields: { valid_sizes: valid } })
}

/** The row and size of a checked order. Throws a plain error for one that was not checked. */
function resolve({ model, size, n = 1 }: Input, { catalog }: Context): { row: ImageRow; size: ImageSize; n: number } {
  const row = catalog.images.get(model)
  const offered = row?.sizes.find((candidate) => candidate.size === size)
  if (!row || !offered) throw new Error(`not on the catalog: ${model} at ${size}`)
  return { row, size: offered, n }
}

const promptOf = ({ revisedPrompt }: MadeImage) => (revisedPrompt === undefined ? {} : { revised_prompt: revisedPrompt })
const decimal = ({ rate }: ImageSize): number => Number(rate.num) / Number(rate.den)
const lesser = (a: Usdc, b: Usdc): Usdc => (a < b ? a : b)
const greater = (a: Usdc, b: Usdc): Usdc => (a > b ? a : b)

function listing(row: ImageRow) {
  const { id, name, maker, sizes } = row
  return { id, object: 'model', name, owned_by: maker, pricing: { sizes: sizes.map((size) => ({ size: size.size, price: decimal(size) })) } }
}
