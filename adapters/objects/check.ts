import { isObjectKey } from '../../core/keys.ts'

/** Printable ASCII, as a type is sent as a header; short enough for the first read of a file. */
const TYPE = /^[\x21-\x7e][\x20-\x7e]{0,199}$/

/** Throws RangeError for a key or a content type that no store accepts. */
export function checkObject(key: string, type: string): void {
  if (!isObjectKey(key)) throw new RangeError(`not an object key: ${JSON.stringify(key).slice(0, 80)}`)
  if (!TYPE.test(type)) throw new RangeError(`not a content type: ${JSON.stringify(type).slice(0, 80)}`)
}
