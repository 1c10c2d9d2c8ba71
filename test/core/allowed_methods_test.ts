/** A path allows exactly the methods that it answers, for every path of the route table (contract 4.19). */
import { describe, expect, test } from 'bun:test'
import { scriptedAudio } from '../fakes/audio.ts'
import { scriptedChat } from '../fakes/chat.ts'
import { scriptedVideo } from '../fakes/videos.ts'
import { Type } from '@sinclair/typebox'
import { streamed } from '../../core/endpoint/mod.ts'
import { flatPrice } from '../../core/mod.ts'
import { endpoints } from '../../core/products/mod.ts'
import { embedded, kit, type KitOptions, ORIGIN, testClock } from '../kit.ts'

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

const VALUES: Readonly<Record<string, string>> = {
  market: 'us',
  symbol: 'AAPL',
  slug: 'aave',
  coins: 'coingecko:bitcoin',
  'path...': 'markets',
  'model...': 'farebox/echo',
  'id...': 'farebox/echo',
  network: 'base-mainnet',
}
const filled = (path: string) => path.replaceAll(/\{([\w.]+)\}/g, (_, name: string) => VALUES[name] ?? name)
/** Sold as a rule, and free as this gateway is configured. */
const gift = streamed<object>({
  name: 'gift',
  path: '/gift',
  summary: 'A gift',
  tag: 'test',
  input: Type.Object({}),
  output: Type.Object({}),
  errorFormat: 'plain',
  price: () => 'free',
  priceRange: () => ({ min: flatPrice('0'), max: flatPrice('0') }),
  isAvailable: () => true,
  remember: () => ({ model: null, request: {} }),
  sample: () => ({}),
  check: async () => ({}),
  answer: async () => ({ kind: 'whole', headers: {}, body: {}, usage: null }),
})
const all = [...endpoints, gift]
const paths = [...new Set(all.flatMap(({ path, aliases = [] }) => [path, ...aliases]))].map(filled)

/** A gateway that serves everything, and one that serves nothing. */
function gateways(): Readonly<Record<string, ReturnType<typeof kit>>> {
  const clock = testClock()
  const swap = {
    feeRecipient: `0x${'11'.repeat(20)}`,
    call: async () => ({ status: 200, body: { ok: true }, text: '{"ok":true}' }),
  }
  const whole: KitOptions = {
    chatVendor: scriptedChat(),
    video: scriptedVideo(),
    audio: scriptedAudio(),
    endpoints: all,
    ports: { clock, vendors: { ...embedded(clock), swap } },
  }
  const none = { chat: () => undefined, images: () => undefined, video: () => undefined, audio: () => undefined }
  return {
    'everything is configured': kit(whole),
    'nothing is configured': kit({ endpoints: all, ports: { vendors: none } }),
  }
}

for (const [when, { gateway }] of Object.entries(gateways())) {
  const ask = async (method: string, path: string) =>
    await gateway.fetch(
      new Request(ORIGIN + path, {
        method,
        ...(!['GET', 'HEAD', 'OPTIONS'].includes(method) && {
          headers: { 'content-type': 'application/json' },
          body: '{}',
        }),
      }),
    )

  describe(`where ${when}, a method that is not served is never named as allowed (contract 4.19)`, () => {
    test.each(paths)('%s', async (path) => {
      const answers = await Promise.all(METHODS.map(async (method) => ({ method, reply: await ask(method, path) })))
      const allowed = new Set(answers.flatMap(({ reply }) => reply.headers.get('allow') ?? []))
      const served = answers.filter(({ reply }) => reply.status !== 405).map(({ method }) => method)
      expect([...allowed]).toEqual([served.sort().join(', ')])
    })
  })
}

test('OpenAPI and the price list name no method that its path does not answer (contract 4.19)', async () => {
  for (const { gateway } of Object.values(gateways())) {
    const get = async (path: string) => (await gateway.fetch(new Request(ORIGIN + path))).json()
    const described = Object.entries<object>((await get('/openapi.json')).paths).flatMap(([path, item]) =>
      Object.keys(item).map((method) => ({ method: method.toUpperCase(), path })),
    )
    const priced = (await get('/api/pricing')).endpoints.flatMap(({ path, methods }: any) =>
      methods.map((method: string) => ({ method, path })),
    )
    expect([described.length > 0, priced.length > 0]).toEqual([true, true])
    for (const { method, path } of [...described, ...priced]) {
      const { status, headers } = await gateway.fetch(new Request(ORIGIN + filled(path), { method: 'PUT' }))
      expect([path, status, headers.get('allow')?.split(', ')]).toEqual([path, 405, expect.arrayContaining([method])])
    }
  }
})
