/** Calls of vendors' APIs: deadlines, one retry, no redirects, and errors without a vendor's text. */
import { deadlinesOf, outages } from '../../core/lib/mod.ts'
import { ApiError, type ChatStream, type Clock, type Log, type MediaStream, type SseEvent } from '../../core/mod.ts'
import { clipStream } from './clip_stream.ts'
import { chatStream, firstBytes, firstError, errorOfEvent } from './event_stream.ts'
import { readAtMost, readText } from './read_body.ts'
import { hostOf, slotsOf } from './vendor_slots.ts'
import {
  type ErrorFor,
  errorFor as defaultErrorFor,
  type ErrorClassifier,
  record,
  type ErrorReply,
  retrySeconds,
  safeCode,
  type FailureKind,
  failureKindOf,
} from './error_replies.ts'

export type Fetch = (url: string, init: RequestInit) => Promise<Response>

export type VendorHttpConfig = {
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

export type RequestOptions = {
  readonly signal: AbortSignal
  readonly headers?: Readonly<Record<string, string>>
  readonly classify?: ErrorClassifier
  /** Set for a request that must not be executed twice: it is retried only if no connection was made. */
  readonly once?: true
}

/** `whole`: the server answered with JSON instead of a stream. */
export type StreamReply =
  | { readonly kind: 'stream'; readonly stream: ChatStream }
  | { readonly kind: 'whole'; readonly body: unknown }

export type JsonReply = { readonly status: number; readonly body: unknown }

/** `headers` are those of the reply. */
export type Media = { readonly bytes: Uint8Array; readonly type: string; readonly headers: Headers }

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
const MAX_ERROR_BYTES = 64 * 1024
const RETRY_PAUSE_MS = 500
/** Statuses by which an overloaded server refuses before it starts work (decision 72). */
const OVERLOADED = new Set([502, 503, 529])

const JSON_HEADERS = { 'content-type': 'application/json' }
/** Asks for no compression: a compressor delays events. */
const STREAM_HEADERS = { ...JSON_HEADERS, accept: 'text/event-stream', 'accept-encoding': 'identity' }
const CLIP_HEADERS = { accept: 'video/*, audio/*, image/*', 'accept-encoding': 'identity' }

/** A GET if there is no body. */
type OutgoingRequest = {
  readonly url: string
  /** The upstream id of the requested model, if the request names one. */
  readonly model?: string
  readonly method?: 'DELETE'
  readonly body?: string | FormData | URLSearchParams
  readonly options: RequestOptions
  readonly headers?: Readonly<Record<string, string>>
}

/** A slot at the vendor. A stream keeps it until its end; whatever else, until it is read. */
type Slot = { readonly leave: (() => void) | undefined; isHandedOver: boolean }

type StreamContext = { readonly model: string; readonly beginsBy: number; readonly slot: Slot }

/**
 * A client of one vendor's API. Retries once, after a pause, when the vendor cannot have done any work: no connection,
 * or a status in OVERLOADED. Follows no redirects, which would forward the key. The deadline and `signal` end a call at
 * any point.
 */
export function vendorHttp(config: VendorHttpConfig): VendorHttp {
  const { name, maker, timeoutMs, clock, log, fetch = globalThis.fetch, maxBytes = MAX_REPLY_BYTES } = config
  const { errorFor = defaultErrorFor, retryPauseMs = RETRY_PAUSE_MS } = config
  const timers = deadlinesOf(clock)
  const slots = slotsOf(clock)
  const refusing = outages({ log, clock, over: 'a vendor serves this gateway again' })

  return {
    postJson: (url, body, options) =>
      call({ url, model: modelIn(url, body), body: JSON.stringify(body), options, headers: JSON_HEADERS }, result),
    postForm: (url, body, options) => call({ url, body, options }, result),
    getJson: (url, options) => call({ url, options }, jsonReply),
    remove: (url, options) =>
      call({ url, options, method: 'DELETE' }, async (response) => void (await response.body?.cancel())),
    requestText: (url, options) =>
      call(
        {
          url,
          options,
          ...(options.body !== undefined && { body: JSON.stringify(options.body), headers: JSON_HEADERS }),
        },
        jsonText,
      ),
    getMedia: (url, options) =>
      call({ url, options, headers: CLIP_HEADERS }, async (response, controller) => {
        const media = await clipStream(response, { ...options, controller }).catch((error: unknown) => {
          throw unreachable(error, options.signal)
        })
        if (!media) throw failure('failed', `${name} answered ${response.status} with something that is no media`)
        return media
      }),
    postMedia: (url, body, options) =>
      call(
        { url, body: JSON.stringify(body), options, headers: { ...JSON_HEADERS, ...CLIP_HEADERS } },
        async (response, controller) => {
          const type = response.headers.get('content-type')?.split(';', 1)[0]?.trim().toLowerCase() ?? ''
          const bytes = await readAtMost(response.body ?? [], options.maxBytes).catch((error: unknown) => {
            throw controller.signal.aborted ? error : failure('failed', `${name} broke off in its media`)
          })
          // Raw samples have no signature to check.
          if (bytes.length === 0 || !/^(?:audio|video|image)\/|^(?:application|binary)\/octet-stream$/.test(type))
            throw failure('failed', `${name} answered ${response.status} with something that is no media`)
          return { bytes, type, headers: response.headers }
        },
      ),
    postStream(url, body, options) {
      const startedAt = clock.now()
      return call(
        { url, model: modelIn(url, body), body: JSON.stringify(body), options, headers: STREAM_HEADERS },
        (response, controller, slot) =>
          openStream(response, controller, {
            ...options,
            model: modelIn(url, body),
            beginsBy: startedAt + timeoutMs,
            slot,
          }),
      )
    },
    failure,
    errorFrom,
  }

  async function call<T>(
    request: OutgoingRequest,
    read: (response: Response, controller: AbortController, slot: Slot) => Promise<T>,
  ): Promise<T> {
    const { url, model = '', method = request.body === undefined ? 'GET' : 'POST', body, options } = request
    const { signal, classify, once = false } = options
    signal.throwIfAborted()
    const controller = new AbortController()
    let isTimedOut = false
    let end = (reason: unknown): void => controller.abort(reason)
    const onAbort = () => end(signal.reason)
    const cancelDeadline = timers.after(timeoutMs, () => {
      isTimedOut = true
      end('late')
    })
    signal.addEventListener('abort', onAbort, { once: true })
    const headers = { accept: 'application/json', ...options.headers, ...request.headers }
    const sent = body === undefined ? { method } : { method, body }
    const attempt = () => fetch(url, { ...sent, headers, redirect: 'manual', signal: controller.signal })
    const exchange = async () => {
      const taking = slots?.take(hostOf(url), controller.signal)
      const slot: Slot = { leave: taking instanceof Promise ? await taking : taking, isHandedOver: false }
      try {
        const response = await send(attempt, { signal: controller.signal, once })
        if (!response.ok) throw errorFrom(await readErrorReply(response), classify, model)
        const taken = await read(response, controller, slot)
        refusing.worked(model)
        if (model !== '') refusing.worked('')
        return taken
      } catch (error) {
        slot.isHandedOver = false
        throw error
      } finally {
        if (!slot.isHandedOver) slot.leave?.()
      }
    }
    try {
      // Ends as soon as it is aborted, even if the work notices late or never.
      return await new Promise<T>((resolve, reject) => {
        end = (reason) => {
          controller.abort(reason)
          reject(reason)
        }
        exchange().then(resolve, reject)
      })
    } catch (error) {
      controller.abort('failed')
      if (signal.aborted) throw signal.reason
      throw isTimedOut ? failure('timeout', `${name} did not answer within ${timeoutMs} ms`) : error
    } finally {
      cancelDeadline()
      signal.removeEventListener('abort', onAbort)
    }
  }

  async function send(
    attempt: () => Promise<Response>,
    { signal, once }: { signal: AbortSignal; once: boolean },
  ): Promise<Response> {
    const first = await attempt().catch((error: unknown) => {
      if (!neverArrived(error)) throw unreachable(error, signal)
      return undefined
    })
    if (first && (once || !OVERLOADED.has(first.status))) return first
    await first?.body?.cancel()
    await clock.wait(retryPauseMs, signal)
    return await attempt().catch((error: unknown) => {
      throw unreachable(error, signal)
    })
  }

  async function openStream(
    response: Response,
    controller: AbortController,
    { signal, classify, model, beginsBy, slot }: RequestOptions & StreamContext,
  ): Promise<StreamReply> {
    const type = response.headers.get('content-type') ?? ''
    if (/\bjson\b/i.test(type)) return { kind: 'whole', body: await result(response, controller) }
    const reader = response.body?.getReader()
    const first = await firstBytes(reader).catch((error: unknown) => {
      throw unreachable(error, controller.signal)
    })
    if (!reader || !first || /\bhtml\b/i.test(type))
      throw failure('failed', `${name} answered ${response.status} with something that is no stream`)
    const error = firstError(first, response.headers)
    if (error) throw errorFrom(error, classify, model)
    const broken = (reason: unknown) =>
      failure('failed', `${name} broke off in mid-stream (${codeOf(reason) || 'without a code'})`)
    const apiErrorOf = (event: SseEvent): ApiError | undefined => {
      const reply = errorOfEvent(event, response.headers)
      const error = reply && errorFrom(reply, classify, model)
      return error instanceof ApiError ? error : undefined
    }
    slot.isHandedOver = true
    const onEnd = () => slot.leave?.()
    const stream = chatStream({ reader, first }, { signal, controller, after: timers.after, broken, apiErrorOf, onEnd })
    return { kind: 'stream', stream: { ...stream, beginsBy } }
  }

  async function result(response: Response, controller: AbortController): Promise<unknown> {
    const { status, body } = await jsonReply(response, controller)
    if (body === undefined) throw failure('failed', `${name} answered ${status} with something that is not JSON`)
    return body
  }

  async function jsonReply(response: Response, controller: AbortController): Promise<JsonReply> {
    return { status: response.status, body: parseJson(await readBody(response, controller)) }
  }

  async function jsonText(response: Response, controller: AbortController): Promise<string> {
    const text = await readBody(response, controller)
    if (parseJson(text) === undefined)
      throw failure('failed', `${name} answered ${response.status} with something that is not JSON`)
    return text
  }

  async function readBody(response: Response, controller: AbortController): Promise<string> {
    return await readText(response, maxBytes).catch((error: unknown) => {
      throw controller.signal.aborted
        ? error
        : failure('failed', `${name} answered with a body that broke off, or of more than ${maxBytes} bytes`)
    })
  }

  function errorFrom(reply: ErrorReply, classify?: ErrorClassifier, model = ''): Error {
    const { status } = reply
    const verdict = classify?.(reply) ?? failureKindOf(status)
    if (verdict instanceof ApiError) {
      log.info("a vendor rejected the caller's input", { ...about(reply), apiError: verdict.code })
      return verdict
    }
    const code = safeCode(reply.body)
    return failure(verdict, `${name} answered ${status}${code && ` (${code})`}`, { ...reply, model })
  }

  function failure(
    kind: FailureKind,
    what: string,
    { status = 200, headers = new Headers(), body, model = '' }: Partial<ErrorReply> & { readonly model?: string } = {},
  ): Error {
    if (kind === 'operator')
      refusing.failed(model, {
        reason: [status, safeCode(body)].join(' ').trim(),
        message: 'a vendor refuses this gateway: check its key, balance, model and settings',
        fields: { ...about({ status, headers, body }), ...(model && { model }) },
      })
    const error = errorFor(kind, { maker, what, retrySeconds: retrySeconds({ headers, body }, clock.now()) })
    // For the operator's timeline. Every error is made anew, so it is of this call alone.
    error.cause ??= what
    return error
  }

  function about({ status, headers, body }: ErrorReply): Record<string, unknown> {
    return { vendor: name, maker, status, code: safeCode(body), request: headers.get('x-request-id')?.slice(0, 80) }
  }

  /** An abort of ours is not a failure of the vendor. */
  function unreachable(error: unknown, signal: AbortSignal): unknown {
    return signal.aborted ? error : failure('failed', `${name} could not be reached (${codeOf(error) || 'broken off'})`)
  }
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

async function readErrorReply(response: Response): Promise<ErrorReply> {
  const { status, headers } = response
  try {
    return {
      status,
      headers,
      body: JSON.parse(new TextDecoder().decode(await readAtMost(response.body ?? [], MAX_ERROR_BYTES))),
    }
  } catch {
    return { status, headers, body: undefined }
  }
}

/** Bun puts the code on the error, Node on its cause. */
function codeOf(error: unknown): string {
  const { code, cause } = error as { code?: unknown; cause?: { code?: unknown } }
  return [code, cause?.code].map(String).find((word) => /^[A-Z][A-Za-z_]{1,40}$/.test(word)) ?? ''
}

/** No connection was made, so the request cannot have been read. After a reset the upstream may be at work. */
function neverArrived(error: unknown): boolean {
  return /^(ECONNREFUSED|ConnectionRefused|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT|FailedToOpenSocket)$/.test(
    codeOf(error),
  )
}
