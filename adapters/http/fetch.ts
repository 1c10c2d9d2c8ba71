/** Calls of vendors' APIs: deadlines, one retry, no redirects, and errors without a vendor's text. */
import { deadlinesOf, outages } from '../../core/lib/mod.ts'
import { ApiError, type ChatStream, type Clock, type Log, type MediaStream, type SseEvent } from '../../core/mod.ts'
import { clipStream } from './clip_stream.ts'
import { chatStream, firstBytes, firstError, errorOfEvent } from './event_stream.ts'
import { readAtMost, readText } from './read_body.ts'
import { slotsOf } from './vendor_slots.ts'
import {
  type ErrorFor,
  errorFor as defaultErrorFor,
  type ErrorClassifier,
  record,
  type ErrorReply,
  type FailureKind,
} from './error_replies.ts'
import {
  call,
  type CallOptions,
  type Client,
  codeOf,
  errorFrom,
  failed,
  failureOf,
  type Reply,
  unreachable,
} from './vendor_call.ts'

export type Fetch = (url: string, init: RequestInit) => Promise<Response>
type RequestOptions = CallOptions

type VendorHttpConfig = {
  /** Name of the protocol, for errors and logs. */
  readonly name: string
  /** Maker of the model, named to the buyer as the source of a rate limit. */
  readonly maker: string
  /** Longest duration of one call in milliseconds, retry and body included; of a stream, until its first bytes. */
  readonly timeoutMs: number
  /** Pause before the one retry, in milliseconds. Default 500. */
  readonly retryPauseMs?: number | undefined
  /** Creates the error for a failed call. Default: the errors of media endpoints. */
  readonly errorFor?: ErrorFor | undefined
  readonly clock: Clock
  readonly log: Log
  /** Node's own fetch gives up after 300 s without headers; pass another one where `timeoutMs` is longer. */
  readonly fetch?: Fetch | undefined
  /** Largest reply in bytes. Default 256 MiB. */
  readonly maxBytes?: number | undefined
}

/** `whole`: the server answered with JSON instead of a stream. */
type StreamReply =
  | { readonly kind: 'stream'; readonly stream: ChatStream }
  | { readonly kind: 'whole'; readonly body: unknown }

type JsonReply = { readonly status: number; readonly body: unknown }

/** `headers` are those of the reply. */
type Media = { readonly bytes: Uint8Array; readonly type: string; readonly headers: Headers }

export type VendorHttp = {
  /**
   * Resolves with the parsed JSON of a 2xx reply. Throws `errorFor` of any other; never a key, a URL or a vendor's
   * text.
   */
  postJson(url: string, body: unknown, options: RequestOptions): Promise<unknown>
  postForm(url: string, form: FormData | URLSearchParams, options: RequestOptions): Promise<unknown>
  /** The same by GET. `body` is undefined when a 2xx reply has no JSON; its status may suffice. */
  getJson(url: string, options: RequestOptions): Promise<JsonReply>
  /** Sends DELETE. Ignores the body of a 2xx reply. */
  remove(url: string, options: RequestOptions): Promise<void>
  /** Returns the JSON text of a 2xx reply unchanged, so that numbers are not rounded. A POST if there is a body. */
  requestText(url: string, options: RequestOptions & { readonly body?: unknown }): Promise<string>
  /** Streams media behind our key. After the headers only `signal` ends it; the body errors past `maxBytes`. */
  getMedia(url: string, options: RequestOptions & { readonly maxBytes: number }): Promise<MediaStream>
  /** Posts and reads the media in the reply, within the deadline. */
  postMedia(url: string, body: unknown, options: RequestOptions & { readonly maxBytes: number }): Promise<Media>
  /**
   * Resolves with the first bytes of the reply; an error in them is thrown. After that no deadline applies: the reader
   * watches the time and calls `cancel`. Chunks keep their upstream boundaries and are read on demand.
   */
  postStream(url: string, body: unknown, options: RequestOptions): Promise<StreamReply>
  /** Creates the error for a failure inside a 2xx reply. */
  failure(kind: FailureKind, what: string, reply?: ErrorReply): Error
  /** Creates the error for an error reply, as read by `classify`. */
  errorFrom(reply: ErrorReply, classify?: ErrorClassifier): Error
}

const MAX_REPLY_BYTES = 256 * 1024 * 1024
const RETRY_PAUSE_MS = 500

const JSON_HEADERS = { 'content-type': 'application/json' }
/** Asks for no compression: a compressor delays events. */
const STREAM_HEADERS = { ...JSON_HEADERS, accept: 'text/event-stream', 'accept-encoding': 'identity' }
const CLIP_HEADERS = { accept: 'video/*, audio/*, image/*', 'accept-encoding': 'identity' }

/**
 * A client of one vendor's API. Retries once, after a pause, when the vendor cannot have done any work: no connection,
 * or a status in OVERLOADED. Follows no redirects, which would forward the key. The deadline and `signal` end a call at
 * any point.
 */
export function vendorHttp(config: VendorHttpConfig): VendorHttp {
  const { name, maker, timeoutMs, clock, log, fetch = globalThis.fetch, maxBytes = MAX_REPLY_BYTES } = config
  const { errorFor = defaultErrorFor, retryPauseMs = RETRY_PAUSE_MS } = config
  const client: Client = {
    name,
    maker,
    timeoutMs,
    retryPauseMs,
    maxBytes,
    errorFor,
    clock,
    log,
    fetch,
    timers: deadlinesOf(clock),
    slots: slotsOf(clock),
    refusing: outages({ log, clock, over: 'a vendor serves this gateway again' }),
  }
  return {
    postJson: (url, body, options) =>
      call(
        client,
        { url, model: modelIn(url, body), body: JSON.stringify(body), options, headers: JSON_HEADERS },
        result,
      ),
    postForm: (url, body, options) => call(client, { url, body, options }, result),
    getJson: (url, options) => call(client, { url, options }, jsonReply),
    remove: (url, options) =>
      call(client, { url, options, method: 'DELETE' }, async ({ response }) => void (await response.body?.cancel())),
    requestText: (url, options) =>
      call(
        client,
        {
          url,
          options,
          ...(options.body !== undefined && { body: JSON.stringify(options.body), headers: JSON_HEADERS }),
        },
        jsonText,
      ),
    getMedia: (url, options) =>
      call(client, { url, options, headers: CLIP_HEADERS }, (reply) => openMedia(reply, options)),
    postMedia: (url, body, options) =>
      call(
        client,
        { url, body: JSON.stringify(body), options, headers: { ...JSON_HEADERS, ...CLIP_HEADERS } },
        (reply) => readMedia(reply, options.maxBytes),
      ),
    postStream(url, body, options) {
      const startedAt = clock.now()
      const model = modelIn(url, body)
      return call(client, { url, model, body: JSON.stringify(body), options, headers: STREAM_HEADERS }, (reply) =>
        openStream(reply, { ...options, model, beginsBy: startedAt + timeoutMs }),
      )
    },
    failure: (kind, what, reply) => failureOf(client, kind, { ...reply, what }),
    errorFrom: (reply, classify) => errorFrom(client, reply, { classify }),
  }
}

async function openMedia(
  { client, response, controller }: Reply,
  options: RequestOptions & { readonly maxBytes: number },
): Promise<MediaStream> {
  const media = await clipStream(response, { ...options, controller }).catch((error: unknown) => {
    throw unreachable(client, error, options.signal)
  })
  if (!media) throw failed(client, `answered ${response.status} with something that is no media`)
  return media
}

async function readMedia({ client, response, controller }: Reply, maxBytes: number): Promise<Media> {
  const type = response.headers.get('content-type')?.split(';', 1)[0]?.trim().toLowerCase() ?? ''
  const bytes = await readAtMost(response.body ?? [], maxBytes).catch((error: unknown) => {
    throw controller.signal.aborted ? error : failed(client, 'broke off in its media')
  })
  // Raw samples have no signature to check.
  if (bytes.length === 0 || !/^(?:audio|video|image)\/|^(?:application|binary)\/octet-stream$/.test(type))
    throw failed(client, `answered ${response.status} with something that is no media`)
  return { bytes, type, headers: response.headers }
}

async function openStream(
  reply: Reply,
  { signal, classify, model, beginsBy }: RequestOptions & { readonly model: string; readonly beginsBy: number },
): Promise<StreamReply> {
  const { client, response, controller, slot } = reply
  const type = response.headers.get('content-type') ?? ''
  if (/\bjson\b/i.test(type)) return { kind: 'whole', body: await result(reply) }
  const reader = response.body?.getReader()
  const first = await firstBytes(reader).catch((error: unknown) => {
    throw unreachable(client, error, controller.signal)
  })
  if (!reader || !first || /\bhtml\b/i.test(type))
    throw failed(client, `answered ${response.status} with something that is no stream`)
  const error = firstError(first, response.headers)
  if (error) throw errorFrom(client, error, { classify, model })
  const broken = (reason: unknown) => failed(client, `broke off in mid-stream (${codeOf(reason) || 'without a code'})`)
  const apiErrorOf = (event: SseEvent): ApiError | undefined => {
    const errorReply = errorOfEvent(event, response.headers)
    const error = errorReply && errorFrom(client, errorReply, { classify, model })
    return error instanceof ApiError ? error : undefined
  }
  slot.isHandedOver = true
  const onEnd = () => slot.leave?.()
  const { after } = client.timers
  const stream = chatStream({ reader, first }, { signal, controller, after, broken, apiErrorOf, onEnd })
  return { kind: 'stream', stream: { ...stream, beginsBy } }
}

async function result(reply: Reply): Promise<unknown> {
  const { status, body } = await jsonReply(reply)
  if (body === undefined) throw failed(reply.client, `answered ${status} with something that is not JSON`)
  return body
}

async function jsonReply(reply: Reply): Promise<JsonReply> {
  return { status: reply.response.status, body: parseJson(await readBody(reply)) }
}

async function jsonText(reply: Reply): Promise<string> {
  const text = await readBody(reply)
  if (parseJson(text) === undefined)
    throw failed(reply.client, `answered ${reply.response.status} with something that is not JSON`)
  return text
}

async function readBody({ client, response, controller }: Reply): Promise<string> {
  return await readText(response, client.maxBytes).catch((error: unknown) => {
    throw controller.signal.aborted
      ? error
      : failed(client, `answered with a body that broke off, or of more than ${client.maxBytes} bytes`)
  })
}

/** Undefined for text that is not JSON. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The model that a request asks: named in its body, or in its path as Google does. */
function modelIn(url: string, body: unknown): string {
  const { model } = record(body)
  return typeof model === 'string' ? model : (/\/models\/([^/:?]+)/.exec(url)?.[1] ?? '')
}
