/** One chat vendor per law that breaks it, and no other. */
import {
  type ChatAnswer,
  type ChatOrder,
  type ChatStream,
  type ChatVendor,
  type Fields,
  rateLimited,
} from '../../core/mod.ts'
import { chunk, DONE, scriptedChat, streamAnswer, toolCall, USAGE, usageChunk, wholeAnswer } from '../fakes/chat.ts'
import type { ChatHarness, Conduct } from './chat_vendors.ts'
import type { Broken } from './law.ts'

const CALL = { name: 'get_weather', arguments: { city: 'Paris' } }
const ERRORS = { errs: new Error('the upstream gave up'), breaks: new Error('the connection broke off') }

/** Keeps every law, its upstream's part included. */
export function dutifulChat(): ChatHarness {
  let conduct: Conduct = 'serves'
  let inProgress = 0

  /** Ends when the signal aborts, if ever. */
  const hang = (signal?: AbortSignal) =>
    new Promise<never>((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)))

  async function whole(isCalling: boolean, signal: AbortSignal): Promise<ChatAnswer> {
    inProgress++
    try {
      return conduct === 'stalls' ? await hang(signal) : wholeAnswer(isCalling ? { toolCalls: [CALL] } : {})
    } finally {
      inProgress--
    }
  }

  function stream(isCalling: boolean): ChatAnswer {
    inProgress++
    const delta = isCalling ? { tool_calls: [{ index: 0, ...toolCall(CALL) }] } : { content: 'Hello' }
    const first = chunk({ role: 'assistant', content: '' })
    const rest = [chunk(delta), chunk({}, { finish: isCalling ? 'tool_calls' : 'stop' }), usageChunk(), DONE]
    const isFailing = conduct === 'errs' || conduct === 'breaks'
    const pieces = isFailing ? [first, ERRORS[conduct as keyof typeof ERRORS]] : [first, ...rest]
    let isOver = false
    const over = () => {
      if (!isOver) inProgress--
      isOver = true
    }
    const isStalling = conduct === 'stalls'
    return streamAnswer(pieces, {
      onCancel: over,
      gate(index) {
        if (index === pieces.length || pieces[index] instanceof Error) over()
        return isStalling && index > 0 ? hang() : undefined
      },
    })
  }

  const vendor = scriptedChat(async (order, { signal }) => {
    if (conduct === 'refuses') throw rateLimited('somebody', 1)
    const isCalling = order.body.tools !== undefined && messagesOf(order).at(-1)?.role !== 'tool'
    return order.stream ? stream(isCalling) : await whole(isCalling, signal)
  })
  return { vendor, model: 'any', upstream: { conduct: (next) => void (conduct = next), inProgress: () => inProgress } }
}

const messagesOf = ({ body }: ChatOrder) => body.messages as readonly Fields[]

type Ask = ChatVendor['ask']

const broken = (law: string, but: string, spoil: (good: ChatVendor) => Ask): Broken<ChatHarness> => ({
  law,
  but,
  async make() {
    const good = dutifulChat()
    const harness = { ...good, vendor: { ...good.vendor, ask: spoil(good.vendor) } }
    return { open: async () => harness, close: async () => {} }
  },
})

/** Spoils the streams only. */
const spoiled =
  (spoil: (good: ChatStream, signal: AbortSignal) => Partial<ChatStream>) =>
  (good: ChatVendor): Ask =>
  async (order, at) => {
    const answer = await good.ask(order, at)
    return answer.kind === 'stream'
      ? { kind: 'stream', stream: { ...answer.stream, ...spoil(answer.stream, at.signal) } }
      : answer
  }

/** Rewrites each piece; what becomes '' is passed over. */
const rewritten = (rewrite: (text: string) => string) =>
  spoiled((good) => ({
    async next() {
      for (let piece = await good.next(); piece; piece = await good.next()) {
        const text = rewrite(new TextDecoder().decode(piece))
        if (text !== '') return new TextEncoder().encode(text)
      }
      return undefined
    },
  }))

const wholes =
  (spoil: (body: any) => Fields) =>
  (good: ChatVendor): Ask =>
  async (order, at) => {
    const answer = await good.ask(order, at)
    return answer.kind === 'whole' ? { kind: 'whole', body: spoil(answer.body) } : answer
  }

const refusing =
  (isRefused: (order: ChatOrder) => boolean) =>
  (good: ChatVendor): Ask =>
  (order, at) =>
    isRefused(order) ? Promise.reject(new Error('unreadable')) : good.ask(order, at)

export const brokenChatVendors: readonly Broken<ChatHarness>[] = [
  broken(
    'a whole order gets a completion: an assistant who says something, why it ended, and usage that adds up',
    'leaves the prompt out of the total',
    wholes((body) => ({ ...body, usage: { ...USAGE, total_tokens: USAGE.completion_tokens } })),
  ),
  broken(
    'a stream hands out whole events: one line of data after "data: ", and a blank line',
    'hands out events in halves',
    spoiled((good, signal) => {
      let rest: Uint8Array | undefined
      return {
        async next() {
          signal.throwIfAborted()
          const piece = rest ?? (await good.next())
          rest = rest || !piece ? undefined : piece.subarray(9)
          return rest ? piece?.subarray(0, 9) : piece
        },
        cancel() {
          rest = undefined
          good.cancel()
        },
      }
    }),
  ),
  broken('the chunks of a stream are of one completion, which an assistant speaks', 'names each chunk anew', (good) => {
    let count = 0
    return rewritten((text) => text.replace('chatcmpl-1', `chatcmpl-${count++}`))(good)
  }),
  broken(
    'a stream ends with its usage, which adds up, then [DONE], once, then nothing',
    'just stops',
    rewritten((text) => (text === DONE ? '' : text)),
  ),
  broken(
    'a stream comes to the same form of answer as a whole one',
    'says that it was cut short when it streams',
    rewritten((text) => text.replace('"stop"', '"length"')),
  ),
  broken(
    'a tool that must be called is called, with arguments that are a JSON object, whole and streamed',
    'puts the arguments into a string once more',
    wholes((body) =>
      JSON.parse(JSON.stringify(body), (key, value) => (key === 'arguments' ? JSON.stringify(value) : value)),
    ),
  ),
  broken(
    'the result of a tool is accepted, and answered',
    'knows no tools among its roles',
    refusing((order) => messagesOf(order).some(({ role }) => role === 'tool')),
  ),
  broken(
    'takes words in any script, in parts, of the system and of the assistant',
    'reads ASCII only',
    refusing(({ body }) => /[^ -~]/.test(JSON.stringify(body))),
  ),
  broken('an order is read, never changed', 'writes into its order', (good) => (order, at) => {
    Object.assign(order.body, { max_tokens: 100 })
    return good.ask(order, at)
  }),
  broken('orders at the same time do not mix', 'serves the newest order to all', (good) => {
    let newest: ChatOrder | undefined
    return async (order, at) => {
      newest = order
      await new Promise((resolve) => setImmediate(resolve))
      return await good.ask({ ...newest, stream: order.stream }, at)
    }
  }),
  broken(
    'cancel() ends a stream, after its first piece and before, and may be called again',
    'hands out what it still has',
    spoiled((good) => {
      let isCancelled = false
      return {
        next: async () => (isCancelled ? new TextEncoder().encode(': late\n\n') : good.next()),
        cancel() {
          good.cancel()
          isCancelled = true
        },
      }
    }),
  ),
  broken(
    'an order whose signal has aborted is refused with its reason',
    'has a reason of its own',
    (good) => async (order, at) => {
      if (at.signal.aborted) throw new Error('aborted')
      return await good.ask(order, at)
    },
  ),
  broken(
    'an abort in the middle of a stream rejects next() with its reason, and never reads as an end',
    'takes an abort for an end',
    spoiled((good, signal) => ({
      next: () =>
        good.next().catch((error: unknown) => {
          if (signal.aborted) return undefined
          throw error
        }),
    })),
  ),
  broken('an abort ends its own order only', 'drops all its streams at an abort', (good) => {
    const all = new Set<AbortController>()
    return (order, { signal }) => {
      const own = new AbortController()
      if (order.stream) all.add(own)
      signal.addEventListener('abort', () => [own, ...all].forEach((each) => each.abort(signal.reason)))
      if (signal.aborted) own.abort(signal.reason)
      return good.ask(order, own)
    }
  }),
  broken(
    'orders that were stopped do not wear their vendor out',
    'keeps the seat of a stream that did not come to its end',
    (good) => {
      let seats = 6
      return (order, at) => {
        if (seats === 0) return Promise.reject(new Error('no seat is free'))
        if (order.stream) seats--
        return spoiled((stream) => ({
          async next() {
            const piece = await stream.next()
            if (piece && new TextDecoder().decode(piece) === DONE) seats++
            return piece
          },
        }))(good)(order, at)
      }
    },
  ),
  broken(
    'a refusal is an ApiError of ask(), whether a stream was asked for or not',
    'hands out a stream that fails at once',
    (good) => async (order, at) => {
      try {
        return await good.ask(order, at)
      } catch (error) {
        if (!order.stream || at.signal.aborted) throw error
        return { kind: 'stream', stream: { next: () => Promise.reject(error), cancel() {} } }
      }
    },
  ),
  broken(
    'what fails after the first event rejects next(), or ends without [DONE]',
    'makes up an end where the connection broke off',
    spoiled((good) => {
      let isOver = false
      return {
        async next() {
          try {
            return isOver ? undefined : await good.next()
          } catch (error) {
            if (error !== ERRORS.breaks) throw error
            isOver = true
            return new TextEncoder().encode(DONE)
          }
        },
      }
    }),
  ),
  broken(
    'a stream is handed out as it comes',
    'is an event behind',
    spoiled((good) => {
      let stored: Uint8Array | undefined
      return {
        async next() {
          const piece = stored ?? (await good.next())
          stored = piece && (await good.next())
          return piece
        },
        cancel() {
          stored = undefined
          good.cancel()
        },
      }
    }),
  ),
  broken(
    'cancel() ends a next() that waits, without an error, and the upstream call',
    'lets the upstream talk on',
    spoiled((good) => {
      let isOver = false
      let release = () => {}
      return {
        async next() {
          const cancelled = new Promise<undefined>((resolve) => (release = () => resolve(undefined)))
          return isOver ? undefined : await Promise.race([good.next(), cancelled])
        },
        cancel() {
          isOver = true
          release()
        },
      }
    }),
  ),
  broken(
    'an abort ends what waits for the upstream, and the upstream call',
    'looks at the signal between two pieces only',
    (good) =>
      async (order, { signal }) => {
        signal.throwIfAborted()
        return await spoiled((stream) => ({
          async next() {
            signal.throwIfAborted()
            return await stream.next()
          },
        }))(good)(order, { signal: new AbortController().signal })
      },
  ),
]
