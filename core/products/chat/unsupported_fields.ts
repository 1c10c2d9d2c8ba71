/** Checks that all chat APIs share, before the quote: unsupported members and size limits (decision 42). */
import type { ChatFormat, ChatRow, ChatVendor } from '../../ports/vendors/chat.ts'
import { hasFunctions } from './model_rules.ts'
import { invalidParameter } from './request.ts'
import { ApiError } from '../../http/errors.ts'
import { quoted } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'
import { type Json, type Fields, isFields } from '../../lib/json.ts'
import { characters } from './token_estimate.ts'
import { unsupportedSettings } from './formats/generate_content/request.ts'

// ── unsupported members ─────────────────────────────────────────────────────────────────────────────────────────────

const EXTRA_CHARGE = 'is not supported: it has an extra charge, or refers to content of the operator. Leave it out.'
const MODEL_ROUTING = 'is not supported: it selects another model or vendor than the quoted one. Leave it out.'

/** Members that no chat API supports. Most are read by only some vendors, but all are refused. */
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
  deferred: 'is not supported: the answer is returned by the request itself. Leave it out.',
  models: MODEL_ROUTING,
  route: MODEL_ROUTING,
  provider: MODEL_ROUTING,
}
const UNSUPPORTED_NAMES = Object.keys(UNSUPPORTED)

/** Members of a request in any format. Throws INVALID_PARAMETER. */
export function checkExtras(body: Fields): void {
  for (const name of UNSUPPORTED_NAMES) if (isSet(body[name])) throw invalidParameter(name, UNSUPPORTED[name] ?? '')
  if (isSet(body.speed) && body.speed !== 'standard')
    throw invalidParameter('speed', 'must be standard; the fast mode costs more than the quote.')
  const { modalities } = body
  const isText = Array.isArray(modalities) && modalities.every((kind: Json) => kind === 'text')
  if (isSet(modalities) && !isText)
    throw invalidParameter('modalities', 'must be ["text"]; other modalities are not supported.')
}

/** Refuses members of other formats that would have no effect in chat. Throws INVALID_PARAMETER. */
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
      'is not supported in chat; set the form of the answer with response_format.',
    )
  for (const [at, message] of (body.messages as readonly Fields[]).entries()) {
    if (isSet(message.audio))
      throw invalidParameter(
        `messages.${at}.audio`,
        'refers to content of the operator, which is not supported; send the content itself.',
      )
  }
}

const isSet = (value: Json | undefined): boolean => value !== undefined && value !== null && value !== false

/** Types of tools that the caller runs. Others are run by a vendor, at a price that was not quoted. */
const TOOLS: readonly unknown[] = ['function', 'custom']

export function checkTools({ tools, functions }: Fields): void {
  for (const [at, tool] of entriesOf(tools)) {
    if (!isFields(tool)) throw refused(`tools.${at}`, 'must be an object')
    if (!TOOLS.includes(tool.type))
      throw invalidParameter(`tools.${at}.type`, 'must be function; tools that the vendor runs are not supported.')
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

/** The row, the API and the vendor that would answer. */
type AnswerSource = {
  readonly row: ChatRow
  readonly format: ChatFormat
  readonly vendor: Pick<ChatVendor, 'format' | 'translatesChat'> | undefined
}

/** Whether a chat request is sent to the vendor's responses API. */
export const usesResponsesApi = (row: ChatRow, body: Fields): boolean =>
  (row.toolsByResponses === true && (hasFunctions(body) || body.reasoning_effort === 'max')) ||
  (body.search_parameters ?? undefined) !== undefined

/** Whether the vendor returns several answers when `n` of them are quoted. */
export function supportsMultipleAnswers(body: Fields, { row, format, vendor }: AnswerSource): boolean {
  if (row.billing.mode !== 'paid' || format === 'messages' || format === 'responses') return false
  if (format === 'generate_content' && vendor?.format === format) return true
  const hasChatApi = vendor === undefined || vendor.format === 'chat' || vendor.format === 'responses'
  return row.multipleAnswers === true && hasChatApi && !vendor?.translatesChat && !usesResponsesApi(row, body)
}

// ── sizes ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Limits of turns, parts per turn and parts in all, which bound the cost of counting and translating. */
const MAX_TURNS = 10_000
const MAX_PARTS = 2_000
const MAX_TOTAL_PARTS = 20_000
export const MAX_TOOLS = 512

/** Most characters of text in a request; longer than the context window of any model. */
const MAX_TEXT = 8_388_608

/** Checked here instead of in the schema, which would validate every turn first. Throws INVALID_BODY. */
export function checkTurns(turns: Json | undefined, at: string): void {
  if (Array.isArray(turns) && turns.length > MAX_TURNS)
    throw refused(at, `may be at most ${MAX_TURNS}, got ${turns.length}`)
}

/** Counts the parts of a request, list by list. Throws INVALID_BODY that names the list over the limit. */
export function partCounter(): (parts: readonly unknown[], at: string) => void {
  let all = 0
  return (parts, at) => {
    all += parts.length
    if (parts.length > MAX_PARTS) throw refused(at, `may have at most ${MAX_PARTS} parts, got ${parts.length}`)
    if (all > MAX_TOTAL_PARTS) throw refused(at, `a request may have at most ${MAX_TOTAL_PARTS} parts in all`)
  }
}

/** Checks the number of parts, tool calls and tools. Throws INVALID_BODY. */
export function checkSizes({ messages, tools, functions }: Fields): void {
  const count = partCounter()
  for (const [at, { content, tool_calls }] of (messages as readonly Fields[]).entries()) {
    if (Array.isArray(content)) count(content, `messages.${at}.content`)
    if (Array.isArray(tool_calls)) count(tool_calls, `messages.${at}.tool_calls`)
  }
  const offered = [tools, functions].reduce((sum: number, list) => sum + (Array.isArray(list) ? list.length : 0), 0)
  if (offered > MAX_TOOLS) throw refused('tools', `may be at most ${MAX_TOOLS}, got ${offered}`)
}

/** `bound` is an upper bound of the length, so that only long texts are measured. Throws TOO_LARGE. */
export function checkLength(body: Fields, bound: number): void {
  if (bound <= MAX_TEXT) return
  const length = characters(body)
  if (length > MAX_TEXT)
    throw new ApiError('TOO_LARGE', {
      message: `A request may hold at most ${MAX_TEXT} characters of text; this one holds ${length}.`,
    })
}
