/**
 * Shared by vendors with a native chat format: requests in that format pass unchanged, chat requests are translated.
 */
import type { ChatAnswer, ChatOrder, ChatVendor, Fields, ChatFormat } from '../../../../core/mod.ts'
import { chatJudge } from './refusals.ts'
import { atOnce, type Reading, told, translatedStream } from './translation.ts'
import { type ChatVendorConfig, chatHttp, writeChat } from './provider.ts'
import { type Judge, type Refusal, record, refusalIn } from '../../../http/refusals.ts'

/** `created` is in Unix seconds. */
export type Facts = { readonly model: string; readonly created: number }

/** A chat format as one vendor implements it. */
export type NativeFormat = {
  /** Name of the protocol, for errors and logs. */
  readonly name: string
  readonly format: ChatFormat
  /** URL and headers of a request, including the operator's headers. */
  address(order: ChatOrder): { readonly url: string; readonly headers: Readonly<Record<string, string>> }
  /** The body of a request in the native format; `fromChat` translates one in chat format. */
  own(order: ChatOrder): Fields
  fromChat(order: ChatOrder): Fields
  /** Maps a path in the vendor's terms to the caller's, by the caller's format. */
  callerPath(path: string, format: ChatFormat): string
  readonly quirks: Judge
  /** The error in a 2xx reply, beyond the forms that every vendor uses. */
  failureIn?(reply: Fields): Refusal | undefined
  /** Whether a 2xx reply is an answer. */
  isAnswer(reply: Fields): boolean
  toChat(reply: Fields, facts: Facts): Fields
  stream(facts: Facts): Reading
  /** A whole answer as events of the format; absent where that is impossible. */
  events?(reply: Fields): string
}

/**
 * Creates the `ask` of a vendor with a native format. The operator's parameters and overrides use the native format.
 */
export function nativeFormat(config: ChatVendorConfig, speech: NativeFormat): ChatVendor['ask'] {
  const { name, format } = speech
  const { clock, timeoutMs } = config
  const http = chatHttp(config, name)

  return async (order, { signal }) => {
    const isNative = order.format === format
    if (!isNative && order.format !== 'chat')
      throw new Error(`${name} supports the formats ${format} and chat, not ${order.format}`)
    signal.throwIfAborted()
    const facts = { model: order.model, created: Math.floor(clock.now() / 1000) }
    const sent = writeChat(config, { order: isNative ? speech.own(order) : speech.fromChat(order) })
    const judge = chatJudge(
      { body: order.body, sent, streams: order.stream, callerPath: (path) => speech.callerPath(path, order.format) },
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
      if (!speech.isAnswer(body)) throw http.refusal('failed', `${name} answered in an unknown format`)
      return isNative ? body : speech.toChat(body, facts)
    }

    function asEvents(body: Fields): ChatAnswer {
      if (!isNative) return atOnce(body)
      if (!speech.events) throw http.refusal('failed', `${name} answered without streaming, which was requested`)
      return told(speech.events(body))
    }
  }
}

/** Renames a path by the first matching pattern. */
export const renamedBy =
  (table: readonly (readonly [RegExp, string])[]) =>
  (path: string): string => {
    const row = table.find(([pattern]) => pattern.test(path))
    return row ? path.replace(...row) : path
  }
