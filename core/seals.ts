/** Poll URLs that only we can have written: their query is signed, and says when they end (spec 3, "Video job responses"). */
import { bytesToHex, hexToBytes } from '@noble/hashes/utils'
import type { Paid, Poll, Sold } from './endpoint.ts'
import { Fault } from './faults.ts'
import type { Json, Ports } from './ports.ts'
import { isSealed, seal } from './tickets.ts'
import type { Visit } from './visit.ts'

export type Seals = {
  /** What is remembered of a request, with its poll URL where that is a signed one. */
  signed(endpoint: Sold, request: Readonly<Record<string, Json>>, at: { id: string; expiresAt: number }): Promise<Readonly<Record<string, Json>>>
  /** Throws INVALID_JOB_ID for a query that we have not signed, or whose time is over. */
  check(poll: Poll, endpoint: Sold, at: { id: string; visit: Visit; now: number }): Promise<void>
}

const SECRET = { kind: 'secret', id: 'poll', owner: 'gateway' } as const
const FOREVER = Number.MAX_SAFE_INTEGER

/**
 * Signs with the first of the given keys, in hex, and accepts them all: put a new one in front to rotate. Without any, all replicas of a
 * storage share one that the first of them makes and keeps there. Throws for a key that is none.
 */
export function seals({ storage, clock, random }: Pick<Ports, 'storage' | 'clock' | 'random'>, given: readonly string[] = []): Seals {
  const own = given.map(keyOf)
  let shared: Promise<readonly Uint8Array[]> | undefined

  return {
    async signed(endpoint, request, { id, expiresAt }) {
      const query = endpoint.job.query?.(request)
      if (!query) return request
      const all = new URLSearchParams({ ...query, exp: String(Math.ceil(expiresAt / 1000)) })
      return { ...request, _poll: seal(pathOf(endpoint, id), all, await known()) }
    },

    async check({ sealed }, endpoint, { id, visit, now }) {
      if (!sealed) return
      const isOurs = isSealed(pathOf(endpoint, id), visit.query, await known())
      if (isOurs && Number(visit.query.get('exp')) * 1000 > now) return
      throw new Fault('INVALID_JOB_ID', { message: 'Use poll_url as it was given: its query is signed, and ends with the job.' })
    },
  }

  function known(): Promise<readonly Uint8Array[]> {
    if (own.length > 0) return Promise.resolve(own)
    shared ??= stored()
    shared.catch(() => (shared = undefined))
    return shared
  }

  async function stored(): Promise<readonly Uint8Array[]> {
    const now = clock.now()
    await storage.putOwned({ ...SECRET, data: { key: bytesToHex(random(32)) }, expiresAt: FOREVER }, now)
    const kept = await storage.getOwned(SECRET.kind, SECRET.id, now)
    if (!kept) throw new Error('the key that signs poll URLs was not kept')
    return [hexToBytes((kept.data as { key: string }).key)]
  }
}

/** Never says the key. */
function keyOf(hex: string, index: number): Uint8Array {
  if (/^([0-9a-f]{2}){16,}$/i.test(hex)) return hexToBytes(hex)
  throw new RangeError(`poll key ${index + 1} must be at least 16 bytes in hex`)
}

const pathOf = ({ job }: Pick<Paid, 'job'>, id: string): string => job.poll.replace('{id}', id)
