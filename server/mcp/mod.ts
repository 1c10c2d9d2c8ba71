/**
 * MCP over HTTP: everything that a gateway sells as tools at `/mcp`, paid as the MCP transport of x402 says. A call of
 * a tool is a request of the HTTP API to the same gateway, so there is one order of work and money.
 */
import type { ServerContext } from '@modelcontextprotocol/server'
import { optional } from '../../core/lib/optional.ts'
import { fieldsOf } from '../../core/lib/json.ts'
import { type Caller, type Gateway, json, type Reply } from '../../core/mod.ts'
import { isLoopback } from '../config/mod.ts'
import { type ReadMedia, resultOf } from './result.ts'
import { type Operation, operationsOf } from './tools.ts'

export const MCP = '/mcp'
/** Between two comments of a stream, in milliseconds: shorter than the idle timeout of any hop. */
const HEARTBEAT_MS = 5_000

const sdk = () => optional('@modelcontextprotocol/server', 'MCP', () => import('@modelcontextprotocol/server'))
type Sdk = Awaited<ReturnType<typeof sdk>>

/** Where the tools are, and what answers a request of the HTTP API, paid for or not. */
export type Api = {
  readonly version: string
  /** `isFresh`: as the gateway sells now; otherwise as it was read before, if it was. */
  operations(isFresh: boolean): Promise<ReadonlyMap<string, Operation>>
  send(request: Request, context: ServerContext): Promise<Response>
  readonly origin: string
}

/** A server for one connection or one request. */
export function mcpServer({ Server }: Sdk, { version, operations, send, origin }: Api) {
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
    const known = await operations(false)
    const operation = known.get(params.name)
    if (!operation) return failure(`there is no tool ${params.name}; tools/list has their names`)
    let request: Request
    try {
      const { method, path, body } = operation.request(fieldsOf(params.arguments))
      const headers = { ...(body !== undefined && { 'content-type': 'application/json' }), ...payment(params._meta) }
      request = new Request(origin + path, { method, headers, ...(body !== undefined && { body }) })
    } catch (error) {
      if (error instanceof RangeError) return failure(error.message)
      throw error
    }
    const readMedia: ReadMedia = async (url, maxBytes) => {
      if (!url.startsWith(`${origin}/`)) return undefined
      const file = await send(new Request(url), context)
      const size = Number(file.headers.get('content-length') ?? Number.POSITIVE_INFINITY)
      const type = file.headers.get('content-type') ?? ''
      if (file.ok && size <= maxBytes) return { type, bytes: await file.bytes() }
      await file.body?.cancel()
      return undefined
    }
    return await resultOf(await send(request, context), readMedia)
  })
  return server
}

const failure = (text: string) => ({ isError: true, content: [{ type: 'text' as const, text }] })

/** The payment of a call, an object or the Base64 of it, as the header of the HTTP API. */
function payment(meta: unknown): Record<string, string> {
  const value = fieldsOf(meta)['x402/payment']
  if (value === undefined) return {}
  return { 'payment-signature': typeof value === 'string' ? value : btoa(JSON.stringify(value)) }
}

export type McpEndpoint = (request: Request, caller: Caller & { readonly origin: string }) => Promise<Reply>

/** Answers requests for `/mcp` of one gateway. The library is loaded with the first one. */
export function mcpEndpoint(gateway: Gateway, { version }: { readonly version: string }): McpEndpoint {
  let known: ReadonlyMap<string, Operation> | undefined

  async function read(origin: string): Promise<ReadonlyMap<string, Operation>> {
    const reply = await gateway.fetch(new Request(`${origin}/openapi.json`), { ip: '' })
    known = operationsOf(await reply.json())
    return known
  }

  return async (request, caller) => {
    const stranger = foreignPage(request, caller.origin)
    if (stranger) return stranger
    const loaded = await sdk()
    const { origin } = caller
    const server = () =>
      mcpServer(loaded, {
        version,
        origin,
        operations: async (isFresh) => (isFresh ? undefined : known) ?? (await read(origin)),
        send: (inner) => gateway.fetch(inner, caller),
      })
    const { status, headers, body } = await loaded
      .createMcpHandler(server, { keepAliveMs: HEARTBEAT_MS })
      .fetch(request)
    return { status, headers: Object.fromEntries(headers), body }
  }
}

/**
 * A gateway that is reached by a loopback name serves no page of another host: such a page may have been brought there
 * by DNS rebinding. Nothing rides on cookies, so a public gateway serves every page.
 */
function foreignPage(request: Request, origin: string): Reply | undefined {
  const page = request.headers.get('origin')
  if (page === null || !isLoopback(new URL(origin).hostname)) return undefined
  if (URL.canParse(page) && isLoopback(new URL(page).hostname)) return undefined
  const error = { code: -32_000, message: `pages of ${page} may not use a gateway on this machine` }
  return json(403, { jsonrpc: '2.0', error, id: null })
}
