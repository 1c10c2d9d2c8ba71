/** What both directions of the `messages` wire share: lenient readers, tool inputs, thinking, pictures, stop reasons, usage. */
import { refused } from '../../../../http/request_body.ts'
import { type Json, type Fields, countOf, fieldsOf, given, isFields, listOf, textOf } from '../../../../lib/json.ts'
import { tryJson } from '../sse.ts'

/** The object that stands at `path` of a caller's request. Throws INVALID_BODY for anything else. */
export function objectAt(value: Json | undefined, path: string): Fields {
  if (!isFields(value)) throw refused(path, 'must be an object')
  return value
}

/** The objects of the array that stands at `path`; none where it is absent. Throws INVALID_BODY for anything else. */
export function objectsAt(value: Json | undefined, path: string): Fields[] {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) throw refused(path, 'must be an array')
  return value.map((item: Json, at) => objectAt(item, `${path}[${at}]`))
}

/** The text that must stand at `path` and not be empty. */
export function nameAt(value: Json | undefined, path: string): string {
  if (typeof value !== 'string' || value === '') throw refused(path, 'must be a non-empty string')
  return value
}

/** Whether a block is text and nothing else, so that a plain string says the same. */
export function isBareText(block: Fields): boolean {
  return block.type === 'text' && Object.keys(block).every((name) => name === 'type' || name === 'text')
}

/** Joins what may be a string, or an array of text parts. */
export function contentText(content: Json | undefined): string {
  if (!Array.isArray(content)) return textOf(content)
  return content
    .map((part: Json) =>
      typeof part === 'string' ? part : textOf(fieldsOf(part).text) || textOf(fieldsOf(part).refusal),
    )
    .join('')
}

/** JSON of what a caller sent. Throws INVALID_BODY where it is nested too deeply to be written. */
export function written(value: Json): string {
  try {
    return JSON.stringify(value)
  } catch {
    throw refused('body', 'is nested too deeply')
  }
}

// ── tool inputs ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** Under this name the vendor's own guide sends arguments that are no JSON object. */
const BROKEN = 'INVALID_JSON'

/** The arguments of a call as an object. What is no JSON object is wrapped, so that it is not lost. */
export function inputOf(value: Json | undefined): Fields {
  if (isFields(value)) return value
  if (value === undefined || value === null) return {}
  const source = typeof value === 'string' ? value : written(value)
  if (source.trim() === '') return {}
  return tryJson(source) ?? { [BROKEN]: source }
}

/** The reverse of `inputOf`. */
export function argumentsOf(input: Json | undefined): string {
  const broken = fieldsOf(input)[BROKEN]
  if (typeof broken === 'string' && Object.keys(fieldsOf(input)).length === 1) return broken
  return written(input ?? {})
}

// ── thinking ────────────────────────────────────────────────────────────────────────────────────────────────────────

export const isThinking = ({ type }: Fields): boolean => type === 'thinking' || type === 'redacted_thinking'

/** Whether the vendor takes the block back: it refuses thinking that it has not signed. */
function isSigned(block: Fields): boolean {
  if (block.type === 'redacted_thinking') return textOf(block.data) !== ''
  return block.type === 'thinking' && typeof block.thinking === 'string' && textOf(block.signature) !== ''
}

/**
 * Thinking blocks as members of a chat message: the text as `reasoning_content`; the signature as `reasoning_signature`. Several blocks, and
 * redacted ones, are also kept whole as `reasoning_blocks`, for one text and one signature cannot tell them apart.
 */
export function reasoningMembers(blocks: readonly Fields[]): Fields {
  const content = blocks
    .map(({ thinking }) => textOf(thinking))
    .filter((thought) => thought !== '')
    .join('\n\n')
  const [first] = blocks
  const isSingle = blocks.length === 1 && first?.type === 'thinking'
  return given({
    reasoning_content: content || undefined,
    reasoning_signature: (isSingle && textOf(first?.signature)) || undefined,
    reasoning_blocks: !isSingle && blocks.some(isSigned) ? blocks : undefined,
  })
}

/** The thinking of a chat message that the vendor takes back; none when it is not signed. */
export function signedThinking(message: Fields): Fields[] {
  const blocks = listOf(message.reasoning_blocks).filter(isFields).filter(isSigned)
  if (blocks.length > 0) return blocks
  const signature = textOf(message.reasoning_signature)
  return signature === '' ? [] : [{ type: 'thinking', thinking: textOf(message.reasoning_content), signature }]
}

// ── pictures ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A base64 source as a `data:` URI. */
export function dataUri(source: Fields, path: string): string {
  return `data:${nameAt(source.media_type, `${path}.media_type`)};base64,${nameAt(source.data, `${path}.data`)}`
}

/** A `data:` URI in base64 as its type and its data; undefined for anything else. */
export function base64Source(uri: string): Fields | undefined {
  const head = /^data:([^;,]+)(?:;[^;,]+)*;base64,/i.exec(uri.slice(0, 256))
  if (head?.[1] === undefined) return undefined
  const type = head[1].toLowerCase()
  return { type: 'base64', media_type: type === 'image/jpg' ? 'image/jpeg' : type, data: uri.slice(head[0].length) }
}

// ── replies ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const FINISHES: Readonly<Record<string, string>> = {
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  tool_use: 'tool_calls',
  refusal: 'content_filter',
}

export const finishReason = (stopReason: Json | undefined): string => FINISHES[textOf(stopReason)] ?? 'stop'

/** Calls count for more than the reason that is given: some vendors say `stop` where the model has called a tool. */
export function stopReason(finishReason: Json | undefined, { hasCalls }: { hasCalls: boolean }): string {
  if (finishReason === 'length') return 'max_tokens'
  return hasCalls || finishReason === 'tool_calls' ? 'tool_use' : 'end_turn'
}

/** Usage as chat counts it: cache reads and writes are part of the prompt. */
export function chatUsage(usage: Fields): Fields {
  const read = countOf(usage.cache_read_input_tokens)
  const written = countOf(usage.cache_creation_input_tokens)
  const prompt = countOf(usage.input_tokens) + read + written
  const completion = countOf(usage.output_tokens)
  const details = given({ cached_tokens: read || undefined, cached_creation_tokens: written || undefined })
  return given({
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: read + written > 0 ? details : undefined,
    cache_read_input_tokens: read || undefined,
    cache_creation_input_tokens: written || undefined,
  })
}

/** Usage as messages counts it: cache reads and writes stand beside the input. Reads the names of every vendor of chat. */
export function messagesUsage(usage: Fields): Fields {
  const details = fieldsOf(usage.prompt_tokens_details)
  const read =
    countOf(details.cached_tokens) || countOf(usage.cache_read_input_tokens) || countOf(usage.prompt_cache_hit_tokens)
  const written =
    countOf(details.cached_creation_tokens) ||
    countOf(details.cache_write_tokens) ||
    countOf(usage.cache_creation_input_tokens)
  return given({
    input_tokens: Math.max(0, countOf(usage.prompt_tokens) - read - written),
    output_tokens: countOf(usage.completion_tokens),
    cache_creation_input_tokens: written || undefined,
    cache_read_input_tokens: read || undefined,
  })
}
