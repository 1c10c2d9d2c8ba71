/** Events of calls, for what counts them: spending limits and metrics. Each is reported once its storage has it. */
import type { Call, CallPatch, CallStorage, Claim, NewCall, Outcome } from './storage/mod.ts'
import type { Receipt } from '../x402/protocol.ts'

export type CallEvent =
  | { readonly kind: 'opened'; readonly call: Call }
  /** A call that was in memory is stored, worked on and paid. */
  | { readonly kind: 'recorded'; readonly call: NewCall; readonly receipt: Receipt }
  | { readonly kind: 'moved'; readonly id: string; readonly patch: CallPatch }
  /** A settlement began. `hasResult`: the claim brought the result of its call. */
  | { readonly kind: 'claimed'; readonly id: string; readonly claim: Claim; readonly hasResult: boolean }
  /** A settlement attempt ended. */
  | { readonly kind: 'finished'; readonly id: string; readonly outcome: Outcome }

/** A handler for each event, or `ignored`: a new event does not compile until each observer has decided. */
export type CallObserver = {
  readonly [Kind in CallEvent['kind']]: 'ignored' | ((event: Extract<CallEvent, { kind: Kind }>) => void)
}

/** The verbs that change calls. A new one does not compile until it has its event. */
type CallChanges = Omit<CallStorage, 'getCall' | 'callOf'>

/**
 * The same verbs; what storage has done is reported to the observers, whose handlers never throw.
 *
 * @example
 * const counted = { ...storage, ...reportedChanges(storage, [{ opened: () => count++, recorded: 'ignored', ... }]) }
 */
export function reportedChanges(storage: CallChanges, observers: readonly CallObserver[]): CallChanges {
  function report(event: CallEvent): void {
    for (const observer of observers) {
      const handler = observer[event.kind]
      if (handler !== 'ignored') (handler as (event: CallEvent) => void)(event)
    }
  }

  return {
    async openCall(...given) {
      const opened = await storage.openCall(...given)
      if (opened.kind === 'opened') report({ kind: 'opened', call: opened.call })
      return opened
    },
    async recordPaid(call, authorization, at) {
      const recorded = await storage.recordPaid(call, authorization, at)
      if (recorded.kind === 'recorded') report({ kind: 'recorded', call, receipt: at.paid.receipt })
      return recorded
    },
    async moveCall(id, from, patch) {
      const isMoved = await storage.moveCall(id, from, patch)
      if (isMoved) report({ kind: 'moved', id, patch })
      return isMoved
    },
    async claimSettlement(id, authorization, at) {
      const claim = await storage.claimSettlement(id, authorization, at)
      report({ kind: 'claimed', id, claim, hasResult: at.result !== undefined })
      return claim
    },
    async finishSettlement(id, token, outcome, at) {
      const isRecorded = await storage.finishSettlement(id, token, outcome, at)
      if (isRecorded) report({ kind: 'finished', id, outcome })
      return isRecorded
    },
  }
}
