/** The calls that this process works on: their leases, and what becomes of them while storage is away (decision 99). */
import type { Clock } from '../../lib/clock.ts'
import type { Call, CallPatch, CallStorage, Coordination, Log, Storage } from '../../ports/mod.ts'
import { type Availability, failed, late, lostBy } from './availability.ts'
import type { CallVerbs } from './call_verbs.ts'
import { queueWrite, retryWrites, type Unwritten } from './unwritten.ts'

export type ActiveCalls = {
  /** Renews the leases of this process and retries queued writes. Rejects while storage is unavailable. */
  renew(): Promise<void>
  has(id: string): boolean
  /**
   * Whether this process still holds the lease of a call, and so may deliver more of its work. True for a call that has
   * ended.
   */
  isLeased(id: string): boolean
  /**
   * The same, confirmed by storage; waits while storage is unavailable. False when another call has taken the
   * authorization.
   */
  renewLease(id: string, signal: AbortSignal): Promise<boolean>
  /**
   * Unfinished calls whose lease ended at or before this time are lost. Earlier than `now` for one lease period after
   * an outage.
   */
  lostBy(now: number): number
  /**
   * Ends the claims of workers that are gone, so that their settlements need not wait for the claims to expire. `alive`
   * are the workers of this process. Only where no other process has the storage.
   */
  endClaims(alive: ReadonlySet<string>): Promise<void>
  /** Whether storage threw this error: it is unavailable or refuses. */
  isFromStorage(error: unknown): boolean
}

/** Parts that the verbs below are given. */
type Working = {
  /** The storage, watched for outages. */
  readonly storage: Storage
  /** The same, not watched: whether a refused insertion is an outage is found out here. */
  readonly bare: Pick<Storage, 'openCall' | 'getCall'>
  readonly workerId: string
  readonly clock: Clock
  readonly log: Log
  readonly leaseMs: number
  /** The settlements under way in this process, each with its worker. */
  readonly claims: Map<string, string>
  readonly availability: Availability
  readonly unwritten: Unwritten
  /** Lease end of each call; far in the past when the lease could not be renewed. */
  readonly leases: Map<string, number>
  /** Opened calls whose insertion is unconfirmed. */
  readonly doubtful: Set<string>
}

type Verb<Name extends keyof CallVerbs> = Parameters<CallVerbs[Name]>

/** Of the doubtful calls, only the newest are remembered. */
const MAX_DOUBTFUL = 1_000
const RETRY_MS = 1_000
/** Calls in doubt that are looked at when this process takes over. */
const MAX_IN_DOUBT = 10_000
const UNFINISHED = ['queued', 'in_progress'] as const
/** The lease is gone and is not renewed any more. */
const GONE = Number.NEGATIVE_INFINITY

export const activeCalls = (working: Working): ActiveCalls => ({
  has: (id) => working.leases.has(id),
  isLeased: (id) => working.clock.now() < (working.leases.get(id) ?? Number.POSITIVE_INFINITY),
  renewLease: (id, signal) => renewLease(working, id, signal),
  lostBy: (now) => lostBy(working.availability, now),
  endClaims: (alive) => endClaims(working, alive),
  isFromStorage: (error) => typeof error === 'object' && error !== null && working.availability.thrown.has(error),
  async renew() {
    const { workerId, clock, leaseMs } = working
    // Sent even when there are no calls, to detect outages.
    const ids = [...working.leases].filter(([, until]) => until !== GONE).map(([id]) => id)
    await renewCalls(working, workerId, ids, clock.now() + leaseMs)
    await retryWrites(working.unwritten, working)
  },
})

/** The verbs of calls that hold leases, and whose writes outlast an outage. */
export const leasedVerbs = (working: Working): CallVerbs => ({
  openCall: (...args) => openCall(working, ...args),
  // Such a call has no lease, and is not stored where this fails.
  recordPaid: (call, authorization, at) =>
    working.storage.recordPaid(call, authorization, { ...at, ...late(working.availability, at) }),
  getCall: working.storage.getCall,
  callOf: (key, now) => working.storage.callOf(key, lostBy(working.availability, now)),
  moveCall: (...args) => moveCall(working, ...args),
  claimSettlement: (...args) => claimSettlement(working, ...args),
  finishSettlement: (...args) => finishSettlement(working, ...args),
  renew: (...args) => renewCalls(working, ...args),
})

// ── whose calls are alive ───────────────────────────────────────────────────────────────────────────────────────────

async function openCall(
  working: Working,
  ...[call, authorization, at]: Verb<'openCall'>
): ReturnType<CallStorage['openCall']> {
  const { bare, workerId, leases, doubtful, availability } = working
  try {
    const opened = await bare.openCall(call, authorization, { ...at, ...late(availability, at) })
    if (opened.kind === 'opened' && call.workerId === workerId) leases.set(call.id, at.until)
    return opened
  } catch (error) {
    const there = await bare.getCall(call.id).catch(() => undefined)
    // A storage that answers refuses a second call with the same id.
    if (there && there.authorization !== authorization.key) throw error
    failed(availability, error, 'openCall')
    // The insertion may have succeeded all the same. In that case whoever requested it fails the call.
    doubtful.add(call.id)
    for (const id of doubtful) if (doubtful.size > MAX_DOUBTFUL) doubtful.delete(id)
    throw error
  }
}

async function renewCalls(
  { storage, workerId, leases }: Working,
  ...[by, ids, until]: Verb<'renew'>
): ReturnType<Coordination['renew']> {
  const renewed = await storage.renew(by, ids, until)
  if (by !== workerId) return renewed
  const isOurs = new Set(renewed)
  for (const id of ids) {
    const known = leases.get(id)
    if (isOurs.has(id) && known !== undefined) leases.set(id, known === GONE ? until : Math.max(known, until))
    // The call has ended, and its worker is about to find out; or it is lost for good.
    if (!isOurs.has(id) && known !== undefined) leases.set(id, GONE)
  }
  return renewed
}

async function renewLease(working: Working, id: string, signal: AbortSignal): Promise<boolean> {
  const { storage, workerId, clock, leaseMs, leases } = working
  while (!signal.aborted) {
    try {
      const [renewed] = await renewCalls(working, workerId, [id], clock.now() + leaseMs)
      if (renewed !== undefined || !leases.has(id)) return true
      const isDone = (await storage.getCall(id))?.workStatus === 'completed'
      if (isDone) leases.delete(id)
      return isDone
    } catch {
      await clock.wait(RETRY_MS, signal)
    }
  }
  return false
}

async function endClaims({ storage, workerId, clock, claims }: Working, alive: ReadonlySet<string>): Promise<void> {
  const now = clock.now()
  const [all, expired] = await Promise.all([
    storage.unsettled(Number.MAX_SAFE_INTEGER, MAX_IN_DOUBT),
    storage.unsettled(now, MAX_IN_DOUBT),
  ])
  const over = new Set(expired.map(({ id }) => id))
  for (const { id } of all) {
    const worker = claims.get(id)
    if (over.has(id) || worker === workerId || alive.has(worker ?? '')) continue
    // At the end of time every claim has expired. The new one ends at once.
    await storage.claimSettlement(id, undefined, { now: Number.MAX_SAFE_INTEGER, until: now })
  }
}

// ── what storage did not take ───────────────────────────────────────────────────────────────────────────────────────

async function moveCall(working: Working, ...[id, from, patch]: Verb<'moveCall'>): Promise<boolean> {
  const { storage, workerId, leases, doubtful } = working
  const isEnd = patch.workStatus === 'completed' || patch.workStatus === 'failed'
  const isHanded = patch.workerId !== undefined && patch.workerId !== workerId
  const isOurs = leases.has(id) || doubtful.has(id)
  try {
    const isMoved = await storage.moveCall(id, from, patch)
    if (isEnd || (isHanded && isMoved)) forget(working, id)
    return isMoved
  } catch (error) {
    if (isEnd && isOurs) queue(working, { id, result: patch.result, write: () => end(working, id, { from, patch }) })
    if (isEnd) forget(working, id)
    throw error
  }
}

async function claimSettlement(
  working: Working,
  ...[id, authorization, at]: Verb<'claimSettlement'>
): ReturnType<CallStorage['claimSettlement']> {
  const { storage, workerId, claims, availability } = working
  const { result: made, now } = at
  try {
    const claim = await storage.claimSettlement(id, authorization, { ...at, ...late(availability, at) })
    if (made) forget(working, id)
    if (claim.kind === 'yours' || claim.kind === 'retry') claims.set(id, workerId)
    return claim
  } catch (error) {
    // The work is done, so the result is stored for a poll to pay, whatever the outcome of this settlement.
    if (made) {
      forget(working, id)
      const from = { workStatus: UNFINISHED, workerId, paymentStatus: 'verified' } as const
      const patch = { workStatus: 'completed', ...made, endedAt: now } as const
      queue(working, { id, result: made.result, write: () => end(working, id, { from, patch }) })
    }
    throw error
  }
}

async function finishSettlement(working: Working, ...args: Verb<'finishSettlement'>): Promise<boolean> {
  const { storage, claims } = working
  const [id, token] = args
  claims.delete(id)
  try {
    return await storage.finishSettlement(...args)
  } catch (error) {
    queue(working, { id: `${id} ${token}`, result: null, write: () => storage.finishSettlement(...args) })
    throw error
  }
}

/** A call that was declared lost meanwhile is taken back first, if possible. */
async function end(
  { storage, workerId, clock, leaseMs }: Working,
  id: string,
  { from, patch }: { readonly from: Verb<'moveCall'>[1]; readonly patch: CallPatch },
): Promise<void> {
  if (await storage.moveCall(id, from, patch)) return
  if (patch.workStatus !== 'completed') return
  if (await takenBack(storage, { id, workerId }, clock.now() + leaseMs)) await storage.moveCall(id, from, patch)
}

const queue = ({ unwritten, clock }: Working, write: Omit<Parameters<typeof queueWrite>[1], 'since'>): void =>
  queueWrite(unwritten, { ...write, since: clock.now() })

function forget({ leases, doubtful }: Working, id: string): void {
  leases.delete(id)
  doubtful.delete(id)
}

/**
 * Takes back a call that was declared lost while its worker was alive. False when its authorization now serves another
 * call.
 */
export async function takenBack(
  storage: Pick<Coordination, 'renew'>,
  { id, workerId }: Pick<Call, 'id' | 'workerId'>,
  until: number,
): Promise<boolean> {
  return (await storage.renew(workerId, [id], until)).length > 0
}
