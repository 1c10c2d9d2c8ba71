/** What both directions of the `generate_content` wire share: lenient readers, parts of media and tool calls, schemas, token counts. */
import { type Json, type Fields, countOf, fieldsOf, given, isFields, listOf, textOf } from '../../../../lib/json.ts'
import { tryJson } from '../sse.ts'

export const texts = (value: Json | undefined): string[] => listOf(value).filter((item) => typeof item === 'string')
/** Member names in camelCase; Gemini reads snake_case as well. Where both are there, camelCase wins. Only the outermost names. */
export function camel(value: Json | undefined): Fields {
  const members = Object.entries(fieldsOf(value))
  const named = members.map(([name, inner]) => ({
    name: name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase()),
    was: name,
    inner,
  }))
  const renamedFirst = [
    ...named.filter(({ name, was }) => name !== was),
    ...named.filter(({ name, was }) => name === was),
  ]
  return Object.fromEntries(renamedFirst.map(({ name, inner }) => [name, inner]))
}

/** One entry of `tool_calls` or of `parts`, its signature as Google's own OpenAI-compatible surface writes it. */
export function signed(entry: Fields, signature: string): Fields {
  return signature === '' ? entry : { ...entry, extra_content: { google: { thought_signature: signature } } }
}

export const signatureOf = (entry: Fields): string =>
  textOf(fieldsOf(fieldsOf(entry.extra_content).google).thought_signature)

/** The arguments of a call as an object. Text that is no JSON object is kept under `arguments`, so that it is not lost. */
export function argsOf(written: Json | undefined): Fields {
  if (isFields(written)) return written
  if (textOf(written).trim() === '') return {}
  return tryJson(textOf(written)) ?? { arguments: textOf(written) }
}

/** An object as text. One that is nested beyond any stack is '{}'; it could not be sent on either. */
export function jsonText(value: Fields): string {
  try {
    return JSON.stringify(value)
  } catch {
    return '{}'
  }
}

/** A `functionCall` part out of one entry of `tool_calls`. */
export function callPart(call: Fields): Fields {
  const { name, arguments: written } = fieldsOf(call.function)
  const signature = signatureOf(call)
  const functionCall = given({ id: textOf(call.id) || undefined, name: textOf(name), args: argsOf(written) })
  return given({ functionCall, thoughtSignature: signature || undefined })
}

/** One entry of `tool_calls` out of a `functionCall` part. `id` is used where the part has none. */
export function toolCall(part: Fields, id: string): Fields {
  const call = camel(part.functionCall)
  const entry = {
    id: textOf(call.id) || id,
    type: 'function',
    function: { name: textOf(call.name), arguments: jsonText(fieldsOf(call.args)) },
  }
  return signed(entry, textOf(part.thoughtSignature))
}

/** A `data:` URI in base64 as its type and its data; undefined for anything else. */
export function dataUriParts(uri: string): { mimeType: string; data: string } | undefined {
  const head = /^data:([^;,]+)(?:;[^;,]+)*;base64,/i.exec(uri.slice(0, 256))
  return head?.[1] === undefined ? undefined : { mimeType: head[1].toLowerCase(), data: uri.slice(head[0].length) }
}

/** What an inline part of a reply, or of a turn of the model, is in text; the code that Gemini ran for itself included. Undefined for another part. */
export function shownText(part: Fields): string | undefined {
  if (typeof part.text === 'string') return part.text
  const code = camel(part.executableCode)
  if (typeof code.code === 'string') return `\`\`\`${textOf(code.language).toLowerCase()}\n${code.code}\n\`\`\`\n`
  const ran = camel(part.codeExecutionResult)
  return typeof ran.output === 'string' ? `\`\`\`\n${ran.output}\n\`\`\`\n` : undefined
}

/** Texts of a chat message's content, joined. */
export function contentText(content: Json | undefined): string {
  if (!Array.isArray(content)) return textOf(content)
  return content.map((part: Json) => (typeof part === 'string' ? part : textOf(fieldsOf(part).text))).join('')
}

// ── schemas ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Deeper schemas are kept as they came: a stack has an end. */
const MAX_SCHEMA_DEPTH = 64
const COUNTS = ['minItems', 'maxItems', 'minLength', 'maxLength', 'minProperties', 'maxProperties']

/** Gemini's OpenAPI-flavoured schema as a JSON schema: types in lower case, counts as numbers, `nullable` as a type. */
export function jsonSchema(schema: Json | undefined, depth = 0): Json {
  if (!isFields(schema) || depth > MAX_SCHEMA_DEPTH) return schema ?? {}
  const {
    type,
    nullable,
    propertyOrdering: _order,
    example,
    items,
    properties,
    anyOf,
    additionalProperties,
    ...rest
  } = camel(schema)
  const inner = (value: Json) => jsonSchema(value, depth + 1)
  const counts = COUNTS.map((name): [string, Json | undefined] => [name, usedOf(rest[name])])
  return given({
    ...rest,
    ...Object.fromEntries(counts),
    type: lowerType(type, nullable === true),
    examples: example === undefined ? undefined : [example],
    items: items === undefined ? undefined : inner(items),
    properties: isFields(properties)
      ? Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, inner(value)]))
      : properties,
    anyOf: Array.isArray(anyOf) ? anyOf.map(inner) : anyOf,
    additionalProperties: isFields(additionalProperties) ? inner(additionalProperties) : additionalProperties,
  })
}

/** Gemini writes 64-bit counts as text. */
const usedOf = (value: Json | undefined) =>
  typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value

function lowerType(type: Json | undefined, isNullable: boolean): Json | undefined {
  if (Array.isArray(type)) return type.map((one: Json) => (typeof one === 'string' ? one.toLowerCase() : one))
  if (typeof type !== 'string' || type === 'TYPE_UNSPECIFIED') return undefined
  return isNullable ? [type.toLowerCase(), 'null'] : type.toLowerCase()
}

// ── tokens ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** `usage` of chat. The prompt already holds what was cached; completion is what was written and what was thought. Undefined without counts. */
export function usageFrom(counts: Json | undefined): Fields | undefined {
  if (!isFields(counts)) return undefined
  const told = camel(counts)
  const prompt = countOf(told.promptTokenCount) + countOf(told.toolUsePromptTokenCount)
  const completion = countOf(told.candidatesTokenCount) + countOf(told.thoughtsTokenCount)
  const cached = countOf(told.cachedContentTokenCount)
  const cache = cached > 0 ? { prompt_tokens_details: { cached_tokens: cached }, cache_read_input_tokens: cached } : {}
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: Math.max(countOf(told.totalTokenCount), prompt + completion),
    ...cache,
  }
}

export function usageMetadataFrom(usage: Json | undefined): Fields | undefined {
  if (!isFields(usage)) return undefined
  const prompt = countOf(usage.prompt_tokens)
  const completion = countOf(usage.completion_tokens)
  const thought = Math.min(completion, countOf(fieldsOf(usage.completion_tokens_details).reasoning_tokens))
  const cached = countOf(fieldsOf(usage.prompt_tokens_details).cached_tokens)
  return given({
    promptTokenCount: prompt,
    candidatesTokenCount: completion - thought,
    thoughtsTokenCount: thought > 0 ? thought : undefined,
    cachedContentTokenCount: cached > 0 ? cached : undefined,
    totalTokenCount: Math.max(countOf(usage.total_tokens), prompt + completion),
  })
}
