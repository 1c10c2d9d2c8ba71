/** The schema of a chat request, and the rules of its model that apply before the quote (contract 6.4). */
import { type Static, Type } from '@sinclair/typebox'
import { EFFORTS, type ChatMedium, type ChatRow, type ChatFormat } from '../../ports/vendors/chat.ts'
import { ApiError } from '../../http/errors.ts'
import { clip, isWebUrl, quoted } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'
import { pictureOf } from '../../lib/image_bytes.ts'
import { type Json, type Fields, isFields } from '../../lib/json.ts'

// ── the schema ──────────────────────────────────────────────────────────────────────────────────────────────────────

const text = Type.String()
const Day = Type.String({ pattern: '^\\d{4}-\\d{2}-\\d{2}$', description: 'YYYY-MM-DD' })
const Part = Type.Object({
  type: text,
  text: Type.Optional(text),
  image_url: Type.Optional(Type.Object({ url: text })),
})
const ToolCall = Type.Object({
  id: text,
  type: Type.Optional(text),
  function: Type.Object({ name: text, arguments: text }),
})

const Message = Type.Object({
  role: Type.Union(['system', 'developer', 'user', 'assistant', 'tool', 'function'].map((role) => Type.Literal(role))),
  content: Type.Optional(
    Type.Union([text, Type.Array(Part), Type.Null()], {
      description: 'Text, or parts: `{type: text}` and, for vision models, `{type: image_url}`.',
    }),
  ),
  tool_calls: Type.Optional(Type.Union([Type.Array(ToolCall), Type.Null()])),
  tool_call_id: Type.Optional(text),
  name: Type.Optional(Type.Union([text, Type.Null()])),
})

const SearchParameters = Type.Object({
  mode: Type.Optional(Type.Union(['auto', 'on', 'off'].map((mode) => Type.Literal(mode)))),
  sources: Type.Optional(Type.Array(Type.Unknown())),
  return_citations: Type.Optional(Type.Boolean()),
  from_date: Type.Optional(Day),
  to_date: Type.Optional(Day),
  max_search_results: Type.Optional(Type.Integer({ minimum: 1, maximum: 50 })),
})

const MAX_ANSWERS = 8
const Count = (description: string) => Type.Optional(Type.Integer({ minimum: 1, description }))

/** `model` is absent for /chat/{model}, whose path names it. Unknown members are forwarded unchanged. */
export const ChatBody = Type.Object({
  model: Type.Optional(
    Type.String({ minLength: 1, maxLength: 200, description: 'Id of a chat model, as listed by /api/v1/models.' }),
  ),
  messages: Type.Array(Message, {
    description: 'At least one user, assistant or tool message, and at most 10,000 in all.',
  }),
  max_tokens: Count('Most tokens of the answer. Default: the smaller of the model maximum and 8192.'),
  max_completion_tokens: Count('The same as max_tokens.'),
  temperature: Type.Optional(Type.Number({ minimum: 0, maximum: 2 })),
  top_p: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
  n: Type.Optional(
    Type.Integer({ minimum: 1, maximum: MAX_ANSWERS, description: 'Number of answers; each is quoted.' }),
  ),
  stream: Type.Optional(Type.Boolean({ description: 'Whether to stream the answer as server-sent events.' })),
  tools: Type.Optional(Type.Array(Type.Object({ type: text }), { maxItems: 512 })),
  tool_choice: Type.Optional(Type.Union([text, Type.Object({})])),
  response_format: Type.Optional(Type.Object({ type: text })),
  stop: Type.Optional(Type.Union([text, Type.Array(text)])),
  reasoning_effort: Type.Optional(Type.String({ description: `One of ${EFFORTS.join(', ')}.` })),
  thinking: Type.Optional(Type.Object({ type: text, budget_tokens: Type.Optional(Type.Integer({ minimum: 1 })) })),
  prompt_cache: Type.Optional(Type.Boolean({ description: 'Enables prompt caching, on models where it is opt-in.' })),
  search_parameters: Type.Optional(SearchParameters),
})
export type ChatBody = Static<typeof ChatBody>

// ── messages ────────────────────────────────────────────────────────────────────────────────────────────────────────

type MessageCheck = {
  readonly row: ChatRow
  readonly format: ChatFormat
  /** Whether the vendor gets the caller's body unchanged, so that parts unknown to chat are allowed. */
  readonly isNative: boolean
}

/** Checks messages beyond the schema. Throws EMPTY_CONVERSATION, INVALID_BODY, INVALID_IMAGE or INVALID_PARAMETER. */
export function checkMessages(messages: ChatBody['messages'], checking: MessageCheck): void {
  if (!messages.some(({ role }) => role !== 'system' && role !== 'developer')) {
    throw new ApiError('EMPTY_CONVERSATION', {
      message: 'messages must have at least one user, assistant or tool message.',
      param: 'messages',
    })
  }
  for (const [index, message] of messages.entries()) {
    const at = `messages.${index}`
    if (message.role === 'tool' && !message.tool_call_id)
      throw refused(`${at}.tool_call_id`, 'is required on a tool message')
    const hasNoContent = message.content === null || message.content === undefined
    if (hasNoContent && !(message.role === 'assistant'))
      throw refused(`${at}.content`, 'is required; only an assistant message with tool_calls may omit it')
    if (Array.isArray(message.content))
      message.content.forEach((part, index) =>
        checkPart(part as Fields | null, { ...checking, at: `${at}.content.${index}` }),
      )
  }
}

/** Other parts are resolved by vendors themselves, or are not counted in the quote. */
const PARTS: readonly unknown[] = ['text', 'image_url', 'input_audio', 'file', 'refusal']

function checkPart(part: Fields | null, { at, row, format, isNative }: MessageCheck & { readonly at: string }): void {
  if (!isFields(part)) throw refused(at, 'must be an object')
  const isVideo = format === 'generate_content' && part.type === 'video_url'
  if (!isNative && !isVideo && !PARTS.includes(part.type))
    throw invalidParameter(`${at}.type`, `must be one of ${PARTS.join(', ')}, got ${quoted(part.type)}.`)
  if (part.type === 'text' && typeof part.text !== 'string') throw refused(`${at}.text`, 'is required on a text part')
  if (part.type === 'file' && !isNative) checkFile(part.file, `${at}.file`)
  if (part.type === 'input_audio' && !isNative)
    checkBase64(isFields(part.input_audio) ? part.input_audio.data : undefined, `${at}.input_audio.data`)
  if (!reads(row, part)) throw unreadable(part, { at, row })
  if (part.type === 'image_url') checkImage(part.image_url, { at: `${at}.image_url.url`, row })
}

/** The kinds of parts that not every model reads. */
const MEDIA: ReadonlyMap<unknown, ChatMedium> = new Map([
  ['file', 'file'],
  ['input_audio', 'audio'],
  ['video_url', 'video'],
] as const)

/** Input modalities of a model, as the model list names them. */
export const inputModalities = ({ images, reads: media = [] }: ChatRow): readonly string[] => [
  'text',
  ...(images === undefined ? [] : ['image']),
  ...media,
]

/** Whether a model reads this part, images aside. */
function reads(row: ChatRow, { type }: Fields): boolean {
  const medium = MEDIA.get(type)
  return medium === undefined || row.reads?.includes(medium) === true
}

/** Whether a model reads every part of a request: it may stand in for another one only then. */
export const readsAll = (row: ChatRow, { messages }: Fields): boolean =>
  (messages as readonly Fields[]).every(
    ({ content }) =>
      !Array.isArray(content) ||
      content.every(
        (part) => !isFields(part) || (reads(row, part) && (part.type !== 'image_url' || row.images !== undefined)),
      ),
  )

function unreadable(part: Fields, { at, row }: { readonly at: string; readonly row: ChatRow }): ApiError {
  const { file_data } = isFields(part.file) ? part.file : {}
  const [, type = ''] =
    /^data:([\w.+/-]{1,100})[;,]/.exec(typeof file_data === 'string' ? file_data.slice(0, 120) : '') ?? []
  const medium = MEDIA.get(part.type) ?? 'file'
  return new ApiError('INVALID_PARAMETER', {
    message: `${row.id} cannot read ${NOUNS[medium]}${type === '' ? '' : ` (${type})`}; it reads ${inputModalities(row).join(', ')}. Choose a model whose input_modalities at GET /api/v1/models name ${medium}.`,
    param: `${at}.${String(part.type)}`,
  })
}

const NOUNS: Readonly<Record<ChatMedium, string>> = { file: 'files', audio: 'audio', video: 'video' }

/** A file must be inline: an id refers to the operator's account, and the content of a URL was not quoted. */
function checkFile(file: Json | undefined, at: string): void {
  if (!isFields(file)) throw refused(at, 'must be an object')
  for (const name of ['file_id', 'file_url']) {
    if ((file[name] ?? undefined) !== undefined)
      throw invalidParameter(`${at}.${name}`, 'is not supported; send the content itself, as file_data.')
  }
  checkBase64(file.file_data, `${at}.file_data`)
}

/** A data URI, or bare base64. */
function checkBase64(data: Json | undefined, at: string): void {
  if (typeof data !== 'string' || data === '') throw refused(at, 'is required, as base64')
  if (!/^(?:data:[^,]*,|[\w+/=\s-]*$)/i.test(data.slice(0, 200)))
    throw invalidParameter(at, 'must be the content itself, as base64 or a data URI; URLs are not supported.')
}

/** Hosts whose URLs a vendor would resolve to a video, or to a file of the operator. */
const NON_IMAGE_HOSTS =
  /(?:^|\.)(?:youtube\.com|youtube-nocookie\.com|youtu\.be|generativelanguage\.googleapis\.com)\.?$/

function checkImage(image: Json | undefined, { at: param, row }: { at: string; row: ChatRow }): void {
  const given = isFields(image) ? image.url : image
  const url = typeof given === 'string' ? given : ''
  if (!row.images)
    throw new ApiError('INVALID_PARAMETER', {
      message: `${row.id} does not accept images; choose a model of the category vision.`,
      param,
    })
  if (isWebUrl(url)) {
    if (NON_IMAGE_HOSTS.test(new URL(url).hostname))
      throw invalidImage(param, `must be the URL of an image, got ${quoted(url)}`)
    return
  }
  if (!url.startsWith('data:')) throw invalidImage(param, `must be an http(s) URL or a data URI, got ${quoted(url)}`)
  const dimensions = pictureOf(url)
  if (typeof dimensions === 'string') throw invalidImage(param, dimensions)
}

function invalidImage(param: string, why: string): ApiError {
  return new ApiError('INVALID_IMAGE', { message: `${param}: ${why}.`, param })
}

/** 400 for a parameter that the model or the gateway does not accept. */
export function invalidParameter(param: string, message: string): ApiError {
  return new ApiError('INVALID_PARAMETER', { message: `${param}: ${message}`, param })
}

/** Checks the numbers of the quote. Chat's schema covers them, but those of the other APIs do not cover all. */
export function checkCounts(body: Fields): void {
  for (const name of COUNTS) {
    const count = body[name]
    if (count === undefined || count === null) continue
    if (!Number.isSafeInteger(count) || (count as number) < 1)
      throw refused(name, `must be an integer of at least 1, got ${quoted(count)}`)
  }
  const { n } = body
  if (typeof n === 'number' && n > MAX_ANSWERS) throw refused('n', `must be at most ${MAX_ANSWERS}, got ${n}`)
}

/** Number of answers that a request asks for. */
export const answersOf = ({ n }: Fields): number => (typeof n === 'number' ? n : 1)

const COUNTS = ['max_tokens', 'max_completion_tokens', 'n'] as const

// ── sizes ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const DEFAULT_MAX_TOKENS = 8_192

/** The caller's limit, and the default where there is none. */
type OutputLimit = { readonly requested: number | undefined; readonly fallback?: number | undefined }

/** The effective `max_tokens`, clamped to the model's maximum and to the context window left by the prompt. */
export function outputCap(
  { requested, fallback = DEFAULT_MAX_TOKENS }: OutputLimit,
  row: ChatRow,
  promptTokens: number,
): { maxTokens: number; headers: Readonly<Record<string, string>> } {
  const left = Math.max(1, row.contextWindow - promptTokens)
  const maxTokens = Math.min(requested ?? fallback, row.maxOutput, left)
  return { maxTokens, headers: cappedHeaders(requested, maxTokens) }
}

/** Headers that report a limit below the caller's (contract 6.9). */
export function cappedHeaders(requested: number | undefined, maxTokens: number): Readonly<Record<string, string>> {
  if (requested === undefined || maxTokens === requested) return {}
  return {
    'x-max-tokens-capped': 'true',
    'x-max-tokens-requested': String(requested),
    'x-max-tokens-effective': String(maxTokens),
  }
}

/** The caller's limit, under either name. */
export function requestedTokens({ max_tokens, max_completion_tokens }: Fields): number | undefined {
  const given = max_tokens ?? max_completion_tokens
  return typeof given === 'number' ? given : undefined
}

/**
 * Trims a prompt that is too long to the system messages and the newest turns that fit (contract 6.43). A tool call and
 * its results stay together. Undefined where the system messages and the last turn do not fit.
 */
export function trimMessages(
  messages: readonly Fields[],
  tokens: readonly number[],
  budget: number,
): readonly Fields[] | undefined {
  const turns: number[][] = []
  let systemTokens = 0
  messages.forEach(({ role }, index) => {
    if (role === 'system' || role === 'developer') systemTokens += tokens[index] ?? 0
    else if ((role === 'tool' || role === 'function') && turns.length > 0) turns.at(-1)?.push(index)
    else turns.push([index])
  })
  const included = new Set<number>()
  let remaining = budget - systemTokens
  for (const turn of turns.toReversed()) {
    remaining -= turn.reduce((sum, index) => sum + (tokens[index] ?? 0), 0)
    if (remaining < 0) break
    for (const index of turn) included.add(index)
  }
  if (included.size === 0) return undefined
  return messages.filter(({ role }, index) => role === 'system' || role === 'developer' || included.has(index))
}

/** 400 with the ids of `rows` most similar to the requested one, and the URL of the full list. */
export function unknownModel(requestedModel: string, rows: readonly ChatRow[]): ApiError {
  const words = requestedModel
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter(Boolean)
  const matchingWords = ({ id, aliases }: ChatRow) =>
    words.filter((word) => [id, ...aliases].some((name) => name.includes(word))).length
  const listed = rows.filter(({ hidden }) => !hidden).map((row) => ({ id: row.id, matchingWords: matchingWords(row) }))
  const alternatives = listed
    .sort((a, b) => b.matchingWords - a.matchingWords)
    .slice(0, 8)
    .map(({ id }) => id)
  return new ApiError('INVALID_MODEL', {
    message: `Unknown model: ${clip(requestedModel)}. ${alternatives.length > 0 ? `Alternatives: ${alternatives.join(', ')}. ` : ''}All models: GET /api/v1/models.`,
    param: 'model',
    fields: { alternatives, models_url: '/api/v1/models' },
  })
}
