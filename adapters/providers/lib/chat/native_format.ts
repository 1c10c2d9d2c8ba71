/** What the vendors with wires of their own have in common: orders in that wire pass as they came, orders in chat are translated both ways. */
import type { ChatAnswer, ChatOrder, ChatVendor, Fields, ChatFormat } from '../../../../core/mod.ts'
import { chatJudge } from './refusals.ts'
import { atOnce, type Reading, told, translatedStream } from './translation.ts'
import { type ChatVendorConfig, chatHttp, writeChat } from './provider.ts'
import { type Judge, type Refusal, record, refusalIn } from '../../../http/refusals.ts'

/** `created` in unix seconds. */
export type Facts = { readonly model: string; readonly created: number }

/** A wire, as one vendor speaks it. */
export type NativeFormat = {
  /** The protocol, for errors and logs. */
  readonly name: string
  readonly wire: ChatFormat
  /** Where an order goes, and with which headers, the operator's among them. */
  address(order: ChatOrder): { readonly url: string; readonly headers: Readonly<Record<string, string>> }
  /** The body of an order in the own wire, and of one in chat. */
  own(order: ChatOrder): Fields
  fromChat(order: ChatOrder): Fields
  /** From a path in the vendor's words to the caller's, by the wire in which he wrote. */
  callerPath(path: string, wire: ChatFormat): string
  readonly quirks: Judge
  /** The refusal that a 2xx reply is, beside those that every vendor writes. */
  failureIn?(reply: Fields): Refusal | undefined
  /** Whether a 2xx reply is an answer at all. */
  isAnswer(reply: Fields): boolean
  toChat(reply: Fields, facts: Facts): Fields
  stream(facts: Facts): Reading
  /** A whole answer as the events of the wire; absent where there is no telling. */
  events?(reply: Fields): string
}

/** Asks a vendor that speaks `speech`. The operator's parameters and overrides are in the words of the vendor's wire. */
export function nativeFormat(config: ChatVendorConfig, speech: NativeFormat): ChatVendor['ask'] {
  const { name, wire } = speech
  const { clock, timeoutMs } = config
  const http = chatHttp(config, name)

  return async (order, { signal }) => {
    const isNative = order.wire === wire
    if (!isNative && order.wire !== 'chat') throw new Error(`${name} speaks ${wire} and chat, not ${order.wire}`)
    signal.throwIfAborted()
    const facts = { model: order.model, created: Math.floor(clock.now() / 1000) }
    const sent = writeChat(config, { order: isNative ? speech.own(order) : speech.fromChat(order) })
    const judge = chatJudge(
      { body: order.body, sent, streams: order.stream, callerPath: (path) => speech.callerPath(path, order.wire) },
      speech.quirks,
    )
    const { url, headers } = speech.address(order)
    const asking = { headers, signal, judge }
    if (!order.stream) return { kind: 'whole', body: read(await http.postJson(url, sent, asking)) }
    const answer = await http.postStream(url, sent, asking)
    if (answer.kind === 'whole') return asEvents(read(answer.body))
    if (isNative) return answer
    return {
      kind: 'stream',
      stream: await translatedStream(answer.stream, speech.stream(facts), {
        name,
        http,
        judge,
        clock,
        timeoutMs,
        signal,
      }),
    }

    function read(reply: unknown): Fields {
      const body = record(reply) as Fields
      const refusal = speech.failureIn?.(body) ?? refusalIn(body)
      if (refusal) throw http.refused(refusal, judge)
      if (!speech.isAnswer(body)) throw http.refusal('failed', `${name} answered in another shape`)
      return isNative ? body : speech.toChat(body, facts)
    }

    function asEvents(body: Fields): ChatAnswer {
      if (!isNative) return atOnce(body)
      if (!speech.events) throw http.refusal('failed', `${name} answered whole where a stream was asked for`)
      return told(speech.events(body))
    }
  }
}

/** Renames a path by the first of these patterns that it matches. */
export const renamedBy =
  (table: readonly (readonly [RegExp, string])[]) =>
  (path: string): string => {
    const row = table.find(([pattern]) => pattern.test(path))
    return row ? path.replace(...row) : path
  }
