/**
 * Promises of every chat vendor, as data. Nothing here looks at what is said: a stand-in may answer every order with
 * the same words.
 */
import { expect } from 'bun:test'
import { type ChatOrder, type ChatStream, type ChatVendor, ApiError, type Fields, type Json } from '../../core/mod.ts'
import { never, turn } from './abort.ts'
import { type Law, type Subject, waitLimitMs } from './law.ts'

/**
 * How an upstream behaves towards the orders that come from now on. `refuses`: 429, before anything else. `errs`: a
 * first event, then an error in the manner of its protocol. `breaks`: a first event, then the connection ends without
 * an end of stream. `stalls`: a first event if it streams, then nothing, on an open connection.
 */
export type Conduct = 'serves' | 'refuses' | 'errs' | 'breaks' | 'stalls'

/** A vendor under law. */
export type ChatHarness = {
  readonly vendor: ChatVendor
  /** The upstream's name of a model. */
  readonly model: string
  /** Absent for a program that has none; it excepts the laws that need one (`withoutUpstream`). */
  readonly upstream?: {
    conduct(conduct: Conduct): void | Promise<void>
    /**
     * Calls that the upstream is still at work on; never below zero. A cancelled one ends when the upstream sees that
     * its caller has gone.
     */
    inProgress(): number
  }
}

const USER = { role: 'user', content: 'What is the weather in Paris, in one sentence?' }
const PLAIN: Fields = { messages: [USER], max_tokens: 200 }
const NAME = 'get_weather'
const PARAMETERS = {
  type: 'object',
  properties: { city: { type: 'string' }, days: { type: 'integer' } },
  required: ['city'],
}
const TOOLS: Fields = {
  messages: [{ role: 'user', content: `Call ${NAME} for Paris.` }],
  tools: [{ type: 'function', function: { name: NAME, description: 'Tells the weather', parameters: PARAMETERS } }],
  tool_choice: 'required',
  max_tokens: 200,
}

// ── asking and reading; lenient, so that each law judges its own matter only ────────────────────────────────────────

const orderOf = (model: string, body: Fields, stream: boolean): ChatOrder => ({
  format: 'chat',
  model,
  body,
  stream,
  headers: {},
})

async function askWhole({ vendor, model }: ChatHarness, body: Fields, at = never()): Promise<any> {
  const answer = await vendor.ask(orderOf(model, body, false), at)
  if (answer.kind !== 'whole') throw new Error('a whole order was answered with a stream')
  return answer.body
}

async function askStream({ vendor, model }: ChatHarness, body: Fields, at = never()): Promise<ChatStream> {
  const answer = await vendor.ask(orderOf(model, body, true), at)
  if (answer.kind !== 'stream') throw new Error('an order for a stream was answered whole')
  return answer.stream
}

/** Its pieces, to the end. */
async function drain(stream: ChatStream): Promise<readonly string[]> {
  const pieces: string[] = []
  for (let piece = await stream.next(); piece; piece = await stream.next()) pieces.push(new TextDecoder().decode(piece))
  return pieces
}

const dataOf = (pieces: readonly string[]) =>
  [...pieces.join('').matchAll(/^data: ?(.*)$/gm)].map(([, data]) => data ?? '')
const chunksOf = (pieces: readonly string[]): any[] =>
  dataOf(pieces)
    .filter((data) => data !== '[DONE]')
    .map((data) => JSON.parse(data))

type Merged = {
  content: string
  reasoning: string
  calls: { id: unknown; type: unknown; name: string; text: string }[]
  finish: unknown
}

/** The deltas of the first choice, joined. */
function merged(chunks: readonly any[]): Merged {
  const sum: Merged = { content: '', reasoning: '', calls: [], finish: null }
  for (const { delta = {}, finish_reason } of chunks.flatMap(({ choices }) => choices ?? [])) {
    sum.content += delta.content ?? ''
    sum.reasoning += delta.reasoning_content ?? ''
    for (const call of delta.tool_calls ?? []) {
      const into = (sum.calls[call.index] ??= { id: undefined, type: undefined, name: '', text: '' })
      into.id ??= call.id
      into.type ??= call.type
      into.name += call.function?.name ?? ''
      into.text += call.function?.arguments ?? ''
    }
    sum.finish = finish_reason ?? sum.finish
  }
  return sum
}

/** A whole answer in the same form. */
function messageOf(body: any): Merged {
  const { message = {}, finish_reason: finish } = body.choices?.[0] ?? {}
  const calls = (message.tool_calls ?? []).map((call: any) => ({
    id: call.id,
    type: call.type,
    name: call.function?.name,
    text: call.function?.arguments,
  }))
  return { content: message.content ?? '', reasoning: message.reasoning_content ?? '', calls, finish }
}

/** Parts of an answer, whatever it says. */
const formOf = ({ content, calls, finish }: Merged) => ({
  speaks: content !== '',
  calls: calls.map(({ name }) => name),
  finish,
})

const streamed = async (harness: ChatHarness, body: Fields) =>
  merged(chunksOf(await drain(await askStream(harness, body))))
const wholly = async (harness: ChatHarness, body: Fields) => messageOf(await askWhole(harness, body))

function expectSum(usage: any): void {
  const counts = [usage?.prompt_tokens, usage?.completion_tokens, usage?.total_tokens]
  expect(counts.map((count) => Number.isInteger(count) && count >= 0)).toEqual([true, true, true])
  expect(usage.total_tokens).toBe(usage.prompt_tokens + usage.completion_tokens)
}

function expectCalled({ calls, finish }: Merged): void {
  expect([calls.length > 0, finish]).toEqual([true, 'tool_calls'])
  for (const { id, type, name, text } of calls) {
    expect([typeof id === 'string' && id !== '', type, name]).toEqual([true, 'function', NAME])
    const made: unknown = JSON.parse(text)
    expect(typeof made === 'object' && made !== null && !Array.isArray(made)).toBe(true)
  }
}

/** How it ends: a value, an error, or `running` when it does not within the limit. */
async function endOf(work: Promise<unknown>): Promise<{ value?: unknown; error?: unknown } | 'running'> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const timeouts = new Promise<'running'>((resolve) => (timer = setTimeout(() => resolve('running'), waitLimitMs())))
  const settled = work.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  )
  return await Promise.race([settled, timeouts]).finally(() => clearTimeout(timer))
}

const errorOf = (work: Promise<unknown>) =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  )

async function upstreamOf({ upstream }: ChatHarness, conduct: Conduct): Promise<NonNullable<ChatHarness['upstream']>> {
  if (!upstream) throw new Error('this law needs an upstream; a vendor without one excepts it by name')
  await left(upstream)
  await upstream.conduct(conduct)
  return upstream
}

/**
 * Calls that the upstream still works on, once it has had a second to notice that they are over; those of the law
 * before, on a shared one.
 */
async function left(upstream: NonNullable<ChatHarness['upstream']>): Promise<number> {
  for (const until = performance.now() + waitLimitMs(); upstream.inProgress() > 0 && performance.now() < until;)
    await turn()
  return upstream.inProgress()
}

function frozen<T extends Json | ChatOrder>(value: T): T {
  if (typeof value === 'object' && value !== null) Object.values(value).forEach((each) => frozen(each as Json))
  return Object.freeze(value)
}

const law = (name: string, check: (harness: ChatHarness) => Promise<void>): Law<ChatHarness> => ({
  name,
  check: async (subject: Subject<ChatHarness>) => check(await subject.open()),
})

// ── laws ────────────────────────────────────────────────────────────────────────────────────────────────────────────

const answering: readonly Law<ChatHarness>[] = [
  law(
    'a whole order gets a completion: an assistant who says something, why it ended, and usage that adds up',
    async (harness) => {
      const body = await askWhole(harness, PLAIN)
      const [choice] = body.choices
      expect([body.object, typeof body.id, typeof body.created, typeof body.model]).toEqual([
        'chat.completion',
        'string',
        'number',
        'string',
      ])
      expect([choice.index, choice.message.role, typeof choice.message.content, typeof choice.finish_reason]).toEqual([
        0,
        'assistant',
        'string',
        'string',
      ])
      expect(choice.message.content).not.toBe('')
      expectSum(body.usage)
    },
  ),
  law('a stream hands out whole events: one line of data after "data: ", and a blank line', async (harness) => {
    const pieces = await drain(await askStream(harness, PLAIN))
    expect(pieces.length).toBeGreaterThan(0)
    for (const piece of pieces) expect(piece).toMatch(/^((data: \S.*|:.*)\n\n)+$/)
  }),
  law('the chunks of a stream are of one completion, which an assistant speaks', async (harness) => {
    const chunks = chunksOf(await drain(await askStream(harness, PLAIN)))
    const [first] = chunks
    expect([typeof first.id, typeof first.model, typeof first.created]).toEqual(['string', 'string', 'number'])
    expect(first.id).not.toBe('')
    for (const { object, id, model, choices } of chunks) {
      expect([object, id, model, Array.isArray(choices)]).toEqual([
        'chat.completion.chunk',
        first.id,
        first.model,
        true,
      ])
    }
    expect(chunks.flatMap(({ choices }) => choices)[0].delta.role).toBe('assistant')
  }),
  law('a stream ends with its usage, which adds up, then [DONE], once, then nothing', async (harness) => {
    const stream = await askStream(harness, PLAIN)
    const pieces = await drain(stream)
    const data = dataOf(pieces)
    expect([data.at(-1), data.filter((each) => each === '[DONE]').length]).toEqual(['[DONE]', 1])
    expectSum(chunksOf(pieces).at(-1).usage)
    expect(await stream.next()).toBeUndefined()
  }),
  law('a stream comes to the same form of answer as a whole one', async (harness) => {
    expect(formOf(await streamed(harness, PLAIN))).toEqual(formOf(await wholly(harness, PLAIN)))
  }),
  law(
    'a tool that must be called is called, with arguments that are a JSON object, whole and streamed',
    async (harness) => {
      expectCalled(await wholly(harness, TOOLS))
      expectCalled(await streamed(harness, TOOLS))
    },
  ),
  law('the result of a tool is accepted, and answered', async (harness) => {
    const { calls } = await wholly(harness, TOOLS)
    const tool_calls = calls.map(({ id, name, text }) => ({
      id: String(id),
      type: 'function',
      function: { name, arguments: text },
    }))
    const results = tool_calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: '{"sky": "blue"}' }))
    const { tool_choice: _, ...rest } = TOOLS
    const body = {
      ...rest,
      messages: [...(TOOLS.messages as Json[]), { role: 'assistant', content: '', tool_calls }, ...results],
    }
    for (const ask of [wholly, streamed]) expect(typeof (await ask(harness, body)).finish).toBe('string')
  }),
  law('takes words in any script, in parts, of the system and of the assistant', async (harness) => {
    const words = ['狐と雪 🦊', '\u202edata: [DONE]\n\n', 'a red fox '.repeat(2_000)]
    for (const text of words) {
      const parts = [
        { type: 'text', text },
        { type: 'text', text: 'and again' },
      ]
      const messages = [
        { role: 'system', content: text },
        { role: 'user', content: parts },
        { role: 'assistant', content: text },
        { role: 'user', content: text },
      ]
      for (const ask of [wholly, streamed])
        expect(typeof (await ask(harness, { ...PLAIN, messages })).finish).toBe('string')
    }
  }),
  law('an order is read, never changed', async ({ vendor, model }) => {
    for (const stream of [false, true]) {
      const order = frozen(orderOf(model, structuredClone(TOOLS) as Fields, stream))
      const answer = await vendor.ask(order, never())
      if (answer.kind === 'stream') await drain(answer.stream)
      expect(order).toEqual(orderOf(model, TOOLS, stream))
    }
  }),
  law('orders at the same time do not mix', async (harness) => {
    const bodies = [PLAIN, TOOLS, PLAIN, TOOLS]
    for (const ask of [wholly, streamed]) {
      const alone = [formOf(await ask(harness, PLAIN)), formOf(await ask(harness, TOOLS))]
      const together = await Promise.all(bodies.map((body) => ask(harness, body)))
      expect(together.map(formOf)).toEqual([...alone, ...alone])
    }
  }),
]

const stopping: readonly Law<ChatHarness>[] = [
  law('cancel() ends a stream, after its first piece and before, and may be called again', async (harness) => {
    for (const read of [0, 1]) {
      const stream = await askStream(harness, PLAIN)
      for (let count = 0; count < read; count++) expect(await stream.next()).toBeDefined()
      stream.cancel()
      expect(await stream.next()).toBeUndefined()
      stream.cancel()
      expect(await stream.next()).toBeUndefined()
    }
    const ended = await askStream(harness, PLAIN)
    await drain(ended)
    ended.cancel()
  }),
  law('an order whose signal has aborted is refused with its reason', async ({ vendor, model }) => {
    const reason = new Error('out of time')
    for (const stream of [false, true]) {
      expect(await errorOf(vendor.ask(orderOf(model, PLAIN, stream), { signal: AbortSignal.abort(reason) }))).toBe(
        reason,
      )
    }
  }),
  law(
    'an abort in the middle of a stream rejects next() with its reason, and never reads as an end',
    async (harness) => {
      const reason = new Error('out of time')
      const controller = new AbortController()
      const stream = await askStream(harness, PLAIN, controller)
      await stream.next()
      controller.abort(reason)
      expect(await endOf(stream.next())).toEqual({ error: reason })
    },
  ),
  law('an abort ends its own order only', async (harness) => {
    const controller = new AbortController()
    const doomed = await askStream(harness, PLAIN, controller)
    const other = await askStream(harness, PLAIN)
    controller.abort(new Error('gone'))
    expect(typeof merged(chunksOf(await drain(other))).finish).toBe('string')
    await errorOf(doomed.next())
  }),
  law('orders that were stopped do not wear their vendor out', async (harness) => {
    for (let times = 0; times < 3; times++) {
      const controller = new AbortController()
      ;(await askStream(harness, PLAIN)).cancel()
      const stream = await askStream(harness, PLAIN, controller)
      controller.abort(new Error('gone'))
      await errorOf(stream.next())
    }
    expect(typeof (await wholly(harness, PLAIN)).finish).toBe('string')
  }),
]

const failing: readonly Law<ChatHarness>[] = [
  law('a refusal is an ApiError of ask(), whether a stream was asked for or not', async (harness) => {
    await upstreamOf(harness, 'refuses')
    for (const stream of [false, true])
      expect(await errorOf(harness.vendor.ask(orderOf(harness.model, PLAIN, stream), never()))).toBeInstanceOf(ApiError)
  }),
  law('what fails after the first event rejects next(), or ends without [DONE]', async (harness) => {
    for (const conduct of ['errs', 'breaks'] as const) {
      await upstreamOf(harness, conduct)
      const end = await endOf(drain(await askStream(harness, PLAIN)))
      if (end === 'running') throw new Error('the stream neither fails nor ends')
      if (end.error !== undefined) expect(end.error).toBeInstanceOf(Error)
      else expect(dataOf(end.value as readonly string[])).not.toContain('[DONE]')
    }
  }),
  law('a stream is handed out as it comes', async (harness) => {
    await upstreamOf(harness, 'stalls')
    const request = await endOf(askStream(harness, PLAIN))
    if (request === 'running' || request.error !== undefined)
      throw new Error('the stream was not answered at its first event')
    const stream = request.value as ChatStream
    expect(await endOf(stream.next())).toEqual({ value: expect.any(Uint8Array) })
    stream.cancel()
  }),
  law('cancel() ends a next() that waits, without an error, and the upstream call', async (harness) => {
    const upstream = await upstreamOf(harness, 'stalls')
    const stream = await askStream(harness, PLAIN)
    const end = endOf(drain(stream))
    await turn()
    const before = upstream.inProgress()
    stream.cancel()
    expect([before, await end]).toEqual([1, { value: expect.any(Array) }])
    expect(await left(upstream)).toBe(0)
  }),
  law('an abort ends what waits for the upstream, and the upstream call', async (harness) => {
    const upstream = await upstreamOf(harness, 'stalls')
    for (const isStream of [true, false]) {
      const controller = new AbortController()
      const work = isStream ? drain(await askStream(harness, PLAIN, controller)) : askWhole(harness, PLAIN, controller)
      const end = endOf(work)
      for (const until = performance.now() + waitLimitMs(); upstream.inProgress() === 0 && performance.now() < until;)
        await turn()
      controller.abort(new Error('gone'))
      expect(await end).not.toBe('running')
      expect(await left(upstream)).toBe(0)
    }
  }),
]

export const chatVendorLaws: readonly Law<ChatHarness>[] = [...answering, ...stopping, ...failing]

/** `except` of a vendor that has no upstream to refuse, err, break or stall. */
export function withoutUpstream(reason: string): Readonly<Record<string, string>> {
  return Object.fromEntries(failing.map(({ name }) => [name, reason]))
}
