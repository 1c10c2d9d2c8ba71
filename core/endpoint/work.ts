/** An order for work, and what came of it. */
import type { Vendors } from '../ports/vendors/mod.ts'
import type { Context, Offering, Catalog } from './offering.ts'
import type { Ports, Storage, StoredRecord } from '../ports/mod.ts'
import type { CallContext } from './call_context.ts'
import type { Json } from '../lib/json.ts'
import type { MediaStream } from '../ports/vendors/media.ts'

/** One order for work. `signal` aborts at the work's deadline, never because the buyer hung up. */
export type Order<Input> = {
  readonly id: string
  readonly input: Input
  /** Empty where nobody pays. */
  readonly payer: string
  readonly catalog: Catalog
  readonly vendors: Vendors
  readonly networks?: Context['networks']
  /** When the work began, in milliseconds. */
  readonly now: number
  readonly clock: Ports['clock']
  /** Records beside the calls, whoever's they are. */
  readonly records: Pick<Storage, 'getRecord' | 'getCall'>
  readonly call?: CallContext
  readonly signal: AbortSignal
}

/** What looking at a job may use; `request` is what the endpoint remembers. */
export type UpstreamPollContext = Offering & { readonly request: Json; readonly signal: AbortSignal }

/** `error` and `fields` are what a poll says of a failed job. */
export type UpstreamStatus =
  | { readonly kind: 'running'; readonly progress?: number }
  | { readonly kind: 'done'; readonly made: Made }
  | { readonly kind: 'failed'; readonly error: string; readonly fields?: Readonly<Record<string, Json>> }

/** Begins to read a piece of media. `signal` aborts when it is given up. */
export type OpenMedia = (at: { signal: AbortSignal }) => Promise<MediaStream>

/**
 * Media to be mirrored to durable storage under `<folder>/<date>/`. `streams` reads a piece, by its index in `urls`,
 * that its URL alone does not give: its URL is then only what it falls back to. `kinds` says what a piece must be to be
 * sold: of one that turns out to be nothing of the kind, the URL is not handed out either. `foreign`: the URLs are the
 * caller's own, of pictures.
 */
export type MadeMedia = {
  readonly folder: string
  readonly urls: readonly string[]
  readonly streams?: readonly (OpenMedia | undefined)[]
  readonly kinds?: readonly ('image' | 'video' | 'audio')[]
  readonly foreign?: true
}

/** What work made: a JSON result, and media. */
export type Made = {
  readonly result: Json
  readonly media?: MadeMedia
  /** When there is nothing left of it that anybody should pay for, where that is sooner than its endpoint says. */
  readonly until?: number
  /**
   * What is kept for the payer beside the call, once the media are mirrored and before money moves. One that another
   * wallet has already fails the call.
   */
  recordsToStore?(media: readonly Hosted[]): readonly Omit<StoredRecord, 'owner'>[]
}

/**
 * One piece of media after mirroring. `key` is null where mirroring failed, and `url` is then the raw upstream value,
 * or null where that is worth nothing.
 */
export type Hosted = { readonly key: string | null; readonly url: string | null; readonly source: string }

/** What storage keeps of a completed call. */
export type Stored = { readonly made: Json; readonly media: readonly Hosted[]; readonly created: number }

/**
 * What showing a result may use: absolute URLs of hosted media, and inline (not in a poll) the raw values that the
 * vendor gave.
 */
export type Showing = {
  readonly request: Json
  readonly href: (key: string) => string
  readonly raw?: readonly string[]
  readonly settlement?: Settled
}

/** What became of the payment of a one shot, for a body that tells it beside the headers. */
export type Settled = { readonly success: boolean; readonly tx_hash: string; readonly network: string }
