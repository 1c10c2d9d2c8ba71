/** Step 4 of an order that brings an API key: its payment, from a channel of the key (contract, area 23). */
import type { Engine } from '../engine.ts'
import { addressKey } from '../http/caller_address.ts'
import { ApiError } from '../http/errors.ts'
import { unknownKey } from '../identity/presented_key.ts'
import { newId } from '../lib/ids.ts'
import { within } from '../lib/timers.ts'
import type { ChainKeys, KeyOrder, KeyPayment } from '../ports/mod.ts'
import * as demands from '../endpoint/demands.ts'
import type { Offered } from './order.ts'

const MINUTE_MS = 60_000
const PRIVATE = { 'cache-control': 'private, no-store' }

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
    throw demands.cannotVerify(error.message)
  })
  if (!paying) throw await unknown(engine, order)
  return paying
}

/**
 * The limits of a child key: until when, which models, and how many calls a minute (contract 23.15). False for a child
 * that has ended. Throws ApiError for an order that it may not make. Its cap is another step: it is
 * reserved with the call.
 */
async function checkChild(
  { ports: { clock }, limits }: Pick<Engine, 'ports' | 'limits'>,
  { endpoint, input }: Pick<Offered, 'endpoint' | 'input'>,
  { keys, address, signal }: { readonly keys: ChainKeys; readonly address: string; readonly signal: AbortSignal },
): Promise<boolean> {
  const now = clock.now()
  const child = await keys.child(address, { now, signal })
  if (child?.status !== 'active') return false
  limits.controls?.requireUnblocked(address)
  const { models, perMinute } = child
  // As the ledger names it, whatever the order calls it.
  const { model } = endpoint.remember(input)
  if (models.length > 0 && (model === null || !models.includes(model)))
    throw new ApiError('NOT_ALLOWED', {
      message: `This child key may buy ${models.join(', ')} only. Nothing was charged.`,
      headers: { ...PRIVATE, 'x-should-retry': 'false' },
    })
  if (perMinute === undefined) return true
  const window = { requests: perMinute, windowMs: MINUTE_MS }
  const { granted, resetAt } = await limits.windows.take('child key', address, window, now)
  if (granted) return true
  throw new ApiError('RATE_LIMITED', {
    message: `This child key may make ${perMinute} calls a minute. Nothing was charged.`,
    headers: { ...PRIVATE, 'retry-after': String(Math.max(1, Math.ceil((resetAt - now) / 1000))) },
  })
}

/** Unknown keys of one address in a minute: nobody has so many, and whoever guesses makes storage work. */
const UNKNOWN_KEYS = { requests: 60, windowMs: MINUTE_MS }

async function unknown({ limits, ports: { clock } }: Engine, { requestContext: { ip } }: Offered): Promise<ApiError> {
  const now = clock.now()
  const { granted, resetAt } = await limits.windows.take('unknown keys', addressKey(ip), UNKNOWN_KEYS, now)
  if (granted) return unknownKey()
  const seconds = Math.max(1, Math.ceil((resetAt - now) / 1000))
  return new ApiError('RATE_LIMITED', {
    message: 'Too many unknown API keys came from this address. Nothing was charged.',
    headers: { ...PRIVATE, 'retry-after': String(seconds) },
  })
}

/**
 * A call that ends with its request has its voucher signed with its charge. One that may outlive it has a ceiling
 * signed now, and its reservation lasts as long as its result.
 */
function keyOrderOf({ ports, settings }: Engine, order: Offered): KeyOrder {
  const { endpoint, offers } = order
  const now = ports.clock.now()
  const name = newId(ports.random, now)
  const isLate = endsWithReply(order)
  const { maxJobMs } = settings.timeouts
  return { offers, name, isLate, until: now + maxJobMs + (isLate ? 0 : endpoint.retention.unclaimedMs) }
}

/** Whether the reply to the order always carries its answer, so that no call of it outlives its request. */
export const endsWithReply = ({ endpoint, input }: Pick<Offered, 'endpoint' | 'input'>): boolean =>
  endpoint.delivery === 'stream'
    ? endpoint.deferred?.(input, { id: '', createdAt: 0, key: '' }) === undefined
    : endpoint.delivery === 'inline'

/** The 402 of a key whose channel does not cover the call: never a challenge, which no tool with a key understands. */
export const keyNotCovered = (reason: string): ApiError =>
  new ApiError('INSUFFICIENT_BALANCE', {
    message: `${reason}. Nothing was charged.`,
    headers: { ...PRIVATE, 'x-should-retry': 'false' },
  })
