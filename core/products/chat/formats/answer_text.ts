/** The text of an answer in the events of a stream, in any of the four formats: what its reader has read. */
import { type Fields, fieldsOf, isFields, objectsOf, textOf } from '../../../lib/json.ts'
import { eventSplitter } from '../../../lib/event_splitter.ts'
import { parseEvent, tryJson } from './sse.ts'

/** Everything that a model wrote: answer, reasoning, and the names and arguments of tools. */
export function answerText(events: Uint8Array): string {
  const splitter = eventSplitter()
  const whole = [...splitter.push(events), splitter.flush()]
  return whole.map((raw) => textIn(tryJson(parseEvent(raw)?.data ?? '') ?? {})).join('')
}

function textIn(event: Fields): string {
  if (typeof event.delta === 'string') return event.delta
  const { candidates, choices, delta, content_block: block } = event
  return [
    ...objectsOf(choices).map(({ delta: chunk }) => chatText(fieldsOf(chunk))),
    ...objectsOf(candidates).flatMap(({ content }) => objectsOf(fieldsOf(content).parts).map(partText)),
    ...(isFields(delta) ? [textOf(delta.text), textOf(delta.thinking), textOf(delta.partial_json)] : []),
    ...(isFields(block) ? [textOf(block.text), textOf(block.thinking), textOf(block.name)] : []),
  ].join('')
}

function chatText({ content, reasoning_content, refusal, tool_calls }: Fields): string {
  const calls = objectsOf(tool_calls).map((call) => fieldsOf(call.function))
  const parts = [content, reasoning_content, refusal, ...calls.flatMap(({ name, arguments: args }) => [name, args])]
  return parts.map(textOf).join('')
}

function partText({ text, functionCall }: Fields): string {
  return textOf(text) + (isFields(functionCall) ? JSON.stringify(functionCall) : '')
}
