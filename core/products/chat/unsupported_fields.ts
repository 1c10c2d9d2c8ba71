/**
 * What a request asks for beyond its tokens, and how much one may hold: 400 before the quote, on every surface
 * (decision 42).
 */
import type { ChatRow, ChatFormat } from '../../ports/vendors/chat.ts'
import { hasFunctions, invalidParameter } from './request.ts'
import { ApiError } from '../../http/errors.ts'
import { quoted } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'
import { type Json, type Fields, isFields } from '../../lib/json.ts'
import { characters } from './token_estimate.ts'
import { unsupportedSettings } from './formats/generate_content/request.ts'

// ── what is not sold ────────────────────────────────────────────────────────────────────────────────────────────────

const EXTRA_CHARGE =
  'is charged for beyond the tokens, or names something in the account of the operator, and is not sold here.'
const MODEL_ROUTING = 'chooses another model or vendor than the one that was quoted, and is not sold here.'

/**
 * Members that no surface sells. Most are read by some vendor alone; a caller is told all the same, for nobody serves
 * them.
 */
const UNSUPPORTED: Readonly<Record<string, string>> = {
  web_search_options: EXTRA_CHARGE,
  plugins: EXTRA_CHARGE,
  mcp_servers: EXTRA_CHARGE,
  container: EXTRA_CHARGE,
  inference_geo: EXTRA_CHARGE,
  prediction: EXTRA_CHARGE,
  audio: EXTRA_CHARGE,
  cachedContent: EXTRA_CHARGE,
  cached_content: EXTRA_CHARGE,
  preset: EXTRA_CHARGE,
  deferred: 'is not served: an answer is given by the request that asked for it.',
  models: MODEL_ROUTING,
  route: MODEL_ROUTING,
  provider: MODEL_ROUTING,
}

/** Members of a request in any format. Throws INVALID_PARAMETER. */
export function checkExtras(body: Fields): void {
  for (const [name, why] of Object.entries(UNSUPPORTED)) if (isSet(body[name])) throw invalidParameter(name, why)
  if (isSet(body.speed) && body.speed !== 'standard')
    throw invalidParameter('speed', 'must be standard: the fast mode is not what was quoted.')
  const { modalities } = body
  const isText = Array.isArray(modalities) && modalities.every((kind: Json) => kind === 'text')
  if (isSet(modalities) && !isText) throw invalidParameter('modalities', 'must be ["text"]: nothing else is sold here.')
  if (body.store === true) throw invalidParameter('store', 'must be false: nothing is stored here.')
}

/** Members of other formats that would not be heard in this one. Throws INVALID_PARAMETER. */
export function checkChatExtras(body: Fields): void {
  if (isSet(body.output_config))
    throw invalidParameter('output_config', 'belongs to the messages API; use response_format and reasoning_effort.')
  if (isSet(body.context_management))
    throw invalidParameter(
      'context_management',
      'belongs to the messages API, with its anthropic-beta header: POST /api/v1/messages.',
    )
  const [setting] = unsupportedSettings(body)
  if (setting !== undefined)
    throw invalidParameter(
      `generationConfig.${setting}`,
      'is not sold in chat; use response_format for the form of the answer.',
    )
  for (const [at, message] of (body.messages as readonly Fields[]).entries()) {
    if (isSet(message.audio))
      throw invalidParameter(
        `messages.${at}.audio`,
        'names something in the account of the operator; send the content itself.',
      )
  }
}

const isSet = (value: Json | undefined): boolean => value !== undefined && value !== null && value !== false

/** Tools that the caller runs; any other is one that some vendor runs itself, at a price that nobody was quoted. */
const TOOLS: readonly unknown[] = ['function', 'custom']

export function checkTools({ tools, functions }: Fields): void {
  for (const [at, tool] of entriesOf(tools)) {
    if (!isFields(tool)) throw refused(`tools.${at}`, 'must be an object')
    if (!TOOLS.includes(tool.type))
      throw invalidParameter(`tools.${at}.type`, 'must be function: tools that a vendor runs itself are not sold here.')
    if (isSet(tool.function) && !isFields(tool.function)) throw refused(`tools.${at}.function`, 'must be an object')
  }
  if (isSet(functions) && !Array.isArray(functions))
    throw refused('functions', `must be an array, got ${quoted(functions)}`)
  for (const [at, called] of entriesOf(functions))
    if (!isFields(called)) throw refused(`functions.${at}`, 'must be an object')
}

const entriesOf = (list: Json | undefined): Iterable<[number, Json]> =>
  Array.isArray(list) ? (list as readonly Json[]).entries() : []

// ── several answers ─────────────────────────────────────────────────────────────────────────────────────────────────

/** Who would give the answers, and on which surface; `vendorWire` is the one that the row's vendor speaks. */
type AnswerSource = {
  readonly row: ChatRow
  readonly format: ChatFormat
  readonly providerFormat: ChatFormat | undefined
}

/** Whether an order goes over the responses format of a vendor that speaks chat. */
export const usesResponsesApi = (row: ChatRow, body: Fields): boolean =>
  (row.toolsByResponses === true && (hasFunctions(body) || body.reasoning_effort === 'max')) ||
  (body.search_parameters ?? undefined) !== undefined

/** Whether more than one answer to a request comes back for more than one that was quoted. */
export function givesSeveralAnswers(body: Fields, { row, format, providerFormat }: AnswerSource): boolean {
  if (row.billing.mode !== 'paid' || row.vendor === 'embedded' || format === 'messages' || format === 'responses')
    return false
  if (format === 'generate_content' && providerFormat === format) return true
  return (
    row.structured === 'forwarded' &&
    providerFormat !== 'messages' &&
    providerFormat !== 'responses' &&
    !usesResponsesApi(row, body)
  )
}

// ── sizes ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Turns of a conversation, parts of one of them and of all; whatever is counted and translated is bounded by them. */
const MAX_TURNS = 10_000
const MAX_PARTS = 2_000
const MAX_TOTAL_PARTS = 20_000
export const MAX_TOOLS = 512

/** The longest text of a request, in characters; the longest window of any model is shorter. */
const MAX_TEXT = 8_388_608

/** Said here and not by a schema, which would look at every turn to say what is wrong. Throws INVALID_BODY. */
export function checkTurns(turns: Json | undefined, at: string): void {
  if (Array.isArray(turns) && turns.length > MAX_TURNS)
    throw refused(at, `may be at most ${MAX_TURNS}, got ${turns.length}`)
}

/** Counts the parts of a request, list by list. Throws INVALID_BODY that names the list that is too long. */
export function partCounter(): (parts: readonly unknown[], at: string) => void {
  let all = 0
  return (parts, at) => {
    all += parts.length
    if (parts.length > MAX_PARTS) throw refused(at, `may have at most ${MAX_PARTS} parts, got ${parts.length}`)
    if (all > MAX_TOTAL_PARTS) throw refused(at, `a request may have at most ${MAX_TOTAL_PARTS} parts in all`)
  }
}

/** Parts and tool calls of chat messages, and the tools of either kind. Throws INVALID_BODY. */
export function checkSizes({ messages, tools, functions }: Fields): void {
  const count = partCounter()
  for (const [at, { content, tool_calls }] of (messages as readonly Fields[]).entries()) {
    if (Array.isArray(content)) count(content, `messages.${at}.content`)
    if (Array.isArray(tool_calls)) count(tool_calls, `messages.${at}.tool_calls`)
  }
  const offered = [tools, functions].reduce((sum: number, list) => sum + (Array.isArray(list) ? list.length : 0), 0)
  if (offered > MAX_TOOLS) throw refused('tools', `may be at most ${MAX_TOOLS}, got ${offered}`)
}

/** `most` is what the text has at most, so that only a long one is looked at. Throws TOO_LARGE. */
export function checkLength(body: Fields, bound: number): void {
  if (bound <= MAX_TEXT) return
  const length = characters(body)
  if (length > MAX_TEXT)
    throw new ApiError('TOO_LARGE', {
      message: `A request may hold at most ${MAX_TEXT} characters of text; this one holds ${length}.`,
    })
}
