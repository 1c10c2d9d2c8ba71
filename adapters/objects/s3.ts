import type * as Sdk from '@aws-sdk/client-s3'
import { isObjectKey } from '../../core/keys.ts'
import type { Objects, StoredObject } from '../../core/ports.ts'
import { checkObject } from './check.ts'

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
const CONNECT_MS = 5_000
/** Longest wait for the head of an answer, the sending of the object included. */
const ANSWER_MS = 60_000
/** Longest wait for more of a body, while somebody waits for it. */
const SILENCE_MS = 15_000
/** Tries while another writer of the same key is under way. */
const TRIES = 5

export type S3Objects = Objects & {
  /** Asks for the bucket. Throws, in words for the operator, when it cannot be used. */
  ready(): Promise<void>
}

/**
 * Objects in a bucket of S3 or of a compatible store. A key is written if it is not there: asked first, as some stores ignore
 * `If-None-Match: *`, then said. Needs GetObject, PutObject, and ListBucket, or S3 says 403 of what is missing. Errors hold codes only.
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

  async function isThere(key: string): Promise<boolean> {
    const { sdk, client } = await store()
    try {
      await client.send(new sdk.HeadObjectCommand({ Bucket: bucket, Key: pathOf(key) }))
      return true
    } catch (error) {
      // Whoever may write but not list is told 403 of what is missing.
      if (statusOf(error) === 404 || statusOf(error) === 403) return false
      throw washed(error, 'find')
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
      const bytes = given.slice()
      const { sdk, client } = await store()
      for (let tries = 1; ; tries++) {
        if (await isThere(key)) return
        try {
          const content = { Body: bytes, ContentType: type, ContentLength: bytes.length, ...(isConditional && { IfNoneMatch: '*' }) }
          await client.send(new sdk.PutObjectCommand({ Bucket: bucket, Key: pathOf(key), ...content }))
          return
        } catch (error) {
          if (statusOf(error) === 412) return
          const isRaced = statusOf(error) === 409
          const isUnknown = statusOf(error) === 501 && isConditional
          if (!(isRaced || isUnknown) || tries === TRIES) throw washed(error, 'put')
          if (isUnknown) isConditional = false
        }
      }
    },

    async get(key) {
      if (!isObjectKey(key)) return undefined
      const { sdk, client } = await store()
      try {
        const found = await client.send(new sdk.GetObjectCommand({ Bucket: bucket, Key: pathOf(key) }))
        return await opened(found)
      } catch (error) {
        if (statusOf(error) === 404 && nameOf(error) !== 'NoSuchBucket') return undefined
        throw washed(error, 'get')
      }
    },

    url: (key) => (base === undefined || !isObjectKey(key) ? undefined : `${base}/${key}`),
  }
}

type Store = { readonly sdk: typeof Sdk; readonly client: Sdk.S3Client }

function connect({ S3Client }: typeof Sdk, config: S3Config): Sdk.S3Client {
  const { endpoint, region, accessKeyId, secretAccessKey, forcePathStyle = endpoint !== undefined } = config
  return new S3Client({
    region,
    forcePathStyle,
    credentials: { accessKeyId, secretAccessKey },
    // Compatible stores take the SDK's chunked checksums for content.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: { connectionTimeout: CONNECT_MS, requestTimeout: ANSWER_MS, throwOnRequestTimeout: true },
    ...(endpoint !== undefined && { endpoint }),
  })
}

async function opened({ Body, ContentLength: size, ContentType: type = 'application/octet-stream' }: Sdk.GetObjectCommandOutput): Promise<StoredObject> {
  if (!Body || size === undefined) throw new StoreError('answered without a body or its length')
  const body = streamed(Body as Chunks, size)
  if (size > SMALL) return { body, size, type }
  return { body: new Uint8Array(await new Response(body).arrayBuffer()), size, type }
}

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

// ── errors ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Names the store's own code. The SDK's messages may hold the endpoint, the key id or the signed request. */
class StoreError extends Error {
  override readonly name = 'StoreError'

  constructor(what: string) {
    super(`the object store ${what}`)
  }
}

function washed(error: unknown, verb: string): StoreError {
  if (error instanceof StoreError) return error
  const { code } = error as { code?: unknown }
  const reasons = [typeof code === 'string' ? code : nameOf(error), statusOf(error)].filter((reason) => reason !== undefined)
  return new StoreError(`could not ${verb} (${reasons.join(', ')})`)
}

function statusOf(error: unknown): number | undefined {
  return (error as { $metadata?: { httpStatusCode?: number } } | null)?.$metadata?.httpStatusCode
}

function nameOf(error: unknown): string {
  const { name } = error as { name?: unknown }
  return typeof name === 'string' && /^\w{1,60}$/.test(name) ? name : 'Error'
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

  check(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(bucket), 'the bucket must be 3 to 63 lower-case letters, digits, dots and hyphens')
  check(!parsed.username && !parsed.password, 'keys belong into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, not into the URL')
  check(prefix === '' || isObjectKey(prefix), 'the prefix must be plain words with slashes between them')
  check(region !== '', 'the region is missing: add ?region=, or set AWS_REGION')
  check(endpoint === null || isPlainUrl(endpoint), 'endpoint must be an http or https URL without user, query and fragment')
  check(publicBaseUrl === null || isPlainUrl(publicBaseUrl), 'public must be an http or https URL without user, query and fragment')
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
