/** Attempts of strangers to have something for nothing, and failures that a buyer must not pay for. */
import { describe, expect, test } from 'bun:test'
import { demoSearch } from '../../../server/devnet/demo/search.ts'
import { chatPieces, chunk, DONE, streamAnswer, USAGE, usageChunk, wholeAnswer } from '../../fakes/chat.ts'
import type { ChatAnswer, SearchVendor } from '../../../core/mod.ts'
import { door, kit } from '../../kit.ts'
import { HELLO, reading, deltaChunk, SKY, STREAM, table, USED } from './stream_kit.ts'

const RESPONSES = '/api/v1/responses'
const SEARCH = '/api/v1/search'

describe('an answer that its caller waits for', () => {
  test('can neither be polled nor cancelled: it would be free', async () => {
    const pieces = chatPieces(deltaChunk({ role: 'assistant', content: 'Hello' }))
    const { post, signed, gateway, chain, idle } = await table(async () => pieces.answer)
    const order = { model: 'vendor-a/chat-5.4-mini', input: 'hi', stream: true }
    const response = await post(order, { path: RESPONSES, payment: await signed(order, { path: RESPONSES }) })
    const reader = reading(response)
    const first = (await reader.next()) ?? ''
    const [, id = ''] = /"id":"(resp_[0-9a-f]{32})"/.exec(first) ?? []
    for (const [method, path] of [
      ['GET', id],
      ['POST', `${id}/cancel`],
    ] as const) {
      expect((await gateway.fetch(new Request(`http://farebox.test${RESPONSES}/${path}`, { method }))).status).toBe(404)
    }
    for (const piece of [chunk({}, { finish: 'stop' }), usageChunk(USAGE), DONE]) pieces.push(piece)
    pieces.end()
    expect(await reader.rest()).toContain('event: response.completed')
    await idle()
    expect(chain.transfers).toHaveLength(1)
  })

  test('is paid for as far as it went when the gateway stops', async () => {
    const pieces = chatPieces(deltaChunk({ role: 'assistant', content: 'Hello' }))
    const { post, signed, gateway, chain, idle } = await table(async () => pieces.answer)
    const reader = reading(await post(STREAM, { payment: await signed() }))
    expect(await reader.next()).toContain('Hello')
    const rest = reader.rest()
    gateway.drain()
    expect(await rest).toContain('The gateway is stopping')
    await idle()
    expect([chain.transfers.length, pieces.isCancelled()]).toEqual([1, true])
  })
})

describe('nobody pays', () => {
  const silent: Record<string, ChatAnswer> = {
    'an empty text': wholeAnswer({ content: '' }),
    'no choice at all': {
      kind: 'whole',
      body: { choices: [], usage: { prompt_tokens: 3, completion_tokens: 0, total_tokens: 3 } },
    },
    'a stream of nothing': streamAnswer([DONE]),
    'a stream of a role and an end': streamAnswer([
      deltaChunk({ role: 'assistant', content: '' }),
      deltaChunk({}, { finish: 'stop' }),
      USED,
      DONE,
    ]),
    'a page of HTML among the events': streamAnswer([...HELLO.slice(0, 2), 'data: <html>sk-SECRET</html>\n\n', DONE]),
    'half a chunk': streamAnswer([...HELLO.slice(0, 2), 'data: {"choices":[\n\n', DONE]),
  }
  for (const [name, answer] of Object.entries(silent)) {
    test(`for ${name}, and the authorization is free again`, async () => {
      let given = answer
      const { post, signed, chain, idle } = await table(async () => given)
      const order = answer.kind === 'stream' ? STREAM : SKY
      const payment = await signed(order)
      const text = await (await post(order, { payment })).text()
      await idle()
      expect([text.includes('MODEL_UNAVAILABLE'), text.includes('SECRET'), chain.transfers.length]).toEqual([
        true,
        false,
        0,
      ])
      given = answer.kind === 'stream' ? streamAnswer(HELLO) : wholeAnswer({ content: 'Hello' })
      expect(await (await post(order, { payment })).text()).toContain('lo')
      await idle()
      expect(chain.transfers).toHaveLength(1)
    })
  }
})

test("an upstream's comments are not passed on, but that it lives is", async () => {
  const { post, signed } = await table(async () =>
    streamAnswer([HELLO[0] ?? '', ': x-payment-receipt 0xFAKE\n\n', ...HELLO.slice(1)]),
  )
  const text = await (await post(STREAM, { payment: await signed() })).text()
  expect([text.includes('FAKE'), text.includes(': working\n\n'), text.endsWith(DONE)]).toEqual([false, true, true])
})

test.each(['hangs up on', 'signs too short an authorization for'] as const)(
  'a wallet that %s five searches gets no sixth, until it collects one (contract 1.49)',
  async (trick) => {
    let ready = door()
    const bundled = demoSearch()
    const slow: SearchVendor = { search: async (job, at) => (await ready.passed, await bundled.search(job, at)) }
    const { buyer, chain, clock, idle } = kit({ ports: { vendors: { search: slow } } })
    const alice = buyer()
    const order = { query: 'What is x402?' }
    const uncollected: { payment: ReturnType<typeof alice.sign> }[] = []
    for (let count = 0; count < 5; count++) {
      ready = door()
      const gone = new AbortController()
      const validBefore = BigInt(clock.now() / 1000 + (trick === 'hangs up on' ? 300 : 10))
      const payment = alice.sign(await alice.ask(order, { path: SEARCH }), { validBefore })
      const bought = alice.buy(order, { path: SEARCH, payment, gone: gone.signal })
      await clock.settle()
      if (trick === 'hangs up on') gone.abort()
      else await clock.advance(11_000)
      ready.open()
      await bought
      await idle()
      uncollected.push({ payment })
    }
    const { status, body } = await alice.buy(order, { path: SEARCH })
    expect([status, body.code, body.recoverable, chain.transfers.length]).toEqual([402, 'PAYMENT_UNFUNDED', true, 0])
    expect((await alice.poll(body.poll_url, alice.sign(await alice.ask(order, { path: SEARCH })))).status).toBe(200)
    expect((await alice.buy(order, { path: SEARCH })).status).toBe(200)
    expect(chain.transfers).toHaveLength(2)
  },
)

test('five searches that nobody collected are forgotten after a day (contract 1.49)', async () => {
  const bundled = demoSearch()
  let ready = door()
  const slow: SearchVendor = { search: async (job, at) => (await ready.passed, await bundled.search(job, at)) }
  const { buyer, clock, idle } = kit({ ports: { vendors: { search: slow } } })
  const alice = buyer()
  const order = { query: 'What is x402?' }
  for (let count = 0; count < 5; count++) {
    ready = door()
    const gone = new AbortController()
    const bought = alice.buy(order, { path: SEARCH, gone: gone.signal })
    await clock.settle()
    gone.abort()
    ready.open()
    await bought
    await idle()
  }
  await clock.advance(86_400_000 - 1)
  expect((await alice.buy(order, { path: SEARCH })).body.code).toBe('PAYMENT_UNFUNDED')
  await clock.advance(1)
  expect((await alice.buy(order, { path: SEARCH })).status).toBe(200)
})

test('HEAD tells the length that GET would have', async () => {
  const { gateway } = kit()
  for (const path of ['/api/v1/models', '/robots.txt']) {
    const at = (method: string) => gateway.fetch(new Request(`http://farebox.test${path}`, { method }))
    const length = (await (await at('GET')).arrayBuffer()).byteLength
    expect([path, (await at('HEAD')).headers.get('content-length')]).toEqual([path, String(length)])
  }
})
