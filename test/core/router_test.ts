import { describe, expect, test } from 'bun:test'
import { type Endpoint, free, polled } from '../../core/endpoint/mod.ts'
import { json } from '../../core/http/reply.ts'
import { endpoints } from '../../core/products/mod.ts'
import { router } from '../../core/serving/router.ts'
import { GENERATIONS, kit, ORIGIN, read } from '../kit.ts'

const page = (name: string, path: string, more: { aliases?: string[]; hidden?: true } = {}) =>
  free({ name, path, summary: name, tag: 'test', answer: ({ params }) => json(200, params), ...more })

const found = (list: readonly Endpoint[], path: string, method = 'GET') => {
  const match = router(list).match(method, path)
  return match.kind === 'found' ? { name: match.endpoint.name, params: match.params } : match.kind
}

describe('paths', () => {
  const list = [
    page('fixed', '/a/b'),
    page('one', '/a/{id}'),
    page('deep', '/a/{id}/c'),
    page('rest', '/m/{key...}'),
    page('mixed', '/m/{id}/info'),
    page('old', '/new', { aliases: ['/old', '/older/{id}'] }),
  ]

  test('below a bare /v1, and /v1 itself, are 404 that names /api/v1 (contract 3.8, 21.9)', async () => {
    for (const path of ['/v1', '/v1/', '/v1/models']) {
      const response = await kit().gateway.fetch(new Request(`${ORIGIN}${path}`))
      const { message } = (await response.json()) as { message: string }
      expect([response.status, message]).toEqual([404, `The API is served under /api/v1: try /api${path}.`])
    }
  })

  test('a fixed path wins over a named segment, and more literals over fewer', () => {
    expect(found(list, '/a/b')).toEqual({ name: 'fixed', params: {} })
    expect(found(list, '/a/x')).toEqual({ name: 'one', params: { id: 'x' } })
    expect(found(list, '/a/b/c')).toEqual({ name: 'deep', params: { id: 'b' } })
    expect(found(list, '/m/x/info')).toEqual({ name: 'mixed', params: { id: 'x' } })
    expect(found(list, '/m/x/other')).toEqual({ name: 'rest', params: { key: 'x/other' } })
  })

  test('a path means the same when it is called again, and after thousands of others', () => {
    expect(found(list, '/a/x')).toEqual({ name: 'one', params: { id: 'x' } })
    for (let at = 0; at < 2_500; at++)
      expect(found(list, `/a/x${at}`)).toEqual({ name: 'one', params: { id: `x${at}` } })
    expect(found(list, '/a/x')).toEqual({ name: 'one', params: { id: 'x' } })
    expect(found(list, '/a/x', 'POST')).toBe('wrong_method')
    const long = 'x'.repeat(300)
    expect([found(list, `/a/${long}`), found(list, `/a/${long}`)]).toEqual([
      { name: 'one', params: { id: long } },
      { name: 'one', params: { id: long } },
    ])
  })

  test('aliases lead to the same endpoint', () => {
    expect(found(list, '/old')).toEqual({ name: 'old', params: {} })
    expect(found(list, '/older/7')).toEqual({ name: 'old', params: { id: '7' } })
  })

  test('segments are decoded once (contract 4.4)', () => {
    expect(found(list, '/a/x%2Fy')).toEqual({ name: 'one', params: { id: 'x/y' } })
    expect(found(list, '/a/x%252Fy')).toEqual({ name: 'one', params: { id: 'x%2Fy' } })
    expect(found(list, '/m/a%20b/c%2Fd/e')).toEqual({ name: 'rest', params: { key: 'a b/c/d/e' } })
    expect(found(list, '/a/%E7%8B%90')).toEqual({ name: 'one', params: { id: '狐' } })
  })

  test('literal segments are compared as they stand: an encoded, doubled, trailing or differently cased path is another path', () => {
    for (const path of [
      '/%61/b',
      '/a%2Fb',
      '/A/b',
      '//a/b',
      '/a//b',
      '/a/b/',
      '/a/',
      '/a',
      '/',
      '',
      '/m/',
      '/a/b/c/d',
      '/older/',
      '/a/%zz',
      '/m/x/%E7%8B',
    ]) {
      expect(found(list, path)).toBe('unknown')
    }
  })

  test('an unknown path names the nearest routes, shown ones only', () => {
    const match = router([...list, page('secret', '/a/{id}/secret', { hidden: true })]).match('GET', '/a/b/x')
    if (match.kind !== 'unknown') throw new Error(match.kind)
    expect(match.nearby[0]?.path).toBe('/a/b')
    expect(match.nearby.map(({ path }) => path).join()).not.toContain('secret')
  })
})

describe('a menu', () => {
  test('refuses two endpoints of one name, or at one method and path, however its segments are called', () => {
    expect(() => router([page('a', '/a'), page('a', '/b')])).toThrow('two endpoints are called a')
    expect(() => router([page('a', '/a'), page('b', '/a')])).toThrow('two endpoints at GET /a')
    expect(() => router([page('a', '/x/{id}'), page('b', '/x/{name}')])).toThrow('two endpoints at GET /x/{name}')
    expect(() => router([page('a', '/x/{k...}'), page('b', '/x/{rest...}')])).toThrow('two endpoints at')
    expect(() => router([page('a', '/a'), page('b', '/b', { aliases: ['/a'] })])).toThrow('two endpoints at GET /a')
  })

  test('keeps all endpoints in order, and the paid ones by name', () => {
    const { endpoints: registered, sold } = router(endpoints)
    expect(registered).toEqual(endpoints)
    expect([...sold.keys()]).toEqual(endpoints.filter(({ kind }) => kind === 'sold').map(({ name }) => name))
  })

  test('a poll and a sale may share a path', () => {
    const list = [...endpoints, polled({ name: 'status', path: GENERATIONS, summary: 's', tag: 't', of: [] })]
    expect(found(list, GENERATIONS, 'GET')).toEqual({ name: 'status', params: {} })
    expect(found(list, GENERATIONS, 'POST')).toEqual({ name: 'images.generations', params: {} })
  })
})

describe('methods over HTTP', () => {
  const { gateway } = kit()
  const call = async (method: string, path: string, headers: Record<string, string> = {}) =>
    await read(await gateway.fetch(new Request(ORIGIN + path, { method, headers })))

  test('GET and HEAD on a path that sells answer with the default quote, HEAD without its body', async () => {
    const got = await call('GET', GENERATIONS)
    const head = await call('HEAD', GENERATIONS)
    expect([got.status, head.status]).toEqual([402, 402])
    expect(got.body.price.amount).toBe('0.022000')
    expect(head.body).toBeUndefined()
    expect(head.headers.get('payment-required')).toBe(got.headers.get('payment-required'))
  })

  test('HEAD on a free path is GET without its body (contract 4.8)', async () => {
    const { status, headers, body } = await call('HEAD', '/api/v1/images/models')
    expect([status, headers.get('content-type'), body]).toEqual([200, 'application/json', undefined])
  })

  test('OPTIONS is 204 with Allow', async () => {
    const answers = await Promise.all(
      [GENERATIONS, `${GENERATIONS}/job_1`, '/api/health'].map((path) => call('OPTIONS', path)),
    )
    expect(answers.map(({ status, headers }) => [status, headers.get('allow')])).toEqual([
      [204, 'GET, HEAD, OPTIONS, POST'],
      [204, 'GET, HEAD, OPTIONS'],
      [204, 'GET, HEAD, OPTIONS'],
    ])
  })

  test('a wrong method is 405 with Allow, as JSON (contract 3.7)', async () => {
    for (const [method, path, allow] of [
      ['PUT', GENERATIONS, 'GET, HEAD, OPTIONS, POST'],
      ['DELETE', GENERATIONS, 'GET, HEAD, OPTIONS, POST'],
      ['POST', `${GENERATIONS}/job_1`, 'GET, HEAD, OPTIONS'],
      ['POST', '/api/health', 'GET, HEAD, OPTIONS'],
    ] as const) {
      const { status, headers, body } = await call(method, path)
      expect([status, headers.get('allow'), body.error]).toEqual([405, allow, 'Method not allowed'])
      expect(body.message).toBe(`${method} is not served at ${path}; allowed: ${allow}.`)
    }
  })

  test('an unknown path is 404 with nearby routes, as JSON (contract 3.6)', async () => {
    const { status, headers, body } = await call('GET', '/api/v1/images/generation')
    expect([status, headers.get('content-type'), body.error]).toEqual([404, 'application/json', 'Not found'])
    expect(body.nearby.slice(0, 3)).toEqual([
      'POST /api/v1/images/generations',
      'GET /api/v1/images/models',
      'POST /api/v1/images/image2image',
    ])
  })

  test('paths that only look like a paid one are 404 for every method: there is no way around the till', async () => {
    for (const path of [
      '//api/v1/images/generations',
      '/api/v1//images/generations',
      '/api%2Fv1/images/generations',
      '/API/v1/images/generations',
      '/api/v1/images/generations/',
      '/api/v1/images%2Fgenerations',
      '/api/v1/%69mages/generations',
    ]) {
      for (const method of ['GET', 'POST', 'HEAD', 'OPTIONS', 'PUT'])
        expect((await call(method, path)).status).toBe(404)
    }
    expect((await call('GET', '/api/v1/x/../images/generations')).status).toBe(402)
    expect((await call('GET', '/api/v1/x/%2e%2e/images/generations')).status).toBe(402)
  })

  test('/v1 names /api/v1, or is served as an alias where the operator says so (contract 3.8)', async () => {
    const { status, body } = await call('POST', '/v1/images/generations')
    expect(status).toBe(404)
    expect(body.message).toBe('The API is served under /api/v1: try /api/v1/images/generations.')
    const aliased = kit({ bareV1: true }).gateway
    const quoted = await read(await aliased.fetch(new Request(`${ORIGIN}/v1/images/generations`, { method: 'POST' })))
    expect(quoted.status).toBe(402)
    expect(JSON.parse(atob(quoted.headers.get('payment-required') ?? '')).resource.url).toBe(
      `${ORIGIN}/v1/images/generations`,
    )
    expect((await aliased.fetch(new Request(`${ORIGIN}/v1/nothing`))).status).toBe(404)
  })
})
