/** Text-to-image generation, the poll of image jobs, and the list of image models (contract 5.1). */
import { Type } from '@sinclair/typebox'
import type { ImageRow } from '../../ports/vendors/images.ts'
import { free, paid, polled, rateOf, sharedPrices, STANDARD_PRICES } from '../../endpoint/mod.ts'
import { json } from '../../http/reply.ts'
import { ApiError } from '../../http/errors.ts'
import {
  type Requirement,
  admitImage,
  availableRows,
  imagePriceRange,
  invalidModel,
  sampleOf,
  servedRows,
} from './offered_rows.ts'
import {
  DEFAULT_SIZE,
  checkOrder,
  count,
  imagePrice,
  imageWindow,
  orderedImage,
  prompt,
  requestOf,
  responseFormat,
  size,
  wantsBytes,
} from './order.ts'
import { POLL_PATH, imageJob, imageResponse, imageResult, madeOf } from './replies.ts'
import { clip } from '../../lib/text.ts'
import type { Dollars } from '../../x402/money.ts'
import { READS } from '../../endpoint/replies.ts'

const HOUR_MS = 3_600_000

const input = Type.Object({
  model: Type.String({
    minLength: 1,
    maxLength: 200,
    description: 'Id of an image model, as listed by /api/v1/images/models.',
  }),
  prompt: prompt('What the image shows.'),
  size: Type.Optional(size),
  n: Type.Optional(count),
  response_format: Type.Optional(responseFormat),
})

const GENERATES: Requirement = { matches: () => true, isServedBy: () => true }

const EXAMPLE = { model: 'vendor-a/image-1', prompt: 'a red fox in the snow' }

const priceOnce = sharedPrices<ImageRow>()

const generationInfo = ({ slow }: ImageRow) => ({
  generation_time: slow ? 'about 2 minutes' : 'usually under 30 seconds',
  flow: 'hybrid',
  note: 'Ready within 30 seconds: 200 and settled in that response. Otherwise 202 with a poll_url; nothing is charged until a poll finds the images ready.',
})

const generations = paid({
  name: 'images.generations',
  path: '/api/v1/images/generations',
  summary: 'Generate images from a prompt',
  description:
    'Answers 200 with the images within 30 seconds, else 202 with a job to poll. Charged only when the images are ready.',
  tag: 'images',
  input,
  output: imageResult,
  example: EXAMPLE,
  failure: 'Image generation failed',
  job: imageJob('image.generation.job'),

  check({ model, prompt, size = DEFAULT_SIZE, n = 1, response_format }, offering) {
    const row = offering.catalog.images.get(model)
    if (!row) throw invalidModel(`Unknown model: ${clip(model)}.`, offering, GENERATES)
    checkOrder(row, { prompt, size })
    return { model: row.id, prompt, size, n, ...(response_format === 'b64_json' && { response_format }) }
  },

  price(order, context) {
    const { row, size, n } = orderedImage(order, context)
    return priceOnce({ row, variant: `${n} ${size.size}`, prices: context.prices }, () => ({
      ...imagePrice(order, context),
      also: { generation_info: generationInfo(row) },
    }))
  },

  admit: admitImage,
  sample: (offering) => sampleOf(EXAMPLE, availableRows(offering, GENERATES)),
  priceRange: (offering) => imagePriceRange(availableRows(offering, GENERATES), offering),

  isAvailable({ model }, { catalog, vendors }) {
    const row = catalog.images.get(model)
    return row !== undefined && vendors.images(row) !== undefined
  },

  remember: (order) => ({ model: order.model, request: requestOf(order) }),
  embedsMedia: wantsBytes,
  delivery: 'hybrid',
  windowMs: imageWindow,

  async run({ input: order, catalog, vendors, signal }) {
    const { row, size, n } = orderedImage(order, { catalog })
    const vendor = vendors.images(row)
    if (!vendor) throw new ApiError('NOT_CONFIGURED')
    const job = { model: row.upstream, prompt: order.prompt, width: size.width, height: size.height, n }
    return madeOf(await vendor.generate(job, { signal }).catch(asPlainFailure))
  },

  show: (stored, showing) => imageResponse(stored, showing),
})

const jobPoll = polled({
  name: 'images.poll',
  path: POLL_PATH,
  aliases: ['/api/v1/images/image2image/{id}'],
  summary: 'Collect a slow image job',
  description: `${READS} The first poll that finds the job completed settles it, once.`,
  tag: 'images',
  of: ['images.generations', 'images.image2image', 'images.variations'],
})

const models = free({
  name: 'images.models',
  path: '/api/v1/images/models',
  summary: 'List the image models and their catalog rates',
  tag: 'images',
  isOffered: (offering) => servedRows(offering, GENERATES).length > 0,
  limit: { requests: 100, windowMs: HOUR_MS },
  output: Type.Object({
    object: Type.Literal('list'),
    data: Type.Array(
      Type.Object({
        id: Type.String(),
        object: Type.Literal('model'),
        name: Type.String(),
        owned_by: Type.String(),
        pricing: Type.Object({
          sizes: Type.Array(
            Type.Object({
              size: Type.String(),
              price: Type.Number({ description: 'US dollars for one image, before the margin on media and the fee.' }),
            }),
          ),
        }),
      }),
    ),
  }),
  answer(_request, { catalog, vendors, prices = STANDARD_PRICES }) {
    const listed = catalog.images.all.filter((row) => !row.hidden && vendors.images(row) !== undefined)
    const rate = rateOf({ prices }, generations)
    return json(200, { object: 'list', data: listed.map((row) => listing(row, rate)) })
  },
})

export const images = [generations, jobPoll, models]

/** Generation has no 504: an upstream timeout is an ordinary failure (contract 5.49). */
function asPlainFailure(error: unknown): never {
  throw error instanceof ApiError && error.code === 'UPSTREAM_TIMEOUT' ? new Error(error.message) : error
}

function listing(row: ImageRow, rate: (usd: Dollars) => number) {
  const { id, name, maker, sizes } = row
  return {
    id,
    object: 'model',
    name,
    owned_by: maker,
    pricing: { sizes: sizes.map((offered) => ({ size: offered.size, price: rate(offered.rate) })) },
  }
}
