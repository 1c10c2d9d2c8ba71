/**
 * Terms that every sale has in common, read off the endpoints themselves: how long it may take, what it costs at least,
 * when it checks.
 */
import { expect, test } from 'bun:test'
import { scriptedAudio } from '../../fakes/audio.ts'
import { scriptedChat } from '../../fakes/chat.ts'
import { scriptedVideo } from '../../fakes/videos.ts'
import { isSold } from '../../../core/endpoint/mod.ts'
import { pricedTrial, trialOf } from '../../../core/endpoint/samples.ts'
import { pathOf, unservedHint } from '../trial_path.ts'
import { apiErrorCodes, rowOf } from '../../../core/http/errors.ts'
import { STANDARD_PRICES } from '../../../core/endpoint/prices.ts'
import { catalog, dollars, endpoints } from '../../../core/mod.ts'
import { embedded, FOX, kit, ORIGIN, read, testClock } from '../../kit.ts'

/** A gateway that sells everything. */
function whole() {
  const clock = testClock()
  return kit({
    chatVendor: scriptedChat(),
    video: scriptedVideo(),
    audio: scriptedAudio(),
    ports: { clock, vendors: embedded(clock) },
  })
}

test('every endpoint has somebody in tests who makes what it sells', async () => {
  const { ports } = whole()
  const offering = { catalog: catalog(), vendors: ports.vendors, countTokens: ports.countTokens }
  const unserved: string[] = []
  for (const endpoint of endpoints.filter(isSold))
    if ((await pricedTrial(endpoint, offering)).price === undefined) unserved.push(unservedHint(endpoint))
  expect(unserved).toEqual([])
})

test('an offer lasts 600 seconds for images, videos, music, background responses and funding, and 300 for all else (contract 1.51)', async () => {
  const { gateway, ports, buyer } = whole()
  const LONG =
    /^\/api\/v1\/(images\/(generations|image2image|variations)|videos(\/generations)?|audio\/generations|polymarket-funding\/fund)$/
  for (const endpoint of endpoints.filter(isSold)) {
    const trial = await pricedTrial(endpoint, {
      catalog: catalog(),
      vendors: ports.vendors,
      countTokens: ports.countTokens,
    })
    const { status, body } = await read(await gateway.fetch(new Request(ORIGIN + pathOf(endpoint, trial))))
    expect([
      endpoint.path,
      status === 503 ? unservedHint(endpoint) : status,
      body.accepts?.[0].maxTimeoutSeconds,
    ]).toEqual([endpoint.path, 402, LONG.test(endpoint.path) ? 600 : 300])
  }
  const background = { model: 'vendor-a/chat-5.4-mini', input: 'Why is the sky blue?', background: true }
  const reply = await buyer().ask(background, { path: '/api/v1/responses' })
  expect([reply.status, reply.body.accepts[0].maxTimeoutSeconds]).toEqual([402, 600])
})

test('no call that costs anything costs less than the fee of 0.001 (contract 1.14)', () => {
  const { ports } = whole()
  const least = endpoints
    .filter(isSold)
    .map(({ path, priceRange }) => [path, priceRange({ catalog: catalog(), vendors: ports.vendors }).min] as const)
  expect(least.length).toBeGreaterThan(40)
  expect(least.filter(([, min]) => min !== 0n && min < 1_000n)).toEqual([])
  expect(least.filter(([, min]) => min === 0n).map(([path]) => path)).toEqual([
    '/api/v1/phone/numbers/release',
    '/api/v1/onramp/token',
  ])
})

test("every price rises with the operator's fee, once per call (contract 1.14)", async () => {
  const { ports } = whole()
  const withFee = (fee: string) => ({
    catalog: catalog(),
    vendors: ports.vendors,
    countTokens: ports.countTokens,
    prices: { ...STANDARD_PRICES, fee: dollars(fee) },
  })
  for (const endpoint of endpoints.filter(isSold)) {
    const pricesAt = async (fee: string): Promise<Readonly<Record<'example' | 'min' | 'max', bigint>>> => {
      const context = withFee(fee)
      const { price } = await pricedTrial(endpoint, context)
      // The least of chat is a model at a flat price, which has no fee.
      const { min, max } = { ...endpoint.priceRange(context), ...(endpoint.delivery === 'stream' && { min: 0n }) }
      return { example: price === undefined || price === 'free' ? 0n : price.amount, min, max }
    }
    const [low, high] = [await pricesAt('0.001'), await pricesAt('0.003')]
    const raised = (amount: bigint) => (amount === 0n ? 0n : amount + 2_000n)
    const expected = { example: raised(low.example), min: raised(low.min), max: raised(low.max) }
    expect({ [`${endpoint.name}: ${HINT}`]: high }).toEqual({ [`${endpoint.name}: ${HINT}`]: expected })
  }
})
const HINT = "give `prices` to the formula: price: (input, { prices }) => … flatPrice('0.01', prices)"

test('paid market data and RPC quote before they check, and nothing else does (contract 1.52)', () => {
  const late = endpoints.filter(isSold).filter(({ order }) => order === 'quote_then_check')
  expect(late.length).toBeGreaterThan(3)
  for (const { path } of late) expect(path).toMatch(/^\/api\/v1\/(stocks|usstock|rpc|solana\/rpc)/)
  const early = endpoints.filter(isSold).filter(({ order }) => order !== 'quote_then_check')
  for (const { path } of early) expect(path).not.toMatch(/^\/api\/v1\/(stocks|usstock|rpc|solana\/rpc)/)
})

test('409 is the status of an identifier, and of endpoints that name it (contract 1.25)', () => {
  const conflicts = apiErrorCodes.filter((code) => rowOf(code).status === 409)
  expect(conflicts.toSorted()).toEqual(['AUTHORIZATION_USED', 'CALL_IN_PROGRESS', 'PAYMENT_IDENTIFIER_CONFLICT'])
  const named = endpoints.flatMap((endpoint) =>
    'errors' in endpoint && (endpoint.errors ?? []).some((code) => rowOf(code).status === 409) ? [endpoint.path] : [],
  )
  expect(named).toEqual(['/api/v1/voice/call', '/api/v1/polymarket-funding/fund'])
})

test('a payment header on a free route changes nothing (contract 1.55)', async () => {
  const offering = { catalog: catalog(), vendors: whole().ports.vendors }
  let requestCount = 0
  for (const endpoint of endpoints) {
    if (endpoint.kind !== 'free' || endpoint.method !== 'GET') continue
    const url = ORIGIN + pathOf(endpoint, trialOf(endpoint, offering))
    const [plain, paying] = [whole(), whole()]
    const answers = [
      await plain.gateway.fetch(new Request(url)),
      await paying.gateway.fetch(
        new Request(url, { headers: { 'payment-signature': 'garbage', 'x-payment': 'e30=' } }),
      ),
    ]
    const [one, other] = await Promise.all(answers.map((answer) => answer.text()))
    expect([endpoint.path, answers[1]?.status, other]).toEqual([endpoint.path, answers[0]?.status, one])
    expect([endpoint.path, paying.chain.transfers]).toEqual([endpoint.path, []])
    requestCount++
  }
  expect(requestCount).toBeGreaterThan(15)
})

test('voice, phone and sandbox refuse fields that they do not know; media, search and audio ignore them (contract 4.2)', () => {
  const refusing = endpoints
    .filter(isSold)
    .filter((endpoint) => endpoint.delivery !== 'stream' && endpoint.unknownFields === 'refused')
    .map(({ path }) => path)
  expect(refusing.length).toBeGreaterThan(5)
  for (const path of refusing) expect(path).toMatch(/^\/api\/v1\/(voice|phone|sandbox|modal)\//)
  const dropping = endpoints.filter(isSold).filter(({ path }) => !refusing.includes(path))
  for (const { path } of dropping) expect(path).not.toMatch(/^\/api\/v1\/(voice|phone|sandbox)\//)
})

test('an address may ask for pictures as often as it likes (contract 4.11)', async () => {
  const { gateway } = whole()
  const ask = () =>
    gateway.fetch(new Request(`${ORIGIN}/api/v1/images/generations`, { method: 'POST' }), { ip: '192.0.2.1' })
  const statuses = new Set<number>()
  for (let count = 0; count < 500; count++) statuses.add((await ask()).status)
  expect(statuses).toEqual(new Set([402]))
})

test('headers that SDKs send, and that curl leaves out, change nothing but the form of errors (contract 3.26, 4.12, 4.13)', async () => {
  const sdk = {
    'x-api-key': 'sk-1',
    authorization: 'Bearer sk-1',
    'anthropic-version': '2023-06-01',
    'x-stainless-lang': 'js',
    'x-stainless-retry-count': '2',
    'user-agent': 'OpenAI/JS 6.0',
  }
  const orders: readonly (readonly [string, object])[] = [
    ['/api/v1/images/generations', FOX],
    ['/api/v1/chat/completions', { model: 'farebox/echo', messages: [{ role: 'user', content: 'word' }] }],
    ['/api/v1/messages', { model: 'farebox/echo', max_tokens: 9, messages: [{ role: 'user', content: 'word' }] }],
  ]
  const { gateway } = whole()
  for (const [path, body] of orders) {
    const ask = async (headers: Record<string, string>) =>
      await read(
        await gateway.fetch(
          new Request(ORIGIN + path, {
            method: 'POST',
            headers: { 'content-type': 'application/json', ...headers },
            body: new Blob([JSON.stringify(body)]).stream(),
          }),
        ),
      )
    const [bare, dressed] = [await ask({}), await ask(sdk)]
    const sameForm = { ...dressed.body, error: bare.body.error }
    expect([path, bare.status, dressed.status, sameForm]).toEqual([path, 402, 402, bare.body])
    expect([path, dressed.body.error.message]).toEqual([path, expect.stringContaining('This request costs')])
    expect(dressed.headers.get('payment-required')).toBe(bare.headers.get('payment-required'))
  }
})
