import { ENTRY_FIELDS, HOUR_MS, type RowPatch, SETTLED_CALLS } from '../../../core/payment/mod.ts'
import type { CallTotal } from '../../../core/ports/mod.ts'
import type { Usdc } from '../../../core/x402/mod.ts'
import {
  authorizations,
  calls,
  callTotals,
  type Column,
  expression,
  type Fields,
  leases,
  rateWindows,
  records,
  spendTotals,
  type Table,
} from './schema.ts'
import { type Dialect, listOf, nameOf, type Statement, statementsIn } from './statement.ts'

/** Some fields of a table. */
export function pick<F extends Fields, Name extends keyof F>(fields: F, ...names: readonly Name[]): Pick<F, Name> {
  return Object.fromEntries(names.map((name) => [name, fields[name]])) as Pick<F, Name>
}

const all = calls.fields
/** Columns of a call that the storage port returns. */
const { claimToken, claimExpiresAt, claimKey, claimFresh, emptied, ...withoutClaim } = all
const { quotedAt, verifiedAt, settlingAt, vendorError, paymentError, paymentErrorAt, settledBy, ...call } = withoutClaim
export { call as callFields }
/** Columns of a call that decisions read, and those that count once it is settled. */
const head = {
  ...pick(all, 'id', 'payer', 'asset', 'endpoint', 'quote', 'charge', 'workStatus', 'paymentStatus', 'workerId'),
  ...pick(all, 'leaseExpiresAt', 'startedAt', 'error', 'receipt', 'expiresAt'),
  claimToken,
  claimExpiresAt,
  claimKey,
  claimFresh,
  emptied,
}
export { head as headFields }
const entry = pick(all, ...ENTRY_FIELDS)
const { signed, ...binding } = authorizations.fields
const { payer: _ofPayer, ...authorization } = binding
const bound = 'from authorizations join calls on calls.id = authorizations.call where authorizations.key ='
const unfinished = `work_status in ('queued', 'in_progress')`
export const PAIR = 'id = @id or id = (select call from authorizations where key = @key)'
const ONE = { one: expression<number>('1', 'integer') }

/** Both parts of a sum; null where there was nothing to sum. */
const SUMS = {
  billions: expression<Usdc | null>('billions', 'amount'),
  rest: expression<Usdc | null>('rest', 'amount'),
}

/**
 * The statements of a ledger. Conditions of a partial index are written out, because no database matches one against a
 * parameter. core/payment/ledger relies on the order of `bindings` and on the conditions of the exposed calls. Rows
 * that are changed are locked, several of them in the order of their ids, so that transactions cannot deadlock.
 */
export function statementsOf(dialect: Dialect) {
  return {
    ...callStatements(dialect),
    ...exposureStatements(dialect),
    ...listings(dialect),
    ...reports(dialect),
    ...writes(dialect),
    ...retention(dialect),
    ...others(dialect),
  }
}

export type Statements = ReturnType<typeof statementsOf>

function callStatements(dialect: Dialect) {
  const { select } = statementsIn(dialect)
  const { lock, lockCalls, lockInOrder, among, lookups } = dialect
  return {
    call: select('call', call, 'from calls where id = @id'),
    callOf: select('call_of', call, `${bound} @key`),
    head: select('head', head, `from calls where id = @id ${lock}`),
    headsAmong: select('heads_among', head, `from calls where ${among('id')} ${lockInOrder}`),
    /** The call that an authorization is bound to. */
    bound: select('bound', head, `${bound} @key ${lockCalls}`),
    /** A call and the one that an authorization is bound to. */
    pair: select('pair', head, `from calls where ${PAIR} ${lockInOrder}`),
    bindings: select('bindings', binding, 'from authorizations where call = @id order by position'),
    /** The bindings of a call, and the one with the key, whichever call it is of; in no order. */
    bindingsOrKey: select('bindings_or_key', binding, 'from authorizations where call = @id or key = @key'),
    bindingsAmong: select('bindings_among', binding, `from authorizations where ${among('call')}`),
    signed: select('signed', { signed }, 'from authorizations where key = @key'),
    lost: select(
      'lost',
      call,
      `from ${lookups.open} where ${unfinished} and payment_status = 'verified' and lease_expires_at <= @now
       order by lease_expires_at, id limit @limit`,
    ),
    unfinished: select(
      'unfinished',
      call,
      `from ${lookups.open} where ${unfinished} and worker_id = @workerId and gateway = @gateway and id > @after
       order by id limit @limit`,
    ),
    unsettled: select(
      'unsettled',
      call,
      `from ${lookups.open} where payment_status = 'settling' and claim_expires_at <= @before
         and gateway = coalesce(@gateway, gateway)
       order by claim_expires_at, id limit @limit`,
    ),
  }
}

/** Statements for the calls that a payer's limits are judged by. */
function exposureStatements(dialect: Dialect) {
  const { select } = statementsIn(dialect)
  const exposed = (status: string, expiresAt: string) => ({
    ...pick(all, 'id', 'endpoint', 'quote', 'charge', 'workStatus', 'paymentStatus', 'startedAt', 'settledAt'),
    bindingStatus: { ...binding.status, sql: status },
    bindingExpiresAt: { ...binding.expiresAt, sql: expiresAt },
    block: expression<number | null>(dialect.number('receipt', 'block'), 'integer'),
  })
  const open = exposed('authorizations.status', 'authorizations.expires_at')
  const closed = exposed('cast(null as text)', 'cast(null as bigint)')
  const { lookups } = dialect
  const spendable = `from ${lookups.spendable}
    where ${lookups.spender} = @payer and ${lookups.spendableUntil} > @now
      and authorizations.status in ('open', 'sent') and calls.asset = @asset`
  const settled = `from ${lookups.settled} where ${lookups.wallet} = @payer and asset = @asset and payment_status = 'settled'`
  const recentlySettled = select('recently_settled', closed, `${settled} and ${lookups.settledAt} >= @since`)
  const sums = `select cast(sum(${dialect.billions('amount')}) as text), cast(sum(${dialect.rest('amount')}) as text)`
  return {
    spendable: select('spendable', open, spendable),
    recentlySettled,
    /** One statement, so one snapshot: a settlement that ends meanwhile is seen before or after, never in between. */
    exposedCalls: select(
      'exposed_calls',
      open,
      `${spendable} union all select ${listOf(closed)} ${settled} and ${lookups.settledAt} >= @since
         ${lookups.missing}`,
    ),
    hasPaid: select('has_paid', ONE, `${settled} limit 1`),
    /** Nulls where nothing was ever paid. */
    paid: statementsIn(dialect).statement(
      'paid',
      SUMS,
      `${sums} from (
         select coalesce(paid, quote) as amount ${settled} order by ${lookups.settledAt} desc limit ${SETTLED_CALLS}
       ) as last`,
    ),
  }
}

/** The ledger as the operator lists it. */
function listings(dialect: Dialect) {
  const { select } = statementsIn(dialect)
  const { open, settled, settledAt, settledId } = dialect.lookups
  const between = '(created_at, id) < (@at, @id) and created_at >= @since'
  const newestFirst = 'order by created_at desc, id desc limit @limit'
  return {
    listed: select('listed', entry, `from calls where ${between} ${newestFirst}`),
    listedOfPayer: select('listed_of_payer', entry, `from calls where payer = @payer and ${between} ${newestFirst}`),
    /** As `listedOfPayer`, of one day: for an index that has the day first. */
    listedOnDay: select(
      'listed_on_day',
      entry,
      `from calls where created_at / 86400000 = @day and payer = @payer and ${between} ${newestFirst}`,
    ),
    /** When the last call before a time was opened; null where there was none. */
    openedBefore: select(
      'opened_before',
      { at: expression<number | null>('max(created_at)', 'integer') },
      'from calls where created_at < @before',
    ),
    listedSettled: select(
      'listed_settled',
      entry,
      `from ${settled} where payment_status = 'settled' and (${settledAt}, ${settledId}) > (@at, @id)
       order by ${settledAt}, ${settledId} limit @limit`,
    ),
    listedUnfinished: select(
      'listed_unfinished',
      entry,
      `from ${open} where ${unfinished} and lease_expires_at >= 0 order by lease_expires_at, id limit @limit`,
    ),
    listedInDoubt: select(
      'listed_in_doubt',
      entry,
      `from ${open} where payment_status in ('settling', 'unresolved') and created_at >= 0 and not ${unfinished}
       order by created_at, id limit @limit`,
    ),
    entry: select('entry', entry, 'from calls where id = @name'),
    entriesByKey: select('entries_by_key', entry, `${bound} @name`),
    entriesByNonce: select(
      'entries_by_nonce',
      { ...entry, key: binding.key },
      `from authorizations join calls on calls.id = authorizations.call where ${dialect.nonceEndsInTail}`,
    ),
    entriesByTransaction: select(
      'entries_by_transaction',
      entry,
      `from ${settled} where ${dialect.transactionEndsInTail}`,
    ),
    authorizationsOf: select(
      'authorizations_of',
      authorization,
      'from authorizations where call = @id order by position',
    ),
  }
}

/** Sums for wallets and for the operator. */
function reports(dialect: Dialect) {
  const { select } = statementsIn(dialect)
  const { billions, rest, total, lookups } = dialect
  const group = pick(all, 'gateway', 'endpoint', 'model', 'asset')
  const sumsOf = (sumOfBillions: string, sumOfRest: string, input: string, output: string, lastAt: string) => ({
    billions: expression<Usdc>(`cast(${sumOfBillions} as text)`, 'amount'),
    rest: expression<Usdc>(`cast(${sumOfRest} as text)`, 'amount'),
    inputTokens: expression<number>(input, 'integer'),
    outputTokens: expression<number>(output, 'integer'),
    lastAt: expression<number>(`max(${lastAt})`, 'integer'),
  })
  const spent = 'coalesce(paid, quote)'
  const tokens = (kind: string) => total(dialect.number('usage', kind))
  const names = `gateway = coalesce(@gateway, gateway) and endpoint = coalesce(@endpoint, endpoint)
    and model = coalesce(@model, model)`
  const totalsBy = (by: string, name: string) =>
    select(
      `call_totals_by_${by}`,
      {
        at: callTotals.fields.at,
        name: expression<string | null>(name, 'text'),
        outcome: expression<CallTotal['outcome']>('outcome', 'text'),
        upToMs: callTotals.fields.upToMs,
        calls: expression<number>('sum(calls)', 'integer'),
        billions: expression<Usdc>('cast(sum(billions) as text)', 'amount'),
        rest: expression<Usdc>('cast(sum(rest) as text)', 'amount'),
      },
      `from call_totals where unit = @unit and at >= @since and at < @until and ${names}
       group by 1, 2, 3, 4 having sum(calls) <> 0`,
    )
  const least = (column: string) => ({ at: expression<number | null>(`min(${column})`, 'integer') })
  return {
    spent: select(
      'spent',
      {
        ...group,
        calls: expression<number>('count(*)', 'integer'),
        ...sumsOf(`sum(${billions(spent)})`, `sum(${rest(spent)})`, tokens('input'), tokens('output'), 'settled_at'),
      },
      `from ${lookups.settled} where ${lookups.wallet} = @payer and ${lookups.settledAt} >= @since
         and ${lookups.settledAt} < @until and payment_status = 'settled'
       group by gateway, endpoint, model, asset`,
    ),
    /** Parts of one sum are added here: the first is less than nothing where an old call was deleted. */
    spendTotals: select(
      'spend_totals',
      {
        ...pick(spendTotals.fields, 'gateway', 'endpoint', 'model', 'asset'),
        calls: expression<number>('sum(calls)', 'integer'),
        ...sumsOf('sum(billions)', 'sum(rest)', 'sum(input_tokens)', 'sum(output_tokens)', 'last_at'),
      },
      `from spend_totals where payer = @payer and day >= @day
       group by gateway, endpoint, model, asset having sum(calls) > 0`,
    ),
    totals: totalsBy('all', 'cast(null as text)'),
    totalsByGateway: totalsBy('gateway', 'gateway'),
    totalsByEndpoint: totalsBy('endpoint', 'endpoint'),
    totalsByModel: totalsBy('model', "nullif(model, '')"),
    firstTotal: select('first_total', least('at'), 'from call_totals where unit = @unit and at >= @since'),
    firstDay: select('first_day', least('day'), 'from spend_totals where day >= @since'),
    buyersByDay: select(
      'buyers_by_day',
      { day: spendTotals.fields.day, buyers: expression<number>('count(distinct payer)', 'integer') },
      `from spend_totals where day >= @since and day < @until and ${names} group by day order by day`,
    ),
  }
}

function writes(dialect: Dialect) {
  const { run } = statementsIn(dialect)
  const { among, lookups } = dialect
  // A new call has no later notes yet: a parameter that is always null would cost each call a little.
  const later = new Set(['settlingAt', 'vendorError', 'paymentError', 'paymentErrorAt', 'settledBy'])
  const fieldsOfNewCall = Object.entries(all).filter(([field]) => !later.has(field))
  return {
    insertCall: run('insert_call', insertInto(calls.name, Object.fromEntries(fieldsOfNewCall), lookups.inserted)),
    /** A call that was paid before it is stored. */
    insertPaid: run('insert_paid', insertInto(calls.name, all, lookups.inserted)),
    renew: run('renew', `update calls set lease_expires_at = @leaseExpiresAt where ${among('id')}`),
    /** Changes nothing if the authorization serves a call other than `boundTo`. */
    bind: run('bind', `${upsert(authorizations)} where authorizations.call = @boundTo`),
    setStatus: run('mark', 'update authorizations set status = @status where key = @key'),
    unbind: run('free', 'delete from authorizations where key = @key'),
    unbindAmong: run('free_among', `delete from authorizations where ${among('call')}`),
    deleteAmong: run('forget_among', `delete from calls where ${among('id')}`),
    emptyAmong: run(
      'empty_among',
      `update calls set request = null, result = null, emptied = true where ${among('id')}`,
    ),
    postponeAmong: run('postpone_among', `update calls set ${lookups.postponed} where ${among('id')}`),
    clearSignedAmong: run('unsign_among', `update authorizations set signed = null where ${among('call')}`),
    // A row that was not found is inserted, so that of two replicas that found none, one fails and asks again.
    insertRecord: run('insert_record', insertInto(records.name, records.fields)),
    insertLease: run('insert_lease', insertInto(leases.name, leases.fields)),
    insertWindow: run('insert_window', insertInto(rateWindows.name, rateWindows.fields)),
    upsertRecord: run('upsert_record', upsert(records)),
    upsertLease: run('upsert_lease', upsert(leases)),
    upsertWindow: run('upsert_window', upsert(rateWindows)),
  }
}

/** Statements for expired calls, and for those that leave the ledger. */
function retention(dialect: Dialect) {
  const { select, run, statement } = statementsIn(dialect)
  const { among, billions, rest, total, greater, lockUnlocked, lookups } = dialect
  const { settled, settledAt, settledId, dueAt } = lookups
  const over = `from ${settled}
    where ${dialect.is('emptied', true)} and payment_status = 'settled' and ${settledAt} <= @before
      and not exists (select 1 from authorizations where call = calls.id and expires_at > @now)
    order by ${settledAt}, ${settledId} limit @limit`
  const stale = (table: string, end: string) =>
    statement(`stale_${table}`, ONE, `${dialect.deleteSome(table, `${end} <= @now`)} returning 1`)
  const paid = 'coalesce(paid, quote)'
  const tokens = (kind: string) => total(dialect.number('usage', kind))
  const added = ['calls', 'billions', 'rest', 'input_tokens', 'output_tokens']
    .map((sum) => `${sum} = spend_totals.${sum} + excluded.${sum}`)
    .join(', ')
  return {
    /** Skips calls that somebody else has locked. */
    expiring: select(
      'expiring',
      { ...head, dueAt: expression<number>(dueAt, 'integer') },
      `from calls
       where ${dialect.is('emptied', false)} and ${dueAt} <= @now and (${dueAt}, id) > (@dueAt, @id)
       order by ${dueAt}, id limit @limit ${lockUnlocked}`,
    ),
    overLedgerRows: select('over_ledger_rows', { id: all.id }, `${over} ${lockUnlocked}`),
    listLedgerRows: select('list_ledger_rows', call, over),
    /** Adds calls to the sums of their wallets, as of a day. */
    countArchived: run(
      'count_archived',
      `insert into spend_totals
         select payer, cast(@day as bigint), gateway, endpoint, coalesce(':' || model, ''), asset, 2, count(*),
           sum(${billions(paid)}), sum(${rest(paid)}), ${tokens('input')}, ${tokens('output')}, max(settled_at)
         from calls where ${among('id')} group by payer, gateway, endpoint, model, asset
       on conflict (payer, day, gateway, endpoint, model, asset, part) do update
         set ${added}, last_at = ${greater('spend_totals.last_at', 'excluded.last_at')}`,
    ),
    staleRecords: stale('records', 'expires_at'),
    staleLeases: stale('leases', 'expires_at'),
    staleWindows: stale('rate_windows', 'reset_at'),
    staleTotals: run('stale_call_totals', `delete from call_totals where unit = ${HOUR_MS} and at < @before`),
  }
}

function others(dialect: Dialect) {
  const { select } = statementsIn(dialect)
  const { lock } = dialect
  return {
    record: select('record', records.fields, 'from records where kind = @kind and id = @id'),
    recordToMove: select('record_to_move', records.fields, `from records where kind = @kind and id = @id ${lock}`),
    recordsOfOwner: select(
      'records_of_owner',
      records.fields,
      `from records where owner = @owner and kind = @kind and id > @after and expires_at > @now
       order by id limit @limit`,
    ),
    lease: select('lease', leases.fields, `from leases where name = @name ${lock}`),
    window: select('window', rateWindows.fields, `from rate_windows where key = @key ${lock}`),
  }
}

/** An update of exactly these fields of the call `id`: one statement for each set that was ever patched together. */
export function patchesOf(dialect: Dialect): (patch: RowPatch) => Statement<object> | undefined {
  const made = new Map<string, Statement<object>>()
  const { run } = statementsIn(dialect)
  return (patch) => {
    const fields = Object.keys(patch) as (keyof RowPatch)[]
    if (fields.length === 0) return undefined
    const shape = fields.join()
    const besides = fields.includes('expiresAt') ? dialect.lookups.expiring : ''
    const set = () => fields.map((field) => `${nameOf(all[field])} = @${field}`).join(', ') + besides
    const statement = made.get(shape) ?? run(`patch_${made.size}`, `update calls set ${set()} where id = @id`)
    made.set(shape, statement)
    return statement
  }
}

function insertInto(table: string, fields: Fields, more: Readonly<Record<string, string>> = {}): string {
  const names = [...Object.values(fields).map(nameOf), ...Object.keys(more)]
  const params = [...Object.keys(fields).map((field) => `@${field}`), ...Object.values(more)]
  return `insert into ${table} (${names.join(', ')}) values (${params.join(', ')})`
}

function upsert({ name, fields, key }: Table): string {
  const keys = key.map((field) => nameOf(fields[field] as Column))
  const set = Object.values(fields)
    .map(nameOf)
    .filter((column) => !keys.includes(column))
    .map((column) => `${column} = excluded.${column}`)
  return `${insertInto(name, fields)} on conflict (${keys.join(', ')}) do update set ${set.join(', ')}`
}
