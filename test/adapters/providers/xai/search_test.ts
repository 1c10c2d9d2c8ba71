import { afterAll, describe, expect, test } from 'bun:test'
import { LLMock } from '@copilotkit/aimock'
import { firstOf, SEARCH_TIMEOUT_MS } from '../../../../adapters/providers/lib/search_provider.ts'
import { XAI_SEARCH, xaiSearch } from '../../../../adapters/providers/xai/search.ts'
import { ApiError, timeouts, type SearchJob, type SearchVendor } from '../../../../core/mod.ts'
import { brokenSearchVendors, pageVendor } from '../../../conformance/broken_search.ts'
import { runBroken, runLaws } from '../../../conformance/law.ts'
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

const PROTOCOL = 'xai_search'
const JOB: SearchJob = { query: 'what is x402?', sources: ['web'], maxResults: 10 }

function vendorOn(answer: Answer, more: Partial<Parameters<typeof xaiSearch>[0]> = {}) {
  const server = standIn(answer)
  const { config, log, clock } = setup(`${server.url}/v1`)
  return { server, log, clock, vendor: xaiSearch({ ...config, model: XAI_SEARCH.model, ...more }) }
}

const on = (name: string) => vendorOn(() => replay(recorded(PROTOCOL, name)))

describe('requests of xaiSearch()', () => {
  test('is a response that must search, with the query apart from the instructions', async () => {
    const { server, vendor } = on('found')
    await vendor.search(JOB, calm())
    const [{ method, path, headers, json }] = server.seen as [Seen]
    expect([method, path, headers.get('authorization')]).toEqual(['POST', '/v1/responses', `Bearer ${KEY}`])
    expect(json).toEqual({
      model: 'grok-4.20-non-reasoning',
      instructions: expect.stringMatching(/Use at most 10 sources\.$/),
      input: [{ role: 'user', content: 'what is x402?' }],
      tools: [{ type: 'web_search' }],
      tool_choice: 'required',
      include: ['web_search_call.action.sources'],
      store: false,
    })
    expect(json.instructions).not.toContain('x402')
  })

  test.each([
    [{ sources: ['news'] }, ['Use only news articles.'], ['as well']],
    [{ sources: ['web', 'news'] }, ['Use news articles as well as other pages.'], ['only news']],
    [{ fromDate: '2026-01-02' }, ['published on or after 2026-01-02'], ['on or before', 'news']],
    [{ toDate: '2026-02-03' }, ['published on or before 2026-02-03'], ['on or after']],
    [{ maxResults: 1 }, ['Use at most 1 source.'], []],
  ] as const)('for %j, in words: %j', async (more, input, unsaid) => {
    const { server, vendor } = on('found')
    await vendor.search({ ...JOB, ...more }, calm())
    const instructions: string = server.seen[0]?.json.instructions ?? ''
    expect([
      input.filter((words) => !instructions.includes(words)),
      unsaid.filter((words) => instructions.includes(words)),
    ]).toEqual([[], []])
  })

  test('the operator’s parameters below the order and overrides above it', async () => {
    const { server, vendor } = vendorOn(() => replay(recorded(PROTOCOL, 'found')), {
      parameters: { max_turns: 2, model: 'no' },
      overrides: { store: null, tool_choice: 'auto' },
    })
    await vendor.search(JOB, calm())
    expect(server.seen[0]?.json).toMatchObject({ max_turns: 2, model: 'grok-4.20-non-reasoning', tool_choice: 'auto' })
    expect(server.seen[0]?.json).not.toHaveProperty('store')
  })
})

describe('replies to xaiSearch()', () => {
  test('is the text of all messages, the pages that it cites in their order, and how many were looked at', async () => {
    expect(await on('found').vendor.search(JOB, calm())).toEqual({
      summary:
        'x402 is a payment protocol over HTTP [[1]](https://x402.org/). Version 2 moved the offers into headers [[2]](https://docs.example.com/x402).',
      citations: ['https://x402.org/', 'https://docs.example.com/x402'],
      sourcesUsed: 3,
      model: 'grok-4.20-non-reasoning',
    })
  })

  test('is no more citations than were asked for', async () => {
    expect((await on('found').vendor.search({ ...JOB, maxResults: 1 }, calm())).citations).toEqual([
      'https://x402.org/',
    ])
  })

  test('is the number of sources where it is reported, and nothing where it is not', async () => {
    expect((await on('found_counted').vendor.search(JOB, calm())).sourcesUsed).toBe(5)
    expect(await on('found_listed').vendor.search(JOB, calm())).not.toHaveProperty('sourcesUsed')
    for (const num_sources_used of [1.5, -5, 1e300, '7']) {
      const reply = { ...(recorded(PROTOCOL, 'found_counted').body as object), usage: { num_sources_used } }
      const { sourcesUsed } = await vendorOn(() => Response.json(reply)).vendor.search(JOB, calm())
      expect([
        num_sources_used,
        sourcesUsed === undefined || (Number.isInteger(sourcesUsed) && sourcesUsed > 1),
      ]).toEqual([num_sources_used, true])
    }
  })

  test('is the list of citations where the text has no marks', async () => {
    expect((await on('found_listed').vendor.search(JOB, calm())).citations).toEqual([
      'https://x402.org/',
      'https://docs.example.com/x402',
    ])
  })

  test.each([
    [null],
    [[]],
    ['text'],
    [{ output: 'x' }],
    [
      {
        output: [
          {
            type: 'message',
            content: [{ type: 'output_text', text: 7, annotations: [null, { type: 'url_citation' }] }],
          },
        ],
      },
    ],
  ])('is a failure where the reply is %j', async (body: unknown) => {
    const { vendor, log } = vendorOn(() => Response.json(body))
    expect(await outcome(vendor.search(JOB, calm()), log)).toBe('failure')
  })
})

const REFUSALS = {
  silent: 'failure',
  filtered: 'CONTENT_POLICY',
  refused: 'CONTENT_POLICY',
  overloaded_in_200: 'failure',
  usage_guidelines: 'CONTENT_POLICY',
  no_access: 'operator',
  wrong_key: 'operator',
  rate_limited: 'RATE_LIMITED 17',
  no_credits: 'operator',
  gone: 'operator',
  internal: 'failure',
}

describe('a refusal of xaiSearch()', () => {
  test.each(Object.entries(REFUSALS))('%s reads as %s, and quotes nothing', async (name, expected) => {
    const { vendor, log } = on(name)
    const work = vendor.search(JOB, calm())
    expect(await outcome(work, log)).toBe(expected)
    const words = await errorText(work, log)
    expect(quoted(words, recorded(PROTOCOL, name))).toEqual([])
  })

  testRecordings(PROTOCOL, ['found', 'found_counted', 'found_listed', ...Object.keys(REFUSALS)])

  test('that comes too late is a timeout', async () => {
    const { vendor, log, clock } = vendorOn(() => new Promise<Response>(() => {}))
    const work = vendor.search(JOB, calm())
    clock.expire()
    expect(await outcome(work, log)).toBe('UPSTREAM_TIMEOUT')
  })
})

/** Results of a stand-in depend on the query alone. */
const finds: Answer = ({ json }) => {
  const { content } = json.input[0] as { content: string }
  const annotations = [1, 2, 3].map((page) => ({
    type: 'url_citation',
    url: `https://page${page}.example/${content.length}`,
  }))
  return Response.json({
    object: 'response',
    status: 'completed',
    model: json.model,
    output: [{ type: 'message', content: [{ type: 'output_text', text: `pages about ${content}`, annotations }] }],
  })
}

const fixed =
  <T>(vendor: T) =>
  async () => ({ open: async () => vendor, close: async () => {} })
const found = vendorOn(finds).vendor

runLaws('xaiSearch()', searchVendorLaws, fixed(found))
runLaws('page vendor', searchVendorLaws, fixed(pageVendor()))
runBroken('search vendors', searchVendorLaws, brokenSearchVendors)

describe('firstOf()', () => {
  const broken = (error: unknown): SearchVendor => ({ search: () => Promise.reject(error) })
  runLaws('firstOf()', searchVendorLaws, fixed(firstOf(found, pageVendor())))
  runLaws('firstOf() without the first', searchVendorLaws, fixed(firstOf(broken(new Error('away')), pageVendor())))

  test('does not ask the second while the first answers', async () => {
    expect((await firstOf(found, broken(new Error('asked'))).search(JOB, calm())).summary).toBe(
      'pages about what is x402?',
    )
  })

  test.each(['MODEL_UNAVAILABLE', 'PROVIDER_CONFIG_ERROR', 'RATE_LIMITED', 'UPSTREAM_TIMEOUT'] as const)(
    'asks the second where the first says %s',
    async (code) => {
      expect((await firstOf(broken(new ApiError(code)), found).search(JOB, calm())).model).toBe(XAI_SEARCH.model)
    },
  )

  test.each(['CONTENT_POLICY', 'INVALID_BODY'] as const)('asks nobody to overrule %s', async (code) => {
    const apiError = new ApiError(code)
    expect(
      await firstOf(broken(apiError), found)
        .search(JOB, calm())
        .catch((error: unknown) => error),
    ).toBe(apiError)
  })

  test('asks nobody when the time is up', async () => {
    const controller = new AbortController()
    const first: SearchVendor = {
      search: () => (controller.abort(new Error('out of time')), Promise.reject(new Error('cut'))),
    }
    const second = { requestCount: 0, search: () => (second.requestCount++, found.search(JOB, calm())) }
    await expect(firstOf(first, second).search(JOB, controller)).rejects.toThrow('out of time')
    expect(second.requestCount).toBe(0)
  })

  test('fits two searches into the time of a one-shot call', () => {
    expect(2 * SEARCH_TIMEOUT_MS).toBeLessThan(timeouts.answerMs)
  })
})

/** A stand-in that this project did not write. */
describe('against aimock', async () => {
  const mock = new LLMock({ port: 0 })
  mock.on({ userMessage: /x402/ }, { content: 'x402 is a payment protocol.', webSearches: ['x402'] })
  mock.on({ userMessage: /slow/ }, { error: { message: 'slow' }, status: 429, retryAfter: 17 })
  await mock.start()
  afterAll(() => mock.stop())
  const { config, log } = setup(`${mock.url}/v1`)
  const vendor = xaiSearch({ ...config, model: XAI_SEARCH.model })

  test('it summarizes, and its rate limit is read', async () => {
    expect(await vendor.search(JOB, calm())).toMatchObject({
      summary: 'x402 is a payment protocol.',
      citations: [],
      model: XAI_SEARCH.model,
    })
    expect(await outcome(vendor.search({ ...JOB, query: 'slow' }, calm()), log)).toBe('RATE_LIMITED 17')
  })
})
