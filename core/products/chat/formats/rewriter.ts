/** The four ways in which a conversation is written down, and the small parts that translating between them needs. */
import type { SseEvent } from '../../../ports/vendors/chat.ts'

/** Turns the events of one wire into those of another, one at a time. It returns SSE text, and '' where there is nothing to say yet. */
export type Rewriter = {
  on(event: SseEvent): string
  /** After the last event: closes what is still open. */
  end(): string
}
