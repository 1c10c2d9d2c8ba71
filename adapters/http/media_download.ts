/**
 * Guarded downloads of media: which addresses a foreign URL may reach, what content is accepted, and streaming it
 * (decision 50).
 */
import { lookup as systemLookup } from 'node:dns/promises'
import { get as getPlain, type IncomingMessage } from 'node:http'
import { get as getSecure } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import { type Fetching, type MediaStream, NoMedia } from '../../core/mod.ts'
import { isPrivate, type Lookup } from './private_addresses.ts'
import { orAbort } from './or_abort.ts'
import { readAtMost, tooLarge } from './read_body.ts'
import { mediaTypeOf } from './media_input.ts'

export type MediaOptions = {
  readonly lookup?: Lookup
  /**
   * Hosts that may have private addresses when the URL is not foreign: vendors on the operator's network. Format
   * `host:port`, or `host` for the default port.
   */
  readonly trusted?: readonly string[]
}

const MAX_REDIRECTS = 4
/** Client errors that may pass; after any other 4xx, nobody can download it without a key. */
const TRANSIENT = new Set([408, 425, 429])
const MEDIA_HEADERS = {
  accept: 'image/*, video/*, audio/*',
  'accept-encoding': 'identity',
  'user-agent': 'farebox',
}

/** Types that can be verified from the bytes. */
const VERIFIABLE = /^(?:image\/|video\/(?:mp4|quicktime|webm)$|audio\/(?:mpeg|wav)$)/
/** Bytes needed to detect the type. */
const HEAD_BYTES = 64

export type FetchMedia = (url: string, at: Fetching) => Promise<{ bytes: Uint8Array; type: string }>

/**
 * Downloads media from a vendor's URL into memory. Throws for a private address, a bad status, too many bytes or
 * redirects, and for content that is not the image, clip or sound it claims to be. Connects only to the addresses that
 * were checked, so DNS cannot change in between. Ends with `signal`, during the body too.
 *
 * @example
 * const fetchMedia = mediaFetcher()
 * const { bytes, type } = await fetchMedia(url, { maxBytes: 10_000_000, signal: AbortSignal.timeout(10_000) })
 */
export function mediaFetcher(options: MediaOptions = {}): FetchMedia {
  const follow = guardedGet(options)
  return (start, at) => orAbort(receive(start, at), at.signal)

  async function receive(start: string, at: Fetching): ReturnType<FetchMedia> {
    const response = await follow(start, at)
    try {
      checkHead(response, at.maxBytes)
      const bytes = await readAtMost(response, at.maxBytes)
      return { bytes, type: checkedType(bytes, response.headers['content-type']) }
    } finally {
      response.destroy()
    }
  }
}

export type StreamMedia = (url: string, at: Fetching) => Promise<MediaStream>

/**
 * Streams media from a vendor's URL, with the checks of `mediaFetcher`. Resolves when the first bytes reveal the type.
 * Reads upstream no faster than the body is read, and closes it when the body is cancelled or `signal` aborts. The body
 * errors past `maxBytes`, and when it ends before its declared length.
 *
 * @example
 * const streamMedia = mediaStreamer()
 * const { type, body } = await streamMedia(url, { maxBytes: 100_000_000, signal })
 */
export function mediaStreamer(options: MediaOptions = {}): StreamMedia {
  const follow = guardedGet(options)
  return (start, at) => orAbort(begin(start, at), at.signal)

  async function begin(start: string, at: Fetching): Promise<MediaStream> {
    const { signal, maxBytes } = at
    const response = await follow(start, at)
    const end = () => void response.destroy()
    try {
      const size = checkHead(response, maxBytes)
      const chunks = response[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>
      return await checkedStream({ chunks, claimed: response.headers['content-type'], size, maxBytes, signal, end })
    } catch (error) {
      end()
      throw error
    }
  }
}

type MediaSource = {
  readonly chunks: AsyncIterator<Uint8Array>
  readonly size: number | undefined
  readonly maxBytes: number
  readonly signal: AbortSignal
  /** Releases the source of the chunks; called when the body ends or is cancelled, and when `signal` aborts. */
  end(): void
}

/** Media whose type was detected from its first bytes. If this throws, the caller must call `end`. */
export async function checkedStream({
  claimed,
  ...source
}: MediaSource & { readonly claimed: string | null | undefined }): Promise<MediaStream> {
  const { chunks, size, signal, end } = source
  try {
    signal.throwIfAborted()
    signal.addEventListener('abort', end, { once: true })
    const head = await orAbort(headOf(chunks), signal)
    const type = checkedType(Buffer.concat(head), claimed)
    return { type, body: bodyOf(head, source), ...(size !== undefined && { size }) }
  } catch (error) {
    signal.removeEventListener('abort', end)
    throw error
  }
}

/** A body from chunks, some read already. Reads on only on demand. */
function bodyOf(head: Uint8Array[], { chunks, size, maxBytes, signal, end }: MediaSource): ReadableStream<Uint8Array> {
  let length = 0
  const finish = () => {
    signal.removeEventListener('abort', end)
    end()
  }
  const next = async () => {
    signal.throwIfAborted()
    const buffered = head.shift()
    if (buffered) return buffered
    const { done, value } = await orAbort(chunks.next(), signal)
    return done ? undefined : value
  }
  return new ReadableStream(
    {
      async pull(controller) {
        try {
          const chunk = await next()
          length += chunk?.length ?? 0
          if (length > maxBytes) throw tooLarge(maxBytes)
          if (chunk) return controller.enqueue(chunk)
          if (size !== undefined && length !== size) throw new Error(`the media ended after ${length} of ${size} bytes`)
          finish()
          controller.close()
        } catch (error) {
          finish()
          throw error
        }
      },
      cancel: finish,
    },
    { highWaterMark: 0 },
  )
}

/** Reads chunks until the head is complete or the body ends. */
async function headOf(chunks: AsyncIterator<Uint8Array>): Promise<Uint8Array[]> {
  const head: Uint8Array[] = []
  for (let length = 0; length < HEAD_BYTES;) {
    const { done, value } = await chunks.next()
    if (done) break
    head.push(value)
    length += value.length
  }
  return head
}

/** Follows redirects to a response with an unread body, and checks the address of every hop. */
function guardedGet({
  lookup = systemAddresses,
  trusted = [],
}: MediaOptions): (start: string, at: Pick<Fetching, 'signal' | 'foreign'>) => Promise<IncomingMessage> {
  return follow

  async function follow(start: string, at: Pick<Fetching, 'signal' | 'foreign'>): Promise<IncomingMessage> {
    let url = new URL(start)
    for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
      const response = await open(url, at)
      const { statusCode = 0, headers } = response
      if (statusCode < 300 || statusCode >= 400 || !headers.location) return response
      response.destroy()
      url = new URL(headers.location, url)
    }
    throw new Error(`more than ${MAX_REDIRECTS} redirects`)
  }

  function open(url: URL, { signal, foreign }: Pick<Fetching, 'signal' | 'foreign'>): Promise<IncomingMessage> {
    if (url.protocol !== 'https:' && url.protocol !== 'http:')
      throw new NoMedia(`media URL has scheme ${url.protocol}; it must be http or https`)
    if (url.username || url.password) throw new NoMedia('media URL must not contain credentials')
    const names = [url.host, `${url.hostname}:${url.protocol === 'https:' ? 443 : 80}`].slice(
      0,
      url.port === '' ? 2 : 1,
    )
    const isTrusted = !foreign && names.some((name) => trusted.includes(name))
    const host = url.hostname.replace(/^\[|\]$/g, '')
    if (!isTrusted && isIP(host) && isPrivate(host)) throw new Error('the media host has a private address')
    const get = url.protocol === 'https:' ? getSecure : getPlain
    // A new connection: a pooled one may lead to an unchecked address.
    const options = { signal, agent: false, headers: MEDIA_HEADERS, lookup: guardedLookup(isTrusted) }
    return new Promise((resolve, reject) => void get(url, options, resolve).on('error', reject))
  }

  function guardedLookup(isTrusted: boolean): LookupFunction {
    return (host, { all }, done) => {
      const resolveHost = async () => {
        const addresses = await lookup(host)
        const [first] = addresses
        if (!first) throw new Error('the media host has no address')
        if (!isTrusted && addresses.some(({ address }) => isPrivate(address)))
          throw new Error('the media host has a private address')
        return { first, addresses: [...addresses] }
      }
      resolveHost().then(
        ({ first, addresses }) => (all ? done(null, addresses) : done(null, first.address, first.family)),
        (error: Error) => done(error, ''),
      )
    }
  }
}

/** Returns the declared length, if any. Throws for a response whose body must not be read. */
function checkHead({ statusCode = 0, headers }: IncomingMessage, maxBytes: number): number | undefined {
  if (statusCode >= 400 && statusCode < 500 && !TRANSIENT.has(statusCode))
    throw new NoMedia(`the media host answered ${statusCode}`)
  if (statusCode < 200 || statusCode >= 300) throw new Error(`the media host answered ${statusCode}`)
  if ((headers['content-encoding'] ?? 'identity') !== 'identity')
    throw new Error('the media is compressed, which was not requested')
  const declared = headers['content-length']
  if (declared === undefined) return undefined
  if (Number(declared) > maxBytes) throw tooLarge(maxBytes)
  return Number(declared)
}

/**
 * The type by the first bytes, or the claimed type if it cannot be verified. Throws NoMedia for a false claim or an
 * empty body.
 */
function checkedType(bytes: Uint8Array, contentType: string | null | undefined): string {
  const claimed = contentType?.split(';', 1)[0]?.trim().toLowerCase() ?? ''
  const type = mediaTypeOf(bytes)
  if (!type && VERIFIABLE.test(claimed))
    throw new NoMedia(`the media claims to be ${claimed.slice(0, 40)} but is no ${claimed.split('/', 1)[0]}`)
  if (bytes.length === 0) throw new NoMedia('the media has no bytes')
  return type ?? claimed
}

const systemAddresses: Lookup = (host) => systemLookup(host, { all: true })
