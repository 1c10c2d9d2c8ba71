/** Answers that say nothing: nobody is to pay for one (contract 6.28). */
import { type Fields, fieldsOf, objectsOf } from '../../../lib/json.ts'
import type { ChatFormat } from '../../../ports/vendors/chat.ts'

/** Whether an answer has neither text, nor a tool call, nor a refusal in it. */
export function isEmpty(body: Fields, wire: ChatFormat): boolean {
  return !spoken[wire](body)
}

const isSaid = (value: unknown): boolean => (typeof value === 'string' || Array.isArray(value)) && value.length > 0

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
  messages: ({ content, stop_reason }) => stop_reason === 'refusal' || objectsOf(content).length > 0,
  responses: ({ output }) => objectsOf(output).length > 0,
  generate_content: ({ candidates }) =>
    objectsOf(candidates).some(({ content }) => objectsOf(fieldsOf(content).parts).length > 0),
}
