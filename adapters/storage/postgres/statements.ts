import {
  type GetColumnData,
  type SQL,
  and,
  asc,
  eq,
  fillPlaceholders,
  getTableColumns,
  gt,
  gte,
  lte,
  sql,
} from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import { type PgColumn, unionAll } from 'drizzle-orm/pg-core'
import type { RowPatch } from '../../../core/payment/ledger.ts'
import { authorizations, calls, leases, records, rateWindows } from './schema.ts'

export type Values = Readonly<Record<string, unknown>>

/** What any connection can be asked: the server prepares `text` under `name` when it first comes. */
export type Statement<Row> = {
  readonly name: string
  readonly text: string
  /** The parameters, in order. Throws for a value that its column cannot write. */
  encode(values: Values): unknown[]
  decode(row: readonly unknown[]): Row
}

/** Drizzle builds and types the statements, and codes their values; it never holds a connection. */
const db = drizzle.mock()
const { claimToken, claimExpiresAt, claimKey, claimFresh, emptied, paid, ...shown } = getTableColumns(calls)
const {
  id,
  payer,
  asset,
  workStatus,
  paymentStatus,
  workerId,
  leaseExpiresAt,
  receipt,
  expiresAt,
  settledAt,
  quote,
  gateway,
  endpoint,
  model,
  usage,
  createdAt,
  startedAt,
  error,
} = shown
const heads = {
  id,
  payer,
  workStatus,
  paymentStatus,
  workerId,
  leaseExpiresAt,
  startedAt,
  error,
  receipt,
  expiresAt,
  claimToken,
  claimExpiresAt,
  claimKey,
  claimFresh,
  emptied,
}
const { signed, ...bindings } = getTableColumns(authorizations)
// `block` is read as `claimExpiresAt` is: a number or nothing.
const exposedCalls = {
  id,
  endpoint,
  quote,
  workStatus,
  paymentStatus,
  startedAt,
  settledAt,
  bindingStatus: bindings.status,
  bindingExpiresAt: bindings.expiresAt,
  block: claimExpiresAt,
}
const isUnfinished = sql`${workStatus} in ('queued', 'in_progress')`
const isOfCall = eq(bindings.call, id)

const spendable = db
  .select({ ...exposedCalls, block: sql<never>`null::bigint` })
  .from(authorizations)
  .innerJoin(calls, isOfCall)
  .where(
    and(
      same(bindings.payer, 'payer'),
      gt(bindings.expiresAt, given('now', bindings.expiresAt)),
      sql`${bindings.status} in ('open', 'sent')`,
      same(asset),
    ),
  )
const recent = db
  .select({
    ...exposedCalls,
    bindingStatus: sql<never>`null::text`,
    bindingExpiresAt: sql<never>`null::bigint`,
    block: sql<never>`(${receipt}::json ->> 'block')::bigint`,
  })
  .from(calls)
  .where(and(same(payer), same(asset), gte(settledAt, given('since', settledAt)), sql`${paymentStatus} = 'settled'`))

/**
 * Rows are locked by `for no key update`, several of them in the order of their ids, so that all who wait wait in one order. Conditions
 * that name a partial index are written out: a planner that knows no values cannot match one against a parameter.
 */
export const ask = {
  /** Read as the column is whose kind it is of. */
  now: rows(
    'now',
    { now: createdAt },
    { toSQL: () => ({ sql: 'select floor(extract(epoch from clock_timestamp()) * 1000)::bigint', params: [] }) },
  ),
  call: rows('call', shown, db.select(shown).from(calls).where(same(id))),
  callOf: rows(
    'call_of',
    shown,
    db.select(shown).from(authorizations).innerJoin(calls, isOfCall).where(same(bindings.key)),
  ),
  /** Locks the call. */
  head: rows('head', heads, db.select(heads).from(calls).where(same(id)).for('no key update')),
  /** Locks the calls. */
  headsAmong: rows(
    'heads_among',
    heads,
    db.select(heads).from(calls).where(among(id)).orderBy(asc(id)).for('no key update'),
  ),
  /** Locks the call that an authorization serves. */
  bound: rows(
    'bound',
    heads,
    db
      .select(heads)
      .from(authorizations)
      .innerJoin(calls, isOfCall)
      .where(same(bindings.key))
      .for('no key update', { of: calls }),
  ),
  /** Locks a call, and the one that an authorization serves. */
  pair: rows(
    'pair',
    heads,
    db
      .select(heads)
      .from(calls)
      .where(
        sql`${id} = ${given('id', id)} or ${id} = (select call from authorizations where key = ${given('key', bindings.key)})`,
      )
      .orderBy(asc(id))
      .for('no key update'),
  ),
  /** Those of a call, by place, and the one with the key, whichever call that serves. */
  bindings: rows(
    'bonds',
    bindings,
    db
      .select(bindings)
      .from(authorizations)
      .where(sql`${bindings.call} = ${given('id', bindings.call)} or ${bindings.key} = ${given('key', bindings.key)}`)
      .orderBy(asc(bindings.position)),
  ),
  bindingsAmong: rows('bonds_among', bindings, db.select(bindings).from(authorizations).where(among(bindings.call))),
  signed: rows('signed', { signed }, db.select({ signed }).from(authorizations).where(same(bindings.key))),
  /** One statement, hence one moment: a settlement that ends meanwhile is seen before or after, not in between. */
  exposedCalls: rows('debts', exposedCalls, unionAll(spendable, recent)),
  paid: rows(
    'paid',
    { id },
    db
      .select({ id })
      .from(calls)
      .where(and(same(payer), same(asset), sql`${paymentStatus} = 'settled'`))
      .limit(1),
  ),
  lost: rows(
    'lost',
    shown,
    db
      .select(shown)
      .from(calls)
      .where(and(isUnfinished, sql`${paymentStatus} = 'verified'`, lte(leaseExpiresAt, given('now', leaseExpiresAt))))
      .orderBy(asc(leaseExpiresAt), asc(id))
      .limit(sql.placeholder('limit')),
  ),
  unfinished: rows(
    'unfinished',
    shown,
    db
      .select(shown)
      .from(calls)
      .where(and(isUnfinished, same(workerId, 'workerId'), same(gateway), gt(id, given('after', id))))
      .orderBy(asc(id))
      .limit(sql.placeholder('limit')),
  ),
  unsettled: rows(
    'unsettled',
    shown,
    db
      .select(shown)
      .from(calls)
      .where(
        and(
          sql`${paymentStatus} = 'settling'`,
          lte(claimExpiresAt, given('before', claimExpiresAt)),
          sql`${gateway} = coalesce(${given('gateway', gateway)}, ${gateway})`,
        ),
      )
      .orderBy(asc(claimExpiresAt), asc(id))
      .limit(sql.placeholder('limit')),
  ),
  /** Tokens as numeric: nothing that was ever counted makes the sum overflow. */
  spent: rows(
    'spent',
    // Each is read as the column whose kind it is of.
    {
      gateway,
      endpoint,
      model,
      asset,
      calls: createdAt,
      spent: quote,
      inputTokens: createdAt,
      outputTokens: createdAt,
      lastAt: createdAt,
    },
    db
      .select({
        gateway,
        endpoint,
        model,
        asset,
        calls: sql`count(*)`.as('calls'),
        spent: sql`sum(coalesce(${paid}, ${quote}))`.as('spent'),
        inputTokens: tokens('input'),
        outputTokens: tokens('output'),
        lastAt: sql`max(${settledAt})`.as('last_at'),
      })
      .from(calls)
      .where(and(same(payer), gte(settledAt, given('since', settledAt)), sql`${paymentStatus} = 'settled'`))
      .groupBy(gateway, endpoint, model, asset),
  ),
  /** Locks what it lists, and passes over what others are busy with. */
  aging: rows(
    'aging',
    heads,
    db
      .select(heads)
      .from(calls)
      .where(
        and(
          sql`not ${emptied}`,
          lte(expiresAt, given('now', expiresAt)),
          sql`(${expiresAt}, ${id}) > (${given('expiresAt', expiresAt)}, ${given('id', id)})`,
        ),
      )
      .orderBy(asc(expiresAt), asc(id))
      .limit(sql.placeholder('limit'))
      .for('no key update', { skipLocked: true }),
  ),
  owned: rows(
    'owned',
    getTableColumns(records),
    db
      .select()
      .from(records)
      .where(and(same(records.kind), same(records.id))),
  ),
  ownedBy: rows(
    'owned_by',
    getTableColumns(records),
    db
      .select()
      .from(records)
      .where(and(same(records.owner), same(records.kind), gt(records.expiresAt, given('now', records.expiresAt))))
      .limit(sql.placeholder('limit')),
  ),
  lease: rows('lease', getTableColumns(leases), db.select().from(leases).where(same(leases.name))),
  window: rows('window', getTableColumns(rateWindows), db.select().from(rateWindows).where(same(rateWindows.key))),

  insertCall: rows('insert_call', {}, db.insert(calls).values(everyField(calls))),
  renew: rows(
    'renew',
    {},
    db
      .update(calls)
      .set({ leaseExpiresAt: sql`${given('leaseExpiresAt', leaseExpiresAt)}` })
      .where(among(id)),
  ),
  bind: rows(
    'bind',
    {},
    db
      .insert(authorizations)
      .values(everyField(authorizations))
      .onConflictDoUpdate({ target: bindings.key, set: fromExcluded(authorizations, 'key') }),
  ),
  mark: rows(
    'mark',
    {},
    db
      .update(authorizations)
      .set({ status: sql`${given('status', bindings.status)}` })
      .where(same(bindings.key)),
  ),
  free: rows('free', {}, db.delete(authorizations).where(same(bindings.key))),
  freeAmong: rows('free_among', {}, db.delete(authorizations).where(among(bindings.call))),
  forgetAmong: rows('forget_among', {}, db.delete(calls).where(among(id))),
  emptyAmong: rows(
    'empty_among',
    {},
    db.update(calls).set({ request: null, result: null, emptied: true }).where(among(id)),
  ),
  unsignAmong: rows('unsign_among', {}, db.update(authorizations).set({ signed: null }).where(among(bindings.call))),
  takeLease: rows(
    'take_lease',
    {},
    db
      .insert(leases)
      .values(everyField(leases))
      .onConflictDoUpdate({ target: leases.name, set: fromExcluded(leases, 'name') }),
  ),
  keepWindow: rows(
    'keep_window',
    {},
    db
      .insert(rateWindows)
      .values(everyField(rateWindows))
      .onConflictDoUpdate({ target: rateWindows.key, set: fromExcluded(rateWindows, 'key') }),
  ),
  keepOwned: rows(
    'keep_owned',
    {},
    db
      .insert(records)
      .values(everyField(records))
      .onConflictDoUpdate({ target: [records.kind, records.id], set: fromExcluded(records, 'kind', 'id') }),
  ),
  staleOwned: rows(
    'stale_owned',
    { id: records.id },
    db
      .delete(records)
      .where(
        sql`ctid = any(array(select ctid from records where ${lte(records.expiresAt, given('now', records.expiresAt))} ${aFew()}))`,
      )
      .returning({ id: records.id }),
  ),
  staleLeases: rows(
    'stale_leases',
    { name: leases.name },
    db
      .delete(leases)
      .where(
        anyOf(
          leases.name,
          sql`select name from leases where ${lte(leases.expiresAt, given('now', leases.expiresAt))} ${aFew()}`,
        ),
      )
      .returning({ name: leases.name }),
  ),
  staleWindows: rows(
    'stale_windows',
    { key: rateWindows.key },
    db
      .delete(rateWindows)
      .where(
        anyOf(
          rateWindows.key,
          sql`select key from rate_windows where ${lte(rateWindows.resetAt, given('now', rateWindows.resetAt))} ${aFew()}`,
        ),
      )
      .returning({ key: rateWindows.key }),
  ),
}

/** One statement for each set of fields that has ever been patched together. */
const patches = new Map<string, Statement<object>>()

/** Updates exactly these fields of the call `id`. */
export function patching(fields: readonly (keyof RowPatch)[]): Statement<object> {
  const shape = fields.join()
  const known = patches.get(shape)
  if (known) return known
  const set = Object.fromEntries(fields.map((field) => [field, sql`${given(field, calls[field])}`]))
  const made = rows(`patch_${patches.size}`, {}, db.update(calls).set(set).where(same(id)))
  patches.set(shape, made)
  return made
}

type Decoded<Fields extends Record<string, PgColumn>> = { [Field in keyof Fields]: GetColumnData<Fields[Field]> }

/** A statement that answers with `fields`, in their order. */
function rows<Fields extends Record<string, PgColumn>>(
  name: string,
  fields: Fields,
  query: { toSQL(): { sql: string; params: unknown[] } },
): Statement<Decoded<Fields>> {
  const { sql: text, params } = query.toSQL()
  const columns = Object.entries(fields)
  return {
    name,
    text,
    encode: (values) => fillPlaceholders(params, { ...values }),
    decode(row) {
      const read = columns.map(([field, column], at) => [
        field,
        row[at] === null ? null : column.mapFromDriverValue(row[at]),
      ])
      return Object.fromEntries(read) as Decoded<Fields>
    },
  }
}

/** A value that goes through its column: text, money and JSON are not what they look like. */
function given(name: string, column: PgColumn) {
  return sql.param(sql.placeholder(name), column)
}

/** The column has the value that is given under its own name. */
function same(column: PgColumn, name = column.name) {
  return eq(column, given(name, column))
}

/** The column is among the values given as `ids`. */
function among(column: PgColumn): SQL {
  const ids = sql.param(sql.placeholder('ids'), {
    mapToDriverValue: (list: unknown) => (list as readonly string[]).map((each) => column.mapToDriverValue(each)),
  })
  return sql`${column} = any(${ids}::text[])`
}

/** Through an array, so that the rows are chosen, and locked, once. */
function anyOf(column: PgColumn, chosen: SQL): SQL {
  return sql`${column} = any(array(${chosen}))`
}

/** The sum of one kind of tokens; `usage` is JSON of ours, with numbers only. */
function tokens(kind: 'input' | 'output') {
  return sql`coalesce(sum((${usage}::json ->> ${sql.raw(`'${kind}'`)})::numeric), 0)`.as(`${kind}_tokens`)
}

function aFew(): SQL {
  return sql`limit ${sql.placeholder('limit')} for update skip locked`
}

type Table = typeof calls | typeof authorizations | typeof records | typeof leases | typeof rateWindows

/** `values` in which each field is the placeholder of its own name. */
function everyField<T extends Table>(
  table: T,
): { [Field in keyof T['$inferSelect']]: ReturnType<typeof sql.placeholder> } {
  const fields = Object.keys(getTableColumns(table)).map((field) => [field, sql.placeholder(field)])
  return Object.fromEntries(fields)
}

/** `set` in which each field but those of the key takes the value that was to be inserted. */
function fromExcluded(table: Table, ...keys: readonly string[]): Record<string, SQL> {
  const fields = Object.entries(getTableColumns(table)).filter(([field]) => !keys.includes(field))
  return Object.fromEntries(fields.map(([field, column]) => [field, sql.raw(`excluded."${column.name}"`)]))
}
