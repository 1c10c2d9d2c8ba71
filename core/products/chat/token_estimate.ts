/**
 * Estimates the prompt tokens of a chat request before payment. The published rule: a message costs the tokens of its
 * text plus 4, priming the reply costs 3; tools and a JSON schema cost the tokens of their JSON; images, audio and
 * files are counted by size.
 */
import { boundedMap } from '../../lib/bounded_map.ts'
import { bytesToHex } from '@noble/hashes/utils'
import type { ChatRow, CountOptions, CountTokens, ImageTokens } from '../../ports/vendors/chat.ts'
import { pictureOf } from '../../lib/image_bytes.ts'
import { newSha256 } from '../../lib/hashes.ts'
import type { Json, Fields } from '../../lib/json.ts'

/** `total` is the sum of `text`, `images` and `tools`. Overheads, a schema, audio and files are in `text`. */
type PromptEstimate = {
  readonly total: number
  readonly text: number
  readonly images: number
  readonly tools: number
  /** Tokens of each message, with overhead, images and attachments. Infinity where it was not counted. */
  readonly messages: readonly number[]
}

const PER_MESSAGE = 4
const PRIMING = 3

type Estimating = {
  readonly row: Pick<ChatRow, 'images'>
  readonly countTokens: CountTokens
  /**
   * Counting stops when the total exceeds this: the total is then a lower bound, and older messages are not counted.
   */
  readonly limit?: number
}

/**
 * Estimates the prompt of a chat-completions request. The text of a message is its text parts, `reasoning_content`,
 * `name`, and the name and arguments of its tool calls, joined by line breaks. Parts without a rule cost the tokens of
 * their JSON. Parts that are never trimmed are counted first, then messages from the newest to the oldest (contract
 * 6.43). Throws only what `countTokens` throws.
 */
export async function estimatePrompt(
  body: Fields,
  { row, countTokens, limit = Number.POSITIVE_INFINITY }: Estimating,
): Promise<PromptEstimate> {
  const count = (text: string, sum: number) =>
    text === '' ? 0 : countTokens(text, { limit: Math.max(0, limit - sum) })
  const messageList = listOf(body.messages)
  const messages = messageList.map(() => Number.POSITIVE_INFINITY)
  const tools = await count(toolsText(body), PRIMING)
  let total = PRIMING + tools
  total += await count(schemaText(body), total)
  let images = 0
  for (const at of countingOrder(messageList)) {
    if (total > limit) break
    const read = readMessage(messageList[at] ?? null, (image) => imageTokens(ruleOf(row), image))
    const overhead = PER_MESSAGE + read.images + read.attachments
    const counted = count(read.text, total + overhead)
    // An agent sends a hundred messages that were counted before: none of them waits for a turn.
    const tokens = overhead + (typeof counted === 'number' ? counted : await counted)
    images += read.images
    total += tokens
    messages[at] = tokens
  }
  return { total, text: total - images - tools, images, tools, messages }
}

/** Indexes of messages: system messages, which are never trimmed, then turns, newest first. */
function countingOrder(messages: readonly Json[]): readonly number[] {
  const fixed: number[] = []
  const turns: number[] = []
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at]
    const isFixed = isFields(message) && (message.role === 'system' || message.role === 'developer')
    if (isFixed) fixed.push(at)
    else turns.push(at)
  }
  return [...fixed, ...turns.reverse()]
}

/**
 * An upper bound of the prompt's tokens, in one pass without counting tokens or decoding images: a token is at least
 * one byte of UTF-8. The estimate never exceeds it, so a request that fits by it needs no counting.
 */
export function upperBound(body: Fields, row: Pick<ChatRow, 'images'>): number {
  let bound = PRIMING + maxUtf8Bytes(toolsText(body)) + maxUtf8Bytes(schemaText(body))
  for (const message of listOf(body.messages)) {
    const content = readMessage(message, () => MAX_PER_IMAGE[ruleOf(row)])
    bound += PER_MESSAGE + maxUtf8Bytes(content.text) + content.images + content.attachments
  }
  return bound
}

/** Number of characters of text in a request. */
export function characters(body: Fields): number {
  const texts = listOf(body.messages).map((message) => readMessage(message, () => 0).text)
  return [...texts, toolsText(body), schemaText(body)].reduce((sum, text) => sum + codePointCount(text), 0)
}

// ── messages ────────────────────────────────────────────────────────────────────────────────────────────────────────

type Image = { readonly url: string; readonly isLow: boolean }
type MessageContent = { readonly text: string; readonly images: number; readonly attachments: number }

function readMessage(message: Json, costOf: (image: Image) => number): MessageContent {
  if (!isFields(message)) return { text: jsonOf(message), images: 0, attachments: 0 }
  const { content = null, reasoning_content: reasoning, reasoning_blocks: blocks, name, tool_calls: calls } = message
  const isText = typeof content === 'string' && name === undefined && calls === undefined
  if (isText && reasoning === undefined && blocks === undefined) return { text: content, images: 0, attachments: 0 }
  const texts: string[] = []
  let images = 0
  let attachments = listOf(blocks).reduce(
    (sum: number, block) => sum + encryptedTokens(isFields(block) ? block.data : undefined),
    0,
  )
  for (const part of Array.isArray(content) ? (content as readonly Json[]) : []) {
    const image = imageOf(part)
    const size = image ? undefined : attachmentTokens(part)
    if (image) images += costOf(image)
    if (size !== undefined) attachments += size
    if (!image && size === undefined) texts.push(partText(part))
  }
  if (!Array.isArray(content)) texts.push(textOrJson(content))
  texts.push(textOrJson(reasoning), textOrJson(name), ...listOf(calls).map(callText))
  return { text: texts.filter((text) => text !== '').join('\n'), images, attachments }
}

function partText(part: Json): string {
  return isFields(part) && part.type === 'text' && typeof part.text === 'string' ? part.text : jsonOf(part)
}

function callText(call: Json): string {
  const called = isFields(call) ? call.function : undefined
  if (!isFields(called)) return jsonOf(call)
  return `${textOrJson(called.name)}\n${textOrJson(called.arguments)}`
}

function imageOf(part: Json): Image | undefined {
  if (!isFields(part) || part.type !== 'image_url') return undefined
  const image = isFields(part.image_url) ? part.image_url : { url: part.image_url ?? null }
  return typeof image.url === 'string' ? { url: image.url, isLow: image.detail === 'low' } : undefined
}

/** `tools`, and the `functions` of older clients. */
function toolsText({ tools, functions }: Fields): string {
  if (tools === undefined && functions === undefined) return ''
  return listText(tools) + listText(functions)
}

/** The JSON of lists, which the bound and the estimate of a request read both. */
const listTexts = new WeakMap<object, string>()

function listText(list: Json | undefined): string {
  if (!Array.isArray(list)) return textOrJson(list)
  const text = listTexts.get(list) ?? (list.length === 0 ? '' : jsonOf(list))
  listTexts.set(list, text)
  return text
}

function schemaText({ response_format: format }: Fields): string {
  return isFields(format) && format.type === 'json_schema' ? textOrJson(format.json_schema) : ''
}

// ── images, audio, files ────────────────────────────────────────────────────────────────────────────────────────────

/** Assumed size of an image behind a URL, or one that cannot be decoded. */
const UNKNOWN_SIZE = { width: 1024, height: 1024 }

/** Number of base64 characters that hold all bytes that `pictureOf` reads. */
const IMAGE_HEAD_CHARS = 4 * Math.ceil((1 << 20) / 3)

function imageTokens(rule: ImageTokens, { url, isLow }: Image): number {
  const comma = url.slice(0, 200).indexOf(',')
  const picture = pictureOf(url.slice(0, comma + 1 + IMAGE_HEAD_CHARS))
  return tokensOfSize(rule, typeof picture === 'string' ? UNKNOWN_SIZE : picture, isLow)
}

type ImageSize = { readonly width: number; readonly height: number }

/**
 * The vendors' published rules. Only `tiles_512` has `detail: low`. Images are never enlarged. `tiles_768` first fits
 * them into 3072x3072, so that a forged size in a header costs at most 16 tiles.
 */
function tokensOfSize(rule: ImageTokens, size: ImageSize, isLow: boolean): number {
  if (rule === 'area_750') {
    const { width, height } = scaled(size, 1568 / Math.max(size.width, size.height))
    return Math.ceil((width * height) / 750)
  }
  if (rule === 'tiles_768') {
    if (Math.max(size.width, size.height) <= 384) return 258
    return 258 * tiles(scaled(size, 3072 / Math.max(size.width, size.height)), 768)
  }
  if (rule === 'tiles_448') return 256 * (Math.min(6, tiles(size, 448)) + 1)
  if (isLow) return 85
  const fitted = scaled(size, 2048 / Math.max(size.width, size.height))
  return 85 + 170 * tiles(scaled(fitted, 768 / Math.min(fitted.width, fitted.height)), 512)
}

/** Upper bounds: 1568x1568, 4x4 tiles, 6 tiles plus one, 4x2 tiles. */
const MAX_PER_IMAGE: Readonly<Record<ImageTokens, number>> = {
  area_750: 3279,
  tiles_768: 4128,
  tiles_448: 1792,
  tiles_512: 1445,
}

/** Rows without a rule use that of the compatible APIs. */
function ruleOf(row: Pick<ChatRow, 'images'>): ImageTokens {
  return row.images ?? 'tiles_512'
}

function scaled({ width, height }: ImageSize, by: number): ImageSize {
  if (by >= 1) return { width, height }
  return { width: Math.max(1, Math.round(width * by)), height: Math.max(1, Math.round(height * by)) }
}

function tiles({ width, height }: ImageSize, side: number): number {
  return Math.ceil(width / side) * Math.ceil(height / side)
}

/** 32 tokens a second, at 32 kbit/s for compressed speech and at 16 bits and 16 kHz for WAV. */
const AUDIO_BYTES_PER_TOKEN = { compressed: 125, wav: 1_000 }
const FILE_BYTES_PER_TOKEN = 4

/** Tokens of encrypted reasoning, by its length: four characters a token. */
const encryptedTokens = (data: Json | undefined): number => (typeof data === 'string' ? Math.ceil(data.length / 4) : 0)

/** Tokens by the number of bytes; a file that starts with RIFF is WAV. Undefined for a part without bytes. */
function attachmentTokens(part: Json): number | undefined {
  if (!isFields(part)) return undefined
  const { type, input_audio: audio, file } = part
  if (type === 'input_audio' && isFields(audio) && typeof audio.data === 'string') {
    const data = base64Of(audio.data)
    return Math.ceil(data.bytes / (data.isRiff ? AUDIO_BYTES_PER_TOKEN.wav : AUDIO_BYTES_PER_TOKEN.compressed))
  }
  if (type !== 'file' || !isFields(file) || typeof file.file_data !== 'string') return undefined
  return Math.ceil(base64Of(file.file_data).bytes / FILE_BYTES_PER_TOKEN)
}

/** Decoded size of a data URI or bare base64. Padding counts as data. */
function base64Of(text: string): { bytes: number; isRiff: boolean } {
  const start = text.slice(0, 200).indexOf(',') + 1
  return { bytes: Math.floor(((text.length - start) * 3) / 4), isRiff: text.startsWith('UklGR', start) }
}

// ── unexpected JSON ─────────────────────────────────────────────────────────────────────────────────────────────────

function isFields(value: Json | undefined): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function listOf(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? (value as readonly Json[]) : []
}

/** A string unchanged, '' for absent or null, JSON for anything else. */
function textOrJson(value: Json | undefined): string {
  if (value === undefined || value === null) return ''
  return typeof value === 'string' ? value : jsonOf(value)
}

/** Nesting levels beyond any real schema or message. */
const MAX_DEPTH = 200

/**
 * JSON, or for deeper nesting a text of about the same length: `JSON.stringify` takes half a second at 50,000 levels,
 * then throws.
 */
function jsonOf(value: Json): string {
  return isDeeper(value, MAX_DEPTH) ? leavesOf(value) : JSON.stringify(value)
}

/** Parsed JSON has no inherited members, and lists of values would cost more than the rest of the walk. */
function isDeeper(value: Json, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (levels === 0) return true
  if (Array.isArray(value)) return value.some((inner: Json) => isDeeper(inner, levels - 1))
  for (const name in value) if (isDeeper((value as Fields)[name] ?? null, levels - 1)) return true
  return false
}

function leavesOf(root: Json): string {
  const open: Json[] = [root]
  let text = ''
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    const names = isFields(value) ? Object.keys(value) : []
    const inner = isFields(value) ? Object.values(value) : listOf(value)
    text += typeof value === 'object' ? `[${names.join('":,"')}],` : `${JSON.stringify(value)},`
    for (const each of inner) open.push(each)
  }
  return text
}

function codePointCount(text: string): number {
  let pairs = 0
  for (let at = 0; at < text.length; at++) pairs += Number((text.charCodeAt(at) & 0xfc00) === 0xdc00)
  return text.length - pairs
}

/**
 * An upper bound of the length in UTF-8, by the runtime's encoder in pieces: a surrogate pair that is cut counts as six
 * bytes instead of four.
 */
function maxUtf8Bytes(text: string): number {
  let bytes = 0
  for (let at = 0; at < text.length; at += PIECE) {
    const piece = at === 0 && text.length <= PIECE ? text : text.slice(at, at + PIECE)
    bytes += utf8.encodeInto(piece, encoded).written
  }
  return bytes
}
const PIECE = 8_192
const utf8 = new TextEncoder()
/** Room for a piece: a UTF-16 unit takes three bytes at most. */
const encoded = new Uint8Array(3 * PIECE)

// ── cache ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Shorter texts are nearly as cheap to count again as to hash, where they are counted in place. */
const SHORTEST = 101
/** About 300 bytes each. A request comes without and with its payment, and an agent sends its conversation again. */
const MAX_MEMOIZED = 10_000

/**
 * `digest` is a collision-resistant hash; a runtime's own takes a tenth of the time for megabytes. Texts of fewer
 * characters than `shortest` are counted each time.
 */
type Remembering = { readonly entries?: number; readonly digest?: (text: string) => string; readonly shortest?: number }

type Counted = { readonly tokens: number; readonly isWhole: boolean }
type Missed = {
  readonly options: CountOptions
  readonly limit: number
  readonly key: string
  readonly before: Counted | Promise<Counted> | undefined
}

/**
 * Counts a text once, since a request is sent twice, without and with its payment, and most of a conversation with each
 * of its turns. Keeps hashes and counts, never text, and evicts the least recently used. Concurrent counts are shared,
 * failed ones are dropped. A count that stopped early answers only callers whose limit is as low.
 *
 * @example
 * const counted = memoized(countTokens, { entries: 500 })
 */
export function memoized(
  countTokens: CountTokens,
  {
    entries = MAX_MEMOIZED,
    digest = (text) => bytesToHex(newSha256().update(text).digest()),
    shortest = SHORTEST,
  }: Remembering = {},
): CountTokens {
  // A promise only while it is counted.
  const known = boundedMap<Counted | Promise<Counted>>(entries)
  return (text, options = {}) => {
    if (text.length < shortest) return countTokens(text, options)
    const { limit = Number.POSITIVE_INFINITY } = options
    const key = digest(text)
    const before = known.get(key)
    return before && !(before instanceof Promise) && (before.isWhole || before.tokens > limit)
      ? before.tokens
      : counted(text, { options, limit, key, before })
  }

  async function counted(text: string, { options, limit, key, before: first }: Missed): Promise<number> {
    for (let before = first; before !== undefined;) {
      const counted = before instanceof Promise ? await before.catch(() => undefined) : before
      if (counted && (counted.isWhole || counted.tokens > limit)) return counted.tokens
      const now = known.get(key)
      if (now === before || now === counted) break
      before = now
    }
    const counting = Promise.resolve(countTokens(text, options)).then((tokens) => ({
      tokens,
      isWhole: tokens <= limit,
    }))
    known.set(key, counting)
    counting.then(
      (counted) => {
        if (known.get(key) === counting) known.set(key, counted)
      },
      () => {
        if (known.get(key) === counting) known.delete(key)
      },
    )
    return (await counting).tokens
  }
}
