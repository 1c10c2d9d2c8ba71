/** Rows of vendor-d. */
import type { ChatRow } from '../../../ports/vendors/chat.ts'
import { chatRow, paid, released, THINKS, THINKS_AND_SEES } from './row.ts'

const glm = { contextWindow: 200_000, maxOutput: 128_000, categories: THINKS, structured: 'forwarded' } as const
const glmMillion = { ...glm, contextWindow: 1_000_000, maxOutput: 131_072 } as const

export const vendorD: readonly ChatRow[] = [
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
