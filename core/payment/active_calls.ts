/**
 * The calls that this process works on. Wraps the storage to renew their leases, queues the writes that storage
 * refused, and detects outages, so that no call is declared lost because nobody could renew it.
 */
import { decorated, OTHER_VERBS } from '../ports/decorated_storage.ts'
import type { Call, CallPatch, CallStorage, Coordination, Log, Outcome, Storage } from '../ports/mod.ts'
import type { Clock } from '../lib/clock.ts'

export type ActiveCalls = {
  /** The same storage, observed. */
  readonly storage: Storage
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

/** A failed write: the end of work, or of a settlement. Each is a compare-and-set, so repeating it is safe. */
type Unwritten = { readonly id: string; readonly weight: number; readonly since: number; write(): Promise<unknown> }

/** Bounds on the number, size and age of queued writes. Work beyond them is lost and uncharged. */
const MAX_UNWRITTEN = 10_000
const MAX_CHARACTERS = 1 << 25
const UNWRITTEN_MS = 3_600_000
/** Opened calls whose insertion is unconfirmed; only the newest are remembered. */
const MAX_DOUBTFUL = 1_000
const RETRY_MS = 1_000
/** Alerts once per outage, and at most once a minute when storage flaps. */
const ALERT_EVERY_MS = 60_000
/** Calls in doubt that are looked at when this process takes over. */
const MAX_IN_DOUBT = 10_000
const UNFINISHED = ['queued', 'in_progress'] as const

export type SharedState = {
  /** Time of the last outage alert. */
  lastAlertAt: number
  /** The settlements under way in this process, each with its worker. */
  readonly claims: Map<string, string>
}

export function sharedState(): SharedState {
  return { lastAlertAt: Number.NEGATIVE_INFINITY, claims: new Map() }
}

export function activeCalls({
  storage,
  workerId,
  clock,
  log,
  leaseMs,
  shared = sharedState(),
}: {
  storage: Storage
  workerId: string
  clock: Clock
  log: Log
  leaseMs: number
  /** Gateways of one process share it because they share the storage. */
  shared?: SharedState
}): ActiveCalls {
  /** Lease end of each call; far in the past when the lease could not be renewed. */
  const leases = new Map<string, number>()
  const doubtful = new Set<string>()
  const unwritten = new Map<string, Unwritten>()
  const thrown = new WeakSet<object>()
  let characters = 0
  let answeredAt: number | undefined
  let outage: { readonly since: number; readonly until: number } | undefined
  let awaySince: number | undefined

  const observed = watchedStorage(storage, { clock, answered, failed })
  const tracked = decorated(observed, {
    ...OTHER_VERBS,
    openCall,
    // Such a call has no lease, and is not stored where this fails.
    recordPaid: (call, authorization, at) => observed.recordPaid(call, authorization, { ...at, ...late(at) }),
    callOf,
    moveCall,
    claimSettlement,
    finishSettlement,
    renew: renewCalls,
    prune: 'same',
    pruneLedger: 'same',
    archiveCalls: 'same',
  })

  return {
    storage: tracked,
    has: (id) => leases.has(id),
    isLeased: (id) => clock.now() < (leases.get(id) ?? Number.POSITIVE_INFINITY),
    renewLease: renewLease,
    lostBy,
    endClaims,
    isFromStorage: (error) => typeof error === 'object' && error !== null && thrown.has(error),

    async renew() {
      // Sent even when there are no calls, to detect outages.
      const ids = [...leases].filter(([, until]) => until !== GONE).map(([id]) => id)
      await renewCalls(workerId, ids, clock.now() + leaseMs)
      await write()
    },
  }

  // ── whether storage is there ──────────────────────────────────────────────────────────────────────────────────────

  /** A request sent at `sentAt` was answered, so storage was reachable at some time since. */
  function answered(sentAt: number): void {
    const now = clock.now()
    // No answer for a whole lease period: whether this process was suspended or storage was down, other processes may
    // have been unable to renew too.
    if (answeredAt !== undefined && sentAt - answeredAt > leaseMs) outage = { since: answeredAt, until: now + leaseMs }
    answeredAt = Math.max(answeredAt ?? sentAt, sentAt)
    if (awaySince === undefined) return
    log.info('storage answers again', { seconds: Math.round((now - awaySince) / 1000), unwritten: unwritten.size })
    awaySince = undefined
  }

  function failed(error: unknown, verb: string): void {
    if (typeof error === 'object' && error !== null) thrown.add(error)
    const now = clock.now()
    const isFirst = awaySince === undefined
    awaySince ??= now
    if (!isFirst || now - shared.lastAlertAt < ALERT_EVERY_MS) return
    shared.lastAlertAt = now
    log.alert('storage fails; nothing is sold until it answers', { verb, error: (error as Error)?.message })
  }

  function lostBy(now: number): number {
    return outage && now < outage.until ? Math.min(now, outage.since) : now
  }

  function late({ now }: { readonly now: number }): { readonly lostBy?: number } {
    const by = lostBy(now)
    return by < now ? { lostBy: by } : {}
  }

  // ── whose calls are alive ─────────────────────────────────────────────────────────────────────────────────────────

  async function openCall(
    ...[call, authorization, at]: Parameters<CallStorage['openCall']>
  ): ReturnType<CallStorage['openCall']> {
    try {
      const opened = await storage.openCall(call, authorization, { ...at, ...late(at) })
      if (opened.kind === 'opened' && call.workerId === workerId) leases.set(call.id, at.until)
      return opened
    } catch (error) {
      const there = await storage.getCall(call.id).catch(() => undefined)
      // A storage that answers refuses a second call with the same id.
      if (there && there.authorization !== authorization.key) throw error
      failed(error, 'openCall')
      // The insertion may have succeeded all the same. In that case whoever requested it fails the call.
      doubtful.add(call.id)
      for (const id of doubtful) if (doubtful.size > MAX_DOUBTFUL) doubtful.delete(id)
      throw error
    }
  }

  function callOf(key: string, now: number): ReturnType<CallStorage['callOf']> {
    return observed.callOf(key, lostBy(now))
  }

  async function renewCalls(...[by, ids, until]: Parameters<Coordination['renew']>): ReturnType<Coordination['renew']> {
    const renewed = await observed.renew(by, ids, until)
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

  async function renewLease(id: string, signal: AbortSignal): Promise<boolean> {
    while (!signal.aborted) {
      try {
        const [renewed] = await renewCalls(workerId, [id], clock.now() + leaseMs)
        if (renewed !== undefined || !leases.has(id)) return true
        const isDone = (await observed.getCall(id))?.workStatus === 'completed'
        if (isDone) leases.delete(id)
        return isDone
      } catch {
        await clock.wait(RETRY_MS, signal)
      }
    }
    return false
  }

  // ── what storage did not take ─────────────────────────────────────────────────────────────────────────────────────

  async function moveCall(
    ...[id, from, patch]: Parameters<CallStorage['moveCall']>
  ): ReturnType<CallStorage['moveCall']> {
    const isEnd = patch.workStatus === 'completed' || patch.workStatus === 'failed'
    const isHanded = patch.workerId !== undefined && patch.workerId !== workerId
    const isOurs = leases.has(id) || doubtful.has(id)
    try {
      const isMoved = await observed.moveCall(id, from, patch)
      if (isEnd || (isHanded && isMoved)) forget(id)
      return isMoved
    } catch (error) {
      if (isEnd && isOurs) queueWrite(id, patch.result, () => end(id, from, patch))
      if (isEnd) forget(id)
      throw error
    }
  }

  async function claimSettlement(
    ...[id, authorization, at]: Parameters<CallStorage['claimSettlement']>
  ): ReturnType<CallStorage['claimSettlement']> {
    try {
      const claim = await observed.claimSettlement(id, authorization, { ...at, ...late(at) })
      if (at.result) forget(id)
      if (claim.kind === 'yours' || claim.kind === 'retry') shared.claims.set(id, workerId)
      return claim
    } catch (error) {
      const { result: made, now } = at
      // The work is done, so the result is stored for a poll to pay, whatever the outcome of this settlement.
      if (made) forget(id)
      if (made)
        queueWrite(id, made.result, () =>
          end(
            id,
            { workStatus: UNFINISHED, workerId, paymentStatus: 'verified' },
            { workStatus: 'completed', ...made, endedAt: now },
          ),
        )
      throw error
    }
  }

  async function endClaims(alive: ReadonlySet<string>): Promise<void> {
    const now = clock.now()
    const [all, expired] = await Promise.all([
      observed.unsettled(Number.MAX_SAFE_INTEGER, MAX_IN_DOUBT),
      observed.unsettled(now, MAX_IN_DOUBT),
    ])
    const over = new Set(expired.map(({ id }) => id))
    for (const { id } of all) {
      const worker = shared.claims.get(id)
      if (over.has(id) || worker === workerId || alive.has(worker ?? '')) continue
      // At the end of time every claim has expired. The new one ends at once.
      await observed.claimSettlement(id, undefined, { now: Number.MAX_SAFE_INTEGER, until: now })
    }
  }

  async function finishSettlement(
    ...args: [string, number, Outcome, { now: number; expiresAt?: number }]
  ): Promise<boolean> {
    shared.claims.delete(args[0])
    try {
      return await observed.finishSettlement(...args)
    } catch (error) {
      const [id, token] = args
      queueWrite(`${id} ${token}`, null, () => observed.finishSettlement(...args))
      throw error
    }
  }

  /** A call that was declared lost meanwhile is taken back first, if possible. */
  async function end(id: string, from: Parameters<CallStorage['moveCall']>[1], patch: CallPatch): Promise<void> {
    if (await observed.moveCall(id, from, patch)) return
    if (patch.workStatus !== 'completed') return
    const [renewed] = await observed.renew(workerId, [id], clock.now() + leaseMs)
    if (renewed !== undefined) await observed.moveCall(id, from, patch)
  }

  function forget(id: string): void {
    leases.delete(id)
    doubtful.delete(id)
  }

  /** Only the first end of a call counts; later ones are consequences of the outage. */
  function queueWrite(id: string, result: unknown, write: () => Promise<unknown>): void {
    if (unwritten.has(id)) return
    const weight = weightOf(result)
    if (unwritten.size >= MAX_UNWRITTEN || characters + weight > MAX_CHARACTERS) return
    characters += weight
    unwritten.set(id, { id, weight, since: clock.now(), write })
  }

  /** Retries one by one and stops at the first failure, so that a round stays short. */
  async function write(): Promise<void> {
    for (const each of Array.from(unwritten.values())) {
      const drop = () => void (unwritten.delete(each.id) && (characters -= each.weight))
      try {
        await each.write()
        drop()
      } catch (error) {
        // Move to the end of the queue, in case storage refuses only this write.
        drop()
        if (clock.now() - each.since >= UNWRITTEN_MS) {
          log.alert('the end of a call could not be written for an hour', {
            call: each.id,
            error: (error as Error).message,
          })
          continue
        }
        characters += each.weight
        unwritten.set(each.id, each)
        return
      }
    }
  }
}

/** The lease is gone and is not renewed any more. */
const GONE = Number.NEGATIVE_INFINITY

type Watch = { readonly clock: Clock; answered(sentAt: number): void; failed(error: unknown, verb: string): void }

function watchedStorage(storage: Storage, { clock, answered, failed }: Watch): Storage {
  const watched =
    <Args extends unknown[], Answer>(verb: string, ask: (...args: Args) => Promise<Answer>) =>
    async (...args: Args): Promise<Answer> => {
      const sentAt = clock.now()
      try {
        const answer = await ask(...args)
        answered(sentAt)
        return answer
      } catch (error) {
        failed(error, verb)
        throw error
      }
    }
  const verbs = Object.entries(storage).map(([verb, ask]) => [
    verb,
    typeof ask !== 'function' || verb === 'close' || verb === 'openCall'
      ? ask
      : watched(verb, ask as (...args: unknown[]) => Promise<unknown>),
  ])
  return Object.fromEntries(verbs) as Storage
}

function weightOf(value: unknown): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 1
  return Object.values(value).reduce((sum: number, each: unknown) => sum + weightOf(each), 0)
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
