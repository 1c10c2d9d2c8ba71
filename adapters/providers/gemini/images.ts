/**
 * Images by Gemini's `generateContent`. Sources: @google/genai@3.1.0 `genai.d.ts` (ImageConfig, FinishReason,
 * BlockedReason); request and error shapes in the sources of decision 75; input types from Google's image
 * documentation, as read there.
 */
import { type Static, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { ImageJob, ImageVendor, MadeImage } from '../../../core/mod.ts'
import { vendorHttp } from '../../http/fetch.ts'
import { type ImageVendorConfig, nearestRatio, spread, under, writeOrder } from '../lib/image_provider.ts'
import { dataUri, invalidImage, type Picture, pictures } from '../../http/media_input.ts'
import { envelope, type ErrorClassifier, record } from '../../http/error_replies.ts'

const Reply = Type.Object({
  candidates: Type.Optional(
    Type.Array(
      Type.Object({
        finishReason: Type.Optional(Type.String()),
        content: Type.Optional(
          Type.Object({
            parts: Type.Optional(
              Type.Array(
                Type.Object({
                  thought: Type.Optional(Type.Boolean()),
                  inlineData: Type.Optional(Type.Object({ data: Type.Optional(Type.String()) })),
                }),
              ),
            ),
          }),
        ),
      }),
    ),
  ),
  promptFeedback: Type.Optional(Type.Object({ blockReason: Type.Optional(Type.String()) })),
})
type Reply = Static<typeof Reply>
const isReply = TypeCompiler.Compile(Reply)

/** "PNG, JPEG, WEBP, HEIC, HEIF" (Google's image documentation). */
const READS = ['image/png', 'image/jpeg', 'image/webp', 'image/heic', 'image/heif']
const RATIOS = ['1:1', '2:3', '3:2', '3:4', '4:3', '4:5', '5:4', '9:16', '16:9', '21:9', '1:4', '4:1', '1:8', '8:1']

/**
 * Finish reasons that are the safety system's (FinishReason in genai.d.ts). NO_IMAGE, IMAGE_OTHER and the rest are
 * failures.
 */
const REFUSALS = new Set([
  'SAFETY',
  'IMAGE_SAFETY',
  'PROHIBITED_CONTENT',
  'IMAGE_PROHIBITED_CONTENT',
  'IMAGE_RECITATION',
  'RECITATION',
  'BLOCKLIST',
  'SPII',
])

/**
 * One image per call. There is no WxH: a size becomes an aspect ratio and 512, 1K, 2K or 4K, so the pixels may differ
 * slightly from the order. A 200 without an image and without a reason is retried once (decision 75). Does not support
 * masks.
 *
 * @example
 * const images = geminiImages({ baseUrl, key, maker: 'Google', timeoutMs: 120_000, clock, log })
 */
export function geminiImages(config: ImageVendorConfig): ImageVendor {
  const http = vendorHttp({ ...config, name: 'gemini-images' })
  const headers = config.key ? { 'x-goog-api-key': config.key } : {}

  const make = (job: ImageJob, images: readonly Picture[], signal: AbortSignal) =>
    spread({ n: job.n, perCall: 1 }, signal, async (_, stop) => {
      const made = (await ask(job, images, stop)) ?? (await ask(job, images, stop))
      if (!made) throw http.failure('failed', 'gemini-images answered twice without an image')
      return [made]
    })

  return {
    generate: (job, { signal }) => make(job, [], signal),
    async edit(job, { signal }) {
      if (job.mask !== undefined) throw invalidImage('This model takes no mask.')
      return await make(job, pictures(job.images, READS), signal)
    },
  }

  async function ask(job: ImageJob, images: readonly Picture[], signal: AbortSignal): Promise<MadeImage | undefined> {
    const parts = [
      ...images.map(({ type, base64 }) => ({ inlineData: { mimeType: type, data: base64 } })),
      { text: job.prompt },
    ]
    const order = {
      contents: [{ role: 'user', parts }],
      generationConfig: { responseModalities: ['IMAGE'], imageConfig: imageConfig(job) },
    }
    const url = under(config.baseUrl, `/v1beta/models/${encodeURIComponent(job.model)}:generateContent`)
    const reply = await http.postJson(url, writeOrder(config, { order }), {
      headers,
      signal,
      classify: classifierFor(images.length > 0),
    })
    if (!isReply.Check(reply)) throw http.failure('failed', 'gemini-images answered in another shape')
    const image = imageOf(reply)
    if (image !== undefined) {
      const url = dataUri(image)
      if (!url) throw http.failure('failed', 'gemini-images answered with something that is not an image')
      return { url }
    }
    if (wasRefused(reply)) throw http.failure('policy', 'gemini-images refused')
    return undefined
  }
}

/** `imageSize` is unknown to the 2.5 generation, and left out there. */
function imageConfig(job: ImageJob): { aspectRatio: string; imageSize?: string } {
  const aspectRatio = nearestRatio(RATIOS, job)
  return job.model.includes('gemini-2.5') ? { aspectRatio } : { aspectRatio, imageSize: imageSize(job) }
}

function imageSize({ width, height }: ImageJob): string {
  const side = Math.sqrt(width * height)
  if (side < 724) return '512'
  if (side < 1448) return '1K'
  return side < 2896 ? '2K' : '4K'
}

function imageOf({ candidates = [] }: Reply): string | undefined {
  return candidates
    .flatMap(({ content }) => content?.parts ?? [])
    .find(({ thought, inlineData }) => !thought && inlineData?.data)?.inlineData?.data
}

function wasRefused({ candidates = [], promptFeedback }: Reply): boolean {
  const { blockReason = 'BLOCKED_REASON_UNSPECIFIED' } = promptFeedback ?? {}
  return (
    blockReason !== 'BLOCKED_REASON_UNSPECIFIED' ||
    candidates.some(({ finishReason }) => REFUSALS.has(finishReason ?? ''))
  )
}

/**
 * `{error: {code, message, status, details}}`. A message about an image is the buyer's error only when the buyer sent
 * one.
 */
const classifierFor =
  (hasImages: boolean): ErrorClassifier =>
  ({ status, body }) => {
    const { message } = envelope(body)
    const word = record(record(body).error).status
    if (status !== 400) return word === 'DEADLINE_EXCEEDED' ? 'timeout' : undefined
    if (/exceeds the maximum number of tokens|prompt is too long/i.test(message)) return 'request'
    return hasImages && word === 'INVALID_ARGUMENT' && /\bimages?\b|mime ?type|inline_?data/i.test(message)
      ? 'image'
      : undefined
  }
