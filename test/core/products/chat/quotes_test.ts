/**
 * The quotes that were worked out by hand, through the gateway: what is shown, what is signed and what is moved are one
 * number.
 */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { scriptedChat } from '../../../fakes/chat.ts'
import { PIXEL } from '../../../fakes/images.ts'
import { chatRows } from '../../../../core/mod.ts'
import { EFFORTS } from '../../../../core/ports/vendors/chat.ts'
import vectors from '../../../vectors/chat_quotes.json'
import { decodeHeader, kit, ORIGIN, read } from '../../../kit.ts'

const COMPLETIONS = '/api/v1/chat/completions'
const ESTIMATE = '/api/v1/chat/estimate'

type Words = { readonly words: number }
type Vector = (typeof vectors.quotes)[number]

/** The body that a vector stands for. */
function bodyOf({ body }: Vector) {
  const text = ({ words }: Words) => Array.from({ length: words }, () => 'word').join(' ')
  return { ...body, messages: body.messages.map((message) => ({ ...message, content: text(message.content) })) }
}

/** With room for the prompts of more than a MiB. */
function gatewayOf() {
  const vendor = scriptedChat()
  const subject = kit({ chatVendor: vendor, maxBody: 8 << 20, maxUpload: 8 << 20 })
  return { ...subject, vendor, alice: subject.buyer() }
}

const inDollars = (micro: string): string =>
  `${micro.padStart(7, '0').slice(0, -6)}.${micro.padStart(7, '0').slice(-6)}`

describe('a quote that was worked out by hand', () => {
  for (const vector of vectors.quotes.filter(({ micro_usdc }) => micro_usdc !== null)) {
    const amount = vector.micro_usdc ?? ''

    test(`${vector.name}: asked, estimated, signed and settled, it is ${amount} (contract 1.14, 1.15, 6.1, 6.3, 6.17, 6.37, 6.38, 6.39, 6.41)`, async () => {
      const { alice, chain, vendor } = gatewayOf()
      const body = bodyOf(vector)
      const challenge = await alice.ask(body, { path: COMPLETIONS })
      expect(challenge.status).toBe(402)
      expect(challenge.body.accepts[0].amount).toBe(amount)
      for (const header of ['payment-required', 'x-payment-required'])
        expect(decodeHeader(challenge.headers.get(header)).accepts[0].amount).toBe(amount)
      expect(challenge.body.price).toEqual({ amount: inDollars(amount), currency: 'USD' })
      expect(challenge.body.accepts[0].maxTimeoutSeconds).toBe(300)

      const estimate = await alice.ask(body, { path: ESTIMATE })
      expect(estimate.body).toMatchObject({ model: vector.row, price: { amount: inDollars(amount), currency: 'USD' } })
      expect(estimate.body.estimate.max_tokens).toBe(vector.max_tokens)
      if (vectors.rows[vector.row as keyof typeof vectors.rows].mode === 'paid' && !('tools' in vector.body))
        expect(estimate.body.estimate.prompt_tokens).toBe(vector.prompt_tokens)
      expect(vendor.orders).toEqual([])

      const bought = await alice.buy(body, { path: COMPLETIONS, payment: alice.sign(challenge) })
      expect(bought.status).toBe(200)
      expect(chain.transfers.map(({ value }) => String(value))).toEqual([amount])
      expect(decodeHeader(bought.headers.get('payment-response'))).toMatchObject({ success: true, payer: alice.wallet })
      expect(bought.headers.get('x-payment-receipt')).toBe(chain.transfers[0]?.transaction ?? '')
      expect(vendor.orders.map(({ body: sent }) => [sent.max_tokens, sent.reasoning_effort ?? null])).toEqual([
        [vector.max_tokens, vector.effort_sent],
      ])
    })
  }

  for (const vector of vectors.quotes.filter(({ micro_usdc }) => micro_usdc === null)) {
    test(`${vector.name}: answered without a payment`, async () => {
      const { alice, chain, vendor } = gatewayOf()
      const body = bodyOf(vector)
      const estimate = await alice.ask(body, { path: ESTIMATE })
      expect(estimate.body).toMatchObject({
        model: vector.row,
        billing_mode: 'free',
        price: { amount: '0.000000', currency: 'USD' },
      })
      const answer = await alice.ask(body, { path: COMPLETIONS })
      expect([answer.status, answer.headers.get('x-free-model'), answer.body.model]).toEqual([200, 'true', vector.row])
      expect(vendor.orders.map(({ body: sent }) => sent.max_tokens)).toEqual([vector.max_tokens])
      expect(chain.transfers).toEqual([])
    })
  }
})

test('several answers are each quoted: n times the output share (contract 6.45)', async () => {
  const { alice } = gatewayOf()
  const body = { model: 'vendor-c/chat-4.7', messages: [{ role: 'user', content: 'word' }], max_tokens: 10_000 }
  const one = await alice.ask(body, { path: COMPLETIONS })
  const three = await alice.ask({ ...body, n: 3 }, { path: COMPLETIONS })
  expect(one.body.accepts[0].amount).toBe('7016') // 8*2 = 16, + 10000*0.1*6 + 1000
  expect(three.body.accepts[0].amount).toBe('19016')
})

test('a 402 asks nothing of storage, and nothing of the chain', async () => {
  const requests: string[] = []
  const { buyer } = kit({
    chatVendor: scriptedChat(),
    wrap: (ports) => ({
      ...ports,
      storage: new Proxy(ports.storage, {
        get: (target, verb: 'getCall') => (id: string) => (requests.push(verb), target[verb](id)),
      }),
      chain: { ...ports.chain, verify: () => Promise.reject(new Error('asked')) },
    }),
  })
  await buyer().ask({ model: 'farebox/echo', messages: [{ role: 'user', content: 'word' }] }, { path: COMPLETIONS })
  expect(requests).toEqual([])
})

describe('an estimate is the quote of the same body (contract 6.3)', () => {
  const reply = fc.oneof(
    fc.string({ maxLength: 200 }).map((text) => `a${text}`),
    fc.nat(400_000).map(String),
  )
  const part = fc.oneof(
    reply.map((text) => ({ type: 'text', text })),
    fc.constant({ type: 'image_url', image_url: { url: PIXEL } }),
  )
  const message = fc.oneof(
    fc.record({ role: fc.constantFrom('system', 'user', 'assistant'), content: reply }),
    fc.record({ role: fc.constant('user'), content: fc.array(part, { maxLength: 3 }) }),
    reply.map((content) => ({ role: 'tool', tool_call_id: 'c1', content })),
  )
  const tool = reply.map((description) => ({
    type: 'function',
    function: { name: 'look', description, parameters: { type: 'object', properties: {} } },
  }))
  const body = fc.record(
    {
      model: fc.constantFrom(...chatRows.flatMap(({ id, aliases }) => [id, ...aliases.slice(0, 1)]), 'nobody/nothing'),
      messages: fc.array(message, { maxLength: 6 }),
      max_tokens: fc.oneof(fc.integer({ min: 0, max: 20_000 }), fc.integer({ min: 100_000, max: 2_000_000 })),
      n: fc.integer({ min: 1, max: 9 }),
      temperature: fc.constantFrom(0, 1, 1.5),
      tools: fc.array(tool, { maxLength: 2 }),
      reasoning_effort: fc.constantFrom(...EFFORTS, 'extreme'),
      response_format: fc.constantFrom(
        { type: 'json_object' },
        { type: 'json_schema', json_schema: { name: 'x', schema: {} } },
      ),
      search_parameters: fc.constantFrom({ mode: 'on' }, { mode: 'off' }, {}),
      thinking: fc.constant({ type: 'enabled' }),
    },
    { requiredKeys: ['model', 'messages'] },
  )
  /** A number is as many tokens as it says. */
  const countTokens = async (text: string) => Number(/^a?(\d+)$/.exec(text)?.[1] ?? text.length)
  const micro = (amount: string) => Math.round(Number(amount) * 1e6)

  test('in base units; its parts add up, and refusals have the same text (contract 6.3)', async () => {
    const seen = new Set<string>()
    await fc.assert(
      fc.asyncProperty(body, async (request) => {
        const alice = kit({ chatVendor: scriptedChat(), ports: { countTokens } }).buyer()
        const quoted = await alice.ask(request, { path: COMPLETIONS })
        const estimate = await alice.ask(request, { path: ESTIMATE })
        seen.add(`${quoted.status} ${estimate.body.billing_mode}`)
        if (quoted.status === 400) return expect([estimate.status, estimate.body]).toEqual([400, quoted.body])
        expect(estimate.status).toBe(200)
        const { billing_mode, price, parts } = estimate.body
        expect(parts === undefined).toBe(billing_mode !== 'paid')
        if (quoted.status === 200) return expect([billing_mode, price.amount]).toEqual(['free', '0.000000'])
        expect([quoted.status, price]).toEqual([402, quoted.body.price])
        expect(String(micro(price.amount))).toBe(quoted.body.accepts[0].amount)
        if (parts === undefined) return
        const { input, output, floor_applied, surcharge, fee, total } = parts
        const tokens = Number(input) + Number(output)
        expect([total, floor_applied]).toEqual([price.amount, tokens < 0.001])
        const sum = Math.max(tokens, 0.001) + Number(surcharge) + Number(fee)
        expect(Math.abs(micro(total) - sum * 1e6)).toBeLessThan(1.001)
      }),
      { numRuns: 400 },
    )
    expect([...seen]).toEqual(expect.arrayContaining(['400 undefined', '402 paid']))
  })

  test('with a flat price has no parts, but counts the prompt (contract 6.3)', async () => {
    const { alice } = gatewayOf()
    const { body } = await alice.ask(
      { model: 'vendor-open/qwen3-32b', messages: [{ role: 'user', content: 'five words of a prompt' }] },
      { path: ESTIMATE },
    )
    expect(body).toEqual({
      model: 'vendor-open/qwen3-32b',
      billing_mode: 'flat',
      price: { amount: '0.001000', currency: 'USD' },
      estimate: { prompt_tokens: 12, max_tokens: 8_192, messages_removed: 0 },
    })
  })
})

test('an estimate is free, says its parts, and is given 120 times a minute to an address (contract 6.3)', async () => {
  const { gateway, chain, clock } = gatewayOf()
  const body = { model: 'farebox/echo', messages: [{ role: 'user', content: 'word' }], max_tokens: 1_000 }
  const ask = async (ip = '192.0.2.1') =>
    await read(
      await gateway.fetch(
        new Request(ORIGIN + ESTIMATE, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(body),
        }),
        { ip },
      ),
    )
  const { status, body: quote } = await ask()
  expect([status, quote.price.amount, quote.parts.fee, quote.parts.total]).toEqual([
    200,
    '0.002000',
    '0.001000',
    '0.002000',
  ])
  for (let count = 1; count < 120; count++) expect((await ask()).status).toBe(200)
  expect([(await ask()).status, (await ask('192.0.2.2')).status]).toEqual([429, 200])
  await clock.advance(60_000)
  expect([(await ask()).status, chain.transfers]).toEqual([200, []])
})
