/** Whole replies between the `chat` and the `messages` wire. Lenient: a vendor's reply is read as far as it can be. */
import { type Json, type Fields, fieldsOf, given, isFields, listOf, textOf } from '../../../../lib/json.ts'
import {
  argumentsOf,
  chatUsage,
  contentText,
  finishReason,
  inputOf,
  isThinking,
  messagesUsage,
  reasoningMembers,
  signedThinking,
  stopReason,
} from './parts.ts'

/**
 * A vendor's message as a chat completion; `created` is Unix time in seconds. On a turn with tool calls `content` is empty (contract 6.26): text that came
 * before them is kept in `content_before_tools`, and blocks that chat has no place for in `other_blocks`.
 */
export function chatFromMessagesReply(reply: Fields, { model, created }: { model: string; created: number }): Fields {
  const blocks = listOf(reply.content).filter(isFields)
  const texts = blocks.filter(({ type }) => type === 'text')
  const said = texts.map((block) => textOf(block.text)).join('')
  const calls = blocks.filter(({ type }) => type === 'tool_use').map(chatCall)
  const citations = texts.flatMap((block) => listOf(block.citations))
  const others = blocks.filter((block) => block.type !== 'text' && block.type !== 'tool_use' && !isThinking(block))
  const hasCalls = calls.length > 0
  const message = given({
    role: 'assistant',
    content: hasCalls ? '' : said,
    ...reasoningMembers(blocks.filter(isThinking)),
    tool_calls: hasCalls ? calls : undefined,
    content_before_tools: hasCalls && said !== '' ? said : undefined,
    citations: citations.length > 0 ? citations : undefined,
    other_blocks: others.length > 0 ? others : undefined,
  })
  return {
    id: chatId(reply.id, created),
    object: 'chat.completion',
    created,
    model,
    choices: [{ index: 0, message, finish_reason: finishReason(reply.stop_reason) }],
    usage: chatUsage(fieldsOf(reply.usage)),
  }
}

/** The vendor's id without its prefix; the time where it gave none. */
export function chatId(id: Json | undefined, created: number): string {
  return `chatcmpl-${textOf(id).replace(/^msg_/, '') || String(created)}`
}

/** The reverse of `chatId`. */
export const messageId = (id: Json | undefined): string => `msg_${textOf(id).replace(/^(?:chatcmpl-|msg_)/, '')}`

function chatCall({ id, name, input }: Fields): Fields {
  return { id: textOf(id), type: 'function', function: { name: textOf(name), arguments: argumentsOf(input) } }
}

/**
 * A chat completion as a message: leading thinking, text, tool calls (contract 7.1). Only its first choice. Thinking that nobody signed has
 * the signature '', by which it is known when the caller sends it back.
 */
export function messagesFromChatReply(reply: Fields, { model }: { model: string }): Fields {
  const choice = fieldsOf(listOf(reply.choices)[0])
  const message = fieldsOf(choice.message)
  const id = messageId(reply.id)
  const words = contentText(message.content) || textOf(message.content_before_tools) || textOf(message.refusal)
  const calls = listOf(message.tool_calls)
    .filter(isFields)
    .map((call, at) => toolUse(call, `${id}_${at}`))
  return {
    id,
    type: 'message',
    role: 'assistant',
    model,
    content: [...thinkingOf(message), ...(words === '' ? [] : [{ type: 'text', text: words }]), ...calls],
    stop_reason: stopReason(choice.finish_reason, { hasCalls: calls.length > 0 }),
    stop_sequence: null,
    usage: messagesUsage(fieldsOf(reply.usage)),
  }
}

function thinkingOf(message: Fields): Fields[] {
  const signed = signedThinking(message)
  if (signed.length > 0) return signed
  const thinking = textOf(message.reasoning_content)
  return thinking === '' ? [] : [{ type: 'thinking', thinking, signature: '' }]
}

function toolUse(call: Fields, ownId: string): Fields {
  const { name, arguments: written } = fieldsOf(call.function)
  return { type: 'tool_use', id: textOf(call.id) || toolId(ownId), name: textOf(name), input: inputOf(written) }
}

/** An id for a call to which its vendor gave none. */
export const toolId = (own: string): string => `toolu_${own.replace(/^msg_/, '')}`
