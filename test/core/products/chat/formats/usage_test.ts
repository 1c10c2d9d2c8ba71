import { describe, expect, test } from 'bun:test'
import type { Fields } from '../../../../../core/mod.ts'
import { usageOf } from '../../../../../core/products/chat/formats/usage.ts'

describe('usageOf() reads', () => {
  const rows: readonly (readonly [string, Fields, Fields])[] = [
    [
      'plain counts',
      { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 },
      { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 },
    ],
    [
      'counts without a total',
      { prompt_tokens: 9, completion_tokens: 3 },
      { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 },
    ],
    [
      'a total without a prompt',
      { completion_tokens: 3, total_tokens: 12 },
      { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 },
    ],
    ['nothing at all, as zeros', {}, { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }],
    [
      'what is no count as none',
      { prompt_tokens: null, completion_tokens: '3', total_tokens: -1 },
      { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
    ],
    [
      "OpenAI's cache, read and written",
      {
        prompt_tokens: 9,
        completion_tokens: 3,
        total_tokens: 12,
        prompt_tokens_details: { cached_tokens: 5, cache_write_tokens: 2, audio_tokens: 0 },
      },
      {
        prompt_tokens: 9,
        completion_tokens: 3,
        total_tokens: 12,
        prompt_tokens_details: { audio_tokens: 0, cached_tokens: 5, cached_creation_tokens: 2 },
        cache_read_input_tokens: 5,
        cache_creation_input_tokens: 2,
      },
    ],
    [
      'a cache that held nothing, as no members',
      {
        prompt_tokens: 9,
        completion_tokens: 3,
        total_tokens: 12,
        prompt_tokens_details: { cached_tokens: 0 },
        completion_tokens_details: null,
      },
      { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 },
    ],
    [
      "Anthropic's labels",
      {
        prompt_tokens: 9,
        completion_tokens: 3,
        total_tokens: 12,
        cache_read_input_tokens: 4,
        cache_creation_input_tokens: 1,
      },
      {
        prompt_tokens: 9,
        completion_tokens: 3,
        total_tokens: 12,
        prompt_tokens_details: { cached_tokens: 4, cached_creation_tokens: 1 },
        cache_read_input_tokens: 4,
        cache_creation_input_tokens: 1,
      },
    ],
    [
      "DeepSeek's hits and misses",
      {
        prompt_tokens: 9,
        completion_tokens: 3,
        total_tokens: 12,
        prompt_cache_hit_tokens: 6,
        prompt_cache_miss_tokens: 3,
      },
      {
        prompt_tokens: 9,
        completion_tokens: 3,
        total_tokens: 12,
        prompt_tokens_details: { cached_tokens: 6 },
        cache_read_input_tokens: 6,
      },
    ],
    [
      'reasoning outside the completion, as xAI counts it',
      {
        prompt_tokens: 32,
        completion_tokens: 9,
        total_tokens: 135,
        completion_tokens_details: { reasoning_tokens: 94 },
      },
      {
        prompt_tokens: 32,
        completion_tokens: 103,
        total_tokens: 135,
        completion_tokens_details: { reasoning_tokens: 94 },
      },
    ],
    [
      'reasoning inside the completion, untouched',
      {
        prompt_tokens: 32,
        completion_tokens: 103,
        total_tokens: 135,
        completion_tokens_details: { reasoning_tokens: 94 },
      },
      {
        prompt_tokens: 32,
        completion_tokens: 103,
        total_tokens: 135,
        completion_tokens_details: { reasoning_tokens: 94 },
      },
    ],
    [
      'members that it does not know, untouched',
      { num_sources_used: 4 },
      { num_sources_used: 4, prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
    ],
  ]

  test.each(rows)('%s', (_, usage, expected) => expect(usageOf(usage)).toEqual(expected))
  test.each(rows)('%s, twice, as once', (_, usage) => expect(usageOf(usageOf(usage))).toEqual(usageOf(usage)))
})
