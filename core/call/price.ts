/** Step 2: validates and prices an order (decision 54). Uses neither the database nor the network. */
import type { Engine } from '../engine.ts'
import type { Paid, Price, RequestHead, Sold, Streamed } from '../endpoint/mod.ts'
import type { RequestContext } from '../endpoint/request_context.ts'
import { ApiError } from '../http/errors.ts'
import type { Reply } from '../http/reply.ts'
import type { CountTokens } from '../ports/vendors/chat.ts'
import { serveFreeOrder } from './free_order.ts'
import type { Priced, Received } from './order.ts'

/** A validated input and its listed price. */
export type Listed = { readonly input: unknown; readonly price: Price | 'free' }
/** `quoting`: a request without a payment, whose input may be stored for the one with it. */
type Checking = {
  readonly given: unknown
  readonly head: RequestHead
  readonly countTokens: CountTokens
  readonly quoting?: Received | false
}

/**
 * The order with its price; the answer where it costs nothing. A promise only where something has to be counted or
 * served.
 */
export function price(engine: Engine, received: Received): Priced | Promise<Priced | Reply> {
  const listed = listedPrice(engine, received)
  return listed instanceof Promise
    ? listed.then<Priced | Reply>((counted) => priced(engine, received, counted))
    : priced(engine, received, listed)
}

function priced(engine: Engine, received: Received, { input, price: listed }: Listed): Priced | Promise<Reply> {
  if (listed === 'free') return serveFreeOrder(engine, { ...received, input })
  return { ...received, input, price: withMargin(engine, received, listed) }
}

/** Some endpoints quote before they validate, so that a probe always learns the price. */
function listedPrice(engine: Engine, received: Received): Listed | Promise<Listed> {
  const { endpoint, given, isProbe, requestContext, counting, quoted } = received
  if (quoted) return listedStream(engine, endpoint as Streamed, quoted.input)
  if (isProbe && endpoint.order === 'quote_then_check') {
    const unchecked = priceUnchecked(engine, endpoint as Paid, given)
    if (unchecked.price !== 'free') return unchecked
  }
  const quoting = isProbe && received
  const head = requestHeadOf(requestContext)
  return priceInput(engine, endpoint, { given, head, countTokens: counting.countTokens, quoting })
}

/** Validates and prices an input. Throws an ApiError when it is invalid, or when no configured vendor can serve it. */
export function priceInput(engine: Engine, endpoint: Sold, checking: Checking): Listed | Promise<Listed> {
  const { context, parsers } = engine.products
  const read = parsers.get(endpoint)?.(checking.given) ?? {}
  if (endpoint.delivery === 'stream') return priceStreamed(engine, endpoint, { ...checking, read })
  const input = endpoint.check(read, context)
  requireAvailable(engine, endpoint, input)
  const listed = (measured: unknown): Listed => ({ input: measured, price: endpoint.price(measured, context) })
  if (!endpoint.measure) return listed(input)
  return endpoint.measure(input, { ...context, countTokens: checking.countTokens }).then(listed)
}

async function priceStreamed(
  engine: Engine,
  endpoint: Streamed,
  { read, head, countTokens, quoting }: Checking & { readonly read: Record<string, unknown> },
): Promise<Listed> {
  const { context } = engine.products
  const quotes = quoting ? endpoint.quoted?.(context).begin(quoting, engine.ports.clock) : undefined
  const input = await endpoint.check(read, quotes?.head ?? head, { ...context, countTokens })
  const listed = listedStream(engine, endpoint, input)
  if (listed.price !== 'free') quotes?.store(input)
  return listed
}

/** The price of a checked input, which may have been checked a moment ago. */
function listedStream(engine: Engine, endpoint: Streamed, input: unknown): Listed {
  requireAvailable(engine, endpoint, input)
  return { input, price: endpoint.price(input, engine.products.context) }
}

/** Prices raw input without validating it. Bad input is refused when the call is paid. */
export function priceUnchecked({ products: { context } }: Engine, endpoint: Paid, given: unknown): Listed {
  if (!endpoint.isAvailable(given, context)) throw notConfigured(endpoint)
  return { input: given, price: endpoint.price(given, context) }
}

/** The price with the operator's margin: that of the quote which was signed, where it can still be paid. */
function withMargin(
  { limits: { controls } }: Engine,
  { endpoint, requestContext: { payment } }: Received,
  listed: Price,
): Price {
  if (!controls) return listed
  return payment?.ok
    ? controls.honoured(endpoint, listed, payment.payment.accepted.amount)
    : controls.marked(endpoint, listed)
}

function requireAvailable({ products: { context } }: Engine, endpoint: Sold, input: unknown): void {
  if (!endpoint.isAvailable(input, context)) throw notConfigured(endpoint, endpoint.remember(input).model)
}

/** The error names the requested model, or the service when there is none. */
function notConfigured({ name }: Sold, model: string | null = null): ApiError {
  return new ApiError('NOT_CONFIGURED', {
    message: `${model ?? name.split('.', 1)[0]}: the operator has not configured it. Nothing was charged.`,
  })
}

const requestHeadOf = ({ params, request }: RequestContext): RequestHead => ({
  params,
  header: (name) => request.headers.get(name),
})
