import { describe, expect, test } from 'bun:test'
import { PIXEL, scriptedVendor } from '../../fakes/images.ts'
import { catalog, ApiError, NoMedia, rateLimited } from '../../../core/mod.ts'
import { decodeHeader, encodePayment, FOX, GENERATIONS, kit, ORIGIN, read, START, x402Scheme } from '../../kit.ts'

const post = (body: string | null, headers: Record<string, string> = {}) =>
  new Request(ORIGIN + GENERATIONS, { method: 'POST', headers, body })
const JSON_TYPE = { 'content-type': 'application/json' }

/** The second random of a kit; the first is the job's id. */
const SECRET = '00000000000000000000000000000002'

describe('the challenge', () => {
  test('quotes in three equal headers and the body, under 6 KB, never cached, in ASCII (contract 1.10)', async () => {
    const { status, headers, body } = await kit()
      .buyer()
      .ask({ ...FOX, prompt: '狐 in the snow' })
    const required = headers.get('payment-required') ?? ''
    expect(status).toBe(402)
    expect([headers.get('x-payment-required'), x402Scheme(headers)]).toEqual([
      required,
      `X402 requirements=${required}`,
    ])
    expect(headers.get('cache-control')).toContain('no-store')
    const { x402Version, accepts } = decodeHeader(required)
    expect({ x402Version, accepts }).toEqual({ x402Version: body.x402Version, accepts: body.accepts })
    expect(required.length * 3 + JSON.stringify(body).length).toBeLessThan(6144)
    expect(atob(required) + JSON.stringify(body)).toMatch(/^[ -~]+$/)
  })

  test('says what the contract says (contract 1.6, 1.7, 1.11, 1.13, 4.17, 5.29, 5.30)', async () => {
    const { body } = await kit({ label: 'base' })
      .buyer()
      .ask({ ...FOX, n: 2 })
    expect(body).toEqual({
      x402Version: 2,
      accepts: [
        {
          scheme: 'exact',
          network: 'eip155:84532',
          amount: '43000',
          asset: '0x036CbD53842c5426634e7929541eC2318f3dCF7e',
          payTo: '0x209693Bc6afc0C5328bA36FaF03C514EF312287C',
          maxTimeoutSeconds: 600,
          extra: { name: 'USDC', version: '2' },
        },
      ],
      extensions: {
        'payment-identifier': { info: { required: false }, schema: expect.any(Object) },
        bazaar: {
          info: { input: { type: 'http', method: 'POST', bodyType: 'json', body: expect.any(Object) } },
          schema: expect.any(Object),
        },
      },
      type: 'https://paymentauth.org/problems/payment-required',
      title: 'Payment Required',
      status: 402,
      detail: expect.any(String),
      error: 'Payment Required',
      message: 'This request costs 0.043000 USDC. Sign one of the offers and send it again with a payment header.',
      price: {
        amount: '0.043000',
        currency: 'USD',
        pricePerImage: 0.02,
        totalImages: 2,
        marginPercent: 5,
        transactionFee: 0.001,
      },
      generation_info: {
        generation_time: 'usually under 30 seconds',
        flow: 'hybrid',
        note: expect.any(String),
      },
      paymentInfo: { network: 'base', asset: 'USDC', x402Version: 2 },
      help: { header: 'PAYMENT-SIGNATURE', docs: `${ORIGIN}/docs`, llms: `${ORIGIN}/llms-full.txt` },
    })
  })

  test('names the resource as it was called: the public origin, else the request’s own (contract 1.9)', async () => {
    const { gateway } = kit()
    const url = async (origin?: string) =>
      decodeHeader(
        (await gateway.fetch(post(JSON.stringify(FOX), JSON_TYPE), origin === undefined ? {} : { origin })).headers.get(
          'payment-required',
        ),
      ).resource.url
    expect(await url()).toBe(ORIGIN + GENERATIONS)
    expect(await url('https://pay.example')).toBe(`https://pay.example${GENERATIONS}`)
  })

  test('answers an empty POST, GET and HEAD at the default price (contract 1.53, 1.54)', async () => {
    const { gateway } = kit()
    for (const request of [post(null), post(''), post('', JSON_TYPE), new Request(ORIGIN + GENERATIONS)]) {
      const { status, body } = await read(await gateway.fetch(request))
      expect([status, body.price.amount]).toEqual([402, '0.022000'])
    }
  })

  test('to a probe is for the example, else for the first model that can be made here; 503 where none can', async () => {
    const probe = async (...made: readonly string[]) => {
      const images = (row: { id: string }) => (made.includes(row.id) ? scriptedVendor() : undefined)
      return await read(
        await kit({ ports: { vendors: { images, media: () => Promise.reject() } } }).gateway.fetch(post(null)),
      )
    }
    expect((await probe('vendor-b/image-pro', 'vendor-a/image-1')).body.price.amount).toBe('0.022000')
    expect((await probe('vendor-e/image-pro', 'vendor-d/image-cv4')).body.price.amount).toBe('0.016750')
    const { status, headers, body } = await probe()
    expect([status, body.error, headers.get('payment-required')]).toEqual([503, 'Not configured', null])
  })

  test('asks no port but the chain’s cached terms', async () => {
    const refuse = new Proxy(
      {},
      { get: (_, name) => () => Promise.reject(new Error(`${String(name)} was asked`)) },
    ) as never
    const { buyer, log } = kit({ ports: { storage: refuse, objects: refuse } })
    expect((await buyer().ask()).status).toBe(402)
    expect(log.lines).toEqual([])
  })

  test('waits for a chain that has been checked: until then 503 with Retry-After', async () => {
    const { gateway, chain } = kit()
    const closed = kit({ ports: { chain: { ...chain, terms: () => [] } } }).gateway
    for (const request of [post(JSON.stringify(FOX), JSON_TYPE), post('')]) {
      const { status, headers, body } = await read(await closed.fetch(request))
      expect([status, body.error, headers.get('retry-after'), headers.get('payment-required')]).toEqual([
        503,
        'Not ready',
        '5',
        null,
      ])
    }
    expect((await gateway.fetch(post(''))).status).toBe(402)
  })

  test('is not made while the settlement key cannot pay for gas: 503 with Retry-After, and health says why (contract 1.61)', async () => {
    const { ports } = kit()
    const closed = () => ({ code: 'no_gas' as const, reason: 'the relayer holds 0 ETH' })
    const { gateway, buyer, vendor } = kit({ ports: { chain: { ...ports.chain, terms: () => [], closed } } })
    for (const request of [post(JSON.stringify(FOX), JSON_TYPE), post('')]) {
      const { status, headers } = await read(await gateway.fetch(request))
      expect([status, headers.get('retry-after'), headers.has('payment-required')]).toEqual([503, '60', false])
    }
    expect((await read(await gateway.fetch(new Request(`${ORIGIN}/api/v1/health/chain`)))).body.reason).toBe('no_gas')
    expect([(await buyer().ask()).status, vendor.jobs.length]).toEqual([503, 0])
  })

  test('is not made for a model that the operator has not configured: 503 instead', async () => {
    const { buyer } = kit({ ports: { vendors: { images: () => undefined, media: () => Promise.reject() } } })
    const { status, headers, body } = await buyer().ask()
    expect([status, body.error, headers.get('payment-required')]).toEqual([503, 'Not configured', null])
  })
})

describe('bad input', () => {
  const cases: readonly [name: string, body: string, type: string, error: string, message: RegExp][] = [
    ['malformed JSON', '{"model":', 'application/json', 'Invalid JSON', /not valid JSON/],
    [
      'another content type',
      JSON.stringify(FOX),
      'text/plain',
      'Invalid content type',
      /must be application\/json, got text\/plain/,
    ],
    ['an array', '[]', 'application/json', 'Invalid request body', /Expected a JSON object/],
    [
      'no model',
      '{"prompt":"a fox"}',
      'application/json',
      'Invalid request body',
      /^model: Expected required property/,
    ],
    [
      'no prompt',
      '{"model":"vendor-a/image-1"}',
      'application/json',
      'Invalid request body',
      /^prompt: Expected required property/,
    ],
    [
      'a blank prompt',
      JSON.stringify({ ...FOX, prompt: ' \n ' }),
      'application/json',
      'Invalid request body',
      /prompt/,
    ],
    [
      'an empty prompt',
      JSON.stringify({ ...FOX, prompt: '' }),
      'application/json',
      'Invalid request body',
      /^prompt: Expected string length greater or equal to 1/,
    ],
    [
      'n of 0',
      JSON.stringify({ ...FOX, n: 0 }),
      'application/json',
      'Invalid request body',
      /^n: .*greater or equal to 1; got 0$/,
    ],
    [
      'n of 11',
      JSON.stringify({ ...FOX, n: 11 }),
      'application/json',
      'Invalid request body',
      /^n: .*less or equal to 10; got 11$/,
    ],
    [
      'n of 1.5',
      JSON.stringify({ ...FOX, n: 1.5 }),
      'application/json',
      'Invalid request body',
      /^n: Expected integer; got 1.5$/,
    ],
    [
      'n as a string',
      JSON.stringify({ ...FOX, n: '1' }),
      'application/json',
      'Invalid request body',
      /^n: Expected integer; got "1"$/,
    ],
    [
      'a wrong size',
      JSON.stringify({ ...FOX, size: '640x480' }),
      'application/json',
      'Invalid size',
      /vendor-a\/image-1 does not support the size "640x480"\. Valid sizes: 1024x1024, 1536x1024, 1024x1536\.$/,
    ],
    [
      'a removed model',
      JSON.stringify({ ...FOX, model: 'vendor-a/image-0' }),
      'application/json',
      'Invalid model',
      /Unknown model: vendor-a\/image-0\. Available models: vendor-a\/image-1, .*vendor-e\/image-pro\.$/,
    ],
    [
      'a name of Object.prototype as model',
      JSON.stringify({ ...FOX, model: '__proto__' }),
      'application/json',
      'Invalid model',
      /Unknown model: __proto__/,
    ],
  ]
  for (const [name, body, type, error, message] of cases) {
    test(`${name} is a free 400, with a payment as without one (contract 1.52, 1.53, 3.2, 3.4, 5.16, 5.17, 5.18, 5.19)`, async () => {
      const { gateway, buyer, chain, vendor, ports } = kit()
      const alice = buyer()
      const payment = encodePayment(alice.sign(await alice.ask()))
      for (const paid of [{}, { 'payment-signature': payment }, { 'x-payment': payment }]) {
        const answer = await read(await gateway.fetch(post(body, { 'content-type': type, ...paid })))
        expect([answer.status, answer.body.error]).toEqual([400, error])
        if (error === 'Invalid JSON') expect(answer.body.code).toBe('INVALID_JSON')
        expect(answer.body.message).toMatch(message)
        expect(answer.headers.get('payment-required')).toBeNull()
      }
      expect([
        chain.transfers.length,
        vendor.jobs.length,
        await ports.storage.lostCalls(Number.MAX_SAFE_INTEGER, 10),
      ]).toEqual([0, 0, []])
    })
  }

  test('a wrong field is named in details, and a wrong choice comes with its choices (contract 3.3, 5.16, 5.18)', async () => {
    const alice = kit().buyer()
    expect((await alice.ask({ ...FOX, n: 11 })).body.details).toEqual([
      { path: 'n', message: 'n: Expected integer to be less or equal to 10; got 11' },
    ])
    expect((await alice.ask({ ...FOX, size: 'big' })).body.valid_sizes).toEqual(['1024x1024', '1536x1024', '1024x1536'])
    expect((await alice.ask({ ...FOX, model: 'x' })).body.available_models).toHaveLength(10)
  })

  test('every size of another model is refused where the model does not make it', async () => {
    const alice = kit().buyer()
    for (const size of ['2048x2048', '1280x720', '512x512'])
      expect((await alice.ask({ ...FOX, size })).status).toBe(400)
    expect((await alice.ask({ model: 'vendor-d/image-cv4', prompt: 'p', size: '1536x1024' })).body.message).toContain(
      '512x512, 768x768, 1024x1024, 768x1344, 1344x768, 1440x1440',
    )
  })

  test('a body over the cap is 413 with a body', async () => {
    const { status, body } = await kit({ maxBody: 100 })
      .buyer()
      .ask({ ...FOX, prompt: 'x'.repeat(100) })
    expect([status, body.error, body.max_bytes]).toEqual([413, 'Request body too large', 100])
  })

  test('unknown fields are ignored, and an optional null is a default (contract 4.2, 4.3, 5.18, 5.20)', async () => {
    const { status, body } = await kit()
      .buyer()
      .ask({ ...FOX, quality: 'high', style: {}, response_format: 'b64_json', size: null, n: null })
    expect([status, body.price.amount]).toEqual([402, '0.022000'])
  })

  test('a payment without a body is 400, and is not taken', async () => {
    const { gateway, buyer } = kit()
    const alice = buyer()
    const payment = alice.sign(await alice.ask())
    expect((await gateway.fetch(post('', { 'payment-signature': encodePayment(payment) }))).status).toBe(400)
    expect((await alice.buy(FOX, { payment })).status).toBe(200)
  })
})

describe('a purchase', () => {
  test('answers 200 with hosted images, price, payment and receipt, and moves exactly the quote (contract 1.13, 1.32, 4.18, 5.23, 5.24, 5.25, 5.26, 5.28)', async () => {
    const { buyer, chain, vendor } = kit({ label: 'base' })
    const alice = buyer()
    const before = alice.balance()
    const { status, headers, body } = await alice.buy({ ...FOX, n: 2 })
    const [transfer] = chain.transfers
    expect(status).toBe(200)
    expect(body).toEqual({
      id: expect.stringMatching(/^job_[0-9a-f]{32}$/),
      created: START / 1000,
      data: [0, 1].map((index) => ({
        url: `${ORIGIN}/api/media/images/2026-11-20/${SECRET}-${index}.png`,
        source_url: 'data:image/png',
        backed_up: true,
      })),
      price: { amount: '0.043000', currency: 'USD' },
      payment: { status: 'settled', tx_hash: transfer?.transaction, network: 'base' },
    })
    expect(headers.get('x-payment-receipt')).toBe(transfer?.transaction ?? '')
    expect(decodeHeader(headers.get('payment-response'))).toEqual({
      success: true,
      transaction: transfer?.transaction,
      network: 'eip155:84532',
      payer: alice.wallet,
      amount: '43000',
    })
    expect(headers.get('cache-control')).toBe('private, no-store')
    expect(before - alice.balance()).toBe(43_000n)
    expect(vendor.jobs).toEqual([{ model: 'gpt-image-2.5-flare', prompt: FOX.prompt, width: 1024, height: 1024, n: 2 }])
  })

  test('works under both header names, and under both at once (contract 1.2)', async () => {
    for (const header of ['PAYMENT-SIGNATURE', 'X-Payment', 'x-payment'])
      expect((await kit().buyer().buy(FOX, { header })).status).toBe(200)
    const { gateway, buyer } = kit()
    const alice = buyer()
    const payment = encodePayment(alice.sign(await alice.ask()))
    expect(
      (
        await gateway.fetch(
          post(JSON.stringify(FOX), { ...JSON_TYPE, 'x-payment': payment, 'payment-signature': payment }),
        )
      ).status,
    ).toBe(200)
  })

  test('shows a rewritten prompt, and a vendor’s URL as source (contract 5.25, 5.27)', async () => {
    const vendor = scriptedVendor(async () => [
      { url: 'https://vendor.test/1', revisedPrompt: 'a vivid fox' },
      { url: PIXEL },
    ])
    const media = async () => ({ bytes: new Uint8Array([1]), type: 'image/jpeg' })
    const { body } = await kit({ ports: { vendors: { images: () => vendor, media } } })
      .buyer()
      .buy()
    expect(body.data).toEqual([
      {
        url: `${ORIGIN}/api/media/images/2026-11-20/${SECRET}-0.jpg`,
        source_url: 'https://vendor.test/1',
        backed_up: true,
        revised_prompt: 'a vivid fox',
      },
      { url: `${ORIGIN}/api/media/images/2026-11-20/${SECRET}-1.png`, source_url: 'data:image/png', backed_up: true },
    ])
  })

  test('whose mirror fails is charged once and serves the upstream value, backed_up false (contract 2.26, 5.24, 5.26)', async () => {
    const vendor = scriptedVendor(async () => [{ url: 'https://vendor.test/1' }, { url: PIXEL }])
    const objects = {
      put: () => Promise.reject(new Error('disk full')),
      get: async () => undefined,
      delete: async () => {},
    }
    const { buyer, chain } = kit({ vendor, ports: { objects } })
    const { status, body } = await buyer().buy()
    expect(status).toBe(200)
    expect(body.data).toEqual([
      { url: 'https://vendor.test/1', source_url: 'https://vendor.test/1', backed_up: false },
      { url: PIXEL, source_url: 'data:image/png', backed_up: false },
    ])
    expect(chain.transfers).toHaveLength(1)
  })

  test('whose link leads to no picture is not sold (contract 2.26)', async () => {
    const vendor = scriptedVendor(async () => [{ url: PIXEL }, { url: 'https://vendor.test/1' }])
    for (const media of [
      () => Promise.reject(new NoMedia('the media host answered 404')),
      async () => ({ bytes: new Uint8Array(1), type: 'text/html' }),
    ]) {
      const { buyer, chain } = kit({ ports: { vendors: { images: () => vendor, media } } })
      const { status, body } = await buyer().buy({ ...FOX, n: 2 })
      expect([status, body.error, JSON.stringify(body).includes('vendor.test'), chain.transfers]).toEqual([
        500,
        'Image generation failed',
        false,
        [],
      ])
    }
  })

  test('by an alias id is of the same model, at its price (contract 5.16)', async () => {
    const [row] = catalog().images.all
    if (!row) throw new Error('an empty catalog')
    const alice = kit({ catalog: catalog({ images: [{ ...row, aliases: ['openai/gpt-image-1'] }] }) }).buyer()
    const bought = await alice.buy({ ...FOX, model: 'openai/gpt-image-1' })
    expect(bought.body.price.amount).toBe('0.022000')
  })
})

describe('a failure of the work', () => {
  const failing = (error: unknown) =>
    kit({
      vendor: scriptedVendor(async ({ n }, { attempt }) =>
        attempt === 1 ? Promise.reject(error) : Array.from({ length: n }, () => ({ url: PIXEL })),
      ),
    })

  test('is 500 with details and job_id, charges nothing, and tells no secret of the vendor (contract 5.48)', async () => {
    const { buyer, chain, log } = failing(new Error('key sk-123 was refused'))
    const { status, body } = await buyer().buy()
    expect([status, body.error]).toEqual([500, 'Image generation failed'])
    expect(body).toEqual({
      error: 'Image generation failed',
      job_id: expect.stringMatching(/^job_/),
      details: 'The model did not deliver a result. Nothing was charged.',
    })
    expect(chain.transfers).toEqual([])
    expect(log.lines).toMatchObject([
      { level: 'warn', message: 'work failed', fields: { error: 'key sk-123 was refused' } },
    ])
  })

  test('has a PAYMENT-RESPONSE that says that the payment was not charged (contract 1.65)', async () => {
    const { buyer } = failing(new Error('away'))
    const alice = buyer()
    const { status, headers } = await alice.buy()
    expect([status, decodeHeader(headers.get('payment-response'))]).toEqual([
      500,
      {
        success: false,
        errorReason: 'the call failed; this payment was not charged',
        transaction: '',
        network: 'eip155:84532',
        payer: alice.wallet,
      },
    ])
  })

  test('frees the authorization: the same signed request buys afterwards', async () => {
    const { buyer, chain, vendor } = failing(new Error('busy'))
    const alice = buyer()
    const payment = alice.sign(await alice.ask())
    const failed = await alice.buy(FOX, { payment })
    const bought = await alice.buy(FOX, { payment })
    expect([failed.status, bought.status]).toEqual([500, 200])
    expect([chain.transfers.length, vendor.jobs.length]).toEqual([1, 2])
    // The second purchase has published it, so that by now it proves nothing about the first.
    const byAnyone = await alice.poll(`${GENERATIONS}/${failed.body.job_id}`, payment)
    expect([byAnyone.status, byAnyone.body.code]).toEqual([402, 'PAYMENT_REPLAY'])
    const poll = await alice.poll(`${GENERATIONS}/${failed.body.job_id}`, alice.sign(await alice.ask()))
    expect(poll.body).toMatchObject({
      id: failed.body.job_id,
      object: 'image.generation.job',
      status: 'failed',
      model: FOX.model,
      payment_status: 'not_charged',
    })
    expect(poll.body.error).toStartWith('Image generation failed')
  })

  test('that the vendor can name reads as its fault: policy is 400, a rate limit 429 (contract 3.10, 5.46, 5.47)', async () => {
    const policy = await failing(new ApiError('CONTENT_POLICY', { details: 'Foxes are not allowed.' }))
      .buyer()
      .buy()
    expect([policy.status, policy.body]).toEqual([
      400,
      { error: 'Content policy violation', details: 'Foxes are not allowed.' },
    ])
    const limited = await failing(rateLimited('vendor-a', 7)).buyer().buy()
    expect([limited.status, limited.headers.get('retry-after'), limited.headers.get('x-ratelimit-source')]).toEqual([
      429,
      '7',
      'vendor-a',
    ])
    expect(limited.body).toMatchObject({ code: 'RATE_LIMITED', source: 'vendor-a', retry_after_seconds: 7 })
  })

  test('of a time-out upstream is 500 like any other: generation has no 504 (contract 5.49)', async () => {
    const { buyer, chain } = failing(new ApiError('UPSTREAM_TIMEOUT', { details: 'no answer within 600 s' }))
    const { status, body } = await buyer().buy()
    expect([status, body]).toEqual([
      500,
      { error: 'Image generation failed', job_id: expect.stringMatching(/^job_/), details: expect.any(String) },
    ])
    expect(chain.transfers).toEqual([])
  })

  test('is an answer without an image, too', async () => {
    const { buyer, chain } = kit({ vendor: scriptedVendor(async () => []) })
    expect([(await buyer().buy()).status, chain.transfers.length]).toEqual([500, 0])
  })

  test('is a vendor that went away between quote and work', async () => {
    const vendor = scriptedVendor()
    let requestCount = 0
    const images = () => (requestCount++ < 2 ? vendor : undefined)
    const { buyer, chain } = kit({ ports: { vendors: { images, media: () => Promise.reject() } } })
    const { status, body } = await buyer().buy()
    expect([status, body.error, chain.transfers.length]).toEqual([503, 'Not configured', 0])
  })
})
