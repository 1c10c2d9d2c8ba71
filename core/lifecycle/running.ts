/**
 * Tasks of a running gateway: it renews leases, fails lost calls, settles what is in doubt, deletes what has expired,
 * and keeps its chain open. Then how it stops.
 */
import type { StopOptions } from '../endpoint/gateway_info.ts'
import { within } from '../lib/timers.ts'
import type { Chain, Log, Objects, Ports, Storage } from '../ports/mod.ts'
import type { Clock } from '../lib/clock.ts'
import type { Retention } from '../payment/retention.ts'
import type { Shared } from './shared_by_gateways.ts'

type Running = {
  readonly name: string
  readonly workerId: string
  readonly chain: Chain
  readonly storage: Storage
  readonly shared: Pick<Shared, 'isTakenOver'>
  readonly objects: Objects
  readonly clock: Clock
  readonly log: Log
  readonly retention: Retention
  /** Length of a work lease, in milliseconds. */
  readonly leaseMs: number
  renew(): Promise<void>
  maintain(): Promise<void>
  /** Fails the unfinished calls of owners that are not in this process. */
  takeOver(): Promise<number>
  leaveRotation(): void
  /** Stops active streams and settles what was delivered. */
  drain(): void
  /** Resolves when no request and no background work is under way. */
  idle(): Promise<void>
}

/** A lease is renewed so many times before it ends. */
const RENEWALS = 6
const MAX_ROUND_MS = 5_000
const REFRESH_MS = 2_000
const CHECK_MS = 5_000
const PRUNE_MS = 3_600_000
const DRAIN_MS = 30_000

/** Starts the loops of one gateway. The function that it returns ends them, after what is under way. */
export function startRunning(running: Running): (options?: StopOptions) => Promise<void> {
  const { name, chain, storage, objects, clock, log, retention, workerId, leaseMs } = running
  const stopped = new AbortController()
  const roundMs = Math.min(MAX_ROUND_MS, leaseMs / RENEWALS)
  let stopping: Promise<void> | undefined

  /** The first failure of a row of equal ones is an alert. An outage of storage has an alert of its own. */
  async function repeat(everyMs: number, step: () => Promise<unknown>): Promise<void> {
    let reason: string | undefined
    while (!stopped.signal.aborted) {
      try {
        await step()
        reason = undefined
      } catch (error) {
        const { message, name: kind } = error as Error
        const tell = reason === message || kind === 'DatabaseError' ? log.warn : log.alert
        tell('maintenance failed; it will be retried', { gateway: name, error: message })
        reason = message
      }
      await clock.wait(everyMs, stopped.signal)
    }
  }

  /** Where one process has the storage, unfinished calls of others are lost. Once, before its own calls can be many. */
  async function takeOver(): Promise<void> {
    if (running.shared.isTakenOver || storage.isShared) return
    const lost = await running.takeOver()
    running.shared.isTakenOver = true
    if (lost > 0) log.warn('calls whose work was lost with the last process were failed, uncharged', { calls: lost })
  }

  async function prune(): Promise<void> {
    const now = clock.now()
    if (!(await storage.lease('prune', workerId, { now, until: now + PRUNE_MS / 2 }))) return
    const { pruneExpired } = await import('../payment/prune.ts')
    await pruneExpired({ storage, objects, clock, log }, retention)
  }

  let logged: string | undefined
  /** Opens a chain that nobody has checked, or that could not be reached. */
  async function openChain(): Promise<void> {
    if (!chain.check || chain.terms(clock.now()).length > 0 || chain.closed?.(clock.now())) return
    const result = await chain.check({ now: clock.now() })
    const words = result.kind === 'wrong' ? result.problems.join('; ') : result.kind
    if (result.kind === 'wrong' && words !== logged)
      log.alert('a gateway does not match its chain and stays closed', { gateway: name, problems: result.problems })
    if (result.kind === 'ready') log.info('the chain answers; the gateway is open', { gateway: name })
    logged = words
  }

  const loops = Promise.all([
    repeat(roundMs, async () => {
      await takeOver()
      await running.renew()
    }),
    repeat(roundMs, running.maintain),
    repeat(PRUNE_MS, prune),
    repeat(CHECK_MS, openChain),
    repeat(REFRESH_MS, async () => await chain.refresh?.({ now: clock.now() })),
  ])

  async function stop(drainMs: number): Promise<void> {
    running.leaveRotation()
    // Streams may outlast any drain: they are stopped while there is time to settle what they have delivered.
    await within(clock, (drainMs * 2) / 3, running.idle).catch(() => {})
    running.drain()
    await within(clock, drainMs / 3, running.idle).catch(() => {})
    stopped.abort()
    await loops
  }

  return ({ drainMs = DRAIN_MS } = {}) => (stopping ??= stop(drainMs))
}

/** Counts the requests and the background work under way. */
export function activity(background: Ports['background']) {
  let count = 0
  const waiting = new Set<() => void>()
  function begin(): void {
    count++
  }
  function end(): void {
    count--
    if (count > 0) return
    for (const resolve of waiting) resolve()
    waiting.clear()
  }
  return {
    begin,
    end,
    background(work: Promise<unknown>): void {
      begin()
      work.then(end, end)
      background(work)
    },
    idle: () => (count === 0 ? Promise.resolve() : new Promise<void>((resolve) => waiting.add(resolve))),
  }
}
