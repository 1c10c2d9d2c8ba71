/** Steps 1 and 2 of a paid call: read, validate and price the request. Uses neither the database nor the network. */
import { addressKey } from '../http/caller_address.ts'
import { ApiError } from '../http/errors.ts'
import { freeTierSpent } from '../http/rate_limit.ts'
import { type Hold, isForm, parseForm, parseJson, readBody, readRaw, textFields } from '../http/request_body.ts'
import type { Paid, Price, RequestHead, Sold, Streamed } from '../endpoint/mod.ts'
import { clip } from '../lib/text.ts'
import type { CountTokens } from '../ports/vendors/chat.ts'
import type { Engine } from '../engine.ts'
import { paymentHeader, type RequestContext } from '../endpoint/request_context.ts'

/** A validated input and its price. */
export type Quoted = { readonly input: unknown; readonly price: Price | 'free' }
type Checking = { readonly head: RequestHead; readonly countTokens: CountTokens }
/** The raw body and a parser for it. */
export type Received = {
  readonly body: string | Uint8Array
  /** A promise only where parsing takes long. */
  value(): unknown
}

export type Orders = {
  receive(endpoint: Sold, requestContext: RequestContext, hold: Hold): Promise<Received>
  /** A promise only where something has to be counted. */
  check(endpoint: Sold, received: unknown, checking: Checking): Quoted | Promise<Quoted>
  unchecked(endpoint: Paid, received: unknown): Quoted
  /** Throws when an address has used up its free tier, or when the web page may not use it. */
  rationFree(endpoint: Sold, requestContext: RequestContext): Promise<void>
}

/** Reads and prices the orders of one gateway. */
export function orders({ ports, settings, products, limits }: Engine): Orders {
  const { clock } = ports
  const { context } = products

  return { receive, check, unchecked, rationFree }

  /** Reads the body and returns a parser for it: multipart where the endpoint takes forms, otherwise JSON. */
  async function receive(endpoint: Sold, requestContext: RequestContext, hold: Hold): Promise<Received> {
    const { request, params } = requestContext
    const type = request.headers.get('content-type')
    const isRaw = endpoint.order === 'quote_then_check' && paymentHeader(request) === null
    const { arrange } = endpoint
    if (arrange) {
      const { query } = requestContext
      const written = request.method === 'POST' ? await readBody(request, settings.maxBody, hold) : ''
      const read = async () => (written === '' ? undefined : await parseJson(written, type, clock))
      const fields = Object.fromEntries(query)
      const value = async () =>
        arrange({ params, query: fields, body: await (isRaw ? orElse(read, undefined) : read()) })
      return { body: written === '' && query.size === 0 ? '' : JSON.stringify(fields) + written, value }
    }
    if (endpoint.from === 'query') {
      const { query } = requestContext
      const fields = {
        ...(endpoint.unknownFields === 'kept' ? everyQueryValue(query) : Object.fromEntries(query)),
        ...params,
      }
      const written = request.method === 'POST' ? await readBody(request, settings.maxBody, hold) : ''
      if (written === '') return { body: JSON.stringify(fields), value: () => fields }
      const read = async () => ({ ...textFields(await parseJson(written, type, clock)), ...fields })
      return { body: JSON.stringify(fields) + written, value: () => (isRaw ? orElse(read, fields) : read()) }
    }
    if (endpoint.multipart && isForm(type)) {
      const body = await readRaw(request, settings.maxUpload, hold)
      return { body, value: async () => await endpoint.multipart?.(await parseForm(body, type)) }
    }
    const body = await readBody(request, endpoint.uploads ? settings.maxUpload : settings.maxBody, hold)
    return { body, value: () => parseJson(body, type, clock) }
  }

  /**
   * Validates and prices the order. Throws an ApiError when it is invalid, or when no configured vendor can serve it.
   */
  function check(endpoint: Sold, received: unknown, checking: Checking): Quoted | Promise<Quoted> {
    const read = products.parsers.get(endpoint)?.(received) ?? {}
    if (endpoint.delivery === 'stream') return checkStreamed(endpoint, read, checking)
    const input = endpoint.check(read, context)
    requireAvailable(endpoint, input)
    if (!endpoint.measure) return priced(endpoint, input)
    return endpoint
      .measure(input, { ...context, countTokens: checking.countTokens })
      .then((measured) => priced(endpoint, measured))
  }

  async function checkStreamed(
    endpoint: Streamed,
    read: Record<string, unknown>,
    { head, countTokens }: Checking,
  ): Promise<Quoted> {
    const input = await endpoint.check(read, head, { ...context, countTokens })
    requireAvailable(endpoint, input)
    return { input, price: endpoint.price(input, context) }
  }

  function requireAvailable(endpoint: Sold, input: unknown): void {
    if (!endpoint.isAvailable(input, context)) throw notConfigured(endpoint, endpoint.remember(input).model)
  }

  function priced(endpoint: Paid, input: unknown): Quoted {
    return { input, price: endpoint.price(input, context) }
  }

  /** Prices raw input without validating it. Bad input is refused when the call is paid. */
  function unchecked(endpoint: Paid, received: unknown): Quoted {
    if (!endpoint.isAvailable(received, context)) throw notConfigured(endpoint)
    return priced(endpoint, received)
  }

  /** Free answers are rate limited by address; a payment in the request is ignored (contract 1.55). */
  async function rationFree(endpoint: Sold, requestContext: RequestContext): Promise<void> {
    const page = requestContext.request.headers.get('origin')
    if (page !== null && settings.freeToOrigin?.(page) === false) throw foreignPage(page)
    const now = clock.now()
    const [bucket, all] =
      endpoint.delivery === 'stream'
        ? ['free', settings.freeTier]
        : [endpoint.name, endpoint.freeLimits ?? settings.freeTier]
    for (const window of all) {
      const { granted, resetAt } = await limits.windows.take(
        `${bucket}:${window.windowMs}`,
        addressKey(requestContext.ip),
        window,
        now,
      )
      if (!granted) throw freeTierSpent(window, resetAt, now)
    }
  }
}

async function orElse<T>(read: () => Promise<T>, otherwise: T): Promise<T> {
  try {
    return await read()
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

/** The error names the requested model, or the service when there is none. */
function notConfigured({ name }: Sold, model: string | null = null): ApiError {
  return new ApiError('NOT_CONFIGURED', {
    message: `${model ?? name.split('.', 1)[0]}: the operator has not configured it. Nothing was charged.`,
  })
}

/** A web page in the local browser does not speak for the person who started the gateway. */
function foreignPage(origin: string): ApiError {
  return new ApiError('NOT_ALLOWED', {
    message: `Free models are not served to web pages of ${clip(origin)}. Call from a page on localhost, or without a browser.`,
  })
}
