/** Rows of vendor-h. */
import type { ChatRow } from '../../../ports/vendors/chat.ts'
import { chatRow, paid, released, THINKS, THINKS_AND_SEES } from './row.ts'

/** Rates of peak hours. Two rows share one upstream, which reasons by default. */
const deepseek = { contextWindow: 1_000_000, maxOutput: 384_000, structured: 'forwarded', maxStops: 16 } as const

export const vendorH: readonly ChatRow[] = [
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
