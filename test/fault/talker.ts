/** A stand-in for a chat service and for a node of another chain: numbered answers, as slow as the prompt says. */
import { setTimeout as pause } from 'node:timers/promises'

export type Talker = {
  readonly origin: string
  /** How many answers it has begun. */
  readonly whenAnswerStarts: () => number
  stop(): Promise<void>
}

/** A prompt whose answer takes so long. */
export const taking = (ms: number, about: string): string => `Take ${ms} ms for an answer to: ${about}`
/** The numbers of the answers that stand whole in a text. Both marks of an answer come in it, the second one last. */
export const worksIn = (text: string): readonly string[] =>
  [...text.matchAll(/end-of-work-(\d+)/g)].map(([, work]) => `work ${work}`)

const PIECE_MS = 100
const USAGE = { prompt_tokens: 20, completion_tokens: 40, total_tokens: 60 }

export function talker(): Talker {
  let whenAnswerStarts = 0

  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      const work = ++whenAnswerStarts
      const { pathname } = new URL(request.url)
      const body = await request.json()
      if (pathname === '/rpc') return Response.json({ jsonrpc: '2.0', id: body.id ?? 1, result: `end-of-work-${work}` })
      const ms = Number(/Take (\d+) ms/.exec(JSON.stringify(body.messages))?.[1] ?? 0)
      const head = { id: `chatcmpl-${work}`, created: Math.floor(Date.now() / 1000), model: body.model }
      if (body.stream)
        return new Response(streamed(head, { work, ms }), { headers: { 'content-type': 'text/event-stream' } })
      await pause(ms)
      const message = { role: 'assistant', content: `Answer ${work}, end-of-work-${work}` }
      return Response.json({
        ...head,
        object: 'chat.completion',
        choices: [{ index: 0, message, finish_reason: 'stop' }],
        usage: USAGE,
      })
    },
  })

  return { origin: server.url.origin, whenAnswerStarts: () => whenAnswerStarts, stop: () => server.stop(true) }
}

type Head = { readonly id: string; readonly created: number; readonly model: string }

/** One piece every tenth of a second; the last one says that the answer is whole. */
function streamed(
  head: Head,
  { work, ms }: { readonly work: number; readonly ms: number },
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  const event = (choices: readonly unknown[], more = {}) =>
    encoder.encode(`data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices, ...more })}\n\n`)
  const delta = (content: string, finish_reason: string | null = null) =>
    event([{ index: 0, delta: { content }, finish_reason }])
  const pieces = Math.max(1, Math.round(ms / PIECE_MS))
  let isGone = false
  return new ReadableStream({
    async start(controller) {
      controller.enqueue(delta(`Answer ${work}:`))
      for (let piece = 0; piece < pieces && !isGone; piece++) {
        await pause(PIECE_MS)
        if (!isGone) controller.enqueue(delta(` piece ${piece}`))
      }
      if (isGone) return
      controller.enqueue(delta(` end-of-work-${work}`, 'stop'))
      controller.enqueue(event([], { usage: USAGE }))
      controller.enqueue(encoder.encode('data: [DONE]\n\n'))
      controller.close()
    },
    cancel() {
      isGone = true
    },
  })
}
