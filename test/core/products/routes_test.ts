/** The menu against the routes of the contract, as its authors wrote them down: `vectors/routes.json`, from contract 22.1. */
import { describe, expect, test } from 'bun:test'
import { scriptedAudio } from '../../../adapters/providers/scripted/audio.ts'
import { router } from '../../../core/router.ts'
import { endpoints } from '../../../core/mod.ts'
import { embedded, kit, ORIGIN, read, testClock } from '../../kit.ts'
import routes from '../../vectors/routes.json' with { type: 'json' }

type Route = { readonly method: string; readonly path: string; readonly price: string; readonly note?: string }
const written: readonly Route[] = routes

/** What we serve beside the contract, and where it is documented. */
const ADDITIONS: Readonly<Record<string, string>> = {
  'GET /api/v1/calls/{id}': 'polls of any call (contract 1.24)',
  'GET /api/v1/images/image2image/{id}': 'the poll of an edit, where its envelope points (contract 5.3)',
  'POST /api/v1/chat/estimate': 'what a request would cost (contract 6.3)',
  'GET /api/v1/models/{id}': 'one model (contract 8.14)',
  'POST /api/v1/messages/count_tokens': 'the tokens of a messages request (contract 7.27)',
  'GET /changelog': 'dated changes (contract 21.12)',
  'POST /api/v1beta/models/{model}:streamGenerateContent': 'the stream of generateContent (contract 7.20)',
  'GET /livez': 'whether the process answers (contract 19.8)',
  'GET /readyz': 'whether it wants requests (contract 19.8)',
  'GET /docs': 'the reference page',
  'GET /robots.txt': 'for indexers',
  'GET /favicon.ico': 'for browsers',
}

/** Names of segments are ours to choose. */
const shape = (path: string): string => path.replaceAll(/\{\w+(\.{3})?\}/g, '{}')
const asked = ({ method, path }: Pick<Route, 'method' | 'path'>): string => `${method} ${shape(path)}`
const served = endpoints.flatMap((endpoint) => {
  const methods = 'methods' in endpoint && endpoint.methods ? endpoint.methods : [endpoint.method]
  const isSold = endpoint.kind === 'sold'
  return [endpoint.path, ...(endpoint.aliases ?? [])].flatMap((path) =>
    methods.map((method) => ({ method, path, endpoint, isSold, isAlias: path !== endpoint.path })),
  )
})
const isDiscovery = ({ price }: Route): boolean => price === 'discovery'

test('the contract has 106 routes, none of them twice', () => {
  expect([written.length, new Set(written.map(asked)).size]).toEqual([106, 106])
})

test('every route of the contract is on the menu', () => {
  const { match } = router(endpoints)
  const missing = written.filter(
    (route) => match(route.method, filled(route.path)).kind !== (isDiscovery(route) ? 'discover' : 'found'),
  )
  expect(missing.map(asked)).toEqual([])
})

test('every alias that the contract names is served in the same way', () => {
  const named: readonly (readonly [string, string, string])[] = [
    ['exa', 'websearch', 'exa'],
    ['zerox', 'dexagg', 'zerox'],
    ['polymarket/fund', 'polymarket-funding/fund', 'polymarket/fund'],
    ['modal/sandbox', 'sandbox', 'modal/sandbox'],
    ['defillama', 'defidata', 'defillama'],
  ]
  const paths = new Set(served.map(asked))
  for (const route of written) {
    const [, from = '', to = ''] = named.find(([word]) => route.note === `alias ${word}`) ?? []
    if (from !== '' && !route.path.includes('trade-analytics'))
      expect([asked(route), paths.has(asked({ ...route, path: route.path.replace(`/${from}`, `/${to}`) }))]).toEqual([
        asked(route),
        true,
      ])
  }
})

test('nothing is served beside it but documented additions', () => {
  const known = new Set([
    ...written.map(asked),
    ...Object.keys(ADDITIONS).map((line) =>
      asked({ method: line.split(' ')[0] ?? '', path: line.split(' ')[1] ?? '' }),
    ),
  ])
  const extra = served.filter(
    ({ isAlias, endpoint, ...route }) =>
      !isAlias && !('hidden' in endpoint && endpoint.hidden) && !known.has(asked(route)),
  )
  expect(extra.map(asked)).toEqual([])
})

describe('what the contract prices in figures', () => {
  const figures = written.filter(({ price }) => /^\d+(\.\d+)?$/.test(price))
  const clock = testClock()
  const { shop } = kit({ audio: scriptedAudio(), ports: { clock, vendors: embedded(clock) } })

  test.each(figures.map((route) => [`${route.method} ${route.path}`, route] as const))('%s', async (_, route) => {
    const found = served.find((each) => asked(each) === asked(route))
    const { status, body } = await read(await shop.fetch(new Request(ORIGIN + filled(route.path))))
    expect([found?.isSold, status, body.accepts?.[0]?.amount]).toEqual([
      true,
      402,
      String(Math.round(Number(route.price) * 1e6)),
    ])
  })
})

/** A path that somebody may call. */
function filled(path: string): string {
  const known: Readonly<Record<string, string>> = {
    market: 'us',
    symbol: 'AAPL',
    slug: 'aave',
    coins: 'coingecko:bitcoin',
    'path...': 'polymarket/markets',
  }
  return path.replaceAll(/\{([\w.]+)\}/g, (_, name: string) => known[name] ?? name)
}
