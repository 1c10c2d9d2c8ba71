/** What media keys look like: relative paths of plain segments, so that no store can be led astray by one. */
const KEY = /^[a-z0-9][a-z0-9._-]*(?:\/[a-z0-9][a-z0-9._-]*)*$/i
const MAX = 200

/** Whether every object store takes this key. No empty, hidden or parent segment, no separator but `/`, at most 200 characters. */
export function isObjectKey(key: string): boolean {
  return key.length <= MAX && KEY.test(key)
}
