/** The embedded search: a dozen short documents of our own, ranked by words. Every answer says that it is a sample, and not the web. */
import type { SearchJob, SearchVendor } from '../../../core/mod.ts'

export type Document = {
  /** Last part of its address; the host is reserved for examples (RFC 2606), so nobody takes it for a page of the web. */
  readonly slug: string
  readonly kind: 'web' | 'news'
  /** YYYY-MM-DD. */
  readonly date: string
  readonly title: string
  readonly text: string
}

const document = (kind: Document['kind'], slug: string, date: string, title: string, text: string): Document => ({
  slug,
  kind,
  date,
  title,
  text,
})

export const CORPUS: readonly Document[] = [
  document(
    'web',
    'x402',
    '2026-01-15',
    'The x402 payment protocol',
    'x402 uses the HTTP status 402 Payment Required. A server quotes a price with its offers, the client signs a payment for one of them and sends the request again with a payment header.',
  ),
  document(
    'web',
    'x402-version-2',
    '2026-03-02',
    'Version 2 of x402',
    'In version 2 of x402 the offers travel in the PAYMENT-REQUIRED header and the payment in PAYMENT-SIGNATURE, both as base64 of JSON. Networks are named as in CAIP-2, for example eip155:8453.',
  ),
  document(
    'web',
    'farebox',
    '2026-11-20',
    'What Farebox is',
    'Farebox is a self-hosted gateway that sells AI media, chat, search and data by the call. It is paid in USDC through x402, and money moves only when there is a result.',
  ),
  document(
    'web',
    'farebox-devnet',
    '2026-11-20',
    'Trying Farebox without an account',
    'Started without a configuration, Farebox runs a local chain, a test USDC, a funded buyer and embedded vendors on one machine. Nothing of it is worth money, and embedded output says that it is procedural.',
  ),
  document(
    'web',
    'usdc',
    '2026-02-10',
    'USDC, a dollar token',
    'USDC is a token that stands for one US dollar. It has six decimals, so the smallest amount, one micro-USDC, is a millionth of a dollar. Its contract supports payments by signature.',
  ),
  document(
    'web',
    'eip-3009',
    '2025-11-05',
    'Transfers with an authorization',
    'ERC-3009 lets a holder sign a transfer off chain, with a nonce and a time window. Somebody else sends it and pays the gas. A nonce is used once, so the same authorization cannot be charged twice.',
  ),
  document(
    'web',
    'eip-712',
    '2025-10-12',
    'Typed data that people can read',
    'EIP-712 defines how structured data is hashed and signed, within a domain of name, version, chain and contract. A signature for one domain is worth nothing in another.',
  ),
  document(
    'web',
    'base',
    '2026-04-22',
    'Base, a layer 2 network',
    'Base is a layer 2 of Ethereum with chain id 8453; Base Sepolia is its test network, chain id 84532. Blocks come every two seconds, and a token transfer costs a fraction of a cent.',
  ),
  document(
    'web',
    'micropayments',
    '2026-05-30',
    'Why micropayments came back',
    'Agents buy small things often: one picture, one answer, one search. Subscriptions and cards fit badly, while a signed payment of a tenth of a cent for each call needs no account.',
  ),
  document(
    'web',
    'permit2',
    '2026-06-18',
    'Swaps that start with a signature',
    'With Permit2 a token holder approves one contract once, and then signs each swap. An aggregator compares prices of many exchanges and returns a transaction that carries the signature.',
  ),
  document(
    'news',
    'search-price',
    '2026-09-29',
    'Search has one price',
    'A live search costs a flat 0.081 dollars since 29 September 2026, whatever the number of results. A search that fails is not charged.',
  ),
  document(
    'news',
    'payment-codes',
    '2026-08-26',
    'Refused payments carry codes',
    'Since 26 August 2026 a refused payment says why in a code that programs can read: invalid, unfunded, replayed, or a stale blockhash.',
  ),
  document(
    'news',
    'chat-reasoning',
    '2026-08-27',
    'Chat answers show their reasoning',
    'Since 27 August 2026 whole chat answers carry the reasoning of models that give it, in a member of its own.',
  ),
]

const ADDRESS = { web: 'https://sample.farebox.example/', news: 'https://news.farebox.example/' } as const
export const addressOf = ({ kind, slug }: Document): string => ADDRESS[kind] + slug
const MODEL = 'farebox/sample-search'

/** Words that say nothing about what is looked for. */
const COMMON = new Set(
  'a an and are as at be by do does for from has have how i in is it its new of on or that the this to was what when where which who why will with'.split(
    ' ',
  ),
)

type Entry = { readonly document: Document; readonly title: ReadonlySet<string>; readonly words: ReadonlySet<string> }
const entries: readonly Entry[] = CORPUS.map((each) => ({
  document: each,
  title: new Set(wordsOf(each.title)),
  words: new Set(wordsOf(`${each.title} ${each.slug} ${each.text}`)),
}))

/** The same query finds the same documents in the same order, always. */
export function corpusSearch(): SearchVendor {
  return {
    async search(job, { signal }) {
      signal.throwIfAborted()
      const found = ranked(job).slice(0, job.maxResults)
      return { summary: summaryOf(found), citations: found.map(addressOf), sourcesUsed: found.length, model: MODEL }
    },
  }
}

/** By the rarity of the words that they share with the query, those of a title twice; equals stay in the order of the corpus. */
export function ranked({ query, sources, fromDate = '', toDate = '9999-12-31' }: SearchJob): readonly Document[] {
  const wanted = [...new Set(wordsOf(query))].filter((word) => !COMMON.has(word))
  const rarity = new Map(
    wanted.map((word) => [
      word,
      1 + Math.log(entries.length / Math.max(1, entries.filter(({ words }) => words.has(word)).length)),
    ]),
  )
  const scored = entries.map(({ document, title, words }) => ({
    document,
    score: wanted.reduce(
      (sum, word) => sum + (words.has(word) ? (rarity.get(word) ?? 0) : 0) * (title.has(word) ? 2 : 1),
      0,
    ),
  }))
  return scored
    .filter(
      ({ document: { kind, date }, score }) =>
        score > 0 && sources.includes(kind) && date >= fromDate && date <= toDate,
    )
    .sort((a, b) => b.score - a.score)
    .map(({ document }) => document)
}

export function summaryOf(found: readonly Document[]): string {
  const label = `Sample search: these are the closest of ${CORPUS.length} bundled documents, not results from the web.`
  if (found.length === 0)
    return `Sample search: none of ${CORPUS.length} bundled documents matches. This is not a result from the web.`
  return [label, ...found.slice(0, 3).map(({ title, text }) => `${title}: ${text}`)].join('\n\n')
}

/** Lower case, in any script; plurals count as their singular. */
function wordsOf(text: string): string[] {
  return (text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []).map((word) =>
    word.length > 3 ? word.replace(/s$/, '') : word,
  )
}
