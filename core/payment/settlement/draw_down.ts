/** Settles a prepaid call by one change of a record, stored together with the call. */
import type { Authorization, Call, Recorded } from '../../ports/mod.ts'
import type { Paying } from '../outcome.ts'
import type { Completion, SettleContext } from './context.ts'
import { noteSettled } from './record.ts'
import { chargeFor } from './send.ts'

/** How often a record may change under a settlement before that goes the usual way. */
const MAX_RACES = 8

/** Stores a prepaid call with its result and its payment. Undefined where it is settled the usual way. */
export async function drawDown(
  context: SettleContext,
  call: Call,
  { offered, completion, retainUntil }: { offered: Authorization; completion: Completion; retainUntil: number },
): Promise<Paying | undefined> {
  const { chain, clock, prepaid } = context
  const { payment, offer } = offered
  const { result, usage = null, charge } = completion
  for (let race = 0; race < MAX_RACES && prepaid?.has(call.id); race++) {
    const drawing = await chain.drawDown?.(payment, offer, { now: clock.now(), ...chargeFor(offer, charge) })
    if (!drawing) return undefined
    const { receipt, spent } = drawing
    let isStored = false
    let recorded: Recorded
    try {
      recorded = await prepaid.record(call.id, { result, usage, receipt, expiresAt: retainUntil, spent })
      isStored = recorded.kind === 'recorded'
    } finally {
      drawing.end(isStored)
    }
    if (recorded.kind === 'replayed') return recorded
    if (recorded.kind === 'moved') continue
    noteSettled(context, call, { receipt, by: 'reply' })
    return { kind: 'settled', receipt, now: true }
  }
  return undefined
}
