/** Calls the model of a request, or the first fallback that answers, and shapes the answer for the API. */
import type { ChatFormat, ChatOrder, ChatRow } from '../../ports/vendors/chat.ts'
import type { Answer, StreamedOrder } from '../../endpoint/mod.ts'
import { ApiError, type ApiErrorCode } from '../../http/errors.ts'
import { type Fields, fieldsOf, type Json, objectsOf } from '../../lib/json.ts'
import { type Candidate, candidatesFor, fullError, hasRoom } from './fallbacks.ts'
import { type TrackedStream, whenAnswerStarts } from './formats/answer_start.ts'
import { asksForJson, plainReply, withJsonInstruction, withoutCodeFence } from './formats/chat_reply.ts'
import { emptyAnswer, isEmpty } from './formats/empty_answer.ts'
import { forwardedStream } from './formats/forwarded_stream.ts'
import type { StreamTranslator } from './formats/stream_translator.ts'
import { translated } from './formats/translated_stream.ts'
import { estimatedUsage, usageOf } from './formats/usage.ts'
import { applyModelRules } from './model_rules.ts'
import { answersOf, cappedHeaders, outputCap, requestedTokens } from './request.ts'
import type { ChatInput } from './sized_request.ts'
import { characters } from './token_estimate.ts'
import { usesResponsesApi } from './unsupported_fields.ts'
import type { Searching } from './web_search/answer.ts'
import { searchBound } from './web_search/tool.ts'

export const requestRecord = ({ row }: ChatInput) => ({ model: row.id, request: { model: row.id } })

/** Translates chat answers for an API of another format. */
export type Translation = {
  reply(chat: Fields): Fields
  stream(): StreamTranslator
}

/** Calls the model, and its fallbacks in order while each is unavailable. */
export async function answerChat(
  order: StreamedOrder<ChatInput>,
  translation: (row: ChatRow) => Translation | undefined,
): Promise<Answer> {
  const { input, log } = order
  const searches = await searchesFor(order)
  // Searches are paid for: a wallet may not have many answers that fail after them (contract 1.62).
  if (searches) order.watchCost?.(searches.isCostly)
  const candidates = candidatesFor(input, order)
  for (let next = candidates.next(); !next.done;) {
    const candidate = next.value
    try {
      if (candidate.vendor.isFull?.() && hasRoom(input, order)) throw fullError(candidate.row)
      const answer = await askModel(candidate, order, { translation: translation(candidate.row), searches })
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
  {
    translation,
    searches,
  }: { readonly translation: Translation | undefined; readonly searches: Searching | undefined },
): Promise<Answer> {
  const isNative = input.format !== 'chat' && vendor.format === input.format && row === input.row && !searches
  const format = isNative ? input.format : 'chat'
  const { stream, forwardedHeaders } = input
  const body = isNative ? input.own : bodyFor(row, input)
  const viaResponses = !isNative && usesResponsesApi(row, body)
  const chatOrder: ChatOrder = {
    format,
    model: row.upstream,
    family: familyOf(row),
    ours: setByGateway(body, input),
    body,
    stream,
    headers: forwardedHeaders,
    ...(viaResponses && { by: 'responses' }),
  }
  const answer = await (searches ? searches.ask(vendor, chatOrder, { signal }) : vendor.ask(chatOrder, { signal }))
  const showsReasoningTokens = familyOf(row) === 'vendor-a'
  const estimate = (length: number) => estimatedUsage({ prompt: promptOf(input), characters: length })
  const answers = answersOf(input.chat)
  const isUsageMerged = fieldsOf(input.body.stream_options).include_usage !== true
  const model = { upstream: row.upstream, publicId: row.id }
  if (answer.kind === 'stream') {
    const streamTranslation = isNative ? undefined : translation
    const stream = streamTranslation
      ? translated(answer.stream, streamTranslation.stream(), { showsReasoningTokens, estimate, answers })
      : forwardedStream(
          answer.stream,
          isNative ? { format } : { format, model, showsReasoningTokens, estimate, answers, isUsageMerged },
        )
    return {
      kind: 'stream',
      headers: {},
      stream: await whenAnswerStarts(searches ? withSearchUsage(stream, searches) : stream, {
        signal,
        clock,
        beginsBy: answer.stream.beginsBy,
      }),
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
    body: translation ? translation.reply(complete(reply, answers)) : complete(reply, answers),
    usage: usageIn(reply),
  }
}

/** The searches of an answer, where it may have some. Most gateways never sell any, and most requests ask for none. */
async function searchesFor({ input, vendors, countTokens }: StreamedOrder<ChatInput>): Promise<Searching | undefined> {
  const { search, promptTokens } = input
  const { websearch } = vendors
  if (!search || !websearch) return undefined
  const { searching } = await import('./web_search/answer.ts')
  const { tokens } = searchBound(search)
  return searching({ search, websearch, countTokens, promptTokens: Math.max(0, promptTokens - tokens) })
}

/** Of a reader who leaves early: the rounds and searches that there were. */
const withSearchUsage = (stream: TrackedStream, searches: Searching): TrackedStream => ({
  ...stream,
  usage: () => stream.usage() ?? searches.usage(),
  isCostly: searches.isCostly,
})

/** Tokens of the prompt; at four characters a token where neither the price nor a limit needed a count. */
const promptOf = ({ promptTokens, chat }: ChatInput): number => promptTokens || Math.ceil(characters(chat) / 4)

const charactersIn = (choices: readonly Fields[]): number =>
  choices.reduce((sum, { message }) => sum + characters({ messages: [message as Json] }), 0)

/** Returns the answer. Throws MODEL_UNAVAILABLE for an empty one, which is not charged. */
function nonEmpty(body: Fields, format: ChatFormat): Fields {
  if (!isEmpty(body, format)) return body
  throw emptyAnswer()
}

/** Returns a chat answer. Throws MODEL_UNAVAILABLE for an empty one, or fewer than were quoted: neither is charged. */
function complete(reply: Fields, answers: number): Fields {
  const given = objectsOf(reply.choices).length
  if (given >= answers || answers === 1) return nonEmpty(reply, 'chat')
  throw new ApiError('MODEL_UNAVAILABLE', {
    message: `The model returned ${given} of ${answers} answers. Nothing was charged. Ask for one: leave n out.`,
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
