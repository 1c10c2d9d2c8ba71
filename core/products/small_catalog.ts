/**
 * The catalog of a gateway with worthless money, such as a test network: one or two cheap models of each kind (contract
 * 21.5).
 *
 * @example
 * const cheap = narrowed(catalog(), SMALL)
 */
export const SMALL: readonly string[] = [
  'vendor-a/image-1',
  'vendor-a/image-2',
  'vendor-c/video-1',
  'elevenlabs/flash-v2.5',
  'elevenlabs/sound-effects',
  'minimax/music-2.5+',
  'vendor-a/chat-6-small',
  'vendor-b/chat-3.1-flash-lite',
  'vendor-open/llama-3.3-70b',
  'vendor-open/gpt-oss-20b',
  'farebox/echo',
  'farebox/echo-free',
]
