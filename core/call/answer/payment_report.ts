/** The meaning of a settlement's end for an answer, as its headers or its last event report it. */
import type { Engine } from '../../engine.ts'
import { chargeReceiptHeaders } from '../../endpoint/charging.ts'
import * as replies from '../../endpoint/replies.ts'
import { type Meaning, meaningOf, type Paying, reasonOf } from '../../payment/outcome.ts'
import { noteUnpaidCall } from '../../payment/unpaid/unpaid_calls.ts'
import type { Call } from '../../ports/mod.ts'
import { receiptHeaders } from '../../x402/protocol.ts'
import type { OpenedCall } from '../work/opened_call.ts'

/** The charge of an answer. `unknown`: the settlement was sent and not confirmed in time. */
export type Charge = 'none' | 'settled' | 'unknown'

/** Payment outcome of an answer, as its headers or its last event report it. */
export type AnswerPayment = {
  readonly headers: Readonly<Record<string, string>>
  readonly isRefused: boolean
  readonly charge: Charge
  readonly reason?: string
}

/** How much of an answer its buyer has when it is settled. */
export type Delivered = 'whole' | 'streamed' | 'unread'

/** Looks up what the end of the settlement means for the answer, and records an unpaid one. */
export async function judged(
  engine: Engine,
  { call, authorization, requestContext }: OpenedCall,
  { paying, delivered }: { readonly paying: Paying; readonly delivered: Delivered },
): Promise<AnswerPayment> {
  const { clock, log, storage } = engine.ports
  const now = clock.now()
  const isExpired = authorization.expiresAt <= now
  const meaning = meaningOf(paying, { moment: delivered === 'unread' ? 'background' : 'answer', isExpired })
  if (meaning.note === 'unpaid') {
    const what = delivered === 'whole' ? 'made' : 'delivered'
    if (meaning.reply === 'withhold' && paying.kind !== 'unavailable')
      log.warn(`an answer was ${what}, and its payment refused; its wallet gets no more until it is paid`, {
        call: call.id,
        payer: call.payer,
      })
    await noteUnpaidCall({ storage, log }, call, { now, until: now + engine.settings.timeouts.unpaidBlockMs })
  }
  const more = chargeReceiptHeaders(requestContext.payment, call, {
    receipt: paying.kind === 'settled' ? paying.receipt : null,
    isFirst: paying.kind === 'settled' && paying.now,
    now,
  })
  return answerPayment(call, paying, { meaning, more })
}

type Reported = { readonly meaning: Meaning; readonly more: Readonly<Record<string, string>> }

function answerPayment(call: Call, paying: Paying, { meaning: { reply }, more }: Reported): AnswerPayment {
  if (paying.kind === 'settled') {
    const { receipt } = paying
    const headers = { ...receiptHeaders(receipt), ...replies.chargeHeaders(call, receipt), ...more }
    return { headers, isRefused: false, charge: 'settled' }
  }
  if (paying.kind === 'free') return { headers: {}, isRefused: false, charge: 'none' }
  if (reply !== 'withhold')
    return { headers: replies.unsettledHeaders(paying.kind), isRefused: false, charge: 'unknown' }
  const headers = replies.unsettledHeaders(paying.kind === 'unavailable' ? paying.kind : 'refused')
  return { headers, isRefused: true, charge: 'none', reason: reasonOf(paying) }
}
