/**
 * Translates requests between the chat and responses formats. Sources: openai@7.55.0 `responses.d.ts` and
 * `completions.d.ts`.
 */
import { type Json, type Fields, fieldsOf, isFields, objectsOf, textOf } from '../../../../lib/json.ts'
import { chosenFunction, given, isFunctionTool, plainText, reasoningText, without } from './parts.ts'
import { chatNameOf, chatTool, customArguments, isCallers, type NamedTool, namedTools } from './tools.ts'

/**
 * Members of a chat request that Responses refuses, that are converted, or that refer to stored state: under the
 * operator's key a `previous_response_id` could name another caller's conversation.
 */
const CHAT_ONLY = names(`
  messages max_tokens max_completion_tokens tools tool_choice functions function_call response_format reasoning_effort verbosity n stop seed
  logprobs top_logprobs logit_bias frequency_penalty presence_penalty repetition_penalty top_k min_p stream_options prompt_cache search_parameters
  web_search_options thinking audio modalities prediction input instructions background previous_response_id conversation prompt store`)

/** Members of a Responses request that chat does not have, or that are converted. */
const RESPONSES_ONLY = names(`
  input instructions tools tool_choice parallel_tool_calls text reasoning max_output_tokens include store background previous_response_id
  conversation prompt truncation max_tool_calls context_management top_logprobs access_programs image stream_options messages response_format
  reasoning_effort verbosity`)

function names(text: string): ReadonlySet<string> {
  return new Set(text.trim().split(/\s+/))
}

/**
 * The API refuses less with `integer_below_min_value` (UKGovernmentBEIS/inspect_evals issue 694), while chat allows 1.
 */
const MIN_OUTPUT_TOKENS = 16

const atLeastMinimum = (tokens: Json | undefined) =>
  typeof tokens === 'number' ? Math.max(tokens, MIN_OUTPUT_TOKENS) : tokens

/**
 * Converts a chat request for an upstream that speaks Responses. Reasoning sent back by the caller is dropped, since
 * Responses accepts only its own items. A tool without `strict` is sent as not strict, which is the default of chat but
 * not of Responses.
 */
export function responsesFromChat(body: Fields): Fields {
  const messages = objectsOf(body.messages)
  const turns = messages.findIndex(({ role, content }) => !isInstruction(role) || !isPlain(content))
  const leading = turns < 0 ? messages : messages.slice(0, turns)
  const instructions = leading.map(({ content }) => plainText(content)).filter((text) => text !== '')
  const text = {
    ...fieldsOf(body.text),
    ...given({ format: formatOf(body.response_format), verbosity: body.verbosity }),
  }
  const reasoning = { ...fieldsOf(body.reasoning), ...given({ effort: body.reasoning_effort }) }
  const tools = toolsOf(body)
  return {
    ...without(body, CHAT_ONLY),
    ...given({
      instructions: instructions.length > 0 ? instructions.join('\n\n') : undefined,
      input: inputOf(messages.slice(leading.length)),
      max_output_tokens: atLeastMinimum(body.max_completion_tokens ?? body.max_tokens),
      tools: tools.length > 0 ? tools : undefined,
      tool_choice: choiceOf(body.tool_choice ?? body.function_call),
      text: Object.keys(text).length > 0 ? text : undefined,
      reasoning: Object.keys(reasoning).length > 0 ? reasoning : undefined,
    }),
    store: false,
  }
}

const isInstruction = (role: Json | undefined) => role === 'system' || role === 'developer'
const isTextPart = (part: Json) => isFields(part) && typeof part.text === 'string'
const isPlain = (content: Json | undefined) => !Array.isArray(content) || content.every(isTextPart)

function inputOf(messages: readonly Fields[]): Fields[] {
  // The legacy `function_call` and `function` role have no ids: a result belongs to the call before it.
  let lastLegacy = 'call_legacy'
  return messages.flatMap((message, index) => {
    const { role, content } = message
    if (role === 'tool') return [outputItem(textOf(message.tool_call_id), content)]
    if (role === 'function') return [outputItem(lastLegacy, content)]
    if (role !== 'assistant')
      return [
        { type: 'message', role: isInstruction(role) ? 'developer' : (role ?? 'user'), content: inputParts(content) },
      ]
    const calls = objectsOf(message.tool_calls).map((call) => callItem(textOf(call.id), fieldsOf(call.function)))
    if (isFields(message.function_call)) {
      lastLegacy = `call_legacy_${index}`
      calls.push(callItem(lastLegacy, message.function_call))
    }
    const parts = outputParts(message)
    return parts.length > 0 || calls.length === 0
      ? [{ type: 'message', role: 'assistant', content: parts }, ...calls]
      : calls
  })
}

const callItem = (id: string, call: Fields): Fields => ({
  type: 'function_call',
  call_id: id,
  name: textOf(call.name),
  arguments: textOf(call.arguments),
})

function outputItem(id: string, content: Json | undefined): Fields {
  return {
    type: 'function_call_output',
    call_id: id,
    output: isPlain(content) ? plainText(content) : inputParts(content),
  }
}

function inputParts(content: Json | undefined): Json[] {
  if (!Array.isArray(content)) return [{ type: 'input_text', text: plainText(content) }]
  return content.map((part: Json) => inputPart(part))
}

/** Unknown parts are passed through, so that the vendor can name them in its error. */
function inputPart(part: Json): Json {
  if (!isFields(part)) return part
  const { type, image_url: image, prompt_cache_breakpoint } = part
  if (type === 'text') return given({ type: 'input_text', text: textOf(part.text), prompt_cache_breakpoint })
  if (type === 'image_url') {
    const { url, detail }: Fields = isFields(image) ? image : given({ url: image })
    return given({ type: 'input_image', image_url: url, detail: detail ?? 'auto', prompt_cache_breakpoint })
  }
  if (type === 'file') return { type: 'input_file', ...fieldsOf(part.file) }
  return part
}

function outputParts({ content, refusal }: Fields): Json[] {
  const parts: Json[] = Array.isArray(content) ? content.map((part: Json) => outputPart(part)) : []
  if (typeof content === 'string' && content !== '') parts.push({ type: 'output_text', text: content })
  if (typeof refusal === 'string' && refusal !== '') parts.push({ type: 'refusal', refusal })
  return parts
}

const outputPart = (part: Json): Json =>
  isFields(part) && part.type === 'text' ? { type: 'output_text', text: textOf(part.text) } : part

function toolsOf({ tools, functions }: Fields): Fields[] {
  const modern = objectsOf(tools)
    .filter(isFunctionTool)
    .map((tool) => fieldsOf(tool.function))
  return [...modern, ...objectsOf(functions)].map(({ name, description, parameters, strict }) =>
    given({
      type: 'function',
      name,
      description,
      parameters: parameters ?? { type: 'object', properties: {} },
      strict: strict ?? false,
    }),
  )
}

function choiceOf(choice: Json | undefined): Json | undefined {
  if (!isFields(choice)) return choice
  if (choice.type === 'allowed_tools') {
    const { mode, tools } = fieldsOf(choice.allowed_tools)
    return given({
      type: 'allowed_tools',
      mode,
      tools: objectsOf(tools).map((tool) => given({ type: 'function', name: chosenFunction(tool) })),
    })
  }
  const name = chosenFunction(choice)
  return name === undefined ? undefined : { type: 'function', name }
}

/** `name` is required in both formats, but not every client sends it. */
function formatOf(format: Json | undefined): Fields | undefined {
  if (!isFields(format)) return undefined
  if (format.type !== 'json_schema') return format
  const { name, description, schema, strict } = fieldsOf(format.json_schema)
  return given({ type: 'json_schema', name: name ?? 'response', description, schema: schema ?? {}, strict })
}

/**
 * Converts a Responses request to chat, for estimates and for models without Responses. An input item that chat does
 * not have becomes a user turn with its JSON, so that estimates count it. Built-in tools are dropped; custom tools and
 * those of namespaces become functions.
 */
export function chatFromResponses(body: Fields): Fields {
  const { input, instructions } = body
  const system: Fields[] =
    typeof instructions === 'string' && instructions !== '' ? [{ role: 'system', content: instructions }] : []
  const tools = namedTools(body.tools)
  const turns: readonly Fields[] =
    typeof input === 'string' ? [{ role: 'user', content: input }] : messagesOf(objectsOf(input), tools).turns
  const { format, verbosity } = fieldsOf(body.text)
  const toolFields: Fields =
    tools.length === 0
      ? {}
      : given({ tool_choice: chatChoice(body.tool_choice, tools), parallel_tool_calls: body.parallel_tool_calls })
  return {
    ...without(body, RESPONSES_ONLY),
    messages: [...system, ...turns],
    ...given({
      max_tokens: body.max_output_tokens,
      tools: tools.length > 0 ? tools.map(chatTool) : undefined,
      response_format: chatFormat(format),
      reasoning_effort: fieldsOf(body.reasoning).effort,
      verbosity,
    }),
    ...toolFields,
  }
}

type Turn = {
  role: string
  content?: Json
  refusal?: string
  reasoning_content?: string
  tool_calls?: Json[]
  tool_call_id?: string
}

/**
 * Input that a Responses vendor reads and `chatFromResponses` drops: reasoning without a following answer or call, its
 * full text beside a summary, and encrypted content, counted by its length at four characters a token.
 */
export function uncountedByChat({ input }: Fields): { readonly text: string; readonly tokens: number } {
  const items = objectsOf(input)
  const reasoning = items.filter(({ type }) => type === 'reasoning')
  if (reasoning.length === 0) return { text: '', tokens: 0 }
  const fullTexts = reasoning.map((item) =>
    reasoningText({ content: [], summary: item.summary ?? [] }) === ''
      ? ''
      : reasoningText({ content: item.content ?? [] }),
  )
  const encryptedTokens = reasoning.reduce(
    (sum, { encrypted_content }) => sum + Math.ceil(textOf(encrypted_content).length / ENCRYPTED_CHARS_PER_TOKEN),
    0,
  )
  return {
    text: [...messagesOf(items, []).dropped, ...fullTexts].filter((text) => text !== '').join('\n\n'),
    tokens: encryptedTokens,
  }
}

const ENCRYPTED_CHARS_PER_TOKEN = 4

/** `dropped` is reasoning that no answer or call follows: chat has no turn for it. */
function messagesOf(
  items: readonly Fields[],
  tools: readonly NamedTool[],
): {
  readonly turns: readonly Turn[]
  readonly dropped: readonly string[]
} {
  const turns: Turn[] = []
  const dropped: string[] = []
  // Reasoning precedes the answer or the calls that it belongs to.
  let reasoning: string[] = []
  const assistant = (members: Omit<Turn, 'role'>) => {
    turns.push({
      role: 'assistant',
      ...members,
      ...(reasoning.length > 0 && { reasoning_content: reasoning.join('\n\n') }),
    })
    reasoning = []
  }
  for (const item of items) {
    if (item.type === 'reasoning') {
      const text = reasoningText(item)
      if (text !== '') reasoning.push(text)
      continue
    }
    if (item.type === 'function_call' || item.type === 'custom_tool_call') {
      if (turns.at(-1)?.role !== 'assistant' || reasoning.length > 0) assistant({ content: '' })
      const call = {
        id: textOf(item.call_id),
        type: 'function',
        function: {
          name: chatNameOf(tools, item),
          arguments: item.type === 'function_call' ? textOf(item.arguments) : customArguments(item.input),
        },
      }
      const turn = turns.at(-1)
      if (turn?.tool_calls) turn.tool_calls.push(call)
      else if (turn) turn.tool_calls = [call]
      continue
    }
    const isAssistant = (item.type === undefined || item.type === 'message') && item.role === 'assistant'
    if (isAssistant) assistant(assistantTurn(item.content))
    if (isAssistant) continue
    dropped.push(...reasoning)
    reasoning = []
    turns.push(turnOf(item))
  }
  return { turns, dropped: [...dropped, ...reasoning] }
}

function assistantTurn(content: Json | undefined): Omit<Turn, 'role'> {
  const refusal = objectsOf(content)
    .map((part) => textOf(part.refusal))
    .join('')
  return { content: plainText(content), ...(refusal !== '' && { refusal }) }
}

function turnOf(item: Fields): Turn {
  const { type, role, content, output } = item
  if (type === 'function_call_output' || type === 'custom_tool_call_output')
    return { role: 'tool', tool_call_id: textOf(item.call_id), content: chatContent(output) }
  if (type === 'image_generation_call' && typeof item.result === 'string')
    return imageTurn(`data:image/png;base64,${item.result}`)
  if (type === 'computer_call_output' && typeof fieldsOf(output).image_url === 'string')
    return imageTurn(textOf(fieldsOf(output).image_url))
  if (type !== undefined && type !== 'message') return { role: 'user', content: jsonOf(item) }
  if (isInstruction(role))
    return { role: 'system', content: isPlain(content) ? plainText(content) : chatContent(content) }
  return { role: textOf(role) || 'user', content: chatContent(content) }
}

/** '' for an item nested too deeply to serialize, which could not be forwarded either. */
function jsonOf(item: Fields): string {
  try {
    return JSON.stringify(item)
  } catch {
    return ''
  }
}

const imageTurn = (url: string): Turn => ({ role: 'user', content: [{ type: 'image_url', image_url: { url } }] })

/** A list of at most one text becomes a string, since many upstreams accept nothing else. */
function chatContent(content: Json | undefined): Json {
  if (!Array.isArray(content)) return textOf(content)
  if (content.length <= 1 && isPlain(content)) return plainText(content)
  return content.map((part: Json) => chatPart(part))
}

function chatPart(part: Json): Json {
  if (!isFields(part)) return part
  const { type, image_url: url, detail } = part
  if (type === 'input_text' || type === 'output_text') return { type: 'text', text: textOf(part.text) }
  if (type === 'input_image' && typeof url === 'string')
    return { type: 'image_url', image_url: given({ url, detail: detail === 'auto' ? undefined : detail }) }
  const { type: _, ...file } = part
  return type === 'input_file' ? { type: 'file', file } : part
}

function chatChoice(choice: Json | undefined, tools: readonly NamedTool[]): Json | undefined {
  if (!isFields(choice)) return choice
  const named = (tool: Fields): Fields => {
    const name = chosenFunction(tool)
    return {
      type: 'function',
      function: name === undefined ? {} : { name: chatNameOf(tools, given({ name, namespace: tool.namespace })) },
    }
  }
  if (choice.type === 'allowed_tools') {
    const allowed = objectsOf(choice.tools).filter(isCallers).map(named)
    return { type: 'allowed_tools', allowed_tools: given({ mode: choice.mode, tools: allowed }) }
  }
  return choice.type === 'function' || choice.type === 'custom' ? named(choice) : undefined
}

function chatFormat(format: Json | undefined): Fields | undefined {
  if (!isFields(format) || format.type === 'text') return undefined
  if (format.type !== 'json_schema') return format
  const { name, description, schema, strict } = format
  return { type: 'json_schema', json_schema: given({ name, description, schema, strict }) }
}
