/** Tools over HTTP, as JSON-RPC: what is listed, demanded, paid and returned. mcp_full_test.ts has the SDK's client. */
import { describe, expect, test } from 'bun:test'
import * as fc from 'fast-check'
import { app } from '../../../server/app.ts'
import type { AccessLine } from '../../../server/log.ts'
import { mcpEndpoint, operationsIn, type ToolCall } from '../../../server/mcp/mod.ts'
import { resultOf } from '../../../server/mcp/result.ts'
import { operationsOf, selectedTools, unknownTool } from '../../../server/mcp/tools.ts'
import { embedded, kit, type KitOptions, ORIGIN, testClock } from '../../kit.ts'
import { canonicalJson, encodeUrl } from '../../../core/mpp/mod.ts'
import { payCharge } from '../../core/mpp/mpp_kit.ts'
import { echoVendor } from '../../../server/devnet/demo/chat.ts'

const API_KEY = 'sk-fbx-t185paEWcHsaLCYRbPIpw4jhcJNV56UuFl5TIPa3K9PAw3BF4je'
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
    expect(names).toContain('images_generations')
    expect(names).toContain('chat_completions')
    expect(names).not.toContain('videos_generations')
    const originals = gateway.offered().filter((endpoint) => endpoint.kind === 'sold' && !endpoint.variantOf)
    for (const { name } of originals) expect(names).toContain(name.replaceAll('.', '_'))
    for (const name of names) expect(name).toMatch(/^[a-zA-Z0-9_-]{1,64}$/)
    const image = tools.find(({ name }: { name: string }) => name === 'images_generations')
    expect(image.description).toMatch(/Price: [\d.]+ to [\d.]+ USD per call/)
    expect(Object.keys(image.inputSchema.properties)).toContain('prompt')
    expect(image.outputSchema).toBeUndefined()
    expect(JSON.stringify(tools)).not.toContain('$ref')
    const chat = tools.find(({ name }: { name: string }) => name === 'chat_completions')
    expect(Object.keys(chat.inputSchema.properties)).not.toContain('stream')
  })

  test('are one for each product: no other format, no other method and no alias (contract 19.17)', async () => {
    const clock = testClock()
    const { send } = open({ ports: { clock, vendors: embedded(clock) } })
    const { tools } = (await send('tools/list')).result
    const names = tools.map(({ name }: { name: string }) => name)
    for (const other of ['chat_model', 'messages', 'responses', 'generate_content', 'videos', 'usstock_price'])
      expect(names).not.toContain(other)
    expect(names.filter((name: string) => /post|alias/.test(name))).toEqual([])
    expect(names.filter((name: string) => /^(stocks|pm)/.test(name))).toEqual(['stocks_price', 'stocks_history', 'pm'])
  })

  test('are sold by POST where GET and POST sell the same, so that any argument arrives', async () => {
    const price = { price: { mode: 'fixed', amount: '0.01', currency: 'USD' } }
    const operations = await operationsOf({
      paths: {
        '/api/v1/pm/{path}': {
          get: { operationId: 'pm', 'x-payment-info': price },
          post: { operationId: 'pm.post', 'x-variant-of': 'pm', 'x-payment-info': price },
        },
        '/api/v1/other': { post: { operationId: 'other', 'x-variant-of': 'not here', 'x-payment-info': price } },
      },
    })
    expect([...operations.keys()]).toEqual(['pm', 'other', 'collect_result'])
    expect(operations.get('pm')?.request({ path: 'a', limit: 3 })).toEqual({
      method: 'POST',
      path: '/api/v1/pm/a',
      body: '{"limit":3}',
    })
  })

  test('have names that every client accepts, whatever an operation is called (contract 19.17)', async () => {
    const price = { price: { mode: 'fixed', amount: '0.01', currency: 'USD' } }
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(fc.string({ minLength: 1, maxLength: 80 }), { maxLength: 8 }), async (ids) => {
        const paths = Object.fromEntries(
          ids.map((operationId, index) => [`/${index}`, { post: { operationId, 'x-payment-info': price } }]),
        )
        const names = [...(await operationsOf({ paths })).keys()]
        expect(names.length).toBe(ids.length + 1)
        for (const name of names) expect(name).toMatch(/^[a-zA-Z0-9_-]{1,64}$/)
      }),
      { numRuns: 50, examples: [[['a.b', 'a_b', 'a b', 'collect_result', 'x'.repeat(70), 'x'.repeat(80)]]] },
    )
  })

  test('answer to the names with dots, as they were written before', async () => {
    const { call } = open()
    expect((await call('images.generations', FOX)).structuredContent.accepts).toBeArray()
  })

  test('may be chosen by name or by the first word of it', async () => {
    const { gateway } = open()
    const all = await operationsIn(gateway)(true)
    const names = (words: string[]) => [...selectedTools(all, words).keys()]
    expect(names(['images', 'chat_completions'])).toEqual([
      ...[...all.keys()].filter((name) => name.startsWith('images_')),
      'chat_completions',
      'models',
      'collect_result',
    ])
    // A product that goes off sale while a session runs takes its tools along, and nothing else.
    expect(names(['pictures', 'audio'])).toEqual(names(['audio']))
    expect(unknownTool(all, ['images', 'pictures'])).toMatchObject({
      word: 'pictures',
      known: expect.arrayContaining(['images']),
    })
    expect(unknownTool(all, ['images'])).toBeUndefined()
  })

  test('are sent again as they were, with the id of the request, until they change', async () => {
    const { endpoint } = open()
    const sent = async (id: unknown, params: object = {}, headers: Record<string, string> = {}) => {
      const request = new Request(`${ORIGIN}/mcp`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
        body: JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/list', params }),
      })
      const reply = await endpoint(request, { ip: '192.0.2.1', origin: ORIGIN })
      const text = await new Response(reply.body as BodyInit).text()
      return { status: reply.status, text: /^data: (.*)$/m.exec(text)?.[1] ?? text }
    }
    const meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'a client', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': {},
    }
    const revision = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list' }
    const [first, second, named] = [await sent(7), await sent(7), await sent('id-of-the-request')]
    expect(second).toEqual(first)
    expect(JSON.parse(named.text)).toEqual({ ...JSON.parse(first.text), id: 'id-of-the-request' })
    const [newer, again] = [await sent(1, { _meta: meta }, revision), await sent(2, { _meta: meta }, revision)]
    expect(JSON.parse(newer.text).result.resultType).toBe('complete')
    expect(JSON.parse(again.text)).toEqual({ ...JSON.parse(newer.text), id: 2 })
    expect((await sent(3, { _meta: meta }, { ...revision, 'mcp-method': 'tools/call' })).status).toBe(400)
    expect((await sent(4, { _meta: meta }, revision)).status).toBe(200)
    for (const id of [null, {}, [], true]) expect((await sent(id)).text).not.toContain('images_generations')
  })

  test('place their arguments in path, query and body', async () => {
    const schema = { type: 'string' }
    const operations = await operationsOf({
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
    const demand = await call('images_generations', FOX)
    expect(demand.isError).toBe(true)
    expect(demand.structuredContent).toMatchObject({ x402Version: 2, accepts: [{ scheme: 'exact' }] })
    expect(JSON.parse(demand.content[0].text)).toEqual(demand.structuredContent)
    expect(demand._meta['x402/error']).toEqual(demand.structuredContent)
    expect(vendor.jobs.length).toBe(0)
  })

  test('without a payment is told the price, the payee and what to do (contract 19.18)', async () => {
    const { call } = open()
    const { error, accepts } = (await call('images_generations', FOX)).structuredContent
    const [{ amount, asset, network, payTo }] = accepts
    expect(error).toStartWith(
      `Payment required: ${amount} base units of ${asset} on ${network} to ${payTo}. Nothing was charged.`,
    )
    expect(error).toContain('_meta["x402/payment"]')
  })

  test('with a payment has the result, the picture and the receipt; the payment may be Base64', async () => {
    const { call, sign } = open()
    for (const spell of [(payment: unknown) => payment, (payment: unknown) => btoa(JSON.stringify(payment))]) {
      const payment = sign(await call('images_generations', FOX))
      const bought = await call('images_generations', FOX, spell(payment))
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
    const payment = sign(await call('images_generations', FOX))
    await call('images_generations', FOX, payment)
    const again = await call('images_generations', { ...FOX, prompt: 'another' }, payment)
    expect([again.isError, again.structuredContent.error]).toEqual([true, expect.stringContaining('already used')])
    const { code, job_id: id, poll_url: url } = again.structuredContent
    expect([code, url]).toEqual(['PAYMENT_REPLAY', `/api/v1/images/generations/${id}`])
    const bad = await call('images_generations', FOX, 'nonsense')
    expect([bad.isError, bad.structuredContent.x402Version]).toEqual([true, 2])
  })

  test('with bad arguments is told what is wrong, and never a price', async () => {
    const { call } = open()
    const refused = await call('images_generations', { model: 'vendor-a/image-1' })
    expect([refused.isError, refused.structuredContent.accepts]).toEqual([true, undefined])
    expect(refused.content[0].text).toContain('prompt')
    expect((await call('no.such', {})).content[0].text).toContain('there is no tool no.such')
  })

  test('that becomes a job is collected by its poll_url, and charged once (contract 19.19)', async () => {
    const { call, sign, clock, alice } = open({ inlineMs: 0 })
    const before = alice.balance()
    const payment = sign(await call('images_generations', FOX))
    const job = await call('images_generations', FOX, payment)
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

describe('the limits of /mcp are those of the HTTP API', () => {
  const JSON_HEADERS = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
  const PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
  const post = (body: BodyInit, headers = {}) =>
    new Request(`${ORIGIN}/mcp`, { method: 'POST', headers: { ...JSON_HEADERS, ...headers }, body })
  const CALLER = { ip: '192.0.2.1', origin: ORIGIN }

  test('a batch has at most five messages (contract 19.23)', async () => {
    const { endpoint } = open()
    const batch = (length: number) =>
      post(JSON.stringify(Array.from({ length }, (_, id) => ({ jsonrpc: '2.0', id, method: 'ping' }))))
    expect((await endpoint(batch(5), CALLER)).status).toBe(200)
    const { status, body } = await endpoint(batch(6), CALLER)
    expect([status, JSON.parse(String(body)).error.code]).toEqual([400, -32_600])
  })

  test('the tools are made once, and again only when the document is another one', async () => {
    const [one, two] = [{ paths: {} }, { paths: {} }]
    const given = [one, one, one, two, two]
    let requested = 0
    const operations = operationsIn({ openapi: async () => given[requested++] ?? {} })
    const read = []
    while (read.length < given.length) read.push(await operations(true))
    expect(new Set(read).size).toBe(2)
    expect([read[0] === read[2], read[3] === read[4]]).toEqual([true, true])
  })

  test('a gateway describes itself once, whatever origin is asked for', async () => {
    const { gateway } = open()
    const document = await gateway.openapi()
    await gateway.fetch(new Request('https://other.example/openapi.json'))
    expect(await gateway.openapi()).toBe(document)
  })

  test('a body is as large as a picture at most, and counts in the memory of the gateway (contract 4.20, 19.23)', async () => {
    const { endpoint } = open({ maxUpload: 1 << 20, maxBodies: 4 << 20 })
    const large = (bytes: number) => {
      const body = JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'ping',
        params: { _meta: { x: 'x'.repeat(bytes) } },
      })
      return post(body, { 'content-length': String(body.length) })
    }
    expect((await endpoint(large(4 << 20), CALLER)).status).toBe(413)
    // A body counts three times.
    expect((await endpoint(large(1_000_000), CALLER)).status).toBe(200)
    expect((await endpoint(large(1_500_000), CALLER)).status).toBe(503)
  })

  test('a body that does not arrive is 408 (contract 4.14)', async () => {
    const { endpoint, clock } = open()
    const stalled = new ReadableStream<Uint8Array>({ start: (out) => out.enqueue(new Uint8Array(100_000)) })
    const reply = endpoint(post(stalled), CALLER)
    await clock.settle()
    await clock.advance(10_000)
    await clock.advance(10_000)
    expect((await reply).status).toBe(408)
  })

  test('an address sends 600 requests a minute; a /64 is one address (contract 19.23)', async () => {
    const { endpoint } = open()
    const from = async (ip: string) => {
      const { status, headers, body } = await endpoint(post(PING), { ...CALLER, ip })
      if (body instanceof ReadableStream) await body.cancel()
      return [status, Number(headers['retry-after'] ?? 0) > 0] as const
    }
    const statuses = []
    for (let request = 0; request < 600; request++) statuses.push((await from(`2001:db8:1:1::${request % 9}`))[0])
    expect(new Set(statuses)).toEqual(new Set([200]))
    expect(await from('2001:db8:1:1:ffff::1')).toEqual([429, true])
    expect(await from('2001:db8:1:2::1')).toEqual([200, false])
  })

  test('an API key in the query is refused, and no answer repeats one (contract 23.4)', async () => {
    const { endpoint, call } = open()
    const request = new Request(`${ORIGIN}/mcp?key=${API_KEY}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
    })
    const reply = await endpoint(request, { ip: '192.0.2.1', origin: ORIGIN })
    expect([reply.status, String(reply.body).includes('x-goog-api-key')]).toEqual([400, true])
    const answers = [await call(API_KEY, {}), await call('images_generations', { ...FOX, model: API_KEY })]
    expect(answers.map((answer) => [answer.isError, JSON.stringify(answer).includes(API_KEY)])).toEqual([
      [true, false],
      [true, false],
    ])
  })

  test('nothing is open for ever: other methods and subscriptions are refused', async () => {
    const { endpoint } = open()
    const get = new Request(`${ORIGIN}/mcp`, { headers: { accept: 'text/event-stream' } })
    expect(await endpoint(get, CALLER)).toMatchObject({ status: 405, headers: { allow: 'POST' } })
    const listen = post('{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{}}')
    const { status, body } = await endpoint(listen, CALLER)
    expect([status, JSON.parse(String(body))]).toMatchObject([404, { id: 7, error: { code: -32_601 } }])
  })

  test('what is no JSON, and what is not said to be, is refused before the protocol', async () => {
    const { endpoint } = open()
    expect((await endpoint(post('{'), CALLER)).status).toBe(400)
    expect((await endpoint(post(PING, { 'content-type': 'text/plain' }), CALLER)).status).toBe(400)
    expect((await endpoint(post('['.repeat(300)), CALLER)).status).toBe(400)
  })

  test('a batch that cancels one of its calls is answered whole, and its reply ends', async () => {
    const { endpoint } = open()
    const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'images_generations', arguments: FOX } }
    const cancel = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } }
    const replies = await Promise.all(
      [[call, cancel], [cancel, call, { ...call, id: 2 }], [cancel]].map(async (batch) => {
        const { status, body } = await endpoint(post(JSON.stringify(batch)), CALLER)
        return [status, (await new Response(body as BodyInit).text()).match(/"accepts"/g)?.length ?? 0]
      }),
    )
    expect(replies.map(([status, demands]) => [status, Number(demands) > 0])).toEqual([
      [200, true],
      [200, true],
      [202, false],
    ])
  })

  test('each call is told with its tool and its status, also in a batch', async () => {
    const { endpoint } = open()
    const calls: ToolCall[] = []
    const message = (id: number, name: string, args: object) => ({
      jsonrpc: '2.0',
      id,
      method: 'tools/call',
      params: { name, arguments: args },
    })
    const body = JSON.stringify([message(1, 'images_generations', FOX), message(2, 'images_generations', {})])
    const reply = await endpoint(post(body), { ...CALLER, called: (call) => void calls.push(call) })
    await new Response(reply.body as BodyInit).text()
    expect(calls.map(({ tool, status }) => [tool, status]).sort()).toEqual([
      ['images_generations', 400],
      ['images_generations', 402],
    ])
  })

  test('the work of a free call ends with its caller', async () => {
    const { gateway } = open()
    const left = new AbortController()
    const gone: (AbortSignal | undefined)[] = []
    const watched = {
      ...gateway,
      fetch: (...[request, caller]: Parameters<typeof gateway.fetch>) => (
        gone.push(caller?.gone),
        gateway.fetch(request, caller)
      ),
    }
    const request = new Request(
      post('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"models","arguments":{}}}'),
      { signal: left.signal },
    )
    const reply = await mcpEndpoint(watched, { version: '1' })(request, CALLER)
    await new Response(reply.body as BodyInit).text()
    left.abort()
    expect(gone.map((signal) => signal?.aborted)).toEqual([true])
  })
})

describe('the app', () => {
  const lines: AccessLine[] = []
  const log = { ...kit().log, access: (line: AccessLine) => void lines.push(line), flush: () => {} }
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
  const post = (host: string, body: object) =>
    new Request(`http://${host}/mcp`, { method: 'POST', headers: { ...headers, host }, body: JSON.stringify(body) })

  test('a devnet serves /mcp to loopback hosts only (contract 19.23)', async () => {
    const elysia = app({ gateways: [{ gateway: kit().gateway, hosts: [] }], log, devnet: () => ({}) })
    const statusAt = async (host: string) =>
      (await elysia.fetch(post(host, { jsonrpc: '2.0', id: 1, method: 'ping' }))).status
    expect([await statusAt('evil.example'), await statusAt('127.0.0.1:4020'), await statusAt('localhost')]).toEqual([
      403, 200, 200,
    ])
  })

  test('the access log has each call by its tool and its status, beside the request itself', async () => {
    lines.length = 0
    const elysia = app({ gateways: [{ gateway: kit().gateway, hosts: [] }], log })
    const params = { name: 'images_generations', arguments: FOX }
    const reply = await elysia.fetch(post('ai.example', { jsonrpc: '2.0', id: 1, method: 'tools/call', params }))
    await reply.text()
    expect(lines.map(({ id, method, path, status, tool }) => [id, method, path, status, tool]).sort()).toEqual(
      [
        [reply.headers.get('x-request-id') ?? '', 'POST', '/mcp', 200, undefined],
        [reply.headers.get('x-request-id') ?? '', 'POST', '/mcp', 402, 'images_generations'],
      ].sort(),
    )
  })
})

test("a demand that corrects a voucher keeps the scheme's code, which its clients look for (contract 1.78)", async () => {
  const code = 'invalid_batch_settlement_evm_cumulative_amount_mismatch'
  const accepts = [{ scheme: 'batch-settlement', extra: { channelState: { chargedCumulativeAmount: '7' } } }]
  const result = async (error: string) => {
    const headers = { 'payment-required': btoa(JSON.stringify({ x402Version: 2, error, accepts })) }
    const reply = Response.json({ code: 'PAYMENT_INVALID', details: 'the base is 7' }, { status: 402, headers })
    return (await resultOf(reply, async () => undefined)).structuredContent
  }
  expect(await result(code)).toMatchObject({ error: code, details: 'the base is 7', accepts })
  expect(await result('Payment Required')).toMatchObject({ error: 'the base is 7', accepts })
})

describe('a client of MPP', () => {
  const meta = (name: string) => `org.paymentauth/${name}`

  test('reads its challenge beside the demand of x402, pays with a credential in _meta, and gets its receipt there (contract 24.13)', async () => {
    const { send, call, chain, alice } = open()
    const demand = await call('images_generations', FOX)
    expect([demand.isError, demand.structuredContent.x402Version]).toEqual([true, 2])
    const [{ request, ...parameters }] = demand._meta[meta('payment-required')].challenges
    expect([parameters.method, parameters.intent, request.amount]).toEqual(['evm', 'charge', '22000'])
    const challenge = { ...parameters, request: encodeUrl(canonicalJson(request)) }
    const credential = payCharge(chain, challenge, { from: alice.wallet })
    const written = { ...credential, challenge: { ...parameters, request } }
    const params = { name: 'images_generations', arguments: FOX, _meta: { [meta('credential')]: written } }
    // A credential pays in place of the API key that a client sends with every request (contract 23.2).
    const { result } = await send('tools/call', params, { authorization: `Bearer ${API_KEY}` })
    expect(result.isError).toBeUndefined()
    const receipt = result._meta[meta('receipt')]
    expect([receipt.status, receipt.challengeId, receipt.reference]).toEqual([
      'success',
      parameters.id,
      chain.transfers[0]?.transaction,
    ])
    const again = (await send('tools/call', { ...params, arguments: { ...FOX, prompt: 'a blue fox' } })).result
    expect([again.isError, again._meta?.[meta('payment-required')], chain.transfers.length]).toEqual([
      true,
      undefined,
      1,
    ])
  })

  test('that declares no x402 gets errors of JSON-RPC with its challenges (contract 24.13)', async () => {
    const { send } = open()
    const capabilities = { experimental: { payment: { methods: { evm: { intents: ['charge'] } } } } }
    const declared = { 'io.modelcontextprotocol/clientCapabilities': capabilities }
    const asking = (more: object) =>
      send('tools/call', { name: 'images_generations', arguments: FOX, _meta: { ...declared, ...more } })
    const { error } = await asking({})
    expect([error?.code, error?.data.httpStatus, error?.data.challenges.length]).toEqual([-32_042, 402, 1])
    const refused = await asking({ [meta('credential')]: { challenge: {}, payload: {} } })
    expect([refused.error?.code, refused.error?.data.problem.type]).toEqual([
      -32_043,
      'https://paymentauth.org/problems/malformed-credential',
    ])
    expect(refused.error?.data.challenges[0].id).not.toBe(error?.data.challenges[0].id)
  })

  test('may pay by one protocol in one call (contract 24.11, 24.13)', async () => {
    const { send, call, sign, chain } = open()
    const payment = sign(await call('images_generations', FOX))
    const both = { 'x402/payment': payment, [meta('credential')]: { challenge: {}, payload: {} } }
    const { result } = await send('tools/call', { name: 'images_generations', arguments: FOX, _meta: both })
    expect([result.isError, result.content[0].text, chain.transfers.length]).toEqual([
      true,
      expect.stringContaining('two payments'),
      0,
    ])
  })
})
