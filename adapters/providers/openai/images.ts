/**
 * The OpenAI Images protocol: OpenAI itself, and what LocalAI, vLLM-Omni, Ollama and stable-diffusion.cpp serve under
 * the same paths. Sources: openai@7.55.0 `resources/images.d.ts`; errors as quoted in the sources of decision 75.
 */
import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { ImageVendor, MadeImage } from '../../../core/mod.ts'
import { type VendorHttp, vendorHttp } from '../../http/fetch.ts'
import {
  bearer,
  type ImageVendorConfig,
  plainPrompt,
  readImages,
  sizeOf,
  spread,
  under,
  writeOrder,
} from '../lib/image_provider.ts'
import { whiteMask } from '../lib/image_mask.ts'
import { picture, pictures, type Picture } from '../../http/media_input.ts'
import { envelope, type ErrorClassifier, type FailureKind } from '../../http/error_replies.ts'

const optionalText = Type.Optional(Type.Union([Type.String(), Type.Null()]))
const Reply = Type.Object({
  data: Type.Array(Type.Object({ b64_json: optionalText, url: optionalText, revised_prompt: optionalText })),
})
const isReply = TypeCompiler.Compile(Reply)

/** `n` is 1 to 10 (images.d.ts). */
const MAX_PER_CALL = 10
/** "each image should be a png, webp, or jpg file" (images.d.ts, `image`). */
const READS = ['image/png', 'image/jpeg', 'image/webp']

/**
 * `size` is sent as WxH. `response_format` is never sent, because GPT image models refuse it; pin it in `parameters`
 * for a server that returns URLs by default. Pin `quality` too: OpenAI's price depends on it.
 *
 * @example
 * const images = openaiImages({ baseUrl, key, maker: 'OpenAI', timeoutMs: 120_000, clock, log })
 */
export function openaiImages(config: ImageVendorConfig): ImageVendor {
  const http = vendorHttp({ ...config, name: 'openai-images' })
  const headers = bearer(config.key)
  const perCall = config.perCall ?? MAX_PER_CALL

  return {
    generate: (job, { signal }) =>
      spread({ n: job.n, perCall }, signal, async (n, stop) => {
        const body = writeOrder(config, {
          order: { model: job.model, prompt: plainPrompt(job.prompt), n, size: sizeOf(job) },
        })
        const reply = await http.postJson(under(config.baseUrl, '/images/generations'), body, {
          headers,
          signal: stop,
          classify,
        })
        return read(reply, n, http)
      }),

    async edit(job, { signal }) {
      const images = pictures(job.images, READS)
      const mask =
        job.mask === undefined ? undefined : picture(job.mask, { accepted: ['image/png'], label: 'The mask' })
      return await spread({ n: job.n, perCall }, signal, async (n, stop) => {
        const fields = writeOrder(config, {
          order: { model: job.model, prompt: plainPrompt(job.prompt), n, size: sizeOf(job) },
        })
        const reply = await http.postForm(under(config.baseUrl, '/images/edits'), form(fields, images, mask), {
          headers,
          signal: stop,
          classify,
        })
        return read(reply, n, http)
      })
    },
  }

  /**
   * `image` for one source and `image[]` for several, as the SDK writes them; a part without a MIME type is refused
   * (openai-node 1468).
   */
  function form(
    fields: Readonly<Record<string, unknown>>,
    images: readonly Picture[],
    mask: Picture | undefined,
  ): FormData {
    const body = new FormData()
    for (const [name, value] of Object.entries(fields))
      body.append(name, typeof value === 'string' ? value : JSON.stringify(value))
    images.forEach((image, index) =>
      body.append(images.length === 1 ? 'image' : 'image[]', file(image), `image_${index}.${image.type.slice(6)}`),
    )
    if (mask)
      body.append(
        'mask',
        config.maskMarks === 'white'
          ? new Blob([whiteMask(mask.bytes) as BlobPart], { type: 'image/png' })
          : file(mask),
        'mask.png',
      )
    return body
  }
}

const file = ({ bytes, type }: Picture): Blob => new Blob([bytes as BlobPart], { type })

function read(reply: unknown, count: number, http: VendorHttp): readonly MadeImage[] {
  if (!isReply.Check(reply)) throw http.failure('failed', 'openai-images answered in another shape')
  return readImages(reply.data, count, http)
}

const CODES: Readonly<Record<string, FailureKind>> = {
  moderation_blocked: 'policy',
  content_policy_violation: 'policy',
  image_content_policy_violation: 'policy',
  insufficient_quota: 'operator',
  billing_hard_limit_reached: 'operator',
  rate_limit_exceeded: 'rate_limited',
  string_above_max_length: 'request',
  missing_file_mimetype: 'image',
  unsupported_file_mimetype: 'image',
}

/** openai@7.55.0 responses.d.ts, the codes of `ResponseError` that speak of an input image. */
const IMAGE_CODES =
  /^(invalid_(base64_)?image(_\w+)?|image_(too_\w+|parse_error|file_too_large|file_not_found)|unsupported_image_media_type|empty_image_file|failed_to_download_image)$/

const classify: ErrorClassifier = ({ status, body }) => {
  const { code, type, message, param } = envelope(body)
  const known = CODES[code] ?? CODES[type]
  if (known) return known
  if (IMAGE_CODES.test(code)) return 'image'
  if (status === 400 && /rejected by the safety system|content policy/i.test(message)) return 'policy'
  if (status === 400 && /invalid (image|mask) file|unsupported mimetype/i.test(message)) return 'image'
  if (status === 400 && param === 'prompt') return 'request'
  return undefined
}
