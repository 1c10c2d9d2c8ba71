/** Mistakes in what web searches of a chat cost. */
import type { Mistake, Scope } from './mutants.ts'

const SEARCH: Scope = { within: ['core/products/chat'], by: ['test/core/products/chat/web_search_test.ts'] }

const ofSearches: readonly Mistake[] = [
  ['a search that was sent is not charged', `run.searches++ const onPages`, `const onPages`],
  [
    'a search that failed is charged',
    `if (signal.aborted) throw error run.searches--`,
    `if (signal.aborted) throw error`,
  ],
  ['pages that could not be read are charged', `onPages(-urls.length)`, ``],
  ['a request has any number of searches', `if (run.uses.left < 1) return`, `if (false as boolean) return`],
  [
    'searches are not in the quote',
    `surcharge: bound ? plus(bound.cost, surcharge ?? NOTHING) : surcharge`,
    `surcharge`,
  ],
  ['a search adds no prompt to the quote', `rounds: bound?.rounds`, `rounds: undefined`],
  ['pages of any length are read', `{ limit: RESULT_TOKENS })) <= RESULT_TOKENS`, `{ limit: RESULT_TOKENS })) <= 1e9`],
  ['a free model searches', `|| row.billing.mode !== 'paid' || isNativeSearch`, `|| isNativeSearch`],
]

export const searchMistakes = [[SEARCH, ofSearches]] as const
