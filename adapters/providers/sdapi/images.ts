/**
 * Stable Diffusion WebUI's API (AUTOMATIC1111 and Forge with `--api`), and the `sdapi` of stable-diffusion.cpp.
 * Sources: AUTOMATIC1111 `modules/api/api.py` at 0050a354; stable-diffusion.cpp `examples/server/api.md` and
 * `routes_sdapi.cpp` at 0137f168.
 */
import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { ImageJob, ImageVendor, Json, MadeImage } from '../../../core/mod.ts'
import { vendorHttp } from '../../http/fetch.ts'
import {
  bearer,
  type ImageVendorConfig,
  plainPrompt,
  readImages,
  spread,
  under,
  writeOrder,
} from '../lib/image_provider.ts'
import { whiteMask } from '../lib/image_mask.ts'
import { invalidImage, picture, pictures } from '../../http/media_input.ts'
import { type ErrorClassifier, record } from '../../http/error_replies.ts'

const isReply = TypeCompiler.Compile(Type.Object({ images: Type.Array(Type.String()) }))

/** Formats of contract 5.36 that PIL decodes without plug-ins. */
const READS = ['image/png', 'image/jpeg', 'image/webp', 'image/bmp', 'image/gif']

/** Inpaints from the existing content, as the WebUI does; the API's own default starts from a flat fill. */
const INPAINTING = { inpainting_fill: 1, inpainting_mask_invert: 0 }

/**
 * `model` becomes the checkpoint, which stays loaded; stable-diffusion.cpp has only one and ignores it. A key is
 * `user:password` for `--api-auth`. Masks are sent as these servers expect them, white where the image is edited. One
 * source image only: several would be edited one by one, not fused.
 *
 * @example
 * const images = sdapi({ baseUrl: 'http://127.0.0.1:7860', maker: 'local', timeoutMs: 120_000, clock, log })
 */
export function sdapi(config: ImageVendorConfig): ImageVendor {
  const http = vendorHttp({ ...config, name: 'sdapi' })
  const headers = authorization(config.key)

  const make = (
    path: string,
    job: ImageJob,
    { usual, more, signal }: { usual: Fields; more: Fields; signal: AbortSignal },
  ) =>
    spread({ n: job.n, perCall: config.perCall ?? job.n }, signal, async (n, stop) => {
      const settings = {
        override_settings: { sd_model_checkpoint: job.model },
        override_settings_restore_afterwards: false,
      }
      const order = {
        prompt: plainPrompt(job.prompt),
        width: job.width,
        height: job.height,
        batch_size: n,
        ...settings,
        ...more,
      }
      return read(
        await http.postJson(under(config.baseUrl, path), writeOrder(config, { usual, order }), {
          headers,
          signal: stop,
          classify,
        }),
        n,
      )
    })

  return {
    generate: (job, { signal }) => make('/sdapi/v1/txt2img', job, { usual: {}, more: {}, signal }),
    async edit(job, { signal }) {
      if (job.images.length > 1) throw invalidImage('This model takes one image.')
      const sources = { init_images: pictures(job.images, READS).map(({ base64 }) => base64) }
      if (job.mask === undefined) return await make('/sdapi/v1/img2img', job, { usual: {}, more: sources, signal })
      const mask = picture(job.mask, { accepted: ['image/png'], label: 'The mask' })
      const more = { ...sources, mask: Buffer.from(whiteMask(mask.bytes)).toString('base64') }
      return await make('/sdapi/v1/img2img', job, { usual: INPAINTING, more, signal })
    },
  }

  /** Images are bare base64. A grid or a mask may follow them, depending on the server's settings. */
  function read(reply: unknown, count: number): readonly MadeImage[] {
    if (!isReply.Check(reply)) throw http.failure('failed', 'sdapi answered in another shape')
    return readImages(
      reply.images.map((b64_json) => ({ b64_json })),
      count,
      http,
    )
  }
}

type Fields = Readonly<Record<string, Json>>

function authorization(key: string | undefined): Readonly<Record<string, string>> {
  return key?.includes(':') ? { authorization: `Basic ${Buffer.from(key).toString('base64')}` } : bearer(key)
}

/** `{error, detail, body, errors}`; a source image that does not decode is a 500 there. */
const classify: ErrorClassifier = ({ body }) =>
  /^Invalid (encoded image|image)/.test(String(record(body).detail)) ? 'image' : undefined
