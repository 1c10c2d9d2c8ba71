/**
 * CogView by Zhipu, at Z.ai or open.bigmodel.cn. Sources: docs.z.ai `api-reference/image/generate-image` (request,
 * reply) and `api-reference/api-code` (error codes), as mapped in the sources of decision 75.
 */
import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { ImageVendor } from '../../../core/mod.ts'
import { vendorHttp } from '../../http/fetch.ts'
import { bearer, type ImageVendorConfig, readImages, sizeOf, spread, under, writeOrder } from '../lib/image_provider.ts'
import { envelope, type ErrorClassifier, type FailureKind } from '../../http/error_replies.ts'

const isReply = TypeCompiler.Compile(
  Type.Object({ data: Type.Optional(Type.Array(Type.Object({ url: Type.Optional(Type.String()) }))) }),
)

/**
 * One image a call, as a temporary URL. There is no edit. `quality` is `standard` unless pinned; `hd` takes about 20 s.
 *
 * @example
 * const images = cogview({ baseUrl, key, maker: 'Z.ai', timeoutMs: 120_000, clock, log })
 */
export function cogview(config: ImageVendorConfig): ImageVendor {
  const http = vendorHttp({ ...config, name: 'cogview' })
  const headers = bearer(config.key)

  return {
    generate: (job, { signal }) =>
      spread({ n: job.n, perCall: 1 }, signal, async (count, stop) => {
        const body = writeOrder(config, {
          usual: { quality: 'standard' },
          order: { model: job.model, prompt: job.prompt, size: sizeOf(job) },
        })
        const reply = await http.postJson(under(config.baseUrl, '/images/generations'), body, {
          headers,
          signal: stop,
          classify,
        })
        if (!isReply.Check(reply)) throw http.failure('failed', 'cogview answered in another shape')
        // `content_filter` also comes with good images (level 3, the mildest): only a missing image is a refusal.
        if (!reply.data?.length) throw http.failure('policy', 'cogview refused')
        return readImages(reply.data, count, http)
      }),
  }
}

/** Ranges with both ends included. 1113, our balance, arrives as a 429. */
const CODES: readonly [from: number, to: number, trouble: FailureKind][] = [
  [1000, 1004, 'operator'],
  [1110, 1121, 'operator'],
  [1210, 1210, 'request'],
  [1211, 1211, 'operator'],
  [1213, 1215, 'request'],
  [1220, 1222, 'operator'],
  [1261, 1261, 'request'],
  [1301, 1301, 'policy'],
  [1302, 1303, 'rate_limited'],
  [1304, 1304, 'operator'],
  [1305, 1305, 'rate_limited'],
  [1308, 1311, 'operator'],
  [1312, 1312, 'rate_limited'],
  [1313, 1313, 'operator'],
]

/** `{error: {code, message}}`; the code is a string of digits. */
const classify: ErrorClassifier = ({ body }) => {
  const code = Number(envelope(body).code)
  return CODES.find(([from, to]) => code >= from && code <= to)?.[2]
}
