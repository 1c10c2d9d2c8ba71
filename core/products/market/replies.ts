/** Replies of the market endpoints. */
import { Type } from '@sinclair/typebox'
import type { Reply } from '../../http/reply.ts'
import { MAX_BARS } from './history.ts'

/** Prices must not be cached by intermediaries. */
export const marketReply = (body: string): Reply => ({ status: 200, headers: REPLY_HEADERS, body })

const REPLY_HEADERS = { 'content-type': 'application/json', 'cache-control': 'no-store' }

const price = Type.Number({ description: 'Exact, as the feed publishes it.' })

const common = {
  symbol: Type.String(),
  category: Type.String(),
  market: Type.Optional(Type.String({ description: 'Of equities.' })),
  source: Type.String({ description: '`pyth`, or `sample` for made-up prices.' }),
  free: Type.Optional(Type.Literal(true)),
}

export const spotOutput = Type.Object({
  ...common,
  price,
  confidence: Type.Number({ description: 'The interval of the feed around the price.' }),
  publishTime: Type.Integer({ description: 'Unix seconds; old where the market is closed.' }),
  timestamp: Type.String({ description: 'The same as ISO 8601.' }),
  assetType: Type.String(),
  feedId: Type.String({ description: 'The feed of the price: of its session, where one was asked for.' }),
})

export const historyOutput = Type.Object({
  ...common,
  resolution: Type.String(),
  from: Type.Integer({ description: 'As asked.' }),
  to: Type.Integer(),
  bars: Type.Array(
    Type.Object({
      t: Type.Integer({ description: 'Start of the bar, unix seconds.' }),
      o: price,
      h: price,
      l: price,
      c: price,
      v: Type.Number(),
    }),
  ),
  truncated: Type.Optional(
    Type.Literal(true, {
      description: `The window is longer than ${MAX_BARS} bars: only its newest part is here. \`next\` has the part before it.`,
    }),
  ),
  next: Type.Optional(
    Type.String({ description: 'Path and query of the page of bars before these. Each page is a call of its own.' }),
  ),
})

export const listOutput = Type.Object({
  category: Type.String(),
  market: Type.Optional(Type.String()),
  label: Type.String(),
  count: Type.Integer({ description: 'All matches, listed or not.' }),
  example: Type.String(),
  endpoints: Type.Object({ list: Type.String(), price: Type.String(), history: Type.String() }),
  symbols: Type.Array(Type.Object({ symbol: Type.String(), description: Type.String() })),
})
