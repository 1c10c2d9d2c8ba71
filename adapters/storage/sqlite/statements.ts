import { type SQLWrapper, and, asc, desc, eq, getTableColumns, gt, gte, lt, lte, sql } from 'drizzle-orm'
import { SETTLED_CALLS } from '../../../core/payment/exposure.ts'
import { HOUR_MS } from '../../../core/payment/reports/call_totals.ts'
import { ENTRY_FIELDS, type RowPatch } from '../../../core/payment/ledger.ts'
import type { SqliteDatabase } from './session.ts'
import { authorizations, calls, callTotals, leases, records, rateWindows, spendTotals } from './schema.ts'

/**
 * The statements of the SQLite storage, prepared once. Conditions of a partial index are written out: SQLite cannot
 * match one against a bound parameter. core/payment/ledger.ts relies on the order of `bindings` and on the conditions
 * of `spendable` and `recent`.
 */
export function statements(db: SqliteDatabase) {
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
    workStatus,
    paymentStatus,
    workerId,
    leaseExpiresAt,
    receipt,
    expiresAt,
    gateway,
    endpoint,
    model,
    asset,
    usage,
    startedAt,
    settledAt,
    error,
    charge,
  } = callColumns
  const head = {
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
    endpoint,
    asset,
    quote: calls.quote,
    charge,
  }
  const exposedCall = {
    id,
    endpoint,
    quote: calls.quote,
    charge,
    workStatus,
    paymentStatus,
    startedAt: calls.startedAt,
    settledAt: calls.settledAt,
  }
  const { signed, ...binding } = getTableColumns(authorizations)
  const everyColumn = getTableColumns(calls)
  const entry = Object.fromEntries(ENTRY_FIELDS.map((field) => [field, everyColumn[field]])) as Pick<
    typeof everyColumn,
    (typeof ENTRY_FIELDS)[number]
  >
  const unfinished = sql`${workStatus} in ('queued', 'in_progress')`
  const spent = sql`coalesce(${charge}, ${calls.quote})`
  /** Amounts in two exact sums, of all but the last nine digits and of these: neither overflows an INTEGER. */
  const billions = (amount: SQLWrapper) =>
    sql<string | null>`cast(sum(cast(substr(${amount}, 1, length(${amount}) - 9) as integer)) as text)`
  const rest = (amount: SQLWrapper) => sql<string | null>`cast(sum(cast(substr(${amount}, -9) as integer)) as text)`
  const given = sql.placeholder
  const last = db
    .select({ amount: spent.as('amount') })
    .from(calls)
    .where(and(eq(payer, given('payer')), eq(calls.asset, given('asset')), sql`${paymentStatus} = 'settled'`))
    .orderBy(desc(calls.settledAt))
    .limit(SETTLED_CALLS)
    .as('last')
  const ofCall = eq(authorizations.call, calls.id)
  const { payer: _payer, day: _day, part: _part, ...totals } = getTableColumns(spendTotals)
  return {
    call: db
      .select(callColumns)
      .from(calls)
      .where(eq(id, given('id')))
      .prepare(),
    head: db
      .select(head)
      .from(calls)
      .where(eq(id, given('id')))
      .prepare(),
    bound: db
      .select(head)
      .from(authorizations)
      .innerJoin(calls, ofCall)
      .where(eq(binding.key, given('key')))
      .prepare(),
    callOf: db
      .select(callColumns)
      .from(authorizations)
      .innerJoin(calls, ofCall)
      .where(eq(binding.key, given('key')))
      .prepare(),
    bindings: db
      .select(binding)
      .from(authorizations)
      .where(eq(binding.call, given('id')))
      .orderBy(asc(binding.position))
      .prepare(),
    signed: db
      .select({ signed })
      .from(authorizations)
      .where(eq(binding.key, given('key')))
      .prepare(),
    spendable: db
      .select({
        ...exposedCall,
        bindingStatus: binding.status,
        bindingExpiresAt: binding.expiresAt,
        block: sql<number | null>`${receipt} ->> 'block'`,
      })
      .from(authorizations)
      .innerJoin(calls, ofCall)
      .where(
        and(
          eq(binding.payer, given('payer')),
          gt(binding.expiresAt, given('now')),
          sql`${binding.status} in ('open', 'sent')`,
          eq(calls.asset, given('asset')),
        ),
      )
      .prepare(),
    recentlySettled: db
      .select({
        ...exposedCall,
        bindingStatus: sql<null>`null`,
        bindingExpiresAt: sql<null>`null`,
        block: sql<number | null>`${receipt} ->> 'block'`,
      })
      .from(calls)
      .where(
        and(
          eq(payer, given('payer')),
          eq(calls.asset, given('asset')),
          gte(calls.settledAt, given('since')),
          sql`${paymentStatus} = 'settled'`,
        ),
      )
      .prepare(),
    hasPaid: db
      .select({ one: sql<number>`1` })
      .from(calls)
      .where(and(eq(payer, given('payer')), eq(calls.asset, given('asset')), sql`${paymentStatus} = 'settled'`))
      .limit(1)
      .prepare(),
    /** Nulls where nothing was ever paid. */
    paid: db
      .select({ billions: billions(last.amount), rest: rest(last.amount) })
      .from(last)
      .prepare(),
    lost: db
      .select(callColumns)
      .from(calls)
      .where(and(unfinished, sql`${paymentStatus} = 'verified'`, lte(leaseExpiresAt, given('now'))))
      .orderBy(asc(leaseExpiresAt), asc(id))
      .limit(given('limit'))
      .prepare(),
    unfinished: db
      .select(callColumns)
      .from(calls)
      .where(and(unfinished, eq(workerId, given('workerId')), eq(gateway, given('gateway')), gt(id, given('after'))))
      .orderBy(asc(id))
      .limit(given('limit'))
      .prepare(),
    unsettled: db
      .select(callColumns)
      .from(calls)
      .where(
        and(
          sql`${paymentStatus} = 'settling'`,
          lte(claimExpiresAt, given('before')),
          sql`${gateway} = coalesce(${given('gateway')}, ${gateway})`,
        ),
      )
      .orderBy(asc(claimExpiresAt), asc(id))
      .limit(given('limit'))
      .prepare(),
    spent: db
      .select({
        gateway,
        endpoint,
        model,
        asset,
        calls: sql<number>`count(*)`,
        billions: billions(spent),
        rest: rest(spent),
        inputTokens: sql<number>`total(${usage} ->> 'input')`,
        outputTokens: sql<number>`total(${usage} ->> 'output')`,
        lastAt: sql<number>`max(${settledAt})`,
      })
      .from(calls)
      .where(
        and(
          eq(payer, given('payer')),
          gte(settledAt, given('since')),
          lt(settledAt, given('until')),
          sql`${paymentStatus} = 'settled'`,
        ),
      )
      .groupBy(gateway, endpoint, model, asset)
      .prepare(),
    spendTotals: db
      .select(totals)
      .from(spendTotals)
      .where(and(eq(spendTotals.payer, given('payer')), gte(spendTotals.day, given('day'))))
      .prepare(),
    expiring: db
      .select(head)
      .from(calls)
      .where(
        and(
          sql`${emptied} = 0`,
          lte(expiresAt, given('now')),
          sql`(${expiresAt}, ${id}) > (${given('expiresAt')}, ${given('id')})`,
        ),
      )
      .orderBy(asc(expiresAt), asc(id))
      .limit(given('limit'))
      .prepare(),
    overLedgerRows: db
      .select({ id })
      .from(calls)
      .where(
        and(
          sql`${emptied} = 1`,
          sql`${paymentStatus} = 'settled'`,
          lte(settledAt, given('before')),
          sql`not exists (select 1 from authorizations where call = ${calls.id} and expires_at > ${given('now')})`,
        ),
      )
      .orderBy(asc(settledAt), asc(id))
      .limit(given('limit'))
      .prepare(),
    listed: db
      .select(entry)
      .from(calls)
      .where(
        and(gte(calls.createdAt, given('since')), sql`(${calls.createdAt}, ${id}) < (${given('at')}, ${given('id')})`),
      )
      .orderBy(desc(calls.createdAt), desc(id))
      .limit(given('limit'))
      .prepare(),
    /** When the last call before a time was opened; null where there was none. */
    openedBefore: db
      .select({ at: sql<number | null>`max(${calls.createdAt})` })
      .from(calls)
      .where(lt(calls.createdAt, given('before')))
      .prepare(),
    listedOfPayer: db
      .select(entry)
      .from(calls)
      .where(
        and(
          sql`${calls.createdAt} / 86400000 = ${given('day')}`,
          eq(payer, given('payer')),
          gte(calls.createdAt, given('since')),
          sql`(${calls.createdAt}, ${id}) < (${given('at')}, ${given('id')})`,
        ),
      )
      .orderBy(desc(calls.createdAt), desc(id))
      .limit(given('limit'))
      .prepare(),
    listedSettled: db
      .select(entry)
      .from(calls)
      .where(and(sql`${paymentStatus} = 'settled'`, sql`(${settledAt}, ${id}) > (${given('at')}, ${given('id')})`))
      .orderBy(asc(settledAt), asc(id))
      .limit(given('limit'))
      .prepare(),
    listedUnfinished: db
      .select(entry)
      .from(calls)
      .where(and(unfinished, gte(leaseExpiresAt, 0)))
      .orderBy(asc(leaseExpiresAt), asc(id))
      .limit(given('limit'))
      .prepare(),
    listedInDoubt: db
      .select(entry)
      .from(calls)
      .where(and(sql`${paymentStatus} in ('settling', 'unresolved')`, gte(calls.createdAt, 0), sql`not ${unfinished}`))
      .orderBy(asc(calls.createdAt), asc(id))
      .limit(given('limit'))
      .prepare(),
    entry: db
      .select(entry)
      .from(calls)
      .where(eq(id, given('name')))
      .prepare(),
    entriesByKey: db
      .select(entry)
      .from(authorizations)
      .innerJoin(calls, ofCall)
      .where(eq(binding.key, given('name')))
      .prepare(),
    entriesByNonce: db
      .select({ ...entry, key: binding.key })
      .from(authorizations)
      .innerJoin(calls, ofCall)
      .where(
        sql`${binding.key} in (
          with recursive days(day) as (
            select min(expires_at / 86400000) from authorizations
            union all
            select (select min(expires_at / 86400000) from authorizations where expires_at / 86400000 > day)
            from days where day is not null
          )
          select key from days cross join authorizations
          where expires_at / 86400000 = day and substr(key, -16) = ${given('tail')}
        )`,
      )
      .prepare(),
    entriesByTransaction: db
      .select(entry)
      .from(calls)
      .where(
        sql`${id} in (
          with recursive days(day) as (
            select min(settled_at / 86400000) from calls where payment_status = 'settled'
            union all
            select (
              select min(settled_at / 86400000) from calls where payment_status = 'settled' and settled_at / 86400000 > day
            ) from days where day is not null
          )
          select id from days cross join calls
          where payment_status = 'settled' and settled_at / 86400000 = day
            and substr(receipt ->> 'transaction', -16) = ${given('tail')}
        )`,
      )
      .prepare(),
    record: db
      .select()
      .from(records)
      .where(and(eq(records.kind, given('kind')), eq(records.id, given('id'))))
      .prepare(),
    recordsOfOwner: db
      .select()
      .from(records)
      .where(
        and(
          eq(records.owner, given('owner')),
          eq(records.kind, given('kind')),
          gt(records.id, given('after')),
          gt(records.expiresAt, given('now')),
        ),
      )
      .orderBy(asc(records.id))
      .limit(given('limit'))
      .prepare(),
    lease: db
      .select()
      .from(leases)
      .where(eq(leases.name, given('name')))
      .prepare(),
    window: db
      .select()
      .from(rateWindows)
      .where(eq(rateWindows.key, given('key')))
      .prepare(),

    insertCall: db.insert(calls).values(fieldsOfNewCall()).prepare(),
    bind: db
      .insert(authorizations)
      .values(everyField(authorizations))
      .onConflictDoUpdate({ target: binding.key, set: fromExcluded(authorizations, 'key') })
      .prepare(),
    setStatus: db
      .update(authorizations)
      .set({ status: sql`${given('status')}` })
      .where(eq(binding.key, given('key')))
      .prepare(),
    unbind: db
      .delete(authorizations)
      .where(eq(binding.key, given('key')))
      .prepare(),
    unbindAll: db
      .delete(authorizations)
      .where(eq(binding.call, given('id')))
      .prepare(),
    clearSigned: db
      .update(authorizations)
      .set({ signed: null })
      .where(eq(binding.call, given('id')))
      .prepare(),
    deleteCall: db
      .delete(calls)
      .where(eq(id, given('id')))
      .prepare(),
    upsertRecord: db
      .insert(records)
      .values(everyField(records))
      .onConflictDoUpdate({ target: [records.kind, records.id], set: fromExcluded(records, 'kind', 'id') })
      .prepare(),
    upsertLease: db
      .insert(leases)
      .values(everyField(leases))
      .onConflictDoUpdate({ target: leases.name, set: fromExcluded(leases, 'name') })
      .prepare(),
    upsertWindow: db
      .insert(rateWindows)
      .values(everyField(rateWindows))
      .onConflictDoUpdate({ target: rateWindows.key, set: fromExcluded(rateWindows, 'key') })
      .prepare(),
    staleRecords: db
      .delete(records)
      .where(
        sql`(${records.kind}, ${records.id}) in (select kind, id from records where expires_at <= ${given('now')} limit ${given('limit')})`,
      )
      .returning({ id: records.id })
      .prepare(),
    staleLeases: db
      .delete(leases)
      .where(
        sql`${leases.name} in (select name from leases where expires_at <= ${given('now')} limit ${given('limit')})`,
      )
      .returning({ name: leases.name })
      .prepare(),
    staleTotals: db
      .delete(callTotals)
      .where(and(eq(callTotals.unit, HOUR_MS), lt(callTotals.at, given('before'))))
      .prepare(),
    staleWindows: db
      .delete(rateWindows)
      .where(
        sql`${rateWindows.key} in (select key from rate_windows where reset_at <= ${given('now')} limit ${given('limit')})`,
      )
      .returning({ key: rateWindows.key })
      .prepare(),
  }
}

type Table = typeof calls | typeof authorizations | typeof records | typeof leases | typeof rateWindows

/** `values` in which every field is the placeholder of its name. */
function everyField<T extends Table>(
  table: T,
): { [Field in keyof T['$inferSelect']]: ReturnType<typeof sql.placeholder> } {
  const fields = Object.keys(getTableColumns(table)).map((field) => [field, sql.placeholder(field)])
  return Object.fromEntries(fields)
}

/** A new call has no later notes yet: a parameter that is always null would cost each call a little. */
function fieldsOfNewCall() {
  const { settlingAt, vendorError, paymentError, paymentErrorAt, settledBy, ...fields } = everyField(calls)
  return fields
}

/** `set` of an upsert: every field but the keys takes the value of the insert. */
function fromExcluded(table: Table, ...keys: readonly string[]): Record<string, ReturnType<typeof sql.raw>> {
  const fields = Object.entries(getTableColumns(table)).filter(([field]) => !keys.includes(field))
  return Object.fromEntries(fields.map(([field, column]) => [field, sql.raw(`excluded."${column.name}"`)]))
}

/** An update of exactly these fields of one call. Parameters go through their columns, which encode money and JSON. */
export function patchStatement(db: SqliteDatabase, fields: readonly (keyof RowPatch)[]) {
  const set = Object.fromEntries(
    fields.map((field) => [field, sql`${sql.param(sql.placeholder(field), calls[field])}`]),
  )
  return db
    .update(calls)
    .set(set)
    .where(eq(calls.id, sql.placeholder('id')))
    .prepare()
}

/** Adds a call, whose id comes second, to the sums of its wallet, as of the day that comes first. */
export const COUNT_ARCHIVED = `
  INSERT INTO spend_totals
    SELECT payer, ?, gateway, endpoint, coalesce(':' || model, ''), asset, 2, 1,
      cast(substr(coalesce(paid, quote), 1, length(coalesce(paid, quote)) - 9) AS INTEGER),
      cast(substr(coalesce(paid, quote), -9) AS INTEGER),
      cast(coalesce(usage ->> 'input', 0) AS INTEGER), cast(coalesce(usage ->> 'output', 0) AS INTEGER), settled_at
    FROM calls WHERE id = ?
  ON CONFLICT DO UPDATE SET
    calls = calls + 1, billions = billions + excluded.billions, rest = rest + excluded.rest,
    input_tokens = input_tokens + excluded.input_tokens, output_tokens = output_tokens + excluded.output_tokens,
    last_at = max(last_at, excluded.last_at)`
