/** A request of any chat API, checked against the rules of its model and sized for its quote. */
import type { ChatFormat, ChatRow, Effort } from '../../ports/vendors/chat.ts'
import type { Offering, StreamedContext } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import type { Dollars } from '../../x402/money.ts'
import type { Fields, Json } from '../../lib/json.ts'
import { checkControls, withoutIdleChoice } from './controls.ts'
import { notConfigured } from './offered_rows.ts'
import { applyModelRules } from './model_rules.ts'
import {
  answersOf,
  type ChatBody,
  checkCounts,
  checkMessages,
  invalidParameter,
  outputCap,
  requestedTokens,
  trimMessages,
} from './request.ts'
import { searchBound, type WebSearch } from './web_search/tool.ts'
import { estimatePrompt, upperBound } from './token_estimate.ts'
import { checkExtras, checkLength, checkSizes, supportsMultipleAnswers } from './unsupported_fields.ts'

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
  /** The searches that this gateway runs for the answer, which is then never the vendor's own format. */
  readonly search?: WebSearch
  /** Headers of the reply. */
  readonly headers: Readonly<Record<string, string>>
  /** Request headers that are forwarded to the vendor. */
  readonly forwardedHeaders: Readonly<Record<string, string>>
  readonly background: boolean
}

type UnsizedRequest = {
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
  /** Headers of the reply, beside those of the sizes. */
  readonly headers?: Readonly<Record<string, string>>
  /** Input that a vendor of the API's own format reads and that `chat` does not hold. */
  readonly uncounted?: { readonly text: string; readonly tokens: number }
  readonly search?: WebSearch | undefined
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
    headers: ownHeaders,
    uncounted,
    search,
  }: UnsizedRequest,
  { catalog, vendors, countTokens }: StreamedContext,
): Promise<ChatInput> {
  const vendor = vendors.chat(row)
  const {
    body: { max_tokens: _, max_completion_tokens: __, stream: ___, model: ____, ...body },
    effort,
  } = checkedRequest(request, { row, format, providerFormat: vendor?.format, isConverted: search !== undefined })
  const requested = requestedTokens(request)
  if (answersOf(request) > 1 && !supportsMultipleAnswers(body, { row, format, vendor })) {
    throw invalidParameter(
      format === 'generate_content' ? 'generationConfig.candidateCount' : 'n',
      `must be 1; ${row.id} returns one answer to such a request.`,
    )
  }
  const measured = uncounted?.text
    ? { ...body, messages: [...(body.messages as readonly Json[]), { role: 'assistant', content: uncounted.text }] }
    : body
  const uncountedTokens = (uncounted?.tokens ?? 0) + (search ? searchBound(search).tokens : 0)
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
      ...ownHeaders,
      ...headers,
      ...(fitted.removed > 0 && { 'x-context-truncated': 'true', 'x-messages-removed': String(fitted.removed) }),
    },
    forwardedHeaders,
    background,
    ...(search && { search }),
  }
}

type Checking = {
  readonly row: ChatRow
  readonly format: ChatFormat
  readonly providerFormat: ChatFormat | undefined
  /** Whether the request is converted to chat although the vendor speaks its format. */
  readonly isConverted?: boolean
}

/** Refuses what the model or its vendor would drop or refuse, and applies the rules of the model. */
function checkedRequest(
  request: Fields,
  { row, format, providerFormat, isConverted = false }: Checking,
): ReturnType<typeof applyModelRules> {
  const isNative = format !== 'chat' && providerFormat === format && !isConverted
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
