import { describe, expect, test } from 'bun:test'
import { exaSearch } from '../../../../adapters/providers/exa/search.ts'
import type { SearchJob } from '../../../../core/mod.ts'
import { runLaws } from '../../../conformance/law.ts'
import { searchVendorLaws } from '../../../conformance/search.ts'
import {
  type Answer,
  calm,
  KEY,
  outcome,
  quoted,
  recorded,
  replay,
  errorText,
  type Seen,
  setup,
  standIn,
  testRecordings,
} from '../lib/provider_kit.ts'

const PROTOCOL = 'exa_search'
const JOB: SearchJob = { query: 'what is x402?', sources: ['web'], maxResults: 10 }
const NEWS: SearchJob = { ...JOB, sources: ['news'] }

function vendorOn(answer: Answer, more: Partial<Parameters<typeof exaSearch>[0]> = {}) {
  const server = standIn(answer)
  const { config, log, clock } = setup(server.url)
  return { server, log, clock, vendor: exaSearch({ ...config, ...more }) }
}

const on = (name: string) => vendorOn(() => replay(recorded(PROTOCOL, name)))

describe('requests of exaSearch()', () => {
  test('without filters is a question to /answer, with the key in its own header', async () => {
    for (const sources of [['web'], ['web', 'news']] as const) {
      const { server, vendor } = on('answered')
      await vendor.search({ ...JOB, sources }, calm())
      const [{ method, path, headers, json }] = server.seen as [Seen]
      expect([method, path, headers.get('x-api-key'), headers.get('authorization')]).toEqual([
        'POST',
        '/answer',
        KEY,
        null,
      ])
      expect(json).toEqual({ query: 'what is x402?', text: false, stream: false })
    }
  })

  const filters: readonly [Partial<SearchJob>, object][] = [
    [
      { sources: ['news'], maxResults: 50 },
      { category: 'news', numResults: 50 },
    ],
    [{ fromDate: '2026-01-02' }, { numResults: 10, startPublishedDate: '2026-01-02T00:00:00.000Z' }],
    [{ toDate: '2026-02-03' }, { numResults: 10, endPublishedDate: '2026-02-03T23:59:59.999Z' }],
    [
      { sources: ['news'], fromDate: '2026-01-02', toDate: '2026-01-02' },
      {
        category: 'news',
        numResults: 10,
        startPublishedDate: '2026-01-02T00:00:00.000Z',
        endPublishedDate: '2026-01-02T23:59:59.999Z',
      },
    ],
  ]
  test.each(filters)('with %j is a search for pages with summaries, whole days long', async (more, expected) => {
    const { server, vendor } = on('found')
    await vendor.search({ ...JOB, ...more }, calm())
    expect([server.seen[0]?.path, server.seen[0]?.json]).toEqual([
      '/search',
      { query: 'what is x402?', type: 'auto', contents: { summary: { query: 'what is x402?' } }, ...expected },
    ])
  })

  test('the operator’s parameters below the order and overrides above it', async () => {
    const { server, vendor } = vendorOn(() => replay(recorded(PROTOCOL, 'answered')), {
      parameters: { systemPrompt: 'short', query: 'no' },
      overrides: { text: null },
    })
    await vendor.search(JOB, calm())
    expect(server.seen[0]?.json).toEqual({ systemPrompt: 'short', query: 'what is x402?', stream: false })
  })
})

describe('replies to exaSearch()', () => {
  test('an answer: its text, and each citation once', async () => {
    expect(await on('answered').vendor.search(JOB, calm())).toEqual({
      summary: 'x402 is a payment protocol over HTTP.',
      citations: ['https://x402.org/', 'https://docs.example.com/x402'],
      sourcesUsed: 2,
      model: 'exa-answer',
    })
    expect(await on('answered').vendor.search({ ...JOB, maxResults: 1 }, calm())).toMatchObject({
      citations: ['https://x402.org/'],
      sourcesUsed: 2,
    })
  })

  test('found pages: the text and the address of each', async () => {
    expect(await on('found').vendor.search(NEWS, calm())).toEqual({
      summary: 'A price for search: Search costs 0.081 dollars.\n\nCodes tell why.\n\nNo summary',
      citations: ['https://news.example.com/a', 'https://news.example.com/b', 'https://news.example.com/c'],
      sourcesUsed: 3,
      model: 'exa-search',
    })
    expect((await on('found').vendor.search({ ...NEWS, maxResults: 2 }, calm())).citations).toHaveLength(2)
  })

  test('nothing found: a summary that says so', async () => {
    expect(await on('nothing').vendor.search(NEWS, calm())).toEqual({
      summary: 'Nothing was found for this query.',
      citations: [],
      sourcesUsed: 0,
      model: 'exa-search',
    })
  })
})

const REFUSALS = {
  answered_object: 'failure',
  no_results_member: 'failure',
  no_credits: 'operator',
  wrong_key: 'operator',
  invalid: 'operator',
  rate_limited: 'RATE_LIMITED 30',
  internal: 'failure',
}

describe('a refusal of exaSearch()', () => {
  test.each(Object.entries(REFUSALS))('%s reads as %s, on both paths, and quotes nothing', async (name, expected) => {
    for (const job of [JOB, NEWS]) {
      const { vendor, log } = on(name)
      const work = vendor.search(job, calm())
      expect(await outcome(work, log)).toBe(expected)
      const words = await errorText(work, log)
      expect(quoted(words, recorded(PROTOCOL, name))).toEqual([])
    }
  })

  testRecordings(PROTOCOL, ['answered', 'found', 'nothing', ...Object.keys(REFUSALS)])
})

/** Results of a stand-in depend on the query alone. */
const finds: Answer = ({ path, json }) => {
  const pages = [1, 2, 3].map((page) => ({
    url: `https://page${page}.example/${json.query.length}`,
    title: `page ${page}`,
    summary: `about ${json.query}`,
  }))
  return Response.json(
    path === '/answer' ? { answer: `pages about ${json.query}`, citations: pages } : { results: pages },
  )
}

const fixed =
  <T>(vendor: T) =>
  async () => ({ open: async () => vendor, close: async () => {} })
runLaws('exaSearch()', searchVendorLaws, fixed(vendorOn(finds).vendor))
