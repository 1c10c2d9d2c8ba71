/**
 * Rows as this process last read or wrote them. A step that is decided on them is written only if they still are so,
 * in one statement; otherwise it is decided again on rows that are locked.
 */
import { boundedMap } from '../../../core/lib/mod.ts'
import type { AuthorizationBinding, Head } from '../../../core/payment/mod.ts'
import type { StoredRecord } from '../../../core/ports/mod.ts'
import type { Query, Values } from '../sql/statement.ts'
import { guarded, type Sent } from './steps.ts'
import { ask, seen } from './statements.ts'

type SeenCall = { readonly head: Head; readonly bindings: readonly AuthorizationBinding[] }
type Reads = readonly (Query | undefined | ((first: never) => Query))[]

/** The rows that a step would find, and the statement that writes it if they are still so. */
export type Guess = {
  readonly found: readonly (readonly unknown[])[]
  /** Undefined where the writes change other rows too. */
  statementOf(writes: readonly Query[], at: GuardedAt): Sent | undefined
  /** Before the statement is sent, and after its answer: until then the rows are unknown. */
  forget(): void
  restore(): void
}

/** `locks`: see `lockingOf`. */
type GuardedAt = { readonly known: number; readonly locks: readonly string[] }

const MAX_CALLS = 20_000
const MAX_RECORDS = 5_000

export function seenRows() {
  const calls = boundedMap<SeenCall>(MAX_CALLS)
  const records = boundedMap<StoredRecord>(MAX_RECORDS)
  /** Only of kinds that are moved: no other is decided on. */
  const movedKinds = new Set<string>()

  function ofCall(id: string, answer: (seen: SeenCall) => readonly (readonly unknown[])[] | undefined) {
    const call = calls.get(id)
    const found = call && answer(call)
    if (!call || !found || call.head.receipt !== null) return undefined
    return { found, statementOf: patching(call), forget: () => calls.delete(id), restore: () => calls.set(id, call) }
  }

  function ofRecord({ kind, id }: Values): Guess | undefined {
    movedKinds.add(String(kind))
    const key = recordKey(kind, id)
    const record = records.get(key)
    if (!record) return undefined
    return {
      found: [[record]],
      statementOf: moving(record),
      forget: () => records.delete(key),
      restore: () => records.set(key, record),
    }
  }

  function guess(reads: Reads): Guess | undefined {
    const [first, second] = reads
    if (!Array.isArray(first) || typeof second === 'function') return undefined
    const [statement, values] = first as Query
    const other = (second as Query | undefined)?.[0]
    if (statement === ask.recordToMove && reads.length === 1) return ofRecord(values)
    const id = String(values.id)
    if (statement === ask.head && reads.length === 1) return ofCall(id, ({ head }) => [[head]])
    if (statement === ask.head && other === ask.bindings) return ofCall(id, ({ head, bindings }) => [[head], bindings])
    if (statement !== ask.pair || other !== ask.bindingsOrKey) return undefined
    return ofCall(id, ({ head, bindings }) => {
      const isOwn = values.key === null || bindings.some(({ key }) => key === values.key)
      return isOwn ? [[head], bindings] : undefined
    })
  }

  /** Follows what has been written. What it does not follow is not written on a guess, or is forgotten. */
  function note(writes: readonly Query[]): void {
    for (const [statement, values] of writes) {
      if (statement === ask.insertCall) calls.set(String(values.id), { head: headOf(values), bindings: [] })
      else if (statement === ask.bind) noteBound(values)
      else if (statement.name.startsWith('patch_')) change(String(values.id), (call) => patched(call, values))
      else if (statement === ask.renew)
        for (const id of values.ids as string[])
          change(id, (call) => patched(call, { leaseExpiresAt: values.leaseExpiresAt }))
      else if (statement === ask.insertRecord || statement === ask.upsertRecord) noteRecord(values as StoredRecord)
    }
    for (const [statement, values] of writes) {
      if (statement !== ask.setStatus && statement !== ask.unbind) continue
      for (const [patch, { id }] of writes) {
        if (!patch.name.startsWith('patch_')) continue
        change(String(id), (call) => ({ ...call, bindings: marked(call.bindings, values) }))
      }
    }
  }

  function change(id: string, how: (call: SeenCall) => SeenCall): void {
    const call = calls.get(id)
    if (!call) return
    const next = how(call)
    // A paid call is not changed any more.
    if (next.head.receipt === null) calls.set(id, next)
    else calls.delete(id)
  }

  function noteBound({ signed: _signed, boundTo, ...binding }: Values): void {
    if (typeof boundTo === 'string') calls.delete(boundTo)
    change(String(binding.call), (call) => ({
      ...call,
      bindings: [...call.bindings, binding as AuthorizationBinding],
    }))
  }

  function noteRecord(record: StoredRecord): void {
    if (movedKinds.has(record.kind)) records.set(recordKey(record.kind, record.id), record)
  }

  return { guess, note, noteRecord }
}

const recordKey = (kind: unknown, id: unknown) => JSON.stringify([kind, id])

/** The part of a new row that decisions read. */
const HEAD = Object.keys(ask.head.fields)
const headOf = (row: Values): Head => Object.fromEntries(HEAD.map((field) => [field, row[field]])) as unknown as Head

function patched(call: SeenCall, patch: Values): SeenCall {
  const changed = Object.entries(patch).filter(([field]) => field !== 'id' && HEAD.includes(field))
  return { ...call, head: { ...call.head, ...Object.fromEntries(changed) } }
}

/** Of a mark or, where there is no status, of a deletion. */
function marked(bindings: readonly AuthorizationBinding[], { key, status }: Values): readonly AuthorizationBinding[] {
  if (status === undefined) return bindings.filter((each) => each.key !== key)
  return bindings.map((each) => (each.key === key ? ({ ...each, status } as AuthorizationBinding) : each))
}

function patching({ head, bindings }: SeenCall): Guess['statementOf'] {
  return (writes, { known }) => {
    const [first, ...others] = writes
    if (!first?.[0].name.startsWith('patch_') || first[1].id !== head.id) return undefined
    const rest: Query[] = []
    for (const [statement, values] of others) {
      const binding = bindings.find(({ key }) => key === values.key)
      const which = { ask: statement, with: { ...values, call: head.id, before: binding?.status } }
      if (!binding) return undefined
      if (which.ask === ask.setStatus) rest.push([seen.setStatus, which.with])
      else if (which.ask === ask.unbind) rest.push([seen.unbind, which.with])
      else return undefined
    }
    return guarded([first, ...rest], [seen.call, { ...head, hasNoReceipt: head.receipt === null }], {
      known,
      // The row of the call is locked by every version.
      locks: [],
    })
  }
}

function moving(record: StoredRecord): Guess['statementOf'] {
  return ([first, ...others], at) => {
    if (!first || first[0] !== ask.upsertRecord || others.length > 0) return undefined
    return guarded([[seen.moveRecord, first[1]]], [seen.record, record], at)
  }
}
