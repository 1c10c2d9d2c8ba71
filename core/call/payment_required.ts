/**
 * Step 3: the 402 for requests without a payment, and for probes. Uses neither the database nor the network.
 */
import type { Engine } from '../engine.ts'
import type { Free, Price, RequestHead, Sold } from '../endpoint/mod.ts'
import * as demands from '../endpoint/demands.ts'
import { chargingOf } from '../endpoint/charging.ts'
import { besideOf, paymentHeader, type RequestContext, resourceOf } from '../endpoint/request_context.ts'
import { isBrowser } from '../http/browser_402.ts'
import type { Reply } from '../http/reply.ts'
import { oncePer } from '../lib/once_per.ts'
import type { ChargeFor } from '../mpp/challenge.ts'
import type { ChargeMethod } from '../mpp/method.ts'
import type { Problem } from '../mpp/problem.ts'
import { silent } from '../ports/meter.ts'
import { usdc } from '../x402/money.ts'
import type { Offer } from '../x402/protocol.ts'
import type { Offered, Priced } from './order.ts'
import { type Listed, priceInput, priceUnchecked } from './price.ts'

/** A request, whatever it asks for. */
export type Asking = { readonly endpoint: Sold | Free; readonly requestContext: RequestContext }

/** The price, the offers, and the body fields that say why payment is required. `error` is a code of the scheme. */
type Demand = {
  readonly price: Price
  readonly offers: readonly Offer[]
  readonly why: demands.Body
  readonly error?: string
  readonly problem?: Problem
}

/** The 402 for an order without a payment; for one with a payment, the offers that it may pay. */
export function requirePayment(engine: Engine, order: Priced): Offered | Reply {
  const { ports, offers, limits } = engine
  const { meter = silent } = ports
  const { endpoint, price } = order
  if (!order.isProbe) return { ...order, offers: offers.at(price), quotedAt: ports.clock.now() }
  limits.controls?.requireOpen()
  const reply = quote(engine, order, price)
  meter.quoted(endpoint.name)
  return reply
}

/** The 402 for an order without a payment. It is built once and kept until the offers change. */
function quote(engine: Engine, asking: Asking, wanted: Price): Reply {
  const { quotes } = engine.products
  const { endpoint, requestContext } = asking
  const { request, origin, path } = requestContext
  const price = quotes.shared(wanted)
  const offers = engine.offers.at(price)
  const isPage = isBrowser(request.headers)
  const { charge, hasX402 } = chargingFor(engine, requestContext, offers)
  const key = `${endpoint.name} ${besideOf(request, isPage)} ${hasX402} ${charge ? keyOf(charge) : ''} ${origin}${path}`
  const known = isPage ? undefined : quotes.find(price, key, offers)
  if (known) return known
  const made = demand(engine, asking, { offers, price, why: demands.paymentRequired(price) })
  if (isPage) return made
  const reply = { ...made, headers: Object.freeze(made.headers) }
  quotes.store(price, key, { offers, reply })
  return reply
}

/** The 402 for a probe without a body, at the default price (contract 1.53). */
export async function discover(engine: Engine, { endpoint, requestContext }: Asking): Promise<Reply> {
  if (endpoint.kind === 'free') return demandNothing(engine, { endpoint, requestContext })
  const { context } = engine.products
  const { controls } = engine.limits
  controls?.requireOpen()
  const { price: listed } = await sampleOf(engine, endpoint, requestContext)
  if (listed === 'free') return demandNothing(engine, { endpoint, requestContext })
  const price = controls?.marked(endpoint, listed) ?? listed
  const discovery =
    endpoint.delivery !== 'stream' && endpoint.order !== 'quote_then_check' ? endpoint.discovery?.(context) : undefined
  return demand(
    engine,
    { endpoint, requestContext },
    {
      offers: engine.offers.at(price),
      price: discovery ? { ...price, also: { ...price.also, ...discovery } } : price,
      why: demands.paymentRequired(price),
    },
  )
}

/** The input that a probe asks the price of. */
function sampleOf(engine: Engine, endpoint: Sold, { query, params }: RequestContext): Listed | Promise<Listed> {
  const { context } = engine.products
  if (endpoint.order === 'quote_then_check' && endpoint.delivery !== 'stream') {
    const fields =
      endpoint.from === 'query' ? Object.fromEntries(query) : (endpoint.sample(context) ?? (endpoint.example as object))
    return priceUnchecked(engine, endpoint, { ...fields, ...params })
  }
  const given =
    endpoint.delivery === 'stream' ? endpoint.sample(context) : (endpoint.sample(context) ?? endpoint.example)
  return priceInput(engine, endpoint, { given, head: NO_REQUEST_HEAD, countTokens: context.countTokens })
}

/**
 * The discovery 402 of a free endpoint asks for no payment. The methods of a path then do not depend on its price.
 */
function demandNothing(engine: Engine, asking: Asking): Reply {
  const why = demands.freeOfCharge(asking.endpoint.summary)
  return demand(engine, asking, { offers: engine.offers.at(NOTHING), price: NOTHING, why })
}

/** A 402 with these offers; a page for a person in a browser who has not paid. */
export function demand(
  engine: Engine,
  { endpoint, requestContext }: Asking,
  { offers, price, why, error, problem }: Demand,
): Reply {
  const { label, documents } = engine.gateway
  const resource = resourceOf(endpoint, requestContext)
  const asking = {
    offers,
    resource: error === undefined ? resource : { ...resource, error },
    label,
    origin: requestContext.origin,
    errorFormat: endpoint.errorFormat ?? 'plain',
    help: demands.helpAt(requestContext.origin, documents),
    beside: besideOf(requestContext.request),
    charging: chargingFor(engine, requestContext, offers),
    ...(problem && { problem }),
  }
  const reply = demands.demand(asking, why, demands.publicPrice(price), price.also)
  const isVisitor = paymentHeader(requestContext.request) === null && isBrowser(requestContext.request.headers)
  return isVisitor ? demands.demandPage(reply, asking) : reply
}

/** How the 402 speaks of MPP: where it is on, and one of the offers can be paid by it. */
export const chargingFor = ({ charges }: Engine, requestContext: RequestContext, offers: readonly Offer[]) =>
  chargingOf(requestContext, charges ? methodsFor(charges.methods, offers) : [])

type Methods = readonly ChargeMethod[]
const fitting = new WeakMap<readonly Offer[], { readonly of: Methods; readonly methods: Methods }>()

/** Those that one of the offers can be paid by. */
function methodsFor(of: Methods, offers: readonly Offer[]): Methods {
  const known = fitting.get(offers)
  if (known?.of === of) return known.methods
  const methods = of.filter((each) => offers.some((offer) => each.isFor(offer)))
  fitting.set(offers, { of, methods })
  return methods
}

/** Equal for challenges that say the same. */
const keyOf = oncePer(
  ({ methods, header, realm }: ChargeFor) => `${methods.map(({ name }) => name)} ${header} ${realm}`,
)

/** A price of zero, for free endpoints. */
const NOTHING: Price = { amount: usdc(0n), maxTimeoutSeconds: 300, publicPrice: {} }
const NO_REQUEST_HEAD: RequestHead = { params: {}, header: () => null }
