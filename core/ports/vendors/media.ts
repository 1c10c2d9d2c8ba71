/** Fetching media from a vendor or from a caller's URL. */

/** How media are fetched. `foreign`: the URL is a caller's, so that even the operator's own hosts are off limits. */
export type Fetching = { readonly signal: AbortSignal; readonly maxBytes: number; readonly foreign?: boolean }

/**
 * The URL leads to nothing that could be delivered: it does not exist, needs a key, or is not media.
 *
 * @example
 * const missing = new NoMedia('there is no image at this URL')
 */
export class NoMedia extends Error {}

/** A media file as a stream: read once, never buffered. `size` in bytes where known. */
export type MediaStream = { readonly body: ReadableStream<Uint8Array>; readonly type: string; readonly size?: number }
