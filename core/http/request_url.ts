/**
 * The parts of a request's URL. A `Request` has already normalized it (Fetch standard), so splitting the text is
 * enough.
 */

export type RequestUrl = {
  /** Scheme, host and port, without a default port: `https://example.com`. */
  readonly origin: string
  /** Percent-encoded, from the first slash. */
  readonly path: string
  /** From the question mark, or empty. */
  readonly search: string
}

/** Shorter than any origin, so the next slash begins the path. */
const SCHEME_LENGTH = 'http://'.length

/** Splits the URL of a request. */
export function requestUrl({ url }: Request): RequestUrl {
  const hash = url.indexOf('#')
  const whole = hash === -1 ? url : url.slice(0, hash)
  const start = whole.indexOf('/', SCHEME_LENGTH + 1)
  if (start === -1) return { origin: whole, path: '/', search: '' }
  const origin = whole.slice(0, start)
  const question = whole.indexOf('?', start)
  if (question === -1) return { origin, path: whole.slice(start), search: '' }
  const search = whole.slice(question)
  return { origin, path: whole.slice(start, question), search: search === '?' ? '' : search }
}
