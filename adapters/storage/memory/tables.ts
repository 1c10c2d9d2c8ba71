/** The tables of the storage in memory, and what its ports do with them. */
import {
  type AuthorizationBinding,
  countedOf,
  DAY_MS,
  type ExposedCall,
  HOUR_MS,
  type Lease,
  type Row,
  SETTLED_CALLS,
  type StoredTotal,
  UNCLAIMED,
  type Window,
  type Write,
} from '../../../core/payment/mod.ts'
import type { Authorization, Call, Spend, StoredRecord } from '../../../core/ports/mod.ts'
import { type Usdc, usdc } from '../../../core/x402/mod.ts'
import { copied } from '../copied.ts'

type Bound = AuthorizationBinding & { readonly authorization: Authorization | null }

export type Tables = {
  readonly rows: Map<string, Row>
  readonly bindings: Map<string, Bound>
  /** Ids of calls by payer, and keys of authorizations by call. */
  readonly idsOf: Map<string, Set<string>>
  readonly keysOf: Map<string, Set<string>>
  readonly records: Map<string, StoredRecord>
  readonly leases: Map<string, Lease>
  readonly rateWindows: Map<string, Window>
  /** Sums that archived calls paid. */
  readonly archived: (Spend & { readonly payer: string; readonly day: number })[]
  readonly totals: Map<string, StoredTotal>
}

export const noRows = (): Tables => ({
  rows: new Map(),
  bindings: new Map(),
  idsOf: new Map(),
  keysOf: new Map(),
  records: new Map(),
  leases: new Map(),
  rateWindows: new Map(),
  archived: [],
  totals: new Map(),
})

export function rowOf({ rows }: Tables, id: string): Row {
  const found = rows.get(id)
  if (!found) throw new Error(`no call ${id}`)
  return found
}

export function boundTo(tables: Tables, key: string | undefined): Row | undefined {
  const binding = key === undefined ? undefined : tables.bindings.get(key)
  return binding && rowOf(tables, binding.call)
}

export function bindingsOf({ bindings, keysOf }: Tables, id: string): Bound[] {
  const own = [...(keysOf.get(id) ?? [])].flatMap((key) => bindings.get(key) ?? [])
  return own.sort((a, b) => a.position - b.position)
}

export function callsOf(tables: Tables, payer: string): Row[] {
  return [...(tables.idsOf.get(payer) ?? [])].map((id) => rowOf(tables, id))
}

function bind(tables: Tables, bound: Bound): void {
  unbind(tables, bound.key)
  tables.bindings.set(bound.key, bound)
  add(tables.keysOf, bound.call, bound.key)
}

function unbind({ bindings, keysOf }: Tables, key: string): void {
  const bound = bindings.get(key)
  if (bound) drop(keysOf, bound.call, key)
  bindings.delete(key)
}

/** Deletes a call with its bindings. */
export function deleteCall(tables: Tables, { id, payer }: Row): void {
  for (const { key } of bindingsOf(tables, id)) unbind(tables, key)
  tables.rows.delete(id)
  drop(tables.idsOf, payer, id)
}

export function* exposedCalls(tables: Tables, payer: string, asset: string): Iterable<ExposedCall> {
  for (const call of callsOf(tables, payer)) {
    if (call.asset !== asset) continue
    const exposedCall = { ...call, block: call.receipt?.block ?? null }
    yield { ...exposedCall, bindingStatus: null, bindingExpiresAt: null }
    for (const binding of bindingsOf(tables, call.id))
      yield { ...exposedCall, bindingStatus: binding.status, bindingExpiresAt: binding.expiresAt }
  }
}

export function settledBy(tables: Tables, payer: string, asset: string): Usdc | undefined {
  const settled = callsOf(tables, payer).filter((call) => call.asset === asset && call.paymentStatus === 'settled')
  const last = settled.sort((a, b) => (b.settledAt ?? 0) - (a.settledAt ?? 0)).slice(0, SETTLED_CALLS)
  return last.length === 0 ? undefined : usdc(last.reduce((sum, { charge, quote }) => sum + (charge ?? quote), 0n))
}

export function perform(tables: Tables, write: Write): void {
  const { rows, bindings, idsOf, records } = tables
  if (write.kind === 'insert') {
    rows.set(write.call.id, { ...copied(write.call), ...UNCLAIMED, ...write.notes })
    add(idsOf, write.call.payer, write.call.id)
    return
  }
  if (write.kind === 'patch') {
    const before = rowOf(tables, write.id)
    const after = { ...before, ...copied(write.patch) }
    rows.set(write.id, after)
    for (const counted of countedOf(before, after)) for (const unit of [HOUR_MS, DAY_MS]) count(tables, counted, unit)
    return
  }
  if (write.kind === 'bind') {
    bind(tables, { ...write.binding, authorization: copied(write.authorization) })
    return
  }
  if (write.kind === 'free') {
    unbind(tables, write.key)
    return
  }
  if (write.kind === 'record') {
    records.set(nameOf(write.record), copied(write.record))
    return
  }
  const binding = bindings.get(write.key)
  if (binding) bindings.set(write.key, { ...binding, status: write.status })
}

function count(
  { totals }: Tables,
  { at: time, calls, spent, ...counted }: ReturnType<typeof countedOf>[number],
  unit: number,
): void {
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

export function where(
  { rows }: Tables,
  matches: (call: Row) => boolean,
  { order, limit }: { readonly order: (call: Row) => number; readonly limit: number },
): Call[] {
  const found = [...rows.values()].filter(matches).sort((a, b) => order(a) - order(b) || (a.id < b.id ? -1 : 1))
  return found.slice(0, limit).map(withoutClaim)
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

export function nameOf({ kind, id }: Pick<StoredRecord, 'kind' | 'id'>): string {
  return JSON.stringify([kind, id])
}

/** A copy of a row without the columns that only the ledger reads, as the port returns it. */
export function withoutClaim(row: Row): Call {
  const { claimToken, claimExpiresAt, claimKey, claimFresh, emptied, ...rest } = row
  const { quotedAt, verifiedAt, settlingAt, vendorError, paymentError, paymentErrorAt, settledBy, ...call } = rest
  return copied(call)
}
