/**
 * The menu against the routes of the contract, as its authors wrote them down: `vectors/routes.json`, from contract
 * 22.1.
 */
import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { scriptedAudio } from '../../fakes/audio.ts'
import { scriptedChat } from '../../fakes/chat.ts'
import { scriptedVideo } from '../../fakes/videos.ts'
import { pricedTrial, trialOf } from '../../../core/endpoint/samples.ts'
import { pathOf } from '../trial_path.ts'
import { router } from '../../../core/serving/router.ts'
import { catalog, endpoints } from '../../../core/mod.ts'
import { type Answer, embedded, kit, ORIGIN, read, testClock } from '../../kit.ts'
import routes from '../../vectors/routes.json' with { type: 'json' }

type Route = { readonly method: string; readonly path: string; readonly price: string; readonly note?: string }
const written: readonly Route[] = routes
const CONTRACT = join(import.meta.dir, '../../../core/CONTRACT.md')

/** Routes that we serve beside the contract, and where it is documented. */
const ADDITIONS: Readonly<Record<string, string>> = {
  'GET /api/v1/calls/{id}': 'polls of any call (contract 1.24)',
  'GET /api/v1/images/image2image/{id}': 'the poll of an edit, where its envelope points (contract 5.3)',
  'POST /api/v1/chat/estimate': 'what a request would cost (contract 6.3)',
  'GET /api/v1/models/{id}': 'one model (contract 8.14)',
  'POST /api/v1/messages/count_tokens': 'the tokens of a messages request (contract 7.27)',
  'GET /changelog': 'dated changes (contract 21.12)',
  'POST /api/v1beta/models/{model}:streamGenerateContent': 'the stream of generateContent (contract 7.20)',
  'POST /api/v1beta/models/{model}:countTokens': 'the tokens of a generateContent request (contract 7.34)',
  'GET /api/v1beta/models': 'the models of generateContent (contract 7.35)',
  'GET /api/v1beta/models/{model}': 'one of them (contract 7.35)',
  'GET /livez': 'whether the process answers (contract 19.8)',
  'GET /readyz': 'whether it wants requests (contract 19.8)',
  'GET /docs': 'the reference page',
  'GET /robots.txt': 'for indexers',
  'GET /favicon.ico': 'for browsers',
}

const CONTRACT_TEXT = readFileSync(CONTRACT, 'utf8')
/** A product of one's own is documented by a statement that names its route, such as `POST /api/v1/haiku`. */
const isStated = ({ method, path }: Pick<Route, 'method' | 'path'>): boolean =>
  CONTRACT_TEXT.includes(`\`${method} ${path}\``)

/** Names of segments are ours to choose. */
const shape = (path: string): string => path.replaceAll(/\{\w+(\.{3})?\}/g, '{}')
const requestLine = ({ method, path }: Pick<Route, 'method' | 'path'>): string => `${method} ${shape(path)}`
const served = endpoints.flatMap((endpoint) => {
  const methods = 'methods' in endpoint && endpoint.methods ? endpoint.methods : [endpoint.method]
  const isSold = endpoint.kind === 'sold'
  return [endpoint.path, ...(endpoint.aliases ?? [])].flatMap((path) =>
    methods.map((method) => ({ method, path, endpoint, isSold, isAlias: path !== endpoint.path })),
  )
})
const isDiscovery = ({ price }: Route): boolean => price === 'discovery'

test('the contract has 108 routes, none of them twice', () => {
  expect([written.length, new Set(written.map(requestLine)).size]).toEqual([108, 108])
})

test('every route of the contract is on the menu', () => {
  const { match } = router(endpoints)
  const missing = written.filter(
    (route) => match(route.method, filled(route.path)).kind !== (isDiscovery(route) ? 'discover' : 'found'),
  )
  expect(missing.map(requestLine)).toEqual([])
})

test('every alias that the contract names is served in the same way (contract 9.13, 11.1, 15.4, 16.1, 18.8)', () => {
  const named: readonly (readonly [string, string, string])[] = [
    ['exa', 'websearch', 'exa'],
    ['zerox', 'dexagg', 'zerox'],
    ['polymarket/fund', 'polymarket-funding/fund', 'polymarket/fund'],
    ['modal/sandbox', 'sandbox', 'modal/sandbox'],
    ['defillama', 'defidata', 'defillama'],
  ]
  const paths = new Set(served.map(requestLine))
  for (const route of written) {
    const [, from = '', to = ''] = named.find(([word]) => route.note === `alias ${word}`) ?? []
    if (from !== '' && !route.path.includes('trade-analytics'))
      expect([
        requestLine(route),
        paths.has(requestLine({ ...route, path: route.path.replace(`/${from}`, `/${to}`) })),
      ]).toEqual([requestLine(route), true])
  }
})

test('nothing is served beside it but documented additions (contract 22.1)', () => {
  const known = new Set([
    ...written.map(requestLine),
    ...Object.keys(ADDITIONS).map((line) =>
      requestLine({ method: line.split(' ')[0] ?? '', path: line.split(' ')[1] ?? '' }),
    ),
  ])
  const extra = served.filter(
    ({ isAlias, endpoint, ...route }) =>
      !isAlias && !('hidden' in endpoint && endpoint.hidden) && !known.has(requestLine(route)) && !isStated(route),
  )
  const unstated = extra.map(({ method, path }) => {
    const area = `a section "## N." of core/CONTRACT.md whose first statement names \`${method} ${path}\``
    return `${method} ${path}: add ${area}, and its line in the index there`
  })
  expect(unstated).toEqual([])
})

describe('prices that the contract states in figures', () => {
  const figures = written.filter(({ price }) => /^\d+(\.\d+)?$/.test(price))
  const clock = testClock()
  const { gateway } = kit({ audio: scriptedAudio(), ports: { clock, vendors: embedded(clock) } })

  test.each(figures.map((route) => [`${route.method} ${route.path}`, route] as const))('%s', async (_, route) => {
    const found = served.find((each) => requestLine(each) === requestLine(route))
    const { status, body } = await read(await gateway.fetch(new Request(ORIGIN + filled(route.path))))
    expect([found?.isSold, status, body.accepts?.[0]?.amount]).toEqual([
      true,
      402,
      String(Math.round(Number(route.price) * 1e6)),
    ])
  })
})

/** The rows of the table at the end of the contract, a method each. */
const table = [...readFileSync(CONTRACT, 'utf8').matchAll(/^\| ([A-Z, ]+) \| `([^`]+)` \| (.+) \|$/gm)].flatMap(
  ([, methods = '', path = '', price = '']) => methods.split(', ').map((method) => ({ method, path, price })),
)

test('the table of the contract and the list of its routes name the same routes', () => {
  expect(table.map(requestLine).sort()).toEqual(written.map(requestLine).sort())
})

describe('a route, called without a wallet', () => {
  const OPERATOR = 'operator-token-of-thirty-two-chars'
  /** A gateway that sells everything, with a number that the caller rents and an aggregator that answers. */
  function whole() {
    const clock = testClock()
    const swap = { feeRecipient: `0x${'11'.repeat(20)}`, call: async () => ({ status: 200, body: {}, text: '{}' }) }
    return kit({
      chatVendor: scriptedChat(),
      video: scriptedVideo(),
      audio: scriptedAudio(),
      operatorToken: OPERATOR,
      ports: { clock, vendors: { ...embedded(clock), swap } },
    })
  }

  /** Status of a route of this price without a payment, to an order of its own example. */
  async function answered({ method, path, price }: Route): Promise<Answer> {
    const { gateway, ports } = whole()
    const found = router(gateway.endpoints).match(method, filled(path))
    if (found.kind !== 'found' && found.kind !== 'discover') throw new Error(`${method} ${path} is ${found.kind}`)
    const { endpoint } = found
    const { vendors, countTokens, chain } = ports
    const context = { catalog: catalog(), vendors, countTokens, families: chain.families }
    const trial = endpoint.kind === 'sold' ? await pricedTrial(endpoint, context) : trialOf(endpoint, context)
    const body = method === 'POST' ? JSON.stringify(trial.body ?? {}) : undefined
    const isOperators = price === 'operator only'
    const request = new Request(ORIGIN + (isOperators ? path : pathOf(endpoint, trial)), {
      method,
      headers: {
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(isOperators && { authorization: `Bearer ${OPERATOR}` }),
      },
      ...(body !== undefined && { body }),
    })
    const response = await gateway.fetch(request)
    const text = await response.text()
    const isJson = response.headers.get('content-type')?.startsWith('application/json')
    return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text }
  }

  const amountOf = (price: string): string | undefined => {
    const [first = ''] = /^[\d.]+/.exec(price) ?? []
    const plus = Number(/ \+ ([\d.]+)$/.exec(price)?.[1] ?? 0)
    return first === '' || price.includes('discovery') ? undefined : String(Math.round((Number(first) + plus) * 1e6))
  }

  test.each(table.map((route) => [`${route.method} ${route.path}`, route.price, route] as const))(
    '%s: %s (contract 22.1)',
    async (_, price, route) => {
      const { status, headers, body } = await answered(route)
      if (price === 'free') {
        // A path that follows an order, a call or a check that nobody made answers 404, without asking for a payment.
        expect([200, 400, 404]).toContain(status)
        expect(headers.has('payment-required')).toBe(false)
        expect(body.routes).toBeUndefined()
        if (!/\{(id|callId)\}|realface|gasless\/submit/.test(route.path)) expect(status).toBe(200)
        return
      }
      if (price === 'operator only') {
        const { status: stranger } = await whole().gateway.fetch(new Request(ORIGIN + route.path))
        return expect([stranger, status]).toEqual([404, 200])
      }
      if (price === 'poll')
        return expect([
          [404, 'Job not found'],
          [400, 'Invalid job id'],
        ]).toContainEqual([status, body.error])
      expect([status, headers.has('payment-required')]).toEqual([402, true])
      const amount = amountOf(price)
      if (amount !== undefined) expect(body.accepts[0].amount).toBe(amount)
      if (price !== '402 for discovery' && amount !== '0') expect(Number(body.accepts[0].amount)).toBeGreaterThan(999)
    },
  )

  test('a gateway serves what the contract names beside the table (contract 22.2)', async () => {
    const [, text = ''] = /^\*\*22\.2\*\* ([^]*?)\n\n/m.exec(readFileSync(CONTRACT, 'utf8')) ?? []
    const more = [...text.matchAll(/`([A-Z]+) ([^`]+)`/g)].map(([, method = '', path = '']) => ({ method, path }))
    expect(more.length).toBeGreaterThan(8)
    for (const { method, path } of more) {
      const { status, body } = await answered({ method, path, price: '' })
      const polls = ['/api/v1/calls/{id}', '/api/v1/images/image2image/{id}']
      const expected: Readonly<Record<string, number>> = {
        ...Object.fromEntries(polls.map((poll) => [poll, 404])),
        '/api/v1beta/models/{model}:streamGenerateContent': 402,
      }
      expect([method, path, status]).toEqual([method, path, expected[path] ?? 200])
      if (polls.includes(path)) expect(body.error).toBe('Job not found')
    }
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
