/** Where media bytes are kept. */

/** Bytes of an object, both ends included. A negative `first` counts from the end; `last` may lie beyond it. */
export type ByteRange = { readonly first: number; readonly last?: number }

export type StoredObject = {
  readonly body: Uint8Array | ReadableStream<Uint8Array>
  /** Of the whole object. */
  readonly size: number
  readonly type: string
  /**
   * What `body` is of it, where a range was asked for; null, with no body, where no byte lies within. Absent: it is the
   * whole.
   */
  readonly part?: { readonly first: number; readonly last: number } | null
}

/** Media bytes under keys such as `images/2026-11-20/<id>-0.png`. What is put is never changed, only deleted. */
export interface Objects {
  put(key: string, bytes: Uint8Array, type: string): Promise<void>
  /**
   * Puts a stream without ever holding it whole. What breaks off leaves nothing under the key. Lets go of a body that
   * it does not read to its end; `size` is what then lies under the key.
   */
  putStream?(key: string, body: ReadableStream<Uint8Array>, type: string): Promise<{ readonly size: number }>
  /** A store that knows no ranges answers with the whole. */
  get(key: string, range?: ByteRange): Promise<StoredObject | undefined>
  /** Deletes an object. What is not there is deleted already; a key that no store takes is ignored. */
  delete(key: string): Promise<void>
  /**
   * Where anybody may fetch the object without the gateway; undefined, or absent, where only the gateway can serve it.
   */
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
