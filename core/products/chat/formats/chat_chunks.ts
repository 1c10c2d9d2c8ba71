/** Reads the chunks of a chat stream: names, reasoning, usage and the end, in the contract's spelling. */
import { type Fields, given, isFields, type Json, numberOf, objectsOf } from '../../../lib/json.ts'
import { MAX_EVENT } from '../../../lib/event_splitter.ts'
import type { ChatStream, SseEvent } from '../../../ports/vendors/chat.ts'
import { brokenOff } from './answer_start.ts'
import { isNonBlank } from './empty_answer.ts'
import { renamer } from './model_rename.ts'
import { type SampledUsage, sampledUsage } from './sampled_usage.ts'
import { sseJson, tryJson } from './sse.ts'
import { DONE, type EventReader, type StreamFormat, type StreamProgress, upstreamFailure } from './stream_progress.ts'
import { thinkDeltas } from './think_deltas.ts'
import { isCounted, usageOf, withoutReasoningTokens } from './usage.ts'

const MARKS = /"(?:usage": ?\{|error":|reasoning": ?"|finish_reason": ?"|object": ?"error")|\[DONE\]|event: error/

type ChatReading = {
  readonly upstream: ChatStream
  readonly progress: StreamProgress
  readonly options: StreamFormat
  readonly tags: ReturnType<typeof thinkDeltas>
  readonly sampled: SampledUsage | undefined
  /**
   * Chunks are parsed until text or a tool call arrives: reasoning alone becomes the text at the end (contract 6.28).
   */
  isOpening: boolean
  /** Indexes of the answers that have a finish reason. */
  readonly finished: Set<number>
  reasoning: string
  /** The id that the vendor calls its model by, and what replaces it. */
  currentModel: string | undefined
  rename: ((text: string) => string) | undefined
  /** Where usage is merged: the chunk with the finish reason, until the usage is known. */
  lastChunk: Fields | undefined
}

export function chatReader(upstream: ChatStream, progress: StreamProgress, options: StreamFormat): EventReader {
  const { model, estimate } = options
  const reading: ChatReading = {
    upstream,
    progress,
    options,
    tags: thinkDeltas(),
    sampled: estimate && sampledUsage(estimate),
    isOpening: true,
    finished: new Set(),
    reasoning: '',
    currentModel: model?.upstream,
    rename: model && model.upstream !== model.publicId ? renamer(model.upstream, model.publicId) : undefined,
    lastChunk: undefined,
  }
  return {
    marks: MARKS,
    isRead: (text) => reading.isOpening || reading.lastChunk !== undefined || reading.tags.isTagged(text),
    read: (event, raw) => readChunk(reading, event, raw),
    sent(text) {
      reading.sampled?.push(text)
      progress.hasStarted ||= progress.hasContent
    },
    ending: () => endingChunks(reading),
    renamed: (text) => (reading.rename ? reading.rename(text) : text),
  }
}

function readChunk(reading: ChatReading, { event, data }: SseEvent, raw: string): string {
  const { upstream, progress, options, tags } = reading
  if (data === '[DONE]') {
    if ((options.answers ?? 1) > 1 && !progress.isFinished) throw brokenOff()
    progress.isFinished = true
    progress.isOver = true
    progress.closing = DONE
    return ''
  }
  const payload = tryJson(data)
  if (event === 'error' || (payload && isError(payload))) throw upstreamFailure(upstream, progress, { event, data })
  if (!payload) throw brokenOff()
  followModel(reading, payload)
  const chunk = tags.split(withReasoningContent(payload))
  const before = reading.isOpening ? openingChunk(reading, chunk) : ''
  const finish = FINISH.exec(data)?.[1]
  if (finish === 'error') throw upstreamFailure(upstream, progress, { event, data })
  if (finish !== undefined) countFinished(reading, chunk)
  if (finish === 'content_filter') progress.hasContent = true
  const isCounting = isFields(chunk.usage)
  if (isFields(chunk.usage)) progress.usage = publicUsage(chunk.usage, options)
  const out = isCounting ? { ...chunk, usage: progress.usage } : chunk
  if (options.isUsageMerged) return before + merged(reading, out, { isFinish: finish !== undefined, payload, raw })
  return before + (out === payload ? raw : sseJson(out))
}

/** A stream of several answers is finished when each of them has its finish reason. */
function countFinished({ finished, progress, options }: ChatReading, { choices }: Fields): void {
  for (const { index, finish_reason } of objectsOf(choices))
    if (typeof finish_reason === 'string') finished.add(numberOf(index) ?? 0)
  progress.isFinished = finished.size >= (options.answers ?? 1)
}

/** The first chunk may name the model otherwise, such as by a dated id. */
function followModel(reading: ChatReading, payload: Fields): void {
  const { model } = reading.options
  if (!model || typeof payload.model !== 'string' || payload.model === reading.currentModel) return
  reading.currentModel = payload.model
  reading.rename = payload.model === model.publicId ? undefined : renamer(payload.model, model.publicId)
}

const publicUsage = (usage: Fields, { showsReasoningTokens = true }: StreamFormat): Fields =>
  showsReasoningTokens ? usageOf(usage) : withoutReasoningTokens(usageOf(usage))

/** Handles a chunk before the first text. Returns the text to send before it. */
function openingChunk(reading: ChatReading, chunk: Fields): string {
  const { progress } = reading
  const choices = objectsOf(chunk.choices)
  const [choice] = choices
  const deltas = choices.map(({ delta }) => (isFields(delta) ? delta : {}))
  const thought = deltas[0]?.reasoning_content
  if (typeof thought === 'string' && reading.reasoning.length < MAX_EVENT) reading.reasoning += thought
  if (deltas.some((delta) => isNonBlank(delta.reasoning_content))) progress.hasContent = true
  // Hidden reasoning (OpenRouter): the answer has started, but without content that is charged for.
  if (deltas.some((delta) => isNonBlank(delta.reasoning_details))) progress.hasStarted = true
  if (deltas.some((delta) => ANSWER_FIELDS.some((name) => isNonBlank(delta[name])))) {
    progress.hasContent = true
    reading.isOpening = false
    return ''
  }
  if (typeof choice?.finish_reason !== 'string' || !isNonBlank(reading.reasoning)) return ''
  reading.isOpening = false
  const { usage: _usage, ...same } = chunk
  return sseJson({ ...same, choices: [{ index: 0, delta: { content: reading.reasoning }, finish_reason: null }] })
}

// ── usage ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Usage comes after the finish reason, in a chunk without choices: the finish waits for it. */
function merged(
  reading: ChatReading,
  chunk: Fields,
  { isFinish, payload, raw }: { readonly isFinish: boolean; readonly payload: Fields; readonly raw: string },
): string {
  const { lastChunk } = reading
  if (objectsOf(chunk.choices).length === 0) {
    if (lastChunk) reading.lastChunk = { ...chunk, ...lastChunk }
    return ''
  }
  reading.lastChunk = isFinish ? chunk : undefined
  const before = lastChunk ? sseJson(lastChunk) : ''
  if (isFinish) return before
  return before + (chunk === payload ? raw : sseJson(chunk))
}

/** The last chunk with the usage; or a chunk with estimated usage, where the vendor has reported none. */
function endingChunks(reading: ChatReading): string {
  const { lastChunk, progress, sampled, options } = reading
  reading.lastChunk = undefined
  if (lastChunk) sampled?.push(sseJson(lastChunk))
  const isReported = isFields(progress.usage) && isCounted(progress.usage)
  const estimate = isReported || progress.closing === '' ? undefined : sampled?.estimated()
  if (estimate) progress.usage = estimate.usage
  if (lastChunk) return sseJson(given({ ...lastChunk, usage: progress.usage ?? undefined }))
  if (!estimate || options.isUsageMerged) return ''
  const { id, created, model } = estimate.first
  const { usage } = estimate
  return sseJson(given({ id, object: 'chat.completion.chunk', created, model, choices: [], usage }))
}

// ── chunks ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const isError = ({ error, object }: Fields): boolean => (error !== undefined && error !== null) || object === 'error'

const FINISH = /"finish_reason": ?"(\w*)/
/** Members of a delta that are part of the answer; `function_call` is legacy. */
const ANSWER_FIELDS = ['content', 'tool_calls', 'refusal', 'function_call', 'images', 'audio', 'web_search'] as const

const isNonEmpty = (value: Json | undefined): boolean => typeof value === 'string' && value !== ''

/** Renames `reasoning` (vLLM, OpenRouter) to the contract's `reasoning_content` (contract 6.25). */
function withReasoningContent(chunk: Fields): Fields {
  const isNamed = ({ delta }: Fields) =>
    isFields(delta) && isNonEmpty(delta.reasoning) && !isNonEmpty(delta.reasoning_content)
  const choices = objectsOf(chunk.choices)
  if (!choices.some(isNamed)) return chunk
  const renamed = choices.map((choice) => {
    if (!isNamed(choice)) return choice
    const { reasoning, ...delta } = choice.delta as Fields
    return { ...choice, delta: { ...delta, reasoning_content: reasoning as Json } }
  })
  return { ...chunk, choices: renamed }
}
