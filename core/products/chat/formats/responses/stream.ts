/** Translates a responses stream to chat. Sources: openai@7.55.0 `responses.d.ts` and its stream accumulator. */
import { given } from './parts.ts'
import {
  type ChatFacts,
  callId,
  chatFromResponsesReply,
  completionId,
  type Failure,
  finishOf,
  responseFailure,
} from './reply.ts'
import { sseJson, sseText, tryJson } from '../sse.ts'
import { type Fields, fieldsOf, isFields, numberOf, objectsOf, textOf, type Json } from '../../../../lib/json.ts'
import type { StreamTranslator } from '../stream_translator.ts'
import type { SseEvent } from '../../../../ports/vendors/chat.ts'

/**
 * The error of a `response.failed` or `error` event, or of a bare error object; undefined for other events. Call before
 * each `on`.
 */
export function responsesError({ event, data }: SseEvent): Failure | undefined {
  // Most events are deltas, which must not be parsed twice.
  if (event !== undefined && event !== 'error' && event !== 'response.failed') return undefined
  if (event === undefined && !data.includes('error') && !data.includes('response.failed')) return undefined
  const payload = tryJson(data)
  if (payload === undefined) return event === undefined ? undefined : { code: 'error', message: data }
  const type = textOf(payload.type) || event
  if (type === 'response.failed') return responseFailure({ ...fieldsOf(payload.response), status: 'failed' })
  const isBare = type === undefined && payload.error !== undefined && payload.error !== null
  if (type !== 'error' && !isBare) return undefined
  const { code, message } = isFields(payload.error) ? payload.error : payload
  return {
    code: textOf(code) || 'error',
    message: textOf(message) || textOf(payload.error) || 'the stream ended in an error',
  }
}

/** Writes the chunks, and notes what has been sent. */
function chunkWriter({ model, created }: ChatFacts) {
  let id = completionId(undefined, created)
  let isStarted = false
  let lastReasoning = ''
  /** Number of characters sent, by their location in the output. */
  const sent = new Map<string, number>()
  /** Index of a call in chat by its `output_index`. */
  const calls = new Map<number, number>()
  const reasoningKinds = new Map<number, string>()

  const chunk = (choices: readonly Fields[], more: Fields = {}) =>
    sseJson({ id, object: 'chat.completion.chunk', created, model, choices, ...more })
  const delta = (members: Fields, finish: string | null = null, more: Fields = {}) =>
    chunk([{ index: 0, delta: members, finish_reason: finish }], more)

  function begin(): string {
    if (isStarted) return ''
    isStarted = true
    return delta({ role: 'assistant', content: '' })
  }

  function emit(key: string, text: string, write: (text: string) => Fields): string {
    if (text === '') return ''
    sent.set(key, (sent.get(key) ?? 0) + text.length)
    return begin() + delta(write(text))
  }

  const emitRest = (key: string, whole: string, write: (text: string) => Fields) =>
    emit(key, whole.slice(sent.get(key) ?? 0), write)

  /**
   * Sends the summary or the full reasoning of an item, whichever came first, as complete replies do. Parts are
   * separated.
   */
  function emitReasoning(at: { output: number; part: number; kind: string }, text: string): string {
    if (text === '' || (reasoningKinds.get(at.output) ?? at.kind) !== at.kind) return ''
    reasoningKinds.set(at.output, at.kind)
    const key = reasoningKey(at)
    const gap = lastReasoning === '' || lastReasoning === key ? '' : begin() + delta({ reasoning_content: '\n\n' })
    lastReasoning = key
    return gap + emit(key, text, asReasoning)
  }

  const reasoningKey = ({ output, part, kind }: { output: number; part: number; kind: string }) =>
    `${output} ${part} ${kind}`
  const emitReasoningRest = (at: { output: number; part: number; kind: string }, whole: string) =>
    emitReasoning(at, whole.slice(sent.get(reasoningKey(at)) ?? 0))

  function open(output: number, item: Fields): string {
    if (calls.has(output)) return ''
    const index = calls.size
    calls.set(output, index)
    return (
      begin() +
      delta({
        tool_calls: [
          { index, id: callId(item, output), type: 'function', function: { name: textOf(item.name), arguments: '' } },
        ],
      })
    )
  }

  /** Arguments of a call that has not been sent wait for its item. */
  function onArguments(output: number, write: (key: string, as: (text: string) => Fields) => string): string {
    const index = calls.get(output)
    return index === undefined
      ? ''
      : write(`${output} arguments`, (text) => ({ tool_calls: [{ index, function: { arguments: text } }] }))
  }

  return {
    chunk,
    delta,
    begin,
    emit,
    emitRest,
    emitReasoning,
    emitReasoningRest,
    open,
    onArguments,
    /** All chunks of a completion share one id, so later ids are ignored. */
    identify(named: Json | undefined): void {
      if (!isStarted && typeof named === 'string') id = completionId(named, created)
    },
    hasSent: () => sent.size > 0 || calls.size > 0,
    hasCalls: () => calls.size > 0,
  }
}

/**
 * Sends chunks with a role, `content`, `reasoning_content` and `tool_calls`, then the usage with no choices; citations
 * are in the last chunk. Items that were sent complete instead of in deltas are sent once. An interrupted stream ends
 * with `length`. Errors are read by `responsesError`.
 */
export function chatFromResponsesStream({ model, created }: ChatFacts): StreamTranslator {
  const { chunk, delta, begin, hasSent, hasCalls, identify, ...writer } = chunkWriter({ model, created })
  const { emit, emitRest, emitReasoning, emitReasoningRest, open, onArguments } = writer
  let isFinished = false
  const done = new Map<number, Fields>()

  /** The part of a finished item that has not been sent. */
  function itemRest(output: number, item: Fields): string {
    done.set(output, item)
    if (item.type === 'function_call')
      return open(output, item) + onArguments(output, (key, as) => emitRest(key, textOf(item.arguments), as))
    if (item.type === 'message') {
      const parts = objectsOf(item.content).map((part, index) => {
        return (
          emitRest(`${output} ${index} text`, textOf(part.text), asContent) +
          emitRest(`${output} ${index} refusal`, textOf(part.refusal), asRefusal)
        )
      })
      return parts.join('')
    }
    if (item.type !== 'reasoning') return ''
    const rest = (kind: string, parts: readonly Fields[]) =>
      parts.map(({ text }, part) => emitReasoningRest({ output, part, kind }, textOf(text)))
    return [...rest('summary', objectsOf(item.summary)), ...rest('content', objectsOf(item.content))].join('')
  }

  function finish(response: Fields): string {
    if (isFinished) return ''
    isFinished = true
    const items = objectsOf(response.output)
    // Locations in the final output may differ from those of the stream, so it is used only where nothing was sent
    // before.
    const lateText = !hasSent() ? items.map((item, index) => itemRest(index, item)).join('') : ''
    const finished = [...done].sort(([a], [b]) => a - b).map(([, item]) => item)
    const whole = chatFromResponsesReply(
      { ...response, output: items.length > 0 ? items : finished },
      { model, created },
    )
    const { annotations } = fieldsOf(fieldsOf(objectsOf(whole.choices)[0]).message)
    const { usage } = whole
    const citations = given({ citations: whole.citations })
    const last = delta(given({ annotations }), finishOf(response, hasCalls()), usage === undefined ? citations : {})
    return begin() + lateText + last + (usage === undefined ? '' : chunk([], { usage, ...citations }))
  }

  function rewrite(type: string, data: Fields): string {
    const output = numberOf(data.output_index) ?? 0
    const part = numberOf(data.content_index) ?? numberOf(data.summary_index) ?? 0
    const text = textOf(data.delta)
    switch (type) {
      case 'response.created':
      case 'response.in_progress':
        return begin()
      case 'response.output_item.added':
        return fieldsOf(data.item).type === 'function_call' ? open(output, fieldsOf(data.item)) : ''
      case 'response.output_item.done':
        return itemRest(output, fieldsOf(data.item))
      case 'response.output_text.delta':
        return emit(`${output} ${part} text`, text, asContent)
      case 'response.output_text.done':
        return emitRest(`${output} ${part} text`, textOf(data.text), asContent)
      case 'response.refusal.delta':
        return emit(`${output} ${part} refusal`, text, asRefusal)
      case 'response.refusal.done':
        return emitRest(`${output} ${part} refusal`, textOf(data.refusal), asRefusal)
      case 'response.reasoning_summary_text.delta':
        return emitReasoning({ output, part, kind: 'summary' }, text)
      case 'response.reasoning_text.delta':
        return emitReasoning({ output, part, kind: 'content' }, text)
      case 'response.reasoning_summary_text.done':
        return emitReasoningRest({ output, part, kind: 'summary' }, textOf(data.text))
      case 'response.reasoning_text.done':
        return emitReasoningRest({ output, part, kind: 'content' }, textOf(data.text))
      case 'response.function_call_arguments.delta':
        return onArguments(output, (key, as) => emit(key, text, as))
      case 'response.function_call_arguments.done':
        return onArguments(output, (key, as) => emitRest(key, textOf(data.arguments), as))
      case 'response.completed':
      case 'response.incomplete':
        return finish({ status: type.slice('response.'.length), ...fieldsOf(data.response) })
      default:
        return ''
    }
  }

  return {
    on({ event, data }) {
      const payload = tryJson(data)
      if (payload === undefined || isFinished) return ''
      identify(fieldsOf(payload.response).id)
      return rewrite(textOf(payload.type) || (event ?? ''), payload)
    },
    end() {
      const ending = isFinished ? '' : begin() + delta({}, 'length')
      isFinished = true
      return ending + sseText({ data: '[DONE]' })
    },
  }
}

const asContent = (content: string): Fields => ({ content })
const asRefusal = (refusal: string): Fields => ({ refusal })
const asReasoning = (text: string): Fields => ({ reasoning_content: text })
