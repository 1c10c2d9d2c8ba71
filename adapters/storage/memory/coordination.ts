import { decideRenewal, isLost, isUnfinished, mayLease, type Row, takePermits } from '../../../core/payment/mod.ts'
import type { Coordination } from '../../../core/ports/mod.ts'
import { type Tables, bindingsOf, perform, where } from './tables.ts'

export function coordination(tables: Tables): Coordination {
  const { rows, leases, rateWindows } = tables
  return {
    async renew(workerId, ids, until) {
      return ids.filter((id) => {
        const { answer, writes } = decideRenewal(rows.get(id), { bindings: bindingsOf(tables, id), workerId }, until)
        for (const write of writes) perform(tables, write)
        return answer
      })
    },

    async lostCalls(now, limit) {
      return where(tables, (call) => isLost(call, now), { order: (call) => call.leaseExpiresAt, limit })
    },

    async unfinishedCalls(workerId, { gateway, after, limit }) {
      const isWanted = (call: Row) =>
        call.workerId === workerId && call.gateway === gateway && isUnfinished(call.workStatus) && call.id > after
      return where(tables, isWanted, { order: () => 0, limit })
    },

    async unsettled(before, limit, gateway) {
      const due = (call: Row) => call.claimExpiresAt ?? 0
      const isDue = (call: Row) =>
        call.paymentStatus === 'settling' && due(call) <= before && (gateway ?? call.gateway) === call.gateway
      return where(tables, isDue, { order: due, limit })
    },

    async lease(name, workerId, { now, until }) {
      if (!mayLease(leases.get(name), workerId, now)) return false
      leases.set(name, { workerId, expiresAt: until })
      return true
    },

    async hit(bucket, take, now) {
      const { answer, window } = takePermits(rateWindows.get(bucket.key), bucket, { take, now })
      if (window) rateWindows.set(bucket.key, window)
      return answer
    },
  }
}
