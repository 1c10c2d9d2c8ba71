import { type ExposedCall, needsSettled, SETTLED_LOOKBACK_MS } from '../../../core/payment/exposure.ts'
import {
  type AuthorizationBinding,
  type ClaimAnswer,
  type Head,
  type OpenAnswer,
  type PaidAnswer,
  type RowPatch,
  UNCLAIMED,
  type Write,
  expiryAction,
  unexpired,
  decideClaim,
  decideFinish,
  decideOpen,
  decidePaid,
  decideRenewal,
  isArchivable,
  isFree,
  isUnfinished,
  mayLease,
  mayMove,
  mayMoveRecord,
  patchOf,
  takePermits,
} from '../../../core/payment/ledger.ts'
import type { Call, Claim, NewCall, Opened, Recorded, StoredRecord, Storage } from '../../../core/ports/mod.ts'
import { HOURS_RETENTION_MS } from '../../../core/payment/reports/call_totals.ts'
import { summed } from '../../../core/payment/spend_report.ts'
import { spendOfTotal, wholeDays } from '../spend_total.ts'
import { copied } from '../copied.ts'
import { databases } from '../databases.ts'
import { named, oldestFirst, tailOf } from '../named_calls.ts'
import { staleTotals, totalsReads } from './call_totals.ts'
import { type Limits, type Send, type Migration, connections } from './connections.ts'
import type { Statement } from './statement.ts'
import { ask, patching } from './statements.ts'

/** Rows that one step of `prune` or `renew` reads: bounds how long it locks them. */
const BATCH = 256

/** The last call that `prune` has visited, by expiry and id. */
type PruneCursor = { readonly expiresAt: number; readonly id: string }

export type PostgresStorage = Storage & {
  /** Connects and migrates. Rejects, with a message for the operator, where every verb would fail. */
  ready(): Promise<void>
  /**
   * Why this process can use the database no longer, since a newer version has upgraded it; undefined while it can.
   * Every verb rejects then.
   */
  refusal(): string | undefined
}

/**
 * A storage in one Postgres database, for any number of processes (decision 23). Each verb is a transaction at READ
 * COMMITTED: it locks, in the same order everywhere; core decides on what it reads under the locks; then it writes. An
 * authorization is locked by name before it is bound, a payer before the exposed calls are summed, a call before it or
 * its bindings change.
 */
export function postgresStorage(url: string, options: Limits = {}): PostgresStorage {
  const { ready, read, write, checkSchema, refusal, close } = connections(url, options)

  return {
    ...databases.postgres,
    ready,

    openCall(...given) {
      const [call, authorization, at] = copied(given)
      const { key } = authorization
      const payer = payerOf(call)
      return write({
        turn: payer,
        locks: [keyOf(key), payer],
        read: (send) =>
          Promise.all([
            send(ask.bound, { key }),
            at.cap ? exposedCalls(send, call, { now: at.now, asOf: at.cap.asOf }) : [],
            needsSettled(at.cap) ? send(ask.paid, { payer: call.payer, asset: call.asset }) : [],
          ]),
        write([[bound], exposed, [paid]], send) {
          const { answer, writes } = decideOpen(
            { call, authorization },
            { bound, exposedCalls: exposed, settled: paid?.sum ?? undefined },
            at,
          )
          return after(perform(writes, send), opened(answer, send))
        },
      })
    },

    recordPaid(...given) {
      const [order, authorization, { paid, ...at }] = copied(given)
      const { key } = authorization
      const { record } = paid.spent
      return write({
        turn: recordLock(record),
        locks: [keyOf(key), recordLock(record)],
        read: (send) => Promise.all([send(ask.bound, { key }), send(ask.record, record)]),
        write([[bound], [stored]], send) {
          const { answer, writes } = decidePaid({ call: order, authorization, paid }, { bound, record: stored }, at)
          return after(perform(writes, send), recorded(answer, send))
        },
      })
    },

    refusal,

    async now() {
      const time = read(async (send) => present((await send(ask.now, {}))[0], 'its time').now)
      // Asked for several times per lease, so a replica that cannot go on notices without a buyer.
      const [now] = await Promise.all([time, checkSchema()])
      return now
    },

    getCall: (id) => read((send) => send(ask.call, { id }).then(first)),

    callOf: (key, now) =>
      read(async (send) => {
        const [found] = await send(ask.callOf, { key })
        return found && !isFree(found, now) ? found : undefined
      }),

    moveCall(...given) {
      const [id, from, patch] = copied(given)
      return write({
        turn: callOf(id),
        read: (send) => send(ask.head, { id }),
        async write([head], send) {
          if (!mayMove(head, from)) return false
          await patchCall(id, patchOf(patch), send)
          return true
        },
      })
    },

    async renew(workerId, ids, until) {
      const renewed: string[] = []
      // At least one step, so that renewing nothing still shows whether the database can be reached.
      for (let from = 0; from === 0 || from < ids.length; from += BATCH) {
        renewed.push(...(await write(renewStep(workerId, ids.slice(from, from + BATCH), until))))
      }
      return renewed
    },

    lostCalls: (now, limit) => read((send) => send(ask.lost, { now, limit })),

    unfinishedCalls: (workerId, at) => read((send) => send(ask.unfinished, { workerId, ...at })),

    claimSettlement(...given) {
      const [id, offered, at] = copied(given)
      const key = offered?.key ?? null
      return write({
        turn: callOf(id),
        locks: key === null ? [] : [keyOf(key)],
        read: (send) => Promise.all([send(ask.pair, { id, key }), send(ask.bindings, { id, key })]),
        write([heads, found], send) {
          const bindings = found.filter((binding) => binding.call === id)
          const elsewhere = found.find((binding) => binding.call !== id)
          const bound =
            elsewhere &&
            present(
              heads.find((head) => head.id === elsewhere.call),
              `call ${elsewhere.call}`,
            )
          const call = heads.find((head) => head.id === id)
          const { answer, writes } = decideClaim(call, { bindings, offered, bound }, at)
          return after(perform(writes, send), claimed(answer, send))
        },
      })
    },

    finishSettlement(...given) {
      const [id, token, outcome, at] = copied(given)
      return write({
        turn: callOf(id),
        read: (send) => Promise.all([send(ask.head, { id }), send(ask.bindings, { id, key: null })]),
        write([[head], bindings], send) {
          const { answer, writes } = decideFinish(head, { bindings, token, outcome }, at)
          return after(perform(writes, send), Promise.resolve(answer))
        },
      })
    },

    unsettled: (before, limit, gateway) =>
      read((send) => send(ask.unsettled, { before, limit, gateway: gateway ?? null })),

    spendByModel: (payer, since) =>
      read(async (send) => {
        const { day, until } = wholeDays(since)
        const [first, totals] = await Promise.all([
          send(ask.spent, { payer, since, until }),
          send(ask.spendTotals, { payer, day }),
        ])
        return summed([...first, ...totals.map(spendOfTotal)])
      }),

    ...totalsReads(read),

    listOpen: (limit) =>
      read(async (send) => {
        const found = await Promise.all([send(ask.listedUnfinished, { limit }), send(ask.listedInDoubt, { limit })])
        return found.flat().toSorted(oldestFirst)
      }),

    listCalls: ({ payer, since, until, after: last = { at: until, id: '' }, limit }) =>
      read((send) =>
        payer === undefined
          ? send(ask.listed, { since, ...last, limit })
          : send(ask.listedOfPayer, { payer, since, ...last, limit }),
      ),

    listSettled: ({ since, after: last = { at: since, id: '' }, limit }) =>
      read((send) => send(ask.listedSettled, { ...last, limit })),

    findCalls: (name, limit) =>
      read(async (send) => {
        const tail = tailOf(name)
        const [byId, byKey, byNonce, byTransaction] = await Promise.all([
          send(ask.entry, { name }),
          send(ask.entriesByKey, { name }),
          tail === undefined ? [] : send(ask.entriesByNonce, { tail }),
          tail === undefined ? [] : send(ask.entriesByTransaction, { tail }),
        ])
        return named(name, { exact: [...byId, ...byKey], byNonce, byTransaction }, limit)
      }),

    listAuthorizations: (call) =>
      read(async (send) => (await send(ask.bindings, { id: call, key: null })).map(({ payer, ...binding }) => binding)),

    putRecord(...given) {
      const [record, now] = copied(given)
      return write(recordStep(record, (stored) => !unexpired(stored, now)))
    },

    getRecord: (kind, id, now) =>
      read(async (send) => {
        const [stored] = await send(ask.record, { kind, id })
        return unexpired(stored, now)
      }),

    moveRecord(...given) {
      const [record, from, now] = copied(given)
      return write(recordStep(record, (stored) => mayMoveRecord(stored, { record, from, now })))
    },

    listRecords: (kind, owner, at) => read((send) => send(ask.recordsOfOwner, { kind, owner, after: '', ...at })),

    lease: (name, workerId, { now, until }) =>
      write({
        turn: `lease ${name}`,
        locks: [`lease ${name}`],
        read: (send) => send(ask.lease, { name }),
        async write([current], send) {
          if (!mayLease(current, workerId, now)) return false
          await send(ask.upsertLease, { name, workerId, expiresAt: until })
          return true
        },
      }),

    hit: (bucket, take, now) =>
      write({
        turn: `window ${bucket.key}`,
        locks: [`window ${bucket.key}`],
        read: (send) => send(ask.window, { key: bucket.key }),
        async write([stored], send) {
          const { answer, window } = takePermits(stored, bucket, { take, now })
          if (window) await send(ask.upsertWindow, { key: bucket.key, ...window })
          return answer
        },
      }),

    async prune(now) {
      let touched = 0
      for (let from: PruneCursor | undefined = { expiresAt: Number.MIN_SAFE_INTEGER, id: '' }; from;) {
        const step: PruneResult = await write(pruneStep(now, from))
        touched += step.touched
        from = step.last
      }
      await write({
        turn: 'prune',
        read: async () => {},
        write: (_, send) => send(staleTotals, { before: now - HOURS_RETENTION_MS }),
      })
      for (const stale of [ask.staleRecords, ask.staleLeases, ask.staleWindows] as readonly Statement<object>[]) {
        let gone: number
        do {
          gone = await write({
            turn: 'prune',
            read: async () => {},
            write: async (_, send) => (await send(stale, { now, limit: BATCH })).length,
          })
          touched += gone
        } while (gone === BATCH)
      }
      return touched
    },

    async pruneLedger(before, now) {
      let deleted = 0
      for (;;) {
        const found = await write({
          turn: 'prune',
          read: (send) => send(ask.overLedgerRows, { before, now, limit: BATCH }),
          async write(over, send) {
            const ids = { ids: over.map(({ id }) => id) }
            await Promise.all([send(ask.unbindAmong, ids), send(ask.deleteAmong, ids)])
            return over.length
          },
        })
        deleted += found
        if (found < BATCH) return deleted
      }
    },

    ledgerRows: (before, now, limit) =>
      read(async (send) => {
        const over = await send(ask.listLedgerRows, { before, now, limit })
        const found = await Promise.all(over.map(({ id }) => send(ask.call, { id })))
        return found.flat()
      }),

    archiveCalls: (ids, day) =>
      write({
        turn: 'prune',
        read: (send) => send(ask.headsAmong, { ids }),
        async write(heads, send) {
          const leaving = { ids: heads.filter((head) => isArchivable(head)).map(({ id }) => id) }
          await Promise.all([
            send(ask.countArchived, { ...leaving, day }),
            send(ask.unbindAmong, leaving),
            send(ask.deleteAmong, leaving),
          ])
          return leaving.ids.length
        },
      }),

    close,
  }
}

// ── names of locks and turns ────────────────────────────────────────────────────────────────────────────────────────

const keyOf = (key: string) => `authorization ${key}`
const payerOf = ({ payer, asset }: Pick<NewCall, 'payer' | 'asset'>) => `payer ${JSON.stringify([payer, asset])}`
const callOf = (id: string) => `call ${id}`
const recordLock = ({ kind, id }: Pick<StoredRecord, 'kind' | 'id'>) => `record ${JSON.stringify([kind, id])}`

// ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────

function exposedCalls(
  send: Send,
  { payer, asset }: NewCall,
  at: { now: number; asOf: number },
): Promise<ExposedCall[]> {
  return send(ask.exposedCalls, { payer, asset, now: at.now, since: at.asOf - SETTLED_LOOKBACK_MS })
}

async function call(id: string, send: Send): Promise<Call> {
  return present(first(await send(ask.call, { id })), `call ${id}`)
}

async function opened(answer: OpenAnswer, send: Send): Promise<Opened> {
  return answer.kind === 'replayed' ? { kind: 'replayed', call: await call(answer.id, send) } : answer
}

async function recorded(answer: PaidAnswer, send: Send): Promise<Recorded> {
  return answer.kind === 'replayed' ? { kind: 'replayed', call: await call(answer.id, send) } : answer
}

async function claimed(answer: ClaimAnswer, send: Send): Promise<Claim> {
  if (answer.kind === 'replayed') return { kind: 'replayed', call: await call(answer.id, send) }
  if (answer.kind !== 'retry') return answer
  const { key, ...rest } = answer
  const [found] = await send(ask.signed, { key })
  return { ...rest, authorization: present(found?.signed, `authorization ${key}`) }
}

// ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────

function perform(writes: readonly Write[], send: Send): Promise<unknown> {
  return Promise.all(writes.map((step) => performOne(step, send)))
}

function performOne(step: Write, send: Send): Promise<unknown> {
  if (step.kind === 'insert') return send(ask.insertCall, { ...step.call, ...UNCLAIMED, ...step.notes })
  if (step.kind === 'patch') return patchCall(step.id, step.patch, send)
  if (step.kind === 'bind') return send(ask.bind, { ...step.binding, signed: step.authorization })
  if (step.kind === 'mark') return send(ask.setStatus, { key: step.key, status: step.status })
  if (step.kind === 'record') return send(ask.upsertRecord, step.record)
  return send(ask.unbind, { key: step.key })
}

function patchCall(id: string, patch: RowPatch, send: Send): Promise<unknown> {
  const fields = Object.keys(patch) as (keyof RowPatch)[]
  return fields.length === 0 ? Promise.resolve() : send(patching(fields), { ...patch, id })
}

/** Stores the record where `may` allows it, given the record that is stored. */
function recordStep(
  record: StoredRecord,
  may: (stored: StoredRecord | undefined) => boolean,
): Migration<readonly StoredRecord[], boolean> {
  return {
    turn: recordLock(record),
    locks: [recordLock(record)],
    read: (send) => send(ask.record, record),
    async write([stored], send) {
      if (!may(stored)) return false
      await send(ask.upsertRecord, record)
      return true
    },
  }
}

type RenewInput = { readonly heads: readonly Head[]; readonly bindings: readonly AuthorizationBinding[] }

/** One bounded step of `renew`. Calls whose lease is only extended are written in one statement. */
function renewStep(workerId: string, ids: readonly string[], until: number): Migration<RenewInput, readonly string[]> {
  return {
    turn: `worker ${workerId}`,
    async read(send) {
      const [heads, bindings] = await Promise.all([send(ask.headsAmong, { ids }), send(ask.bindingsAmong, { ids })])
      return { heads, bindings }
    },
    write({ heads, bindings }, send) {
      const decided = heads.map((head) => ({
        head,
        ...decideRenewal(head, { bindings: bindings.filter(({ call }) => call === head.id), workerId }, until),
      }))
      const longer = decided
        .filter(({ head, writes }) => isUnfinished(head.workStatus) && writes.length > 0)
        .map(({ head }) => head.id)
      const back = decided.flatMap(({ head, writes }) => (isUnfinished(head.workStatus) ? [] : writes))
      const done = [
        ...(longer.length > 0 ? [send(ask.renew, { ids: longer, leaseExpiresAt: until })] : []),
        perform(back, send),
      ]
      return after(Promise.all(done), Promise.resolve(decided.flatMap(({ head, answer }) => (answer ? [head.id] : []))))
    },
  }
}

type PruneResult = { readonly touched: number; readonly last: PruneCursor | undefined }
type PruneInput = {
  readonly heads: readonly Head[]
  readonly bindings: readonly Pick<AuthorizationBinding, 'call' | 'expiresAt'>[]
}

/** One bounded step of `prune` over calls, starting after `from`. */
function pruneStep(now: number, from: PruneCursor): Migration<PruneInput, PruneResult> {
  return {
    turn: 'prune',
    async read(send) {
      const heads = await send(ask.expiring, { now, ...from, limit: BATCH })
      return { heads, bindings: await send(ask.bindingsAmong, { ids: heads.map(({ id }) => id) }) }
    },
    write({ heads, bindings }, send) {
      const withAction = (action: string) =>
        heads.filter(
          (head) =>
            expiryAction(
              head,
              bindings.filter(({ call }) => call === head.id),
              now,
            ) === action,
        )
      const [old, over] = [
        { ids: withAction('empty').map(({ id }) => id) },
        { ids: withAction('delete').map(({ id }) => id) },
      ]
      const done = [
        send(ask.emptyAmong, old),
        send(ask.clearSignedAmong, old),
        send(ask.unbindAmong, over),
        send(ask.deleteAmong, over),
      ]
      const last = heads.length < BATCH ? undefined : heads.at(-1)
      return after(Promise.all(done), Promise.resolve({ touched: old.ids.length + over.ids.length, last }))
    },
  }
}

async function after<Answer>(done: Promise<unknown>, answer: Promise<Answer>): Promise<Answer> {
  const [, answered] = await Promise.all([done, answer])
  return answered
}

function first<Row>(found: readonly Row[]): Row | undefined {
  return found[0]
}

function present<T>(value: T | null | undefined, what: string): T {
  if (value === null || value === undefined) throw new Error(`the database has lost ${what}`)
  return value
}
