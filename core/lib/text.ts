/** A caller's own text: shortened for an error message, and read as a URL. */

/** Shortens a caller's own value for an error text. */
export function clip(value: unknown): string {
  const text = String(value)
  return text.length > 60 ? `${text.slice(0, 57)}...` : text
}

/** A caller's own value for an error text. Never its whole depth or length: both are the caller's to choose. */
export function quoted(value: unknown): string {
  if (Array.isArray(value)) return 'an array'
  if (typeof value === 'object' && value !== null) return 'an object'
  return clip(typeof value === 'string' ? JSON.stringify(value.slice(0, 60)) : value)
}

/** The longest authority that a web address is read with, in characters; a host name has 253 at most. */
const AUTHORITY = /^https?:\/\/[^\s/?#\\][^/?#\\]{0,299}(?:[/?#\\]|$)/i

/**
 * Whether a text is an http(s) URL. Reading a host takes time by the square of its length: minutes, for a megabyte of
 * combining marks.
 */
export const isWebUrl = (text: string): boolean => AUTHORITY.test(text) && URL.canParse(text)

/** Characters as people count them, code points: one that takes two code units is one. */
export const charactersIn = (text: string): number =>
  text.length - (text.match(/[\ud800-\udbff][\udc00-\udfff]/g)?.length ?? 0)

/** The names that stand in a list more than once. */
export const duplicatesIn = (names: readonly string[]): Set<string> =>
  new Set(names.filter((name, index) => names.indexOf(name) !== index))
