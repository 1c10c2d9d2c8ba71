/** The transaction of one or more transfers: what asks for it, how it is built, and what each pays of its gas. */
import type { BoundedMap } from '../../../../core/lib/mod.ts'
import type { Settlement } from '../../../../core/ports/mod.ts'
import type { Offer } from '../../../../core/x402/mod.ts'
import type { Hex } from '../../lib/hex.ts'
import type { Rpc } from '../../lib/json_rpc.ts'
import type { RevertLimiter } from '../../lib/revert_limiter.ts'
import type { GasMonitor } from '../node/gas.ts'
import type { Reads } from '../node/reads.ts'
import type { OutgoingTransaction, Relayer } from '../node/relayer.ts'
import { aggregateCall, type ContractCall, MULTICALL } from '../node/multicall.ts'
import type { ExactFates } from './fate.ts'
import type { Exact } from './payload.ts'

export type SettleConfig = {
  readonly relayer: Hex
  /** Settlements per transaction. Default 50 (decision 20); 1 never batches. */
  readonly maxTogether?: number
  /** Concurrent transactions. Default 4; settlements that wait are sent together. */
  readonly maxInFlight?: number
  /** Gas limit of one transfer. Defaults: 120,000 for a plain account, 500,000 for a contract wallet. */
  readonly gas?: { readonly transfer?: bigint; readonly contract?: bigint }
  /** How many seconds the node may be behind when a payment is simulated. Default 4. */
  readonly lagSeconds?: number
}

export const TRANSFER_GAS = 120_000n

/**
 * `id` is the digest of the authorization; concurrent settlements of one id share their outcome. `hadCode`: whether the
 * payer had code when last read.
 */
export type SettlementRequest = {
  readonly exact: Exact
  readonly offer: Offer
  readonly id: string
  readonly hadCode?: boolean
}

/** One settlement under way. It runs to its end whether or not a caller still waits. */
export type SettlementJob = {
  readonly exact: Exact
  readonly offer: Offer
  readonly target: ContractCall
  readonly now: number
  readonly done: (settlement: Settlement) => void
  readonly promise: Promise<Settlement>
  /** Sent in a transaction of its own: a contract decides its cost, or it failed together with others. */
  isAlone: boolean
  /** The payer has code, which may behave differently in the block than in simulation. */
  isContract: boolean
  /** It moved nothing in a shared transaction; its own fault, if the next simulation fails too. */
  failedInBatch: boolean
  /** Callers that still wait. A settlement without callers is not started. */
  callers: number
  attempts: number
}

/** Gas of a shared transaction beyond its transfers'. */
export const SHARED_GAS = 60_000n

/** State of `evmSettler`. */
export type SettlerParts = {
  readonly config: SettleConfig
  readonly rpc: Rpc
  readonly reads: Reads
  readonly fates: ExactFates
  readonly relayer: Relayer
  readonly gasMonitor: GasMonitor
  readonly maxTogether: number
  readonly maxInFlight: number
  readonly transferGas: bigint
  readonly contractGas: bigint
  readonly jobs: Map<string, SettlementJob>
  readonly waiting: SettlementJob[]
  readonly revertLimiter: RevertLimiter
  /** Authorizations that a transaction of ours contained: if used, it may have been that one. */
  readonly sentKeys: BoundedMap<true>
  /** Transactions under way, by payer with code. */
  readonly contracts: Map<Hex, number>
  activeTransactions: number
  closed: boolean
}

export function buildTransaction(settler: SettlerParts, ready: readonly SettlementJob[]): OutgoingTransaction {
  const [first] = ready
  if (first && ready.length === 1)
    return { ...first.target, gas: first.isAlone ? settler.contractGas : settler.transferGas }
  return { to: MULTICALL, data: aggregateCall(ready.map((job) => job.target)), gas: sharedGas(settler, ready.length) }
}

export function sharedGas(settler: SettlerParts, count: number): bigint {
  return SHARED_GAS + settler.transferGas * BigInt(count)
}
