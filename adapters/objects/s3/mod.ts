import { Readable } from 'node:stream'
import type * as Sdk from '@aws-sdk/client-s3'
import { isObjectKey } from '../../../core/ports/objects.ts'
import type { ByteRange, Objects, StoredObject } from '../../../core/ports/mod.ts'
import { checkObject, letGo, partOf } from '../check.ts'
import { nameOf, statusOf, StoreError, washed } from './error.ts'
import { beginUpload, PART_BYTES, partsOf } from './parts.ts'

export type S3Config = {
  /** Of a compatible store; Amazon's own when absent. */
  readonly endpoint?: string
  readonly region: string
  readonly bucket: string
  readonly accessKeyId: string
  readonly secretAccessKey: string
  /** Put before every key, with a slash between: several gateways may share a bucket. */
  readonly prefix?: string
  /** Where anybody may fetch `<publicBaseUrl>/<key>`. Without it objects are served through the gateway. */
  readonly publicBaseUrl?: string
  /** The bucket in the path instead of in the host name. Default true with an endpoint, false without. */
  readonly forcePathStyle?: boolean
}

/** Up to here an object is read whole; beyond, it is streamed. */
const SMALL = 256 * 1024
const SLICE = 64 * 1024
const CONNECT_MS = 5_000
/** Longest wait for the head of an answer, the sending of the object included. */
const ANSWER_MS = 60_000
/** Longest wait for more of a body, while somebody waits for it. */
const SILENCE_MS = 15_000
const ANY_TYPE = 'application/octet-stream'
/** Tries while another writer of the same key is under way. */
const TRIES = 5

export type S3Objects = Objects & {
  /** Asks for the bucket. Throws, in words for the operator, when it cannot be used. */
  ready(): Promise<void>
}

/**
 * Objects in a bucket of S3 or of a compatible store. A key is written if it is not there: asked first, as some stores ignore
 * `If-None-Match: *`, then said. Needs GetObject, PutObject, AbortMultipartUpload, and ListBucket, or S3 says 403 of what is missing. Errors hold codes only. Let a rule of
 * the bucket drop unfinished multipart uploads: a crash leaves one.
 */
export function s3Objects(config: S3Config): S3Objects {
  const { bucket, publicBaseUrl } = config
  const base = publicBaseUrl?.replace(/\/+$/, '')
  let loading: Promise<Store> | undefined
  let isConditional = true

  /** The SDK takes long to load, so only those that use it do. */
  function store(): Promise<Store> {
    loading ??= import('@aws-sdk/client-s3').then((sdk) => ({ sdk, client: connect(sdk, config) }))
    return loading
  }

  const pathOf = (key: string) => (config.prefix ? `${config.prefix}/${key}` : key)

  /** Of what is stored; undefined where nothing is. */
  async function sizeOf(key: string): Promise<number | undefined> {
    const { sdk, client } = await store()
    try {
      const { ContentLength: size } = await client.send(new sdk.HeadObjectCommand({ Bucket: bucket, Key: pathOf(key) }))
      return size ?? 0
    } catch (error) {
      // Whoever may write but not list is told 403 of what is missing.
      if (statusOf(error) === 404 || statusOf(error) === 403) return undefined
      throw washed(error, 'find')
    }
  }

  /**
   * Writes if nothing is there, and tells the size of what was. Another writer of the same key may be under way, and a store may not know the
   * condition, or may have done what it did not live to say.
   */
  async function unlessThere(
    key: string,
    write: (condition: { IfNoneMatch?: string }) => Promise<unknown>,
  ): Promise<number | undefined> {
    for (let tries = 1; ; tries++) {
      const size = await sizeOf(key)
      if (size !== undefined) return size
      try {
        await write(isConditional ? { IfNoneMatch: '*' } : {})
        return undefined
      } catch (error) {
        const isRaced = statusOf(error) === 409 || statusOf(error) === 412
        const isUnknown = statusOf(error) === 501 && isConditional
        if (!(isRaced || isUnknown) || tries === TRIES) throw washed(error, 'put')
        if (isUnknown) isConditional = false
      }
    }
  }

  /** A range that counts from the end, which not every store does; null where the object is empty. */
  async function fromStart(key: string, range: ByteRange | undefined): Promise<ByteRange | null | undefined> {
    if (!range || range.first >= 0) return range
    const size = await sizeOf(key)
    return size === undefined ? undefined : partOf(range, size)
  }

  async function putWhole(key: string, bytes: Uint8Array, type: string): Promise<number> {
    const { sdk, client } = await store()
    const content = { Bucket: bucket, Key: pathOf(key), Body: bytes, ContentType: type, ContentLength: bytes.length }
    return (
      (await unlessThere(key, (condition) => client.send(new sdk.PutObjectCommand({ ...content, ...condition })))) ??
      bytes.length
    )
  }

  async function putParts(
    key: string,
    first: Uint8Array,
    { rest, spare, type }: { rest: AsyncIterable<Uint8Array>; spare: Uint8Array[]; type: string },
  ): Promise<number> {
    const upload = await beginUpload({ ...(await store()), bucket, path: pathOf(key), type })
    let isComplete = false
    try {
      const sent = await upload.send(first, { rest, spare })
      const there = await unlessThere(key, upload.complete).catch(async (error: unknown) => {
        // A completion whose answer was lost is tried again, and then finds no upload.
        if ((await sizeOf(key)) !== sent) throw error
      })
      isComplete = there === undefined
      return there ?? sent
    } finally {
      // Parts that the store keeps all the same are its bucket's to drop: they lie under no key.
      if (!isComplete) await upload.abort().catch(() => {})
    }
  }

  return {
    async ready() {
      const { sdk, client } = await store()
      await client.send(new sdk.HeadBucketCommand({ Bucket: bucket })).catch((error: unknown) => {
        throw washed(error, 'open its bucket')
      })
    },

    async put(key, given, type) {
      checkObject(key, type)
      await putWhole(key, given.slice(), type)
    },

    async putStream(key, body, type) {
      const spare: Uint8Array[] = []
      const parts = partsOf(body, spare)
      try {
        checkObject(key, type)
        const there = await sizeOf(key)
        if (there !== undefined) return { size: there }
        const { value: first = new Uint8Array(0) } = await parts.next()
        const isSmall = first.length < PART_BYTES
        return {
          size: isSmall ? await putWhole(key, first, type) : await putParts(key, first, { rest: parts, spare, type }),
        }
      } finally {
        await parts.return(undefined)
        letGo(body)
      }
    },

    async get(key, range) {
      if (!isObjectKey(key)) return undefined
      const { sdk, client } = await store()
      const wanted = await fromStart(key, range)
      if (wanted === null) return nothingOf(0)
      try {
        const within = wanted && { Range: `bytes=${wanted.first}-${wanted.last ?? ''}` }
        return await opened(
          await client.send(new sdk.GetObjectCommand({ Bucket: bucket, Key: pathOf(key), ...within })),
        )
      } catch (error) {
        if (statusOf(error) === 404 && nameOf(error) !== 'NoSuchBucket') return undefined
        if (statusOf(error) === 416) return nothingOf((await sizeOf(key)) ?? 0)
        throw washed(error, 'get')
      }
    },

    url: (key) => (base === undefined || !isObjectKey(key) ? undefined : `${base}/${key}`),
  }
}

type Store = { readonly sdk: typeof Sdk; readonly client: Sdk.S3Client }

function connect({ S3Client }: typeof Sdk, config: S3Config): Sdk.S3Client {
  const { endpoint, region, accessKeyId, secretAccessKey, forcePathStyle = endpoint !== undefined } = config
  const client = new S3Client({
    region,
    forcePathStyle,
    credentials: { accessKeyId, secretAccessKey },
    // Compatible stores take the SDK's chunked checksums for content.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: { connectionTimeout: CONNECT_MS, requestTimeout: ANSWER_MS, throwOnRequestTimeout: true },
    ...(endpoint !== undefined && { endpoint }),
  })
  // Next to the wire: after signing, and anew for each try.
  client.middlewareStack.add((next) => (sent) => next({ ...sent, request: sliced(sent.request) }), {
    name: 'sliced',
    step: 'deserialize',
    priority: 'low',
  })
  return client
}

/** A large body goes out in slices: given whole, it is copied on its way more than once, and the copies wait for the collector. */
function sliced(request: unknown): unknown {
  const { body } = request as { body?: unknown }
  if (!(body instanceof Uint8Array) || body.length <= SMALL) return request
  return Object.assign(Object.create(Object.getPrototypeOf(request)), request, { body: Readable.from(slicesOf(body)) })
}

function* slicesOf(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += SLICE) yield bytes.subarray(at, at + SLICE)
}

async function opened(found: Sdk.GetObjectCommandOutput): Promise<StoredObject> {
  const { Body, ContentLength: length, ContentType: type = ANY_TYPE, ContentRange } = found
  if (!Body || length === undefined) throw new StoreError('answered without a body or its length')
  const stream = streamed(Body as Chunks, length)
  const body = length > SMALL ? stream : new Uint8Array(await new Response(stream).arrayBuffer())
  const [, first, last, size] = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(ContentRange ?? '') ?? []
  return {
    body,
    size: Number(size ?? length),
    type,
    ...(size && { part: { first: Number(first), last: Number(last) } }),
  }
}

/** The answer to a range in which no byte lies. */
const nothingOf = (size: number): StoredObject => ({ body: new Uint8Array(0), size, type: ANY_TYPE, part: null })

/** On every runtime that the SDK calls Node's: a readable of node:http. */
type Chunks = AsyncIterable<Uint8Array> & { destroy(): unknown }

/** Reads on only when asked to, and hangs up when cancelled. A body that ends early is an error, never a shorter object. */
function streamed(chunks: Chunks, size: number): ReadableStream<Uint8Array> {
  const iterator = chunks[Symbol.asyncIterator]()
  let missing = size
  return new ReadableStream(
    {
      async pull(controller) {
        const { done, value } = await inTime(iterator.next(), () => chunks.destroy()).catch((error: unknown) => {
          throw washed(error, 'read on')
        })
        if (!done) {
          missing -= value.length
          controller.enqueue(value)
          return
        }
        if (missing !== 0) throw new StoreError('ended an object early')
        controller.close()
      },
      cancel: () => void chunks.destroy(),
    },
    { highWaterMark: 0 },
  )
}

async function inTime<Answer>(answer: Promise<Answer>, giveUp: () => void): Promise<Answer> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(Object.assign(new Error(), { code: 'ETIMEDOUT' })), SILENCE_MS)
  })
  silence.catch(giveUp)
  return await Promise.race([answer, silence]).finally(() => clearTimeout(timer))
}

// ── configuration ───────────────────────────────────────────────────────────────────────────────────────────────────

const SETTINGS = ['region', 'endpoint', 'public', 'path_style']

/**
 * `s3://bucket/prefix?region=…&endpoint=…&public=…&path_style=true`, with the keys from the environment: AWS_ACCESS_KEY_ID,
 * AWS_SECRET_ACCESS_KEY, and AWS_REGION where no region is named. Throws RangeError with every mistake, one per line, and no secret.
 */
export function s3FromUrl(url: string, env: Readonly<Record<string, string | undefined>>): S3Config {
  const mistakes: string[] = []
  const check = (isFine: boolean, mistake: string) => void (isFine || mistakes.push(mistake))
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (parsed?.protocol !== 's3:') throw new RangeError('must be s3://bucket or s3://bucket/prefix')
  const { hostname: bucket, searchParams: given } = parsed
  const prefix = parsed.pathname.replace(/^\/+|\/+$/g, '')
  const [endpoint, publicBaseUrl, pathStyle] = [given.get('endpoint'), given.get('public'), given.get('path_style')]
  const region = given.get('region') ?? env.AWS_REGION ?? (endpoint === null ? '' : 'us-east-1')
  const { AWS_ACCESS_KEY_ID: accessKeyId = '', AWS_SECRET_ACCESS_KEY: secretAccessKey = '' } = env

  check(
    /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(bucket),
    'the bucket must be 3 to 63 lower-case letters, digits, dots and hyphens',
  )
  check(
    !parsed.username && !parsed.password,
    'keys belong into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, not into the URL',
  )
  check(prefix === '' || isObjectKey(prefix), 'the prefix must be plain words with slashes between them')
  check(region !== '', 'the region is missing: add ?region=, or set AWS_REGION')
  check(
    endpoint === null || isPlainUrl(endpoint),
    'endpoint must be an http or https URL without user, query and fragment',
  )
  check(
    publicBaseUrl === null || isPlainUrl(publicBaseUrl),
    'public must be an http or https URL without user, query and fragment',
  )
  check(pathStyle === null || /^(true|false)$/.test(pathStyle), 'path_style must be true or false')
  for (const name of new Set(given.keys())) check(SETTINGS.includes(name), `there is no setting ${name.slice(0, 40)}`)
  check(accessKeyId !== '', 'the environment variable AWS_ACCESS_KEY_ID is not set')
  check(secretAccessKey !== '', 'the environment variable AWS_SECRET_ACCESS_KEY is not set')
  if (mistakes.length > 0) throw new RangeError(mistakes.join('\n'))

  return {
    region,
    bucket,
    accessKeyId,
    secretAccessKey,
    ...(endpoint !== null && { endpoint }),
    ...(prefix !== '' && { prefix }),
    ...(publicBaseUrl !== null && { publicBaseUrl }),
    ...(pathStyle !== null && { forcePathStyle: pathStyle === 'true' }),
  }
}

function isPlainUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password, search, hash } = new URL(text)
  return /^https?:$/.test(protocol) && `${username}${password}${search}${hash}` === ''
}
