/** Guarded downloads of media: what a foreign URL may lead to, what is taken from there, and reading it as it comes. */
import { lookup as systemLookup } from 'node:dns/promises'
import { get as getPlain, type IncomingMessage } from 'node:http'
import { get as getSecure } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import type { MediaStream } from '../../core/mod.ts'
import { isPrivate, type Lookup } from './addresses.ts'
import { mediaTypeOf } from './pictures.ts'

export type MediaOptions = {
  readonly lookup?: Lookup
  /** Hosts that may be private all the same: a vendor on the operator's own network. Written `host:port`. */
  readonly trusted?: readonly string[]
}

const MAX_REDIRECTS = 4
/** Refusals that another time may be none. */
const PASSING = new Set([408, 425, 429])
export const MEDIA_HEADERS = { accept: 'image/*, video/*, audio/*', 'accept-encoding': 'identity', 'user-agent': 'farebox' }

/** What our own bytes tell: whoever claims one of these is checked. */
const CHECKED = /^(?:image\/|video\/(?:mp4|quicktime|webm)$|audio\/(?:mpeg|wav)$)/
/** Enough of a head to tell what it is. */
const HEAD_BYTES = 64

export type StreamMedia = (url: string, at: { signal: AbortSignal; maxBytes: number }) => Promise<MediaStream>

/**
 * Reads what a vendor's URL points at as it comes; judges what `mediaFetcher` judges. Resolves when the first bytes have told the type. Upstream is
 * read no faster than the body, and hung up on when the body is cancelled or `signal` aborts. The body errors past `maxBytes`, and where it ends
 * before its declared length.
 */
export function mediaStreamer(options: MediaOptions = {}): StreamMedia {
  const follow = guarded(options)
  return (start, at) => orAbort(begin(start, at), at.signal)

  async function begin(start: string, { signal, maxBytes }: Parameters<StreamMedia>[1]): Promise<MediaStream> {
    const response = await follow(start, signal)
    const end = () => void response.destroy()
    try {
      signal.throwIfAborted()
      signal.addEventListener('abort', end, { once: true })
      const size = checkHead(response, maxBytes)
      const chunks = response[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>
      const head = await headOf(chunks)
      const type = judgedType(Buffer.concat(head), response)
      return { type, body: bodyOf({ head, chunks, size, maxBytes, signal, end }), ...(size !== undefined && { size }) }
    } catch (error) {
      signal.removeEventListener('abort', end)
      end()
      throw error
    }
  }
}

type Reading = {
  readonly head: Uint8Array[]
  readonly chunks: AsyncIterator<Uint8Array>
  readonly size: number | undefined
  readonly maxBytes: number
  readonly signal: AbortSignal
  end(): void
}

function bodyOf({ head, chunks, size, maxBytes, signal, end }: Reading): ReadableStream<Uint8Array> {
  let length = 0
  const over = () => {
    signal.removeEventListener('abort', end)
    end()
  }
  const next = async () => {
    signal.throwIfAborted()
    const early = head.shift()
    if (early) return early
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
          over()
          controller.close()
        } catch (error) {
          over()
          throw error
        }
      },
      cancel: over,
    },
    { highWaterMark: 0 },
  )
}

/** Chunks, up to the first that completes the head, or to the end. */
export async function headOf(chunks: AsyncIterator<Uint8Array>): Promise<Uint8Array[]> {
  const head: Uint8Array[] = []
  for (let length = 0; length < HEAD_BYTES; ) {
    const { done, value } = await chunks.next()
    if (done) break
    head.push(value)
    length += value.length
  }
  return head
}

/** Follows redirects, judging each address anew, to a response whose body nobody has read yet. */
export function guarded({ lookup = systemAddresses, trusted = [] }: MediaOptions): (start: string, signal: AbortSignal) => Promise<IncomingMessage> {
  return follow

  async function follow(start: string, signal: AbortSignal): Promise<IncomingMessage> {
    let url = new URL(start)
    for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
      const response = await open(url, signal)
      const { statusCode = 0, headers } = response
      if (statusCode < 300 || statusCode >= 400 || !headers.location) return response
      response.destroy()
      url = new URL(headers.location, url)
    }
    throw new Error(`more than ${MAX_REDIRECTS} redirects`)
  }

  function open(url: URL, signal: AbortSignal): Promise<IncomingMessage> {
    if (url.protocol !== 'https:' && url.protocol !== 'http:') throw noMedia(`media over ${url.protocol} is not fetched`)
    if (url.username || url.password) throw noMedia('a media URL with credentials is not fetched')
    const isTrusted = trusted.includes(url.host)
    const host = url.hostname.replace(/^\[|\]$/g, '')
    if (!isTrusted && isIP(host) && isPrivate(host)) throw noMedia('the media host has a private address')
    const get = url.protocol === 'https:' ? getSecure : getPlain
    // A connection of its own: a pooled one may lead where nobody judged.
    const options = { signal, agent: false, headers: MEDIA_HEADERS, lookup: judged(isTrusted) }
    return new Promise((resolve, reject) => void get(url, options, resolve).on('error', reject))
  }

  function judged(isTrusted: boolean): LookupFunction {
    return (host, { all }, done) => {
      const answer = async () => {
        const addresses = await lookup(host)
        const [first] = addresses
        if (!first) throw new Error('the media host has no address')
        if (!isTrusted && addresses.some(({ address }) => isPrivate(address))) throw noMedia('the media host has a private address')
        return { first, addresses: [...addresses] }
      }
      answer().then(
        ({ first, addresses }) => (all ? done(null, addresses) : done(null, first.address, first.family)),
        (error: Error) => done(error, ''),
      )
    }
  }
}

/** The declared length, undefined where there is none. Throws for a body that is not to be read. */
export function checkHead({ statusCode = 0, headers }: IncomingMessage, maxBytes: number): number | undefined {
  const isRefusal = statusCode >= 400 && statusCode < 500 && !PASSING.has(statusCode)
  if (statusCode < 200 || statusCode >= 300) throw (isRefusal ? noMedia : Error)(`the media host answered ${statusCode}`)
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') throw new Error('the media is compressed, unasked')
  const declared = headers['content-length']
  if (declared === undefined) return undefined
  if (Number(declared) > maxBytes) throw tooLarge(maxBytes)
  return Number(declared)
}

/** What its first bytes say, else what it claims to be and cannot be checked. */
export function judgedType(bytes: Uint8Array, { headers }: IncomingMessage): string {
  const type = toldType([bytes], headers['content-type'])
  if (type !== undefined) return type
  const claimed = plainType(headers['content-type'])
  throw noMedia(`the media says ${claimed.slice(0, 40)}, and is no ${claimed.split('/', 1)[0]}`)
}

/** The same of the first pieces; undefined where they are not what they claim to be. */
export function toldType(head: readonly Uint8Array[], claim: string | null | undefined): string | undefined {
  const claimed = plainType(claim)
  return mediaTypeOf(Buffer.concat(head)) ?? (CHECKED.test(claimed) ? undefined : claimed)
}

const plainType = (claim: string | null | undefined): string => claim?.split(';', 1)[0]?.trim().toLowerCase() ?? ''

/** Ends with the signal, and with its reason, even where the work takes its time to notice or never does. */
export function orAbort<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason)
    signal.addEventListener('abort', abort, { once: true })
    if (signal.aborted) abort()
    work.then(resolve, (error) => reject(signal.aborted ? signal.reason : error)).finally(() => signal.removeEventListener('abort', abort))
  })
}

/** What nobody can fetch, or is no media: said so that nobody pays for it. */
const noMedia = (why: string): Error => Object.assign(new Error(why), { name: 'NoMediaError' })

export const tooLarge = (maxBytes: number) => new Error(`more than ${maxBytes} bytes`)
const systemAddresses: Lookup = (host) => systemLookup(host, { all: true })

