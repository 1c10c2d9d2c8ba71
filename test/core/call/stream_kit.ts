/** A buyer in front of a live endpoint: what is asked there, and how a stream is read. */
import { chunk, DONE, scriptedChat, type ScriptedChat, USAGE, usageChunk } from '../../fakes/chat.ts'
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import type { ChatAnswer, Fields, Gateway, Payment } from '../../../core/mod.ts'
import { type Buyer, door, encodePayment, type Kit, kit, type KitOptions, ORIGIN } from '../../kit.ts'

export const COMPLETIONS = '/api/v1/chat/completions'
export const MODEL = 'vendor-a/chat-5.4-mini'
export const SKY = { model: MODEL, messages: [{ role: 'user', content: 'Why is the sky blue?' }], max_tokens: 100 }
export const STREAM = { ...SKY, stream: true, stream_options: { include_usage: true } }

/** A chunk that goes out as it came in: its model has our name already. */
export const deltaChunk = (delta: Fields, more: Fields = {}): string => chunk(delta, { ...more, model: MODEL })
export const USED = usageChunk(USAGE, { model: MODEL })

/** The events of a whole streamed answer. */
export const HELLO = [
  deltaChunk({ role: 'assistant', content: '' }),
  deltaChunk({ content: 'Hel' }),
  deltaChunk({ content: 'lo' }),
  deltaChunk({}, { finish: 'stop' }),
  USED,
  DONE,
]

type Posting = {
  readonly payment?: Payment
  readonly gateway?: Gateway
  readonly gone?: AbortSignal
  readonly path?: string
  readonly ip?: string
}

type Table = Kit & {
  readonly chat: ScriptedChat
  readonly alice: Buyer
  /** A request as it came over HTTP, its body unread. */
  post(body: unknown, at?: Posting): Promise<Response>
  /** Signs what the 402 of this body asks for. */
  signed(body?: unknown, at?: { path?: string; by?: Buyer }): Promise<Payment>
}

export async function table(script?: Parameters<typeof scriptedChat>[0], options: KitOptions = {}): Promise<Table> {
  const chat = scriptedChat(script)
  const subject = kit({ chatVendor: chat, ...options })
  const alice = subject.buyer()
  return {
    ...subject,
    chat,
    alice,
    async post(body, { payment, gateway = subject.gateway, path = COMPLETIONS, gone, ip = '192.0.2.1' } = {}) {
      const headers = {
        'content-type': 'application/json',
        ...(payment && { 'payment-signature': encodePayment(payment) }),
      }
      return await gateway.fetch(new Request(ORIGIN + path, { method: 'POST', headers, body: JSON.stringify(body) }), {
        ip,
        ...(gone && { gone }),
      })
    },
    async signed(body = STREAM, { path = COMPLETIONS, by = alice } = {}) {
      return by.sign(await by.ask(body, { path }))
    },
  }
}

export const streaming = (answer: ChatAnswer) => async () => answer

type Reading = { next(): Promise<string | undefined>; rest(): Promise<string>; leave(): Promise<void> }

export function reading(response: Response): Reading {
  const reader = (response.body as ReadableStream<Uint8Array>).getReader()
  const decoder = new TextDecoder()
  async function next(): Promise<string | undefined> {
    const { done, value } = await reader.read()
    return done ? undefined : decoder.decode(value)
  }
  async function rest(): Promise<string> {
    let text = ''
    for (let piece = await next(); piece !== undefined; piece = await next()) text += piece
    return text
  }
  return { next, rest, leave: () => reader.cancel() }
}

/** A chain whose settlements wait for the test. */
export function slowChain() {
  const gate = door()
  let settlements = 0
  const chain = memoryChain({
    before: (question) => (question === 'settle' ? (settlements++, gate.passed) : undefined),
  })
  return { chain, open: gate.open, settlements: () => settlements }
}
