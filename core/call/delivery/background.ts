/** Background delivery: the answer is made and settled after the reply, and is readable when it is paid. */
import type { Engine } from '../../engine.ts'
import type { Streamed } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { json, type Reply } from '../../http/reply.ts'
import type { Json } from '../../lib/json.ts'
import { fail } from '../../payment/settlement/fail.ts'
import { answerCall, noteAbandoned } from '../answer/ask_model.ts'
import { begin } from './job.ts'
import type { OpenedCall } from '../work/opened_call.ts'
import { settleAnswer } from '../answer/settle_answer.ts'
import { storedAnswer } from '../answer/stored_answer.ts'
import { release } from '../work/run_work.ts'

/** Replies with `queued`, and goes on alone. */
export function deliverInBackground(
  engine: Engine,
  opened: OpenedCall<Streamed>,
  queued: Readonly<Record<string, Json>>,
): Reply {
  engine.ports.background(workInBackground(engine, opened).catch((error) => release(engine, opened.call, error)))
  return json(200, queued, { 'cache-control': 'no-store' })
}

/** Its output cannot be read before it is settled (contract 7.17). */
async function workInBackground(engine: Engine, opened: OpenedCall<Streamed>): Promise<void> {
  const { endpoint, call } = opened
  const { background } = engine.deliveries
  const stop = new AbortController()
  background.set(call.id, stop)
  try {
    await begin(engine, call)
    const answer = await answerCall(engine, opened, stop.signal)
    if (answer.kind === 'stream') throw new Error('work in the background is answered whole')
    const key = await engine.identity.pollUrls.keyOf(call.id)
    const body = endpoint.deferredAnswer?.(answer.body, { id: call.id, key }) ?? answer.body
    const stored = storedAnswer(answer, JSON.stringify(body), engine.ports.clock.now())
    await settleAnswer(engine, opened, { stored, delivered: 'unread', used: answer })
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
  } finally {
    background.delete(call.id)
  }
}

/** Cancels an unfinished call, which then costs nothing. False when it had already ended. */
export async function cancelCall(engine: Engine, id: string, why: string): Promise<boolean> {
  const { storage, clock } = engine.ports
  const call = await storage.getCall(id)
  const isFirst = await fail(storage, { id }, why, clock.now())
  engine.deliveries.background.get(id)?.abort(new Error(why))
  if (isFirst && call && call.startedAt !== null) await noteAbandoned(engine, call)
  return isFirst
}
