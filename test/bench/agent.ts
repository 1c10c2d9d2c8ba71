/**
 * A coding agent's request: how long until the first byte of its answer, the quote included. Each has twelve tools and
 * a conversation of 60 KB, of which the last 1 KB is new. Farebox counts on its thread, as the server does. Prints,
 * never asserts.
 */
import { memoryChain } from '../../adapters/chains/evm/memory.ts'
import type { Offer } from '../../core/mod.ts'
import { BUYERS, buyerName } from './chat_gateways.ts'
import { type ChatProcesses, chatProcesses } from './chat_processes.ts'
import type { Pace } from './pace.ts'
import { fixed, median, table, verdict } from './print.ts'

const PATH = '/api/v1/chat/completions'
const MODEL = 'openai/gpt-6-luna'
const CONVERSATION_BYTES = 52_000
const NEW_BYTES = 1_000
/** Milliseconds to the first byte at the median, by how many are in flight. */
const GOALS = { 1: 3, 32: 15 } as const
const REQUESTS = { 1: 60, 32: 192 } as const

const WORDS =
  'The test fails because the parser reads the header before the length is known; look at src/reader.ts, line 214. '
const tools = Array.from({ length: 12 }, (_, index) => ({
  type: 'function',
  function: {
    name: `tool_${index}`,
    description: WORDS.repeat(3),
    parameters: {
      type: 'object',
      properties: { path: { type: 'string', description: WORDS }, from: { type: 'integer' }, to: { type: 'integer' } },
      required: ['path'],
    },
  },
}))

/** Turn after turn of one conversation: what was said before is the same in each. */
function bodies(count: number, name: string): readonly string[] {
  const earlier = Array.from({ length: 40 }, (_, index) => ({
    role: index % 2 === 0 ? 'user' : 'assistant',
    content: `${name} ${index}: ${WORDS.repeat(20)}`.slice(0, CONVERSATION_BYTES / 40),
  }))
  return Array.from({ length: count }, (_, index) => {
    const content = `${name}, turn ${index}: ${WORDS.repeat(10)}`.slice(0, NEW_BYTES)
    const messages = [{ role: 'system', content: WORDS.repeat(40) }, ...earlier, { role: 'user', content }]
    return JSON.stringify({ model: MODEL, messages, tools, max_tokens: 400, stream: true })
  })
}

type Timed = { readonly quoteMs: number; readonly firstMs: number }

export async function agent({ isQuick, isOver, ...processes }: ChatProcesses & Pick<Pace, 'isQuick' | 'isOver'>) {
  const rounds = isQuick ? 1 : 3
  const { worker } = chatProcesses(processes)
  const model = await worker('upstream', {})
  const farebox = await worker('farebox', { baseUrl: `http://127.0.0.1:${model.port}/paid/v1`, isThreaded: true })
  const url = `http://127.0.0.1:${farebox.port}${PATH}`
  const signer = memoryChain()
  let buyer = 0

  async function post(body: string, payment?: object): Promise<Response> {
    const paid = payment && { 'payment-signature': btoa(JSON.stringify(payment)) }
    return await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json', ...paid }, body })
  }

  async function bought(body: string): Promise<Timed> {
    const startedAt = performance.now()
    const quote = await post(body)
    await quote.arrayBuffer()
    const quoteMs = performance.now() - startedAt
    const required = quote.headers.get('payment-required')
    if (!required) throw new Error(`no challenge: ${quote.status}`)
    const { accepts, resource } = JSON.parse(atob(required)) as { accepts: readonly [Offer]; resource: unknown }
    const from = signer.wallet(buyerName(buyer++ % BUYERS))
    const payment = { ...signer.sign(accepts[0], { from, now: Date.now() }), resource }
    const paidAt = performance.now()
    const answer = await post(body, payment)
    const reader = answer.body?.getReader()
    await reader?.read()
    const firstMs = performance.now() - paidAt
    while (!(await reader?.read())?.done);
    if (answer.status !== 200) throw new Error(`not served: ${answer.status}`)
    return { quoteMs, firstMs }
  }

  async function round(inFlight: 1 | 32, name: string): Promise<readonly Timed[]> {
    const waiting = [...bodies(REQUESTS[inFlight], name)]
    const timed: Timed[] = []
    const lane = async () => {
      for (let body = waiting.shift(); body !== undefined; body = waiting.shift()) timed.push(await bought(body))
    }
    await Promise.all(Array.from({ length: inFlight }, lane))
    return timed
  }

  await round(1, 'warming')
  const seen = new Map<1 | 32, Timed[]>([
    [1, []],
    [32, []],
  ])
  for (let turn = 0; turn < rounds && !(turn > 0 && isOver()); turn++)
    for (const [inFlight, timed] of seen) timed.push(...(await round(inFlight, `conversation ${turn} of ${inFlight}`)))
  await Promise.all([farebox.stop(), model.stop()])

  const kilobytes = (bodies(1, 'conversation')[0]?.length ?? 0) / 1_000
  console.log(
    `\na coding agent's request of ${fixed(kilobytes, 0)} KB with 12 tools, streamed, its client in this process`,
  )
  const of = (timed: readonly Timed[], part: (each: Timed) => number) => fixed(median(timed.map(part)), 2)
  table(
    ['in flight', 'requests', 'quote p50 ms', 'first byte p50 ms', 'both p50 ms'],
    [...seen].map(([inFlight, timed]) => [
      String(inFlight),
      String(timed.length),
      of(timed, ({ quoteMs }) => quoteMs),
      of(timed, ({ firstMs }) => firstMs),
      of(timed, ({ quoteMs, firstMs }) => quoteMs + firstMs),
    ]),
  )
  for (const [inFlight, timed] of seen) {
    const both = median(timed.map(({ quoteMs, firstMs }) => quoteMs + firstMs))
    const text = `ms to the first byte of an agent's answer, quote included, ${inFlight} in flight`
    verdict(both <= GOALS[inFlight], `${fixed(both, 2)} ${text}; goal: at most ${GOALS[inFlight]}`)
  }
}
