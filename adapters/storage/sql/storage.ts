/**
 * The verbs of a storage over any SQL database. Each is what it asks, what core decides on the answers, and what that
 * writes: one transaction. An authorization is locked by name before it is bound, a payer before the exposed calls are
 * summed, a call before it or its bindings change.
 */
import {
  type AuthorizationBinding,
  decideClaim,
  decideFinish,
  decideOpen,
  decidePaid,
  decideRenewal,
  expiryAction,
  type Head,
  HOURS_RETENTION_MS,
  isArchivable,
  isFree,
  isUnfinished,
  mayLease,
  mayMove,
  mayMoveRecord,
  needsSettled,
  patchOf,
  type RowPatch,
  SETTLED_LOOKBACK_MS,
  takePermits,
  UNCLAIMED,
  unexpired,
  type Write,
} from '../../../core/payment/mod.ts'
import type { Claim, NewCall, Opened, Recorded, Storage, StoredRecord } from '../../../core/ports/mod.ts'
import { copied } from '../copied.ts'
import { DatabaseError } from '../database_error.ts'
import { decided, decidedBy, type Decided, present, type SqlDatabase, weightOf } from './database.ts'
import { amountOf, ledgerReads } from './ledger_reads.ts'
import type { Query, Statement } from './statement.ts'
import type { Statements } from './statements.ts'

/** All verbs but `now`, which not every database answers, and `close`. */
type SqlStorage = Omit<Storage, 'now' | 'isShared' | 'close'>

export function sqlStorage(database: SqlDatabase): SqlStorage {
  const { read } = database
  const { call, callOf, lost, unfinished, unsettled, recordsOfOwner, listLedgerRows } = database.statements
  return {
    ...ledgerReads(database),
    ...openingVerbs(database),
    ...movingVerbs(database),
    ...settlementVerbs(database),
    ...recordVerbs(database),
    ...coordinationVerbs(database),
    ...retentionVerbs(database),

    getCall: (id) => read([[call, { id }]], ([[found]]) => found),

    callOf: (key, now) => read([[callOf, { key }]], ([[found]]) => (found && !isFree(found, now) ? found : undefined)),

    lostCalls: (now, limit) => read([[lost, { now, limit }]], ([found]) => found),

    unfinishedCalls: (workerId, at) => read([[unfinished, { workerId, ...at }]], ([found]) => found),

    unsettled: (before, limit, gateway = null as never) =>
      read([[unsettled, { before, limit, gateway }]], ([found]) => found),

    listRecords: (kind, owner, at) => read([[recordsOfOwner, { kind, owner, after: '', ...at }]], ([found]) => found),

    ledgerRows: (before, now, limit) => read([[listLedgerRows, { before, now, limit }]], ([found]) => found),
  }
}

// ── names of locks and turns ────────────────────────────────────────────────────────────────────────────────────────

const keyLock = (key: string) => `authorization ${key}`
const payerLock = ({ payer, asset }: Pick<NewCall, 'payer' | 'asset'>) => `payer ${JSON.stringify([payer, asset])}`
const callTurn = (id: string) => `call ${id}`
const recordLock = ({ kind, id }: Pick<StoredRecord, 'kind' | 'id'>) => `record ${JSON.stringify([kind, id])}`

// ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────────────

function openingVerbs(database: SqlDatabase): Pick<SqlStorage, 'openCall' | 'recordPaid'> {
  const { statements: ask, write } = database
  const perform = performer(database)

  return {
    openCall(...given) {
      const [call, authorization, at] = copied(given)
      const { key } = authorization
      const { cap, now } = at
      const wallet = { payer: call.payer, asset: call.asset, cap }
      return write({
        turn: payerLock(call),
        locks: [keyLock(key), payerLock(call)],
        payer: { payer: call.payer, asset: call.asset },
        ask: [
          [ask.bound, { key }],
          cap &&
            ([
              ask.exposedCalls,
              { ...wallet, now, since: cap.asOf - SETTLED_LOOKBACK_MS, block: cap.block ?? null },
            ] as const),
          needsSettled(cap) ? ([ask.hasPaid, wallet] as const) : undefined,
          needsSettled(cap) ? ([ask.paid, wallet] as const) : undefined,
        ],
        decide([[bound], exposedCalls, [hasPaid], [paid]]): Decided<Opened> {
          const settled = hasPaid && (() => present(paid && amountOf(paid), 'what a wallet has paid'))
          const { answer, writes } = decideOpen({ call, authorization }, { bound, exposedCalls, settled }, at)
          return answer.kind === 'replayed' ? replayed(ask, answer.id) : decided(perform(writes, bound?.id), answer)
        },
      })
    },

    recordPaid(...given) {
      const [order, authorization, { paid, ...at }] = copied(given)
      const { key } = authorization
      const { record } = paid.spent
      return write({
        turn: recordLock(record),
        locks: [keyLock(key), recordLock(record)],
        weight: weightOf(paid.result),
        ask: [
          [ask.bound, { key }],
          [ask.recordToMove, record],
        ],
        decide([[bound], [stored]]): Decided<Recorded> {
          const { answer, writes } = decidePaid({ call: order, authorization, paid }, { bound, record: stored }, at)
          if (answer.kind === 'replayed') return replayed(ask, answer.id)
          const patch = patchIn(writes, order.id)
          if (patch)
            database.noteSettlement?.({ ...order, charge: null, workStatus: 'completed', startedAt: null }, patch)
          return decided(perform(writes, bound?.id), answer)
        },
      })
    },
  }
}

function movingVerbs(database: SqlDatabase): Pick<SqlStorage, 'moveCall' | 'renew'> {
  const { statements: ask, write, batch } = database
  const perform = performer(database)

  return {
    moveCall(...given) {
      const [id, from, patch] = copied(given)
      return write({
        turn: callTurn(id),
        weight: weightOf(patch.result),
        ask: [[ask.head, { id }]],
        decide: ([[head]]) =>
          mayMove(head, from) ? decided(database.patch(id, patchOf(patch)), true) : decided([], false),
      })
    },

    async renew(workerId, ids, until) {
      const renewed: string[] = []
      // At least one step, so that renewing nothing still shows whether the database can be reached.
      for (let from = 0; from === 0 || from < ids.length; from += batch) {
        const some = { ids: ids.slice(from, from + batch) }
        const step = write({
          turn: `worker ${workerId}`,
          ask: [
            [ask.headsAmong, some],
            [ask.bindingsAmong, some],
          ],
          decide: ([heads, bindings]) => renewal({ heads, bindings, workerId, until }),
        })
        renewed.push(...(await step))
      }
      return renewed
    },
  }

  /** Calls whose lease is only extended are written in one statement. */
  function renewal(seen: Renewing): Decided<readonly string[]> {
    const { heads, bindings, workerId, until } = seen
    const each = heads.map((head) => ({
      head,
      ...decideRenewal(head, { bindings: bindings.filter(({ call }) => call === head.id), workerId }, until),
    }))
    const longer = each.filter(({ head, writes }) => isUnfinished(head.workStatus) && writes.length > 0)
    const back = each.filter(({ head }) => !isUnfinished(head.workStatus))
    const extended = { ids: longer.map(({ head }) => head.id), leaseExpiresAt: until }
    return decided(
      [
        ...(longer.length > 0 ? [[ask.renew, extended] as const] : []),
        ...back.flatMap(({ writes }) => perform(writes)),
      ],
      each.flatMap(({ head, answer }) => (answer ? [head.id] : [])),
    )
  }
}

type Renewing = {
  readonly heads: readonly Head[]
  readonly bindings: readonly AuthorizationBinding[]
  readonly workerId: string
  readonly until: number
}

// ── settlement ──────────────────────────────────────────────────────────────────────────────────────────────────────

function settlementVerbs(database: SqlDatabase): Pick<SqlStorage, 'claimSettlement' | 'finishSettlement'> {
  const { statements: ask, write } = database
  const perform = performer(database)

  return {
    claimSettlement(...given) {
      const [id, offered, at] = copied(given)
      const key = offered?.key ?? null
      return write({
        turn: callTurn(id),
        locks: key === null ? [] : [keyLock(key)],
        weight: weightOf(at.result?.result),
        ask: [
          [ask.pair, { id, key }],
          [ask.bindingsOrKey, { id, key }],
        ],
        decide([heads, found]): Decided<Claim> {
          const bindings = found.filter(({ call }) => call === id).toSorted((a, b) => a.position - b.position)
          const elsewhere = found.find(({ call }) => call !== id)?.call
          const headOf = (call: string) => heads.find((head) => head.id === call)
          const bound = elsewhere === undefined ? undefined : headOf(elsewhere)
          // The authorization was bound to another call between the two reads.
          if (elsewhere !== undefined && !bound)
            throw new DatabaseError('undone', '', 'the rows have changed meanwhile')
          const { answer, writes } = decideClaim(headOf(id), { bindings, offered, bound }, at)
          const steps = perform(writes, found.find((binding) => binding.key === offered?.key)?.call)
          if (answer.kind === 'replayed') return replayed(ask, answer.id, steps)
          if (answer.kind !== 'retry') return decided(steps, answer)
          const { key, ...rest } = answer
          return decidedBy(steps, [ask.signed, { key }], ([row]) => ({
            ...rest,
            authorization: present(row?.signed, `authorization ${key}`),
          }))
        },
      })
    },

    finishSettlement(...given) {
      const [id, token, outcome, at] = copied(given)
      return write({
        turn: callTurn(id),
        ask: [
          [ask.head, { id }],
          [ask.bindings, { id }],
        ],
        decide([[head], bindings]) {
          const { answer, writes } = decideFinish(head, { bindings, token, outcome }, at)
          const patch = patchIn(writes, id)
          if (head && patch) database.noteSettlement?.(head, patch)
          return decided(perform(writes), answer)
        },
      })
    },
  }
}

// ── records, leases and rate windows ────────────────────────────────────────────────────────────────────────────────

function recordVerbs(database: SqlDatabase): Pick<SqlStorage, 'putRecord' | 'moveRecord'> {
  const { statements: ask, write } = database

  /** Stores the record where `may` allows it, given the one that is stored. */
  const stored = (record: StoredRecord, may: (stored: StoredRecord | undefined) => boolean) =>
    write({
      turn: recordLock(record),
      locks: [recordLock(record)],
      ask: [[ask.recordToMove, record]],
      decide: ([[found]]) =>
        may(found) ? decided([[found ? ask.upsertRecord : ask.insertRecord, record]], true) : decided([], false),
    })

  return {
    putRecord(...given) {
      const [record, now] = copied(given)
      return stored(record, (found) => !unexpired(found, now))
    },

    moveRecord(...given) {
      const [record, from, now] = copied(given)
      return stored(record, (found) => mayMoveRecord(found, { record, from, now }))
    },
  }
}

function coordinationVerbs({ statements: ask, write }: SqlDatabase): Pick<SqlStorage, 'lease' | 'hit'> {
  return {
    lease: (name, workerId, { now, until }) =>
      write({
        turn: `lease ${name}`,
        locks: [`lease ${name}`],
        ask: [[ask.lease, { name }]],
        decide: ([[current]]) =>
          mayLease(current, workerId, now)
            ? decided([[current ? ask.upsertLease : ask.insertLease, { name, workerId, expiresAt: until }]], true)
            : decided([], false),
      }),

    hit: (bucket, take, now) =>
      write({
        turn: `window ${bucket.key}`,
        locks: [`window ${bucket.key}`],
        ask: [[ask.window, { key: bucket.key }]],
        decide([[stored]]) {
          const { answer, window } = takePermits(stored, bucket, { take, now })
          const store = stored ? ask.upsertWindow : ask.insertWindow
          return decided(window ? [[store, { key: bucket.key, ...window }]] : [], answer)
        },
      }),
  }
}

// ── retention ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** The last call that `prune` has visited. */
type PruneCursor = { readonly dueAt: number; readonly id: string }

function retentionVerbs(database: SqlDatabase): Pick<SqlStorage, 'prune' | 'pruneLedger' | 'archiveCalls'> {
  const { statements: ask, write, batch } = database
  const deleted = (ids: readonly string[]): readonly Query[] => [
    [ask.unbindAmong, { ids }],
    [ask.deleteAmong, { ids }],
  ]

  /** One bounded step of `prune` over calls, starting after `from`. */
  const pruneCalls = (now: number, from: PruneCursor) =>
    write({
      turn: 'prune',
      ask: [
        [ask.expiring, { now, ...from, limit: batch }],
        (heads: readonly Head[]) => [ask.bindingsAmong, { ids: heads.map(({ id }) => id) }] as const,
      ],
      decide([heads, bindings]) {
        const of = (head: Head) => bindings.filter(({ call }) => call === head.id)
        const [old, over] = (['empty', 'delete'] as const).map((action) =>
          heads.filter((head) => expiryAction(head, of(head), now) === action).map(({ id }) => id),
        ) as [string[], string[]]
        const early = heads.filter(({ expiresAt }) => expiresAt > now).map(({ id }) => id)
        const last = heads.length < batch ? undefined : heads.at(-1)
        const emptied = [ask.emptyAmong, ask.clearSignedAmong].map((each) => [each, { ids: old }] as const)
        const writes: readonly Query[] = [
          ...(old.length > 0 ? emptied : []),
          ...(early.length > 0 ? [[ask.postponeAmong, { ids: early }] as const] : []),
          ...(over.length > 0 ? deleted(over) : []),
        ]
        return decided(writes, { touched: old.length + over.length, last })
      },
    })

  /** Deletes some that are stale. Returns how many. */
  const pruneSome = (stale: Statement<object>, now: number) =>
    write({
      turn: 'prune',
      ask: [],
      decide: () => decidedBy([], [stale, { now, limit: batch }], (gone) => gone.length),
    })

  return {
    async prune(now) {
      let touched = 0
      for (let from: PruneCursor | undefined = { dueAt: Number.MIN_SAFE_INTEGER, id: '' }; from;) {
        const step: { touched: number; last: PruneCursor | undefined } = await pruneCalls(now, from)
        touched += step.touched
        from = step.last
      }
      const stale: Query = [ask.staleTotals, { before: now - HOURS_RETENTION_MS }]
      await write({ turn: 'prune', ask: [], decide: () => decided([stale], undefined) })
      for (const each of [ask.staleRecords, ask.staleLeases, ask.staleWindows]) {
        for (let gone = batch; gone === batch; touched += gone) gone = await pruneSome(each, now)
      }
      return touched
    },

    async pruneLedger(before, now) {
      let count = 0
      for (;;) {
        const found = await write({
          turn: 'prune',
          ask: [[ask.overLedgerRows, { before, now, limit: batch }]],
          decide([over]) {
            const ids = over.map(({ id }) => id)
            return decided(ids.length > 0 ? deleted(ids) : [], ids.length)
          },
        })
        count += found
        if (found < batch) return count
      }
    },

    archiveCalls: (ids, day) =>
      write({
        turn: 'prune',
        ask: [[ask.headsAmong, { ids }]],
        decide([heads]) {
          const leaving = heads.filter((head) => isArchivable(head)).map(({ id }) => id)
          const writes: readonly Query[] = [[ask.countArchived, { ids: leaving, day }], ...deleted(leaving)]
          return decided(leaving.length > 0 ? writes : [], leaving.length)
        },
      }),
  }
}

// ── writes of the ledger ────────────────────────────────────────────────────────────────────────────────────────────

/** `boundTo` is the call that the authorization which is bound has served so far. */
type Perform = (writes: readonly Write[], boundTo?: string) => readonly Query[]

function performer({ statements: ask, patch, insertChanged }: SqlDatabase): Perform {
  const queriesOf = (step: Write, boundTo: string | null): readonly Query[] => {
    if (step.kind === 'insert') return [[ask.insertCall, { ...step.call, ...UNCLAIMED, ...step.notes }]]
    if (step.kind === 'patch') return patch(step.id, step.patch)
    if (step.kind === 'bind') return [[ask.bind, { ...step.binding, signed: step.authorization, boundTo }]]
    if (step.kind === 'mark') return [[ask.setStatus, { key: step.key, status: step.status }]]
    if (step.kind === 'record') return [[ask.upsertRecord, step.record]]
    return [[ask.unbind, { key: step.key }]]
  }
  return (writes, boundTo) => {
    const insert = insertChanged && writes.find((step) => step.kind === 'insert')
    const change = insert && patchIn(writes, insert.call.id)
    return writes.flatMap((step) => {
      if (change && step === insert) return insertChanged({ ...insert.call, ...UNCLAIMED, ...insert.notes }, change)
      if (change && step.kind === 'patch' && step.id === insert.call.id) return []
      return queriesOf(step, boundTo ?? null)
    })
  }
}

/** The call that an authorization serves already. */
function replayed({ call }: Statements, id: string, writes: readonly Query[] = []) {
  return decidedBy(writes, [call, { id }], ([found]) => ({
    kind: 'replayed' as const,
    call: present(found, `call ${id}`),
  }))
}

function patchIn(writes: readonly Write[], id: string): RowPatch | undefined {
  return writes.flatMap((each) => (each.kind === 'patch' && each.id === id ? [each.patch] : []))[0]
}
