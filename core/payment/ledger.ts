/**
 * The safety of money, as pure decisions (decisions 4, 12, 15, 18). A storage reads the rows that a function here asks for,
 * performs its `writes` in order and gives its `answer`, all in one atomic step. Storages decide nothing themselves.
 */
import { type BindingStatus, type ExposedCall, isSpendable, judgeCap } from './exposure.ts'
import { parseAtomic, type Usdc } from '../x402/money.ts'
import type {
  Authorization,
  Bucket,
  Call,
  CallPatch,
  Cap,
  PaymentStatus,
  NewCall,
  Outcome,
  OverWhy,
  StoredRecord,
  Usage,
  WorkStatus,
} from '../ports/mod.ts'
import type { Json } from '../lib/json.ts'
import type { Receipt } from '../x402/protocol.ts'

// ── rows ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Ties one authorization to the one call that it may pay for; `key` is unique over all calls of all gateways. */
export type AuthorizationBinding = {
  readonly key: string
  /** Id of the call, and its payer, by whom exposure is found. */
  readonly call: string
  readonly payer: string
  /** 0 for the authorization that opened the call; later ones count up. Lower places are resolved first. */
  readonly position: number
  readonly status: BindingStatus
  /** When the authorization can no longer move money. */
  readonly expiresAt: number
}

/** Who may settle a call: what a stored call carries beside what the port shows. */
export type ClaimFields = {
  /** The last token handed out; 0 before the first. */
  readonly claimToken: number
  /** When the last claim runs out, or was ended; null before the first. `unsettled` is ordered by it. */
  readonly claimExpiresAt: number | null
  /** The authorization that the token was given for; null once the claim has ended, and then the token is stale. */
  readonly claimKey: string | null
  /** That authorization had never been handed out before, so a refusal proves that nothing was sent. */
  readonly claimFresh: boolean
  /** Request and result are gone; the ledger's part of the row stays. */
  readonly emptied: boolean
}

export type Row = Call &
  ClaimFields & {
    /** What the receipt says was paid. Null until then, and where it was never written down: then it was the quote. */
    readonly paid: Usdc | null
  }
export type RowPatch = Partial<Omit<Row, 'id'>>

/** The part of a row that decisions read; whole rows fit, too. */
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
  | keyof ClaimFields
>

/** How a new row begins. */
export const UNCLAIMED: ClaimFields & Pick<Row, 'paid'> = {
  claimToken: 0,
  claimExpiresAt: null,
  claimKey: null,
  claimFresh: false,
  emptied: false,
  paid: null,
}

// ── decisions ───────────────────────────────────────────────────────────────────────────────────────────────────────

export type Write =
  /** A new row, UNCLAIMED. */
  | { readonly kind: 'insert'; readonly call: Call }
  | { readonly kind: 'patch'; readonly id: string; readonly patch: RowPatch }
  /** Inserts the bond, or takes over the one with this key, with all that belongs to it. */
  | { readonly kind: 'bind'; readonly binding: AuthorizationBinding; readonly authorization: Authorization }
  | { readonly kind: 'mark'; readonly key: string; readonly status: BindingStatus }
  /** Deletes the bond: its authorization serves no call. */
  | { readonly kind: 'free'; readonly key: string }

export type Decision<Answer> = { readonly answer: Answer; readonly writes: readonly Write[] }

/** `Opened`, with the id of a call that the storage still has to read. */
export type OpenAnswer =
  | { kind: 'opened'; call: Call; atLimit?: true }
  | { kind: 'replayed'; id: string }
  | { kind: 'over'; sum: Usdc; why?: OverWhy }

/** `Claim`, with ids and keys of what the storage still has to read. */
export type ClaimAnswer =
  | { kind: 'yours'; token: number }
  | { kind: 'retry'; token: number; key: string; sent: boolean }
  | { kind: 'taken'; until: number }
  | { kind: 'settled'; receipt: Receipt }
  | { kind: 'replayed'; id: string }
  | { kind: 'nothing' }

/** What a buyer reads when the process that did the work went away. */
export const LOST = 'The work was lost when the server stopped. Nothing was charged.'

/** Owner of a call whose work goes on at its vendor's place: no process, so it outlives them all. */
export const UPSTREAM_JOB = 'held upstream'

// ── opening ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Unfinished, past its owner's promise, and no settlement begun. */
export function isLost(call: Pick<Head, 'workStatus' | 'paymentStatus' | 'leaseExpiresAt'>, now: number): boolean {
  return isUnfinished(call.workStatus) && call.paymentStatus === 'verified' && call.leaseExpiresAt <= now
}

/** It was declared lost. Its owner may have been alive: slow, frozen, or without a way to the storage. */
export function wasLost(call: Pick<Head, 'workStatus' | 'paymentStatus' | 'error'>): boolean {
  return call.workStatus === 'failed' && call.paymentStatus === 'verified' && call.error === LOST
}

/** The call has no more use for its authorization, which was never handed out: another call may have it. */
export function isFree(call: Pick<Head, 'workStatus' | 'paymentStatus' | 'leaseExpiresAt'>, now: number): boolean {
  return (call.workStatus === 'failed' && call.paymentStatus === 'verified') || isLost(call, now)
}

/**
 * `bound` is the call that the authorization serves so far; `debts` all that may count against the payer in this asset, needed
 * only with a cap, and `hasPaid` whether it has a settled call in it, needed only with `cap.newWallet`. One row too many does no
 * harm, one too few lets a payer spend the same balance twice.
 */
export function decideOpen(
  asked: { call: NewCall; authorization: Authorization },
  seen: { bound: Head | undefined; exposedCalls: Iterable<ExposedCall>; hasPaid?: boolean },
  at: { now: number; until: number; lostBy?: number; cap?: Cap },
): Decision<OpenAnswer> {
  const { authorization } = asked
  const { bound } = seen
  if (bound && !isFree(bound, at.lostBy ?? at.now)) return only({ kind: 'replayed', id: bound.id })
  const judged =
    at.cap &&
    judgeCap(
      asked.call,
      { exposedCalls: seen.exposedCalls, hasPaid: seen.hasPaid ?? false },
      { now: at.now, without: bound?.id, cap: at.cap },
    )
  if (judged?.kind === 'over') return only(judged)
  const call: Call = {
    ...asked.call,
    authorization: authorization.key,
    workStatus: 'queued',
    paymentStatus: 'verified',
    leaseExpiresAt: at.until,
    startedAt: null,
    endedAt: null,
    result: null,
    error: null,
    usage: null,
    receipt: null,
    settledAt: null,
  }
  const binding: AuthorizationBinding = { ...bindingOf(authorization, call), position: 0, status: 'open' }
  return {
    answer: { kind: 'opened', call, ...(judged?.atLimit && { atLimit: true }) },
    writes: [...letGo(bound, at.now), { kind: 'insert', call }, { kind: 'bind', binding, authorization }],
  }
}

// ── settling ────────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Who may settle, and with which authorization: always the earliest that is neither dead nor paid. `bonds` are all of the call's
 * by place; `bound` is the other call that `offered` serves so far. With `owner`, who made the result: his call that was declared lost
 * is completed as well, and paid with its authorization where that serves no other call.
 */
export function decideClaim(
  call: Head | undefined,
  seen: { bindings: readonly AuthorizationBinding[]; offered: Authorization | undefined; bound: Head | undefined },
  at: { now: number; until: number; lostBy?: number; result?: Made; workerId?: string },
): Decision<ClaimAnswer> {
  if (!call) return only({ kind: 'nothing' })
  const isBack = at.workerId === call.workerId && wasLost(call)
  const done =
    at.result && (isUnfinished(call.workStatus) || isBack)
      ? { ...completed(at.result, at.now), ...(isBack && { error: null }) }
      : undefined
  const kept: readonly Write[] = done ? [{ kind: 'patch', id: call.id, patch: done }] : []
  if (!done && call.workStatus !== 'completed') return only({ kind: 'nothing' })
  if (call.receipt && call.paymentStatus === 'settled')
    return { answer: { kind: 'settled', receipt: call.receipt }, writes: kept }
  if (call.claimKey !== null && call.claimExpiresAt !== null && call.claimExpiresAt > at.now) {
    return { answer: { kind: 'taken', until: call.claimExpiresAt }, writes: kept }
  }

  const token = call.claimToken + 1
  const claim = { ...done, paymentStatus: 'settling', claimToken: token, claimExpiresAt: at.until } as const
  const first = seen.bindings.find((binding) => isSpendable(binding.status))
  const { offered } = seen
  if (first) {
    const fresh = first.status === 'open'
    // What has ended is asked about, not sent (`spend` in calls.ts): it must not count as sent after a crash.
    const isOver = first.expiresAt <= at.now
    const patch: RowPatch = { ...claim, claimKey: first.key, claimFresh: fresh }
    const mine = fresh && first.key === offered?.key
    return {
      answer: mine ? { kind: 'yours', token } : { kind: 'retry', token, key: first.key, sent: !fresh },
      writes: [
        { kind: 'patch', id: call.id, patch },
        ...(fresh && !isOver ? [{ kind: 'mark', key: first.key, status: 'sent' } as const] : []),
      ],
    }
  }
  // An authorization of ours that got here is dead or paid: it has nothing left to send.
  if (!offered || seen.bindings.some((binding) => binding.key === offered.key))
    return { answer: { kind: 'nothing' }, writes: kept }
  if (seen.bound && !isFree(seen.bound, at.lostBy ?? at.now))
    return { answer: { kind: 'replayed', id: seen.bound.id }, writes: kept }
  const place = 1 + Math.max(-1, ...seen.bindings.map((binding) => binding.position))
  return {
    answer: { kind: 'yours', token },
    writes: [
      ...letGo(seen.bound, at.now),
      {
        kind: 'bind',
        binding: { ...bindingOf(offered, call), position: place, status: 'sent' },
        authorization: offered,
      },
      { kind: 'patch', id: call.id, patch: { ...claim, claimKey: offered.key, claimFresh: true } },
    ],
  }
}

type Made = { readonly result: Json; readonly expiresAt: number; readonly usage?: Usage | null }

function completed({ result, expiresAt, usage }: Made, now: number): RowPatch {
  return { workStatus: 'completed', endedAt: now, result, expiresAt, ...(usage && { usage }) }
}

/** What came of a claim. Only `paid` is believed without the current token: money that moved has moved. */
export function decideFinish(
  call: Head | undefined,
  seen: { bindings: readonly AuthorizationBinding[]; token: number; outcome: Outcome },
  at: { now: number; expiresAt?: number },
): Decision<boolean> {
  if (!call) return only(false)
  const { outcome } = seen
  if (call.paymentStatus === 'settled') return only(outcome.kind === 'paid')
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
      paid: parseAtomic(receipt.amount) ?? null,
      settledAt: at.now,
    }
    const paid: readonly Write[] = binding ? [{ kind: 'mark', key: binding.key, status: 'paid' }] : []
    return { answer: true, writes: [{ kind: 'patch', id: call.id, patch }, ...paid] }
  }
  if (!binding) return only(false)
  const end = (money: PaymentStatus, ...rest: Write[]): Decision<boolean> => ({
    answer: true,
    writes: [{ kind: 'patch', id: call.id, patch: { ...ended, paymentStatus: money } }, ...rest],
  })
  if (outcome.kind === 'unknown') return end('settling', { kind: 'mark', key: binding.key, status: 'sent' })
  if (outcome.kind === 'unresolved') return end('unresolved', { kind: 'mark', key: binding.key, status: 'sent' })

  const inDoubt = seen.bindings.some((each) => each.key !== binding.key && each.status === 'sent')
  const money = inDoubt ? 'settling' : 'refused'
  if (outcome.kind === 'dead') return end(money, { kind: 'mark', key: binding.key, status: 'dead' })
  if (!call.claimFresh) return end('settling')
  if (binding.position === 0) return end(money, { kind: 'mark', key: binding.key, status: 'open' })
  return end(money, { kind: 'free', key: binding.key })
}

// ── the rest of a call's life ───────────────────────────────────────────────────────────────────────────────────────

/**
 * Whether an owner may go on with a call, which he then has until the time that he promises. A call that was declared lost is his again while
 * its authorization has served no other call: its first bond is then still its own, and open.
 */
export function decideRenewal(
  call: Head | undefined,
  seen: { bindings: readonly Pick<AuthorizationBinding, 'position' | 'status'>[]; workerId: string },
  until: number,
): Decision<boolean> {
  if (!call || call.workerId !== seen.workerId) return only(false)
  const { id } = call
  if (isUnfinished(call.workStatus))
    return {
      answer: true,
      writes: call.leaseExpiresAt < until ? [{ kind: 'patch', id, patch: { leaseExpiresAt: until } }] : [],
    }
  if (!wasLost(call) || !seen.bindings.some(({ position, status }) => position === 0 && status === 'open'))
    return only(false)
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

/** Whether a compare-and-set over a call applies. */
export function mayMove(
  call: Pick<Head, 'workStatus' | 'paymentStatus' | 'workerId'> | undefined,
  from: { workStatus: readonly WorkStatus[]; workerId?: string; paymentStatus?: PaymentStatus },
): boolean {
  if (!call || !from.workStatus.includes(call.workStatus)) return false
  if (from.workerId !== undefined && from.workerId !== call.workerId) return false
  return from.paymentStatus === undefined || from.paymentStatus === call.paymentStatus
}

/** The fields that a patch may name; anything else in it is ignored, so that no caller moves money past the ledger. */
export const PATCHABLE = [
  'workStatus',
  'workerId',
  'leaseExpiresAt',
  'startedAt',
  'endedAt',
  'result',
  'error',
  'usage',
  'expiresAt',
] as const satisfies readonly (keyof CallPatch)[]

export function patchOf(patch: CallPatch): RowPatch {
  return Object.fromEntries(
    PATCHABLE.filter((field) => patch[field] !== undefined).map((field) => [field, patch[field]]),
  )
}

/**
 * What becomes of a call past its life. A settled one is emptied, its ledger row stays. An unsettled one is forgotten once none of
 * its authorizations could pay any more, or once they are free anyhow. One whose money is in doubt is kept.
 */
export function afterlife(
  call: Head,
  bindings: readonly Pick<AuthorizationBinding, 'expiresAt'>[],
  now: number,
): 'keep' | 'empty' | 'forget' {
  if (call.expiresAt > now || isUnfinished(call.workStatus)) return 'keep'
  if (call.paymentStatus === 'settled') return call.emptied ? 'keep' : 'empty'
  if (call.paymentStatus !== 'verified' && call.paymentStatus !== 'refused') return 'keep'
  return isFree(call, now) || bindings.every((binding) => binding.expiresAt <= now) ? 'forget' : 'keep'
}

// ── owned records ───────────────────────────────────────────────────────────────────────────────────────────────────

/** What is left of a record at `now`. */
export function alive<Record extends Pick<StoredRecord, 'expiresAt'>>(
  stored: Record | undefined,
  now: number,
): Record | undefined {
  return stored && stored.expiresAt > now ? stored : undefined
}

/** Whether a compare-and-set over a record applies. A record never changes hands. */
export function mayMoveRecord(
  stored: StoredRecord | undefined,
  asked: { record: StoredRecord; from: Json; now: number },
): boolean {
  const held = alive(stored, asked.now)
  return held !== undefined && held.owner === asked.record.owner && isSame(held.data, asked.from)
}

/** Equal as JSON: a database may have put the keys of an object in another order. */
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

/** A lease may be taken when it is free, its own, or has run out. */
export function mayLease(held: Lease | undefined, owner: string, now: number): boolean {
  return !held || held.workerId === owner || held.expiresAt <= now
}

export type Window = { readonly used: number; readonly resetAt: number }

/** Permits from a fixed window, which begins with the first permit taken from it. `window` is what to store, if anything changed. */
export function takePermits(
  stored: Window | undefined,
  bucket: Bucket,
  asked: { take: number; now: number },
): { answer: { granted: number; resetAt: number }; window: Window | undefined } {
  const running = stored && stored.resetAt > asked.now ? stored : undefined
  const { used, resetAt } = running ?? { used: 0, resetAt: asked.now + bucket.windowMs }
  const granted = Math.max(0, Math.min(asked.take, bucket.limit - used))
  return { answer: { granted, resetAt }, window: granted > 0 ? { used: used + granted, resetAt } : undefined }
}

export function isUnfinished(work: WorkStatus): boolean {
  return work === 'queued' || work === 'in_progress'
}

/** Fails a lost call whose authorization is about to serve another; a failed one needs nothing. */
function letGo(call: Head | undefined, now: number): readonly Write[] {
  if (!call || !isLost(call, now)) return []
  return [{ kind: 'patch', id: call.id, patch: { workStatus: 'failed', error: LOST, endedAt: now } }]
}

function bindingOf(
  authorization: Authorization,
  call: Pick<Call, 'id' | 'payer'>,
): Omit<AuthorizationBinding, 'position' | 'status'> {
  return { key: authorization.key, call: call.id, payer: call.payer, expiresAt: authorization.expiresAt }
}

function only<Answer>(answer: Answer): Decision<Answer> {
  return { answer, writes: [] }
}
