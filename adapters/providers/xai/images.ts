/**
 * xAI's images. Sources: @ai-sdk/xai@5.0.12 `dist/index.js` (paths, bodies, `respect_moderation`); cluely/unmodel
 * `src/providers/xai/image.ts`, which cites docs.x.ai (ratios, resolutions, `n`); refusals as quoted in the sources of
 * decision 75.
 */
import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { ImageJob, ImageVendor, Json, MadeImage } from '../../../core/mod.ts'
import { vendorHttp } from '../../http/fetch.ts'
import {
  bearer,
  type ImageVendorConfig,
  nearestRatio,
  readImages,
  spread,
  under,
  writeOrder,
} from '../lib/image_provider.ts'
import { invalidImage, pictures } from '../../http/media_input.ts'
import { envelope, type ErrorClassifier } from '../../http/error_replies.ts'

const optionalText = Type.Optional(Type.Union([Type.String(), Type.Null()]))
const isReply = TypeCompiler.Compile(
  Type.Object({
    data: Type.Array(
      Type.Object({
        b64_json: optionalText,
        url: optionalText,
        revised_prompt: optionalText,
        respect_moderation: Type.Optional(Type.Union([Type.Boolean(), Type.Null()])),
      }),
    ),
  }),
)

/** "up to 10 images per request" (docs.x.ai, imagine). */
const MAX_PER_CALL = 10
const MAX_SOURCES = 5
const READS = ['image/png', 'image/jpeg', 'image/webp']
const RATIOS = [
  '1:1',
  '3:4',
  '4:3',
  '9:16',
  '16:9',
  '2:3',
  '3:2',
  '9:19.5',
  '19.5:9',
  '9:20',
  '20:9',
  '1:2',
  '2:1',
  '21:9',
  '5:2',
]

/**
 * There is no WxH: a size becomes an aspect ratio and 1k or 2k. Unknown fields are refused with 422
 * (ddcat-ai/open-ai-canvas PR 167), so none is sent. The 2.0 model gets `quality: low`, the tier that the contract's
 * price covers; pin another in `parameters`.
 *
 * @example
 * const images = xaiImages({ baseUrl: 'https://api.x.ai/v1', key, maker: 'xAI', timeoutMs: 120_000, clock, log })
 */
export function xaiImages(config: ImageVendorConfig): ImageVendor {
  const http = vendorHttp({ ...config, name: 'xai-images' })
  const headers = bearer(config.key)

  const make = (job: ImageJob, sources: Readonly<Record<string, Json>>, signal: AbortSignal) =>
    spread({ n: job.n, perCall: config.perCall ?? MAX_PER_CALL }, signal, async (n, stop) => {
      const usual = job.model.includes('imagine-image-2') ? { quality: 'low' } : {}
      const shape = {
        aspect_ratio: nearestRatio(RATIOS, job),
        resolution: job.width * job.height > 1448 * 1448 ? '2k' : '1k',
      }
      const order = { model: job.model, prompt: job.prompt, n, ...shape, response_format: 'b64_json', ...sources }
      const isEdit = Object.keys(sources).length > 0
      const path = isEdit ? '/images/edits' : '/images/generations'
      const reply = await http.postJson(under(config.baseUrl, path), writeOrder(config, { usual, order }), {
        headers,
        signal: stop,
        classify: classifierFor(isEdit),
      })
      return read(reply, n)
    })

  return {
    generate: (job, { signal }) => make(job, {}, signal),
    async edit(job, { signal }) {
      if (job.mask !== undefined) throw invalidImage('This model takes no mask.')
      if (job.images.length > MAX_SOURCES) throw invalidImage(`This model takes at most ${MAX_SOURCES} images.`)
      const sources = pictures(job.images, READS).map(({ uri }) => ({ url: uri, type: 'image_url' }))
      const [only] = sources
      return await make(job, only && sources.length === 1 ? { image: only } : { images: sources }, signal)
    },
  }

  /** xAI moderates inside a 200: `respect_moderation: false`, or no data at all (vercel/ai issue 19168). */
  function read(reply: unknown, count: number): readonly MadeImage[] {
    if (!isReply.Check(reply)) throw http.failure('failed', 'xai-images answered in another shape')
    const isRefused =
      reply.data.length === 0 || reply.data.some(({ respect_moderation }) => respect_moderation === false)
    if (isRefused) throw http.failure('policy', 'xai-images refused')
    return readImages(reply.data, count, http)
  }
}

/** Three error shapes, all parsed by `envelope`. A 403 is moderation when its text says so, otherwise our key. */
const classifierFor =
  (isEdit: boolean): ErrorClassifier =>
  ({ status, body }) => {
    const { message } = envelope(body)
    if (/violates usage guidelines|SAFETY_CHECK_TYPE|content moderation/i.test(message)) return 'policy'
    if (status === 429 && /credits|spending limit/i.test(message)) return 'operator'
    const isAboutImage = isEdit && (status === 400 || status === 422) && /\bimages?\b/i.test(message)
    return isAboutImage ? 'image' : undefined
  }
