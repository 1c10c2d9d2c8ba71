/**
 * The periodic maintenance of one gateway: fails lost calls, polls upstream jobs, runs the tasks of its endpoints, and
 * reconciles payments in doubt.
 */
import { fail, overdue, STALLED } from '../payment/settlement/fail.ts'
import { reconcile } from '../payment/settlement/reconcile.ts'
import { within } from '../lib/timers.ts'
import { LOST, UPSTREAM_JOB } from '../payment/ledger/mod.ts'
import type { ActiveCalls } from '../payment/active_calls.ts'
import { recordIfRefused } from '../payment/unpaid/unpaid_calls.ts'
import { type Endpoint, isSold, servesBeforeSettlement, type Sold } from '../endpoint/mod.ts'
import type { UpstreamJob } from '../endpoint/paid.ts'
import { settledMsOf } from '../payment/retention.ts'
import { SECONDARY_RETENTION_MS } from '../payment/settlement/secondary_payment.ts'
import type { Timeouts } from '../payment/timeouts.ts'
import type { Meter } from '../ports/meter.ts'
import type { Call, Ports } from '../ports/mod.ts'

export type Maintenance = {
  /** One round; to be called every few seconds. */
  maintain(): Promise<void>
  /**
   * Fails every unfinished call of other owners that are not `alive`, and returns their number. Ends their claims, so
   * that what they were settling is settled at once.
   */
  takeOver(alive?: ReadonlySet<string>): Promise<number>
}

type MaintenanceContext = {
  /** The gateway whose calls are maintained. */
  readonly name: string
  readonly workerId: string
  readonly ports: Ports
  readonly meter: Meter
  readonly timeouts: Timeouts
  readonly endpoints: readonly Endpoint[]
  readonly activeCalls: Pick<ActiveCalls, 'has' | 'lostBy' | 'endClaims'>
  pollUpstream(endpoint: UpstreamJob, call: Call): Promise<unknown>
}

/** How often upstream jobs are polled without a caller, and how many at a time. */
const POLL_EVERY_MS = 15_000
const MAX_POLLS = 50
/** Lost calls, and payments in doubt, that one round handles. */
const MAX_CALLS = 100
const NOBODY: ReadonlySet<string> = new Set()

export function maintenance({
  name,
  workerId,
  ports,
  meter,
  timeouts,
  endpoints,
  activeCalls,
  pollUpstream,
}: MaintenanceContext): Maintenance {
  const { storage, chain, clock, log, vendors } = ports
  const sold: ReadonlyMap<string, Sold> = new Map(endpoints.filter(isSold).map((endpoint) => [endpoint.name, endpoint]))
  const hasUpstreamJobs = [...sold.values()].some(({ delivery }) => delivery === 'upstream_job')
  const tasks = [...sold.values()].flatMap(({ name: endpoint, effects }) => {
    const task = effects?.maintenanceTask
    return task && (task.can?.(vendors) ?? true) ? [{ lease: `task:${endpoint}`, ...task }] : []
  })
  const taskDueAt = new Map<string, number>()
  let polledAt = Number.NEGATIVE_INFINITY
  let lastPolled = ''

  async function maintain(): Promise<void> {
    const now = clock.now()
    for (const call of await lostCalls(now)) await fail(storage, call, overdue(call, now, timeouts) ?? LOST, now)
    await pollUpstreamJobs(now)
    await runTasks(now)
    await reconcileAll(now)
  }

  /**
   * Lost calls, except those of this process, which tracks its own leases. Calls that ran too long count in any case.
   */
  async function lostCalls(now: number): Promise<readonly Call[]> {
    const found = await storage.lostCalls(now, MAX_CALLS)
    // Read after storage has answered: an outage has been detected by then.
    const lostBy = activeCalls.lostBy(now)
    return found.filter(
      (call) =>
        overdue(call, now, timeouts) === STALLED || (call.leaseExpiresAt <= lostBy && !activeCalls.has(call.id)),
    )
  }

  /** Polls upstream jobs that no caller polls, because a vendor often keeps a result for only a day. */
  async function pollUpstreamJobs(now: number): Promise<void> {
    if (now - polledAt < POLL_EVERY_MS || !hasUpstreamJobs) return
    polledAt = now
    // Each sweep continues after the last one and wraps around, so that jobs that hang do not starve the others.
    const next = await storage.unfinishedCalls(UPSTREAM_JOB, { gateway: name, after: lastPolled, limit: MAX_POLLS })
    const first =
      next.length < MAX_POLLS
        ? await storage.unfinishedCalls(UPSTREAM_JOB, { gateway: name, after: '', limit: MAX_POLLS - next.length })
        : []
    const calls = [...next, ...first.filter(({ id }) => !next.some((each) => each.id === id))]
    lastPolled = calls.at(-1)?.id ?? ''
    for (const call of calls) {
      const endpoint = sold.get(call.endpoint)
      if (endpoint?.delivery !== 'upstream_job') continue
      ports.background(
        pollUpstream(endpoint, call).catch((error: Error) =>
          log.warn('an upstream job could not be polled', { call: call.id, error: error.message }),
        ),
      )
    }
  }

  /** Runs each task on one replica at a time: its lease lasts until the task is due again. */
  async function runTasks(now: number): Promise<void> {
    for (const { lease, everyMs, do: work } of tasks) {
      if ((taskDueAt.get(lease) ?? 0) > now) continue
      taskDueAt.set(lease, now + everyMs)
      if (!(await storage.lease(lease, `${workerId}:${name}`, { now, until: now + everyMs }))) continue
      const running = within(clock, everyMs, (signal) => work({ records: storage, vendors, clock, log, signal }))
      ports.background(
        running.catch((error: Error) => log.warn('a maintenance task failed', { task: lease, error: error.message })),
      )
    }
  }

  async function reconcileAll(now: number): Promise<void> {
    const context = { storage, chain, clock, log, meter, timeouts }
    // Only calls of this gateway: the chain of another may be down, or its gateway retired.
    const doubtful = await storage.unsettled(now, MAX_CALLS, name)
    await Promise.all(
      doubtful.map(async (call) => {
        const endpoint = sold.get(call.endpoint)
        const retainMs = endpoint ? settledMsOf(call, endpoint.retention) : SECONDARY_RETENTION_MS
        const end = await reconcile(context, call, clock.now() + retainMs)
        // The buyer already has the answer.
        if (end !== 'forgiven' && servesBeforeSettlement(endpoint))
          await recordIfRefused(storage, call.id, { now: clock.now(), until: clock.now() + timeouts.unpaidBlockMs })
      }),
    )
  }

  async function takeOver(alive: ReadonlySet<string> = NOBODY): Promise<number> {
    const found = await storage.lostCalls(Number.MAX_SAFE_INTEGER, 100_000)
    const lost = found.filter((call) => ![workerId, UPSTREAM_JOB].includes(call.workerId) && !alive.has(call.workerId))
    for (const call of lost) await fail(storage, call, LOST, clock.now())
    await activeCalls.endClaims(alive)
    return lost.length
  }

  return { maintain, takeOver }
}
