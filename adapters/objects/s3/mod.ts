import { Readable } from 'node:stream'
import type * as Sdk from '@aws-sdk/client-s3'
import { type ByteRange, isObjectKey, type Objects, type StoredObject } from '../../../core/ports/mod.ts'
import { checkObject, cancelBody, resolveRange } from '../check.ts'
import { nameOf, statusOf, StoreError, toStoreError } from './error.ts'
import { beginUpload, PART_BYTES, partsOf } from './parts.ts'

export type S3Config = {
  /** Endpoint of a compatible store. Default: Amazon S3. */
  readonly endpoint?: string
  readonly region: string
  readonly bucket: string
  /**
   * Static keys. Without them the chain of the AWS SDK applies, which refreshes what it finds: SSO, profiles, web
   * identity (IRSA), container and instance roles.
   */
  readonly accessKeyId?: string
  readonly secretAccessKey?: string
  /** Comes with temporary keys. */
  readonly sessionToken?: string
  /** Prefix of every key, followed by a slash, so that gateways can share a bucket. */
  readonly prefix?: string
  /** Base of public URLs, `<publicBaseUrl>/<key>`. Without it, objects are served through the gateway. */
  readonly publicBaseUrl?: string
  /** Puts the bucket in the path instead of the host name. Default true with an endpoint, false without. */
  readonly forcePathStyle?: boolean
}

/** Objects up to this size in bytes are read whole; larger ones are streamed. */
const SMALL_BYTES = 256 * 1024
const SLICE = 64 * 1024
const CONNECT_TIMEOUT_MS = 5_000
/** Longest wait for the head of a response, including the upload of the object. */
const RESPONSE_TIMEOUT_MS = 60_000
/** Longest wait for the next bytes of a body while a reader waits. */
const IDLE_TIMEOUT_MS = 15_000
const ANY_TYPE = 'application/octet-stream'
/** Attempts while another writer of the same key is active. */
const MAX_ATTEMPTS = 5

export type S3Objects = Objects & {
  /** Reads the bucket's metadata. Throws, in terms for the operator, when the bucket cannot be used. */
  ready(): Promise<void>
}

/**
 * Objects in a bucket of S3 or a compatible store. A key is written only if absent: checked first, because some stores
 * ignore `If-None-Match: *`, and sent as that condition too. Needs GetObject, PutObject, DeleteObject,
 * AbortMultipartUpload and ListBucket (without it S3 answers 403 for missing keys). Errors contain codes only. Add a
 * lifecycle rule that removes unfinished multipart uploads: a crash leaves one.
 */
export function s3Objects(config: S3Config): S3Objects {
  const base = config.publicBaseUrl?.replace(/\/+$/, '')
  const bucket: Bucket = { config, loading: undefined, isConditional: true }
  return {
    async ready() {
      const { sdk, client } = await storeOf(bucket)
      await client.send(new sdk.HeadBucketCommand({ Bucket: config.bucket })).catch((error: unknown) => {
        throw toStoreError(error, 'open its bucket')
      })
    },
    async put(key, given, type) {
      checkObject(key, type)
      await putWhole(bucket, key, { bytes: given.slice(), type })
    },
    putStream: (key, body, type) => putStream(bucket, key, { body, type }),
    async get(key, range) {
      return isObjectKey(key) ? await read(bucket, key, range) : undefined
    },
    async delete(key) {
      if (isObjectKey(key)) await remove(bucket, key)
    },
    url: (key) => (base === undefined || !isObjectKey(key) ? undefined : `${base}/${key}`),
  }
}

type Bucket = {
  readonly config: S3Config
  /** The SDK, loaded on first use, because that takes long. */
  loading: Promise<Store> | undefined
  /** Whether the store supports conditional writes, as far as it has said. */
  isConditional: boolean
}

function storeOf(bucket: Bucket): Promise<Store> {
  bucket.loading ??= import('@aws-sdk/client-s3').then((sdk) => ({ sdk, client: connect(sdk, bucket.config) }))
  return bucket.loading
}

/** How a command names an object. */
const named = ({ config }: Bucket, key: string) => ({ Bucket: config.bucket, Key: pathOf(config, key) })

const pathOf = ({ prefix }: S3Config, key: string): string => (prefix ? `${prefix}/${key}` : key)

/** The size of a stored object; undefined if absent. */
async function sizeOf(bucket: Bucket, key: string): Promise<number | undefined> {
  const { sdk, client } = await storeOf(bucket)
  try {
    const { ContentLength: size } = await client.send(new sdk.HeadObjectCommand(named(bucket, key)))
    return size ?? 0
  } catch (error) {
    // Without ListBucket, a missing key is a 403.
    if (statusOf(error) === 404 || statusOf(error) === 403) return undefined
    throw toStoreError(error, 'find')
  }
}

/**
 * Writes if the key is absent, else returns the size of the stored object. Retries: another writer may be active, and
 * the store may not support the condition, or may have completed a write whose response was lost.
 */
async function putIfAbsent(
  bucket: Bucket,
  key: string,
  write: (condition: { IfNoneMatch?: string }) => Promise<unknown>,
): Promise<number | undefined> {
  for (let attempt = 1; ; attempt++) {
    const size = await sizeOf(bucket, key)
    if (size !== undefined) return size
    try {
      await write(bucket.isConditional ? { IfNoneMatch: '*' } : {})
      return undefined
    } catch (error) {
      const isRaced = statusOf(error) === 409 || statusOf(error) === 412
      const isUnknown = statusOf(error) === 501 && bucket.isConditional
      if (!(isRaced || isUnknown) || attempt === MAX_ATTEMPTS) throw toStoreError(error, 'put')
      if (isUnknown) bucket.isConditional = false
    }
  }
}

async function putWhole(
  bucket: Bucket,
  key: string,
  { bytes, type }: { readonly bytes: Uint8Array; readonly type: string },
): Promise<number> {
  const { sdk, client } = await storeOf(bucket)
  const content = { ...named(bucket, key), Body: bytes, ContentType: type, ContentLength: bytes.length }
  const write = (condition: { IfNoneMatch?: string }) =>
    client.send(new sdk.PutObjectCommand({ ...content, ...condition }))
  return (await putIfAbsent(bucket, key, write)) ?? bytes.length
}

async function putStream(
  bucket: Bucket,
  key: string,
  { body, type }: { readonly body: ReadableStream<Uint8Array>; readonly type: string },
): Promise<{ readonly size: number }> {
  const spare: Uint8Array[] = []
  const parts = partsOf(body, spare)
  try {
    checkObject(key, type)
    const existingSize = await sizeOf(bucket, key)
    if (existingSize !== undefined) return { size: existingSize }
    const { value: first = new Uint8Array(0) } = await parts.next()
    const isSmall = first.length < PART_BYTES
    return {
      size: isSmall
        ? await putWhole(bucket, key, { bytes: first, type })
        : await putParts(bucket, key, { first, rest: parts, spare, type }),
    }
  } finally {
    await parts.return(undefined)
    cancelBody(body)
  }
}

async function putParts(
  bucket: Bucket,
  key: string,
  {
    first,
    rest,
    spare,
    type,
  }: { first: Uint8Array; rest: AsyncIterable<Uint8Array>; spare: Uint8Array[]; type: string },
): Promise<number> {
  const { config } = bucket
  const store = await storeOf(bucket)
  const upload = await beginUpload({ ...store, bucket: config.bucket, path: pathOf(config, key), type })
  let isComplete = false
  try {
    const sent = await upload.send(first, { rest, spare })
    const existingSize = await putIfAbsent(bucket, key, upload.complete).catch(async (error: unknown) => {
      // A completion whose response was lost is retried, and then finds no upload.
      if ((await sizeOf(bucket, key)) !== sent) throw error
    })
    isComplete = existingSize === undefined
    return existingSize ?? sent
  } finally {
    // Parts that remain belong to no key; the bucket's lifecycle rule removes them.
    if (!isComplete) await upload.abort().catch(() => {})
  }
}

async function read(bucket: Bucket, key: string, range: ByteRange | undefined): Promise<StoredObject | undefined> {
  const { sdk, client } = await storeOf(bucket)
  const wanted = await fromStart(bucket, key, range)
  if (wanted === null) return emptyPart(0)
  try {
    const within = wanted && { Range: `bytes=${wanted.first}-${wanted.last ?? ''}` }
    return await toStoredObject(await client.send(new sdk.GetObjectCommand({ ...named(bucket, key), ...within })))
  } catch (error) {
    if (statusOf(error) === 404 && nameOf(error) !== 'NoSuchBucket') return undefined
    if (statusOf(error) === 416) return emptyPart((await sizeOf(bucket, key)) ?? 0)
    throw toStoreError(error, 'get')
  }
}

/** Converts a range from the end, which not every store supports; null for an empty object. */
async function fromStart(
  bucket: Bucket,
  key: string,
  range: ByteRange | undefined,
): Promise<ByteRange | null | undefined> {
  if (!range || range.first >= 0) return range
  const size = await sizeOf(bucket, key)
  return size === undefined ? undefined : resolveRange(range, size)
}

/** S3 answers 204 for a key that is not there; some compatible stores answer 404. */
async function remove(bucket: Bucket, key: string): Promise<void> {
  const { sdk, client } = await storeOf(bucket)
  await client.send(new sdk.DeleteObjectCommand(named(bucket, key))).catch((error: unknown) => {
    if (statusOf(error) !== 404 || nameOf(error) === 'NoSuchBucket') throw toStoreError(error, 'delete')
  })
}

type Store = { readonly sdk: typeof Sdk; readonly client: Sdk.S3Client }

function connect({ S3Client }: typeof Sdk, config: S3Config): Sdk.S3Client {
  const { endpoint, region, accessKeyId, secretAccessKey, sessionToken } = config
  const { forcePathStyle = endpoint !== undefined } = config
  const client = new S3Client({
    region,
    forcePathStyle,
    ...(accessKeyId !== undefined &&
      secretAccessKey !== undefined && {
        credentials: { accessKeyId, secretAccessKey, ...(sessionToken !== undefined && { sessionToken }) },
      }),
    // Compatible stores would store the SDK's chunked checksums as content.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: {
      connectionTimeout: CONNECT_TIMEOUT_MS,
      requestTimeout: RESPONSE_TIMEOUT_MS,
      throwOnRequestTimeout: true,
    },
    ...(endpoint !== undefined && { endpoint }),
  })
  // The last step: after signing, and again for each attempt.
  client.middlewareStack.add((next) => (sent) => next({ ...sent, request: withSlicedBody(sent.request) }), {
    name: 'sliced',
    step: 'deserialize',
    priority: 'low',
  })
  return client
}

/**
 * Sends a large body in slices: sent whole, it is copied several times, and the copies wait for the garbage collector.
 */
function withSlicedBody(request: unknown): unknown {
  const { body } = request as { body?: unknown }
  if (!(body instanceof Uint8Array) || body.length <= SMALL_BYTES) return request
  return Object.assign(Object.create(Object.getPrototypeOf(request)), request, { body: Readable.from(slicesOf(body)) })
}

function* slicesOf(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += SLICE) yield bytes.subarray(at, at + SLICE)
}

async function toStoredObject(found: Sdk.GetObjectCommandOutput): Promise<StoredObject> {
  const { Body, ContentLength: length, ContentType: type = ANY_TYPE, ContentRange } = found
  if (!Body || length === undefined) throw new StoreError('answered without a body or its length')
  const stream = streamBody(Body as Chunks, length)
  const body = length > SMALL_BYTES ? stream : new Uint8Array(await new Response(stream).arrayBuffer())
  const [, first, last, size] = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(ContentRange ?? '') ?? []
  return {
    body,
    size: Number(size ?? length),
    type,
    ...(size && { part: { first: Number(first), last: Number(last) } }),
  }
}

/** The answer to a range without bytes. */
const emptyPart = (size: number): StoredObject => ({ body: new Uint8Array(0), size, type: ANY_TYPE, part: null })

/** A node:http readable, on every runtime that the SDK treats as Node. */
type Chunks = AsyncIterable<Uint8Array> & { destroy(): unknown }

/** Reads on demand and closes the source when cancelled. A body that ends early is an error, never a shorter object. */
function streamBody(chunks: Chunks, size: number): ReadableStream<Uint8Array> {
  const iterator = chunks[Symbol.asyncIterator]()
  let missing = size
  return new ReadableStream(
    {
      async pull(controller) {
        const { done, value } = await withTimeout(iterator.next(), () => chunks.destroy()).catch((error: unknown) => {
          throw toStoreError(error, 'read on')
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

async function withTimeout<Answer>(answer: Promise<Answer>, giveUp: () => void): Promise<Answer> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(Object.assign(new Error(), { code: 'ETIMEDOUT' })), IDLE_TIMEOUT_MS)
  })
  silence.catch(giveUp)
  return await Promise.race([answer, silence]).finally(() => clearTimeout(timer))
}

// ── configuration ───────────────────────────────────────────────────────────────────────────────────────────────────

const SETTINGS = ['region', 'endpoint', 'public', 'path_style']

/**
 * Parses `s3://bucket/prefix?region=…&endpoint=…&public=…&path_style=true`. Keys come from AWS_ACCESS_KEY_ID,
 * AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or without them from the chain of the AWS SDK; the region comes from
 * AWS_REGION if the URL has none. Throws RangeError with every mistake, one per line; secrets are not in it.
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
  const sessionToken = env.AWS_SESSION_TOKEN ?? ''

  check(
    /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(bucket),
    'the bucket must be 3 to 63 lower-case letters, digits, dots and hyphens',
  )
  check(
    !parsed.username && !parsed.password,
    'keys must be in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, not in the URL',
  )
  check(prefix === '' || isObjectKey(prefix), 'the prefix must be plain words separated by slashes')
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
  for (const name of new Set(given.keys()))
    check(SETTINGS.includes(name), `unknown setting ${name.slice(0, 40)}; allowed: ${SETTINGS.join(', ')}`)
  const halves = 'set both, or neither to use a role or a profile'
  check(
    accessKeyId !== '' || secretAccessKey === '',
    `AWS_SECRET_ACCESS_KEY is set, and AWS_ACCESS_KEY_ID is not; ${halves}`,
  )
  check(
    secretAccessKey !== '' || accessKeyId === '',
    `AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not; ${halves}`,
  )
  if (mistakes.length > 0) throw new RangeError(mistakes.join('\n'))

  return {
    region,
    bucket,
    ...(accessKeyId !== '' && { accessKeyId, secretAccessKey }),
    ...(accessKeyId !== '' && sessionToken !== '' && { sessionToken }),
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
