/** The context of a settlement, and its arguments. */
import type { Clock } from '../../lib/clock.ts'
import type { Json } from '../../lib/json.ts'
import type {
  CallStorage,
  Chain,
  Coordination,
  LedgerReads,
  Log,
  RecordStorage,
  SettledBy,
  Usage,
} from '../../ports/mod.ts'
import type { Meter } from '../../ports/meter.ts'
import type { Usdc } from '../../x402/money.ts'
import type { PrepaidCalls } from '../calls/prepaid_calls.ts'
import type { Timeouts } from '../timeouts.ts'
import type { Retries } from './retries.ts'

export type SettleContext = {
  readonly storage: CallStorage & Coordination & LedgerReads & RecordStorage
  readonly chain: Chain
  readonly clock: Clock
  readonly log: Log
  readonly meter?: Meter | undefined
  readonly timeouts: Timeouts
  readonly prepaid?: PrepaidCalls | undefined
  /** Settlements that are tried again, by call. */
  readonly retries: Retries
}

/** `charge` is given where the call's offer is charged by use, and something else than the whole quote is due. */
export type Completion = {
  readonly result: Json
  readonly expiresAt: number
  readonly usage?: Usage | null
  readonly charge?: Usdc
}

/**
 * `retainUntil`: when a settled call's result is deleted. `isDelivered`: the buyer has the result, so what could not be
 * sent is retried later. `by` is noted in the ledger: by default the reply to the order.
 */
export type Settling = {
  readonly completion?: Completion
  readonly retainUntil: number
  readonly isDelivered?: boolean
  readonly by?: SettledBy
}
