/** The limits of a child key: until when, which models, and how many calls a minute (contract 23.15). */
import type { Engine } from '../engine.ts'
import { ApiError } from '../http/errors.ts'
import type { ChainKeys } from '../ports/mod.ts'
import type { Offered } from './order.ts'

const MINUTE_MS = 60_000
const PRIVATE = { 'cache-control': 'private, no-store' }

/**
 * False for a child that has ended. Throws ApiError for an order that it may not make. Its cap is another step: it is
 * reserved with the call.
 */
export async function checkChild(
  { ports: { clock }, limits }: Pick<Engine, 'ports' | 'limits'>,
  { endpoint, input }: Pick<Offered, 'endpoint' | 'input'>,
  { keys, address, signal }: { readonly keys: ChainKeys; readonly address: string; readonly signal: AbortSignal },
): Promise<boolean> {
  const now = clock.now()
  const child = await keys.child(address, { now, signal })
  if (child?.status !== 'active') return false
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
