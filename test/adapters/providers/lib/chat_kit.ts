/**
 * For tests of chat vendors: orders, what an answer holds, what a refusal reads as, and an upstream written by hand.
 */
import { afterAll } from 'bun:test'
import { createServer, type Socket } from 'node:net'
import { type ChatAnswer, type ChatOrder, type ChatStream, ApiError, type Fields } from '../../../../core/mod.ts'
import type { ChatVendorConfig } from '../../../../adapters/providers/lib/chat/provider.ts'
import { testLog } from '../../../kit.ts'
import { handClock, KEY } from './provider_kit.ts'

/** Core hands over `max_tokens`, and neither `model` nor `stream`. */
export const HELLO: ChatOrder = {
  format: 'chat',
  model: 'model-x',
  body: { messages: [{ role: 'user', content: 'hello' }], max_tokens: 64 },
  stream: false,
  headers: {},
}
export const STREAMED: ChatOrder = { ...HELLO, stream: true }

export const ordered = (body: Fields, order: ChatOrder = HELLO): ChatOrder => ({
  ...order,
  body: { ...order.body, ...body },
})

export function chatSetup(baseUrl: string, more: Partial<ChatVendorConfig> = {}) {
  const clock = handClock()
  const log = testLog()
  const config: ChatVendorConfig = { baseUrl, key: KEY, maker: 'maker-x', timeoutMs: 120_000, clock, log, ...more }
  return { clock, log, config }
}

// ── what came of it ─────────────────────────────────────────────────────────────────────────────────────────────────

export function wholeOf(answer: ChatAnswer): any {
  if (answer.kind !== 'whole') throw new Error('the answer is a stream')
  return answer.body
}

export function streamOf(answer: ChatAnswer): ChatStream {
  if (answer.kind !== 'stream') throw new Error('the answer is whole')
  return answer.stream
}

/** All that is left of a stream, as text. */
export async function drain(stream: ChatStream): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for (let bytes = await stream.next(); bytes; bytes = await stream.next())
    text += decoder.decode(bytes, { stream: true })
  return text + decoder.decode()
}

/** The JSON of every `data` line but `[DONE]`. */
export const eventsIn = (text: string): any[] =>
  [...text.matchAll(/^data: (.*)$/gm)]
    .map(([, data = '']) => data)
    .filter((data) => data !== '[DONE]')
    .map((data) => JSON.parse(data))

export async function apiErrorOf(work: Promise<unknown>): Promise<ApiError> {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (error instanceof ApiError) return error
  throw new Error(`no fault, but ${String(error)}`)
}

/**
 * `INVALID_PARAMETER temperature`, `RATE_LIMITED 17`, `MODEL_UNAVAILABLE`; what alerts the operator ends with an
 * exclamation mark.
 */
export async function reading(work: Promise<unknown>, log: ReturnType<typeof testLog>): Promise<string> {
  const { code, parts } = await apiErrorOf(work)
  const alerted = log.lines.some(({ level }) => level === 'alert')
  return [code, parts.param, parts.fields?.retry_after_seconds, alerted && '!'].filter(Boolean).join(' ')
}

// ── upstreams ───────────────────────────────────────────────────────────────────────────────────────────────────────

export const sse = (text: string, headers: Record<string, string> = {}): Response =>
  new Response(text, { headers: { 'content-type': 'text/event-stream', ...headers } })

export const EVENT_HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n'
export const httpChunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`

/** An upstream that writes what the test tells it to, on the socket. `closed` counts the callers that have hung up. */
export async function rawUpstream(answer: (socket: Socket) => void) {
  const state = { requestCount: 0, closed: 0, sockets: [] as Socket[] }
  const server = createServer((socket) => {
    state.sockets.push(socket)
    socket.on('error', () => {})
    socket.on('close', () => state.closed++)
    socket.once('data', () => {
      state.requestCount++
      answer(socket)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  afterAll(() => {
    for (const socket of state.sockets) socket.destroy()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as { port: number }).port}`, state }
}
