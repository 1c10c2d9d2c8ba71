/** Complete chat replies in the contract's shape, and JSON output emulated by an instruction (contract 6.19). */
import { type Json, type Fields, isFields, objectsOf } from '../../../lib/json.ts'
import { splitThinking } from './think_tags.ts'
import { isCounted, usageOf, withoutReasoningTokens } from './usage.ts'

type ReplyFacts = {
  readonly model: string
  readonly created: number
  /** Whether its usage counts reasoning separately (contract 6.23). */
  readonly showsReasoningTokens?: boolean
  /** Usage when the vendor reports none (contract 6.65). */
  readonly estimate?: (choices: readonly Fields[]) => Fields
}

/**
 * Normalizes a vendor's reply and puts in the public model id. `content` is empty on a tool turn. A reply without text
 * gets its reasoning as text, so that nobody pays for an empty answer (contract 6.26).
 */
export function plainReply(
  reply: Fields,
  { model, created, showsReasoningTokens = true, estimate }: ReplyFacts,
): Fields {
  const choices = objectsOf(reply.choices).map((choice, index) => ({
    ...choice,
    index: choice.index ?? index,
    message: message(isFields(choice.message) ? choice.message : {}),
  }))
  return {
    ...reply,
    id: typeof reply.id === 'string' && reply.id !== '' ? reply.id : `chatcmpl-${created}`,
    object: 'chat.completion',
    created: typeof reply.created === 'number' ? reply.created : created,
    model,
    choices,
    ...usage(),
  }

  function usage(): { usage?: Fields } {
    const counted = isFields(reply.usage) ? usageOf(reply.usage) : undefined
    if (estimate && !isCounted(counted)) return { usage: estimate(choices) }
    return counted ? { usage: showsReasoningTokens ? counted : withoutReasoningTokens(counted) } : {}
  }
}

function message({ reasoning, reasoning_content = reasoning ?? null, content, ...rest }: Fields): Fields {
  const { content: text, reasoning: inline } = splitThinking(typeof content === 'string' ? content : '')
  const reported = typeof reasoning_content === 'string' ? reasoning_content : ''
  const reasoningText = [reported, inline].filter((thought) => thought.trim() !== '').join('\n') || reported
  const hasTools = Array.isArray(rest.tool_calls) && rest.tool_calls.length > 0
  const isBlank = text.trim() === '' && !rest.refusal
  const textOrReasoning = isBlank ? reasoningText || text : text
  const visibleContent = hasTools ? '' : textOrReasoning
  return {
    role: 'assistant',
    ...(hasTools && text.trim() !== '' && { content_before_tools: text }),
    ...rest,
    content: Array.isArray(content) ? content : visibleContent,
    ...(reasoningText !== '' && { reasoning_content: reasoningText }),
  }
}

// ── emulated JSON output ────────────────────────────────────────────────────────────────────────────────────────────

const formatOf = ({ response_format }: Fields): Fields => (isFields(response_format) ? response_format : {})

export const asksForJson = (body: Fields): boolean =>
  ['json_object', 'json_schema'].includes(String(formatOf(body).type))

/** Replaces `response_format` by an instruction, with the schema, at the end of the system prompt. */
export function withJsonInstruction(body: Fields): Fields {
  const { response_format: _, ...rest } = body
  const { json_schema } = formatOf(body)
  const schema = isFields(json_schema) ? json_schema.schema : undefined
  const schemaText = schema === undefined ? '' : ` It must conform to this JSON Schema:\n${JSON.stringify(schema)}`
  const instruction = `Answer with one valid JSON value and nothing else: no explanation, no code fence.${schemaText}`
  const messages = objectsOf(rest.messages)
  const [first, ...others] = messages
  if (first?.role !== 'system') return { ...rest, messages: [{ role: 'system', content: instruction }, ...messages] }
  const content: Json = Array.isArray(first.content)
    ? [...first.content, { type: 'text', text: instruction }]
    : `${first.content}\n\n${instruction}`
  return { ...rest, messages: [{ ...first, content }, ...others] }
}

const CODE_FENCE = /^\s*```(?:json)?\s*\n([\s\S]*?)\n?```\s*$/i

/** Removes the code fence around the text of each choice. */
export function withoutCodeFence(reply: Fields): Fields {
  const choices = objectsOf(reply.choices).map((choice) => {
    const { content, ...rest } = isFields(choice.message) ? choice.message : {}
    const unfenced = typeof content === 'string' ? (CODE_FENCE.exec(content)?.[1] ?? content) : (content ?? null)
    return { ...choice, message: { ...rest, content: unfenced } }
  })
  return { ...reply, choices }
}
