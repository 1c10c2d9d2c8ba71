/** The door to the adapters that run on Bun, Deno and Node alike: what the package brings beside core. */
export { type BatchedChain, type BatchedConfig, batchedChain } from './chains/batched/mod.ts'
export {
  type MemoryChain,
  type MemoryChainOptions,
  type SignOptions,
  type MemoryTransfer,
  memoryChain,
  type SimulatedOutcome,
} from './chains/memory.ts'
export { type EvmChain, type EvmConfig, evmChain } from './chains/evm/mod.ts'
export { type FacilitatorChain, type FacilitatorConfig, facilitatorChain } from './chains/facilitator/mod.ts'
export { multiChain } from './chains/multi_chain.ts'
export { type SolanaChain, type SolanaConfig, solanaChain } from './chains/solana/mod.ts'
export type { SolanaChecked } from './chains/solana/check.ts'
export {
  type SolanaFacilitatorChain,
  type SolanaFacilitatorConfig,
  solanaFacilitator,
} from './chains/solana/facilitator.ts'
export { consoleLog, type LocalPorts, localPorts, randomBytes, systemClock } from './local.ts'
export { nodeListener } from './http/node_listener.ts'
export { memoryObjects } from './objects/memory.ts'
export { memoryStorage } from './storage/memory.ts'
export { countTokens, warmTokenizer } from './token_counter.ts'
export type { AudioVendorConfig } from './providers/lib/audio_provider.ts'
export type { ChatVendorConfig } from './providers/lib/chat/provider.ts'
export { demoSearch } from './providers/demo/search.ts'
export { ELEVENLABS, elevenlabs } from './providers/elevenlabs/audio.ts'
export { EXA_SEARCH, type ExaSearchConfig, exaSearch } from './providers/exa/search.ts'
export { type FetchMedia, type HttpOptions, mediaFetcher } from './http/fetch.ts'
export { mediaStreamer, type StreamMedia } from './http/media_download.ts'
export { cachedMarket, type MarketCacheOptions } from './providers/lib/market_cache.ts'
export { MINIMAX, minimaxMusic } from './providers/minimax/music.ts'
export {
  chatBaseUrls,
  chatProtocols,
  imageBaseUrls,
  imageProtocols,
  videoBaseUrls,
  type VideoProtocol,
  videoProtocols,
  type VideoVendorConfig,
} from './providers/mod.ts'
export { type OpenaiSpeechConfig, openaiSpeech } from './providers/openai/speech.ts'
export { ECHO_LABEL, echoVendor } from './providers/demo/chat.ts'
export { type PythConfig, pythMarket } from './providers/pyth/market.ts'
export { demoMarket } from './providers/demo/market.ts'
export { type Script, type ScriptedVendor, scriptedVendor } from './providers/scripted/images.ts'
export { type ScriptedVideo, scriptedVideo, type VideoScript } from './providers/scripted/videos.ts'
export { type AudioJob, type ScriptedAudio, scriptedAudio } from './providers/scripted/audio.ts'
export { firstOf, SEARCH_TIMEOUT_MS, type SearchVendorConfig } from './providers/lib/search_provider.ts'
export { XAI_SEARCH, type XaiSearchConfig, xaiSearch } from './providers/xai/search.ts'
export { type ZeroxConfig, zerox } from './providers/zerox/swap.ts'
