/** Answers one request whatever happens: with its metrics, its signature, and errors in the format of its route. */
import type { Caller } from '../endpoint/gateway.ts'
import { errorReply, type ErrorFormat, withErrorObject } from '../http/error_formats.ts'
import { ApiError, withRetryAfter } from '../http/errors.ts'
import { type Reply, withoutBody } from '../http/reply.ts'
import { requestUrl } from '../http/request_url.ts'
import { NO_ENDPOINT, silent } from '../ports/meter.ts'
import { withoutBase } from './base_path.ts'
import type { Found, Serving } from './serving.ts'

export type Arrived = { readonly request: Request; readonly caller: Caller }

/** `find` calls the endpoint, and notes which one it is. Never rejects. */
export async function respond(
  serving: Serving,
  { request, caller }: Arrived,
  find: (serving: Serving, arrived: Arrived, found: Found) => Reply | Promise<Reply>,
): Promise<Reply> {
  const { engine, activity } = serving
  const { clock, meter = silent } = engine.ports
  const startedAt = clock.now()
  const found: Found = { name: NO_ENDPOINT, errorFormat: 'plain' }
  let reply: Reply
  activity.begin()
  try {
    reply = await find(serving, { request, caller }, found)
  } catch (error) {
    reply = errorReplyTo(serving, error, { request, errorFormat: found.errorFormat })
  } finally {
    activity.end()
  }
  const signed = engine.signing?.reply(reply, () => signedUrl(serving, { request, caller })) ?? reply
  reply = signed instanceof Promise ? await signed : signed
  const charged = engine.charges?.reply(reply) ?? reply
  reply = charged instanceof Promise ? await charged : charged
  meter.answered(found.name, reply.status, clock.now() - startedAt)
  reply = withErrorObject(withRetryAfter(reply), { headers: request.headers, errorFormat: found.errorFormat })
  return request.method === 'HEAD' ? await withoutBody(reply) : reply
}

/** The URL of a request as it is signed. */
function signedUrl({ engine: { gateway } }: Serving, { request, caller }: Arrived) {
  const { origin, path } = withoutBase(requestUrl(request), gateway.basePath)
  return { origin: (caller.origin ?? origin) + gateway.basePath, path }
}

/** The reply to an error, in the error format of the route. */
function errorReplyTo(
  { engine: { ports, calls } }: Serving,
  error: unknown,
  { request, errorFormat }: { readonly request: Request; readonly errorFormat: ErrorFormat },
): Reply {
  if (error instanceof ApiError) return errorReply(error, errorFormat)
  if (calls.active.isFromStorage(error)) return errorReply(STORAGE_AWAY, errorFormat)
  ports.log.alert('a request failed with an unexpected error', {
    method: request.method,
    error: (error as Error).stack,
  })
  return errorReply(UNEXPECTED, errorFormat)
}

const STORAGE_AWAY = new ApiError('NOT_READY', {
  message:
    'The gateway cannot reach its storage. Send the same request again in a few seconds: an authorization is charged at most once.',
  headers: { 'retry-after': '5' },
})
const UNEXPECTED = new ApiError('INTERNAL', {
  details: 'Internal error. Send the same request again: an authorization is charged at most once.',
})
