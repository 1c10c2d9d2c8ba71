/** A caller's request in the `messages` wire, as a chat request for a vendor that does not speak it. */
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
 * The same request for POST /chat/completions; members that neither wire names are kept. Throws INVALID_BODY for what cannot be read, and
 * for documents that chat has no place for.
 */
export function chatFromMessages(body: Fields): Fields {
  const { system, messages, tools, tool_choice, stop_sequences, metadata, output_config, ...rest } = body
  if (!Array.isArray(messages)) throw refused('messages', 'must be an array')
  const { user_id, ...about } = fieldsOf(metadata)
  return given({
    ...rest,
    messages: [
      ...systemMessages(system, 'system'),
      ...objectsAt(messages, 'messages').flatMap((message, at) => turn(message, `messages[${at}]`)),
    ],
    tools: Array.isArray(tools)
      ? objectsAt(tools, 'tools').map((tool, at) => chatTool(tool, `tools[${at}]`))
      : undefined,
    tool_choice: chatToolChoice(tool_choice),
    parallel_tool_calls: fieldsOf(tool_choice).disable_parallel_tool_use === true ? false : rest.parallel_tool_calls,
    stop: stop_sequences ?? rest.stop,
    user: typeof user_id === 'string' ? user_id : rest.user,
    metadata: Object.keys(about).length > 0 ? about : undefined,
    ...chatOutput(fieldsOf(output_config), rest),
  })
}

// ── messages ────────────────────────────────────────────────────────────────────────────────────────────────────────

function systemMessages(system: Json | undefined, path: string): Fields[] {
  if (typeof system === 'string') return system === '' ? [] : [{ role: 'system', content: system }]
  const blocks = objectsAt(system, path).map((block, at) => {
    if (block.type !== 'text') throw refused(`${path}[${at}].type`, 'must be text')
    return worded(block, `${path}[${at}]`)
  })
  if (blocks.length === 0) return []
  const isCached = blocks.some(({ cache_control }) => isFields(cache_control))
  return [
    { role: 'system', content: isCached ? blocks.map(bare) : blocks.map((block) => textOf(block.text)).join('\n\n') },
  ]
}

function turn({ role, content }: Fields, path: string): Fields[] {
  if (role === 'system') return systemMessages(content, `${path}.content`)
  if (role !== 'user' && role !== 'assistant') throw refused(`${path}.role`, 'must be user or assistant')
  if (typeof content === 'string') return [{ role, content }]
  if (!Array.isArray(content)) throw refused(`${path}.content`, 'must be a string or an array')
  const blocks = objectsAt(content, `${path}.content`)
  return role === 'user' ? userMessages(blocks, `${path}.content`) : assistantMessages(blocks, `${path}.content`)
}

/** Results of tools come first, as chat wants them; what they show besides text follows in a message of the user's. */
function userMessages(blocks: readonly Fields[], path: string): Fields[] {
  const placed = blocks.map((block, at) => ({ block, at: `${path}[${at}]` }))
  const results = placed
    .filter(({ block }) => block.type === 'tool_result')
    .map(({ block, at }) => toolMessage(block, at))
  const said = placed.filter(({ block }) => block.type !== 'tool_result').flatMap(({ block, at }) => partsOf(block, at))
  const parts = [...results.flatMap(({ shown }) => shown), ...said]
  return [
    ...results.map(({ message }) => message),
    ...(parts.length > 0 ? [{ role: 'user', content: brief(parts) }] : []),
  ]
}

function assistantMessages(blocks: readonly Fields[], path: string): Fields[] {
  const placed = blocks.map((block, at) => ({ block, at: `${path}[${at}]` }))
  const calls = placed.filter(({ block }) => block.type === 'tool_use').map(({ block, at }) => toolCall(block, at))
  const parts = placed
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
  const called = { name: nameAt(block.name, `${path}.name`), arguments: argumentsOf(block.input) }
  return { id: nameAt(block.id, `${path}.id`), type: 'function', function: called }
}

/** One result as a message of the tool's, which chat limits to text, and the parts that are not text. */
function toolMessage(block: Fields, path: string): { message: Fields; shown: Fields[] } {
  const { content, cache_control } = block
  const nested = typeof content === 'string' ? [{ type: 'text', text: content }] : objectsAt(content, `${path}.content`)
  const parts = nested.flatMap((inner, at) => partsOf(inner, `${path}.content[${at}]`))
  const isShown = ({ type }: Fields) => type === 'image_url' || type === 'file'
  const said = parts.map((part) => sayable(part)).filter(({ text: words }) => words !== '')
  const failed = block.is_error === true ? [{ type: 'text', text: 'Error:' }, ...said] : said
  const marked = isFields(cache_control)
    ? failed.map((part, at) => (at === failed.length - 1 ? { ...part, cache_control } : part))
    : failed
  const isCached = marked.some((part) => isFields((part as Fields).cache_control))
  const message = {
    role: 'tool',
    tool_call_id: nameAt(block.tool_use_id, `${path}.tool_use_id`),
    content: isCached ? marked : marked.map((part) => part.text).join('\n'),
  }
  return { message, shown: parts.filter(isShown) }
}

/** A part of a tool's result as text: a picture leaves a note where it stood. */
function sayable(part: Fields): Fields & { text: string } {
  if (part.type === 'text') return { ...part, text: textOf(part.text) }
  if (part.type === 'image_url') return { type: 'text', text: '[image: in the next message]' }
  if (part.type === 'file') return { type: 'text', text: '[file: in the next message]' }
  return { type: 'text', text: written(part) }
}

/** A block as parts of chat content; one that chat has no word for is kept as it came, for the vendor to judge. */
function partsOf(block: Fields, path: string): Fields[] {
  if (block.type === 'document') return documentParts(block, path)
  if (block.type === 'search_result') return [foundPart(block)]
  return [leafPart(block, path)]
}

/** Text without what says nothing: chat knows no citations, and an empty list is none. */
function bare({ citations, ...block }: Fields): Fields {
  return citations === undefined ||
    citations === null ||
    listOf(citations).length + Object.keys(fieldsOf(citations)).length === 0
    ? block
    : { ...block, citations }
}

/** A text block whose text is one. */
function worded(block: Fields, path: string): Fields {
  if (typeof block.text !== 'string') throw refused(`${path}.text`, 'must be a string')
  return block
}

function leafPart(block: Fields, path: string): Fields {
  if (block.type === 'text') return bare(worded(block, path))
  const { type, source, ...rest } = block
  const from = fieldsOf(source)
  if (type === 'image' && from.type === 'base64')
    return { ...rest, type: 'image_url', image_url: { url: dataUri(from, `${path}.source`) } }
  if (type === 'image' && from.type === 'url')
    return { ...rest, type: 'image_url', image_url: { url: nameAt(from.url, `${path}.source.url`) } }
  return block
}

function documentParts(block: Fields, path: string): Fields[] {
  const { source, title, context, cache_control } = block
  const from = objectAt(source, `${path}.source`)
  const mark = given({ cache_control: cache_control ?? undefined })
  const told = textOf(context) === '' ? [] : [{ type: 'text', text: textOf(context) }]
  const headed = [textOf(title), textOf(context)].filter((line) => line !== '')
  if (from.type === 'text')
    return [{ type: 'text', text: [...headed, nameAt(from.data, `${path}.source.data`)].join('\n\n'), ...mark }]
  if (from.type === 'base64')
    return [
      ...told,
      {
        type: 'file',
        file: { filename: textOf(title) || 'document.pdf', file_data: dataUri(from, `${path}.source`) },
        ...mark,
      },
    ]
  if (from.type !== 'content') throw refused(`${path}.source.type`, 'must be text, base64 or content for this model')
  const head = headed.map((line) => ({ type: 'text', text: line }))
  if (typeof from.content === 'string') return [...head, { type: 'text', text: from.content, ...mark }]
  return [
    ...head,
    ...objectsAt(from.content, `${path}.source.content`).map((inner, at) =>
      leafPart(inner, `${path}.source.content[${at}]`),
    ),
  ]
}

function foundPart({ title, source, content, cache_control }: Fields): Fields {
  const found = listOf(content).map((inner) => textOf(fieldsOf(inner).text))
  const lines = [textOf(title), textOf(source), ...found].filter((line) => line !== '')
  return given({ type: 'text', text: lines.join('\n\n'), cache_control: cache_control ?? undefined })
}

/** A single plain text is a string. */
function brief(parts: readonly Fields[]): Json {
  const [only] = parts
  return only && parts.length === 1 && isBareText(only) ? textOf(only.text) : parts
}

// ── tools and output ────────────────────────────────────────────────────────────────────────────────────────────────

/** A function tool; a tool that the vendor runs itself has no equal in chat and is kept as it came. */
function chatTool(tool: Fields, path: string): Fields {
  const { type, name, description, input_schema, strict, ...rest } = tool
  if (type !== undefined && type !== null && type !== 'custom') return tool
  const parameters = input_schema ?? undefined
  const called = given({
    name: nameAt(name, `${path}.name`),
    description: description ?? undefined,
    parameters,
    strict: strict ?? undefined,
  })
  return { ...rest, type: 'function', function: called }
}

function chatToolChoice(choice: Json | undefined): Json | undefined {
  if (choice === undefined || choice === null) return undefined
  const { type, name } = objectAt(choice, 'tool_choice')
  if (type === 'auto' || type === 'none') return type
  if (type === 'any') return 'required'
  if (type === 'tool') return { type: 'function', function: { name: nameAt(name, 'tool_choice.name') } }
  throw refused('tool_choice.type', 'must be auto, any, tool or none')
}

/** From so many tokens of budget on, the effort is medium, then high. */
const MEDIUM_BUDGET = 4_096
const HIGH_BUDGET = 16_384

function budgetEffort(thinking: Fields): string | undefined {
  const { type, budget_tokens: budget } = thinking
  if (type !== 'enabled' || typeof budget !== 'number') return undefined
  if (budget < MEDIUM_BUDGET) return 'low'
  return budget < HIGH_BUDGET ? 'medium' : 'high'
}

/** The effort, named or read off the thinking budget, and the schema of the answer. */
function chatOutput(
  { effort, format, ...rest }: Fields,
  { reasoning_effort, response_format, thinking }: Fields,
): Readonly<Record<string, Json | undefined>> {
  const { type, schema, name, ...more } = fieldsOf(format)
  const asked =
    type === 'json_schema' && schema !== undefined
      ? { type, json_schema: { name: textOf(name) || 'output', schema, ...more } }
      : undefined
  return {
    reasoning_effort: reasoning_effort ?? (textOf(effort) || budgetEffort(fieldsOf(thinking))),
    response_format: response_format ?? asked,
    output_config: Object.keys(rest).length > 0 ? rest : undefined,
  }
}
