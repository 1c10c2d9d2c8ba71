/**
 * The stateless responses API: whole, streamed, or in the background with poll, attach and cancel (contract 7.10,
 * 7.17).
 */
import { Type } from '@sinclair/typebox'
import type { ChatRow, Effort } from '../../ports/vendors/chat.ts'
import {
  backgroundEndpoints,
  backgroundId,
  backgroundMembers,
  echoedRequest,
  QUEUED_OUTCOME,
  responseId,
  responseOutput,
  RESPONSES,
} from './background_responses.ts'
import { checkTurns, MAX_TOOLS, partCounter } from './unsupported_fields.ts'
import { invalidParameter } from './request.ts'
import { answerChat, requestRecord, type Translation } from './answer.ts'
import { isOpen } from './fallbacks.ts'
import { isChatOffered, sampleRow, servedRow } from './offered_rows.ts'
import { chatPriceRange, quote, worstCost } from './quote.ts'
import { quotedInputs } from '../lib/quoted_inputs.ts'
import { type ChatInput, sizeRequest } from './sized_request.ts'
import { chatCost } from './cost.ts'
import { streamed, type StreamedContext } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { refused } from '../../http/request_body.ts'
import { responsesFromChatStream } from './formats/responses/chat_stream.ts'
import { type ResponseFacts, responseOf, responsesFromChatReply } from './formats/responses/reply.ts'
import { chatFromResponses, uncountedByChat } from './formats/responses/request.ts'
import { builtInTools, namedTools } from './formats/responses/tools.ts'
import { type Taken, takeSearch, type WebSearch, withSearch } from './web_search/tool.ts'
import { droppedHeader, withoutVendorTools } from './vendor_tools.ts'
import { type Fields, isFields, listOf, objectsOf, textOf } from '../../lib/json.ts'

const input = Type.Object({
  model: Type.String({ minLength: 1, maxLength: 200 }),
  input: Type.Optional(Type.Union([Type.String(), Type.Array(Type.Object({}))])),
  instructions: Type.Optional(Type.String()),
  max_output_tokens: Type.Optional(Type.Integer({ minimum: 1 })),
  stream: Type.Optional(Type.Boolean()),
  background: Type.Optional(
    Type.Boolean({
      description: 'Answers at once and continues in the background: poll or attach with GET /api/v1/responses/{id}.',
    }),
  ),
  store: Type.Optional(Type.Boolean({ description: 'Has no effect: nothing is stored.' })),
  tools: Type.Optional(Type.Array(Type.Object({}), { maxItems: MAX_TOOLS })),
  reasoning: Type.Optional(Type.Object({ effort: Type.Optional(Type.Union([Type.String(), Type.Null()])) })),
  temperature: Type.Optional(Type.Number({ minimum: 0, maximum: 2 })),
  top_p: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
})

const create = streamed<ChatInput>({
  name: RESPONSES,
  variantOf: 'chat.completions',
  path: '/api/v1/responses',
  summary: 'Create an answer with the responses API',
  description:
    'Stateless: earlier responses cannot be referenced, and `store` is false. Tools that a vendor runs are left out where the choice is automatic, and named in X-Tools-Dropped.',
  tag: 'chat',
  input,
  output: responseOutput,
  uploads: true,
  errorFormat: 'responses',
  price: quote,
  worstCost,
  cost: chatCost,
  priceRange: (offering) => chatPriceRange(offering, { searches: true }),
  isAvailable: isOpen,
  isOffered: isChatOffered(),
  quoted: quotedInputs,
  remember: ({ row, own, background }) => ({
    ...requestRecord({ row } as ChatInput),
    request: { model: row.id, ...(background && { ...echoedRequest(own), _background: true }) },
  }),
  allowlists: ({ background }) => (background ? { name: 'background', unset: 'everybody' } : undefined),
  sample: (offering) => ({
    model: sampleRow(offering)?.id ?? '',
    input: 'Why is the sky blue?',
    max_output_tokens: 1_000,
  }),

  async check(request, _head, context) {
    const row = servedRow(request.model as string, context)
    const { body: requested, search } = searchOf(request as Fields, row, context)
    const { body, dropped } = withoutVendorTools(requested, VENDOR_TOOLS)
    checkStateless(body)
    if (body.background === true && row.billing.mode === 'free')
      throw invalidParameter('background', `is for paid models, and ${row.id} is free; leave it out.`)
    const sizing = {
      row,
      format: 'responses',
      chat: withSearch(chatFromResponses(body), search),
      search,
      uncounted: uncountedByChat(body),
      own: (size: NativeSize) => nativeBody(withOfferedSearch(body, search), size),
    } as const
    return await withResponsesParams(
      sizeRequest(
        {
          ...sizing,
          stream: body.stream === true,
          defaultTokens: row.maxOutput,
          background: body.background === true,
          headers: droppedHeader(dropped),
        },
        context,
      ),
      body,
    )
  },

  deferred({ row, own, background }, { id, createdAt, key }) {
    return background
      ? {
          ...responseOf(factsOf({ row, own, id, createdAt }), QUEUED_OUTCOME),
          id: backgroundId(id, key),
          status: 'queued',
          background: true,
        }
      : undefined
  },
  deferredAnswer: (body, { id, key }) => ({ ...body, ...backgroundMembers(backgroundId(id, key)) }),
  answer: (order) =>
    withResponsesParams(
      answerChat(order, (row) =>
        translation({
          ...factsOf({ row, own: order.input.own, id: order.id, createdAt: order.clock.now() }),
          now: () => Math.floor(order.clock.now() / 1000),
        }),
      ),
    ),
})

/** Codex offers all of these, whatever it was asked. */
const OPTIONAL =
  /^(?:web_search(?:_\d{4}_\d\d_\d\d)?|web_search_preview(?:_\d{4}_\d\d_\d\d)?|tool_search|local_shell|image_generation)$/
const VENDOR_TOOLS = {
  isOptional: (type: string) => OPTIONAL.test(type),
  isAnyDemanded: (choice: unknown) => choice === 'required',
}

/**
 * Takes the tool of web search out of a request, unless it may not read the web (contract 7.37). One search by default:
 * Codex offers the tool in every request, and searches again in the next one.
 */
function searchOf(body: Fields, row: ChatRow, context: StreamedContext): Taken {
  const names = namedTools(body.tools).map(({ chatName }) => chatName)
  const limit = { maxUses: body.max_tool_calls, usual: 1, param: 'max_tool_calls' }
  return takeSearch(body, { row, format: 'responses', isSearch: isWebSearch, limit, names }, context)
}

const isWebSearch = ({ type, external_web_access: isLive }: Fields): boolean =>
  textOf(type).startsWith('web_search') && OPTIONAL.test(textOf(type)) && isLive !== false

/** The tools that a Response repeats. */
const withOfferedSearch = (body: Fields, search: WebSearch | undefined): Fields =>
  search ? { ...body, tools: [...listOf(body.tools), search.tool] } : body

/** Members that have another name in chat, by the first segment of their path. */
const RESPONSES_PARAMS: ReadonlyMap<string, string> = new Map([
  ['messages', 'input'],
  ['max_tokens', 'max_output_tokens'],
  ['reasoning_effort', 'reasoning.effort'],
  ['response_format', 'text.format'],
])

/** Renames the field of an error raised on the chat request to the one that the caller sent, unless it is in `sent`. */
async function withResponsesParams<T>(work: Promise<T>, sent: Fields = {}): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    const { param, message, details } = error.parts
    const [detail] = objectsOf(details)
    const path = param ?? (typeof detail?.path === 'string' ? detail.path : '')
    const [first = ''] = path.split(/[.[]/)
    const name = RESPONSES_PARAMS.get(first)
    if (name === undefined || Object.hasOwn(sent, first)) throw error
    const renamed = (text: string) => (text.startsWith(`${first}:`) ? name + text.slice(first.length) : text)
    throw new ApiError(error.code, {
      ...error.parts,
      param: name,
      ...(message !== undefined && { message: renamed(message) }),
    })
  }
}

function factsOf({
  row,
  own,
  id,
  createdAt,
}: {
  row: ChatRow
  own: Fields
  id: string
  createdAt: number
}): ResponseFacts {
  return { model: row.id, id: responseId(id), createdAt: Math.floor(createdAt / 1000), request: own }
}

function translation(facts: ResponseFacts): Translation {
  return { reply: (chat) => responsesFromChatReply(chat, facts), stream: () => responsesFromChatStream(facts) }
}

/** Refuses members that refer to earlier responses, cost extra, or contradict each other. */
function checkStateless(body: Fields): void {
  for (const name of ['previous_response_id', 'conversation', 'prompt']) {
    if (body[name] !== undefined && body[name] !== null)
      throw invalidParameter(name, 'is not supported: this API is stateless; send the whole input.')
  }
  checkInput(body)
  if (body.input === undefined && body.instructions === undefined)
    throw refused('input', 'is required, or instructions')
  if (body.background === true && body.stream === true)
    throw new ApiError('STREAM_UNSUPPORTED', {
      message: 'stream: cannot be combined with background; attach with GET /api/v1/responses/{id}?stream=true.',
      param: 'stream',
    })
  const [served] = builtInTools(body)
  if (served !== undefined)
    throw invalidParameter(
      'tools',
      `${served} is run by the vendor at an extra charge and is not supported; declare functions instead.`,
    )
  const { tool_choice: choice } = body
  if (listOf(body.tools).length === 0 && (choice === 'required' || isFields(choice)))
    throw invalidParameter('tool_choice', 'names a tool, and the request has no tools.')
}

/**
 * Refuses file references: files in the operator's account may belong to other callers, and the content of URLs was not
 * quoted.
 */
function checkInput({ input }: Fields): void {
  const items = listOf(input)
  checkTurns(input, 'input')
  const count = partCounter()
  for (const [at, item] of items.entries()) {
    const itemPath = `input.${at}`
    if (!isFields(item)) throw refused(itemPath, 'must be an object')
    // The type of a reference may be left out (openai@7.55.0 `ResponseInputItem.ItemReference`).
    const isReference =
      item.type === 'item_reference' ||
      ((item.type ?? undefined) === undefined && (item.role ?? undefined) === undefined)
    if (isReference)
      throw invalidParameter(
        itemPath,
        'must not refer to an earlier item: this API is stateless; send the item itself.',
      )
    checkReferences(item, itemPath)
    for (const member of ['content', 'output', 'summary']) {
      const parts = isFields(item[member]) ? [item[member] as Fields] : listOf(item[member])
      count(parts, `${itemPath}.${member}`)
      for (const [index, part] of parts.entries()) {
        if (!isFields(part)) throw refused(`${itemPath}.${member}.${index}`, 'must be an object')
        checkReferences(part, `${itemPath}.${member}.${index}`)
      }
    }
  }
}

function checkReferences(part: Fields, at: string): void {
  for (const name of ['file_id', 'file_url']) {
    if ((part[name] ?? undefined) !== undefined)
      throw invalidParameter(`${at}.${name}`, 'is not supported; send the content itself, as file_data or image_url.')
  }
}

type NativeSize = { readonly maxTokens: number; readonly row: ChatRow; readonly effort: Effort | undefined }

/**
 * The body for a vendor of the responses API. Where the effort affects the quote, the quoted one is sent (contract
 * 6.38).
 */
function nativeBody(
  { model: _, stream: __, background: ___, ...body }: Fields,
  { maxTokens, row, effort }: NativeSize,
): Fields {
  const reasoning = body.reasoning as Fields | undefined
  const isQuoted = row.effort?.scalesQuote && effort !== undefined && typeof reasoning?.effort === 'string'
  return {
    ...body,
    store: false,
    max_output_tokens: maxTokens,
    ...(isQuoted && { reasoning: { ...reasoning, effort } }),
  }
}

export const responses = [create, ...Object.values(backgroundEndpoints)]
