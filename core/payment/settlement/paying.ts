/** What a settlement is given, and how it ends. */
import type { Clock } from '../../lib/clock.ts'
import type { Json } from '../../lib/json.ts'
import type { Call, Chain, Corrected, Log, PaymentCode, SettledBy, Storage, Usage } from '../../ports/mod.ts'
import type { Meter } from '../../ports/meter.ts'
import type { Usdc } from '../../x402/money.ts'
import type { Receipt } from '../../x402/protocol.ts'
import type { PrepaidCalls } from '../prepaid_calls.ts'
import type { Timeouts } from '../timeouts.ts'

export type SettleContext = {
  readonly storage: Storage
  readonly chain: Chain
  readonly clock: Clock
  readonly log: Log
  readonly meter?: Meter | undefined
  readonly timeouts: Timeouts
  readonly prepaid?: PrepaidCalls | undefined
}

/** The result of a settlement attempt. Only `settled` means that money moved. */
export type Paying =
  | { kind: 'settled'; receipt: Receipt; now: boolean }
  /** Its quote is zero: the result is stored and nothing is settled. */
  | { kind: 'free' }
  /** The authorization could not be settled. With a code, a new signature helps. */
  | { kind: 'refused'; reason: string; code?: PaymentCode }
  /** The new authorization of a poll did not verify. */
  | { kind: 'rejected'; code: PaymentCode; reason: string; corrected?: Corrected }
  /** The chain is temporarily unreachable; nothing was sent. */
  | { kind: 'unavailable'; reason: string }
  /** `isElsewhere`: the settlement goes on, and this caller did not wait for its end. */
  | { kind: 'unknown'; reason: string; isElsewhere?: true }
  /** Unknown for so long that the buyer gets the result without a settlement (decision 16). */
  | { kind: 'unresolved'; reason: string }
  /** The offered authorization serves another call. */
  | { kind: 'replayed'; call: Call }

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
