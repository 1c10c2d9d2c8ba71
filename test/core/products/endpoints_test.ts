import { describe, expect, test } from 'bun:test'
import { Type } from '@sinclair/typebox'
import type { Inline, Paid } from '../../../core/endpoint/mod.ts'
import { pricedTrial } from '../../../core/endpoint/samples.ts'
import { catalog, type Endpoint, endpoints, flatPrice, paid, piecePrice } from '../../../core/mod.ts'
import { brokenEndpoints } from '../../conformance/broken_endpoints.ts'
import { brokenLiveEndpoints } from '../../conformance/broken_live_endpoints.ts'
import { brokenOneShots } from '../../conformance/broken_one_shots.ts'
import { endpointLaws } from '../../conformance/endpoints.ts'
import { EXCEPT, OF_THEIR_OWN } from '../../conformance/exceptions.ts'
import { runBroken, runLaws } from '../../conformance/law.ts'
import { representatives } from '../../conformance/representatives.ts'
import { streamedLaws, streamedFixture, ordersOf } from '../../conformance/live_endpoints.ts'
import { isOneShot, oneShotLaws } from '../../conformance/one_shots.ts'
import { endpointFixture } from '../../conformance/endpoint_fixture.ts'
import { kit, ORIGIN, read } from '../../kit.ts'

/**
 * The fewest words that make an endpoint: no vendor, no model, no poll path of its own
 * (server/docs/adding_a_product.md).
 */
const verse = paid({
  name: 'verse',
  path: '/api/v1/verse',
  summary: 'Write a verse',
  tag: 'text',
  input: Type.Object({ about: Type.String({ minLength: 1 }) }),
  output: Type.Object({ lines: Type.Array(Type.String()) }),
  example: { about: 'snow' },
  price: () => ({ amount: flatPrice('0.01'), maxTimeoutSeconds: 300, publicPrice: {} }),
  run: async ({ input }) => ({
    result: [`first light on ${input.about}`, 'the coin waits in its slot until', 'the picture is there'],
  }),
  show: ({ made }) => ({ lines: made }),
})

for (const endpoint of representatives(verse)) {
  if (
    endpoint.kind !== 'sold' ||
    endpoint.delivery === 'stream' ||
    isOneShot(endpoint) ||
    OF_THEIR_OWN.has(endpoint.name)
  )
    continue
  runLaws(endpoint.name, endpointLaws, () => endpointFixture(endpoint))
  runLaws(`${endpoint.name} as a job`, endpointLaws, () => endpointFixture(endpoint, {}, () => ({ inlineMs: 0 })))
}

for (const endpoint of endpoints) {
  // A job that is held upstream settles by polls alone, whoever has left: two of the defects cannot show there, and the
  // others show on the pictures, as do those of music.
  if (endpoint.kind === 'sold' && endpoint.delivery !== 'stream' && !isOneShot(endpoint) && endpoint.tag === 'images')
    runBroken(endpoint.name, endpointLaws, brokenEndpoints(endpoint))
}

const oneShots = endpoints.filter(
  (endpoint) => isOneShot(endpoint) && !OF_THEIR_OWN.has(endpoint.name),
) as readonly Inline[]
for (const endpoint of representatives().filter((each) =>
  (oneShots as readonly Endpoint[]).includes(each),
) as readonly Inline[])
  runLaws(endpoint.name, oneShotLaws, () => endpointFixture(endpoint), { except: EXCEPT[endpoint.name] ?? {} })
/**
 * One of each kind, of those that are checked and quoted in the same order, is enough to see the laws fail; what is
 * passed on has no shape of ours to break.
 */
for (const endpoint of new Map(
  oneShots
    .filter(({ name, verbatim, effects }) => !verbatim && !effects && !EXCEPT[name])
    .map((each) => [each.order, each]),
).values())
  runBroken(endpoint.name, oneShotLaws, brokenOneShots(endpoint))

for (const endpoint of representatives()) {
  if (endpoint.kind !== 'sold' || endpoint.delivery !== 'stream') continue
  for (const order of ordersOf(endpoint))
    runLaws(`${endpoint.name}${order.isStream ? ' streamed' : ''}`, streamedLaws, () =>
      streamedFixture(endpoint, order),
    )
}

for (const endpoint of endpoints) {
  if (endpoint.kind !== 'sold' || endpoint.delivery !== 'stream') continue
  for (const order of ordersOf(endpoint))
    if (order.isStream) runBroken(endpoint.name, streamedLaws, brokenLiveEndpoints(endpoint, order))
}

describe('an endpoint of the fewest words', () => {
  test('sells at its flat price, inline (contract 1.14)', async () => {
    const { status, body } = await kit({ endpoints: [verse] })
      .buyer()
      .buy({ about: 'rain' }, verse)
    expect([status, body.lines[0], body.price, body.payment.status]).toEqual([
      200,
      'first light on rain',
      { amount: '0.011000', currency: 'USD' },
      'settled',
    ])
  })

  test('may be priced by the tokens of its words, counted before the quote', async () => {
    const by = paid({
      name: 'verse.long',
      path: '/api/v1/verse/long',
      summary: 'Write a long verse',
      tag: 'text',
      input: Type.Object({ about: Type.String(), tokens: Type.Optional(Type.Integer()) }),
      output: Type.Object({}),
      example: { about: 'snow on the sea' },
      measure: async (input, { countTokens }) => ({ ...input, tokens: await countTokens(input.about) }),
      price: ({ tokens = 0 }) => ({ amount: piecePrice('0.01', tokens), maxTimeoutSeconds: 300, publicPrice: {} }),
      run: async ({ input }) => ({ result: input.tokens ?? 0 }),
      show: ({ made }) => ({ tokens: made }),
    })
    const { buyer, ports, gateway } = kit({ endpoints: [by] })
    const { status, body } = await buyer().buy({ about: 'rain on a roof', tokens: 1 }, by)
    expect([status, body.tokens, body.price.amount]).toEqual([200, 4, '0.041000'])
    const probed = await read(await gateway.fetch(new Request(ORIGIN + by.path)))
    expect(probed.body.price.amount).toBe('0.041000')
    expect((await pricedTrial(by, { catalog: catalog(), ...ports })).price).toMatchObject({ amount: 41_000n })
  })

  test('fails as an internal error, under its own schema (contract 3.13)', async () => {
    const broken = { ...verse, run: () => Promise.reject(new Error('no ink')) } as Paid
    const { buyer, chain } = kit({ endpoints: [broken] })
    const alice = buyer()
    expect((await alice.ask({ about: '' }, verse)).body.details).toEqual([
      { path: 'about', message: 'about: Expected string length greater or equal to 1; got ""' },
    ])
    const { status, body } = await alice.buy({ about: 'rain' }, verse)
    expect([status, body.error, JSON.stringify(body).includes('no ink')]).toEqual([500, 'Internal server error', false])
    expect(chain.transfers).toEqual([])
  })

  test('becomes a job under /api/v1/calls when it is slow', async () => {
    const { buyer, keyed } = kit({ endpoints: [...endpoints, verse], inlineMs: 0 })
    const alice = buyer()
    const { status, body } = await alice.buy({ about: 'rain' }, verse)
    expect([status, body.object, body.poll_url]).toEqual([202, 'call.job', await keyed(body.id)])
  })
})
