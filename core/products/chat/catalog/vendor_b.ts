/** Rows of vendor-b. */
import type { ChatRow } from '../../../ports/vendors/chat.ts'
import { above200K, chatRow, paid, released, THINKS_AND_SEES } from './row.ts'

const gemini = {
  contextWindow: 1_048_576,
  maxOutput: 65_536,
  categories: THINKS_AND_SEES,
  structured: 'emulated',
  images: 'tiles_768',
  reads: ['file', 'audio', 'video'],
  maxStops: 5,
  surfaces: ['generate_content'],
} as const

export const vendorB: readonly ChatRow[] = [
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
