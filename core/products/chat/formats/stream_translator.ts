/** The interface of the translators between chat formats. */
import type { SseEvent } from '../../../ports/vendors/chat.ts'

/**
 * Translates the events of one chat format into another, one at a time. Returns SSE text, or '' while there is nothing
 * to send.
 */
export type StreamTranslator = {
  on(event: SseEvent): string
  /** Call after the last event. Returns the closing events. */
  end(): string
}
