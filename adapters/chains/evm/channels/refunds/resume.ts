/** Refunds that another process left behind, and what open calls of closed keys leave. */
import type { Refunding } from '../../../../../core/ports/mod.ts'
import { type ChannelState, isRefunding } from '../state.ts'
import { close } from './ask.ts'
import { ended } from './end.ts'
import { isSent, once, type RefundParts } from './record.ts'
import { finish, RESEND_MS } from './send.ts'

/** Ends the refunds that a process left behind, and sends what open calls of closed keys have left. */
export async function resume(refunds: RefundParts, list: readonly ChannelState[], now: number): Promise<void> {
  for (const state of list) {
    if (refunds.sending.has(state.channelId)) continue
    if (isSent(state) && now - state.refund.at >= RESEND_MS)
      await once(refunds, state.channelId, () => finish(refunds, state, now))
    else if (isRefunding(state)) await ended(refunds, state, { now })
    else if (state.closing === 'rest' && refunds.reserved(state, now) === 0n) await sendRest(refunds, state, now)
  }
}

/** Gives up on a rest that no purchase pays the gas for: its payer can withdraw it, or deposit again. */
async function sendRest(refunds: RefundParts, { channelId, config }: ChannelState, now: number): Promise<void> {
  const request = { kind: 'closing', channelId, config, closed: (state: ChannelState) => state } as const
  if (!isOver(await close(refunds, request, { now }))) return
  await refunds.states.change(channelId, now, (state) =>
    state.closing === 'rest' && !isRefunding(state) && refunds.reserved(state, now) === 0n
      ? { ...state, closing: 'done' }
      : state,
  )
}

/** Whether nothing is left, or nothing pays for sending it. */
function isOver(outcome: Refunding): boolean {
  if (outcome.kind === 'refunded') return outcome.isRepeated ?? false
  if (outcome.kind !== 'refused') return false
  return /_(?:refund_no_balance|refund_not_covered|channel_not_found)$/.test(outcome.corrected?.error ?? '')
}
