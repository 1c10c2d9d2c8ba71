/**
 * A storage in memory whose decisions can be exchanged: with none exchanged it keeps every rule, as `memoryStorage`
 * does.
 */
import { memoryStorage } from '../../adapters/storage/memory/mod.ts'
import { type ExposedCall, SETTLED_CALLS } from '../../core/payment/ledger/exposure.ts'
import { usdc } from '../../core/x402/money.ts'
import * as ledger from '../../core/payment/ledger/mod.ts'
import type { Authorization, Call, Storage } from '../../core/ports/mod.ts'

type Decisions = Pick<typeof ledger, 'decideOpen' | 'decideClaim' | 'decideFinish' | 'decideRenewal' | 'isFree'>

type Bound = ledger.AuthorizationBinding & { readonly authorization: Authorization | null }

export function ruledStorage(exchanged: Partial<Decisions> = {}): Storage {
  const { decideOpen, decideClaim, decideFinish, decideRenewal, isFree } = { ...ledger, ...exchanged }
  const rows = new Map<string, ledger.Row>()
  const bindings = new Map<string, Bound>()

  const boundTo = (key: string): ledger.Row | undefined => rows.get(bindings.get(key)?.call ?? '')
  const bindingsOf = (id: string): Bound[] =>
    [...bindings.values()].filter((binding) => binding.call === id).sort((a, b) => a.position - b.position)
  const callOf = (row: ledger.Row): Call => row

  function call(id: string): ledger.Row {
    const row = rows.get(id)
    if (!row) throw new Error(`no call ${id}`)
    return row
  }

  function* exposedCalls({ payer, asset }: Pick<Call, 'payer' | 'asset'>): Iterable<ExposedCall> {
    for (const row of rows.values()) {
      if (row.payer !== payer || row.asset !== asset) continue
      const unpaidRecord = { ...row, block: row.receipt?.block ?? null }
      yield { ...unpaidRecord, bindingStatus: null, bindingExpiresAt: null }
      for (const { status, expiresAt } of bindingsOf(row.id))
        yield { ...unpaidRecord, bindingStatus: status, bindingExpiresAt: expiresAt }
    }
  }

  const settledBy = ({ payer, asset }: Pick<Call, 'payer' | 'asset'>) => {
    const settled = [...rows.values()].filter(
      (row) => row.payer === payer && row.asset === asset && row.paymentStatus === 'settled',
    )
    const last = settled.sort((a, b) => (b.settledAt ?? 0) - (a.settledAt ?? 0)).slice(0, SETTLED_CALLS)
    return last.length === 0 ? undefined : usdc(last.reduce((sum, { charge, quote }) => sum + (charge ?? quote), 0n))
  }

  function perform(writes: readonly ledger.Write[]): void {
    for (const write of writes) {
      if (write.kind === 'insert') rows.set(write.call.id, { ...write.call, ...ledger.UNCLAIMED, ...write.notes })
      if (write.kind === 'patch') rows.set(write.id, { ...call(write.id), ...write.patch })
      if (write.kind === 'bind')
        bindings.set(write.binding.key, { ...write.binding, authorization: write.authorization })
      if (write.kind === 'free') bindings.delete(write.key)
      const binding = write.kind === 'mark' ? bindings.get(write.key) : undefined
      if (binding && write.kind === 'mark') bindings.set(write.key, { ...binding, status: write.status })
    }
  }

  const listed = (matches: (row: ledger.Row) => boolean): Call[] => [...rows.values()].filter(matches).map(callOf)

  return {
    ...memoryStorage(),
    async openCall(request, authorization, at) {
      const { answer, writes } = decideOpen(
        { call: request, authorization },
        { bound: boundTo(authorization.key), exposedCalls: exposedCalls(request), settled: settledBy(request) },
        at,
      )
      perform(writes)
      return answer.kind === 'replayed' ? { kind: 'replayed', call: call(answer.id) } : answer
    },
    getCall: async (id) => rows.get(id),
    async callOf(key, now) {
      const row = boundTo(key)
      return row && !isFree(row, now) ? row : undefined
    },
    async moveCall(id, from, patch) {
      if (!ledger.mayMove(rows.get(id), from)) return false
      perform([{ kind: 'patch', id, patch: ledger.patchOf(patch) }])
      return true
    },
    async renew(owner, ids, until) {
      return ids.filter((id) => {
        const { answer, writes } = decideRenewal(rows.get(id), { bindings: bindingsOf(id), workerId: owner }, until)
        perform(writes)
        return answer
      })
    },
    lostCalls: async (now) => listed((row) => ledger.isLost(row, now)),
    unfinishedCalls: async (owner, { gateway, after }) =>
      listed(
        (row) =>
          row.workerId === owner && row.gateway === gateway && ledger.isUnfinished(row.workStatus) && row.id > after,
      ),
    async claimSettlement(id, offered, at) {
      const own = bindingsOf(id)
      const isOwn = own.some(({ key }) => key === offered?.key)
      const { answer, writes } = decideClaim(
        rows.get(id),
        { bindings: own, offered, bound: isOwn || !offered ? undefined : boundTo(offered.key) },
        at,
      )
      perform(writes)
      if (answer.kind === 'replayed') return { kind: 'replayed', call: call(answer.id) }
      if (answer.kind !== 'retry') return answer
      const authorization = bindings.get(answer.key)?.authorization
      if (!authorization) throw new Error(`no authorization ${answer.key}`)
      return {
        kind: 'retry',
        token: answer.token,
        sent: answer.sent,
        authorization: { ...authorization, payment: { ...authorization.payment } },
      }
    },
    async finishSettlement(id, token, outcome, at) {
      const { answer, writes } = decideFinish(rows.get(id), { bindings: bindingsOf(id), token, outcome }, at)
      perform(writes)
      return answer
    },
    unsettled: async (before, _limit, gateway) =>
      listed(
        (row) =>
          row.paymentStatus === 'settling' &&
          (row.claimExpiresAt ?? 0) <= before &&
          (gateway ?? row.gateway) === row.gateway,
      ),
    prune: async () => 0,
    ledgerRows: async () => [],
    archiveCalls: async () => 0,
    pruneLedger: async () => 0,
  }
}
