/** One search of the web: the best pages for a query, and their text. */
import { ApiError } from '../../../http/errors.ts'
import { type Fields, fieldsOf, objectsOf, textOf } from '../../../lib/json.ts'
import type { CountTokens } from '../../../ports/vendors/chat.ts'
import type { WebSearchVendor } from '../../../ports/vendors/search.ts'
import { tryJson } from '../formats/sse.ts'
import { PAGES, RESULT_TOKENS, type WebSearch } from './tool.ts'

/** `text` is an excerpt, '' for a page that could not be read. `age` is the date of the page, or ''. */
type WebPage = { readonly url: string; readonly title: string; readonly age: string; readonly text: string }

/** A search that a model has asked for. With an `error` nothing was found, and nothing is charged. */
export type MadeSearch = {
  readonly id: string
  readonly query: string
  readonly pages: readonly WebPage[]
  readonly error?: SearchError
}

type SearchError = 'unavailable' | 'max_uses_exceeded' | 'invalid_tool_input' | 'too_many_requests'

type Searching = {
  readonly vendor: WebSearchVendor
  readonly search: WebSearch
  readonly countTokens: CountTokens
  readonly signal: AbortSignal
  /** Pages that the search engine is asked to read; negative for those that it could not, which it does not charge. */
  onPages(count: number): void
}

export const MAX_QUERY = 2_000
const MAX_EXCERPT = 4_000
const MAX_TITLE = 200
const MAX_URL = 500

/** Throws what the search engine throws. Pages that cannot be read are results without a text. */
export async function searchWeb(
  query: string,
  { vendor, search, countTokens, signal, onPages }: Searching,
): Promise<readonly WebPage[]> {
  const { includeDomains, excludeDomains } = search
  const order = {
    query,
    numResults: PAGES,
    ...(includeDomains.length > 0 && { includeDomains }),
    ...(excludeDomains.length > 0 && { excludeDomains }),
  }
  const found = pagesIn(await vendor.ask('search', order, { signal }))
  const urls = found.map(({ url }) => url)
  const read = await contentsOf(urls, { vendor, signal, onPages })
  const pages = found.map((page) => ({ ...page, text: read.get(page.url) ?? '' }))
  return await fitted(pages, countTokens)
}

/** The texts by URL. */
async function contentsOf(
  urls: readonly string[],
  { vendor, signal, onPages }: Pick<Searching, 'vendor' | 'signal' | 'onPages'>,
): Promise<ReadonlyMap<string, string>> {
  if (urls.length === 0) return new Map()
  onPages(urls.length)
  try {
    const results = objectsIn(await vendor.ask('contents', { urls }, { signal }))
    const texts = new Map(
      results.map(({ url, id, text }) => [textOf(url) || textOf(id), textOf(text).slice(0, MAX_EXCERPT)]),
    )
    onPages(-urls.filter((url) => (texts.get(url) ?? '') === '').length)
    return texts
  } catch (error) {
    if (signal.aborted) throw error
    onPages(-urls.length)
    return new Map()
  }
}

const objectsIn = (reply: string): readonly Fields[] => {
  const body = fieldsOf(tryJson(reply))
  return objectsOf(fieldsOf(body.data).results ?? body.results)
}

const pagesIn = (reply: string): WebPage[] =>
  objectsIn(reply)
    .map(({ url, title, publishedDate }) => ({
      url: textOf(url),
      title: textOf(title).slice(0, MAX_TITLE),
      age: textOf(publishedDate).slice(0, 40),
      text: '',
    }))
    .filter(({ url }) => /^https?:\/\//.test(url) && url.length <= MAX_URL)
    .slice(0, PAGES)

/** Cuts the texts until the result has at most `RESULT_TOKENS`, which the quote counts on. */
async function fitted(pages: readonly WebPage[], countTokens: CountTokens): Promise<readonly WebPage[]> {
  for (let length = MAX_EXCERPT; length >= 1; length = Math.floor(length / 2)) {
    const cut = pages.map((page) => ({ ...page, text: page.text.slice(0, length) }))
    if ((await countTokens(resultText({ query: '', pages: cut }), { limit: RESULT_TOKENS })) <= RESULT_TOKENS)
      return cut
  }
  return pages.slice(0, 1).map((page) => ({ ...page, text: '' }))
}

/** A search as text for the model. */
export function resultText({ query, pages, error }: Pick<MadeSearch, 'query' | 'pages' | 'error'>): string {
  if (error !== undefined) return `The search failed: ${REASONS[error]}. Answer without it.`
  if (pages.length === 0) return `No page was found for ${JSON.stringify(query)}.`
  return pages
    .map(({ url, title, age, text }, at) =>
      [`[${at + 1}] ${title}`, `${url}${age === '' ? '' : ` (${age})`}`, text].filter((line) => line !== '').join('\n'),
    )
    .join('\n\n')
}

const REASONS: Readonly<Record<SearchError, string>> = {
  unavailable: 'the search engine did not answer',
  max_uses_exceeded: 'no more searches are allowed for this request',
  invalid_tool_input: `the query must be text of 1 to ${MAX_QUERY} characters`,
  too_many_requests: 'the search engine has too many requests',
}

export const searchErrorOf = (error: unknown): SearchError =>
  error instanceof ApiError && error.code === 'RATE_LIMITED' ? 'too_many_requests' : 'unavailable'
