/** Who answers chats, and in which formats. */
import type { Dollars } from '../../x402/money.ts'
import type { Fields } from '../../lib/json.ts'

/**
 * What a chat model costs. Rates are list prices in US dollars for a million tokens, without margin (contract 6.37).
 */
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

/** Inputs other than text and images: documents such as PDF, sounds, and clips, as the list names them. */
export const CHAT_MEDIA = ['file', 'audio', 'video'] as const
export type ChatMedium = (typeof CHAT_MEDIA)[number]

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
  /** What it reads beside text and images. Anything else is 400 before the quote. */
  readonly reads?: readonly ChatMedium[]
  readonly effort?: EffortRules
  /** Parameters that are dropped, so that the request succeeds (contract 6.31). */
  readonly strips?: readonly string[]
  /** Parameters that are 400 INVALID_PARAMETER; a `temperature` of 1 passes all the same (contract 6.33). */
  readonly refuses?: readonly string[]
  /** Most `stop` strings of a request; more are 400. Absent where its vendor states none. */
  readonly maxStops?: number
  /** A forced `tool_choice` is served as `auto`. */
  readonly noForcedTools?: boolean
  /** Function tools go over the responses format, for chat refuses them together with an effort (decision 75). */
  readonly toolsByResponses?: boolean
  /** Takes `search_parameters`, at this surcharge per call, in US dollars. */
  readonly liveSearch?: Dollars
  /** Prompts are cached when asked to: `prompt_cache`, or `cache_control` in the content. */
  readonly promptCache?: boolean
  /** Also served by /responses and, for listed payers, by generateContent. */
  readonly surfaces?: readonly ('responses' | 'generate_content')[]
  /** Ids of rows that are asked instead, in order, while this one is unavailable; none of them costs more. */
  readonly fallbacks?: readonly string[]
  /** Whose model does the work, where that is not `maker`: an operator has redirected this row. */
  readonly family?: string
  /** The row that does the work instead, where an operator has redirected this one. */
  readonly servedBy?: string
  /** Sold, but not listed. */
  readonly hidden?: boolean
}

/**
 * `chat` is POST /chat/completions, the format between all others; `messages`, `responses` and `generate_content` are
 * the vendor-compatible surfaces of contract 7.1. A translation goes from a format to `chat`, or from `chat` to a
 * format.
 */
export type ChatFormat = 'chat' | 'messages' | 'responses' | 'generate_content'

/** One server-sent event; `data` lines are joined. A comment is no event. */
export type SseEvent = { readonly event?: string; readonly data: string }

/** One order to a chat vendor. Its body has no `model` and no `stream`: the vendor writes those. */
export type ChatOrder = {
  /** How `body` is written, and how the answer is: `chat`, or the vendor's own format. */
  readonly format: ChatFormat
  /** The vendor's own id. */
  readonly model: string
  readonly body: Fields
  readonly stream: boolean
  /** Members of `body` that the gateway has set or changed; a refusal of one is the operator's to mend. */
  readonly ours?: readonly string[]
  /** Whose model it is, such as `vendor-a`: how a protocol that many servers speak spells the parameters. */
  readonly family?: string
  /** Asks a vendor that has both to serve `chat` over its responses API, which can do more. */
  readonly by?: 'responses'
  /** Headers of the caller's that belong to the format, such as `anthropic-beta`; lower case. */
  readonly headers: Readonly<Record<string, string>>
}

/**
 * Server-sent events as bytes, as they come, cut anywhere. Ends with undefined; rejects where the connection breaks. An
 * error among the events is passed on like any other: who reads the stream judges it, and one that ends without its
 * last event.
 */
export type ChatStream = {
  next(): Promise<Uint8Array | undefined>
  /** Ends the upstream call at once, and a pending `next` with it. Never throws. */
  cancel(): void
  /**
   * What an error among its events says, in our words; asked only before the first real event, when it is still a
   * refusal.
   */
  /** When the answer has to have begun, in milliseconds since 1970, however many comments come before. */
  readonly beginsBy?: number
  apiErrorOf?(event: SseEvent): Error | undefined
}

export type ChatAnswer =
  | { readonly kind: 'whole'; readonly body: Fields }
  | { readonly kind: 'stream'; readonly stream: ChatStream }

/**
 * Converses. Throws an `ApiError` for what the caller should hear of; anything else reads as MODEL_UNAVAILABLE. A whole
 * order gets a whole answer; a stream is answered only when its first event has come, so that an error before it is a
 * refusal like any other.
 */
export interface ChatVendor {
  /** The format that it speaks by itself, in which bodies pass untouched; every vendor takes `chat` as well. */
  readonly format: ChatFormat
  ask(order: ChatOrder, at: { signal: AbortSignal }): Promise<ChatAnswer>
}

/**
 * `most`: a count may end as soon as it exceeds this number; any number above it is then an answer. `spend` is told of
 * work before it is done, and may throw.
 */
export type CountOptions = { readonly limit?: number; spend?(characters: number): void }

export type CountTokens = (text: string, options?: CountOptions) => Promise<number>
