/** The protocols that an operator can name in the configuration. */
import type { ChatVendor, ImageVendor } from '../../core/mod.ts'
import { anthropicMessages } from './anthropic_messages.ts'
import { cogview } from './cogview.ts'
import { geminiChat } from './gemini_chat.ts'
import { geminiImages } from './gemini_images.ts'
import type { ImageVendorConfig } from './image_vendor.ts'
import { openai } from './openai.ts'
import { openaiChat, type OpenaiChatConfig } from './openai_chat.ts'
import { openaiImages } from './openai_images.ts'
import { openaiResponses } from './openai_responses.ts'
import { sdapi } from './sdapi.ts'
import { seedream } from './seedream.ts'
import { xaiImages } from './xai_images.ts'

export { CHAT_TIMEOUT_MS } from './chat_vendor.ts'
export type { ImageVendorConfig } from './image_vendor.ts'

// ── images ──────────────────────────────────────────────────────────────────────────────────────────────────────────

export type ImageProtocol = 'openai-images' | 'gemini-images' | 'xai-images' | 'cogview' | 'seedream' | 'sdapi'

export const imageProtocols: Readonly<Record<ImageProtocol, (config: ImageVendorConfig) => ImageVendor>> = {
  'openai-images': openaiImages,
  'gemini-images': geminiImages,
  'xai-images': xaiImages,
  cogview,
  seedream,
  sdapi,
}

/** Where the maker of each protocol serves it (reference/vendors.md 2 and 11); `sdapi` has no public address. */
export const imageBaseUrls: Readonly<Record<ImageProtocol, string>> = {
  'openai-images': 'https://api.openai.com/v1',
  'gemini-images': 'https://generativelanguage.googleapis.com',
  'xai-images': 'https://api.x.ai/v1',
  cogview: 'https://api.z.ai/api/paas/v4',
  seedream: 'https://ark.ap-southeast.bytepluses.com/api/v3',
  sdapi: 'http://127.0.0.1:7860',
}

// ── chat ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** `openai` speaks responses, and chat completions for chat; the other four speak one protocol each. */
export type ChatProtocol = 'openai' | 'openai-chat' | 'openai-responses' | 'anthropic-messages' | 'gemini'

/** With the options of every protocol; each reads its own. */
export type ChatProtocolConfig = OpenaiChatConfig

export const chatProtocols: Readonly<Record<ChatProtocol, (config: ChatProtocolConfig) => ChatVendor>> = {
  openai,
  'openai-chat': openaiChat,
  'openai-responses': openaiResponses,
  'anthropic-messages': anthropicMessages,
  gemini: geminiChat,
}

/** Where the maker of each protocol serves it (reference/vendors.md 2 and 11). */
export const chatBaseUrls: Readonly<Record<ChatProtocol, string>> = {
  openai: 'https://api.openai.com/v1',
  'openai-chat': 'https://api.openai.com/v1',
  'openai-responses': 'https://api.openai.com/v1',
  'anthropic-messages': 'https://api.anthropic.com',
  gemini: 'https://generativelanguage.googleapis.com',
}
