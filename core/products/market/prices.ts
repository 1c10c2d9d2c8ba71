/** Market data: spot prices and bars, free for crypto, FX and commodities, 0.002 USD for equities (contract 10.2). */
import { type TProperties, Type } from '@sinclair/typebox'
import { within } from '../../lib/timers.ts'
import { openMarkets, stockMarket, type MarketRow } from './catalog.ts'
import {
  type Context,
  type Endpoint,
  free,
  type Free,
  type FreeContext,
  type FreeRequest,
  paid,
  type Paid,
} from '../../endpoint/mod.ts'
import { exactJson } from '../../lib/decimal_json.ts'
import type { Clock } from '../../lib/clock.ts'
import { ApiError } from '../../http/errors.ts'
import { clip } from '../../lib/text.ts'
import { inputParser, parseJson, textFields } from '../../http/request_body.ts'
import { listing, marketOf, withFeedErrors } from './feeds.ts'
import { history } from './history.ts'
import { historyOutput, listOutput, marketReply, spotOutput } from './replies.ts'
import {
  type HistoryInput,
  type ListInput,
  historyInput,
  limitOf,
  listInput,
  sessionOf,
  spotInput,
  windowOf,
} from './request.ts'
import { cachedFreeSpot, freeSpot, spot } from './spot.ts'
import type { Json } from '../../lib/json.ts'
import { STOCK_MARKETS } from '../../ports/vendors/market.ts'
import { flatPrice, shortAmount } from '../../x402/pricing.ts'

/** Longer than two vendor requests of 5 s each, for the symbols and then for the price. */
const DEADLINE_MS = 25_000
/** The same lifetime as for chat and search. */
const MAX_TIMEOUT_SECONDS = 300

const GET_AND_POST = ['GET', 'POST'] as const
const readHistory = inputParser(historyInput)
const readList = inputParser(listInput)

type Params = Readonly<Record<string, unknown>>
/**
 * The paths of a family of endpoints. `row` finds its category from the path, and throws a 404 for an unknown market.
 */
type Family = {
  readonly name: string
  readonly root: string
  readonly title: string
  readonly inPath?: TProperties
  /** Family of which it is a part; see `variantOf` of an endpoint. */
  readonly partOf?: string
  row(params: Params): MarketRow
}

/** Without a length limit: an unknown market is 404, paid or not. */
const market = Type.String({ description: `One of ${STOCK_MARKETS.join(', ')}.` })

function marketRow({ market }: Params): MarketRow {
  const row = stockMarket(typeof market === 'string' ? market.toLowerCase() : market)
  if (row) return row
  const message = `There is no market ${clip(market)}; supported: ${STOCK_MARKETS.join(', ')}.`
  throw new ApiError('NOT_FOUND', { error: 'Unknown market', message, fields: { supported: STOCK_MARKETS } })
}

const open: readonly Family[] = openMarkets.map((row) => ({
  name: row.kind,
  root: row.root,
  title: row.label,
  row: () => row,
}))
const equities: readonly Family[] = [
  { name: 'stocks', root: '/api/v1/stocks/{market}', title: 'equities', inPath: { market }, row: marketRow },
  {
    name: 'usstock',
    root: '/api/v1/usstock',
    title: 'US equities',
    partOf: 'stocks',
    row: () => marketRow({ market: 'us' }),
  },
]

/** In the examples: the market, where the path names one, and a time in autumn 2026. */
const exampleMarket = (inPath: TProperties | undefined): Readonly<Record<string, string>> =>
  inPath ? { market: 'us' } : {}
const EXAMPLE_FROM = '1790000000'

// ── free ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Free limits per IP address. Histories nearly always need an upstream call; prices and lists seldom do. */
const FEED_LIMIT = { requests: 600, windowMs: 60_000, bucket: 'market.feeds' } as const
const HISTORY_LIMIT = { requests: 120, windowMs: 60_000, bucket: 'market.histories' } as const

type FeedEndpointFields = Pick<
  Free,
  'name' | 'path' | 'summary' | 'input' | 'output' | 'methods' | 'sample' | 'errors' | 'limit'
>

function feed(
  endpointFields: FeedEndpointFields,
  answer: (request: FreeRequest, context: FreeContext, signal: AbortSignal) => Promise<string>,
): Free {
  return free({
    limit: FEED_LIMIT,
    ...endpointFields,
    tag: 'market data',
    errorFormat: 'market',
    discoverable: true,
    isOffered: ({ vendors }) => vendors.market !== undefined,
    answer: async (request, context) =>
      marketReply(
        await withFeedErrors(
          within(context.clock, DEADLINE_MS, (signal) => answer(request, context, signal)),
          context.log,
        ),
      ),
  })
}

function list({ name, root, title, inPath, row }: Family): Free {
  const sample = { path: exampleMarket(inPath), query: { q: row(exampleMarket(inPath)).example, limit: '10' } }
  const endpointFields = {
    name: `${name}.list`,
    path: `${root}/list`,
    summary: `List the symbols of ${title}`,
    input: listInput,
    output: listOutput,
    sample,
  }
  return feed(endpointFields, async ({ params, query }, { vendors }, signal) => {
    const input = readList(Object.fromEntries(query)) as ListInput
    const wanted = { row: row(params), q: input.q ?? '', limit: limitOf(input.limit) }
    return exactJson(await listing(marketOf(vendors), wanted, signal))
  })
}

function freePrice({ name, root, title, row }: Family): Free {
  const sample = { path: { symbol: row({}).example } }
  const endpointFields = {
    name: `${name}.price`,
    path: `${root}/price/{symbol}`,
    summary: `Latest price of ${title}`,
    methods: GET_AND_POST,
    input: spotInput,
    output: spotOutput,
    sample,
  }
  const requestOf = ({ params }: FreeRequest) => ({ row: row(params), symbol: params.symbol ?? '', session: undefined })
  const route = feed(endpointFields, (request, { vendors }, signal) =>
    freeSpot(marketOf(vendors), requestOf(request), signal),
  )
  return {
    ...route,
    answer(request, context) {
      const text = cachedFreeSpot(marketOf(context.vendors), requestOf(request))
      return text === undefined ? route.answer(request, context) : marketReply(text)
    },
  }
}

function freeHistory({ name, root, title, row }: Family): Free {
  const sample = { path: { symbol: row({}).example }, query: { resolution: 'D', from: EXAMPLE_FROM } }
  const endpointFields = {
    name: `${name}.history`,
    path: `${root}/history/{symbol}`,
    summary: `Bars of ${title}`,
    methods: GET_AND_POST,
    input: historyInput,
    output: historyOutput,
    sample,
    errors: ['BUSY'] as const,
    limit: HISTORY_LIMIT,
  }
  return feed(endpointFields, async (request, { vendors, clock }, signal) => {
    const { params, query } = request
    const input = readHistory({
      ...(await bodyFields(request, clock)),
      ...Object.fromEntries(query),
      ...params,
    }) as HistoryInput
    const range = {
      row: row(params),
      symbol: input.symbol,
      session: undefined,
      window: windowOf(input),
      now: clock.now(),
      lane: 'free' as const,
    }
    return exactJson({ ...(await history(marketOf(vendors), range, signal)), free: true })
  })
}

/** A POST may have its fields in the body instead of the query. */
async function bodyFields(
  { method, text, header }: FreeRequest,
  clock: Clock,
): Promise<Readonly<Record<string, unknown>>> {
  const input = method === 'POST' ? await text() : ''
  return input === '' ? {} : textFields(await parseJson(input, header('content-type'), clock))
}

// ── paid ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** 0.001 plus the fee. The 402 shows four decimals and an example call (contract 10.16). */
function quote(row: MarketRow, call: string, { prices }: Context) {
  const amount = flatPrice('0.001', prices)
  return {
    amount,
    maxTimeoutSeconds: MAX_TIMEOUT_SECONDS,
    publicPrice: { amount: shortAmount(amount) },
    also: { example: { method: 'GET', path: `${row.root}/${call}` } },
  }
}

const common = {
  method: 'GET',
  methods: GET_AND_POST,
  from: 'query',
  order: 'quote_then_check',
  delivery: 'inline',
  errorFormat: 'market',
  tag: 'market data',
  failure: 'Price feed unavailable',
} as const
const isServed: Paid['isAvailable'] = (_input, { vendors }) => vendors.market !== undefined

function paidPrice({ name, root, title, inPath, partOf, row }: Family): Paid {
  return paid({
    ...common,
    name: `${name}.price`,
    ...(partOf && { variantOf: `${partOf}.price` }),
    path: `${root}/price/{symbol}`,
    summary: `Latest price of ${title}`,
    input: Type.Object({ ...inPath, ...spotInput.properties }) as typeof spotInput,
    output: spotOutput,
    example: { ...exampleMarket(inPath), symbol: 'AAPL' },
    price: (input, context) => quote(row(input), `price/${row(input).example}`, context),
    isAvailable: isServed,
    check(input) {
      sessionOf(row(input), input.session)
      return input
    },
    remember: (input) => ({ model: null, request: { market: row(input).kind, symbol: input.symbol } }),
    async run({ input, vendors, clock }) {
      const spotRequest = {
        row: row(input),
        symbol: input.symbol,
        session: sessionOf(row(input), input.session),
      }
      return {
        result: await withFeedErrors(
          within(clock, DEADLINE_MS, (signal) => spot(marketOf(vendors), spotRequest, signal)),
        ),
      }
    },
    show: ({ made }) => made as Readonly<Record<string, Json>>,
  })
}

function paidHistory({ name, root, title, inPath, partOf, row }: Family): Paid {
  return paid({
    ...common,
    name: `${name}.history`,
    ...(partOf && { variantOf: `${partOf}.history` }),
    path: `${root}/history/{symbol}`,
    summary: `Bars of ${title}`,
    input: Type.Object({ ...inPath, ...historyInput.properties }) as typeof historyInput,
    output: historyOutput,
    example: { ...exampleMarket(inPath), symbol: 'AAPL', from: EXAMPLE_FROM },
    errors: ['BUSY'],
    price: (input, context) => quote(row(input), `history/${row(input).example}?from=${EXAMPLE_FROM}`, context),
    isAvailable: isServed,
    check(input) {
      windowOf(input)
      sessionOf(row(input), input.session)
      return input
    },
    remember: (input) => ({
      model: null,
      request: { market: row(input).kind, symbol: input.symbol, resolution: input.resolution ?? 'D' },
    }),
    async run({ input, vendors, clock, now }) {
      const historyRequest = {
        row: row(input),
        symbol: input.symbol,
        session: sessionOf(row(input), input.session),
        window: windowOf(input),
        now,
        lane: 'paid' as const,
      }
      return {
        result: await withFeedErrors(
          within(clock, DEADLINE_MS, (signal) => history(marketOf(vendors), historyRequest, signal)),
        ),
      }
    },
    show: ({ made }) => made as Readonly<Record<string, Json>>,
  })
}

export const marketData: readonly Endpoint[] = [
  ...open.flatMap((family) => [list(family), freePrice(family), freeHistory(family)]),
  ...equities.flatMap((family) => [list(family), paidPrice(family), paidHistory(family)]),
]
