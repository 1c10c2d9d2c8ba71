/** Inline delivery: the result is in this reply or not served at all. */
import type { Engine } from '../../engine.ts'
import type { Inline } from '../../endpoint/mod.ts'
import type { Reply } from '../../http/reply.ts'
import { isPaid, meaningOf } from '../../payment/outcome.ts'
import { settleCall } from '../../payment/settlement/settle.ts'
import { failureReply } from '../work/failure.ts'
import { envelope } from './job.ts'
import type { OpenedCall } from '../work/opened_call.ts'
import { noteUnpaid, paidReply, unsettledReply, withheldReply } from '../work/result_replies.ts'
import { release, runWork, storeResult } from '../work/run_work.ts'

/** If the caller disconnects, the work continues and a poll pays for its result. */
export async function deliverInline(engine: Engine, opened: OpenedCall<Inline>): Promise<Reply> {
  const work = answerInline(engine, opened).catch((error) => release(engine, opened.call, error))
  engine.ports.background(work)
  return await work
}

/** When the outcome of the settlement is unknown, the result is served anyway (decision 16). */
async function answerInline(engine: Engine, opened: OpenedCall<Inline>): Promise<Reply> {
  const { endpoint, call, requestContext, authorization } = opened
  const { clock } = engine.ports
  const done = await runWork(engine, opened, engine.settings.timeouts.answerMs)
  if (done.kind === 'failed') return failureReply(endpoint, call, done.apiError)
  if (requestContext.gone.aborted) {
    await storeResult(engine, call, done.completion)
    await noteUnpaid(engine, call)
    return await envelope(engine, { endpoint, call })
  }
  const paying = await settleCall(engine.money, call, authorization, {
    completion: done.completion,
    retainUntil: clock.now() + endpoint.retention.settledMs,
    isDelivered: true,
  })
  const { reply, note } = meaningOf(paying, {
    moment: 'inline',
    isExpired: authorization.expiresAt <= clock.now(),
    costsOperator: endpoint.effects?.costsOperator,
  })
  if (note === 'unpaid') await noteUnpaid(engine, call)
  if (isPaid(paying)) return paidReply(engine, opened, { ...done, paid: paying })
  return reply === 'serve'
    ? unsettledReply(engine, opened, { stored: done.stored, why: paying.kind })
    : await withheldReply(engine, opened, paying)
}
