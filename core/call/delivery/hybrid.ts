/** Hybrid delivery: answered in the reply while its inline window is open, otherwise as a job. */
import type { Engine } from '../../engine.ts'
import type { Hybrid } from '../../endpoint/mod.ts'
import type { Reply } from '../../http/reply.ts'
import { isPaid, meaningOf } from '../../payment/outcome.ts'
import { settleCall } from '../../payment/settlement/settle.ts'
import { gone } from '../../endpoint/request_context.ts'
import { failureReply } from '../work/failure.ts'
import { accepted, begin, deliverJob, envelope } from './job.ts'
import type { OpenedCall } from '../work/opened_call.ts'
import { paidReply, withheldReply } from '../work/result_replies.ts'
import { release, runWork, storeResult } from '../work/run_work.ts'

/** How long a reply waits past its inline window for a settlement in flight (contract 2.28). */
const SETTLE_GRACE_MS = 3_000

/** State that the work and the wait for it share. */
type Turn = { isSettling: boolean; isOver: boolean }

/** Answers inline while the window is open and the caller is connected. The work continues in either case. */
export async function deliverHybrid(engine: Engine, opened: OpenedCall<Hybrid>): Promise<Reply> {
  const { clock, background } = engine.ports
  const { call, requestContext } = opened
  const windowMs = windowOf(engine, opened)
  if (windowMs <= 0) return await deliverJob(engine, opened)
  const turn: Turn = { isSettling: false, isOver: false }
  const work = answerInWindow(engine, opened, turn).catch((error) => release(engine, call, error))
  background(work)
  const waiting = new AbortController()
  const reply = await Promise.race([
    work,
    gone(requestContext.gone, waiting.signal),
    clock.wait(windowMs, waiting.signal).then(() => undefined),
  ])
  waiting.abort()
  if (reply) return reply
  if (turn.isSettling) {
    const late = new AbortController()
    const settled = await Promise.race([work, clock.wait(SETTLE_GRACE_MS, late.signal).then(() => undefined)])
    late.abort()
    return settled ?? (await accepted(engine, opened, 'in_progress'))
  }
  turn.isOver = true
  background(begin(engine, call))
  return await accepted(engine, opened)
}

/**
 * The inline window in milliseconds. An order that is a job from the start stays one, whatever the gateway overrides.
 */
function windowOf({ products: { catalog }, settings }: Engine, { endpoint, input }: OpenedCall<Hybrid>): number {
  const { windowMs } = endpoint
  const own = typeof windowMs === 'number' ? windowMs : windowMs(input, { catalog })
  return own === 0 ? 0 : (settings.inlineMs ?? own)
}

/**
 * Runs the work, then settles at once. If the inline window has closed or the caller has left, the result waits for a
 * poll to pay.
 */
async function answerInWindow(engine: Engine, opened: OpenedCall<Hybrid>, turn: Turn): Promise<Reply | undefined> {
  const { endpoint, call, requestContext, authorization } = opened
  const done = await runWork(engine, opened)
  if (done.kind === 'failed') return failureReply(endpoint, call, done.apiError)
  if (turn.isOver || requestContext.gone.aborted) return await storeResult(engine, call, done.completion)
  turn.isSettling = true
  const retainUntil = engine.ports.clock.now() + endpoint.retention.settledMs
  const paying = await settleCall(engine.money, call, authorization, { completion: done.completion, retainUntil })
  if (isPaid(paying)) return paidReply(engine, opened, { ...done, paid: paying })
  const { reply } = meaningOf(paying, { moment: 'hybrid' })
  return reply === 'pending'
    ? await envelope(engine, opened, 'in_progress')
    : await withheldReply(engine, opened, paying)
}
