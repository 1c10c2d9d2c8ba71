/**
 * The echo model: a small deterministic program that repeats its user, and says at the head of its answers that it is
 * no model.
 */
import { createHash } from 'node:crypto'
import type { ChatStream, ChatVendor, Fields, Json } from '../../../core/mod.ts'
import { record } from '../../http/error_replies.ts'

/** `now` in milliseconds since 1970, for `created`, which is 0 without it. */
export type EchoOptions = { countTokens(text: string): Promise<number>; readonly now?: () => number }

/**
 * How every answer of the echo model begins.
 *
 * @example
 * const isEcho = text.includes(ECHO_LABEL)
 */
export const ECHO_LABEL = '(Farebox echo: a small deterministic program, not a model.)'

const MAX_SENTENCES = 1_000
const MAX_QUOTE = 200
/** Characters of a message in which names of functions and numbers are looked for. */
const MAX_SCANNED = 10_000
/** Values, items and characters that a schema may make, so that one that names itself comes to an end. */
const [MAX_VALUES, MAX_ITEMS, MAX_CHARACTERS] = [500, 100, 100_000]

type Tool = { readonly name: string; readonly parameters: unknown }
type Head = { readonly id: string; readonly created: number; readonly model: string }
type Schema = Readonly<Record<string, unknown>>
type Speech = {
  readonly reasoning: string
  readonly content: string
  readonly call?: { readonly name: string; readonly text: string }
}
type Reply = Speech & { readonly finish: 'stop' | 'length' | 'tool_calls'; readonly usage: Fields }
type Count = (text: string) => Promise<number>

/**
 * Answers with words of the last message, makes the tool calls and the JSON that it is asked for, and counts its
 * tokens. The same order gets the same answer, id included. It sees no images, makes one choice whatever `n` says, and
 * never more than one tool call.
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
      const id = createHash('sha256')
        .update(JSON.stringify([model, body]))
        .digest('hex')
        .slice(0, 24)
      const head: Head = { id: `chatcmpl-${id}`, created: Math.floor(now() / 1000), model }
      const reply = await measured(speechFor(body), body, count)
      return stream
        ? { kind: 'stream', stream: pulled(events(head, reply), signal) }
        : { kind: 'whole', body: whole(head, reply) }
    },
  }
}

// ── what it says ────────────────────────────────────────────────────────────────────────────────────────────────────

const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`
/** At most so many characters, none of them cut in half. */
const clipped = (text: string, most: number): string =>
  Array.from(text.slice(0, 2 * most))
    .slice(0, most)
    .join('')

function quoted(text: string): string {
  const short = clipped(text.trim(), MAX_QUOTE)
  return JSON.stringify(short.length < text.trim().length ? `${short}…` : short)
}

function textOf({ content }: Schema = {}): string {
  if (typeof content === 'string') return content
  return list(content)
    .map((part) => record(part).text)
    .filter((text) => typeof text === 'string')
    .join('\n')
}

/** What the order makes it say, before anything is cut. It passes over what it does not understand. */
function speechFor(body: Fields): Speech {
  const messages = list(body.messages).map(record)
  const words = textOf(messages.findLast(({ role }) => role === 'user'))
  const results = messages
    .slice(messages.findLastIndex(({ role }) => role !== 'tool' && role !== 'function') + 1)
    .map(textOf)
  const images = messages
    .flatMap(({ content }) => list(content))
    .filter((part) => record(part).type === 'image_url').length
  const all = words.match(/\S+/g) ?? []
  const tool = results.length > 0 ? undefined : chosen(body, words)
  const isReasoning = typeof body.reasoning_effort === 'string' && body.reasoning_effort !== 'none'
  const reasoning = isReasoning
    ? `The last message has ${counted(all.length, 'word')}. It asks for ${tool?.name ?? 'an answer'}.`
    : ''
  if (tool) {
    const made = filled(tool.parameters, words)
    return {
      reasoning,
      content: '',
      call: {
        name: tool.name,
        text: JSON.stringify(typeof made === 'object' && !Array.isArray(made) && made ? made : {}),
      },
    }
  }
  const { type, json_schema: schema } = record(body.response_format)
  const shape = type === 'json_schema' ? record(schema).schema : undefined
  const whole = () => {
    if (shape !== undefined) return JSON.stringify(filled(shape, words))
    if (type === 'json_object' || type === 'json_schema')
      return JSON.stringify({ note: ECHO_LABEL, you_said: JSON.parse(quoted(words)), words: all.length })
    const seen = images > 0 ? [`You sent ${counted(images, 'image')}, which it cannot see.`] : []
    const answers = results.map((result) => `The tool answered: ${quoted(result)}.`)
    return [ECHO_LABEL, ...seen, ...(answers.length > 0 ? answers : spoken(words, all))].join(' ')
  }
  const stops = [body.stop].flat().filter((stop) => typeof stop === 'string' && stop !== '') as string[]
  const text = whole()
  return {
    reasoning,
    content: text.slice(0, Math.min(text.length, ...stops.map((stop) => text.indexOf(stop)).filter((at) => at >= 0))),
  }
}

/** The function that `tool_choice` demands, or that the user speaks of; the first of them where he only says "call". */
function chosen({ tools, tool_choice: choice }: Fields, words: string): Tool | undefined {
  const known = list(tools)
    .map((tool) => record(record(tool).function))
    .flatMap(({ name, parameters }) => (typeof name === 'string' && name ? [{ name, parameters }] : []))
  const looked = words.slice(0, MAX_SCANNED)
  const named = known.find(({ name }) => looked.includes(name))
  const demanded = record(record(choice).function).name
  if (choice === 'none') return undefined
  if (demanded !== undefined) return known.find(({ name }) => name === demanded)
  return choice === 'required' || /\bcall\b/i.test(looked) ? (named ?? known[0]) : named
}

function spoken(words: string, all: readonly string[]): readonly string[] {
  const wanted = /\bwrite\b\D{0,40}?(\d{1,9})\s{1,9}sentences?\b/i.exec(words)?.[1]
  if (wanted !== undefined)
    return Array.from(
      { length: Math.min(Number(wanted), MAX_SENTENCES) },
      (_, at) => `This is sentence ${at + 1} of an echo.`,
    )
  if (all.length === 0) return ['You said nothing.']
  const longest = all.reduce((best, word) => (word.length > best.length ? word : best))
  return [
    `You said: ${quoted(words)}.`,
    `That is ${counted(all.length, 'word')}; the longest is ${JSON.stringify(clipped(longest, 40))}.`,
  ]
}

// ── values after a schema ───────────────────────────────────────────────────────────────────────────────────────────

const FORMATS: Schema = {
  date: '2026-01-01',
  time: '00:00:00Z',
  'date-time': '2026-01-01T00:00:00Z',
  email: 'echo@example.com',
  uri: 'https://example.com/',
  uuid: '00000000-0000-4000-8000-000000000000',
  ipv4: '192.0.2.1',
}

const own = (value: unknown, name: string): unknown =>
  Object.hasOwn(record(value), name) ? record(value)[name] : undefined
const size = (value: unknown, otherwise: number): number =>
  typeof value === 'number' && value >= 0 ? Math.floor(value) : otherwise

/**
 * A value that a JSON schema allows: its required fields, the first of its choices, the user's words and numbers
 * elsewhere. A `pattern` is not obeyed; past MAX_VALUES and MAX_CHARACTERS values are null, and fields are left out.
 */
function filled(root: unknown, words: string): Json {
  const numbers = words.slice(0, MAX_SCANNED).match(/(?<![\w.-])-?\d{1,15}(?:\.\d{1,6})?/g) ?? []
  let [values, room, used] = [MAX_VALUES, MAX_CHARACTERS, 0]
  const spend = <T>(value: T, characters: number): T => ((room -= characters), value)

  function fill(node: unknown): Json {
    if (values-- <= 0 || room <= 0) return null
    const schema = merged(record(node))
    if (typeof schema.$ref === 'string')
      return fill(
        schema.$ref
          .split('/')
          .slice(1)
          .reduce<unknown>((at, step) => own(at, step.replaceAll('~1', '/').replaceAll('~0', '~')), root),
      )
    const given = schema.const ?? list(schema.enum)[0]
    if (given !== undefined) return spend(given as Json, JSON.stringify(given).length)
    const choices = [schema.anyOf, schema.oneOf].map(list).find((each) => each.length > 0)
    if (choices)
      return fill({
        ...schema,
        anyOf: [],
        oneOf: [],
        ...record(choices.find((choice) => record(choice).type !== 'null') ?? choices[0]),
      })
    const type = typeIn(schema)
    if (type === 'boolean') return true
    if (type === 'null') return null
    if (type === 'integer' || type === 'number') return bounded(schema, Number(numbers[used++ % numbers.length] ?? 1))
    if (type === 'object') {
      const fields = list(schema.required).map(String)
      return Object.fromEntries(
        fields.flatMap((name) => (room <= 0 ? [] : [[spend(name, name.length), fill(own(schema.properties, name))]])),
      )
    }
    if (type === 'array') {
      const most = Math.min(size(schema.maxItems, MAX_ITEMS), MAX_ITEMS)
      return Array.from({ length: Math.min(Math.max(size(schema.minItems, 1), 1), most) }, () => fill(schema.items))
    }
    const known = own(FORMATS, String(schema.format))
    if (typeof known === 'string') return known
    const long = clipped(words.trim() || 'echo', MAX_QUOTE).padEnd(
      Math.min(size(schema.minLength, 0), MAX_SCANNED),
      '.',
    )
    const text = clipped(long, size(schema.maxLength, MAX_SCANNED))
    return spend(text, text.length)
  }
  return fill(root)
}

/** With what `allOf` adds to it. */
function merged(schema: Schema): Schema {
  return list(schema.allOf)
    .map(record)
    .reduce<Schema>((sum, part) => {
      const properties =
        sum.properties || part.properties
          ? { properties: { ...record(sum.properties), ...record(part.properties) } }
          : {}
      return { ...sum, ...part, ...properties, required: [...new Set([...list(sum.required), ...list(part.required)])] }
    }, schema)
}

function typeIn({ type, properties, required, items, minimum, maximum }: Schema): unknown {
  if (type !== undefined) return [type].flat().find((each) => each !== 'null') ?? 'null'
  if (properties !== undefined || list(required).length > 0) return 'object'
  if (items !== undefined) return 'array'
  return minimum !== undefined || maximum !== undefined ? 'number' : 'string'
}

function bounded(
  { type, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf }: Schema,
  wish: number,
): number {
  const number = (value: unknown, otherwise: number) => (typeof value === 'number' ? value : otherwise)
  const step = number(multipleOf, 1) || 1
  const low = Math.max(number(minimum, -Infinity), number(exclusiveMinimum, -Infinity) + step)
  const high = Math.min(number(maximum, Infinity), number(exclusiveMaximum, Infinity) - step)
  const within = low > high ? (low + high) / 2 : Math.min(Math.max(wish, low), high)
  if (type !== 'integer' && multipleOf === undefined) return within
  const down = Math.floor(within / step) * step
  return down < low ? down + step : down
}

// ── counting and writing ────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Cuts what is said to the tokens that it may have: the reasoning spends first. A call whose name is too long for them
 * is not made.
 */
async function measured({ reasoning, content, call }: Speech, body: Fields, count: Count): Promise<Reply> {
  const most =
    [body.max_completion_tokens, body.max_tokens].find(
      (value): value is number => typeof value === 'number' && value >= 1,
    ) ?? Infinity
  let prompt = 3
  for (const message of list(body.messages).map(record)) {
    const calls = list(message.tool_calls).map((each) => record(record(each).function))
    prompt +=
      4 +
      (await count(
        [textOf(message), ...calls.flatMap(({ name, arguments: text }) => [name, text])]
          .filter((text) => typeof text === 'string')
          .join(''),
      ))
  }
  const thought = await cut(reasoning, most, count)
  const name = call ? await count(call.name) : 0
  const output = await cut(call?.text ?? content, most - thought.tokens - name, count)
  const isCalled = call !== undefined && name <= most - thought.tokens
  const completion = thought.tokens + output.tokens + (isCalled ? name : 0)
  const ending = call ? 'tool_calls' : 'stop'
  const details = thought.tokens > 0 ? { completion_tokens_details: { reasoning_tokens: thought.tokens } } : {}
  return {
    reasoning: thought.text,
    content: call ? '' : output.text,
    ...(isCalled && { call: { name: call.name, text: output.text } }),
    finish: thought.isWhole && output.isWhole ? ending : 'length',
    usage: { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion, ...details },
  }
}

/**
 * The longest head of a text that has no more than `most` tokens, give or take what a tokenizer makes of a cut word.
 */
async function cut(
  text: string,
  most: number,
  count: Count,
): Promise<{ text: string; tokens: number; isWhole: boolean }> {
  const tokens = await count(text)
  if (tokens <= most) return { text, tokens, isWhole: true }
  const letters = Array.from(text)
  let fits = { text: '', tokens: 0, isWhole: false }
  for (let low = 0, high = letters.length; high - low > 1;) {
    const middle = (low + high) >> 1
    const head = letters.slice(0, middle).join('')
    const needed = await count(head)
    if (needed > most) high = middle
    else [low, fits] = [middle, { text: head, tokens: needed, isWhole: false }]
  }
  return fits
}

const callId = ({ id }: Head): string => id.replace('chatcmpl-', 'call_')

function whole(head: Head, { reasoning, content, call, finish, usage }: Reply): Fields {
  const calls = call && [{ id: callId(head), type: 'function', function: { name: call.name, arguments: call.text } }]
  const message = {
    role: 'assistant',
    content,
    ...(reasoning && { reasoning_content: reasoning }),
    ...(calls && { tool_calls: calls }),
  }
  return { ...head, object: 'chat.completion', choices: [{ index: 0, message, finish_reason: finish }], usage }
}

/** The same answer as events, word by word. */
function* events(head: Head, { reasoning, content, call, finish, usage }: Reply): Generator<string> {
  const chunk = (choices: Json, more: Fields = {}) =>
    `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices, ...more })}\n\n`
  const delta = (part: Fields, reason: string | null = null) =>
    chunk([{ index: 0, delta: part, finish_reason: reason }])
  const pieces = (text = '') => text.match(/\S+\s*|\s+/g) ?? []
  yield delta({ role: 'assistant', content: '' })
  for (const word of pieces(reasoning)) yield delta({ reasoning_content: word })
  for (const word of pieces(content)) yield delta({ content: word })
  if (call)
    yield delta({
      tool_calls: [{ index: 0, id: callId(head), type: 'function', function: { name: call.name, arguments: '' } }],
    })
  for (const word of pieces(call?.text)) yield delta({ tool_calls: [{ index: 0, function: { arguments: word } }] })
  yield delta({}, finish)
  yield chunk([], { usage })
  yield 'data: [DONE]\n\n'
}

function pulled(pieces: Iterator<string>, signal: AbortSignal): ChatStream {
  const encoder = new TextEncoder()
  let isOver = false
  return {
    async next() {
      if (isOver) return undefined
      signal.throwIfAborted()
      const { value, done } = pieces.next()
      isOver = done === true
      return isOver ? undefined : encoder.encode(value)
    },
    cancel() {
      isOver = true
    },
  }
}
