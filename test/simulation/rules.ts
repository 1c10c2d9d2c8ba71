/**
 * The rules of settling (decisions 12, 13, 15, 16, 18), each switched off by what stands behind a port: the model must
 * miss every one.
 */
import {
  type AuthorizationBinding,
  decideClaim,
  decideFinish,
  decideOpen,
  isFree,
  type Row,
  type RowPatch,
  type Write,
} from '../../core/payment/ledger/mod.ts'
import { memoryStorage } from '../../adapters/storage/memory/mod.ts'
import type { Chain, Storage } from '../../core/ports/mod.ts'
import type { LawName } from './ledger.ts'
import { LIMITS } from './limits.ts'
import { ruledStorage } from './ruled_storage.ts'
import type { Rule } from './setup.ts'

/** A rule that is off, and the laws of which its absence breaks one. */
type Switch = Rule & {
  readonly breaks: readonly LawName[]
  /**
   * A campaign whose first runs miss it, where those of seed 3 take long to. Changes of the simulation move it: a rule
   * that takes seconds wants another.
   */
  readonly seed?: number
}

const BY_USE_RULE = { isHarsh: true, isByUse: true } as const

/** A storage that finds nothing of this sort. */
const blind = (change: (good: Storage) => Partial<Storage>) => () => {
  const good = memoryStorage()
  return { ...good, ...change(good) }
}

export const featureFlags: readonly Switch[] = [
  {
    name: 'a poll binds the authorization that it spends',
    breaks: ['oneCall', 'onePayment'],
    storage: () =>
      ruledStorage({
        decideClaim(call, seen, at) {
          const { answer, writes } = decideClaim(call, { ...seen, bound: undefined }, at)
          return { answer, writes: writes.filter(({ kind }) => kind !== 'bind') }
        },
      }),
  },
  {
    name: 'a claim is ended only with its own token',
    seed: 8,
    breaks: ['onePayment', 'oneCall'],
    storage: () =>
      ruledStorage({
        decideFinish(call, seen, at) {
          const claimKey =
            call?.claimKey ?? seen.bindings.find(({ status }) => status === 'open' || status === 'sent')?.key ?? null
          return decideFinish(call && { ...call, claimKey }, { ...seen, token: call?.claimToken ?? seen.token }, at)
        },
      }),
  },
  {
    name: 'every earlier authorization is proven dead before another is spent',
    breaks: ['onePayment'],
    storage: () =>
      ruledStorage({
        decideClaim(call, seen, at) {
          const isGone = ({ key, status }: AuthorizationBinding) => status === 'sent' && key !== seen.offered?.key
          return decideClaim(
            call,
            {
              ...seen,
              bindings: seen.bindings.map((binding) => (isGone(binding) ? { ...binding, status: 'dead' } : binding)),
            },
            at,
          )
        },
      }),
  },
  {
    name: 'the result is stored before its money may move',
    breaks: ['moneyHasResult'],
    storage: () => {
      const made = new Map<string, RowPatch>()
      return ruledStorage({
        decideClaim(call, seen, at) {
          const { answer, writes } = decideClaim(call, seen, at)
          if (call && at.result)
            made.set(call.id, { workStatus: 'completed', result: at.result.result, endedAt: at.now })
          const without = (write: Write): Write => {
            if (write.kind !== 'patch' || !at.result) return write
            const { workStatus, result, endedAt, ...patch } = write.patch
            return { ...write, patch }
          }
          return { answer, writes: writes.map(without) }
        },
        decideFinish(call, seen, at) {
          const { answer, writes } = decideFinish(call, seen, at)
          const done = call && answer ? made.get(call.id) : undefined
          const store: readonly Write[] = call && done ? [{ kind: 'patch', id: call.id, patch: done }] : []
          return { answer, writes: [...writes, ...store] }
        },
      })
    },
  },
  {
    name: 'a refusal does not free what was sent before',
    seed: 202,
    breaks: ['onePayment'],
    storage: () =>
      ruledStorage({
        decideClaim(call, seen, at) {
          const { answer, writes } = decideClaim(call, seen, at)
          const forget = (write: Write): Write =>
            write.kind === 'patch' && write.patch.claimKey
              ? { ...write, patch: { ...write.patch, claimFresh: true } }
              : write
          return { answer: answer.kind === 'retry' ? { ...answer, sent: false } : answer, writes: writes.map(forget) }
        },
      }),
  },
  {
    name: 'unknown is not refused',
    breaks: ['noSecondSignature'],
    chain: (chain) => ({
      ...chain,
      async settle(payment, offer, at) {
        const settlement = await chain.settle(payment, offer, at)
        return settlement.kind === 'unknown' ? { kind: 'refused', reason: settlement.reason } : settlement
      },
    }),
  },
  {
    name: 'the lease outlives the deadline of settle',
    seed: 21,
    breaks: ['oneAtATime'],
    timeouts: { settleLeaseMs: 5_000 },
  },
  {
    name: 'one at a time may settle',
    seed: 4,
    breaks: ['oneAtATime'],
    storage: () =>
      ruledStorage({
        decideClaim: (call, seen, at) => decideClaim(call && { ...call, claimExpiresAt: null }, seen, at),
      }),
  },
  {
    name: 'an authorization is not free once settling has begun',
    seed: 153,
    breaks: ['oneCall'],
    storage: () => {
      const isLet = (call: Pick<Row, 'workStatus' | 'paymentStatus' | 'leaseExpiresAt'>, now: number) =>
        isFree(call, now) || (call.paymentStatus !== 'settled' && call.leaseExpiresAt <= now)
      return ruledStorage({
        isFree: isLet,
        decideOpen(opening, seen, at) {
          const bound =
            seen.bound && isLet(seen.bound, at.now)
              ? { ...seen.bound, workStatus: 'failed' as const, paymentStatus: 'verified' as const }
              : seen.bound
          return decideOpen(opening, { ...seen, bound }, at)
        },
      })
    },
  },
  {
    name: 'paid is recorded whatever the token says',
    seed: 26,
    breaks: ['trueLedger'],
    storage: () =>
      ruledStorage({
        decideFinish(call, seen, at) {
          const isStale = call !== undefined && (call.claimKey === null || call.claimToken !== seen.token)
          return isStale ? { answer: false, writes: [] } : decideFinish(call, seen, at)
        },
      }),
  },
  {
    name: 'what was used is charged, and no more',
    breaks: ['trueLedger', 'resultHasMoney'],
    ...BY_USE_RULE,
    chain: (chain) => ({
      ...chain,
      settle: (payment, offer, { now, signal }) => chain.settle(payment, offer, { now, signal }),
    }),
  },
  {
    name: 'an authorization that was charged nothing has paid for its call, and for no other',
    breaks: ['oneCall'],
    ...BY_USE_RULE,
    storage: () => {
      const isLet = (call: Pick<Row, 'workStatus' | 'paymentStatus' | 'leaseExpiresAt'>, now: number) =>
        isFree(call, now) || ('charge' in call && call.charge === 0n && call.paymentStatus === 'settled')
      return ruledStorage({
        isFree: isLet,
        decideOpen: (opening, seen, at) =>
          decideOpen(opening, seen.bound && isLet(seen.bound, at.now) ? { ...seen, bound: undefined } : seen, at),
      })
    },
  },
  {
    name: 'paid needs our own transfer',
    breaks: ['resultHasMoney', 'trueLedger'],
    chain: (chain, { isCancelled, payTo }) => ({
      ...chain,
      async fate(payment, offer, at) {
        const fate = await chain.fate(payment, offer, at)
        if (fate.kind !== 'dead' || !isCancelled(payment)) return fate
        return {
          kind: 'paid',
          receipt: { transaction: '0xcancelled', network: offer.network, payer: payTo, amount: offer.amount },
        }
      },
    }),
  },
  { name: 'dead means that it can never move money', breaks: ['onePayment'], chain: deadWhenUnseen },
  {
    name: 'open calls of a wallet are summed against its balance',
    breaks: ['exposure'],
    storage: () =>
      ruledStorage({ decideOpen: (opening, seen, { now, until }) => decideOpen(opening, seen, { now, until }) }),
  },
  { name: 'who has gone is not charged by the reply that he does not read', breaks: ['goneIsFree'], isDeaf: true },
  {
    name: 'a failed call frees its authorization',
    seed: 24,
    breaks: ['nothingStuck'],
    storage: () =>
      ruledStorage({
        isFree: () => false,
        decideOpen: (opening, seen, at) =>
          seen.bound ? { answer: { kind: 'replayed', id: seen.bound.id }, writes: [] } : decideOpen(opening, seen, at),
      }),
  },
  {
    name: 'a settled call is not settled again',
    breaks: ['onePayment'],
    storage: () =>
      ruledStorage({
        decideClaim: (call, seen, at) =>
          decideClaim(
            call && { ...call, paymentStatus: call.paymentStatus === 'settled' ? 'settling' : call.paymentStatus },
            seen,
            at,
          ),
      }),
  },
  {
    name: 'a result is not given away before ten minutes have passed in doubt',
    breaks: ['resultHasMoney'],
    timeouts: { unresolvedMs: 0 },
  },
  {
    name: 'what ended before it was sent does not count as sent',
    seed: 9,
    breaks: ['resultHasMoney'],
    storage: () =>
      ruledStorage({
        decideClaim(call, seen, at) {
          const { answer, writes } = decideClaim(call, seen, at)
          const claimed = writes.find((write) => write.kind === 'patch' && write.patch.claimKey)
          const key = claimed?.kind === 'patch' ? claimed.patch.claimKey : undefined
          return { answer, writes: key ? [...writes, { kind: 'mark', key, status: 'sent' }] : writes }
        },
      }),
  },
  {
    name: 'what was read is settled',
    isHarsh: true,
    breaks: ['nothingGiven'],
    chain: neverPaid,
  },
  {
    name: 'what a wallet has spent counts against its limit',
    limits: LIMITS,
    breaks: ['withinLimits'],
    storage: blind(() => ({ spendByModel: async () => [] })),
  },
  {
    name: 'who is blocked by the operator buys nothing',
    limits: LIMITS,
    breaks: ['closed'],
    isOpen: true,
  },
  {
    name: 'the calls of other new wallets count against the limit of all',
    limits: LIMITS,
    breaks: ['newWallets'],
    storage: blind((good) => ({
      listRecords: async (kind, ...of) => (kind === 'new_wallet_call' ? [] : await good.listRecords(kind, ...of)),
    })),
  },
  {
    name: 'a job is collected by the wallet that submitted it',
    breaks: ['onlyThePayer'],
    chain: (chain) => ({
      ...chain,
      async identify(payment, offer, at) {
        const identity = await chain.identify(payment, offer, at)
        return identity.kind === 'known' ? { ...identity, payer: '0xeverybody' } : identity
      },
    }),
  },
]

/** Nothing that is answered before its money has moved is ever paid. */
function neverPaid(chain: Chain): Chain {
  return { ...chain, settle: async () => ({ kind: 'refused', reason: 'nobody sends it' }) }
}

/** A node that takes what it does not see for gone. */
function deadWhenUnseen(chain: Chain): Chain {
  return {
    ...chain,
    async fate(payment, offer, at) {
      const fate = await chain.fate(payment, offer, at)
      return fate.kind === 'open' ? { kind: 'dead' } : fate
    },
  }
}
