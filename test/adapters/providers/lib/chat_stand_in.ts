/**
 * For the laws of chat vendors: a server on loopback that speaks one wire, with the echo model behind it, and behaves
 * as it is told.
 */
import { afterAll } from 'bun:test'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { echoVendor } from '../../../../server/devnet/demo/chat.ts'
import type { ChatVendorConfig } from '../../../../adapters/providers/lib/chat/provider.ts'
import type { ChatVendor, Fields, Rewriter } from '../../../../core/mod.ts'
import { generateContentFromChatReply } from '../../../../core/products/chat/formats/generate_content/reply.ts'
import { chatFromGenerateContent } from '../../../../core/products/chat/formats/generate_content/request.ts'
import { generateContentFromChatStream } from '../../../../core/products/chat/formats/generate_content/stream.ts'
import { messagesFromChatStream } from '../../../../core/products/chat/formats/messages/events.ts'
import { messagesFromChatReply } from '../../../../core/products/chat/formats/messages/reply.ts'
import { chatFromMessages } from '../../../../core/products/chat/formats/messages/request_to_chat.ts'
import { responsesFromChatStream } from '../../../../core/products/chat/formats/responses/chat_stream.ts'
import { responsesFromChatReply } from '../../../../core/products/chat/formats/responses/reply.ts'
import { chatFromResponses } from '../../../../core/products/chat/formats/responses/request.ts'
import { parseEvent } from '../../../../core/products/chat/formats/sse.ts'
import type { ChatHarness, Conduct } from '../../../conformance/chat_vendors.ts'
import type { Subject } from '../../../conformance/law.ts'
import { chatSetup } from './chat_kit.ts'

/** A wire from its vendor's side. */
type ErrorFormat = {
  /** Where it is served below the host. */
  readonly root: string
  isStream(path: string, body: Fields): boolean
  read(body: Fields): Fields
  whole(chat: Fields): Fields
  stream(): Rewriter
  /** How it says in mid-stream that it gives up. */
  readonly error: string
}

const MODEL = 'model-x'
const FACTS = { model: MODEL, id: 'resp_1', createdAt: 1, request: {} }
const GIVES_UP = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }

export const ERROR_FORMATS = {
  chat: {
    root: '/v1',
    isStream: (_, { stream }) => stream === true,
    read: (body) => body,
    whole: (chat) => chat,
    stream: () => ({ on: ({ data }) => `data: ${data}\n\n`, end: () => '' }),
    error: `data: ${JSON.stringify({ error: { message: 'Overloaded', type: 'server_error' } })}\n\n`,
  },
  messages: {
    root: '',
    isStream: (_, { stream }) => stream === true,
    read: chatFromMessages,
    whole: (chat) => messagesFromChatReply(chat, { model: MODEL }),
    stream: () => messagesFromChatStream({ model: MODEL, id: 'msg_1' }),
    error: `event: error\ndata: ${JSON.stringify(GIVES_UP)}\n\n`,
  },
  responses: {
    root: '/v1',
    isStream: (_, { stream }) => stream === true,
    read: chatFromResponses,
    whole: (chat) => responsesFromChatReply(chat, FACTS),
    stream: () => responsesFromChatStream(FACTS),
    error: `event: response.failed\ndata: ${JSON.stringify({ type: 'response.failed', response: { status: 'failed', error: { code: 'server_error', message: 'Overloaded' } } })}\n\n`,
  },
  generate_content: {
    root: '',
    isStream: (path) => path.includes(':streamGenerateContent'),
    read: chatFromGenerateContent,
    whole: (chat) => generateContentFromChatReply(chat, { model: MODEL }),
    stream: () => generateContentFromChatStream({ model: MODEL }),
    error: `data: ${JSON.stringify({ error: { code: 503, message: 'Overloaded', status: 'UNAVAILABLE' } })}\n\n`,
  },
} satisfies Readonly<Record<string, ErrorFormat>>

const echo = echoVendor({ countTokens: async (text) => Math.ceil(text.length / 4) })
const never = () => ({ signal: new AbortController().signal })

/** `dialectOf` chooses by the path that was asked. Ends with the test file. */
async function upstreamOf(errorFormatOf: (path: string) => ErrorFormat) {
  let conduct: Conduct = 'serves'
  let inProgress = 0
  let answered = Promise.withResolvers<void>()

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Uint8Array[] = []
    for await (const chunk of request) chunks.push(chunk as Uint8Array)
    const path = request.url ?? ''
    const errorFormat = errorFormatOf(path)
    const body = JSON.parse(Buffer.concat(chunks).toString()) as Fields
    if (conduct === 'refuses')
      return void response
        .writeHead(429, { 'content-type': 'application/json' })
        .end('{"error":{"type":"rate_limit_error"}}')
    await (errorFormat.isStream(path, body) ? stream(errorFormat, body, response) : whole(errorFormat, body, response))
  }

  async function whole(errorFormat: ErrorFormat, body: Fields, response: ServerResponse): Promise<void> {
    if (conduct === 'stalls') return
    const answer = await echo.ask(
      { format: 'chat', model: MODEL, body: errorFormat.read(body), stream: false, headers: {} },
      never(),
    )
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify(errorFormat.whole((answer as { body: Fields }).body)))
  }

  async function stream(errorFormat: ErrorFormat, body: Fields, response: ServerResponse): Promise<void> {
    const answer = await echo.ask(
      { format: 'chat', model: MODEL, body: errorFormat.read(body), stream: true, headers: {} },
      never(),
    )
    if (answer.kind !== 'stream') throw new Error('not a stream')
    const rewriter = errorFormat.stream()
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    let sent = 0
    for (let piece = await answer.stream.next(); piece; piece = await answer.stream.next()) {
      const event = parseEvent(new TextDecoder().decode(piece).trim())
      const text = event ? rewriter.on(event) : ''
      if (text !== '') response.write(text)
      // The first event names the speaker, and the second holds a word.
      if (++sent === 2 && conduct !== 'serves') return await misbehave(errorFormat, response)
    }
    response.end(rewriter.end())
  }

  /** Once the stream has been handed out: a broken connection takes along what its reader has not read. */
  async function misbehave({ error }: ErrorFormat, response: ServerResponse): Promise<void> {
    await answered.promise
    if (conduct === 'errs') response.end(error)
    if (conduct === 'breaks') response.destroy()
  }

  const server = createServer((request, response) => {
    inProgress++
    response.on('close', () => inProgress--)
    serve(request, response).catch(() => response.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  afterAll(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as { port: number }).port}`
  return {
    url,
    inProgress: () => inProgress,
    /** Tells it that its caller has an answer. */
    answered: () => answered.resolve(),
    conduct(next: Conduct) {
      conduct = next
      answered = Promise.withResolvers()
    },
  }
}

/** For `runLaws`: an adapter before such a server, one for each law. */
export function lawful(make: (config: ChatVendorConfig) => ChatVendor, errorFormatOf: (path: string) => ErrorFormat) {
  return async (): Promise<Subject<ChatHarness>> => {
    const { url, answered, ...upstream } = await upstreamOf(errorFormatOf)
    const { format, ask } = make(chatSetup(`${url}${errorFormatOf('').root}`).config)
    const vendor: ChatVendor = { format, ask: (order, at) => ask(order, at).finally(answered) }
    return { open: async () => ({ vendor, model: MODEL, upstream }), close: async () => {} }
  }
}

// ── by hand ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A reply of server-sent events that comes in pieces of so many bytes. */
export function inPieces(text: string, size = 1): Response {
  const bytes = new TextEncoder().encode(text)
  let at = 0
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (at >= bytes.length) return controller.close()
      controller.enqueue(bytes.slice(at, (at += size)))
    },
  })
  return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
}

/** Named events, as Anthropic and OpenAI write them. */
export const eventsOf = (...events: readonly Fields[]): string =>
  events.map((event) => `event: ${String(event.type)}\ndata: ${JSON.stringify(event)}\n\n`).join('')
