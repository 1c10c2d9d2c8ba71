/** Links of Coinbase's onramp, each for one visit. Sources: docs.cdp.coinbase.com (session token authentication). */
import type { Clock, Log, OnrampVendor } from '../../../core/mod.ts'
import { outages } from '../../../core/lib/mod.ts'
import { type Fetch, vendorHttp } from '../../http/fetch.ts'
import { serviceErrorFor } from '../lib/passthrough.ts'
import { record } from '../../http/error_replies.ts'

export type CoinbaseOnrampConfig = {
  /** A bearer token for one method and address. */
  readonly bearer: (method: string, url: URL, now: number) => Promise<string>
  readonly baseUrl?: string | undefined
  readonly clock: Clock
  readonly log: Log
  readonly fetch?: Fetch | undefined
}

const CDP_URL = 'https://api.developer.coinbase.com'
const PAGE = 'https://pay.coinbase.com/buy/select-asset'
const TIMEOUT_MS = 15_000

export function coinbaseOnramp(config: CoinbaseOnrampConfig): OnrampVendor {
  const { bearer, baseUrl = CDP_URL, clock, log } = config
  const errorFor = serviceErrorFor({ source: 'Coinbase', timeoutMs: TIMEOUT_MS })
  const http = vendorHttp({
    ...config,
    name: 'coinbase',
    maker: 'Coinbase',
    timeoutMs: TIMEOUT_MS,
    maxBytes: 64 * 1024,
    errorFor,
  })
  const signing = outages({ log, clock, over: 'the key of Coinbase signs again' })
  const url = `${baseUrl.replace(/\/+$/, '')}/onramp/v1/token`

  return {
    async link({ address, network, asset, ip }, { signal }) {
      const token = await bearer('POST', new URL(url), clock.now()).catch((error: Error) => {
        signing.failed('coinbase', {
          reason: 'key',
          message: 'the key of Coinbase cannot sign: its setting needs the operator',
          fields: { vendor: 'coinbase', error: error.message },
        })
        throw errorFor('operator', { maker: 'Coinbase', what: 'the key cannot sign', retrySeconds: 0 })
      })
      signing.worked('coinbase')
      const body = {
        addresses: [{ address, blockchains: [network] }],
        assets: [asset],
        ...(ip !== '' && { clientIp: ip }),
      }
      const { token: session } = record(
        await http.postJson(url, body, { signal, headers: { authorization: `Bearer ${token}` } }),
      )
      if (typeof session === 'string' && session !== '' && session.length <= 4_096)
        return `${PAGE}?sessionToken=${encodeURIComponent(session)}`
      throw http.failure('failed', 'coinbase answered without a token')
    },
  }
}
