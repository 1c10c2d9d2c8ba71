/** Tools over HTTP, as JSON-RPC: what is listed, demanded, paid and returned. mcp_full_test.ts has the SDK's client. */
import { describe, expect, test } from 'bun:test'
import { app } from '../../../server/app.ts'
import { mcpEndpoint } from '../../../server/mcp/mod.ts'
import { operationsOf } from '../../../server/mcp/tools.ts'
import { kit, type KitOptions, ORIGIN } from '../../kit.ts'
import { echoVendor } from '../../../adapters/providers/demo/chat.ts'

const FOX = { model: 'vendor-a/image-1', prompt: 'a red fox in the snow' }

function open(options: KitOptions = {}) {
  const made = kit({ chatVendor: echoVendor({ countTokens: async () => 3 }), ...options })
  const alice = made.buyer()
  const endpoint = mcpEndpoint(made.gateway, { version: '1' })
  let id = 0
  async function send(method: string, params: object = {}, headers: Record<string, string> = {}) {
    const request = new Request(`${ORIGIN}/mcp`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
      body: JSON.stringify({ jsonrpc: '2.0', id: ++id, method, params }),
    })
    const reply = await endpoint(request, { ip: '192.0.2.1', origin: ORIGIN })
    const text = await new Response(reply.body as BodyInit).text()
    const line = /^data: (.*)$/m.exec(text)?.[1] ?? text
    return { status: reply.status, ...(JSON.parse(line) as { result?: any; error?: any }) }
  }
  const call = async (name: string, args: object, payment?: unknown) =>
    (
      await send('tools/call', {
        name,
        arguments: args,
        ...(payment !== undefined && { _meta: { 'x402/payment': payment } }),
      })
    ).result
  const sign = (demand: any) =>
    made.chain.sign(demand.structuredContent.accepts[0], { from: alice.wallet, now: made.clock.now() })
  return { ...made, alice, endpoint, send, call, sign }
}

describe('the tools', () => {
  test('are what the gateway sells as it is configured, each with its price and its input (contract 19.17)', async () => {
    const { send, gateway } = open()
    const { tools } = (await send('tools/list')).result
    const names = tools.map(({ name }: { name: string }) => name)
    expect(names).toContain('images.generations')
    expect(names).toContain('chat.completions')
    expect(names).not.toContain('videos.generations')
    const paid = gateway.offered().filter(({ kind }) => kind === 'sold')
    for (const { name } of paid) expect(names).toContain(name)
    for (const name of names) expect(name).toMatch(/^[A-Za-z0-9._-]{1,128}$/)
    const image = tools.find(({ name }: { name: string }) => name === 'images.generations')
    expect(image.description).toMatch(/Price: [\d.]+ to [\d.]+ USD per call/)
    expect(Object.keys(image.inputSchema.properties)).toContain('prompt')
    expect(image.outputSchema).toBeUndefined()
    expect(JSON.stringify(tools)).not.toContain('$ref')
    const chat = tools.find(({ name }: { name: string }) => name === 'chat.completions')
    expect(Object.keys(chat.inputSchema.properties)).not.toContain('stream')
  })

  test('place their arguments in path, query and body', () => {
    const schema = { type: 'string' }
    const operations = operationsOf({
      paths: {
        '/api/v1/weather/{city}': {
          post: {
            operationId: 'weather',
            'x-payment-info': { price: { mode: 'fixed', amount: '0.01', currency: 'USD' } },
            parameters: [
              { in: 'path', name: 'city', required: true, schema },
              { in: 'query', name: 'days', schema },
              { $ref: '#/components/parameters/payment' },
            ],
            requestBody: {
              content: { 'application/json': { schema: { properties: { unit: schema }, required: ['unit'] } } },
            },
          },
        },
      },
      components: { parameters: { payment: { in: 'header', name: 'PAYMENT-SIGNATURE' } } },
    })
    const weather = operations.get('weather')
    expect(weather?.tool.inputSchema.required).toEqual(['city', 'unit'])
    expect(weather?.tool.description).toContain('Price: 0.01 USD per call.')
    expect(weather?.request({ city: 'São Paulo', days: 3, unit: 'C', stream: true })).toEqual({
      method: 'POST',
      path: '/api/v1/weather/S%C3%A3o%20Paulo?days=3',
      body: '{"unit":"C"}',
    })
    expect(() => weather?.request({ unit: 'C' })).toThrow('city: is required')
  })
})

describe('a call', () => {
  test('without a payment is answered with the demand, three times the same, and nothing is made (contract 19.18)', async () => {
    const { call, vendor } = open()
    const demand = await call('images.generations', FOX)
    expect(demand.isError).toBe(true)
    expect(demand.structuredContent).toMatchObject({ x402Version: 2, accepts: [{ scheme: 'exact' }] })
    expect(JSON.parse(demand.content[0].text)).toEqual(demand.structuredContent)
    expect(demand._meta['x402/error']).toEqual(demand.structuredContent)
    expect(vendor.jobs.length).toBe(0)
  })

  test('with a payment has the result, the picture and the receipt; the payment may be Base64', async () => {
    const { call, sign } = open()
    for (const spell of [(payment: unknown) => payment, (payment: unknown) => btoa(JSON.stringify(payment))]) {
      const payment = sign(await call('images.generations', FOX))
      const bought = await call('images.generations', FOX, spell(payment))
      expect(bought.isError).toBeUndefined()
      expect(bought.structuredContent.payment.status).toBe('settled')
      expect(bought._meta['x402/payment-response']).toMatchObject({ success: true, transaction: expect.any(String) })
      expect(bought.content.map(({ type }: { type: string }) => type)).toEqual(['text', 'image', 'resource_link'])
      expect(bought.content[1].mimeType).toBe('image/png')
      expect(bought.content[2].uri).toStartWith(`${ORIGIN}/api/media/images/`)
    }
  })

  test('with a payment that was used is refused with the reason, and a bad payment too', async () => {
    const { call, sign } = open()
    const payment = sign(await call('images.generations', FOX))
    await call('images.generations', FOX, payment)
    const again = await call('images.generations', { ...FOX, prompt: 'another' }, payment)
    expect([again.isError, again.structuredContent.error]).toEqual([true, expect.stringContaining('already used')])
    const bad = await call('images.generations', FOX, 'nonsense')
    expect([bad.isError, bad.structuredContent.x402Version]).toEqual([true, 2])
  })

  test('with bad arguments is told what is wrong, and never a price', async () => {
    const { call } = open()
    const refused = await call('images.generations', { model: 'vendor-a/image-1' })
    expect([refused.isError, refused.structuredContent.accepts]).toEqual([true, undefined])
    expect(refused.content[0].text).toContain('prompt')
    expect((await call('no.such', {})).content[0].text).toContain('there is no tool no.such')
  })

  test('that becomes a job is collected by its poll_url, and charged once (contract 19.19)', async () => {
    const { call, sign, clock, alice } = open({ inlineMs: 0 })
    const before = alice.balance()
    const payment = sign(await call('images.generations', FOX))
    const job = await call('images.generations', FOX, payment)
    const { poll_url } = job.structuredContent
    await clock.settle()
    const done = await call('collect_result', { poll_url }, payment)
    expect(done.structuredContent.payment.status).toBe('settled')
    const again = await call('collect_result', { poll_url }, payment)
    expect(again.structuredContent.data).toEqual(done.structuredContent.data)
    expect(before - alice.balance()).toBe(BigInt(payment.accepted.amount))
    const elsewhere = await call('collect_result', { poll_url: 'https://elsewhere.example/' })
    expect(elsewhere.content[0].text).toContain('poll_url: must be the poll_url of an answer')
  })

  test('of a model that is free needs no payment', async () => {
    const { call } = open()
    const models = await call('models', {})
    expect(models.structuredContent.data.length).toBeGreaterThan(10)
  })
})

test('a gateway that hides its documents has no tools', async () => {
  const log = { ...kit().log, access: () => {}, flush: () => {} }
  const statusOf = async (hidden: readonly string[]) => {
    const elysia = app({ gateways: [{ gateway: kit({ hidden }).gateway, hosts: [] }], log })
    const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
    const body = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
    return (await elysia.fetch(new Request(`${ORIGIN}/mcp`, { method: 'POST', headers, body }))).status
  }
  expect([await statusOf([]), await statusOf(['discovery'])]).toEqual([200, 404])
})

describe('a page of another site', () => {
  const post = (origin: string, page: string | null) => {
    const { endpoint } = open()
    const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
    const request = new Request(`${origin}/mcp`, {
      method: 'POST',
      headers: { ...headers, ...(page !== null && { origin: page }) },
      body: '{"jsonrpc":"2.0","id":1,"method":"ping"}',
    })
    return endpoint(request, { ip: '192.0.2.1', origin })
  }

  test('may not use a gateway on this machine; pages of this machine may', async () => {
    const statuses = await Promise.all(
      ['https://evil.example', 'null', 'http://localhost:3000', null].map((page) =>
        post('http://127.0.0.1:4020', page),
      ),
    )
    expect(statuses.map(({ status }) => status)).toEqual([403, 403, 200, 200])
  })

  test('may use a public gateway, where nothing rides on cookies', async () => {
    expect((await post('https://ai.example', 'https://app.example')).status).toBe(200)
  })
})
