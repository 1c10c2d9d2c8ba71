/** Object storage for media. */

/** A byte range with both ends included. A negative `first` counts from the end; `last` may lie beyond it. */
export type ByteRange = { readonly first: number; readonly last?: number }

export type StoredObject = {
  readonly body: Uint8Array | ReadableStream<Uint8Array>
  /** Size of the whole object. */
  readonly size: number
  readonly type: string
  /**
   * The returned part when a range was requested; null, without a body, when the range is empty. Absent: the whole
   * object.
   */
  readonly part?: { readonly first: number; readonly last: number } | null
}

/** Media under keys such as `images/2026-11-20/<id>-0.png`. Objects are never changed, only deleted. */
export interface Objects {
  put(key: string, bytes: Uint8Array, type: string): Promise<void>
  /**
   * Stores a stream without buffering it. An interrupted upload leaves nothing under the key. Cancels a body that it
   * does not read to its end; `size` is the size of the object under the key.
   */
  putStream?(key: string, body: ReadableStream<Uint8Array>, type: string): Promise<{ readonly size: number }>
  /** A store without range support returns the whole object. */
  get(key: string, range?: ByteRange): Promise<StoredObject | undefined>
  /** Deletes an object. Unknown objects and invalid keys are ignored. */
  delete(key: string): Promise<void>
  /** Public URL of the object; undefined, or absent, when only the gateway can serve it. */
  url?(key: string): string | undefined
}

const KEY = /^[a-z0-9][a-z0-9._-]*(?:\/[a-z0-9][a-z0-9._-]*)*$/i
const MAX_KEY_LENGTH = 200

/**
 * Whether every object store takes this key: a relative path of plain segments, without an empty, hidden or parent
 * segment, with `/` as its only separator, at most 200 characters.
 */
export function isObjectKey(key: string): boolean {
  return key.length <= MAX_KEY_LENGTH && KEY.test(key)
}
