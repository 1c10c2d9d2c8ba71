/**
 * Market data: spot prices and bars of crypto, FX and commodities for nothing, of equities for 0.002 USD (contract
 * 10.2).
 */
import { type TProperties, Type } from '@sinclair/typebox'
import { within } from '../../lib/timers.ts'
import { openShelves, stockShelf, type ShelfRow } from './catalog.ts'
import {
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
import * as sale from './shared.ts'
import type { Json } from '../../lib/json.ts'
import { STOCK_MARKETS } from '../../ports/vendors/market.ts'
import { flatPrice } from '../../x402/pricing.ts'

/** Longer than a vendor that asks twice, 5 s each time, for the symbols and then for the price. */
const DEADLINE_MS = 25_000
/** An authorization for a feed lives as long as one for chat or search. */
const MAX_TIMEOUT_SECONDS = 300

const GET_AND_POST = ['GET', 'POST'] as const
const readHistory = inputParser(sale.historyInput)
const readList = inputParser(sale.listInput)

type Params = Readonly<Record<string, unknown>>
/**
 * Where a family of endpoints is served. `row` finds its shelf from the path, and throws a 404 for a market that is not
 * on the list.
 */
type Family = {
  readonly name: string
  readonly root: string
  readonly title: string
  readonly inPath?: TProperties
  row(params: Params): ShelfRow
}

/** Of any length: what is not on the list is a 404, to those who pay as to those who ask. */
const market = Type.String({ description: `One of ${STOCK_MARKETS.join(', ')}.` })

function marketRow({ market }: Params): ShelfRow {
  const row = stockShelf(typeof market === 'string' ? market.toLowerCase() : market)
  if (row) return row
  const message = `There is no market ${clip(market)}; supported: ${STOCK_MARKETS.join(', ')}.`
  throw new ApiError('NOT_FOUND', { error: 'Unknown market', message, fields: { supported: STOCK_MARKETS } })
}

const open: readonly Family[] = openShelves.map((row) => ({
  name: row.shelf,
  root: row.root,
  title: row.label,
  row: () => row,
}))
const equities: readonly Family[] = [
  { name: 'stocks', root: '/api/v1/stocks/{market}', title: 'equities', inPath: { market }, row: marketRow },
  { name: 'usstock', root: '/api/v1/usstock', title: 'US equities', row: () => marketRow({ market: 'us' }) },
]

/** In the examples: the market, where the path names one, and a time in autumn 2026. */
const exampleMarket = (inPath: TProperties | undefined): Readonly<Record<string, string>> =>
  inPath ? { market: 'us' } : {}
const EXAMPLE_FROM = '1790000000'

// ── free ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** What one address may ask for nothing: a history is a call upstream nearly every time, a price or a list seldom. */
const FEED_LIMIT = { requests: 600, windowMs: 60_000, bucket: 'market.feeds' } as const
const HISTORY_LIMIT = { requests: 120, windowMs: 60_000, bucket: 'market.histories' } as const

type FeedWords = Pick<
  Free,
  'name' | 'path' | 'summary' | 'input' | 'output' | 'methods' | 'sample' | 'errors' | 'limit'
>

function feed(
  words: FeedWords,
  answer: (request: FreeRequest, context: FreeContext, signal: AbortSignal) => Promise<string>,
): Free {
  return free({
    limit: FEED_LIMIT,
    ...words,
    tag: 'market data',
    errorFormat: 'market',
    discoverable: true,
    answer: async (request, context) =>
      sale.marketReply(
        await sale.orAway(
          within(context.clock, DEADLINE_MS, (signal) => answer(request, context, signal)),
          context.log,
        ),
      ),
  })
}

function list({ name, root, title, inPath, row }: Family): Free {
  const sample = { path: exampleMarket(inPath), query: { q: row(exampleMarket(inPath)).example, limit: '10' } }
  const words = {
    name: `${name}.list`,
    path: `${root}/list`,
    summary: `List the symbols of ${title}`,
    input: sale.listInput,
    output: sale.listOutput,
    sample,
  }
  return feed(words, async ({ params, query }, { vendors }, signal) => {
    const said = readList(Object.fromEntries(query)) as sale.ListAsked
    const asked = { row: row(params), q: said.q ?? '', limit: sale.limitOf(said.limit) }
    return exactJson(await sale.listing(sale.marketOf(vendors), asked, signal))
  })
}

function freePrice({ name, root, title, row }: Family): Free {
  const sample = { path: { symbol: row({}).example } }
  const words = {
    name: `${name}.price`,
    path: `${root}/price/{symbol}`,
    summary: `Latest price of ${title}`,
    methods: GET_AND_POST,
    input: sale.spotInput,
    output: sale.spotOutput,
    sample,
  }
  const asks = ({ params }: FreeRequest) => ({ row: row(params), symbol: params.symbol ?? '', session: undefined })
  const asked = feed(words, (request, { vendors }, signal) =>
    sale.freeSpot(sale.marketOf(vendors), asks(request), signal),
  )
  return {
    ...asked,
    answer(request, context) {
      const text = sale.freeSpotAtHand(sale.marketOf(context.vendors), asks(request))
      return text === undefined ? asked.answer(request, context) : sale.marketReply(text)
    },
  }
}

function freeHistory({ name, root, title, row }: Family): Free {
  const sample = { path: { symbol: row({}).example }, query: { resolution: 'D', from: EXAMPLE_FROM } }
  const words = {
    name: `${name}.history`,
    path: `${root}/history/{symbol}`,
    summary: `Bars of ${title}`,
    methods: GET_AND_POST,
    input: sale.historyInput,
    output: sale.historyOutput,
    sample,
    errors: ['BUSY'] as const,
    limit: HISTORY_LIMIT,
  }
  return feed(words, async (request, { vendors, clock }, signal) => {
    const { params, query } = request
    const said = readHistory({
      ...(await posted(request, clock)),
      ...Object.fromEntries(query),
      ...params,
    }) as sale.HistoryAsked
    const asked = {
      row: row(params),
      symbol: said.symbol,
      session: undefined,
      window: sale.windowOf(said),
      now: clock.now(),
      lane: 'free' as const,
    }
    return exactJson({ ...(await sale.history(sale.marketOf(vendors), asked, signal)), free: true })
  })
}

/** A POST may say in its body what a GET says in its query. */
async function posted({ method, text, header }: FreeRequest, clock: Clock): Promise<Readonly<Record<string, unknown>>> {
  const said = method === 'POST' ? await text() : ''
  return said === '' ? {} : textFields(await parseJson(said, header('content-type'), clock))
}

// ── paid ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** 0.001 and the fee. The 402 shows four decimals, and a call that costs this (contract 10.16). */
function quote(row: ShelfRow, call: string) {
  return {
    amount: flatPrice('0.001'),
    maxTimeoutSeconds: MAX_TIMEOUT_SECONDS,
    publicPrice: { amount: '0.0020' },
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

function paidPrice({ name, root, title, inPath, row }: Family): Paid {
  return paid({
    ...common,
    name: `${name}.price`,
    path: `${root}/price/{symbol}`,
    summary: `Latest price of ${title}`,
    input: Type.Object({ ...inPath, ...sale.spotInput.properties }) as typeof sale.spotInput,
    output: sale.spotOutput,
    example: { ...exampleMarket(inPath), symbol: 'AAPL' },
    price: (input) => quote(row(input), `price/${row(input).example}`),
    isAvailable: isServed,
    check(input) {
      sale.sessionOf(row(input), input.session)
      return input
    },
    remember: (input) => ({ model: null, request: { market: row(input).shelf, symbol: input.symbol } }),
    async run({ input, vendors, clock }) {
      const asked = { row: row(input), symbol: input.symbol, session: sale.sessionOf(row(input), input.session) }
      return {
        result: await sale.orAway(
          within(clock, DEADLINE_MS, (signal) => sale.spot(sale.marketOf(vendors), asked, signal)),
        ),
      }
    },
    show: ({ made }) => made as Readonly<Record<string, Json>>,
  })
}

function paidHistory({ name, root, title, inPath, row }: Family): Paid {
  return paid({
    ...common,
    name: `${name}.history`,
    path: `${root}/history/{symbol}`,
    summary: `Bars of ${title}`,
    input: Type.Object({ ...inPath, ...sale.historyInput.properties }) as typeof sale.historyInput,
    output: sale.historyOutput,
    example: { ...exampleMarket(inPath), symbol: 'AAPL', from: EXAMPLE_FROM },
    errors: ['BUSY'],
    price: (input) => quote(row(input), `history/${row(input).example}?from=${EXAMPLE_FROM}`),
    isAvailable: isServed,
    check(input) {
      sale.windowOf(input)
      sale.sessionOf(row(input), input.session)
      return input
    },
    remember: (input) => ({
      model: null,
      request: { market: row(input).shelf, symbol: input.symbol, resolution: input.resolution ?? 'D' },
    }),
    async run({ input, vendors, clock, now }) {
      const asked = {
        row: row(input),
        symbol: input.symbol,
        session: sale.sessionOf(row(input), input.session),
        window: sale.windowOf(input),
        now,
        lane: 'paid' as const,
      }
      return {
        result: await sale.orAway(
          within(clock, DEADLINE_MS, (signal) => sale.history(sale.marketOf(vendors), asked, signal)),
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
