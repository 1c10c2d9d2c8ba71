/**
 * Shared by all chat APIs: finding the model, sizing the prompt, quoting, calling the vendor, and shaping the answer.
 */
import type { ChatRow, Effort, ChatFormat, ChatVendor } from '../../ports/vendors/chat.ts'
import {
  checkExtras,
  checkLength,
  checkSizes,
  supportsMultipleAnswers,
  usesResponsesApi,
} from './unsupported_fields.ts'
import {
  type ChatBody,
  checkCounts,
  checkMessages,
  invalidParameter,
  outputCap,
  readsAll,
  requestedTokens,
  applyModelRules,
  cappedHeaders,
  trimMessages,
  unknownModel,
} from './request.ts'
import type { Answer, Context, StreamedContext, StreamedOrder, Offering, Price } from '../../endpoint/mod.ts'
import { ApiError, type ApiErrorCode } from '../../http/errors.ts'
import { type Dollars, type Usdc, usdc } from '../../x402/money.ts'
import type { Json, Fields } from '../../lib/json.ts'
import { checkControls, stopsIn, withoutIdleChoice } from './controls.ts'
import { chatPrice, chatWorstCost } from './price.ts'
import { characters, estimatePrompt, upperBound } from './token_estimate.ts'
import { whenAnswerStarts } from './formats/answer_start.ts'
import { isEmpty } from './formats/empty_answer.ts'
import { forwardedStream } from './formats/forwarded_stream.ts'
import { translated } from './formats/translated_stream.ts'
import { estimatedUsage, usageOf } from './formats/usage.ts'
import type { StreamTranslator } from './formats/stream_translator.ts'
import { asksForJson, plainReply, withJsonInstruction, withoutCodeFence } from './formats/chat_reply.ts'

/** A checked and sized request of any chat API. */
export type ChatInput = {
  readonly row: ChatRow
  /** The format of the API that was called. */
  readonly format: ChatFormat
  /** The request in the API's own format, for a vendor of that format. `chat` is for all others. */
  readonly own: Fields
  readonly chat: Fields
  /** The same as the caller sent it, before the rules of its model. */
  readonly body: Fields
  readonly stream: boolean
  /** Estimated; 0 where neither the price nor a limit depends on it. */
  readonly promptTokens: number
  readonly maxTokens: number
  readonly effort: Effort | undefined
  readonly surcharge: Dollars | undefined
  /** Headers of the reply. */
  readonly headers: Readonly<Record<string, string>>
  /** Request headers that are forwarded to the vendor. */
  readonly forwardedHeaders: Readonly<Record<string, string>>
  readonly background: boolean
}

/** Lifetime of the signed authorization (contract 6.42), and for background responses (contract 7.17). */
const TIMEOUT_S = 300
const BACKGROUND_TIMEOUT_S = 600

export function findRow(model: string, { catalog, vendors }: Pick<Offering, 'catalog' | 'vendors'>): ChatRow {
  const row = catalog.chat.get(model)
  if (!row)
    throw unknownModel(
      model,
      catalog.chat.all.filter((other) => vendors.chat(other) !== undefined),
    )
  return row
}

export type UnsizedRequest = {
  readonly row: ChatRow
  readonly format: ChatFormat
  /** The request in chat format, validated against its schema. */
  readonly chat: Fields
  /** Builds the request in the API's own format from the sizes and rules; absent where that is `chat`. */
  readonly own?: (ruled: {
    readonly maxTokens: number
    readonly row: ChatRow
    readonly effort: Effort | undefined
  }) => Fields
  readonly stream: boolean
  /** Default of `max_tokens`; 8192 if absent. */
  readonly defaultTokens?: number
  readonly forwardedHeaders?: Readonly<Record<string, string>>
  readonly background?: boolean
  /** Input that a vendor of the API's own format reads and that `chat` does not hold. */
  readonly uncounted?: { readonly text: string; readonly tokens: number }
}

/** Applies the model's rules and sizes the prompt. Counts tokens only where the price or a limit depends on them. */
export async function sizeRequest(
  {
    row,
    format,
    chat: request,
    own,
    stream,
    defaultTokens,
    forwardedHeaders = {},
    background = false,
    uncounted,
  }: UnsizedRequest,
  { catalog, vendors, countTokens }: StreamedContext,
): Promise<ChatInput> {
  const providerFormat = vendors.chat(row)?.format
  const {
    body: { max_tokens: _, max_completion_tokens: __, stream: ___, model: ____, ...body },
    effort,
  } = checkedRequest(request, { row, format, providerFormat })
  const requested = requestedTokens(request)
  if (answersOf(request) > 1 && !supportsMultipleAnswers(body, { row, format, providerFormat })) {
    throw invalidParameter(
      format === 'generate_content' ? 'generationConfig.candidateCount' : 'n',
      `must be 1; ${row.id} returns one answer to such a request.`,
    )
  }
  const measured = uncounted?.text
    ? { ...body, messages: [...(body.messages as readonly Json[]), { role: 'assistant', content: uncounted.text }] }
    : body
  const uncountedTokens = uncounted?.tokens ?? 0
  const bound = upperBound(measured, row) + uncountedTokens
  checkLength(measured, bound)
  const widest = outputCap({ requested, fallback: defaultTokens }, row, 0)
  const isCounted = row.billing.mode === 'paid' || bound + widest.maxTokens > smallestWindow(row, { catalog })
  const counted = isCounted
    ? await estimatePrompt(measured, { row, countTokens, limit: row.contextWindow - 1 - uncountedTokens })
    : undefined
  const estimate = counted && { ...counted, total: counted.total + uncountedTokens }
  const fitted =
    estimate && estimate.total >= row.contextWindow
      ? trimToWindow(body, { row, format, estimate })
      : { body, removed: 0, promptTokens: estimate?.total ?? 0 }
  const { maxTokens, headers } = outputCap({ requested, fallback: defaultTokens }, row, fitted.promptTokens)
  const chat = { ...fitted.body, max_tokens: maxTokens }
  return {
    row,
    format,
    chat,
    body: request,
    own: own ? own({ maxTokens, row, effort }) : chat,
    stream,
    promptTokens: fitted.promptTokens,
    maxTokens,
    effort,
    surcharge: body.search_parameters === undefined ? undefined : row.liveSearch,
    headers: {
      ...headers,
      ...(fitted.removed > 0 && { 'x-context-truncated': 'true', 'x-messages-removed': String(fitted.removed) }),
    },
    forwardedHeaders,
    background,
  }
}

/** Refuses what the model or its vendor would drop or refuse, and applies the rules of the model. */
function checkedRequest(
  request: Fields,
  { row, format, providerFormat }: { row: ChatRow; format: ChatFormat; providerFormat: ChatFormat | undefined },
): ReturnType<typeof applyModelRules> {
  const isNative = format !== 'chat' && providerFormat === format
  checkCounts(request)
  checkExtras(request)
  checkSizes(request)
  checkMessages(request.messages as ChatBody['messages'], { row, format, isNative })
  checkControls(request, { row, providerFormat, isNative })
  return applyModelRules(withoutIdleChoice(request), row, { byResponses: format === 'responses' })
}

/**
 * Counts the prompt of a chat request as its quote would, whatever its model costs and however long it is. Throws
 * NOT_CONFIGURED for a model that nobody here serves.
 */
export async function countPrompt(
  { row, format, chat }: Pick<UnsizedRequest, 'row' | 'format' | 'chat'>,
  { catalog, vendors, countTokens }: StreamedContext,
): Promise<number> {
  const rows = [row, ...(row.fallbacks ?? []).flatMap((id) => catalog.chat.get(id) ?? [])]
  if (!rows.some((each) => vendors.chat(each) !== undefined)) throw notConfigured(row)
  checkedRequest(chat, { row, format, providerFormat: vendors.chat(row)?.format })
  checkLength(chat, upperBound(chat, row))
  return (await estimatePrompt(chat, { row, countTokens })).total
}

export const notConfigured = ({ id }: ChatRow): ApiError =>
  new ApiError('NOT_CONFIGURED', { message: `${id}: the operator has not configured it. Nothing was charged.` })

/** The smallest context window among the row and its fallbacks, any of which may answer. */
function smallestWindow(row: ChatRow, { catalog }: Pick<Offering, 'catalog'>): number {
  return Math.min(
    row.contextWindow,
    ...(row.fallbacks ?? []).flatMap((id) => catalog.chat.get(id)?.contextWindow ?? []),
  )
}

type Estimate = Awaited<ReturnType<typeof estimatePrompt>>

/**
 * Drops the oldest turns of a prompt that does not fit. Only chat is trimmed; other APIs refuse it as their vendors do.
 */
function trimToWindow(
  body: Fields,
  { row, format, estimate }: { row: ChatRow; format: ChatFormat; estimate: Estimate },
) {
  const tooLong = new ApiError('CONTEXT_LENGTH_EXCEEDED', {
    message: `The prompt is longer than the context window of ${row.id}: at least ${estimate.total} tokens, and the window has ${row.contextWindow}. Shorten it, or choose a model with a longer window.`,
    param: 'messages',
  })
  if (format !== 'chat') throw tooLong
  const messages = body.messages as readonly Fields[]
  const tokens = estimate.messages
  const rest = tokens.filter(Number.isFinite).reduce((left, each) => left - each, estimate.total)
  const remainingMessages = trimMessages(messages, tokens, row.contextWindow - 1 - rest)
  if (!remainingMessages) throw tooLong
  const remaining = new Set(remainingMessages)
  const promptTokens = messages.reduce(
    (sum, message, index) => (remaining.has(message) ? sum + (tokens[index] ?? 0) : sum),
    rest,
  )
  return {
    body: { ...body, messages: remainingMessages },
    removed: messages.length - remainingMessages.length,
    promptTokens,
  }
}

// ── the price ───────────────────────────────────────────────────────────────────────────────────────────────────────

const answersOf = ({ n }: Fields): number => (typeof n === 'number' ? n : 1)

/** The inputs of the quote. Each of several answers (`n`) is quoted. */
export function priceInputs({ row, promptTokens, maxTokens, effort, surcharge, chat }: ChatInput) {
  return {
    billing: row.billing,
    promptTokens,
    maxTokens: maxTokens * answersOf(chat),
    effort,
    scalesQuote: row.effort?.scalesQuote,
    surcharge,
  }
}

export function quote(input: ChatInput, { prices }: Pick<Context, 'prices'>): Price | 'free' {
  if (input.row.billing.mode === 'free') return 'free'
  return {
    amount: chatPrice({ ...priceInputs(input), markup: prices }),
    maxTimeoutSeconds: input.background ? BACKGROUND_TIMEOUT_S : TIMEOUT_S,
    publicPrice: {},
  }
}

/** The most that this request can cost the operator, with answers of full length. */
export const worstCost = (input: ChatInput): Usdc => chatWorstCost(priceInputs(input))

/**
 * Lowest and highest quote over the available rows that fit: an empty request, and a full context window with the
 * longest answers. Of all rows that fit where none is available, so that the documentation has a price.
 */
export function chatPriceRange(
  { catalog, vendors, prices: markup }: Offering,
  fits: (row: ChatRow) => boolean = () => true,
): { min: Usdc; max: Usdc } {
  const fitting = catalog.chat.all.filter(fits)
  const served = fitting.filter((row) => vendors.chat(row) !== undefined)
  const amounts = (served.length > 0 ? served : fitting)
    .filter((row) => row.billing.mode !== 'free')
    .flatMap((row) => {
      const { billing, effort, liveSearch, contextWindow, maxOutput } = row
      const most = {
        billing,
        promptTokens: contextWindow,
        maxTokens: 8 * maxOutput,
        effort: 'max' as const,
        scalesQuote: effort?.scalesQuote,
        surcharge: liveSearch,
        markup,
      }
      return [chatPrice({ billing, promptTokens: 0, maxTokens: 0, markup }), chatPrice(most)]
    })
  const [first = usdc(0n)] = amounts
  return {
    min: amounts.reduce((a, b) => (a < b ? a : b), first),
    max: amounts.reduce((a, b) => (a > b ? a : b), first),
  }
}

/**
 * The first available row that fits, a paid one if there is any; else the first that fits, so that the documentation
 * has a price.
 */
export function sampleRow(offering: Offering, fits: (row: ChatRow) => boolean = () => true): ChatRow | undefined {
  const rows = listedRows(offering, fits)
  const served = rows.filter((row) => offering.vendors.chat(row) !== undefined)
  return served.find(isPaid) ?? served[0] ?? rows.find(isPaid)
}

/** Whether any listed row that fits is available. */
export const isChatOffered =
  (fits: (row: ChatRow) => boolean = () => true) =>
  (offering: Offering): boolean =>
    listedRows(offering, fits).some((row) => offering.vendors.chat(row) !== undefined)

const listedRows = ({ catalog }: Offering, fits: (row: ChatRow) => boolean): readonly ChatRow[] =>
  catalog.chat.all.filter((row) => !row.hidden && fits(row))

const isPaid = ({ billing }: ChatRow): boolean => billing.mode !== 'free'

export function isServed(input: ChatInput, offering: Offering): boolean {
  return offering.vendors.chat(input.row) !== undefined || candidatesFor(input, offering).next().done !== true
}

/** `isServed`, for an order. Throws where every vendor of the model has as many requests as it takes. */
export function isOpen(input: ChatInput, offering: Offering): boolean {
  if (hasRoom(input, offering)) return true
  if (isServed(input, offering)) throw fullError(input.row)
  return false
}

function hasRoom(input: ChatInput, offering: Offering): boolean {
  for (const { vendor } of candidatesFor(input, offering)) if (!vendor.isFull?.()) return true
  return false
}

const fullError = ({ id }: ChatRow): ApiError =>
  new ApiError('MODEL_UNAVAILABLE', {
    message: `${id} has as many requests as it takes. Nothing was charged; send the same request again.`,
    headers: { 'retry-after': String(FULL_RETRY_SECONDS) },
  })

const FULL_RETRY_SECONDS = 5

export const requestRecord = ({ row }: ChatInput) => ({ model: row.id, request: { model: row.id } })

// ── the answer ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** Translates chat answers for an API of another format. */
export type Translation = {
  reply(chat: Fields): Fields
  stream(): StreamTranslator
}

type Candidate = { readonly row: ChatRow; readonly vendor: ChatVendor }

/**
 * The row and its fallbacks, limited to those that are available, hold the prompt and read its parts. A fallback is
 * judged when the model before it has failed.
 */
function* candidatesFor({ row, promptTokens, chat }: ChatInput, { catalog, vendors }: Offering): Generator<Candidate> {
  const own = vendors.chat(row)
  if (own) yield { row, vendor: own }
  const isAble = (other: ChatRow) =>
    answersOf(chat) === 1 ||
    supportsMultipleAnswers(chat, { row: other, format: 'chat', providerFormat: vendors.chat(other)?.format })
  const isFit = (other: ChatRow) =>
    other.contextWindow > promptTokens &&
    readsAll(other, chat) &&
    stopsIn(chat.stop).length <= (other.maxStops ?? Number.POSITIVE_INFINITY) &&
    isAble(other)
  for (const id of row.fallbacks ?? []) {
    const other = catalog.chat.get(id)
    const vendor = other && isFit(other) ? vendors.chat(other) : undefined
    if (other && vendor) yield { row: other, vendor }
  }
}

/** Calls the model, and its fallbacks in order while each is unavailable. */
export async function answerChat(
  order: StreamedOrder<ChatInput>,
  translation: (row: ChatRow) => Translation | undefined,
): Promise<Answer> {
  const { input, log } = order
  const candidates = candidatesFor(input, order)
  for (let next = candidates.next(); !next.done;) {
    const candidate = next.value
    try {
      if (candidate.vendor.isFull?.() && hasRoom(input, order)) throw fullError(candidate.row)
      const answer = await askModel(candidate, order, translation(candidate.row))
      return {
        ...answer,
        headers: {
          ...answer.headers,
          ...input.headers,
          ...cappedHeaders(requestedTokens(input.body), outputFor(candidate.row, input)),
          ...servedByHeaders(input.row, candidate.row),
        },
      }
    } catch (error) {
      next = candidates.next()
      if (next.done || order.signal.aborted || !isModelUnavailable(error)) throw error
      log.warn('model unavailable, trying its fallback', {
        model: candidate.row.id,
        fallback: next.value.row.id,
        error: (error as Error).message,
      })
    }
  }
  throw new ApiError('NOT_CONFIGURED')
}

/** Full, too slow, away, refusing this gateway, or not there: another model may answer (contract 6.58). */
const UNAVAILABLE: ReadonlySet<ApiErrorCode> = new Set([
  'RATE_LIMITED',
  'UPSTREAM_TIMEOUT',
  'MODEL_UNAVAILABLE',
  'PROVIDER_CONFIG_ERROR',
  'NOT_CONFIGURED',
])

function isModelUnavailable(error: unknown): boolean {
  if (!(error instanceof ApiError)) return true
  return UNAVAILABLE.has(error.code)
}

/** Headers that name the model that answered (contract 6.53). */
function servedByHeaders(requestedRow: ChatRow, served: ChatRow): Readonly<Record<string, string>> {
  return {
    ...(requestedRow.billing.mode === 'free' && { 'x-free-model': 'true' }),
    ...(requestedRow.id !== served.id && {
      'x-fallback-used': 'true',
      'x-original-model': requestedRow.id,
      'x-fallback-model': served.id,
    }),
  }
}

/** Whose model a row is served by. */
const familyOf = ({ family, maker }: ChatRow): string => family ?? maker

/** Members that the caller did not send, or not so. */
function setByGateway(body: Fields, { body: sent, maxTokens }: ChatInput): readonly string[] {
  const isCallersLimit = requestedTokens(sent) === maxTokens
  return Object.keys(body).filter((name) => {
    if (name === 'max_tokens' || name === 'max_output_tokens') return !isCallersLimit
    return RULED.has(name) && body[name] !== sent[name]
  })
}

/** Members of a request that the rules of a row set or change. */
const RULED: ReadonlySet<string> = new Set(['reasoning_effort', 'tool_choice'])

async function askModel(
  { row, vendor }: Candidate,
  { input, signal, clock }: StreamedOrder<ChatInput>,
  translation: Translation | undefined,
): Promise<Answer> {
  const isNative = input.format !== 'chat' && vendor.format === input.format && row === input.row
  const format = isNative ? input.format : 'chat'
  const { stream, forwardedHeaders } = input
  const body = isNative ? input.own : bodyFor(row, input)
  const viaResponses = !isNative && usesResponsesApi(row, body)
  const answer = await vendor.ask(
    {
      format,
      model: row.upstream,
      family: familyOf(row),
      ours: setByGateway(body, input),
      body,
      stream,
      headers: forwardedHeaders,
      ...(viaResponses && { by: 'responses' }),
    },
    { signal },
  )
  const showsReasoningTokens = familyOf(row) === 'vendor-a'
  const estimate = (length: number) => estimatedUsage({ prompt: promptOf(input), characters: length })
  const model = { upstream: row.upstream, publicId: row.id }
  if (answer.kind === 'stream') {
    const streamTranslation = isNative ? undefined : translation
    const stream = streamTranslation
      ? translated(answer.stream, streamTranslation.stream(), { showsReasoningTokens, estimate })
      : forwardedStream(answer.stream, isNative ? { format } : { format, model, showsReasoningTokens, estimate })
    return {
      kind: 'stream',
      headers: {},
      stream: await whenAnswerStarts(stream, { signal, clock, beginsBy: answer.stream.beginsBy }),
    }
  }
  if (isNative) return { kind: 'whole', headers: {}, body: nonEmpty(answer.body, format), usage: usageIn(answer.body) }
  const isJsonEmulated = row.structured === 'emulated' && asksForJson(input.chat)
  const reply = plainReply(isJsonEmulated ? withoutCodeFence(answer.body) : answer.body, {
    model: row.id,
    created: Math.floor(clock.now() / 1000),
    showsReasoningTokens,
    estimate: (choices) => estimate(charactersIn(choices)),
  })
  return {
    kind: 'whole',
    headers: {},
    body: translation ? translation.reply(nonEmpty(reply, 'chat')) : nonEmpty(reply, 'chat'),
    usage: usageIn(reply),
  }
}

/** Tokens of the prompt; at four characters a token where neither the price nor a limit needed a count. */
const promptOf = ({ promptTokens, chat }: ChatInput): number => promptTokens || Math.ceil(characters(chat) / 4)

const charactersIn = (choices: readonly Fields[]): number =>
  choices.reduce((sum, { message }) => sum + characters({ messages: [message as Json] }), 0)

/** Returns the answer. Throws MODEL_UNAVAILABLE for an empty one, which is not charged. */
function nonEmpty(body: Fields, format: ChatFormat): Fields {
  if (!isEmpty(body, format)) return body
  throw new ApiError('MODEL_UNAVAILABLE', {
    message: 'The model returned an empty answer. Nothing was charged. Try a larger max_tokens.',
  })
}

/** The chat request for one row. A fallback applies its own rules and drops parameters that it does not accept. */
function bodyFor(row: ChatRow, input: ChatInput): Fields {
  const { row: first, chat } = input
  const own = () => ({ ...chat, max_tokens: outputFor(row, input) })
  const body = row === first ? chat : applyModelRules(own(), row, { isLenient: true }).body
  return row.structured === 'emulated' && asksForJson(body) ? withJsonInstruction(body) : body
}

/** The most tokens that this row answers with: a fallback may have a lower ceiling than the model that was quoted. */
const outputFor = (row: ChatRow, { promptTokens, maxTokens }: ChatInput): number =>
  outputCap({ requested: maxTokens }, row, promptTokens).maxTokens

function usageIn({ usage, usageMetadata }: Fields): Json {
  const counted = usage ?? usageMetadata
  if (typeof counted !== 'object' || counted === null || Array.isArray(counted)) return null
  return 'prompt_tokens' in counted ? usageOf(counted as Fields) : counted
}
