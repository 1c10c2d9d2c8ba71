/**
 * Image editing with one or more source images and an optional mask (contract 5.31). Jobs share the storage and poll
 * path of generation.
 */
import { toBase64 } from '../../lib/base64.ts'
import { type Static, Type } from '@sinclair/typebox'
import { type Offering, type Order, paid, type Showing, type Stored } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { type Requirement, admitImage, availableRows, imagePriceRange, invalidModel, sampleOf } from './offered_rows.ts'
import {
  DEFAULT_SIZE,
  checkOrder,
  count,
  type ImageOrder,
  imagePrice,
  imageWindow,
  orderedImage,
  prompt,
  requestOf,
  responseFormat,
  size,
  wantsBytes,
} from './order.ts'
import { imageJob, imageResponse, imageResult, madeOf } from './replies.ts'
import { clip } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'
import { pictureOf, typeByMagic } from '../../lib/image_bytes.ts'
import type { MadeImage } from '../../ports/vendors/images.ts'

const DEFAULT_MODEL = 'vendor-a/image-2'

const MAX_FILES = 16

const dataUri = Type.String({ minLength: 1 })
const input = Type.Object({
  model: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 200,
      default: DEFAULT_MODEL,
      description: 'Id of a model that edits images.',
    }),
  ),
  prompt: prompt('The edit to make.'),
  image: Type.Union([dataUri, Type.Array(dataUri, { minItems: 1 })], {
    description:
      'A data URI, or several to combine into one result: at most 4 on vendor-a models, 3 on vendor-b models.',
  }),
  mask: Type.Optional(
    Type.String({
      minLength: 1,
      description:
        'A PNG with the dimensions of the source, transparent where it may change. vendor-a models and single sources only.',
    }),
  ),
  size: Type.Optional(size),
  n: Type.Optional(count),
  response_format: Type.Optional(responseFormat),
})
type Input = Static<typeof input>

/** The smallest PNG, as a source for examples. */
const PIXEL =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

const EDITS: Requirement = {
  matches: ({ edits }) => edits !== undefined,
  isServedBy: ({ edit }) => edit !== undefined,
}

const EXAMPLE = { prompt: 'make it snow', image: PIXEL }

const shared = {
  tag: 'images',
  output: imageResult,
  multipart: fromForm,
  uploads: true,
  job: imageJob('image.edit.job'),
  delivery: 'hybrid',
  windowMs: imageWindow,
  price: imagePrice,
  admit(order: ImageOrder, offering: Pick<Offering, 'catalog' | 'vendors'>) {
    try {
      admitImage({ model: DEFAULT_MODEL, ...order }, offering)
    } catch (error) {
      throw asEditError(error)
    }
  },
  priceRange: (offering: Offering) => imagePriceRange(availableRows(offering, EDITS), offering),
  isAvailable({ model = DEFAULT_MODEL }: ImageOrder, { catalog, vendors }: Offering) {
    const row = catalog.images.get(model)
    return row !== undefined && vendors.images(row)?.edit !== undefined
  },
  remember: (order: ImageOrder) => {
    const { model = DEFAULT_MODEL } = order
    return { model, request: requestOf({ ...order, model }) }
  },
  embedsMedia: wantsBytes,
  show: (stored: Stored, showing: Showing) => imageResponse(stored, showing, showing.raw),
} as const

const edit = paid({
  ...shared,
  name: 'images.image2image',
  path: '/api/v1/images/image2image',
  aliases: ['/api/v1/images/edits'],
  summary: 'Edit an image, or fuse several',
  description:
    'JSON with data URIs, or multipart/form-data with files (image[] or image, and mask). The fast path answers with raw data URIs; a polled job answers with hosted URLs.',
  input,
  example: EXAMPLE,
  failure: 'Image editing failed',
  check: checkedEdit,
  sample: (offering) => sampleOf({ model: DEFAULT_MODEL, ...EXAMPLE }, availableRows(offering, EDITS)),
  run: async (order) => madeOf(await runEdit(order)),
})

const { prompt: _prompt, mask: _mask, ...varied } = input.properties

/** The prompt of an edit that asks for a variation. */
const VARIATION =
  'Make a variation of this image: the same subject, style and mood, composed anew. Keep nothing pixel by pixel.'

const variation = paid({
  ...shared,
  name: 'images.variations',
  variantOf: 'images.image2image',
  path: '/api/v1/images/variations',
  summary: 'Make variations of an image',
  description:
    'An edit with a prompt of this gateway, on the models that edit: JSON with a data URI, or multipart/form-data with the file image.',
  input: Type.Object({ ...varied, image: dataUri }),
  example: { image: PIXEL },
  failure: 'Image editing failed',
  check(order, offering) {
    const { prompt: _, ...checked } = checkedEdit({ ...order, prompt: VARIATION }, offering)
    return { ...checked, image: order.image }
  },
  sample: (offering) => sampleOf({ model: DEFAULT_MODEL, image: PIXEL }, availableRows(offering, EDITS)),
  run: async (order) => madeOf(await runEdit({ ...order, input: { ...order.input, prompt: VARIATION } })),
})

export const edits = [edit, variation]

/** Throws for an order that no model here can take. */
function checkedEdit(
  { model = DEFAULT_MODEL, prompt, size = DEFAULT_SIZE, n = 1, image, mask, response_format }: Input,
  offering: Offering,
): Input {
  const row = offering.catalog.images.get(model)
  if (!row?.edits) throw invalidModel(`${clip(model)} does not edit images.`, offering, EDITS)
  checkOrder(row, { prompt, size })
  const sources = typeof image === 'string' ? [image] : image
  const { maxImages, mask: takesMask } = row.edits
  if (sources.length > maxImages)
    throw refused('image', `${row.id} accepts at most ${maxImages} source images, got ${sources.length}`)
  if (mask !== undefined && !takesMask)
    throw refused('mask', `${row.id} does not support masks; leave the mask out, or use a vendor-a model`)
  if (mask !== undefined && sources.length > 1)
    throw refused('mask', `requires a single source image, got ${sources.length}`)
  checkImages(sources, mask)
  return {
    model: row.id,
    prompt,
    size,
    n,
    image,
    ...(mask !== undefined && { mask }),
    ...(response_format === 'b64_json' && { response_format }),
  }
}

/** Calls the vendor. */
async function runEdit({ input: order, catalog, vendors, signal }: Order<Input>): Promise<readonly MadeImage[]> {
  const { row, size, n } = orderedImage(order, { catalog })
  const vendor = vendors.images(row)
  if (!vendor?.edit) throw new ApiError('NOT_CONFIGURED')
  const images = typeof order.image === 'string' ? [order.image] : order.image
  const { mask, prompt } = order
  const job = {
    model: row.upstream,
    prompt,
    width: size.width,
    height: size.height,
    n,
    images,
    ...(mask !== undefined && { mask }),
  }
  try {
    return await vendor.edit(job, { signal })
  } catch (error) {
    throw asEditError(error)
  }
}

/** Rate limits and timeouts have other errors here than on generation (contract 5.47, 5.49). */
function asEditError(error: unknown): unknown {
  if (!(error instanceof ApiError)) return error
  const { details, headers } = error.parts
  if (error.code === 'RATE_LIMITED')
    return new ApiError('TOO_MANY_REQUESTS', { details: details ?? null, ...(headers && { headers }) })
  if (error.code === 'UPSTREAM_TIMEOUT')
    return new ApiError('UPSTREAM_TIMEOUT', { ...error.parts, error: 'Image editing timed out' })
  return error
}

/** Checks that the sources and the mask are images, and that the mask has the dimensions of its source. */
function checkImages(sources: readonly string[], mask: string | undefined): void {
  const images = sources.map((source, index) => {
    const picture = pictureOf(source)
    if (typeof picture === 'string') throw refused(sources.length === 1 ? 'image' : `image.${index}`, picture)
    return picture
  })
  if (mask === undefined) return
  const maskImage = pictureOf(mask)
  if (typeof maskImage === 'string') throw refused('mask', maskImage)
  const [source] = images
  if (maskImage.type !== 'image/png')
    throw refused('mask', `must be a PNG with an alpha channel, got ${maskImage.type}`)
  if (!source || (maskImage.width === source.width && maskImage.height === source.height)) return
  throw refused(
    'mask',
    `must have the dimensions of its source, ${source.width}x${source.height}, got ${maskImage.width}x${maskImage.height}`,
  )
}

/** Converts form fields to the JSON body (contract 5.33). */
async function fromForm(form: FormData): Promise<Record<string, unknown>> {
  const files = [...form.getAll('image[]'), ...form.getAll('image')]
  // Too many for any model: only their number is needed, for the error message.
  const images = files.length > MAX_FILES ? files.map(() => '-') : await Promise.all(files.map(dataUriOf))
  const mask = form.get('mask')
  const n = form.get('n')
  return {
    model: form.get('model') ?? undefined,
    prompt: form.get('prompt') ?? undefined,
    size: form.get('size') ?? undefined,
    n: typeof n === 'string' && /^-?\d+$/.test(n.trim()) ? Number(n) : (n ?? undefined),
    image: images.length > 1 ? images : images[0],
    mask: mask === null ? undefined : await dataUriOf(mask),
    response_format: form.get('response_format') ?? undefined,
  }
}

/**
 * Detects the type from the bytes, PNG by default, because Bun derives a file's type from its name (oven-sh/bun#33012).
 */
async function dataUriOf(field: FormDataEntryValue): Promise<string> {
  if (typeof field === 'string') return field
  const bytes = new Uint8Array(await field.arrayBuffer())
  return `data:${typeByMagic(bytes) ?? 'image/png'};base64,${toBase64(bytes)}`
}
