import { describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { errorReply, type ErrorFormat } from '../../../core/http/error_formats.ts'
import { ApiError, type ApiErrorCode, apiErrorCodes, plain, rateLimited } from '../../../core/http/errors.ts'
import { endpoints } from '../../../core/mod.ts'
import { scriptedChat, wholeAnswer } from '../../fakes/chat.ts'
import { kit, ORIGIN } from '../../kit.ts'

const rendered = (apiError: ApiError) => {
  const { status, headers, body } = plain(apiError)
  return { status, headers, body: JSON.parse(body) }
}

describe('faults', () => {
  test('read as their label, and nothing more, unless told more', () => {
    expect(rendered(new ApiError('JOB_NOT_FOUND'))).toEqual({
      status: 404,
      headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
      body: { error: 'Job not found' },
    })
  })

  test('carry message, details, fields and headers (contract 3.1)', () => {
    const apiError = new ApiError('WORK_FAILED', {
      error: 'Image generation failed',
      message: 'm',
      details: ['d'],
      fields: { job_id: 'job_1' },
      headers: { 'x-a': 'b' },
    })
    expect(rendered(apiError)).toEqual({
      status: 500,
      headers: { 'content-type': 'application/json', 'cache-control': 'no-store', 'x-a': 'b' },
      body: { error: 'Image generation failed', message: 'm', job_id: 'job_1', details: ['d'] },
    })
  })

  test('are errors whose message is the best text that they have', () => {
    expect(new ApiError('TOO_LARGE').message).toBe('Request body too large')
    expect(new ApiError('TOO_LARGE', { error: 'e' }).message).toBe('e')
    expect(new ApiError('TOO_LARGE', { error: 'e', message: 'm' }).message).toBe('m')
    expect(new ApiError('TOO_LARGE')).toBeInstanceOf(Error)
    expect(new ApiError('TOO_LARGE').name).toBe('ApiError')
  })

  test('show their code only where the contract has one', () => {
    expect(rendered(new ApiError('INVALID_BODY')).body).toEqual({ error: 'Invalid request body' })
    const { status, body } = rendered(new ApiError('PAYMENT_VERIFICATION_UNAVAILABLE'))
    expect([status, body]).toEqual([
      503,
      { error: 'Payment verification unavailable', code: 'PAYMENT_VERIFICATION_UNAVAILABLE' },
    ])
  })

  test("a vendor's rate limit reads as the contract says (contract 3.10)", () => {
    const { status, headers, body } = rendered(rateLimited('vendor-a', 17))
    expect(status).toBe(429)
    expect(headers).toMatchObject({ 'retry-after': '17', 'x-ratelimit-source': 'vendor-a' })
    expect(body).toEqual({
      error: 'Rate limit exceeded',
      code: 'RATE_LIMITED',
      source: 'vendor-a',
      retry_after_seconds: 17,
      details: 'The model is at capacity. Nothing was charged.',
    })
  })
})

describe('every 503 has Retry-After (contract 3.25)', () => {
  test('whatever it is called and whoever reads it', () => {
    const formats: readonly ErrorFormat[] = ['plain', 'market', 'chat', 'messages', 'responses', 'generate_content']
    const found = formats.flatMap((format) =>
      apiErrorCodes.flatMap((code) => {
        const { status, headers } = errorReply(new ApiError(code), format)
        return status === 503 ? [[code, headers['retry-after']] as const] : []
      }),
    )
    expect(new Set(found.map(([code]) => code))).toEqual(
      new Set([
        'WORK_FAILED',
        'NOT_CONFIGURED',
        'MODEL_UNAVAILABLE',
        'PROVIDER_CONFIG_ERROR',
        'BUSY',
        'NOT_READY',
        'MAINTENANCE',
        'PAYMENT_VERIFICATION_UNAVAILABLE',
      ]),
    )
    for (const [, retry] of found) expect(retry).toMatch(/^[1-9]\d*$/)
    // An error with its own retry time keeps it.
    expect(errorReply(new ApiError('BUSY', { headers: { 'retry-after': '10' } }), 'chat').headers['retry-after']).toBe(
      '10',
    )
  })

  test('on every route of a gateway that sells nothing', async () => {
    const { gateway } = kit({
      ports: { vendors: { images: () => undefined, chat: () => undefined, video: () => undefined } },
    })
    let count = 0
    for (const endpoint of endpoints) {
      const path = endpoint.path.replaceAll(/\{(\w+)\.{0,3}\}/g, '$1')
      for (const body of [
        '{}',
        JSON.stringify({ model: 'x', prompt: 'x', messages: [{ role: 'user', content: 'x' }] }),
      ]) {
        const { method } = endpoint
        const reply = await gateway.fetch(
          new Request(`${ORIGIN}${path}`, {
            method,
            ...(method === 'POST' && { body, headers: { 'content-type': 'application/json' } }),
          }),
        )
        await reply.body?.cancel()
        if (reply.status !== 503) continue
        count++
        expect([endpoint.name, reply.headers.get('retry-after')]).toEqual([
          endpoint.name,
          expect.stringMatching(/^[1-9]\d*$/),
        ])
      }
    }
    expect(count).toBeGreaterThan(20)
  })
})

test('a chat error says its type by its status (contract 3.16)', () => {
  const types: Readonly<Record<string, readonly ApiErrorCode[]>> = {
    rate_limit_error: ['RATE_LIMITED', 'TOO_MANY_REQUESTS', 'FREE_TIER_RATE_LIMITED'],
    permission_error: ['NOT_ALLOWED', 'PAYER_MISMATCH'],
    not_found_error: ['NOT_FOUND', 'JOB_NOT_FOUND'],
    timeout_error: ['UPSTREAM_TIMEOUT'],
    invalid_request_error: ['INVALID_JSON', 'INVALID_BODY', 'CONTENT_POLICY', 'TOO_LARGE', 'METHOD_NOT_ALLOWED'],
    api_error: ['MODEL_UNAVAILABLE', 'PROVIDER_CONFIG_ERROR', 'INTERNAL', 'NOT_CONFIGURED', 'BUSY'],
  }
  for (const [type, codes] of Object.entries(types))
    for (const code of codes) {
      const { body } = errorReply(new ApiError(code, { message: 'm' }), 'chat')
      expect([code, JSON.parse(String(body)).error.type]).toEqual([code, type])
    }
})

test('a body that is too slow is 408, and one that was cut off 400 (contract 4.14)', () => {
  expect(rendered(new ApiError('TOO_SLOW')).status).toBe(408)
  const { status, body } = rendered(new ApiError('INCOMPLETE_BODY'))
  expect([status, body.error]).toEqual([400, 'Incomplete request body'])
})

describe('programs that show error.message alone find the sentence there (contract 3.26)', () => {
  const { gateway } = kit({ chatVendor: scriptedChat(async () => wholeAnswer()) })
  const post = async (path: string, body: object, headers: Readonly<Record<string, string>> = {}) => {
    const reply = await gateway.fetch(
      new Request(`${ORIGIN}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
      }),
    )
    return { status: reply.status, challenge: reply.headers.get('payment-required'), body: await reply.json() }
  }
  const CHAT = [
    '/api/v1/chat/completions',
    { model: 'vendor-a/chat-6-small', messages: [{ role: 'user', content: 'hi' }] },
  ] as const
  const IMAGE = ['/api/v1/images/generations', { model: 'vendor-a/image-1', prompt: 'a fox' }] as const
  const BEARER = { authorization: 'Bearer anything' }
  const SDK = { 'x-stainless-lang': 'js' }

  test.each([
    ['chat, for a bearer', ...CHAT, BEARER],
    ['chat, for an SDK', ...CHAT, SDK],
    ['images, for an SDK', ...IMAGE, SDK],
  ] as const)('the 402 of %s keeps its challenge and every other member', async (_, path, body, headers) => {
    const [plainly, forSdk] = [await post(path, body), await post(path, body, headers)]
    expect([plainly.status, plainly.body.error]).toEqual([402, 'Payment Required'])
    const { error, ...others } = forSdk.body
    expect({ ...others, error: 'Payment Required' }).toEqual(plainly.body)
    expect(error).toEqual({
      message: `Payment Required: ${plainly.body.message}`,
      type: 'payment_required',
      param: null,
      code: null,
    })
    expect(error.message.slice(0, 150)).toMatch(/costs 0\.\d+ USDC\. Sign one of the offers/)
    expect([forSdk.status, JSON.parse(atob(forSdk.challenge ?? '')).accepts]).toEqual([402, forSdk.body.accepts])
  })

  test('a bearer of a route without SDKs reads the plain form, as operators do', async () => {
    expect((await post(...IMAGE, BEARER)).body.error).toBe('Payment Required')
  })

  test('the OpenAI SDK prints what a call costs, and what is wrong with it', async () => {
    const client = new OpenAI({
      baseURL: `${ORIGIN}/api/v1`,
      apiKey: 'none',
      maxRetries: 0,
      fetch: (url, init) => gateway.fetch(new Request(url as string, init as RequestInit)),
    })
    const printed = (work: Promise<unknown>) =>
      work.then(
        () => 'no error',
        (error: Error) => error.message,
      )
    const chat = await printed(client.chat.completions.create({ ...CHAT[1], messages: [...CHAT[1].messages] }))
    expect(chat).toMatch(/^402 Payment Required: This request costs 0\.\d+ USDC/)
    expect(await printed(client.images.generate(IMAGE[1]))).toMatch(/^402 Payment Required: This request costs 0\.022/)
    expect(await printed(client.images.generate({ ...IMAGE[1], n: 11 }))).toMatch(/^400 Invalid request body: n: /)
    expect(await printed(client.fineTuning.jobs.list())).toMatch(/^404 Not found: /i)
  })
})
