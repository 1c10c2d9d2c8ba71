/** The makers' own clients show the error of a key that does not pay, and do not ask again. */
import { afterAll, describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import { wholeAnswer } from '../../fakes/chat.ts'
import { door } from '../../kit.ts'
import { KEY, selling } from '../../core/call/keys_kit.ts'
import { SKY } from '../../core/call/stream_kit.ts'

const stops: (() => void)[] = []
afterAll(() => {
  for (const stop of stops) stop()
})

/** The gateway of these options at a local port, and how many requests it has got. */
async function served(...options: Parameters<typeof selling>) {
  const subject = await selling(...options)
  let requests = 0
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: (request) => (requests++, subject.gateway.fetch(request, { ip: '127.0.0.1' })),
  })
  stops.push(() => void server.stop(true))
  return { ...subject, url: server.url.origin, requests: () => requests }
}

const QUESTION = 'Why is the sky blue?'

/** One call by each client, with nothing but the base URL and the key. */
type Call = (url: string, apiKey: string) => Promise<unknown>
const CLIENTS: Readonly<Record<string, Call>> = {
  openai: (url, apiKey) =>
    new OpenAI({ baseURL: `${url}/api/v1`, apiKey }).chat.completions.create({
      model: SKY.model,
      max_tokens: 100,
      messages: [{ role: 'user', content: QUESTION }],
    }),
  anthropic: (url, apiKey) =>
    new Anthropic({ baseURL: `${url}/api`, apiKey }).messages.create({
      model: SKY.model,
      max_tokens: 100,
      messages: [{ role: 'user', content: QUESTION }],
    }),
  google: (url, apiKey) =>
    new GoogleGenAI({ apiKey, httpOptions: { baseUrl: `${url}/api` } }).models.generateContent({
      model: 'vendor-b/chat-3.8-flash',
      contents: QUESTION,
      config: { maxOutputTokens: 100 },
    }),
}

/** The error of a call, as the client throws it. */
async function thrownBy(call: Promise<unknown>): Promise<{ readonly status: unknown; readonly message: string }> {
  try {
    await call
  } catch (error) {
    const { status, message } = error as { status?: unknown; message: string }
    return { status, message }
  }
  throw new Error('the call was answered')
}

/** Highest price of a call, in base units: a key that is used up is told. */
async function quoteOf(call: Call): Promise<bigint> {
  const { url } = await served(undefined, { balance: 1n })
  const { message } = await thrownBy(call(url, KEY))
  return BigInt(/the call may cost (\d+)\.(\d{6}) USDC/.exec(message)?.slice(1).join('') ?? 0)
}

for (const [name, call] of Object.entries(CLIENTS))
  describe(`${name} with a key`, () => {
    test('is answered', async () => {
      const { url, channel } = await served()
      expect(JSON.stringify(await call(url, KEY))).toContain('Hello')
      expect((await channel())?.charged).toBeGreaterThan(0n)
    })

    test('that is mistyped throws 401, is told so, and asks once', async () => {
      const { url, requests } = await served()
      const mistyped = `${KEY.slice(0, -1)}${KEY.endsWith('0') ? '1' : '0'}`
      const { status, message } = await thrownBy(call(url, mistyped))
      expect([status, message.includes('mistyped'), message.includes(mistyped)]).toEqual([401, true, false])
      expect(requests()).toBe(1)
    })

    test('that is used up throws 402, is told what is left, and asks once', async () => {
      const { url, requests } = await served(undefined, { balance: (await quoteOf(call)) - 1n })
      const { status, message } = await thrownBy(call(url, KEY))
      expect([status, /the key has 0\.\d{6} USDC left, and the call may cost/.test(message)]).toEqual([402, true])
      expect(requests()).toBe(1)
    })

    test('whose rest is reserved by another call throws 402, is told how much, and asks once', async () => {
      const ready = door()
      const requested = door()
      const script = async () => {
        requested.open()
        await ready.passed
        return wholeAnswer()
      }
      const { url, requests } = await served(script, { balance: await quoteOf(call) })
      const other = call(url, KEY)
      await requested.passed
      const { status, message } = await thrownBy(call(url, KEY))
      ready.open()
      expect([status, /0\.\d{6} USDC are reserved by calls that are open/.test(message)]).toEqual([402, true])
      expect(JSON.stringify(await other)).toContain('Hello')
      expect(requests()).toBe(2)
    })
  })

test('a chain that is away is 503 for every client, and nothing is charged', async () => {
  let isAway = false
  const views = (balance: bigint) => (isAway ? [] : [[balance, 0n], [0n, 0n], [0n]])
  const { url, channel, clock } = await served(undefined, { views })
  isAway = true
  await clock.advance(600_000)
  const openai = new OpenAI({ baseURL: `${url}/api/v1`, apiKey: KEY, maxRetries: 0 })
  const anthropic = new Anthropic({ baseURL: `${url}/api`, apiKey: KEY, maxRetries: 0 })
  const messages = [{ role: 'user' as const, content: QUESTION }]
  const requested = { model: SKY.model, max_tokens: 100, messages }
  expect((await thrownBy(openai.chat.completions.create(requested))).status).toBe(503)
  expect((await thrownBy(anthropic.messages.create(requested))).status).toBe(503)
  expect((await thrownBy(CLIENTS.google?.(url, KEY) ?? Promise.resolve())).status).toBe(503)
  expect(await channel()).toMatchObject({ charged: 0n, reserved: 0n })
})
