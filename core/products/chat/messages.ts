/** The messages API of vendor-g's clients: passed through on its own models, converted on others (contract 7.1). */
import { Type } from '@sinclair/typebox'
import type { ChatRow } from '../../ports/vendors/chat.ts'
import { checkTurns, MAX_TOOLS, partCounter } from './unsupported_fields.ts'
import { invalidParameter } from './request.ts'
import { answerChat, requestRecord, type Translation } from './answer.ts'
import { isOpen } from './fallbacks.ts'
import { isChatOffered, sampleRow, servedRow } from './offered_rows.ts'
import { chatPriceRange, quote, worstCost } from './quote.ts'
import { quotedInputs } from '../lib/quoted_inputs.ts'
import { type ChatInput, countPrompt, sizeRequest } from './sized_request.ts'
import { chatCost } from './cost.ts'
import { free, type Offering, type RequestHead, streamed, type StreamedContext } from '../../endpoint/mod.ts'
import { json } from '../../http/reply.ts'
import { inputParser, refused } from '../../http/request_body.ts'
import { type Json, type Fields, fieldsOf, isFields, listOf, objectsOf, textOf } from '../../lib/json.ts'
import { droppedHeader, type WithoutVendorTools, withoutVendorTools } from './vendor_tools.ts'
import { messagesFromChatStream } from './formats/messages/events.ts'
import { isClientTool } from './formats/messages/request_from_chat.ts'
import { messagesFromChatReply } from './formats/messages/reply.ts'
import { chatFromMessages } from './formats/messages/request_to_chat.ts'
import { withSearchesAsText } from './formats/messages/searches.ts'
import { type Taken, takeSearch, withSearch } from './web_search/tool.ts'

const input = Type.Object({
  model: Type.String({ minLength: 1, maxLength: 200 }),
  max_tokens: Type.Integer({ minimum: 1 }),
  messages: Type.Array(
    Type.Object({
      role: Type.Union([Type.Literal('user'), Type.Literal('assistant'), Type.Literal('system')]),
      content: Type.Unknown(),
    }),
    { minItems: 1 },
  ),
  system: Type.Optional(Type.Union([Type.String(), Type.Array(Type.Object({ type: Type.String() }))])),
  stream: Type.Optional(Type.Boolean()),
  tools: Type.Optional(Type.Array(Type.Object({}), { maxItems: MAX_TOOLS })),
  tool_choice: Type.Optional(Type.Object({ type: Type.String() })),
  thinking: Type.Optional(
    Type.Object({ type: Type.String(), budget_tokens: Type.Optional(Type.Integer({ minimum: 1 })) }),
  ),
  stop_sequences: Type.Optional(Type.Array(Type.String())),
  temperature: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
  top_p: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
  top_k: Type.Optional(Type.Integer({ minimum: 0 })),
})

const output = Type.Object({
  id: Type.String(),
  type: Type.Literal('message'),
  role: Type.Literal('assistant'),
  model: Type.String(),
  content: Type.Array(Type.Object({ type: Type.String() })),
  stop_reason: Type.String(),
  usage: Type.Object({ input_tokens: Type.Integer(), output_tokens: Type.Integer() }),
})

const sample = (offering: Offering): Fields => ({
  model:
    sampleRow(offering, (row) => row.maker === 'vendor-g' && offering.vendors.chat(row) !== undefined)?.id ??
    sampleRow(offering)?.id ??
    '',
  max_tokens: 1_000,
  messages: [{ role: 'user', content: 'Why is the sky blue?' }],
})

const create = streamed<ChatInput>({
  name: 'messages',
  variantOf: 'chat.completions',
  path: '/api/v1/messages',
  summary: 'Create an answer with the messages API',
  description:
    'Answers of vendor-g models are passed on as they are, thinking blocks and events included; those of other models are converted. x-api-key and Authorization are ignored.',
  tag: 'chat',
  input,
  output,
  uploads: true,
  errorFormat: 'messages',
  price: quote,
  worstCost,
  cost: chatCost,
  priceRange: (offering) => chatPriceRange(offering, { searches: true }),
  isAvailable: isOpen,
  isOffered: isChatOffered(),
  quoted: quotedInputs,
  remember: requestRecord,
  sample,

  async check(body, head, context) {
    const row = servedRow(body.model as string, context)
    const { body: requested, search } = searchOf(withSearchesAsText(body as Fields), row, context)
    const { body: request, dropped } = withoutServerTools(requested)
    checkExtras(request, head)
    return await sizeRequest(
      {
        row,
        format: 'messages',
        chat: withSearch(chatFromMessages(withoutTier(request)), search),
        search,
        own: (size) => nativeBody(request, size),
        stream: request.stream === true,
        forwardedHeaders: forwardedHeaders(head),
        headers: droppedHeader(dropped),
      },
      context,
    )
  },

  answer: (order) => answerChat(order, (row) => translation(row, `msg_${order.id.replace(/^job_/, '')}`)),
})

const countInput = Type.Object({ ...input.properties, max_tokens: Type.Optional(Type.Integer({ minimum: 1 })) })
const parseCountBody = inputParser(countInput, 'kept')

const countTokens = free({
  name: 'messages.count_tokens',
  method: 'POST',
  path: '/api/v1/messages/count_tokens',
  uploads: true,
  summary: 'Count the tokens of a messages request',
  description:
    'Free. The input tokens that POST /api/v1/messages would quote for the same body, also of a prompt that is longer than the context window.',
  tag: 'chat',
  errorFormat: 'messages',
  input: countInput,
  limit: { requests: 120, windowMs: 60_000 },
  errors: ['INVALID_MODEL', 'INVALID_PARAMETER', 'INVALID_IMAGE', 'EMPTY_CONVERSATION', 'MODEL_NOT_FOUND'],
  sample: (offering) => {
    const { max_tokens: _, ...body } = sample(offering)
    return { body }
  },
  output: Type.Object({ input_tokens: Type.Integer() }),
  async answer(request, context) {
    const sent = withSearchesAsText(parseCountBody(await request.json()) as Fields)
    const row = servedRow(sent.model as string, context)
    const { body: requested, search } = searchOf(sent, row, context)
    const { body } = withoutServerTools(requested)
    checkExtras(body, request)
    const chat = withSearch(chatFromMessages(withoutTier(body)), search)
    return json(200, { input_tokens: await countPrompt({ row, format: 'messages', chat }, context) })
  },
})

export const messages = [create, countTokens]

/** Takes the tool of web search out of a request (contract 7.37). */
function searchOf(body: Fields, row: ChatRow, context: StreamedContext): Taken {
  const tools = objectsOf(body.tools)
  const isSearch = ({ type }: Fields) => /^web_search_\d{8}$/.test(textOf(type))
  const at = tools.findIndex(isSearch)
  const limit = { maxUses: tools[at]?.max_uses, usual: 3, param: `tools.${at}.max_uses` }
  const names = tools.filter((tool) => !isSearch(tool)).map(({ name }) => name ?? null)
  return takeSearch(body, { row, format: 'messages', isSearch, limit, names }, context)
}

/** Without the search of a vendor, a model finds no deferred tool: all of them are offered. */
function withoutServerTools(request: Fields): WithoutVendorTools {
  const { body, dropped } = withoutVendorTools(request, SERVER_TOOLS)
  if (!dropped.some((type) => type.startsWith('tool_search_tool'))) return { body, dropped }
  const tools = objectsOf(body.tools).map(({ defer_loading: _, ...tool }) => tool)
  return { body: { ...body, ...(tools.length > 0 && { tools }) }, dropped }
}

const SERVER_TOOLS = {
  isOptional: (type: string) => /^(?:web_search_\d{8}|tool_search_tool_\w{1,40})$/.test(type),
  isAnyDemanded: (choice: Json | undefined) => fieldsOf(choice).type === 'any',
}

const isClientToolBlock = ({ type }: Fields): boolean =>
  type === undefined || type === null || type === 'custom' || isClientTool(type)

/**
 * Refuses members that cost more than the quote or have no effect (contract 7.7). `checkExtras` in shared code covers
 * the rest.
 */
function checkExtras(request: Fields, { header }: RequestHead): void {
  const { context_management, output_format, tools } = request
  if (context_management !== undefined && !header('anthropic-beta')) {
    throw invalidParameter('context_management', 'is a beta feature; send it with the matching anthropic-beta header.')
  }
  if (output_format !== undefined && output_format !== null)
    throw invalidParameter('output_format', 'was renamed; send output_config.format.')
  for (const [at, tool] of listOf(tools).entries()) {
    if (!isFields(tool)) throw refused(`tools.${at}`, 'must be an object')
    if (!isClientToolBlock(tool))
      throw invalidParameter(
        `tools.${at}`,
        'is run by the vendor at an extra charge and is not supported; declare your own tools.',
      )
  }
  checkTurns(request.messages, 'messages')
  const count = partCounter()
  const turns = (request.messages as readonly Fields[]).map(({ content }, at) => ({
    content,
    at: `messages.${at}.content`,
  }))
  for (const { content, at } of [{ content: request.system, at: 'system' }, ...turns])
    checkBlocks(content, { at, count, depth: MAX_DEPTH })
}

/** Most levels of nested blocks: tool results hold documents, which hold texts and images. */
const MAX_DEPTH = 8

type BlockCheck = { readonly at: string; readonly count: ReturnType<typeof partCounter>; readonly depth: number }

/**
 * Refuses file ids, since files in the operator's account may belong to other callers, and document URLs, whose content
 * was not quoted.
 */
function checkBlocks(content: Json | undefined, { at, count, depth }: BlockCheck): void {
  const blocks = isFields(content) ? [content] : listOf(content)
  if (blocks.length > 0 && depth === 0) throw refused(at, 'is nested too deeply')
  count(blocks, at)
  for (const [index, block] of blocks.entries()) {
    const blockPath = `${at}.${index}`
    if (!isFields(block)) throw refused(blockPath, 'must be an object')
    const { type } = block
    const source = fieldsOf(block.source)
    if (type === 'container_upload' || source.type === 'file')
      throw invalidParameter(blockPath, 'must not refer to files by id; send the content itself.')
    if (type === 'document' && source.type === 'url')
      throw invalidParameter(
        `${blockPath}.source`,
        'must hold the document itself; the content of a URL cannot be quoted.',
      )
    checkBlocks(block.content, { at: `${blockPath}.content`, count, depth: depth - 1 })
    checkBlocks(source.content, { at: `${blockPath}.source.content`, count, depth: depth - 1 })
  }
}

/** `standard_only` is the tier that is quoted; only this format has it. */
function withoutTier({ service_tier, ...body }: Fields): Fields {
  return service_tier === undefined || service_tier === 'standard_only' ? body : { ...body, service_tier }
}

const FORWARDED_HEADERS = ['anthropic-version', 'anthropic-beta'] as const

function forwardedHeaders({ header }: RequestHead): Readonly<Record<string, string>> {
  return Object.fromEntries(
    FORWARDED_HEADERS.flatMap((name) => (header(name) === null ? [] : [[name, header(name) as string]])),
  )
}

const MIN_BUDGET = 1_024

/** Whether the budget is missing, or no longer fits the clamped `max_tokens`. */
function needsBudget(
  { budget_tokens: budget }: Fields,
  { maxTokens, requested }: { maxTokens: number; requested: number },
): boolean {
  return typeof budget !== 'number' || (budget < requested && budget >= maxTokens)
}

/**
 * The body for a vendor of the messages API: unchanged except for sizes and parameters that the model does not accept.
 */
function nativeBody(
  { model: _, stream: __, ...body }: Fields,
  { maxTokens, row }: { maxTokens: number; row: ChatRow },
): Fields {
  const vendorBody: Record<string, Json> = { ...body, max_tokens: maxTokens }
  for (const name of row.strips ?? []) delete vendorBody[name]
  const thinking = vendorBody.thinking as Fields | undefined
  if (thinking?.type === 'enabled' && needsBudget(thinking, { maxTokens, requested: body.max_tokens as number })) {
    if (maxTokens <= MIN_BUDGET) delete vendorBody.thinking
    else vendorBody.thinking = { ...thinking, budget_tokens: Math.max(MIN_BUDGET, Math.floor(maxTokens / 2)) }
  }
  const choice = vendorBody.tool_choice as Fields | undefined
  if (row.noForcedTools && (choice?.type === 'any' || choice?.type === 'tool'))
    vendorBody.tool_choice = { type: 'auto' }
  return vendorBody
}

function translation({ id: model }: ChatRow, id: string): Translation {
  return {
    reply: (chat) => messagesFromChatReply({ ...chat, id }, { model }),
    stream: () => messagesFromChatStream({ model, id }),
  }
}
