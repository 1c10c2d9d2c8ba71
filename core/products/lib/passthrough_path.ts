/**
 * Validates what is forwarded to third-party servers: paths, queries and page URLs. Checked before the quote, and again
 * when the request is sent.
 */
import { ApiError } from '../../http/errors.ts'
import { quoted } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'

/** Retention of forwarded answers: long enough for a resend, and short because some are megabytes. */
export const PASSTHROUGH_RETENTION = { unclaimedMs: 48 * 3_600_000, settledMs: 3_600_000 } as const

const MAX_PATH = 4_000
const MAX_PARAMETERS = 32
const MAX_VALUE = 2_000
const MAX_URL = 2_048

/**
 * Characters that no server can read as a separator, a parent directory, an authority or an escape. They are sent
 * unencoded.
 */
const SEGMENT = /^[A-Za-z0-9_][A-Za-z0-9._~:,-]*$/
const PARAMETER = /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/
const LETTERS = 'letters, digits and . _ ~ : , - between single slashes, no segment beginning with a dot'

/**
 * The problem with a decoded relative path, if any: it could leave the root, or be ambiguous.
 *
 * @example
 * const problem = pathProblem('markets/../admin')
 */
export function pathProblem(path: string): string | undefined {
  if (path.length > MAX_PATH) return `must have at most ${MAX_PATH} characters, has ${path.length}`
  return path.split('/').every((segment) => SEGMENT.test(segment))
    ? undefined
    : `must be ${LETTERS}; got ${quoted(path)}`
}

/** Returns the path, or throws a 400 that names the field. */
export function checkedPath(field: string, path: string): string {
  const problem = pathProblem(path)
  if (problem) throw refused(field, problem)
  return path
}

/**
 * Encodes the query, sorted by name so that equal requests have equal text; '' for none. Throws a 400 that names the
 * parameter.
 */
export function encodedQuery(fields: Readonly<Record<string, unknown>>): string {
  const given = Object.entries(fields)
  if (given.length > MAX_PARAMETERS)
    throw refused('query', `may have at most ${MAX_PARAMETERS} parameters, has ${given.length}`)
  return given
    .map(
      ([name, value]) =>
        `${parameterName(name)}=${encodeURIComponent(parameterValue(name, value)).replaceAll("'", '%27')}`,
    )
    .sort()
    .join('&')
}

function parameterName(name: string): string {
  if (PARAMETER.test(name)) return name
  throw refused(
    'query',
    `a parameter name must be a letter followed by at most 63 letters, digits and . _ -; got ${quoted(name)}`,
  )
}

function parameterValue(name: string, value: unknown): string {
  if (typeof value !== 'string') throw refused(name, `must be text, got ${quoted(value)}`)
  if (value.length > MAX_VALUE) throw refused(name, `must have at most ${MAX_VALUE} characters, has ${value.length}`)
  if (/[\p{Cc}\p{Cs}]/u.test(value)) throw refused(name, `must have no control characters, got ${quoted(value)}`)
  return value
}

const PRIVATE_NAME = /(^|\.)(localhost|local|internal|intranet|lan|home|corp|private|arpa|onion)$/

/**
 * The problem with a page URL, if any. Only pages of the public web are fetched, and only by host name: an IP address
 * may be a private machine.
 */
export function pageProblem(text: string): string | undefined {
  if (text.length > MAX_URL) return `must have at most ${MAX_URL} characters, has ${text.length}`
  const must = `must be the http(s) URL of a public page, with a host name and without a user; got ${quoted(text)}`
  if (!/^https?:\/\/[\x21-\x5b\x5d-\x7e]+$/i.test(text) || !URL.canParse(text)) return must
  const { hostname, username, password } = new URL(text)
  const name = hostname.replace(/\.$/, '')
  const isName = /^[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z][a-z0-9-]*$/.test(name) && !PRIVATE_NAME.test(name)
  return isName && username === '' && password === '' ? undefined : must
}

/** 404 with the available paths, for a path that is not on the list. */
export function pathNotFound(path: string, available: readonly string[]): ApiError {
  return new ApiError('NOT_FOUND', {
    message: `There is nothing at ${quoted(path)}; payment was NOT charged.`,
    fields: { available },
  })
}

/** Rethrows a vendor failure with the endpoint's own error name. */
export const failedAs =
  (error: string, status?: number) =>
  (reason: unknown): never => {
    if (!(reason instanceof ApiError) || reason.code !== 'UPSTREAM_FAILED') throw reason
    throw new ApiError(reason.code, { ...reason.parts, error, ...(status !== undefined && { status }) })
  }
