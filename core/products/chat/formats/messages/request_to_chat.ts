/** Converts a `messages` request to chat, for a vendor that does not speak messages. */
import { refused } from '../../../../http/request_body.ts'
import { type Json, type Fields, fieldsOf, given, isFields, listOf, textOf } from '../../../../lib/json.ts'
import {
  argumentsOf,
  dataUri,
  isBareText,
  isThinking,
  nameAt,
  objectAt,
  objectsAt,
  reasoningMembers,
  written,
} from './parts.ts'

/**
 * Converts a request to chat completions. Members that neither format defines are kept. Throws INVALID_BODY for a
 * malformed body and for documents that chat cannot represent.
 */
export function chatFromMessages(body: Fields): Fields {
  const { system, messages, tools, tool_choice, stop_sequences, metadata, output_config, ...rest } = body
  if (!Array.isArray(messages)) throw refused('messages', 'must be an array')
  const { user_id, ...otherMetadata } = fieldsOf(metadata)
  return given({
    ...rest,
    messages: [
      ...systemMessages(system, 'system'),
      ...objectsAt(messages, 'messages').flatMap((message, at) => messagesOf(message, `messages[${at}]`)),
    ],
    tools: Array.isArray(tools)
      ? objectsAt(tools, 'tools').map((tool, at) => chatTool(tool, `tools[${at}]`))
      : undefined,
    tool_choice: chatToolChoice(tool_choice),
    parallel_tool_calls: fieldsOf(tool_choice).disable_parallel_tool_use === true ? false : rest.parallel_tool_calls,
    stop: stop_sequences ?? rest.stop,
    user: typeof user_id === 'string' ? user_id : rest.user,
    metadata: Object.keys(otherMetadata).length > 0 ? otherMetadata : undefined,
    ...chatOutput(fieldsOf(output_config), rest),
  })
}

// ── messages ────────────────────────────────────────────────────────────────────────────────────────────────────────

function systemMessages(system: Json | undefined, path: string): Fields[] {
  if (typeof system === 'string') return system === '' ? [] : [{ role: 'system', content: system }]
  const blocks = objectsAt(system, path).map((block, at) => {
    if (block.type !== 'text') throw refused(`${path}[${at}].type`, 'must be text')
    return textBlock(block, `${path}[${at}]`)
  })
  if (blocks.length === 0) return []
  const isCached = blocks.some(({ cache_control }) => isFields(cache_control))
  return [
    {
      role: 'system',
      content: isCached ? blocks.map(withoutEmptyCitations) : blocks.map((block) => textOf(block.text)).join('\n\n'),
    },
  ]
}

function messagesOf({ role, content }: Fields, path: string): Fields[] {
  if (role === 'system') return systemMessages(content, `${path}.content`)
  if (role !== 'user' && role !== 'assistant') throw refused(`${path}.role`, 'must be user or assistant')
  if (typeof content === 'string') return [{ role, content }]
  if (!Array.isArray(content)) throw refused(`${path}.content`, 'must be a string or an array')
  const blocks = objectsAt(content, `${path}.content`)
  return role === 'user' ? userMessages(blocks, `${path}.content`) : assistantMessages(blocks, `${path}.content`)
}

/** Tool results come first, as chat requires. Their images and files follow in a user message. */
function userMessages(blocks: readonly Fields[], path: string): Fields[] {
  const located = blocks.map((block, at) => ({ block, at: `${path}[${at}]` }))
  const results = located
    .filter(({ block }) => block.type === 'tool_result')
    .map(({ block, at }) => toolMessage(block, at))
  const otherParts = located
    .filter(({ block }) => block.type !== 'tool_result')
    .flatMap(({ block, at }) => partsOf(block, at))
  const parts = [...results.flatMap(({ attachments }) => attachments), ...otherParts]
  return [
    ...results.map(({ message }) => message),
    ...(parts.length > 0 ? [{ role: 'user', content: simplified(parts) }] : []),
  ]
}

function assistantMessages(blocks: readonly Fields[], path: string): Fields[] {
  const located = blocks.map((block, at) => ({ block, at: `${path}[${at}]` }))
  const calls = located.filter(({ block }) => block.type === 'tool_use').map(({ block, at }) => toolCall(block, at))
  const parts = located
    .filter(({ block }) => block.type !== 'tool_use' && !isThinking(block))
    .flatMap(({ block, at }) => partsOf(block, at))
  const reasoning = reasoningMembers(blocks.filter(isThinking))
  if (calls.length + parts.length === 0 && Object.keys(reasoning).length === 0) return []
  const content = parts.every(isBareText) ? parts.map((part) => textOf(part.text)).join('') : parts
  return [
    given({
      role: 'assistant',
      content: content === '' ? null : content,
      ...reasoning,
      tool_calls: calls.length > 0 ? calls : undefined,
    }),
  ]
}

function toolCall(block: Fields, path: string): Fields {
  const functionFields = { name: nameAt(block.name, `${path}.name`), arguments: argumentsOf(block.input) }
  return { id: nameAt(block.id, `${path}.id`), type: 'function', function: functionFields }
}

/** Converts a result to a tool message, which holds only text in chat, and the parts that are not text. */
function toolMessage(block: Fields, path: string): { message: Fields; attachments: Fields[] } {
  const { content, cache_control } = block
  const nested = typeof content === 'string' ? [{ type: 'text', text: content }] : objectsAt(content, `${path}.content`)
  const parts = nested.flatMap((inner, at) => partsOf(inner, `${path}.content[${at}]`))
  const isAttachment = ({ type }: Fields) => type === 'image_url' || type === 'file'
  const texts = parts.map((part) => asText(part)).filter(({ text: words }) => words !== '')
  const resultTexts = block.is_error === true ? [{ type: 'text', text: 'Error:' }, ...texts] : texts
  const withCacheMark = isFields(cache_control)
    ? resultTexts.map((part, at) => (at === resultTexts.length - 1 ? { ...part, cache_control } : part))
    : resultTexts
  const isCached = withCacheMark.some((part) => isFields((part as Fields).cache_control))
  const message = {
    role: 'tool',
    tool_call_id: nameAt(block.tool_use_id, `${path}.tool_use_id`),
    content: isCached ? withCacheMark : withCacheMark.map((part) => part.text).join('\n'),
  }
  return { message, attachments: parts.filter(isAttachment) }
}

/** A part of a tool result as text. An image or a file is replaced by a note. */
function asText(part: Fields): Fields & { text: string } {
  if (part.type === 'text') return { ...part, text: textOf(part.text) }
  if (part.type === 'image_url') return { type: 'text', text: '[image: in the next message]' }
  if (part.type === 'file') return { type: 'text', text: '[file: in the next message]' }
  return { type: 'text', text: written(part) }
}

/** Converts a block to chat parts. Unknown blocks are passed through for the vendor to judge. */
function partsOf(block: Fields, path: string): Fields[] {
  if (block.type === 'document') return documentParts(block, path)
  if (block.type === 'search_result') return [searchResultPart(block)]
  return [leafPart(block, path)]
}

/** Drops empty `citations`, which chat does not have. */
function withoutEmptyCitations({ citations, ...block }: Fields): Fields {
  return citations === undefined ||
    citations === null ||
    listOf(citations).length + Object.keys(fieldsOf(citations)).length === 0
    ? block
    : { ...block, citations }
}

/** Checks that the text of a block is a string. */
function textBlock(block: Fields, path: string): Fields {
  if (typeof block.text !== 'string') throw refused(`${path}.text`, 'must be a string')
  return block
}

function leafPart(block: Fields, path: string): Fields {
  if (block.type === 'text') return withoutEmptyCitations(textBlock(block, path))
  const { type, source, ...rest } = block
  // Which tool a search has found; its definition is in `tools`.
  if (type === 'tool_reference')
    return { type: 'text', text: `The tool ${textOf(block.tool_name)} is available: call it by this name.` }
  const sourceFields = fieldsOf(source)
  if (type === 'image' && sourceFields.type === 'base64')
    return { ...rest, type: 'image_url', image_url: { url: dataUri(sourceFields, `${path}.source`) } }
  if (type === 'image' && sourceFields.type === 'url')
    return { ...rest, type: 'image_url', image_url: { url: nameAt(sourceFields.url, `${path}.source.url`) } }
  return block
}

function documentParts(block: Fields, path: string): Fields[] {
  const { source, title, context, cache_control } = block
  const sourceFields = objectAt(source, `${path}.source`)
  const mark = given({ cache_control: cache_control ?? undefined })
  const contextParts = textOf(context) === '' ? [] : [{ type: 'text', text: textOf(context) }]
  const headed = [textOf(title), textOf(context)].filter((line) => line !== '')
  if (sourceFields.type === 'text')
    return [{ type: 'text', text: [...headed, nameAt(sourceFields.data, `${path}.source.data`)].join('\n\n'), ...mark }]
  if (sourceFields.type === 'base64')
    return [
      ...contextParts,
      {
        type: 'file',
        file: { filename: textOf(title) || 'document.pdf', file_data: dataUri(sourceFields, `${path}.source`) },
        ...mark,
      },
    ]
  if (sourceFields.type !== 'content')
    throw refused(`${path}.source.type`, 'must be text, base64 or content for this model')
  const headParts = headed.map((line) => ({ type: 'text', text: line }))
  if (typeof sourceFields.content === 'string')
    return [...headParts, { type: 'text', text: sourceFields.content, ...mark }]
  return [
    ...headParts,
    ...objectsAt(sourceFields.content, `${path}.source.content`).map((inner, at) =>
      leafPart(inner, `${path}.source.content[${at}]`),
    ),
  ]
}

function searchResultPart({ title, source, content, cache_control }: Fields): Fields {
  const resultTexts = listOf(content).map((inner) => textOf(fieldsOf(inner).text))
  const lines = [textOf(title), textOf(source), ...resultTexts].filter((line) => line !== '')
  return given({ type: 'text', text: lines.join('\n\n'), cache_control: cache_control ?? undefined })
}

/** Replaces a single plain text part by a string. */
function simplified(parts: readonly Fields[]): Json {
  const [only] = parts
  return only && parts.length === 1 && isBareText(only) ? textOf(only.text) : parts
}

// ── tools and output ────────────────────────────────────────────────────────────────────────────────────────────────

/** Converts a function tool. A tool that the vendor runs has no equivalent in chat and is passed through. */
function chatTool(tool: Fields, path: string): Fields {
  const { type, name, description, input_schema, strict, defer_loading: _, ...rest } = tool
  if (type !== undefined && type !== null && type !== 'custom') return tool
  const parameters = input_schema ?? undefined
  const functionFields = given({
    name: nameAt(name, `${path}.name`),
    description: description ?? undefined,
    parameters,
    strict: strict ?? undefined,
  })
  return { ...rest, type: 'function', function: functionFields }
}

function chatToolChoice(choice: Json | undefined): Json | undefined {
  if (choice === undefined || choice === null) return undefined
  const { type, name } = objectAt(choice, 'tool_choice')
  if (type === 'auto' || type === 'none') return type
  if (type === 'any') return 'required'
  if (type === 'tool') return { type: 'function', function: { name: nameAt(name, 'tool_choice.name') } }
  throw refused('tool_choice.type', 'must be auto, any, tool or none')
}

/** Thinking budgets, in tokens, from which the effort is medium and high. */
const MEDIUM_BUDGET = 4_096
const HIGH_BUDGET = 16_384

function budgetEffort(thinking: Fields): string | undefined {
  const { type, budget_tokens: budget } = thinking
  if (type !== 'enabled' || typeof budget !== 'number') return undefined
  if (budget < MEDIUM_BUDGET) return 'low'
  return budget < HIGH_BUDGET ? 'medium' : 'high'
}

/** The effort, named or derived from the thinking budget, and the schema of the answer. */
function chatOutput(
  { effort, format, ...rest }: Fields,
  { reasoning_effort, response_format, thinking }: Fields,
): Readonly<Record<string, Json | undefined>> {
  const { type, schema, name, ...more } = fieldsOf(format)
  const requestedFormat =
    type === 'json_schema' && schema !== undefined
      ? { type, json_schema: { name: textOf(name) || 'output', schema, ...more } }
      : undefined
  return {
    reasoning_effort: reasoning_effort ?? (textOf(effort) || budgetEffort(fieldsOf(thinking))),
    response_format: response_format ?? requestedFormat,
    output_config: Object.keys(rest).length > 0 ? rest : undefined,
  }
}
