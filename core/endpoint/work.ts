/** An order for work, and its result. */
import type { Vendors } from '../ports/vendors/mod.ts'
import type { Context, Offering, Catalog } from './offering.ts'
import type { CallStorage, Ports, RecordStorage, StoredRecord } from '../ports/mod.ts'
import type { CallContext } from './call_context.ts'
import type { Json } from '../lib/json.ts'
import type { Usdc } from '../x402/money.ts'
import type { MediaStream } from '../ports/vendors/media.ts'

/** One order for work. `signal` aborts at the work's deadline, never because the caller disconnected. */
export type Order<Input> = {
  readonly id: string
  readonly input: Input
  /** Empty for free calls. */
  readonly payer: string
  readonly catalog: Catalog
  readonly vendors: Vendors
  readonly networks?: Context['networks']
  /** When the work began, in milliseconds. */
  readonly now: number
  readonly clock: Ports['clock']
  /** Records beside the calls, of any owner. */
  readonly records: Pick<RecordStorage, 'getRecord'> & Pick<CallStorage, 'getCall'>
  readonly call?: CallContext
  readonly signal: AbortSignal
}

/** Context of a poll of an upstream job. `request` has the stored request fields. */
export type UpstreamPollContext = Offering & { readonly request: Json; readonly signal: AbortSignal }

/** `error` and `fields` are what a poll reports of a failed job. */
export type UpstreamStatus =
  | { readonly kind: 'running'; readonly progress?: number }
  | { readonly kind: 'done'; readonly made: Made }
  | { readonly kind: 'failed'; readonly error: string; readonly fields?: Readonly<Record<string, Json>> }

/** Opens a media file. `signal` aborts when it is no longer wanted. */
export type OpenMedia = (at: { signal: AbortSignal }) => Promise<MediaStream>

/**
 * Media to mirror to durable storage under `<folder>/<date>/`. `streams` opens the file with this index in `urls` when
 * its URL alone does not; the URL is then only a fallback. `kinds` says what each file must be: when one is of another
 * kind, not even its URL is passed on. `foreign`: the URLs are pictures supplied by the caller.
 */
export type MadeMedia = {
  readonly folder: string
  readonly urls: readonly string[]
  readonly streams?: readonly (OpenMedia | undefined)[]
  readonly kinds?: readonly ('image' | 'video' | 'audio')[]
  readonly foreign?: true
}

/** Result of work: JSON, and media. */
export type Made = {
  readonly result: Json
  readonly media?: MadeMedia
  /** When the result loses its value, if that is before its endpoint's retention ends. */
  readonly until?: number
  /**
   * Records to store for the payer, after the media are mirrored and before settlement. A record that another wallet
   * already has fails the call.
   */
  recordsToStore?(media: readonly Hosted[]): readonly Omit<StoredRecord, 'owner'>[]
}

/**
 * One media file after mirroring. `key` is null when mirroring failed; `url` is then the upstream URL, or null when
 * that is of no use.
 */
export type Hosted = { readonly key: string | null; readonly url: string | null; readonly source: string }

/** Copies the media of a call to durable storage. Never rejects. */
export type Mirror = (id: string, media: MadeMedia | undefined) => Promise<readonly Hosted[]>

/** Stored result of a completed call. */
export type Stored = {
  readonly made: Json
  readonly media: readonly Hosted[]
  readonly created: number
  /**
   * The media in base64, where `embedsMedia` asks for them; undefined for a file that cannot be read. Read for each
   * reply and never stored.
   */
  readonly embedded?: readonly (string | undefined)[]
}

/**
 * Context for rendering a result: absolute URLs of hosted media and, in the reply but not in a poll, the vendor's raw
 * values.
 */
export type Showing = {
  /** The quote of the call. */
  readonly quote: Usdc
  readonly request: Json
  readonly href: (key: string) => string
  readonly raw?: readonly string[]
  readonly settlement?: Settled
}

/** Payment outcome of an inline call, for bodies that report it beside the headers. */
export type Settled = { readonly success: boolean; readonly tx_hash: string; readonly network: string }
