import { describe, expect, test } from 'bun:test'
import { ApiError, plain, rateLimited } from '../../../core/http/errors.ts'

const shown = (apiError: ApiError) => {
  const { status, headers, body } = plain(apiError)
  return { status, headers, body: JSON.parse(body) }
}

describe('faults', () => {
  test('read as their label, and nothing more, unless told more', () => {
    expect(shown(new ApiError('JOB_NOT_FOUND'))).toEqual({
      status: 404,
      headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
      body: { error: 'Job not found' },
    })
  })

  test('carry message, details, fields and headers', () => {
    const apiError = new ApiError('WORK_FAILED', {
      error: 'Image generation failed',
      message: 'm',
      details: ['d'],
      fields: { job_id: 'job_1' },
      headers: { 'x-a': 'b' },
    })
    expect(shown(apiError)).toEqual({
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
    expect(shown(new ApiError('INVALID_BODY')).body).toEqual({ error: 'Invalid request body' })
    const { status, body } = shown(new ApiError('PAYMENT_VERIFICATION_UNAVAILABLE'))
    expect([status, body]).toEqual([
      503,
      { error: 'Payment verification unavailable', code: 'PAYMENT_VERIFICATION_UNAVAILABLE' },
    ])
  })

  test("a vendor's rate limit reads as the contract says", () => {
    const { status, headers, body } = shown(rateLimited('vendor-a', 17))
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
