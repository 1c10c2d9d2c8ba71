/** The built-in chat catalog: list prices of November 2026, which operators can override in their configuration. */
import { dollars } from '../../x402/money.ts'
import type { ChatBilling, ChatRow, Effort, EffortRules } from '../../ports/vendors/chat.ts'
import { paid, chatRow } from './row.ts'

/** Where a prompt is long: "above" begins one token later, "at" with the token itself (contract 6.39). */
const above272K = (input: string, output: string) => ({ from: 272_001, input, output })
const above200K = (input: string, output: string) => ({ from: 200_001, input, output })
const at200K = (input: string, output: string) => ({ from: 200_000, input, output })

const released = (year: number, month: number, day: number) => ({ created: Date.UTC(year, month - 1, day) / 1000 })

const THINKS_AND_SEES = ['chat', 'reasoning', 'coding', 'vision'] as const
const THINKS = ['chat', 'reasoning', 'coding'] as const

const gpt = {
  contextWindow: 1_050_000,
  maxOutput: 128_000,
  categories: THINKS_AND_SEES,
  structured: 'forwarded',
  images: 'tiles_512',
  surfaces: ['responses'],
} as const

const UP_TO_XHIGH = { minimal: 'low', low: 'low', medium: 'medium', high: 'high', xhigh: 'xhigh' } as const

/** Effort rules of the 6 series, whose models differ only in how `none` is mapped (contract 6.34). */
function six(none: Effort): EffortRules {
  return {
    sent: { none, ...UP_TO_XHIGH, max: 'xhigh' },
    withTools: { none, ...UP_TO_XHIGH, max: 'max' },
    defaultWithTools: 'medium',
    scalesQuote: true,
  }
}

const gptSix = {
  ...gpt,
  refuses: [
    'temperature',
    'top_p',
    'presence_penalty',
    'frequency_penalty',
    'logprobs',
    'top_logprobs',
    'logit_bias',
    'stop',
  ],
  toolsByResponses: true,
} as const
/** The flagships always reason; reasoning can be turned off for the smaller tiers. */
const alwaysReasons = { ...gptSix, effort: six('low') } as const
const mayNotReason = { ...gptSix, effort: six('none') } as const

const fiveEfforts = { none: 'none', ...UP_TO_XHIGH } as const
const gptFivePointSix = { ...gpt, effort: { sent: fiveEfforts, forcedWithTools: 'none' } } as const
const gptFive = { ...gpt, effort: { sent: fiveEfforts } } as const
/** Without xhigh. */
const gptFivePointOne = { ...gpt, contextWindow: 400_000, effort: { sent: { ...fiveEfforts, xhigh: 'high' } } } as const

const vendorA: readonly ChatRow[] = [
  chatRow('vendor-a/chat-6.2-flagship', 'openai/gpt-6.2-astra', {
    ...alwaysReasons,
    ...released(2026, 11, 17),
    billing: paid('8', '40', { read: '0.4', long: above272K('16', '60') }),
    description: 'The most capable model of this maker, for the hardest reasoning and for long agentic work.',
  }),
  chatRow('vendor-a/chat-6.2-large', 'openai/gpt-6.2-sol', {
    ...alwaysReasons,
    ...released(2026, 11, 17),
    billing: paid('2', '10', { read: '0.1', long: above272K('4', '15') }),
    description: 'Everyday coding, writing and agents in many steps, always with reasoning.',
  }),
  chatRow('vendor-a/chat-6.1-large', 'openai/gpt-6.1-sol', {
    ...alwaysReasons,
    ...released(2026, 9, 29),
    billing: paid('2', '10', { read: '0.1', write: '2.5', long: above272K('4', '15') }),
    description: 'A strong all-round model for coding and agents, always with reasoning.',
  }),
  // One of the smaller tiers: its maker documents that it accepts `none`.
  chatRow('vendor-a/chat-6.1-medium', 'openai/gpt-6.1-terra', {
    ...mayNotReason,
    ...released(2026, 10, 26),
    billing: paid('1', '5', { read: '0.05', write: '1.25', long: above272K('2', '7.5') }),
    description: 'The fast middle tier, for coding, vision and everyday work.',
  }),
  chatRow('vendor-a/chat-6-flagship', 'openai/gpt-6-astra', {
    ...alwaysReasons,
    ...released(2026, 9, 3),
    billing: paid('10', '50', { read: '1', write: '12.5', long: above272K('20', '75') }),
    description: 'The first flagship of the six-series, for long agentic work and computer use.',
  }),
  chatRow('vendor-a/chat-6-large', 'openai/gpt-6-sol', {
    ...mayNotReason,
    ...released(2026, 9, 22),
    billing: paid('2', '10', { read: '0.2', write: '2.5', long: above272K('4', '15') }),
    description: 'Complex coding and agents below the flagship; can answer without reasoning.',
  }),
  chatRow('vendor-a/chat-6-small', 'openai/gpt-6-luna', {
    ...mayNotReason,
    ...released(2026, 9, 22),
    billing: paid('0.1', '0.5', { read: '0.01', write: '0.125', long: above272K('0.2', '0.75') }),
    description: 'High volume at low cost: chat, classification, light agents.',
  }),
  chatRow('vendor-a/chat-5.6-large', 'openai/gpt-5.6-sol', {
    ...gptFivePointSix,
    ...released(2026, 7, 9),
    billing: paid('4', '20', { read: '0.4', write: '5', long: above272K('8', '30') }),
    description: 'Deep reasoning for coding and long problems.',
  }),
  chatRow('vendor-a/chat-5.6-medium', 'openai/gpt-5.6-terra', {
    ...gptFivePointSix,
    ...released(2026, 7, 9),
    billing: paid('2', '12', { read: '0.2', write: '2.5', long: above272K('4', '18') }),
    description: 'Everyday coding and reasoning below the large tier.',
  }),
  chatRow('vendor-a/chat-5.6-small', 'openai/gpt-5.6-luna', {
    ...gptFivePointSix,
    ...released(2026, 7, 9),
    billing: paid('0.2', '1.2', { read: '0.02', write: '0.25', long: above272K('0.4', '1.8') }),
    description: 'High-volume chat and light agents.',
  }),
  chatRow('vendor-a/chat-5.5', 'openai/gpt-5.5', {
    ...gptFive,
    ...released(2026, 4, 23),
    billing: paid('5', '30', { read: '0.5', long: above272K('10', '45') }),
    toolsByResponses: true,
    description: 'The flagship before the 5.6 generation.',
  }),
  chatRow('vendor-a/chat-5.4', 'openai/gpt-5.4', {
    ...gptFive,
    ...released(2026, 3, 5),
    billing: paid('2.5', '15', { read: '0.25', long: above272K('5', '22.5') }),
    toolsByResponses: true,
    description: 'Reasoning over a long context.',
  }),
  chatRow('vendor-a/chat-5.4-mini', 'openai/gpt-5.4-mini', {
    ...gptFive,
    ...released(2026, 3, 17),
    billing: paid('0.75', '4.5', { read: '0.075' }),
    contextWindow: 400_000,
    toolsByResponses: true,
    description: 'A small model for coding and sub-agents.',
  }),
  chatRow('vendor-a/chat-5.4-nano', 'openai/gpt-5.4-nano', {
    ...gptFive,
    ...released(2026, 3, 17),
    billing: paid('0.2', '1.25', { read: '0.02' }),
    contextWindow: 400_000,
    toolsByResponses: true,
    description: 'The fastest and cheapest of its series, for high throughput.',
  }),
  chatRow('vendor-a/chat-5.2', 'openai/gpt-5.2', {
    ...gptFive,
    ...released(2025, 12, 11),
    billing: paid('1.75', '14', { read: '0.175' }),
    contextWindow: 400_000,
    description: 'Adaptive reasoning over 400K tokens.',
  }),
  // Its maker retires it on 2027-04-01, and the one below on 2026-12-11 (developers.openai.com/api/docs/deprecations).
  chatRow('vendor-a/chat-5.1', 'openai/gpt-5.1', {
    ...gptFivePointOne,
    ...released(2025, 11, 13),
    billing: paid('1.25', '10', { read: '0.125' }),
    description: 'Reasoning with a selectable effort over 400K tokens.',
  }),
  chatRow('vendor-a/chat-5', 'openai/gpt-5', {
    ...gptFivePointOne,
    ...released(2025, 8, 7),
    billing: paid('1.25', '10', { read: '0.125' }),
    hidden: true,
    effort: { sent: { ...UP_TO_XHIGH, none: 'minimal', minimal: 'minimal', xhigh: 'high' } },
    description: 'The first of its series; its maker retires it on 11 December 2026.',
  }),
]

const gemini = {
  contextWindow: 1_048_576,
  maxOutput: 65_536,
  categories: THINKS_AND_SEES,
  structured: 'emulated',
  images: 'tiles_768',
  surfaces: ['generate_content'],
} as const

const vendorB: readonly ChatRow[] = [
  chatRow('vendor-b/chat-3.1-pro', 'google/gemini-3.1-pro-preview', {
    ...gemini,
    ...released(2026, 2, 19),
    billing: paid('2', '12', { read: '0.2', long: above200K('4', '18') }),
    also: ['gemini-3.1-pro', 'gemini-3-pro-preview'],
    description: 'The large tier: reasoning, agents and software engineering over a million tokens.',
  }),
  // At the price that holds to the end of 2026.
  chatRow('vendor-b/chat-3.8-flash', 'google/gemini-3.8-flash', {
    ...gemini,
    ...released(2026, 9, 2),
    billing: paid('0.75', '3.75', { read: '0.075' }),
    description: 'The newest fast tier, with thinking built in.',
  }),
  chatRow('vendor-b/chat-3.7-flash', 'google/gemini-3.7-flash', {
    ...gemini,
    ...released(2026, 8, 13),
    billing: paid('0.75', '3.75', { read: '0.075' }),
    description: 'The fast tier of the generation before.',
  }),
  chatRow('vendor-b/chat-3.6-flash', 'google/gemini-3.6-flash', {
    ...gemini,
    ...released(2026, 7, 21),
    billing: paid('0.75', '3.75', { read: '0.075' }),
    description: 'An earlier fast tier, still in production.',
  }),
  chatRow('vendor-b/chat-3.5-flash', 'google/gemini-3.5-flash', {
    ...gemini,
    ...released(2026, 5, 19),
    billing: paid('1.5', '9', { read: '0.15' }),
    hidden: true,
    description: 'An earlier fast tier that its successors replace at a lower price.',
  }),
  chatRow('vendor-b/chat-3.5-flash-lite', 'google/gemini-3.5-flash-lite', {
    ...gemini,
    ...released(2026, 7, 21),
    billing: paid('0.3', '2.5', { read: '0.03' }),
    description: 'Light and very fast, for high throughput.',
  }),
  chatRow('vendor-b/chat-3.1-flash-lite', 'google/gemini-3.1-flash-lite', {
    ...gemini,
    ...released(2026, 3, 3),
    billing: paid('0.25', '1.5', { read: '0.025' }),
    also: ['gemini-3.1-flash-lite-preview'],
    description: 'The cheapest light tier.',
  }),
]

const grok = {
  contextWindow: 500_000,
  maxOutput: 500_000,
  categories: THINKS_AND_SEES,
  structured: 'forwarded',
  images: 'tiles_448',
  liveSearch: dollars('0.30'),
} as const
/** The longest answer of this pair and of 4.3 is not published. The pair rejects an effort (decision 75). */
const grokMillion = { ...grok, contextWindow: 1_000_000, maxOutput: 131_072 } as const

const vendorC: readonly ChatRow[] = [
  chatRow('vendor-c/chat-4.7', 'xai/grok-4.7', {
    ...grok,
    ...released(2026, 9, 21),
    billing: paid('2', '6', { read: '0.5', long: at200K('4', '12') }),
    description: 'The flagship for long-running agents, coding and knowledge work; can search live.',
  }),
  chatRow('vendor-c/chat-4.6', 'xai/grok-4.6', {
    ...grok,
    ...released(2026, 8, 7),
    billing: paid('2', '6', { read: '0.5', long: at200K('4', '12') }),
    description: 'The flagship before, with a selectable effort; can search live.',
  }),
  chatRow('vendor-c/chat-4.5', 'xai/grok-4.5', {
    ...grok,
    ...released(2026, 7, 8),
    billing: paid('2', '6', { read: '0.5', long: at200K('4', '12') }),
    description: 'Coding, agents and knowledge work; can search live.',
  }),
  chatRow('vendor-c/chat-4.3', 'xai/grok-4.3', {
    ...grokMillion,
    ...released(2026, 5, 3),
    billing: paid('1.25', '2.5', { read: '0.2', long: at200K('2.5', '5') }),
    liveSearch: dollars('0.12'),
    description: 'A million tokens of context, always reasoning; can search live at a lower surcharge.',
  }),
  chatRow('vendor-c/chat-4.20-reasoning', 'xai/grok-4.20-reasoning', {
    ...grokMillion,
    ...released(2026, 3, 9),
    billing: paid('1.25', '2.5', { read: '0.2', long: at200K('2.5', '5') }),
    refuses: ['reasoning_effort'],
    also: ['grok-4.20-0309-reasoning', 'grok-4.20'],
    description: 'A million tokens of context with reasoning; can search live.',
  }),
  chatRow('vendor-c/chat-4.20-non-reasoning', 'xai/grok-4.20-non-reasoning', {
    ...grokMillion,
    ...released(2026, 3, 9),
    billing: paid('1.25', '2.5', { read: '0.2', long: at200K('2.5', '5') }),
    refuses: ['reasoning_effort'],
    also: ['grok-4.20-0309-non-reasoning'],
    categories: ['chat', 'coding', 'vision'],
    description: 'A million tokens of context, answers at once; can search live.',
  }),
]

const glm = { contextWindow: 200_000, maxOutput: 128_000, categories: THINKS, structured: 'forwarded' } as const
const glmMillion = { ...glm, contextWindow: 1_000_000, maxOutput: 131_072 } as const

const vendorD: readonly ChatRow[] = [
  chatRow('vendor-d/chat-5.3', 'zai/glm-5.3', {
    ...glmMillion,
    ...released(2026, 8, 19),
    billing: paid('1.4', '4.4', { read: '0.26' }),
    description: 'The flagship: always reasoning, strong at long coding tasks.',
  }),
  // Release day not confirmed.
  chatRow('vendor-d/chat-5.3-flash', 'zai/glm-5.3-flash', {
    ...glmMillion,
    ...released(2026, 9, 15),
    billing: paid('0.15', '0.5', { read: '0.03' }),
    categories: THINKS_AND_SEES,
    images: 'tiles_512',
    description: 'Reasoning and vision at a low price.',
  }),
  chatRow('vendor-d/chat-5.2', 'zai/glm-5.2', {
    ...glmMillion,
    ...released(2026, 6, 16),
    billing: paid('1.4', '4.4', { read: '0.26' }),
    description: 'Long coding tasks over a million tokens.',
  }),
  chatRow('vendor-d/chat-5.1', 'zai/glm-5.1', {
    ...glm,
    ...released(2026, 4, 7),
    billing: paid('1.4', '4.4', { read: '0.26' }),
    description: 'Coding that runs by itself for hours.',
  }),
  chatRow('vendor-d/chat-5', 'zai/glm-5', {
    ...glm,
    ...released(2026, 2, 11),
    billing: paid('1', '3.2', { read: '0.2' }),
    description: 'Reasoning and agents over 200K tokens.',
  }),
  chatRow('vendor-d/chat-5-turbo', 'zai/glm-5-turbo', {
    ...glm,
    ...released(2026, 3, 15),
    billing: paid('1.2', '4'),
    description: 'The faster variant of Chat 5.',
  }),
]

const claude = {
  contextWindow: 1_000_000,
  maxOutput: 128_000,
  categories: THINKS_AND_SEES,
  structured: 'emulated',
  images: 'area_750',
  promptCache: true,
} as const
/**
 * From 4.7 on, the large models accept no sampling parameters; the newest ones also reject forced tools (contract
 * 6.32).
 */
const claudeUnsampled = { ...claude, strips: ['temperature', 'top_p', 'top_k'] } as const
const claudeNewest = { ...claudeUnsampled, noForcedTools: true } as const

const vendorG: readonly ChatRow[] = [
  chatRow('vendor-g/chat-5.1-flagship', 'anthropic/claude-fable-5-1', {
    ...claudeNewest,
    ...released(2026, 9, 1),
    billing: paid('10', '50', { read: '0.25', write: '12.5' }),
    also: ['claude-fable-5.1'],
    description: 'For the most demanding reasoning and long-horizon agents; always thinks.',
  }),
  chatRow('vendor-g/chat-5.5-large', 'anthropic/claude-opus-5-5', {
    ...claudeNewest,
    ...released(2026, 9, 22),
    billing: paid('4', '20', { read: '0.2', write: '5' }),
    also: ['claude-opus-5.5'],
    description: 'Deep reasoning and agentic coding; always thinks.',
  }),
  chatRow('vendor-g/chat-5.5-medium', 'anthropic/claude-sonnet-5-5', {
    ...claudeNewest,
    ...released(2026, 9, 28),
    billing: paid('2', '10', { read: '0.1', write: '2.5' }),
    also: ['claude-sonnet-5.5'],
    description: 'Fast everyday coding and agents.',
  }),
  chatRow('vendor-g/chat-5-large', 'anthropic/claude-opus-5', {
    ...claudeUnsampled,
    ...released(2026, 7, 24),
    billing: paid('5', '25', { read: '0.5', write: '6.25' }),
    description: 'The large tier of the generation before.',
  }),
  chatRow('vendor-g/chat-5-medium', 'anthropic/claude-sonnet-5', {
    ...claudeUnsampled,
    ...released(2026, 6, 30),
    billing: paid('2', '10', { read: '0.2', write: '2.5' }),
    description: 'The medium tier of the generation before.',
  }),
  chatRow('vendor-g/chat-4.8-large', 'anthropic/claude-opus-4-8', {
    ...claudeUnsampled,
    ...released(2026, 5, 28),
    billing: paid('5', '25', { read: '0.5', write: '6.25' }),
    also: ['claude-opus-4.8'],
    description: 'The large tier of the four-series.',
  }),
  chatRow('vendor-g/chat-4.7-large', 'anthropic/claude-opus-4-7', {
    ...claudeUnsampled,
    ...released(2026, 4, 16),
    billing: paid('5', '25', { read: '0.5', write: '6.25' }),
    also: ['claude-opus-4.7'],
    hidden: true,
    description: 'An earlier large tier of the four-series.',
  }),
  chatRow('vendor-g/chat-4.6-medium', 'anthropic/claude-sonnet-4-6', {
    ...claude,
    ...released(2026, 2, 17),
    billing: paid('3', '15', { read: '0.3', write: '3.75' }),
    also: ['claude-sonnet-4.6'],
    description: 'The medium tier of the four-series.',
  }),
  chatRow('vendor-g/chat-4.5-small', 'anthropic/claude-haiku-4-5', {
    ...claude,
    ...released(2025, 10, 15),
    billing: paid('1', '5', { read: '0.1', write: '1.25' }),
    also: ['claude-haiku-4.5', 'claude-haiku-4-5-20251001'],
    contextWindow: 200_000,
    maxOutput: 64_000,
    description: 'The smallest and fastest tier.',
  }),
]

/** Rates of peak hours. Two rows share one upstream, which reasons by default. */
const deepseek = { contextWindow: 1_000_000, maxOutput: 384_000, structured: 'forwarded' } as const

const vendorH: readonly ChatRow[] = [
  chatRow('vendor-h/chat-4', 'deepseek/deepseek-flash', {
    ...deepseek,
    ...released(2026, 9, 10),
    billing: paid('0.3', '1.2', { read: '0.006' }),
    categories: THINKS_AND_SEES,
    images: 'tiles_512',
    also: ['deepseek-chat', 'deepseek-v4-flash', 'deepseek-v4-flash-vision-exp'],
    description: 'The fast model of the fourth generation; thinks unless `thinking` is disabled.',
  }),
  chatRow('vendor-h/reasoner-4', 'deepseek/deepseek-reasoner', {
    ...deepseek,
    ...released(2026, 9, 10),
    billing: paid('0.3', '1.2', { read: '0.006' }),
    categories: THINKS_AND_SEES,
    images: 'tiles_512',
    upstream: 'deepseek-flash',
    description: 'The same model, for those who ask for it as a reasoner.',
  }),
  chatRow('vendor-h/chat-4-pro', 'deepseek/deepseek-v4-pro', {
    ...deepseek,
    ...released(2026, 8, 13),
    billing: paid('1.32', '3.96', { read: '0.044' }),
    categories: THINKS,
    description: 'The large model of the fourth generation.',
  }),
]

/** Open-weight models use the ids of their hosts. */
const open = { structured: 'forwarded', maxOutput: 16_384, contextWindow: 131_072, categories: THINKS } as const

const FREE: ChatBilling = { mode: 'free' }
const flat = (price: string): ChatBilling => ({ mode: 'flat', price: dollars(price) })

const free: readonly ChatRow[] = [
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
const flatPriced: readonly ChatRow[] = [
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

/** Served without a provider key. It is not a model and is labelled as such (decision 22). */
const echo = {
  maker: 'farebox',
  vendor: 'embedded',
  upstream: 'echo',
  aliases: [],
  contextWindow: 32_768,
  maxOutput: 8_192,
  categories: ['chat'],
  structured: 'forwarded',
} as const

const embedded: readonly ChatRow[] = [
  chatRow('farebox/echo', 'farebox/echo', {
    ...echo,
    ...released(2026, 11, 20),
    billing: paid('0.5', '1.5'),
    surfaces: ['responses', 'generate_content'],
    name: 'Echo (a small text program, no model)',
    description:
      'A small deterministic program that answers with text made from what it was sent. It is no model; it is here so that paying and streaming can be tried without a key.',
  }),
  chatRow('farebox/echo-free', 'farebox/echo-free', {
    ...echo,
    ...released(2026, 11, 20),
    billing: FREE,
    name: 'Echo Free (a small text program, no model)',
    description:
      'The same small deterministic text program, free of charge. It is no model; nothing is routed to it that did not ask for it.',
  }),
]

const idsBut = (row: ChatRow, rows: readonly ChatRow[]): readonly string[] =>
  rows.filter((other) => other !== row).map(({ id }) => id)

/** Free models fall back to each other (contract 20.4). */
export const chatRows: readonly ChatRow[] = [
  ...vendorA,
  ...vendorB,
  ...vendorC,
  ...vendorD,
  ...vendorG,
  ...vendorH,
  ...flatPriced,
  ...free.map((row) => ({ ...row, fallbacks: idsBut(row, free) })),
  ...embedded,
]
