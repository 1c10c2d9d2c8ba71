/** Shared by the image protocols: the operator's configuration, request bodies, and spreading `n` over calls. */
import { isWebUrl } from '../../../core/lib/mod.ts'
import type { Clock, ImageJob, Json, Log, MadeImage } from '../../../core/mod.ts'
import type { Fetch, VendorHttp } from '../../http/fetch.ts'
import { dataUri } from '../../http/media_input.ts'

type Fields = Readonly<Record<string, Json>>

export type ImageVendorConfig = {
  /** Root of the API, before the protocol's own paths, for example `https://api.openai.com/v1`. */
  readonly baseUrl: string
  readonly key?: string | undefined
  /** Maker of the model, named to the buyer as the source of a rate limit. */
  readonly maker: string
  /** Merged into every request, below the order: prompt, model, number and size stay the buyer's. */
  readonly parameters?: Fields | undefined
  /** Merged into every request above everything else. A null removes a field. */
  readonly overrides?: Fields | undefined
  /** Longest duration of one upstream call, in milliseconds. */
  readonly timeoutMs: number
  /** Largest reply in bytes. Default 256 MiB. */
  readonly maxBytes?: number | undefined
  /** Most images per upstream call. Default: the protocol's limit. */
  readonly perCall?: number | undefined
  /** Marker of the area to edit, if the server differs from the protocol: stable-diffusion.cpp always expects white. */
  readonly maskMarks?: 'transparent' | 'white' | undefined
  readonly clock: Clock
  readonly log: Log
  readonly fetch?: Fetch | undefined
}

/**
 * Merges the body of a request: defaults, the operator's parameters, the order, the operator's overrides. Nulls remove
 * fields.
 */
export function writeOrder(
  { parameters = {}, overrides = {} }: ImageVendorConfig,
  { usual = {}, order }: { usual?: Fields; order: Fields },
): Fields {
  return [usual, parameters, order, overrides].filter(hasMembers).reduce(merge, {})
}

const hasMembers = (fields: Fields): boolean => {
  for (const _ in fields) return true
  return false
}

function merge(below: Fields, above: Fields): Fields {
  const merged: Record<string, Json> = { ...below }
  for (const name of Object.keys(above)) {
    const value = above[name] as Json
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
 * Makes `n` images with calls of at most `perCall`, four at a time, in order. The first failure aborts the other calls
 * and is thrown: there is no partial success (decision 73).
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

/** One image of a reply in the format of most vendors; absent members are null. */
type RawImage = {
  readonly b64_json?: string | null
  readonly url?: string | null
  readonly revised_prompt?: string | null
}

/** Reads exactly `count` images. Throws for fewer, or for one that is not an image: the job was sold as a whole. */
export function readImages(
  raw: readonly RawImage[],
  count: number,
  http: Pick<VendorHttp, 'failure'>,
): readonly MadeImage[] {
  if (raw.length < count) throw http.failure('failed', `the vendor made ${raw.length} of ${count} images`)
  return raw.slice(0, count).map(({ b64_json, url, revised_prompt }) => {
    const address = b64_json ? dataUri(b64_json) : hosted(url ?? '')
    if (!address) throw http.failure('failed', 'the vendor answered with something that is not an image')
    return { url: address, ...(revised_prompt && { revisedPrompt: revised_prompt }) }
  })
}

function hosted(url: string): string | undefined {
  if (url.startsWith('data:')) return dataUri(url)
  return isWebUrl(url) ? url : undefined
}

export const bearer = (key: string | undefined): Readonly<Record<string, string>> =>
  key ? { authorization: `Bearer ${key}` } : {}

/** Appends a path to the base URL, with or without a trailing slash. */
export const under = (baseUrl: string, path: string): string => baseUrl.replace(/\/+$/, '') + path

export const sizeOf = ({ width, height }: ImageJob): string => `${width}x${height}`

/**
 * Returns the listed ratio, such as `3:2`, nearest to a size. Throws when it is more than 5% off: such a catalog row
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

/**
 * Disables settings inside a prompt, which stable-diffusion.cpp applies, even its size (examples/server/api.md,
 * `sd_cpp_extra_args`).
 */
export function plainPrompt(prompt: string): string {
  return prompt.replace(/sd_cpp_extra_args/gi, 'sd cpp extra args')
}
