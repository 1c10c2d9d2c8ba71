/**
 * The ledger rules, as pure decisions (decisions 4, 12, 15, 18). A storage reads the rows that a function here takes,
 * performs its `writes` in order and returns its `answer`, all in one atomic step. Storages decide nothing themselves.
 */
import { type BindingStatus, type ExposedCall, isSpendable, judgeCap, type Settled } from './exposure.ts'
import { parseAtomic, type Usdc } from '../x402/money.ts'
import { isCumulative } from '../x402/offer.ts'
import type {
  Authorization,
  Bucket,
  Call,
  CallNotes,
  CallPatch,
  Cap,
  LedgerEntry,
  PaymentStatus,
  NewCall,
  Outcome,
  OverWhy,
  PaidWork,
  SettledBy,
  StoredRecord,
  Usage,
  WorkStatus,
} from '../ports/mod.ts'
import type { Json } from '../lib/json.ts'
import type { Receipt } from '../x402/protocol.ts'

// ── rows ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Binds an authorization to the one call that it may pay for. `key` is unique across the calls of all gateways. */
export type AuthorizationBinding = {
  readonly key: string
  /** Id of the call, and its payer: exposure is looked up by payer. */
  readonly call: string
  readonly payer: string
  /** 0 for the authorization that opened the call; later ones count up. Lower positions are resolved first. */
  readonly position: number
  readonly status: BindingStatus
  /** When the authorization expires, in milliseconds since 1970. It moves no money after that. */
  readonly expiresAt: number
}

/** The settlement claim of a call: columns that the storage port does not return. */
export type ClaimFields = {
  /** The last claim token issued; 0 before the first claim. */
  readonly claimToken: number
  /** When the last claim expires, or when it ended; null before the first. `unsettled` is ordered by it. */
  readonly claimExpiresAt: number | null
  /** Key of the authorization that is being settled; null once the claim has ended, which makes its token stale. */
  readonly claimKey: string | null
  /** That authorization was never sent before this claim, so a refusal proves that nothing was sent. */
  readonly claimFresh: boolean
  /** Request and result were deleted; the ledger columns remain. */
  readonly emptied: boolean
}

export type Row = Call & ClaimFields & CallNotes
export type RowPatch = Partial<Omit<Row, 'id'>>

/** The part of a row that decisions read. A whole row is assignable to it. */
export type Head = Pick<
  Row,
  | 'id'
  | 'payer'
  | 'workStatus'
  | 'paymentStatus'
  | 'workerId'
  | 'leaseExpiresAt'
  | 'startedAt'
  | 'error'
  | 'receipt'
  | 'expiresAt'
  | 'charge'
  | keyof ClaimFields
>

/** The claim columns of a new row. */
export const UNCLAIMED: ClaimFields = {
  claimToken: 0,
  claimExpiresAt: null,
  claimKey: null,
  claimFresh: false,
  emptied: false,
}

/** The notes of a row of which nothing is known. */
export const NO_NOTES: CallNotes = {
  quotedAt: null,
  verifiedAt: null,
  settlingAt: null,
  vendorError: null,
  paymentError: null,
  paymentErrorAt: null,
  settledBy: null,
}

// ── decisions ───────────────────────────────────────────────────────────────────────────────────────────────────────

export type Write =
  /** A new row, UNCLAIMED. */
  | { readonly kind: 'insert'; readonly call: Call; readonly notes: CallNotes }
  | { readonly kind: 'patch'; readonly id: string; readonly patch: RowPatch }
  /** Inserts the binding, or replaces the one with this key. What will never be sent need not be stored. */
  | { readonly kind: 'bind'; readonly binding: AuthorizationBinding; readonly authorization: Authorization | null }
  | { readonly kind: 'mark'; readonly key: string; readonly status: BindingStatus }
  /** Deletes the binding: its authorization serves no call. */
  | { readonly kind: 'free'; readonly key: string }
  /** Stores the record, in place of the one of its kind and id. */
  | { readonly kind: 'record'; readonly record: StoredRecord }

export type Decision<Answer> = { readonly answer: Answer; readonly writes: readonly Write[] }

/** `Opened`, with the id of a call that the storage still has to read. */
export type OpenAnswer =
  | { kind: 'opened'; call: Call; atLimit?: true; isNew?: true }
  | { kind: 'replayed'; id: string }
  | { kind: 'over'; sum: Usdc; why?: OverWhy }

/** `Recorded`, with the id of a call that the storage still has to read. */
export type PaidAnswer = { kind: 'recorded' } | { kind: 'replayed'; id: string } | { kind: 'moved' }

/** `Claim`, with ids and keys of what the storage still has to read. */
export type ClaimAnswer =
  | { kind: 'yours'; token: number; charge?: Usdc }
  | { kind: 'retry'; token: number; key: string; sent: boolean; charge?: Usdc }
  | { kind: 'taken'; until: number }
  | { kind: 'settled'; receipt: Receipt }
  | { kind: 'replayed'; id: string }
  | { kind: 'nothing' }

/** The error of a call whose process went away, as the buyer reads it. */
export const LOST = 'The work was lost when the server stopped. Nothing was charged.'

/** The worker id of a call whose work runs at the vendor. No process owns it, so the call survives restarts. */
export const UPSTREAM_JOB = 'upstream'

// ── opening ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Whether a call is unfinished, its lease has expired and no settlement has begun. */
export function isLost(call: Pick<Head, 'workStatus' | 'paymentStatus' | 'leaseExpiresAt'>, now: number): boolean {
  return isUnfinished(call.workStatus) && call.paymentStatus === 'verified' && call.leaseExpiresAt <= now
}

/** Whether a call was declared lost. Its worker may be alive: slow, suspended, or cut off from the storage. */
export function wasLost(call: Pick<Head, 'workStatus' | 'paymentStatus' | 'error'>): boolean {
  return call.workStatus === 'failed' && call.paymentStatus === 'verified' && call.error === LOST
}

/** Whether the authorization of a call may be bound to another call: this one failed or is lost, and never sent it. */
export function isFree(call: Pick<Head, 'workStatus' | 'paymentStatus' | 'leaseExpiresAt'>, now: number): boolean {
  return (call.workStatus === 'failed' && call.paymentStatus === 'verified') || isLost(call, now)
}

/**
 * Decides whether a call opens. `bound` is the call that the authorization serves so far. `exposedCalls` are the calls
 * that may count against the payer in this asset, needed only with a cap; `settled` is what the payer's newest settled
 * calls in it came to, absent where there are none, and needed only where `needsSettled(cap)`. An extra row does no
 * harm; a missing one lets a payer spend the same balance twice.
 */
export function decideOpen(
  order: { call: NewCall; authorization: Authorization },
  seen: { bound: Head | undefined; exposedCalls: Iterable<ExposedCall>; settled?: Settled },
  at: { now: number; until: number; lostBy?: number; cap?: Cap },
): Decision<OpenAnswer> {
  const { authorization } = order
  const { bound } = seen
  if (bound && !isFree(bound, at.lostBy ?? at.now)) return withoutWrites({ kind: 'replayed', id: bound.id })
  const judged =
    at.cap &&
    judgeCap(
      order.call,
      { exposedCalls: seen.exposedCalls, settled: seen.settled },
      { now: at.now, without: bound?.id, cap: at.cap },
    )
  if (judged?.kind === 'over') return withoutWrites(judged)
  const { quotedAt = null, verifiedAt = null } = order.call
  const call = openedCall(order.call, authorization, at.until)
  const binding: AuthorizationBinding = { ...bindingOf(authorization, call), position: 0, status: 'open' }
  return {
    answer: { kind: 'opened', call, ...(judged?.atLimit && { atLimit: true }), ...(judged?.isNew && { isNew: true }) },
    writes: [
      ...failLost(bound, at.now),
      { kind: 'insert', call, notes: { ...NO_NOTES, quotedAt, verifiedAt } },
      { kind: 'bind', binding, authorization },
    ],
  }
}

/** The call as it is opened, with a lease until `until`. */
export function openedCall(order: NewCall, { key }: Pick<Authorization, 'key'>, until: number): Call {
  const { quotedAt, verifiedAt, ...call } = order
  return {
    ...call,
    authorization: key,
    workStatus: 'queued',
    paymentStatus: 'verified',
    leaseExpiresAt: until,
    startedAt: null,
    endedAt: null,
    result: null,
    error: null,
    usage: null,
    charge: null,
    receipt: null,
    settledAt: null,
  }
}

/**
 * Decides whether a call is stored that is worked on and paid already. `record` is the one that paid for it, as it is
 * stored now.
 */
export function decidePaid(
  order: { call: NewCall; authorization: Authorization; paid: PaidWork },
  seen: { bound: Head | undefined; record: StoredRecord | undefined },
  at: { now: number; lostBy?: number },
): Decision<PaidAnswer> {
  const { result, usage, receipt, expiresAt, spent } = order.paid
  const { call: ordered, authorization } = order
  const { bound, record } = seen
  if (bound && !isFree(bound, at.lostBy ?? at.now)) return withoutWrites({ kind: 'replayed', id: bound.id })
  if (!mayMoveRecord(record, { ...spent, now: at.now })) return withoutWrites({ kind: 'moved' })
  const call = openedCall(ordered, authorization, at.now)
  const { quotedAt = null, verifiedAt = null } = ordered
  const binding: AuthorizationBinding = { ...bindingOf(authorization, call), position: 0, status: 'paid' }
  const patch: RowPatch = {
    ...completed({ result, expiresAt, usage }, at.now),
    paymentStatus: 'settled',
    receipt,
    charge: parseAtomic(receipt.amount) ?? null,
    settledAt: at.now,
    settlingAt: at.now,
    settledBy: 'reply',
  }
  return {
    answer: { kind: 'recorded' },
    writes: [
      ...failLost(bound, at.now),
      { kind: 'insert', call, notes: { ...NO_NOTES, quotedAt, verifiedAt } },
      { kind: 'bind', binding, authorization: null },
      // A change of its own, because what changes is counted in the sums.
      { kind: 'patch', id: call.id, patch },
      { kind: 'record', record: spent.record },
    ],
  }
}

// ── settling ────────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Decides who settles a call, and with which authorization: always the earliest that is neither dead nor paid.
 * `bindings` are those of the call, by position; `bound` is the other call that `offered` serves so far. With
 * `workerId`, the worker that made the result, a call of that worker that was declared lost is completed too, and
 * settled with its authorization unless that now serves another call.
 */
export function decideClaim(
  call: Head | undefined,
  seen: { bindings: readonly AuthorizationBinding[]; offered: Authorization | undefined; bound: Head | undefined },
  at: { now: number; until: number; lostBy?: number; result?: Made; workerId?: string },
): Decision<ClaimAnswer> {
  if (!call) return withoutWrites({ kind: 'nothing' })
  const isBack = at.workerId === call.workerId && wasLost(call)
  const done =
    at.result && (isUnfinished(call.workStatus) || isBack)
      ? { ...completed(at.result, at.now), ...(isBack && { error: null }) }
      : undefined
  const completion: readonly Write[] = done ? [{ kind: 'patch', id: call.id, patch: done }] : []
  if (!done && call.workStatus !== 'completed') return withoutWrites({ kind: 'nothing' })
  if (call.receipt && call.paymentStatus === 'settled')
    return { answer: { kind: 'settled', receipt: call.receipt }, writes: completion }
  if (call.claimKey !== null && call.claimExpiresAt !== null && call.claimExpiresAt > at.now) {
    return { answer: { kind: 'taken', until: call.claimExpiresAt }, writes: completion }
  }

  const token = call.claimToken + 1
  const amount = done?.charge ?? call.charge
  const charge = amount === null ? {} : { charge: amount }
  const claim = {
    ...done,
    ...(call.claimToken === 0 && { settlingAt: at.now }),
    paymentStatus: 'settling',
    claimToken: token,
    claimExpiresAt: at.until,
  } as const
  const first = seen.bindings.find((binding) => isSpendable(binding.status))
  const { offered } = seen
  if (first) {
    const fresh = first.status === 'open'
    // An expired authorization is looked up, not sent (`spend` in send.ts): it must not count as sent after a crash.
    const isOver = first.expiresAt <= at.now
    const patch: RowPatch = { ...claim, claimKey: first.key, claimFresh: fresh }
    const mine = fresh && first.key === offered?.key
    return {
      answer: mine
        ? { kind: 'yours', token, ...charge }
        : { kind: 'retry', token, key: first.key, sent: !fresh, ...charge },
      writes: [
        { kind: 'patch', id: call.id, patch },
        ...(fresh && !isOver ? [{ kind: 'mark', key: first.key, status: 'sent' } as const] : []),
      ],
    }
  }
  // A binding of this call that is not spendable is dead or paid: there is nothing left to send. A channel's key is of
  // what was charged before: another payment, such as one with a new deposit, may follow a dead one.
  const before = seen.bindings.find((binding) => binding.key === offered?.key)
  const isOver = before && !(before.status === 'dead' && offered && isCumulative(offered.offer))
  if (!offered || isOver) return { answer: { kind: 'nothing' }, writes: completion }
  if (seen.bound && !isFree(seen.bound, at.lostBy ?? at.now))
    return { answer: { kind: 'replayed', id: seen.bound.id }, writes: completion }
  const position = before?.position ?? 1 + Math.max(-1, ...seen.bindings.map((binding) => binding.position))
  return {
    answer: { kind: 'yours', token, ...charge },
    writes: [
      ...failLost(seen.bound, at.now),
      {
        kind: 'bind',
        binding: { ...bindingOf(offered, call), position: position, status: 'sent' },
        authorization: offered,
      },
      { kind: 'patch', id: call.id, patch: { ...claim, claimKey: offered.key, claimFresh: true } },
    ],
  }
}

type Made = {
  readonly result: Json
  readonly expiresAt: number
  readonly usage?: Usage | null
  readonly charge?: Usdc
}

function completed({ result, expiresAt, usage, charge }: Made, now: number): RowPatch {
  return {
    workStatus: 'completed',
    endedAt: now,
    result,
    expiresAt,
    ...(usage && { usage }),
    ...(charge !== undefined && { charge }),
  }
}

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

// ── the rest of a call's life ───────────────────────────────────────────────────────────────────────────────────────

/**
 * Decides whether a worker may continue a call, and extends its lease to `until`. A call that was declared lost becomes
 * the worker's again while its authorization has served no other call: its first binding is then still its own, and
 * open.
 */
export function decideRenewal(
  call: Head | undefined,
  seen: { bindings: readonly Pick<AuthorizationBinding, 'position' | 'status'>[]; workerId: string },
  until: number,
): Decision<boolean> {
  if (!call || call.workerId !== seen.workerId) return withoutWrites(false)
  const { id } = call
  if (isUnfinished(call.workStatus))
    return {
      answer: true,
      writes: call.leaseExpiresAt < until ? [{ kind: 'patch', id, patch: { leaseExpiresAt: until } }] : [],
    }
  if (!wasLost(call) || !seen.bindings.some(({ position, status }) => position === 0 && status === 'open'))
    return withoutWrites(false)
  const work = call.startedAt === null ? 'queued' : 'in_progress'
  return {
    answer: true,
    writes: [
      {
        kind: 'patch',
        id,
        patch: { workStatus: work, error: null, endedAt: null, leaseExpiresAt: Math.max(until, call.leaseExpiresAt) },
      },
    ],
  }
}

/** Whether a compare-and-set on a call applies. */
export function mayMove(
  call: Pick<Head, 'workStatus' | 'paymentStatus' | 'workerId'> | undefined,
  from: { workStatus: readonly WorkStatus[]; workerId?: string; paymentStatus?: PaymentStatus },
): boolean {
  if (!call || !from.workStatus.includes(call.workStatus)) return false
  if (from.workerId !== undefined && from.workerId !== call.workerId) return false
  return from.paymentStatus === undefined || from.paymentStatus === call.paymentStatus
}

/** The fields that a patch may set. Others are ignored, so no caller can change a payment status outside the ledger. */
export const PATCHABLE = [
  'workStatus',
  'workerId',
  'leaseExpiresAt',
  'startedAt',
  'endedAt',
  'result',
  'error',
  'usage',
  'charge',
  'expiresAt',
  'vendorError',
] as const satisfies readonly (keyof CallPatch)[]

export function patchOf(patch: CallPatch): RowPatch {
  return Object.fromEntries(
    PATCHABLE.filter((field) => patch[field] !== undefined).map((field) => [field, patch[field]]),
  )
}

/**
 * Action of `prune` on a call. A settled call past its retention is emptied: its ledger columns stay. An unsettled one
 * is deleted once all its authorizations have expired or are free. One whose payment is in doubt stays.
 */
export function expiryAction(
  call: Head,
  bindings: readonly Pick<AuthorizationBinding, 'expiresAt'>[],
  now: number,
): 'none' | 'empty' | 'delete' {
  if (call.expiresAt > now || isUnfinished(call.workStatus)) return 'none'
  if (call.paymentStatus === 'settled') return call.emptied ? 'none' : 'empty'
  if (call.paymentStatus !== 'verified' && call.paymentStatus !== 'refused') return 'none'
  return isFree(call, now) || bindings.every((binding) => binding.expiresAt <= now) ? 'delete' : 'none'
}

/** Whether `pruneLedger` deletes this call. Its authorizations can move no money any more, so none can be replayed. */
export function isLedgerRowOver(
  call: Pick<Row, 'paymentStatus' | 'settledAt' | 'emptied'>,
  bindings: readonly Pick<AuthorizationBinding, 'expiresAt'>[],
  { before, now }: { before: number; now: number },
): boolean {
  const isOld = call.paymentStatus === 'settled' && call.emptied && (call.settledAt ?? Infinity) <= before
  return isOld && bindings.every((binding) => binding.expiresAt <= now)
}

/** Whether a call may leave the ledger for the archive: it is paid, and its result is gone. */
export function isArchivable(call: Pick<Row, 'paymentStatus' | 'emptied'>): boolean {
  return call.paymentStatus === 'settled' && call.emptied
}

// ── listings ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The columns of a ledger entry. */
export const ENTRY_FIELDS = [
  'id',
  'gateway',
  'endpoint',
  'model',
  'payer',
  'asset',
  'quote',
  'charge',
  'offer',
  'authorization',
  'createdAt',
  'workStatus',
  'paymentStatus',
  'startedAt',
  'endedAt',
  'error',
  'usage',
  'receipt',
  'settledAt',
  'expiresAt',
  'emptied',
  'quotedAt',
  'verifiedAt',
  'settlingAt',
  'vendorError',
  'paymentError',
  'paymentErrorAt',
  'settledBy',
] as const satisfies readonly (keyof LedgerEntry)[]

// ── records ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The record, unless it has expired at `now`. Expired records are treated as absent. */
export function unexpired<Record extends Pick<StoredRecord, 'expiresAt'>>(
  stored: Record | undefined,
  now: number,
): Record | undefined {
  return stored && stored.expiresAt > now ? stored : undefined
}

/** Whether a compare-and-set on a record applies. */
export function mayMoveRecord(
  stored: StoredRecord | undefined,
  change: { record: StoredRecord; from: Json; now: number },
): boolean {
  const current = unexpired(stored, change.now)
  return current !== undefined && isSame(current.data, change.from)
}

/** Whether two values are equal as JSON, whatever the order of keys: a database may reorder them. */
function isSame(one: Json, other: Json): boolean {
  if (one === other) return true
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return false
  if (Array.isArray(one) !== Array.isArray(other)) return false
  const [left, right] = [new Map(Object.entries<Json>(one)), new Map(Object.entries<Json>(other))]
  return (
    left.size === right.size &&
    [...left].every(([key, value]) => right.has(key) && isSame(value, right.get(key) as Json))
  )
}

// ── leases and rate windows ─────────────────────────────────────────────────────────────────────────────────────────

export type Lease = { readonly workerId: string; readonly expiresAt: number }

/** Whether a worker may take a lease: it is free, expired, or already its own. */
export function mayLease(current: Lease | undefined, workerId: string, now: number): boolean {
  return !current || current.workerId === workerId || current.expiresAt <= now
}

export type Window = { readonly used: number; readonly resetAt: number }

/**
 * Takes permits from a fixed window, which starts with its first permit. `window` is what to store, if anything
 * changed.
 */
export function takePermits(
  stored: Window | undefined,
  bucket: Bucket,
  request: { take: number; now: number },
): { answer: { granted: number; resetAt: number }; window: Window | undefined } {
  const running = stored && stored.resetAt > request.now ? stored : undefined
  const { used, resetAt } = running ?? { used: 0, resetAt: request.now + bucket.windowMs }
  const granted = Math.max(0, Math.min(request.take, bucket.limit - used))
  return { answer: { granted, resetAt }, window: granted > 0 ? { used: used + granted, resetAt } : undefined }
}

export function isUnfinished(work: WorkStatus): boolean {
  return work === 'queued' || work === 'in_progress'
}

/**
 * Fails a lost call whose authorization is about to serve another call. A call that has failed already needs no write.
 */
function failLost(call: Head | undefined, now: number): readonly Write[] {
  if (!call || !isLost(call, now)) return []
  return [{ kind: 'patch', id: call.id, patch: { workStatus: 'failed', error: LOST, endedAt: now } }]
}

function bindingOf(
  authorization: Authorization,
  call: Pick<Call, 'id' | 'payer'>,
): Omit<AuthorizationBinding, 'position' | 'status'> {
  return { key: authorization.key, call: call.id, payer: call.payer, expiresAt: authorization.expiresAt }
}

function withoutWrites<Answer>(answer: Answer): Decision<Answer> {
  return { answer, writes: [] }
}
