/** OpenAI and xAI: chat completions and responses under one base (decision 75). */
import type { ChatVendor } from '../../../core/mod.ts'
import { openaiChat, type OpenaiChatConfig } from './chat.ts'
import { openaiResponses } from './responses.ts'

/**
 * Speaks `responses`. A chat order uses chat completions, unless it needs what only responses supports.
 *
 * @example
 * const chat = openai({ baseUrl, key, maker: 'OpenAI', timeoutMs: 120_000, clock, log })
 */
export function openai(config: OpenaiChatConfig): ChatVendor {
  const chat = openaiChat(config)
  const responses = openaiResponses(config)
  return {
    format: 'responses',
    ask: (order, at) => (order.format === 'chat' && order.by !== 'responses' ? chat : responses).ask(order, at),
  }
}
