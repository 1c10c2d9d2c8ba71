/** The parts of a request's URL. A `Request` has normalized it already (Fetch standard), so the text is only cut. */

export type RequestUrl = {
  /** Scheme, host and port, without a default port: `https://example.com`. */
  readonly origin: string
  /** Percent-encoded, from the first slash. */
  readonly path: string
  /** From the question mark, or empty. */
  readonly search: string
}

/** Shorter than any origin: a slash behind it is that of the path. */
const SCHEME_LENGTH = 'http://'.length

/** Reads the URL of a request. */
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
