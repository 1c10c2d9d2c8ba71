/** State of the scheme `upto`, which each of its verbs is given. */
import { type BoundedMap, checksummed, type ConcurrencyLimiter } from '../../../../core/lib/mod.ts'
import type { Refused } from '../../../../core/ports/mod.ts'
import type { Offer, Payment } from '../../../../core/x402/mod.ts'
import type { Hex } from '../../lib/hex.ts'
import type { InFlightSettlements } from '../../lib/in_flight.ts'
import type { Rpc } from '../../lib/json_rpc.ts'
import type { RevertLimiter } from '../../lib/revert_limiter.ts'
import type { SearchPosition } from '../node/log_search.ts'
import type { Reads } from '../node/reads.ts'
import type { Relayer } from '../node/relayer.ts'
import { parseUpto, type Upto } from './payload.ts'
import { permitDigest } from './permit2.ts'
import type { Domain } from '../exact/eip3009.ts'
import type { ContractCall } from '../node/multicall.ts'

export type UptoConfig = {
  readonly network: string
  readonly asset: string
  readonly payTo: string
  readonly domain: Domain
  readonly chainId: number
  /** The account that sends. */
  readonly facilitator: Hex
  /** All accounts that a buyer may have signed for: those of the other replicas as well. */
  readonly facilitators: readonly Hex[]
  readonly lagSeconds: number
  readonly lookbackSeconds?: number | undefined
  readonly maxInFlight?: number | undefined
  readonly logWindow?: number | undefined
}

export const SETTLE_WITH_PERMIT_GAS = 350_000n

/** State of `evmUpto`. */
export type UptoScheme = {
  readonly rpc: Rpc
  readonly reads: Reads
  readonly relayer: Relayer
  readonly config: UptoConfig
  readonly network: string
  readonly chainId: number
  readonly facilitator: Hex
  readonly lagSeconds: number
  readonly known: Set<Hex>
  readonly inFlight: InFlightSettlements
  readonly sending: ConcurrencyLimiter
  readonly reverts: RevertLimiter
  readonly digests: BoundedMap<Hex>
  /** The transaction that settled an authorization. */
  readonly settledIn: BoundedMap<Hex>
  /** Unfinished searches, by the block they continue from. */
  readonly searches: BoundedMap<SearchPosition>
  active: number
}

export function parse(scheme: UptoScheme, payment: Payment, offer: Offer): Upto | Refused {
  return parseUpto(payment, offer, scheme.known)
}

export function digestOf(scheme: UptoScheme, upto: Upto): Hex {
  const before = scheme.digests.get(upto.key + upto.signature)
  if (before) return before
  const digest = permitDigest(upto, scheme.chainId)
  scheme.digests.set(upto.key + upto.signature, digest)
  return digest
}

/** As the transaction would run: from the facilitator itself, because the proxy compares the sender. */
export function simulate(scheme: UptoScheme, upto: Upto, call: ContractCall, signal?: AbortSignal) {
  return scheme.reads.view([call], {
    lagSeconds: scheme.lagSeconds,
    from: upto.facilitator,
    gas: SETTLE_WITH_PERMIT_GAS,
    direct: true,
    ...(signal && { signal }),
  })
}

export function nothingMoved(scheme: UptoScheme, upto: Upto) {
  return { transaction: '', network: scheme.network, payer: checksummed(upto.from), amount: '0' }
}
