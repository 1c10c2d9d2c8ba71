/**
 * Shared by vendors with a native chat format: requests in that format pass unchanged, chat requests are translated.
 */
import type { ChatAnswer, ChatOrder, ChatVendor, Fields, ChatFormat } from '../../../../core/mod.ts'
import { chatErrorClassifier } from './error_replies.ts'
import { asStream, type StreamTranslation, streamOf, translatedStream } from './translation.ts'
import { type ChatVendorConfig, chatHttp, writeChat } from './provider.ts'
import { type ErrorClassifier, type ErrorReply, record, errorReplyIn } from '../../../http/error_replies.ts'

/** `created` is in Unix seconds. */
export type Facts = { readonly model: string; readonly created: number }

/** A chat format as one vendor implements it. */
type NativeFormat = {
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
  readonly quirks: ErrorClassifier
  /** The error in a 2xx reply, beyond the forms that every vendor uses. */
  failureIn?(reply: Fields): ErrorReply | undefined
  /** Whether a 2xx reply is an answer. */
  isAnswer(reply: Fields): boolean
  toChat(reply: Fields, facts: Facts): Fields
  stream(facts: Facts): StreamTranslation
  /** A whole answer as events of the format; absent where that is impossible. */
  events?(reply: Fields): string
}

/**
 * Creates the `ask` of a vendor with a native format. The operator's parameters and overrides use the native format.
 */
export function nativeFormat(config: ChatVendorConfig, native: NativeFormat): ChatVendor['ask'] {
  const { name, format } = native
  const { clock, timeoutMs } = config
  const http = chatHttp(config, name)

  return async (order, { signal }) => {
    const isNative = order.format === format
    if (!isNative && order.format !== 'chat')
      throw new Error(`${name} supports the formats ${format} and chat, not ${order.format}`)
    signal.throwIfAborted()
    const facts = { model: order.model, created: Math.floor(clock.now() / 1000) }
    const sent = writeChat(config, { order: isNative ? native.own(order) : native.fromChat(order) })
    const classify = chatErrorClassifier(
      {
        body: order.body,
        ours: order.ours,
        sent,
        streams: order.stream,
        callerPath: (path) => native.callerPath(path, order.format),
      },
      native.quirks,
    )
    const { url, headers } = native.address(order)
    const options = { headers, signal, classify }
    if (!order.stream) return { kind: 'whole', body: read(await http.postJson(url, sent, options)) }
    const answer = await http.postStream(url, sent, options)
    if (answer.kind === 'whole') return asEvents(read(answer.body))
    if (isNative) return answer
    return {
      kind: 'stream',
      stream: await translatedStream(answer.stream, native.stream(facts), {
        name,
        http,
        classify,
        clock,
        timeoutMs,
        signal,
      }),
    }

    function read(reply: unknown): Fields {
      const body = record(reply) as Fields
      const errorReply = native.failureIn?.(body) ?? errorReplyIn(body)
      if (errorReply) throw http.errorFrom(errorReply, classify)
      if (!native.isAnswer(body)) throw http.failure('failed', `${name} answered in an unknown format`)
      return isNative ? body : native.toChat(body, facts)
    }

    function asEvents(body: Fields): ChatAnswer {
      if (!isNative) return asStream(body)
      if (!native.events) throw http.failure('failed', `${name} answered without streaming, which was requested`)
      return streamOf(native.events(body))
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
