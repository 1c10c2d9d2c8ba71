import { describe, expect, test } from 'bun:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { scriptedAudio } from '../../../fakes/audio.ts'
import { scriptedVideo } from '../../../fakes/videos.ts'
import { scriptedChat } from '../../../fakes/chat.ts'
import { endpoints } from '../../../../core/products/mod.ts'
import { isSold } from '../../../../core/endpoint/mod.ts'
import { pricedTrial } from '../../../../core/endpoint/samples.ts'
import { pathOf } from '../../trial_path.ts'
import { catalog } from '../../../../core/mod.ts'
import { decodeHeader, embedded, GENERATIONS, kit, type KitOptions, ORIGIN, read, testClock } from '../../../kit.ts'

const document = async (path: string, options: KitOptions = {}) =>
  (await read(await whole(options).gateway.fetch(new Request(ORIGIN + path)))).body

/** A gateway that can sell everything on the menu. */
function whole(options: KitOptions = {}) {
  const clock = testClock()
  return kit({
    chatVendor: scriptedChat(),
    video: scriptedVideo(),
    audio: scriptedAudio(),
    ports: { clock, vendors: { ...embedded(clock) } },
    allowlists: { generate_content: [`0x${'22'.repeat(20)}`] },
    ...options,
  })
}

describe('/.well-known/x402', () => {
  test('lists every resource that is for sale, with its price range and our terms (contract 19.1)', async () => {
    const found = await document('/.well-known/x402', { version: '1.2.3' })
    expect(found).toMatchObject({ x402Version: 2, version: 1, name: 'Farebox', serviceVersion: '1.2.3' })
    expect(found.resources).toEqual(endpoints.filter(isSold).map(({ path }) => ORIGIN + path.replaceAll('...}', '}')))
    const [service, edits] = found.services
    expect(found.services).toHaveLength(found.resources.length)
    expect(service).toMatchObject({
      name: 'images.generations',
      endpoint: ORIGIN + GENERATIONS,
      method: 'POST',
      category: 'images',
      pricing: { min: '0.016750', max: '1.576000' },
    })
    expect(edits).toMatchObject({
      name: 'images.image2image',
      method: 'POST',
      pricing: { mode: 'dynamic', min: '0.022000', max: '1.576000' },
    })
    const quoted = (await kit().buyer().ask()).body.accepts[0]
    const { amount, maxTimeoutSeconds, ...terms } = quoted
    expect(service.payment).toEqual([{ ...terms, networkName: 'base-sepolia' }])
  })

  test('says where the fields and the reference are', async () => {
    const { instructions } = await document('/.well-known/x402')
    const { gateway } = kit()
    const urls = instructions.match(/http\S+[a-z]/g) as readonly string[]
    expect(urls).toEqual([`${ORIGIN}/openapi.json`, `${ORIGIN}/docs`])
    for (const url of urls) expect((await gateway.fetch(new Request(url))).status).toBe(200)
  })

  test('both documents are cacheable JSON, in ASCII', async () => {
    for (const path of ['/.well-known/x402', '/openapi.json', '/.well-known/openapi.json']) {
      const response = await kit().gateway.fetch(new Request(ORIGIN + path))
      expect([response.headers.get('content-type'), response.headers.get('cache-control')]).toEqual([
        'application/json',
        'public, max-age=60',
      ])
      expect(await response.text()).toMatch(/^[ -~]+$/)
    }
  })

  test('the terms follow the chain, which may open late', async () => {
    const { ports } = kit()
    let isOpen = false
    const { gateway } = kit({
      ports: { chain: { ...ports.chain, terms: (now) => (isOpen ? ports.chain.terms(now) : []) } },
    })
    const payments = async () =>
      (await read(await gateway.fetch(new Request(`${ORIGIN}/.well-known/x402`)))).body.services[0].payment.length
    expect(await payments()).toBe(0)
    isOpen = true
    expect(await payments()).toBe(1)
  })
})

describe('the discovery 402', () => {
  for (const endpoint of endpoints.filter(isSold)) {
    if (endpoint.method !== 'POST') continue
    test(`GET, HEAD and an empty POST of ${endpoint.path} are asked for the default price (contract 1.53, 1.54)`, async () => {
      const { gateway, ports } = whole()
      const trial = await pricedTrial(endpoint, {
        catalog: catalog(),
        vendors: ports.vendors,
        countTokens: ports.countTokens,
      })
      const url = ORIGIN + pathOf(endpoint, trial)
      const reply = await Promise.all(
        ['GET', 'HEAD', 'POST'].map((method) => gateway.fetch(new Request(url, { method }))),
      )
      expect(reply.map(({ status }) => status)).toEqual([402, 402, 402])
      const [header, ...others] = reply.map(({ headers }) => headers.get('payment-required'))
      expect(others).toEqual([header, header] as typeof others)
      expect(trial.price).not.toBe('free')
      expect(decodeHeader(header ?? null).accepts[0].amount).toBe(String((trial.price as { amount: bigint }).amount))
    })
  }
})

describe('the bazaar extension', () => {
  /** The body of the challenge of an endpoint, which holds the extension, and what its header says. */
  async function declared(endpoint: (typeof endpoints)[number]) {
    const { gateway, ports } = whole()
    if (!isSold(endpoint)) throw new Error('it is not for sale')
    const trial = await pricedTrial(endpoint, {
      catalog: catalog(),
      vendors: ports.vendors,
      countTokens: ports.countTokens,
    })
    const response = await gateway.fetch(new Request(ORIGIN + pathOf(endpoint, trial)))
    const header = response.headers.get('payment-required') ?? ''
    return { trial, status: response.status, body: (await response.json()) as any, required: decodeHeader(header) }
  }

  for (const endpoint of endpoints.filter(isSold)) {
    test(`${endpoint.name} tells an indexer how to call it, in its challenge and in its discovery document (contract 1.5, 1.8)`, async () => {
      const { status, body, required } = await declared(endpoint)
      expect([status, Object.keys(required.extensions)]).toEqual([402, ['payment-identifier', 'bazaar']])
      const { properties } = required.extensions.bazaar.schema
      const { body: inBody, queryParams: inQuery } = properties.input.properties
      expect([typeof (inBody ?? inQuery), typeof properties.output.properties.example]).toEqual(['object', 'object'])
      expect(required.extensions.bazaar.info.input.method).toBe(endpoint.method)
      const { info, schema } = body.extensions.bazaar
      const { services } = await read(await whole().gateway.fetch(new Request(`${ORIGIN}/.well-known/x402`))).then(
        (answer) => answer.body,
      )
      expect(services.find(({ name }: { name: string }) => name === endpoint.name).extensions.bazaar).toEqual(
        body.extensions.bazaar,
      )
      const check = new Ajv2020({ strict: false }).compile(schema)
      expect([check(info), check.errors]).toEqual([true, null])
      expect([info.input.type, info.input.method]).toEqual(['http', endpoint.method])
      expect(check({ input: { ...info.input, method: 'DELETE' } })).toBe(false)
      expect(required.resource).toEqual({
        url: expect.stringContaining(ORIGIN),
        description: endpoint.summary,
        mimeType: 'application/json',
      })
    })
  }

  test('what it declares can be bought: its own body, query and path (contract 19.11)', async () => {
    for (const endpoint of endpoints.filter(isSold)) {
      const { trial, body: challenge } = await declared(endpoint)
      const { body, queryParams = {}, pathParams = trial.path } = challenge.extensions.bazaar.info.input
      const isWhole = body === undefined || Object.keys(body).length > 0
      if (!isWhole) continue
      const url = ORIGIN + pathOf(endpoint, { path: pathParams, query: queryParams })
      const { gateway } = whole()
      const response = await gateway.fetch(
        new Request(url, {
          method: endpoint.method,
          ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
        }),
      )
      expect([endpoint.name, response.status]).toEqual([endpoint.name, 402])
    }
  })

  test('a path with names in it is one resource', async () => {
    const market = endpoints.find(({ name }) => name === 'stocks.price')
    if (!market) throw new Error('no stocks on the menu')
    const { extensions } = (await declared(market)).body
    expect(extensions.bazaar.routeTemplate).toBe('/api/v1/stocks/:market/price/:symbol')
    expect(extensions.bazaar.info.input.pathParams).toEqual({ market: 'us', symbol: 'AAPL' })
  })

  test('a long example is left out before the challenge grows too large', async () => {
    const [images] = endpoints.filter(isSold)
    if (images?.kind !== 'sold') throw new Error('no images on the menu')
    const long = { ...images, sample: () => ({ model: 'vendor-a/image-1', prompt: 'é'.repeat(3_000) }) }
    const { gateway } = kit({ endpoints: [long] })
    const response = await gateway.fetch(new Request(ORIGIN + GENERATIONS))
    const { extensions } = (await response.json()) as any
    expect(extensions.bazaar.info.input).toEqual({ type: 'http', method: 'POST', bodyType: 'json', body: {} })
  })

  test('a poll is nothing that an indexer could buy', async () => {
    const { buyer, idle } = kit({ inlineMs: 0 })
    const alice = buyer()
    const { body } = await alice.buy()
    await idle()
    const { headers, status, body: request } = await alice.poll(body.poll_url)
    expect(status).toBe(402)
    for (const { extensions } of [decodeHeader(headers.get('payment-required')), request])
      expect(Object.keys(extensions)).toEqual(['payment-identifier', 'sign-in-with-x'])
  })
})
