/** Converts a chat request for a vendor of the `messages` format. */
import { toBase64, decodeDataUri } from '../../../../lib/base64.ts'
import { refused } from '../../../../http/request_body.ts'
import { type Json, type Fields, countOf, fieldsOf, given, isFields, listOf, textOf } from '../../../../lib/json.ts'
import { base64Source, inputOf, isBareText, nameAt, objectAt, objectsAt, signedThinking } from './parts.ts'

type Turn = { readonly role: 'user' | 'assistant'; readonly content: readonly Fields[] }
type Draft = { readonly system: readonly Fields[]; readonly tools: readonly Fields[]; readonly turns: readonly Turn[] }

/**
 * Converts a chat request for POST /v1/messages. `maxTokens` applies where the body has no limit. Only known members
 * are forwarded: an unknown one may cost more than was quoted. Reasoning without a signature is dropped. Throws
 * INVALID_BODY for a malformed body.
 */
export function messagesFromChat(body: Fields, { maxTokens }: { maxTokens: number }): Fields {
  const {
    messages,
    tools,
    functions,
    tool_choice,
    function_call,
    parallel_tool_calls,
    stop,
    max_tokens,
    max_completion_tokens,
  } = body
  const {
    temperature,
    top_p,
    top_k,
    user,
    metadata,
    thinking,
    reasoning_effort,
    output_config,
    prompt_cache,
    cache_control,
    context_management,
  } = body
  if (!Array.isArray(messages)) throw refused('messages', 'must be an array')
  const named = [max_completion_tokens, max_tokens].map(countOf).filter((limit) => limit > 0)
  const limit = named.length > 0 ? Math.min(...named) : maxTokens
  const legacy = objectsAt(functions, 'functions').map((called, at) => functionTool(called, `functions[${at}]`))
  const offered = [...objectsAt(tools, 'tools').map((tool, at) => vendorTool(tool, `tools[${at}]`)), ...legacy]
  const conversationDraft = { ...conversation(objectsAt(messages, 'messages')), tools: offered }
  const {
    system,
    tools: marked,
    turns,
  } = prompt_cache === true ? withCacheMarks(conversationDraft, isFields(cache_control)) : conversationDraft
  return given({
    model: body.model,
    stream: body.stream,
    max_tokens: limit,
    system: systemText(system),
    messages: turns.map(({ role, content }) => ({ role, content: simplified(content) })),
    tools: marked.length > 0 ? marked : undefined,
    tool_choice: toolChoice(tool_choice ?? function_call, {
      hasTools: marked.length > 0,
      parallel: parallel_tool_calls,
    }),
    stop_sequences: stopSequences(stop),
    temperature: typeof temperature === 'number' ? Math.min(temperature, 1) : (temperature ?? undefined),
    top_p: top_p ?? undefined,
    top_k: top_k ?? undefined,
    metadata: metadataFields(user, metadata),
    cache_control: cache_control ?? undefined,
    context_management: context_management ?? undefined,
    ...thinkingFields({ thinking, effort: reasoning_effort, output_config }, limit),
  })
}

// ── messages ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Collects system texts, and merges consecutive turns of one role. Empty turns are dropped. */
function conversation(messages: readonly Fields[]): Omit<Draft, 'tools'> {
  const system: Fields[] = []
  const turns: { role: Turn['role']; content: Fields[] }[] = []
  const called = new Map<string, string>()
  const add = (role: Turn['role'], content: readonly Fields[]) => {
    const last = turns.at(-1)
    if (content.length === 0) return
    if (last?.role === role) last.content.push(...content)
    else turns.push({ role, content: [...content] })
  }
  for (const [at, message] of messages.entries()) {
    const path = `messages[${at}]`
    const { role } = message
    if (role === 'system' || role === 'developer') system.push(...systemBlocks(message.content, `${path}.content`))
    else if (role === 'user') add('user', blocksOf(message.content, `${path}.content`))
    else if (role === 'tool')
      add('user', [toolResult(message, { id: nameAt(message.tool_call_id, `${path}.tool_call_id`), path })])
    else if (role === 'function') add('user', [toolResult(message, { id: legacyId(called, message, path), path })])
    else if (role === 'assistant') add('assistant', assistantBlocks(message, { called, at }))
    else throw refused(`${path}.role`, 'must be system, developer, user, assistant, tool or function')
  }
  return {
    system,
    turns: turns.map(({ role, content }) => ({ role, content: role === 'user' ? resultsFirst(content) : content })),
  }
}

function systemBlocks(content: Json | undefined, path: string): Fields[] {
  const blocks = blocksOf(content, path)
  if (blocks.some(({ type }) => type !== 'text')) throw refused(path, 'must be text')
  return blocks
}

/** The vendor requires tool results before anything else in a turn. */
function resultsFirst(content: readonly Fields[]): Fields[] {
  const isResult = ({ type }: Fields) => type === 'tool_result'
  return [...content.filter(isResult), ...content.filter((block) => !isResult(block))]
}

function assistantBlocks(message: Fields, { called, at }: { called: Map<string, string>; at: number }): Fields[] {
  const path = `messages[${at}]`
  const blocks = blocksOf(message.content, `${path}.content`)
  const fallbackText =
    blocks.length > 0
      ? []
      : [textOf(message.content_before_tools), textOf(message.refusal)]
          .filter((words) => words !== '')
          .map((words) => ({ type: 'text', text: words }))
  const calls = objectsAt(message.tool_calls, `${path}.tool_calls`).map((call, index) =>
    toolUse(call, `${path}.tool_calls[${index}]`),
  )
  const legacy = isFields(message.function_call) ? [legacyToolUse(message.function_call, { called, at })] : []
  return [...signedThinking(message), ...blocks, ...fallbackText, ...calls, ...legacy]
}

function toolUse(call: Fields, path: string): Fields {
  const { name, arguments: written } = objectAt(call.function, `${path}.function`)
  return {
    type: 'tool_use',
    id: cleanId(nameAt(call.id, `${path}.id`)),
    name: nameAt(name, `${path}.function.name`),
    input: inputOf(written),
  }
}

/** Legacy calls have a name but no id, so they get one; the latest call of a name is the one answered. */
function legacyToolUse(
  { name, arguments: written }: Fields,
  { called, at }: { called: Map<string, string>; at: number },
): Fields {
  const functionName = nameAt(name, `messages[${at}].function_call.name`)
  const id = `function_${at}`
  called.set(functionName, id)
  return { type: 'tool_use', id, name: functionName, input: inputOf(written) }
}

function legacyId(called: Map<string, string>, { name }: Fields, path: string): string {
  const id = called.get(textOf(name))
  if (id === undefined) throw refused(`${path}.name`, 'must name a function that an earlier message calls')
  return id
}

function toolResult(message: Fields, { id, path }: { id: string; path: string }): Fields {
  const { content, is_error, cache_control } = message
  const result = typeof content === 'string' ? content : blocksOf(content, `${path}.content`)
  return given({
    type: 'tool_result',
    tool_use_id: cleanId(id),
    content: result.length > 0 ? result : undefined,
    is_error: is_error === true ? true : undefined,
    cache_control: cache_control ?? undefined,
  })
}

/** The vendor allows letters, digits, `_` and `-` in ids. Other characters are escaped, so that ids stay distinct. */
const cleanId = (id: string): string =>
  id.replace(/[^a-zA-Z0-9_-]/gu, (char) => `_${(char.codePointAt(0) ?? 0).toString(16)}_`)

function blocksOf(content: Json | undefined, path: string): Fields[] {
  if (content === undefined || content === null || content === '') return []
  if (typeof content === 'string') return [{ type: 'text', text: content }]
  if (!Array.isArray(content)) throw refused(path, 'must be a string or an array')
  return content.flatMap((part: Json, at) =>
    typeof part === 'string' ? blocksOf(part, path) : blockOf(objectAt(part, `${path}[${at}]`), `${path}[${at}]`),
  )
}

/**
 * Converts a part to a block. Unknown parts are passed through for the vendor to judge. Empty text, which it refuses,
 * is dropped.
 */
function blockOf(part: Fields, path: string): Fields[] {
  const { type, ...rest } = part
  if (type === 'text' && typeof part.text !== 'string') throw refused(`${path}.text`, 'must be a string')
  if (type === 'text') return part.text === '' ? [] : [part]
  if (type === 'refusal') return textOf(part.refusal) === '' ? [] : [{ type: 'text', text: textOf(part.refusal) }]
  if (type === 'image_url') return [imageBlock(rest, `${path}.image_url`)]
  return [type === 'file' ? fileBlock(rest, `${path}.file`) : part]
}

function imageBlock({ image_url, ...rest }: Fields, path: string): Fields {
  const url = nameAt(isFields(image_url) ? image_url.url : image_url, path)
  if (/^https?:\/\//i.test(url)) return { ...rest, type: 'image', source: { type: 'url', url } }
  return { ...rest, type: 'image', source: dataSource(url, path) }
}

function fileBlock({ file, ...rest }: Fields, path: string): Fields {
  const { filename, file_data } = objectAt(file, path)
  const title = given({ title: textOf(filename) || undefined })
  const uri = nameAt(file_data, `${path}.file_data`)
  const decoded = /^data:text\//i.test(uri) ? decodeDataUri(uri) : undefined
  if (!decoded) return { ...rest, type: 'document', ...title, source: dataSource(uri, `${path}.file_data`) }
  return {
    ...rest,
    type: 'document',
    ...title,
    source: { type: 'text', media_type: 'text/plain', data: new TextDecoder().decode(decoded.bytes) },
  }
}

function dataSource(uri: string, path: string): Fields {
  const source = base64Source(uri)
  if (source) return source
  const decoded = decodeDataUri(uri)
  if (!decoded) throw refused(path, 'must be an http(s) URL or a data URI')
  return { type: 'base64', media_type: decoded.type, data: toBase64(decoded.bytes) }
}

/** Replaces a single plain text block by a string. */
function simplified(content: readonly Fields[]): Json {
  const [only] = content
  return only && content.length === 1 && isBareText(only) ? textOf(only.text) : content
}

function systemText(blocks: readonly Fields[]): Json | undefined {
  if (blocks.length === 0) return undefined
  return blocks.some(({ cache_control }) => isFields(cache_control))
    ? blocks
    : blocks.map((block) => textOf(block.text)).join('\n\n')
}

// ── tools and parameters ────────────────────────────────────────────────────────────────────────────────────────────

const CLIENT_TOOL = /^(?:bash|text_editor|computer|memory)_\d+$/

/**
 * Whether a tool known to the vendor is run by the caller. Any other is run by the vendor, at a price that was not
 * quoted.
 */
export const isClientTool = (type: unknown): boolean => typeof type === 'string' && CLIENT_TOOL.test(type)

/**
 * Converts a function, or passes on a tool of the vendor's own that the caller runs. Others are refused: the vendor
 * charges for them.
 */
function vendorTool(tool: Fields, path: string): Fields {
  const { type, function: called, cache_control } = tool
  if (type === 'function')
    return functionTool(given({ cache_control, ...objectAt(called, `${path}.function`) }), `${path}.function`)
  if (type === undefined || type === 'custom') return functionTool({ ...tool, ...fieldsOf(tool.custom) }, path)
  if (isClientTool(type)) return tool
  throw refused(`${path}.type`, 'must be function; tools that the vendor runs are not supported')
}

/** Only known members are copied: a `type` among the members of a function would turn it into another tool. */
function functionTool(
  { name, description, parameters, input_schema, strict, cache_control }: Fields,
  path: string,
): Fields {
  const schema = fieldsOf(parameters ?? input_schema)
  return given({
    name: nameAt(name, `${path}.name`),
    description: description ?? undefined,
    input_schema: Object.keys(schema).length > 0 ? { type: 'object', ...schema } : { type: 'object', properties: {} },
    strict: strict ?? undefined,
    cache_control: cache_control ?? undefined,
  })
}

/** `user_id` is the only metadata that the vendor accepts. */
function metadataFields(user: Json | undefined, metadata: Json | undefined): Fields | undefined {
  const { user_id = user } = fieldsOf(metadata)
  return typeof user_id === 'string' ? { user_id } : undefined
}

type ToolOptions = { readonly hasTools: boolean; readonly parallel: Json | undefined }

/** The vendor refuses `tool_choice` without tools, where `auto` and `none` have no effect anyway. */
function toolChoice(choice: Json | undefined, { hasTools, parallel }: ToolOptions): Fields | undefined {
  const chosen = choice === undefined || choice === null ? undefined : parsedChoice(choice)
  if (!hasTools) return chosen?.type === 'auto' || chosen?.type === 'none' ? undefined : chosen
  if (parallel !== false || chosen?.type === 'none') return chosen
  return { type: 'auto', ...chosen, disable_parallel_tool_use: true }
}

function parsedChoice(choice: Json): Fields {
  if (choice === 'required') return { type: 'any' }
  if (choice === 'auto' || choice === 'none') return { type: choice }
  const named = objectAt(choice, 'tool_choice')
  const { type } = named
  if (type === 'function' || type === undefined)
    return { type: 'tool', name: nameAt(fieldsOf(named.function).name ?? named.name, 'tool_choice.function.name') }
  if (type === 'auto' || type === 'any' || type === 'tool' || type === 'none') return named
  throw refused('tool_choice.type', 'must be function')
}

function stopSequences(stop: Json | undefined): Json | undefined {
  if (typeof stop === 'string') return [stop]
  return Array.isArray(stop) && stop.length === 0 ? undefined : (stop ?? undefined)
}

/** Smallest thinking budget that the vendor accepts. It must be less than `max_tokens`. */
const MIN_BUDGET = 1_024

type ThinkingOptions = {
  readonly thinking: Json | undefined
  readonly effort: Json | undefined
  readonly output_config: Json | undefined
}

function thinkingFields(
  { thinking, effort, output_config }: ThinkingOptions,
  limit: number,
): Readonly<Record<string, Json | undefined>> {
  const config = output_config ?? undefined
  if (effort === 'none' || effort === 'minimal') return { thinking: { type: 'disabled' }, output_config: config }
  return {
    thinking:
      thinking === undefined || thinking === null ? undefined : withBudget(objectAt(thinking, 'thinking'), limit),
    output_config: typeof effort === 'string' ? { ...fieldsOf(output_config), effort } : config,
  }
}

/**
 * Fits the thinking budget below `max_tokens`; half of it by default. Undefined where even the smallest does not fit.
 */
function withBudget(thinking: Fields, limit: number): Fields | undefined {
  if (thinking.type !== 'enabled') return thinking
  if (limit <= MIN_BUDGET) return undefined
  const requested = typeof thinking.budget_tokens === 'number' ? thinking.budget_tokens : Math.floor(limit / 2)
  return { ...thinking, budget_tokens: Math.min(Math.max(requested, MIN_BUDGET), limit - 1) }
}

// ── prompt cache ────────────────────────────────────────────────────────────────────────────────────────────────────

const MAX_MARKS = 4

const marksOf = (block: Fields): number =>
  (isFields(block.cache_control) ? 1 : 0) +
  listOf(block.content)
    .filter(isFields)
    .reduce((sum, inner) => sum + (isFields(inner.cache_control) ? 1 : 0), 0)
const allMarks = (blocks: readonly Fields[]): number => blocks.reduce((sum, block) => sum + marksOf(block), 0)

/**
 * Adds cache marks at the end of the last user turn, the system text and the tools, longest prefix first, as far as the
 * caller's marks leave room.
 */
function withCacheMarks({ system, tools, turns }: Draft, isMarked: boolean): Draft {
  const ownMarks = allMarks(system) + allMarks(tools) + turns.reduce((sum, { content }) => sum + allMarks(content), 0)
  let remaining = MAX_MARKS - ownMarks - (isMarked ? 1 : 0)
  const mark = (blocks: readonly Fields[]): readonly Fields[] => {
    const last = blocks.at(-1)
    if (!last || remaining <= 0 || marksOf(last) > 0) return blocks
    remaining--
    return [...blocks.slice(0, -1), { ...last, cache_control: { type: 'ephemeral' } }]
  }
  const lastUser = turns.findLastIndex(({ role }) => role === 'user')
  const markedTurns = turns.map((turn, at) => (at === lastUser ? { ...turn, content: mark(turn.content) } : turn))
  const markedSystem = mark(system)
  return { system: markedSystem, tools: mark(tools), turns: markedTurns }
}
