/** Rows of vendor-g. */
import type { ChatRow } from '../../../ports/vendors/chat.ts'
import { chatRow, paid, released, THINKS_AND_SEES } from './row.ts'

const claude = {
  contextWindow: 1_000_000,
  maxOutput: 128_000,
  categories: THINKS_AND_SEES,
  structured: 'emulated',
  images: 'area_750',
  reads: ['file'],
  promptCache: true,
} as const
/**
 * From 4.7 on, the large models accept no sampling parameters; the newest ones also reject forced tools (contract
 * 6.32).
 */
const claudeUnsampled = { ...claude, strips: ['temperature', 'top_p', 'top_k'] } as const
const claudeNewest = { ...claudeUnsampled, noForcedTools: true } as const

export const vendorG: readonly ChatRow[] = [
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
