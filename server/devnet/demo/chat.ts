/** The echo model: a small deterministic program that repeats the user's message and states that it is not a model. */
import { createHash } from 'node:crypto'
import type { ChatStream, ChatVendor, Fields, Json } from '../../../core/mod.ts'
import { record } from '../../../adapters/http/error_replies.ts'
import { fillSchema } from './schema_values.ts'

/** `now` in milliseconds since 1970, for `created`, which is 0 without it. */
type EchoOptions = { countTokens(text: string): Promise<number>; readonly now?: () => number }

/**
 * How every answer of the echo model begins.
 *
 * @example
 * const isEcho = text.includes(ECHO_LABEL)
 */
export const ECHO_LABEL = '(Farebox echo: a small deterministic program, not a model.)'

/** `MAX_SEARCHED`: characters of a message that are searched for function names. */
const [MAX_SENTENCES, MAX_QUOTE, MAX_SEARCHED] = [1_000, 200, 10_000]

type Head = { readonly id: string; readonly created: number; readonly model: string }
type Answer = {
  readonly reasoning: string
  readonly content: string
  readonly call?: { readonly name: string; readonly text: string }
}
type CutAnswer = Answer & { readonly finish: string; readonly usage: Fields; readonly count: number }
type Count = (text: string) => Promise<number>
/**
 * Answers with words of the last message, makes the tool calls and the JSON that it is asked for, and counts its
 * tokens. Equal orders get equal answers, id included. It sees no images, makes `n` equal choices, and never more than
 * one tool call.
 *
 * @example
 * const chat = echoVendor({ countTokens })
 */
export function echoVendor({ countTokens, now = () => 0 }: EchoOptions): ChatVendor {
  return {
    format: 'chat',
    async ask({ format, model, body, stream }, { signal }) {
      signal.throwIfAborted()
      if (format !== 'chat') throw new Error(`the echo model speaks chat, not ${format}`)
      const count: Count = async (text) => {
        const tokens = text === '' ? 0 : await countTokens(text)
        signal.throwIfAborted()
        return tokens
      }
      const hash = createHash('sha256')
        .update(JSON.stringify([model, body]))
        .digest('hex')
      const head = { id: `chatcmpl-${hash.slice(0, 24)}`, created: Math.floor(now() / 1000), model }
      const answer = await cutToTokens(answerTo(body), body, count)
      if (!stream) return { kind: 'whole', body: wholeBody(head, answer) }
      return { kind: 'stream', stream: streamOf(events(head, answer), signal) }
    },
  }
}

const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
function quoted(text: string): string {
  const characters = Array.from(text.trim().slice(0, 2 * MAX_QUOTE + 2))
  return JSON.stringify(characters.slice(0, MAX_QUOTE).join('') + (characters.length > MAX_QUOTE ? '…' : ''))
}

function textOf({ content }: Fields = {}): string {
  if (typeof content === 'string') return content
  const texts = list(content).map((part) => record(part).text)
  return texts.filter((text) => typeof text === 'string').join('\n')
}

/** The whole answer, before it is cut. Ignores what it does not understand. */
function answerTo(body: Fields): Answer {
  const messages = list(body.messages).map((message) => record(message) as Fields)
  const words = textOf(messages.findLast(({ role }) => role === 'user'))
  const results = messages.slice(messages.findLastIndex(({ role }) => role !== 'tool' && role !== 'function') + 1)
  const tool = results.length > 0 ? undefined : chosenTool(body, words)
  const isReasoning = typeof body.reasoning_effort === 'string' && body.reasoning_effort !== 'none'
  const reasoning = isReasoning ? `The last message asks for ${tool?.name ?? 'an answer'}.` : ''
  if (tool) {
    const text = JSON.stringify(record(fillSchema(tool.parameters, words)))
    return { reasoning, content: '', call: { name: tool.name, text } }
  }
  const content = contentFor(body, words, results.map(textOf))
  const stops = [body.stop].flat().filter((stop) => typeof stop === 'string' && stop !== '') as string[]
  const ends = stops.map((stop) => content.indexOf(stop)).filter((at) => at >= 0)
  return { reasoning, content: content.slice(0, Math.min(content.length, ...ends)) }
}

function contentFor(body: Fields, words: string, results: readonly string[]): string {
  const { type, json_schema: schema } = record(body.response_format)
  if (type === 'json_schema') return JSON.stringify(fillSchema(record(schema).schema, words))
  if (type === 'json_object') return JSON.stringify({ note: ECHO_LABEL, you_said: JSON.parse(quoted(words)) })
  if (results.length > 0) return [ECHO_LABEL, ...results.map((each) => `The tool answered: ${quoted(each)}.`)].join(' ')
  const ordered = /\bwrite\b\D{0,40}?(\d{1,9})\s{1,9}sentences?\b/i.exec(words)?.[1]
  const count = Math.min(Number(ordered ?? 0), MAX_SENTENCES)
  const sentences = Array.from({ length: count }, (_, at) => `This is sentence ${at + 1} of an echo.`)
  return [ECHO_LABEL, ...(ordered === undefined ? [`You said: ${quoted(words)}.`] : sentences)].join(' ')
}

/** The function that `tool_choice` demands, or that the message names; the first one where it only says "call". */
function chosenTool({ tools, tool_choice: choice }: Fields, words: string) {
  if (choice === 'none') return undefined
  const known = list(tools)
    .map((tool) => record(record(tool).function))
    .flatMap(({ name, parameters }) => (typeof name === 'string' && name ? [{ name, parameters }] : []))
  const demanded = record(record(choice).function).name
  if (demanded !== undefined) return known.find(({ name }) => name === demanded)
  const searched = words.slice(0, MAX_SEARCHED)
  const named = known.find(({ name }) => searched.includes(name))
  return choice === 'required' || /\bcall\b/i.test(searched) ? (named ?? known[0]) : named
}

/** Cuts the answer to its token limit; the reasoning spends first. A call whose name does not fit is not made. */
async function cutToTokens({ reasoning, content, call }: Answer, body: Fields, count: Count): Promise<CutAnswer> {
  const limits = [body.max_completion_tokens, body.max_tokens]
  const limit = limits.find((value): value is number => typeof value === 'number' && value >= 1) ?? Infinity
  let prompt = 3
  for (const message of list(body.messages).map((each) => record(each) as Fields)) {
    const calls = list(message.tool_calls).map((each) => record(record(each).function))
    const texts = [textOf(message), ...calls.flatMap(({ name, arguments: text }) => [name, text])]
    prompt += 4 + (await count(texts.filter((text) => typeof text === 'string').join('')))
  }
  const thought = await cut(reasoning, limit, count)
  const name = call ? await count(call.name) : 0
  const answer = await cut(call?.text ?? content, limit - thought.tokens - name, count)
  const ending = call ? 'tool_calls' : 'stop'
  const isCalled = call !== undefined && name <= limit - thought.tokens
  const n = typeof body.n === 'number' ? body.n : 1
  const completion = n * (thought.tokens + answer.tokens + (isCalled ? name : 0))
  const details = thought.tokens > 0 ? { completion_tokens_details: { reasoning_tokens: n * thought.tokens } } : {}
  return {
    reasoning: thought.text,
    content: call ? '' : answer.text,
    ...(isCalled && { call: { name: call.name, text: answer.text } }),
    count: n,
    finish: thought.isWhole && answer.isWhole ? ending : 'length',
    usage: { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion, ...details },
  }
}

/** The longest start of a text that has no more than `limit` tokens, approximately where a word is cut. */
async function cut(text: string, limit: number, count: Count) {
  const tokens = await count(text)
  if (tokens <= limit) return { text, tokens, isWhole: true }
  const letters = Array.from(text)
  let fits = { text: '', tokens: 0, isWhole: false }
  for (let low = 0, high = letters.length; high - low > 1;) {
    const middle = (low + high) >> 1
    const start = letters.slice(0, middle).join('')
    const needed = await count(start)
    if (needed > limit) high = middle
    else [low, fits] = [middle, { text: start, tokens: needed, isWhole: false }]
  }
  return fits
}

const callOf = ({ id }: Head, name: string, text: string) => {
  return { id: id.replace('chatcmpl-', 'call_'), type: 'function', function: { name, arguments: text } }
}

function wholeBody(head: Head, { reasoning, content, call, finish, usage, count }: CutAnswer): Fields {
  const thought = reasoning ? { reasoning_content: reasoning } : {}
  const calls = call && { tool_calls: [callOf(head, call.name, call.text)] }
  const message = { role: 'assistant', content, ...thought, ...calls }
  const choices = Array.from({ length: count }, (_, index) => ({ index, message, finish_reason: finish }))
  return { ...head, object: 'chat.completion', choices, usage }
}

/** The same answer as server-sent events, word by word. */
function* events(head: Head, { reasoning, content, call, finish, usage, count }: CutAnswer): Generator<string> {
  const chunk = (choices: Json, more: Fields = {}) =>
    `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices, ...more })}\n\n`
  const delta = (part: Fields, finish_reason: string | null = null) =>
    Array.from({ length: count }, (_, index) => chunk([{ index, delta: part, finish_reason }])).join('')
  const wordsOf = (text = '') => text.match(/\S+\s*|\s+/g) ?? []
  yield delta({ role: 'assistant', content: '' })
  for (const word of wordsOf(reasoning)) yield delta({ reasoning_content: word })
  for (const word of wordsOf(content)) yield delta({ content: word })
  if (call) yield delta({ tool_calls: [{ index: 0, ...callOf(head, call.name, '') }] })
  for (const word of wordsOf(call?.text)) yield delta({ tool_calls: [{ index: 0, function: { arguments: word } }] })
  yield delta({}, finish)
  yield chunk([], { usage })
  yield 'data: [DONE]\n\n'
}

function streamOf(written: Iterator<string>, signal: AbortSignal): ChatStream {
  const encoder = new TextEncoder()
  let isOver = false
  return {
    async next() {
      if (isOver) return undefined
      signal.throwIfAborted()
      const { value, done } = written.next()
      isOver = done === true
      return isOver ? undefined : encoder.encode(value)
    },
    cancel() {
      isOver = true
    },
  }
}
