/**
 * Events of the responses format: translated from a chat stream, or rebuilt from a finished Response. Source:
 * openai@7.55.0 `responses.d.ts`.
 */
import { type Json, type Fields, fieldsOf, isFields, numberOf, objectsOf, textOf } from '../../../../lib/json.ts'
import { plainText } from './parts.ts'
import {
  callItem,
  citationAnnotations,
  outcomeOf,
  itemId,
  messageItem,
  reasoningItem,
  type ResponseFacts,
  responseOf,
  responsesUsage,
  summaryOf,
} from './reply.ts'
import { sseJson, tryJson } from '../sse.ts'
import type { StreamTranslator } from '../stream_translator.ts'

/** Serializes one event. Its name equals its type; events are numbered from 0. */
type Emit = (type: string, members: Fields) => string

function sequence(): Emit {
  let next = 0
  return (type, members) => sseJson({ type, sequence_number: next++, ...members }, type)
}

/** The location of a part: `content_index`, or `summary_index` for a part of a summary. */
type PartLocation = { readonly item_id: string; readonly output_index: number } & (
  | { readonly content_index: number }
  | { readonly summary_index: number }
)

/** Events by part type: the member that grows, the prefix of its events, and that of the enclosing part's events. */
const PARTS = new Map([
  ['output_text', { member: 'text', event: 'response.output_text', container: 'response.content_part' }],
  ['refusal', { member: 'refusal', event: 'response.refusal', container: 'response.content_part' }],
  ['reasoning_text', { member: 'text', event: 'response.reasoning_text', container: 'response.content_part' }],
  [
    'summary_text',
    { member: 'text', event: 'response.reasoning_summary_text', container: 'response.reasoning_summary_part' },
  ],
])
const UNKNOWN_PART = { member: '', event: '', container: 'response.content_part' }

const kindOf = ({ type }: Fields) => PARTS.get(textOf(type)) ?? UNKNOWN_PART
/** The text events always carry `logprobs`, even without any. */
const logprobsOf = ({ type }: Fields): Fields => (type === 'output_text' ? { logprobs: [] } : {})

function openPart(emit: Emit, location: PartLocation, part: Fields): string {
  const { member, container } = kindOf(part)
  const empty = {
    ...part,
    ...(member !== '' && { [member]: '' }),
    ...(part.type === 'output_text' && { annotations: [], logprobs: [] }),
  }
  return emit(`${container}.added`, { ...location, part: empty })
}

function growPart(emit: Emit, location: PartLocation, { part, text }: { part: Fields; text: string }): string {
  const { event } = kindOf(part)
  return event === '' || text === '' ? '' : emit(`${event}.delta`, { ...location, delta: text, ...logprobsOf(part) })
}

function closePart(emit: Emit, location: PartLocation, part: Fields): string {
  const { member, event, container } = kindOf(part)
  const annotations = part.type === 'output_text' ? objectsOf(part.annotations) : []
  const cited = annotations.map((annotation, index) =>
    emit('response.output_text.annotation.added', { ...location, annotation_index: index, annotation }),
  )
  const whole =
    event === '' ? '' : emit(`${event}.done`, { ...location, [member]: textOf(part[member]), ...logprobsOf(part) })
  return cited.join('') + whole + emit(`${container}.done`, { ...location, part })
}

/** An item as it is first sent: in progress and empty. */
function emptyItem(item: Fields): Fields {
  const status: Fields = item.status === undefined ? {} : { status: 'in_progress' }
  if (item.type === 'message') return { ...item, ...status, content: [] }
  if (item.type === 'function_call') return { ...item, ...status, arguments: '' }
  if (item.type === 'reasoning')
    return { ...item, ...status, summary: [], ...(item.content !== undefined && { content: [] }) }
  return { ...item, ...status }
}

const addItem = (emit: Emit, index: number, item: Fields) =>
  emit('response.output_item.added', { output_index: index, item: emptyItem(item) })
const doneItem = (emit: Emit, index: number, item: Fields) =>
  emit('response.output_item.done', { output_index: index, item })

// ── a finished Response ─────────────────────────────────────────────────────────────────────────────────────────────

/**
 * The events that a stream of this Response would have sent; event n is at index n, so that attaching after n is a
 * slice. A Response in progress has a prefix of its final events. A cancelled one ends as incomplete, since the format
 * has no event for it.
 */
export function responseEvents(response: Fields): string[] {
  const events: string[] = []
  const number = sequence()
  const emit: Emit = (type, members) => {
    events.push(number(type, members))
    return ''
  }
  const early = {
    ...response,
    status: 'in_progress',
    completed_at: null,
    output: [],
    usage: null,
    error: null,
    incomplete_details: null,
  }
  const { status } = response
  emit('response.created', { response: { ...early, ...(response.background === true && { status: 'queued' }) } })
  if (status === 'queued') return events
  emit('response.in_progress', { response: early })
  if (status === 'in_progress') return events
  for (const [index, item] of objectsOf(response.output).entries()) itemEvents(emit, index, item)
  const isKnown = status === 'completed' || status === 'failed'
  emit(isKnown ? `response.${status}` : 'response.incomplete', { response })
  return events
}

function itemEvents(emit: Emit, index: number, item: Fields): void {
  const at = { item_id: textOf(item.id), output_index: index }
  addItem(emit, index, item)
  const wholePart = (location: PartLocation, part: Fields) => {
    openPart(emit, location, part)
    growPart(emit, location, { part, text: textOf(part[kindOf(part).member]) })
    closePart(emit, location, part)
  }
  if (item.type === 'reasoning')
    objectsOf(item.summary).forEach((part, summary_index) => wholePart({ ...at, summary_index }, part))
  if (item.type === 'reasoning' || item.type === 'message')
    objectsOf(item.content).forEach((part, content_index) => wholePart({ ...at, content_index }, part))
  if (item.type === 'function_call') {
    const whole = textOf(item.arguments)
    if (whole !== '') emit('response.function_call_arguments.delta', { ...at, delta: whole })
    emit('response.function_call_arguments.done', { ...at, name: textOf(item.name), arguments: whole })
  }
  doneItem(emit, index, item)
}

// ── a chat stream ───────────────────────────────────────────────────────────────────────────────────────────────────

type ReasoningItem = { readonly kind: 'reasoning'; readonly index: number; text: string; isClosed: boolean }
type MessageItem = {
  readonly kind: 'message'
  readonly index: number
  readonly parts: { readonly type: 'output_text' | 'refusal'; text: string }[]
}
type CallItem = {
  readonly kind: 'call'
  readonly index: number
  readonly call: { id: string; name: string }
  arguments: string
}

/**
 * Ends with the Response that `responsesFromChatReply` would build from the complete reply, provided that reasoning,
 * text and calls arrive in that order. `response.completed` waits for `[DONE]` or the end, because the usage comes
 * after the finish. An interrupted stream is incomplete.
 */
export function responsesFromChatStream(facts: ResponseFacts): StreamTranslator {
  const emit = sequence()
  const items: (ReasoningItem | MessageItem | CallItem)[] = []
  const calls = new Map<string, CallItem>()
  const unnamed = new Map<string, { id: string; arguments: string }>()
  let isStarted = false
  let isFinished = false
  let reasoning: ReasoningItem | undefined
  let message: MessageItem | undefined
  let finishReason: Json = null
  let usage: Json = null
  const annotations: Json[] = []
  let citations: Json = null

  function begin(): string {
    if (isStarted) return ''
    isStarted = true
    const response = responseOf(facts, { status: 'in_progress', incomplete_details: null, output: [], usage: null })
    return emit('response.created', { response }) + emit('response.in_progress', { response })
  }

  /** The finished form of an item; `status` is how the Response ends. */
  function finished(item: ReasoningItem | MessageItem | CallItem, status: string): Fields {
    if (item.kind === 'reasoning') return reasoningItem(itemId(facts, 'rs', item.index), item.text)
    if (item.kind === 'message') return messageItem(itemId(facts, 'msg', item.index), item.parts.map(partOf), status)
    const call = { id: item.call.id, function: { name: item.call.name, arguments: item.arguments } }
    return callItem(call, { id: itemId(facts, 'fc', item.index), status })
  }

  const partOf = ({ type, text }: MessageItem['parts'][number]): Fields =>
    type === 'refusal'
      ? { type, refusal: text }
      : { type, text, annotations: citationAnnotations({ annotations }, { citations }), logprobs: [] }

  const summaryLocation = ({ index }: ReasoningItem): PartLocation => ({
    item_id: itemId(facts, 'rs', index),
    output_index: index,
    summary_index: 0,
  })
  const SUMMARY = { type: 'summary_text', text: '' }

  function onReasoning(text: string): string {
    if (text === '') return ''
    let opening = ''
    if (reasoning === undefined || reasoning.isClosed) {
      reasoning = { kind: 'reasoning', index: items.length, text: '', isClosed: false }
      items.push(reasoning)
      opening =
        addItem(emit, reasoning.index, finished(reasoning, 'completed')) +
        openPart(emit, summaryLocation(reasoning), SUMMARY)
    }
    reasoning.text += text
    return opening + growPart(emit, summaryLocation(reasoning), { part: SUMMARY, text })
  }

  function closeReasoning(): string {
    if (reasoning === undefined || reasoning.isClosed) return ''
    reasoning.isClosed = true
    return (
      closePart(emit, summaryLocation(reasoning), { ...SUMMARY, text: reasoning.text }) +
      doneItem(emit, reasoning.index, finished(reasoning, 'completed'))
    )
  }

  const partLocation = ({ index }: MessageItem, content_index: number): PartLocation => ({
    item_id: itemId(facts, 'msg', index),
    output_index: index,
    content_index,
  })

  function onText(type: 'output_text' | 'refusal', text: string): string {
    if (text === '') return ''
    let opening = closeReasoning()
    if (message === undefined) {
      message = { kind: 'message', index: items.length, parts: [] }
      items.push(message)
      opening += addItem(emit, message.index, finished(message, 'in_progress'))
    }
    let at = message.parts.findIndex((part) => part.type === type)
    if (at < 0) {
      at = message.parts.push({ type, text: '' }) - 1
      opening += openPart(emit, partLocation(message, at), { type })
    }
    const part = message.parts[at]
    if (part) part.text += text
    return opening + growPart(emit, partLocation(message, at), { part: { type }, text })
  }

  /**
   * Handles a fragment of a call; the call is sent once it has a name. Where `index` is missing or repeated, the id
   * identifies the call.
   */
  function onToolCall(piece: Fields): string {
    const { name, arguments: text } = fieldsOf(piece.function)
    const key = keyOf(piece)
    const known = calls.get(key)
    const isNewCall = textOf(name) !== '' && textOf(piece.id) !== '' && textOf(piece.id) !== known?.call.id
    if (known && !isNewCall) return addArguments(known, textOf(text))
    const pending = unnamed.get(key) ?? { id: '', arguments: '' }
    pending.id ||= textOf(piece.id)
    pending.arguments += textOf(text)
    unnamed.set(key, pending)
    return textOf(name) === '' ? '' : openCall(key, textOf(name))
  }

  function keyOf({ index, id }: Fields): string {
    if (typeof index === 'number') return `at ${index}`
    if (textOf(id) !== '') return `id ${textOf(id)}`
    return [...calls.keys(), ...unnamed.keys()].at(-1) ?? 'at 0'
  }

  function openCall(key: string, name: string): string {
    const { id, arguments: early } = unnamed.get(key) ?? { id: '', arguments: '' }
    unnamed.delete(key)
    const called: CallItem = { kind: 'call', index: items.length, call: { id, name }, arguments: '' }
    items.push(called)
    calls.set(key, called)
    return closeReasoning() + addItem(emit, called.index, finished(called, 'in_progress')) + addArguments(called, early)
  }

  const callLocation = ({ index }: CallItem) => ({ item_id: itemId(facts, 'fc', index), output_index: index })

  function addArguments(called: CallItem, text: string): string {
    called.arguments += text
    return text === '' ? '' : emit('response.function_call_arguments.delta', { ...callLocation(called), delta: text })
  }

  function close(item: MessageItem | CallItem, status: string): string {
    const whole = finished(item, status)
    if (item.kind === 'message') {
      return (
        item.parts.map((part, index) => closePart(emit, partLocation(item, index), partOf(part))).join('') +
        doneItem(emit, item.index, whole)
      )
    }
    return (
      emit('response.function_call_arguments.done', {
        ...callLocation(item),
        name: item.call.name,
        arguments: item.arguments,
      }) + doneItem(emit, item.index, whole)
    )
  }

  function finish(): string {
    if (isFinished) return ''
    isFinished = true
    const ending = outcomeOf(finishReason)
    const late = begin() + [...unnamed.keys()].map((key) => openCall(key, '')).join('') + closeReasoning()
    const closed = items.map((item) => (item.kind === 'reasoning' ? '' : close(item, ending.status))).join('')
    const output = items.map((item) => finished(item, ending.status))
    const response = responseOf(facts, { ...ending, output, usage: responsesUsage(usage) })
    return late + closed + emit(`response.${ending.status}`, { response })
  }

  return {
    on({ data }) {
      if (isFinished) return ''
      if (data.trim() === '[DONE]') return finish()
      const chunk = tryJson(data)
      if (chunk === undefined) return ''
      if (isFields(chunk.usage)) usage = chunk.usage
      if (Array.isArray(chunk.citations)) citations = chunk.citations
      const choice = objectsOf(chunk.choices).find(({ index }) => (numberOf(index) ?? 0) === 0) ?? {}
      const delta = fieldsOf(choice.delta)
      if (typeof choice.finish_reason === 'string') finishReason = choice.finish_reason
      annotations.push(...objectsOf(delta.annotations))
      const opening = begin() + onReasoning(summaryOf(delta))
      const content = onText('output_text', plainText(delta.content)) + onText('refusal', textOf(delta.refusal))
      return opening + content + objectsOf(delta.tool_calls).map(onToolCall).join('')
    },
    end() {
      finishReason ??= 'length'
      return finish()
    },
  }
}
