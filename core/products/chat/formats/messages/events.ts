/** Streamed chat completions as the events of the `messages` wire. */
import { contentText, messagesUsage, stopReason } from './parts.ts'
import { messageId, toolId } from './reply.ts'
import { sseJson, tryJson } from '../sse.ts'
import { type Fields, fieldsOf, isFields, listOf, textOf } from '../../../../lib/json.ts'
import type { Rewriter } from '../rewriter.ts'

/** A content block of the reply. Of a tool, `whole` is all of its arguments so far; `waiting` is what has not been told yet. */
type Block = {
  readonly kind: 'thinking' | 'text' | 'tool'
  id: string
  name: string
  whole: string
  waiting: string
  signature: string
  /** Whether the first `length` characters of `whole` are a JSON object; asked once for each length. */
  tested: { readonly length: number; readonly isJson: boolean }
}

const blank = (kind: Block['kind']): Block => ({
  kind,
  id: '',
  name: '',
  whole: '',
  waiting: '',
  signature: '',
  tested: { length: 0, isJson: false },
})

/** A text is whole when another block follows; a call also needs arguments that are. */
function isWhole(block: Block): boolean {
  if (block.kind !== 'tool') return true
  const { length } = block.whole
  if (block.tested.length !== length) block.tested = { length, isJson: tryJson(block.whole) !== undefined }
  return block.tested.isJson
}

/**
 * Events of a message. Blocks of that wire follow one another, while tool calls of chat may come interleaved: what belongs to a later block waits until the
 * one before it is whole. `message_delta` waits for the usage, which comes after the finish, or for [DONE].
 */
export function messagesFromChatStream({ model, id }: { model: string; id: string }): Rewriter {
  const own = messageId(id)
  const blocks: Block[] = []
  /** Block that is being told, and whether its start has been. */
  let at = 0
  let isOpen = false
  let usage: Fields | undefined
  let finish: string | undefined
  let isBegun = false
  let isOver = false
  const calls = new Map<number, Block>()
  let calling: Block | undefined

  const event = (type: string, members: Fields) => sseJson({ type, ...members }, type)

  function begin(): string {
    if (isBegun) return ''
    isBegun = true
    const message = {
      id: own,
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

  function add(kind: Block['kind'], words: string): void {
    const last = blocks.at(-1)
    if (words === '') return
    const block = last?.kind === kind ? last : blank(kind)
    if (block !== last) blocks.push(block)
    block.waiting += words
  }

  function sign(signature: string): void {
    const thought = blocks.findLast(({ kind }) => kind === 'thinking')
    if (signature !== '' && thought) thought.signature += signature
  }

  /** A part of a call. Vendors that number every call 0 are known by a new id, those that number none by its absence. */
  function call(part: Fields): void {
    const known = typeof part.index === 'number' ? calls.get(part.index) : calling
    const id = textOf(part.id)
    const { name, arguments: written } = fieldsOf(part.function)
    const isNew = !known || (id !== '' && known.id !== '' && known.id !== id)
    const block: Block = isNew ? blank('tool') : known
    if (isNew) blocks.push(block)
    if (typeof part.index === 'number') calls.set(part.index, block)
    calling = block
    block.id ||= id
    block.name ||= textOf(name)
    const words = isFields(written) ? JSON.stringify(written) : textOf(written)
    block.whole += words
    block.waiting += words
  }

  function start({ kind, id: callId, name }: Block): Fields {
    if (kind === 'thinking') return { type: 'thinking', thinking: '', signature: '' }
    if (kind === 'text') return { type: 'text', text: '' }
    return { type: 'tool_use', id: callId || toolId(`${own}_${at}`), name, input: {} }
  }

  function delta({ kind, waiting }: Block): Fields {
    if (kind === 'thinking') return { type: 'thinking_delta', thinking: waiting }
    return kind === 'text' ? { type: 'text_delta', text: waiting } : { type: 'input_json_delta', partial_json: waiting }
  }

  /** Tells what can be told: to the end of the block at hand, and on for as long as blocks are whole, or `isLast`. */
  function tell(isLast = false): string {
    let told = ''
    for (let block = blocks[at]; block; block = blocks[at]) {
      if (!isOpen && block.kind === 'tool' && block.name === '' && !isLast) return told
      if (!isOpen) told += event('content_block_start', { index: at, content_block: start(block) })
      isOpen = true
      if (block.waiting !== '') told += event('content_block_delta', { index: at, delta: delta(block) })
      block.waiting = ''
      if (!isLast && (at === blocks.length - 1 || !isWhole(block))) return told
      if (block.signature !== '')
        told += event('content_block_delta', {
          index: at,
          delta: { type: 'signature_delta', signature: block.signature },
        })
      told += event('content_block_stop', { index: at })
      at++
      isOpen = false
    }
    return told
  }

  /** `reason` is null where the stream broke off: none is made up. */
  function close(reason: string | null): string {
    if (isOver) return ''
    isOver = true
    const hasCalls = blocks.some(({ kind }) => kind === 'tool')
    const stop_reason = reason === null ? null : stopReason(reason, { hasCalls })
    const last = event('message_delta', {
      delta: { stop_reason, stop_sequence: null },
      usage: messagesUsage(usage ?? {}),
    })
    return `${begin()}${tell(true)}${last}${event('message_stop', {})}`
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
      add('thinking', textOf(part.reasoning_content))
      sign(textOf(part.reasoning_signature))
      add('text', contentText(part.content) || textOf(part.refusal))
      for (const entry of listOf(part.tool_calls).filter(isFields)) call(entry)
      if (typeof choice?.finish_reason === 'string') finish = choice.finish_reason
      const told = `${begin()}${tell()}`
      return finish !== undefined && isFields(chunk.usage) ? `${told}${close(finish)}` : told
    },
    end: () => close(finish ?? null),
  }
}
