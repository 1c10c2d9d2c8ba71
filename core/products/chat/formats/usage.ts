/** Token usage of a chat answer in the contract's shape (contract 6.21). */
import { type Json, type Fields, fieldsOf } from '../../../lib/json.ts'

/**
 * Normalizes the spellings of all chat vendors. Cache members are present only where something was cached.
 * `completion_tokens` includes reasoning, also for vendors that count it only in `total_tokens` (xAI). Unknown members
 * are kept. Idempotent.
 */
export function usageOf(usage: Fields): Fields {
  if (isPlain(usage)) return usage
  const {
    prompt_tokens,
    completion_tokens,
    total_tokens,
    prompt_tokens_details,
    completion_tokens_details,
    ...others
  } = usage
  const {
    prompt_cache_hit_tokens,
    prompt_cache_miss_tokens,
    cache_read_input_tokens,
    cache_creation_input_tokens,
    ...rest
  } = others
  const { cached_tokens, cached_creation_tokens, cache_write_tokens, ...details } = fieldsOf(prompt_tokens_details)
  const read = first(cached_tokens, cache_read_input_tokens, prompt_cache_hit_tokens)
  const written = first(cached_creation_tokens, cache_write_tokens, cache_creation_input_tokens)
  const prompt = first(prompt_tokens) || Math.max(first(total_tokens) - first(completion_tokens), 0)
  const total = Math.max(first(total_tokens), prompt + first(completion_tokens))
  const promptDetails = {
    ...details,
    ...(read > 0 && { cached_tokens: read }),
    ...(written > 0 && { cached_creation_tokens: written }),
  }
  const completionDetails = fieldsOf(completion_tokens_details)
  return {
    ...rest,
    prompt_tokens: prompt,
    completion_tokens: total - prompt,
    total_tokens: total,
    ...(Object.keys(promptDetails).length > 0 && { prompt_tokens_details: promptDetails }),
    ...(Object.keys(completionDetails).length > 0 && { completion_tokens_details: completionDetails }),
    ...(read > 0 && { cache_read_input_tokens: read }),
    ...(written > 0 && { cache_creation_input_tokens: written }),
  }
}

const COUNTS: ReadonlySet<string> = new Set(['prompt_tokens', 'completion_tokens', 'total_tokens'])

/** Whether usage has the three counts, which add up, and nothing else: there is nothing to normalize. */
function isPlain(usage: Fields): boolean {
  const { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total } = usage
  if (!Number.isSafeInteger(prompt) || !Number.isSafeInteger(completion)) return false
  if ((prompt as number) <= 0 || (completion as number) < 0) return false
  if (total !== (prompt as number) + (completion as number)) return false
  for (const name in usage) if (!COUNTS.has(name)) return false
  return true
}

/** Whether a vendor has reported any counts. */
export const isCounted = (usage: Fields | undefined): usage is Fields =>
  usage !== undefined && first(usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) > 0

/** Usage without its count of reasoning, which is part of `completion_tokens`. */
export function withoutReasoningTokens(usage: Fields): Fields {
  if (usage.completion_tokens_details === undefined) return usage
  const { completion_tokens_details, ...rest } = usage
  const { reasoning_tokens: _, ...details } = fieldsOf(completion_tokens_details)
  return { ...rest, ...(Object.keys(details).length > 0 && { completion_tokens_details: details }) }
}

const CHARACTERS_PER_TOKEN = 4

/** Estimated usage when a vendor reports none, at four characters a token; marked as estimated (contract 6.65). */
export function estimatedUsage({ prompt, characters }: { prompt: number; characters: number }): Fields {
  const completion = Math.ceil(characters / CHARACTERS_PER_TOKEN)
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion, estimated: true }
}

/** The first count above zero; 0 where there is none. */
function first(...counts: readonly (Json | undefined)[]): number {
  return (
    (counts.find((count) => typeof count === 'number' && Number.isFinite(count) && count > 0) as number | undefined) ??
    0
  )
}
