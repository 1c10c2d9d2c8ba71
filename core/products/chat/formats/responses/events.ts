/** Events of the responses format, and those of a finished Response. Source: openai@7.55.0 `responses.d.ts`. */
import { type Fields, objectsOf, textOf } from '../../../../lib/json.ts'
import { sseJson } from '../sse.ts'

/** Serializes one event. Its name equals its type; events are numbered from 0. */
export type Emit = (type: string, members: Fields) => string

export function sequence(): Emit {
  let next = 0
  return (type, members) => sseJson({ type, sequence_number: next++, ...members }, type)
}

/** The location of a part: `content_index`, or `summary_index` for a part of a summary. */
export type PartLocation = { readonly item_id: string; readonly output_index: number } & (
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

export function openPart(emit: Emit, location: PartLocation, part: Fields): string {
  const { member, container } = kindOf(part)
  const empty = {
    ...part,
    ...(member !== '' && { [member]: '' }),
    ...(part.type === 'output_text' && { annotations: [], logprobs: [] }),
  }
  return emit(`${container}.added`, { ...location, part: empty })
}

export function growPart(emit: Emit, location: PartLocation, { part, text }: { part: Fields; text: string }): string {
  const { event } = kindOf(part)
  return event === '' || text === '' ? '' : emit(`${event}.delta`, { ...location, delta: text, ...logprobsOf(part) })
}

export function closePart(emit: Emit, location: PartLocation, part: Fields): string {
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
  if (item.type === 'custom_tool_call') return { ...item, ...status, input: '' }
  if (item.type === 'reasoning')
    return { ...item, ...status, summary: [], ...(item.content !== undefined && { content: [] }) }
  return { ...item, ...status }
}

export const addItem = (emit: Emit, index: number, item: Fields) =>
  emit('response.output_item.added', { output_index: index, item: emptyItem(item) })
export const doneItem = (emit: Emit, index: number, item: Fields) =>
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
  if (item.type === 'function_call' && textOf(item.arguments) !== '')
    emit('response.function_call_arguments.delta', { ...at, delta: textOf(item.arguments) })
  searchEvents(emit, index, item, [...SEARCH_BEGINS, ...SEARCH_ENDS])
  doneCall(emit, index, item)
  doneItem(emit, index, item)
}

/** The events of a search between those of its item; '' for other items. */
export const searchEvents = (emit: Emit, index: number, item: Fields, names: readonly string[]): string =>
  item.type === 'web_search_call'
    ? names
        .map((name) => emit(`response.web_search_call.${name}`, { item_id: textOf(item.id), output_index: index }))
        .join('')
    : ''

export const SEARCH_BEGINS = ['in_progress', 'searching']
export const SEARCH_ENDS = ['completed']

/** The last event of the arguments of a call; '' for other items. A custom call has its whole input in one delta. */
export function doneCall(emit: Emit, index: number, item: Fields): string {
  const at = { item_id: textOf(item.id), output_index: index }
  const input = textOf(item.input)
  if (item.type === 'custom_tool_call')
    return (
      (input === '' ? '' : emit('response.custom_tool_call_input.delta', { ...at, delta: input })) +
      emit('response.custom_tool_call_input.done', { ...at, input })
    )
  if (item.type !== 'function_call') return ''
  return emit('response.function_call_arguments.done', {
    ...at,
    name: textOf(item.name),
    arguments: textOf(item.arguments),
  })
}
