/** Streams for callers of another format than `chat`. */
import { forwardedStream, SEQUENCE, sequenceAfter } from './forwarded_stream.ts'
import type { StreamFormat } from './stream_progress.ts'
import type { TrackedStream } from './answer_start.ts'
import { eventSplitter } from '../../../lib/event_splitter.ts'
import { parseEvent } from './sse.ts'
import type { StreamTranslator } from './stream_translator.ts'
import type { ChatStream } from '../../../ports/vendors/chat.ts'

/**
 * Translates a `chat` stream for a caller of another format. The closing events are those with which the translator
 * ends.
 */
export function translated(
  upstream: ChatStream,
  rewriter: StreamTranslator,
  options: Pick<StreamFormat, 'showsReasoningTokens' | 'estimate' | 'answers'> = {},
): TrackedStream {
  const encoder = new TextEncoder()
  const inner = forwardedStream(upstream, { format: 'chat', ...options })
  const splitter = eventSplitter()
  let closing = ''
  let lastNumbered = ''
  return {
    async next() {
      for (;;) {
        const bytes = await inner.next()
        if (bytes === undefined) {
          if (inner.closing() !== '') closing += translate('data: [DONE]') + rewriter.end()
          return undefined
        }
        const out = withoutClosing(splitter.push(bytes).map(translate).join(''))
        if (out.includes(SEQUENCE)) lastNumbered = out
        if (out !== '') return encoder.encode(out)
      }
    },
    cancel: inner.cancel,
    hasContent: inner.hasContent,
    hasStarted: inner.hasStarted,
    closing: () => closing,
    usage: inner.usage,
    nextSequence: () => sequenceAfter(lastNumbered),
  }

  function translate(raw: string): string {
    const event = parseEvent(raw)
    return event ? rewriter.on(event) : ''
  }

  /** A translator may emit its last event before the vendor's stream ends. */
  function withoutClosing(payload: string): string {
    const at = closing === '' ? payload.search(LAST) : 0
    if (at < 0) return payload
    closing += payload.slice(at)
    return payload.slice(0, at)
  }
}

/** First line of the last event, in the formats that have one. */
const LAST = /^event: (?:message_stop|response\.(?:completed|incomplete|failed))$/m
