/** The embedded chat vendor: a small deterministic program that says so at the head of its answers. */
import { createHash } from 'node:crypto'
import type { ChatStream, ChatVendor, Fields, Json } from '../../../core/mod.ts'
import { record } from '../lib/refusals.ts'

export type EchoOptions = {
  countTokens(text: string): Promise<number>
  /** Milliseconds since 1970, for `created`, which is 0 without it. */
  readonly now?: () => number
}

export const ECHO_LABEL = '(Farebox parrot: a small deterministic program, not a model.)'

const MAX_SENTENCES = 1_000
const MAX_QUOTE = 200
/** Characters of a message in which names of functions and numbers are looked for. */
const MAX_LOOK = 10_000
/** Values and characters that a schema may make, so that one that names itself comes to an end. */
const MAX_VALUES = 500
const MAX_CHARACTERS = 100_000
const MAX_ITEMS = 100

type Tool = { readonly name: string; readonly parameters: unknown }
type Head = { readonly id: string; readonly created: number; readonly model: string }
/** A reading of the order, lenient: what it does not understand it passes over. */
type Talk = {
  /** Text of each message, with the calls that it carries. */
  readonly texts: readonly string[]
  /** The last words of the user. */
  readonly words: string
  /** What tools answered last; empty where the last message is no tool's. */
  readonly results: readonly string[]
  readonly images: number
  /** The function to call, if any. */
  readonly tool: Tool | undefined
  readonly format: Readonly<Record<string, unknown>>
  readonly isReasoning: boolean
  readonly stops: readonly string[]
  /** Tokens that the answer may have. */
  readonly most: number
}
type Speech = {
  readonly reasoning: string
  readonly content: string
  readonly call?: { readonly name: string; readonly text: string }
}
type Said = Speech & { readonly finish: 'stop' | 'length' | 'tool_calls'; readonly usage: Fields }
type Count = (text: string) => Promise<number>

/**
 * Answers with words of the last message, makes the tool calls and the JSON that it is asked for, and counts its tokens. The same order
 * gets the same answer, id included. It sees no images, makes one choice whatever `n` says, and never more than one tool call.
 */
export function echoProvider({ countTokens, now = () => 0 }: EchoOptions): ChatVendor {
  return {
    wire: 'chat',
    async ask({ wire, model, body, stream }, { signal }) {
      signal.throwIfAborted()
      if (wire !== 'chat') throw new Error(`the parrot speaks chat, not ${wire}`)
      const count: Count = async (text) => {
        const tokens = text === '' ? 0 : await countTokens(text)
        signal.throwIfAborted()
        return tokens
      }
      const talk = read(body)
      const id = createHash('sha256')
        .update(JSON.stringify([model, body]))
        .digest('hex')
        .slice(0, 24)
      const head: Head = { id: `chatcmpl-${id}`, created: Math.floor(now() / 1000), model }
      const said = await measured(think(talk), talk, count)
      return stream
        ? { kind: 'stream', stream: pulled(events(head, said), signal) }
        : { kind: 'whole', body: whole(head, said) }
    },
  }
}

// ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────

function read(body: Fields): Talk {
  const messages = list(body.messages).map(record)
  const words = textOf(messages.findLast(({ role }) => role === 'user'))
  const isTool = ({ role }: Readonly<Record<string, unknown>>) => role === 'tool' || role === 'function'
  const results = messages.slice(messages.findLastIndex((message) => !isTool(message)) + 1).map(textOf)
  const parts = messages.flatMap(({ content }) => list(content)).map(record)
  const effort = body.reasoning_effort
  const most = [body.max_completion_tokens, body.max_tokens].find((value) => typeof value === 'number' && value >= 1)
  return {
    texts: messages.map(
      (message) =>
        textOf(message) +
        list(message.tool_calls)
          .map((call) => callOf(call))
          .join(''),
    ),
    words,
    results,
    images: parts.filter(({ type }) => type === 'image_url').length,
    tool: results.length > 0 ? undefined : chosen(body, words),
    format: record(body.response_format),
    isReasoning: typeof effort === 'string' && effort !== 'none',
    stops: (typeof body.stop === 'string' ? [body.stop] : list(body.stop))
      .filter((stop) => typeof stop === 'string')
      .filter((stop) => stop !== ''),
    most: typeof most === 'number' ? most : Number.POSITIVE_INFINITY,
  }
}

/** The function that `tool_choice` demands, or that the user speaks of; the first of them where he only says "call". */
function chosen({ tools, tool_choice: choice }: Fields, words: string): Tool | undefined {
  const functions = list(tools).map((tool) => record(record(tool).function))
  const known = functions.flatMap(({ name, parameters }) =>
    typeof name === 'string' && name !== '' ? [{ name, parameters }] : [],
  )
  if (choice === 'none') return undefined
  const looked = words.slice(0, MAX_LOOK)
  const named = known.find(({ name }) => looked.includes(name))
  const demanded = record(record(choice).function).name
  if (demanded !== undefined) return known.find(({ name }) => name === demanded)
  return choice === 'required' || /\bcall\b/i.test(looked) ? (named ?? known[0]) : named
}

function textOf(message: Readonly<Record<string, unknown>> = {}): string {
  const { content } = message
  if (typeof content === 'string') return content
  const texts = list(content).map((part) => record(part).text)
  return texts.filter((text) => typeof text === 'string').join('\n')
}

function callOf(call: unknown): string {
  const { name, arguments: text } = record(record(call).function)
  return `${typeof name === 'string' ? name : ''}${typeof text === 'string' ? text : ''}`
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

// ── thinking ────────────────────────────────────────────────────────────────────────────────────────────────────────

function think({ words, results, images, tool, format, isReasoning, stops }: Talk): Speech {
  const many = split(words).length
  const reasoning = isReasoning
    ? `The last message has ${counted(many, 'word')}. ${tool ? `It asks for ${tool.name}.` : 'It asks for an answer.'}`
    : ''
  if (tool) {
    const made = filled(tool.parameters, words)
    return { reasoning, content: '', call: { name: tool.name, text: JSON.stringify(isObject(made) ? made : {}) } }
  }
  const schema = record(format.json_schema).schema
  if (format.type === 'json_schema' && schema !== undefined)
    return { reasoning, content: upTo(stops, JSON.stringify(filled(schema, words))) }
  if (format.type === 'json_object' || format.type === 'json_schema') {
    return {
      reasoning,
      content: upTo(stops, JSON.stringify({ note: ECHO_LABEL, you_said: quoted(words), words: many })),
    }
  }
  const seen = images > 0 ? [`You sent ${counted(images, 'image')}, which it cannot see.`] : []
  return {
    reasoning,
    content: upTo(stops, [ECHO_LABEL, ...seen, ...(results.length > 0 ? retold(results) : spoken(words))].join(' ')),
  }
}

function retold(results: readonly string[]): readonly string[] {
  return results.map((result) => `The tool answered: ${JSON.stringify(quoted(result))}.`)
}

function spoken(words: string): readonly string[] {
  const wanted = /\bwrite\b\D{0,40}?(\d{1,9})\s{1,9}sentences?\b/i.exec(words)?.[1]
  if (wanted !== undefined)
    return Array.from({ length: Math.min(Number(wanted), MAX_SENTENCES) }, (_, index) => sentence(index))
  const all = split(words)
  if (all.length === 0) return ['You said nothing.']
  const longest = all.reduce((best, word) => (word.length > best.length ? word : best))
  return [
    `You said: ${JSON.stringify(quoted(words))}.`,
    `That is ${counted(all.length, 'word')}; the longest is ${JSON.stringify(clipped(longest, 40))}.`,
  ]
}

const WHO = [
  'The harbour',
  'A red fox',
  'The old clock',
  'My neighbour',
  'A quiet river',
  'The night train',
  'A lighthouse',
]
const DOES = [
  'remembers',
  'carries',
  'follows',
  'draws',
  'counts',
  'hides',
  'mends',
  'sells',
  'forgets',
  'finds',
  'keeps',
]
const WHAT = [
  'the morning',
  'seven stones',
  'an empty boat',
  'the long road',
  'a paper lantern',
  'the first snow',
  'a borrowed key',
  'the smallest coin',
  'a song',
  'the way home',
  'three maps',
  'the last word',
  'a blue door',
]

/** The lists have prime lengths, so that a thousand sentences differ. */
function sentence(index: number): string {
  return `${WHO[index % WHO.length]} ${DOES[index % DOES.length]} ${WHAT[index % WHAT.length]}.`
}

function upTo(stops: readonly string[], text: string): string {
  return text.slice(0, Math.min(text.length, ...stops.map((stop) => text.indexOf(stop)).filter((at) => at >= 0)))
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}

function quoted(text: string): string {
  const short = clipped(text.trim(), MAX_QUOTE)
  return short.length < text.trim().length ? `${short}…` : short
}

/** At most so many characters, none of them cut in half. */
function clipped(text: string, most: number): string {
  return Array.from(text.slice(0, 2 * most))
    .slice(0, most)
    .join('')
}

function split(text: string): readonly string[] {
  return text.match(/\S+/g) ?? []
}

// ── values after a schema ───────────────────────────────────────────────────────────────────────────────────────────

type Schema = Readonly<Record<string, unknown>>

const FORMATS: Readonly<Record<string, string>> = {
  date: '2026-01-01',
  time: '00:00:00Z',
  'date-time': '2026-01-01T00:00:00Z',
  email: 'parrot@example.com',
  uri: 'https://example.com/',
  uuid: '00000000-0000-4000-8000-000000000000',
  ipv4: '192.0.2.1',
}

/**
 * A value that a JSON schema allows: its required fields, the first of its choices, the user's words and numbers elsewhere. A `pattern` is
 * not obeyed; past MOST_VALUES and MOST_CHARACTERS values are null, and fields are left out.
 */
function filled(root: unknown, words: string): Json {
  const numbers = words.slice(0, MAX_LOOK).match(/(?<![\w.-])-?\d{1,15}(?:\.\d{1,6})?/g) ?? []
  let values = MAX_VALUES
  let room = MAX_CHARACTERS
  let used = 0
  return fill(root)

  function fill(node: unknown): Json {
    if (values-- <= 0 || room <= 0) return null
    const schema = merged(record(node))
    if (typeof schema.$ref === 'string') return fill(found(root, schema.$ref))
    const [given] = schema.const === undefined ? list(schema.enum) : [schema.const]
    if (given !== undefined) return spend(given as Json, JSON.stringify(given).length)
    const choices = [schema.anyOf, schema.oneOf].map(list).find((each) => each.length > 0)
    if (choices)
      return fill({
        ...schema,
        anyOf: [],
        oneOf: [],
        ...record(choices.find((choice) => record(choice).type !== 'null') ?? choices[0]),
      })
    switch (typeIn(schema)) {
      case 'object':
        return Object.fromEntries(list(schema.required).flatMap((name) => field(String(name), schema)))
      case 'array':
        return Array.from(
          { length: Math.min(Math.max(size(schema.minItems), Math.min(1, size(schema.maxItems, 1))), MAX_ITEMS) },
          () => fill(schema.items),
        )
      case 'integer':
      case 'number':
        return fitted(schema, Number(numbers[used++ % numbers.length] ?? 1))
      case 'boolean':
        return true
      case 'null':
        return null
      default:
        return own<string>(FORMATS, String(schema.format)) ?? string(schema)
    }
  }

  function field(name: string, { properties }: Schema): [string, Json][] {
    return room <= 0 ? [] : [[spend(name, name.length), fill(own(properties, name))]]
  }

  function string(schema: Schema): string {
    const text = lengthened(schema, words)
    return spend(text, text.length)
  }

  function spend<T>(value: T, characters: number): T {
    room -= characters
    return value
  }
}

/** With what `allOf` adds to it. */
function merged(schema: Schema): Schema {
  return list(schema.allOf)
    .map(record)
    .reduce<Schema>(
      (sum, { properties, required, ...rest }) => ({
        ...sum,
        ...rest,
        ...((sum.properties ?? properties) !== undefined && {
          properties: { ...record(sum.properties), ...record(properties) },
        }),
        required: [...new Set([...list(sum.required), ...list(required)])],
      }),
      schema,
    )
}

/** `#/$defs/name`, and nothing outside the schema. */
function found(root: unknown, ref: string): unknown {
  const steps = ref
    .split('/')
    .slice(1)
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
  return steps.reduce<unknown>((node, step) => own(node, step), root)
}

function typeIn(schema: Schema): unknown {
  const { type } = schema
  if (Array.isArray(type)) return type.find((each) => each !== 'null') ?? 'null'
  if (type !== undefined) return type
  if (schema.properties !== undefined || list(schema.required).length > 0) return 'object'
  if (schema.items !== undefined) return 'array'
  return schema.minimum !== undefined || schema.maximum !== undefined ? 'number' : 'string'
}

function fitted(
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

function lengthened({ minLength, maxLength }: Schema, words: string): string {
  return clipped(
    clipped(words.trim() || 'parrot', MAX_QUOTE).padEnd(Math.min(size(minLength), 10_000), '.'),
    size(maxLength, 10_000),
  )
}

function size(value: unknown, otherwise = 0): number {
  return typeof value === 'number' && value >= 0 ? Math.floor(value) : otherwise
}

function own<T = unknown>(value: unknown, name: string): T | undefined {
  return Object.hasOwn(record(value), name) ? (record(value)[name] as T) : undefined
}

function isObject(value: Json): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

// ── counting ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Cuts what is said to the tokens that it may have: the reasoning spends first. A call whose name is too long for them is not made. */
async function measured({ reasoning, content, call }: Speech, { texts, most }: Talk, count: Count): Promise<Said> {
  let prompt = 3
  for (const text of texts) prompt += (await count(text)) + 4
  const thought = await cut(reasoning, most, count)
  const name = call ? await count(call.name) : 0
  const said = await cut(call?.text ?? content, most - thought.tokens - name, count)
  const isCalled = call !== undefined && name <= most - thought.tokens
  const completion = thought.tokens + said.tokens + (isCalled ? name : 0)
  const ending = call ? 'tool_calls' : 'stop'
  return {
    reasoning: thought.text,
    content: call ? '' : said.text,
    ...(isCalled && { call: { name: call.name, text: said.text } }),
    finish: thought.isWhole && said.isWhole ? ending : 'length',
    usage: {
      prompt_tokens: prompt,
      completion_tokens: completion,
      total_tokens: prompt + completion,
      ...(thought.tokens > 0 && { completion_tokens_details: { reasoning_tokens: thought.tokens } }),
    },
  }
}

/** The longest head of a text that has no more than `most` tokens, give or take what a tokenizer makes of a cut word. */
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
    const size = await count(head)
    if (size > most) {
      high = middle
      continue
    }
    low = middle
    fits = { text: head, tokens: size, isWhole: false }
  }
  return fits
}

// ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────

function whole(head: Head, { reasoning, content, call, finish, usage }: Said): Fields {
  const calls = call && [{ id: callId(head), type: 'function', function: { name: call.name, arguments: call.text } }]
  const message = {
    role: 'assistant',
    content,
    ...(reasoning && { reasoning_content: reasoning }),
    ...(calls && { tool_calls: calls }),
  }
  return { ...head, object: 'chat.completion', choices: [{ index: 0, message, finish_reason: finish }], usage }
}

/** The same answer as events, made one at a time. */
function* events(head: Head, { reasoning, content, call, finish, usage }: Said): Generator<string> {
  const chunk = (choices: Json, more: Fields = {}) =>
    `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices, ...more })}\n\n`
  const delta = (part: Fields, reason: string | null = null) =>
    chunk([{ index: 0, delta: part, finish_reason: reason }])
  yield delta({ role: 'assistant', content: '' })
  for (const word of pieces(reasoning)) yield delta({ reasoning_content: word })
  for (const word of pieces(content)) yield delta({ content: word })
  if (call)
    yield delta({
      tool_calls: [{ index: 0, id: callId(head), type: 'function', function: { name: call.name, arguments: '' } }],
    })
  for (const word of pieces(call?.text ?? ''))
    yield delta({ tool_calls: [{ index: 0, function: { arguments: word } }] })
  yield delta({}, finish)
  yield chunk([], { usage })
  yield 'data: [DONE]\n\n'
}

function callId({ id }: Head): string {
  return id.replace('chatcmpl-', 'call_')
}

/** Words with the space that follows them; joined they are the text. */
function pieces(text: string): readonly string[] {
  return text.match(/\S+\s*|\s+/g) ?? []
}

function pulled(events: Iterator<string>, signal: AbortSignal): ChatStream {
  const encoder = new TextEncoder()
  let isOver = false
  return {
    async next() {
      if (isOver) return undefined
      signal.throwIfAborted()
      const { value, done } = events.next()
      isOver = done === true
      return isOver ? undefined : encoder.encode(value)
    },
    cancel() {
      isOver = true
    },
  }
}
