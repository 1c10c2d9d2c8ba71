/**
 * Step 3 of a paid call: the 402 for requests without a payment, and for probes. Uses neither the database nor the
 * network.
 */
import { boundedMap } from '../lib/bounded_map.ts'
import type { Free, Price, RequestHead, Sold } from '../endpoint/mod.ts'
import * as replies from '../endpoint/replies.ts'
import { isBrowser } from '../http/browser_402.ts'
import type { Reply } from '../http/reply.ts'
import { usdc } from '../x402/money.ts'
import type { Offer } from '../x402/protocol.ts'
import type { Engine } from '../engine.ts'
import type { Orders } from './order.ts'
import { besideOf, paymentHeader, type RequestContext, resourceOf } from '../endpoint/request_context.ts'

/** The price, the offers, and the body fields that say why payment is required. `error` is a code of the scheme. */
export type Demand = {
  readonly price: Price
  readonly offers: readonly Offer[]
  readonly why: replies.Body
  readonly error?: string
}

export type Challenges = {
  /** The 402 for an order without a payment. */
  quote(endpoint: Sold, requestContext: RequestContext, price: Price): Reply
  demand(endpoint: Sold | Free, requestContext: RequestContext, demanded: Demand): Reply
  /** The 402 for a probe without a body, at the default price (contract 1.53). */
  discover(endpoint: Sold | Free, requestContext: RequestContext): Promise<Reply>
}

/** A finished 402 and the offers that it makes. */
type Written = { readonly offers: readonly Offer[]; readonly reply: Reply }

export function challenges(
  { gateway: { label }, products: { context }, offers: offering, limits: { controls } }: Engine,
  { check, unchecked }: Pick<Orders, 'check' | 'unchecked'>,
): Challenges {
  const shared = sharedPrice()
  let written = new WeakMap<Price, Map<string, Written>>()
  let count = 0

  return { quote, demand, discover }

  /** A 402 depends only on the price, the offers and the URL, so it is built once and kept until the offers change. */
  function quote(endpoint: Sold, requestContext: RequestContext, wanted: Price): Reply {
    const { request, origin, path } = requestContext
    const price = shared(wanted)
    const offers = offering.at(price)
    const isPage = isBrowser(request.headers)
    const key = `${endpoint.name} ${besideOf(request, isPage)} ${origin}${path}`
    const known = isPage ? undefined : written.get(price)?.get(key)
    if (known?.offers === offers) return known.reply
    const made = demand(endpoint, requestContext, { offers, price, why: replies.paymentRequired(price) })
    if (isPage) return made
    const reply = { ...made, headers: Object.freeze(made.headers) }
    store(price, key, { offers, reply })
    return reply
  }

  function store(price: Price, key: string, made: Written): void {
    if (count >= MAX_WRITTEN) written = new WeakMap()
    count = count >= MAX_WRITTEN ? 1 : count + 1
    const ofPrice = written.get(price) ?? new Map<string, Written>()
    written.set(price, ofPrice.set(key, made))
  }

  async function discover(endpoint: Sold | Free, requestContext: RequestContext): Promise<Reply> {
    if (endpoint.kind === 'free') return ofNothing(endpoint, requestContext)
    controls?.requireOpen()
    if (endpoint.order === 'quote_then_check' && endpoint.delivery !== 'stream') {
      const sample =
        endpoint.from === 'query'
          ? { ...Object.fromEntries(requestContext.query), ...requestContext.params }
          : { ...(endpoint.sample(context) ?? (endpoint.example as object)), ...requestContext.params }
      const { price: listed } = unchecked(endpoint, sample)
      if (listed === 'free') return ofNothing(endpoint, requestContext)
      const price = controls?.marked(endpoint, listed) ?? listed
      return demand(endpoint, requestContext, {
        offers: offering.at(price),
        price,
        why: replies.paymentRequired(price),
      })
    }
    const sample =
      endpoint.delivery === 'stream' ? endpoint.sample(context) : (endpoint.sample(context) ?? endpoint.example)
    const { price: listed } = await check(endpoint, sample, { head: NO_REQUEST_HEAD, countTokens: context.countTokens })
    if (listed === 'free') return ofNothing(endpoint, requestContext)
    const price = controls?.marked(endpoint, listed) ?? listed
    const also =
      endpoint.delivery !== 'stream' && endpoint.discovery
        ? { ...price.also, ...endpoint.discovery(context) }
        : price.also
    return demand(endpoint, requestContext, {
      offers: offering.at(price),
      price: also ? { ...price, also } : price,
      why: replies.paymentRequired(price),
    })
  }

  /**
   * The discovery 402 of a free endpoint asks for no payment. The methods of a path then do not depend on its price.
   */
  function ofNothing(endpoint: Sold | Free, requestContext: RequestContext): Reply {
    const why = replies.freeOfCharge(endpoint.summary)
    return demand(endpoint, requestContext, { offers: offering.at(NOTHING), price: NOTHING, why })
  }

  function demand(endpoint: Sold | Free, requestContext: RequestContext, { offers, price, why, error }: Demand): Reply {
    const resource = resourceOf(endpoint, requestContext)
    const asking = {
      offers,
      resource: error === undefined ? resource : { ...resource, error },
      label,
      origin: requestContext.origin,
      errorFormat: endpoint.errorFormat ?? 'plain',
      beside: besideOf(requestContext.request),
    }
    const reply = replies.demand(asking, why, replies.publicPrice(price), price.also)
    const isVisitor = paymentHeader(requestContext.request) === null && isBrowser(requestContext.request.headers)
    return isVisitor ? replies.demandPage(reply, asking) : reply
  }
}

/** Maximum number of cached 402s, about 8 KB each, and of prices that are kept to find them by. */
const MAX_WRITTEN = 500

/** One frozen price for all that are equal. */
function sharedPrice(): (price: Price) => Price {
  const known = boundedMap<Price>(MAX_WRITTEN)
  return (price) => {
    if (Object.isFrozen(price)) return price
    const { maxTimeoutSeconds, also } = price
    const key = `${maxTimeoutSeconds} ${JSON.stringify([replies.publicPrice(price), also])}`
    const before = known.get(key)
    if (before) return before
    const first = Object.freeze({ ...price })
    known.set(key, first)
    return first
  }
}

/** A price of zero, for free endpoints. */
const NOTHING: Price = { amount: usdc(0n), maxTimeoutSeconds: 300, publicPrice: {} }
const NO_REQUEST_HEAD: RequestHead = { params: {}, header: () => null }
