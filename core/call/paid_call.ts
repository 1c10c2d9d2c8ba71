/** One paid call from start to finish. This file alone knows the order of work and payment (decision 9). */
import type { Free, Paid, Polled, Price, RequestHead, Sold } from '../endpoint/mod.ts'
import { addressKey } from '../http/caller_address.ts'
import type { Reply } from '../http/reply.ts'
import { ApiError } from '../http/errors.ts'
import { holdOn, UNCOUNTED } from '../http/request_body.ts'
import { silent } from '../ports/meter.ts'
import type { Call } from '../ports/mod.ts'
import { refusalHeaders } from '../x402/protocol.ts'
import { paymentAcceptance } from './accept_payment.ts'
import { challenges } from './payment_required.ts'
import type { Engine } from '../engine.ts'
import type { OpenedCall } from './work/opened_call.ts'
import { cancelCall } from './delivery/background.ts'
import { deliver, serveFree } from './delivery/deliver.ts'
import { drainStreams } from './delivery/deliveries.ts'
import { pollUpstream, type Seen } from './delivery/upstream_poll.ts'
import { orders } from './order.ts'
import { polls } from './poll.ts'
import { refunds } from './refund/mod.ts'
import { paymentHeader, type RequestContext } from '../endpoint/request_context.ts'

export type CallHandlers = {
  handlePaid(endpoint: Sold, requestContext: RequestContext): Promise<Reply>
  /** The 402 for a probe without a body, at the default price (contract 1.53). */
  discover(endpoint: Sold | Free, requestContext: RequestContext): Promise<Reply>
  poll(endpoint: Polled, requestContext: RequestContext, id: string): Promise<Reply>
  /** Polls the vendor of an upstream job. */
  pollUpstream(endpoint: Paid, call: Call): Promise<Seen>
  /** Cancels an unfinished call, which then costs nothing. False when it had already ended. */
  cancel(id: string, why: string): Promise<boolean>
  drain(): number
}

/**
 * In bytes or characters: to parse, to check and to write out more takes tens of milliseconds each, and others are
 * answered in between.
 */
const LARGE_BODY = 4 << 20

export function callHandlers(engine: Engine): CallHandlers {
  const { ports, settings, limits, offers: offering } = engine
  const { clock, meter = silent } = ports
  const { controls } = limits
  const { poll, collect, recovery } = polls(engine)
  const { receive, check, unchecked, rationFree } = orders(engine)
  const { quote, demand, discover } = challenges(engine, { check, unchecked })
  const refundOf = refunds({ ports, timeouts: settings.timeouts, offering, pollUrls: engine.identity.pollUrls, demand })
  const acceptPayment = paymentAcceptance(engine, { demand, collect, recovery })

  return {
    handlePaid,
    discover: (endpoint, requestContext) => refundOf(endpoint, requestContext) ?? discover(endpoint, requestContext),
    poll,
    pollUpstream: (endpoint, call) => pollUpstream(engine, endpoint, call),
    cancel: (id, why) => cancelCall(engine, id, why),
    drain: () => drainStreams(engine),
  }

  async function handlePaid(endpoint: Sold, requestContext: RequestContext): Promise<Reply> {
    const refunded = refundOf(endpoint, requestContext)
    if (refunded) return await refunded
    const hold = holdOn(limits.bodies, addressKey(requestContext.ip))
    try {
      // 1: read the request.
      const header = paymentHeader(requestContext.request)
      const { body, value } = await receive(endpoint, requestContext, hold)
      if (body.length === 0 && header === null && endpoint.from === 'body')
        return await discover(endpoint, requestContext)
      const counting = limits.unpaidWork.from(requestContext.ip)
      if (body.length > UNCOUNTED) counting.read(body.length)
      const parsed = value()
      const received = parsed instanceof Promise ? await parsed : parsed
      if (body.length > LARGE_BODY) await clock.wait(0)

      // 2: price it. Some endpoints quote before they validate, so that a probe always learns the price.
      const probed =
        header === null && endpoint.order === 'quote_then_check' ? unchecked(endpoint as Paid, received) : undefined
      const checking =
        probed && probed.price !== 'free'
          ? probed
          : check(endpoint, received, { head: requestHeadOf(requestContext), countTokens: counting.countTokens })
      const { input, price: listed } = checking instanceof Promise ? await checking : checking
      if (listed === 'free') return await serveFreeOrder(endpoint, input, requestContext)
      const price = priced(endpoint, listed, requestContext)

      // 3: the challenge.
      if (header === null) {
        controls?.requireOpen()
        const reply = quote(endpoint, requestContext, price)
        meter.quoted(endpoint.name)
        return reply
      }
      const offers = offering.at(price)
      if (body.length > LARGE_BODY) await clock.wait(0)

      // 4 to 7: identify the payer, find replays, verify the payment, open the call.
      const bodyText = typeof body === 'string' ? body : JSON.stringify(received)
      const accepted = await acceptPayment({
        endpoint,
        input,
        price,
        offers,
        counting,
        bodyText,
        requestContext,
        quotedAt: clock.now(),
      })
      if (accepted.kind === 'reply') return accepted.reply

      // 8 to 12: work, result, settlement and reply, by the delivery of the endpoint.
      return await serve(accepted.opened)
    } finally {
      hold.release()
    }
  }

  /** The price with the operator's margin: that of the quote which was signed, where it can still be paid. */
  function priced(endpoint: Sold, listed: Price, requestContext: RequestContext): Price {
    if (!controls) return listed
    const decoded = requestContext.payment
    return decoded?.ok
      ? controls.honoured(endpoint, listed, decoded.payment.accepted.amount)
      : controls.marked(endpoint, listed)
  }

  /** Free answers are rate limited by address; a payment in the request is ignored (contract 1.55). */
  async function serveFreeOrder(endpoint: Sold, input: unknown, requestContext: RequestContext): Promise<Reply> {
    controls?.requireOpen()
    await rationFree(endpoint, requestContext)
    return await serveFree(engine, { endpoint, input, requestContext })
  }

  async function serve({ secured, ...working }: OpenedCall): Promise<Reply> {
    try {
      const reply = await deliver(engine, working)
      const hasOutcome = reply.status < 400 || 'payment-response' in reply.headers
      return hasOutcome ? reply : { ...reply, headers: { ...reply.headers, ...unpaidHeaders(working.call, secured) } }
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      throw new ApiError(error.code, {
        ...error.parts,
        headers: { ...error.parts.headers, ...unpaidHeaders(working.call, secured) },
      })
    }
  }
}

/** Headers that say what a failure after verification means for the payment (contract 1.65). */
const unpaidHeaders = ({ offer, payer }: Call, extra: OpenedCall['secured']): Record<string, string> =>
  refusalHeaders({ reason: 'the call failed; this payment was not charged', network: offer.network, payer, extra })

const requestHeadOf = ({ params, request }: RequestContext): RequestHead => ({
  params,
  header: (name) => request.headers.get(name),
})
