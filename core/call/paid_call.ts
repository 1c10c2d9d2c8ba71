/**
 * One paid call from start to finish. This file alone knows the order of work and payment (decision 9).
 *
 * | step |           | file                  | an order becomes                                   |
 * | ---- | --------- | --------------------- | -------------------------------------------------- |
 * | 1    | read      | `read.ts`             | Received: body, given                              |
 * | 2    | price     | `price.ts`            | Priced: input, price; served if free               |
 * | 3    | challenge | `payment_required.ts` | Offered: offers; a 402 without a payment           |
 * | 4    | identify  | `identify.ts`         | Signed: payer, key, offer                          |
 * | 5    | replay    | `replay.ts`           | the reply of the call that has the authorization   |
 * | 6    | verify    | `verify.ts`           | Verified: verdict                                  |
 * | 7    | admit     | `admit.ts`            | refused if the wallet owes, or is not allowed      |
 * | 8    | open      | `open.ts`             | OpenedCall: call, authorization                    |
 *
 * | delivery     | 9 work        | 10 result             | 11 settlement           | 12 reply                      |
 * | ------------ | ------------- | --------------------- | ----------------------- | ----------------------------- |
 * | inline       | at once       | stored with its claim | before the reply        | the result                    |
 * | hybrid       | at once       | stored with its claim | before the reply        | the result; 202 if it is late |
 * | job          | after the 202 | stored                | by a poll               | 202; a poll has the result    |
 * | upstream_job | at the vendor | fetched by a poll     | by a poll               | 202; a poll has the result    |
 * | stream       | at once       | stored at its end     | at the end of the reply | the answer, piece by piece    |
 *
 * A step returns the order with what it adds, or the reply that ends the call there. A poll (`poll.ts`) takes steps 4,
 * 11 and 12 for a call that is open.
 */
import type { Engine } from '../engine.ts'
import type { Sold } from '../endpoint/mod.ts'
import type { RequestContext } from '../endpoint/request_context.ts'
import { addressKey } from '../http/caller_address.ts'
import { ApiError } from '../http/errors.ts'
import { isReply, type Reply } from '../http/reply.ts'
import { holdOn } from '../http/body_bytes.ts'
import { refusalHeaders } from '../x402/protocol.ts'
import { admit } from './admit.ts'
import { deliver } from './delivery/deliver.ts'
import type { OpenedCall } from './work/opened_call.ts'
import { identify } from './identify.ts'
import { open } from './open.ts'
import type { Incoming } from './order.ts'
import { requirePayment } from './payment_required.ts'
import { price } from './price.ts'
import { read } from './read.ts'
import { refund } from './refund.ts'
import { replay } from './replay.ts'
import { verify } from './verify.ts'

/** A request to an endpoint that is sold. A refund of a deposit is asked for on the same routes, and is not a call. */
export async function handlePaid(
  engine: Engine,
  asking: { readonly endpoint: Sold; readonly requestContext: RequestContext },
): Promise<Reply> {
  const refunding = refund(engine, asking)
  if (refunding) return await refunding
  const hold = holdOn(engine.limits.bodies, addressKey(asking.requestContext.ip))
  try {
    return await takeSteps(engine, { ...asking, hold })
  } finally {
    hold.release()
  }
}

async function takeSteps(engine: Engine, incoming: Incoming): Promise<Reply> {
  // 1: read the request.
  const received = await read(engine, incoming)
  if (isReply(received)) return received

  // 2: validate and price it. What is free is served at once.
  const pricing = price(engine, received)
  const priced = pricing instanceof Promise ? await pricing : pricing
  if (isReply(priced)) return priced

  // 3: the challenge.
  const offered = requirePayment(engine, priced)
  if (isReply(offered)) return offered

  // 4 to 8: who signed, was it used, would it pay, may this wallet order; then the call is open.
  const signed = await identify(engine, offered)
  if (isReply(signed)) return signed
  const fresh = await replay(engine, signed)
  if (isReply(fresh)) return fresh
  const verified = await verify(engine, fresh)
  if (isReply(verified)) return verified
  const admitted = await admit(engine, verified)
  if (isReply(admitted)) return admitted
  const opened = await open(engine, admitted)
  if (isReply(opened)) return opened

  // 9 to 12: work, result, settlement and reply, in the order of the delivery.
  return await delivered(engine, opened)
}

/** A failure after verification says what it means for the payment (contract 1.65). */
async function delivered(engine: Engine, opened: OpenedCall): Promise<Reply> {
  try {
    const reply = await deliver(engine, opened)
    const hasOutcome = reply.status < 400 || 'payment-response' in reply.headers
    return hasOutcome ? reply : { ...reply, headers: { ...reply.headers, ...unpaidHeaders(opened) } }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    const headers = { ...error.parts.headers, ...unpaidHeaders(opened) }
    throw new ApiError(error.code, { ...error.parts, headers })
  }
}

function unpaidHeaders({ call: { offer, payer }, secured }: OpenedCall): Record<string, string> {
  const reason = 'the call failed; this payment was not charged'
  return refusalHeaders({ reason, network: offer.network, payer, extra: secured })
}
