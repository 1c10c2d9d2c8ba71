/**
 * Web search in four forms: pages for a query, similar pages, an answer with its sources, and page contents (contract
 * 9.13).
 */
import { type Static, type TObject, Type } from '@sinclair/typebox'
import {
  type Context,
  type Offering,
  type Order,
  type Inline,
  paid,
  type Price,
  STANDARD_PRICES,
} from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { quoted } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'
import { dollars } from '../../x402/money.ts'
import { pageProblem, PASSTHROUGH_RETENTION } from '../lib/passthrough_path.ts'
import { PER_CALL, PER_PAGE, searchPrice } from '../lib/search_rates.ts'
import { piecePrice } from '../../x402/pricing.ts'
import type { WebQuestion } from '../../ports/vendors/search.ts'

const MAX_PAGES = 100
const MAX_RESULTS = 100
const MAX_DOMAINS = 100
const MAX_QUERY = 2_000
const FAILURE = 'Internal server error'

const query = Type.String({ minLength: 1, maxLength: MAX_QUERY, description: 'The search query.' })
const url = Type.String({ description: 'An http(s) URL of the public web.' })
const numResults = Type.Optional(
  Type.Integer({
    minimum: 1,
    maximum: MAX_RESULTS,
    description: 'Most results, 10 by default; the price is the same for any.',
  }),
)
const domains = (description: string) =>
  Type.Optional(
    Type.Array(
      Type.String({ pattern: '^(\\*\\.)?[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)+(/[A-Za-z0-9._~/-]*)?$', maxLength: 253 }),
      { maxItems: MAX_DOMAINS, description },
    ),
  )
const time = (description: string) => Type.Optional(Type.String({ maxLength: 40, description }))

const filters = {
  numResults,
  category: Type.Optional(
    Type.String({
      pattern: '^[a-z][a-z ]{0,39}$',
      description: 'A kind of page, such as news, research paper or company.',
    }),
  ),
  startPublishedDate: time('Earliest date of a page, ISO 8601.'),
  endPublishedDate: time('Latest date of a page, ISO 8601, not before startPublishedDate.'),
  includeDomains: domains('Only pages of these.'),
  excludeDomains: domains('No pages of these.'),
}
const searchInput = Type.Object({ query, ...filters })
const similarInput = Type.Object({
  url,
  ...filters,
  excludeSourceDomain: Type.Optional(Type.Boolean({ description: 'No pages of the same site.' })),
})
const answerInput = Type.Object({ query })
const contentsInput = Type.Object({
  urls: Type.Array(url, { minItems: 1, maxItems: MAX_PAGES, description: 'Pages to read; each is paid for.' }),
})

const found = (more: TObject['properties'] = {}) =>
  Type.Object({
    id: Type.Optional(Type.String()),
    url: Type.String(),
    title: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    ...more,
  })
/** The search engine's answer, unchanged. Only samples have a `note`. */
const wrapped = (members: TObject['properties']) =>
  Type.Object({
    data: Type.Object({ ...members, requestId: Type.Optional(Type.String()), note: Type.Optional(Type.String()) }),
  })
const cost = Type.Optional(
  Type.Object({ total: Type.Number() }, { description: 'Cost reported by the engine; not your price.' }),
)
const maybe = Type.Optional(Type.Union([Type.String(), Type.Null()]))
const results = wrapped({
  results: Type.Array(
    found({ publishedDate: maybe, author: maybe, score: Type.Optional(Type.Union([Type.Number(), Type.Null()])) }),
  ),
  resolvedSearchType: Type.Optional(Type.String()),
  searchTime: Type.Optional(Type.Number()),
  costDollars: cost,
})

type Filters = Static<typeof searchInput>

const PRICING_NOTE = 'perUrlPrice for each URL, and transactionFee for the request.'

const perCall = searchPrice(PER_CALL)

/** Every URL counts, duplicates included, since the engine fetches all of them. */
function perPage({ urls }: Static<typeof contentsInput>, { prices = STANDARD_PRICES }: Context): Price {
  return {
    amount: piecePrice(PER_PAGE, urls.length, prices),
    maxTimeoutSeconds: 300,
    rates: { perUrlPrice: dollars(PER_PAGE), transactionFee: prices.fee },
    publicPrice: { pricingUnit: 'per-url', urls: urls.length, pricingNote: PRICING_NOTE },
  }
}

const ask =
  (question: WebQuestion): Inline['run'] =>
  async ({ input, vendors, signal }: Order<unknown>) => {
    if (!vendors.websearch) throw new ApiError('NOT_CONFIGURED')
    return { result: `{"data":${await vendors.websearch.ask(question, input as Record<string, never>, { signal })}}` }
  }

const ROOT = '/api/v1/websearch'
const ALIAS = '/api/v1/exa'

const at = (question: WebQuestion) =>
  ({
    name: `websearch.${question.replace('-', '_')}`,
    path: `${ROOT}/${question}`,
    aliases: [`${ALIAS}/${question}`],
    tag: 'search',
    delivery: 'inline',
    verbatim: true,
    failure: FAILURE,
    retention: PASSTHROUGH_RETENTION,
    errors: ['PASSED_ON'],
    isAvailable: (_input: unknown, { vendors }: Offering) => vendors.websearch !== undefined,
    run: ask(question),
    show: () => ({}),
  }) as const

const search = paid({
  ...at('search'),
  summary: 'Search the web for pages',
  description: 'The pages that answer a query best, with their titles and dates, as the search engine ranks them.',
  input: searchInput,
  output: results,
  example: { query: 'payment protocols for agents', numResults: 5 },
  check: filtered,
  price: perCall,
})

const similar = paid({
  ...at('find-similar'),
  summary: 'Find pages like a page',
  description: 'Pages of the web whose content is close to that of the given one.',
  input: similarInput,
  output: results,
  example: { url: 'https://sample.farebox.example/x402', numResults: 5 },
  check: (given) => filtered({ ...given, url: page('url', given.url) }),
  price: perCall,
})

const answer = paid({
  ...at('answer'),
  summary: 'Answer a question from the web',
  description: 'One answer, written from pages of the web, with those that it cites.',
  input: answerInput,
  output: wrapped({
    answer: Type.String(),
    citations: Type.Array(found({ publishedDate: maybe, author: maybe })),
    costDollars: cost,
  }),
  example: { query: 'What does x402 do?' },
  price: perCall,
})

const contents = paid({
  ...at('contents'),
  summary: 'Read pages of the web',
  description: 'The text of up to 100 pages. Each URL is paid for; a page that cannot be read is told in statuses.',
  input: contentsInput,
  output: wrapped({
    results: Type.Array(found({ text: maybe, author: maybe, publishedDate: maybe })),
    statuses: Type.Optional(Type.Array(Type.Object({ id: Type.String(), status: Type.String() }))),
    costDollars: cost,
  }),
  example: { urls: ['https://sample.farebox.example/x402'] },
  check: (given) => ({ urls: given.urls.map((each, index) => page(`urls/${index}`, each)) }),
  price: perPage,
  priceRange: ({ prices }) => ({
    min: piecePrice(PER_PAGE, 1, prices),
    max: piecePrice(PER_PAGE, MAX_PAGES, prices),
  }),
})

export const websearch = [search, similar, answer, contents]

function page(field: string, text: string): string {
  const problem = pageProblem(text)
  if (problem) throw refused(field, problem)
  return text
}

function filtered<Given extends Partial<Filters>>(given: Given): Given {
  const start = timeOf('startPublishedDate', given.startPublishedDate)
  const end = timeOf('endPublishedDate', given.endPublishedDate)
  if (start !== undefined && end !== undefined && start > end)
    throw refused('endPublishedDate', `must not be before startPublishedDate; got ${quoted(given.endPublishedDate)}`)
  return given
}

const ISO = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2}))?$/

function timeOf(field: string, given: string | undefined): number | undefined {
  if (given === undefined) return undefined
  const time = ISO.test(given) ? Date.parse(given) : Number.NaN
  if (Number.isFinite(time)) return time
  throw refused(
    field,
    `must be a date or a time in ISO 8601, such as 2026-11-20 or 2026-11-20T12:00:00Z; got ${quoted(given)}`,
  )
}
