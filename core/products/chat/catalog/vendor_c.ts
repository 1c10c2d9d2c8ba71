/** Rows of vendor-c. */
import { dollars } from '../../../x402/money.ts'
import type { ChatRow } from '../../../ports/vendors/chat.ts'
import { at200K, chatRow, paid, released, THINKS_AND_SEES } from './row.ts'

const grok = {
  contextWindow: 500_000,
  maxOutput: 500_000,
  categories: THINKS_AND_SEES,
  structured: 'forwarded',
  images: 'tiles_448',
  maxStops: 4,
  liveSearch: dollars('0.30'),
  multipleAnswers: true,
} as const
/** The longest answer of this pair and of 4.3 is not published. The pair rejects an effort (decision 75). */
const grokMillion = { ...grok, contextWindow: 1_000_000, maxOutput: 131_072 } as const

export const vendorC: readonly ChatRow[] = [
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
