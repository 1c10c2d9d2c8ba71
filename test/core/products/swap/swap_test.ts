import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { FreeContext, FreeRequest } from '../../../../core/endpoint/mod.ts'
import { sellTokenProblem, swap, withFee } from '../../../../core/products/swap/swap.ts'
import { ApiError, type Json, type SwapCall } from '../../../../core/mod.ts'
import { kit, type KitOptions, ORIGIN, read, testLog } from '../../../kit.ts'
import { scaled } from '../../../scope.ts'

const TREASURY = '0x1111111111111111111111111111111111111111'
const ROOTS = ['/api/v1/dexagg', '/api/v1/zerox']
const WITH_FEE = ['/price', '/quote', '/gasless/price', '/gasless/quote']
const WITHOUT = ['/gasless/approval-tokens', '/gasless/chains', '/swap/chains']
const HASH = `0x${'ab'.repeat(32)}`
const OURS = `swapFeeRecipient=${TREASURY}&swapFeeBps=20`
const TRADE = 'chainId=8453&sellToken=0xSELL&buyToken=0xBUY&sellAmount=100'

type Reply = { readonly status: number; readonly body: Json; readonly text?: string; readonly retryAfter?: string }

/** A gateway before an aggregator that says what a test wants, and what it was asked. */
function fixture(
  answer: (call: SwapCall, at: { signal: AbortSignal }) => Promise<Reply> = async () => ({
    status: 200,
    body: { ok: true },
  }),
  more: KitOptions = {},
) {
  const calls: SwapCall[] = []
  const vendor = {
    feeRecipient: TREASURY,
    call: async (call: SwapCall, at: { signal: AbortSignal }) => {
      calls.push(call)
      const reply = await answer(call, at)
      return { text: JSON.stringify(reply.body), ...reply }
    },
  }
  const made = kit({ ports: { vendors: { swap: vendor } }, ...more })
  const send = async (method: string, path: string, init: RequestInit = {}) =>
    await read(await made.gateway.fetch(new Request(ORIGIN + path, { method, ...init }), { ip: '192.0.2.1' }))
  return { ...made, calls, send, get: (path: string, init?: RequestInit) => send('GET', path, init) }
}

describe('the fee', () => {
  test.each(ROOTS.flatMap((root) => WITH_FEE.map((path) => [root, path] as const)))(
    'is put into %s%s, and the rest is forwarded as it came (contract 11.2)',
    async (root, path) => {
      const { get, calls } = fixture()
      expect((await get(`${root}${path}?${TRADE}&swapFeeBps=0&taker=0xT`)).status).toBe(200)
      expect(calls).toEqual([{ method: 'GET', path, query: `?${TRADE}&taker=0xT&${OURS}&swapFeeToken=0xSELL` }])
    },
  )

  /** Each is something that a caller writes; the query must be TRADE and our fee all the same. */
  const hostile = [
    'swapFeeBps=0',
    'swapFeeRecipient=0xE&swapFeeBps=1&swapFeeToken=0xBUY',
    'swapFeeBps=1&swapFeeBps=2&swapFeeBps=3',
    'swapfeebps=0',
    'SWAPFEEBPS=0',
    'sWaPfEeReCiPiEnT=0xE',
    'swapFeeBps[]=0',
    'swapFeeBps[]=0&swapFeeBps[]=1',
    'swapFeeRecipient[0]=0xE',
    'swapFeeRecipient[0]=0xE&swapFeeRecipient[1]=0xF',
    'swapFeeBps%5B%5D=0',
    'swapFeeBps%5b0%5d=0',
    '[swapFeeBps]=0',
    'swapFee[Bps]=0',
    'swapFeeToken.0=0xBUY',
    'swapFeeBps',
    'swapFeeBps=',
    '%73wapFeeBps=0',
    '%73%77%61%70%46%65%65%42%70%73=0',
    's%57apFeeBps=0',
    '%2573wapFeeBps=0',
    '%25252573wapFeeBps=0',
    'swapFeeBps%3D0',
    'swapFeeBps%3D0=1',
    'swapFeeBps%00=0',
    '%00swapFeeBps=0',
    '%20swapFeeBps=0',
    'swapFeeBps+=0',
    '+swapFeeBps=0',
    'swapFeeBps%09=0',
    'swapFeeBps%0d%0a=0',
    'swap_fee_bps=0',
    'swap-fee-recipient=0xE',
    'swap.fee.token=0xBUY',
    'swap%20fee%20bps=0',
    '?swapFeeBps=0',
    '%3FswapFeeBps=0',
    'x%26swapFeeBps=0',
    'swapFeeBps%FF=0',
    'swapFeeBps%ZZ=0',
    'swapFeeBps%=0',
    '%EF%BD%93wapFeeBps=0',
    'ｓｗａｐＦｅｅＢｐｓ=0',
    '%C5%BFwapFeeBps=0',
    'swapFeeTo%E2%84%AAen=0xBUY',
    'swap%E2%80%8BFeeBps=0',
    'swapFeeBps[$ne]=0',
    'swapFeeBps[0][a]=0',
    'swapFeeBps;swapFeeToken=0',
    'swapFeeBps=0;swapFeeRecipient=0xE',
    ';swapFeeBps=0',
  ]

  test.each(hostile)('is not the caller’s to write: %s (contract 11.3)', async (written) => {
    for (const query of [
      `${TRADE}&${written}`,
      `${written}&${TRADE}`,
      `chainId=8453&${written}&sellToken=0xSELL&buyToken=0xBUY&sellAmount=100`,
    ]) {
      const { get, calls } = fixture()
      await get(`/api/v1/dexagg/quote?${query}`)
      const sent = (calls[0]?.query ?? '').replace(/[;&]&+/g, '&').replace(/^\?[;&]/, '?')
      expect(sent).toBe(`?${TRADE}&${OURS}&swapFeeToken=0xSELL`)
    }
  })

  test('leaves everything else alone: order, case, repetitions, encodings, empty and unknown parameters (contract 11.3)', async () => {
    const left = [
      'b=2&a=1&b=3',
      'taker=0xAbC&TAKER=1',
      'excludedSources=Uniswap_V3%2CSushiSwap',
      'excludedSources=a,b;c',
      'a=%zz&b=%',
      'a&&b=&=c',
      'note=swapFeeBps',
      'note=x%26swapFeeBps%3D0',
      'slippageBps=50&tradeSurplusRecipient=0xE',
      'mySwapFeeBps=1&swapFeeBpsx=2&swapFee=3&feeBps=4',
      'filter[swapFeeBpsOf]=1',
      'a=1+2%20%2B',
      'q=%E2%82%AC',
      'a=1?b=2',
    ]
    for (const query of left) {
      const { get, calls } = fixture()
      await get(`/api/v1/dexagg/price?${query}&sellToken=0xS`)
      expect(calls[0]?.query).toBe(`?${query}&sellToken=0xS&${OURS}&swapFeeToken=0xS`)
    }
  })

  test('is taken in the sell token, as the caller wrote it (contract 11.4)', () => {
    expect(withFee('?sellToken=0xA%20&buyToken=0xB', TREASURY)).toBe(
      `?sellToken=0xA%20&buyToken=0xB&${OURS}&swapFeeToken=0xA%20`,
    )
    for (const query of [
      '?sellToken=0xA',
      '?a=1&sellToken=0xA&b=2;c=3',
      '?sellToken=0xA&sellTokenDecimals=6&note=sellToken&x=1%26sellToken%3D0xB',
    ])
      expect([query, sellTokenProblem(query)]).toEqual([query, undefined])
  })

  /** In each, one server reads 0xA and another 0xB, or none. */
  const unclear = [
    'sellToken=0xA&sellToken=0xB',
    'sellToken=0xA&SELLTOKEN=0xB',
    'selltoken=0xB&sellToken=0xA',
    'sellToken=0xA&sell%54oken=0xB',
    'sellToken=0xA&%2573ellToken=0xB',
    'sellToken=0xA&sellToken[]=0xB',
    'sellToken=0xA&sell_token=0xB',
    'sellToken=0xA&x%26sellToken=0xB',
    'sellToken=0xA;sellToken=0xB',
    'sellToken=0xA;x=1',
    'chainId=1;sellToken=0xA',
    'SELLTOKEN=0xA',
    'sell%54oken=0xA',
    '?sellToken=0xA',
    'sellToken=&sellToken=0xA',
  ]

  test.each(unclear)('is asked of nobody where it is unclear what is sold: %s', async (query) => {
    for (const path of WITH_FEE) {
      const { get, calls } = fixture()
      const { status, body } = await get(`/api/v1/dexagg${path}?${query}`)
      expect([status, calls]).toEqual([400, []])
      expect([
        body.error,
        body.status,
        body.details.data.details[0].field,
        body.message.startsWith('sellToken'),
      ]).toEqual(['INPUT_INVALID', 400, 'sellToken', true])
    }
  })

  test.each(['', '?', '?chainId=1', '?sellToken=', '?sellToken'])(
    'without a sell token is 400, in the words of the aggregator: %p',
    async (search) => {
      const { get, calls } = fixture()
      const { status, body } = await get(`/api/v1/zerox/quote${search}`)
      expect([status, body.message, calls]).toEqual([400, 'sellToken is required.', []])
    },
  )

  test('a parameter that followed a fee does not become part of another', () => {
    expect(withFee('?a=1&swapFeeBps=0;b=2', TREASURY)).toBe(`?a=1&b=2&${OURS}`)
    expect(withFee('?a=1;swapFeeBps=0&b=2', TREASURY)).toBe(`?a=1&b=2&${OURS}`)
    expect(withFee('?swapFeeBps=0;b=2', TREASURY)).toBe(`?b=2&${OURS}`)
  })

  test('however a query is put together, an aggregator reads our fee and no other', () => {
    const name = fc.constantFrom('swapFeeBps', 'swapFeeRecipient', 'swapFeeToken', 'sellToken', 'chainId', 'x')
    const spelt = fc
      .tuple(name, fc.func(fc.nat(4)))
      .map(([word, how]) => [...word].map((letter, at) => spell(letter, how(at))).join(''))
    const tail = fc.constantFrom('', '[]', '[0]', '%5B1%5D', '.0', '+', '%00')
    const query = fc.array(
      fc.tuple(spelt, tail, fc.constantFrom('=', '=0', '=0xE', ''), fc.constantFrom('&', '&&', ';', '?')),
      { maxLength: 8 },
    )
    fc.assert(
      fc.property(query, (parts) => {
        const { search } = new URL(`http://a.test/?${parts.flat().join('')}`)
        const read = [...new URLSearchParams(withFee(search, TREASURY).replaceAll(';', '&'))].map(
          ([key, value]) => [key.toLowerCase().replace(/[^a-z]/g, ''), value] as const,
        )
        const fees = read.filter(([key]) => /^swapfee(bps|recipient)$/.test(key))
        expect(fees).toEqual([
          ['swapfeerecipient', TREASURY],
          ['swapfeebps', '20'],
        ])
      }),
      { seed: 20, numRuns: scaled(100, 500) },
    )
  })

  test('a name that is encoded a hundred thousand times over takes linear time: more would never end', () => {
    const name = `%${'25'.repeat(100_000)}73wapFeeBps`
    expect(withFee(`?${name}=0&${name}=1`, TREASURY)).toContain(TREASURY)
  })
})

/** One letter, plain or hidden in one of four ways. */
function spell(letter: string, how: number): string {
  const hex = letter.charCodeAt(0).toString(16)
  return [letter, letter.toUpperCase(), letter.toLowerCase(), `%${hex}`, `%25${hex}`][how] ?? letter
}

describe('a route without a fee', () => {
  test.each(ROOTS.flatMap((root) => WITHOUT.map((path) => [root, path] as const)))(
    '%s%s forwards the query and adds nothing (contract 11.8)',
    async (root, path) => {
      const { get, calls } = fixture()
      await get(`${root}${path}?chainId=8453&b=%20&a&swapFeeBps=1`)
      await get(root + path)
      expect(calls).toEqual([
        { method: 'GET', path, query: '?chainId=8453&b=%20&a&swapFeeBps=1' },
        { method: 'GET', path, query: '' },
      ])
    },
  )

  test('passes a status on for one segment of a hash', async () => {
    const { get, calls } = fixture()
    await get(`/api/v1/dexagg/gasless/status/${HASH}?chainId=1`)
    expect(calls).toEqual([{ method: 'GET', path: `/gasless/status/${HASH}`, query: '?chainId=1' }])
  })

  test.each([
    ['/a/b', 404],
    ['/a%2Fb', 404],
    ['/..%2f..%2fswap%2fchains', 404],
    ['/a%252Fb', 400],
    ['/%5C..%5Cx', 400],
    ['/a%3Fb', 400],
    ['/a%23b', 400],
    [`/${'a'.repeat(129)}`, 400],
    ['/0x12.34', 400],
    ['/', 404],
  ])('asks nobody for the status of %s: %d (contract 11.7)', async (hash, status) => {
    const { get, calls } = fixture()
    expect([(await get(`/api/v1/dexagg/gasless/status${hash}`)).status, calls]).toEqual([status, []])
  })

  test('answers the hash of all zeros itself (contract 11.7)', async () => {
    for (const hash of [`0x${'0'.repeat(64)}`, `0X${'0'.repeat(64)}`, '0'.repeat(64)]) {
      const { get, calls } = fixture()
      const { status, headers, body } = await get(`/api/v1/zerox/gasless/status/${hash}`)
      expect([status, body.status, calls]).toEqual([200, 'placeholder', []])
      expect(headers.get('x-affiliate')).toBe('farebox')
      expect(body.message).toContain('tradeHash')
    }
  })

  test('answers the hash of all zeros without an aggregator as well (contract 11.15)', async () => {
    const zeros = new Request(`${ORIGIN}/api/v1/dexagg/gasless/status/0x${'0'.repeat(64)}`)
    const response = await kit().gateway.fetch(zeros)
    expect([response.status, ((await response.json()) as { status: string }).status]).toEqual([200, 'placeholder'])
  })
})

describe('a submission', () => {
  const submit = swap.find(({ name }) => name === 'swap.gasless_submit')
  const bytes = Uint8Array.from([
    0xef,
    0xbb,
    0xbf,
    ...new TextEncoder().encode('{ "trade":{},\n "chainId": 8453, "n": 12345678901234567890 }'),
    0xff,
    0x00,
  ])

  test('reaches the aggregator byte for byte (contract 11.6)', async () => {
    const { calls, ports } = fixture()
    const request = { search: '?a=1', bytes: async () => bytes } as unknown as FreeRequest
    const context = { vendors: ports.vendors, clock: ports.clock, log: testLog() } as unknown as FreeContext
    await submit?.answer(request, context)
    expect(calls).toEqual([{ method: 'POST', path: '/gasless/submit', query: '?a=1', body: bytes }])
  })

  test('passes through the gateway, and one that is too large is 413', async () => {
    const { send, calls } = fixture(undefined, { maxBody: 100 })
    const headers = { 'content-type': 'application/json' }
    expect((await send('POST', '/api/v1/zerox/gasless/submit', { headers, body: '{"chainId":1}' })).status).toBe(200)
    expect(
      (await send('POST', '/api/v1/zerox/gasless/submit', { headers, body: JSON.stringify({ a: 'x'.repeat(100) }) }))
        .status,
    ).toBe(413)
    expect(calls.map(({ path, body }) => [path, new TextDecoder().decode(body)])).toEqual([
      ['/gasless/submit', '{"chainId":1}'],
    ])
    const whole = fixture()
    await whole.send('POST', '/api/v1/zerox/gasless/submit', { body: bytes })
    expect(whole.calls.map(({ body }) => body)).toEqual([bytes])
  })
})

describe('a swap from price to confirmation', () => {
  const NINE: readonly (readonly [path: string, answer: Json])[] = [
    ['/price', { liquidityAvailable: true }],
    ['/quote', { transaction: { to: '0xT', data: '0xD' }, permit2: { eip712: { primaryType: 'Permit' } } }],
    ['/gasless/price', { liquidityAvailable: true }],
    [
      '/gasless/quote',
      { trade: { eip712: { primaryType: 'Trade' } }, approval: { eip712: { primaryType: 'Permit' } } },
    ],
    ['/gasless/quote', { trade: { eip712: { primaryType: 'Trade' } } }],
    ['/gasless/submit', { tradeHash: HASH }],
    [`/gasless/status/${HASH}`, { status: 'pending' }],
    [`/gasless/status/${HASH}`, { status: 'submitted' }],
    [`/gasless/status/${HASH}`, { status: 'confirmed' }],
    ['/gasless/approval-tokens', { tokens: ['0xT'] }],
    ['/gasless/chains', { chains: [{ chainId: 8453 }] }],
    ['/swap/chains', { chains: [{ chainName: 'Base', chainId: 8453 }] }],
  ]

  test.each(ROOTS)(
    'below %s is free at every step, in the aggregator’s own words and under X-Affiliate (contract 11.1, 11.5, 11.6, 11.7, 11.8, 11.9)',
    async (root) => {
      const answers = NINE.map(([, answer]) => answer)
      const { send, chain } = fixture(async () => ({ status: 200, body: answers.shift() ?? null }))
      for (const [path, answer] of NINE) {
        const isSubmit = path === '/gasless/submit'
        const order = JSON.stringify({ trade: {}, chainId: 8453 })
        const reply = await send(
          isSubmit ? 'POST' : 'GET',
          `${root}${path}${isSubmit ? '' : `?${TRADE}`}`,
          isSubmit ? { headers: { 'content-type': 'application/json' }, body: order } : {},
        )
        expect([path, reply.status, reply.body]).toEqual([path, 200, answer])
        expect(reply.headers.get('x-affiliate')).toBe('farebox')
      }
      expect(chain.transfers).toEqual([])
    },
  )
})

describe('replies of the aggregator', () => {
  const PRICE = '/api/v1/dexagg/price?sellToken=0xS'

  test.each([200, 201])(
    'of success, %d, is passed on whole, under X-Affiliate, and is not cached (contract 11.9)',
    async (status) => {
      const body = { liquidityAvailable: false, fees: { integratorFee: null }, zid: '0x1' }
      const answer = await fixture(async () => ({ status, body })).get(PRICE)
      expect([
        answer.status,
        answer.body,
        answer.headers.get('x-affiliate'),
        answer.headers.get('cache-control'),
      ]).toEqual([status, body, 'farebox', 'no-store'])
    },
  )

  test.each([400, 403, 404, 409, 422, 429])(
    'of a mistake of the caller’s keeps its status %d, with error, message, status and details (contract 11.10)',
    async (status) => {
      const details = {
        name: 'INPUT_INVALID',
        message: 'The input is invalid',
        data: { zid: '0x1', details: [{ field: 'taker', reason: 'Invalid ethereum address' }] },
      }
      const { status: answered, headers, body } = await fixture(async () => ({ status, body: details })).get(PRICE)
      expect(answered).toBe(status)
      expect(body).toEqual({ error: 'INPUT_INVALID', message: 'The input is invalid', status, details })
      expect(headers.has('x-affiliate')).toBe(false)
    },
  )

  test.each([[null], ['text'], [[1]], [{ name: 7 }]])(
    'of a mistake in another shape, %p, is still all four',
    async (details) => {
      const { body } = await fixture(async () => ({ status: 400, body: details as Json })).get(PRICE)
      expect(body).toEqual({ error: expect.any(String), message: expect.any(String), status: 400, details })
    },
  )

  test('is forwarded as it came: no number is rounded, no member lost, whether it succeeds or refuses', async () => {
    const text = '{ "a": 12345678901234567890.123456789012345678,\n "a": 1e400, "name": "X", "é": "\\u00e9" }'
    for (const [status, printed] of [
      [200, text],
      [400, `{"error":"X","message":"The swap aggregator refused this request.","status":400,"details":${text}}`],
    ] as const) {
      const { gateway } = fixture(async () => ({ status, text, body: JSON.parse(text) as Json }))
      expect(await (await gateway.fetch(new Request(ORIGIN + PRICE))).text()).toBe(printed)
    }
  })

  test('about when to come again is passed on', async () => {
    for (const [status, answered] of [
      [429, 429],
      [503, 502],
    ] as const) {
      const { status: got, headers } = await fixture(async () => ({ status, body: null, retryAfter: '7' })).get(PRICE)
      expect([got, headers.get('retry-after')]).toEqual([answered, '7'])
    }
    expect((await fixture(async () => ({ status: 429, body: null })).get(PRICE)).headers.has('retry-after')).toBe(false)
  })

  test.each([500, 502, 503, 302])(
    'of trouble of its own, %d, is 502 Upstream provider error with its status (contract 11.11)',
    async (status) => {
      const { status: answered, body } = await fixture(async () => ({ status, body: { secret: 'trace' } })).get(PRICE)
      expect([answered, body]).toEqual([502, { error: 'Upstream provider error', message: expect.any(String), status }])
    },
  )

  test('is awaited for 30 seconds, and then the call is ended: 502 did not respond in time (contract 11.11)', async () => {
    let ended = false
    const { get, clock } = fixture(
      (_, { signal }) => new Promise(() => signal.addEventListener('abort', () => (ended = true))),
    )
    const asking = get(PRICE)
    await clock.advance(29_999)
    expect(ended).toBe(false)
    await clock.advance(1)
    const { status, body } = await asking
    expect([status, ended]).toEqual([502, true])
    expect(`${body.error} ${body.message}`).toContain('did not respond in time')
  })

  test('can be nothing: 502, without the reason', async () => {
    for (const error of [new ApiError('MODEL_UNAVAILABLE', { message: 'secret' }), new Error('secret')]) {
      const { status, body } = await fixture(() => Promise.reject(error)).get(PRICE)
      expect([status, body.error, JSON.stringify(body).includes('secret')]).toEqual([
        502,
        'Upstream provider error',
        false,
      ])
    }
    const late = await fixture(() => Promise.reject(new ApiError('UPSTREAM_TIMEOUT'))).get(PRICE)
    expect([late.status, late.body.error]).toEqual([502, 'Upstream provider did not respond in time'])
  })

  test('about our key is 503', async () => {
    expect((await fixture(() => Promise.reject(new ApiError('NOT_CONFIGURED'))).get(PRICE)).status).toBe(503)
  })
})

describe('the passthrough', () => {
  test('is 503 where no aggregator is configured (contract 11.12)', async () => {
    const { gateway } = kit()
    for (const path of [...WITH_FEE, ...WITHOUT, `/gasless/status/${HASH}`]) {
      const { status, body } = await read(await gateway.fetch(new Request(`${ORIGIN}/api/v1/dexagg${path}`)))
      expect([path, status, typeof body.error]).toEqual([path, 503, 'string'])
    }
    const submit = new Request(`${ORIGIN}/api/v1/dexagg/gasless/submit`, { method: 'POST', body: '{}' })
    expect((await gateway.fetch(submit)).status).toBe(503)
  })

  test.each(ROOTS)('answers an unknown path below %s with 404 and the nine routes (contract 11.13)', async (root) => {
    for (const path of [
      '',
      '/',
      '/prices',
      '/price/',
      '/gasless',
      '/gasless/price/x',
      '/gasless%2Fprice',
      '/quote%2F..%2Fprice',
      '/trade-analytics',
      '/a/b/c/d',
    ]) {
      for (const method of ['GET', 'POST']) {
        const { send, calls } = fixture()
        const { status, body } = await send(method, root + path)
        expect([path, status, body.routes?.length, calls]).toEqual([path, 404, 9, []])
        expect(body.routes).toContain('GET /api/v1/dexagg/gasless/status/{trade_hash}')
      }
    }
  })

  test('answers a wrong method with 405, and names the right one (contract 11.13)', async () => {
    for (const [method, path, right] of [
      ['POST', '/price', 'GET'],
      ['PUT', '/quote', 'GET'],
      ['DELETE', '/swap/chains', 'GET'],
      ['GET', '/gasless/submit', 'POST'],
      ['POST', `/gasless/status/${HASH}`, 'GET'],
    ] as const) {
      const { send, calls } = fixture()
      const { status, headers, body } = await send(method, `/api/v1/zerox${path}`)
      expect([path, status, headers.get('allow')?.includes(right), body.message.includes(right), calls]).toEqual([
        path,
        405,
        true,
        true,
        [],
      ])
    }
  })

  test('asks no payment, and looks at none (contract 11.4)', async () => {
    const { get, chain } = fixture()
    expect(
      (
        await get('/api/v1/dexagg/price?sellToken=0xS', {
          headers: { 'payment-signature': 'rubbish', 'x-payment': 'more' },
        })
      ).status,
    ).toBe(200)
    expect(chain.transfers).toEqual([])
  })

  test('hands nothing of the caller’s headers on', async () => {
    const { get, calls } = fixture()
    await get('/api/v1/dexagg/swap/chains', {
      headers: { '0x-api-key': 'mine', cookie: 'c=1', authorization: 'Bearer x' },
    })
    expect(calls).toEqual([{ method: 'GET', path: '/swap/chains', query: '' }])
  })

  test('shows nine routes, each under both names, and nothing of the operator’s (contract 11.1)', () => {
    const printed = swap.filter(({ hidden }) => !hidden)
    expect(printed.map(({ path, aliases }) => [path, aliases])).toEqual(
      printed.map(({ path }) => [path, [path.replace('dexagg', 'zerox')]]),
    )
    expect([printed.length, JSON.stringify(swap).includes('analytics')]).toEqual([9, false])
  })
})

describe('trade analytics', () => {
  const PATHS = ['/trade-analytics/swap', '/trade-analytics/gasless']
  const operator = { headers: { authorization: 'Bearer operator-secret' } }

  test.each(PATHS)('%s is the operator’s, with its query as it came (contract 3.9, 11.14)', async (path) => {
    const { get, calls } = fixture(undefined, { operatorToken: 'operator-secret' })
    expect((await get(`/api/v1/dexagg${path}?cursor=a%3D&startTimestamp=1`, operator)).status).toBe(200)
    expect(calls).toEqual([{ method: 'GET', path, query: '?cursor=a%3D&startTimestamp=1' }])
  })

  test('is 404 to everybody else, like any path that does not exist (contract 3.9, 11.14)', async () => {
    const { get, send, calls } = fixture(undefined, { operatorToken: 'operator-secret' })
    const unknown = await get('/api/v1/dexagg/nothing/here')
    for (const path of PATHS) {
      for (const headers of [
        {},
        { authorization: 'Bearer wrong' },
        { authorization: 'operator-secret' },
        { authorization: 'bearer operator-secret' },
      ] as Record<string, string>[]) {
        const { status, body } = await get(`/api/v1/dexagg${path}`, { headers })
        expect([status, body]).toEqual([404, unknown.body])
      }
      const posted = await send('POST', `/api/v1/zerox${path}`, operator)
      expect([posted.status, posted.body]).toEqual([404, unknown.body])
    }
    expect(calls).toEqual([])
  })

  test('is nobody’s where no operator token is set', async () => {
    expect(
      (await fixture().get('/api/v1/dexagg/trade-analytics/swap', { headers: { authorization: 'Bearer undefined' } }))
        .status,
    ).toBe(404)
  })
})
