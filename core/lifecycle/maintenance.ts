/**
 * The periodic maintenance of one gateway: fails lost calls, polls upstream jobs, runs the tasks of its endpoints, and
 * reconciles payments in doubt (decision 60).
 */
import type { MaintenanceTask } from '../endpoint/call_context.ts'
import { servesBeforeSettlement } from '../endpoint/mod.ts'
import type { Engine } from '../engine.ts'
import { within } from '../lib/timers.ts'
import { LOST, UPSTREAM_JOB } from '../payment/ledger/mod.ts'
import { SECONDARY_RETENTION_MS, settledMsOf } from '../payment/retention.ts'
import { fail, overdue, STALLED } from '../payment/settlement/fail.ts'
import { reconcile } from '../payment/settlement/reconcile.ts'
import { recordIfRefused } from '../payment/unpaid/unpaid_calls.ts'
import type { Call } from '../ports/mod.ts'

type Maintenance = {
  /** One round; to be called every few seconds. */
  maintain(): Promise<void>
  /**
   * Fails every unfinished call of other owners that are not `alive`, and returns their number. Ends their claims, so
   * that what they were settling is settled at once.
   */
  takeOver(alive?: ReadonlySet<string>): Promise<number>
}

/** How far the rounds have come. */
type Rounds = {
  readonly tasks: readonly (MaintenanceTask & { readonly lease: string })[]
  readonly taskDueAt: Map<string, number>
  readonly hasUpstreamJobs: boolean
  polledAt: number
  lastPolled: string
}

/** How often upstream jobs are polled without a caller, and how many at a time. */
const POLL_EVERY_MS = 15_000
const MAX_POLLS = 50
/** Lost calls, and payments in doubt, that one round handles. */
const MAX_CALLS = 100
const NOBODY: ReadonlySet<string> = new Set()

export function maintenance(engine: Engine): Maintenance {
  const { vendors } = engine.ports
  const sold = [...engine.products.sold.values()]
  const tasks = sold.flatMap(({ name, effects }) => {
    const task = effects?.maintenanceTask
    return task && (task.can?.(vendors) ?? true) ? [{ lease: `task:${name}`, ...task }] : []
  })
  const rounds: Rounds = {
    tasks,
    taskDueAt: new Map(),
    hasUpstreamJobs: sold.some(({ delivery }) => delivery === 'upstream_job'),
    polledAt: Number.NEGATIVE_INFINITY,
    lastPolled: '',
  }
  return {
    async maintain() {
      const now = engine.ports.clock.now()
      await failLost(engine, now)
      await pollUpstreamJobs(engine, rounds, now)
      await runTasks(engine, rounds, now)
      await reconcileAll(engine, now)
    },
    takeOver: (alive = NOBODY) => takeOver(engine, alive),
  }
}

/**
 * Fails lost calls, except those of this process, which tracks its own leases. Calls that ran too long count in any
 * case.
 */
async function failLost({ ports: { storage }, settings: { timeouts }, calls }: Engine, now: number): Promise<void> {
  const found = await storage.lostCalls(now, MAX_CALLS)
  // Read after storage has answered: an outage has been detected by then.
  const lostBy = calls.active.lostBy(now)
  const isOver = (call: Call) => call.leaseExpiresAt <= lostBy && !calls.active.has(call.id)
  const lost = found.filter((call) => overdue(call, now, timeouts) === STALLED || isOver(call))
  for (const call of lost) await fail(storage, call, overdue(call, now, timeouts) ?? LOST, now)
}

/** Polls upstream jobs that no caller polls, because a vendor often keeps a result for only a day. */
async function pollUpstreamJobs(engine: Engine, rounds: Rounds, now: number): Promise<void> {
  const { storage, log, background } = engine.ports
  if (now - rounds.polledAt < POLL_EVERY_MS || !rounds.hasUpstreamJobs) return
  rounds.polledAt = now
  // Each sweep continues after the last one and wraps around, so that jobs that hang do not starve the others.
  const jobs = (after: string, limit: number) =>
    storage.unfinishedCalls(UPSTREAM_JOB, { gateway: engine.gateway.name, after, limit })
  const next = await jobs(rounds.lastPolled, MAX_POLLS)
  const first = next.length < MAX_POLLS ? await jobs('', MAX_POLLS - next.length) : []
  const calls = [...next, ...first.filter(({ id }) => !next.some((each) => each.id === id))]
  rounds.lastPolled = calls.at(-1)?.id ?? ''
  if (calls.length === 0) return
  const { pollUpstream } = await import('../call/delivery/upstream_poll.ts')
  for (const call of calls) {
    const endpoint = engine.products.sold.get(call.endpoint)
    if (endpoint?.delivery !== 'upstream_job') continue
    background(
      pollUpstream(engine, endpoint, call).catch((error: Error) =>
        log.warn('an upstream job could not be polled', { call: call.id, error: error.message }),
      ),
    )
  }
}

/** Runs each task on one replica at a time: its lease lasts until the task is due again. */
async function runTasks({ gateway, ports }: Engine, { tasks, taskDueAt }: Rounds, now: number): Promise<void> {
  const { storage, vendors, clock, log } = ports
  for (const { lease, everyMs, do: work } of tasks) {
    if ((taskDueAt.get(lease) ?? 0) > now) continue
    taskDueAt.set(lease, now + everyMs)
    if (!(await storage.lease(lease, `${gateway.workerId}:${gateway.name}`, { now, until: now + everyMs }))) continue
    const running = within(clock, everyMs, (signal) => work({ records: storage, vendors, clock, log, signal }))
    ports.background(
      running.catch((error: Error) => log.warn('a maintenance task failed', { task: lease, error: error.message })),
    )
  }
}

async function reconcileAll(engine: Engine, now: number): Promise<void> {
  const { storage, clock } = engine.ports
  const { unpaidBlockMs } = engine.settings.timeouts
  // Only calls of this gateway: the chain of another may be down, or its gateway retired.
  const doubtful = await storage.unsettled(now, MAX_CALLS, engine.gateway.name)
  await Promise.all(
    doubtful.map(async (call) => {
      const endpoint = engine.products.sold.get(call.endpoint)
      const retainMs = endpoint ? settledMsOf(call, endpoint.retention) : SECONDARY_RETENTION_MS
      const end = await reconcile(engine.money, call, clock.now() + retainMs)
      // The buyer already has the answer.
      if (end !== 'forgiven' && servesBeforeSettlement(endpoint))
        await recordIfRefused(storage, call.id, { now: clock.now(), until: clock.now() + unpaidBlockMs })
    }),
  )
}

async function takeOver({ gateway, ports, calls }: Engine, alive: ReadonlySet<string>): Promise<number> {
  const { storage, clock } = ports
  const found = await storage.lostCalls(Number.MAX_SAFE_INTEGER, 100_000)
  const isOurs = ({ workerId }: Call) => [gateway.workerId, UPSTREAM_JOB].includes(workerId) || alive.has(workerId)
  const lost = found.filter((call) => !isOurs(call))
  for (const call of lost) await fail(storage, call, LOST, clock.now())
  await calls.active.endClaims(alive)
  return lost.length
}
