/** The vendor interfaces, a file for each product. Every vendor throws an `ApiError` with a text for the caller. */
import type { AudioRow, AudioVendor } from './audio.ts'
import type { ChatRow, ChatVendor } from './chat.ts'
import type { ImageRow, ImageVendor } from './images.ts'
import type { SandboxVendor } from './sandbox.ts'
import type { VideoRow, VideoVendor } from './video.ts'
import type { Fetching, MediaStream } from './media.ts'
import type { PortraitVendor } from './characters.ts'
import type { SearchVendor, WebSearchVendor } from './search.ts'
import type { MarketVendor } from './market.ts'
import type { SwapVendor } from './swap.ts'
import type { DataVendor } from './data.ts'
import type { RpcVendor } from './rpc.ts'
import type { VoiceVendor, PhoneVendor } from './phone.ts'
import type { OnrampVendor, BridgeVendor } from './wallet.ts'

export type * from './audio.ts'
export type * from './characters.ts'
export type * from './chat.ts'
export type * from './data.ts'
export type * from './images.ts'
export type * from './market.ts'
export type * from './media.ts'
export type * from './phone.ts'
export type * from './rpc.ts'
export type * from './sandbox.ts'
export type * from './search.ts'
export type * from './swap.ts'
export type * from './video.ts'
export type * from './wallet.ts'

/**
 * Vendors that a gateway may call. A product adds the interface of its own vendor from its folder:
 * `declare module '../../ports/vendors/mod.ts' { interface Vendors { readonly poems?: PoemVendor } }`. A member that
 * is a function of a row is made by the provider that the row names.
 */
export interface Vendors {
  readonly rpc?: RpcVendor
  readonly voice?: VoiceVendor
  readonly phone?: PhoneVendor
  readonly onramp?: OnrampVendor
  readonly bridge?: BridgeVendor
  readonly search?: SearchVendor
  readonly websearch?: WebSearchVendor
  readonly prediction?: DataVendor
  readonly defi?: DataVendor
  readonly market?: MarketVendor
  readonly swap?: SwapVendor
  readonly characters?: PortraitVendor
  readonly sandbox?: SandboxVendor
  /** The vendor that serves a catalog row; undefined when the operator has not configured it. */
  images(row: ImageRow): ImageVendor | undefined
  chat(row: ChatRow): ChatVendor | undefined
  video?(row: VideoRow): VideoVendor | undefined
  audio?(row: AudioRow): AudioVendor | undefined
  /**
   * Fetches a URL through the private-address guard. Throws when it fails or exceeds `maxBytes`, and NoMedia when no
   * retry can help.
   */
  media(url: string, at: Fetching): Promise<{ bytes: Uint8Array; type: string }>
  /** The same as a stream, for files that are too large to buffer. The body errors beyond `maxBytes`. */
  stream?(url: string, at: Fetching): Promise<MediaStream>
}
