/**
 * Prediction markets: forwards the venues' data unchanged (contract 15.1). Only listed paths are allowed, and they
 * never select the host.
 */
import { type Static, Type } from '@sinclair/typebox'
import { paid } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { quoted } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'
import { checkedPath, pathNotFound, PASSTHROUGH_RETENTION, encodedQuery } from '../lib/passthrough_path.ts'
import { flatPrice, shortAmount } from '../../x402/pricing.ts'
import type { PassthroughRequest } from '../../ports/vendors/data.ts'

/** US dollars per call, before the fee. */
const PRICE_USD = '0.0075'
/** Allowed first segments of a path. */
const VENUES = ['polymarket', 'kalshi', 'binance', 'limitless', 'opinion', 'predictfun', 'uma'] as const
const AVAILABLE = VENUES.map((venue) => `/api/v1/pm/${venue}/{path}`)
/** The only path that has a request body. */
const IDENTITIES = 'polymarket/wallet/identities'
const MAX_ADDRESSES = 200

const input = Type.Object({
  path: Type.String({
    description: `What is asked for, beginning with ${VENUES.join(', ')}; for example polymarket/markets or kalshi/trades.`,
  }),
})

const endpoint = paid({
  name: 'pm',
  method: 'GET',
  methods: ['GET', 'POST'],
  path: '/api/v1/pm/{path...}',
  summary: 'Query prediction markets',
  description: `Markets, trades and prices of prediction markets, as their service writes them. The query is passed on, each parameter once; a POST may say it in its body. ${IDENTITIES} takes addresses: a list of up to ${MAX_ADDRESSES}.`,
  tag: 'data',
  from: 'query',
  unknownFields: 'kept',
  input,
  output: Type.Unknown({ description: 'The answer of the service, as it came.' }),
  example: { path: 'polymarket/markets' },
  delivery: 'inline',
  verbatim: true,
  failure: 'Upstream provider error',
  retention: PASSTHROUGH_RETENTION,
  errors: ['NOT_FOUND', 'PASSED_ON', 'UPSTREAM_FAILED'],

  check(given) {
    requestOf(given)
    return given
  },

  price(given, { prices }) {
    const amount = flatPrice(PRICE_USD, prices)
    return {
      amount,
      maxTimeoutSeconds: 300,
      publicPrice: { amount: shortAmount(amount) },
      also: { category: venueOf(given.path) ?? 'prediction-markets', tier: 'standard' },
    }
  },

  isAvailable: (_input, { vendors }) => vendors.prediction !== undefined,

  async run({ input: given, vendors, signal }) {
    if (!vendors.prediction) throw new ApiError('NOT_CONFIGURED')
    return { result: await vendors.prediction.ask(requestOf(given), { signal }) }
  },

  show: () => ({}),
})

export const prediction = [endpoint]

const venueOf = (path: string): string | undefined =>
  VENUES.find((venue) => path === venue || path.startsWith(`${venue}/`))

/** Throws a 400 for a malformed path, and a 404 for an unknown one. */
function requestOf({ path, ...rest }: Static<typeof input> & Readonly<Record<string, unknown>>): PassthroughRequest {
  checkedPath('path', path)
  if (venueOf(path) === undefined) throw pathNotFound(path, AVAILABLE)
  if (path !== IDENTITIES) return { path, query: encodedQuery(rest) }
  const { addresses, ...others } = rest
  return { path, query: encodedQuery(others), body: { addresses: addressesOf(addresses) } }
}

/** An array, or a comma-separated string in a query. */
function addressesOf(given: unknown): readonly string[] {
  const list: unknown = typeof given === 'string' ? given.split(',') : given
  if (!Array.isArray(list) || list.length < 1 || list.length > MAX_ADDRESSES)
    throw refused(
      'addresses',
      `must be a list of 1 to ${MAX_ADDRESSES} wallets; got ${Array.isArray(list) ? list.length : quoted(given)}`,
    )
  const wrong = list.findIndex((each) => typeof each !== 'string' || !/^0x[0-9a-fA-F]{40}$/.test(each))
  if (wrong >= 0) throw refused(`addresses/${wrong}`, `must be 0x and 40 hex digits; got ${quoted(list[wrong])}`)
  return list as string[]
}
