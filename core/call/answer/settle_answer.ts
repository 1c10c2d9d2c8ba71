/**
 * Settles an answer that was made, whole or streamed: what its payment becomes, and what its reader is told (decision
 * 91).
 */
import type { Engine } from '../../engine.ts'
import type { Stored, Streamed, Used } from '../../endpoint/mod.ts'
import * as replies from '../../endpoint/replies.ts'
import type { Json } from '../../lib/json.ts'
import { deadlinesOf } from '../../lib/timers.ts'
import { chargeOf } from '../../payment/control/margin.ts'
import type { Paying } from '../../payment/outcome.ts'
import { settledMsOf } from '../../payment/retention.ts'
import { fail } from '../../payment/settlement/fail.ts'
import { settleCall } from '../../payment/settlement/settle.ts'
import { tokensOf } from '../../payment/reports/spend_report.ts'
import type { Usdc } from '../../x402/money.ts'
import { chargesUse } from '../../x402/offer.ts'
import type { OpenedCall } from '../work/opened_call.ts'
import { type AnswerPayment, type Delivered, judged } from './payment_report.ts'
import { answerOf } from './stored_answer.ts'

/** `delivered`: what its buyer has of it. `used`: what is charged by use; undefined while that is not known. */
type Made = {
  readonly stored: Stored
  readonly delivered: Delivered
  readonly used: Used | undefined
}

/**
 * Stores the answer, then settles it. Waits for the settlement only for a while: the answer is served unless its
 * payment is known to be refused (contract 6.46). Rejects when a whole answer cannot be stored: it is then neither
 * served nor charged. Answers that were already delivered are settled to the end, as are those that are served before
 * settlement.
 */
export async function settleAnswer(engine: Engine, opened: OpenedCall<Streamed>, made: Made): Promise<AnswerPayment> {
  const { clock, log, background } = engine.ports
  const { call } = opened
  const attempt = await attemptOf(engine, opened, made)
  const first = made.delivered === 'streamed' ? settleToTheEnd(engine, opened, attempt) : attempt()
  const known = first.then((paying) => judged(engine, opened, { paying, delivered: made.delivered }))
  const inTime = await new Promise<AnswerPayment | undefined>((resolve, reject) => {
    const cancelDeadline = deadlinesOf(clock).after(engine.settings.timeouts.receiptMs, () => resolve(undefined))
    known.then(resolve, reject).finally(cancelDeadline)
  })
  if (inTime) return inTime
  const again = async (error: Error): Promise<AnswerPayment> => {
    log.alert('an answer was served, and storage failed before it was settled; it is tried again', {
      call: call.id,
      payer: call.payer,
      error: error.message,
    })
    return await judged(engine, opened, {
      paying: await settleToTheEnd(engine, opened, attempt),
      delivered: made.delivered,
    })
  }
  background(known.catch(again))
  return { headers: replies.unsettledHeaders('unknown'), isRefused: false, charge: 'unknown' }
}

/** An attempt to store the answer and to settle it. It may be repeated when storage fails. */
async function attemptOf(
  engine: Engine,
  opened: OpenedCall<Streamed>,
  { stored, used }: Made,
): Promise<() => Promise<Paying>> {
  const { ports, money } = engine
  const { endpoint, call, authorization } = opened
  const { clock, meter } = ports
  const usage = tokensOf(answerOf(stored).usage)
  if (usage) meter?.tokensUsed?.(endpoint.name, usage)
  const charge = used && (await chargeByUse(engine, opened, used))
  return async () => {
    const now = clock.now()
    const completion = {
      result: stored as unknown as Json,
      expiresAt: now + endpoint.retention.unclaimedMs,
      usage,
      ...(charge !== undefined && { charge }),
    }
    return await settleCall(money, call, authorization, {
      completion,
      retainUntil: now + settledMsOf(call, endpoint.retention),
      isDelivered: true,
    })
  }
}

/** The charge of an answer by what was used; undefined where the quote is charged. */
async function chargeByUse(
  { ports: { log }, products: { context } }: Engine,
  { endpoint, input, call, margin, authorization }: OpenedCall<Streamed>,
  used: Used,
): Promise<Usdc | undefined> {
  if (!endpoint.cost || !chargesUse(authorization.offer)) return undefined
  try {
    const cost = await endpoint.cost(input, used, context)
    return cost && chargeOf(cost, { quote: call.quote, ...(margin !== undefined && { margin }) })
  } catch (error) {
    log.warn('what an answer used could not be counted; it is charged its quote', {
      call: call.id,
      error: (error as Error).message,
    })
    return undefined
  }
}

/** Repeats an attempt whose storage fails, until the authorization expires. */
async function settleToTheEnd(
  engine: Engine,
  { call, authorization }: OpenedCall<Streamed>,
  attempt: () => Promise<Paying>,
): Promise<Paying> {
  const { storage, clock } = engine.ports
  const what = 'the settlement of an answer that was delivered'
  const paying = await repeatWhileValid(engine, { call, authorization, what }, attempt)
  if (paying) return paying
  const text = 'The answer was delivered, and could not be settled in time. Nothing was charged.'
  await fail(storage, call, text, clock.now()).catch(() => false)
  return { kind: 'unavailable', reason: 'storage failed until the authorization had ended' }
}

/**
 * Retries a failed storage operation while the authorization is valid, and alerts the operator; undefined when it has
 * expired.
 */
export async function repeatWhileValid<T>(
  { ports: { clock, log } }: Engine,
  { call, authorization, what }: Pick<OpenedCall, 'call' | 'authorization'> & { readonly what: string },
  work: () => Promise<T>,
): Promise<T | undefined> {
  for (let pause = 1_000; ; pause *= 2) {
    try {
      return await work()
    } catch (error) {
      const left = authorization.expiresAt - clock.now()
      const tell = left <= 0 ? log.alert : log.warn
      tell(`storage failed in ${what}`, {
        call: call.id,
        payer: call.payer,
        isLast: left <= 0,
        error: (error as Error).message,
      })
      if (left <= 0) return undefined
      await clock.wait(Math.min(pause, left))
    }
  }
}
