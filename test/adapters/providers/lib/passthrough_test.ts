import { describe, expect, test } from 'bun:test'
import { passthrough, type PassthroughConfig, urlUnder } from '../../../../adapters/providers/lib/passthrough.ts'
import type { ApiError } from '../../../../core/mod.ts'
import { type Answer, calm, drip, flood, KEY, outcome, errorText, setup, standIn, until } from './provider_kit.ts'

const ROOT = 'https://data.example/v1'

function before(answer: Answer, more: Partial<PassthroughConfig> = {}) {
  const server = standIn(answer)
  const { log, clock } = setup(server.url)
  const { ask } = passthrough({
    name: 'service-x',
    source: 'Service X',
    headers: { 'x-api-key': KEY },
    secrets: [KEY],
    timeoutMs: 5_000,
    maxBytes: 1_000,
    clock,
    log,
    ...more,
  })
  return {
    ...server,
    log,
    clock,
    ask: (path = 'markets', query = '', body?: object) =>
      ask(`${server.url}/v1/`, { path, query, ...(body && { body: body as never }) }, calm()),
  }
}

const apiErrorOf = (work: Promise<unknown>): Promise<ApiError> =>
  work.then(
    () => Promise.reject(new Error('it was answered')),
    (error: ApiError) => error,
  )

describe('urlUnder()', () => {
  test('is the root, the path and the query, letter by letter', () => {
    expect(urlUnder(ROOT, 'a/b-c_d.e~f:g,h', '')).toBe(`${ROOT}/a/b-c_d.e~f:g,h`)
    expect(urlUnder(`${ROOT}/`, 'a', 'q=x%20%27y')).toBe(`${ROOT}/a?q=x%20%27y`)
    expect(urlUnder('http://127.0.0.1:8080', 'a', '')).toBe('http://127.0.0.1:8080/a')
    expect(urlUnder('HTTPS://Data.Example:443', 'a', '')).toBe('https://data.example/a')
  })

  test.each([
    '',
    '/',
    '/a',
    'a/',
    'a//b',
    '.',
    '..',
    'a/../b',
    'a/./b',
    '.hidden',
    'a/%2e%2e',
    '%2e%2e/b',
    'a%2fb',
    'a\\b',
    '..\\b',
    '@evil.example',
    'a@b',
    'https://evil.example',
    '//evil.example',
    'a;b',
    'a?b',
    'a#b',
    'a b',
    'a\0',
    'a\n',
    'ａ',
    'a/․․/b',
    'x'.repeat(4_001),
  ])('throws for %j', (path) => {
    expect(() => urlUnder(ROOT, path, '')).toThrow(RangeError)
  })

  test('throws for a query that was not encoded', () => {
    for (const query of ['a=b#c', 'a=b c', "a='", 'a=\n', 'a="'])
      expect(() => urlUnder(ROOT, 'a', query)).toThrow(RangeError)
  })
})

describe('passthrough()', () => {
  test('asks below its root, with its own headers and no others, and hands the text on', async () => {
    const text = '{"price":1.10,"id":12345678901234567890,"a":[1.0e2]}'
    const { ask, seen } = before(() => new Response(text, { headers: { 'set-cookie': 'a=b' } }))
    expect(await ask('markets/a:b', 'limit=1')).toBe(text)
    expect(await ask('identities', '', { addresses: ['0x1'] })).toBe(text)
    expect(seen.map(({ method, path, json }) => [method, path, json])).toEqual([
      ['GET', '/v1/markets/a:b', undefined],
      ['POST', '/v1/identities', { addresses: ['0x1'] }],
    ])
    const usual = new Set([
      'accept',
      'accept-encoding',
      'connection',
      'content-length',
      'content-type',
      'host',
      'user-agent',
      'x-api-key',
    ])
    expect(seen.flatMap(({ headers }) => [...headers.keys()].filter((name) => !usual.has(name)))).toEqual([])
  })

  test.each([301, 302, 303, 307, 308])('follows no redirect: %d is the operator’s to mend', async (status) => {
    const inner = standIn(() => Response.json({ secret: true }))
    const { ask, log } = before(
      () => new Response(null, { status, headers: { location: `${inner.url}/latest/meta-data` } }),
    )
    expect([await outcome(ask(), log), inner.seen.length]).toEqual(['NOT_CONFIGURED', 0])
  })

  test.each([400, 404, 409, 410, 413, 422])('hands a %d on, with the service’s reason', async (status) => {
    const { ask } = before(() => Response.json({ error: 'no such market' }, { status }))
    expect((await apiErrorOf(ask())).parts).toMatchObject({
      status,
      message: `Service X ${status}: no such market (payment NOT charged)`,
      fields: { status },
      details: { error: 'no such market' },
    })
  })

  test('reads a reason in each of the ways that services have', async () => {
    for (const [body, reason] of [
      [{ message: 'm' }, ': m'],
      [{ error: { message: 'e' } }, ': e'],
      [{ detail: 'd' }, ': d'],
      [{ detail: [{ loc: [] }] }, ''],
      [[1], ''],
      [{ error: 'a\n\u0007b' }, ': a  b'],
      [{ error: 'x'.repeat(999) }, `: ${'x'.repeat(300)}`],
    ] as const) {
      expect((await apiErrorOf(before(() => Response.json(body, { status: 400 })).ask())).parts.message).toBe(
        `Service X 400${reason} (payment NOT charged)`,
      )
    }
  })

  test('reveals neither its key nor a page that is not JSON', async () => {
    const echo = before(() => Response.json({ error: `bad key ${KEY}`, key: KEY }, { status: 404 }))
    const asking = echo.ask()
    expect((await apiErrorOf(asking)).parts).toMatchObject({
      message: 'Service X 404: bad key *** (payment NOT charged)',
      details: null,
    })
    expect(await errorText(asking, echo.log)).not.toContain(KEY)
    expect(
      (await apiErrorOf(before(() => new Response('<html>secret</html>', { status: 404 })).ask())).parts,
    ).toMatchObject({ message: 'Service X 404 (payment NOT charged)', details: null })
  })

  test('tells not even half of a key where its reason is cut', async () => {
    const { ask } = before(() => Response.json({ error: `${'x'.repeat(297)}${KEY}` }, { status: 400 }))
    expect((await apiErrorOf(ask())).parts.message).toBe(`Service X 400: ${'x'.repeat(297)}*** (payment NOT charged)`)
  })

  test.each([401, 402, 403, 405, 407, 415, 451])('alerts the operator of a %d', async (status) => {
    const { ask, log } = before(() => Response.json({}, { status }))
    expect(await outcome(ask(), log)).toBe('NOT_CONFIGURED')
    expect(log.lines.map(({ level }) => level)).toEqual(['alert'])
  })

  test('keeps a rate limit, with its wait and its source', async () => {
    const { ask } = before(() => Response.json({}, { status: 429, headers: { 'retry-after': '7' } }))
    expect((await apiErrorOf(ask())).parts).toMatchObject({
      fields: { source: 'Service X', retry_after_seconds: 7 },
      headers: { 'retry-after': '7' },
    })
  })

  test('a service that fails, breaks off, says too much or says no JSON is 502', async () => {
    const wrongs: readonly Answer[] = [
      () => new Response('', { status: 500 }),
      () => new Response('', { status: 503 }),
      () => new Response('<html>'),
      () => new Response(''),
      () => new Response(flood('[').body),
      () => Response.json('x'.repeat(1_001)),
    ]
    for (const wrong of wrongs) {
      const { ask, log } = before(wrong)
      expect(await outcome(ask(), log)).toBe('UPSTREAM_FAILED')
    }
    const gone = before(() => new Response(''), {
      fetch: () => Promise.reject(Object.assign(new Error('no'), { code: 'ECONNREFUSED' })),
    })
    expect(await outcome(gone.ask(), gone.log)).toBe('UPSTREAM_FAILED')
  })

  test('ends at its deadline, in the middle of a body too', async () => {
    for (const slow of [() => new Promise<Response>(() => {}), () => new Response(drip())]) {
      const { ask, clock, seen } = before(slow)
      const asking = apiErrorOf(ask())
      await until(() => seen.length > 0)
      clock.expire()
      expect((await asking).parts.message).toBe('Service X did not answer within 5 s. Payment was NOT charged.')
    }
  })

  test('asks nothing for a path that leads out, however it came there', async () => {
    const { ask, seen } = before(() => Response.json({}))
    for (const path of ['../admin', 'a/%2e%2e/b', '//evil.example/x'])
      await expect(ask(path)).rejects.toThrow(RangeError)
    expect(seen).toEqual([])
  })
})
