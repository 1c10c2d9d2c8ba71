/** Requests that anybody may try: what documents show, indexers are told, and default prices are made from. */
import type { Endpoint, Streamed, StreamedContext, Offering, Paid, Price, Sample, Sold } from './mod.ts'
import { ApiError } from '../http/errors.ts'

/** A whole request, in the parts in which it is sent. `price` is undefined where nobody here can serve it. */
export type Trial = Required<Pick<Sample, 'path' | 'query'>> & {
  readonly body?: unknown
  readonly price?: Price | 'free' | undefined
}

type Fields = Readonly<Record<string, unknown>>

/** The names in a path, in order. */
export function namesIn(path: string): readonly string[] {
  return [...path.matchAll(/\{(\w+)(?:\.{3})?\}/g)].map(([, name = '']) => name)
}

/** What is asked of an endpoint in the example of its documents. */
export function trialOf(endpoint: Endpoint, offering: Offering): Trial {
  if (endpoint.kind === 'poll')
    return { path: Object.fromEntries(namesIn(endpoint.path).map((name) => [name, NO_JOB])), query: {} }
  if (endpoint.kind === 'free')
    return freeTrial(endpoint.path, typeof endpoint.sample === 'function' ? endpoint.sample(offering) : endpoint.sample)
  const sample = orderOf(endpoint, offering)
  const names = namesIn(endpoint.path)
  const isIn = (name: string) => names.includes(name)
  if (endpoint.from === 'body') return { path: textFields(sample, isIn), query: {}, body: sample }
  return { path: textFields(sample, isIn), query: textFields(sample, (name) => !isIn(name)) }
}

/** The id of no job: whoever polls it is told so, and nothing else happens. */
const NO_JOB = '00000000000000000000000000000000'

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

/** The same with its price. Never rejects: what cannot be priced here has none. */
export async function pricedTrial(endpoint: Sold, context: StreamedContext): Promise<Trial> {
  const trial = trialOf(endpoint, context)
  if (endpoint.delivery === 'stream') return await streamedTrial(endpoint, trial, context)
  return { ...trial, price: quiet(() => paidPrice(endpoint, context)) }
}

function paidPrice(endpoint: Paid, context: StreamedContext): Price | 'free' | undefined {
  const sample = orderOf(endpoint, context)
  const input = endpoint.order === 'quote_then_check' ? sample : endpoint.check(sample, context)
  return endpoint.isAvailable(input, context) ? endpoint.price(input, context) : undefined
}

/** Where the path names a model that the sample does not, the first that the endpoint takes stands in it. */
async function streamedTrial(endpoint: Streamed, trial: Trial, context: StreamedContext): Promise<Trial> {
  const body = trial.body as Parameters<Streamed['check']>[0]
  const missing = namesIn(endpoint.path).filter((name) => trial.path[name] === undefined)
  const ids =
    missing.length === 0 ? [undefined] : context.catalog.chat.all.filter(({ hidden }) => !hidden).map(({ id }) => id)
  for (const id of ids) {
    const params = { ...trial.path, ...Object.fromEntries(missing.map((name) => [name, id ?? name])) }
    const input = await endpoint.check(body, { params, header: () => null }, context).catch(apiErrorOnly)
    if (input !== undefined && endpoint.isAvailable(input, context))
      return { ...trial, path: params, price: endpoint.price(input) }
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

/** The path of a trial, as it is sent. */
export function pathOf({ path }: Pick<Endpoint, 'path'>, trial: Pick<Trial, 'path' | 'query'>): string {
  const filled = path.replace(/\{(\w+)(\.{3})?\}/g, (_, name: string, rest: string | undefined) => {
    const value = trial.path[name] ?? name
    return rest ? value.split('/').map(encodeURIComponent).join('/') : encodeURIComponent(value)
  })
  const query = new URLSearchParams(trial.query).toString()
  return query === '' ? filled : `${filled}?${query}`
}
