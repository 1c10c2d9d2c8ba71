/** A scripted chat vendor for tests, and helpers to build its answers. */
import type { ChatAnswer, ChatOrder, ChatStream, ChatVendor, Fields, Json, ChatFormat } from '../../core/mod.ts'

/** The outcome of one order; by default the answer is Hello. */
export type ChatScript = (order: ChatOrder, at: { signal: AbortSignal; attempt: number }) => Promise<ChatAnswer>

export type ScriptedChat = ChatVendor & { readonly orders: readonly ChatOrder[] }

/**
 * Records every order. Rejects at once when the signal aborts, and ends a stream at once when it is cancelled, whatever
 * the script does.
 */
export function scriptedChat(
  script: ChatScript = hello,
  { format = 'chat' }: { format?: ChatFormat } = {},
): ScriptedChat {
  const orders: ChatOrder[] = []
  return {
    format,
    orders,
    async ask(order, { signal }) {
      orders.push(order)
      const attempt = orders.length
      const answer = await orAbort(() => script(order, { signal, attempt }), signal)
      return answer.kind === 'stream' ? { kind: 'stream', stream: watched(answer.stream, signal) } : answer
    },
  }
}

async function hello({ stream, model }: ChatOrder): Promise<ChatAnswer> {
  if (!stream) return wholeAnswer({ model })
  const events = [
    chunk({ role: 'assistant', content: '' }, { model }),
    chunk({ content: 'Hel' }, { model }),
    chunk({ content: 'lo' }, { model }),
  ]
  return streamAnswer([...events, chunk({}, { model, finish: 'stop' }), usageChunk(USAGE, { model }), DONE])
}

function orAbort<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason)
    if (signal.aborted) return abort()
    signal.addEventListener('abort', abort, { once: true })
    work()
      .then(resolve, reject)
      .finally(() => signal.removeEventListener('abort', abort))
  })
}

/** An abort also cancels the inner stream, so that tests can rely on `onCancel`: called once, and not after the end. */
function watched(inner: ChatStream, signal: AbortSignal): ChatStream {
  let isOver = false
  let release = () => {}
  let letGo = () => inner.cancel()
  const stop = () => {
    const once = letGo
    letGo = () => {}
    once()
  }
  signal.addEventListener('abort', stop, { once: true })
  const finish = () => {
    isOver = true
    signal.removeEventListener('abort', stop)
  }
  return {
    async next() {
      if (isOver) return undefined
      const cancelled = new Promise<undefined>((resolve) => (release = () => resolve(undefined)))
      const piece = await Promise.race([orAbort(() => inner.next(), signal), cancelled])
      if (piece === undefined) finish()
      return isOver ? undefined : piece
    },
    cancel() {
      if (isOver) return
      finish()
      release()
      stop()
    },
  }
}

// ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Arguments that are not text are serialized as JSON. */
export type ToolCall = { readonly id?: string; readonly name: string; readonly arguments: Json }
export type Whole = {
  readonly content?: string | null
  readonly reasoning?: string
  readonly toolCalls?: readonly ToolCall[]
  readonly finish?: string
  readonly usage?: Fields
  readonly model?: string
}

const HEAD = { id: 'chatcmpl-1', created: 1_700_000_000 }
const MODEL = 'scripted'
export const USAGE = { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 }
export const DONE = 'data: [DONE]\n\n'

/** A chat.completion that says Hello by default. */
export function wholeAnswer(parts: Whole = {}): Extract<ChatAnswer, { kind: 'whole' }> {
  const { reasoning, toolCalls, usage = USAGE, model = MODEL } = parts
  const { content = toolCalls ? '' : 'Hello', finish = toolCalls ? 'tool_calls' : 'stop' } = parts
  const calls = toolCalls && { tool_calls: toolCalls.map(toolCall) }
  const message = {
    role: 'assistant',
    content,
    ...(reasoning !== undefined && { reasoning_content: reasoning }),
    ...calls,
  }
  return {
    kind: 'whole',
    body: { ...HEAD, object: 'chat.completion', model, choices: [{ index: 0, message, finish_reason: finish }], usage },
  }
}

/** One tool call of a message; in a delta it needs its `index`. */
export function toolCall({ id, name, arguments: given }: ToolCall, index = 0): Fields {
  const text = typeof given === 'string' ? given : JSON.stringify(given)
  return { id: id ?? `call_${index + 1}`, type: 'function', function: { name, arguments: text } }
}

/** The text of one chunk. Fields of `more` are added to the chunk, or replace its own. */
export function chunk(delta: Fields, { finish = null, ...more }: Fields = {}): string {
  return event({ choices: [{ index: 0, delta, finish_reason: finish }], ...more })
}

export function usageChunk(usage: Fields = USAGE, more: Fields = {}): string {
  return event({ choices: [], usage, ...more })
}

function event(fields: Fields): string {
  return `data: ${JSON.stringify({ ...HEAD, object: 'chat.completion.chunk', model: MODEL, ...fields })}\n\n`
}

// ── streams ─────────────────────────────────────────────────────────────────────────────────────────────────────────

type Streaming = {
  onCancel?(): void
  /** Delays the chunk with this index until it resolves; when it rejects, so does `next()`. */
  gate?(index: number): Promise<unknown> | void
}

/** A stream of these texts. An error among them rejects `next()`. */
export function streamAnswer(
  pieces: readonly (string | Error)[],
  { onCancel = () => {}, gate = () => {} }: Streaming = {},
): Extract<ChatAnswer, { kind: 'stream' }> {
  let at = 0
  const next = async () => {
    await gate(at)
    const piece = pieces[at++]
    if (piece instanceof Error) throw piece
    return piece === undefined ? undefined : encoder.encode(piece)
  }
  return { kind: 'stream', stream: { next, cancel: onCancel } }
}

type ChatPieces = {
  readonly answer: ChatAnswer
  push(...texts: readonly string[]): void
  /** Ends the stream after the pushed chunks, with an error if one is given. */
  end(error?: Error): void
  /** Resolves when the reader waits for a chunk that has not been pushed. */
  requested(): Promise<void>
  isCancelled(): boolean
}

/** A stream that a test feeds chunk by chunk, for one reader. */
export function chatPieces(...first: readonly string[]): ChatPieces {
  const queue: (() => Promise<Uint8Array | undefined>)[] = []
  const watchers: (() => void)[] = []
  let waiting: (() => void) | undefined
  let isCancelled = false
  const add = (piece: () => Promise<Uint8Array | undefined>) => {
    queue.push(piece)
    waiting?.()
    waiting = undefined
  }
  const push = (...texts: readonly string[]) => texts.forEach((text) => add(async () => encoder.encode(text)))
  const next = async () => {
    while (queue.length === 0 && !isCancelled) {
      await new Promise<void>((resolve) => {
        waiting = resolve
        for (const watcher of watchers.splice(0)) watcher()
      })
    }
    return await queue.shift()?.()
  }
  const cancel = () => {
    isCancelled = true
    waiting?.()
  }
  push(...first)
  return {
    answer: { kind: 'stream', stream: { next, cancel } },
    push,
    end: (error) => add(() => (error ? Promise.reject(error) : Promise.resolve(undefined))),
    requested: () => (waiting ? Promise.resolve() : new Promise((resolve) => void watchers.push(resolve))),
    isCancelled: () => isCancelled,
  }
}

const encoder = new TextEncoder()
