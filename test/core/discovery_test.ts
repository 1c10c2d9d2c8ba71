import { describe, expect, test } from 'bun:test'
import { Type } from '@sinclair/typebox'
import { PIXEL, type Script, scriptedVendor } from '../../adapters/vendors/scripted.ts'
import { flatPrice, paid } from '../../core/mod.ts'
import { endpoints } from '../../core/endpoints/mod.ts'
import vectors from '../vectors/pricing.json'
import { isSold } from '../../core/menu.ts'
import { GENERATIONS, kit, ORIGIN, read } from '../kit.ts'

const document = async (path: string, options: Parameters<typeof kit>[0] = {}) => (await read(await kit(options).shop.fetch(new Request(ORIGIN + path)))).body

const shown = endpoints.filter((endpoint) => endpoint.kind !== 'free' || !endpoint.hidden)

/** Every value of every member called `key`, however deep. */
function* all(value: unknown, key: string): Iterable<unknown> {
  if (typeof value !== 'object' || value === null) return
  for (const [name, member] of Object.entries(value)) {
    if (name === key) yield member
    yield* all(member, key)
  }
}

const resolve = (openapi: unknown, ref: string) =>
  ref.slice(2).split('/').reduce<any>((node, part) => node?.[part.replaceAll('~1', '/')], openapi)

describe('/openapi.json', () => {
  test('is an OpenAPI 3.1 document of this origin and version', async () => {
    const { openapi, info, servers } = await document('/openapi.json', { version: '1.2.3' })
    expect(openapi).toBe('3.1.0')
    expect(info).toMatchObject({ title: 'Farebox', version: '1.2.3' })
    expect(servers).toEqual([{ url: ORIGIN }])
  })

  test('has every route of the menu that is not hidden, and no other', async () => {
    const { paths } = await document('/openapi.json')
    const described = Object.entries<object>(paths).flatMap(([path, item]) => Object.keys(item).map((method) => `${method.toUpperCase()} ${path}`))
    expect(described.sort()).toEqual(shown.map(({ method, path }) => `${method} ${path.replaceAll('...}', '}')}`).sort())
  })

  test('every reference resolves, and every component is referred to', async () => {
    const openapi = await document('/openapi.json')
    const refs = [...new Set([...all(openapi, '$ref')] as string[])]
    expect(refs.length).toBeGreaterThan(5)
    for (const ref of refs) expect([ref, typeof resolve(openapi, ref)]).toEqual([ref, 'object'])
    const kinds = Object.entries<object>(openapi.components)
    for (const [kind, members] of kinds) for (const name of Object.keys(members)) expect(refs).toContain(`#/components/${kind}/${name}`)
  })

  test('operation ids differ, tags are declared, and path parameters are described', async () => {
    const { paths, tags } = await document('/openapi.json')
    const operations = Object.entries<Record<string, any>>(paths).flatMap(([path, item]) => Object.values(item).map((operation) => ({ path, operation })))
    expect(new Set(operations.map(({ operation }) => operation.operationId)).size).toBe(operations.length)
    const declared = tags.map(({ name }: { name: string }) => name)
    for (const { path, operation } of operations) {
      for (const tag of operation.tags) expect(declared).toContain(tag)
      const inPath = (operation.parameters ?? []).filter((parameter: { in?: string }) => parameter.in === 'path')
      expect(inPath.map(({ name, required }: { name: string; required: boolean }) => [name, required])).toEqual([...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => [name, true]))
      expect(operation.summary).toBeString()
      for (const response of Object.values<{ description: string }>(operation.responses)) expect(response.description).toBeString()
    }
  })

  test('a paid route tells its schema, its example, its price range and its 402', async () => {
    const { paths } = await document('/openapi.json')
    const sale = paths[GENERATIONS].post
    const { schema, example } = sale.requestBody.content['application/json']
    expect(Object.keys(schema.properties)).toEqual(['model', 'prompt', 'size', 'n'])
    expect(schema.required).toEqual(['model', 'prompt'])
    expect([schema.properties.size.default, schema.properties.n.default]).toEqual(['1024x1024', 1])
    expect((await kit().buyer().ask(example)).status).toBe(402)
    expect(Object.keys(sale.responses)).toEqual(['200', '202', '400', '402', '409', '413', '429', '500', '503'])
    expect(Object.keys(paths['/api/v1/images/image2image'].post.responses)).toContain('504')
    expect(Object.keys(paths['/api/v1/images/image2image'].post.requestBody.content)).toEqual(['application/json', 'multipart/form-data'])
    expect(Object.keys(sale.responses[402].headers)).toEqual(['PAYMENT-REQUIRED', 'X-Payment-Required', 'WWW-Authenticate'])
  })

  test('the price range is the least and the most that any quote says', async () => {
    const { paths } = await document('/openapi.json')
    const amounts = vectors.flatMap(({ billed }) => Object.values(billed)).sort((a, b) => Number(a) - Number(b))
    const { protocols, price } = paths[GENERATIONS].post['x-payment-info']
    expect(protocols).toEqual(['x402'])
    expect(price).toEqual({ mode: 'dynamic', currency: 'USD', min: amounts[0], max: amounts.at(-1) })
  })

  test('a rest parameter is described as a plain one, and a flat price as fixed', async () => {
    const flat = paid({
      name: 'echo',
      path: '/api/v1/echo/{rest...}',
      summary: 'Echo',
      tag: 'echo',
      input: Type.Object({}),
      output: Type.Object({}),
      example: {},
      price: () => ({ amount: flatPrice('0.01'), maxTimeoutSeconds: 300, shown: {} }),
      run: async () => ({ result: null }),
      show: () => ({}),
    })
    const { paths } = await document('/openapi.json', { endpoints: [...endpoints, flat] })
    expect(paths['/api/v1/echo/{rest}'].post['x-payment-info'].price).toEqual({ mode: 'fixed', currency: 'USD', amount: '0.011000' })
  })
})

describe('what the gateway answers', () => {
  /** Where a value differs from its schema. Just enough of JSON Schema for the documents that we write. */
  function misfits(openapi: unknown, schema: any, value: any, path = '$'): string[] {
    if (schema.$ref) return misfits(openapi, resolve(openapi, schema.$ref), value, path)
    if (schema.anyOf) return schema.anyOf.some((option: unknown) => misfits(openapi, option, value, path).length === 0) ? [] : [`${path} fits no option`]
    if ('const' in schema) return value === schema.const ? [] : [`${path} is not ${schema.const}`]
    if (schema.enum) return schema.enum.includes(value) ? [] : [`${path} is not one of ${schema.enum}`]
    if (!schema.type) return []
    const types = [schema.type].flat().map((type: string) => (type === 'integer' ? 'number' : type))
    const type = typeOf(value)
    if (!types.includes(type)) return [`${path} is of type ${type}`]
    if (type === 'array') return value.flatMap((item: unknown, index: number) => misfits(openapi, schema.items, item, `${path}[${index}]`))
    if (type !== 'object') return []
    const missing = (schema.required ?? []).filter((name: string) => !(name in value)).map((name: string) => `${path}.${name} is missing`)
    const wrong = Object.entries(schema.properties ?? {}).filter(([name]) => name in value)
    return [...missing, ...wrong.flatMap(([name, member]) => misfits(openapi, member, value[name], `${path}.${name}`))]
  }

  test('is what its document says, for every status of a sale and its poll', async () => {
    const openapi = await document('/openapi.json')
    const seen = new Set<string>()
    function check(operation: string, { status, body }: { status: number; body: unknown }): void {
      const [method = '', path = ''] = operation.split(' ')
      seen.add(`${operation} ${status}`)
      const { schema } = openapi.paths[path][method].responses[status].content['application/json']
      expect([operation, status, misfits(openapi, schema, body)]).toEqual([operation, status, []])
    }
    const sale = `post ${GENERATIONS}`
    const poll = `get ${GENERATIONS}/{id}`

    const { shop, chain, clock, buyer, idle } = kit({ vendor: scriptedVendor(failsFirst) })
    const alice = buyer()
    const challenge = await alice.ask()
    const payment = alice.sign(challenge)
    chain.outage(true)
    check(sale, await alice.buy(undefined, { payment }))
    chain.outage(false)
    check(sale, challenge)
    check(sale, await alice.ask({ model: 'nobody' }))
    check(sale, await alice.ask({ pad: 'x'.repeat(1 << 20) }))
    const failed = await alice.buy(undefined, { payment })
    check(sale, failed)
    check(poll, await alice.poll(`${GENERATIONS}/${failed.body.job_id}`, payment))
    check(sale, await alice.buy(undefined, { payment }))
    const replay = await alice.buy(undefined, { payment })
    check(sale, replay)
    const bob = buyer('bob')
    check(poll, await alice.poll(replay.body.poll_url, payment))
    check(poll, await alice.poll(replay.body.poll_url))
    check(poll, await alice.poll(`${GENERATIONS}/none`, payment))
    check(poll, await bob.poll(replay.body.poll_url, bob.sign(challenge)))

    const slow = alice.buy({ model: 'vendor-e/image-pro', prompt: 'a fox' })
    const envelope = await slow
    check(sale, envelope)
    check(poll, await alice.poll(envelope.body.poll_url, payment))
    await idle()
    check(poll, await alice.poll(envelope.body.poll_url, payment))
    for (const path of ['/api/v1/images/models', '/api/health']) check(`get ${path}`, await read(await shop.fetch(new Request(ORIGIN + path))))
    expect(clock.waiting).toBe(0)
    const expected = [
      'get /api/health 200',
      'get /api/v1/images/models 200',
      ...[200, 202, 402, 403, 404].map((status) => `${poll} ${status}`),
      ...[200, 202, 400, 402, 413, 500, 503].map((status) => `${sale} ${status}`),
    ]
    expect([...seen].sort()).toEqual(expected.sort())
  })
})

function typeOf(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}

/** The first job fails, and a slow one takes until the next turn of the loop. */
const failsFirst: Script = async ({ n }, { attempt }) => {
  if (attempt === 1) throw new Error('out of paint')
  if (attempt === 3) await new Promise((resolve) => setImmediate(resolve))
  return Array.from({ length: n }, () => ({ url: PIXEL }))
}

describe('/.well-known/x402', () => {
  test('lists every resource that is for sale, with its price range and our terms', async () => {
    const found = await document('/.well-known/x402', { version: '1.2.3' })
    expect(found).toMatchObject({ x402Version: 2, version: 1, name: 'Farebox', serviceVersion: '1.2.3' })
    expect(found.resources).toEqual(endpoints.filter(isSold).map(({ path }) => ORIGIN + path.replaceAll('...}', '}')))
    const [service, edits] = found.services
    expect(found.services).toHaveLength(found.resources.length)
    expect(service).toMatchObject({ name: 'images.generations', endpoint: ORIGIN + GENERATIONS, method: 'POST', pricing: { min: '0.016750', max: '1.576000' } })
    expect(edits).toMatchObject({ name: 'images.image2image', method: 'POST', pricing: { mode: 'dynamic', min: '0.022000', max: '1.576000' } })
    const quoted = (await kit().buyer().ask()).body.accepts[0]
    const { amount, maxTimeoutSeconds, ...terms } = quoted
    expect(service.payment).toEqual([{ ...terms, networkName: 'base-sepolia' }])
  })

  test('both documents are cacheable JSON, in ASCII', async () => {
    for (const path of ['/.well-known/x402', '/openapi.json']) {
      const response = await kit().shop.fetch(new Request(ORIGIN + path))
      expect([response.headers.get('content-type'), response.headers.get('cache-control')]).toEqual(['application/json', 'public, max-age=60'])
      expect(await response.text()).toMatch(/^[ -~]+$/)
    }
  })
})
