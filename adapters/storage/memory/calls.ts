import {
  type ClaimAnswer,
  decideClaim,
  decideFinish,
  decideOpen,
  decidePaid,
  isFree,
  mayMove,
  needsSettled,
  type OpenAnswer,
  patchOf,
} from '../../../core/payment/mod.ts'
import type { CallStorage, Claim, Opened } from '../../../core/ports/mod.ts'
import { copied } from '../copied.ts'
import {
  type Tables,
  rowOf,
  boundTo,
  bindingsOf,
  exposedCalls,
  settledBy,
  perform,
  nameOf,
  withoutClaim,
} from './tables.ts'

export function callStorage(tables: Tables): CallStorage {
  const { rows, records } = tables
  return {
    async openCall(call, authorization, at) {
      const { payer, asset } = call
      const seen = {
        bound: boundTo(tables, authorization.key),
        exposedCalls: at.cap ? exposedCalls(tables, payer, asset) : [],
        settled: needsSettled(at.cap) ? settledBy(tables, payer, asset) : undefined,
      }
      const { answer, writes } = decideOpen({ call, authorization }, seen, at)
      if (answer.kind === 'opened' && rows.has(call.id)) throw new Error(`call ${call.id} exists`)
      for (const write of writes) perform(tables, write)
      return opened(tables, answer)
    },

    async recordPaid(call, authorization, { paid, ...at }) {
      const seen = { bound: boundTo(tables, authorization.key), record: records.get(nameOf(paid.spent.record)) }
      const { answer, writes } = decidePaid({ call, authorization, paid }, seen, at)
      if (answer.kind === 'recorded' && rows.has(call.id)) throw new Error(`call ${call.id} exists`)
      for (const write of writes) perform(tables, write)
      return answer.kind === 'replayed' ? { kind: 'replayed', call: withoutClaim(rowOf(tables, answer.id)) } : answer
    },

    async getCall(id) {
      const found = rows.get(id)
      return found && withoutClaim(found)
    },

    async callOf(authorization, now) {
      const found = boundTo(tables, authorization)
      return found && !isFree(found, now) ? withoutClaim(found) : undefined
    },

    async moveCall(id, from, patch) {
      if (!mayMove(rows.get(id), from)) return false
      perform(tables, { kind: 'patch', id, patch: patchOf(patch) })
      return true
    },

    async claimSettlement(id, authorization, at) {
      const own = bindingsOf(tables, id)
      const elsewhere = own.some((binding) => binding.key === authorization?.key) ? undefined : authorization?.key
      const seen = { bindings: own, offered: authorization, bound: boundTo(tables, elsewhere) }
      const { answer, writes } = decideClaim(rows.get(id), seen, at)
      for (const write of writes) perform(tables, write)
      return claimed(tables, answer)
    },

    async finishSettlement(id, token, outcome, at) {
      const { answer, writes } = decideFinish(rows.get(id), { bindings: bindingsOf(tables, id), token, outcome }, at)
      for (const write of writes) perform(tables, write)
      return answer
    },
  }
}

function opened(tables: Tables, answer: OpenAnswer): Opened {
  if (answer.kind === 'replayed') return { kind: 'replayed', call: withoutClaim(rowOf(tables, answer.id)) }
  return copied(answer)
}

function claimed(tables: Tables, answer: ClaimAnswer): Claim {
  if (answer.kind === 'replayed') return { kind: 'replayed', call: withoutClaim(rowOf(tables, answer.id)) }
  if (answer.kind !== 'retry') return copied(answer)
  const { key, ...rest } = answer
  const binding = tables.bindings.get(key)
  if (!binding?.authorization) throw new Error(`no authorization ${key}`)
  return { ...rest, authorization: copied(binding.authorization) }
}
