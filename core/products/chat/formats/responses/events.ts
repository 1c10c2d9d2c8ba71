/** The events of the responses wire: of a stream that comes as chat, and of a Response that is finished already. Source: openai@7.55.0 `responses.d.ts`. */
import { type Json, type Fields, fieldsOf, isFields, numberOf, objectsOf, textOf } from '../../../../lib/json.ts'
import { plainText } from './parts.ts'
import {
  callItem,
  citedIn,
  endingOf,
  itemId,
  messageItem,
  reasoningItem,
  type ResponseFacts,
  responseOf,
  responsesUsage,
  summaryOf,
} from './reply.ts'
import { sseJson, tryJson } from '../sse.ts'
import type { Rewriter } from '../rewriter.ts'

/** Writes one event: its name equals its type, and it is numbered from 0. */
type Say = (type: string, members: Fields) => string

function sequence(): Say {
  let next = 0
  return (type, members) => sseJson({ type, sequence_number: next++, ...members }, type)
}

/** Where a part stands: `content_index`, or `summary_index` for a part of a summary. */
type Place = { readonly item_id: string; readonly output_index: number } & (
  | { readonly content_index: number }
  | { readonly summary_index: number }
)

/** How the parts of an item go over the wire: the member that grows, the name of its events, and those of the part around it. */
const PARTS = new Map([
  ['output_text', { member: 'text', told: 'response.output_text', around: 'response.content_part' }],
  ['refusal', { member: 'refusal', told: 'response.refusal', around: 'response.content_part' }],
  ['reasoning_text', { member: 'text', told: 'response.reasoning_text', around: 'response.content_part' }],
  [
    'summary_text',
    { member: 'text', told: 'response.reasoning_summary_text', around: 'response.reasoning_summary_part' },
  ],
])
const UNKNOWN_PART = { member: '', told: '', around: 'response.content_part' }

const kindOf = ({ type }: Fields) => PARTS.get(textOf(type)) ?? UNKNOWN_PART
/** The text events always carry `logprobs`, even without any. */
const logprobsOf = ({ type }: Fields): Fields => (type === 'output_text' ? { logprobs: [] } : {})

function openPart(say: Say, place: Place, part: Fields): string {
  const { member, around } = kindOf(part)
  const empty = {
    ...part,
    ...(member !== '' && { [member]: '' }),
    ...(part.type === 'output_text' && { annotations: [], logprobs: [] }),
  }
  return say(`${around}.added`, { ...place, part: empty })
}

function growPart(say: Say, place: Place, { part, text }: { part: Fields; text: string }): string {
  const { told } = kindOf(part)
  return told === '' || text === '' ? '' : say(`${told}.delta`, { ...place, delta: text, ...logprobsOf(part) })
}

function closePart(say: Say, place: Place, part: Fields): string {
  const { member, told, around } = kindOf(part)
  const annotations = part.type === 'output_text' ? objectsOf(part.annotations) : []
  const cited = annotations.map((annotation, index) =>
    say('response.output_text.annotation.added', { ...place, annotation_index: index, annotation }),
  )
  const whole =
    told === '' ? '' : say(`${told}.done`, { ...place, [member]: textOf(part[member]), ...logprobsOf(part) })
  return cited.join('') + whole + say(`${around}.done`, { ...place, part })
}

/** An item as it is announced: in progress, with nothing in it yet. */
function announced(item: Fields): Fields {
  const status: Fields = item.status === undefined ? {} : { status: 'in_progress' }
  if (item.type === 'message') return { ...item, ...status, content: [] }
  if (item.type === 'function_call') return { ...item, ...status, arguments: '' }
  if (item.type === 'reasoning')
    return { ...item, ...status, summary: [], ...(item.content !== undefined && { content: [] }) }
  return { ...item, ...status }
}

const addItem = (say: Say, index: number, item: Fields) =>
  say('response.output_item.added', { output_index: index, item: announced(item) })
const doneItem = (say: Say, index: number, item: Fields) =>
  say('response.output_item.done', { output_index: index, item })

// ── a finished Response ─────────────────────────────────────────────────────────────────────────────────────────────

/**
 * What a stream of this Response would have sent, the event numbered n at index n, so that attaching after n is a slice. One that is still under way has
 * a prefix of what it will have. A cancelled one ends as incomplete, for the wire has no event of its own.
 */
export function responseEvents(response: Fields): string[] {
  const events: string[] = []
  const number = sequence()
  const say: Say = (type, members) => {
    events.push(number(type, members))
    return ''
  }
  const early = { ...response, status: 'in_progress', output: [], usage: null, error: null, incomplete_details: null }
  const { status } = response
  say('response.created', { response: { ...early, ...(response.background === true && { status: 'queued' }) } })
  if (status === 'queued') return events
  say('response.in_progress', { response: early })
  if (status === 'in_progress') return events
  for (const [index, item] of objectsOf(response.output).entries()) itemEvents(say, index, item)
  const isKnown = status === 'completed' || status === 'failed'
  say(isKnown ? `response.${status}` : 'response.incomplete', { response })
  return events
}

function itemEvents(say: Say, index: number, item: Fields): void {
  const at = { item_id: textOf(item.id), output_index: index }
  addItem(say, index, item)
  const wholePart = (place: Place, part: Fields) => {
    openPart(say, place, part)
    growPart(say, place, { part, text: textOf(part[kindOf(part).member]) })
    closePart(say, place, part)
  }
  if (item.type === 'reasoning')
    objectsOf(item.summary).forEach((part, summary_index) => wholePart({ ...at, summary_index }, part))
  if (item.type === 'reasoning' || item.type === 'message')
    objectsOf(item.content).forEach((part, content_index) => wholePart({ ...at, content_index }, part))
  if (item.type === 'function_call') {
    const whole = textOf(item.arguments)
    if (whole !== '') say('response.function_call_arguments.delta', { ...at, delta: whole })
    say('response.function_call_arguments.done', { ...at, arguments: whole })
  }
  doneItem(say, index, item)
}

// ── a stream that comes as chat ─────────────────────────────────────────────────────────────────────────────────────

type Reasoned = { readonly kind: 'reasoning'; readonly index: number; text: string; isClosed: boolean }
type Said = {
  readonly kind: 'message'
  readonly index: number
  readonly parts: { readonly type: 'output_text' | 'refusal'; text: string }[]
}
type Called = {
  readonly kind: 'call'
  readonly index: number
  readonly call: { id: string; name: string }
  arguments: string
}

/**
 * Ends with the Response that `responsesFromChatReply` would make of the whole, as long as reasoning, text and calls come in that order; `response.completed`
 * waits for `[DONE]` or the end, because the usage comes after the finish. A stream that was cut off is incomplete.
 */
export function responsesFromChatStream(facts: ResponseFacts): Rewriter {
  const say = sequence()
  const items: (Reasoned | Said | Called)[] = []
  const calls = new Map<string, Called>()
  const unnamed = new Map<string, { id: string; arguments: string }>()
  let isBegun = false
  let isFinished = false
  let reasoned: Reasoned | undefined
  let said: Said | undefined
  let ended: Json = null
  let usage: Json = null
  const annotations: Json[] = []
  let citations: Json = null

  function begin(): string {
    if (isBegun) return ''
    isBegun = true
    const response = responseOf(facts, { status: 'in_progress', incomplete_details: null, output: [], usage: null })
    return say('response.created', { response }) + say('response.in_progress', { response })
  }

  /** The finished form of an item; `status` is how the Response ends. */
  function finished(item: Reasoned | Said | Called, status: string): Fields {
    if (item.kind === 'reasoning') return reasoningItem(itemId(facts, 'rs', item.index), item.text)
    if (item.kind === 'message') return messageItem(itemId(facts, 'msg', item.index), item.parts.map(partOf), status)
    const call = { id: item.call.id, function: { name: item.call.name, arguments: item.arguments } }
    return callItem(call, { id: itemId(facts, 'fc', item.index), status })
  }

  const partOf = ({ type, text }: Said['parts'][number]): Fields =>
    type === 'refusal'
      ? { type, refusal: text }
      : { type, text, annotations: citedIn({ annotations }, { citations }), logprobs: [] }

  const summaryPlace = ({ index }: Reasoned): Place => ({
    item_id: itemId(facts, 'rs', index),
    output_index: index,
    summary_index: 0,
  })
  const SUMMARY = { type: 'summary_text', text: '' }

  function reason(text: string): string {
    if (text === '') return ''
    let opening = ''
    if (reasoned === undefined || reasoned.isClosed) {
      reasoned = { kind: 'reasoning', index: items.length, text: '', isClosed: false }
      items.push(reasoned)
      opening =
        addItem(say, reasoned.index, finished(reasoned, 'completed')) + openPart(say, summaryPlace(reasoned), SUMMARY)
    }
    reasoned.text += text
    return opening + growPart(say, summaryPlace(reasoned), { part: SUMMARY, text })
  }

  function closeReasoning(): string {
    if (reasoned === undefined || reasoned.isClosed) return ''
    reasoned.isClosed = true
    return (
      closePart(say, summaryPlace(reasoned), { ...SUMMARY, text: reasoned.text }) +
      doneItem(say, reasoned.index, finished(reasoned, 'completed'))
    )
  }

  const partPlace = ({ index }: Said, content_index: number): Place => ({
    item_id: itemId(facts, 'msg', index),
    output_index: index,
    content_index,
  })

  function speak(type: 'output_text' | 'refusal', text: string): string {
    if (text === '') return ''
    let opening = closeReasoning()
    if (said === undefined) {
      said = { kind: 'message', index: items.length, parts: [] }
      items.push(said)
      opening += addItem(say, said.index, finished(said, 'in_progress'))
    }
    let at = said.parts.findIndex((part) => part.type === type)
    if (at < 0) {
      at = said.parts.push({ type, text: '' }) - 1
      opening += openPart(say, partPlace(said, at), { type })
    }
    const part = said.parts[at]
    if (part) part.text += text
    return opening + growPart(say, partPlace(said, at), { part: { type }, text })
  }

  /** One piece of a call, announced when it has a name. Some vendors give no `index`, and some give each call the same: then the id tells. */
  function callOn(piece: Fields): string {
    const { name, arguments: text } = fieldsOf(piece.function)
    const key = keyOf(piece)
    const known = calls.get(key)
    const isAnother = textOf(name) !== '' && textOf(piece.id) !== '' && textOf(piece.id) !== known?.call.id
    if (known && !isAnother) return argue(known, textOf(text))
    const waiting = unnamed.get(key) ?? { id: '', arguments: '' }
    waiting.id ||= textOf(piece.id)
    waiting.arguments += textOf(text)
    unnamed.set(key, waiting)
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
    const called: Called = { kind: 'call', index: items.length, call: { id, name }, arguments: '' }
    items.push(called)
    calls.set(key, called)
    return closeReasoning() + addItem(say, called.index, finished(called, 'in_progress')) + argue(called, early)
  }

  const callPlace = ({ index }: Called) => ({ item_id: itemId(facts, 'fc', index), output_index: index })

  function argue(called: Called, text: string): string {
    called.arguments += text
    return text === '' ? '' : say('response.function_call_arguments.delta', { ...callPlace(called), delta: text })
  }

  function close(item: Said | Called, status: string): string {
    const whole = finished(item, status)
    if (item.kind === 'message') {
      return (
        item.parts.map((part, index) => closePart(say, partPlace(item, index), partOf(part))).join('') +
        doneItem(say, item.index, whole)
      )
    }
    return (
      say('response.function_call_arguments.done', { ...callPlace(item), arguments: item.arguments }) +
      doneItem(say, item.index, whole)
    )
  }

  function finish(): string {
    if (isFinished) return ''
    isFinished = true
    const ending = endingOf(ended)
    const late = begin() + [...unnamed.keys()].map((key) => openCall(key, '')).join('') + closeReasoning()
    const closed = items.map((item) => (item.kind === 'reasoning' ? '' : close(item, ending.status))).join('')
    const output = items.map((item) => finished(item, ending.status))
    const response = responseOf(facts, { ...ending, output, usage: responsesUsage(usage) })
    return late + closed + say(`response.${ending.status}`, { response })
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
      if (typeof choice.finish_reason === 'string') ended = choice.finish_reason
      annotations.push(...objectsOf(delta.annotations))
      const opening = begin() + reason(summaryOf(delta))
      const spoken = speak('output_text', plainText(delta.content)) + speak('refusal', textOf(delta.refusal))
      return opening + spoken + objectsOf(delta.tool_calls).map(callOn).join('')
    },
    end() {
      ended ??= 'length'
      return finish()
    },
  }
}
