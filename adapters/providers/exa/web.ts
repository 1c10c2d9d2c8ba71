/**
 * Exa's web search endpoints. Sources: exa-js@2.23.0 `dist/index.d.ts` (`RegularSearchOptions`, `FindSimilarOptions`,
 * `AnswerOptions`, `ContentsOptions`); decision 75. `/findSimilar` is deprecated; when it is gone, a search for the
 * topic of the page replaces it.
 */
import { type Clock, ApiError, type Fields, type Log, type WebSearchVendor } from '../../../core/mod.ts'
import type { Fetch } from '../../http/fetch.ts'
import { passthrough } from '../lib/passthrough.ts'
import { record } from '../../http/error_replies.ts'

export type ExaWebConfig = {
  readonly baseUrl: string
  readonly key: string
  readonly clock: Clock
  readonly log: Log
  readonly fetch?: Fetch | undefined
}

/** Contract 9.18: 30 s, then 500. */
const TIMEOUT_MS = 30_000
/** The text of a hundred long pages. */
const MAX_REPLY_BYTES = 32 * 1024 * 1024
const USUAL_RESULTS = 10

export function exaWeb({ baseUrl, key, ...ports }: ExaWebConfig): WebSearchVendor {
  const failure = { code: 'WORK_FAILED', error: 'Internal server error' } as const
  const exa = passthrough({
    name: 'exa-web',
    source: 'Exa',
    headers: { 'x-api-key': key },
    secrets: [key],
    timeoutMs: TIMEOUT_MS,
    maxBytes: MAX_REPLY_BYTES,
    failure,
    ...ports,
  })
  const post = (path: string, body: Fields, at: { signal: AbortSignal }) =>
    exa.ask(baseUrl, { path, query: '', body }, at)

  return {
    async ask(question, order, at) {
      if (question === 'answer')
        return await post('answer', { query: order.query ?? '', text: false, stream: false }, at)
      if (question === 'contents') return readable(await post('contents', { urls: order.urls ?? [], text: true }, at))
      const { numResults = USUAL_RESULTS, ...words } = withTimes(order)
      if (question === 'search') return await post('search', { ...words, type: 'auto', numResults }, at)
      return await post('findSimilar', { ...words, numResults }, at).catch((error: unknown) =>
        isGone(error) ? searchedFor({ ...words, numResults }, at) : Promise.reject(error as Error),
      )
    },
  }

  async function searchedFor(
    { url, excludeSourceDomain, ...words }: Fields,
    at: { signal: AbortSignal },
  ): Promise<string> {
    const result = record(JSON.parse(await post('contents', { urls: [url ?? ''], text: false, summary: {} }, at)))
    const [first] = Array.isArray(result.results) ? result.results.map(record) : []
    const query = [first?.title, first?.summary]
      .filter((part) => typeof part === 'string')
      .join('. ')
      .slice(0, 1_000)
    if (query === '')
      throw new ApiError('PASSED_ON', {
        status: 404,
        message: 'Exa knows nothing of this page (payment NOT charged)',
        fields: { status: 404 },
      })
    const own = excludeSourceDomain === true ? [new URL(String(url)).hostname] : []
    const excluded = [...((words.excludeDomains as readonly string[] | undefined) ?? []), ...own]
    return await post(
      'search',
      { ...words, query, type: 'auto', ...(excluded.length > 0 && { excludeDomains: excluded }) },
      at,
    )
  }
}

/** Length of a reply with a hundred failed pages, in characters. */
const MAX_NOTHING = 1 << 20

/** The reply, unchanged. Throws when no page could be read, because each would be charged. */
function readable(text: string): string {
  if (text.length > MAX_NOTHING) return text
  const { results, statuses } = record(JSON.parse(text))
  if (!Array.isArray(results) || results.length > 0) return text
  throw new ApiError('PASSED_ON', {
    status: 404,
    message: 'Exa could read none of these pages (payment NOT charged)',
    fields: { status: 404 },
    details: Array.isArray(statuses) ? statuses : null,
  })
}

/** Exa expects times with an hour; a day starts at its midnight. */
function withTimes(order: Fields): Fields {
  const times = (['startPublishedDate', 'endPublishedDate'] as const).flatMap((name) =>
    typeof order[name] === 'string' ? [[name, new Date(order[name]).toISOString()]] : [],
  )
  return { ...order, ...Object.fromEntries(times) }
}

/** The path itself is gone, not the page: a missing page is reported in a 200. */
const isGone = (error: unknown): boolean =>
  error instanceof ApiError && error.code === 'PASSED_ON' && (error.parts.status === 404 || error.parts.status === 410)
