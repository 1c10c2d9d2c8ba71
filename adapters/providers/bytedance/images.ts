/**
 * Seedream by ByteDance, at BytePlus ModelArk or Volcano Engine. Sources: @ai-sdk/bytedance@1.0.29 `dist/index.js`
 * (path, body); cluely/unmodel `src/providers/bytedance/constraints.ts`, which cites ModelArk page 1541523 (sizes,
 * inputs); error codes in the sources of decision 75.
 */
import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { ImageJob, ImageVendor, Json, MadeImage } from '../../../core/mod.ts'
import { vendorHttp } from '../../http/fetch.ts'
import { bearer, type ImageVendorConfig, readImages, sizeOf, spread, under, writeOrder } from '../lib/image_provider.ts'
import { invalidImage, pictures } from '../../http/media_input.ts'
import { type Envelope, envelope, type FailureKind } from '../../http/error_replies.ts'

const optionalText = Type.Optional(Type.Union([Type.String(), Type.Null()]))
const isReply = TypeCompiler.Compile(
  Type.Object({
    data: Type.Array(
      Type.Object({
        url: optionalText,
        b64_json: optionalText,
        error: Type.Optional(Type.Union([Type.Object({}), Type.Null()])),
      }),
    ),
  }),
)

/**
 * "jpeg/png/webp/bmp/tiff/gif/heic/heif" (ModelArk 1541523, single-image input requirements), of those that contract
 * 5.36 takes.
 */
const READS = ['image/png', 'image/jpeg', 'image/webp', 'image/bmp', 'image/gif', 'image/heic', 'image/heif']
const MAX_SOURCES = 10

/**
 * One image per call, as a URL that expires after 24 hours; a call takes up to two minutes. The vendor's watermark is
 * on by default. Does not support masks.
 *
 * @example
 * const images = seedream({ baseUrl, key, maker: 'ByteDance', timeoutMs: 120_000, clock, log })
 */
export function seedream(config: ImageVendorConfig): ImageVendor {
  const http = vendorHttp({ ...config, name: 'seedream' })
  const headers = bearer(config.key)

  const make = (job: ImageJob, sources: Readonly<Record<string, Json>>, signal: AbortSignal) =>
    spread({ n: job.n, perCall: 1 }, signal, async (count, stop) => {
      const isEdit = Object.keys(sources).length > 0
      const order = { model: job.model, prompt: job.prompt, size: sizeOf(job), ...sources }
      const body = writeOrder(config, { usual: { response_format: 'url', watermark: false }, order })
      const classify = ({ body }: { body: unknown }) => kindOf(envelope(body), isEdit)
      return read(
        await http.postJson(under(config.baseUrl, '/images/generations'), body, { headers, signal: stop, classify }),
        { count, isEdit },
      )
    })

  return {
    generate: (job, { signal }) => make(job, {}, signal),
    async edit(job, { signal }) {
      if (job.mask !== undefined) throw invalidImage('This model takes no mask.')
      if (job.images.length > MAX_SOURCES) throw invalidImage(`This model takes at most ${MAX_SOURCES} images.`)
      const uris = pictures(job.images, READS).map(({ uri }) => uri)
      return await make(job, { image: uris.length === 1 ? (uris[0] ?? '') : uris }, signal)
    },
  }

  /** A 200 may contain an error instead of an image. */
  function read(reply: unknown, { count, isEdit }: { count: number; isEdit: boolean }): readonly MadeImage[] {
    if (!isReply.Check(reply)) throw http.failure('failed', 'seedream answered in another shape')
    const refused = reply.data.find(({ error }) => error)
    if (!refused) return readImages(reply.data, count, http)
    throw http.failure(
      kindOf(envelope(refused), isEdit) ?? 'failed',
      'seedream answered 200 with an error for an image',
      { status: 200, headers: new Headers(), body: refused },
    )
  }
}

const RATE =
  /^(RateLimitExceeded|ModelAccount\w*RateLimitExceeded|APIAccount\w*RateLimitExceeded|ServerOverloaded|RequestBurstTooFast|InflightBatchsizeExceeded)/
const OURS =
  /^(AuthenticationError|AccessDenied|AccountOverdueError|OperationDenied|ModelNotOpen|InvalidEndpointOrModel)/
const QUOTA = /^(SetLimitExceeded|QuotaExceeded)/

/**
 * `{error: {code, message, param, type}}`. A code may have a suffix after a dot:
 * `InputImageSensitiveContentDetected.PolicyViolation`.
 */
function kindOf({ code, message, param }: Envelope, isEdit: boolean): FailureKind | undefined {
  if (/SensitiveContentDetected/.test(code)) return 'policy'
  if (RATE.test(code)) return 'rate_limited'
  if (OURS.test(code)) return 'operator'
  if (QUOTA.test(code)) return /queue|concurren/i.test(message) ? 'rate_limited' : 'operator'
  if (!/^(InvalidParameter|MissingParameter)/.test(code)) return undefined
  if (isEdit && (param === 'image' || /\bimages?\b/i.test(message))) return 'image'
  return param === 'prompt' || /\bprompt\b/i.test(message) ? 'request' : undefined
}
