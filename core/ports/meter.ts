/** What a gateway tells of its work while it works, for whoever draws curves. Nothing here decides anything. */
import type { Usdc } from '../x402/money.ts'
import type { PaymentCode } from './chain.ts'
import type { Storage } from './storage.ts'

/** How a payment was judged: one that came with an order, or a fresh one that a poll would settle with. */
export type Judged = 'valid' | 'unavailable' | PaymentCode
/** What an attempt to settle came to. All but `settled`, `refused` and `dead` are looked into again. */
export type Settled = 'settled' | 'refused' | 'dead' | 'unknown' | 'unavailable' | 'unresolved'

/**
 * Counts; called with every request, so it increments and does no more, and never throws. `endpoint` is a name of the
 * menu, or NO_ENDPOINT: nothing that callers write gets in.
 */
export interface Meter {
  /** A request was answered, or its stream has begun. */
  answered(endpoint: string, status: number): void
  /** An order without payment was told its price. */
  quoted(endpoint: string): void
  judged(outcome: Judged): void
  /** `paid` is what moved by the receipt, in micro-USDC: there when the outcome is `settled`. */
  attempted(endpoint: string, outcome: Settled, paid?: Usdc): void
  /** A paid call began, or ended. */
  moved(work: 'opened' | 'completed' | 'failed'): void
}

/** For a request that no endpoint takes. */
export const NO_ENDPOINT = 'none'

const nothing = () => {}
export const silent: Meter = { answered: nothing, quoted: nothing, judged: nothing, attempted: nothing, moved: nothing }

/**
 * The same ports, with a storage that says when calls begin and end; a gateway without a meter keeps the one it has.
 */
export function metered<Some extends { readonly storage: Storage; readonly meter?: Meter }>(ports: Some): Some {
  return ports.meter ? { ...ports, storage: meteredStorage(ports.storage, ports.meter) } : ports
}

function meteredStorage(storage: Storage, meter: Meter): Storage {
  return {
    ...storage,
    async openCall(...args) {
      const opened = await storage.openCall(...args)
      if (opened.kind === 'opened') meter.moved('opened')
      return opened
    },
    async moveCall(id, from, patch) {
      const isMoved = await storage.moveCall(id, from, patch)
      const { workStatus } = patch
      if (isMoved && (workStatus === 'completed' || workStatus === 'failed')) meter.moved(workStatus)
      return isMoved
    },
    async claimSettlement(id, authorization, at) {
      const claim = await storage.claimSettlement(id, authorization, at)
      // A claim that brings the result completes the call; one that finds the authorization sent already came after
      // that.
      if (at.result && (claim.kind === 'yours' || (claim.kind === 'retry' && !claim.sent))) meter.moved('completed')
      return claim
    },
  }
}
