/**
 * Calls of tools as nearly every client sends them: one request by a revision of the protocol that has no envelope. The
 * library makes a server for each, which costs more than the call itself. These are answered as the library does,
 * without it; every other message is its own.
 */
import { fieldsOf, isFields } from '../../core/lib/mod.ts'
import type { Reply } from '../../core/mod.ts'

export type PlainCall = {
  readonly id: string | number
  readonly name: string
  readonly args: Readonly<Record<string, unknown>>
  readonly meta: unknown
}

const MEMBERS = new Set(['jsonrpc', 'id', 'method', 'params', '_meta'])
const PARAMS = new Set(['name', 'arguments', '_meta'])
const JSON_TYPE = /^\s*application\/json\s*(;|$)/i
/** Members of `_meta` by which a newer revision of the protocol is known. */
const ENVELOPE = 'io.modelcontextprotocol/'
const HEADERS = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache, no-transform',
  connection: 'keep-alive',
  'x-accel-buffering': 'no',
} as const

/** Undefined for any other message, and for one with anything that the library may refuse or understand. */
export function plainCall(message: unknown, headers: Headers, versions: readonly string[]): PlainCall | undefined {
  if (!isFields(message) || message.jsonrpc !== '2.0' || message.method !== 'tools/call') return undefined
  const { id, params, _meta } = message
  if (!(typeof id === 'string' || (typeof id === 'number' && Number.isInteger(id))) || !isFields(params))
    return undefined
  const { name, arguments: args = {}, _meta: own } = params
  if (typeof name !== 'string' || !isFields(args)) return undefined
  if (hasOther(message, MEMBERS) || hasOther(params, PARAMS)) return undefined
  if (!isPlainMeta(own) || !isPlainMeta(_meta) || !acceptsStream(headers, versions)) return undefined
  return { id, name, args, meta: { ...fieldsOf(_meta), ...fieldsOf(own) } }
}

const hasOther = (fields: object, known: ReadonlySet<string>) => Object.keys(fields).some((name) => !known.has(name))

function isPlainMeta(meta: unknown): boolean {
  if (meta === undefined) return true
  return isFields(meta) && !Object.keys(meta).some((name) => name.startsWith(ENVELOPE) || name === 'progressToken')
}

function acceptsStream(headers: Headers, versions: readonly string[]): boolean {
  const [accept, version] = [headers.get('accept') ?? '', headers.get('mcp-protocol-version')]
  if (!accept.includes('application/json') || !accept.includes('text/event-stream')) return false
  if (headers.has('mcp-method') || headers.has('mcp-name') || headers.has('mcp-session-id')) return false
  return JSON_TYPE.test(headers.get('content-type') ?? '') && (version === null || versions.includes(version))
}

type Answer = { readonly result: object } | { readonly error: object }

/** An event stream with the answer. One that is late begins with comments, so that no hop ends it. */
export async function plainReply(
  id: string | number,
  answering: Promise<Answer>,
  { heartbeatMs, signal }: { readonly heartbeatMs: number; readonly signal: AbortSignal },
): Promise<Reply> {
  const event = answering.then(
    (answer) => `event: message\ndata: ${JSON.stringify({ ...answer, jsonrpc: '2.0', id })}\n\n`,
  )
  const wait = Promise.withResolvers<undefined>()
  const timer = setTimeout(() => wait.resolve(undefined), heartbeatMs)
  const early = await Promise.race([event, wait.promise]).finally(() => clearTimeout(timer))
  if (early !== undefined) return { status: 200, headers: HEADERS, body: early }
  return { status: 200, headers: HEADERS, body: withComments(event, { heartbeatMs, signal }) }
}

function withComments(
  event: Promise<string>,
  { heartbeatMs, signal }: { readonly heartbeatMs: number; readonly signal: AbortSignal },
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  let timer: ReturnType<typeof setInterval> | undefined
  const end = () => clearInterval(timer)
  return new ReadableStream({
    start(controller) {
      const comment = () => controller.enqueue(encoder.encode(': keepalive\n\n'))
      comment()
      timer = setInterval(comment, heartbeatMs)
      signal.addEventListener('abort', end, { once: true })
      void event.then(
        (text) => {
          end()
          controller.enqueue(encoder.encode(text))
          controller.close()
        },
        (error: unknown) => {
          end()
          controller.error(error)
        },
      )
    },
    cancel: end,
  })
}
