/**
 * The scheme `upto`: the buyer signs a ceiling through Permit2, and what was used is moved (decision 129). The key that
 * the buyer signed for has to send it, so nothing is batched.
 */
import { boundedMap, concurrencyLimiter } from '../../../../core/lib/mod.ts'
import type { Fate, Identity, Settlement, SettleOptions, Verdict } from '../../../../core/ports/mod.ts'
import type { Offer, Payment, Terms } from '../../../../core/x402/mod.ts'
import { type Hex, lower } from '../../lib/hex.ts'
import { inFlightSettlements } from '../../lib/in_flight.ts'
import type { Rpc } from '../../lib/json_rpc.ts'
import type { CallOptions } from '../../lib/results.ts'
import { payerRevertLimiter } from '../../lib/revert_limiter.ts'
import type { SearchPosition } from '../node/log_search.ts'
import type { Reads } from '../node/reads.ts'
import type { Relayer } from '../node/relayer.ts'
import { fate } from './fate.ts'
import { identify } from './identify.ts'
import type { UptoConfig, UptoScheme } from './scheme.ts'
import { settle } from './settle.ts'
import { terms } from './terms.ts'
import { verify } from './verify.ts'

type EvmUpto = {
  terms(): Terms
  identify(payment: Payment, offer: Offer): Promise<Identity>
  verify(payment: Payment, offer: Offer, at: CallOptions): Promise<Verdict>
  settle(payment: Payment, offer: Offer, at: SettleOptions): Promise<Settlement>
  fate(payment: Payment, offer: Offer, at: SettleOptions): Promise<Fate>
  isIdle(): boolean
}

const MAX_REMEMBERED = 10_000

export function evmUpto(
  context: { readonly rpc: Rpc; readonly reads: Reads; readonly relayer: Relayer },
  config: UptoConfig,
): EvmUpto {
  const { network, chainId, facilitator, lagSeconds } = config

  const scheme: UptoScheme = {
    ...context,
    config,
    network,
    chainId,
    facilitator,
    lagSeconds,
    known: new Set(config.facilitators.map(lower)),
    inFlight: inFlightSettlements(),
    sending: concurrencyLimiter(config.maxInFlight ?? 4, { most: 10_000, full: () => new Error('too many wait') }),
    reverts: payerRevertLimiter(),
    digests: boundedMap<Hex>(MAX_REMEMBERED),
    settledIn: boundedMap<Hex>(MAX_REMEMBERED),
    searches: boundedMap<SearchPosition>(MAX_REMEMBERED),
    active: 0,
  }
  const offered = terms(config)
  return {
    terms: () => offered,
    identify: (...args) => identify(scheme, ...args),
    verify: (...args) => verify(scheme, ...args),
    settle: (...args) => settle(scheme, ...args),
    fate: (...args) => fate(scheme, ...args),
    isIdle: () => scheme.active === 0,
  }
}
