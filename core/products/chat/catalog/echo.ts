/** The text program that is sold without a provider key. */
import type { ChatRow } from '../../../ports/vendors/chat.ts'
import { chatRow, FREE, paid, released } from './row.ts'

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

export const embedded: readonly ChatRow[] = [
  chatRow('farebox/echo', 'farebox/echo', {
    ...echo,
    ...released(2026, 11, 20),
    billing: paid('0.5', '1.5'),
    multipleAnswers: true,
    surfaces: ['generate_content'],
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
