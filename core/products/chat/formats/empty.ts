/** Answers without content, or of white space only: nobody pays for one (contract 6.28, 6.29). */
import { type Fields, fieldsOf, isFields, objectsOf, textOf } from '../../../lib/json.ts'
import type { ChatFormat } from '../../../ports/vendors/chat.ts'

/** Whether an answer has neither text, nor a tool call, nor a refusal in it. White space is no text. */
export function isEmpty(body: Fields, wire: ChatFormat): boolean {
  return !spoken[wire](body)
}

/** Whether a value says anything: text that is not blank, a list with such an item, an object that is not blank text. */
export function isSaid(value: unknown): boolean {
  if (typeof value === 'string') return value.trim() !== ''
  if (Array.isArray(value)) return value.some(isSaid)
  return isFields(value) && (typeof value.text !== 'string' || isSaid(value.text))
}

const spoken: Readonly<Record<ChatFormat, (body: Fields) => boolean>> = {
  chat: ({ choices }) =>
    objectsOf(choices).some(({ message, finish_reason }) => {
      const { content, tool_calls, refusal, images, audio, function_call } = fieldsOf(message)
      return (
        finish_reason === 'content_filter' ||
        [content, tool_calls, refusal, images].some(isSaid) ||
        Boolean(audio ?? function_call)
      )
    }),
  messages: ({ content, stop_reason }) => stop_reason === 'refusal' || objectsOf(content).some(isBlockSaid),
  responses: ({ output }) => objectsOf(output).some(isItemSaid),
  generate_content: ({ candidates }) =>
    objectsOf(candidates).some(({ content }) => objectsOf(fieldsOf(content).parts).some(isPartSaid)),
}

function isBlockSaid({ type, text, thinking }: Fields): boolean {
  if (type === 'text') return isSaid(text)
  return type !== 'thinking' || isSaid(thinking)
}

/** Reasoning counts only where it can be read. */
function isItemSaid({ type, content, summary }: Fields): boolean {
  return type === 'message' ? isSaid(content) : type !== 'reasoning' || isSaid(summary) || isSaid(content)
}

/** A signature says nothing to the reader. */
const isPartSaid = (part: Fields): boolean => saysBeside(part, ['thought', 'thoughtSignature', 'thought_signature'])

/** Whether any member except these says anything. */
export const saysBeside = (fields: Fields, names: readonly string[]): boolean =>
  Object.entries(fields).some(([name, value]) => !names.includes(name) && isSaid(value))

// ── events ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Whether an event of a stream has something in it that a reader would pay for. */
export const hasContentIn: Readonly<Record<Exclude<ChatFormat, 'chat'>, (told: Fields) => boolean>> = {
  messages({ type, content_block, delta }) {
    if (type === 'content_block_start') {
      const block = fieldsOf(content_block)
      return block.type === 'text' || block.type === 'thinking' ? isBlockSaid(block) : block.type !== undefined
    }
    return type === 'content_block_delta' && saysBeside(fieldsOf(delta), ['type', 'signature'])
  },
  responses({ type, delta, text, refusal, arguments: given }) {
    const name = textOf(type)
    return name.endsWith('.delta') ? isSaid(delta) : name.endsWith('.done') && [text, refusal, given].some(isSaid)
  },
  generate_content: (told) => !isEmpty(told, 'generate_content'),
}
