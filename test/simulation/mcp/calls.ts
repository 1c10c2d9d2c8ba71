/** Orders and polls as calls of tools, in the shapes in which clients send them, and what comes back as replies. */
import type { Reply } from '../../../core/http/reply.ts'
import type { Process } from '../scheduler.ts'
import type { Actor, Signed, World } from '../world.ts'
import type { Doors, Received } from './doors.ts'

/**
 * `plain`: as nearly every client, answered without the library; `progress`: with a token for progress, by the library;
 * `beside`: with `_meta` beside `params`; `newer`: by the revision that sends an envelope; `batch`: the same call
 * several times, with others that cost nothing.
 */
const SHAPES = ['plain', 'plain', 'plain', 'plain', 'beside', 'beside', 'progress', 'newer', 'batch'] as const
type Shape = (typeof SHAPES)[number]

/** A call of a tool with a payment. */
type ToolOrder = { readonly tool: string; readonly args: object; readonly signed: Signed }

const MAX_MESSAGES = 5
const NEWER = '2026-07-28'
const BUYER = '192.0.2.1'

type Sending = { readonly doors: Doors; readonly process: Process; readonly gone: AbortSignal }

/**
 * Calls a tool, and returns its reply. Undefined where it was called several times, and each reply is judged here; and
 * where its client has gone.
 */
export async function callTool(world: World, actor: Actor, order: ToolOrder & Sending): Promise<Reply | undefined> {
  const { doors, process, gone } = order
  const shape = world.chance.pick(SHAPES)
  const payment = world.chance.isLucky(0.5) ? order.signed.payment : btoa(JSON.stringify(order.signed.payment))
  const messages = messagesOf(world, shape, { ...order, payment })
  const headers: Record<string, string> =
    shape === 'newer'
      ? { 'mcp-protocol-version': NEWER, 'mcp-method': 'tools/call', 'mcp-name': order.tool }
      : { 'mcp-protocol-version': '2025-03-26' }
  const isCancelled = JSON.stringify(messages).includes(CANCELLED)
  world.say(() => `   as ${isCancelled ? 'a batch that cancels it' : shape}`)
  const received = await doors.send(process, { messages, headers, ip: BUYER, gone })
  const replies = repliesIn(received)
  const [last, ...others] = replies.reverse()
  if (!last && gone.aborted) return undefined
  // The endpoint itself is a route of the gateway, and refuses as others do.
  if (!last && received.status >= 400) return { status: received.status, headers: {}, body: received.text }
  if (!last) {
    world.ledgerRows.violate('noSurprise', `${actor.name} gets ${received.status} ${received.text.slice(0, 300)}`)
    return { status: 500, headers: {}, body: '{}' }
  }
  if (others.length === 0) return last
  // Of each, what another one of them has sent is nothing that it has sent itself.
  for (const reply of [last, ...others]) world.ledgerRows.replied({ ...actor, sent: new Set() }, reply)
  return undefined
}

function messagesOf(
  { chance, isCalm }: World,
  shape: Shape,
  { tool, args, payment }: ToolOrder & { readonly payment: unknown },
): object {
  const message = (id: number, meta: object, beside: object = {}) => ({
    jsonrpc: '2.0',
    id,
    method: 'tools/call',
    params: { name: tool, arguments: args, ...(Object.keys(meta).length > 0 && { _meta: meta }) },
    ...beside,
  })
  const paid = { 'x402/payment': payment }
  if (shape === 'plain') return message(CALL, paid)
  if (shape === 'progress') return message(CALL, { ...paid, progressToken: 1 })
  if (shape === 'beside') return message(CALL, {}, { _meta: paid })
  if (shape === 'newer') return message(CALL, { ...paid, ...ENVELOPE })
  const times = isCalm ? 1 : 1 + chance.below(3)
  const free = [
    { jsonrpc: '2.0', id: 100, method: 'ping' },
    ...(isCalm ? [] : [{ jsonrpc: '2.0', method: CANCELLED, params: { requestId: CALL } }]),
    { jsonrpc: '2.0', id: 101, method: 'tools/list', params: {} },
  ]
  const calls = Array.from({ length: times }, (_, index) => message(CALL + index, paid))
  return [...calls, ...free.slice(0, chance.below(Math.min(free.length, MAX_MESSAGES - times) + 1))]
}

const CALL = 1
const CANCELLED = 'notifications/cancelled'
const ENVELOPE = {
  'io.modelcontextprotocol/protocolVersion': NEWER,
  'io.modelcontextprotocol/clientInfo': { name: 'a client', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
}

type ToolResult = {
  readonly isError?: boolean
  readonly structuredContent?: Readonly<Record<string, unknown>>
  readonly content: readonly { readonly text?: string }[]
  readonly _meta?: Readonly<Record<string, unknown>>
}

/** Results of calls as replies of the HTTP API. */
function repliesIn({ text, statuses }: Received): Reply[] {
  const lines = text.startsWith('[') || text.startsWith('{') ? [text] : [...text.matchAll(/^data: (.*)$/gm)].map(last)
  const all = lines.flatMap((line) => JSON.parse(line) as { id?: unknown; result?: ToolResult })
  const results = all.flatMap(({ id, result }) => (typeof id === 'number' && id < 100 && result ? [result] : []))
  return results.map((result) => replyOf(result, results.length === 1 ? statuses.slice(0, 1) : statuses))
}

const last = (match: RegExpMatchArray): string => match[1] ?? ''

/** `statuses`: of its request, or of the same one sent several times. */
function replyOf(
  { isError = false, structuredContent, content, _meta }: ToolResult,
  statuses: readonly number[],
): Reply {
  const [{ text = '' } = {}] = content
  const body = structuredContent ?? (text.startsWith('{') ? (JSON.parse(text) as object) : { error: text })
  const receipt = _meta?.['x402/payment-response']
  const headers: Record<string, string> = receipt ? { 'payment-response': btoa(JSON.stringify(receipt)) } : {}
  const { status: state } = body as { readonly status?: unknown }
  const is = (status: number): boolean => {
    if (isError) return 'accepts' in body ? status === 402 : status >= 400 && status !== 402
    return status === (state === 'queued' || state === 'in_progress' ? 202 : 200)
  }
  return { status: statuses.find(is) ?? statuses[0] ?? 500, headers, body: JSON.stringify(body) }
}
