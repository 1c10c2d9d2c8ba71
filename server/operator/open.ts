/** Unfinished work and payments in doubt, with what an operator can do. */
import type { LedgerEntry, LedgerReads } from '../../core/ports/mod.ts'
import { type PaymentRow, rowOf } from './payment.ts'

type OpenCall = PaymentRow & {
  /** Seconds since it was opened. */
  readonly age_seconds: number
  /** Advice to the operator: what the gateway does by itself, and what a person can do. */
  readonly advice: string
}

const MAX_LISTED = 200
/** Most calls are done by then, and a settlement was looked up many times. */
const LONG_MS = 10 * 60_000

export async function listOpenCalls(ledger: LedgerReads, now: number): Promise<readonly OpenCall[]> {
  const entries = await ledger.listOpen(MAX_LISTED)
  return entries.map((entry) => ({
    ...rowOf(entry),
    age_seconds: Math.max(0, Math.round((now - entry.createdAt) / 1000)),
    advice: adviceOn(entry, now - entry.createdAt > LONG_MS),
  }))
}

function adviceOn({ paymentStatus, workStatus }: LedgerEntry, isOld: boolean): string {
  if (paymentStatus === 'unresolved')
    return 'The chain gave no answer in time. Look the authorization up on the chain: when it was used, the buyer paid. `farebox reconcile` compares the ledger with the chain and names the call.'
  if (paymentStatus === 'settling')
    return isOld
      ? 'The gateway looks it up again by itself. Check that the chain node answers and that the account that pays for settlements has gas.'
      : 'Nothing to do: the settlement is on its way, and is looked up again until its outcome is known.'
  if (workStatus === 'queued' || !isOld) return 'Nothing to do: the work is under way, and nothing was charged yet.'
  return 'The vendor takes long. Nothing was charged; the call fails uncharged when its time is over. Check the health of the vendor.'
}
