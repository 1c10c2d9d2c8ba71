/** Translates `messages` streams into chat chunks. */
import { type Json, type Fields, countOf, fieldsOf, given, textOf } from '../../../../lib/json.ts'
import { argumentsOf, chatUsage, finishReason, inputOf, isThinking, reasoningMembers } from './parts.ts'
import { chatId } from './reply.ts'
import { sseJson, tryJson } from '../sse.ts'
import type { StreamTranslator } from '../stream_translator.ts'

/** A content block being received. `input` is the JSON of a tool's input so far. */
type Block = { readonly start: Fields; readonly call?: number; input: string; thinking: string; signature: string }

const USAGE = ['input_tokens', 'output_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens']

/** Translates the blocks of a message; `chunk` writes a delta. */
function blockReader(chunk: (delta: Fields) => string) {
  const blocks = new Map<Json | undefined, Block>()
  const thoughts: Fields[] = []
  let calls = 0
  const argumentsChunk = (index: number | undefined, written: string) =>
    written === '' ? '' : chunk({ tool_calls: [{ index: index ?? 0, function: { arguments: written } }] })

  function open({ index, content_block }: Fields): string {
    const start = fieldsOf(content_block)
    const isCall = start.type === 'tool_use'
    const block = {
      start,
      input: '',
      thinking: textOf(start.thinking),
      signature: textOf(start.signature),
      ...(isCall && { call: calls++ }),
    }
    blocks.set(index, block)
    if (isCall)
      return chunk({
        tool_calls: [
          {
            index: block.call ?? 0,
            id: textOf(start.id),
            type: 'function',
            function: { name: textOf(start.name), arguments: '' },
          },
        ],
      })
    if (start.type === 'text' && textOf(start.text) !== '') return chunk({ content: textOf(start.text) })
    return block.thinking === '' ? '' : chunk({ reasoning_content: block.thinking })
  }

  function grow({ index, delta }: Fields): string {
    const block = blocks.get(index)
    const { type, ...rest } = fieldsOf(delta)
    if (type === 'text_delta') return textOf(rest.text) === '' ? '' : chunk({ content: textOf(rest.text) })
    if (type === 'citations_delta') return chunk({ citations: [rest.citation ?? null] })
    if (!block) return ''
    if (type === 'thinking_delta') return think(block, textOf(rest.thinking))
    if (type === 'signature_delta') block.signature += textOf(rest.signature)
    if (type !== 'input_json_delta') return ''
    block.input += textOf(rest.partial_json)
    return block.call === undefined ? '' : argumentsChunk(block.call, textOf(rest.partial_json))
  }

  function think(block: Block, thinking: string): string {
    // One text holds the thoughts of all blocks, separated by a blank line as in a complete reply.
    const gap = block.thinking === '' && thoughts.some((earlier) => textOf(earlier.thinking) !== '') ? '\n\n' : ''
    block.thinking += thinking
    return thinking === '' ? '' : chunk({ reasoning_content: `${gap}${thinking}` })
  }

  function close({ index }: Fields): string {
    const block = blocks.get(index)
    blocks.delete(index)
    if (!block || block.start.type === 'text') return ''
    if (block.call !== undefined)
      return block.input === '' ? argumentsChunk(block.call, argumentsOf(block.start.input)) : ''
    if (!isThinking(block.start))
      return chunk({
        other_blocks: [block.input === '' ? block.start : { ...block.start, input: inputOf(block.input) }],
      })
    thoughts.push(
      block.start.type === 'thinking'
        ? { type: 'thinking', thinking: block.thinking, signature: block.signature }
        : block.start,
    )
    return block.signature === '' ? '' : chunk({ reasoning_signature: block.signature })
  }

  return { open, grow, close, thoughts }
}

/**
 * Sends chunks of a chat completion, then one with the usage and no choices, then [DONE]. `created` is in Unix seconds.
 * A signature is sent complete, as `delta.reasoning_signature`. An interrupted stream gets no `finish_reason`.
 */
export function chatFromMessagesStream({ model, created }: { model: string; created: number }): StreamTranslator {
  let id = chatId(undefined, created)
  let usage: Fields = {}
  let isStarted = false
  let isFinished = false
  let isOver = false

  const head = () => ({ id, object: 'chat.completion.chunk', created, model })
  const chunk = (delta: Fields, finish: string | null = null) =>
    sseJson({ ...head(), choices: [{ index: 0, delta, finish_reason: finish }] })
  const blocks = blockReader(chunk)

  function begin(message: Fields): string {
    if (isStarted) return ''
    isStarted = true
    if (textOf(message.id) !== '') id = chatId(message.id, created)
    addUsage(message.usage)
    return chunk({ role: 'assistant', content: '' })
  }

  /** Later counts replace earlier ones: each covers the whole reply so far. */
  function addUsage(counts: Json | undefined): void {
    const known = Object.entries(fieldsOf(counts)).filter(([name, value]) => USAGE.includes(name) && countOf(value) > 0)
    usage = { ...usage, ...Object.fromEntries(known) }
  }

  function finish({ delta, usage: counts }: Fields): string {
    addUsage(counts)
    const reason = fieldsOf(delta).stop_reason
    if (isFinished || typeof reason !== 'string') return ''
    isFinished = true
    const { reasoning_blocks } = reasoningMembers(blocks.thoughts)
    return chunk(given({ reasoning_blocks }), finishReason(reason))
  }

  function end(): string {
    if (isOver) return ''
    isOver = true
    return `${sseJson({ ...head(), choices: [], usage: chatUsage(usage) })}data: [DONE]\n\n`
  }

  return {
    on({ data }) {
      const event = isOver ? undefined : tryJson(data)
      if (!event) return ''
      if (event.type === 'message_start') return begin(fieldsOf(event.message))
      if (event.type === 'content_block_start') return blocks.open(event)
      if (event.type === 'content_block_delta') return blocks.grow(event)
      if (event.type === 'content_block_stop') return blocks.close(event)
      if (event.type === 'message_delta') return finish(event)
      return event.type === 'message_stop' ? end() : ''
    },
    end,
  }
}
