/** State of the deliveries of this process that outlives a request. */
import type { Deliveries, Engine } from '../../engine.ts'
import { budget } from '../../http/body_bytes.ts'
import type { Clock } from '../../lib/clock.ts'
import { gzipJson } from '../../lib/gzip_json.ts'

/**
 * Concurrent submissions of the largest orders. Each is held four times over: 125 MB for an order of 28 MB (Bun 1.4.4).
 */
const ORDERS_AT_ONCE = 4

/** `maxUpload`: the largest order in bytes. */
export function noDeliveries({ clock, maxUpload }: { readonly clock: Clock; readonly maxUpload: number }): Deliveries {
  return {
    streams: new Set(),
    background: new Map(),
    submissions: budget(ORDERS_AT_ONCE * maxUpload, clock),
    compress: gzipJson(),
  }
}

/** Stops active streams and settles what was delivered. Returns their number. */
export function drainStreams({ deliveries }: Pick<Engine, 'deliveries'>): number {
  const ends = [...deliveries.streams]
  for (const end of ends) end()
  return ends.length
}
