/** Shared by both directions of the `messages` format: readers, tool inputs, thinking, images, stop reasons, usage. */
import { refused } from '../../../../http/request_body.ts'
import { type Json, type Fields, countOf, fieldsOf, given, isFields, listOf, textOf } from '../../../../lib/json.ts'
import { searchesIn } from '../../web_search/usage.ts'
import { tryJson } from '../sse.ts'

/** The object at `path` of a request. Throws INVALID_BODY for anything else. */
export function objectAt(value: Json | undefined, path: string): Fields {
  if (!isFields(value)) throw refused(path, 'must be an object')
  return value
}

/** The objects of the array at `path`; [] where it is absent. Throws INVALID_BODY for anything else. */
export function objectsAt(value: Json | undefined, path: string): Fields[] {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) throw refused(path, 'must be an array')
  return value.map((item: Json, at) => objectAt(item, `${path}[${at}]`))
}

/** The non-empty string at `path`. Throws INVALID_BODY for anything else. */
export function nameAt(value: Json | undefined, path: string): string {
  if (typeof value !== 'string' || value === '') throw refused(path, 'must be a non-empty string')
  return value
}

/** Whether a block is only text, so that a plain string is equivalent. */
export function isBareText(block: Fields): boolean {
  return block.type === 'text' && Object.keys(block).every((name) => name === 'type' || name === 'text')
}

/** Joins the texts of a content, which may be a string or an array of parts. */
export function contentText(content: Json | undefined): string {
  if (!Array.isArray(content)) return textOf(content)
  return content
    .map((part: Json) =>
      typeof part === 'string' ? part : textOf(fieldsOf(part).text) || textOf(fieldsOf(part).refusal),
    )
    .join('')
}

/** Serializes a value of the request. Throws INVALID_BODY where it is nested too deeply. */
export function written(value: Json): string {
  try {
    return JSON.stringify(value)
  } catch {
    throw refused('body', 'is nested too deeply')
  }
}

// ── tool inputs ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** The member under which the vendor's documentation wraps arguments that are not a JSON object. */
const INVALID_ARGUMENTS = 'INVALID_JSON'

/** Parses the arguments of a call. A value that is not a JSON object is wrapped. */
export function inputOf(value: Json | undefined): Fields {
  if (isFields(value)) return value
  if (value === undefined || value === null) return {}
  const source = typeof value === 'string' ? value : written(value)
  if (source.trim() === '') return {}
  return tryJson(source) ?? { [INVALID_ARGUMENTS]: source }
}

/** The reverse of `inputOf`. */
export function argumentsOf(input: Json | undefined): string {
  const invalid = fieldsOf(input)[INVALID_ARGUMENTS]
  if (typeof invalid === 'string' && Object.keys(fieldsOf(input)).length === 1) return invalid
  return written(input ?? {})
}

// ── thinking ────────────────────────────────────────────────────────────────────────────────────────────────────────

export const isThinking = ({ type }: Fields): boolean => type === 'thinking' || type === 'redacted_thinking'

/** Whether the vendor accepts the block: it refuses thinking that it has not signed. */
function isSigned(block: Fields): boolean {
  if (block.type === 'redacted_thinking') return textOf(block.data) !== ''
  return block.type === 'thinking' && typeof block.thinking === 'string' && textOf(block.signature) !== ''
}

/**
 * Converts thinking blocks to members of a chat message: the text as `reasoning_content`, the signature as
 * `reasoning_signature`. Several blocks and redacted ones are also kept whole in `reasoning_blocks`, since one text and
 * one signature cannot represent them.
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

/** The signed thinking blocks of a chat message. Unsigned thinking is dropped, since the vendor refuses it. */
export function signedThinking(message: Fields): Fields[] {
  const blocks = listOf(message.reasoning_blocks).filter(isFields).filter(isSigned)
  if (blocks.length > 0) return blocks
  const signature = textOf(message.reasoning_signature)
  return signature === '' ? [] : [{ type: 'thinking', thinking: textOf(message.reasoning_content), signature }]
}

// ── images ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Converts a base64 source to a `data:` URI. */
export function dataUri(source: Fields, path: string): string {
  return `data:${nameAt(source.media_type, `${path}.media_type`)};base64,${nameAt(source.data, `${path}.data`)}`
}

/** Converts a base64 `data:` URI to a base64 source. Undefined for anything else. */
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

/** Tool calls take precedence over the finish reason: some vendors send `stop` after a tool call. */
export function stopReason(finishReason: Json | undefined, { hasCalls }: { hasCalls: boolean }): string {
  if (finishReason === 'length') return 'max_tokens'
  return hasCalls || finishReason === 'tool_calls' ? 'tool_use' : 'end_turn'
}

/** Converts usage to chat's, where the prompt includes cache reads and writes. */
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

/** Converts usage of any chat vendor to that of messages, where cache reads and writes are counted beside the input. */
export function messagesUsage(usage: Fields): Fields {
  const searched = searchesIn(usage)
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
    server_tool_use: searched && { web_search_requests: searched.searches },
  })
}
