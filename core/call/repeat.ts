/** An order that was sent before: its caller gets the reply again, as a poll of its call would. */
import type { Engine } from '../engine.ts'
import { servesBeforeSettlement } from '../endpoint/mod.ts'
import { isOver } from '../endpoint/records.ts'
import * as replies from '../endpoint/replies.ts'
import { ApiError } from '../http/errors.ts'
import type { Reply } from '../http/reply.ts'
import { oncePer } from '../lib/once_per.ts'
import { taggedCall } from '../payment/calls/identified_calls.ts'
import { isUnfinished } from '../payment/ledger/mod.ts'
import { failIfOverdue } from '../payment/settlement/fail.ts'
import type { Call } from '../ports/mod.ts'
import { collect } from './collect.ts'
import type { Incoming, Signed } from './order.ts'
import { endsWithReply } from './pay_with_key.ts'

/** How long an order with an API key waits for its first request, in milliseconds: proxies give up after a minute. */
const MAX_WAIT_MS = 30_000
/** Requests that wait for one call at once, in one process. */
const MAX_WAITING = 32
const waitersOf = oncePer<Engine['calls'], Map<string, number>>(() => new Map())

/** The reply to a repeated payment identifier. Undefined when there is no call, or when the call failed. */
export async function repeatOf(engine: Engine, signed: Signed): Promise<Reply | undefined> {
  const { tag, signerTag } = signed
  if (!tag) return undefined
  const { storage, clock } = engine.ports
  const now = clock.now()
  const known = (await taggedCall(storage, tag, now)) ?? (signerTag && (await taggedCall(storage, signerTag, now)))
  const call = known && (await endOf(engine, signed, known))
  if (!call || isOver(call, clock.now())) return undefined
  return await answerAgain(engine, signed, call)
}

/** The call, whose end is waited for where a tool with an API key expects its answer and knows no job. */
async function endOf(engine: Engine, signed: Signed, known: Call): Promise<Call> {
  const { storage, clock } = engine.ports
  const { timeouts } = engine.settings
  const { requestContext, endpoint } = signed
  const isAwaited = requestContext.apiKey && (endpoint.delivery === 'hybrid' || endsWithReply(signed))
  const waiters = waitersOf(engine.calls)
  const waiting = waiters.get(known.id) ?? 0
  const giveUpAt = clock.now() + (isAwaited && waiting < MAX_WAITING ? MAX_WAIT_MS : 0)
  let call = known
  waiters.set(known.id, waiting + 1)
  try {
    for (let pause = 20; ; pause = Math.min(pause * 2, 1_000)) {
      call = await failIfOverdue(storage, call, { now: clock.now(), timeouts, activeCalls: engine.calls.active })
      if (!isUnfinished(call.workStatus)) return call
      if (clock.now() >= giveUpAt || requestContext.gone.aborted) break
      await clock.wait(pause)
      call = (await storage.getCall(call.id)) ?? call
    }
  } finally {
    const left = waiters.get(known.id) ?? 0
    if (left > 1) waiters.set(known.id, left - 1)
    else waiters.delete(known.id)
  }
  if (!isAwaited || endpoint.delivery === 'hybrid') return call
  throw new ApiError('CALL_IN_PROGRESS', {
    message: 'The first request with this Idempotency-Key is still worked on. Nothing was charged for this one.',
    headers: { 'retry-after': '5', 'x-should-retry': 'true' },
  })
}

/**
 * Answers an identical signed request that was sent again because its reply was lost (contract 1.39). Undefined while
 * the call is still running, and after the resend period.
 */
export async function resend(engine: Engine, order: Incoming, call: Call): Promise<Reply | undefined> {
  const { endpoint } = order
  if (
    !servesBeforeSettlement(endpoint) ||
    call.endpoint !== endpoint.name ||
    call.workStatus !== 'completed' ||
    call.result === null
  )
    return undefined
  const isLate = engine.ports.clock.now() > (call.endedAt ?? 0) + engine.settings.timeouts.resendMs
  return isLate && call.paymentStatus === 'settled' ? undefined : await answerAgain(engine, order, call)
}

/** Repeats the reply to a caller who is known to have sent the order. */
async function answerAgain(engine: Engine, { endpoint, requestContext }: Incoming, call: Call): Promise<Reply> {
  const key = await engine.identity.pollUrls.keyOf(call.id)
  const running = (unpaid: Call) =>
    replies.envelope(endpoint, unpaid, { key, status: unpaid.workStatus === 'queued' ? 'queued' : 'in_progress' })
  return await collect(engine, {
    endpoint,
    found: call,
    requestContext,
    running,
    more: replies.recovery(endpoint, call, key),
    isOrder: true,
    isKeyed: true,
  })
}
