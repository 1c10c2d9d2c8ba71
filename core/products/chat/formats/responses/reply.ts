/**
 * Translates complete replies between the responses and chat formats (decision 118). Lenient: unexpected members are
 * treated as absent.
 */
import { type Json, type Fields, fieldsOf, numberOf, objectsOf, textOf } from '../../../../lib/json.ts'
import { given, plainText, reasoningText } from './parts.ts'
import type { MadeSearch } from '../../web_search/search.ts'
import { type CalledTool, customInput, type ToolNames, toolNames } from './tools.ts'

// ── to chat ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** `created` is in Unix seconds. */
export type ChatFacts = { readonly model: string; readonly created: number }

export type Failure = { readonly code: string; readonly message: string }

/** The error of a failed or cancelled Response; undefined for one that can be translated. */
export function responseFailure({ status, error }: Fields): Failure | undefined {
  if (status !== 'failed' && status !== 'cancelled') return undefined
  return {
    code: textOf(fieldsOf(error).code) || status,
    message: textOf(fieldsOf(error).message) || `the response was ${status}`,
  }
}

/**
 * Converts a Response to a chat completion. On tool turns `content` is '' (contract 6.26). Annotation indexes are
 * shifted to the joined text. A failed Response becomes an empty answer: call `responseFailure` first.
 */
export function chatFromResponsesReply(reply: Fields, { model, created }: ChatFacts): Fields {
  const output = objectsOf(reply.output)
  const { text, refusal, annotations } = messageContentOf(output)
  const reasoning = output.filter(({ type }) => type === 'reasoning').map(reasoningText)
  const calls = output.flatMap((item, index) => chatCall(item, index) ?? [])
  const citations = citationsOf(reply)
  const extras = given({
    reasoning_content: reasoning.filter((part) => part !== '').join('\n\n') || undefined,
    refusal: refusal || undefined,
    annotations: annotations.length > 0 ? annotations : undefined,
    tool_calls: calls.length > 0 ? calls : undefined,
    content_before_tools: calls.length > 0 && text.trim() !== '' ? text : undefined,
  })
  const content = calls.length > 0 ? '' : text
  const isNull = text === '' && refusal !== '' && calls.length === 0
  return {
    id: completionId(reply.id, created),
    object: 'chat.completion',
    created,
    model,
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: isNull ? null : content, ...extras },
        finish_reason: finishOf(reply, calls.length > 0),
      },
    ],
    ...given({
      service_tier: reply.service_tier,
      usage: chatUsage(reply.usage),
      citations: citations.length > 0 ? citations : undefined,
    }),
  }
}

/** Replaces the prefix `resp_` by `chatcmpl-`. A reply without an id gets one made from its time. */
export function completionId(id: Json | undefined, created: number): string {
  const own = textOf(id).replace(/^resp_/, '')
  return `chatcmpl-${own === '' ? created : own}`
}

function messageContentOf(output: readonly Fields[]): { text: string; refusal: string; annotations: Fields[] } {
  const parts = { text: '', refusal: '', annotations: [] as Fields[] }
  for (const part of output.flatMap(({ type, content }) => (type === 'message' ? objectsOf(content) : []))) {
    for (const annotation of objectsOf(part.annotations))
      parts.annotations.push(...(chatAnnotation(annotation, parts.text.length) ?? []))
    parts.text += textOf(part.text)
    parts.refusal += textOf(part.refusal)
  }
  return parts
}

/**
 * Converts a `url_citation` to chat's nesting, its indexes shifted by `offset`. Undefined for other annotations, which
 * chat does not have.
 */
function chatAnnotation({ type, url, title, start_index, end_index }: Fields, offset: number): [Fields] | undefined {
  if (type !== 'url_citation' || typeof url !== 'string') return undefined
  const moved = (index: Json | undefined) => offset + (numberOf(index) ?? 0)
  return [
    { type, url_citation: { url, title: textOf(title), start_index: moved(start_index), end_index: moved(end_index) } },
  ]
}

/** The cited URLs without duplicates, in order. Some vendors list more of them beside the output. */
function citationsOf({ output, citations }: Fields): string[] {
  const cited = objectsOf(output).flatMap(({ content }) =>
    objectsOf(content).flatMap((part) => objectsOf(part.annotations)),
  )
  const urls = cited.filter(({ type }) => type === 'url_citation').map(({ url }) => textOf(url))
  const listed = Array.isArray(citations) ? citations.map((citation) => textOf(citation)) : []
  return [...new Set([...urls, ...listed])].filter((url) => url !== '')
}

function chatCall(item: Fields, index: number): Fields | undefined {
  if (item.type !== 'function_call') return undefined
  return {
    id: callId(item, index),
    type: 'function',
    function: { name: textOf(item.name), arguments: textOf(item.arguments) },
  }
}

export const callId = ({ call_id, id }: Fields, index: number): string =>
  textOf(call_id) || textOf(id) || `call_${index}`

/** The finish reason. Truncation takes precedence over calls, whose arguments may be truncated too. */
export function finishOf({ status, incomplete_details }: Fields, hasCalls: boolean): string {
  const { reason } = fieldsOf(incomplete_details)
  if (status === 'incomplete') return reason === 'content_filter' ? reason : 'length'
  return hasCalls ? 'tool_calls' : 'stop'
}

/** Undefined where the vendor sent no counts. `num_sources_used` of a live search is kept. */
function chatUsage(usage: Json | undefined): Fields | undefined {
  const counted = fieldsOf(usage)
  const input = numberOf(counted.input_tokens)
  const output = numberOf(counted.output_tokens)
  if (input === undefined && output === undefined) return undefined
  const { cached_tokens, cache_write_tokens: written } = fieldsOf(counted.input_tokens_details)
  const { reasoning_tokens } = fieldsOf(counted.output_tokens_details)
  const prompt = given({
    cached_tokens: numberOf(cached_tokens),
    cached_creation_tokens: numberOf(written) || undefined,
  })
  const completion = given({ reasoning_tokens: numberOf(reasoning_tokens) })
  return given({
    prompt_tokens: input ?? 0,
    completion_tokens: output ?? 0,
    total_tokens: numberOf(counted.total_tokens) ?? (input ?? 0) + (output ?? 0),
    prompt_tokens_details: Object.keys(prompt).length > 0 ? prompt : undefined,
    completion_tokens_details: Object.keys(completion).length > 0 ? completion : undefined,
    num_sources_used: numberOf(counted.num_sources_used),
  })
}

// ── from chat ───────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * `id` is `resp_<hex>`; item ids derive from it. `createdAt` is in Unix seconds. `request` is the caller's, in the
 * responses format.
 */
export type ResponseFacts = {
  readonly model: string
  readonly id: string
  readonly createdAt: number
  readonly request: Fields
  /** Unix seconds; `completed_at` is read from it. `createdAt` where it is absent. */
  readonly now?: () => number
}

/**
 * Converts a chat completion to a complete Response: reasoning, then the message, then calls. An empty answer has no
 * items.
 */
export function responsesFromChatReply(reply: Fields, facts: ResponseFacts): Fields {
  const [choice = {}] = objectsOf(reply.choices)
  const message = fieldsOf(choice.message)
  const outcome = outcomeOf(choice.finish_reason)
  const summary = summaryOf(message)
  const content = contentOf(message, citationAnnotations(message, reply))
  const names = toolNames(facts.request.tools)
  const items: readonly ((index: number) => Fields)[] = [
    ...(summary === '' ? [] : [(index: number) => reasoningItem(itemId(facts, 'rs', index), summary)]),
    ...objectsOf(message.web_searches).flatMap(({ before, search }) => [
      ...contentOf({ content: before ?? '' }, []).map(
        (part) => (index: number) => messageItem(itemId(facts, 'msg', index), [part], 'completed'),
      ),
      (index: number) => searchItem(itemId(facts, 'ws', index), search as unknown as MadeSearch, 'completed'),
    ]),
    ...(content.length === 0
      ? []
      : [(index: number) => messageItem(itemId(facts, 'msg', index), content, outcome.status)]),
    ...objectsOf(message.tool_calls).map(
      (call) => (index: number) => callItem(call, { facts, index, status: outcome.status, names }),
    ),
  ]
  return responseOf(facts, {
    ...outcome,
    output: items.map((item, index) => item(index)),
    usage: responsesUsage(reply.usage),
  })
}

type ResponseOutcome = { readonly status: string; readonly incomplete_details: Fields | null }

/** The status of a Response, from chat's `finish_reason`. */
export function outcomeOf(finish: Json | undefined): ResponseOutcome {
  if (finish === 'length') return { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } }
  if (finish === 'content_filter') return { status: 'incomplete', incomplete_details: { reason: 'content_filter' } }
  return { status: 'completed', incomplete_details: null }
}

/**
 * A Response object with every member that the public API requires (contract 7.26). Members that the request does not
 * set get the format's defaults.
 */
export function responseOf(
  { id, createdAt, model, request, now = () => createdAt }: ResponseFacts,
  state: ResponseOutcome & { output: readonly Fields[]; usage: Fields | null },
): Fields {
  const { reasoning, text, metadata } = request
  return {
    id,
    object: 'response',
    created_at: createdAt,
    completed_at: state.status === 'completed' ? now() : null,
    status: state.status,
    background: false,
    error: null,
    incomplete_details: state.incomplete_details,
    instructions: request.instructions ?? null,
    max_output_tokens: request.max_output_tokens ?? null,
    max_tool_calls: request.max_tool_calls ?? null,
    model,
    output: state.output,
    parallel_tool_calls: request.parallel_tool_calls ?? true,
    previous_response_id: null,
    reasoning: { effort: null, summary: null, ...fieldsOf(reasoning) },
    service_tier: request.service_tier ?? 'default',
    store: false,
    temperature: request.temperature ?? 1,
    text: { ...fieldsOf(text), format: formatOf(fieldsOf(text).format) },
    tool_choice: request.tool_choice ?? 'auto',
    tools: objectsOf(request.tools).map(toolOf),
    top_p: request.top_p ?? 1,
    top_logprobs: request.top_logprobs ?? 0,
    presence_penalty: request.presence_penalty ?? 0,
    frequency_penalty: request.frequency_penalty ?? 0,
    truncation: request.truncation ?? 'disabled',
    usage: state.usage,
    user: request.user ?? null,
    safety_identifier: request.safety_identifier ?? null,
    prompt_cache_key: request.prompt_cache_key ?? null,
    metadata: fieldsOf(metadata),
  }
}

/** A tool with the members that clients read. `strict` is null where the caller left it to the model. */
const toolOf = (tool: Fields): Fields => (tool.type === 'function' ? functionOf(tool) : tool)

const functionOf = (tool: Fields): Fields => ({
  ...tool,
  description: tool.description ?? null,
  parameters: tool.parameters ?? null,
  strict: tool.strict ?? null,
})

/** The form of the text: plain unless the request says otherwise. A schema without a name is called `response`. */
function formatOf(format: Json | undefined): Fields {
  const requested = fieldsOf(format)
  if (requested.type === undefined) return { type: 'text' }
  if (requested.type !== 'json_schema') return requested
  return { ...requested, name: requested.name ?? 'response', strict: requested.strict ?? false }
}

export const itemId = (
  { id }: { readonly id: string },
  kind: 'rs' | 'msg' | 'fc' | 'ctc' | 'ws',
  index: number,
): string => `${kind}_${id.replace(/^resp_/, '')}_${index}`

export const reasoningItem = (id: string, summary: string): Fields => ({
  id,
  type: 'reasoning',
  summary: [{ type: 'summary_text', text: summary }],
})

export const messageItem = (id: string, content: readonly Fields[], status: string): Fields => ({
  id,
  type: 'message',
  status,
  role: 'assistant',
  content,
})

/** A search of this gateway. What it found is not part of the format. */
export const searchItem = (id: string, { query, error }: MadeSearch, status: string): Fields => ({
  id,
  type: 'web_search_call',
  status: error === undefined ? status : 'failed',
  action: { type: 'search', query },
})

type CallPosition = {
  readonly facts: Pick<ResponseFacts, 'id'>
  readonly index: number
  readonly status: string
  readonly names: ToolNames
}

/**
 * The item of a chat tool call, for the tool that the caller knows by it. A call without an id gets one from its item.
 */
export function callItem(call: Fields, { facts, index, status, names }: CallPosition): Fields {
  const { name: chatName, arguments: argumentText } = fieldsOf(call.function)
  const { kind, ...called }: CalledTool = names.get(textOf(chatName)) ?? { kind: 'function', name: textOf(chatName) }
  const isCustom = kind === 'custom'
  const id = itemId(facts, isCustom ? 'ctc' : 'fc', index)
  const text = textOf(argumentText)
  return {
    id,
    type: isCustom ? 'custom_tool_call' : 'function_call',
    status,
    call_id: textOf(call.id) || `call_${id}`,
    ...called,
    ...(isCustom ? { input: customInput(text) } : { arguments: text }),
  }
}

/** The reasoning text, under either of its names in chat. */
export const summaryOf = ({ reasoning_content, reasoning }: Fields): string =>
  textOf(reasoning_content) || textOf(reasoning)

/** The parts of a message item: the text with its annotations, then the refusal; [] where both are empty. */
function contentOf({ content, content_before_tools, refusal }: Fields, annotations: readonly Fields[]): Fields[] {
  const text = plainText(content) || textOf(content_before_tools)
  const parts: Fields[] = text === '' ? [] : [{ type: 'output_text', text, annotations, logprobs: [] }]
  return textOf(refusal) === '' ? parts : [...parts, { type: 'refusal', refusal: textOf(refusal) }]
}

/** The citations of a message, or else the URLs listed beside the choices. */
export function citationAnnotations({ annotations }: Fields, { citations }: Fields): Fields[] {
  const own = objectsOf(annotations).filter(({ type }) => type === 'url_citation')
  const flat = own.map(({ type, url_citation }) => ({
    type: type ?? null,
    start_index: 0,
    end_index: 0,
    title: '',
    url: '',
    ...fieldsOf(url_citation),
  }))
  if (flat.length > 0) return flat
  const urls = Array.isArray(citations)
    ? citations.map((citation) => textOf(citation) || textOf(fieldsOf(citation).url)).filter((url) => url !== '')
    : []
  return urls.map((url) => ({ type: 'url_citation', start_index: 0, end_index: 0, title: '', url }))
}

/** Null where the vendor sent no counts. */
export function responsesUsage(usage: Json | undefined): Fields | null {
  const counted = fieldsOf(usage)
  const input = numberOf(counted.prompt_tokens)
  const output = numberOf(counted.completion_tokens)
  if (input === undefined && output === undefined) return null
  const { cached_tokens, cached_creation_tokens, cache_write_tokens } = fieldsOf(counted.prompt_tokens_details)
  const { reasoning_tokens } = fieldsOf(counted.completion_tokens_details)
  return {
    input_tokens: input ?? 0,
    input_tokens_details: {
      cached_tokens: numberOf(cached_tokens) ?? 0,
      cache_write_tokens: numberOf(cached_creation_tokens) ?? numberOf(cache_write_tokens) ?? 0,
    },
    output_tokens: output ?? 0,
    output_tokens_details: { reasoning_tokens: numberOf(reasoning_tokens) ?? 0 },
    total_tokens: numberOf(counted.total_tokens) ?? (input ?? 0) + (output ?? 0),
    ...given({ num_sources_used: numberOf(counted.num_sources_used) }),
  }
}
