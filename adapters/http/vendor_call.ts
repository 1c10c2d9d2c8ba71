/** One call of a vendor's API: its deadline, its slot, one retry, and errors without a vendor's text. */
import type { deadlinesOf, outages } from '../../core/lib/mod.ts'
import { ApiError, type Clock, type Log } from '../../core/mod.ts'
import {
  type ErrorFor,
  type ErrorClassifier,
  type ErrorReply,
  retrySeconds,
  safeCode,
  type FailureKind,
  failureKindOf,
} from './error_replies.ts'
import { readAtMost } from './read_body.ts'
import { hostOf, type slotsOf } from './vendor_slots.ts'

export type CallOptions = {
  readonly signal: AbortSignal
  readonly headers?: Readonly<Record<string, string>>
  readonly classify?: ErrorClassifier
  /** Set for a request that must not be executed twice: it is retried only if no connection was made. */
  readonly once?: true
}

/** A GET if there is no body. */
type OutgoingRequest = {
  readonly url: string
  /** The upstream id of the requested model, if the request names one. */
  readonly model?: string
  readonly method?: 'DELETE'
  readonly body?: string | FormData | URLSearchParams
  readonly options: CallOptions
  readonly headers?: Readonly<Record<string, string>>
}

/** A slot at the vendor. A stream keeps it until its end; whatever else, until it is read. */
type Slot = { readonly leave: (() => void) | undefined; isHandedOver: boolean }

/** One vendor's API: its settings, its slots and its outages. */
export type Client = {
  readonly name: string
  readonly maker: string
  readonly timeoutMs: number
  readonly retryPauseMs: number
  readonly maxBytes: number
  readonly errorFor: ErrorFor
  readonly clock: Clock
  readonly log: Log
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
  readonly timers: ReturnType<typeof deadlinesOf>
  readonly slots: ReturnType<typeof slotsOf>
  readonly refusing: ReturnType<typeof outages>
}

/** A reply that has begun, and how to abort it. */
export type Reply = {
  readonly client: Client
  readonly response: Response
  readonly controller: AbortController
  readonly slot: Slot
}
type Read<T> = (reply: Reply) => Promise<T>

const MAX_ERROR_BYTES = 64 * 1024
/** Statuses by which an overloaded server refuses before it starts work (decision 72). */
const OVERLOADED = new Set([502, 503, 529])

export async function call<T>(client: Client, request: OutgoingRequest, read: Read<T>): Promise<T> {
  const { name, timers, timeoutMs } = client
  const { signal } = request.options
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
  try {
    // Ends as soon as it is aborted, even if the work notices late or never.
    return await new Promise<T>((resolve, reject) => {
      end = (reason) => {
        controller.abort(reason)
        reject(reason)
      }
      exchange(client, request, { read, controller }).then(resolve, reject)
    })
  } catch (error) {
    controller.abort('failed')
    if (signal.aborted) throw signal.reason
    throw isTimedOut ? failureOf(client, 'timeout', { what: `${name} did not answer within ${timeoutMs} ms` }) : error
  } finally {
    cancelDeadline()
    signal.removeEventListener('abort', onAbort)
  }
}

/** Sends a request and reads its reply, in a slot of the vendor. */
async function exchange<T>(
  client: Client,
  request: OutgoingRequest,
  { read, controller }: { read: Read<T>; controller: AbortController },
): Promise<T> {
  const { slots, refusing, fetch } = client
  const { url, model = '', method = request.body === undefined ? 'GET' : 'POST', body, options } = request
  const headers = { accept: 'application/json', ...options.headers, ...request.headers }
  const sent = body === undefined ? { method } : { method, body }
  const { signal } = controller
  const attempt = () => fetch(url, { ...sent, headers, redirect: 'manual', signal })
  const taking = slots?.take(hostOf(url), signal)
  const slot: Slot = { leave: taking instanceof Promise ? await taking : taking, isHandedOver: false }
  try {
    const response = await send(client, attempt, { signal, once: options.once ?? false })
    if (!response.ok) throw errorFrom(client, await readErrorReply(response), { classify: options.classify, model })
    const taken = await read({ client, response, controller, slot })
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

async function send(
  client: Client,
  attempt: () => Promise<Response>,
  { signal, once }: { signal: AbortSignal; once: boolean },
): Promise<Response> {
  const first = await attempt().catch((error: unknown) => {
    if (!neverArrived(error)) throw unreachable(client, error, signal)
    return undefined
  })
  if (first && (once || !OVERLOADED.has(first.status))) return first
  await first?.body?.cancel()
  await client.clock.wait(client.retryPauseMs, signal)
  return await attempt().catch((error: unknown) => {
    throw unreachable(client, error, signal)
  })
}

export function errorFrom(
  client: Client,
  reply: ErrorReply,
  { classify, model = '' }: { readonly classify?: ErrorClassifier | undefined; readonly model?: string },
): Error {
  const { status } = reply
  const verdict = classify?.(reply) ?? failureKindOf(status)
  if (verdict instanceof ApiError) {
    client.log.info("a vendor rejected the caller's input", { ...about(client, reply), apiError: verdict.code })
    return verdict
  }
  const code = safeCode(reply.body)
  return failureOf(client, verdict, {
    ...reply,
    model,
    what: `${client.name} answered ${status}${code && ` (${code})`}`,
  })
}

export const failed = (client: Client, what: string): Error =>
  failureOf(client, 'failed', { what: `${client.name} ${what}` })

export function failureOf(
  client: Client,
  kind: FailureKind,
  {
    what,
    status = 200,
    headers = new Headers(),
    body,
    model = '',
  }: Partial<ErrorReply> & { readonly what: string; readonly model?: string },
): Error {
  const { errorFor, maker, clock, refusing } = client
  if (kind === 'operator')
    refusing.failed(model, {
      reason: [status, safeCode(body)].join(' ').trim(),
      message: 'a vendor refuses this gateway: check its key, balance, model and settings',
      fields: { ...about(client, { status, headers, body }), ...(model && { model }) },
    })
  const error = errorFor(kind, { maker, what, retrySeconds: retrySeconds({ headers, body }, clock.now()) })
  // For the operator's timeline. Every error is made anew, so it is of this call alone.
  error.cause ??= what
  return error
}

function about({ name, maker }: Client, { status, headers, body }: ErrorReply): Record<string, unknown> {
  return { vendor: name, maker, status, code: safeCode(body), request: headers.get('x-request-id')?.slice(0, 80) }
}

/** An abort of ours is not a failure of the vendor. */
export function unreachable(client: Client, error: unknown, signal: AbortSignal): unknown {
  return signal.aborted ? error : failed(client, `could not be reached (${codeOf(error) || 'broken off'})`)
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
export function codeOf(error: unknown): string {
  const { code, cause } = error as { code?: unknown; cause?: { code?: unknown } }
  return [code, cause?.code].map(String).find((word) => /^[A-Z][A-Za-z_]{1,40}$/.test(word)) ?? ''
}

/** No connection was made, so the request cannot have been read. After a reset the upstream may be at work. */
function neverArrived(error: unknown): boolean {
  return /^(ECONNREFUSED|ConnectionRefused|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT|FailedToOpenSocket)$/.test(
    codeOf(error),
  )
}
