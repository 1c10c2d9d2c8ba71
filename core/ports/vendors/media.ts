/** Media, fetched from where a vendor or a caller has them. */

/** How media are fetched. `foreign`: the URL is a caller's, for whom not even the operator's own hosts are called. */
export type Fetching = { readonly signal: AbortSignal; readonly maxBytes: number; readonly foreign?: boolean }

/** What a URL leads to is nothing that could be given to anybody: not there, behind a key, or no media. */
export class NoMedia extends Error {}

/** Media on its way: read once, never held whole. `size` in bytes where it is known. */
export type MediaStream = { readonly body: ReadableStream<Uint8Array>; readonly type: string; readonly size?: number }
