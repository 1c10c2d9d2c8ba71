/** The four ways in which a conversation is written down, and the small parts that translating between them needs. */
import type { Json } from '../../../ports/mod.ts'

/**
 * `chat` is POST /chat/completions, the wire between all others; `messages`, `responses` and `generate_content` are the vendor-compatible
 * surfaces of contract 7.1. A translation goes from a wire to `chat`, or from `chat` to a wire.
 */
export type ChatFormat = 'chat' | 'messages' | 'responses' | 'generate_content'

/** A JSON object: the body of a request or of a reply in some wire. */
export type Fields = { readonly [name: string]: Json }

/** One server-sent event; `data` lines are joined. A comment is no event. */
export type SseEvent = { readonly event?: string; readonly data: string }

/** Turns the events of one wire into those of another, one at a time. It returns SSE text, and '' where there is nothing to say yet. */
export type Rewriter = {
  on(event: SseEvent): string
  /** After the last event: closes what is still open. */
  end(): string
}
