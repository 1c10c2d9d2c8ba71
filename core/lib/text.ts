/** Helpers for a caller's text: shortening it for error messages, and reading it as a URL. */

/** Shortens a caller's value for an error message. */
export function clip(value: unknown): string {
  const text = String(value)
  return text.length > 60 ? `${text.slice(0, 57)}...` : text
}

/** Quotes a caller's value for an error message. Bounded in depth and length, because the caller chooses both. */
export function quoted(value: unknown): string {
  if (Array.isArray(value)) return 'an array'
  if (typeof value === 'object' && value !== null) return 'an object'
  return clip(typeof value === 'string' ? JSON.stringify(value.slice(0, 60)) : value)
}

/** Maximum length of an authority, in characters; a host name has at most 253. */
const AUTHORITY = /^https?:\/\/[^\s/?#\\][^/?#\\]{0,299}(?:[/?#\\]|$)/i

/** Whether a text is an http(s) URL. Parsing a host takes quadratic time: minutes for a megabyte of combining marks. */
export const isWebUrl = (text: string): boolean => AUTHORITY.test(text) && URL.canParse(text)

/** Counts code points: a character of two code units counts once. */
export const charactersIn = (text: string): number =>
  text.length - (text.match(/[\ud800-\udbff][\udc00-\udfff]/g)?.length ?? 0)

/**
 * The names that occur more than once in a list.
 *
 * @example
 * const twice = duplicatesIn(['a', 'b', 'a'])
 */
export const duplicatesIn = (names: readonly string[]): Set<string> =>
  new Set(names.filter((name, index) => names.indexOf(name) !== index))

/** The text of a header field: some clients write it as a quoted string of RFC 9651. */
export const unquoted = (field: string): string => /^"(.*)"$/.exec(field.trim())?.[1] ?? field.trim()
