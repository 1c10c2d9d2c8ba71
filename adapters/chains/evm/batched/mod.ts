/** Payments from deposits in Circle Gateway, which batches them (nanopayments). */
import { boundedMap } from '../../../../core/lib/mod.ts'
import type { Chain } from '../../../../core/ports/mod.ts'
import type { Receipt } from '../../../../core/x402/mod.ts'
import { inFlightSettlements } from '../../lib/in_flight.ts'
import type { CheckResult } from '../../lib/results.ts'
import { chainIdOf } from '../exact/eip3009.ts'
import { evmFamily } from '../family.ts'
import { batchedApi, type BatchedApi, type BatchedNetwork, DOMAINS } from './api.ts'
import { fate } from './fate.ts'
import { check, refresh } from './networks.ts'
import { batchedPayments } from './payload.ts'
import { type BatchedConfig, type BatchedParts, MAX_NETWORKS } from './scheme.ts'
import { settle } from './settle.ts'
import { transferMonitor } from './transfer_monitor.ts'
import { balance, identify, verify } from './verify.ts'

export { type BatchedConfig, MAX_NETWORKS } from './scheme.ts'

export type BatchedChain = Chain &
  Required<Pick<Chain, 'balance'>> & {
    /** Compares the configuration with what the API supports. When it passes, terms open and stay open. */
    check(at: { now: number }): Promise<CheckResult>
    /**
     * Updates the terms, and alerts when a payment that counted as paid has failed or is still pending after a day.
     * Call it every few seconds; it decides itself when work is due. Never rejects.
     */
    refresh(at: { now: number }): Promise<void>
    /** Ends pending requests; pending settlements resolve with `unknown`. */
    close(): void
  }

const MAX_REMEMBERED = 10_000

/**
 * USDC from deposits in Circle Gateway. The API holds the money, so its answers are final, and a received transfer
 * counts as paid. Throws RangeError, without quoting the value, when the URL or a network is malformed.
 *
 * @example
 * const chain = batchedChain({
 *   apiUrl: 'https://gateway-api-testnet.circle.com',
 *   networks: ['eip155:84532'],
 *   payTo: '0x209693Bc6afc0C5328bA36FaF03C514EF312287C',
 *   alert: consoleLog.alert,
 * })
 * await chain.check({ now: Date.now() })
 */
export function batchedChain(config: BatchedConfig): BatchedChain {
  const {
    payTo,
    resource = 'https://localhost/',
    verifyMs = 3_000,
    settleMs = 20_000,
    networksRefreshMs = 300_000,
    transfersPollMs = 60_000,
  } = config

  for (const network of config.networks) chainIdOf(network)
  if (config.networks.length > MAX_NETWORKS)
    throw new RangeError(`networks: has ${config.networks.length} entries; at most ${MAX_NETWORKS} are allowed`)
  const api = createApi(config)

  const { parse } = batchedPayments((network) => parts.supportedNetworks.get(network)?.minValiditySeconds)
  const parts: BatchedParts = {
    config,
    payTo,
    resource,
    verifyMs,
    settleMs,
    networksRefreshMs,
    transfersPollMs,
    domainNumbers: { ...DOMAINS, ...config.domains },
    api,
    monitor: transferMonitor(api, { payTo, alert: config.alert }),
    settlements: inFlightSettlements(),
    paid: boundedMap<Receipt>(MAX_REMEMBERED),
    submitted: boundedMap<true>(MAX_REMEMBERED),
    supportedNetworks: new Map<string, BatchedNetwork>(),
    terms: [],
    isOpen: false,
    networksReadAt: 0,
    transfersPolledAt: 0,
    latestNow: 0,
    closed: false,
    parse,
  }
  return {
    families: [evmFamily],
    terms: () => (parts.isOpen ? parts.terms : []),
    identify: (payment, offer) => identify(parts, payment, offer),
    verify: (...args) => verify(parts, ...args),
    settle: (...args) => settle(parts, ...args),
    fate: (...args) => fate(parts, ...args),
    balance: (...args) => balance(parts, ...args),
    check: (...args) => check(parts, ...args),
    refresh: (...args) => refresh(parts, ...args),
    close: () => close(parts),
  }
}

function close(parts: BatchedParts): void {
  parts.closed = true
  parts.api.close()
}

/** Errors never quote the URL. */
function createApi(config: BatchedConfig): BatchedApi {
  try {
    // a verdict takes two requests
    return batchedApi(config.apiUrl, { failures: 10, ...config })
  } catch (error) {
    throw new RangeError(`api_${(error as Error).message}`)
  }
}
