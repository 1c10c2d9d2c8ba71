/** The vendor interface for chat, and the chat formats (decision 38). */
import type { Dollars } from '../../x402/money.ts'
import type { Fields } from '../../lib/json.ts'

/**
 * The price of a chat model. Rates are list prices in US dollars per million tokens, without margin (contract 6.37).
 */
export type ChatBilling =
  | {
      readonly mode: 'paid'
      readonly input: Dollars
      readonly output: Dollars
      readonly cacheRead?: Dollars
      readonly cacheWrite?: Dollars
      /** From this number of prompt tokens on, the whole request is priced at these rates. */
      readonly long?: { readonly from: number; readonly input: Dollars; readonly output: Dollars }
    }
  /** Per request, with the fee included. */
  | { readonly mode: 'flat'; readonly price: Dollars }
  | { readonly mode: 'free' }

export const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const

export type Effort = (typeof EFFORTS)[number]

/** How `reasoning_effort` is mapped (contract 6.34). Without rules it is forwarded unchanged. */
export type EffortRules = {
  /** The value sent for each value of a caller; one that is missing is 400 INVALID_PARAMETER. */
  readonly sent: Readonly<Partial<Record<Effort, Effort>>>
  /** The same with function tools; by default `sent`. */
  readonly withTools?: Readonly<Partial<Record<Effort, Effort>>>
  /** Sent with function tools when the caller gives no value. */
  readonly defaultWithTools?: Effort
  /** Sent with function tools whatever the caller gives. */
  readonly forcedWithTools?: Effort
  /** The output share of the quote grows with the effort that is sent: 2.5 at high, 3 at xhigh, 4.5 at max. */
  readonly scalesQuote?: boolean
}

/** How a vendor counts the tokens of an image in the prompt. */
export type ImageTokens = 'tiles_512' | 'area_750' | 'tiles_768' | 'tiles_448'

/** Inputs other than text and images: documents such as PDF, audio, and video. */
export const CHAT_MEDIA = ['file', 'audio', 'video'] as const
export type ChatMedium = (typeof CHAT_MEDIA)[number]

/** One chat model for sale. */
export type ChatRow = {
  /** Public id, `<vendor>/<model>`. */
  readonly id: string
  readonly aliases: readonly string[]
  readonly name: string
  readonly description: string
  /** The maker, for `owned_by` and as the source of a rate limit. */
  readonly maker: string
  /** The operator's vendor that serves it, and the vendor's own id. */
  readonly vendor: string
  readonly upstream: string
  /** Unix time of its release, in seconds. */
  readonly created: number
  /** Tokens. */
  readonly contextWindow: number
  readonly maxOutput: number
  readonly categories: readonly ('chat' | 'reasoning' | 'coding' | 'vision')[]
  readonly billing: ChatBilling
  /** `response_format` is forwarded, or emulated by an instruction in the system prompt (contract 6.18). */
  readonly structured: 'forwarded' | 'emulated'
  /** Absent for models without image input. */
  readonly images?: ImageTokens
  /** Inputs beside text and images. Others are 400 before the quote. */
  readonly reads?: readonly ChatMedium[]
  readonly effort?: EffortRules
  /** Parameters that are dropped, so that the request succeeds (contract 6.31). */
  readonly strips?: readonly string[]
  /** Parameters that are 400 INVALID_PARAMETER; a `temperature` of 1 is accepted all the same (contract 6.33). */
  readonly refuses?: readonly string[]
  /** Maximum number of `stop` strings; more are 400. Absent when the vendor states none. */
  readonly maxStops?: number
  /** A forced `tool_choice` is served as `auto`. */
  readonly noForcedTools?: boolean
  /** Function tools use the responses format, because chat refuses them together with an effort (decision 75). */
  readonly toolsByResponses?: boolean
  /** The upstream makes the `n` answers that a chat request asks for. Without it `n` above 1 is 400 (contract 6.45). */
  readonly multipleAnswers?: boolean
  /** Accepts `search_parameters`, for this surcharge per call in US dollars. */
  readonly liveSearch?: Dollars
  /** Caches prompts on request: `prompt_cache`, or `cache_control` in the content. */
  readonly promptCache?: boolean
  /** Also served, for listed payers, by generateContent. `responses` changes nothing: it serves every row. */
  readonly surfaces?: readonly ('responses' | 'generate_content')[]
  /** Ids of rows to try in order while this one is unavailable; none costs more. */
  readonly fallbacks?: readonly string[]
  /** The model family, when an operator has redirected this row and it is not that of `maker`. */
  readonly family?: string
  /** The row that serves it instead, after an operator's redirect. */
  readonly servedBy?: string
  /** Sold, but not listed. */
  readonly hidden?: boolean
}

/**
 * `chat` is POST /chat/completions, the format between all others; `messages`, `responses` and `generate_content` are
 * the vendor-compatible formats of contract 7.1. A translation goes from a format to `chat`, or from `chat` to a
 * format.
 */
export type ChatFormat = 'chat' | 'messages' | 'responses' | 'generate_content'

/** One server-sent event; its `data` lines are joined. Comments are not events. */
export type SseEvent = { readonly event?: string; readonly data: string }

/** One request to a chat vendor. Its body has neither `model` nor `stream`; the vendor adapter adds them. */
export type ChatOrder = {
  /** The format of `body` and of the answer: `chat`, or the vendor's own format. */
  readonly format: ChatFormat
  /** The vendor's own id. */
  readonly model: string
  readonly body: Fields
  readonly stream: boolean
  /** Fields of `body` that the gateway has set or changed; when the vendor refuses one, the operator has to fix it. */
  readonly ours?: readonly string[]
  /** The model family, such as `vendor-a`, for parameter names in a protocol that many servers implement. */
  readonly family?: string
  /** Asks a vendor with both APIs to serve `chat` over its responses API, which can do more. */
  readonly by?: 'responses'
  /** Headers of the caller that belong to the format, such as `anthropic-beta`; names in lower case. */
  readonly headers: Readonly<Record<string, string>>
}

/**
 * Server-sent events as raw bytes, in arbitrary chunks. Ends with undefined; rejects when the connection breaks. Error
 * events are passed through: the reader of the stream handles them, and a stream without its last event.
 */
export type ChatStream = {
  next(): Promise<Uint8Array | undefined>
  /** Cancels the upstream call and a pending `next` at once. Never throws. */
  cancel(): void
  /**
   * Called in place of `cancel` when the last event has come: the rest of the reply is read, so that its connection can
   * serve the next call. Never throws.
   */
  finish?(): void
  /**
   * Our text for an error event; called only before the first content event, while the error can still be a plain
   * refusal.
   */
  /** When the answer has to have begun, in milliseconds since 1970, however many comments come before it. */
  readonly beginsBy?: number
  apiErrorOf?(event: SseEvent): Error | undefined
}

export type ChatAnswer =
  | { readonly kind: 'whole'; readonly body: Fields }
  | { readonly kind: 'stream'; readonly stream: ChatStream }

/**
 * Answers chats. Throws an `ApiError` with a text for the caller; any other error becomes MODEL_UNAVAILABLE. A
 * non-streaming order gets a whole answer; a stream is returned only once its first event has arrived, so that an
 * earlier error is a plain refusal.
 */
export interface ChatVendor {
  /** Its native format, in which bodies are passed through unchanged; every vendor accepts `chat` as well. */
  readonly format: ChatFormat
  /** Chat orders are translated into the native format as well, although the maker has a chat API: one answer each. */
  readonly translatesChat?: boolean
  ask(order: ChatOrder, at: { signal: AbortSignal }): Promise<ChatAnswer>
  /** Whether it has as many requests as it takes: another order is not priced. Always false without it. */
  isFull?(): boolean
}

/**
 * With `limit`, a count may stop once it exceeds this number and return any number above it. `spend` is called before
 * the work is done, and may throw.
 */
export type CountOptions = { readonly limit?: number; spend?(characters: number): void }

/** A promise only where the text has to be counted, and not where its count is remembered. */
export type CountTokens = (text: string, options?: CountOptions) => number | Promise<number>
