/** Unmodified SDKs buy from a devnet through farebox proxy, a process of its own. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import { parseConfig } from '../../../server/config/mod.ts'
import { type Running, start } from '../../../server/main.ts'
import { peer } from '../../bench/peer.ts'
import { program } from '../../programs/mod.ts'
import { GENERATIONS, type Payer, payerAt } from '../clients/payer.ts'

const MAIN = join(import.meta.dir, '../../../server/main.ts')
const MODEL = 'farebox/echo'
const home = mkdtempSync(join(tmpdir(), 'farebox-proxy-'))
const log = {
  info: () => {},
  warn: () => {},
  alert: (message: string, fields: unknown) => console.error(message, fields),
  access: () => {},
  flush: () => {},
}
let running: Running
let payer: Payer
const children: Bun.Subprocess[] = []

beforeAll(async () => {
  const read = parseConfig('', { PORT: '0', DATABASE_URL: 'memory:', OBJECT_STORE: 'memory:' })
  if (!read.ok) throw new Error(read.mistakes.join('\n'))
  running = await start(read.config, log)
  payer = await payerAt(running.url)
}, 60_000)

afterAll(async () => {
  for (const child of children) child.kill()
  await running.stop()
  rmSync(home, { recursive: true, force: true })
})

const env = { PATH: process.env.PATH ?? '', HOME: home }

async function farebox({ args, key }: { readonly args: readonly string[]; readonly key?: string }) {
  const own = { ...env, ...(key !== undefined && { FAREBOX_BUYER_KEY: key }) }
  const child = Bun.spawn([process.execPath, MAIN, ...args], { env: own, stdin: null, stdout: 'pipe', stderr: 'pipe' })
  const [code, out, err] = await Promise.all([child.exited, child.stdout.text(), child.stderr.text()])
  return { code, out, err }
}

/** A running proxy, with the lines that it prints. */
async function openProxy(...args: readonly string[]) {
  return await openProxyTo(running.url, { args })
}

async function openProxyTo(
  to: string,
  { args, key }: { readonly args: readonly string[]; readonly key?: string | undefined },
) {
  const given = ['proxy', '--to', to, '--port', '0', ...args]
  const own = { ...env, ...(key !== undefined && { FAREBOX_BUYER_KEY: key }) }
  const child = Bun.spawn([process.execPath, MAIN, ...given], { env: own, stdin: null, stderr: 'pipe' })
  children.push(child)
  const reader = child.stderr.getReader()
  const decoder = new TextDecoder()
  let printed = ''
  async function until(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const found = pattern.exec(printed)
      if (found) return found
      const { done, value } = await reader.read()
      if (done) throw new Error(`the proxy ended: ${printed}`)
      printed += decoder.decode(value)
    }
  }
  const [, url = ''] = await until(/(http:\/\/127\.0\.0\.1:\d+) buys/)
  const lines = await farebox({ args: ['proxy', 'env', 'openai', '--port', new URL(url).port] })
  const [, apiKey = ''] = /OPENAI_API_KEY='(.*)'/.exec(lines.out) ?? []
  const [, baseURL = ''] = /OPENAI_BASE_URL='(.*)'/.exec(lines.out) ?? []
  return { url, apiKey, baseURL, until, text: () => printed }
}

describe('a proxy before a devnet', () => {
  let proxy: Awaited<ReturnType<typeof openProxy>>
  beforeAll(async () => {
    proxy = await openProxy('--payees', payer.devnet.pay_to)
  }, 60_000)
  const messages = [{ role: 'user' as const, content: 'Say hello' }]
  /** The SDKs return promises of their own, which `expect` does not follow. */
  const failing = async (run: () => PromiseLike<unknown>): Promise<unknown> => await run()
  const gemini = () => new GoogleGenAI({ apiKey: proxy.apiKey, httpOptions: { baseUrl: proxy.url } })

  test('serves the OpenAI SDK: chat whole and streamed, the list of models, pictures', async () => {
    const client = new OpenAI({ apiKey: proxy.apiKey, baseURL: proxy.baseURL, maxRetries: 0 })
    const whole = await client.chat.completions.create({ model: MODEL, messages })
    expect(whole.choices[0]?.message.content).toContain('Say hello')
    let streamed = ''
    for await (const chunk of await client.chat.completions.create({ model: MODEL, messages, stream: true }))
      streamed += chunk.choices[0]?.delta.content ?? ''
    expect(streamed).toContain('Say hello')
    const ids: string[] = []
    for await (const { id } of client.models.list()) ids.push(id)
    expect(ids).toContain(MODEL)
    const pictured = ids.find((id) => id.includes('image')) ?? ''
    const image = await client.images.generate({ model: pictured, prompt: 'a fox' })
    expect(image.data?.length).toBe(1)
    await proxy.until(/images\/generations .* 200: [\d.]+ USDC, today [\d.]+ of 5, 1\.9\d* left in the channel/)
  }, 60_000)

  test('serves the Anthropic SDK: whole and streamed', async () => {
    const client = new Anthropic({ apiKey: proxy.apiKey, baseURL: proxy.url, maxRetries: 0 })
    const whole = await client.messages.create({ model: MODEL, max_tokens: 100, messages })
    expect(JSON.stringify(whole.content)).toContain('Say hello')
    const streamed = await client.messages.stream({ model: MODEL, max_tokens: 100, messages }).finalText()
    expect(streamed).toContain('Say hello')
  }, 60_000)

  test('serves the Google SDK: whole and streamed', async () => {
    const whole = await gemini().models.generateContent({ model: MODEL, contents: 'Say hello' })
    expect(whole.text).toContain('Say hello')
    let streamed = ''
    for await (const part of await gemini().models.generateContentStream({ model: MODEL, contents: 'Say hello' }))
      streamed += part.text ?? ''
    expect(streamed).toContain('Say hello')
  }, 60_000)

  test('without a channel pays by upto: one call is charged once, what it used, and the line has the balance', async () => {
    const single = await openProxy('--payees', payer.devnet.pay_to, '--no-channel')
    const client = new OpenAI({ apiKey: single.apiKey, baseURL: single.baseURL, maxRetries: 0 })
    const before = await payer.balance()
    await client.chat.completions.create({ model: MODEL, messages: [{ role: 'user', content: 'once' }] })
    const [, price, left] = await single.until(
      / 200: ([\d.]+) USDC, today [\d.]+ of 5, ([\d.]+) left in the wallet, receipt 0x/,
    )
    const charged = before - (await payer.balance())
    expect(charged).toBeGreaterThan(1_000n)
    expect(charged).toBeLessThan(BigInt(Math.round(Number(price) * 1e6)))
    expect(BigInt(Math.round(Number(left) * 1e6))).toBe(await payer.balance())
  }, 60_000)

  test('prints neither the key nor the token, and keeps the token where only its owner reads it', () => {
    expect(proxy.text()).not.toContain(proxy.apiKey)
    expect(proxy.text()).not.toContain(payer.devnet.buyer.private_key.slice(2))
    const path = join(home, '.farebox/proxy_token')
    expect([statSync(path).mode & 0o777, readFileSync(path, 'utf8').trim()]).toEqual([0o600, proxy.apiKey])
  })

  test('above the cap tells each SDK why, with one request', async () => {
    const poor = await openProxy('--payees', payer.devnet.pay_to, '--max-per-call', '0.000001')
    const before = await payer.balance()
    const message = /The price is 0\.00\d+ USDC, above the cap of 0\.000001 USDC per call/
    const openai = new OpenAI({ apiKey: poor.apiKey, baseURL: poor.baseURL })
    await expect(failing(() => openai.chat.completions.create({ model: MODEL, messages }))).rejects.toThrow(message)
    const anthropic = new Anthropic({ apiKey: poor.apiKey, baseURL: poor.url })
    await expect(failing(() => anthropic.messages.create({ model: MODEL, max_tokens: 9, messages }))).rejects.toThrow(
      message,
    )
    const google = new GoogleGenAI({ apiKey: poor.apiKey, httpOptions: { baseUrl: poor.url } })
    await expect(failing(() => google.models.generateContent({ model: MODEL, contents: 'x' }))).rejects.toThrow(message)
    expect(await payer.balance()).toBe(before)
  }, 60_000)

  test('serves the AI SDK: whole and streamed', async () => {
    const { generateText, streamText } = await program('ai')
    const { createOpenAICompatible } = await program('@ai-sdk/openai-compatible')
    const provider = createOpenAICompatible({ name: 'farebox', baseURL: proxy.baseURL, apiKey: proxy.apiKey })
    const whole = await generateText({ model: provider(MODEL), prompt: 'Say hello', maxRetries: 0 })
    expect(whole.text).toContain('Say hello')
    let streamed = ''
    for await (const part of streamText({ model: provider(MODEL), prompt: 'Say hello' }).textStream) streamed += part
    expect(streamed).toContain('Say hello')
  }, 60_000)

  test('serves LangChain: whole and streamed', async () => {
    const { ChatOpenAI } = await program('@langchain/openai')
    const chat = new ChatOpenAI({ apiKey: proxy.apiKey, model: MODEL, configuration: { baseURL: proxy.baseURL } })
    expect((await chat.invoke('Say hello')).text).toContain('Say hello')
    let streamed = ''
    for await (const part of await chat.stream('Say hello')) streamed += part.text
    expect(streamed).toContain('Say hello')
  }, 60_000)
})

test('a channel takes one deposit for many calls of an SDK, charges what they used, and sends the rest back', async () => {
  const key = payer.devnet.buyer.private_key
  const wallet = (...args: string[]) => farebox({ args: ['wallet', ...args], key })
  // The tests before this one have opened it, without being told to.
  const refunded = await wallet('close', '--test', '--url', running.url)
  expect(refunded.out).toMatch(/^refunded {2}1\.9\d* USDC/)
  const proxy = await openProxy('--payees', payer.devnet.pay_to)
  const client = new OpenAI({ apiKey: proxy.apiKey, baseURL: proxy.baseURL, maxRetries: 0 })
  const before = await payer.balance()
  const ask = (content: string) =>
    client.chat.completions.create({ model: MODEL, messages: [{ role: 'user', content }] })
  const answers = await Promise.all(['one', 'two', 'three'].map(async (content) => await ask(content)))
  expect(answers.map(({ choices }) => choices[0]?.message.content?.length !== 0)).toEqual([true, true, true])
  let streamed = ''
  const messages = [{ role: 'user' as const, content: 'Say hello' }]
  for await (const chunk of await client.chat.completions.create({ model: MODEL, messages, stream: true }))
    streamed += chunk.choices[0]?.delta.content ?? ''
  expect(streamed).toContain('Say hello')
  expect((await ask('last')).choices.length).toBe(1)
  expect(before - (await payer.balance())).toBe(2_000_000n)
  await proxy.until(/(?:chat\/completions[^]*?){5} 200: [\d.]+ USDC, today [\d.]+ of 5, 1\.99\d* left in the channel/)
  const listed = await wallet('show', '--test', '--url', running.url)
  expect(listed.out).toMatch(/balance {3}[\d.]+ USDC on Base Sepolia\n/)
  expect(listed.out).toMatch(/channel {3}0x[0-9a-f]{64} with http:\/\/127\.0\.0\.1:\d+: 1\.99\d* of 2\.\d+ USDC left/)
  const closed = await wallet('close', '--test', '--url', running.url)
  expect(closed.out).toMatch(/^refunded {2}1\.99\d* USDC/)
  const charged = before - (await payer.balance())
  expect(charged).toBeGreaterThan(5_000n)
  expect(charged).toBeLessThan(12_000n)
}, 60_000)

test('a seller of another make (@x402/hono) is paid once, on chain, and only on the network of the money', async () => {
  const { evm } = running.wired.devnet ?? {}
  if (!evm) throw new Error('no devnet')
  const vendor = { generate: async () => [{ url: 'https://example.com/fox.png' }] }
  const server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: await peer(evm, vendor as never, '7000') })
  const to = `http://127.0.0.1:${server.port}`
  const key = payer.devnet.buyer.private_key
  const order = (proxy: { readonly url: string; readonly apiKey: string }) =>
    fetch(`${proxy.url}${GENERATIONS}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${proxy.apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', prompt: 'a fox' }),
    })
  try {
    const proxy = await openProxyTo(to, { args: ['--test', '--payees', evm.payTo, '--rpc', evm.rpcUrl], key })
    const before = await payer.balance()
    const reply = await order(proxy)
    expect([reply.status, ((await reply.json()) as any).data]).toEqual([200, [{ url: 'https://example.com/fox.png' }]])
    expect(before - (await payer.balance())).toBe(7_000n)
    await proxy.until(/ 200: 0\.007 USDC, today [\d.]+ of 5, [\d.]+ left in the wallet, receipt 0x[0-9a-f]{64}/)
    const real = await openProxyTo(to, { args: ['--payees', evm.payTo], key })
    expect((await order(real)).status).toBe(402)
    const unasked = await openProxyTo(to, { args: ['--test', '--rpc', evm.rpcUrl], key })
    expect((await order(unasked)).status).toBe(402)
    expect(before - (await payer.balance())).toBe(7_000n)
  } finally {
    await server.stop(true)
  }
}, 60_000)

test('a seller that speaks MPP alone (mppx) verifies what it is paid with', async () => {
  const { Mppx, evm } = await program('mppx/server')
  const { network, asset, pay_to: recipient } = payer.devnet
  const paid: any[] = []
  const mppx = Mppx.create({
    secretKey: 'a secret of the seller, of enough bytes',
    realm: 'pay.example.com',
    methods: [
      evm.charge({
        currency: asset,
        recipient,
        chainId: Number(network.split(':')[1]),
        decimals: 6,
        authorization: { name: 'USDC', version: '2' },
        settle: async ({ payload }: any) => {
          paid.push(payload)
          return { reference: `0x${'ab'.repeat(32)}` }
        },
      }),
    ],
  })
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      if (request.method === 'GET') return new Response('not here', { status: 404 })
      const result = await mppx.charge({ amount: '0.007' })(request)
      return result.status === 402 ? result.challenge : result.withReceipt(Response.json({ data: ['fox'] }))
    },
  })
  try {
    const to = `http://127.0.0.1:${server.port}`
    const key = payer.devnet.buyer.private_key
    const node = ['--rpc', payer.devnet.rpc_url]
    const proxy = await openProxyTo(to, { args: ['--test', '--payees', recipient, ...node], key })
    const reply = await fetch(`${proxy.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${proxy.apiKey}`, 'content-type': 'application/json' },
      body: '{"model":"m"}',
    })
    expect([reply.status, await reply.json()]).toEqual([200, { data: ['fox'] }])
    expect(paid.map(({ value, to: payee }) => [value, payee.toLowerCase()])).toEqual([
      ['7000', recipient.toLowerCase()],
    ])
    await proxy.until(/ 200: 0\.007 USDC, today [\d.]+ of 5, [\d.]+ left in the wallet, receipt 0xabab/)
  } finally {
    await server.stop(true)
  }
}, 60_000)
