/** The scheme `exact`: one signed EIP-3009 transfer of the whole price, sent alone or together with others. */
import type { Chain } from '../../../../core/ports/mod.ts'
import type { Terms } from '../../../../core/x402/mod.ts'
import type { Hex } from '../../lib/hex.ts'
import type { Rpc } from '../../lib/json_rpc.ts'
import type { GasMonitor } from '../node/gas.ts'
import type { Reads, ReadsConfig } from '../node/reads.ts'
import type { Relayer } from '../node/relayer.ts'
import type { Domain } from './eip3009.ts'
import { exactFates } from './fate.ts'
import { type CheckSignature, evmIdentity } from './identity.ts'
import { evmSettler } from './settle.ts'
import type { SettleConfig } from './transaction.ts'
import { verify } from './verify.ts'

type ExactContext = {
  readonly rpc: Rpc
  readonly reads: Reads
  readonly relayer: Relayer
  readonly gasMonitor: GasMonitor
}

type ExactConfig = Pick<ReadsConfig, 'logWindow' | 'lookbackSeconds'> &
  SettleConfig & {
    readonly network: string
    readonly asset: string
    readonly payTo: string
    readonly domain: Domain
    readonly lagSeconds: number
    readonly relayer: Hex
  }

export type EvmExact = Pick<Chain, 'identify' | 'verify' | 'settle' | 'fate'> &
  Required<Pick<Chain, 'hasSigned'>> & {
    terms(): Terms
    readonly checkSignature: CheckSignature
    isIdle(): boolean
    /** Pending settlements resolve with `unknown`. */
    close(): void
  }

export function evmExact(context: ExactContext, config: ExactConfig): EvmExact {
  const { rpc, reads } = context
  const { network, asset, payTo, domain, lagSeconds, relayer, lookbackSeconds } = config
  const identity = evmIdentity({ rpc, reads }, { network, lagSeconds })
  const fates = exactFates({ rpc, reads }, config)
  const settler = evmSettler({ ...context, fates }, config)
  const verifier = { rpc, reads, identity, relayer, lagSeconds, lookbackSeconds }
  const extra = { name: domain.name, version: domain.version }
  const terms = { scheme: 'exact', network, asset, payTo, extra }
  return {
    terms: () => terms,
    identify: identity.identify,
    hasSigned: identity.hasSigned,
    checkSignature: identity.checkSignature,
    verify: (...args) => verify(verifier, ...args),
    async settle(payment, offer, at) {
      const parsed = identity.parse(payment, offer)
      if ('kind' in parsed) return { kind: 'refused', reason: parsed.reason }
      const { exact, digest } = parsed
      return await settler.settle({ exact, offer, id: digest, hadCode: identity.hadCode(exact.from) }, at)
    },
    async fate(payment, offer, at) {
      const parsed = identity.parse(payment, offer)
      if ('kind' in parsed) return { kind: 'unknown', reason: parsed.reason }
      return await fates.fate(parsed.exact, offer, at.signal)
    },
    isIdle: settler.isIdle,
    close: settler.close,
  }
}
