/** A chat service in the place of a real one: every answer that it begins is money of the operator. */

export type Vendor = {
  readonly origin: string
  /** How many answers it has begun. */
  answers(): number
  stop(): Promise<void>
}

/** The last words of every answer: whoever has them has all of it. */
export const LAST_WORDS = 'these are the last words of the answer'
const WORDS = ['An', ' answer', ' that', ' costs', ' money,', ' and', ` ${LAST_WORDS}`]
const USAGE = { prompt_tokens: 20, completion_tokens: 40, total_tokens: 60 }

export function vendor(): Vendor {
  let count = 0
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      const body = (await request.json()) as { stream?: boolean; model: string }
      const id = `chatcmpl-${++count}`
      if (body.stream) return streamed({ id, model: body.model })
      const message = { role: 'assistant', content: WORDS.join('') }
      const choices = [{ index: 0, message, finish_reason: 'stop' }]
      return Response.json({ id, object: 'chat.completion', created: 1, model: body.model, choices, usage: USAGE })
    },
  })
  return { origin: server.url.origin, answers: () => count, stop: () => server.stop(true) }
}

function streamed(head: { readonly id: string; readonly model: string }): Response {
  const event = (choices: readonly unknown[], more = {}) =>
    `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', created: 1, choices, ...more })}\n\n`
  const deltas = WORDS.map((content, i) =>
    event([{ index: 0, delta: { content }, finish_reason: i === WORDS.length - 1 ? 'stop' : null }]),
  )
  const events = [...deltas, event([], { usage: USAGE }), 'data: [DONE]\n\n']
  return new Response(events.join(''), { headers: { 'content-type': 'text/event-stream' } })
}
