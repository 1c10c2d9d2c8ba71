/** State of payments that Circle Gateway batches, which each verb is given. */
import type { BoundedMap } from '../../../../core/lib/mod.ts'
import type { Log } from '../../../../core/ports/mod.ts'
import type { Receipt, Terms } from '../../../../core/x402/mod.ts'
import type { ApiConfig } from '../../facilitator/api.ts'
import type { InFlightSettlements } from '../../lib/in_flight.ts'
import type { BatchedApi, BatchedNetwork } from './api.ts'
import type { batchedPayments } from './payload.ts'
import type { TransferMonitor } from './transfer_monitor.ts'

/** Configuration of one gateway whose payments Circle Gateway batches (nanopayments). */
export type BatchedConfig = {
  /** `https://gateway-api.circle.com`, or the testnet API. It appears in no message. */
  readonly apiUrl: string
  /** CAIP-2 networks, preferred first, at most `MAX_NETWORKS`. Empty: those that the API supports, in its order. */
  readonly networks: readonly string[]
  /** The account credited in the Gateway, on whichever network is paid. */
  readonly payTo: string
  /** Circle's domain numbers of networks missing in `DOMAINS`, by CAIP-2. */
  readonly domains?: Readonly<Record<string, number>>
  /** The resource named in settlements: the gateway's public origin. */
  readonly resource?: string
  /** Deadline of one read. Default 3 s. */
  readonly verifyMs?: number
  /** Deadline of one settlement. Default 20 s: less than the caller has, because the outcome is read afterwards. */
  readonly settleMs?: number
  /** How often `refresh` reads the supported networks (default 5 min) and checks past transfers (default 1 min). */
  readonly networksRefreshMs?: number
  readonly transfersPollMs?: number
  readonly alert: Log['alert']
} & Omit<ApiConfig, 'random'>

/**
 * Three headers repeat all offers, and Node's fetch reads 16 KiB of them (decision 45); other payment methods need room
 * too.
 */
export const MAX_NETWORKS = 6

/** State of `batchedChain`. */
export type BatchedParts = {
  readonly config: BatchedConfig
  readonly payTo: string
  readonly resource: string
  readonly verifyMs: number
  readonly settleMs: number
  readonly networksRefreshMs: number
  readonly transfersPollMs: number
  readonly domainNumbers: { [x: string]: number }
  readonly api: BatchedApi
  readonly monitor: TransferMonitor
  readonly settlements: InFlightSettlements
  /** Payments known to be paid; they stay so, whatever the API shows later. */
  readonly paid: BoundedMap<Receipt>
  /** Authorizations sent to the API and not refused at once: if used, they may have been used by us. */
  readonly submitted: BoundedMap<true>
  supportedNetworks: Map<string, BatchedNetwork>
  terms: readonly Terms[]
  isOpen: boolean
  networksReadAt: number
  transfersPolledAt: number
  /** The latest time passed in. */
  latestNow: number
  closed: boolean
  readonly parse: ReturnType<typeof batchedPayments>['parse']
}
