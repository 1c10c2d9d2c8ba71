/** The public door to the adapters that run on Bun, Deno and Node. */
export { type BatchedChain, type BatchedConfig, batchedChain } from './chains/evm/batched/mod.ts'
export {
  type MemoryChain,
  type MemoryChainOptions,
  type SignOptions,
  type MemoryTransfer,
  memoryChain,
  type SimulatedOutcome,
} from './chains/evm/memory.ts'
export { type EvmChain, type EvmConfig, evmChain } from './chains/evm/mod.ts'
export { type FacilitatorChain, type FacilitatorConfig, facilitatorChain } from './chains/evm/facilitator.ts'
export { multiChain } from './chains/multi_chain.ts'
export { type SolanaChain, type SolanaConfig, solanaChain } from './chains/solana/mod.ts'
export type { CheckResult } from './chains/lib/results.ts'
export {
  type SolanaFacilitatorChain,
  type SolanaFacilitatorConfig,
  solanaFacilitator,
} from './chains/solana/facilitator.ts'
export { consoleLog, type LocalPorts, localPorts, randomBytes, systemClock } from './local.ts'
export { isSignedBy, offerSigner } from './offer_signer.ts'
export { fastifyPlugin, nodeListener } from './http/node_listener.ts'
export { webHandler } from './http/web_handler.ts'
export { openObjects, openStorage, type S3Environment } from './open.ts'
export { memoryObjects } from './objects/memory.ts'
export { memoryStorage } from './storage/memory/mod.ts'
export { countTokens, warmTokenizer } from './token_counter.ts'
export type { AudioVendorConfig } from './providers/lib/audio_provider.ts'
export type { ChatVendorConfig } from './providers/lib/chat/provider.ts'
export { demoSearch } from './providers/demo/search.ts'
export { ELEVENLABS, elevenlabs } from './providers/elevenlabs/audio.ts'
export { EXA_SEARCH, type ExaSearchConfig, exaSearch } from './providers/exa/search.ts'
export { type FetchMedia, type MediaOptions, mediaFetcher } from './http/media_download.ts'
export { mediaStreamer, type StreamMedia } from './http/media_download.ts'
export { cachedMarket, type MarketCacheOptions } from './providers/lib/market_cache.ts'
export { MINIMAX, minimaxMusic } from './providers/minimax/music.ts'
export { anthropicMessages } from './providers/anthropic/messages.ts'
export { seedream } from './providers/bytedance/images.ts'
export { seedance } from './providers/bytedance/videos.ts'
export { geminiChat } from './providers/gemini/chat.ts'
export { geminiImages } from './providers/gemini/images.ts'
export type { ImageVendorConfig } from './providers/lib/image_provider.ts'
export type { VideoVendorConfig } from './providers/lib/video_provider.ts'
export { openaiChat, type OpenaiChatConfig } from './providers/openai/chat.ts'
export { openaiImages } from './providers/openai/images.ts'
export { openai } from './providers/openai/maker.ts'
export { openaiResponses } from './providers/openai/responses.ts'
export { openaiVideos } from './providers/openai/videos.ts'
export { sdapi } from './providers/sdapi/images.ts'
export { resellerVideos } from './providers/token360/videos.ts'
export { xaiImages } from './providers/xai/images.ts'
export { xaiVideos } from './providers/xai/videos.ts'
export { cogview } from './providers/zai/images.ts'
export { type OpenaiSpeechConfig, openaiSpeech } from './providers/openai/speech.ts'
export { ECHO_LABEL, echoVendor } from './providers/demo/chat.ts'
export { type PythConfig, pythMarket } from './providers/pyth/market.ts'
export { demoMarket } from './providers/demo/market.ts'
export { firstOf, SEARCH_TIMEOUT_MS, type SearchVendorConfig } from './providers/lib/search_provider.ts'
export { XAI_SEARCH, type XaiSearchConfig, xaiSearch } from './providers/xai/search.ts'
export { type ZeroxConfig, zerox } from './providers/zerox/swap.ts'
