/** The public door of core: everything that an embedding program or an adapter may use. */
export { type Timeouts, timeouts } from './payment/settle.ts'
export {
  AUDIO_KINDS,
  type AudioKind,
  type AudioOverride,
  type AudioRow,
  audioRows,
  type Catalog,
  catalog,
  type ChatOverride,
  type ChatRow,
  chatRows,
  type ImageOverride,
  type ImageRow,
  imageRows,
  narrowed,
  networkOf,
  networkRows,
  overrideAudio,
  overrideChat,
  overrideImages,
  overrideVideos,
  SMALL,
  type VideoOverride,
  type VideoRow,
  videoRows,
} from './products/catalog.ts'
export { type Endpoint, free, hybrid, json, streamed, onPoll, paid, polled, type Reply } from './endpoint/mod.ts'
export { endpoints } from './products/mod.ts'
export { ApiError, type ApiErrorCode, rateLimited } from './http/errors.ts'
export { type Caller, type Gateway, gateway, type Setup } from './gateway.ts'
export { retiredGateway } from './retired_gateway.ts'
export { type Judged, type Meter, NO_ENDPOINT, type Settled } from './ports/meter.ts'
export * from './x402/money.ts'
export { pathProblem } from './products/lib/passthrough_path.ts'
export type * from './ports/mod.ts'
export { flatPrice, mediaPrice, piecePrice } from './x402/pricing.ts'
export { type CountOptions, type CountTokens, memoized } from './products/chat/token_estimate.ts'
export { duplicatesIn } from './lib/duplicates.ts'
export type * from './ports/vendors.ts'
export { NoMedia } from './ports/vendors.ts'
export type { Fields, Rewriter, SseEvent, ChatFormat } from './products/chat/formats/wire.ts'
export { EXPOSED_HEADERS, type Offer, PAYMENT_HEADERS, type Payment, type Receipt } from './x402/protocol.ts'
