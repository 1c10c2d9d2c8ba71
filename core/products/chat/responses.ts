/**
 * The stateless responses API: whole, streamed, or in the background with poll, attach and cancel (contract 7.10,
 * 7.17).
 */
import { Type } from '@sinclair/typebox'
import type { ChatRow, Effort } from '../../ports/vendors/chat.ts'
import { checkTurns, MAX_TOOLS, partCounter } from './unsupported_fields.ts'
import { invalidParameter } from './request.ts'
import { answerChat, requestRecord, type Translation } from './answer.ts'
import { isOpen } from './candidates.ts'
import { findRow, isChatOffered, sampleRow } from './offered_rows.ts'
import { chatPriceRange, quote, worstCost } from './quote.ts'
import { type ChatInput, sizeRequest } from './sized_request.ts'
import { chatCost } from './cost.ts'
import { free, type FreeCalls, type FreeRequest, streamed, type Stored } from '../../endpoint/mod.ts'
import type { GatewayFacts } from '../../endpoint/gateway_info.ts'
import { json, type Reply } from '../../http/reply.ts'
import { ApiError } from '../../http/errors.ts'
import { refused } from '../../http/request_body.ts'
import type { Call } from '../../ports/mod.ts'
import type { Clock } from '../../lib/clock.ts'
import { anyCallUrl, type StoredAnswer } from '../../endpoint/replies.ts'
import { responseEvents, responsesFromChatStream } from './formats/responses/events.ts'
import { type ResponseFacts, responseOf, responsesFromChatReply } from './formats/responses/reply.ts'
import { uncountedByChat, builtInTools, chatFromResponses } from './formats/responses/request.ts'
import { tryJson } from './formats/sse.ts'
import { type Fields, isFields, listOf, objectsOf } from '../../lib/json.ts'
import { receiptHeaders } from '../../x402/protocol.ts'

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
  store: Type.Optional(Type.Boolean()),
  tools: Type.Optional(Type.Array(Type.Object({}), { maxItems: MAX_TOOLS })),
  reasoning: Type.Optional(Type.Object({ effort: Type.Optional(Type.Union([Type.String(), Type.Null()])) })),
  temperature: Type.Optional(Type.Number({ minimum: 0, maximum: 2 })),
  top_p: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
})

const output = Type.Object({
  id: Type.String(),
  object: Type.Literal('response'),
  status: Type.String({ description: 'queued, in_progress, completed, incomplete, failed or cancelled.' }),
  model: Type.String(),
  output: Type.Array(Type.Object({ type: Type.String() })),
  usage: Type.Optional(Type.Object({})),
})

const isOnSurface = ({ surfaces, billing }: ChatRow): boolean =>
  billing.mode !== 'free' && (surfaces ?? []).includes('responses')

const NAME = 'responses'
/** The id of a response, derived from its call. */
const responseId = (callId: string): string => `resp_${callId.replace(/^job_/, '')}`
/**
 * The id of a background response includes the poll key of its call: clients send nothing else, and the key alone reads
 * the output (contract 2.4).
 */
const backgroundId = (callId: string, key: string): string => `${responseId(callId)}_${key}`
const backgroundMembers = (id: string) => ({ id, background: true, store: false })
const BACKGROUND_ID = /^resp_([0-9a-f]{32})_([0-9a-f]{32})$/

function callOfResponse(id: string): { readonly callId: string; readonly key: string } | undefined {
  const [, hex, key] = BACKGROUND_ID.exec(id) ?? []
  return hex === undefined || key === undefined ? undefined : { callId: `job_${hex}`, key }
}

const create = streamed<ChatInput>({
  name: NAME,
  variantOf: 'chat.completions',
  path: '/api/v1/responses',
  summary: 'Create an answer with the responses API',
  description: 'Stateless: earlier responses cannot be referenced, and `store` is false. Function tools only.',
  tag: 'chat',
  input,
  output,
  uploads: true,
  errorFormat: 'responses',
  price: quote,
  worstCost,
  cost: chatCost,
  priceRange: (offering) => chatPriceRange(offering, isOnSurface),
  isAvailable: isOpen,
  isOffered: isChatOffered(isOnSurface),
  remember: ({ row, own, background }) => ({
    ...requestRecord({ row } as ChatInput),
    request: { model: row.id, ...(background && { ...echoedRequest(own), _background: true }) },
  }),
  allowlists: ({ background }) => (background ? { name: 'background', unset: 'everybody' } : undefined),
  sample: (offering) => ({
    model: sampleRow(offering, isOnSurface)?.id ?? '',
    input: 'Why is the sky blue?',
    max_output_tokens: 1_000,
  }),

  async check(request, _head, context) {
    const body = request as Fields
    checkStateless(body)
    const row = findRow(body.model as string, context)
    if (!isOnSurface(row))
      throw new ApiError('INVALID_MODEL', {
        message: `${row.id} is not served by /responses; POST /api/v1/chat/completions serves it.`,
        param: 'model',
      })
    const sizing = {
      row,
      format: 'responses',
      chat: chatFromResponses(body),
      uncounted: uncountedByChat(body),
      own: (size: NativeSize) => nativeBody(body, size),
    } as const
    return await withResponsesParams(
      sizeRequest(
        { ...sizing, stream: body.stream === true, defaultTokens: row.maxOutput, background: body.background === true },
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

const QUEUED_OUTCOME = { status: 'queued', incomplete_details: null, output: [], usage: null }

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
  if (body.store === true) throw invalidParameter('store', 'must be false; this gateway stores nothing.')
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

/** Members of the request that a response repeats. */
const ECHOED = [
  'instructions',
  'max_output_tokens',
  'max_tool_calls',
  'metadata',
  'temperature',
  'top_p',
  'top_logprobs',
  'presence_penalty',
  'frequency_penalty',
  'reasoning',
  'text',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'truncation',
  'service_tier',
  'user',
  'safety_identifier',
  'prompt_cache_key',
] as const

/** Most characters of JSON of a repeated member: it is stored with every call. */
const MAX_ECHO = 2_000

function echoedRequest(own: Fields): Fields {
  return Object.fromEntries(
    ECHOED.flatMap((name) => {
      const value = own[name]
      return value === undefined || JSON.stringify(value).length >= MAX_ECHO ? [] : [[name, value]]
    }),
  )
}

// ── in the background ───────────────────────────────────────────────────────────────────────────────────────────────

const CANCELLED = 'cancelled'

const get = free({
  name: 'responses.get',
  follows: true,
  isOffered: isChatOffered(isOnSurface),
  path: '/api/v1/responses/{id}',
  summary: 'Poll a background response, or attach to it',
  description:
    'Free. The id, as the create answered it, is the key: anyone who has it can read the output, so keep it secret. With stream=true the events, after `starting_after`: output follows when the response is completed and settled.',
  tag: 'chat',
  errorFormat: 'responses',
  output,
  async answer({ params, query }, { calls, clock, gateway }) {
    const id = params.id ?? ''
    const call = await findResponse(id, calls)
    if (query.get('stream') !== 'true')
      return json(200, publicResponse(call, id, gateway), { 'cache-control': 'no-store', ...receiptOf(call) })
    const after = Number(query.get('starting_after') ?? -1)
    if (!Number.isInteger(after) || after < -1)
      throw invalidParameter('starting_after', 'must be a sequence number, from 0.')
    return eventStream(call, { id, after, calls, clock, gateway })
  },
})

const cancel = free({
  name: 'responses.cancel',
  follows: true,
  isOffered: isChatOffered(isOnSurface),
  method: 'POST',
  path: '/api/v1/responses/{id}/cancel',
  summary: 'Cancel a background response',
  description: 'Free, and a cancelled response costs nothing.',
  tag: 'chat',
  errorFormat: 'responses',
  output,
  async answer({ params }: FreeRequest, { calls, gateway }) {
    const id = params.id ?? ''
    const call = await findResponse(id, calls)
    if (call.workStatus === 'completed')
      throw new ApiError('INVALID_PARAMETER', {
        message: 'The response is already completed and cannot be cancelled.',
        param: 'id',
      })
    await calls.cancel(call.id, CANCELLED)
    return json(200, publicResponse(await findResponse(id, calls), id, gateway), { 'cache-control': 'no-store' })
  },
})

export const responses = [create, get, cancel]

async function findResponse(id: string, calls: FreeCalls): Promise<Call> {
  const ref = callOfResponse(id)
  const call = ref && (await calls.find(ref.callId, ref.key))
  // Only background responses can be polled or cancelled: another one would be free.
  if (call?.endpoint === NAME && (call.request as Fields)._background === true) return call
  throw new ApiError('JOB_NOT_FOUND', { message: 'No such response: it never existed or has expired.' })
}

/** The public view of a response: without output until it is settled. */
function publicResponse(call: Call, id: string, { basePath }: Pick<GatewayFacts, 'basePath'>): Fields {
  const facts = {
    model: call.model ?? '',
    id,
    createdAt: Math.floor(call.createdAt / 1000),
    request: call.request as Fields,
  }
  const empty = { ...responseOf(facts, QUEUED_OUTCOME), background: true }
  if (call.workStatus === 'failed')
    return call.error === CANCELLED
      ? { ...empty, status: 'cancelled' }
      : { ...empty, status: 'failed', error: { code: 'server_error', message: call.error } }
  if (call.workStatus !== 'completed') return { ...empty, status: call.workStatus }
  if (call.paymentStatus === 'refused')
    return {
      ...empty,
      status: 'failed',
      error: {
        code: 'payment_failed',
        message: `The payment was refused. The result is stored: GET ${anyCallUrl(call.id, { key: callOfResponse(id)?.key, basePath })} with a new payment from the same wallet.`,
      },
    }
  if (call.paymentStatus !== 'settled' && call.paymentStatus !== 'unresolved')
    return { ...empty, status: 'in_progress' }
  const { body } = (call.result as unknown as Stored).made as unknown as StoredAnswer
  return { ...tryJson(body), ...backgroundMembers(id) }
}

/** Receipt headers of a settled response. */
const receiptOf = ({ receipt }: Call): Readonly<Record<string, string>> => (receipt ? receiptHeaders(receipt) : {})

const isPending = ({ status }: Fields): boolean => status === 'queued' || status === 'in_progress'

const POLL_INTERVAL_MS = 1_000
const MAX_POLLS = 500

type Attached = {
  readonly id: string
  readonly after: number
  readonly calls: FreeCalls
  readonly clock: Clock
  readonly gateway: Pick<GatewayFacts, 'basePath'>
}

/** Streams the events of a response: the first ones at once, the output when it is settled. */
function eventStream(call: Call, { id, after, calls, clock, gateway }: Attached): Reply {
  const encoder = new TextEncoder()
  const aborted = new AbortController()
  let lastSent = after
  let polls = 0

  /** The events that have not been sent, and whether they are the last. */
  function unsentEvents(response: Fields): { text: string; isLast: boolean } {
    const isLast = !isPending(response)
    const events = responseEvents(response).map((text, number) => ({ text, number }))
    const ready = events.filter(({ number }) => number > lastSent && (isLast || number < 2))
    lastSent = ready.at(-1)?.number ?? lastSent
    return { text: ready.map(({ text }) => text).join(''), isLast }
  }

  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        for (;;) {
          const now = polls === 0 ? call : await findResponse(id, calls).catch(() => undefined)
          const { text, isLast } = now ? unsentEvents(publicResponse(now, id, gateway)) : { text: '', isLast: true }
          polls += 1
          if (text !== '') controller.enqueue(encoder.encode(text))
          if (isLast || aborted.signal.aborted || polls > MAX_POLLS) return controller.close()
          if (text !== '') return
          await clock.wait(POLL_INTERVAL_MS, aborted.signal)
        }
      },
      cancel: () => aborted.abort(),
    },
    { highWaterMark: 0 },
  )
  return {
    status: 200,
    headers: { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-store', ...receiptOf(call) },
    body,
  }
}
