/** The metrics interface: events of a gateway for counters (decision 47). Nothing here affects behavior. */
import type { Usdc } from '../x402/money.ts'
import type { PaymentCode } from './chain_outcomes.ts'
import type { CallObserver } from './call_events.ts'
import type { Usage } from './storage/mod.ts'

/** The verdict on a payment that came with an order, or on a fresh one that a poll would settle with. */
export type Judged = 'valid' | 'unavailable' | PaymentCode
/** The outcome of a settlement attempt. All but `settled`, `refused` and `dead` are checked again. */
export type Settled = 'settled' | 'refused' | 'dead' | 'unknown' | 'unavailable' | 'unresolved'

/**
 * Called with every request, so implementations only increment counters and never throw. `endpoint` is the name of an
 * endpoint or NO_ENDPOINT, never text of a caller.
 */
export interface Meter {
  /** A request was answered, or its stream has begun, after `ms`. */
  answered(endpoint: string, status: number, ms: number): void
  /** An order without a payment was quoted. */
  quoted(endpoint: string): void
  judged(outcome: Judged): void
  /** `paid` is the amount of the receipt in micro-USDC, present when the outcome is `settled`. */
  attempted(endpoint: string, outcome: Settled, paid?: Usdc): void
  /** Deposited money was sent back to its payer, in micro-USDC. */
  refunded?(amount: Usdc): void
  /** A paid call began, or ended. */
  moved(work: 'opened' | 'completed' | 'failed'): void
  /** The first part of a streamed answer arrived, `ms` after the request. */
  streamBegan?(endpoint: string, ms: number): void
  /** A paid answer was complete, with the tokens that its vendor reported. */
  tokensUsed?(endpoint: string, usage: Usage): void
}

/**
 * For a request that matches no endpoint.
 *
 * @example
 * const isUnknown = endpoints.every(({ name }) => name !== NO_ENDPOINT)
 */
export const NO_ENDPOINT = 'none'

const nothing = () => {}
export const silent: Meter = { answered: nothing, quoted: nothing, judged: nothing, attempted: nothing, moved: nothing }

/** Reports when calls begin and end. */
export const meterObserver = (meter: Meter): CallObserver => ({
  opened: () => meter.moved('opened'),
  recorded() {
    meter.moved('opened')
    meter.moved('completed')
  },
  moved({ patch: { workStatus } }) {
    if (workStatus === 'completed' || workStatus === 'failed') meter.moved(workStatus)
  },
  claimed({ claim, hasResult }) {
    // A claim with a result completes the call, unless the call was completed before its authorization was sent.
    if (hasResult && (claim.kind === 'yours' || (claim.kind === 'retry' && !claim.sent))) meter.moved('completed')
  },
  finished: 'ignored',
})
