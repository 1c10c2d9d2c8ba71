import { type SQL, and, asc, desc, eq, getTableColumns, gt, gte, lt, lte, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import { unionAll } from 'drizzle-orm/pg-core'
import { SETTLED_CALLS } from '../../../core/payment/exposure.ts'
import { ENTRY_FIELDS, type RowPatch } from '../../../core/payment/ledger.ts'
import { authorizations, calls, leases, records, rateWindows, spendTotals } from './schema.ts'
import { aFew, among, anyOf, everyField, fromExcluded, given, rows, same, type Statement } from './statement.ts'

/** Drizzle builds and types the statements and encodes their values. It never has a connection. */
const db = drizzle.mock()
const {
  claimToken,
  claimExpiresAt,
  claimKey,
  claimFresh,
  emptied,
  quotedAt,
  verifiedAt,
  settlingAt,
  vendorError,
  paymentError,
  paymentErrorAt,
  settledBy,
  ...callColumns
} = getTableColumns(calls)
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
  charge,
  gateway,
  endpoint,
  model,
  usage,
  createdAt,
  startedAt,
  error,
} = callColumns
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
  charge,
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
  charge,
  workStatus,
  paymentStatus,
  startedAt,
  settledAt,
  bindingStatus: bindings.status,
  bindingExpiresAt: bindings.expiresAt,
  block: claimExpiresAt,
}
const everyColumn = getTableColumns(calls)
const entry = Object.fromEntries(ENTRY_FIELDS.map((field) => [field, everyColumn[field]])) as Pick<
  typeof everyColumn,
  (typeof ENTRY_FIELDS)[number]
>
const { payer: _payer, day: _day, part: _part, ...totals } = getTableColumns(spendTotals)
/** A model is stored with a colon before it, because an empty name is not the same as none. */
const bareModel = sql<
  string | null
>`CASE WHEN ${spendTotals.model} = '' THEN NULL ELSE substr(${spendTotals.model}, 2) END`
const isUnfinished = sql`${workStatus} in ('queued', 'in_progress')`
const isOfCall = eq(bindings.call, id)

const spendable = db
  .select({ ...exposedCalls, block: sql<never>`(${receipt}::json ->> 'block')::bigint` })
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
const recentlySettled = db
  .select({
    ...exposedCalls,
    bindingStatus: sql<never>`null::text`,
    bindingExpiresAt: sql<never>`null::bigint`,
    block: sql<never>`(${receipt}::json ->> 'block')::bigint`,
  })
  .from(calls)
  .where(and(same(payer), same(asset), gte(settledAt, given('since', settledAt)), sql`${paymentStatus} = 'settled'`))

const last = db
  .select({ amount: sql`coalesce(${charge}, ${quote})`.as('amount') })
  .from(calls)
  .where(and(same(payer), same(asset), sql`${paymentStatus} = 'settled'`))
  .orderBy(desc(settledAt))
  .limit(SETTLED_CALLS)
  .as('last')

/**
 * The statements of the Postgres storage. Rows are locked with `for no key update`, several of them in the order of
 * their ids, so that waiting transactions cannot deadlock. Conditions of a partial index are written out: a generic
 * plan cannot match one against a parameter.
 */
export const ask = {
  /** Decoded as `createdAt`: milliseconds since 1970. */
  now: rows(
    'now',
    { now: createdAt },
    { toSQL: () => ({ sql: 'select floor(extract(epoch from clock_timestamp()) * 1000)::bigint', params: [] }) },
  ),
  call: rows('call', callColumns, db.select(callColumns).from(calls).where(same(id))),
  callOf: rows(
    'call_of',
    callColumns,
    db.select(callColumns).from(authorizations).innerJoin(calls, isOfCall).where(same(bindings.key)),
  ),
  /** Locks the call. */
  head: rows('head', heads, db.select(heads).from(calls).where(same(id)).for('no key update')),
  /** Locks the calls. */
  headsAmong: rows(
    'heads_among',
    heads,
    db.select(heads).from(calls).where(among(id)).orderBy(asc(id)).for('no key update'),
  ),
  /** Locks the call that the authorization is bound to. */
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
  /** Locks a call and the one that an authorization is bound to. */
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
  /** The bindings of a call, by position, and the one with the key, whichever call it is of. */
  bindings: rows(
    'bindings',
    bindings,
    db
      .select(bindings)
      .from(authorizations)
      .where(sql`${bindings.call} = ${given('id', bindings.call)} or ${bindings.key} = ${given('key', bindings.key)}`)
      .orderBy(asc(bindings.position)),
  ),
  bindingsAmong: rows('bindings_among', bindings, db.select(bindings).from(authorizations).where(among(bindings.call))),
  signed: rows('signed', { signed }, db.select({ signed }).from(authorizations).where(same(bindings.key))),
  /** One statement, so one snapshot: a settlement that ends meanwhile is seen before or after, never in between. */
  exposedCalls: rows('exposed_calls', exposedCalls, unionAll(spendable, recentlySettled)),
  /** Null where nothing was ever paid. */
  paid: rows('paid', { sum: quote }, db.select({ sum: sql`sum(${last.amount})`.as('sum') }).from(last)),
  lost: rows(
    'lost',
    callColumns,
    db
      .select(callColumns)
      .from(calls)
      .where(and(isUnfinished, sql`${paymentStatus} = 'verified'`, lte(leaseExpiresAt, given('now', leaseExpiresAt))))
      .orderBy(asc(leaseExpiresAt), asc(id))
      .limit(sql.placeholder('limit')),
  ),
  unfinished: rows(
    'unfinished',
    callColumns,
    db
      .select(callColumns)
      .from(calls)
      .where(and(isUnfinished, same(workerId, 'workerId'), same(gateway), gt(id, given('after', id))))
      .orderBy(asc(id))
      .limit(sql.placeholder('limit')),
  ),
  unsettled: rows(
    'unsettled',
    callColumns,
    db
      .select(callColumns)
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
  /** Token sums are numeric, so they never overflow. */
  spent: rows(
    'spent',
    // Each is decoded as a column of the same type.
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
        spent: sql`sum(coalesce(${charge}, ${quote}))`.as('spent'),
        inputTokens: tokens('input'),
        outputTokens: tokens('output'),
        lastAt: sql`max(${settledAt})`.as('last_at'),
      })
      .from(calls)
      .where(
        and(
          same(payer),
          gte(settledAt, given('since', settledAt)),
          lt(settledAt, given('until', settledAt)),
          sql`${paymentStatus} = 'settled'`,
        ),
      )
      .groupBy(gateway, endpoint, model, asset),
  ),
  /** Parts of one sum are added here: the part of the triggers is less than nothing where an old call was deleted. */
  spendTotals: rows(
    'spend_totals',
    totals,
    db
      .select({
        gateway: spendTotals.gateway,
        endpoint: spendTotals.endpoint,
        model: bareModel.as('model'),
        asset: spendTotals.asset,
        calls: sql`sum(${spendTotals.calls})`.as('calls'),
        billions: sql`sum(${spendTotals.billions})`.as('billions'),
        rest: sql`sum(${spendTotals.rest})`.as('rest'),
        inputTokens: sql`sum(${spendTotals.inputTokens})`.as('input_tokens'),
        outputTokens: sql`sum(${spendTotals.outputTokens})`.as('output_tokens'),
        lastAt: sql`max(${spendTotals.lastAt})`.as('last_at'),
      })
      .from(spendTotals)
      .where(and(same(spendTotals.payer), gte(spendTotals.day, given('day', spendTotals.day))))
      .groupBy(spendTotals.gateway, spendTotals.endpoint, spendTotals.model, spendTotals.asset)
      .having(sql`sum(${spendTotals.calls}) > 0`),
  ),
  /** Locks the calls that it lists, and skips those that are locked. */
  expiring: rows(
    'expiring',
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
  overLedgerRows: rows(
    'over_ledger_rows',
    { id },
    db
      .select({ id })
      .from(calls)
      .where(
        and(
          sql`${emptied}`,
          sql`${paymentStatus} = 'settled'`,
          lte(settledAt, given('before', settledAt)),
          sql`not exists (select 1 from authorizations a where a.call = ${id} and a.expires_at > ${given('now', bindings.expiresAt)})`,
        ),
      )
      .orderBy(asc(settledAt), asc(id))
      .limit(sql.placeholder('limit'))
      .for('no key update', { skipLocked: true }),
  ),
  listed: rows('listed', entry, listing()),
  listedOfPayer: rows('listed_of_payer', entry, listing(same(payer))),
  listedSettled: rows(
    'listed_settled',
    entry,
    db
      .select(entry)
      .from(calls)
      .where(
        and(
          sql`${paymentStatus} = 'settled'`,
          sql`(${settledAt}, ${id}) > (${given('at', settledAt)}, ${given('id', id)})`,
        ),
      )
      .orderBy(asc(settledAt), asc(id))
      .limit(sql.placeholder('limit')),
  ),
  entry: rows('entry', entry, db.select(entry).from(calls).where(same(id, 'name'))),
  entriesByKey: rows(
    'entries_by_key',
    entry,
    db.select(entry).from(authorizations).innerJoin(calls, isOfCall).where(same(bindings.key, 'name')),
  ),
  entriesByNonce: rows(
    'entries_by_nonce',
    { ...entry, key: bindings.key },
    db
      .select({ ...entry, key: bindings.key })
      .from(authorizations)
      .innerJoin(calls, isOfCall)
      .where(sql`right(${bindings.key}, 16) = ${given('tail', bindings.key)}`),
  ),
  entriesByTransaction: rows(
    'entries_by_transaction',
    entry,
    db
      .select(entry)
      .from(calls)
      .where(
        and(
          sql`${receipt} is not null`,
          sql`substring(${receipt} from '"transaction":"[^"]*([^"]{16})"') = ${given('tail', id)}`,
        ),
      ),
  ),
  listLedgerRows: rows(
    'list_ledger_rows',
    { id },
    db
      .select({ id })
      .from(calls)
      .where(
        and(
          sql`${emptied}`,
          sql`${paymentStatus} = 'settled'`,
          lte(settledAt, given('before', settledAt)),
          sql`not exists (select 1 from authorizations a where a.call = ${id} and a.expires_at > ${given('now', bindings.expiresAt)})`,
        ),
      )
      .orderBy(asc(settledAt), asc(id))
      .limit(sql.placeholder('limit')),
  ),
  record: rows(
    'record',
    getTableColumns(records),
    db
      .select()
      .from(records)
      .where(and(same(records.kind), same(records.id))),
  ),
  recordsOfOwner: rows(
    'records_of_owner',
    getTableColumns(records),
    db
      .select()
      .from(records)
      .where(
        and(
          same(records.owner),
          same(records.kind),
          gt(records.id, given('after', records.id)),
          gt(records.expiresAt, given('now', records.expiresAt)),
        ),
      )
      .orderBy(asc(records.id))
      .limit(sql.placeholder('limit')),
  ),
  lease: rows('lease', getTableColumns(leases), db.select().from(leases).where(same(leases.name))),
  window: rows('window', getTableColumns(rateWindows), db.select().from(rateWindows).where(same(rateWindows.key))),

  insertCall: rows('insert_call', {}, db.insert(calls).values(fieldsOfNewCall())),
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
  setStatus: rows(
    'mark',
    {},
    db
      .update(authorizations)
      .set({ status: sql`${given('status', bindings.status)}` })
      .where(same(bindings.key)),
  ),
  unbind: rows('free', {}, db.delete(authorizations).where(same(bindings.key))),
  unbindAmong: rows('free_among', {}, db.delete(authorizations).where(among(bindings.call))),
  deleteAmong: rows('forget_among', {}, db.delete(calls).where(among(id))),
  /** Those among them that may leave, added to the sums of their wallets as of a day. */
  countArchived: rows(
    'count_archived',
    {},
    {
      toSQL: () => ({
        sql: `INSERT INTO spend_totals AS kept
          SELECT payer, $2::bigint, gateway, endpoint, coalesce(':' || model, ''), asset, 2, count(*),
            sum(div(coalesce(paid, quote), 1000000000)), sum(mod(coalesce(paid, quote), 1000000000)),
            sum(coalesce((usage::json ->> 'input')::numeric, 0)), sum(coalesce((usage::json ->> 'output')::numeric, 0)),
            max(settled_at)
          FROM calls WHERE id = any($1::text[]) GROUP BY payer, gateway, endpoint, model, asset
          ON CONFLICT (payer, day, gateway, endpoint, model, asset, part) DO UPDATE SET
            calls = kept.calls + excluded.calls, billions = kept.billions + excluded.billions,
            rest = kept.rest + excluded.rest, input_tokens = kept.input_tokens + excluded.input_tokens,
            output_tokens = kept.output_tokens + excluded.output_tokens,
            last_at = greatest(kept.last_at, excluded.last_at)`,
        params: [
          sql.param(sql.placeholder('ids'), {
            mapToDriverValue: (list: unknown) => (list as readonly string[]).map((each) => id.mapToDriverValue(each)),
          }),
          sql.placeholder('day'),
        ],
      }),
    },
  ),
  emptyAmong: rows(
    'empty_among',
    {},
    db.update(calls).set({ request: null, result: null, emptied: true }).where(among(id)),
  ),
  clearSignedAmong: rows(
    'unsign_among',
    {},
    db.update(authorizations).set({ signed: null }).where(among(bindings.call)),
  ),
  upsertLease: rows(
    'upsert_lease',
    {},
    db
      .insert(leases)
      .values(everyField(leases))
      .onConflictDoUpdate({ target: leases.name, set: fromExcluded(leases, 'name') }),
  ),
  upsertWindow: rows(
    'upsert_window',
    {},
    db
      .insert(rateWindows)
      .values(everyField(rateWindows))
      .onConflictDoUpdate({ target: rateWindows.key, set: fromExcluded(rateWindows, 'key') }),
  ),
  upsertRecord: rows(
    'upsert_record',
    {},
    db
      .insert(records)
      .values(everyField(records))
      .onConflictDoUpdate({ target: [records.kind, records.id], set: fromExcluded(records, 'kind', 'id') }),
  ),
  listedUnfinished: rows(
    'listed_unfinished',
    entry,
    db
      .select(entry)
      .from(calls)
      .where(isUnfinished)
      .orderBy(asc(leaseExpiresAt), asc(id))
      .limit(sql.placeholder('limit')),
  ),
  listedInDoubt: rows(
    'listed_in_doubt',
    entry,
    db
      .select(entry)
      .from(calls)
      .where(and(sql`${paymentStatus} in ('settling', 'unresolved')`, sql`not ${isUnfinished}`))
      .orderBy(asc(createdAt), asc(id))
      .limit(sql.placeholder('limit')),
  ),
  staleRecords: rows(
    'stale_records',
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

/** A new call has no later notes yet. */
function fieldsOfNewCall() {
  const { settlingAt, vendorError, paymentError, paymentErrorAt, settledBy, ...fields } = everyField(calls)
  return fields
}

/** Ledger entries between two times, newest first. */
function listing(...conditions: readonly SQL[]) {
  return db
    .select(entry)
    .from(calls)
    .where(
      and(
        ...conditions,
        gte(createdAt, given('since', createdAt)),
        sql`(${createdAt}, ${id}) < (${given('at', createdAt)}, ${given('id', id)})`,
      ),
    )
    .orderBy(desc(createdAt), desc(id))
    .limit(sql.placeholder('limit'))
}

/** One statement for each set of fields that has ever been patched together. */
const patches = new Map<string, Statement<object>>()

/** An update of exactly these fields of the call `id`. */
export function patching(fields: readonly (keyof RowPatch)[]): Statement<object> {
  const shape = fields.join()
  const known = patches.get(shape)
  if (known) return known
  const set = Object.fromEntries(fields.map((field) => [field, sql`${given(field, calls[field])}`]))
  const made = rows(`patch_${patches.size}`, {}, db.update(calls).set(set).where(same(id)))
  patches.set(shape, made)
  return made
}

/** The sum of one kind of tokens. `usage` is JSON that we wrote, with numbers only. */
function tokens(kind: 'input' | 'output') {
  return sql`coalesce(sum((${usage}::json ->> ${sql.raw(`'${kind}'`)})::numeric), 0)`.as(`${kind}_tokens`)
}
