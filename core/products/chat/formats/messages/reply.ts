/**
 * Translates complete replies between the `chat` and `messages` formats. Lenient: unknown parts of a vendor's reply are
 * skipped.
 */
import { type Json, type Fields, fieldsOf, given, isFields, listOf, objectsOf, textOf } from '../../../../lib/json.ts'
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
import { resultBlock, searchBlock } from './searches.ts'
import type { MadeSearch } from '../../web_search/search.ts'

/**
 * Converts a vendor's message to a chat completion. `created` is in Unix seconds. With tool calls `content` is empty
 * (contract 6.26): text before the calls is kept in `content_before_tools`. Blocks that chat does not have are kept in
 * `other_blocks`.
 */
export function chatFromMessagesReply(reply: Fields, { model, created }: { model: string; created: number }): Fields {
  const blocks = listOf(reply.content).filter(isFields)
  const texts = blocks.filter(({ type }) => type === 'text')
  const text = texts.map((block) => textOf(block.text)).join('')
  const calls = blocks.filter(({ type }) => type === 'tool_use').map(chatCall)
  const citations = texts.flatMap((block) => listOf(block.citations))
  const otherBlocks = blocks.filter((block) => block.type !== 'text' && block.type !== 'tool_use' && !isThinking(block))
  const hasCalls = calls.length > 0
  const message = given({
    role: 'assistant',
    content: hasCalls ? '' : text,
    ...reasoningMembers(blocks.filter(isThinking)),
    tool_calls: hasCalls ? calls : undefined,
    content_before_tools: hasCalls && text !== '' ? text : undefined,
    citations: citations.length > 0 ? citations : undefined,
    other_blocks: otherBlocks.length > 0 ? otherBlocks : undefined,
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

/** The vendor's id with chat's prefix, or an id made from the time where it sent none. */
export function chatId(id: Json | undefined, created: number): string {
  return `chatcmpl-${textOf(id).replace(/^msg_/, '') || String(created)}`
}

/** The reverse of `chatId`. */
export const messageId = (id: Json | undefined): string => `msg_${textOf(id).replace(/^(?:chatcmpl-|msg_)/, '')}`

function chatCall({ id, name, input }: Fields): Fields {
  return { id: textOf(id), type: 'function', function: { name: textOf(name), arguments: argumentsOf(input) } }
}

/**
 * Converts a chat completion to a message: thinking, text, tool calls (contract 7.1). Only its first choice. Unsigned
 * thinking has the signature '', by which it is recognized when the caller sends it back.
 */
export function messagesFromChatReply(reply: Fields, { model }: { model: string }): Fields {
  const choice = fieldsOf(listOf(reply.choices)[0])
  const message = fieldsOf(choice.message)
  const id = messageId(reply.id)
  const text = contentText(message.content) || textOf(message.content_before_tools) || textOf(message.refusal)
  const calls = listOf(message.tool_calls)
    .filter(isFields)
    .map((call, at) => toolUse(call, `${id}_${at}`))
  return {
    id,
    type: 'message',
    role: 'assistant',
    model,
    content: [
      ...thinkingOf(message),
      ...searchesOf(message),
      ...(text === '' ? [] : [{ type: 'text', text: text }]),
      ...calls,
    ],
    stop_reason: stopReason(choice.finish_reason, { hasCalls: calls.length > 0 }),
    stop_sequence: null,
    usage: messagesUsage(fieldsOf(reply.usage)),
  }
}

/** Each search with what it found, and the text before it. */
const searchesOf = (message: Fields): Fields[] =>
  objectsOf(message.web_searches).flatMap(({ before, search }) => [
    ...(textOf(before) === '' ? [] : [{ type: 'text', text: textOf(before) }]),
    searchBlock(search as unknown as MadeSearch),
    resultBlock(search as unknown as MadeSearch),
  ])

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

/** An id for a call whose vendor sent none. */
export const toolId = (messageIdentifier: string): string => `toolu_${messageIdentifier.replace(/^msg_/, '')}`
