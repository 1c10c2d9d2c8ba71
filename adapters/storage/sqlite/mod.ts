import { existsSync, statSync } from 'node:fs'
import {
  type ClaimAnswer,
  type OpenAnswer,
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
import { HOURS_RETENTION_MS } from '../../../core/payment/reports/call_totals.ts'
import { type Call, type Cap, type Claim, type Opened, type Storage } from '../../../core/ports/mod.ts'
import { copied } from '../copied.ts'
import { databases } from '../databases.ts'
import { backupSqlite } from './backup.ts'
import { openDriver, type SqliteDriver } from './driver.ts'
import { flusherOf, hasWriteAheadLog } from './flusher.ts'
import { createPrivately, formatFile, holdAlone } from './hold.ts'
import { amountOf, ledgerReads } from './ledger_reads.ts'
import { migrate, migrations } from './migrations.ts'
import { settledCache } from './settled_cache.ts'
import { drizzleOver } from './session.ts'
import { COUNT_ARCHIVED, patchStatement, statements } from './statements.ts'
import { weightOf, writer } from '../writer.ts'
import { requireSound, requireWritable, wordsOf } from './soundness.ts'

/**
 * How long one statement may block the event loop while another process writes, in milliseconds. After that the wait is
 * asynchronous.
 */
const BUSY_MS = 10
/** How long the start waits for another process, in milliseconds. No request is served yet. */
const BUSY_AT_START_MS = 2_000
/** Rows that one step of `prune` or `renew` reads: bounds how long it blocks the event loop. */
const BATCH = 128
/** Free pages that stay in the file for what is written next, and how often a `prune` gives some back. */
const SPARE_PAGES = 1_000
const MAX_VACUUMS = 500

const NOTHING = { billions: null, rest: null }

/** The last call that `prune` has visited, by expiry and id. */
type PruneCursor = { readonly expiresAt: number; readonly id: string }

export { holdAlone }

export type SqliteOptions = {
  /** A file of at most so many bytes is checked when it is opened. Default: none is. */
  readonly checkUpTo?: number
}

export type SqliteStorage = Storage & {
  /**
   * Why nothing is written or read any more: a flush failed, or the file is damaged; undefined while all is well. Every
   * verb rejects then.
   */
  failure(): string | undefined
}

/**
 * A storage in one SQLite file, for one process: writes are synchronous, under one write lock (decision 23). Verbs that
 * arrive together share a commit and one flush to disk, which a thread does meanwhile; each is answered after it.
 * Throws when the file is no database, or one of a newer version. A driver is used as it is, for runtimes whose
 * databases are no files.
 */
export function sqliteStorage(where: string | SqliteDriver, options: SqliteOptions = {}): SqliteStorage {
  const database = typeof where === 'string' ? openDatabase(where, options) : migrated(where)
  const db = drizzleOver(database)
  const ask = statements(db)
  const countArchived = database.prepare(COUNT_ARCHIVED)
  const patches = new Map<string, ReturnType<typeof patchStatement>>()
  const flusher = typeof where === 'string' ? flusherOf(database, where) : undefined
  const { write, read, settle, failure } = writer(database, flusher?.flush)

  function patchCall(id: string, patch: RowPatch): void {
    const fields = Object.keys(patch) as (keyof RowPatch)[]
    if (fields.length === 0) return
    const shape = fields.join()
    const statement = patches.get(shape) ?? patchStatement(db, fields)
    patches.set(shape, statement)
    statement.run({ ...patch, id })
  }

  function perform(step: Write): void {
    if (step.kind === 'insert') ask.insertCall.run({ ...step.call, ...UNCLAIMED, ...step.notes })
    if (step.kind === 'patch') patchCall(step.id, step.patch)
    if (step.kind === 'bind') ask.bind.run({ ...step.binding, signed: step.authorization })
    if (step.kind === 'mark') ask.setStatus.run({ key: step.key, status: step.status })
    if (step.kind === 'free') ask.unbind.run({ key: step.key })
    if (step.kind === 'record') ask.upsertRecord.run(step.record)
  }

  function call(id: string): Call {
    return present(ask.call.get({ id }), `call ${id}`)
  }

  function opened(answer: OpenAnswer): Opened {
    return answer.kind === 'replayed' ? { kind: 'replayed', call: call(answer.id) } : answer
  }

  function claimed(answer: ClaimAnswer): Claim {
    if (answer.kind === 'replayed') return { kind: 'replayed', call: call(answer.id) }
    if (answer.kind !== 'retry') return answer
    const { key, ...rest } = answer
    return { ...rest, authorization: present(ask.signed.get({ key })?.signed, `authorization ${key}`) }
  }

  // A database that is no file has one connection.
  const versionOfOthers = typeof where === 'string' ? database.prepare('PRAGMA data_version') : undefined
  let seenVersion: unknown
  const settledCalls = settledCache((wallet, since) => ({
    hasPaid: ask.hasPaid.get(wallet) !== undefined,
    calls: ask.recentlySettled.all({ ...wallet, since }),
  }))

  /** Inside a write transaction: nobody else can write before it ends. */
  function settlementsOf(wallet: Pick<Call, 'payer' | 'asset'>, cap: Cap) {
    const [[version] = []] = versionOfOthers?.values() ?? []
    if (version !== seenVersion) settledCalls.clear()
    seenVersion = version
    return settledCalls.of(wallet, cap)
  }

  type Settling = Pick<Call, 'id' | 'payer' | 'asset' | 'endpoint' | 'quote' | 'charge' | 'workStatus' | 'startedAt'>

  function noteSettlement(call: Settling, { paymentStatus, settledAt, receipt, charge = call.charge }: RowPatch): void {
    if (paymentStatus !== 'settled' || !settledAt) return
    const bindings = { bindingStatus: null, bindingExpiresAt: null }
    settledCalls.note(call, { ...call, charge, paymentStatus, settledAt, ...bindings, block: receipt?.block ?? null })
  }

  function renewOne(id: string, workerId: string, until: number): boolean {
    const head = ask.head.get({ id })
    const bindings = head && !isUnfinished(head.workStatus) ? ask.bindings.all({ id }) : []
    const { answer, writes } = decideRenewal(head, { bindings, workerId }, until)
    writes.forEach(perform)
    return answer
  }

  /** One bounded step of `prune` over calls, starting after `after`. */
  function pruneStep(now: number, after: PruneCursor): { touched: number; last: PruneCursor | undefined } {
    const found = ask.expiring.all({ now, ...after, limit: BATCH })
    let touched = 0
    for (const head of found) {
      const { id } = head
      const action = expiryAction(head, ask.bindings.all({ id }), now)
      if (action === 'none') continue
      touched++
      if (action === 'empty') {
        patchCall(id, { request: null, result: null, emptied: true })
        ask.clearSigned.run({ id })
        continue
      }
      ask.unbindAll.run({ id })
      ask.deleteCall.run({ id })
    }
    return { touched, last: found.length < BATCH ? undefined : found.at(-1) }
  }

  return {
    ...databases.sqlite,
    ...ledgerReads({ database, ask }, read),

    failure() {
      const error = failure()
      return error === undefined ? undefined : wordsOf(error, database.filename)
    },

    openCall(...given) {
      const [call, authorization, at] = copied(given)
      return write(() => {
        const bound = ask.bound.get({ key: authorization.key })
        const payer = { payer: call.payer, asset: call.asset }
        const settled = at.cap && settlementsOf(payer, at.cap)
        const seen = {
          bound,
          exposedCalls: settled ? [...ask.spendable.all({ ...payer, now: at.now }), ...settled.calls] : [],
          settled: settled?.hasPaid
            ? () => present(amountOf(ask.paid.get(payer) ?? NOTHING), 'what a wallet has paid')
            : undefined,
        }
        const { answer, writes } = decideOpen({ call, authorization }, seen, at)
        writes.forEach(perform)
        return opened(answer)
      })
    },

    recordPaid(...given) {
      const [order, authorization, { paid, ...at }] = copied(given)
      return write(() => {
        const seen = { bound: ask.bound.get({ key: authorization.key }), record: ask.record.get(paid.spent.record) }
        const { answer, writes } = decidePaid({ call: order, authorization, paid }, seen, at)
        writes.forEach(perform)
        if (answer.kind === 'replayed') return { kind: 'replayed', call: call(answer.id) }
        const settled = writes.find((each) => each.kind === 'patch' && each.id === order.id)
        if (settled?.kind === 'patch')
          noteSettlement({ ...order, charge: null, workStatus: 'completed', startedAt: null }, settled.patch)
        return answer
      }, weightOf(paid.result))
    },

    getCall: (id) => read(() => ask.call.get({ id })),

    callOf: (key, now) =>
      read(() => {
        const found = ask.callOf.get({ key })
        return found && !isFree(found, now) ? found : undefined
      }),

    moveCall(...given) {
      const [id, from, patch] = copied(given)
      return write(() => {
        if (!mayMove(ask.head.get({ id }), from)) return false
        patchCall(id, patchOf(patch))
        return true
      }, weightOf(patch.result))
    },

    async renew(workerId, ids, until) {
      const renewed: string[] = []
      for (let from = 0; from < ids.length; from += BATCH) {
        const some = ids.slice(from, from + BATCH)
        renewed.push(...(await write(() => some.filter((id) => renewOne(id, workerId, until)))))
      }
      return renewed
    },

    lostCalls: (now, limit) => read(() => ask.lost.all({ now, limit })),

    unfinishedCalls: (workerId, at) => read(() => ask.unfinished.all({ workerId, ...at })),

    claimSettlement(...given) {
      const [id, offered, at] = copied(given)
      return write(() => {
        const bindings = ask.bindings.all({ id })
        const own = bindings.some((binding) => binding.key === offered?.key)
        const bound = offered && !own ? ask.bound.get({ key: offered.key }) : undefined
        const { answer, writes } = decideClaim(ask.head.get({ id }), { bindings, offered, bound }, at)
        writes.forEach(perform)
        return claimed(answer)
      }, weightOf(at.result?.result))
    },

    finishSettlement(...given) {
      const [id, token, outcome, at] = copied(given)
      return write(() => {
        const head = ask.head.get({ id })
        const { answer, writes } = decideFinish(head, { bindings: ask.bindings.all({ id }), token, outcome }, at)
        writes.forEach(perform)
        const [first] = writes
        if (head && first?.kind === 'patch') noteSettlement(head, first.patch)
        return answer
      })
    },

    unsettled: (before, limit, gateway) => read(() => ask.unsettled.all({ before, limit, gateway: gateway ?? null })),

    putRecord(...given) {
      const [record, now] = copied(given)
      return write(() => {
        if (unexpired(ask.record.get(record), now)) return false
        ask.upsertRecord.run(record)
        return true
      })
    },

    getRecord: (kind, id, now) => read(() => unexpired(ask.record.get({ kind, id }), now)),

    moveRecord(...given) {
      const [record, from, now] = copied(given)
      return write(() => {
        if (!mayMoveRecord(ask.record.get(record), { record, from, now })) return false
        ask.upsertRecord.run(record)
        return true
      })
    },

    listRecords: (kind, owner, at) => read(() => ask.recordsOfOwner.all({ kind, owner, after: '', ...at })),

    lease: (name, workerId, { now, until }) =>
      write(() => {
        if (!mayLease(ask.lease.get({ name }), workerId, now)) return false
        ask.upsertLease.run({ name, workerId, expiresAt: until })
        return true
      }),

    hit: (bucket, take, now) =>
      write(() => {
        const { answer, window } = takePermits(ask.window.get({ key: bucket.key }), bucket, { take, now })
        if (window) ask.upsertWindow.run({ key: bucket.key, ...window })
        return answer
      }),

    async prune(now) {
      let touched = 0
      for (let after: PruneCursor | undefined = { expiresAt: Number.MIN_SAFE_INTEGER, id: '' }; after;) {
        const from: PruneCursor = after
        const step = await write(() => pruneStep(now, from))
        touched += step.touched
        after = step.last
      }
      for (let turn = 0; turn < MAX_VACUUMS && !database.isManaged; turn++) {
        const isLeft = await write(() => {
          // As rows: each frees one page.
          database.prepare(`PRAGMA incremental_vacuum(${BATCH})`).values()
          return Number(database.prepare('PRAGMA freelist_count').values()[0]?.[0]) > SPARE_PAGES
        })
        if (!isLeft) break
      }
      await write(() => void ask.staleTotals.run({ before: now - HOURS_RETENTION_MS }))
      for (const stale of [ask.staleRecords, ask.staleLeases, ask.staleWindows]) {
        let gone: number
        do {
          gone = await write(() => stale.all({ now, limit: BATCH }).length)
          touched += gone
        } while (gone === BATCH)
      }
      return touched
    },

    async pruneLedger(before, now) {
      let deleted = 0
      for (;;) {
        const found = await write(() => {
          const over = ask.overLedgerRows.all({ before, now, limit: BATCH })
          for (const { id } of over) {
            ask.unbindAll.run({ id })
            ask.deleteCall.run({ id })
          }
          settledCalls.clear()
          return over.length
        })
        deleted += found
        if (found < BATCH) return deleted
      }
    },

    ledgerRows: (before, now, limit) =>
      read(() => ask.overLedgerRows.all({ before, now, limit }).map(({ id }) => call(id))),

    archiveCalls: (ids, day) =>
      write(() => {
        const found = ids.filter((id) => {
          const head = ask.head.get({ id })
          return head !== undefined && isArchivable(head)
        })
        for (const id of found) {
          countArchived.run(day, id)
          ask.unbindAll.run({ id })
          ask.deleteCall.run({ id })
        }
        settledCalls.clear()
        return found.length
      }),

    async close() {
      await settle()
      flusher?.close()
      database.close()
    },
  }
}

// ── the file ────────────────────────────────────────────────────────────────────────────────────────────────────────

function openDatabase(path: string, { checkUpTo = 0 }: SqliteOptions): SqliteDriver {
  if (path === ':memory:') return prepared(path)
  try {
    createPrivately(path)
    requireWritable(path)
    return prepared(path, statSync(path).size <= checkUpTo)
  } catch (error) {
    throw new Error(wordsOf(error, path), { cause: error })
  }
}

function prepared(path: string, isChecked = false): SqliteDriver {
  const database = openDriver(path)
  try {
    database.exec(`PRAGMA busy_timeout = ${BUSY_AT_START_MS}`)
    if (isChecked) requireSound(database)
    formatFile(database)
    // NORMAL leaves the flush of a commit to `flusherOf`. Checkpoints are flushed by SQLite itself.
    database.exec(`PRAGMA synchronous = ${hasWriteAheadLog(database) ? 'NORMAL' : 'FULL'}`)
    database.exec('PRAGMA foreign_keys = ON')
    migrate(database, migrations, (taken) => backUpBefore(database, taken))
    database.exec(`PRAGMA busy_timeout = ${BUSY_MS}`)
    return database
  } catch (error) {
    database.close()
    throw error
  }
}

function migrated(database: SqliteDriver): SqliteDriver {
  migrate(database)
  return database
}

/** The state before an upgrade, beside the database: an older Farebox may not be able to read the upgraded one. */
function backUpBefore({ filename }: SqliteDriver, taken: number): void {
  if (filename === '' || filename === ':memory:') return
  const file = `${filename}.before-migration-${taken + 1}`
  // One that is there was made by an upgrade that did not end.
  if (!existsSync(file)) backupSqlite(filename, file)
}

function present<T>(value: T | null | undefined, what: string): T {
  if (value === null || value === undefined) throw new Error(`the database has lost ${what}`)
  return value
}
