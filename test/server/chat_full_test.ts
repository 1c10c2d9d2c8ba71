/**
 * Who converses on a started gateway: the echo model without any key, a maker's service with one, and whom the operator
 * lets in.
 */
import { beforeAll, describe, expect, test } from 'bun:test'
import { ExactEvmScheme } from '@x402/evm'
import { wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import type { Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { ECHO_LABEL } from '../../server/devnet/demo/chat.ts'
import { quietLog, startedGateways } from './started_gateway.ts'
import type { Running } from '../../server/main.ts'

const MESSAGES = [{ role: 'user', content: 'Hello' }]
const CHAT = '/api/v1/chat/completions'
const GENERATE = '/api/v1beta/models/farebox%2Fecho:generateContent'
const CONTENTS = { contents: [{ role: 'user', parts: [{ text: 'Hello' }] }] }

const warnings: string[] = []
const log = quietLog({ warn: (message) => void warnings.push(message) })
const { startWith } = startedGateways(log)
let plain: Running

beforeAll(async () => {
  plain = await startWith()
})

const post = (body: unknown): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
})

async function ask(
  { url }: Running,
  body: unknown,
  path = CHAT,
): Promise<{ status: number; headers: Headers; body: any }> {
  const response = await fetch(url + path, post(body))
  return { status: response.status, headers: response.headers, body: await response.json() }
}

/** Bought by the devnet's buyer, with the official client. */
async function buy(
  { url }: Running,
  body: unknown,
  path = CHAT,
): Promise<{ status: number; headers: Headers; body: any }> {
  const { privateKey } = devnetOf(plain).evm.buyer
  const pay = wrapFetchWithPaymentFromConfig(fetch, {
    schemes: [{ network: 'eip155:*', client: new ExactEvmScheme(privateKeyToAccount(privateKey as Hex)) }],
  })
  const response = await pay(url + path, post(body))
  return { status: response.status, headers: response.headers, body: await response.json() }
}

function devnetOf({ wired }: Running) {
  if (!wired.devnet) throw new Error('not on devnet')
  return wired.devnet
}

async function chatModels({ url }: Running): Promise<readonly string[]> {
  const { data } = (await (await fetch(`${url}/api/v1/models`)).json()) as {
    data: readonly { id: string; categories: readonly string[] }[]
  }
  return data.filter(({ categories }) => categories.includes('chat')).map(({ id }) => id)
}

describe('devnet without a key', () => {
  test('serves the echo model’s rows and no other: nobody stands in for a model', async () => {
    expect(await chatModels(plain)).toEqual(['farebox/echo', 'farebox/echo-free'])
    expect((await ask(plain, { model: 'vendor-a/chat-6-small', messages: MESSAGES })).status).toBe(503)
    expect((await ask(plain, { model: 'vendor-open/gpt-oss-20b', messages: MESSAGES })).status).toBe(503)
  })

  test('sells it on every surface, generateContent to its own buyer', async () => {
    const sold = [
      await buy(plain, { model: 'farebox/echo', messages: MESSAGES }),
      await buy(plain, { messages: MESSAGES }, '/api/v1/chat/farebox/echo'),
      await buy(plain, { model: 'farebox/echo', messages: MESSAGES, max_tokens: 100 }, '/api/v1/messages'),
      await buy(plain, { model: 'farebox/echo', input: 'Hello' }, '/api/v1/responses'),
      await buy(plain, CONTENTS, GENERATE),
    ]
    for (const { status, headers, body } of sold) {
      expect([status, headers.get('x-payment-receipt')]).toEqual([200, expect.stringMatching(/^0x[0-9a-f]{64}$/)])
      expect(JSON.stringify(body)).toContain(ECHO_LABEL)
    }
  })

  test('gives the free one away', async () => {
    const { status, headers, body } = await ask(plain, { model: 'farebox/echo-free', messages: MESSAGES })
    expect([status, headers.get('x-free-model'), body.choices[0].message.content.startsWith(ECHO_LABEL)]).toEqual([
      200,
      'true',
      true,
    ])
  })
})

describe('what the operator sets', () => {
  test('a key in the environment brings chat and images to life, with that key, at that address', async () => {
    const seen: string[] = []
    const upstream = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      async fetch(request) {
        const { model } = (await request.json()) as { model: string }
        seen.push(`${new URL(request.url).pathname} ${model} ${request.headers.get('authorization')}`)
        if (request.url.endsWith('/images/generations')) return Response.json({ data: [{ b64_json: 'iVBORw0KGgo=' }] })
        return Response.json({
          id: 'x',
          choices: [{ index: 0, message: { role: 'assistant', content: 'Hi.' }, finish_reason: 'stop' }],
          usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
        })
      },
    })
    const running = await startWith(
      {
        ...playMoney(),
        DEEPSEEK_API_KEY: 'k-h',
        DEEPSEEK_BASE_URL: `${upstream.url}v1`,
        OPENAI_API_KEY: 'k-a',
        OPENAI_BASE_URL: `${upstream.url}v1`,
      },
      playGateway(),
    )
    expect(await chatModels(running)).toContain('vendor-h/chat-4')
    const sold = await buy(running, { model: 'vendor-h/chat-4', messages: MESSAGES })
    expect(sold).toMatchObject({
      status: 200,
      body: { model: 'vendor-h/chat-4', choices: [{ message: { content: 'Hi.' } }] },
    })
    const drawn = await buy(running, { model: 'vendor-a/image-1', prompt: 'a fox' }, '/api/v1/images/generations')
    expect(drawn).toMatchObject({ status: 200, body: { payment: { status: 'settled' } } })
    expect(seen).toEqual([
      '/v1/chat/completions deepseek-flash Bearer k-h',
      '/v1/images/generations gpt-image-2.5-flare Bearer k-a',
    ])
    await upstream.stop(true)
  })

  test('for real money the echo model is not for sale, unless the operator says so, who is warned', async () => {
    expect(await chatModels(await startWith(playMoney(), playGateway()))).toEqual([])
    warnings.length = 0
    const running = await startWith(playMoney(), `${playGateway()}[vendors.embedded]\nchat = "echo"\n`)
    expect(await chatModels(running)).toEqual(['farebox/echo', 'farebox/echo-free'])
    expect(warnings).toContain('this model is served by the demo, not by a model, for real money')
  })

  test('generateContent is for the wallets that are listed, and a refusal is not charged', async () => {
    const stranger = await startWith(
      playMoney(),
      `generate_content_payers = ["0x${'1'.repeat(40)}"]\n${playGateway()}[vendors.embedded]\nchat = "echo"\n`,
    )
    expect((await buy(stranger, CONTENTS, GENERATE)).status).toBe(403)
    const listed = await startWith(
      playMoney(),
      `generate_content_payers = ["${devnetOf(plain).evm.buyer.address}"]\n${playGateway()}[vendors.embedded]\nchat = "echo"\n`,
    )
    expect((await buy(listed, CONTENTS, GENERATE)).status).toBe(200)
  })

  test('answers in the background are for everybody, or for the wallets that are listed', async () => {
    const order = { model: 'farebox/echo', input: 'Hello', background: true }
    expect((await buy(plain, order, '/api/v1/responses')).body).toMatchObject({ status: 'queued' })
    const closed = await startWith(
      playMoney(),
      `background_payers = []\n${playGateway()}[vendors.embedded]\nchat = "echo"\n`,
    )
    expect((await buy(closed, order, '/api/v1/responses')).status).toBe(403)
  })

  test('the free tier ends where the operator says', async () => {
    const running = await startWith(
      { ...playMoney(), FREE_PER_MINUTE: '2' },
      `${playGateway()}[vendors.embedded]\nchat = "echo"\n`,
    )
    const free = { model: 'farebox/echo-free', messages: MESSAGES }
    const statuses = [await ask(running, free), await ask(running, free), await ask(running, free)].map(
      ({ status }) => status,
    )
    expect(statuses).toEqual([200, 200, 429])
  })
})

/** A gateway that was named by its operator, on the chain of the devnet. */
function playGateway(): string {
  const { rpcUrl, payTo, network } = devnetOf(plain).evm
  return `[[gateways]]\nname = "play"\nnetwork = "${network}"\npay_to = "${payTo}"\nrpc_url = "${rpcUrl}"\nrelayer_key_env = "RELAYER_KEY"\n`
}

function playMoney(): Readonly<Record<string, string>> {
  return { RELAYER_KEY: devnetOf(plain).evm.relayerKey }
}
