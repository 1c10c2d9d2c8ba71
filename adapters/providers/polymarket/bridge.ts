/**
 * Polymarket's bridge: returns the deposit address of an account. Sources: docs.polymarket.com (create bridge
 * addresses, supported assets).
 */
import { type BridgeVendor, type Clock, ApiError, type Log } from '../../../core/mod.ts'
import { type Fetch, vendorHttp } from '../../http/fetch.ts'
import { serviceErrorFor } from '../lib/passthrough.ts'
import { type ErrorClassifier, record } from '../../http/error_replies.ts'

export type PolymarketBridgeConfig = {
  readonly baseUrl?: string | undefined
  readonly networks?: readonly string[]
  readonly clock: Clock
  readonly log: Log
  readonly fetch?: Fetch | undefined
}

const POLYMARKET_BRIDGE_URL = 'https://bridge.polymarket.com'
/** Chains on which the bridge accepts USDC from two dollars on: Base, Polygon, Arbitrum, Optimism. */
const NETWORKS = ['eip155:8453', 'eip155:137', 'eip155:42161', 'eip155:10']
const TIMEOUT_MS = 15_000

export function polymarketBridge(config: PolymarketBridgeConfig): BridgeVendor {
  const { baseUrl = POLYMARKET_BRIDGE_URL, networks = NETWORKS } = config
  const http = vendorHttp({
    ...config,
    name: 'polymarket-bridge',
    maker: 'Polymarket',
    timeoutMs: TIMEOUT_MS,
    maxBytes: 64 * 1024,
    errorFor: serviceErrorFor({ source: "Polymarket's bridge", timeoutMs: TIMEOUT_MS }),
  })

  return {
    networks,
    async depositAddress(account, { signal }) {
      const message = `depositWallet: the bridge knows no account ${account}`
      const classify: ErrorClassifier = ({ status }) =>
        status === 400
          ? new ApiError('INVALID_BODY', {
              message: `${message}. Nothing was charged.`,
              details: [{ path: 'depositWallet', message }],
            })
          : undefined
      const body = record(
        await http.postJson(`${baseUrl.replace(/\/+$/, '')}/deposit`, { address: account }, { signal, classify }),
      )
      const { evm } = record(body.address)
      if (typeof evm === 'string' && /^0x[0-9a-fA-F]{40}$/.test(evm)) return evm.toLowerCase()
      throw http.failure('failed', 'the bridge answered without an address')
    },
  }
}
