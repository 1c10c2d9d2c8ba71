/**
 * MCP over HTTP: everything that a gateway sells as tools at `/mcp`, paid as the MCP transport of x402 says. A call of
 * a tool is a request of the HTTP API to the same gateway, so there is one order of work and money.
 */
import type { CallToolResult, ServerContext } from '@modelcontextprotocol/server'
import { fieldsOf, optional } from '../../core/lib/mod.ts'
import { type Caller, free, type Gateway, json, keyHeaders, refuseKeyInQuery, type Reply } from '../../core/mod.ts'
import { withoutKeys } from '../../core/x402/mod.ts'
import { isLoopback } from '../config/mod.ts'
import { listRequest, toolLists } from './lists.ts'
import { type ChargeDemand, credentialHeader, errorCodeOf, REQUIRED, speaksOnlyMpp } from './mpp.ts'
import { type PlainCall, plainCall, plainReply } from './plain_call.ts'
import { type ReadMedia, resultOf } from './result.ts'
import { type Operations, operationsOf, toolName } from './tools.ts'

export const MCP = '/mcp'
/** Leaves the scheme X402 out of a 402, which no client of MCP reads: challenges have its room. */
const ANY_METHOD = { 'accept-payment': '*/*' }
/** Between two comments of a stream, in milliseconds: shorter than the idle timeout of any hop. */
const HEARTBEAT_MS = 5_000

const load = () => optional('@modelcontextprotocol/server', 'MCP', () => import('@modelcontextprotocol/server'))
type Sdk = Awaited<ReturnType<typeof load>>
let loaded: Sdk | undefined
/** Loaded once: an import that is asked for again with each request costs as much as a small answer. */
const sdk = async (): Promise<Sdk> => (loaded ??= await load())

/** Revisions of the protocol that a client without an envelope may name. */
const spokenVersions = async (): Promise<readonly string[]> => (await sdk()).SUPPORTED_PROTOCOL_VERSIONS

/** Where the tools are, and what answers a request of the HTTP API, paid for or not. */
type Api = {
  readonly version: string
  /** `isFresh`: as the gateway sells now; otherwise as it was read before, if it was. */
  operations(isFresh: boolean): Promise<Operations>
  /** Sends a request of the HTTP API, which a call of this tool stands for. */
  send(request: Request, context: ServerContext, tool: string): Promise<Response>
  readonly origin: string
  /** `_meta` of the message and its params as they were sent: the library takes members out of it. */
  readonly meta?: unknown
}

/** A server for one connection or one request. */
export function mcpServer({ Server, ProtocolError }: Sdk, { version, operations, send, origin, meta }: Api) {
  const metaOf = (own: unknown) => ({ ...fieldsOf(meta), ...fieldsOf(own) })

  const server = new Server(
    { name: 'farebox', title: 'Farebox', version },
    {
      capabilities: { tools: {} },
      instructions:
        'Each tool is one call of a paid API. A call without a payment answers with a demand in x402; the price is exact. ' +
        'An answer with a poll_url is not ready: ask collect_result a few seconds later. A failed call is not charged.',
    },
  )
  server.setRequestHandler('tools/list', async () => ({
    tools: [...(await operations(true)).values()].map(({ tool }) => tool),
  }))
  server.setRequestHandler('tools/call', async ({ params }, context) => {
    const { name, arguments: args } = params
    const called = await callTool(
      { name, args: fieldsOf(args), meta: metaOf(params._meta) },
      {
        operations,
        origin,
        send: (request, tool) => send(request, context, tool),
        capabilities: () => server.getClientCapabilities(),
      },
    )
    if ('result' in called) return called.result
    throw new ProtocolError(called.code, PAYMENT_REQUIRED, called.demand)
  })
  return server
}

const PAYMENT_REQUIRED = 'Payment Required'

type Calling = Pick<Api, 'operations' | 'origin'> & {
  send(request: Request, tool: string): Promise<Response>
  /** Capabilities that the client has declared. */
  capabilities(): unknown
}
type Called = { readonly result: CallToolResult } | { readonly code: number; readonly demand: ChargeDemand }

/** Calls a tool: the result, or the demand of a client that knows no other one. */
async function callTool(
  { name, args, meta }: Pick<PlainCall, 'name' | 'args' | 'meta'>,
  { operations, origin, send, capabilities }: Calling,
): Promise<Called> {
  const operation = (await operations(false)).get(toolName(name))
  if (!operation) return { result: failure(`there is no tool ${name}; tools/list has their names`) }
  const { name: tool } = operation.tool
  let request: Request
  try {
    const { method, path, body } = operation.request(args)
    const headers = {
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...ANY_METHOD,
      ...payment(meta),
      ...credentialHeader(meta),
    }
    request = new Request(origin + path, { method, headers, ...(body !== undefined && { body }) })
  } catch (error) {
    if (error instanceof RangeError) return { result: failure(error.message) }
    throw error
  }
  const readMedia: ReadMedia = async (url, maxBytes) => {
    if (!url.startsWith(`${origin}/`)) return undefined
    const file = await send(new Request(url), tool)
    const size = Number(file.headers.get('content-length') ?? Number.POSITIVE_INFINITY)
    const type = file.headers.get('content-type') ?? ''
    if (file.ok && size <= maxBytes) return { type, bytes: await file.bytes() }
    await file.body?.cancel()
    return undefined
  }
  const result = await resultOf(await send(request, tool), readMedia)
  const demand = result._meta?.[REQUIRED] as ChargeDemand | undefined
  if (!demand || !speaksOnlyMpp(capabilitiesOf(meta) ?? capabilities())) return { result }
  return { code: errorCodeOf(meta), demand }
}

/** Some clients of MPP write the credential beside `params`. */
const metaIn = (message: unknown) => {
  const { _meta: own, params } = fieldsOf(message)
  return { ...fieldsOf(own), ...fieldsOf(fieldsOf(params)._meta) }
}

/** Capabilities of a client: newer revisions of the protocol send them with each request. */
const capabilitiesOf = (meta: unknown): unknown => fieldsOf(meta)['io.modelcontextprotocol/clientCapabilities']

const failure = (text: string) => ({ isError: true, content: [{ type: 'text' as const, text: withoutKeys(text) }] })

/** The payment of a call, an object or the Base64 of it, as the header of the HTTP API. */
function payment(meta: unknown): Record<string, string> {
  const value = fieldsOf(meta)['x402/payment']
  if (value === undefined) return {}
  return { 'payment-signature': typeof value === 'string' ? value : btoa(JSON.stringify(value)) }
}

export type McpEndpoint = (request: Request, caller: McpCaller) => Promise<Reply>

/** `called` is told of each request of the HTTP API that a tool has made. */
type McpCaller = Caller & { readonly origin: string; called?(call: ToolCall): void }
export type ToolCall = { readonly tool: string; readonly status: number; readonly ms: number }

/** Messages of one request: older revisions of the protocol have batches. */
const MAX_MESSAGES = 5
/** Room for a picture in Base64, in bytes. */
const MAX_BODY = 4 << 20
const ONLY_POST = { allow: 'POST' }

const ROUTE = {
  name: 'mcp',
  path: MCP,
  method: 'POST',
  summary: 'Tools of the Model Context Protocol',
  tag: 'site',
  maxBody: MAX_BODY,
  limit: { requests: 600, windowMs: 60_000 },
} as const

/** Loads the library (11 MB, 40 ms). Otherwise the first request does: most gateways are never asked for tools. */
export async function prepareMcp(): Promise<void> {
  const { preloadSchemas } = await sdk()
  preloadSchemas()
}

/** Answers requests for `/mcp` of one gateway, under the limits of its HTTP API. */
export function mcpEndpoint(gateway: Gateway, { version }: { readonly version: string }): McpEndpoint {
  const operations = operationsIn(gateway)
  const lists = toolLists()

  return async (request, caller) => {
    const stranger = foreignPage(request, caller.origin)
    if (stranger) return stranger
    if (request.method !== 'POST')
      return refusal(405, { code: -32_000, message: 'Only POST is served.', headers: ONLY_POST })
    return await gateway.mount(free({ ...ROUTE, answer: (received) => answer(received, { request, caller }) }))(
      request,
      caller,
    )
  }

  async function answer(
    received: { readonly query: URLSearchParams; json(): Promise<unknown> },
    { request, caller }: { readonly request: Request; readonly caller: McpCaller },
  ): Promise<Reply> {
    refuseKeyInQuery(received.query)
    const given = await received.json()
    const refused = outOfBounds(given)
    if (refused) return refused
    const message = withoutCancellations(given)
    const respond = (sent: unknown) => handle(sent, { request, caller })
    const call = plainCall(message, request.headers, await spokenVersions())
    if (call) return await plain(call, { request, caller })
    const list = listRequest(message, request.headers)
    const { status, headers, body } = list
      ? await lists(list, { tools: await operations(true), respond })
      : await respond(message)
    return { status, headers: Object.fromEntries(headers), body }
  }

  function sender({ request, caller }: { readonly request: Request; readonly caller: McpCaller }): Calling['send'] {
    return async (inner, tool) => {
      const startedAt = performance.now()
      // An API key of the caller pays for the tool, and polls what it has ordered.
      for (const [name, value] of Object.entries(keyHeaders(request.headers))) inner.headers.set(name, value)
      const reply = await gateway.fetch(inner, { ...caller, gone: request.signal })
      caller.called?.({ tool, status: reply.status, ms: performance.now() - startedAt })
      return reply
    }
  }

  async function plain(
    call: PlainCall,
    received: { readonly request: Request; readonly caller: McpCaller },
  ): Promise<Reply> {
    const { origin } = received.caller
    const calling = callTool(call, { operations, origin, send: sender(received), capabilities: () => undefined })
    const answering = calling.then(
      (called) =>
        'result' in called
          ? { result: called.result }
          : { error: { code: called.code, message: PAYMENT_REQUIRED, data: called.demand } },
      () => ({ error: { code: -32_603, message: 'Internal error' } }),
    )
    return await plainReply(call.id, answering, { heartbeatMs: HEARTBEAT_MS, signal: received.request.signal })
  }

  async function handle(
    message: unknown,
    { request, caller }: { readonly request: Request; readonly caller: McpCaller },
  ): Promise<Response> {
    const library = await sdk()
    const { origin } = caller
    const sendFor = sender({ request, caller })
    const send: Api['send'] = (inner, _context, tool) => sendFor(inner, tool)
    return await library
      .createMcpHandler(() => mcpServer(library, { version, origin, operations, send, meta: metaIn(message) }), {
        keepAliveMs: HEARTBEAT_MS,
      })
      .fetch(request, { parsedBody: message })
  }
}

/** The tools of a gateway, made once until its OpenAPI document is another one. */
export function operationsIn({ openapi }: Pick<Gateway, 'openapi'>): Api['operations'] {
  let known: { readonly document: unknown; readonly operations: Promise<Operations> } | undefined
  return async () => {
    const document = await openapi()
    if (known?.document !== document) known = { document, operations: operationsOf(document) }
    return await known.operations
  }
}

/** Refuses a batch that is too long, and subscriptions: tools change with a start only, so nothing would be sent. */
function outOfBounds(message: unknown): Reply | undefined {
  if (Array.isArray(message) && message.length > MAX_MESSAGES) {
    const text = `a batch has at most ${MAX_MESSAGES} messages; this one has ${message.length}`
    return refusal(400, { code: -32_600, message: text })
  }
  const { method, id } = fieldsOf(message)
  if (method !== 'subscriptions/listen') return undefined
  return refusal(404, { code: -32_601, message: 'there are no subscriptions here', id })
}

/**
 * A batch without the cancellations of its own calls, which the library would neither answer nor end the reply without.
 * Cancelling is a wish: a call that is paid for is answered.
 */
function withoutCancellations(message: unknown): unknown {
  if (!Array.isArray(message)) return message
  const others = message.filter((each) => fieldsOf(each).method !== 'notifications/cancelled')
  return others.length > 0 ? others : message
}

type Refusal = {
  readonly code: number
  readonly message: string
  readonly id?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

/** An error of JSON-RPC. */
function refusal(status: number, { code, message, id, headers = {} }: Refusal): Reply {
  const known = typeof id === 'string' || typeof id === 'number' ? id : null
  return json(status, { jsonrpc: '2.0', error: { code, message }, id: known }, headers)
}

/**
 * A gateway that is reached by a loopback name serves no page of another host: such a page may have been brought there
 * by DNS rebinding. Nothing rides on cookies, so a public gateway serves every page.
 */
function foreignPage(request: Request, origin: string): Reply | undefined {
  const page = request.headers.get('origin')
  if (page === null || !isLoopback(new URL(origin).hostname)) return undefined
  if (URL.canParse(page) && isLoopback(new URL(page).hostname)) return undefined
  return refusal(403, { code: -32_000, message: `pages of ${page} may not use a gateway on this machine` })
}
