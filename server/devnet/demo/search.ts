/** Demo search over nine bundled documents, ranked by shared words. Every answer says that it is a sample. */
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
    const [host = '', date = '', title = '', text = ''] = line.split('|')
    return { url: `https://${host.replace('/', '.farebox.example/')}`, date, title, text }
  })

const COUNT = `${DOCUMENTS.length} bundled documents`
const NOTE = `Sample: from ${COUNT}, not from the web.`
/** Words without meaning for a search. */
const COMMON = new Set('a an and are as at be by do for from how in is it of on or that the to what with'.split(' '))

/** Lower case, in any script; plurals count as their singular. */
function wordsOf(text: string): ReadonlySet<string> {
  const words = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []
  const singular = words.map((word) => (word.length > 3 ? word.replace(/s$/, '') : word))
  return new Set(singular.filter((word) => !COMMON.has(word)))
}

const isNews = ({ url }: Document): boolean => url.startsWith('https://news.')
const INDEX = DOCUMENTS.map((document) => {
  const { title, url, text } = document
  return { document, title: wordsOf(title), all: wordsOf(`${title} ${url} ${text}`) }
})

/** Ranks by the number of words shared with the query, title words twice. Ties keep their order. */
function ranked({
  query,
  sources,
  fromDate = '',
  toDate = '9999',
}: Omit<SearchJob, 'maxResults'>): readonly Document[] {
  const words = [...wordsOf(query)]
  const shared = (known: ReadonlySet<string>) => words.filter((word) => known.has(word)).length
  return INDEX.map(({ document, title, all }) => {
    return { document, score: shared(title) + shared(all) }
  })
    .filter(({ document, score }) => score > 0 && sources.includes(isNews(document) ? 'news' : 'web'))
    .filter(({ document: { date } }) => date >= fromDate && date <= toDate)
    .toSorted((a, b) => b.score - a.score)
    .map(({ document }) => document)
}

function summaryOf(found: readonly Document[]): string {
  if (found.length === 0) return `Sample search: none of ${COUNT} matches. This is not a result from the web.`
  const label = `Sample search: these are the closest of ${COUNT}, not results from the web.`
  return [label, ...found.slice(0, 3).map(({ title, text }) => `${title}: ${text}`)].join('\n\n')
}

/**
 * Equal queries find the same documents in the same order.
 *
 * @example
 * const search = demoSearch()
 */
export function demoSearch(): SearchVendor {
  return {
    async search(job, { signal }) {
      signal.throwIfAborted()
      const found = ranked(job).slice(0, job.maxResults)
      const citations = found.map(({ url }) => url)
      return { summary: summaryOf(found), citations, sourcesUsed: found.length, model: 'farebox/sample-search' }
    },
  }
}

export function demoWeb(): WebSearchVendor {
  const documentAt = (url: unknown) => DOCUMENTS.find((each) => each.url === url)

  function answer(question: string, order: Fields): Fields {
    if (question === 'contents') return contentsOf(order.urls as readonly string[])
    if (question === 'find-similar') {
      const model = documentAt(order.url)
      return pagesOf(model ? matching(model.text, order).filter((each) => each !== model) : [], order)
    }
    if (question !== 'answer') return pagesOf(matching(String(order.query), order), order)
    const found = matching(String(order.query), {})
    return { answer: summaryOf(found), citations: found.slice(0, 3).map(headOf) }
  }

  function contentsOf(urls: readonly string[]): Fields {
    const results = urls.map(documentAt).flatMap((found) => {
      return found ? [{ ...headOf(found), text: `${NOTE}\n\n${found.text}`, author: 'Farebox' }] : []
    })
    const statuses = urls.map((url) => ({ id: url, status: documentAt(url) ? 'success' : 'error' }))
    if (results.length > 0) return { results, statuses }
    const message = 'The sample web has only the pages that its search finds (payment NOT charged)'
    throw new ApiError('PASSED_ON', { status: 404, message, fields: { status: 404 } })
  }

  return {
    async ask(question, order, { signal }) {
      signal.throwIfAborted()
      const label = { requestId: 'sample', note: NOTE }
      return JSON.stringify({ ...label, ...answer(question, order), costDollars: { total: 0 } })
    },
  }
}

const headOf = ({ url, title }: Document) => ({ id: url, url, title })

function matching(query: string, order: Fields): readonly Document[] {
  const { category, startPublishedDate: from, endPublishedDate: to } = order
  const day = (time: unknown) => new Date(String(time)).toISOString().slice(0, 10)
  const dates = { ...(from !== undefined && { fromDate: day(from) }), ...(to !== undefined && { toDate: day(to) }) }
  return ranked({ query, sources: category === 'news' ? ['news'] : ['web', 'news'], ...dates })
}

function pagesOf(found: readonly Document[], { numResults = 10, includeDomains, excludeDomains }: Fields): Fields {
  const isIn = (domains: unknown, { url }: Document) =>
    Array.isArray(domains) && domains.includes(new URL(url).hostname)
  const results = found
    .filter((each) => (includeDomains === undefined || isIn(includeDomains, each)) && !isIn(excludeDomains, each))
    .slice(0, Number(numResults))
    .map((each, index) => {
      const publishedDate = `${each.date}T00:00:00.000Z`
      return { ...headOf(each), publishedDate, author: 'Farebox', score: 1 / (index + 1) }
    })
  return { results, resolvedSearchType: 'sample', searchTime: 0 }
}
