/**
 * Shared by both directions of the `generate_content` format: lenient readers, media and tool-call parts, schemas,
 * token counts.
 */
import { type Json, type Fields, countOf, fieldsOf, given, isFields, listOf, textOf } from '../../../../lib/json.ts'
import { tryJson } from '../sse.ts'

export const texts = (value: Json | undefined): string[] => listOf(value).filter((item) => typeof item === 'string')
/**
 * Converts the outermost member names to camelCase, since Gemini reads snake_case too. Where both are present,
 * camelCase wins.
 */
export function camel(value: Json | undefined): Fields {
  const members = Object.entries(fieldsOf(value))
  const named = members.map(([name, inner]) => ({
    name: name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase()),
    original: name,
    inner,
  }))
  const renamedFirst = [
    ...named.filter(({ name, original }) => name !== original),
    ...named.filter(({ name, original }) => name === original),
  ]
  return Object.fromEntries(renamedFirst.map(({ name, inner }) => [name, inner]))
}

/** Adds a thought signature to an entry of `tool_calls` or `parts`, as Google's OpenAI-compatible API writes it. */
export function withSignature(entry: Fields, signature: string): Fields {
  return signature === '' ? entry : { ...entry, extra_content: { google: { thought_signature: signature } } }
}

export const signatureOf = (entry: Fields): string =>
  textOf(fieldsOf(fieldsOf(entry.extra_content).google).thought_signature)

/** Parses the arguments of a call. Text that is not a JSON object is kept under `arguments`. */
function argsOf(args: Json | undefined): Fields {
  if (isFields(args)) return args
  if (textOf(args).trim() === '') return {}
  return tryJson(textOf(args)) ?? { arguments: textOf(args) }
}

/** Serializes an object. '{}' for one nested too deeply to serialize, which could not be forwarded either. */
export function jsonText(value: Fields): string {
  try {
    return JSON.stringify(value)
  } catch {
    return '{}'
  }
}

/** Converts an entry of `tool_calls` to a `functionCall` part. */
export function callPart(call: Fields): Fields {
  const { name, arguments: args } = fieldsOf(call.function)
  const signature = signatureOf(call)
  const functionCall = given({ id: textOf(call.id) || undefined, name: textOf(name), args: argsOf(args) })
  return given({ functionCall, thoughtSignature: signature || undefined })
}

/** Converts a `functionCall` part to an entry of `tool_calls`. `id` is used where the part has none. */
export function toolCall(part: Fields, id: string): Fields {
  const call = camel(part.functionCall)
  const entry = {
    id: textOf(call.id) || id,
    type: 'function',
    function: { name: textOf(call.name), arguments: jsonText(fieldsOf(call.args)) },
  }
  return withSignature(entry, textOf(part.thoughtSignature))
}

/** Splits a base64 `data:` URI into MIME type and data. Undefined for anything else. */
export function dataUriParts(uri: string): { mimeType: string; data: string } | undefined {
  const head = /^data:([^;,]+)(?:;[^;,]+)*;base64,/i.exec(uri.slice(0, 256))
  return head?.[1] === undefined ? undefined : { mimeType: head[1].toLowerCase(), data: uri.slice(head[0].length) }
}

/** The text of a part, including code that Gemini executed and its output. Undefined for other parts. */
export function visibleText(part: Fields): string | undefined {
  if (typeof part.text === 'string') return part.text
  const code = camel(part.executableCode)
  if (typeof code.code === 'string') return `\`\`\`${textOf(code.language).toLowerCase()}\n${code.code}\n\`\`\`\n`
  const ran = camel(part.codeExecutionResult)
  return typeof ran.output === 'string' ? `\`\`\`\n${ran.output}\n\`\`\`\n` : undefined
}

/** Joins the texts of a chat message's content. */
export function contentText(content: Json | undefined): string {
  if (!Array.isArray(content)) return textOf(content)
  return content.map((part: Json) => (typeof part === 'string' ? part : textOf(fieldsOf(part).text))).join('')
}

// ── schemas ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Deeper schemas are passed through unchanged, to bound the recursion. */
const MAX_SCHEMA_DEPTH = 64
const COUNTS = ['minItems', 'maxItems', 'minLength', 'maxLength', 'minProperties', 'maxProperties']

/** Converts Gemini's OpenAPI-style schema to JSON Schema: lower-case types, numeric counts, `nullable` as a type. */
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
  const counts = COUNTS.map((name): [string, Json | undefined] => [name, countOrText(rest[name])])
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

/** Gemini writes 64-bit counts as strings. */
const countOrText = (value: Json | undefined) =>
  typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value

function lowerType(type: Json | undefined, isNullable: boolean): Json | undefined {
  if (Array.isArray(type)) return type.map((one: Json) => (typeof one === 'string' ? one.toLowerCase() : one))
  if (typeof type !== 'string' || type === 'TYPE_UNSPECIFIED') return undefined
  return isNullable ? [type.toLowerCase(), 'null'] : type.toLowerCase()
}

// ── tokens ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Gemini's counts as chat `usage`. The prompt includes cached tokens, the completion includes thoughts. Undefined
 * without counts.
 */
export function usageFrom(counts: Json | undefined): Fields | undefined {
  if (!isFields(counts)) return undefined
  const usage = camel(counts)
  const prompt = countOf(usage.promptTokenCount) + countOf(usage.toolUsePromptTokenCount)
  const completion = countOf(usage.candidatesTokenCount) + countOf(usage.thoughtsTokenCount)
  const cached = countOf(usage.cachedContentTokenCount)
  const cache = cached > 0 ? { prompt_tokens_details: { cached_tokens: cached }, cache_read_input_tokens: cached } : {}
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: Math.max(countOf(usage.totalTokenCount), prompt + completion),
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
