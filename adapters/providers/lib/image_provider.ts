/** What the image protocols have in common: how the operator configures one, how an order is written, how `n` is spread over calls. */
import { isWebUrl } from '../../../core/lib/text.ts'
import type { Clock, ImageJob, Json, Log, MadeImage } from '../../../core/mod.ts'
import type { Fetch, VendorHttp } from '../../http/fetch.ts'
import { dataUri } from '../../http/media_input.ts'

type Fields = Readonly<Record<string, Json>>

export type ImageVendorConfig = {
  /** Root of the API, up to where the protocol's own paths begin, for example `https://api.openai.com/v1`. */
  readonly baseUrl: string
  readonly key?: string | undefined
  /** Who made the model: the source of a rate limit in the buyer's eyes. */
  readonly maker: string
  /** Joins every request, below what the buyer ordered: prompt, model, number and size stay the buyer's. */
  readonly parameters?: Fields | undefined
  /** Joins every request above all else, the order included. A null leaves a field out. */
  readonly overrides?: Fields | undefined
  /** Longest that one upstream call may take, in milliseconds. */
  readonly timeoutMs: number
  /** Largest reply, in bytes; 256 MiB unless told. */
  readonly maxBytes?: number | undefined
  /** Most images to ask of one upstream call; the protocol's own limit unless told. */
  readonly perCall?: number | undefined
  /** What a mask marks as the part to edit, where the server differs from the protocol: stable-diffusion.cpp takes white for it everywhere. */
  readonly maskMarks?: 'transparent' | 'white' | undefined
  readonly clock: Clock
  readonly log: Log
  readonly fetch?: Fetch | undefined
}

/** The body of a request: usual settings, then the operator's, then the order, then the operator's overrides. Objects merge, nulls leave out. */
export function writeOrder(
  { parameters = {}, overrides = {} }: ImageVendorConfig,
  { usual = {}, order }: { usual?: Fields; order: Fields },
): Fields {
  return [usual, parameters, order, overrides].reduce(merge, {})
}

function merge(below: Fields, above: Fields): Fields {
  const merged: Record<string, Json> = { ...below }
  for (const [name, value] of Object.entries(above)) {
    const under = merged[name]
    if (value === null) delete merged[name]
    else merged[name] = isFields(under) && isFields(value) ? merge(under, value) : value
  }
  return merged
}

function isFields(value: Json | undefined): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

const AT_ONCE = 4

/**
 * Makes `n` images with calls of at most `perCall`, four at a time, in order. The first failure ends the other calls and is thrown: there is no
 * partial success (decision 73).
 */
export async function spread(
  { n, perCall }: { n: number; perCall: number },
  signal: AbortSignal,
  ask: (count: number, signal: AbortSignal) => Promise<readonly MadeImage[]>,
): Promise<readonly MadeImage[]> {
  signal.throwIfAborted()
  const counts = Array.from({ length: Math.ceil(n / perCall) }, (_, index) => Math.min(perCall, n - index * perCall))
  const stop = new AbortController()
  const either = AbortSignal.any([signal, stop.signal])
  const made: (readonly MadeImage[])[] = []
  const waiting = counts.entries()
  const worker = async () => {
    for (const [index, count] of waiting) {
      either.throwIfAborted()
      made[index] = await ask(count, either)
    }
  }
  try {
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, counts.length) }, worker))
    return made.flat()
  } catch (error) {
    stop.abort(error)
    throw error
  }
}

/** One image of a reply, as most vendors write it. Null for what is absent. */
export type RawImage = {
  readonly b64_json?: string | null
  readonly url?: string | null
  readonly revised_prompt?: string | null
}

/** Reads exactly `count` images; fewer, or one that is none, fail the job: it was sold as a whole. */
export function readImages(
  raw: readonly RawImage[],
  count: number,
  http: Pick<VendorHttp, 'refusal'>,
): readonly MadeImage[] {
  if (raw.length < count) throw http.refusal('failed', `the vendor made ${raw.length} of ${count} images`)
  return raw.slice(0, count).map(({ b64_json, url, revised_prompt }) => {
    const address = b64_json ? dataUri(b64_json) : hosted(url ?? '')
    if (!address) throw http.refusal('failed', 'the vendor answered with something that is not an image')
    return { url: address, ...(revised_prompt && { revisedPrompt: revised_prompt }) }
  })
}

function hosted(url: string): string | undefined {
  if (url.startsWith('data:')) return dataUri(url)
  return isWebUrl(url) ? url : undefined
}

export const bearer = (key: string | undefined): Readonly<Record<string, string>> =>
  key ? { authorization: `Bearer ${key}` } : {}

/** A path under the base URL, however that ends. */
export const under = (baseUrl: string, path: string): string => baseUrl.replace(/\/+$/, '') + path

export const sizeOf = ({ width, height }: ImageJob): string => `${width}x${height}`

/**
 * The ratio of a list, such as `3:2`, that is nearest to a size. Throws where the nearest is more than 5% off: such a row of the catalog
 * cannot be served.
 */
export function nearestRatio(ratios: readonly string[], job: ImageJob): string {
  const distance = (ratio: string) => {
    const [wide = 1, high = 1] = ratio.split(':').map(Number)
    return Math.abs(Math.log((job.width * high) / (job.height * wide)))
  }
  const nearest = ratios.reduce((best, ratio) => (distance(ratio) < distance(best) ? ratio : best))
  if (distance(nearest) > 0.05) throw new Error(`no aspect ratio of ${job.model} fits ${sizeOf(job)}`)
  return nearest
}

/** stable-diffusion.cpp takes settings out of a prompt, its size included (examples/server/api.md, `sd_cpp_extra_args`): not from a buyer. */
export function plainPrompt(prompt: string): string {
  return prompt.replace(/sd_cpp_extra_args/gi, 'sd cpp extra args')
}
