/**
 * Everything that documents, lists and errors promise can be bought: on a devnet, and with the key of one vendor only.
 */
import { describe, expect, test } from 'bun:test'
import { endpoints } from '../../core/products/mod.ts'
import { isSold } from '../../core/endpoint/mod.ts'
import { decodeHeader, type Kit, ORIGIN, read } from '../kit.ts'
import { devnetGateway, oneVendorGateway } from './advertised.ts'

type Fields = Readonly<Record<string, any>>
type Operation = { readonly id: string; readonly method: string; readonly path: string; readonly node: Fields }

const GATEWAYS = { 'a devnet': devnetGateway, 'a gateway with one vendor': oneVendorGateway }

const get = async ({ gateway }: Kit, path: string): Promise<Fields> =>
  (await read(await gateway.fetch(new Request(ORIGIN + path)))).body

const post = async ({ gateway }: Kit, path: string, body: unknown) =>
  await read(
    await gateway.fetch(
      new Request(ORIGIN + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      }),
    ),
  )

const operationsIn = ({ paths }: Fields): readonly Operation[] =>
  Object.entries<Fields>(paths).flatMap(([path, item]) =>
    Object.entries<Fields>(item).map(([method, node]) => ({
      id: node.operationId,
      method: method.toUpperCase(),
      path,
      node,
    })),
  )

/** The request of an operation's own example; undefined where it has none, because it follows an order. */
function exampleOf({ method, path, node }: Operation): Request | undefined {
  const parameters: readonly Fields[] = (node.parameters ?? []).filter(({ name }: Fields) => name !== undefined)
  const filled = parameters
    .filter((each) => each.in === 'path' && each.example !== undefined)
    .reduce((text, { name, example }) => text.replace(`{${name}}`, encodeURIComponent(example)), path)
  const isMissing = (each: Fields) => each.in === 'query' && each.required && each.example === undefined
  if (filled.includes('{') || parameters.some(isMissing)) return undefined
  const query = new URLSearchParams(
    parameters
      .filter((each) => each.in === 'query' && each.example !== undefined)
      .map(({ name, example }): [string, string] => [name, String(example)]),
  )
  const content = node.requestBody?.content['application/json']
  return new Request(`${ORIGIN}${filled}?${query}`, {
    method,
    ...(content && { body: JSON.stringify(content.example), headers: { 'content-type': 'application/json' } }),
  })
}

const vendorOfOne = ['chat', 'images', 'models']

for (const [name, open] of Object.entries(GATEWAYS)) {
  describe(name, () => {
    test('every operation of OpenAPI answers its own example with 200 or 402 (contract 19.12)', async () => {
      const kit = open()
      const operations = operationsIn(await get(kit, '/openapi.json'))
      const answers: string[] = []
      for (const operation of operations) {
        const request = exampleOf(operation)
        const isFollowing = /poll|status|calls|responses\.(get|cancel)/.test(operation.id)
        if (!request) expect([operation.id, isFollowing]).toEqual([operation.id, true])
        if (request) answers.push(`${(await kit.gateway.fetch(request)).status} ${operation.id}`)
      }
      expect(answers.filter((answer) => !/^(200|402) /.test(answer))).toEqual([])
      expect(answers.length).toBeGreaterThan(25)
      expect(kit.chain.transfers).toEqual([])
    })

    test('a probe without a body of any advertised paid path is the 402 of what is sold there (contract 19.14)', async () => {
      const kit = open()
      const requests: string[] = []
      for (const { id, method, path, node } of operationsIn(await get(kit, '/openapi.json'))) {
        if (node['x-payment-info'] === undefined && node['x-quote-of'] === undefined) continue
        const { status } = await kit.gateway.fetch(new Request(ORIGIN + path, { method }))
        requests.push(`${status} ${id}`)
      }
      expect(requests.filter((answer) => !answer.startsWith('402 '))).toEqual([])
      expect(requests.some((answer) => answer.endsWith(' messages'))).toBe(true)
    })

    test('every operation says how it is authorized and what it takes and gives, as auditors ask (contract 19.16)', async () => {
      const kit = open()
      const { info, components, ...openapi } = await get(kit, '/openapi.json')
      expect([Object.values(info.contact).length, info['x-guidance'].length > 0]).toEqual([1, true])
      expect(components.securitySchemes.wallet).toMatchObject({ type: 'apiKey', 'x-agentcash-auth-kind': 'siwx' })
      for (const { id, method, path, node } of operationsIn({ paths: openapi.paths })) {
        const paid = node['x-payment-info']
        const auth = paid ? 'paid' : node.security?.map((each: Fields) => Object.keys(each).join()).join()
        expect([id, auth]).toEqual([id, paid ? 'paid' : expect.stringMatching(/^(wallet|sign_in)?$/)])
        if (!paid) continue
        const { protocols, price } = paid
        const amounts = price.mode === 'fixed' ? [price.amount] : [price.min, price.max]
        const mpp = { method: 'evm', intent: 'charge', currency: expect.stringMatching(/^0x[0-9a-fA-F]{40}$/) }
        expect([id, protocols, price.currency]).toEqual([id, [{ x402: {} }, { mpp }], 'USD'])
        expect([id, amounts.every((amount: unknown) => /^\d+\.\d{6}$/.test(String(amount)))]).toEqual([id, true])
        expect([id, node.requestBody !== undefined || node.parameters.length > 0]).toEqual([id, true])
        expect([id, typeof node.responses[200].content['application/json'].schema]).toEqual([id, 'object'])
        const challenge = await kit.gateway.fetch(new Request(ORIGIN + path, { method }))
        const { x402Version, accepts, resource, extensions } = decodeHeader(challenge.headers.get('payment-required'))
        const { input, output } = extensions.bazaar.schema.properties
        expect([id, x402Version, accepts.length > 0, typeof resource.url]).toEqual([id, 2, true, 'string'])
        expect([id, typeof (input.properties.body ?? input.properties.queryParams)]).toEqual([id, 'object'])
        expect([id, typeof output.properties.example]).toEqual([id, 'object'])
      }
    })

    test('all documents and lists show the same endpoints, and none that cannot be bought (contract 19.4)', async () => {
      const kit = open()
      const openapi = await get(kit, '/openapi.json')
      const ids = new Set(operationsIn(openapi).map(({ id }) => id.replace(/\.(alias_\d+|post)$/, '')))
      const { endpoints: listed } = await get(kit, '/api/pricing')
      expect(listed.map((each: Fields) => each.name).filter((id: string) => !ids.has(id))).toEqual([])
      const paid = listed.filter(({ price }: Fields) => price !== 'free').length
      const { services, resources } = await get(kit, '/.well-known/x402')
      expect([services.length, resources.length]).toEqual([paid, paid])
      const numbers = await get(kit, '/brand/numbers.json')
      expect(numbers.endpoints).toEqual({ paid, free: listed.length - paid })
      const offered = kit.gateway.offered().filter((endpoint) => endpoint.kind !== 'free' || !endpoint.hidden)
      expect(offered.map((endpoint) => endpoint.name)).toEqual(listed.map((each: Fields) => each.name))
      const docs = await (await kit.gateway.fetch(new Request(`${ORIGIN}/docs`))).text()
      for (const endpoint of endpoints.filter(isSold))
        expect([endpoint.name, docs.includes(`<section id="${endpoint.name}">`)]).toEqual([
          endpoint.name,
          offered.includes(endpoint),
        ])
    })
  })
}

describe('a gateway with one vendor', () => {
  test('shows what it does not sell under all=1 only, marked x-available: false (contract 19.3)', async () => {
    const kit = oneVendorGateway()
    const all = operationsIn(await get(kit, '/openapi.json?all=1'))
    const sold = operationsIn(await get(kit, '/openapi.json'))
    const marked = all.filter(({ node }) => node['x-available'] === false).map(({ id }) => id)
    expect(marked).toContain('phone.lookup')
    expect(marked).toContain('crypto.price')
    expect([...marked, ...sold.map(({ id }) => id)].sort()).toEqual(all.map(({ id }) => id).sort())
    expect(sold.every(({ node }) => node['x-available'] === undefined)).toBe(true)
    const { gateway } = kit
    expect((await read(await gateway.fetch(new Request(`${ORIGIN}/openapi.json?all=yes`)))).status).toBe(400)
  })

  test('sells chat and images and nothing else, and its documents name no other product (contract 19.4)', async () => {
    const kit = oneVendorGateway()
    const { tags, info } = await get(kit, '/openapi.json')
    const of = tags.map(({ name }: Fields) => name)
    const site = ['calls', 'wallet', 'health', 'discovery']
    expect(of.filter((tag: string) => !site.includes(tag)).sort()).toEqual(
      expect.arrayContaining(vendorOfOne.filter((tag) => tag !== 'video')),
    )
    expect(info['x-guidance']).not.toContain('phone')
    const { body } = await read(await kit.gateway.fetch(new Request(`${ORIGIN}/api/v1/phones`)))
    expect(body.nearby.join()).not.toContain('phone')
  })

  test('prices span what is sold, not the catalog (contract 19.10)', async () => {
    const rangeOf = async (kit: Kit, path: string) =>
      (await get(kit, '/openapi.json')).paths[path].post['x-payment-info'].price
    const path = '/api/v1/images/generations'
    const [one, all] = [await rangeOf(oneVendorGateway(), path), await rangeOf(devnetGateway(), path)]
    expect(Number(one.max) - Number(one.min)).toBeLessThan(Number(all.max) - Number(all.min))
  })

  test('a refused model is answered with the models that are sold here (contract 3.14, 19.4)', async () => {
    const kit = oneVendorGateway()
    const { data } = await get(kit, '/api/v1/models')
    const ids = (category: string) =>
      data.filter((model: Fields) => model.categories.includes(category)).map((model: Fields) => model.id)
    const image = { model: 'nobody', prompt: 'a fox' }
    const refused = await post(kit, '/api/v1/images/generations', image)
    expect([refused.status, refused.body.available_models]).toEqual([400, ids('image')])
    expect(ids('image').length).toBeGreaterThan(0)
    for (const [path, body] of [
      ['/api/v1/videos/generations', { model: 'nobody', prompt: 'a fox' }],
      ['/api/v1/audio/speech', { model: 'nobody', input: 'hello' }],
      ['/api/v1/audio/generations', { model: 'nobody', prompt: 'a song' }],
      ['/api/v1/audio/sound-effects', { model: 'nobody', text: 'a door' }],
    ] as const) {
      const answer = await post(kit, path, body)
      const category = path.split('/')[3] === 'videos' ? 'video' : 'none'
      expect([path, answer.status, answer.body.available_models]).toEqual([path, 400, ids(category)])
    }
  })

  test('a 503 names the service, or the model, that is not configured (contract 19.15)', async () => {
    const kit = oneVendorGateway()
    const answers: Record<string, string> = {}
    for (const [path, body] of [
      ['/api/v1/phone/lookup', { phoneNumber: '+14155550123' }],
      ['/api/v1/sandbox/create', {}],
      ['/api/v1/search', { query: 'foxes' }],
      ['/api/v1/stocks/us/price/AAPL', undefined],
      ['/api/v1/images/generations', { model: 'vendor-e/image-pro', prompt: 'a fox' }],
      ['/api/v1/chat/completions', { model: 'vendor-g/none', messages: [{ role: 'user', content: 'hi' }] }],
    ] as const) {
      const { status, body: reply } = await post(kit, path, body)
      answers[path] = `${status} ${reply.message ?? reply.error?.message}`
    }
    const voices = await get(kit, '/api/v1/audio/voices')
    expect(voices.message).toBe('speech: the operator has not configured it.')
    expect(answers).toMatchObject({
      '/api/v1/phone/lookup': '503 phone: the operator has not configured it. Nothing was charged.',
      '/api/v1/sandbox/create': '503 sandbox: the operator has not configured it. Nothing was charged.',
      '/api/v1/search': '503 search: the operator has not configured it. Nothing was charged.',
      '/api/v1/stocks/us/price/AAPL': '503 stocks: the operator has not configured it. Nothing was charged.',
      '/api/v1/images/generations': '503 vendor-e/image-pro: the operator has not configured it. Nothing was charged.',
    })
  })
})
