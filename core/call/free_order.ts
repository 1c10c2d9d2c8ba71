/** An order that costs nothing: it is limited by address, and opens no call. */
import type { Engine } from '../engine.ts'
import { addressKey } from '../http/caller_address.ts'
import { ApiError } from '../http/errors.ts'
import { freeTierSpent } from '../http/rate_limit.ts'
import type { Reply } from '../http/reply.ts'
import { clip } from '../lib/text.ts'
import { serveFree } from './delivery/deliver.ts'
import type { Incoming, Received } from './order.ts'

/** A payment in the request is ignored (contract 1.55). */
export async function serveFreeOrder(engine: Engine, order: Received & { readonly input: unknown }): Promise<Reply> {
  engine.limits.controls?.requireOpen()
  await requireRoom(engine, order)
  return await serveFree(engine, order)
}

/** Throws when an address has used up its free tier, or when the web page may not use it. */
async function requireRoom(
  { ports: { clock }, settings, limits }: Engine,
  { endpoint, requestContext }: Incoming,
): Promise<void> {
  const page = requestContext.request.headers.get('origin')
  if (page !== null && settings.freeToOrigin?.(page) === false) throw foreignPage(page)
  const now = clock.now()
  const [bucket, all] =
    endpoint.delivery === 'stream'
      ? ['free', settings.freeTier]
      : [endpoint.name, endpoint.freeLimits ?? settings.freeTier]
  const caller = addressKey(requestContext.ip)
  for (const window of all) {
    const { granted, resetAt } = await limits.windows.take(`${bucket}:${window.windowMs}`, caller, window, now)
    if (!granted) throw freeTierSpent(window, resetAt, now)
  }
}

/** A web page in the local browser does not speak for the person who started the gateway. */
function foreignPage(origin: string): ApiError {
  return new ApiError('NOT_ALLOWED', {
    message: `Free models are not served to web pages of ${clip(origin)}. Call from a page on localhost, or without a browser.`,
  })
}
