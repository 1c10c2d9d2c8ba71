import { describe, expect, test } from 'bun:test'
import { type DefiLlamaConfig, defiLlama } from '../../../../adapters/providers/defillama/defi.ts'
import { type Answer, calm, KEY, outcome, errorText, setup, standIn } from '../lib/provider_kit.ts'
import { testClock } from '../../../kit.ts'

function before(answer: Answer = () => Response.json([]), more: Partial<DefiLlamaConfig> = {}) {
  const server = standIn(answer)
  const clock = testClock()
  const { log } = setup(server.url)
  const vendor = defiLlama({ baseUrl: server.url, clock, log, ...more })
  return { ...server, clock, log, ask: (path: string, query = '') => vendor.ask({ path, query }, calm()) }
}

const PATHS = {
  protocols: '/api/protocols',
  'protocol/aave': '/api/protocol/aave',
  chains: '/api/v2/chains',
  yields: '/yields/pools',
  'prices/coingecko:bitcoin,base:0xab': '/coins/prices/current/coingecko:bitcoin,base:0xab',
}

describe('defiLlama()', () => {
  test.each(Object.entries(PATHS))('asks for %s at %s, with its key in the path', async (path, request) => {
    const { ask, seen } = before(undefined, { key: KEY })
    expect(await ask(path)).toBe('[]')
    expect(seen.map((each) => [each.method, each.path])).toEqual([['GET', `/${KEY}${request}`]])
  })

  test('without a key or an address of the operator’s asks its three open hosts', async () => {
    const urls: string[] = []
    const { ask } = before(undefined, { baseUrl: undefined, fetch: async (url) => (urls.push(url), Response.json({})) })
    for (const path of Object.keys(PATHS)) await ask(path)
    expect(urls).toEqual([
      'https://api.llama.fi/protocols',
      'https://api.llama.fi/protocol/aave',
      'https://api.llama.fi/v2/chains',
      'https://yields.llama.fi/pools',
      'https://coins.llama.fi/prices/current/coingecko:bitcoin,base:0xab',
    ])
  })

  test('a crowd shares one question, and who comes within five minutes its answer; prices are ten seconds good', async () => {
    const { ask, seen, clock } = before(() => Response.json({ at: seen.length }))
    for (const [path, goodMs] of [
      ['protocols', 300_000],
      ['prices/coingecko:bitcoin', 10_000],
    ] as const) {
      const from = seen.length
      expect(new Set(await Promise.all([ask(path), ask(path), ask(path)])).size).toBe(1)
      await clock.advance(goodMs - 1)
      await ask(path)
      expect(seen.length - from).toBe(1)
      await clock.advance(1)
      await ask(path)
      expect(seen.length - from).toBe(2)
    }
  })

  test('another query is another question', async () => {
    const { ask, seen } = before()
    for (const query of ['', 'a=1', 'a=2', 'a=1']) await ask('chains', query)
    expect(seen).toHaveLength(3)
  })

  test('asks for four different lists at a time, lets sixteen wait, and is busy for the next, which may come again', async () => {
    const { promise: ready, resolve } = Promise.withResolvers<void>()
    const { ask, seen, log, clock } = before(async () => (await ready, Response.json([])))
    const asking = Array.from({ length: 20 }, (_, index) => ask('chains', `i=${index}`))
    expect(await outcome(ask('chains', 'i=20'), log)).toBe('BUSY')
    while (seen.length < 4) await clock.settle()
    expect(seen).toHaveLength(4)
    resolve()
    expect(await Promise.all(asking)).toEqual(Array(20).fill('[]'))
    expect(await ask('chains', 'i=20')).toBe('[]')
  })

  test('keeps no more than it has room for, the newest', async () => {
    const { ask, seen } = before(() => new Response(`"${'x'.repeat(98)}"`), { room: 250 })
    for (const query of ['a=1', 'a=2', 'a=3', 'a=3', 'a=2', 'a=1']) await ask('chains', query)
    expect(seen).toHaveLength(4)
  })

  test('a failure is not kept as an answer', async () => {
    let isDown = true
    const { ask, clock, log } = before(() =>
      isDown ? Response.json({ message: 'Protocol not found' }, { status: 400 }) : Response.json([]),
    )
    expect(await outcome(ask('protocol/nobody'), log)).toBe('PASSED_ON')
    isDown = false
    await clock.advance(1_000)
    expect(await ask('protocol/nobody')).toBe('[]')
  })

  test('its key is in no error and no log, though it is in every URL', async () => {
    const wrongs: readonly Answer[] = [
      ({ path }) => Response.json({ message: `no ${path}` }, { status: 404 }),
      () => new Response('', { status: 500 }),
      () => new Response('', { status: 403 }),
    ]
    for (const wrong of wrongs) {
      const { ask, log } = before(wrong, { key: KEY })
      expect(await errorText(ask('chains'), log)).not.toContain(KEY)
    }
  })
})
