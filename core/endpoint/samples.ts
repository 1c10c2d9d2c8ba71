/** Sample requests: shown in documents, given to indexers, and used for default prices. */
import {
  type Endpoint,
  isSold,
  type Offering,
  type Paid,
  type Price,
  type Sample,
  type Sold,
  type Streamed,
  type StreamedContext,
} from './mod.ts'
import { asQuoted } from './prices.ts'
import { ApiError } from '../http/errors.ts'

/** A complete request by its parts. `price` is undefined when no configured vendor can serve it. */
export type Trial = Required<Pick<Sample, 'path' | 'query'>> & {
  readonly body?: unknown
  readonly price?: Price | 'free' | undefined
}

type Fields = Readonly<Record<string, unknown>>

/** The parameter names of a path, in order. */
export function namesIn(path: string): readonly string[] {
  return [...path.matchAll(/\{(\w+)(?:\.{3})?\}/g)].map(([, name = '']) => name)
}

/** The request in an endpoint's documented example. */
export function trialOf(endpoint: Endpoint, offering: Offering): Trial {
  if (endpoint.kind === 'poll' || (endpoint.kind === 'free' && endpoint.follows)) return NO_EXAMPLE
  if (endpoint.kind === 'free')
    return freeTrial(endpoint.path, typeof endpoint.sample === 'function' ? endpoint.sample(offering) : endpoint.sample)
  const sample = orderOf(endpoint, offering)
  const names = namesIn(endpoint.path)
  const isIn = (name: string) => names.includes(name)
  if (endpoint.from === 'body') return { path: textFields(sample, isIn), query: {}, body: sample }
  return { path: textFields(sample, isIn), query: textFields(sample, (name) => !isIn(name)) }
}

/** Polls need the id of an order, so no example of them could be answered. */
const NO_EXAMPLE: Trial = { path: {}, query: {} }

function freeTrial(path: string, { path: given = {}, query = {}, body }: Sample = {}): Trial {
  const names = namesIn(path).map((name) => [name, given[name] ?? name])
  return { path: Object.fromEntries(names), query, ...(body !== undefined && { body }) }
}

function textFields(sample: Fields, isOne: (name: string) => boolean): Record<string, string> {
  return Object.fromEntries(
    Object.entries(sample).flatMap(([name, value]) => (isOne(name) ? [[name, String(value)]] : [])),
  )
}

const orderOf = (endpoint: Sold, offering: Offering): Fields =>
  endpoint.delivery === 'stream'
    ? endpoint.sample(offering)
    : ((endpoint.sample(offering) ?? endpoint.example) as Fields)

/** The same with its price. Never rejects: a sample that cannot be priced has none. */
export async function pricedTrial(endpoint: Sold, context: StreamedContext): Promise<Trial> {
  const trial = trialOf(endpoint, context)
  const { price, ...request } =
    endpoint.delivery === 'stream'
      ? await streamedTrial(endpoint, trial, context)
      : { ...trial, price: await measuredPrice(endpoint, context).catch(apiErrorOnly) }
  return { ...request, price: price && price !== 'free' ? asQuoted(endpoint, price, context) : price }
}

/** The endpoints that this gateway can serve as it is configured, in order. */
export function offeredIn(endpoints: readonly Endpoint[], offering: Offering): readonly Endpoint[] {
  const sold = new Set(endpoints.filter((endpoint) => isSold(endpoint) && isServed(endpoint, offering)))
  const isPolled = (names: readonly string[] | 'all') =>
    names === 'all' ? sold.size > 0 : [...sold].some(({ name }) => names.includes(name))
  return endpoints.filter((endpoint) =>
    endpoint.kind === 'poll'
      ? isPolled(endpoint.of)
      : sold.has(endpoint) || (!isSold(endpoint) && isServed(endpoint, offering)),
  )
}

function isServed(endpoint: Exclude<Endpoint, { kind: 'poll' }>, offering: Offering): boolean {
  if (endpoint.isOffered) return endpoint.isOffered(offering)
  if (endpoint.kind === 'free' || endpoint.delivery === 'stream') return true
  return quiet(() => paidPrice(endpoint, offering)) !== undefined
}

async function measuredPrice(endpoint: Paid, context: StreamedContext): Promise<Price | 'free' | undefined> {
  if (!endpoint.measure) return paidPrice(endpoint, context)
  const input = endpoint.check(orderOf(endpoint, context), context)
  if (!endpoint.isAvailable(input, context)) return undefined
  return endpoint.price(await endpoint.measure(input, context), context)
}

function paidPrice(endpoint: Paid, context: Offering): Price | 'free' | undefined {
  const sample = orderOf(endpoint, context)
  const input = endpoint.order === 'quote_then_check' ? sample : endpoint.check(sample, context)
  return endpoint.isAvailable(input, context) ? endpoint.price(input, context) : undefined
}

/** When the path names a model and the sample does not, uses the first model that the endpoint accepts. */
async function streamedTrial(endpoint: Streamed, trial: Trial, context: StreamedContext): Promise<Trial> {
  const body = trial.body as Parameters<Streamed['check']>[0]
  const missing = namesIn(endpoint.path).filter((name) => trial.path[name] === undefined)
  const ids =
    missing.length === 0 ? [undefined] : context.catalog.chat.all.filter(({ hidden }) => !hidden).map(({ id }) => id)
  for (const id of ids) {
    const params = { ...trial.path, ...Object.fromEntries(missing.map((name) => [name, id ?? name])) }
    const input = await endpoint.check(body, { params, header: () => null }, context).catch(apiErrorOnly)
    if (input !== undefined && endpoint.isAvailable(input, context))
      return { ...trial, path: params, price: endpoint.price(input, context) }
  }
  return { ...trial, path: { ...Object.fromEntries(missing.map((name) => [name, name])), ...trial.path } }
}

function quiet<T>(ask: () => T): T | undefined {
  try {
    return ask()
  } catch (error) {
    return apiErrorOnly(error)
  }
}

function apiErrorOnly(error: unknown): undefined {
  if (!(error instanceof ApiError)) throw error
}
