import { describe, expect, test } from 'bun:test'
import { memoryChain } from '../../../../adapters/chains/evm/memory.ts'
import { demoSearch } from '../../../../server/devnet/demo/search.ts'
import { search } from '../../../../core/products/search/search.ts'
import { ApiError, rateLimited, type SearchAnswer, type SearchJob } from '../../../../core/mod.ts'
import { decodeHeader, encodePayment, type Kit, kit, type KitOptions, ORIGIN, read } from '../../../kit.ts'
import { rowsOf } from '../../../vectors/rows.ts'

const PATH = '/api/v1/search'
const QUESTION = { query: 'what is x402?' }
const AT = { path: PATH }

const FOUND: SearchAnswer = {
  summary: 'x402 is a payment protocol.',
  citations: ['https://x402.org/', 'https://docs.example.com/x402?a=1', 'https://x402.org/'],
  sourcesUsed: 7,
  model: 'search-1',
}

type Script = (job: SearchJob, at: { signal: AbortSignal }) => Promise<SearchAnswer>

/** A gateway whose search does what a test says, and a list of what was asked of it. */
function fixture(
  script: Script = async () => FOUND,
  more: KitOptions = {},
): Kit & { readonly jobs: readonly SearchJob[] } {
  const jobs: SearchJob[] = []
  const vendor = { search: (job: SearchJob, at: { signal: AbortSignal }) => (jobs.push(job), script(job, at)) }
  return { ...kit({ ports: { vendors: { search: vendor } }, ...more }), jobs }
}

async function answerOf(answer: Partial<SearchAnswer>, body: object = QUESTION) {
  return (
    await fixture(async () => ({ ...FOUND, ...answer }))
      .buyer()
      .buy(body, AT)
  ).body
}

describe('the price of a search', () => {
  test.each([1, 10, 50])(
    'is 81000 micro-USDC for max_results %d, shown with four decimals (contract 9.1, 9.2)',
    async (max_results) => {
      const { status, body } = await fixture()
        .buyer()
        .ask({ ...QUESTION, max_results }, AT)
      expect([status, body.accepts[0].amount, body.accepts[0].maxTimeoutSeconds]).toEqual([402, '81000', 300])
      expect(body.price).toEqual({ amount: '0.0810', currency: 'USD', perCallPrice: 0.08, transactionFee: 0.001 })
    },
  )

  test('is what a GET and an empty POST are quoted (contract 9.11)', async () => {
    const { gateway } = fixture()
    for (const method of ['GET', 'POST']) {
      const { status, headers, body } = await read(await gateway.fetch(new Request(ORIGIN + PATH, { method })))
      expect([method, status, body.accepts[0].amount]).toEqual([method, 402, '81000'])
      expect(decodeHeader(headers.get('payment-required')).accepts).toEqual(body.accepts)
    }
  })

  test('is what moves, once, under either header name (contract 21.10)', async () => {
    for (const header of ['payment-signature', 'X-PAYMENT']) {
      const { buyer, chain } = fixture()
      const { status, headers } = await buyer().buy(QUESTION, { ...AT, header })
      expect([status, chain.transfers.map(({ value }) => value)]).toEqual([200, [81_000n]])
      expect(headers.get('x-payment-receipt')).toBe(chain.transfers[0]?.transaction ?? '')
      expect(decodeHeader(headers.get('payment-response'))).toMatchObject({ success: true })
    }
  })
})

describe('the answer of a search', () => {
  test('is exactly query, summary, citations, sources_used and model (contract 9.7)', async () => {
    expect(await answerOf({})).toEqual({
      query: 'what is x402?',
      summary: 'x402 is a payment protocol.',
      citations: [
        { url: 'https://x402.org/', title: 'x402.org' },
        { url: 'https://docs.example.com/x402?a=1', title: 'docs.example.com' },
      ],
      sources_used: 7,
      model: 'search-1',
    })
  })

  test('cites at most max_results pages, the first ones, after double ones are gone (contract 9.7)', async () => {
    const citations = ['https://a.test/', 'https://a.test/', 'https://b.test/', 'https://c.test/']
    expect((await answerOf({ citations }, { ...QUESTION, max_results: 2 })).citations).toEqual([
      { url: 'https://a.test/', title: 'a.test' },
      { url: 'https://b.test/', title: 'b.test' },
    ])
  })

  test('cites web pages only', async () => {
    const citations = ['javascript:alert(1)', 'not a url', 'ftp://a.test/', 'https://', 'http://b.test:8080/x']
    expect((await answerOf({ citations })).citations).toEqual([{ url: 'http://b.test:8080/x', title: 'b.test' }])
  })

  test('says max_results for sources_used where the upstream does not count (contract 9.7)', async () => {
    const { sourcesUsed: _, ...uncounted } = FOUND
    const alice = fixture(async () => uncounted).buyer()
    expect((await alice.buy(QUESTION, AT)).body.sources_used).toBe(10)
    expect((await alice.buy({ ...QUESTION, max_results: 3 }, AT)).body.sources_used).toBe(3)
    for (const sourcesUsed of [1.5, -1, 1e300, Number.NaN])
      expect((await answerOf({ sourcesUsed })).sources_used).toBe(10)
  })
})

describe('the request to a search vendor', () => {
  test('is ten results of the web unless the caller says otherwise (contract 9.4, 9.5)', async () => {
    const { buyer, jobs } = fixture()
    await buyer().buy(QUESTION, AT)
    expect(jobs).toEqual([{ query: 'what is x402?', sources: ['web'], maxResults: 10 }])
  })

  test('is the caller’s order, each source once; an empty list, and nulls, are the defaults', async () => {
    const { buyer, jobs } = fixture()
    const alice = buyer()
    await alice.buy(
      {
        query: 'q',
        sources: ['news', 'web', 'news'],
        max_results: 50,
        from_date: '2026-02-28',
        to_date: '2026-02-28',
        unknown: 1,
      },
      AT,
    )
    await alice.buy({ query: 'r', sources: [], max_results: null, from_date: null }, AT)
    expect(jobs).toEqual([
      { query: 'q', sources: ['web', 'news'], maxResults: 50, fromDate: '2026-02-28', toDate: '2026-02-28' },
      { query: 'r', sources: ['web'], maxResults: 10 },
    ])
  })

  test('is nothing before the payment is verified', async () => {
    const requests: number[] = []
    const chain = memoryChain({
      before: (question) => void (question === 'verify' && requests.push(subject.jobs.length)),
    })
    const subject = fixture(undefined, { chain })
    const alice = subject.buyer()
    const challenge = await alice.ask(QUESTION, AT)
    expect((await alice.buy(QUESTION, { ...AT, payment: alice.sign(challenge, { value: 1n }) })).status).toBe(402)
    await alice.buy(QUESTION, AT)
    expect([requests, subject.jobs.length]).toEqual([[0, 0], 1])
  })
})

describe('a bad order for a search', () => {
  const refused: readonly [string, unknown, object][] = rowsOf<[string, unknown, object]>('refused_searches', {
    $LONG: 'x'.repeat(1001),
  })

  test.each([...refused])(
    '%s is 400 with its issue, before any quote, with a payment as without (contract 3.23, 9.3, 9.4, 9.5, 9.6, 9.8)',
    async (_, body, issue) => {
      const { gateway, buyer, chain, jobs } = fixture()
      const alice = buyer()
      const payment = encodePayment(alice.sign(await alice.ask(QUESTION, AT)))
      for (const headers of [{}, { 'payment-signature': payment }]) {
        const request = new Request(ORIGIN + PATH, {
          method: 'POST',
          headers: { 'content-type': 'application/json', ...headers },
          body: JSON.stringify(body),
        })
        const answer = await read(await gateway.fetch(request))
        expect([answer.status, answer.headers.has('payment-required')]).toEqual([400, false])
        expect(answer.body).toEqual({
          error: 'Invalid request body',
          details: [expect.objectContaining({ ...issue, message: expect.any(String) })],
        })
      }
      expect([chain.transfers, jobs]).toEqual([[], []])
    },
  )

  test('is told all that is wrong with it at once', async () => {
    const { body } = await fixture()
      .buyer()
      .ask({ query: '', max_results: 99, sources: ['x'], from_date: 'soon' }, AT)
    expect(body.details.map(({ code }: { code: string }) => code)).toEqual([
      'too_small',
      'invalid_enum_value',
      'too_big',
      'invalid_string',
    ])
  })

  test.each(['[]', 'null', '"text"', '7'])(
    'that is %s is 400, and so is one that is no JSON (contract 9.8)',
    async (body) => {
      const { gateway } = fixture()
      const send = async (text: string) =>
        await read(
          await gateway.fetch(
            new Request(ORIGIN + PATH, { method: 'POST', headers: { 'content-type': 'application/json' }, body: text }),
          ),
        )
      expect((await send(body)).body).toMatchObject({
        error: 'Invalid request body',
        details: [{ message: expect.any(String) }],
      })
      expect((await send(`{${body}`)).body).toMatchObject({ error: 'Invalid JSON', code: 'INVALID_JSON' })
    },
  )

  test.each(['2024-02-29', '2026-12-31', '1999-01-01'])(
    'is not one for %s, a day of the calendar (contract 9.6)',
    async (from_date) => {
      expect(
        (
          await fixture()
            .buyer()
            .ask({ ...QUESTION, from_date }, AT)
        ).status,
      ).toBe(402)
    },
  )

  test('is not one of 1000 characters (contract 9.3)', async () => {
    for (const letter of ['ü', '🦊', 'x'])
      expect([
        letter,
        (
          await fixture()
            .buyer()
            .ask({ query: letter.repeat(1000) }, AT)
        ).status,
      ]).toEqual([letter, 402])
    expect(
      (
        await fixture()
          .buyer()
          .ask({ query: '🦊'.repeat(1001) }, AT)
      ).status,
    ).toBe(400)
  })
})

describe('a search that fails', () => {
  const failures: readonly [string, unknown, string][] = [
    ['breaks', new Error('secret of the vendor'), 'The model did not deliver a result. Nothing was charged.'],
    ['is away', new ApiError('MODEL_UNAVAILABLE', { message: 'The search is away.' }), 'The search is away.'],
    [
      'has a key that is no good',
      new ApiError('PROVIDER_CONFIG_ERROR'),
      'The search did not deliver a result. Nothing was charged.',
    ],
    [
      'is too slow',
      new ApiError('UPSTREAM_TIMEOUT', { details: 'The model did not answer in time.' }),
      'The model did not answer in time.',
    ],
  ]

  test.each(failures)(
    'because its vendor %s is 500 Internal server error with details, uncharged, and the same signature buys later (contract 9.10)',
    async (_, error, details) => {
      let isBroken = true
      const { buyer, chain } = fixture(async () => (isBroken ? Promise.reject(error) : FOUND))
      const alice = buyer()
      const payment = alice.sign(await alice.ask(QUESTION, AT))
      const { status, headers, body } = await alice.buy(QUESTION, { ...AT, payment })
      expect([status, body.error, body.details, decodeHeader(headers.get('payment-response')).success]).toEqual([
        500,
        'Internal server error',
        details,
        false,
      ])
      expect([JSON.stringify(body).includes('secret'), chain.transfers]).toEqual([false, []])
      isBroken = false
      expect((await alice.buy(QUESTION, { ...AT, payment })).status).toBe(200)
      expect(chain.transfers).toHaveLength(1)
    },
  )

  test('because its vendor is at its limit is 429 with Retry-After and the maker, uncharged (contract 9.10)', async () => {
    const { buyer, chain } = fixture(() => Promise.reject(rateLimited('vendor-c', 9)))
    const { status, headers, body } = await buyer().buy(QUESTION, AT)
    expect([status, body, chain.transfers]).toEqual([
      429,
      {
        error: 'Rate limit exceeded',
        code: 'RATE_LIMITED',
        source: 'vendor-c',
        retry_after_seconds: 9,
        details: 'The model is at capacity. Nothing was charged.',
      },
      [],
    ])
    expect([headers.get('retry-after'), headers.get('x-ratelimit-source')]).toEqual(['9', 'vendor-c'])
  })

  test('because its query is refused, or its vendor at its limit, says so, uncharged (contract 9.10)', async () => {
    for (const [error, status, words] of [
      [new ApiError('CONTENT_POLICY'), 400, 'Content policy violation'],
      [rateLimited('vendor-c', 9), 429, 'Rate limit exceeded'],
    ] as const) {
      const { buyer, chain } = fixture(() => Promise.reject(error))
      const answer = await buyer().buy(QUESTION, AT)
      expect([answer.status, answer.body.error, chain.transfers]).toEqual([status, words, []])
      if (status === 429) expect([answer.body.code, answer.headers.get('retry-after')]).toEqual(['RATE_LIMITED', '9'])
    }
  })

  test('because nobody answers ends at the deadline, uncharged', async () => {
    const { buyer, chain, clock } = fixture(
      (_, { signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    )
    const alice = buyer()
    const payment = alice.sign(await alice.ask(QUESTION, AT))
    const asking = alice.buy(QUESTION, { ...AT, payment })
    await clock.advance(120_000)
    expect([(await asking).status, chain.transfers]).toEqual([500, []])
  })
})

describe('the payment of a search', () => {
  test('that is refused at settlement withholds the answer: 402 Payment settlement failed (contract 9.12)', async () => {
    const { buyer, chain, jobs } = fixture()
    const alice = buyer()
    const challenge = await alice.ask(QUESTION, AT)
    chain.simulate('refused')
    const { status, body } = await alice.buy(QUESTION, { ...AT, payment: alice.sign(challenge) })
    expect([status, body.error, 'summary' in body, jobs.length, chain.transfers]).toEqual([
      402,
      'Payment settlement failed',
      false,
      1,
      [],
    ])
    const collected = await alice.poll(body.poll_url, alice.sign(challenge))
    expect([collected.status, collected.body.summary, jobs.length, chain.transfers.length]).toEqual([
      200,
      FOUND.summary,
      1,
      1,
    ])
  })

  test('that was used is refused for another order (contract 9.9)', async () => {
    const { buyer, chain, jobs } = fixture()
    const alice = buyer()
    const payment = alice.sign(await alice.ask(QUESTION, AT))
    await alice.buy(QUESTION, { ...AT, payment })
    const { status, body } = await alice.buy({ query: 'something else' }, { ...AT, payment })
    expect([status, body.error, body.code, jobs.length, chain.transfers.length]).toEqual([
      402,
      'Payment authorization already used',
      'PAYMENT_REPLAY',
      1,
      1,
    ])
  })

  test('is not asked for where no search is configured: 503, and no challenge', async () => {
    const { status, headers } = await kit().buyer().ask(QUESTION, AT)
    expect([status, headers.has('payment-required')]).toEqual([503, false])
  })
})

test('the documents are given the schema of a search as it is', () => {
  const [endpoint] = search
  expect(JSON.parse(JSON.stringify(endpoint?.input))).toMatchObject({
    type: 'object',
    required: ['query'],
    properties: {
      query: { type: 'string', minLength: 1, maxLength: 1000 },
      sources: { type: 'array' },
      max_results: { type: 'integer', minimum: 1, maximum: 50 },
      from_date: { format: 'date' },
    },
  })
})

test('devnet sells a search of its sample corpus, and says what it is', async () => {
  const { buyer } = kit({ ports: { vendors: { search: demoSearch() } } })
  const { body } = await buyer().buy(QUESTION, AT)
  expect([body.model, body.citations[0]]).toEqual([
    'farebox/sample-search',
    { url: 'https://sample.farebox.example/x402', title: 'sample.farebox.example' },
  ])
  expect(body.summary).toContain('not results from the web')
})
