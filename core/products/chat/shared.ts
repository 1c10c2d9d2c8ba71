/** What all surfaces of chat have in common: finding the model, sizing the prompt, quoting, asking the vendor, and shaping the answer. */
import type { ChatRow, Effort, ChatFormat, ChatVendor } from '../../ports/vendors/chat.ts'
import { checkExtras, checkLength, checkSizes, givesSeveral, goesByResponses } from './unsupported_fields.ts'
import {
  type ChatBody,
  checkCounts,
  checkMessages,
  invalidParameter,
  outputCap,
  requestedTokens,
  ruled,
  trimmed,
  unknownModel,
} from './request.ts'
import type { Answer, StreamedContext, StreamedOrder, Offering, Price } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import type { Dollars, Usdc } from '../../x402/money.ts'
import type { Json, Fields } from '../../lib/json.ts'
import { chatPrice } from './price.ts'
import { flatPrice } from '../../x402/pricing.ts'
import { estimatePrompt, upperBound } from './token_estimate.ts'
import { begun } from './formats/begun.ts'
import { isEmpty } from './formats/empty.ts'
import { rewritten, watched } from './formats/watch.ts'
import { usageOf } from './formats/usage.ts'
import type { Rewriter } from './formats/rewriter.ts'
import { asksForJson, plainReply, withJsonAsked, withoutClaimToken } from './formats/chat_reply.ts'

/** An order on any surface, checked and sized. */
export type ChatInput = {
  readonly row: ChatRow
  /** The wire of the surface that was called. */
  readonly wire: ChatFormat
  /** The request as the surface writes it, for a vendor that speaks the same wire; `chat` for one that does not. */
  readonly own: Fields
  readonly chat: Fields
  readonly stream: boolean
  /** Estimated; 0 where neither price nor limits needed it. */
  readonly promptTokens: number
  readonly maxTokens: number
  readonly effort: Effort | undefined
  readonly surcharge: Dollars | undefined
  /** Of the reply. */
  readonly headers: Readonly<Record<string, string>>
  /** Headers of the caller's that go to the vendor. */
  readonly passed: Readonly<Record<string, string>>
  readonly background: boolean
}

/** How long a signed authorization lives (contract 6.42), and that of work in the background (contract 7.17). */
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

export type Sizing = {
  readonly row: ChatRow
  readonly wire: ChatFormat
  /** The request in `chat`, checked by its schema. */
  readonly chat: Fields
  /** The same as the surface writes it; absent where that is `chat`. Gets the sizes and rules that were worked out. */
  readonly own?: (ruled: {
    readonly maxTokens: number
    readonly row: ChatRow
    readonly effort: Effort | undefined
  }) => Fields
  readonly stream: boolean
  /** What `max_tokens` is where the caller names none; 8192 unless told. */
  readonly defaultTokens?: number
  readonly passed?: Readonly<Record<string, string>>
  readonly background?: boolean
  /** What a vendor of the surface's own wire reads, and `chat` does not hold. */
  readonly beside?: { readonly text: string; readonly tokens: number }
}

/** Applies the rules of the model and measures the prompt. Counts tokens only where the price or a limit depends on them. */
export async function sized(
  { row, wire, chat: said, own, stream, defaultTokens, passed = {}, background = false, beside }: Sizing,
  { catalog, vendors, countTokens }: StreamedContext,
): Promise<ChatInput> {
  const providerFormat = vendors.chat(row)?.wire
  const isNative = wire !== 'chat' && providerFormat === wire
  checkCounts(said)
  checkExtras(said)
  checkSizes(said)
  checkMessages(said.messages as ChatBody['messages'], { row, wire, isNative })
  const {
    body: { max_tokens: _, max_completion_tokens: __, stream: ___, model: ____, ...body },
    effort,
  } = ruled(said, row, { byResponses: wire === 'responses' })
  const requested = requestedTokens(said)
  if (answersOf(said) > 1 && !givesSeveral(body, { row, wire, providerFormat })) {
    throw invalidParameter(
      wire === 'generate_content' ? 'generationConfig.candidateCount' : 'n',
      `must be 1: ${row.id} gives one answer to such a request.`,
    )
  }
  const measured = beside?.text
    ? { ...body, messages: [...(body.messages as readonly Json[]), { role: 'assistant', content: beside.text }] }
    : body
  const unread = beside?.tokens ?? 0
  const most = upperBound(measured, row) + unread
  checkLength(measured, most)
  const roomy = outputCap({ requested, usual: defaultTokens }, row, 0)
  const isCounted = row.billing.mode === 'paid' || most + roomy.maxTokens > smallestWindow(row, { catalog })
  const counted = isCounted
    ? await estimatePrompt(measured, { row, countTokens, most: row.contextWindow - 1 - unread })
    : undefined
  const estimate = counted && { ...counted, total: counted.total + unread }
  const fitting =
    estimate && estimate.total >= row.contextWindow
      ? fit(body, { row, wire, estimate })
      : { body, removed: 0, promptTokens: estimate?.total ?? 0 }
  const { maxTokens, headers } = outputCap({ requested, usual: defaultTokens }, row, fitting.promptTokens)
  const chat = { ...fitting.body, max_tokens: maxTokens }
  return {
    row,
    wire,
    chat,
    own: own ? own({ maxTokens, row, effort }) : chat,
    stream,
    promptTokens: fitting.promptTokens,
    maxTokens,
    effort,
    surcharge: body.search_parameters === undefined ? undefined : row.liveSearch,
    headers: {
      ...headers,
      ...(fitting.removed > 0 && { 'x-context-truncated': 'true', 'x-messages-removed': String(fitting.removed) }),
    },
    passed,
    background,
  }
}

/** Whoever answers in the end must hold the prompt: the row, or one of its fallbacks. */
function smallestWindow(row: ChatRow, { catalog }: Pick<Offering, 'catalog'>): number {
  return Math.min(
    row.contextWindow,
    ...(row.fallbacks ?? []).flatMap((id) => catalog.chat.get(id)?.contextWindow ?? []),
  )
}

type Estimate = Awaited<ReturnType<typeof estimatePrompt>>

/** Drops the oldest turns of a prompt that does not fit. Only chat is trimmed; the other surfaces answer as their vendors would. */
function fit(body: Fields, { row, wire, estimate }: { row: ChatRow; wire: ChatFormat; estimate: Estimate }) {
  const tooLong = new ApiError('CONTEXT_LENGTH_EXCEEDED', {
    message: `The prompt is longer than the context window of ${row.id}: at least ${estimate.total} tokens, and the window has ${row.contextWindow}. Shorten it, or choose a model with a longer window.`,
    param: 'messages',
  })
  if (wire !== 'chat') throw tooLong
  const messages = body.messages as readonly Fields[]
  const tokens = estimate.messages
  const rest = tokens.filter(Number.isFinite).reduce((left, each) => left - each, estimate.total)
  const kept = trimmed(messages, tokens, row.contextWindow - 1 - rest)
  if (!kept) throw tooLong
  const stays = new Set(kept)
  const promptTokens = messages.reduce(
    (sum, message, index) => (stays.has(message) ? sum + (tokens[index] ?? 0) : sum),
    rest,
  )
  return { body: { ...body, messages: kept }, removed: messages.length - kept.length, promptTokens }
}

// ── the price ───────────────────────────────────────────────────────────────────────────────────────────────────────

const answersOf = ({ n }: Fields): number => (typeof n === 'number' ? n : 1)

/** What the quote is made from; several answers (`n`) are each quoted. */
export function orderSize({ row, promptTokens, maxTokens, effort, surcharge, chat }: ChatInput) {
  return {
    billing: row.billing,
    promptTokens,
    maxTokens: maxTokens * answersOf(chat),
    effort,
    scalesQuote: row.effort?.scalesQuote,
    surcharge,
  }
}

export function quote(input: ChatInput): Price | 'free' {
  if (input.row.billing.mode === 'free') return 'free'
  return {
    amount: chatPrice(orderSize(input)),
    maxTimeoutSeconds: input.background ? BACKGROUND_TIMEOUT_S : TIMEOUT_S,
    publicPrice: {},
  }
}

/** Lowest and highest quote over the rows on sale: nothing said and nothing asked, and a whole window with the longest answer. */
export function chatSpan({ catalog, vendors }: Offering): { min: Usdc; max: Usdc } {
  const rows = catalog.chat.all.filter((row) => row.billing.mode !== 'free' && vendors.chat(row) !== undefined)
  const amounts = (rows.length > 0 ? rows : catalog.chat.all.filter((row) => row.billing.mode !== 'free')).flatMap(
    (row) => {
      const { billing, effort, liveSearch, contextWindow, maxOutput } = row
      const most = {
        billing,
        promptTokens: contextWindow,
        maxTokens: 8 * maxOutput,
        effort: 'max' as const,
        scalesQuote: effort?.scalesQuote,
        surcharge: liveSearch,
      }
      return [chatPrice({ billing, promptTokens: 0, maxTokens: 0 }), chatPrice(most)]
    },
  )
  const [first = flatPrice('0')] = amounts
  return {
    min: amounts.reduce((a, b) => (a < b ? a : b), first),
    max: amounts.reduce((a, b) => (a > b ? a : b), first),
  }
}

/** The first paid row that fits and that somebody here serves; where nobody serves any, the first that fits, so that documents have a price. */
export function sampleRow(
  { catalog, vendors }: Offering,
  fits: (row: ChatRow) => boolean = () => true,
): ChatRow | undefined {
  const rows = catalog.chat.all.filter((row) => row.billing.mode !== 'free' && !row.hidden && fits(row))
  return rows.find((row) => vendors.chat(row) !== undefined) ?? rows[0]
}

export function isServed(input: ChatInput, offering: Offering): boolean {
  return offering.vendors.chat(input.row) !== undefined || standIns(input, offering).length > 0
}

export const remembered = ({ row }: ChatInput) => ({ model: row.id, request: { model: row.id } })

// ── the answer ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** How a surface that is not chat reads the answer of a vendor that speaks chat. */
export type Translation = {
  reply(chat: Fields): Fields
  stream(): Rewriter
}

type StandIn = { readonly row: ChatRow; readonly vendor: ChatVendor }

/** The row and its fallbacks, as far as somebody serves them, and they see as much and hold as much. */
function standIns({ row, promptTokens, chat }: ChatInput, { catalog, vendors }: Offering): readonly StandIn[] {
  const hasImages = row.images !== undefined && row.fallbacks !== undefined && showsImages(chat)
  const isAble = (other: ChatRow) =>
    answersOf(chat) === 1 || givesSeveral(chat, { row: other, wire: 'chat', providerFormat: vendors.chat(other)?.wire })
  const isFit = (other: ChatRow) =>
    other.contextWindow > promptTokens && (!hasImages || other.images !== undefined) && isAble(other)
  const rows = [row, ...(row.fallbacks ?? []).flatMap((id) => catalog.chat.get(id) ?? []).filter(isFit)]
  return rows.flatMap((candidate) => {
    const vendor = vendors.chat(candidate)
    return vendor ? [{ row: candidate, vendor }] : []
  })
}

const showsImages = ({ messages }: Fields): boolean =>
  (messages as readonly Fields[]).some(
    ({ content }) => Array.isArray(content) && content.some((part) => (part as Fields).type === 'image_url'),
  )

/** Asks the model, and in turn its fallbacks while one after the other is unavailable. */
export async function answered(
  order: StreamedOrder<ChatInput>,
  translation: (row: ChatRow) => Translation | undefined,
): Promise<Answer> {
  const { input, log } = order
  const candidates = standIns(input, order)
  for (const [index, candidate] of candidates.entries()) {
    try {
      const answer = await asked(candidate, order, translation(candidate.row))
      return { ...answer, headers: { ...answer.headers, ...input.headers, ...namesOf(input.row, candidate.row) } }
    } catch (error) {
      const isLast = index === candidates.length - 1
      if (isLast || order.signal.aborted || !isUnavailable(error, input.row)) throw error
      log.warn('a model is unavailable; its fallback is asked', {
        model: candidate.row.id,
        fallback: candidates[index + 1]?.row.id,
        error: (error as Error).message,
      })
    }
  }
  throw new ApiError('NOT_CONFIGURED')
}

function isUnavailable(error: unknown, { billing }: ChatRow): boolean {
  if (!(error instanceof ApiError)) return true
  if (error.code === 'RATE_LIMITED') return billing.mode === 'free'
  return error.code === 'MODEL_UNAVAILABLE' || error.code === 'PROVIDER_CONFIG_ERROR' || error.code === 'NOT_CONFIGURED'
}

/** The headers that name who answered (contract 6.53). */
function namesOf(asked: ChatRow, served: ChatRow): Readonly<Record<string, string>> {
  return {
    ...(asked.billing.mode === 'free' && { 'x-free-model': 'true' }),
    ...(asked.id !== served.id && {
      'x-fallback-used': 'true',
      'x-original-model': asked.id,
      'x-fallback-model': served.id,
    }),
  }
}

async function asked(
  { row, vendor }: StandIn,
  { input, signal, clock }: StreamedOrder<ChatInput>,
  translation: Translation | undefined,
): Promise<Answer> {
  const isNative = input.wire !== 'chat' && vendor.wire === input.wire && row === input.row
  const wire = isNative ? input.wire : 'chat'
  const { stream, passed } = input
  const body = isNative ? input.own : bodyFor(row, input)
  const isRicher = !isNative && goesByResponses(row, body)
  const answer = await vendor.ask(
    { wire, model: row.upstream, body, stream, headers: passed, ...(isRicher && { by: 'responses' }) },
    { signal },
  )
  const model = { upstream: row.upstream, ours: row.id }
  if (answer.kind === 'stream') {
    const translated = isNative ? undefined : translation
    const stream = translated
      ? rewritten(answer.stream, translated.stream())
      : watched(answer.stream, isNative ? { wire } : { wire, model })
    return { kind: 'stream', headers: {}, stream: await begun(stream, { signal }) }
  }
  if (isNative) return { kind: 'whole', headers: {}, body: filled(answer.body, wire), usage: usageIn(answer.body) }
  const isTokenChecked = row.structured === 'emulated' && asksForJson(input.chat)
  const reply = plainReply(isTokenChecked ? withoutClaimToken(answer.body) : answer.body, {
    model: row.id,
    created: Math.floor(clock.now() / 1000),
  })
  return {
    kind: 'whole',
    headers: {},
    body: translation ? translation.reply(filled(reply, 'chat')) : filled(reply, 'chat'),
    usage: usageIn(reply),
  }
}

/** The same answer. Throws MODEL_UNAVAILABLE for one that says nothing: it is not charged. */
function filled(body: Fields, wire: ChatFormat): Fields {
  if (!isEmpty(body, wire)) return body
  throw new ApiError('MODEL_UNAVAILABLE', {
    message: 'The model ended without an answer; a larger max_tokens may help. Nothing was charged.',
  })
}

/** The request in chat for one row: a fallback has rules of its own, and takes what it can. */
function bodyFor(row: ChatRow, { row: first, chat, promptTokens, maxTokens }: ChatInput): Fields {
  const own = () => ({ ...chat, max_tokens: outputCap({ requested: maxTokens }, row, promptTokens).maxTokens })
  const body = row === first ? chat : ruled(own(), row, { isLenient: true }).body
  return row.structured === 'emulated' && asksForJson(body) ? withJsonAsked(body) : body
}

function usageIn({ usage, usageMetadata }: Fields): Json {
  const counted = usage ?? usageMetadata
  if (typeof counted !== 'object' || counted === null || Array.isArray(counted)) return null
  return 'prompt_tokens' in counted ? usageOf(counted as Fields) : counted
}
