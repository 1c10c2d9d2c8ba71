/** Stream delivery: answers at once, whole or streamed, and settles after the answer (decision 17). */
import type { Engine } from '../../engine.ts'
import type { Answer, Streamed } from '../../endpoint/mod.ts'
import * as replies from '../../endpoint/replies.ts'
import type { Reply } from '../../http/reply.ts'
import { answerCall, callerLeft, failAnswer } from '../answer/ask_model.ts'
import { eventStream } from '../answer/event_stream.ts'
import type { OpenedCall } from '../work/opened_call.ts'
import { settleAnswer } from '../answer/settle_answer.ts'
import { answerOf, storedAnswer } from '../answer/stored_answer.ts'
import { streamPayment } from '../answer/settle_stream.ts'
import { release } from '../work/run_work.ts'

export async function deliverStream(engine: Engine, opened: OpenedCall<Streamed>): Promise<Reply> {
  const { endpoint, input, call, requestContext } = opened
  const { clock, meter } = engine.ports
  const { pollUrls } = engine.identity
  const queued = endpoint.deferred?.(input, { ...call, key: await pollUrls.keyOf(call.id) })
  if (queued) return (await import('./background.ts')).deliverInBackground(engine, opened, queued)
  const answer = await answerCall(engine, opened, requestContext.gone)
  if (requestContext.gone.aborted) {
    if (answer.kind === 'stream') answer.stream.cancel()
    throw await failAnswer(engine, call, { apiError: callerLeft(), isAbandoned: true })
  }
  if (answer.kind === 'whole') return await deliverWhole(engine, opened, answer)
  meter?.streamBegan?.(endpoint.name, clock.now() - call.createdAt)
  const { stream, headers } = answer
  const payment = streamPayment(engine, opened, answer)
  return eventStream(engine, { stream, headers, errorFormat: endpoint.errorFormat, payment })
}

async function deliverWhole(
  engine: Engine,
  opened: OpenedCall<Streamed>,
  answer: Extract<Answer, { kind: 'whole' }>,
): Promise<Reply> {
  const { endpoint, call } = opened
  const stored = storedAnswer(answer, JSON.stringify(answer.body), engine.ports.clock.now())
  const paid = await settleAnswer(engine, opened, { stored, delivered: 'whole', used: answer }).catch((error) =>
    release(engine, call, error),
  )
  if (!paid.isRefused) return replies.answered(answerOf(stored), paid.headers)
  return replies.inlineRefusal(endpoint, call, {
    reason: paid.reason ?? 'the payment was refused',
    key: await engine.identity.pollUrls.keyOf(call.id),
  })
}
