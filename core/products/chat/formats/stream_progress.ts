/** The state of a forwarded stream, and the interface of the readers of its events. */
import { ApiError } from '../../../http/errors.ts'
import type { Fields, Json } from '../../../lib/json.ts'
import type { ChatFormat, ChatStream, SseEvent } from '../../../ports/vendors/chat.ts'
import { brokenOff } from './answer_start.ts'

export type StreamFormat = {
  readonly format: ChatFormat
  /**
   * The upstream model id (the first chunk may name another, such as a dated one) and the public id that replaces it.
   */
  readonly model?: { readonly upstream: string; readonly publicId: string }
  /** Whether usage counts reasoning separately (contract 6.23). */
  readonly showsReasoningTokens?: boolean
  /** How many answers were asked for; 1 if absent. A stream that ends with fewer is interrupted. */
  readonly answers?: number
  /** Usage is sent on the chunk with the finish reason, and no chunk without choices (contract 6.67). */
  readonly isUsageMerged?: boolean
  /** Estimates usage from the number of characters when the vendor reports none (contract 6.65). */
  readonly estimate?: (characters: number) => Fields
}

/** State of a stream that its events change. */
export type StreamProgress = {
  hasContent: boolean
  hasStarted: boolean
  /** Whether a finish reason has arrived, and whether the stream is over. */
  isFinished: boolean
  isOver: boolean
  /** The closing events, which are held back. */
  closing: string
  usage: Json
}

export const newProgress = (): StreamProgress => ({
  hasContent: false,
  hasStarted: false,
  isFinished: false,
  isOver: false,
  closing: '',
  usage: null,
})

/** Reads the events of one format. Each text holds complete events. */
export type EventReader = {
  /** Matches text that must be parsed. No pattern can match inside a JSON string, where quotes are escaped. */
  readonly marks: RegExp
  /** Whether a text must be parsed event by event although no mark is in it. */
  isRead(text: string): boolean
  /** Returns the text to send for an event. Throws an ApiError for an error event. */
  read(event: SseEvent, raw: string): string
  /** Sees every text that is sent. */
  sent?(text: string): void
  /** Returns the text to send before the closing events, or before an error. */
  ending?(): string
  /** Usage where no event has set it. */
  lastUsage?(): Json
  /** Puts the public model id into a text. */
  renamed?(text: string): string
}

/** Before the answer starts, a failing stream is an ordinary error, classified by its vendor. */
export function upstreamFailure(
  upstream: ChatStream,
  { hasStarted, hasContent }: StreamProgress,
  { event, data }: { readonly event: string | undefined; readonly data: string },
): ApiError {
  const refusal =
    hasStarted || hasContent ? undefined : upstream.apiErrorOf?.({ data, ...(event !== undefined && { event }) })
  return refusal instanceof ApiError ? refusal : brokenOff()
}

/** Where one event of a text ends. */
export const EVENT_END = /(?<=\n\r?\n)(?!\r?\n)/
export const DONE = 'data: [DONE]\n\n'
