/**
 * The model of the chat bench: answers at once in OpenAI chat, whole or as a stream of 50 pieces, and counts who asked.
 */

/** Every whole answer and every stream contains it, near its end. */
export const LAST_WORDS = 'and that is the end of it.'
const WORDS =
  `A fox is small, quick and red, and the snow does not trouble it: its fur is thick, and its ears hear a mouse under a foot of it. `.repeat(
    6,
  )
const TEXT = `${WORDS}${LAST_WORDS}`
const PIECES = 50
/** Data lines of one stream: the role, the pieces, the reason for its end, the usage and `[DONE]`. */
export const EVENTS = PIECES + 4
/** The `user` of a request that streams half its pieces, and then stays open until its reader leaves. */
export const UPSTREAM_JOB = 'holds'

const USAGE = { prompt_tokens: 160, completion_tokens: 180, total_tokens: 340 }

type Upstream = {
  readonly port: number
  /** Requests answered, by the first segment of the path: each gateway is given another one. */
  readonly requests: Readonly<Record<string, number>>
  stop(): Promise<void>
}

export function upstream(): Upstream {
  const requests: Record<string, number> = {}
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 255,
    async fetch(request) {
      const order = (await request.json()) as { model: string; stream?: boolean; user?: string }
      const [, name = ''] = new URL(request.url).pathname.split('/')
      requests[name] = (requests[name] ?? 0) + 1
      if (!order.stream) return Response.json(whole(order.model))
      return new Response(streamOf(piecesOf(order.model), order.user === UPSTREAM_JOB), {
        headers: { 'content-type': 'text/event-stream; charset=utf-8' },
      })
    },
  })
  return { port: server.port ?? 0, requests, stop: () => server.stop(true) }
}

function whole(model: string) {
  const choices = [
    { index: 0, message: { role: 'assistant', content: TEXT, refusal: null }, logprobs: null, finish_reason: 'stop' },
  ]
  return {
    id: 'chatcmpl-bench',
    object: 'chat.completion',
    created: 1_795_132_800,
    model,
    choices,
    usage: USAGE,
    system_fingerprint: 'fp_bench',
  }
}

const written = new Map<string, readonly Uint8Array[]>()

/** One event each; written once for each model, so that the upstream is never what is measured. */
function piecesOf(model: string): readonly Uint8Array[] {
  const known = written.get(model)
  if (known) return known
  const chunk = (choices: readonly unknown[], more = {}) =>
    `data: ${JSON.stringify({ id: 'chatcmpl-bench', object: 'chat.completion.chunk', created: 1_795_132_800, model, system_fingerprint: 'fp_bench', choices, ...more })}\n\n`
  const size = Math.ceil(TEXT.length / PIECES)
  const texts = Array.from({ length: PIECES }, (_, index) => TEXT.slice(index * size, (index + 1) * size))
  const events = [
    chunk([{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }]),
    ...texts.map((content) => chunk([{ index: 0, delta: { content }, finish_reason: null }])),
    chunk([{ index: 0, delta: {}, finish_reason: 'stop' }]),
    chunk([], { usage: USAGE }),
    'data: [DONE]\n\n',
  ]
  const made = events.map((event) => new TextEncoder().encode(event))
  written.set(model, made)
  return made
}

/** Each piece is a packet of its own: others get a turn in between. */
function streamOf(pieces: readonly Uint8Array[], isOpen: boolean): ReadableStream {
  const sent = isOpen ? pieces.slice(0, PIECES / 2) : pieces
  return new ReadableStream({
    type: 'direct',
    async pull(controller: ReadableStreamDirectController) {
      for (const piece of sent) {
        controller.write(piece)
        await controller.flush()
        await new Promise<void>((resolve) => void setImmediate(resolve))
      }
      if (isOpen) await new Promise<never>(() => {})
      controller.close()
    },
  } as unknown as UnderlyingByteSource)
}
