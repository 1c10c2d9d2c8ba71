/** An upstream whose faults are set by hand, and gateways that sell what it says on every surface. */
import { ServerResponse } from 'node:http'
import { LLMock, type Mountable } from '@copilotkit/aimock'
import { memoryChain } from '../../adapters/chains/evm/memory.ts'
import { makerOf } from '../adapters/providers/lib/protocols.ts'
import type { Fields, Payment } from '../../core/mod.ts'
import { handClock } from '../adapters/providers/lib/provider_kit.ts'
import { COMPLETIONS, table } from '../core/call/stream_kit.ts'
import { testLog } from '../kit.ts'

const QUESTION = 'Why is the sky blue?'
export const ANSWER = 'Because air scatters short waves more than long ones.'
/** Stands in everything that the upstream says of itself; no caller may read it. */
export const SECRET = 'acct-9f3c'

/** An error in a maker's own words. */
export type Saying = {
  readonly status: number
  readonly type: string
  readonly message: string
  readonly code?: string
  readonly param?: string
}
/** How the makers write their errors and events. */
export type Tongue = 'openai' | 'anthropic' | 'gemini'
export type Surface = 'chat' | 'messages' | 'responses' | 'generate_content'

/** A surface of the gateway in front of a protocol of the upstream. */
export type Site = {
  readonly name: string
  readonly surface: Surface
  readonly protocol: string
  readonly tongue: Tongue
  readonly model: string
}

const A = 'vendor-a/chat-5.4-mini'
const B = 'vendor-b/chat-3.8-flash'
const G = 'vendor-g/chat-4.6-medium'
const H = 'vendor-h/chat-4'

export const SITES: readonly Site[] = [
  { name: 'chat over OpenAI chat', surface: 'chat', protocol: 'openai-chat', tongue: 'openai', model: H },
  { name: 'chat over OpenAI responses', surface: 'chat', protocol: 'openai-responses', tongue: 'openai', model: A },
  { name: 'chat over Anthropic', surface: 'chat', protocol: 'anthropic-messages', tongue: 'anthropic', model: G },
  { name: 'chat over Gemini', surface: 'chat', protocol: 'gemini', tongue: 'gemini', model: B },
  {
    name: 'messages over Anthropic',
    surface: 'messages',
    protocol: 'anthropic-messages',
    tongue: 'anthropic',
    model: G,
  },
  { name: 'messages over OpenAI chat', surface: 'messages', protocol: 'openai-chat', tongue: 'openai', model: H },
  { name: 'responses over OpenAI', surface: 'responses', protocol: 'openai', tongue: 'openai', model: A },
  { name: 'responses over OpenAI chat', surface: 'responses', protocol: 'openai-chat', tongue: 'openai', model: A },
  { name: 'generateContent over Gemini', surface: 'generate_content', protocol: 'gemini', tongue: 'gemini', model: B },
  {
    name: 'generateContent over OpenAI chat',
    surface: 'generate_content',
    protocol: 'openai-chat',
    tongue: 'openai',
    model: B,
  },
]

// ── the upstream ────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * The next behaviour of the upstream. `streams` sends its events as they stand, and ends as it is told once the test
 * has let it go on.
 */
type Mood =
  | { readonly kind: 'well'; readonly finish?: string }
  | { readonly kind: 'says'; readonly error: Saying }
  | { readonly kind: 'malformed' }
  | { readonly kind: 'disconnects' }
  | {
      readonly kind: 'streams'
      readonly events: string
      readonly goesOn: Promise<void>
      readonly last: string | 'disconnects'
      readonly onSent?: () => void
    }

export type Upstream = Awaited<ReturnType<typeof upstreamOf>>

/** aimock, which this project did not write. What it cannot do is mounted on it: events of our own. */
export async function upstreamOf() {
  const mock = new LLMock({ port: 0, logLevel: 'silent' })
  let mood: Mood = { kind: 'well' }
  const raw: Mountable = {
    async handleRequest(_request, response) {
      if (mood.kind !== 'streams' || !(response instanceof ServerResponse)) return false
      const { events, goesOn, last } = mood
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(events)
      mood.onSent?.()
      await goesOn
      if (last === 'disconnects') response.destroy()
      else response.end(last)
      return true
    },
  }
  for (const path of ['/v1', '/v1beta']) mock.mount(path, raw)
  mock.on({ predicate: () => true }, () => {
    if (mood.kind !== 'says')
      return { content: ANSWER, ...(mood.kind === 'well' && mood.finish && { finishReason: mood.finish }) }
    const { status, ...error } = mood.error
    return { error: { ...error, message: `${error.message} (${SECRET})` }, status, retryAfter: 17 }
  })
  await mock.start()
  return {
    /** How often it was asked. */
    requestCount: () => mock.getRequests().length,
    be(next: Mood) {
      mood = next
      mock.clearChaos()
      if (mood.kind === 'malformed') mock.setChaos({ malformedRate: 1 })
      if (mood.kind === 'disconnects') mock.setChaos({ disconnectRate: 1 })
    },
    url: mock.url,
    stop: () => mock.stop(),
  }
}

// ── the gateway ─────────────────────────────────────────────────────────────────────────────────────────────────────

const bases: Readonly<Record<string, string>> = {
  openai: '/v1',
  'openai-chat': '/v1',
  'openai-responses': '/v1',
  'anthropic-messages': '',
  gemini: '',
}

/** A gateway over memory adapters and the real adapter of the site's protocol, and a buyer in front of it. */
export async function gatewayAt({ surface, protocol, model }: Site, upstream: Upstream) {
  const vendorLog = testLog()
  const chatVendor = makerOf(
    'chat',
    protocol,
  )({
    baseUrl: `${upstream.url}${bases[protocol]}`,
    key: SECRET,
    maker: 'maker-x',
    timeoutMs: 120_000,
    clock: handClock(),
    log: vendorLog,
  })
  const subject = await table(undefined, {
    chatVendor,
    allowlists: { generate_content: [memoryChain().wallet('alice')] },
  })
  const order = (stream: boolean) => ({
    body: bodies[surface]({ model, stream }),
    path: pathOf(surface, { model, stream }),
  })
  return {
    ...subject,
    alerts: () => vendorLog.lines.filter(({ level }) => level === 'alert'),
    async sign(stream: boolean): Promise<Payment> {
      const { body, path } = order(stream)
      return await subject.signed(body, { path })
    },
    async ask(stream: boolean, payment: Payment): Promise<Response> {
      const { body, path } = order(stream)
      return await subject.post(body, { path, payment })
    },
  }
}

type ModelRequest = { readonly model: string; readonly stream: boolean }

const messages = [{ role: 'user', content: QUESTION }]
const bodies: Readonly<Record<Surface, (request: ModelRequest) => Fields>> = {
  chat: ({ model, stream }) => ({ model, messages, max_tokens: 100, temperature: 1, stream }),
  messages: ({ model, stream }) => ({ model, messages, max_tokens: 100, temperature: 1, stream }),
  responses: ({ model, stream }) => ({ model, input: QUESTION, max_output_tokens: 100, temperature: 1, stream }),
  generate_content: () => ({
    contents: [{ role: 'user', parts: [{ text: QUESTION }] }],
    generationConfig: { maxOutputTokens: 100, temperature: 1 },
  }),
}

function pathOf(surface: Surface, { model, stream }: ModelRequest): string {
  if (surface === 'chat') return COMPLETIONS
  if (surface === 'generate_content')
    return `/api/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`
  return `/api/v1/${surface}`
}
