/** The embedded web: the dozen bundled documents, asked as the web is. Every answer says that it is a sample. */
import { ApiError, type Fields, type WebSearchVendor } from '../../../core/mod.ts'
import { addressOf, CORPUS, type Document, ranked, summaryOf } from './search.ts'

const NOTE = `Sample: from ${CORPUS.length} bundled documents, not from the web.`
const USUAL_RESULTS = 10
/** Costs nothing, and is made at once. */
const COST = { costDollars: { total: 0 } }

/** The same question has the same answer, always. */
export function corpusWeb(): WebSearchVendor {
  return {
    async ask(question, order, { signal }) {
      signal.throwIfAborted()
      if (question === 'search')
        return written({
          ...pages(matching(String(order.query), order), order),
          resolvedSearchType: 'sample',
          searchTime: 0,
          ...COST,
        })
      if (question === 'find-similar')
        return written({
          ...pages(like(String(order.url), order), order),
          resolvedSearchType: 'sample',
          searchTime: 0,
          ...COST,
        })
      if (question === 'answer') return written({ ...answerTo(String(order.query)), ...COST })
      return written({ ...contentsOf(order.urls as readonly string[]), ...COST })
    },
  }
}

const written = (data: Fields): string => JSON.stringify({ requestId: 'sample', note: NOTE, ...data })

function matching(query: string, { category, startPublishedDate, endPublishedDate }: Fields): readonly Document[] {
  const sources = category === 'news' ? (['news'] as const) : (['web', 'news'] as const)
  const dates = {
    ...(startPublishedDate !== undefined && { fromDate: dayOf(startPublishedDate) }),
    ...(endPublishedDate !== undefined && { toDate: dayOf(endPublishedDate) }),
  }
  return ranked({ query, sources, maxResults: CORPUS.length, ...dates })
}

const dayOf = (time: unknown): string => new Date(String(time)).toISOString().slice(0, 10)

/** Those that share most words with the document at this address; a page that is not in the corpus is like none. */
function like(url: string, order: Fields): readonly Document[] {
  const page = at(url)
  return page ? matching(`${page.title} ${page.text}`, order).filter((each) => each !== page) : []
}

const at = (url: string): Document | undefined => CORPUS.find((each) => addressOf(each) === url)

function pages(
  found: readonly Document[],
  { numResults = USUAL_RESULTS, includeDomains, excludeDomains }: Fields,
): Fields {
  const isIn = (domains: unknown, each: Document) =>
    Array.isArray(domains) && domains.includes(new URL(addressOf(each)).hostname)
  const kept = found.filter(
    (each) => (includeDomains === undefined || isIn(includeDomains, each)) && !isIn(excludeDomains, each),
  )
  return {
    results: kept.slice(0, Number(numResults)).map((each, index) => ({
      ...named(each),
      publishedDate: `${each.date}T00:00:00.000Z`,
      author: 'Farebox',
      score: Math.round(1000 / (index + 1)) / 1000,
    })),
  }
}

const named = (each: Document): { id: string; url: string; title: string } => ({
  id: addressOf(each),
  url: addressOf(each),
  title: each.title,
})

function answerTo(query: string): Fields {
  const found = matching(query, {})
  return { answer: summaryOf(found), citations: found.slice(0, 3).map(named) }
}

function contentsOf(urls: readonly string[]): Fields {
  const found = urls.flatMap((url) => at(url) ?? [])
  if (found.length === 0)
    throw new ApiError('PASSED_ON', {
      status: 404,
      message: 'The sample web has only the pages that its search finds (payment NOT charged)',
      fields: { status: 404 },
    })
  const statuses = urls.map((url) => ({ id: url, status: at(url) ? 'success' : 'error' }))
  return {
    results: found.map((each) => ({ ...named(each), text: `${NOTE}\n\n${each.text}`, author: 'Farebox' })),
    statuses,
  }
}
