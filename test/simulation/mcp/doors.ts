/** The doors of MCP to the processes of a run: the endpoint of the server, over the gateway of the run that is on. */
import { mcpEndpoint, type McpEndpoint, prepareMcp, type ToolCall } from '../../../server/mcp/mod.ts'
import type { Gateway } from '../../../core/mod.ts'
import { alone } from '../campaign.ts'
import { beforeAnyRun, type Rule, setup } from '../setup.ts'
import type { Process } from '../scheduler.ts'

const ORIGIN = 'http://model.test'

/** A request to `/mcp`: a message, or a batch of them. */
type Sent = {
  readonly messages: object
  readonly headers: Readonly<Record<string, string>>
  readonly ip: string
  readonly gone: AbortSignal
  /** A mistake of the door: what it makes of a reply of the HTTP API. */
  readonly mistake?: Mistake
}
export type Mistake = (reply: Response, request: Request) => Promise<Response>

/** `statuses`: of the requests of the HTTP API that were made for it, in their order. */
export type Received = { readonly status: number; readonly text: string; readonly statuses: readonly number[] }

export type Doors = { send(process: Process, sent: Sent): Promise<Received> }

/** Tools are listed before any run, since that takes turns of the event loop. */
export async function openDoors(rule: Rule): Promise<Doors> {
  await prepareMcp()
  const on = await alone(() => setup(rule))
  // Documents yield to others between their parts.
  on.world = { ...beforeAnyRun(rule), wait: async () => {} }
  const [first] = on.gateways
  const document = await first?.openapi()
  const doors = await Promise.all(on.gateways.map((gateway) => doorOf(gateway, document)))
  return { send: (process, sent) => (doors[process.index] as Door).send(process.gateway, sent) }
}

type Door = { send(gateway: Gateway, sent: Sent): Promise<Received> }

async function doorOf(gateway: Gateway, document: unknown): Promise<Door> {
  let current = gateway
  let wrong: Mistake | undefined
  const standIn: Pick<Gateway, 'openapi' | 'mount' | 'fetch'> = {
    openapi: async () => document as Awaited<ReturnType<Gateway['openapi']>>,
    mount: (endpoint) => (request, caller) => current.mount(endpoint)(request, caller),
    async fetch(request, caller) {
      const { status, headers, body } = await current.handle(await readable(request), { ip: '', ...caller })
      const reply = new Response(body as BodyInit | null, { status, headers })
      return wrong ? await wrong(reply, request) : reply
    },
  }
  const endpoint: McpEndpoint = mcpEndpoint(standIn as Gateway, { version: '1' })

  async function send(to: Gateway, { messages, headers, ip, gone, mistake }: Sent): Promise<Received> {
    current = to
    wrong = mistake
    const statuses: number[] = []
    const body = JSON.stringify(messages)
    const request = textRequest('POST', `${ORIGIN}/mcp`, {
      body,
      signal: gone,
      headers: {
        'content-type': 'application/json',
        'content-length': String(body.length),
        accept: 'application/json, text/event-stream',
        ...headers,
      },
    })
    const called = ({ status }: ToolCall) => void statuses.push(status)
    const reply = await endpoint(request, { ip, origin: ORIGIN, called })
    return { status: reply.status, text: await new Response(reply.body as BodyInit).text(), statuses }
  }

  const listing = { jsonrpc: '2.0', id: 0, method: 'tools/list', params: {} }
  const { text } = await send(gateway, { messages: listing, headers: {}, ip: '', gone: NEVER })
  if (!text.includes('collect_result')) throw new Error(`the door lists no tools: ${text.slice(0, 200)}`)
  return { send }
}

const NEVER = new AbortController().signal

/** As a request of the HTTP API is sent by a tool, with its body as text: a stream would bring the event loop. */
async function readable(request: Request): Promise<Request> {
  const { method, url, headers } = request
  const body = method === 'POST' ? await request.text() : undefined
  const length = body === undefined ? {} : { 'content-length': String(body.length) }
  return textRequest(method, url, { body, signal: NEVER, headers: { ...Object.fromEntries(headers), ...length } })
}

type Text = {
  readonly body: string | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly signal: AbortSignal
}

const textRequest = (method: string, url: string, { body, headers, signal }: Text): Request =>
  ({
    method,
    url,
    headers: new Headers(headers),
    body: body === undefined ? null : {},
    text: async () => body ?? '',
    signal,
  }) as unknown as Request
