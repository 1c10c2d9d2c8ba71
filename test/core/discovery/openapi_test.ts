import { describe, expect, test } from 'bun:test'
import { Type } from '@sinclair/typebox'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { unservedHint } from '../trial_path.ts'
import { scriptedAudio } from '../../fakes/audio.ts'
import { scriptedVideo } from '../../fakes/videos.ts'
import { PIXEL, type Script, scriptedVendor } from '../../fakes/images.ts'
import { scriptedChat } from '../../fakes/chat.ts'
import { endpoints } from '../../../core/products/mod.ts'
import { flatPrice, paid } from '../../../core/mod.ts'
import { router } from '../../../core/serving/router.ts'
import vectors from '../../vectors/pricing.json'
import { type Answer, embedded, GENERATIONS, kit, type KitOptions, ORIGIN, read, testClock } from '../../kit.ts'

const document = async (path: string, options: KitOptions = {}) =>
  (await read(await whole(options).gateway.fetch(new Request(ORIGIN + path)))).body

const listed = endpoints.filter((endpoint) => endpoint.kind !== 'free' || !endpoint.hidden)

/** A gateway that can serve everything on the menu. */
function whole(options: KitOptions = {}) {
  const clock = testClock()
  const swap = {
    feeRecipient: `0x${'11'.repeat(20)}`,
    call: async () => ({ status: 200, body: { ok: true }, text: '{"ok":true}' }),
  }
  return kit({
    chatVendor: scriptedChat(),
    video: scriptedVideo(),
    audio: scriptedAudio(),
    ports: { clock, vendors: { ...embedded(clock), swap } },
    allowlists: { generate_content: [`0x${'22'.repeat(20)}`] },
    ...options,
  })
}

type Operation = { readonly id: string; readonly method: string; readonly path: string; readonly node: any }

/** Whether an operation asks for what an order has made. */
const isFollowed = (id: string): boolean =>
  endpoints.some(
    (endpoint) =>
      endpoint.name === id.replace(/\.alias_\d+$/, '') &&
      (endpoint.kind === 'poll' || (endpoint.kind === 'free' && endpoint.follows === true)),
  )

const operationsIn = ({ paths }: any): readonly Operation[] =>
  Object.entries<Record<string, any>>(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, node]) => ({ id: node.operationId, method: method.toUpperCase(), path, node })),
  )

const resolve = (openapi: unknown, ref: string) =>
  ref
    .slice(2)
    .split('/')
    .reduce<any>((node, part) => node?.[part.replaceAll('~1', '/')], openapi)
const resolved = (openapi: unknown, node: any) => (node?.$ref ? resolve(openapi, node.$ref) : node)

/** Every value of every member called `key`, however deep. */
function* all(value: unknown, key: string): Iterable<unknown> {
  if (typeof value !== 'object' || value === null) return
  for (const [name, member] of Object.entries(value)) {
    if (name === key) yield member
    yield* all(member, key)
  }
}

/** Where values differ from the schemas of a document, by the rules of JSON Schema 2020-12. */
function judgeOf(openapi: any) {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true })
  ajv.addSchema({ $id: 'doc', ...openapi })
  const compiled = new Map<string, ReturnType<typeof ajv.compile>>()
  return (schema: unknown, value: unknown): readonly string[] => {
    const text = JSON.stringify(schema).replaceAll('"#/', '"doc#/')
    const check = compiled.get(text) ?? ajv.compile(JSON.parse(text))
    compiled.set(text, check)
    return check(value) ? [] : (check.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`)
  }
}

describe('/openapi.json', () => {
  test('is an OpenAPI 3.1 document of this origin and version, by the schema of OpenAPI itself (contract 19.2)', async () => {
    for (const options of [{ version: '1.2.3' }, { version: '1.2.3', chatVendor: scriptedChat() }]) {
      const found = await document('/openapi.json', options)
      expect(found.openapi).toBe('3.1.0')
      expect(found.info).toMatchObject({ title: 'Farebox', version: '1.2.3' })
      expect(found.servers).toEqual([{ url: ORIGIN }])
      expect(await new Validator().validate(found)).toMatchObject({ valid: true })
    }
  })

  test('says where the operator is reached, its docs page unless told, and what an agent has to know (contract 19.16)', async () => {
    const infoOf = async (contact?: string) =>
      (await document('/openapi.json', contact === undefined ? {} : { contact })).info
    expect((await infoOf()).contact).toEqual({ url: `${ORIGIN}/docs` })
    expect((await infoOf('https://shop.example/help')).contact).toEqual({ url: 'https://shop.example/help' })
    expect((await infoOf('help@shop.example')).contact).toEqual({ email: 'help@shop.example' })
    const guidance = (await infoOf())['x-guidance']
    expect(guidance).toContain('PAYMENT-SIGNATURE')
    expect(guidance.length).toBeLessThan(4_000)
  })

  test('an endpoint that nobody may buy, because no wallet is listed for it, is not advertised (contract 19.4)', async () => {
    const path = '/api/v1beta/models/{model}:generateContent'
    expect(Object.keys((await document('/openapi.json')).paths)).toContain(path)
    expect(Object.keys((await document('/openapi.json', { allowlists: {} })).paths)).not.toContain(path)
    expect((await document('/openapi.json?all=1', { allowlists: {} })).paths[path].post['x-available']).toBe(false)
  })

  test('is served under its well-known name as well (contract 19.2)', async () => {
    expect(await document('/.well-known/openapi.json')).toEqual(await document('/openapi.json'))
  })

  test('has each path of every endpoint that is not hidden, with each GET and POST that answers there (contract 19.2, 19.13)', async () => {
    const { paths } = await document('/openapi.json')
    const written = listed.flatMap(({ path, aliases = [] }) => [path, ...aliases])
    expect(Object.keys(paths).sort()).toEqual([...new Set(written.map((path) => path.replaceAll('...}', '}')))].sort())
    for (const path of written) {
      const { match } = router(endpoints)
      const answers = (method: string) =>
        ['found', 'discover'].includes(match(method, path.replaceAll(/\{[^}]*\}/g, 'x')).kind)
      const described = Object.keys(paths[path.replaceAll('...}', '}')]).sort()
      expect([path, described]).toEqual([path, ['GET', 'POST'].filter(answers).map((method) => method.toLowerCase())])
    }
  })

  test('says what the swap passthrough really answers: its own words, and no fault that it never speaks', async () => {
    const openapi = await document('/openapi.json')
    const swaps = operationsIn(openapi).filter(({ id }) => id.startsWith('swap.') && !id.includes('.alias_'))
    expect(swaps.length).toBe(9)
    for (const { id, node } of swaps) {
      const listed = Object.entries<any>(node.responses).flatMap(([status, response]) =>
        Object.entries<any>(resolved(openapi, response).content['application/json'].examples ?? {}).map(
          ([name, { value }]) => [status, name, value] as const,
        ),
      )
      const takesFee = /price|quote/.test(id)
      expect([id, Object.keys(node.responses)]).toEqual([
        id,
        ['200', '400', ...(id === 'swap.gasless_submit' ? ['413'] : []), '429', '500', '502', '503'],
      ])
      expect([id, listed.some(([, name]) => name === 'no_sell_token')]).toEqual([id, takesFee])
      expect(listed.filter(([, name]) => ['INVALID_BODY', 'INVALID_JSON', 'MODEL_UNAVAILABLE'].includes(name))).toEqual(
        [],
      )
      for (const [status, , value] of listed)
        if (['400', '429'].includes(status))
          expect([id, Object.keys(value)]).toEqual([id, ['error', 'message', 'status', 'details']])
      expect(Object.keys(resolved(openapi, node.responses[429]).headers)).toEqual(['Retry-After'])
    }
  })

  test('says that a history needs `from`, in the query and in a body', async () => {
    const histories = operationsIn(await document('/openapi.json')).filter(({ path }) => path.includes('/history/'))
    expect(histories.length).toBe(10)
    for (const { id, node } of histories) {
      const price = node.parameters.find(({ name }: { name: string }) => name === 'from') ?? {
        required: node.requestBody.content['application/json'].schema.required.includes('from'),
      }
      expect([id, price.required]).toEqual([id, true])
    }
  })

  test('every reference resolves, and every component is referred to', async () => {
    const openapi = await document('/openapi.json')
    const refs = [...new Set([...all(openapi, '$ref')] as string[])]
    expect(refs.length).toBeGreaterThan(5)
    for (const ref of refs) expect([ref, typeof resolve(openapi, ref)]).toEqual([ref, 'object'])
    for (const [kind, members] of Object.entries<object>(openapi.components))
      for (const name of Object.keys(members))
        if (kind !== 'securitySchemes') expect(refs).toContain(`#/components/${kind}/${name}`)
    const named = operationsIn(openapi).flatMap(({ node }) => (node.security ?? []).flatMap(Object.keys))
    expect([...new Set(named)]).toEqual(Object.keys(openapi.components.securitySchemes))
  })

  test('operation ids differ, tags are declared, and path parameters are described', async () => {
    const openapi = await document('/openapi.json')
    const operations = operationsIn(openapi)
    expect(new Set(operations.map(({ id }) => id)).size).toBe(operations.length)
    const declared = openapi.tags.map(({ name }: { name: string }) => name)
    for (const { path, node } of operations) {
      for (const tag of node.tags) expect(declared).toContain(tag)
      const inPath = (node.parameters ?? []).filter((parameter: { in?: string }) => parameter.in === 'path')
      expect(inPath.map(({ name, required }: { name: string; required: boolean }) => [name, required])).toEqual(
        [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => [name, true]),
      )
      expect(node.summary).toBeString()
      for (const response of Object.values(node.responses)) expect(resolved(openapi, response).description).toBeString()
    }
  })

  test('every field has a type, and every parameter of a path an example, unless it follows an order', async () => {
    for (const { id, node } of operationsIn(await document('/openapi.json', { chatVendor: scriptedChat() }))) {
      for (const parameter of (node.parameters ?? []).filter(({ $ref }: { $ref?: string }) => !$ref)) {
        expect([id, parameter.name, typeof parameter.schema]).toEqual([id, parameter.name, 'object'])
        if (parameter.in === 'path')
          expect([id, typeof parameter.example]).toEqual([id, isFollowed(id) ? 'undefined' : 'string'])
      }
      if (node.requestBody)
        expect([id, typeof node.requestBody.content['application/json'].example]).toEqual([id, 'object'])
    }
  })

  test('every error has an example, which fits its schema', async () => {
    const openapi = await document('/openapi.json')
    const judge = judgeOf(openapi)
    for (const { id, node } of operationsIn(openapi)) {
      const errors = Object.entries<any>(node.responses).filter(([status]) => Number(status) >= 400)
      expect([id, errors.length > 0]).toEqual([id, true])
      for (const [status, response] of errors) {
        const { schema, examples } = resolved(openapi, response).content['application/json']
        const isQuote = status === '402' && node['x-quote-of'] !== undefined
        expect([id, status, Object.keys(examples ?? {}).length > 0]).toEqual([id, status, !isQuote])
        for (const [code, example] of Object.entries(examples ?? {}))
          expect([id, status, code, judge(schema, resolved(openapi, example).value)]).toEqual([id, status, code, []])
      }
    }
  })

  test('a paid route tells its schema, its example, its price range and its 402', async () => {
    const { paths } = await document('/openapi.json')
    const sale = paths[GENERATIONS].post
    const { schema, example } = sale.requestBody.content['application/json']
    expect(Object.keys(schema.properties)).toEqual(['model', 'prompt', 'size', 'n', 'response_format'])
    expect(schema.required).toEqual(['model', 'prompt'])
    expect([schema.properties.size.default, schema.properties.n.default]).toEqual(['1024x1024', 1])
    expect((await kit().buyer().ask(example)).status).toBe(402)
    expect(Object.keys(sale.responses)).toEqual(['200', '202', '400', '402', '409', '413', '429', '500', '503'])
    expect(Object.keys(paths['/api/v1/images/image2image'].post.responses)).toContain('504')
    expect(Object.keys(paths['/api/v1/images/image2image'].post.requestBody.content)).toEqual([
      'application/json',
      'multipart/form-data',
    ])
    expect(Object.keys(sale.responses[402].headers)).toEqual([
      'PAYMENT-REQUIRED',
      'X-Payment-Required',
      'WWW-Authenticate',
    ])
  })

  test('the price range is the least and the most that any quote says (contract 19.10, 24.12)', async () => {
    const { paths } = await document('/openapi.json')
    const amounts = vectors.flatMap(({ billed }) => Object.values(billed)).sort((a, b) => Number(a) - Number(b))
    const { protocols, price, offers } = paths[GENERATIONS].post['x-payment-info']
    const charge = { method: 'evm', intent: 'charge', currency: '0x036CbD53842c5426634e7929541eC2318f3dCF7e' }
    expect(protocols).toEqual([{ x402: {} }, { mpp: charge }])
    expect(offers).toEqual([{ ...charge, amount: null, description: expect.any(String) }])
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
      price: () => ({ amount: flatPrice('0.01'), maxTimeoutSeconds: 300, publicPrice: {} }),
      run: async () => ({ result: null }),
      show: () => ({}),
    })
    const { paths } = await document('/openapi.json', { endpoints: [...endpoints, flat] })
    expect(paths['/api/v1/echo/{rest}'].post['x-payment-info'].price).toEqual({
      mode: 'fixed',
      currency: 'USD',
      amount: '0.011000',
    })
  })

  test('a gateway that is not ready describes itself all the same', async () => {
    const { gateway, ports } = kit()
    const { restart } = kit({ ports: { ...ports, chain: { ...ports.chain, terms: () => [] } } })
    const { body } = await read(await restart().fetch(new Request(`${ORIGIN}/openapi.json`)))
    expect(await new Validator().validate(body)).toMatchObject({ valid: true })
    expect((await gateway.fetch(new Request(`${ORIGIN}/openapi.json`))).status).toBe(200)
  })

  test('each origin reads its own, and an odd one breaks nothing', async () => {
    const { gateway } = kit()
    for (let i = 0; i < 20; i++) {
      const { body } = await read(
        await gateway.fetch(new Request(`${ORIGIN}/openapi.json`), { origin: `http://host${i}.test` }),
      )
      expect(body.servers).toEqual([{ url: `http://host${i}.test` }])
    }
    const odd = 'http://"><script>$&.test'
    for (const path of ['/openapi.json', '/.well-known/x402'])
      expect(
        JSON.stringify((await read(await gateway.fetch(new Request(ORIGIN + path), { origin: odd }))).body),
      ).toContain(JSON.stringify(odd).slice(1, -1))
    const page = await (await gateway.fetch(new Request(`${ORIGIN}/docs`), { origin: odd })).text()
    expect([
      page.split('<script>').length - 1,
      page.includes('http://&quot;&gt;&lt;script&gt;$&amp;.test/api/'),
    ]).toEqual([1, true])
  })
})

const reported = (await read(await whole().gateway.fetch(new Request(`${ORIGIN}/openapi.json`)))).body

describe('every operation, called with its own example', () => {
  /** The request that an operation's examples make. */
  function requestOf({ method, path, node }: Operation): Request {
    const given = (node.parameters ?? []).filter(({ example }: { example?: string }) => example !== undefined)
    const filled = given
      .filter((each: any) => each.in === 'path')
      .reduce((text: string, { name, example }: any) => text.replace(`{${name}}`, encodeURIComponent(example)), path)
      .replaceAll(/\{\w+\}/g, 'none')
    const query = new URLSearchParams(
      given.filter((each: any) => each.in === 'query').map(({ name, example }: any) => [name, example]),
    )
    const body = node.requestBody && JSON.stringify(node.requestBody.content['application/json'].example)
    return new Request(`${ORIGIN}${filled}?${query}`, {
      method,
      ...(body && { body, headers: { 'content-type': 'application/json' } }),
    })
  }

  const judge = judgeOf(reported)

  for (const operation of operationsIn(reported)) {
    const { id, node } = operation
    test(`${id} answers as documented (contract 19.2, 19.10, 19.11)`, async () => {
      const { gateway, chain } = whole()
      const response = await gateway.fetch(requestOf(operation))
      const { status } = response
      if (status === 503) throw new Error(unservedHint(operation))
      const type = response.headers.get('content-type')?.split(';', 1)[0] ?? ''
      const described = resolved(reported, node.responses[status])?.content?.[type]
      expect([status, type, typeof described]).toEqual([status, type, 'object'])
      const text = await response.text()
      const body = type === 'application/json' ? JSON.parse(text) : text
      expect(judge(described.schema, body)).toEqual([])
      if (node['x-payment-info']) expectPrice(operation, status, body)
      expect(chain.transfers).toEqual([])
    })
  }

  function expectPrice({ node }: Operation, status: number, body: any): void {
    expect([status, body]).toEqual([402, node.responses[402].content['application/json'].examples.required.value])
    const { mode, amount, min = amount, max = amount } = node['x-payment-info'].price
    const price = Number(body.accepts[0].amount) / 1e6
    expect([mode === 'fixed' || min !== max, price >= Number(min), price <= Number(max)]).toEqual([true, true, true])
    expect(Number(body.price.amount)).toBe(price)
  }

  test('answers 200 where it is free, but for what follows an order and for what has to be said in a body', async () => {
    const { gateway } = whole()
    const others: string[] = []
    for (const operation of operationsIn(reported)) {
      if (operation.node['x-payment-info'] || operation.node.security?.some((each: any) => 'sign_in' in each)) continue
      const { status } = await gateway.fetch(requestOf(operation))
      if (status !== 200) others.push(`${status} ${operation.id}`)
    }
    const unexpected = others.filter(
      (other) => !(/^40[04] /.test(other) && isFollowed(other.slice(4))) && !/^402 .*\.quote\b/.test(other),
    )
    expect(unexpected).toEqual([])
  })
})

describe('responses of the gateway', () => {
  test('is what its document says, for every status of a sale and its poll', async () => {
    const openapi = await document('/openapi.json')
    const judge = judgeOf(openapi)
    const seen = new Set<string>()
    function check(operation: string, { status, body }: Answer): void {
      const [method = '', path = ''] = operation.split(' ')
      seen.add(`${operation} ${status}`)
      const { schema } = resolved(openapi, openapi.paths[path][method].responses[status]).content['application/json']
      expect([operation, status, judge(schema, body)]).toEqual([operation, status, []])
    }
    const sale = `post ${GENERATIONS}`
    const poll = `get ${GENERATIONS}/{id}`

    const { gateway, chain, clock, buyer, idle } = kit({ vendor: scriptedVendor(failsFirst) })
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

    const envelope = await alice.buy({ model: 'vendor-e/image-pro', prompt: 'a fox' })
    check(sale, envelope)
    check(poll, await alice.poll(envelope.body.poll_url, payment))
    await idle()
    check(poll, await alice.poll(envelope.body.poll_url, payment))
    for (const path of ['/api/v1/images/models', '/api/health'])
      check(`get ${path}`, await read(await gateway.fetch(new Request(ORIGIN + path))))
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

/** The first job fails, and a slow one takes until the next turn of the loop. */
const failsFirst: Script = async ({ n }, { attempt }) => {
  if (attempt === 1) throw new Error('out of paint')
  if (attempt === 3) await new Promise((resolve) => setImmediate(resolve))
  return Array.from({ length: n }, () => ({ url: PIXEL }))
}
