import type { Settlement } from '../../../core/ports/mod.ts'

/** One settlement under way. It runs to its end whether or not a caller still waits. */
export type PendingSettlement = {
  readonly promise: Promise<Settlement>
  /** Callers that still wait. */
  callers: number
  /** Set to false once the recipient has answered or failed to; a later caller may then have it sent again. */
  isSending: boolean
}

/** Settlements under way, one per id: callers with the same id share one settlement. */
export type InFlightSettlements = {
  has(id: string): boolean
  /**
   * Joins the settlement with this id, or starts it. Resolves with `unknown` when the signal aborts first. `send` must
   * not reject.
   */
  settle(
    id: string,
    send: (pending: PendingSettlement) => Promise<Settlement>,
    signal: AbortSignal,
  ): Promise<Settlement>
}

export function inFlightSettlements(): InFlightSettlements {
  const settlements = new Map<string, PendingSettlement>()

  async function wait(pending: PendingSettlement, signal: AbortSignal): Promise<Settlement> {
    pending.callers++
    try {
      return await Promise.race([pending.promise, unknownOnAbort(signal, pending.promise, 'no outcome in time')])
    } finally {
      pending.callers--
    }
  }

  function begin(id: string, send: (pending: PendingSettlement) => Promise<Settlement>): PendingSettlement {
    const pending: PendingSettlement = {
      callers: 0,
      isSending: true,
      promise: Promise.resolve().then(() => send(pending)),
    }
    settlements.set(id, pending)
    void pending.promise.then(() => settlements.delete(id))
    return pending
  }

  return {
    has: (id) => settlements.has(id),
    async settle(id, send, signal) {
      const earlier = settlements.get(id)
      if (earlier && !earlier.isSending) {
        const outcome = await wait(earlier, signal)
        if (outcome.kind !== 'unknown' || signal.aborted) return outcome
      }
      return wait(settlements.get(id) ?? begin(id, send), signal)
    },
  }
}

/** Resolves with `unknown` when the signal aborts, and removes its listener when `settled` resolves. */
export function unknownOnAbort(signal: AbortSignal, settled: Promise<unknown>, reason: string): Promise<Settlement> {
  return new Promise((resolve) => {
    const onAbort = () => resolve({ kind: 'unknown', reason })
    signal.addEventListener('abort', onAbort, { once: true })
    void settled.then(() => signal.removeEventListener('abort', onAbort))
  })
}
