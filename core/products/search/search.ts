/** Live search at a fixed price: a summary with its sources (contract 9.3). */
import { Kind, type Static, type TObject, Type } from '@sinclair/typebox'
import { paid } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { clip, isWebUrl } from '../../lib/text.ts'
import type { Json } from '../../lib/json.ts'
import type { SearchAnswer, SearchJob } from '../../ports/vendors/search.ts'
import { searchPrice } from '../lib/search_rates.ts'

/** US dollars per call, before the fee, for any `max_results`. */
const PRICE_USD = '0.08'
const MAX_QUERY = 1000
const MAX_RESULTS = 50
const DEFAULT_RESULTS = 10
const FAILURE = 'Internal server error'
const SOURCES = ['web', 'news'] as const

const day = (description: string) => Type.Optional(Type.String({ format: 'date', description }))
const body = Type.Object({
  query: Type.String({ minLength: 1, maxLength: MAX_QUERY, description: 'What to search for.' }),
  sources: Type.Optional(
    Type.Array(Type.Union(SOURCES.map((source) => Type.Literal(source))), {
      default: ['web'],
      description: 'Sources to search.',
    }),
  ),
  max_results: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: MAX_RESULTS,
      default: DEFAULT_RESULTS,
      description: 'Most citations; the price is the same for any.',
    }),
  ),
  from_date: day('Earliest date of a source, YYYY-MM-DD.'),
  to_date: day('Latest date of a source, YYYY-MM-DD, not before from_date.'),
})

/**
 * Accepts any object, because `check` reports errors in the format that the contract defines for search. The
 * documentation shows the schema.
 */
const documentedOnly = (schema: TObject): TObject => ({ ...schema, [Kind]: 'Unknown' }) as unknown as TObject

type Input = Static<typeof body>

const endpoint = paid({
  name: 'search',
  path: '/api/v1/search',
  summary: 'Search the live web',
  description:
    'Answers a question from the web or the news, with the pages that it cites. One price whatever max_results is; a search that fails is not charged.',
  tag: 'search',
  input: documentedOnly(body),
  output: Type.Object({
    query: Type.String(),
    summary: Type.String(),
    citations: Type.Array(
      Type.Object({ url: Type.String(), title: Type.String({ description: 'The host of the source.' }) }),
    ),
    sources_used: Type.Integer({ description: '`max_results` where the upstream does not say.' }),
    model: Type.String(),
  }),
  example: { query: 'What is new about the x402 payment protocol?', max_results: 5 },
  delivery: 'inline',
  failure: FAILURE,

  check(given) {
    const issues = [
      ...queryIssues(given.query),
      ...sourcesIssues(given.sources),
      ...countIssues(given.max_results),
      ...dateIssues(given),
    ]
    if (issues.length > 0) throw new ApiError('INVALID_BODY', { details: issues.slice(0, 10).map(issueBody) })
    return given
  },

  price: searchPrice(PRICE_USD),

  isAvailable: (_input, { vendors }) => vendors.search !== undefined,

  async run({ input, vendors, signal }) {
    if (!vendors.search) throw new ApiError('NOT_CONFIGURED')
    const order = input as Input
    const job = jobOf(order)
    const answer = await vendors.search.search(job, { signal }).catch(asWorkFailed)
    return { result: searchResponse(order.query, job, answer) }
  },

  show: ({ made }) => made as Record<string, Json>,
})

export const search = [endpoint]

/** The web is the default source. Dates are forwarded unchanged. */
function jobOf({ query, sources = [], max_results = DEFAULT_RESULTS, from_date, to_date }: Input): SearchJob {
  const named = SOURCES.filter((source) => sources.includes(source))
  return {
    query,
    sources: named.length > 0 ? named : ['web'],
    maxResults: max_results,
    ...(from_date !== undefined && { fromDate: from_date }),
    ...(to_date !== undefined && { toDate: to_date }),
  }
}

function searchResponse(
  query: string,
  { maxResults }: SearchJob,
  { summary, citations, sourcesUsed = maxResults, model }: SearchAnswer,
): Record<string, Json> {
  const cited = [...new Set(citations)].flatMap((url) => {
    const host = hostOf(url)
    return host === undefined ? [] : [{ url, title: host }]
  })
  const isCount = Number.isSafeInteger(sourcesUsed) && sourcesUsed >= 0
  return {
    query,
    summary,
    citations: cited.slice(0, maxResults),
    sources_used: isCount ? sourcesUsed : maxResults,
    model,
  }
}

/** The host of a web URL; undefined for others, such as a `javascript:` URL. */
function hostOf(url: string): string | undefined {
  return isWebUrl(url) ? new URL(url).hostname : undefined
}

/**
 * Contract 9.10: a search that fails upstream is 500. Errors that the caller can act on, such as a rate limit, are
 * unchanged.
 */
function asWorkFailed(error: unknown): never {
  const isCallerError =
    !(error instanceof ApiError) ||
    ['CONTENT_POLICY', 'RATE_LIMITED', 'INVALID_BODY', 'INVALID_PARAMETER'].includes(error.code)
  if (isCallerError) throw error
  const { message, details } = error.parts
  throw new ApiError('WORK_FAILED', {
    error: FAILURE,
    details: message ?? details ?? 'The search did not deliver a result. Nothing was charged.',
  })
}

// ── validation ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** An issue with zod's codes; its path by segments. */
type Issue = {
  readonly code: string
  readonly path: readonly (string | number)[]
  readonly message: string
  readonly [more: string]: Json
}

/** As in contract 9.8: `{code, minimum, path, message}`, the path dotted (contract 3.23). */
const issueBody = (issue: Issue): Json => ({ ...issue, path: issue.path.join('.') })

function queryIssues(query: unknown): readonly Issue[] {
  const path = ['query']
  if (typeof query !== 'string') return [wrongType('string', query, path)]
  const bounds = { type: 'string', inclusive: true, exact: false }
  if (query.length < 1)
    return [{ code: 'too_small', minimum: 1, ...bounds, path, message: 'query must have at least 1 character' }]
  if (isWithin(query, MAX_QUERY)) return []
  return [
    {
      code: 'too_big',
      maximum: MAX_QUERY,
      ...bounds,
      path,
      message: `query must have at most ${MAX_QUERY} characters`,
    },
  ]
}

/** Counts code points, as JSON Schema does. A text with more than twice as many code units is too long in any case. */
const isWithin = (text: string, most: number): boolean =>
  text.length <= most || (text.length <= 2 * most && [...text].length <= most)

function sourcesIssues(sources: unknown): readonly Issue[] {
  if (sources === undefined) return []
  if (!Array.isArray(sources)) return [wrongType('array', sources, ['sources'])]
  return sources.flatMap((source: unknown, index) => {
    if (SOURCES.some((known) => known === source)) return []
    const path = ['sources', index]
    if (typeof source !== 'string') return [wrongType(SOURCES.map((known) => `'${known}'`).join(' | '), source, path)]
    return [
      {
        code: 'invalid_enum_value',
        options: [...SOURCES],
        received: clip(source),
        path,
        message: `a source is one of ${SOURCES.join(', ')}`,
      },
    ]
  })
}

function countIssues(count: unknown): readonly Issue[] {
  const path = ['max_results']
  if (count === undefined) return []
  if (typeof count !== 'number') return [wrongType('number', count, path)]
  if (!Number.isInteger(count))
    return [
      {
        code: 'invalid_type',
        expected: 'integer',
        received: 'float',
        path,
        message: 'max_results must be a whole number',
      },
    ]
  const bounds = { type: 'number', inclusive: true, exact: false }
  if (count < 1) return [{ code: 'too_small', minimum: 1, ...bounds, path, message: 'max_results must be at least 1' }]
  return count <= MAX_RESULTS
    ? []
    : [
        {
          code: 'too_big',
          maximum: MAX_RESULTS,
          ...bounds,
          path,
          message: `max_results must be at most ${MAX_RESULTS}`,
        },
      ]
}

function dateIssues({ from_date, to_date }: Readonly<Record<string, unknown>>): readonly Issue[] {
  const issues = Object.entries({ from_date, to_date }).flatMap(([name, value]): readonly Issue[] => {
    if (value === undefined) return []
    if (typeof value !== 'string') return [wrongType('string', value, [name])]
    return isDay(value)
      ? []
      : [
          {
            code: 'invalid_string',
            validation: 'date',
            path: [name],
            message: `${name} must be a date of the calendar, YYYY-MM-DD`,
          },
        ]
  })
  if (issues.length > 0 || typeof from_date !== 'string' || typeof to_date !== 'string' || from_date <= to_date)
    return issues
  return [{ code: 'custom', path: ['from_date'], message: 'from_date must not be after to_date' }]
}

/** Whether a text is a calendar date; February 30 is not. */
function isDay(text: string): boolean {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return false
  const time = Date.parse(`${text}T00:00:00Z`)
  return Number.isFinite(time) && new Date(time).toISOString().startsWith(text)
}

function wrongType(expected: string, value: unknown, path: Issue['path']): Issue {
  const received = typeName(value)
  const message = received === 'undefined' ? 'Required' : `Expected ${expected}, received ${received}`
  return { code: 'invalid_type', expected, received, path, message }
}

function typeName(value: unknown): string {
  if (Array.isArray(value)) return 'array'
  return value === null ? 'null' : typeof value
}
