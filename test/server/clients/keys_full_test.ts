/**
 * The makers' own clients with nothing but a base URL and an API key, on a devnet with a collector of traces and a
 * vendor behind HTTP: what they are charged, what comes back, and that neither of both has seen the key.
 */
import { afterAll, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import { KEY_PATTERN, privateKeyOf, readKey } from '../../../core/x402/api_key.ts'
import { USAGE } from '../../fakes/chat.ts'
import { runCommand } from '../cli/command_kit.ts'
import { startedGateways } from '../started_gateway.ts'

const ECHO = 'farebox/echo'
const { scratch, startWith } = startedGateways()

/** Everything that others were sent: heads and bodies. */
const sent: { readonly to: 'collector' | 'vendor'; readonly text: string }[] = []

function listener(to: 'collector' | 'vendor', answer: () => Response) {
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const head = JSON.stringify([request.url, ...request.headers])
      sent.push({ to, text: `${head}\n${await request.text()}` })
      return answer()
    },
  })
  afterAll(() => server.stop(true))
  return server.url.origin
}

const collector = listener('collector', () => Response.json({}))
const vendor = listener('vendor', () =>
  Response.json({
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1,
    model: 'gpt-6-luna',
    choices: [{ index: 0, message: { role: 'assistant', content: 'A fox.' }, finish_reason: 'stop' }],
    usage: USAGE,
  }),
)

const micro = (text: unknown): bigint => BigInt(Math.round(Number(text) * 1e6))

test('three clients call and stream with one key; deposit and charges are the refund, and nobody else sees the key', async () => {
  const running = await startWith({
    OPENAI_API_KEY: 'any',
    OPENAI_BASE_URL: `${vendor}/v1`,
    OTEL_EXPORTER_OTLP_ENDPOINT: collector,
  })
  const environment = { HOME: scratch, FAREBOX_URL: running.url }
  const command = (args: readonly string[], key = '') =>
    runCommand(['key', ...args], { env: { ...environment, ...(key && { FAREBOX_KEY: key }) } })
  const key = KEY_PATTERN.exec((await command(['new', '--deposit', '5'])).out)?.[0] ?? ''
  const { data: before } = (await (await ask('/v1/credits')).json()) as { data: Record<string, number> }
  expect(before).toEqual({ total_credits: 5, total_usage: 0 })

  function ask(path: string): Promise<Response> {
    return fetch(running.url + path, { headers: { 'x-api-key': key } })
  }
  const usage = async () => {
    const { data } = (await (await ask('/v1/key')).json()) as { data: Record<string, number> }
    return micro(data.usage)
  }

  const openai = new OpenAI({ baseURL: `${running.url}/api/v1`, apiKey: key })
  const anthropic = new Anthropic({ baseURL: `${running.url}/api`, apiKey: key })
  const google = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: `${running.url}/api` } })
  const messages = [{ role: 'user' as const, content: 'Hello there, gateway' }]
  const requested = { model: ECHO, max_tokens: 100, messages }
  const contents = { model: ECHO, contents: 'Hello there, gateway', config: { maxOutputTokens: 100 } }
  const calls: Readonly<Record<string, () => Promise<string>>> = {
    'openai, whole': async () => JSON.stringify(await openai.chat.completions.create(requested)),
    'openai, streamed': async () => {
      const all = []
      for await (const each of await openai.chat.completions.create({ ...requested, stream: true }))
        all.push(each.choices[0]?.delta.content ?? '')
      return all.join('')
    },
    'openai, from a vendor': async () =>
      JSON.stringify(await openai.chat.completions.create({ ...requested, model: 'openai/gpt-6-luna' })),
    'anthropic, whole': async () => JSON.stringify(await anthropic.messages.create(requested)),
    'anthropic, streamed': async () => JSON.stringify(await anthropic.messages.stream(requested).finalMessage()),
    'google, whole': async () => String((await google.models.generateContent(contents)).text),
    'google, streamed': async () => {
      const all = []
      for await (const { text } of await google.models.generateContentStream(contents)) all.push(text ?? '')
      return all.join('')
    },
  }
  let charged = 0n
  for (const [name, call] of Object.entries(calls)) {
    const text = await call()
    const now = await usage()
    expect([name, /Hello there, gateway|A fox/.test(text), now > charged]).toEqual([name, true, true])
    charged = now
  }

  const closed = await command(['close'], key)
  expect([closed.code, closed.err]).toEqual([0, ''])
  const refunded = micro(/^refunded {2}(\S+) USDC/.exec(closed.out)?.[1])
  expect(refunded).toBe(5_000_000n - charged)

  await running.stop()
  const read = readKey(key)
  if (read.kind === 'none' || read.kind === 'mistyped') throw new Error('the key is mistyped')
  const secret = Buffer.from(privateKeyOf(read.seed))
  const secrets = [
    key,
    key.slice(9, 40),
    Buffer.from(read.seed).toString('hex'),
    secret.toString('hex'),
    secret.toString('base64'),
  ]
  expect(new Set(sent.map(({ to }) => to))).toEqual(new Set(['collector', 'vendor']))
  const all = sent.map(({ text }) => text).join('\n')
  expect([all.includes('chat.completions'), all.includes('Hello there, gateway')]).toEqual([true, true])
  expect(secrets.filter((each) => all.includes(each))).toEqual([])
}, 120_000)
