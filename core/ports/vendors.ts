/** Who makes what is sold: every vendor that core asks, beside the ports of `ports.ts` and like them. Each throws a `Fault` for what the caller should hear of. */
import type { AudioKind, AudioRow } from '../products/audio/catalog.ts'
import type { ChatRow } from '../products/chat/row.ts'
import type { ImageRow } from '../products/images/catalog.ts'
import type { Gpu } from '../products/sandbox/catalog.ts'
import type { VideoRow } from '../products/video/catalog.ts'
import type { ApiError } from '../http/errors.ts'
import type { Json } from './mod.ts'
import type { Fields, SseEvent, ChatFormat } from '../products/chat/formats/wire.ts'

/** `model` is the vendor's own id; sizes are in pixels. */
export type ImageJob = {
  readonly model: string
  readonly prompt: string
  readonly width: number
  readonly height: number
  readonly n: number
}
/** `url` is an http(s) URL, often short-lived, or a data URI. */
export type MadeImage = { readonly url: string; readonly revisedPrompt?: string }

/** `images` and `mask` are data URIs of recognized image bytes; the mask is a PNG of the first image's dimensions. */
export type ImageEdit = ImageJob & { readonly images: readonly string[]; readonly mask?: string }

/** Makes images. Throws a `Fault` for what the caller should hear of; anything else reads as a failed call. */
export interface ImageVendor {
  generate(job: ImageJob, at: { signal: AbortSignal }): Promise<readonly MadeImage[]>
  /** Absent where the vendor cannot edit. */
  edit?(job: ImageEdit, at: { signal: AbortSignal }): Promise<readonly MadeImage[]>
}

/** One order to a chat vendor. Its body has no `model` and no `stream`: the vendor writes those. */
export type ChatOrder = {
  /** How `body` is written, and how the answer is: `chat`, or the vendor's own wire. */
  readonly wire: ChatFormat
  /** The vendor's own id. */
  readonly model: string
  readonly body: Fields
  readonly stream: boolean
  /** Asks a vendor that has both to serve `chat` over its responses API, which can do more. */
  readonly by?: 'responses'
  /** Headers of the caller's that belong to the wire, such as `anthropic-beta`; lower case. */
  readonly headers: Readonly<Record<string, string>>
}

/**
 * Server-sent events as bytes, as they come, cut anywhere. Ends with undefined; rejects where the connection breaks. An error among the events
 * is passed on like any other: who reads the stream judges it, and one that ends without its last event.
 */
export type ChatStream = {
  next(): Promise<Uint8Array | undefined>
  /** Ends the upstream call at once, and a pending `next` with it. Never throws. */
  cancel(): void
  /** What an error among its events says, in our words; asked only before the first real event, when it is still a refusal. */
  apiErrorOf?(event: SseEvent): ApiError | undefined
}

export type ChatAnswer =
  | { readonly kind: 'whole'; readonly body: Fields }
  | { readonly kind: 'stream'; readonly stream: ChatStream }

/**
 * Converses. Throws a `Fault` for what the caller should hear of; anything else reads as MODEL_UNAVAILABLE. A whole order gets a whole
 * answer; a stream is answered only when its first event has come, so that an error before it is a refusal like any other.
 */
export interface ChatVendor {
  /** The wire that it speaks by itself, in which bodies pass untouched; every vendor takes `chat` as well. */
  readonly wire: ChatFormat
  ask(order: ChatOrder, at: { signal: AbortSignal }): Promise<ChatAnswer>
}

/** One video to make. Media are http(s) URLs, or data URIs where their vendor takes them; `asset` is the vendor's own id of an enrolled character. */
export type VideoJob = {
  readonly model: string
  readonly prompt: string
  readonly seconds: number
  /** `480p`, `720p`, `1080p` or `4K`. */
  readonly resolution: string
  readonly aspectRatio?: string
  readonly image?: string
  readonly lastFrame?: string
  readonly asset?: string
  readonly referenceImages?: readonly string[]
  readonly referenceVideos?: readonly string[]
  readonly referenceAudios?: readonly string[]
  readonly generateAudio?: boolean
  readonly seed?: number
  readonly watermark?: boolean
  readonly returnLastFrame?: boolean
}

/** Where a job stands at its vendor. `done` and `failed` are final, whatever the vendor says afterwards. */
export type VideoState =
  | { readonly kind: 'running'; readonly status: 'queued' | 'in_progress'; readonly progress?: number }
  /** `url` is http(s), often short-lived, or a data URI; absent where the clip has to be asked for with `clip`. */
  | {
      readonly kind: 'done'
      readonly url?: string
      readonly lastFrameUrl?: string
      readonly seconds?: number
      readonly tokens?: number
      readonly requestId?: string
    }
  /** `reason` is for the buyer, in our words. */
  | { readonly kind: 'failed'; readonly reason: string; readonly code?: 'output_audio_moderation' | 'content_policy' }

/** Makes videos, over minutes and at the vendor's place. Throws a `Fault` for what the caller should hear of. */
export interface VideoVendor {
  /** Resolves when the vendor has taken the job; `handle` finds it from any process, for days. */
  submit(job: VideoJob, at: { signal: AbortSignal }): Promise<{ readonly handle: string }>
  /** Throws where the vendor cannot be asked just now: the job goes on. */
  look(handle: string, at: { signal: AbortSignal }): Promise<VideoState>
  /** The bytes of a finished clip that has no public URL. */
  clip?(handle: string, at: { signal: AbortSignal }): Promise<MediaStream>
}

/** A character to be known to a vendor. `image` is http(s), and only the vendor ever fetches it on its behalf. */
export type Enrolling = { readonly name: string; readonly image: string }
/** `rejected` says in our words why the vendor does not take the picture. */
export type Enrollment =
  | { readonly kind: 'enrolled'; readonly assetId: string }
  | { readonly kind: 'rejected'; readonly reason: string }
/** A check of a living person that has begun. `link` is where the person goes; absent, to `page`. `token` asks after it from any process. */
export type FaceSession = { readonly token: string; readonly link?: string; readonly expiresInSeconds: number }
/** A person who has passed the check has a group, to which pictures of the same face can be added. */
export type FaceState = { readonly kind: 'pending' } | { readonly kind: 'active'; readonly groupId: string }

/** Makes characters known to the vendor of videos: invented ones at once, real persons after they have shown themselves. Throws a `Fault` for what the caller should hear of. */
export interface PortraitVendor {
  /** The page that people are sent to where the vendor has none of its own, as HTML. */
  readonly page?: string
  enroll(character: Enrolling, at: { signal: AbortSignal }): Promise<Enrollment>
  session(name: string, at: { signal: AbortSignal }): Promise<FaceSession>
  status(token: string, at: { signal: AbortSignal }): Promise<FaceState>
  face(
    groupId: string,
    character: Enrolling,
    at: { signal: AbortSignal },
  ): Promise<Enrollment | { readonly kind: 'not_active' }>
}

/** How media are fetched. `foreign`: the URL is a caller's, for whom not even the operator's own hosts are called. */
export type Fetching = { readonly signal: AbortSignal; readonly maxBytes: number; readonly foreign?: boolean }

/** What a URL leads to is nothing that could be given to anybody: not there, behind a key, or no media. */
export class NoMedia extends Error {}

export const AUDIO_FORMATS = ['mp3', 'opus', 'pcm', 'wav'] as const
export type AudioFormat = (typeof AUDIO_FORMATS)[number]
/** `model` is the vendor's own id, and so is `voice`. `speed` 1 is that of the voice itself. */
export type SpeechJob = {
  readonly model: string
  readonly text: string
  readonly voice: string
  readonly format: AudioFormat
  readonly speed: number
}
/** The vendor chooses a length where none is said. */
export type SoundJob = {
  readonly model: string
  readonly text: string
  readonly format: AudioFormat
  readonly seconds?: number
  readonly promptInfluence?: number
}
/** Sung where it is not instrumental: these lyrics, or some that the vendor writes. `seconds` is a hint. */
export type MusicJob = {
  readonly model: string
  readonly prompt: string
  readonly instrumental: boolean
  readonly lyrics?: string
  readonly seconds?: number
}
/**
 * `url` is http(s), often short-lived, or a data URI. `sampleRate` is that of bare samples, which do not say it: 16 bits, little-endian, one
 * channel. `credits` is what the vendor counted; `note` is for the buyer, where no model made this.
 */
export type MadeAudio = {
  readonly url: string
  readonly seconds?: number
  readonly sampleRate?: number
  readonly credits?: number
  readonly lyrics?: string
  readonly note?: string
}
export type Voice = {
  readonly id: string
  readonly name: string
  readonly category: string
  readonly labels: Readonly<Record<string, string>>
  readonly previewUrl: string | null
}
/** What buyers may call the voices: aliases in lower case with the vendor's own ids, the usual one first, and how its other ids look. */
export type VoiceNames = { readonly aliases: Readonly<Record<string, string>>; readonly ids: RegExp }

/** Makes sounds. Throws a `Fault` for what the caller should hear of; anything else reads as a failed call. */
export interface AudioVendor {
  /** What it makes, and in which formats, the usual one first; a kind that is not there it does not make. */
  readonly makes: Readonly<Partial<Record<AudioKind, readonly AudioFormat[]>>>
  readonly voiceNames: VoiceNames
  /** Most characters of a speech, where that is less than its row says. */
  readonly maxCharacters?: number
  speak?(job: SpeechJob, at: { signal: AbortSignal }): Promise<MadeAudio>
  sound?(job: SoundJob, at: { signal: AbortSignal }): Promise<MadeAudio>
  compose?(job: MusicJob, at: { signal: AbortSignal }): Promise<MadeAudio>
  voices?(at: { signal: AbortSignal }): Promise<readonly Voice[]>
}

/** Media on its way: read once, never held whole. `size` in bytes where it is known. */
export type MediaStream = { readonly body: ReadableStream<Uint8Array>; readonly type: string; readonly size?: number }

/** What a search is asked for (contract 9.3). Dates are YYYY-MM-DD. */
export type SearchJob = {
  readonly query: string
  readonly sources: readonly ('web' | 'news')[]
  readonly maxResults: number
  readonly fromDate?: string
  readonly toDate?: string
}
/** `citations` in the order in which they are cited; `sourcesUsed` where the upstream reports it. */
export type SearchAnswer = {
  readonly summary: string
  readonly citations: readonly string[]
  readonly sourcesUsed?: number
  readonly model: string
}

/** Searches the live web. Throws a `Fault` for what the caller should hear of. */
export interface SearchVendor {
  search(job: SearchJob, at: { signal: AbortSignal }): Promise<SearchAnswer>
}

/** A shelf of feeds: three classes, and a stock market by its country. */
export const STOCK_MARKETS = ['us', 'hk', 'jp', 'kr', 'gb', 'de', 'fr', 'nl', 'ie', 'lu', 'cn', 'ca'] as const
export type StockMarket = (typeof STOCK_MARKETS)[number]
export type MarketKind = 'crypto' | 'fx' | 'commodity' | StockMarket

/** One thing that has a price. `symbol` is ours (contract 10.6); `key` is what its vendor calls it. */
export type Feed = {
  readonly symbol: string
  readonly description: string
  readonly assetType: string
  readonly feedId: string
  readonly key: string
}
/** Decimals as text; `publishTime` in unix seconds. */
export type Spot = { readonly price: string; readonly confidence: string; readonly publishTime: number }
export type Bar = {
  readonly t: number
  readonly o: string
  readonly h: string
  readonly l: string
  readonly c: string
  readonly v: string
}
export const RESOLUTIONS = ['1', '5', '15', '60', '240', 'D', 'W', 'M'] as const
export type Resolution = (typeof RESOLUTIONS)[number]
export type Session = 'pre' | 'post' | 'on'
export type Lane = 'paid' | 'free'

/** Prices and their history. Undefined where there is none for what was asked; throws a `Fault` when the upstream is away. */
export interface MarketVendor {
  /** Its name in replies. */
  readonly source: string
  feeds(shelf: MarketKind, at: { signal: AbortSignal }): Promise<readonly Feed[]>
  latest(feed: Feed, at: { session?: Session; signal: AbortSignal }): Promise<Spot | undefined>
  /** `from` and `to` in unix seconds, both within. Who pays says so: their questions never wait behind those that cost nothing. */
  bars(
    feed: Feed,
    at: { resolution: Resolution; from: number; to: number; session?: Session; lane?: Lane; signal: AbortSignal },
  ): Promise<readonly Bar[]>
}

/** A market that says at once what it has in memory and is still good: undefined where it must be asked. Never I/O. */
export type CachedData = {
  readonly atHand: { feeds(shelf: MarketKind): readonly Feed[] | undefined; latest(feed: Feed): Spot | undefined }
}

/** One call of the swap aggregator: `path` under its root, `query` with its question mark or ''. */
export type SwapCall = {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly query: string
  readonly body?: Uint8Array
}
/** `text` is the JSON as it came, for its numbers are not ours to round; `body` the same, parsed, or null where it was none. */
export type SwapAnswer = {
  readonly status: number
  readonly text: string
  readonly body: Json
  /** As the upstream wrote it. */ readonly retryAfter?: string
}
/** The aggregator's own answer, whatever its status. Throws a `Fault` UPSTREAM_TIMEOUT or MODEL_UNAVAILABLE where there is none. */
export interface SwapVendor {
  call(call: SwapCall, at: { signal: AbortSignal }): Promise<SwapAnswer>
  /** Where the affiliate fee goes: the treasury, as an address. */
  readonly feeRecipient: string
}

/** What the web can be asked for, each in the words of its endpoint. */
export type WebQuestion = 'search' | 'find-similar' | 'answer' | 'contents'
/** Searches the web and reads its pages. Answers, like all that is passed on, with JSON as text: its numbers are not ours to round. */
export interface WebSearchVendor {
  ask(question: WebQuestion, order: Fields, at: { signal: AbortSignal }): Promise<string>
}

/** A question to a service whose answers are passed on: a path below its root and a query that core/products/lib/passthrough_path.ts has judged; a POST where there is a body. */
export type PassthroughRequest = { readonly path: string; readonly query: string; readonly body?: Fields }
/** Throws a `Fault`: PASSED_ON for what the caller should hear of, UPSTREAM_FAILED where there is no answer. */
export interface DataVendor {
  ask(passage: PassthroughRequest, at: { signal: AbortSignal }): Promise<string>
}

/** One call of JSON-RPC 2.0, and what a node says to it or to a list of them. */
export type RpcCall = {
  readonly jsonrpc: '2.0'
  readonly id: string | number
  readonly method: string
  readonly params?: readonly Json[]
}
export type RpcAnswer = { readonly text: string; readonly isCached: boolean }
/** The operator's nodes. Throws a `Fault` UPSTREAM_FAILED where there is no answer, or only one that the node is at fault for. */
export interface RpcVendor {
  /** Networks that there is a node of, by slug. */
  readonly networks: readonly string[]
  ask(network: string, calls: RpcCall | readonly RpcCall[], at: { signal: AbortSignal }): Promise<RpcAnswer>
}

/** A call to a person, by a voice. `from` and `to` are E.164; times in minutes and milliseconds, as the endpoint has them. */
export type Ringing = {
  readonly to: string
  readonly from: string
  readonly task: string
  readonly voice: string
  readonly language: string
  readonly maxMinutes: number
  readonly model: string
  readonly firstSentence?: string
  readonly waitForGreeting?: boolean
  readonly interruptionMs?: number
  readonly voicemail?: { readonly action: string; readonly message?: string }
}
/** Rings people up. A failure after which it is not known whether somebody is rung is a `TimeoutError` or UPSTREAM_FAILED; any other `Fault` rang nobody. */
export interface VoiceVendor {
  /** Resolves when the call is accepted for dialing; `handle` finds it from any process. Sent once. */
  ring(call: Ringing, at: { signal: AbortSignal }): Promise<{ readonly handle: string }>
  /** The vendor's own record of a call; undefined where it knows none. */
  look(handle: string, at: { signal: AbortSignal }): Promise<Fields | undefined>
}

/** A number that the operator rents, `id` by its carrier; `order` is what it was bought under, '' where that was not by us. */
export type Line = { readonly number: string; readonly id: string; readonly order: string }
/** Knows about phone numbers, and rents them. Throws a `Fault` for what the caller should hear of. */
export interface PhoneVendor {
  /** Where numbers are rented, ISO 3166: what one costs its operator differs by country, and its price here does not. */
  readonly countries: readonly string[]
  /** The carrier's record as it came, JSON as text. */
  lookup(number: string, about: 'carrier' | 'fraud', at: { signal: AbortSignal }): Promise<string>
  /** Buys one number under this order, or finds the one that was bought under it before. Undefined where there is none to be had. */
  buy(
    wanted: { readonly country: string; readonly areaCode?: string; readonly order: string },
    at: { signal: AbortSignal },
  ): Promise<Line | undefined>
  /** Whether the operator still has it. */
  has(id: string, at: { signal: AbortSignal }): Promise<boolean>
  /** Gives it back; one that has gone already is given back. */
  release(id: string, at: { signal: AbortSignal }): Promise<void>
  /** All that were bought under an order. */
  lines(at: { signal: AbortSignal }): Promise<readonly Line[]>
}

/** Makes links by which a wallet is filled with bought money. */
export interface OnrampVendor {
  link(
    wanted: { readonly address: string; readonly network: string; readonly asset: string; readonly ip: string },
    at: { signal: AbortSignal },
  ): Promise<string>
}

/** Takes deposits for accounts at a prediction market. */
export interface BridgeVendor {
  /** Those that it takes deposits on, CAIP-2. */
  readonly networks: readonly string[]
  /** Where deposits for an account are to be sent, in lower case. */
  depositAddress(account: string, at: { signal: AbortSignal }): Promise<string>
}

/** A machine to be rented: how long it lives, its cores and its memory in MB. */
export type SandboxOrder = {
  readonly seconds: number
  readonly cpu: number
  readonly memory: number
  readonly gpu?: Gpu
}
/** What a command came to: 124 where its time was over, 127 where there is no such command. */
export type Ran = { readonly stdout: string; readonly stderr: string; readonly returncode: number }
export type SandboxState = { readonly kind: 'running' } | { readonly kind: 'ended'; readonly returncode: number | null }

/** Rents machines that run other people's Python, apart from everything else. Throws a `Fault` for what the caller should hear of. */
export interface SandboxVendor {
  /** Stands in the records of its sandboxes: another vendor cannot find them. */
  readonly name: string
  readonly hasGpus: boolean
  /** What it runs, where that is not what was ordered. */
  readonly runtime?: string
  /** Resolves when it runs. What is ready after `signal` has aborted is ended. `handle` is as unguessable as a key, and finds it from any process. */
  create(order: SandboxOrder, at: { signal: AbortSignal }): Promise<{ readonly handle: string }>
  /** Undefined where the sandbox has ended before. The command is ended after `seconds`. */
  exec(
    handle: string,
    command: { readonly command: readonly string[]; readonly seconds: number },
    at: { signal: AbortSignal },
  ): Promise<Ran | undefined>
  status(handle: string, at: { signal: AbortSignal }): Promise<SandboxState>
  /** Resolves as well where it has ended before. */
  terminate(handle: string, at: { signal: AbortSignal }): Promise<void>
}

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
  readonly portraits?: PortraitVendor
  readonly sandbox?: SandboxVendor
  /** The vendor that serves a catalog row; undefined when the operator has not configured it. */
  images(row: ImageRow): ImageVendor | undefined
  chat(row: ChatRow): ChatVendor | undefined
  video?(row: VideoRow): VideoVendor | undefined
  audio?(row: AudioRow): AudioVendor | undefined
  /** Fetches what a URL points at, behind the private-address guard. Throws when it cannot, or past `maxBytes`; NoMedia where nobody could. */
  media(url: string, at: Fetching): Promise<{ bytes: Uint8Array; type: string }>
  /** The same, read as it comes: for what is too large to be held. The body errors past `maxBytes`. */
  stream?(url: string, at: Fetching): Promise<MediaStream>
}
