/** Translates a chat stream into the events of the responses format. */
import { type Fields, fieldsOf, isFields, type Json, numberOf, objectsOf, textOf } from '../../../../lib/json.ts'
import { tryJson } from '../sse.ts'
import type { StreamTranslator } from '../stream_translator.ts'
import {
  addItem,
  closePart,
  doneCall,
  doneItem,
  type Emit,
  growPart,
  openPart,
  type PartLocation,
  SEARCH_BEGINS,
  SEARCH_ENDS,
  searchEvents,
  sequence,
} from './events.ts'
import { plainText } from './parts.ts'
import {
  callItem,
  citationAnnotations,
  itemId,
  messageItem,
  outcomeOf,
  reasoningItem,
  type ResponseFacts,
  responseOf,
  responsesUsage,
  searchItem,
  summaryOf,
} from './reply.ts'
import type { MadeSearch } from '../../web_search/search.ts'
import { type ToolNames, toolNames } from './tools.ts'

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
type SearchItem = { readonly kind: 'search'; readonly index: number; made: MadeSearch; isOver: boolean }
type Item = ReasoningItem | MessageItem | CallItem | SearchItem

type Translating = {
  readonly facts: ResponseFacts
  readonly names: ToolNames
  readonly emit: Emit
  readonly items: Item[]
  readonly calls: Map<string, CallItem>
  /** Fragments of calls that have no name yet. */
  readonly unnamed: Map<string, { id: string; arguments: string }>
  readonly annotations: Json[]
  citations: Json
  isStarted: boolean
  isFinished: boolean
  reasoning: ReasoningItem | undefined
  message: MessageItem | undefined
  finishReason: Json
  usage: Json
}

/**
 * Ends with the Response that `responsesFromChatReply` would build from the complete reply, provided that reasoning,
 * text and calls arrive in that order. `response.completed` waits for `[DONE]` or the end, because the usage comes
 * after the finish. An interrupted stream is incomplete.
 */
export function responsesFromChatStream(facts: ResponseFacts): StreamTranslator {
  const state: Translating = {
    facts,
    names: toolNames(facts.request.tools),
    emit: sequence(),
    items: [],
    calls: new Map(),
    unnamed: new Map(),
    annotations: [],
    citations: null,
    isStarted: false,
    isFinished: false,
    reasoning: undefined,
    message: undefined,
    finishReason: null,
    usage: null,
  }
  return {
    on({ data }) {
      if (state.isFinished) return ''
      if (data.trim() === '[DONE]') return finish(state)
      const chunk = tryJson(data)
      return chunk === undefined ? '' : onChunk(state, chunk)
    },
    end() {
      state.finishReason ??= 'length'
      return finish(state)
    },
  }
}

function onChunk(state: Translating, chunk: Fields): string {
  if (isFields(chunk.usage)) state.usage = chunk.usage
  if (Array.isArray(chunk.citations)) state.citations = chunk.citations
  const choice = objectsOf(chunk.choices).find(({ index }) => (numberOf(index) ?? 0) === 0) ?? {}
  const delta = fieldsOf(choice.delta)
  if (typeof choice.finish_reason === 'string') state.finishReason = choice.finish_reason
  state.annotations.push(...objectsOf(delta.annotations))
  const opening = begin(state) + onReasoning(state, summaryOf(delta))
  const content =
    onText(state, 'output_text', plainText(delta.content)) + onText(state, 'refusal', textOf(delta.refusal))
  const calls = objectsOf(delta.tool_calls).map((piece) => onToolCall(state, piece))
  const search = isFields(delta.web_search) ? onSearch(state, delta.web_search as unknown as MadeSearch) : ''
  return opening + content + calls.join('') + search
}

function begin(state: Translating): string {
  const { facts, emit } = state
  if (state.isStarted) return ''
  state.isStarted = true
  const response = responseOf(facts, { status: 'in_progress', incomplete_details: null, output: [], usage: null })
  return emit('response.created', { response }) + emit('response.in_progress', { response })
}

function finish(state: Translating): string {
  const { facts, emit, items, unnamed } = state
  if (state.isFinished) return ''
  state.isFinished = true
  const ending = outcomeOf(state.finishReason)
  const late =
    begin(state) + [...unnamed.keys()].map((key) => openCall(state, key, '')).join('') + closeReasoning(state)
  const closed = items
    .map((item) => (item.kind === 'reasoning' || item.kind === 'search' ? '' : closeItem(state, item, ending.status)))
    .join('')
  const output = items.map((item) => finished(state, item, ending.status))
  const response = responseOf(facts, { ...ending, output, usage: responsesUsage(state.usage) })
  return late + closed + emit(`response.${ending.status}`, { response })
}

/** The finished form of an item; `status` is how the Response ends. */
function finished(state: Translating, item: Item, status: string): Fields {
  const { facts, names } = state
  if (item.kind === 'reasoning') return reasoningItem(itemId(facts, 'rs', item.index), item.text)
  if (item.kind === 'message') {
    const content = item.parts.map((part) => finishedPart(state, part))
    return messageItem(itemId(facts, 'msg', item.index), content, status)
  }
  if (item.kind === 'search')
    return searchItem(itemId(facts, 'ws', item.index), item.made, item.isOver ? 'completed' : 'in_progress')
  const call = { id: item.call.id, function: { name: item.call.name, arguments: item.arguments } }
  return callItem(call, { facts, index: item.index, status, names })
}

function finishedPart({ annotations, citations }: Translating, { type, text }: MessageItem['parts'][number]): Fields {
  return type === 'refusal'
    ? { type, refusal: text }
    : { type, text, annotations: citationAnnotations({ annotations }, { citations }), logprobs: [] }
}

function closeItem(state: Translating, item: MessageItem | CallItem, status: string): string {
  const { emit } = state
  const whole = finished(state, item, status)
  if (item.kind === 'call') return doneCall(emit, item.index, whole) + doneItem(emit, item.index, whole)
  const parts = item.parts.map((part, index) =>
    closePart(emit, partLocation(state, item, index), finishedPart(state, part)),
  )
  return parts.join('') + doneItem(emit, item.index, whole)
}

// ── reasoning and text ──────────────────────────────────────────────────────────────────────────────────────────────

const SUMMARY = { type: 'summary_text', text: '' }

const summaryLocation = ({ facts }: Translating, { index }: ReasoningItem): PartLocation => ({
  item_id: itemId(facts, 'rs', index),
  output_index: index,
  summary_index: 0,
})

function onReasoning(state: Translating, text: string): string {
  const { emit, items } = state
  if (text === '') return ''
  let opening = ''
  if (state.reasoning === undefined || state.reasoning.isClosed) {
    const item: ReasoningItem = { kind: 'reasoning', index: items.length, text: '', isClosed: false }
    state.reasoning = item
    items.push(item)
    opening =
      addItem(emit, item.index, finished(state, item, 'completed')) +
      openPart(emit, summaryLocation(state, item), SUMMARY)
  }
  state.reasoning.text += text
  return opening + growPart(emit, summaryLocation(state, state.reasoning), { part: SUMMARY, text })
}

function closeReasoning(state: Translating): string {
  const { emit, reasoning } = state
  if (reasoning === undefined || reasoning.isClosed) return ''
  reasoning.isClosed = true
  return (
    closePart(emit, summaryLocation(state, reasoning), { ...SUMMARY, text: reasoning.text }) +
    doneItem(emit, reasoning.index, finished(state, reasoning, 'completed'))
  )
}

const partLocation = ({ facts }: Translating, { index }: MessageItem, content_index: number): PartLocation => ({
  item_id: itemId(facts, 'msg', index),
  output_index: index,
  content_index,
})

function onText(state: Translating, type: 'output_text' | 'refusal', text: string): string {
  const { emit, items } = state
  if (text === '') return ''
  let opening = closeReasoning(state)
  if (state.message === undefined) {
    state.message = { kind: 'message', index: items.length, parts: [] }
    items.push(state.message)
    opening += addItem(emit, state.message.index, finished(state, state.message, 'in_progress'))
  }
  const { message } = state
  let at = message.parts.findIndex((part) => part.type === type)
  if (at < 0) {
    at = message.parts.push({ type, text: '' }) - 1
    opening += openPart(emit, partLocation(state, message, at), { type })
  }
  const part = message.parts[at]
  if (part) part.text += text
  return opening + growPart(emit, partLocation(state, message, at), { part: { type }, text })
}

// ── searches ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A search when it begins, and again with what it has found. Text after it is another message. */
function onSearch(state: Translating, made: MadeSearch): string {
  const { emit, items } = state
  const running = items.findLast((item) => item.kind === 'search' && !item.isOver) as SearchItem | undefined
  if (!running) {
    const item: SearchItem = { kind: 'search', index: items.length, made, isOver: false }
    const closed = closeReasoning(state)
    items.push(item)
    state.message = undefined
    const started = finished(state, item, 'in_progress')
    return closed + addItem(emit, item.index, started) + searchEvents(emit, item.index, started, SEARCH_BEGINS)
  }
  running.made = made
  running.isOver = true
  const whole = finished(state, running, 'completed')
  return searchEvents(emit, running.index, whole, SEARCH_ENDS) + doneItem(emit, running.index, whole)
}

// ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Handles a fragment of a call; the call is sent once it has a name. Where `index` is missing or repeated, the id
 * identifies the call.
 */
function onToolCall(state: Translating, piece: Fields): string {
  const { calls, unnamed } = state
  const { name, arguments: text } = fieldsOf(piece.function)
  const key = keyOf(state, piece)
  const known = calls.get(key)
  const isNewCall = textOf(name) !== '' && textOf(piece.id) !== '' && textOf(piece.id) !== known?.call.id
  if (known && !isNewCall) return addArguments(state, known, textOf(text))
  const pending = unnamed.get(key) ?? { id: '', arguments: '' }
  pending.id ||= textOf(piece.id)
  pending.arguments += textOf(text)
  unnamed.set(key, pending)
  return textOf(name) === '' ? '' : openCall(state, key, textOf(name))
}

function keyOf({ calls, unnamed }: Translating, { index, id }: Fields): string {
  if (typeof index === 'number') return `at ${index}`
  if (textOf(id) !== '') return `id ${textOf(id)}`
  return [...calls.keys(), ...unnamed.keys()].at(-1) ?? 'at 0'
}

function openCall(state: Translating, key: string, name: string): string {
  const { emit, items, calls, unnamed } = state
  const { id, arguments: early } = unnamed.get(key) ?? { id: '', arguments: '' }
  unnamed.delete(key)
  const called: CallItem = { kind: 'call', index: items.length, call: { id, name }, arguments: '' }
  items.push(called)
  calls.set(key, called)
  // In this order, because each event is numbered when it is made.
  return (
    closeReasoning(state) +
    addItem(emit, called.index, finished(state, called, 'in_progress')) +
    addArguments(state, called, early)
  )
}

/** The input of a custom tool is known when all of its JSON is there: it is sent at the end of the call. */
function addArguments({ facts, names, emit }: Translating, called: CallItem, text: string): string {
  called.arguments += text
  if (text === '' || names.get(called.call.name)?.kind === 'custom') return ''
  const at = { item_id: itemId(facts, 'fc', called.index), output_index: called.index }
  return emit('response.function_call_arguments.delta', { ...at, delta: text })
}
