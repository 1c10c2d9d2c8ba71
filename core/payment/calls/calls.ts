/**
 * The calls of one gateway (decision 135): every verb that begins, reads, changes or ends a call. The storage of the
 * engine has these in place of its own, and each change that it has made is reported to the observers.
 */
import { checkedRecords } from '../../endpoint/record_kind.ts'
import type { Clock } from '../../lib/clock.ts'
import { type CallObserver, reportedChanges } from '../../ports/call_events.ts'
import type { ChainKeys, Log, Storage } from '../../ports/mod.ts'
import { type ActiveCalls, activeCalls, leasedVerbs } from './active_calls.ts'
import { type Availability, availability, watched } from './availability.ts'
import { type CallVerbs, releasing } from './call_verbs.ts'
import { type MemoryCalls, memoryCalls, type PrepaidCalls, prepaidCalls, prepaidVerbs } from './prepaid_calls.ts'
import { nothingUnwritten } from './unwritten.ts'

export type Calls = CallVerbs & {
  readonly active: ActiveCalls
  /** Absent where other processes use the storage: they must see that an authorization serves a call. */
  readonly prepaid?: PrepaidCalls | undefined
}

/** State of the calls of all gateways of one process, because they share a storage. */
export type SharedCalls = {
  /** The settlements under way in this process, each with its worker. */
  readonly claims: Map<string, string>
  readonly alerts: Availability['alerts']
  readonly memory: MemoryCalls
}

export const sharedCalls = (): SharedCalls => ({
  claims: new Map(),
  alerts: { lastAt: Number.NEGATIVE_INFINITY },
  memory: memoryCalls(),
})

type Given = {
  readonly storage: Storage
  readonly observers?: readonly CallObserver[]
  readonly apiKeys?: ChainKeys | undefined
  readonly workerId: string
  readonly clock: Clock
  readonly log: Log
  readonly leaseMs: number
  readonly shared?: SharedCalls
}

export function callsOf({ storage, observers = [], apiKeys, shared = sharedCalls(), ...given }: Given): {
  readonly calls: Calls
  readonly storage: Storage
} {
  const { clock, leaseMs } = given
  const unwritten = nothingUnwritten()
  const available = availability({ ...given, alerts: shared.alerts, waiting: unwritten.writes })
  const bare = { ...storage, ...reportedChanges(storage, observers) }
  const observed = watched(bare, available)
  const working = {
    ...given,
    storage: observed,
    bare,
    claims: shared.claims,
    availability: available,
    unwritten,
    leases: new Map<string, number>(),
    doubtful: new Set<string>(),
  }
  const stored = leasedVerbs(working)
  const prepaid = storage.isShared ? undefined : { memory: shared.memory, stored, clock, leaseMs }
  const verbs = releasing(prepaid ? prepaidVerbs(prepaid) : stored, { apiKeys, clock })
  const calls = { ...verbs, active: activeCalls(working), prepaid: prepaid && prepaidCalls(prepaid) }
  return { calls, storage: engineStorage(observed, verbs) }
}

/** Every verb of storage as the engine uses it. A new one compiles when it is decided whether it changes calls. */
const engineStorage = (storage: Storage, verbs: CallVerbs): Storage =>
  ({
    ...verbs,
    ...checkedRecords(storage),
    isShared: storage.isShared,
    now: storage.now,
    lease: storage.lease,
    hit: storage.hit,
    lostCalls: storage.lostCalls,
    unfinishedCalls: storage.unfinishedCalls,
    unsettled: storage.unsettled,
    listCalls: storage.listCalls,
    listSettled: storage.listSettled,
    findCalls: storage.findCalls,
    listOpen: storage.listOpen,
    listAuthorizations: storage.listAuthorizations,
    spendByModel: storage.spendByModel,
    callTotals: storage.callTotals,
    buyersByDay: storage.buyersByDay,
    prune: storage.prune,
    pruneLedger: storage.pruneLedger,
    ledgerRows: storage.ledgerRows,
    archiveCalls: storage.archiveCalls,
    close: storage.close,
  }) satisfies Decided as Storage

/** Optional members have to be decided too. */
type Decided = { readonly [Verb in keyof Required<Storage>]: Storage[Verb] | undefined }
