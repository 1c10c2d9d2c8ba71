/** Prediction markets at Predexon, which needs a key. Source: contract 15.1 (Predexon v2). */
import type { Clock, DataVendor, Log } from '../../../core/mod.ts'
import type { Fetch } from '../../http/fetch.ts'
import { passthrough } from '../lib/passthrough.ts'

export type PredexonConfig = {
  readonly key: string
  readonly baseUrl?: string | undefined
  readonly clock: Clock
  readonly log: Log
  readonly fetch?: Fetch | undefined
}

const PREDEXON_URL = 'https://api.predexon.com/v2'

/** Every venue behind one root, as the paths are. */
export function predexon({ baseUrl = PREDEXON_URL, key, ...ports }: PredexonConfig): DataVendor {
  const through = passthrough({
    name: 'predexon',
    source: 'Predexon',
    headers: { 'x-api-key': key },
    secrets: [key],
    timeoutMs: 20_000,
    maxBytes: 8 * 1024 * 1024,
    ...ports,
  })
  return { ask: (request, at) => through.ask(baseUrl, request, at) }
}
