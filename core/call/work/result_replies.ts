/** The reply that carries a result, or says why it does not. */
import type { Engine } from '../../engine.ts'
import type { Paid as PaidEndpoint, Sold, Stored } from '../../endpoint/mod.ts'
import { chargeReceiptHeaders } from '../../endpoint/charging.ts'
import * as replies from '../../endpoint/replies.ts'
import type { RequestContext } from '../../endpoint/request_context.ts'
import { ApiError } from '../../http/errors.ts'
import type { Reply } from '../../http/reply.ts'
import { gunzipJson } from '../../lib/gzip_json.ts'
import { type Paid, type Paying, reasonOf } from '../../payment/outcome.ts'
import { noteUnpaidCall } from '../../payment/unpaid/unpaid_calls.ts'
import type { Call } from '../../ports/mod.ts'
import { failureReply } from './failure.ts'
import type { OpenedCall } from './opened_call.ts'

type Hosting = Pick<Engine, 'ports' | 'gateway'>
type Answered<Endpoint extends Sold = Sold> = Pick<OpenedCall<Endpoint>, 'endpoint' | 'call' | 'requestContext'>

/** The result with its receipt, or of a free call. */
export function paidReply(engine: Hosting, answered: Answered, result: PaidResult): Reply | Promise<Reply> {
  const { endpoint, call } = answered
  if (endpoint.delivery === 'stream' || !endpoint.embedsMedia?.(call.request)) return replyOf(engine, answered, result)
  return embeddedReply(engine, answered, result)
}

/** Loads what few products need. */
async function embeddedReply(engine: Hosting, answered: Answered, result: PaidResult): Promise<Reply> {
  const { embeddedMedia } = await import('./embedded_media.ts')
  const { stored, raw, paid } = result
  const isFirst = paid.kind === 'settled' && paid.now
  const embedded = await embeddedMedia(engine.ports, stored.media, { raw, isFirst })
  return replyOf(engine, answered, { ...result, stored: { ...stored, embedded } })
}

type PaidResult = { readonly stored: Stored; readonly raw?: readonly string[]; readonly paid: Paid }

function replyOf(
  engine: Hosting,
  { endpoint, call, requestContext }: Answered,
  { stored, raw, paid }: PaidResult,
): Reply {
  const { receipt, now: isFirst } = paid.kind === 'settled' ? paid : { receipt: null, now: false }
  const reply = replies.result(endpoint, call, {
    stored,
    receipt,
    label: engine.gateway.label,
    href: hrefOn(engine, requestContext),
    isFirst,
    ...(raw && { raw }),
  })
  const now = engine.ports.clock.now()
  const more = chargeReceiptHeaders(requestContext.payment, call, { receipt, isFirst, now })
  return { ...reply, headers: { ...reply.headers, ...more } }
}

/** An inline result whose settlement is unconfirmed; `why` is the error class in its header. */
export function unsettledReply(
  engine: Hosting,
  { endpoint, call, requestContext }: Answered<PaidEndpoint>,
  { stored, why }: { readonly stored: Stored; readonly why: string },
): Reply {
  return replies.bare(endpoint, call, {
    stored,
    href: hrefOn(engine, requestContext),
    headers: replies.unsettledHeaders(why),
    settlement: { success: false, tx_hash: '', network: engine.gateway.label },
  })
}

/**
 * Why a finished result is not in the reply. A result that came too late is not stored: its call had already failed.
 */
export async function withheldReply(
  { ports: { storage }, identity }: Pick<Engine, 'ports' | 'identity'>,
  { endpoint, call }: Pick<OpenedCall<PaidEndpoint>, 'endpoint' | 'call'>,
  paying: Exclude<Paying, Paid>,
): Promise<Reply> {
  const ended = await storage.getCall(call.id)
  if (ended?.error)
    return failureReply(endpoint, call, new ApiError('WORK_FAILED', { error: endpoint.failure, details: ended.error }))
  return replies.inlineRefusal(endpoint, call, {
    reason: reasonOf(paying),
    key: await identity.pollUrls.keyOf(call.id),
  })
}

/**
 * Records an unpaid result, so that a wallet that abandons results or whose payments fail is eventually blocked. Free
 * calls are never owed.
 */
export async function noteUnpaid({ ports, settings }: Pick<Engine, 'ports' | 'settings'>, call: Call): Promise<void> {
  if (call.quote === 0n) return
  const now = ports.clock.now()
  await noteUnpaidCall(ports, call, { now, until: now + settings.timeouts.unpaidBlockMs })
}

/**
 * The URL of a hosted object: the public address of its store, otherwise this gateway under the origin that was
 * called.
 */
export function hrefOn(
  { ports: { objects } }: Pick<Engine, 'ports'>,
  { origin }: Pick<RequestContext, 'origin'>,
): (key: string) => string {
  return (key) => objects.url?.(key) ?? `${origin}/api/media/${key}`
}

/** The result of a completed call, decompressed when it is passed through verbatim. */
export async function storedOf(endpoint: Sold, { result }: Pick<Call, 'result'>): Promise<Stored> {
  const stored = result as unknown as Stored
  return isVerbatim(endpoint) ? { ...stored, made: await gunzipJson(stored.made) } : stored
}

/** Whether the result is passed through verbatim. */
export const isVerbatim = (endpoint: Sold): boolean => endpoint.delivery === 'inline' && endpoint.verbatim === true
