/** Step 4 of an order that brings an API key: its payment, from a channel of the key (contract, area 23). */
import type { Engine } from '../engine.ts'
import { addressKey } from '../http/caller_address.ts'
import { ApiError } from '../http/errors.ts'
import { unknownKey } from '../identity/presented_key.ts'
import { newId } from '../lib/ids.ts'
import { within } from '../lib/timers.ts'
import type { KeyOrder, KeyPayment } from '../ports/mod.ts'
import * as replies from '../endpoint/replies.ts'
import { checkChild } from './child_limits.ts'
import type { Offered } from './order.ts'

/** Undefined without a key. Throws ApiError for a key that has no channel here. */
export async function payWithKey(engine: Engine, order: Offered): Promise<KeyPayment | undefined> {
  const { apiKey } = order.requestContext
  const { chain, clock } = engine.ports
  if (!apiKey || !chain.apiKeys) return undefined
  const keys = chain.apiKeys
  const paying = await within(clock, engine.settings.timeouts.verifyMs, async (signal) => {
    const isKnown = !apiKey.isChild || (await checkChild(engine, order, { keys, address: apiKey.address, signal }))
    return isKnown ? await keys.pay(apiKey, keyOrderOf(engine, order), { now: clock.now(), signal }) : undefined
  }).catch((error: Error) => {
    if (error instanceof ApiError) throw error
    throw replies.cannotVerify(error.message)
  })
  if (!paying) throw await unknown(engine, order)
  return paying
}

/** Unknown keys of one address in a minute: nobody has so many, and whoever guesses makes storage work. */
const UNKNOWN_KEYS = { requests: 60, windowMs: 60_000 }

async function unknown({ limits, ports: { clock } }: Engine, { requestContext: { ip } }: Offered): Promise<ApiError> {
  const now = clock.now()
  const { granted, resetAt } = await limits.windows.take('unknown keys', addressKey(ip), UNKNOWN_KEYS, now)
  if (granted) return unknownKey()
  const seconds = Math.max(1, Math.ceil((resetAt - now) / 1000))
  return new ApiError('RATE_LIMITED', {
    message: 'Too many unknown API keys came from this address. Nothing was charged.',
    headers: { 'retry-after': String(seconds), 'cache-control': 'private, no-store' },
  })
}

/**
 * A call that ends with its request has its voucher signed with its charge. One that may outlive it has a ceiling
 * signed now, and its reservation lasts as long as its result.
 */
function keyOrderOf({ ports, settings }: Engine, { endpoint, input, offers }: Offered): KeyOrder {
  const name = newId(ports.random)
  const now = ports.clock.now()
  const isStream = endpoint.delivery === 'stream'
  const isLate = isStream
    ? endpoint.deferred?.(input, { id: '', createdAt: 0, key: '' }) === undefined
    : endpoint.delivery === 'inline'
  const { maxJobMs } = settings.timeouts
  return { offers, name, isLate, until: now + maxJobMs + (isLate ? 0 : endpoint.retention.unclaimedMs) }
}

/** The 402 of a key whose channel does not cover the call: never a challenge, which no tool with a key understands. */
export const keyNotCovered = (reason: string): ApiError =>
  new ApiError('INSUFFICIENT_BALANCE', {
    message: `${reason}. Nothing was charged.`,
    headers: { 'x-should-retry': 'false', 'cache-control': 'private, no-store' },
  })
