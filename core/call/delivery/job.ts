/** Job delivery: 202 at once, and the work goes on in this process. A poll pays for the result. */
import type { Engine } from '../../engine.ts'
import type { Hybrid, Job, Sold } from '../../endpoint/mod.ts'
import * as replies from '../../endpoint/replies.ts'
import type { Reply } from '../../http/reply.ts'
import { noteUncollectedJob } from '../../payment/unpaid/unpaid_calls.ts'
import type { Call } from '../../ports/mod.ts'
import type { OpenedCall } from '../work/opened_call.ts'
import { release, runWork, storeResult } from '../work/run_work.ts'

export async function deliverJob(engine: Engine, opened: OpenedCall<Job | Hybrid>): Promise<Reply> {
  engine.ports.background(workLater(engine, opened).catch((error) => release(engine, opened.call, error)))
  return await accepted(engine, opened)
}

async function workLater(engine: Engine, opened: OpenedCall<Job | Hybrid>): Promise<void> {
  await begin(engine, opened.call)
  const done = await runWork(engine, opened)
  if (done.kind === 'made') await storeResult(engine, opened.call, done.completion)
}

/** Marks a queued call of this process as in progress. */
export async function begin({ ports: { storage, clock }, gateway }: Engine, { id }: Call): Promise<void> {
  await storage.moveCall(
    id,
    { workStatus: ['queued'], workerId: gateway.workerId },
    { workStatus: 'in_progress', startedAt: clock.now() },
  )
}

/**
 * Replies 202. The job may outlive its authorization, so it is recorded as unpaid in case the wallet abandons it and
 * orders others.
 */
export async function accepted(engine: Engine, opened: OpenedCall, status?: 'in_progress'): Promise<Reply> {
  const { storage, log, clock } = engine.ports
  const now = clock.now()
  await noteUncollectedJob({ storage, log }, opened.call, {
    from: opened.authorization.expiresAt,
    until: now + engine.settings.timeouts.unpaidBlockMs,
    now,
  })
  return await envelope(engine, opened, status)
}

/** The 202 with the poll URL of the job and its key. */
export async function envelope(
  engine: Pick<Engine, 'identity'>,
  { endpoint, call }: { readonly endpoint: Sold; readonly call: Call },
  status: 'queued' | 'in_progress' = 'queued',
): Promise<Reply> {
  return replies.envelope(endpoint, call, { key: await engine.identity.pollUrls.keyOf(call.id), status })
}
