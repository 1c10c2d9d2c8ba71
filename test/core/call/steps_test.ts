/** Each step of a paid call by itself: an engine and an order, without a gateway. */
import { expect, test } from 'bun:test'
import { admit } from '../../../core/call/admit.ts'
import { identify } from '../../../core/call/identify.ts'
import { open } from '../../../core/call/open.ts'
import type { Incoming } from '../../../core/call/order.ts'
import { requirePayment } from '../../../core/call/payment_required.ts'
import { price } from '../../../core/call/price.ts'
import { read } from '../../../core/call/read.ts'
import { replay } from '../../../core/call/replay.ts'
import { verify } from '../../../core/call/verify.ts'
import { requestContextOf } from '../../../core/endpoint/request_context.ts'
import type { Engine } from '../../../core/engine.ts'
import { isReply, type Reply } from '../../../core/http/reply.ts'
import { holdOn } from '../../../core/http/body_bytes.ts'
import { requestUrl } from '../../../core/http/request_url.ts'
import { buildEngine } from '../../../core/lifecycle/build_engine.ts'
import { sharedOf } from '../../../core/lifecycle/shared_by_gateways.ts'
import { catalog, endpoints, retention } from '../../../core/mod.ts'
import { router } from '../../../core/serving/router.ts'
import { encodePayment, FOX, GENERATIONS, kit, ORIGIN } from '../../kit.ts'

function engineAndBuyer() {
  const { ports, chain, clock } = kit()
  const { sold } = router(endpoints)
  const building = { sold, names: new Set<string>(), ports, retention, shared: sharedOf(ports.storage) }
  const engine = buildEngine({ ports, catalog: catalog() }, building)
  const endpoint = sold.get('images.generations')
  if (!endpoint) throw new Error('images are not sold')
  const incoming = (headers: Readonly<Record<string, string>> = {}): Incoming => {
    const request = new Request(ORIGIN + GENERATIONS, { method: 'POST', headers, body: JSON.stringify(FOX) })
    const at = { caller: { ip: '' }, params: {}, bazaar: () => undefined }
    const requestContext = requestContextOf(request, requestUrl(request), at)
    return { endpoint, requestContext, hold: holdOn(engine.limits.bodies, '') }
  }
  const from = chain.wallet('ann')
  chain.fund(from, 1_000_000n)
  const paying = async () => {
    const { price: listed } = order(await price(engine, order(await read(engine, incoming()))))
    const [offer] = engine.offers.at(listed)
    if (!offer) throw new Error('nothing is on offer')
    return incoming({ 'payment-signature': encodePayment(chain.sign(offer, { from, now: clock.now() })) })
  }
  return { engine, incoming, paying, from }
}

function order<Order extends object>(result: Order | Reply): Order {
  if (isReply(result)) throw new Error(`${result.status}: ${String(result.body)}`)
  return result
}

async function signedOrder(engine: Engine, incoming: Incoming) {
  const priced = order(await price(engine, order(await read(engine, incoming))))
  return order(await identify(engine, order(requirePayment(engine, priced))))
}

test('an order without a payment is read and priced, and asked for one', async () => {
  const { engine, incoming } = engineAndBuyer()
  const received = order(await read(engine, incoming()))
  expect([received.isProbe, received.given]).toEqual([true, FOX])
  const priced = order(await price(engine, received))
  expect(priced.price.amount > 0n).toBe(true)
  const reply = requirePayment(engine, priced)
  expect(isReply(reply) && reply.status).toBe(402)
})

test('each step adds to a paid order, and the last one opens a call', async () => {
  const { engine, paying, from } = engineAndBuyer()
  const signed = await signedOrder(engine, await paying())
  expect([signed.payer, signed.offer.amount]).toEqual([from, String(signed.price.amount)])
  expect(await replay(engine, signed)).toBe(signed)
  const verified = order(await verify(engine, signed))
  expect(verified.verdict.kind).toBe('valid')
  expect(await admit(engine, verified)).toBe(verified)
  const { call } = order(await open(engine, verified))
  expect([call.payer, call.workStatus, call.paymentStatus]).toEqual([from, 'queued', 'verified'])
})

test('an authorization that opened a call is a replay for the next order', async () => {
  const { engine, paying } = engineAndBuyer()
  const signed = await signedOrder(engine, await paying())
  order(await open(engine, order(await verify(engine, signed))))
  const reply = await replay(engine, signed)
  expect(isReply(reply) && reply.status).toBe(402)
})
