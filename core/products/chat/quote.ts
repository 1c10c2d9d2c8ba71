/** The quote of a chat request: its price, its range over the catalog, and what it may cost the operator. */
import type { ChatRow } from '../../ports/vendors/chat.ts'
import type { Context, Offering, Price } from '../../endpoint/mod.ts'
import { plus, type Usdc, usdc } from '../../x402/money.ts'
import { NOTHING } from '../../x402/pricing.ts'
import { chatPrice, chatWorstCost } from './price.ts'
import { answersOf } from './request.ts'
import type { ChatInput } from './sized_request.ts'
import { mostSearches, searchBound } from './web_search/tool.ts'

/** Lifetime of the signed authorization (contract 6.42), and for background responses (contract 7.17). */
const TIMEOUT_S = 300
const BACKGROUND_TIMEOUT_S = 600

/** The inputs of the quote. Each of several answers (`n`) is quoted, and as many searches as there may be. */
export function priceInputs({ row, promptTokens, maxTokens, effort, surcharge, chat, search }: ChatInput) {
  const bound = search && searchBound(search)
  return {
    billing: row.billing,
    promptTokens,
    maxTokens: maxTokens * answersOf(chat),
    effort,
    scalesQuote: row.effort?.scalesQuote,
    surcharge: bound ? plus(bound.cost, surcharge ?? NOTHING) : surcharge,
    rounds: bound?.rounds,
  }
}

export function quote(input: ChatInput, { prices }: Pick<Context, 'prices'>): Price | 'free' {
  if (input.row.billing.mode === 'free') return 'free'
  return {
    amount: chatPrice({ ...priceInputs(input), markup: prices }),
    maxTimeoutSeconds: input.background ? BACKGROUND_TIMEOUT_S : TIMEOUT_S,
    publicPrice: {},
  }
}

/** The most that this request can cost the operator, with answers of full length. */
export const worstCost = (input: ChatInput): Usdc => chatWorstCost(priceInputs(input))

/**
 * Lowest and highest quote over the available rows that fit: an empty request, and a full context window with the
 * longest answers. Of all rows that fit where none is available, so that the documentation has a price.
 */
export function chatPriceRange(
  { catalog, vendors, prices: markup }: Offering,
  { fits = () => true, searches = false }: { fits?(row: ChatRow): boolean; readonly searches?: boolean } = {},
): { min: Usdc; max: Usdc } {
  const most = searches && vendors.websearch ? searchBound(mostSearches) : undefined
  const fitting = catalog.chat.all.filter(fits)
  const served = fitting.filter((row) => vendors.chat(row) !== undefined)
  const amounts = (served.length > 0 ? served : fitting)
    .filter((row) => row.billing.mode !== 'free')
    .flatMap((row) => {
      const { billing, effort, liveSearch, contextWindow, maxOutput } = row
      const longest = {
        billing,
        promptTokens: contextWindow,
        maxTokens: 8 * maxOutput,
        effort: 'max' as const,
        scalesQuote: effort?.scalesQuote,
        surcharge: most ? plus(most.cost, liveSearch ?? NOTHING) : liveSearch,
        rounds: most?.rounds,
        markup,
      }
      return [chatPrice({ billing, promptTokens: 0, maxTokens: 0, markup }), chatPrice(longest)]
    })
  const [first = usdc(0n)] = amounts
  return {
    min: amounts.reduce((a, b) => (a < b ? a : b), first),
    max: amounts.reduce((a, b) => (a > b ? a : b), first),
  }
}
