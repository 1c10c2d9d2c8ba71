/**
 * Search by Exa. Sources: exa-js@2.23.0 `dist/index.d.ts` (`AnswerOptions`, `AnswerResponse`, `BaseSearchOptions`,
 * `ContentsOptions`); exa-labs/openapi-spec at 57d9178.
 */
import type { Fields, SearchAnswer, SearchJob, SearchVendor } from '../../../core/mod.ts'
import { under, writeOrder } from '../lib/image_provider.ts'
import { record, errorReplyIn } from '../../http/error_replies.ts'
import { searchHttp, classifySearchError, type SearchVendorConfig } from '../lib/search_provider.ts'

export type ExaSearchConfig = SearchVendorConfig

/**
 * The public API of Exa.
 *
 * @example
 * const search = exaSearch({ ...EXA_SEARCH, key, maker: 'Exa', timeoutMs: SEARCH_TIMEOUT_MS, clock, log })
 */
export const EXA_SEARCH = { baseUrl: 'https://api.exa.ai' } as const

/**
 * Without filters `/answer` writes a cited summary. It supports neither dates nor a category, so with one of those
 * `/search` finds the pages, and the summary is made of their summaries.
 *
 * @example
 * const search = exaSearch({ ...EXA_SEARCH, key, maker: 'Exa', timeoutMs: SEARCH_TIMEOUT_MS, clock, log })
 */
export function exaSearch(config: ExaSearchConfig): SearchVendor {
  const http = searchHttp(config, 'exa-search')
  const headers: Readonly<Record<string, string>> = config.key ? { 'x-api-key': config.key } : {}

  return {
    async search(job, { signal }) {
      if (isFiltered(job)) return found(await post('/search', filtered(job), signal), job)
      return answered(await post('/answer', { query: job.query, text: false, stream: false }, signal), job)
    },
  }

  async function post(path: string, order: Fields, signal: AbortSignal): Promise<Loose> {
    const reply = await http.postJson(under(config.baseUrl, path), writeOrder(config, { order }), {
      headers,
      signal,
      classify: classifySearchError,
    })
    const refusal = errorReplyIn(reply)
    if (refusal) throw http.errorFrom(refusal, classifySearchError)
    return record(reply)
  }

  function answered({ answer, citations }: Loose, { maxResults }: SearchJob): SearchAnswer {
    if (typeof answer !== 'string' || answer.trim() === '')
      throw http.failure('failed', 'exa-search answered without a summary')
    const urls = urlsOf(citations)
    return {
      summary: answer.trim(),
      citations: urls.slice(0, maxResults),
      sourcesUsed: urls.length,
      model: 'exa-answer',
    }
  }

  function found({ results }: Loose, { maxResults }: SearchJob): SearchAnswer {
    if (!Array.isArray(results)) throw http.failure('failed', 'exa-search answered in another shape')
    const pages = results.map(record).slice(0, maxResults)
    const urls = urlsOf(pages)
    return { summary: summaryOf(pages), citations: urls, sourcesUsed: urls.length, model: 'exa-search' }
  }
}

type Loose = Readonly<Record<string, unknown>>

const isFiltered = ({ sources, fromDate, toDate }: SearchJob): boolean =>
  fromDate !== undefined || toDate !== undefined || !sources.includes('web')

/** Both days are inclusive. */
function filtered({ query, sources, maxResults, fromDate, toDate }: SearchJob): Fields {
  return {
    query,
    type: 'auto',
    numResults: maxResults,
    ...(!sources.includes('web') && { category: 'news' }),
    ...(fromDate !== undefined && { startPublishedDate: `${fromDate}T00:00:00.000Z` }),
    ...(toDate !== undefined && { endPublishedDate: `${toDate}T23:59:59.999Z` }),
    contents: { summary: { query } },
  }
}

function urlsOf(pages: unknown): readonly string[] {
  const urls = Array.isArray(pages) ? pages.map((page: unknown) => record(page).url) : []
  return [...new Set(urls.filter((url): url is string => typeof url === 'string' && url !== ''))]
}

const text = (value: unknown): string => (typeof value === 'string' ? value.trim() : '')

function summaryOf(pages: readonly Loose[]): string {
  const lines = pages.flatMap(({ title, summary }) => {
    const result = [text(title), text(summary)].filter((part) => part !== '')
    return result.length > 0 ? [result.join(': ')] : []
  })
  return lines.length > 0 ? lines.join('\n\n') : 'Nothing was found for this query.'
}
