/** A whole answer of the chat wire as the contract has it, and JSON asked for in words where a model has no decoder for it (contract 6.19). */
import { type Json, type Fields, isFields, objectsOf } from '../../../lib/json.ts'
import { usageOf } from './usage.ts'

/**
 * Fills in what every answer has, under our name of the model. A tool turn has an empty content, and an answer without text gets its
 * reasoning as text, so that nobody pays for a blank (contract 6.26).
 */
export function plainReply(reply: Fields, { model, created }: { model: string; created: number }): Fields {
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
    ...(isFields(reply.usage) && { usage: usageOf(reply.usage) }),
  }
}

function message({ reasoning, reasoning_content = reasoning ?? null, content, ...rest }: Fields): Fields {
  const thought = typeof reasoning_content === 'string' ? reasoning_content : ''
  const hasTools = Array.isArray(rest.tool_calls) && rest.tool_calls.length > 0
  const text = typeof content === 'string' ? content : ''
  const isBlank = text.trim() === '' && !rest.refusal
  const answer = isBlank ? thought || text : text
  const said = hasTools ? '' : answer
  return {
    role: 'assistant',
    ...rest,
    content: Array.isArray(content) ? content : said,
    ...(thought !== '' && { reasoning_content: thought }),
  }
}

// ── JSON, asked for in words ────────────────────────────────────────────────────────────────────────────────────────

const formatOf = ({ response_format }: Fields): Fields => (isFields(response_format) ? response_format : {})

export const asksForJson = (body: Fields): boolean =>
  ['json_object', 'json_schema'].includes(String(formatOf(body).type))

/** The same request with the instruction, and the schema, at the end of the system prompt in place of `response_format`. */
export function withJsonAsked(body: Fields): Fields {
  const { response_format: _, ...rest } = body
  const { json_schema } = formatOf(body)
  const schema = isFields(json_schema) ? json_schema.schema : undefined
  const follows = schema === undefined ? '' : ` It must conform to this JSON Schema:\n${JSON.stringify(schema)}`
  const instruction = `Answer with one valid JSON value and nothing else: no explanation, no code fence.${follows}`
  const messages = objectsOf(rest.messages)
  const [first, ...others] = messages
  if (first?.role !== 'system') return { ...rest, messages: [{ role: 'system', content: instruction }, ...messages] }
  const content: Json = Array.isArray(first.content)
    ? [...first.content, { type: 'text', text: instruction }]
    : `${first.content}\n\n${instruction}`
  return { ...rest, messages: [{ ...first, content }, ...others] }
}

const CLAIM_TOKEN = /^\s*```(?:json)?\s*\n([\s\S]*?)\n?```\s*$/i

/** An answer whose text was wrapped in a code fence, without it. */
export function withoutClaimToken(reply: Fields): Fields {
  const choices = objectsOf(reply.choices).map((choice) => {
    const { content, ...rest } = isFields(choice.message) ? choice.message : {}
    const bare = typeof content === 'string' ? (CLAIM_TOKEN.exec(content)?.[1] ?? content) : (content ?? null)
    return { ...choice, message: { ...rest, content: bare } }
  })
  return { ...reply, choices }
}
