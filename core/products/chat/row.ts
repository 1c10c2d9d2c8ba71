/** What a chat row says, and the short way of writing one. */
import { type Dollars, dollars } from '../../x402/money.ts'

/** What a chat model costs. Rates are list prices in US dollars for a million tokens, without margin (contract 6.37). */
export type ChatBilling =
  | {
      readonly mode: 'paid'
      readonly input: Dollars
      readonly output: Dollars
      readonly cacheRead?: Dollars
      readonly cacheWrite?: Dollars
      /** From so many prompt tokens on, the whole request is priced at these rates instead. */
      readonly long?: { readonly from: number; readonly input: Dollars; readonly output: Dollars }
    }
  /** Per request, the fee included. */
  | { readonly mode: 'flat'; readonly price: Dollars }
  | { readonly mode: 'free' }

export const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const
export type Effort = (typeof EFFORTS)[number]

/** What becomes of `reasoning_effort` (contract 6.34). Absent on a row: it is forwarded as it came. */
export type EffortRules = {
  /** What is sent for each value that a caller may name; a value that is not here is 400 INVALID_PARAMETER. */
  readonly sent: Readonly<Partial<Record<Effort, Effort>>>
  /** The same where function tools are present; `sent` unless told. */
  readonly withTools?: Readonly<Partial<Record<Effort, Effort>>>
  /** What is sent with function tools where the caller names nothing. */
  readonly defaultWithTools?: Effort
  /** Sent with function tools whatever the caller asks for. */
  readonly forcedWithTools?: Effort
  /** The output share of the quote grows with the effort that is sent: 2.5 at high, 3 at xhigh, 4.5 at max. */
  readonly scalesQuote?: boolean
}

/** How a vendor counts the tokens of an image in the prompt. */
export type ImageTokens = 'tiles_512' | 'area_750' | 'tiles_768' | 'tiles_448'

/** One chat model for sale. */
export type ChatRow = {
  /** Public id, `<vendor>/<model>`. */
  readonly id: string
  readonly aliases: readonly string[]
  readonly name: string
  readonly description: string
  /** The maker, as `owned_by` and as the source of a rate limit. */
  readonly maker: string
  /** Which of the operator's vendors serves it, and what that vendor calls it. */
  readonly vendor: string
  readonly upstream: string
  /** Unix time in seconds of its release. */
  readonly created: number
  /** Tokens. */
  readonly contextWindow: number
  readonly maxOutput: number
  readonly categories: readonly ('chat' | 'reasoning' | 'coding' | 'vision')[]
  readonly billing: ChatBilling
  /** `response_format` is forwarded, or emulated by an instruction in the system prompt (contract 6.18). */
  readonly structured: 'forwarded' | 'emulated'
  /** Absent where it sees no images. */
  readonly images?: ImageTokens
  readonly effort?: EffortRules
  /** Parameters that are dropped, so that the request succeeds (contract 6.31). */
  readonly strips?: readonly string[]
  /** Parameters that are 400 INVALID_PARAMETER; a `temperature` of 1 passes all the same (contract 6.33). */
  readonly refuses?: readonly string[]
  /** A forced `tool_choice` is served as `auto`. */
  readonly noForcedTools?: boolean
  /** Function tools go over the responses wire, for chat refuses them together with an effort (decision 75). */
  readonly toolsByResponses?: boolean
  /** Takes `search_parameters`, at this surcharge per call, in US dollars. */
  readonly liveSearch?: Dollars
  /** Prompts are cached when asked to: `prompt_cache`, or `cache_control` in the content. */
  readonly promptCache?: boolean
  /** Also served by /responses and, for listed payers, by generateContent. */
  readonly surfaces?: readonly ('responses' | 'generate_content')[]
  /** Ids of rows that are asked instead, in order, while this one is unavailable; none of them costs more. */
  readonly fallbacks?: readonly string[]
  /** The row that does the work instead, where an operator has redirected this one. */
  readonly servedBy?: string
  /** Sold, but not listed. */
  readonly hidden?: boolean
}

// ── how rows are written ────────────────────────────────────────────────────────────────────────────────────────────

type Named = Pick<ChatRow, 'id' | 'aliases' | 'name' | 'maker' | 'vendor' | 'upstream'>
type Words = Omit<ChatRow, keyof Named> & Partial<Named> & { readonly also?: readonly string[] }

/**
 * A row by its public id and by its maker's own id, such as `openai/gpt-6-sol`; `also` are older ids of the maker's. Its aliases are what
 * public clients send: all of these with and without the maker, in dotted and in dashed spelling. An older id with a slash stands as it is.
 */
export function sold(id: string, own: string, { also = [], ...words }: Words): ChatRow {
  const [vendor = '', name = ''] = id.split('/')
  const [maker, upstream = ''] = own.split('/')
  const spelled = [upstream, ...also].flatMap((each) => [each, each.replaceAll('.', '-')])
  const aliases = [...new Set(spelled.flatMap((each) => (each.includes('/') ? [each] : [`${maker}/${each}`, each])))]
  return { id, aliases, name: name.split('-').map(capital).join(' '), maker: vendor, vendor, upstream, ...words }
}

const capital = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1)

type Extra = {
  readonly read?: string
  readonly write?: string
  readonly long?: { readonly from: number; readonly input: string; readonly output: string }
}

/** US dollars for a million tokens. */
export function paid(input: string, output: string, { read, write, long }: Extra = {}): ChatBilling {
  return {
    mode: 'paid',
    input: dollars(input),
    output: dollars(output),
    ...(read && { cacheRead: dollars(read) }),
    ...(write && { cacheWrite: dollars(write) }),
    ...(long && { long: { from: long.from, input: dollars(long.input), output: dollars(long.output) } }),
  }
}
