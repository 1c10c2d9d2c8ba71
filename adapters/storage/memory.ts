import {
  type AuthorizationBinding,
  type ClaimAnswer,
  countedOf,
  DAY_MS,
  decideClaim,
  decideFinish,
  decideOpen,
  decidePaid,
  decideRenewal,
  ENTRY_FIELDS,
  expiryAction,
  type ExposedCall,
  HOUR_MS,
  HOURS_RETENTION_MS,
  isArchivable,
  isFree,
  isLedgerRowOver,
  isLost,
  isOf,
  isUnfinished,
  type Lease,
  mayLease,
  mayMove,
  mayMoveRecord,
  needsSettled,
  type OpenAnswer,
  patchOf,
  type Row,
  SETTLED_CALLS,
  spendOf,
  type StoredTotal,
  summed,
  takePermits,
  totalled,
  UNCLAIMED,
  unexpired,
  wholeDays,
  type Window,
  type Write,
} from '../../core/payment/mod.ts'
import {
  type Authorization,
  type Call,
  type Claim,
  type LedgerCursor,
  type LedgerEntry,
  LOOKUP_CHARACTERS,
  type Opened,
  type Spend,
  type Storage,
  type StoredRecord,
} from '../../core/ports/mod.ts'
import { type Usdc, usdc } from '../../core/x402/mod.ts'
import { copied } from './copied.ts'

type Bound = AuthorizationBinding & { readonly authorization: Authorization | null }

/**
 * The reference storage, in memory: the other storages must give the same answers. Everything is lost with the process
 * and some verbs scan every row, so it is for tests and demos. Values are copied in and out.
 *
 * @example
 * const storage = memoryStorage()
 */
export function memoryStorage(): Storage {
  const rows = new Map<string, Row>()
  const bindings = new Map<string, Bound>()
  /** Ids of calls by payer, and keys of authorizations by call. */
  const idsOf = new Map<string, Set<string>>()
  const keysOf = new Map<string, Set<string>>()
  const records = new Map<string, StoredRecord>()
  const leases = new Map<string, Lease>()
  const rateWindows = new Map<string, Window>()
  /** Sums that archived calls paid. */
  const archived: (Spend & { readonly payer: string; readonly day: number })[] = []

  const totals = new Map<string, StoredTotal>()

  function row(id: string): Row {
    const found = rows.get(id)
    if (!found) throw new Error(`no call ${id}`)
    return found
  }

  function boundTo(key: string | undefined): Row | undefined {
    const binding = key === undefined ? undefined : bindings.get(key)
    return binding && row(binding.call)
  }

  function bindingsOf(id: string): Bound[] {
    const own = [...(keysOf.get(id) ?? [])].flatMap((key) => bindings.get(key) ?? [])
    return own.sort((a, b) => a.position - b.position)
  }

  function callsOf(payer: string): Row[] {
    return [...(idsOf.get(payer) ?? [])].map(row)
  }

  function bind(bound: Bound): void {
    unbind(bound.key)
    bindings.set(bound.key, bound)
    add(keysOf, bound.call, bound.key)
  }

  function unbind(key: string): void {
    const bound = bindings.get(key)
    if (bound) drop(keysOf, bound.call, key)
    bindings.delete(key)
  }

  function deleteCall({ id, payer }: Row): void {
    rows.delete(id)
    drop(idsOf, payer, id)
  }

  function* exposedCalls(payer: string, asset: string): Iterable<ExposedCall> {
    for (const call of callsOf(payer)) {
      if (call.asset !== asset) continue
      const exposedCall = { ...call, block: call.receipt?.block ?? null }
      yield { ...exposedCall, bindingStatus: null, bindingExpiresAt: null }
      for (const binding of bindingsOf(call.id))
        yield { ...exposedCall, bindingStatus: binding.status, bindingExpiresAt: binding.expiresAt }
    }
  }

  function settledBy(payer: string, asset: string): Usdc | undefined {
    const settled = callsOf(payer).filter((call) => call.asset === asset && call.paymentStatus === 'settled')
    const last = settled.sort((a, b) => (b.settledAt ?? 0) - (a.settledAt ?? 0)).slice(0, SETTLED_CALLS)
    return last.length === 0 ? undefined : usdc(last.reduce((sum, { charge, quote }) => sum + (charge ?? quote), 0n))
  }

  function perform(write: Write): void {
    if (write.kind === 'insert') {
      rows.set(write.call.id, { ...copied(write.call), ...UNCLAIMED, ...write.notes })
      add(idsOf, write.call.payer, write.call.id)
      return
    }
    if (write.kind === 'patch') {
      const before = row(write.id)
      const after = { ...before, ...copied(write.patch) }
      rows.set(write.id, after)
      for (const counted of countedOf(before, after)) for (const unit of [HOUR_MS, DAY_MS]) count(counted, unit)
      return
    }
    if (write.kind === 'bind') {
      bind({ ...write.binding, authorization: copied(write.authorization) })
      return
    }
    if (write.kind === 'free') {
      unbind(write.key)
      return
    }
    if (write.kind === 'record') {
      records.set(nameOf(write.record), copied(write.record))
      return
    }
    const binding = bindings.get(write.key)
    if (binding) bindings.set(write.key, { ...binding, status: write.status })
  }

  function count({ at: time, calls, spent, ...counted }: ReturnType<typeof countedOf>[number], unit: number): void {
    const at = Math.floor(time / unit) * unit
    const key = JSON.stringify([unit, at, counted])
    const sum = totals.get(key)
    totals.set(key, {
      ...counted,
      unit,
      at,
      calls: calls + (sum?.calls ?? 0),
      spent: usdc(spent + (sum?.spent ?? 0n)),
    })
  }

  function opened(answer: OpenAnswer): Opened {
    if (answer.kind === 'replayed') return { kind: 'replayed', call: withoutClaim(row(answer.id)) }
    return copied(answer)
  }

  function claimed(answer: ClaimAnswer): Claim {
    if (answer.kind === 'replayed') return { kind: 'replayed', call: withoutClaim(row(answer.id)) }
    if (answer.kind !== 'retry') return copied(answer)
    const { key, ...rest } = answer
    const binding = bindings.get(key)
    if (!binding?.authorization) throw new Error(`no authorization ${key}`)
    return { ...rest, authorization: copied(binding.authorization) }
  }

  function where(matches: (call: Row) => boolean, order: (call: Row) => number, limit: number): Call[] {
    const found = [...rows.values()].filter(matches).sort((a, b) => order(a) - order(b) || (a.id < b.id ? -1 : 1))
    return found.slice(0, limit).map(withoutClaim)
  }

  return {
    async openCall(call, authorization, at) {
      const { payer, asset } = call
      const seen = {
        bound: boundTo(authorization.key),
        exposedCalls: at.cap ? exposedCalls(payer, asset) : [],
        settled: needsSettled(at.cap) ? settledBy(payer, asset) : undefined,
      }
      const { answer, writes } = decideOpen({ call, authorization }, seen, at)
      if (answer.kind === 'opened' && rows.has(call.id)) throw new Error(`call ${call.id} exists`)
      writes.forEach(perform)
      return opened(answer)
    },

    async recordPaid(call, authorization, { paid, ...at }) {
      const seen = { bound: boundTo(authorization.key), record: records.get(nameOf(paid.spent.record)) }
      const { answer, writes } = decidePaid({ call, authorization, paid }, seen, at)
      if (answer.kind === 'recorded' && rows.has(call.id)) throw new Error(`call ${call.id} exists`)
      writes.forEach(perform)
      return answer.kind === 'replayed' ? { kind: 'replayed', call: withoutClaim(row(answer.id)) } : answer
    },

    async getCall(id) {
      const found = rows.get(id)
      return found && withoutClaim(found)
    },

    async callOf(authorization, now) {
      const found = boundTo(authorization)
      return found && !isFree(found, now) ? withoutClaim(found) : undefined
    },

    async moveCall(id, from, patch) {
      if (!mayMove(rows.get(id), from)) return false
      perform({ kind: 'patch', id, patch: patchOf(patch) })
      return true
    },

    async renew(workerId, ids, until) {
      return ids.filter((id) => {
        const { answer, writes } = decideRenewal(rows.get(id), { bindings: bindingsOf(id), workerId }, until)
        writes.forEach(perform)
        return answer
      })
    },

    async lostCalls(now, limit) {
      return where(
        (call) => isLost(call, now),
        (call) => call.leaseExpiresAt,
        limit,
      )
    },

    async unfinishedCalls(workerId, { gateway, after, limit }) {
      const isWanted = (call: Row) =>
        call.workerId === workerId && call.gateway === gateway && isUnfinished(call.workStatus) && call.id > after
      return where(isWanted, () => 0, limit)
    },

    async claimSettlement(id, authorization, at) {
      const own = bindingsOf(id)
      const elsewhere = own.some((binding) => binding.key === authorization?.key) ? undefined : authorization?.key
      const seen = { bindings: own, offered: authorization, bound: boundTo(elsewhere) }
      const { answer, writes } = decideClaim(rows.get(id), seen, at)
      writes.forEach(perform)
      return claimed(answer)
    },

    async finishSettlement(id, token, outcome, at) {
      const { answer, writes } = decideFinish(rows.get(id), { bindings: bindingsOf(id), token, outcome }, at)
      writes.forEach(perform)
      return answer
    },

    async unsettled(before, limit, gateway) {
      const due = (call: Row) => call.claimExpiresAt ?? 0
      return where(
        (call) =>
          call.paymentStatus === 'settling' && due(call) <= before && (gateway ?? call.gateway) === call.gateway,
        due,
        limit,
      )
    },

    async spendByModel(payer, since) {
      const { day: first } = wholeDays(since)
      const old = archived.filter((spend) => spend.payer === payer && spend.day >= first)
      return summed([
        ...[...rows.values()].flatMap((row) => spendOf(row, payer, since) ?? []),
        ...old.map(({ payer: _payer, day: _day, ...spend }) => spend),
      ])
    },

    async listCalls({ payer, since, until, after = { at: until, id: '' }, limit }) {
      const found = (payer === undefined ? [...rows.values()] : callsOf(payer)).filter(
        (call) => call.createdAt >= since && isBefore({ at: call.createdAt, id: call.id }, after),
      )
      return found.sort(newestFirst).slice(0, limit).map(entryOf)
    },

    async listSettled({ since, after = { at: since, id: '' }, limit }) {
      const settledAt = (call: Row) => ({ at: call.settledAt ?? 0, id: call.id })
      const found = [...rows.values()].filter(
        (call) => call.paymentStatus === 'settled' && isBefore(after, settledAt(call)),
      )
      return found
        .sort((a, b) => (isBefore(settledAt(a), settledAt(b)) ? -1 : 1))
        .slice(0, limit)
        .map(entryOf)
    },

    async findCalls(name, limit) {
      const isNamed = (call: Row) =>
        call.id === name ||
        call.receipt?.transaction === name ||
        bindingsOf(call.id).some(({ key }) => key === name || key.endsWith(`/${name}`))
      const found =
        name.length < LOOKUP_CHARACTERS
          ? [...rows.values()].filter((call) => call.id === name || bindingsOf(call.id).some(({ key }) => key === name))
          : [...rows.values()].filter(isNamed)
      return found.sort(newestFirst).slice(0, limit).map(entryOf)
    },

    async callTotals(query) {
      return totalled(totals.values(), query)
    },

    async buyersByDay({ since, until, ...names }) {
      const wallets = new Map<number, Set<string>>()
      const add = (day: number, payer: string) => wallets.set(day, (wallets.get(day) ?? new Set()).add(payer))
      for (const { settledAt, paymentStatus, payer, ...call } of rows.values())
        if (paymentStatus === 'settled' && isOf(call, names)) add(Math.floor((settledAt ?? 0) / DAY_MS), payer)
      for (const { day, payer, ...call } of archived) if (isOf(call, names)) add(day, payer)
      return [...wallets]
        .map(([day, { size }]) => ({ at: day * DAY_MS, buyers: size }))
        .filter(({ at }) => at >= since && at < until)
        .toSorted((a, b) => a.at - b.at)
    },

    async listOpen(limit) {
      const unfinished = [...rows.values()]
        .filter(({ workStatus }) => isUnfinished(workStatus))
        .sort((a, b) => a.leaseExpiresAt - b.leaseExpiresAt || (a.id < b.id ? -1 : 1))
        .slice(0, limit)
      const inDoubt = [...rows.values()]
        .filter(({ paymentStatus: status }) => status === 'settling' || status === 'unresolved')
        .filter(({ workStatus }) => !isUnfinished(workStatus))
        .sort((a, b) => newestFirst(b, a))
        .slice(0, limit)
      return [...unfinished, ...inDoubt].sort((a, b) => newestFirst(b, a)).map(entryOf)
    },

    async listAuthorizations(call) {
      return bindingsOf(call).map(({ authorization, payer, ...binding }) => binding)
    },

    async putRecord(record, now) {
      if (unexpired(records.get(nameOf(record)), now)) return false
      records.set(nameOf(record), copied(record))
      return true
    },

    async getRecord(kind, id, now) {
      return copied(unexpired(records.get(nameOf({ kind, id })), now))
    },

    async moveRecord(record, from, now) {
      if (!mayMoveRecord(records.get(nameOf(record)), { record, from, now })) return false
      records.set(nameOf(record), copied(record))
      return true
    },

    async listRecords(kind, owner, { now, after = '', limit }) {
      const found = [...records.values()].filter(
        (record) => record.kind === kind && record.owner === owner && record.id > after && unexpired(record, now),
      )
      return copied(found.sort((a, b) => (a.id < b.id ? -1 : 1)).slice(0, limit))
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

    async prune(now) {
      let touched = 0
      for (const call of rows.values()) {
        const own = bindingsOf(call.id)
        const action = expiryAction(call, own, now)
        if (action === 'none') continue
        touched++
        if (action === 'empty') {
          perform({ kind: 'patch', id: call.id, patch: { request: null, result: null, emptied: true } })
          continue
        }
        for (const { key } of own) perform({ kind: 'free', key })
        deleteCall(call)
      }
      for (const [key, { unit, at }] of totals)
        if (unit === HOUR_MS && at < now - HOURS_RETENTION_MS) totals.delete(key)
      for (const [name, { expiresAt }] of records) if (expiresAt <= now && records.delete(name)) touched++
      for (const [name, { expiresAt }] of leases) if (expiresAt <= now && leases.delete(name)) touched++
      for (const [key, { resetAt }] of rateWindows) if (resetAt <= now && rateWindows.delete(key)) touched++
      return touched
    },

    async pruneLedger(before, now) {
      let deleted = 0
      for (const call of rows.values()) {
        const own = bindingsOf(call.id)
        if (!isLedgerRowOver(call, own, { before, now })) continue
        for (const { key } of own) perform({ kind: 'free', key })
        deleteCall(call)
        deleted++
      }
      return deleted
    },

    async ledgerRows(before, now, limit) {
      const isOver = (call: Row) => isLedgerRowOver(call, bindingsOf(call.id), { before, now })
      return where(isOver, (call) => call.settledAt ?? 0, limit)
    },

    async archiveCalls(ids, day) {
      const found = ids.flatMap((id) => rows.get(id) ?? []).filter((call) => isArchivable(call))
      for (const call of found) {
        archived.push(
          ...[spendOf(call, call.payer, 0)].flatMap((spend) => (spend ? [{ ...spend, payer: call.payer, day }] : [])),
        )
        for (const { key } of bindingsOf(call.id)) perform({ kind: 'free', key })
        deleteCall(call)
      }
      return found.length
    },

    async close() {},
  }
}

function add(index: Map<string, Set<string>>, name: string, entry: string): void {
  const entries = index.get(name) ?? new Set<string>()
  index.set(name, entries.add(entry))
}

function drop(index: Map<string, Set<string>>, name: string, entry: string): void {
  const entries = index.get(name)
  entries?.delete(entry)
  if (entries?.size === 0) index.delete(name)
}

function nameOf({ kind, id }: Pick<StoredRecord, 'kind' | 'id'>): string {
  return JSON.stringify([kind, id])
}

/** A copy of a row without the columns that only the ledger reads, as the port returns it. */
function withoutClaim(row: Row): Call {
  const { claimToken, claimExpiresAt, claimKey, claimFresh, emptied, ...rest } = row
  const { quotedAt, verifiedAt, settlingAt, vendorError, paymentError, paymentErrorAt, settledBy, ...call } = rest
  return copied(call)
}

function entryOf(row: Row): LedgerEntry {
  return copied(Object.fromEntries(ENTRY_FIELDS.map((field) => [field, row[field]])) as LedgerEntry)
}

function isBefore(one: LedgerCursor, other: LedgerCursor): boolean {
  return one.at < other.at || (one.at === other.at && one.id < other.id)
}

function newestFirst(a: Row, b: Row): number {
  return isBefore({ at: a.createdAt, id: a.id }, { at: b.createdAt, id: b.id }) ? 1 : -1
}
