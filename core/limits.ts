/** Named rate windows. Permits are leased from storage in blocks, so that a free request costs no database call. */
import { Fault } from './faults.ts'
import type { Storage } from './ports.ts'

export type Window = { readonly requests: number; readonly windowMs: number }
export type Permit = { readonly granted: boolean; readonly resetAt: number }
export type Limits = { take(name: string, caller: string, window: Window, now: number): Promise<Permit> }

/** Callers remembered at once; the oldest is forgotten first, and asks storage again. */
const REMEMBERED = 10_000

type Block = { left: number; isSpent: boolean; readonly resetAt: number }

/** A tenth of a window is leased at a time; a refusal is remembered until the window resets. */
export function limits(storage: Pick<Storage, 'hit'>): Limits {
  const blocks = new Map<string, Block>()
  return {
    async take(name, caller, { requests, windowMs }, now) {
      const key = `${name}:${caller}`
      const known = blocks.get(key)
      if (known && known.resetAt > now && (known.left > 0 || known.isSpent)) return spend(known)
      const { granted, resetAt } = await storage.hit({ key, limit: requests, windowMs }, Math.ceil(requests / 10), now)
      return spend(leased(key, granted, resetAt))
    },
  }

  /** Joins the block that a racing request may have leased meanwhile. No await between this and its spending. */
  function leased(key: string, granted: number, resetAt: number): Block {
    const raced = blocks.get(key)
    const left = raced?.resetAt === resetAt ? raced.left : 0
    const block = { left: left + granted, isSpent: granted === 0, resetAt }
    blocks.delete(key)
    blocks.set(key, block)
    if (blocks.size > REMEMBERED) blocks.delete(blocks.keys().next().value ?? '')
    return block
  }
}

function spend(block: Block): Permit {
  const granted = block.left > 0
  if (granted) block.left -= 1
  return { granted, resetAt: block.resetAt }
}

/** 429 with the four headers; the reset in unix milliseconds (ruling 11). */
export function windowSpent({ requests, windowMs }: Window, resetAt: number, now: number): Fault {
  const retryAfterSeconds = Math.max(1, Math.ceil((resetAt - now) / 1000))
  const headers = {
    'retry-after': String(retryAfterSeconds),
    'x-ratelimit-limit': String(requests),
    'x-ratelimit-remaining': '0',
    'x-ratelimit-reset': String(resetAt),
  }
  const message = `At most ${requests} requests in ${windowMs / 60_000} minutes; the next is answered after ${new Date(resetAt).toISOString()}.`
  return new Fault('TOO_MANY_REQUESTS', { message, fields: { retryAfterSeconds }, headers })
}
