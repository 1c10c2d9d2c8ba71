/** Bars of a symbol. */
import { exact } from '../../lib/decimal_json.ts'
import { ApiError } from '../../http/errors.ts'
import {
  type Bar,
  BAR_SECONDS,
  type Feed,
  type Lane,
  type MarketVendor,
  type Resolution,
} from '../../ports/vendors/market.ts'
import { invalid, type Window } from './request.ts'
import { type Fields, find, marketFields, type SpotRequest } from './feeds.ts'

/** Most bars of a reply, which keeps it under a megabyte. */
export const MAX_BARS = 5000

/**
 * The newest bars of the window, and `next`, the path of the page before them, where the window is longer than
 * `MAX_BARS`. It ends at the current time at the latest. Throws a 404 with a hint for an unknown symbol, or if the
 * window has no bars. `now` is in milliseconds.
 */
export async function history(
  market: MarketVendor,
  request: SpotRequest & { readonly window: Window; readonly now: number; readonly lane: Lane },
  signal: AbortSignal,
): Promise<Fields> {
  const {
    row,
    session,
    lane,
    window: { resolution, from, ...window },
  } = request
  const now = Math.floor(request.now / 1000)
  if (from >= now) throw invalid('from', `must be in the past, before ${now}; got ${from}`)
  const to = Math.min(window.to ?? now, now)
  const first = Math.max(from, to - MAX_BARS * BAR_SECONDS[resolution] + 1)
  const feed = await find(market, request, signal)
  const found = await market.bars(feed, { resolution, from: first, to, ...(session && { session }), lane, signal })
  if (found.length === 0) throw barsNotFound(feed, { resolution, from: first, to })
  const bars = found.slice(-MAX_BARS)
  const end = (bars.length < found.length ? (bars[0]?.t ?? first) : first) - 1
  const before = { resolution, from: String(from), to: String(Math.max(end, from + 1)), ...(session && { session }) }
  const path = `${row.root}/history/${encodeURIComponent(feed.symbol)}?${new URLSearchParams(before)}`
  return {
    symbol: feed.symbol,
    ...marketFields(row),
    resolution,
    from,
    to,
    bars: bars.map(barFields),
    source: market.source,
    ...(end >= from && { truncated: true, next: path }),
  }
}

function barsNotFound(
  { symbol }: Feed,
  { resolution, from, to }: { resolution: Resolution; from: number; to: number },
): ApiError {
  const message = `There are no bars of ${symbol} at resolution ${resolution} that begin between ${from} and ${to}. Nothing was charged.`
  return new ApiError('NOT_FOUND', {
    error: 'No bars in this window',
    message,
    fields: { hint: 'Widen the window, or choose a shorter resolution: a bar counts when its start is within.' },
  })
}

const barFields = ({ t, o, h, l, c, v }: Bar): Fields => ({
  t,
  o: exact(o),
  h: exact(h),
  l: exact(l),
  c: exact(c),
  v: exact(v),
})
