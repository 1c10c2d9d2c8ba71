/** Step 1: reads and parses the body of an order. Uses neither the database nor the network. */
import type { Engine } from '../engine.ts'
import type { Sold } from '../endpoint/mod.ts'
import { refuseKeyInBody } from '../identity/presented_key.ts'
import { isForm, parseForm, readBody, readRaw, UNCOUNTED } from '../http/body_bytes.ts'
import { parseJson, textFields } from '../http/request_body.ts'
import type { Reply } from '../http/reply.ts'
import type { Incoming, Received } from './order.ts'
import { discover } from './payment_required.ts'

/** The raw body and a parser for it. */
type Body = {
  readonly body: string | Uint8Array
  /** A promise only where parsing takes long. */
  value(): unknown
}

/**
 * In bytes or characters: to parse, to check and to write out more takes tens of milliseconds each, and others are
 * answered in between.
 */
const LARGE_BODY = 4 << 20

/** A request without a payment or a body is a probe, and is answered with the default price. */
export async function read(engine: Engine, incoming: Incoming): Promise<Received | Reply> {
  const { endpoint, requestContext } = incoming
  const isProbe = requestContext.payment === undefined && !requestContext.apiKey
  const { body, value } = await bodyOf(engine, { ...incoming, isProbe })
  if (body.length === 0 && isProbe && endpoint.from === 'body') return await discover(engine, incoming)
  const counting = engine.limits.unpaidWork.from(requestContext.ip)
  if (body.length > UNCOUNTED) counting.read(body.length)
  if (engine.ports.chain.apiKeys) refuseKeyInBody(body)
  const quotes = endpoint.delivery === 'stream' && !isProbe ? endpoint.quoted?.(engine.products.context) : undefined
  const quoted = quotes?.take({ requestContext, body })
  if (quoted) return { ...incoming, body, given: undefined, quoted, isProbe, counting }
  const parsed = value()
  const given = parsed instanceof Promise ? await parsed : parsed
  const pause = pauseIfLarge(engine, body)
  if (pause) await pause
  return { ...incoming, body, given, isProbe, counting }
}

/** Lets others be answered between the steps of a large order. */
export function pauseIfLarge({ ports: { clock } }: Engine, body: string | Uint8Array): Promise<void> | undefined {
  return body.length > LARGE_BODY ? clock.wait(0) : undefined
}

type Reading = Incoming & Pick<Received, 'isProbe'>

/** The body of a request: multipart where the endpoint takes forms, otherwise JSON. */
async function bodyOf(engine: Engine, reading: Reading): Promise<Body> {
  const { endpoint, requestContext, hold } = reading
  if (endpoint.arrange) return await arrangedBody(engine, reading, endpoint.arrange)
  if (endpoint.from === 'query') return await queryBody(engine, reading)
  const { maxBody, maxUpload } = engine.settings
  const { request } = requestContext
  const type = request.headers.get('content-type')
  if (endpoint.multipart && isForm(type)) {
    const body = await readRaw(request, maxUpload, hold)
    return { body, value: async () => await endpoint.multipart?.(await parseForm(body, type)) }
  }
  const body = await readBody(request, endpoint.uploads ? maxUpload : maxBody, hold)
  return { body, value: () => parseJson(body, type, engine.ports.clock) }
}

/** The body of an endpoint that arranges its input from the path, the query and the body. */
async function arrangedBody(engine: Engine, reading: Reading, arrange: NonNullable<Sold['arrange']>): Promise<Body> {
  const { params, query, request } = reading.requestContext
  const written = await writtenBody(engine, reading)
  const type = request.headers.get('content-type')
  const parse = async () => (written === '' ? undefined : await parseJson(written, type, engine.ports.clock))
  const fields = Object.fromEntries(query)
  const value = async () =>
    arrange({ params, query: fields, body: await (isUnchecked(reading) ? orElse(parse, undefined) : parse()) })
  return { body: written === '' && query.size === 0 ? '' : JSON.stringify(fields) + written, value }
}

/** The body of an endpoint that takes its input from the query; a POST may bring more. */
async function queryBody(engine: Engine, reading: Reading): Promise<Body> {
  const { endpoint, requestContext } = reading
  const { params, query, request } = requestContext
  const fields = {
    ...(endpoint.unknownFields === 'kept' ? everyQueryValue(query) : Object.fromEntries(query)),
    ...params,
  }
  const written = await writtenBody(engine, reading)
  if (written === '') return { body: JSON.stringify(fields), value: () => fields }
  const type = request.headers.get('content-type')
  const parse = async () => ({ ...textFields(await parseJson(written, type, engine.ports.clock)), ...fields })
  return {
    body: JSON.stringify(fields) + written,
    value: () => (isUnchecked(reading) ? orElse(parse, fields) : parse()),
  }
}

async function writtenBody({ settings }: Engine, { requestContext: { request }, hold }: Incoming): Promise<string> {
  return request.method === 'POST' ? await readBody(request, settings.maxBody, hold) : ''
}

/** Some endpoints quote before they validate, so a probe is not refused for its body. */
const isUnchecked = ({ endpoint, isProbe }: Reading): boolean => endpoint.order === 'quote_then_check' && isProbe

async function orElse<T>(parse: () => Promise<T>, otherwise: T): Promise<T> {
  try {
    return await parse()
  } catch {
    return otherwise
  }
}

/**
 * The query of a passthrough request. A repeated parameter becomes a list, which schemas that expect one text refuse:
 * dropping a value would change the question.
 */
function everyQueryValue(query: URLSearchParams): Record<string, string | string[]> {
  const values = new Map<string, string | string[]>()
  for (const [name, value] of query) {
    const before = values.get(name)
    if (Array.isArray(before)) before.push(value)
    else values.set(name, before === undefined ? value : [before, value])
  }
  return Object.fromEntries(values)
}
