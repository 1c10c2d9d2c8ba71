/** Prices a chat answer by its usage, for schemes that charge by use (contract 1.72). */
import type { Prices, Used } from '../../endpoint/mod.ts'
import { type Fields, fieldsOf, isFields, type Json } from '../../lib/json.ts'
import type { CountTokens } from '../../ports/vendors/chat.ts'
import { plus, roundUp, times, type Usdc } from '../../x402/money.ts'
import { type Markup, NOTHING, perToken, STANDARD_MARKUP } from '../../x402/pricing.ts'
import { answerText } from './formats/answer_text.ts'
import { type ChatInput } from './sized_request.ts'
import { searchCost } from './web_search/tool.ts'
import { searchesIn } from './web_search/usage.ts'

/** Tokens by rate. `input` is without what was read from a cache or written to one. */
type TokenCounts = {
  readonly input: number
  readonly cacheRead: number
  readonly cacheWrite: number
  readonly output: number
}

/**
 * Tokens at the rates of the model, the surcharge and the fee. Of an answer that was cut by its reader, the output is
 * what was read. Undefined for models with a price per request, and where the vendor reported no usage.
 */
export async function chatCost(
  input: ChatInput,
  { usage, read }: Used,
  { countTokens, prices }: { readonly countTokens: CountTokens; readonly prices?: Prices },
): Promise<Usdc | undefined> {
  const reported = tokenCounts(usage)
  // Vendors may count searches of their own, which are in their price for tokens.
  const searched = input.search && searchesIn(usage)
  if (!read) return reported && usageCost(input, reported, { ...prices, searched })
  const output = Math.ceil((await countTokens(answerText(read.events))) * read.times)
  const prompt = reported ?? { input: input.promptTokens, cacheRead: 0, cacheWrite: 0, output: 0 }
  // A vendor may count what the reader cannot see, such as reasoning, before the reader leaves.
  return usageCost(input, { ...prompt, output: Math.max(output, prompt.output) }, { ...prices, searched })
}

type Searched = ReturnType<typeof searchesIn>

/** Rounded up once. A rate that the model does not have is that of its input. */
export function usageCost(
  { row, surcharge = NOTHING }: ChatInput,
  counts: TokenCounts,
  { fee = STANDARD_MARKUP.fee, searched }: Partial<Pick<Markup, 'fee'>> & { readonly searched?: Searched } = {},
): Usdc | undefined {
  const { billing } = row
  if (billing.mode !== 'paid') return undefined
  const { long, cacheRead, cacheWrite } = billing
  // Of several prompts, each is long or not.
  const prompt = searched?.longestPrompt || counts.input + counts.cacheRead + counts.cacheWrite
  const rates = long && prompt >= long.from ? long : billing
  const parts = [
    [rates.input, counts.input],
    [cacheRead ?? rates.input, counts.cacheRead],
    [cacheWrite ?? rates.input, counts.cacheWrite],
    [rates.output, counts.output],
  ] as const
  const tokens = parts.reduce((sum, [rate, count]) => plus(sum, times(perToken(rate), BigInt(count))), NOTHING)
  const extra = searched ? plus(surcharge, searchCost(searched)) : surcharge
  return roundUp(plus(plus(tokens, extra), fee))
}

/** Counts in any of the four formats; undefined where none were reported, or where the gateway estimated them. */
export function tokenCounts(usage: Json): TokenCounts | undefined {
  if (!isFields(usage) || usage.estimated === true) return undefined
  const counts = chatCounts(usage) ?? messagesCounts(usage) ?? responsesCounts(usage) ?? generateContentCounts(usage)
  return counts && counts.input + counts.cacheRead + counts.cacheWrite + counts.output > 0 ? counts : undefined
}

/** The prompt includes what was cached. */
function chatCounts(usage: Fields): TokenCounts | undefined {
  if (typeof usage.prompt_tokens !== 'number') return undefined
  const details = fieldsOf(usage.prompt_tokens_details)
  return within(count(usage.prompt_tokens), {
    cacheRead: count(details.cached_tokens) || count(usage.cache_read_input_tokens),
    cacheWrite: count(details.cached_creation_tokens) || count(usage.cache_creation_input_tokens),
    output: count(usage.completion_tokens),
  })
}

/** The input is beside what was cached. */
function messagesCounts(usage: Fields): TokenCounts | undefined {
  const { input_tokens: input, cache_read_input_tokens: read, cache_creation_input_tokens: written } = usage
  if (typeof input !== 'number' || (read === undefined && written === undefined)) return undefined
  const cached = { cacheRead: count(read), cacheWrite: count(written) }
  return { input: count(input), ...cached, output: count(usage.output_tokens) }
}

function responsesCounts(usage: Fields): TokenCounts | undefined {
  if (typeof usage.input_tokens !== 'number') return undefined
  const cacheRead = count(fieldsOf(usage.input_tokens_details).cached_tokens)
  return within(count(usage.input_tokens), { cacheRead, cacheWrite: 0, output: count(usage.output_tokens) })
}

function generateContentCounts(usage: Fields): TokenCounts | undefined {
  if (typeof usage.promptTokenCount !== 'number') return undefined
  return within(count(usage.promptTokenCount) + count(usage.toolUsePromptTokenCount), {
    cacheRead: count(usage.cachedContentTokenCount),
    cacheWrite: 0,
    output: count(usage.candidatesTokenCount) + count(usage.thoughtsTokenCount),
  })
}

/** A prompt of so many tokens in total, of which some were cached. */
function within(prompt: number, { cacheRead, cacheWrite, output }: Omit<TokenCounts, 'input'>): TokenCounts {
  const read = Math.min(cacheRead, prompt)
  const written = Math.min(cacheWrite, prompt - read)
  return { input: prompt - read - written, cacheRead: read, cacheWrite: written, output }
}

function count(reported: Json | undefined): number {
  return typeof reported === 'number' && reported > 0 && reported <= MAX ? Math.floor(reported) : 0
}

const MAX = 1e12
