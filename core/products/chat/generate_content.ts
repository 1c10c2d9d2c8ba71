/** The generateContent API of vendor-b's clients, for payers on the operator's allowlist (contract 7.20, 7.22). */
import { Type } from '@sinclair/typebox'
import type { ChatRow } from '../../ports/vendors/chat.ts'
import { checkTurns, MAX_TOOLS, partCounter } from './unsupported_fields.ts'
import { invalidParameter } from './request.ts'
import { answerChat, requestRecord, type Translation } from './answer.ts'
import { isOpen } from './fallbacks.ts'
import { findRow, isChatOffered, sampleRow } from './offered_rows.ts'
import { chatPriceRange, quote, worstCost } from './quote.ts'
import { type ChatInput, countPrompt, sizeRequest } from './sized_request.ts'
import { chatCost } from './cost.ts'
import {
  type RequestHead,
  type Allowlist,
  free,
  streamed,
  type StreamedContext,
  type Offering,
} from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { quoted } from '../../lib/text.ts'
import { json } from '../../http/reply.ts'
import { inputParser, refused } from '../../http/request_body.ts'
import { type Json, type Fields, fieldsOf, isFields } from '../../lib/json.ts'
import { camel } from './formats/generate_content/parts.ts'
import { generateContentFromChatReply } from './formats/generate_content/reply.ts'
import { builtInTools, chatFromGenerateContent } from './formats/generate_content/request.ts'
import { generateContentFromChatStream } from './formats/generate_content/stream.ts'

const input = Type.Object({
  contents: Type.Array(
    Type.Object({ role: Type.Optional(Type.String()), parts: Type.Optional(Type.Array(Type.Object({}))) }),
    { minItems: 1 },
  ),
  systemInstruction: Type.Optional(Type.Object({})),
  tools: Type.Optional(Type.Array(Type.Object({}), { maxItems: MAX_TOOLS })),
  toolConfig: Type.Optional(Type.Object({})),
  generationConfig: Type.Optional(Type.Object({})),
  safetySettings: Type.Optional(Type.Array(Type.Object({}))),
})

const output = Type.Object({
  candidates: Type.Array(Type.Object({ content: Type.Object({}), finishReason: Type.Optional(Type.String()) })),
  usageMetadata: Type.Object({}),
})

const isOnSurface = ({ surfaces, billing }: ChatRow): boolean =>
  billing.mode !== 'free' && (surfaces ?? []).includes('generate_content')

/** Nobody may buy this where the operator lists no wallet. */
const ALLOWLIST = 'generate_content'

const shared = {
  tag: 'chat',
  input,
  output,
  uploads: true,
  errorFormat: 'generate_content',
  price: quote,
  worstCost,
  cost: chatCost,
  priceRange: (offering: Offering) => chatPriceRange(offering, { fits: isOnSurface }),
  isAvailable: isOpen,
  isOffered: (offering: Offering) =>
    (offering.allowlists?.[ALLOWLIST] ?? []).length > 0 && isChatOffered(isOnSurface)(offering),
  remember: requestRecord,
  allowlists: (): Allowlist => ({ name: ALLOWLIST, unset: 'nobody' }),
  sample: (): Fields => ({ contents: [{ role: 'user', parts: [{ text: 'Why is the sky blue?' }] }] }),
  answer: (order: Parameters<typeof answerChat>[0]) => answerChat(order, translation),
} as const

type Checked = { readonly row: ChatRow; readonly body: Fields }

/** The model that the path names and the checked body, in camelCase. */
function checkedRequest(request: Fields, model: string | undefined, context: StreamedContext): Checked {
  const body = camelCaseBody(request)
  const row = model === undefined ? anyRow(context) : findRow(model, context)
  if (!isOnSurface(row))
    throw new ApiError('INVALID_MODEL', {
      message: `${row.id} is not served by generateContent; POST /api/v1/chat/completions serves it.`,
      param: 'model',
    })
  if (body.contents === undefined) throw refused('contents', 'is required')
  const [served] = builtInTools(body)
  if (served !== undefined)
    throw invalidParameter(
      'tools',
      `${served} is run by the vendor at an extra charge and is not supported; declare functions instead.`,
    )
  if (body.cachedContent !== undefined)
    throw invalidParameter(
      'cachedContent',
      'refers to content of the operator, which is not supported; send the content itself.',
    )
  checkExtras(body)
  return { row, body }
}

const check =
  (stream: boolean) =>
  async (request: Readonly<Record<string, unknown>>, { params }: RequestHead, context: StreamedContext) => {
    const { row, body } = checkedRequest(request as Fields, params.model, context)
    return await sizeRequest(
      {
        row,
        format: 'generate_content',
        chat: chatFromGenerateContent(body),
        own: (size) => nativeBody(body, size),
        stream,
      },
      context,
    )
  }

/** Refuses members that cost more than the quote, or refer to content outside the request (decision 42). */
function checkExtras({ serviceTier, generationConfig, contents, systemInstruction }: Fields): void {
  const tier = serviceTier ?? fieldsOf(generationConfig).serviceTier ?? 'standard'
  if (tier !== 'standard') throw invalidParameter('serviceTier', `must be standard, got ${quoted(tier)}.`)
  const kinds = fieldsOf(generationConfig).responseModalities ?? 'TEXT'
  const others = (Array.isArray(kinds) ? (kinds as readonly Json[]) : [kinds]).filter((kind) => kind !== 'TEXT')
  if (others.length > 0)
    throw invalidParameter('generationConfig.responseModalities', `must be TEXT, got ${quoted(others[0])}.`)
  checkTurns(contents, 'contents')
  const count = partCounter()
  for (const [path, content] of (contents as readonly Fields[]).entries())
    checkParts(content, { path: `contents.${path}`, count, depth: MAX_DEPTH, isUser: content.role !== 'model' })
  checkParts(systemInstruction, { path: 'systemInstruction', count, depth: MAX_DEPTH, isUser: false })
}

/** Most levels of nesting: contents have parts, a part may answer a call, and that answer has media parts. */
const MAX_DEPTH = 16

/** Members with the caller's own JSON, in which vendors do not resolve files. */
const FREE_FORM: ReadonlySet<string> = new Set(['args', 'response', 'partMetadata', 'partmetadata'])

type PartCheck = {
  readonly path: string
  readonly count: ReturnType<typeof partCounter>
  readonly depth: number
  /** Only turns of the user may hold media: others are not read, and are not counted. */
  readonly isUser: boolean
}

/**
 * Refuses file references, which name files in the operator's account or URLs whose content was not quoted, and media
 * where they are not read.
 */
function checkParts(value: Json | undefined, { path, count, depth, isUser }: PartCheck): void {
  if (typeof value !== 'object' || value === null) return
  if (depth === 0) throw refused(path, 'is nested too deeply')
  if (Array.isArray(value)) {
    count(value, path)
    for (const [index, part] of (value as readonly Json[]).entries()) {
      if (part === null) throw refused(`${path}.${index}`, 'must be an object')
      checkParts(part, { path: `${path}.${index}`, count, depth: depth - 1, isUser })
    }
    return
  }
  for (const [spelling, inner] of Object.entries(value)) {
    const name = spelling.replaceAll('_', '')
    if (/^filedata$/i.test(name) && inner !== null)
      throw invalidParameter(`${path}.fileData`, 'is not supported; send the content itself, as inlineData.')
    if (/^inlinedata$/i.test(name) && inner !== null && !isUser)
      throw invalidParameter(`${path}.inlineData`, 'is not read here; send images, files and sounds in a user turn.')
    if (!FREE_FORM.has(name)) checkParts(inner, { path: `${path}.${name}`, count, depth: depth - 1, isUser })
  }
}

/** A discovery request without a body names no model. */
function anyRow(offering: Offering): ChatRow {
  const row = sampleRow(offering, isOnSurface)
  if (!row)
    throw new ApiError('NOT_CONFIGURED', {
      message: 'generate_content: the operator has not configured it. Nothing was charged.',
    })
  return row
}

const generate = streamed<ChatInput>({
  ...shared,
  name: 'generate_content',
  variantOf: 'chat.completions',
  path: '/api/v1beta/models/{model...}:generateContent',
  aliases: ['/api/v1/models/{model...}:generateContent'],
  summary: 'Create an answer with the generateContent API',
  description: 'For wallets on the allowlist of the operator. x-goog-api-key is ignored.',
  check: check(false),
})

const generateStream = streamed<ChatInput>({
  ...shared,
  name: 'generate_content.stream',
  variantOf: 'chat.completions',
  path: '/api/v1beta/models/{model...}:streamGenerateContent',
  aliases: ['/api/v1/models/{model...}:streamGenerateContent'],
  summary: 'Create an answer with the generateContent API, streamed',
  description: 'Server-sent events, with alt=sse or without. For wallets on the allowlist of the operator.',
  check: check(true),
})

// ── free ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** `generateContentRequest` holds a whole request, and `contents` its turns alone. */
const countInput = Type.Object({
  ...input.properties,
  contents: Type.Optional(input.properties.contents),
  generateContentRequest: Type.Optional(Type.Object({})),
})
const parseCountBody = inputParser(countInput, 'kept')

const countTokens = free({
  name: 'generate_content.count_tokens',
  method: 'POST',
  path: '/api/v1beta/models/{model...}:countTokens',
  aliases: ['/api/v1/models/{model...}:countTokens'],
  uploads: true,
  summary: 'Count the tokens of a generateContent request',
  description: 'Free. The prompt tokens that generateContent would quote for the same body.',
  tag: 'chat',
  errorFormat: 'generate_content',
  isOffered: shared.isOffered,
  input: countInput,
  limit: { requests: 120, windowMs: 60_000 },
  errors: ['INVALID_MODEL', 'INVALID_PARAMETER', 'INVALID_IMAGE', 'EMPTY_CONVERSATION', 'NOT_CONFIGURED'],
  sample: (offering) => ({ path: { model: sampleRow(offering, isOnSurface)?.id ?? '' }, body: shared.sample() }),
  output: Type.Object({ totalTokens: Type.Integer() }),
  async answer(request, context) {
    const given = camel(parseCountBody(await request.json()) as Fields)
    const { generateContentRequest: whole = given } = given
    const { row, body } = checkedRequest(fieldsOf(whole), request.params.model, context)
    const chat = chatFromGenerateContent(body)
    return json(200, { totalTokens: await countPrompt({ row, format: 'generate_content', chat }, context) })
  },
})

const modelSchema = Type.Object({
  name: Type.String({ description: '`models/` and the id.' }),
  displayName: Type.String(),
  description: Type.String(),
  inputTokenLimit: Type.Integer(),
  outputTokenLimit: Type.Integer(),
  supportedGenerationMethods: Type.Array(Type.String()),
})

const modelOf = ({ id, name, description, contextWindow, maxOutput }: ChatRow) => ({
  name: `models/${id}`,
  displayName: name,
  description,
  inputTokenLimit: contextWindow,
  outputTokenLimit: maxOutput,
  supportedGenerationMethods: ['generateContent', 'countTokens'],
})

const isSold = (offering: Offering, row: ChatRow): boolean =>
  isOnSurface(row) && offering.vendors.chat(row) !== undefined

const listModels = free({
  name: 'generate_content.models',
  path: '/api/v1beta/models',
  summary: 'List the models of the generateContent API',
  description: 'Free, and on one page. Prices are at GET /api/v1/models.',
  tag: 'models',
  errorFormat: 'generate_content',
  isOffered: shared.isOffered,
  output: Type.Object({ models: Type.Array(modelSchema) }),
  answer: (_request, offering) => {
    const rows = offering.catalog.chat.all.filter((row) => !row.hidden && isSold(offering, row))
    return json(200, { models: rows.map(modelOf) })
  },
})

const getModel = free({
  name: 'generate_content.model',
  path: '/api/v1beta/models/{model...}',
  summary: 'One model of the generateContent API',
  tag: 'models',
  errorFormat: 'generate_content',
  isOffered: shared.isOffered,
  errors: ['MODEL_NOT_FOUND'],
  sample: (offering) => ({ path: { model: sampleRow(offering, isOnSurface)?.id ?? '' } }),
  output: modelSchema,
  answer({ params: { model = '' } }, offering) {
    const row = offering.catalog.chat.get(model)
    if (row && isSold(offering, row)) return json(200, modelOf(row))
    throw new ApiError('MODEL_NOT_FOUND', {
      message: `There is no model ${quoted(model)} here. All models: GET /api/v1beta/models.`,
      param: 'model',
    })
  },
})

export const generateContent = [generate, generateStream, countTokens, listModels, getModel]

/**
 * Converts the request to camelCase: the vendor reads both spellings, and must read exactly what was quoted. It also
 * parses numbers out of strings, so those are refused where the quote depends on them.
 */
function camelCaseBody(request: Fields): Fields {
  const { generationConfig, ...body } = camel(request)
  if (generationConfig === undefined || generationConfig === null) return body
  if (!isFields(generationConfig))
    throw refused('generationConfig', `must be an object, got ${quoted(generationConfig)}`)
  const config = camel(generationConfig)
  for (const name of ['maxOutputTokens', 'candidateCount']) {
    const count = config[name] ?? undefined
    if (count !== undefined && typeof count !== 'number')
      throw refused(`generationConfig.${name}`, `must be a number, got ${quoted(count)}`)
  }
  return { ...body, generationConfig: config }
}

function nativeBody({ generationConfig, ...body }: Fields, { maxTokens }: { maxTokens: number }): Fields {
  return { ...body, generationConfig: { ...(generationConfig as Fields | undefined), maxOutputTokens: maxTokens } }
}

function translation({ id: model }: ChatRow): Translation {
  return {
    reply: (chat) => generateContentFromChatReply(chat, { model }),
    stream: () => generateContentFromChatStream({ model }),
  }
}
