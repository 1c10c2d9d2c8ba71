/** Decides how a claim ends. */
import { parseAtomic } from '../../x402/money.ts'
import type { PaymentStatus, Outcome, SettledBy } from '../../ports/mod.ts'
import type { AuthorizationBinding, RowPatch, Head } from './rows.ts'
import { type Write, type Decision, withoutWrites } from './decision.ts'

/** Ends a claim. Only `paid` is recorded without the current token, because the transfer cannot be undone. */
export function decideFinish(
  call: Head | undefined,
  seen: { bindings: readonly AuthorizationBinding[]; token: number; outcome: Outcome },
  at: { now: number; expiresAt?: number; by?: SettledBy; reason?: string },
): Decision<boolean> {
  if (!call) return withoutWrites(false)
  const { outcome } = seen
  if (call.paymentStatus === 'settled') return withoutWrites(outcome.kind === 'paid')
  const current = call.claimKey !== null && call.claimToken === seen.token
  const binding = current ? seen.bindings.find((each) => each.key === call.claimKey) : undefined
  const ended: RowPatch = {
    claimExpiresAt: at.now,
    claimKey: null,
    claimFresh: false,
    ...(at.expiresAt === undefined ? {} : { expiresAt: at.expiresAt }),
  }
  if (outcome.kind === 'paid') {
    const { receipt } = outcome
    const patch: RowPatch = {
      ...ended,
      paymentStatus: 'settled',
      receipt,
      charge: parseAtomic(receipt.amount) ?? call.charge,
      settledAt: at.now,
      ...(at.by && { settledBy: at.by }),
    }
    const paid: readonly Write[] = binding ? [{ kind: 'mark', key: binding.key, status: 'paid' }] : []
    return { answer: true, writes: [{ kind: 'patch', id: call.id, patch }, ...paid] }
  }
  if (!binding) return withoutWrites(false)
  const why = at.reason === undefined ? {} : { paymentError: at.reason, paymentErrorAt: at.now }
  const endAs = (money: PaymentStatus, ...rest: Write[]): Decision<boolean> => ({
    answer: true,
    writes: [{ kind: 'patch', id: call.id, patch: { ...ended, ...why, paymentStatus: money } }, ...rest],
  })
  if (outcome.kind === 'unknown') return endAs('settling', { kind: 'mark', key: binding.key, status: 'sent' })
  if (outcome.kind === 'unresolved') return endAs('unresolved', { kind: 'mark', key: binding.key, status: 'sent' })

  const inDoubt = seen.bindings.some((each) => each.key !== binding.key && each.status === 'sent')
  const money = inDoubt ? 'settling' : 'refused'
  if (outcome.kind === 'dead') return endAs(money, { kind: 'mark', key: binding.key, status: 'dead' })
  if (!call.claimFresh) return endAs('settling')
  if (binding.position === 0) return endAs(money, { kind: 'mark', key: binding.key, status: 'open' })
  return endAs(money, { kind: 'free', key: binding.key })
}
