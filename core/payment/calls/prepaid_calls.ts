/**
 * Calls that are paid from money which the buyer deposited before, such as a channel's. While one is worked on, only
 * this process knows it; with its result it is stored, done and paid, in one step (decision 132). Where anything else
 * becomes of it, it is stored as every other call is, and goes the usual way from there.
 */
import type { Clock } from '../../lib/clock.ts'
import type { Authorization, Call, CallPatch, NewCall, Opened, PaidWork, Recorded } from '../../ports/mod.ts'
import { openedCall } from '../ledger/mod.ts'
import type { CallVerbs } from './call_verbs.ts'

export type PrepaidCalls = {
  /** Opens a call in memory, unless its authorization serves another one. */
  open(call: NewCall, authorization: Authorization): Promise<Opened>
  has(id: string): boolean
  /** Stores a call that is worked on and paid. It stays in memory where the record has `moved`. */
  record(id: string, paid: PaidWork): Promise<Recorded>
}

type Entry = { readonly order: NewCall; readonly authorization: Authorization; readonly call: Call }

/** The calls in memory, of all gateways of this process that share a storage. */
export type MemoryCalls = {
  readonly entries: Map<string, Entry>
  /** By key of the authorization. */
  readonly ids: Map<string, string>
  /** Steps of storage under way that may bind an authorization, by its key. */
  readonly bindings: Map<string, Set<Promise<unknown>>>
  /** Calls that are being opened in memory, by the same key. */
  readonly openings: Map<string, Promise<void>>
}

export const memoryCalls = (): MemoryCalls => ({
  entries: new Map(),
  ids: new Map(),
  bindings: new Map(),
  openings: new Map(),
})

type Prepaid = {
  readonly memory: MemoryCalls
  /** The verbs of calls in storage. */
  readonly stored: CallVerbs
  readonly clock: Clock
  readonly leaseMs: number
}

/** No lease of it ends: its process alone knows of it. */
const NO_END = Number.MAX_SAFE_INTEGER

export const prepaidCalls = (prepaid: Prepaid): PrepaidCalls => ({
  open: (order, authorization) => open(prepaid, order, authorization),
  has: (id) => prepaid.memory.entries.has(id),
  record: (id, paid) => record(prepaid, id, paid),
})

/** The verbs of calls, of those in memory too. */
export function prepaidVerbs(prepaid: Prepaid): CallVerbs {
  const { memory, stored } = prepaid
  return {
    openCall: (order, authorization, at) =>
      binding(memory, authorization.key, () => stored.openCall(order, authorization, at)),
    getCall: async (id) => memory.entries.get(id)?.call ?? (await stored.getCall(id)),
    callOf: async (key, now) => callBy(memory, key) ?? (await stored.callOf(key, now)),
    async moveCall(id, from, patch) {
      await storeMoving(prepaid, id, patch)
      return await stored.moveCall(id, from, patch)
    },
    async claimSettlement(id, authorization, at) {
      await store(prepaid, id)
      const claim = () => stored.claimSettlement(id, authorization, at)
      return authorization ? await binding(memory, authorization.key, claim) : await claim()
    },
    // Called by `record` alone, of a call in memory, whose authorization is bound.
    recordPaid: stored.recordPaid,
    // Only of calls that are stored: one in memory has no lease, and is claimed before it is finished.
    renew: stored.renew,
    finishSettlement: stored.finishSettlement,
  }
}

async function open(prepaid: Prepaid, order: NewCall, authorization: Authorization): Promise<Opened> {
  const { entries, ids, openings } = prepaid.memory
  const { key } = authorization
  for (let other = openings.get(key); other; other = openings.get(key)) await other
  const before = callBy(prepaid.memory, key)
  if (before) return { kind: 'replayed', call: before }
  const opening = boundCall(prepaid, key).then((bound) => {
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
}

async function record({ memory, stored, clock }: Prepaid, id: string, paid: PaidWork): Promise<Recorded> {
  const entry = memory.entries.get(id)
  if (!entry) throw new Error(`call ${id} is not in memory`)
  const recorded = await stored.recordPaid(entry.order, entry.authorization, { paid, now: clock.now() })
  if (recorded.kind !== 'moved') forget(memory, id)
  // The answer to an earlier attempt was lost.
  return recorded.kind === 'replayed' && recorded.call.id === id ? { kind: 'recorded' } : recorded
}

/** Runs a step that may bind the authorization in storage, unless it serves a call in memory. */
async function binding<Answer>(
  memory: MemoryCalls,
  key: string,
  step: () => Promise<Answer>,
): Promise<Answer | { readonly kind: 'replayed'; readonly call: Call }> {
  const { bindings, openings } = memory
  // Whether a call that is being opened has it is known at the end. What follows is one turn.
  for (let other = openings.get(key); other; other = openings.get(key)) await other
  const call = callBy(memory, key)
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
async function boundCall({ memory, stored, clock }: Prepaid, key: string): Promise<Call | undefined> {
  await Promise.allSettled(memory.bindings.get(key) ?? [])
  return await stored.callOf(key, clock.now())
}

/** From here on the call goes the usual way. Where storage does not take it, the call stays here. */
async function store({ memory, stored, clock, leaseMs }: Prepaid, id: string): Promise<void> {
  const entry = memory.entries.get(id)
  if (!entry) return
  const now = clock.now()
  try {
    await stored.openCall(entry.order, entry.authorization, { now, until: now + leaseMs })
  } catch (error) {
    // The answer to an earlier attempt may have been lost.
    if (!(await stored.getCall(id).catch(() => undefined))) throw error
  }
  forget(memory, id)
}

/** A call that fails is not worth holding its authorization until storage is back. */
async function storeMoving(prepaid: Prepaid, id: string, { workStatus }: CallPatch): Promise<void> {
  try {
    await store(prepaid, id)
  } catch (error) {
    if (workStatus === 'failed') forget(prepaid.memory, id)
    throw error
  }
}

function forget({ entries, ids }: MemoryCalls, id: string): void {
  ids.delete(entries.get(id)?.authorization.key ?? '')
  entries.delete(id)
}

function callBy({ entries, ids }: MemoryCalls, key: string): Call | undefined {
  const id = ids.get(key)
  return id === undefined ? undefined : entries.get(id)?.call
}
