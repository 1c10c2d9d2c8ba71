/** Detects answers that are empty or only white space, which are not charged (contract 6.28, 6.29; decision 40). */
import { ApiError } from '../../../http/errors.ts'
import { type Fields, fieldsOf, isFields, objectsOf, textOf } from '../../../lib/json.ts'
import type { ChatFormat } from '../../../ports/vendors/chat.ts'

/** Whether a reply has no non-blank text, no tool call, no refusal and no search that was run for it. */
export function isEmpty(body: Fields, format: ChatFormat): boolean {
  return !hasAnswer[format](body)
}

export const emptyAnswer = () =>
  new ApiError('MODEL_UNAVAILABLE', {
    message: 'The model returned an empty answer. Nothing was charged. Try a larger max_tokens.',
  })

/** Whether a value is non-blank text, a list with a non-blank item, or an object other than blank text. */
export function isNonBlank(value: unknown): boolean {
  if (typeof value === 'string') return value.trim() !== ''
  if (Array.isArray(value)) return value.some(isNonBlank)
  return isFields(value) && (typeof value.text !== 'string' || isNonBlank(value.text))
}

const hasAnswer: Readonly<Record<ChatFormat, (body: Fields) => boolean>> = {
  chat: ({ choices }) =>
    objectsOf(choices).some(({ message, finish_reason }) => {
      const { content, tool_calls, refusal, images, audio, function_call, web_searches } = fieldsOf(message)
      return (
        finish_reason === 'content_filter' ||
        [content, tool_calls, refusal, images].some(isNonBlank) ||
        Boolean(audio ?? function_call) ||
        objectsOf(web_searches).some(({ search }) => fieldsOf(search).error === undefined)
      )
    }),
  messages: ({ content, stop_reason }) => stop_reason === 'refusal' || objectsOf(content).some(isBlockNonBlank),
  responses: ({ output }) => objectsOf(output).some(isItemNonBlank),
  generate_content: ({ candidates }) =>
    objectsOf(candidates).some(({ content }) => objectsOf(fieldsOf(content).parts).some(isPartNonBlank)),
}

function isBlockNonBlank({ type, text, thinking }: Fields): boolean {
  if (type === 'text') return isNonBlank(text)
  return type !== 'thinking' || isNonBlank(thinking)
}

/** Reasoning counts only where it is readable, not encrypted. */
function isItemNonBlank({ type, content, summary }: Fields): boolean {
  return type === 'message' ? isNonBlank(content) : type !== 'reasoning' || isNonBlank(summary) || isNonBlank(content)
}

/** A signature alone is not content. */
const isPartNonBlank = (part: Fields): boolean =>
  hasContentBeside(part, ['thought', 'thoughtSignature', 'thought_signature'])

/** Whether any member except `names` is non-blank. */
const hasContentBeside = (fields: Fields, names: readonly string[]): boolean =>
  Object.entries(fields).some(([name, value]) => !names.includes(name) && isNonBlank(value))

// ── events ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Whether an event of a stream has content that is charged for. */
export const hasContentIn: Readonly<Record<Exclude<ChatFormat, 'chat'>, (event: Fields) => boolean>> = {
  messages({ type, content_block, delta }) {
    if (type === 'content_block_start') {
      const block = fieldsOf(content_block)
      return block.type === 'text' || block.type === 'thinking' ? isBlockNonBlank(block) : block.type !== undefined
    }
    return type === 'content_block_delta' && hasContentBeside(fieldsOf(delta), ['type', 'signature'])
  },
  responses({ type, delta, text, refusal, arguments: args }) {
    const name = textOf(type)
    return name.endsWith('.delta')
      ? isNonBlank(delta)
      : name.endsWith('.done') && [text, refusal, args].some(isNonBlank)
  },
  generate_content: (event) => !isEmpty(event, 'generate_content'),
}
