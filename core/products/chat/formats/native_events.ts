/** Reads the events of the formats that vendors other than those of chat speak. */
import { type Fields, isFields, type Json } from '../../../lib/json.ts'
import type { ChatFormat, ChatStream, SseEvent } from '../../../ports/vendors/chat.ts'
import { isEmpty } from './empty_answer.ts'
import { parseEvent, sseJson, tryJson } from './sse.ts'
import { EVENT_END, type EventReader, type StreamProgress, upstreamFailure } from './stream_progress.ts'

type Reading = { readonly upstream: ChatStream; readonly progress: StreamProgress }
type NativeFormat = Exclude<ChatFormat, 'chat'>

export const nativeReader = (format: NativeFormat, reading: Reading): EventReader => readers[format](reading)

const readers: Readonly<Record<NativeFormat, (reading: Reading) => EventReader>> = {
  messages: (reading) => ({
    marks: /event: (?:error|message_delta|message_start|message_stop)|"type": ?"error"/,
    isRead: () => false,
    read: (event, raw) => messages(reading, event, raw),
  }),
  responses: (reading) => ({
    marks: /event: (?:error|response\.(?:completed|incomplete|failed))|"type": ?"error"/,
    isRead: () => false,
    read: (event, raw) => responses(reading, event, raw),
  }),
  generate_content: generateContent,
}

function messages({ upstream, progress }: Reading, { event, data }: SseEvent, raw: string): string {
  const isParsed =
    event === 'message_start' || event === 'message_delta' || event === 'error' || data.includes('"error"')
  const payload = isParsed ? tryJson(data) : undefined
  if (event === 'error' || payload?.type === 'error') throw upstreamFailure(upstream, progress, { event, data })
  const counts = isFields(payload?.message) ? payload.message.usage : payload?.usage
  if (isFields(counts)) progress.usage = { ...(isFields(progress.usage) ? progress.usage : {}), ...counts }
  if (isFields(payload?.delta) && payload.delta.stop_reason === 'refusal')
    progress.hasContent = progress.hasStarted = true
  return event === 'message_stop' ? last(progress, raw) : raw
}

function responses({ upstream, progress }: Reading, { event, data }: SseEvent, raw: string): string {
  if (event === 'error' || event === 'response.failed') throw upstreamFailure(upstream, progress, { event, data })
  const isLast = event === 'response.completed' || event === 'response.incomplete'
  const payload = isLast || data.includes('"error"') ? tryJson(data) : undefined
  if (payload?.type === 'error') throw upstreamFailure(upstream, progress, { event, data })
  if (!isLast) return raw
  const response: Fields = isFields(payload?.response) ? payload.response : {}
  progress.usage = response.usage ?? null
  if (!isEmpty(response, 'responses')) progress.hasContent = progress.hasStarted = true
  return last(progress, raw)
}

/** Every chunk of generate_content carries usage, so it is parsed only when requested. */
const COUNTED = '"usageMetadata"'
/** The last event of generate_content has a finish reason, or the reason why there is no answer. */
const ENDED = /"(?:finishReason|finish_reason|blockReason)": ?"/

/** Clients of this format read single lines of data and nothing else (contract 7.36). */
const SINGLE_LINE = /^data: \{[^\n]*\}\n\n$/

/** An event with a finish reason is held back until another one follows: the last event carries the receipt. */
function generateContent({ upstream, progress }: Reading): EventReader {
  let lastCounts = ''
  const released = (): string => {
    const { closing } = progress
    progress.closing = ''
    return closing
  }
  return {
    marks: /"error":|event: error|"(?:finishReason|finish_reason|blockReason)": ?"/,
    isRead(text) {
      if (text.includes(COUNTED)) lastCounts = text
      progress.isFinished ||= ENDED.test(text)
      return progress.closing !== ''
    },
    read({ event, data }, raw) {
      const payload = tryJson(data)
      if (event === 'error' || payload?.error !== undefined) throw upstreamFailure(upstream, progress, { event, data })
      const isPing = event !== undefined && payload?.candidates === undefined
      if (!payload || isPing) return ''
      const out = SINGLE_LINE.test(raw) ? raw : sseJson(payload)
      const before = released()
      if (!ENDED.test(data)) return before + out
      progress.closing = out
      return before
    },
    ending: released,
    lastUsage: () => lastUsage(lastCounts),
  }
}

function lastUsage(text: string): Json {
  const [event] = text
    .split(EVENT_END)
    .filter((raw) => raw.includes(COUNTED))
    .slice(-1)
  return tryJson(parseEvent(event ?? '')?.data ?? '')?.usageMetadata ?? null
}

/** Holds the last event back: it ends the stream. */
function last(progress: StreamProgress, raw: string): string {
  progress.isFinished = true
  progress.isOver = true
  progress.closing = raw
  return ''
}
