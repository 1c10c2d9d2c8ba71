import { describe, expect, test } from 'bun:test'
import { type ExaWebConfig, exaWeb } from '../../../../adapters/providers/exa/web.ts'
import type { ApiError, Fields, WebQuestion } from '../../../../core/mod.ts'
import document from '../../../vectors/exa_openapi.json'
import { byOpenapi } from '../lib/openapi_stand_in.ts'
import {
  type Answer,
  calm,
  KEY,
  outcome,
  prose,
  recorded,
  recordings,
  replay,
  errorText,
  setup,
  standIn,
} from '../lib/provider_kit.ts'

const service = byOpenapi('exa_openapi.json')

function vendorAt(baseUrl: string, more: Partial<ExaWebConfig> = {}) {
  const { log, clock } = setup(baseUrl)
  return { log, clock, vendor: exaWeb({ baseUrl, key: KEY, clock, log, ...more }) }
}

function vendorOn(answer: Answer) {
  const server = standIn(answer)
  return { ...vendorAt(server.url), seen: server.seen }
}

const PAGE = 'https://x402.example/'
const FILTERS: Fields = {
  numResults: 100,
  category: 'research paper',
  startPublishedDate: '2026-01-02',
  endPublishedDate: '2026-11-20T12:00:00+01:00',
  includeDomains: ['arxiv.org'],
  excludeDomains: ['x.com'],
}
const QUESTIONS: readonly [WebQuestion, Fields, string][] = [
  ['search', { query: 'payments' }, '/search'],
  ['search', { query: 'payments', ...FILTERS }, '/search'],
  ['find-similar', { url: PAGE }, '/findSimilar'],
  ['find-similar', { url: PAGE, excludeSourceDomain: true, ...FILTERS }, '/findSimilar'],
  ['answer', { query: 'What is x402?' }, '/answer'],
  ['contents', { urls: [PAGE, 'https://a.example/b'] }, '/contents'],
]
const exampleAt = (path: string) =>
  (document.paths as any)[path].post.responses[200].content['application/json'].example

describe('exaWeb() before a document', () => {
  test.each(QUESTIONS)(
    'asks for %s, %j, as %s is described, and hands the answer on',
    async (question, order, path) => {
      const { vendor } = vendorAt(service.url())
      expect(JSON.parse(await vendor.ask(question, order, calm()))).toEqual(exampleAt(path))
    },
  )

  test('with an unknown field gets the status of Exa, uncharged', async () => {
    const { vendor, log } = vendorAt(service.url())
    const asking = vendor.ask('search', { query: 'q', unheard: 1 }, calm())
    expect(await outcome(asking, log)).toBe('PASSED_ON')
    expect(((await asking.catch((error: unknown) => error)) as ApiError).parts.status).toBe(422)
  })

  test('without the right header for its key is the operator’s to mend', async () => {
    const { vendor, log } = vendorAt(service.url(), {
      fetch: (url, { headers, ...init }) =>
        fetch(url, {
          ...init,
          headers: {
            'content-type': 'application/json',
            authorization: (headers as Record<string, string>)['x-api-key'] ?? '',
          },
        }),
    })
    expect(await outcome(vendor.ask('search', { query: 'q' }, calm()), log)).toBe('NOT_CONFIGURED')
    expect(log.lines.map(({ level }) => level)).toEqual(['alert'])
  })

  test('that differs from Exa’s own is named', () => {
    expect([document['x-certainty'], document.info.description.startsWith('Not Exa')]).toEqual(['inferred', true])
  })
})

describe('exaWeb()', () => {
  test('sends its key, and the order with its defaults, and nothing else (contract 9.14)', async () => {
    const { vendor, seen } = vendorOn(() => Response.json({ results: [{ url: PAGE }] }))
    await vendor.ask('search', { query: 'q', startPublishedDate: '2026-01-02' }, calm())
    await vendor.ask('contents', { urls: [PAGE] }, calm())
    expect(seen.map(({ path, json, headers }) => [path, json, headers.get('x-api-key')])).toEqual([
      ['/search', { query: 'q', startPublishedDate: '2026-01-02T00:00:00.000Z', type: 'auto', numResults: 10 }, KEY],
      ['/contents', { urls: [PAGE], text: true }, KEY],
    ])
    expect(
      seen.flatMap(({ headers }) =>
        ['cookie', 'authorization', 'payment-signature', 'x-payment'].filter((name) => headers.has(name)),
      ),
    ).toEqual([])
  })

  test('hands numbers on as they were written', async () => {
    const text = '{"results":[],"costDollars":{"total":0.10},"n":12345678901234567890}'
    expect(await vendorOn(() => new Response(text)).vendor.ask('search', { query: 'q' }, calm())).toBe(text)
  })

  test('searches for what a page is about, where Exa no longer finds similar ones', async () => {
    const { vendor, seen } = vendorOn(({ path }) => {
      if (path === '/findSimilar') return Response.json({ error: 'gone' }, { status: 410 })
      return Response.json(
        path === '/contents'
          ? { results: [{ title: 'x402', summary: 'Payments over HTTP' }] }
          : { results: [{ url: PAGE }] },
      )
    })
    const text = await vendor.ask(
      'find-similar',
      { url: PAGE, excludeSourceDomain: true, numResults: 3, excludeDomains: ['x.com'] },
      calm(),
    )
    expect([JSON.parse(text), seen.map(({ path }) => path)]).toEqual([
      { results: [{ url: PAGE }] },
      ['/findSimilar', '/contents', '/search'],
    ])
    expect(seen.at(-1)?.json).toEqual({
      query: 'x402. Payments over HTTP',
      numResults: 3,
      type: 'auto',
      excludeDomains: ['x.com', 'x402.example'],
    })
  })

  test('without text of the page is an error, uncharged', async () => {
    const { vendor, log } = vendorOn(({ path }) =>
      path === '/findSimilar' ? Response.json({}, { status: 404 }) : Response.json({ results: [] }),
    )
    expect(await outcome(vendor.ask('find-similar', { url: PAGE }, calm()), log)).toBe('PASSED_ON')
  })

  test('that could read no page is an error, uncharged; some pages are an answer', async () => {
    const statuses = [{ id: PAGE, status: 'error' }]
    const { vendor } = vendorOn(({ json }) =>
      Response.json({ results: json.urls.slice(1).map((url: string) => ({ url })), statuses }),
    )
    const error = await vendor.ask('contents', { urls: [PAGE] }, calm()).catch((reason: unknown) => reason)
    expect((error as ApiError).parts).toMatchObject({ status: 404, details: statuses })
    expect(JSON.parse(await vendor.ask('contents', { urls: [PAGE, PAGE] }, calm()))).toEqual({
      results: [{ url: PAGE }],
      statuses,
    })
  })

  test('gives up after 30 s, as a failed call', async () => {
    const { vendor, log, clock, seen } = vendorOn(() => new Promise<Response>(() => {}))
    const asking = vendor.ask('answer', { query: 'q' }, calm())
    while (seen.length === 0) await new Promise((resolve) => setImmediate(resolve))
    clock.expire()
    expect(await outcome(asking, log)).toBe('WORK_FAILED')
  })
})

const REFUSALS = {
  no_credits: 'NOT_CONFIGURED',
  wrong_key: 'NOT_CONFIGURED',
  invalid: 'PASSED_ON',
  rate_limited: 'RATE_LIMITED 30',
  internal: 'WORK_FAILED',
}

describe('a refusal of exaWeb()', () => {
  test.each(Object.entries(REFUSALS))('%s reads as %s, and never quotes our key', async (name, expected) => {
    expect(recordings('exa_search')).toContain(name)
    const { vendor, log } = vendorOn(() => replay(recorded('exa_search', name)))
    const work = vendor.ask('search', { query: 'q' }, calm())
    expect(await outcome(work, log)).toBe(expected)
    const words = await errorText(work, log)
    const quotes = prose(recorded('exa_search', name).body).filter((sentence) =>
      words.includes(JSON.stringify(sentence).slice(1, -1)),
    )
    expect([words.includes(KEY), quotes.length > 0]).toEqual([false, expected === 'PASSED_ON'])
  })
})
