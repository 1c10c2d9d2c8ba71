/** The protocols that an operator can name in the configuration. */
import type { ChatVendor, ImageVendor, VideoVendor } from '../../core/mod.ts'
import { anthropicMessages } from './anthropic/messages.ts'
import { cogview } from './zai/images.ts'
import { geminiChat } from './gemini/chat.ts'
import { geminiImages } from './gemini/images.ts'
import type { ImageVendorConfig } from './lib/image_provider.ts'
import { openai } from './openai/maker.ts'
import { openaiChat, type OpenaiChatConfig } from './openai/chat.ts'
import { openaiImages } from './openai/images.ts'
import { openaiResponses } from './openai/responses.ts'
import { openaiVideos } from './openai/videos.ts'
import { resellerVideos } from './token360/videos.ts'
import { sdapi } from './sdapi/images.ts'
import { seedance } from './bytedance/videos.ts'
import { seedream } from './bytedance/images.ts'
import type { VideoVendorConfig } from './lib/video_provider.ts'
import { xaiImages } from './xai/images.ts'
import { xaiVideos } from './xai/videos.ts'

export { CHAT_TIMEOUT_MS } from './lib/chat/provider.ts'
export type { ImageVendorConfig } from './lib/image_provider.ts'
export { LOOK_TIMEOUT_MS, SUBMIT_TIMEOUT_MS, type VideoVendorConfig } from './lib/video_provider.ts'

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

/** Where the maker of each protocol serves it (decision 75); `sdapi` has no public address. */
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

/** Where the maker of each protocol serves it (decision 75). */
export const chatBaseUrls: Readonly<Record<ChatProtocol, string>> = {
  openai: 'https://api.openai.com/v1',
  'openai-chat': 'https://api.openai.com/v1',
  'openai-responses': 'https://api.openai.com/v1',
  'anthropic-messages': 'https://api.anthropic.com',
  gemini: 'https://generativelanguage.googleapis.com',
}

// ── videos ──────────────────────────────────────────────────────────────────────────────────────────────────────────

export type VideoProtocol = 'xai-videos' | 'seedance' | 'openai-videos' | 'reseller-videos'

export const videoProtocols: Readonly<Record<VideoProtocol, (config: VideoVendorConfig) => VideoVendor>> = {
  'xai-videos': xaiVideos,
  seedance,
  'openai-videos': openaiVideos,
  'reseller-videos': resellerVideos,
}

/** Where each protocol is served (decision 75); OpenAI itself has shut its videos down. */
export const videoBaseUrls: Readonly<Record<VideoProtocol, string>> = {
  'xai-videos': 'https://api.x.ai/v1',
  seedance: 'https://ark.ap-southeast.bytepluses.com/api/v3',
  'openai-videos': 'https://api.openai.com/v1',
  'reseller-videos': 'https://api.token360.ai/v1',
}
