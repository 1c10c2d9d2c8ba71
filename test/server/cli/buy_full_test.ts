/** The buyer's command against a started gateway: a process of its own, the official client inside. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Running } from '../../../server/main.ts'
import { startedGateways } from '../started_gateway.ts'
import { type Payer, payerAt, pngSize } from '../clients/payer.ts'
import { rowsOf } from '../../vectors/rows.ts'

const MAIN = join(import.meta.dir, '../../../server/main.ts')
const { scratch, startWith } = startedGateways()
let running: Running
let payer: Payer
let model: Bun.Server<undefined>
/** The buyer has been shown what came before the breaker breaks. */
const printed = Promise.withResolvers<void>()

/** A server of the operator's that speaks openai-chat: it thinks before it answers, or breaks off. */
function openaiServer(): Bun.Server<undefined> {
  const event = (delta: unknown) =>
    `data: ${JSON.stringify({ id: 'x', choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`
  const fetch = async (request: Request) => {
    const order = (await request.json()) as { model: string; messages: readonly { role: string; content: string }[] }
    const message = order.messages.map(({ role, content }) => `${role}=${content}`).join(';')
    const end =
      order.model === 'breaker'
        ? 'data: {"error":{"message":"out of memory"}}\n\n'
        : `data: {"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: {"id":"x","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}\n\ndata: [DONE]\n\n`
    const events = [
      event({ role: 'assistant', reasoning_content: 'Hm.' }),
      event({ content: `I heard ${message}` }),
      end,
    ].map((text) => new TextEncoder().encode(text))
    const pull = async (to: ReadableStreamDefaultController<Uint8Array>) => {
      if (order.model === 'breaker' && events.length === 1) await printed.promise
      const next = events.shift()
      return next ? to.enqueue(next) : to.close()
    }
    const body = new ReadableStream<Uint8Array>({ pull }, { highWaterMark: 0 })
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
  }
  return Bun.serve({ port: 0, hostname: '127.0.0.1', fetch })
}

beforeAll(async () => {
  model = openaiServer()
  running = await startWith({ CHAT_BASE_URL: `${model.url}v1`, CHAT_MODEL: 'thinker,breaker' })
  payer = await payerAt(running.url)
})

afterAll(() => model.stop(true))

async function buy(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<{ code: number; out: string; err: string }> {
  const child = Bun.spawn([process.execPath, MAIN, 'buy', ...args], {
    cwd: scratch,
    env: { PATH: process.env.PATH ?? '', ...env },
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [code, out, err] = await Promise.all([child.exited, gather(child.stdout), child.stderr.text()])
  return { code, out, err }
}

async function gather(stream: ReadableStream<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const bytes of stream) {
    text += decoder.decode(bytes, { stream: true })
    if (text.includes('I heard user=Hello')) printed.resolve()
  }
  return text
}

const usd = (micro: bigint): string => String(Number(micro) / 1e6)

test('buy images takes the cheapest model, prints the quote, the transaction and both balances, and saves the picture', async () => {
  const before = await payer.balance()
  const { code, out, err } = await buy(['images', 'a red fox in the snow', '--url', running.url, '--out', 'fox.png'])
  expect({ code, err }).toEqual({ code: 0, err: '' })
  const after = await payer.balance()
  expect(before - after).toBe(16_750n)
  const transaction = /transaction (0x[0-9a-f]{64})/.exec(out)?.[1] ?? ''
  expect(out.split('\n')).toEqual([
    `quote     0.016750 USDC on eip155:84532, to ${payer.payTo}`,
    `wallet    ${payer.account.address}, ${usd(before)} USDC`,
    `paid      settled on base-sepolia, transaction ${transaction}`,
    `balance   ${usd(before)} -> ${usd(after)} USDC`,
    expect.stringMatching(/^hosted    http:.*\/api\/media\/images\/.*\.png$/),
    'image     fox.png',
    '',
  ])
  expect(await payer.transfersIn(transaction)).toMatchObject([{ value: 16_750n }])
  expect(pngSize(readFileSync(join(scratch, 'fox.png')))).toBe('1024x1024')
})

test('buy --gateway solana pays on Solana, and says what left the wallet there', async () => {
  const { code, out, err } = await buy([
    '--gateway',
    'solana',
    'images',
    'a lighthouse',
    '--model',
    'vendor-d/image-cv4',
    '--size',
    '512x512',
    '--url',
    running.url,
    '--out',
    'solana.png',
  ])
  expect({ code, err }).toEqual({ code: 0, err: '' })
  expect(out).toMatch(
    /^quote     0\.\d{6} USDC on solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1, to [1-9A-HJ-NP-Za-km-z]{32,44}\n/,
  )
  expect(out).toMatch(/\npaid      settled on solana-devnet, transaction [1-9A-HJ-NP-Za-km-z]{64,90}\n/)
  const [before = 0, after = 0] = (/balance   (\S+) -> (\S+) USDC/.exec(out) ?? []).slice(1).map(Number)
  expect((before - after).toFixed(6)).toBe(/quote     (\S+)/.exec(out)?.[1] ?? '')
  expect(pngSize(readFileSync(join(scratch, 'solana.png')))).toBe('512x512')
})

test('buy --gateway names those that there are', async () => {
  const { code, err } = await buy(['--gateway', 'moon', 'chat', 'Hello', '--url', running.url])
  expect([code, err]).toEqual([1, 'Unknown gateway moon. --gateway takes one of: devnet, solana, nano, testnet.\n'])
})

test('buy images takes model, size and count, finds the gateway in FAREBOX_URL, and numbers the pictures', async () => {
  const { code, out } = await buy(
    ['images', 'two boats', '--model', 'vendor-d/image-cv4', '--size', '768x1344', '--n', '2', '--out', 'boat.png'],
    { FAREBOX_URL: `${running.url}/` },
  )
  expect(code).toBe(0)
  expect(out).toContain('quote     0.032500 USDC')
  expect(
    readdirSync(scratch)
      .filter((name) => name.startsWith('boat'))
      .toSorted(),
  ).toEqual(['boat-1.png', 'boat.png'])
  for (const name of ['boat.png', 'boat-1.png']) expect(pngSize(readFileSync(join(scratch, name)))).toBe('768x1344')
})

test('buy video prints the quote, how it goes, the transaction and both balances, and saves the clip', async () => {
  const before = await payer.balance()
  const { code, out, err } = await buy([
    'video',
    'a red fox runs through the snow',
    '--seconds',
    '1',
    '--url',
    running.url,
    '--out',
    'fox.mp4',
  ])
  expect({ code, err }).toEqual({ code: 0, err: '' })
  const after = await payer.balance()
  expect(before - after).toBe(52_000n)
  const transaction = /transaction (0x[0-9a-f]{64})/.exec(out)?.[1] ?? ''
  const [quote, wallet, waiting, ...rest] = out.split('\n')
  expect([quote, wallet]).toEqual([
    `quote     0.052000 USDC on eip155:84532, to ${payer.payTo}`,
    `wallet    ${payer.account.address}, ${usd(before)} USDC`,
  ])
  expect(waiting).toMatch(/^waiting   job_\w+ is queued$/)
  expect(rest.filter((line) => !/^waiting   job_\w+ is (queued|in_progress)(, \d+%)?$/.test(line))).toEqual([
    `paid      settled on base-sepolia, transaction ${transaction}`,
    `balance   ${usd(before)} -> ${usd(after)} USDC`,
    expect.stringMatching(/^hosted    http:.*\/api\/media\/videos\/.*\.mp4$/),
    'video     fox.mp4, 1 s',
    '',
  ])
  expect(await payer.transfersIn(transaction)).toMatchObject([{ value: 52_000n }])
  expect(readFileSync(join(scratch, 'fox.mp4')).toString('latin1', 4, 8)).toBe('ftyp')
}, 300_000)

test('buy speech prints the quote, the transaction and both balances, and saves a WAV that somebody speaks in', async () => {
  const before = await payer.balance()
  const { code, out, err } = await buy([
    'speech',
    'Hello, this is a gateway.',
    '--voice',
    'George',
    '--url',
    running.url,
    '--out',
    'hello.wav',
  ])
  expect({ code, err }).toEqual({ code: 0, err: '' })
  const after = await payer.balance()
  expect(before - after).toBe(2_313n)
  const transaction = /transaction (0x[0-9a-f]{64})/.exec(out)?.[1] ?? ''
  expect(out.split('\n')).toEqual([
    `quote     0.002313 USDC on eip155:84532, to ${payer.payTo}`,
    `wallet    ${payer.account.address}, ${usd(before)} USDC`,
    `paid      settled on eip155:84532, transaction ${transaction}`,
    `balance   ${usd(before)} -> ${usd(after)} USDC`,
    expect.stringMatching(/^hosted    http:.*\/api\/media\/audios\/.*\.wav$/),
    expect.stringMatching(/^speech    hello\.wav, \d(\.\d)? s$/),
    expect.stringMatching(/^note      Demo speech by Farebox - not a model/),
    '',
  ])
  expect(await payer.transfersIn(transaction)).toMatchObject([{ value: 2_313n }])
  const wav = readFileSync(join(scratch, 'hello.wav'))
  expect([wav.toString('latin1', 0, 4), wav.toString('latin1', 8, 12), wav.length > 32_000]).toEqual([
    'RIFF',
    'WAVE',
    true,
  ])
}, 300_000)

test('buy music prints the same of a track, and saves it', async () => {
  const { code, out, err } = await buy(['music', 'calm piano', '--seconds', '6', '--out', 'calm.wav'], {
    FAREBOX_URL: running.url,
  })
  expect({ code, err }).toEqual({ code: 0, err: '' })
  expect(out).toMatch(
    /^quote     0\.158500 USDC[^]*\npaid      settled on base-sepolia, transaction 0x\w+\nbalance [^]*\nmusic     calm\.wav, \d(\.\d)? s\nnote      Demo music by Farebox - not a model/,
  )
  expect(readFileSync(join(scratch, 'calm.wav')).toString('latin1', 8, 12)).toBe('WAVE')
}, 300_000)

test('buy signs nothing above its limit, which is 1 USDC for real money; test money has no limit', async () => {
  const before = await payer.balance()
  const film = ['video', 'a red fox', '--model', 'vendor-e/video-2.0', '--resolution', '4K', '--url', running.url]
  const tooExpensive = (limit: number) => ({
    code: 1,
    err: expect.stringMatching(
      new RegExp(`^The price is 10\\.\\d+ USDC, above the limit of ${limit} USDC. To pay it, add --max-price 11\n$`),
    ),
  })
  expect(await buy([...film, '--max-price', '9.99'])).toMatchObject(tooExpensive(9.99))
  expect(await buy(film, { FAREBOX_BUYER_KEY: payer.devnet.buyer.private_key })).toMatchObject(tooExpensive(1))
  expect(await payer.balance()).toBe(before)
  const { code, out } = await buy(
    [
      'video',
      'a red fox',
      '--model',
      'vendor-e/video-2.5',
      '--resolution',
      '480p',
      '--seconds',
      '7',
      '--out',
      'dear.mp4',
    ],
    { FAREBOX_URL: running.url },
  )
  expect([code, out]).toEqual([0, expect.stringMatching(/^quote     1\.1/)])
}, 300_000)

test('buy chat prints the quote, the answer as it came, its usage, the transaction and both balances', async () => {
  const before = await payer.balance()
  const { code, out, err } = await buy(['chat', 'Why is the sky blue?', '--url', running.url])
  expect({ code, err }).toEqual({ code: 0, err: '' })
  const after = await payer.balance()
  expect(before - after).toBe(2_236n)
  const transaction = /transaction (0x[0-9a-f]{64})/.exec(out)?.[1] ?? ''
  expect(out.split('\n')).toEqual([
    `quote     0.002236 USDC on eip155:84532, to ${payer.payTo}`,
    `wallet    ${payer.account.address}, ${usd(before)} USDC`,
    'model     farebox/echo',
    '',
    expect.stringContaining('Why is the sky blue?'),
    '',
    expect.stringMatching(/^usage     \d+ tokens in, \d+ out$/),
    `paid      settled, transaction ${transaction}`,
    `balance   ${usd(before)} -> ${usd(after)} USDC`,
    '',
  ])
  expect(await payer.transfersIn(transaction)).toMatchObject([{ value: 2_236n }])
})

test('buy chat takes the longest answer, which the quote grows with', async () => {
  const { code, out } = await buy(['chat', 'Sing', '--max-tokens', '20', '--model', 'farebox/echo'], {
    FAREBOX_URL: running.url,
  })
  expect(code).toBe(0)
  expect(out).toStartWith('quote     0.002000 USDC')
  expect(out).toMatch(/usage     \d+ tokens in, (?:1\d|20) out/)
})

test('a free model is asked without a payment: system prompt, reasoning, and whose server it was', async () => {
  const before = await payer.balance()
  const { code, out, err } = await buy(['chat', 'Hello', '--model', 'local/thinker', '--system', 'Be brief'], {
    FAREBOX_URL: running.url,
  })
  expect({ code, err }).toEqual({ code: 0, err: '' })
  expect(out).toBe(
    'model     local/thinker\n\nHm.\n\nI heard system=Be brief;user=Hello\n\nusage     7 tokens in, 3 out\npaid      nothing: the model is free\n',
  )
  expect(await payer.balance()).toBe(before)
})

test('an answer that breaks off is reported as incomplete, after the part that arrived', async () => {
  const { code, out, err } = await buy(['chat', 'Hello', '--model', 'local/breaker'], { FAREBOX_URL: running.url })
  expect(code).toBe(1)
  expect(out).toContain('I heard user=Hello')
  expect(err).toStartWith('The answer is incomplete: ')
  expect(out).toEndWith('\n\npaid      nothing: the model is free\n')
})

const DONE = 'data: [DONE]\n\n'
const HALF = 'data: {"choices":[{"index":0,"delta":{"content":"Half"}}]}\n\n'
const BROKEN = 'data: {"error":{"message":"out of memory"}}\n\n'
const RECEIPT = `: x-payment-receipt 0x${'ab'.repeat(32)}\n\n`
const CAPPED = { 'x-max-tokens-capped': 'true', 'x-max-tokens-requested': '99999', 'x-max-tokens-effective': '8192' }

/** The gateway, but for paid answers of chat, which are these events. */
function between(events: string): Bun.Server<undefined> {
  const fetch = async (request: Request) => {
    const { pathname } = new URL(request.url)
    if (request.headers.has('payment-signature'))
      return new Response(events, { headers: { 'content-type': 'text/event-stream', ...CAPPED } })
    const body = request.method === 'POST' ? await request.text() : null
    const {
      status,
      headers,
      body: answer,
    } = await globalThis.fetch(running.url + pathname, {
      method: request.method,
      headers: { 'content-type': 'application/json' },
      body,
    })
    headers.delete('content-encoding')
    return new Response(answer, { status, headers })
  }
  return Bun.serve({ port: 0, hostname: '127.0.0.1', fetch })
}

test.each([
  ['with its receipt', HALF + RECEIPT + BROKEN, `paid      settled, transaction 0x${'ab'.repeat(32)}`, 'out of memory'],
  ['without one', HALF + BROKEN, 'paid      probably nothing: no receipt was received', 'out of memory'],
  [
    'without an end',
    HALF,
    'paid      unknown: no receipt was received; the delivered part may still be charged',
    'the connection was lost',
  ],
  [
    'in an event that cannot be parsed',
    `${HALF}data: {"choices":[{\n\ndata: 7\n\n${RECEIPT}${DONE}`,
    `paid      settled, transaction 0x${'ab'.repeat(32)}`,
    'an event could not be parsed',
  ],
])('a paid answer that breaks off %s says what was charged, and the balance', async (_, events, paid, why) => {
  const server = between(events)
  const { code, out, err } = await buy(['chat', 'Sing', '--url', server.url.origin, '--max-tokens', '99999'])
  await server.stop(true)
  expect([code, err]).toEqual([1, `The answer is incomplete: ${why}\n`])
  expect(out).toContain('capped    at 8192 tokens: the model cannot write 99999 for this prompt\n\nHalf\n\n')
  expect(out).toContain(`\n\n${paid}\nbalance   `)
})

test.each([
  ['no address', 'notaurl', '--url takes the URL of a gateway, such as http://127.0.0.1:4020, not "notaurl"'],
  ['another site', undefined, 'is not a gateway: its response is not valid JSON. Check --url.'],
])('buy chat at %s says so', async (_, url, message) => {
  const site = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response('<html>', { status: 402 }) })
  for (const more of [[], ['--model', 'a/b']]) {
    const { code, out, err } = await buy(['chat', 'Sing', '--url', url ?? site.url.origin, ...more])
    expect({ code, out }).toEqual({ code: 1, out: '' })
    expect(err).toContain(message)
    expect(err).not.toContain('JSON Parse')
  }
  await site.stop(true)
})

test.each([...rowsOf<[string, string[], string]>('refused_purchases')])(
  'buy with %s says so, exits with 1, or with 2 when the command line is wrong, and pays nothing',
  async (_, args, message) => {
    const before = await payer.balance()
    const { code, out, err } = await buy(args, { FAREBOX_URL: running.url })
    const isUsage = /^(--|the first argument|say what)/.test(message)
    expect({ code, out }).toEqual({ code: isUsage ? 2 : 1, out: '' })
    expect(err.endsWith('\nRun farebox buy --help for its options and examples.\n')).toBe(isUsage)
    expect(err).toContain(message)
    expect(err).not.toContain('    at ')
    expect(await payer.balance()).toBe(before)
  },
)

test('buy finds the gateway where the file and PORT let it listen', async () => {
  const { port } = new URL(running.url)
  writeFileSync(join(scratch, 'buyer.toml'), `port = ${port}\nhost = "0.0.0.0"\n`)
  const args = ['chat', 'Hello', '--model', 'vendor-z/none']
  for (const env of [{ PORT: port }, { FAREBOX_CONFIG: 'buyer.toml' }] as const)
    expect(await buy(args, env as Readonly<Record<string, string>>)).toMatchObject({
      code: 1,
      err: expect.stringContaining('400: Unknown model: vendor-z/none.'),
    })
})

test('buy with an empty wallet, or with a key of another network, says so before it signs', async () => {
  const args = ['chat', 'Hello', '--url', running.url, '--rpc', payer.devnet.rpc_url]
  const empty = await buy(args, { FAREBOX_BUYER_KEY: `0x${'17'.repeat(32)}` })
  expect(empty.code).toBe(1)
  expect(empty.err).toMatch(
    /^The wallet 0x\w{40} holds 0 USDC on eip155:84532, and the price is 0\.00\d+ USDC\. Send USDC/,
  )
  const key = 's3cret'.repeat(8)
  const wrong = await buy(args, { FAREBOX_BUYER_KEY: key })
  expect([wrong.code, wrong.err]).toEqual([
    1,
    'The gateway is paid on eip155:84532, and FAREBOX_BUYER_KEY is no key for that network: it must be 0x and 64 hex digits (its value is not shown).\n',
  ])
})

test('buy without a gateway says how to start one', async () => {
  const { code, err } = await buy(['images', 'a fox', '--url', 'http://127.0.0.1:1'])
  expect({ code, err }).toEqual({
    code: 1,
    err: 'Cannot reach a gateway at http://127.0.0.1:1. Start one with: npx -y bun@1.4.4 start\n',
  })
})
