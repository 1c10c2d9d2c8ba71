/**
 * Calls that are paid from money which the buyer deposited before, such as a channel's. While one is worked on, only
 * this process knows it; with its result it is stored, done and paid, in one step (decision 132). Where anything else
 * becomes of it, it is stored as every other call is, and goes the usual way from there.
 */
import type { Clock } from '../lib/clock.ts'
import { sharedBy } from '../lib/per_process.ts'
import type { Authorization, Call, NewCall, Opened, PaidWork, Recorded, Storage } from '../ports/mod.ts'
import { decorated, OTHER_VERBS } from '../ports/decorated_storage.ts'
import { openedCall } from './ledger/mod.ts'

export type PrepaidCalls = {
  /** The same storage, with the calls in memory. */
  readonly storage: Storage
  /** Opens a call in memory, unless its authorization serves another one. */
  open(call: NewCall, authorization: Authorization): Promise<Opened>
  has(id: string): boolean
  /** Stores a call that is worked on and paid. It stays in memory where the record has `moved`. */
  record(id: string, paid: PaidWork): Promise<Recorded>
}

type Entry = { readonly order: NewCall; readonly authorization: Authorization; readonly call: Call }

/** No lease of it ends: its process alone knows of it. */
const NO_END = Number.MAX_SAFE_INTEGER

/**
 * Undefined where other processes use the storage: they must see that an authorization serves a call. The calls are
 * shared by all with this `owner`.
 */
export function prepaidCalls(
  storage: Storage,
  { owner, clock, leaseMs }: { readonly owner: object; readonly clock: Clock; readonly leaseMs: number },
): PrepaidCalls | undefined {
  if (storage.isShared) return undefined
  const { entries, ids, bindings, openings } = sharedBy(owner, 'prepaid calls', () => ({
    entries: new Map<string, Entry>(),
    /** By key of the authorization. */
    ids: new Map<string, string>(),
    /** Steps of storage under way that may bind an authorization, by its key. */
    bindings: new Map<string, Set<Promise<unknown>>>(),
    /** Calls that are being opened in memory, by the same key. */
    openings: new Map<string, Promise<void>>(),
  }))

  function forget(id: string): void {
    ids.delete(entries.get(id)?.authorization.key ?? '')
    entries.delete(id)
  }

  function callBy(key: string): Call | undefined {
    const id = ids.get(key)
    return id === undefined ? undefined : entries.get(id)?.call
  }

  /** Runs a step that may bind the authorization in storage, unless it serves a call in memory. */
  async function binding<Answer>(
    key: string,
    step: () => Promise<Answer>,
  ): Promise<Answer | { readonly kind: 'replayed'; readonly call: Call }> {
    // Whether a call that is being opened has it is known at the end. What follows is one turn.
    for (let other = openings.get(key); other; other = openings.get(key)) await other
    const call = callBy(key)
    if (call) return { kind: 'replayed', call }
    const steps = bindings.get(key) ?? new Set()
    bindings.set(key, steps)
    const under = step()
    steps.add(under)
    try {
      return await under
    } finally {
      steps.delete(under)
      if (steps.size === 0) bindings.delete(key)
    }
  }

  /** The call that storage knows for the authorization, whoever is about to bind it. */
  async function boundCall(key: string): Promise<Call | undefined> {
    await Promise.allSettled(bindings.get(key) ?? [])
    return await storage.callOf(key, clock.now())
  }

  /** From here on the call goes the usual way. Where storage does not take it, the call stays here. */
  async function store(id: string): Promise<void> {
    const entry = entries.get(id)
    if (!entry) return
    const now = clock.now()
    try {
      await storage.openCall(entry.order, entry.authorization, { now, until: now + leaseMs })
    } catch (error) {
      // The answer to an earlier attempt may have been lost.
      if (!(await storage.getCall(id).catch(() => undefined))) throw error
    }
    forget(id)
  }

  return {
    storage: decorated(storage, {
      ...OTHER_VERBS,
      openCall: (order, authorization, at) =>
        binding(authorization.key, () => storage.openCall(order, authorization, at)),
      getCall: async (id) => entries.get(id)?.call ?? (await storage.getCall(id)),
      callOf: async (key, now) => callBy(key) ?? (await storage.callOf(key, now)),
      async moveCall(id, from, patch) {
        // A call that fails is not worth holding its authorization until storage is back.
        await store(id).catch((error) => {
          if (patch.workStatus === 'failed') forget(id)
          throw error
        })
        return await storage.moveCall(id, from, patch)
      },
      async claimSettlement(id, authorization, at) {
        await store(id)
        const claim = () => storage.claimSettlement(id, authorization, at)
        return authorization ? await binding(authorization.key, claim) : await claim()
      },
      // Called by `record` alone, of a call in memory, whose authorization is bound.
      recordPaid: 'same',
      // Only of calls that are stored: one in memory has no lease, and is claimed before it is finished.
      renew: 'same',
      finishSettlement: 'same',
      prune: 'same',
      pruneLedger: 'same',
      archiveCalls: 'same',
    }),

    async open(order, authorization) {
      const { key } = authorization
      for (let other = openings.get(key); other; other = openings.get(key)) await other
      const before = callBy(key)
      if (before) return { kind: 'replayed', call: before }
      const opening = boundCall(key).then((bound) => {
        if (bound) return { kind: 'replayed' as const, call: bound }
        const call = openedCall(order, authorization, NO_END)
        entries.set(order.id, { order, authorization, call })
        ids.set(key, order.id)
        return { kind: 'opened' as const, call }
      })
      const ended = opening.then(
        () => void openings.delete(key),
        () => void openings.delete(key),
      )
      openings.set(key, ended)
      return await opening
    },

    has: (id) => entries.has(id),

    async record(id, paid) {
      const entry = entries.get(id)
      if (!entry) throw new Error(`call ${id} is not in memory`)
      const recorded = await storage.recordPaid(entry.order, entry.authorization, { paid, now: clock.now() })
      if (recorded.kind !== 'moved') forget(id)
      // The answer to an earlier attempt was lost.
      return recorded.kind === 'replayed' && recorded.call.id === id ? { kind: 'recorded' } : recorded
    },
  }
}
