import { describe, expect, test } from 'bun:test'
import { tokenCounts, usageCost } from '../../../../core/products/chat/cost.ts'
import { answerText } from '../../../../core/products/chat/formats/answer_text.ts'
import { type ChatInput } from '../../../../core/products/chat/sized_request.ts'
import { dollars } from '../../../../core/x402/money.ts'

const billing = {
  mode: 'paid',
  input: dollars('2'),
  output: dollars('10'),
  cacheRead: dollars('0.2'),
  cacheWrite: dollars('2.5'),
  long: { from: 1_000, input: dollars('4'), output: dollars('15') },
} as const
const input = (more: object = {}) => ({ row: { billing }, surcharge: undefined, ...more }) as unknown as ChatInput

describe('tokens by rate', () => {
  const counts = { input: 100, cacheRead: 50, cacheWrite: 10, output: 7 }

  test('are the same in every format that reports them (contract 1.72)', () => {
    const chat = {
      prompt_tokens: 160,
      completion_tokens: 7,
      total_tokens: 167,
      prompt_tokens_details: { cached_tokens: 50, cached_creation_tokens: 10 },
    }
    const messages = {
      input_tokens: 100,
      cache_read_input_tokens: 50,
      cache_creation_input_tokens: 10,
      output_tokens: 7,
    }
    const responses = { input_tokens: 150, output_tokens: 7, input_tokens_details: { cached_tokens: 50 } }
    const generateContent = {
      promptTokenCount: 150,
      cachedContentTokenCount: 50,
      candidatesTokenCount: 4,
      thoughtsTokenCount: 3,
    }
    expect(tokenCounts(chat)).toEqual(counts)
    expect(tokenCounts(messages)).toEqual(counts)
    expect(tokenCounts(responses)).toEqual({ ...counts, cacheWrite: 0 })
    expect(tokenCounts(generateContent)).toEqual({ ...counts, cacheWrite: 0 })
  })

  test('that were not reported, or were estimated by the gateway, do not count', () => {
    const estimated = { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10, estimated: true }
    const zero = { prompt_tokens: 0, completion_tokens: 0 }
    for (const usage of [null, {}, [], 'many', estimated, zero, { prompt_tokens: 'ten' }])
      expect(tokenCounts(usage as never)).toBeUndefined()
  })

  test('that are impossible are corrected: negative, too large, or more cached than there are', () => {
    const greedy = { prompt_tokens: 10, completion_tokens: -5, prompt_tokens_details: { cached_tokens: 99 } }
    expect(tokenCounts(greedy)).toEqual({ input: 0, cacheRead: 10, cacheWrite: 0, output: 0 })
    expect(tokenCounts({ prompt_tokens: 1e300, completion_tokens: 1 })).toEqual({
      input: 0,
      cacheRead: 0,
      cacheWrite: 0,
      output: 1,
    })
  })

  test('cost their own rate each, those of a long prompt where it is long, and the fee; rounded up once', () => {
    // 200 + 10 + 25 + 70 micro-USDC, and the fee
    expect(usageCost(input(), counts) as bigint).toBe(1_305n)
    expect(usageCost(input({ surcharge: dollars('0.01') }), counts) as bigint).toBe(11_305n)
    // 1,000 x 4 + 7 x 15, and the fee
    expect(usageCost(input(), { input: 1_000, cacheRead: 0, cacheWrite: 0, output: 7 }) as bigint).toBe(5_105n)
    const flat = { row: { billing: { mode: 'flat', price: dollars('1') } } } as unknown as ChatInput
    expect(usageCost(flat, counts)).toBeUndefined()
  })
})

test('the delivered text is found in the events of every format', () => {
  const events = [
    'data: {"choices":[{"delta":{"content":"Why ","reasoning_content":"hm "}}]}',
    'data: {"choices":[{"delta":{"tool_calls":[{"function":{"name":"look","arguments":"{}"}}]}}]}',
    'event: content_block_start\ndata: {"content_block":{"type":"tool_use","name":"find"}}',
    'event: content_block_delta\ndata: {"delta":{"type":"text_delta","text":"not "}}',
    'event: content_block_delta\ndata: {"delta":{"type":"input_json_delta","partial_json":"[1]"}}',
    'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"now"}',
    'data: {"candidates":[{"content":{"parts":[{"text":" or then"}]}}]}',
    ': working',
    'data: [DONE]',
    'data: {"choices":[{"delta":{"content":"cut o',
  ].join('\n\n')
  expect(answerText(new TextEncoder().encode(events))).toBe('Why hm look{}findnot [1]now or then')
})
