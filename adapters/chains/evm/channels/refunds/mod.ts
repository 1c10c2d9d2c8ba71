/**
 * Sends back what is left of a channel when its payer asks for it, in one transaction with the claim of what is due. A
 * refund is noted in the channel's record before anything else happens, so a purchase either comes before it or sees it
 * (decision 133). The contract's refund nonce lets one refund through, however often it is sent.
 */
import type { Refunding, RefundOptions } from '../../../../../core/ports/mod.ts'
import type { Hex } from '../../../lib/hex.ts'
import type { RefundRequest } from '../payload.ts'
import type { ChannelState } from '../state.ts'
import { close, type ClosingOptions, refund, unpaidFor } from './ask.ts'
import { ended } from './end.ts'
import type { ClosingRequest, RefundParts, RefundsContext } from './record.ts'
import { resume } from './resume.ts'

export function channelRefunds(
  context: RefundsContext,
  { network, lagSeconds }: { readonly network: string; readonly lagSeconds: number },
) {
  const sending = new Map<Hex, Promise<Refunding>>()
  const refunds: RefundParts = { ...context, network, lagSeconds, sending }
  return {
    refund: (request: RefundRequest, at: RefundOptions) => refund(refunds, request, at),
    close: (request: ClosingRequest, at: ClosingOptions) => close(refunds, request, at),
    ended: (state: ChannelState, at: { now: number; signal?: AbortSignal }) => ended(refunds, state, at),
    resume: (list: readonly ChannelState[], now: number) => resume(refunds, list, now),
    isPaidFor: (state: ChannelState, now: number) => unpaidFor(refunds, state, now) === undefined,
    isIdle: () => sending.size === 0,
  }
}

export type ChannelRefunds = ReturnType<typeof channelRefunds>
