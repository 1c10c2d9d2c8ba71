/** Rows of vendor-a. */
import type { ChatRow, Effort, EffortRules } from '../../../ports/vendors/chat.ts'
import { above272K, chatRow, paid, released, THINKS_AND_SEES } from './row.ts'

const gpt = {
  contextWindow: 1_050_000,
  maxOutput: 128_000,
  categories: THINKS_AND_SEES,
  structured: 'forwarded',
  images: 'tiles_512',
  reads: ['file'],
  maxStops: 4,
  multipleAnswers: true,
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

export const vendorA: readonly ChatRow[] = [
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
