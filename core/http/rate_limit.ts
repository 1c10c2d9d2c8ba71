/**
 * Named rate limits, exact over all processes of one storage, with far fewer database calls than requests (decision
 * 88).
 */
import { boundedMap } from '../lib/bounded_map.ts'
import { ApiError } from './errors.ts'
import type { Coordination } from '../ports/mod.ts'

export type Window = { readonly requests: number; readonly windowMs: number }
export type Permit = { readonly granted: boolean; readonly resetAt: number }
export type Limits = {
  /** A promise only where storage has to be asked. */
  take(name: string, caller: string, window: Window, now: number): Permit | Promise<Permit>
}

const MINUTE_MS = 60_000
/** How often one address may call free models, unless the operator sets other limits. */
export const FREE_TIER = [
  { requests: 30, windowMs: MINUTE_MS },
  { requests: 300, windowMs: 60 * MINUTE_MS },
] as const satisfies readonly Window[]

/** Callers remembered at once. When full, the oldest is dropped, and its next request asks storage again. */
const REMEMBERED = 10_000

type Counting = {
  readonly resetAt: number
  /** Permits that storage has counted for this process. */
  counted: number
  /** Permits that may be granted before storage is asked again. */
  credit: number
  /** Permits granted since storage was last asked; the next request to storage counts them. */
  uncounted: number
  isSpent: boolean
}

/** Requests between two queries to storage: a twentieth of the window, or three when that is no more than a tenth. */
const blockOf = (requests: number): number => Math.min(Math.ceil(requests / 10), Math.max(3, Math.ceil(requests / 20)))

/**
 * Counts requests against rate windows. Permits are granted first and counted in storage afterwards, a block at a time.
 * No process reserves permits that it does not use, so a caller gets at least the promised number. A single process
 * grants exactly that number; when several serve the same caller, each may add one block less one: 4 of 100, 2 of 30,
 * 14 of 300. A refusal is remembered until the window resets.
 */
export function limits(storage: Pick<Coordination, 'hit'>): Limits {
  const windows = boundedMap<Counting>(REMEMBERED)
  const asking = new Map<string, Promise<Permit>>()
  return {
    take(name, caller, window, now) {
      const key = `${name}:${caller}`
      return takeRemembered(key, now) ?? takeFromStorage(key, window, now)
    },
  }

  /** A permit that needs no storage, where one is left or none will be. */
  function takeRemembered(key: string, now: number): Permit | undefined {
    const known = alive(key, now)
    if (known?.isSpent) return { granted: false, resetAt: known.resetAt }
    if (!known || known.credit <= 0) return undefined
    known.credit -= 1
    known.uncounted += 1
    return { granted: true, resetAt: known.resetAt }
  }

  async function takeFromStorage(key: string, window: Window, now: number): Promise<Permit> {
    for (let pending = asking.get(key); pending; pending = asking.get(key)) {
      await pending
      const permit = takeRemembered(key, now)
      if (permit) return permit
    }
    const answer = ask(key, window, now).finally(() => asking.delete(key))
    asking.set(key, answer)
    return await answer
  }

  function alive(key: string, now: number): Counting | undefined {
    const known = windows.get(key)
    return known && known.resetAt > now ? known : undefined
  }

  /** Counts what was granted since the last query, plus one permit. Requests of the same caller wait for the answer. */
  async function ask(key: string, { requests, windowMs }: Window, now: number): Promise<Permit> {
    const known = alive(key, now)
    const due = (known?.uncounted ?? 0) + 1
    const { granted, resetAt } = await storage.hit({ key, limit: requests, windowMs }, due, now)
    // Storage may have started another window meanwhile. The permits that it counted there for the old one can still be
    // granted.
    const isNew = known !== undefined && known.resetAt !== resetAt
    const ahead = isNew ? Math.max(0, granted - 1) : 0
    const counted = (isNew ? 0 : (known?.counted ?? 0)) + granted
    const isGranted = isNew ? granted > 0 : granted === due
    const credit = ahead + (granted === due ? Math.min(blockOf(requests) - 1, requests - counted) : 0)
    const isSpent = !isGranted || (credit === 0 && counted === requests)
    remember(key, { resetAt, counted, credit, uncounted: -ahead, isSpent })
    return { granted: isGranted, resetAt }
  }

  function remember(key: string, counting: Counting): void {
    windows.set(key, counting)
  }
}

/** 429 with the four headers; the reset in unix milliseconds (contract 4.10). */
export function windowSpent({ requests, windowMs }: Window, resetAt: number, now: number): ApiError {
  const retryAfterSeconds = Math.max(1, Math.ceil((resetAt - now) / 1000))
  const headers = {
    'retry-after': String(retryAfterSeconds),
    'x-ratelimit-limit': String(requests),
    'x-ratelimit-remaining': '0',
    'x-ratelimit-reset': String(resetAt),
  }
  const message = `At most ${requests} requests in ${windowMs / 60_000} minutes; retry after ${new Date(resetAt).toISOString()}.`
  return new ApiError('TOO_MANY_REQUESTS', { message, fields: { retryAfterSeconds }, headers })
}

/** 429 with the four rate limit headers; the reset is in unix seconds (contract 4.10). */
export function freeTierSpent({ requests, windowMs }: Window, resetAt: number, now: number): ApiError {
  const retryAfter = String(Math.max(1, Math.ceil((resetAt - now) / 1000)))
  return new ApiError('FREE_TIER_RATE_LIMITED', {
    message: `Free tier limit reached: ${requests} requests per ${minutes(windowMs)} per IP address. Retry after ${retryAfter} s, or use a paid model.`,
    headers: {
      'retry-after': retryAfter,
      'x-ratelimit-limit': String(requests),
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': String(Math.ceil(resetAt / 1000)),
    },
  })
}

const minutes = (ms: number): string => (ms === 60_000 ? 'minute' : `${ms / 60_000} minutes`)
