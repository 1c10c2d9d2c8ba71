/** Translates streamed chat completions into events of the `messages` format. */
import { contentText, messagesUsage, stopReason } from './parts.ts'
import { messageId, toolId } from './reply.ts'
import { resultBlock, searchBlock } from './searches.ts'
import type { MadeSearch } from '../../web_search/search.ts'
import { SEARCH_NAME } from '../../web_search/tool.ts'
import { sseJson, tryJson } from '../sse.ts'
import { type Fields, fieldsOf, isFields, listOf, textOf } from '../../../../lib/json.ts'
import type { StreamTranslator } from '../stream_translator.ts'

/**
 * A content block of the reply. For a tool, `whole` is its arguments so far; `waiting` is text that has not been sent.
 */
type Block = {
  readonly kind: 'thinking' | 'text' | 'tool' | 'search' | 'found'
  id: string
  name: string
  whole: string
  waiting: string
  signature: string
  /** The result of a search, which is sent whole. */
  result: Fields
  /** Whether the first `length` characters of `whole` are a JSON object. Cached by length. */
  tested: { readonly length: number; readonly isJson: boolean }
}

const blank = (kind: Block['kind']): Block => ({
  kind,
  id: '',
  name: '',
  whole: '',
  waiting: '',
  signature: '',
  result: {},
  tested: { length: 0, isJson: false },
})

/** A text is complete when another block follows. A call also needs complete arguments. */
function isWhole(block: Block): boolean {
  if (block.kind !== 'tool') return true
  const { length } = block.whole
  if (block.tested.length !== length) block.tested = { length, isJson: tryJson(block.whole) !== undefined }
  return block.tested.isJson
}

const event = (type: string, members: Fields) => sseJson({ type, ...members }, type)

/** The blocks of a message, in the order in which they are sent. */
function blockQueue(messageIdentifier: string) {
  const blocks: Block[] = []
  /** Index of the block being sent, and whether its start has been sent. */
  let blockIndex = 0
  let isOpen = false
  const calls = new Map<number, Block>()
  let lastCall: Block | undefined

  function add(kind: Block['kind'], text: string): void {
    const last = blocks.at(-1)
    if (text === '') return
    const block = last?.kind === kind ? last : blank(kind)
    if (block !== last) blocks.push(block)
    block.waiting += text
  }

  function sign(signature: string): void {
    const thought = blocks.findLast(({ kind }) => kind === 'thinking')
    if (signature !== '' && thought) thought.signature += signature
  }

  /**
   * A fragment of a call. A new id also starts a new call, since some vendors give every call index 0, and some none.
   */
  function call(part: Fields): void {
    const existing = typeof part.index === 'number' ? calls.get(part.index) : lastCall
    const id = textOf(part.id)
    const { name, arguments: written } = fieldsOf(part.function)
    const isNew = !existing || (id !== '' && existing.id !== '' && existing.id !== id)
    const block: Block = isNew ? blank('tool') : existing
    if (isNew) blocks.push(block)
    if (typeof part.index === 'number') calls.set(part.index, block)
    lastCall = block
    block.id ||= id
    block.name ||= textOf(name)
    const text = isFields(written) ? JSON.stringify(written) : textOf(written)
    block.whole += text
    block.waiting += text
  }

  /** A search when it begins, and again with what it has found. */
  function search(made: MadeSearch): void {
    const isOver = Array.isArray(made.pages)
    const block = blank(isOver ? 'found' : 'search')
    blocks.push(block)
    if (isOver) block.result = resultBlock(made)
    else block.waiting = JSON.stringify({ query: made.query })
    block.id = textOf(searchBlock(made).id)
  }

  function start({ kind, id: callId, name, result }: Block): Fields {
    if (kind === 'search') return { type: 'server_tool_use', id: callId, name: SEARCH_NAME, input: {} }
    if (kind === 'found') return result
    if (kind === 'thinking') return { type: 'thinking', thinking: '', signature: '' }
    if (kind === 'text') return { type: 'text', text: '' }
    return { type: 'tool_use', id: callId || toolId(`${messageIdentifier}_${blockIndex}`), name, input: {} }
  }

  /**
   * Sends what can be sent: the rest of the current block, then further blocks while they are complete, or all if
   * `isLast`.
   */
  function flush(isLast = false): string {
    let out = ''
    for (let block = blocks[blockIndex]; block; block = blocks[blockIndex]) {
      if (!isOpen && block.kind === 'tool' && block.name === '' && !isLast) return out
      if (!isOpen) out += event('content_block_start', { index: blockIndex, content_block: start(block) })
      isOpen = true
      if (block.waiting !== '') out += event('content_block_delta', { index: blockIndex, delta: delta(block) })
      block.waiting = ''
      if (!isLast && (blockIndex === blocks.length - 1 || !isWhole(block))) return out
      if (block.signature !== '')
        out += event('content_block_delta', {
          index: blockIndex,
          delta: { type: 'signature_delta', signature: block.signature },
        })
      out += event('content_block_stop', { index: blockIndex })
      blockIndex++
      isOpen = false
    }
    return out
  }

  return { add, sign, call, search, flush, hasCalls: () => blocks.some(({ kind }) => kind === 'tool') }
}

function delta({ kind, waiting }: Block): Fields {
  if (kind === 'thinking') return { type: 'thinking_delta', thinking: waiting }
  return kind === 'text' ? { type: 'text_delta', text: waiting } : { type: 'input_json_delta', partial_json: waiting }
}

/**
 * Blocks of the messages format follow one another, while tool calls of chat may be interleaved: text of a later block
 * waits until the block before it is complete. `message_delta` waits for the usage, which comes after the finish, or
 * for [DONE].
 */
export function messagesFromChatStream({ model, id }: { model: string; id: string }): StreamTranslator {
  const messageIdentifier = messageId(id)
  const blocks = blockQueue(messageIdentifier)
  let usage: Fields | undefined
  let finish: string | undefined
  let isStarted = false
  let isOver = false

  function begin(): string {
    if (isStarted) return ''
    isStarted = true
    const message = {
      id: messageIdentifier,
      type: 'message',
      role: 'assistant',
      model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: messagesUsage(usage ?? {}),
    }
    return event('message_start', { message })
  }

  /** `reason` is null where the stream was interrupted: no reason is invented. */
  function close(reason: string | null): string {
    if (isOver) return ''
    isOver = true
    const stop_reason = reason === null ? null : stopReason(reason, { hasCalls: blocks.hasCalls() })
    const last = event('message_delta', {
      delta: { stop_reason, stop_sequence: null },
      usage: messagesUsage(usage ?? {}),
    })
    return `${begin()}${blocks.flush(true)}${last}${event('message_stop', {})}`
  }

  return {
    on({ data }) {
      if (data === '[DONE]') return close(finish ?? 'stop')
      const chunk = isOver ? undefined : tryJson(data)
      if (!chunk || (chunk.error ?? null) !== null) return ''
      if (isFields(chunk.usage)) usage = chunk.usage
      const choice = listOf(chunk.choices)
        .filter(isFields)
        .find(({ index }) => (index ?? 0) === 0)
      const part = fieldsOf(choice?.delta)
      blocks.add('thinking', textOf(part.reasoning_content))
      blocks.sign(textOf(part.reasoning_signature))
      blocks.add('text', contentText(part.content) || textOf(part.refusal))
      for (const entry of listOf(part.tool_calls).filter(isFields)) blocks.call(entry)
      if (typeof choice?.finish_reason === 'string') finish = choice.finish_reason
      if (isFields(part.web_search)) blocks.search(part.web_search as unknown as MadeSearch)
      const out = `${begin()}${blocks.flush()}`
      return finish !== undefined && isFields(chunk.usage) ? `${out}${close(finish)}` : out
    },
    end: () => close(finish ?? null),
  }
}
