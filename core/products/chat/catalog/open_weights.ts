/** Open-weight models: the free set, and those at a flat price. */
import { dollars } from '../../../x402/money.ts'
import type { ChatBilling, ChatRow } from '../../../ports/vendors/chat.ts'
import { chatRow, FREE, released, THINKS } from './row.ts'

/** Open-weight models use the ids of their hosts. */
const open = { structured: 'forwarded', maxOutput: 16_384, contextWindow: 131_072, categories: THINKS } as const

const flat = (price: string): ChatBilling => ({ mode: 'flat', price: dollars(price) })

export const free: readonly ChatRow[] = [
  chatRow('vendor-open/gpt-oss-120b', 'openai/gpt-oss-120b', {
    ...open,
    ...released(2025, 8, 5),
    billing: FREE,
    name: 'GPT OSS 120B',
    upstream: 'openai/gpt-oss-120b',
    also: ['nvidia/gpt-oss-120b'],
    description: 'Open weights: reasoning and tools with 117 billion parameters.',
  }),
  chatRow('vendor-open/gpt-oss-20b', 'openai/gpt-oss-20b', {
    ...open,
    ...released(2025, 8, 5),
    billing: FREE,
    name: 'GPT OSS 20B',
    upstream: 'openai/gpt-oss-20b',
    also: ['nvidia/gpt-oss-20b'],
    description: 'Open weights: the small sibling, which answers fast.',
  }),
  chatRow('vendor-open/qwen3-coder', 'qwen/qwen3-coder-480b-a35b-instruct', {
    ...open,
    ...released(2025, 7, 22),
    billing: FREE,
    upstream: 'qwen/qwen3-coder-480b-a35b-instruct',
    also: ['qwen3-coder', 'qwen3-coder-480b', 'nvidia/qwen3-coder-480b'],
    contextWindow: 262_144,
    categories: ['chat', 'coding'],
    description: 'Open weights: a large model for code.',
  }),
  chatRow('vendor-open/mistral-small-4', 'mistralai/mistral-small-4-119b-2603', {
    ...open,
    ...released(2026, 3, 16),
    billing: FREE,
    upstream: 'mistralai/mistral-small-4-119b-2603',
    also: ['mistral-small-4', 'nvidia/mistral-small-4-119b'],
    contextWindow: 262_144,
    description: 'Open weights: general chat, reasoning and code.',
  }),
  // Release day not confirmed.
  chatRow('vendor-open/nemotron-3-ultra', 'nvidia/nemotron-3-ultra-550b-a55b', {
    ...open,
    ...released(2026, 6, 1),
    billing: FREE,
    upstream: 'nvidia/nemotron-3-ultra-550b-a55b',
    also: ['nemotron-3-ultra', 'nemotron-3-ultra-550b'],
    contextWindow: 1_000_000,
    description: 'Open weights: reasoning over a million tokens.',
  }),
  chatRow('vendor-open/llama-4-maverick', 'meta/llama-4-maverick-17b-128e-instruct', {
    ...open,
    ...released(2025, 4, 5),
    billing: FREE,
    upstream: 'meta/llama-4-maverick-17b-128e-instruct',
    also: ['llama-4-maverick', 'nvidia/llama-4-maverick'],
    contextWindow: 1_000_000,
    categories: ['chat', 'vision'],
    images: 'tiles_512',
    description: 'Open weights: chat with text and images.',
  }),
]

/** Flat prices are set by this gateway, fee included. */
export const flatPriced: readonly ChatRow[] = [
  chatRow('vendor-open/llama-3.3-70b', 'meta/llama-3.3-70b-instruct', {
    ...open,
    ...released(2024, 12, 6),
    billing: flat('0.001'),
    upstream: 'meta/llama-3.3-70b-instruct',
    also: ['llama-3.3-70b'],
    categories: ['chat', 'coding'],
    description: 'Open weights: a dependable general model.',
  }),
  chatRow('vendor-open/qwen3-32b', 'qwen/qwen3-32b', {
    ...open,
    ...released(2025, 4, 28),
    billing: flat('0.001'),
    upstream: 'qwen/qwen3-32b',
    description: 'Open weights: a compact reasoning model.',
  }),
  chatRow('vendor-open/gemma-4-31b', 'google/gemma-4-31b-it', {
    ...open,
    ...released(2026, 4, 2),
    billing: flat('0.001'),
    upstream: 'google/gemma-4-31b-it',
    also: ['gemma-4-31b', 'nvidia/gemma-4-31b'],
    categories: ['chat', 'reasoning', 'vision'],
    images: 'tiles_512',
    description: 'Open weights: compact, with images.',
  }),
  chatRow('vendor-open/qwen3-235b', 'qwen/qwen3-235b-a22b-instruct-2507', {
    ...open,
    ...released(2025, 7, 21),
    billing: flat('0.002'),
    upstream: 'qwen/qwen3-235b-a22b-instruct-2507',
    also: ['qwen3-235b-a22b'],
    contextWindow: 262_144,
    description: 'Open weights: a large general model.',
    fallbacks: ['vendor-open/qwen3-32b'],
  }),
  chatRow('vendor-open/kimi-k2-thinking', 'moonshotai/kimi-k2-thinking', {
    ...open,
    ...released(2025, 11, 6),
    billing: flat('0.002'),
    upstream: 'moonshotai/kimi-k2-thinking',
    also: ['moonshot/kimi-k2-thinking'],
    contextWindow: 262_144,
    description: 'Open weights: agents that think in many steps.',
  }),
  chatRow('vendor-open/mistral-large-3', 'mistralai/mistral-large-3-675b-instruct-2512', {
    ...open,
    ...released(2025, 12, 2),
    billing: flat('0.002'),
    upstream: 'mistralai/mistral-large-3-675b-instruct-2512',
    also: ['mistral-large-3'],
    contextWindow: 262_144,
    categories: ['chat', 'coding', 'vision'],
    images: 'tiles_512',
    description: 'Open weights: the largest of its maker, with images.',
  }),
]
