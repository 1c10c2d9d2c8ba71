/**
 * Search and web of the demo: nine short documents of our own, ranked by words. Every answer says that it is a sample,
 * and not the web.
 */
import { ApiError, type Fields, type SearchJob, type SearchVendor, type WebSearchVendor } from '../../../core/mod.ts'

type Document = { readonly url: string; readonly date: string; readonly title: string; readonly text: string }

/** Hosts are reserved for examples (RFC 2606), so nobody takes them for pages of the web. */
const DOCUMENTS: readonly Document[] = `
sample/x402|2026-01-15|The x402 payment protocol|x402 uses the HTTP status 402 Payment Required. A server quotes a price, the client signs a payment and sends the request again.
sample/farebox|2026-11-20|What Farebox is|Farebox is a self-hosted gateway that sells AI media, chat, search and data by the call, paid in USDC through x402.
sample/usdc|2026-02-10|USDC, a dollar token|USDC is a token that stands for one US dollar. It has six decimals, so the smallest amount is a millionth of a dollar.
sample/eip-712|2025-10-12|Typed data that people can read|EIP-712 defines how structured data is hashed and signed, within a domain of name, version, chain and contract.
sample/base|2026-04-22|Base, a layer 2 network|Base is a layer 2 of Ethereum with chain id 8453. Blocks come every two seconds, and a token transfer costs a fraction of a cent.
sample/micropayments|2026-05-30|Why micropayments came back|Agents buy small things often. A signed payment of a tenth of a cent for each call needs no account and no card.
news/search-price|2026-09-29|Search has one price|A live search costs a flat 0.081 dollars since 29 September 2026, whatever the number of results.
news/payment-codes|2026-08-26|Refused payments carry codes|Since 26 August 2026 a refused payment says why in a code that programs can read.
news/chat-reasoning|2026-08-27|Chat answers show their reasoning|Since 27 August 2026 whole chat answers carry the reasoning of models that give it.
`
  .trim()
  .split('\n')
  .map((line) => {
    const [place = '', date = '', title = '', text = ''] = line.split('|')
    return { url: `https://${place.replace('/', '.farebox.example/')}`, date, title, text }
  })

const COUNT = `${DOCUMENTS.length} bundled documents`
const NOTE = `Sample: from ${COUNT}, not from the web.`
/** Words that say nothing about what is looked for. */
const COMMON = new Set(
  'a an and are as at be by do for from has have how i in is it its new of on or that the this to was what when where which who why will with'.split(
    ' ',
  ),
)

/** Lower case, in any script; plurals count as their singular. */
function wordsOf(text: string): ReadonlySet<string> {
  const words = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []
  return new Set(
    words.map((word) => (word.length > 3 ? word.replace(/s$/, '') : word)).filter((word) => !COMMON.has(word)),
  )
}

const isNews = ({ url }: Document): boolean => url.startsWith('https://news.')
const PAGES = DOCUMENTS.map((each) => ({
  each,
  title: wordsOf(each.title),
  all: wordsOf(`${each.title} ${each.url} ${each.text}`),
}))

/** By the rarity of the words that they share with the query, those of a title twice; equals stay in order. */
function ranked({
  query,
  sources,
  fromDate = '',
  toDate = '9999',
}: Omit<SearchJob, 'maxResults'>): readonly Document[] {
  const wanted = [...wordsOf(query)].map((word) => ({
    word,
    weight: 1 / (1 + PAGES.filter(({ all }) => all.has(word)).length),
  }))
  return PAGES.map(({ each, title, all }) => ({
    each,
    score: wanted.reduce(
      (sum, { word, weight }) => sum + (Number(title.has(word)) + Number(all.has(word))) * weight,
      0,
    ),
  }))
    .filter(
      ({ each, score }) =>
        score > 0 && sources.includes(isNews(each) ? 'news' : 'web') && each.date >= fromDate && each.date <= toDate,
    )
    .toSorted((a, b) => b.score - a.score)
    .map(({ each }) => each)
}

function summaryOf(found: readonly Document[]): string {
  if (found.length === 0) return `Sample search: none of ${COUNT} matches. This is not a result from the web.`
  const label = `Sample search: these are the closest of ${COUNT}, not results from the web.`
  return [label, ...found.slice(0, 3).map(({ title, text }) => `${title}: ${text}`)].join('\n\n')
}

/**
 * The same query finds the same documents in the same order, always.
 *
 * @example
 * const search = demoSearch()
 */
export function demoSearch(): SearchVendor {
  return {
    async search(job, { signal }) {
      signal.throwIfAborted()
      const found = ranked(job).slice(0, job.maxResults)
      return {
        summary: summaryOf(found),
        citations: found.map(({ url }) => url),
        sourcesUsed: found.length,
        model: 'farebox/sample-search',
      }
    },
  }
}

// ── the web ─────────────────────────────────────────────────────────────────────────────────────────────────────────

export function demoWeb(): WebSearchVendor {
  return {
    async ask(question, order, { signal }) {
      signal.throwIfAborted()
      const at = (url: unknown) => DOCUMENTS.find((each) => each.url === url)
      const like = at(order.url)
      if (question === 'contents')
        return written(contentsOf((order.urls as readonly string[]).map((url) => ({ url, page: at(url) }))))
      if (question === 'find-similar')
        return written(pagesOf(like ? matching(like.text, order).filter((each) => each !== like) : [], order))
      const found = matching(String(order.query), question === 'answer' ? {} : order)
      return written(
        question === 'answer'
          ? { answer: summaryOf(found), citations: found.slice(0, 3).map(named) }
          : pagesOf(found, order),
      )
    },
  }
}

const written = (data: Fields): string =>
  JSON.stringify({ requestId: 'sample', note: NOTE, ...data, costDollars: { total: 0 } })
const named = ({ url, title }: Document): Readonly<Record<'id' | 'url' | 'title', string>> => ({ id: url, url, title })

function matching(
  query: string,
  { category, startPublishedDate: from, endPublishedDate: to }: Fields,
): readonly Document[] {
  const day = (time: unknown) => new Date(String(time)).toISOString().slice(0, 10)
  const dates = { ...(from !== undefined && { fromDate: day(from) }), ...(to !== undefined && { toDate: day(to) }) }
  return ranked({ query, sources: category === 'news' ? ['news'] : ['web', 'news'], ...dates })
}

function pagesOf(found: readonly Document[], { numResults = 10, includeDomains, excludeDomains }: Fields): Fields {
  const isIn = (domains: unknown, { url }: Document) =>
    Array.isArray(domains) && domains.includes(new URL(url).hostname)
  const kept = found.filter(
    (each) => (includeDomains === undefined || isIn(includeDomains, each)) && !isIn(excludeDomains, each),
  )
  const results = kept.slice(0, Number(numResults)).map((each, index) => ({
    ...named(each),
    publishedDate: `${each.date}T00:00:00.000Z`,
    author: 'Farebox',
    score: 1 / (index + 1),
  }))
  return { results, resolvedSearchType: 'sample', searchTime: 0 }
}

function contentsOf(asked: readonly { readonly url: string; readonly page: Document | undefined }[]): Fields {
  const results = asked.flatMap(({ page }) =>
    page ? [{ ...named(page), text: `${NOTE}\n\n${page.text}`, author: 'Farebox' }] : [],
  )
  if (results.length > 0)
    return { results, statuses: asked.map(({ url, page }) => ({ id: url, status: page ? 'success' : 'error' })) }
  const message = 'The sample web has only the pages that its search finds (payment NOT charged)'
  throw new ApiError('PASSED_ON', { status: 404, message, fields: { status: 404 } })
}
