import { authorizations, type Column, expression, records, spendTotals } from '../sql/schema.ts'
import { nameOf, statementsIn } from '../sql/statement.ts'
import { callFields, headFields, patchesOf, statementsOf } from '../sql/statements.ts'
import { postgresDialect } from './dialect.ts'

export const patchOf = patchesOf(postgresDialect)

const { select, run, statement } = statementsIn(postgresDialect)

/** Columns of a call that decisions read and that can change. A receipt is compared by whether there is one. */
const { id: _id, payer: _payer, asset: _asset, endpoint: _endpoint, quote: _quote, receipt, ...changing } = headFields
const isSame = (fields: Readonly<Record<string, Column>>) =>
  Object.entries(fields)
    .map(([field, column]) => `${nameOf(column)} ${column.isNullable ? 'is not distinct from' : '='} @${field}`)
    .join(' and ')
const { kind: _kind, id: _record, ...ofRecord } = records.fields

/** Of one day; by the names that a query has. */
const buyersOf = (day: string) => `(select count(distinct payer) from spend_totals where spend_totals.day = ${day}
  and gateway = coalesce(@gateway, gateway) and endpoint = coalesce(@endpoint, endpoint) and model = coalesce(@model, model))`
const NAMES = 'jsonb_build_array(@gateway::text, @endpoint::text, @model::text)::text'
/** Days up to the last one, from the first one that has sums. */
const daysUntil = (last: string) => `generate_series(
    (select min(day) from spend_totals where day >= @since and day < @until), ${last}
  ) as each(day) left join buyers_by_day as kept on kept.day = each.day and kept.names = ${NAMES}`
/** Days that ended more than a day ago, by the clock of the database, and are not remembered. */
const UNCOUNTED = `from ${daysUntil('least(@until::bigint, floor(extract(epoch from now()) / 86400)::bigint - 2) - 1')}
  where kept.day is null order by each.day limit @limit`

/** The statements of the storage. */
export const ask = {
  ...statementsOf(postgresDialect),
  now: select(
    'now',
    { now: expression<number>('floor(extract(epoch from clock_timestamp()) * 1000)::bigint', 'integer') },
    '',
  ),
  /** Locks the row of a wallet, which is inserted if it is new. Nothing is updated. */
  lockPayer: run(
    'lock_payer',
    `insert into payers (payer, asset) values (@payer, @asset)
     on conflict (payer, asset) do update set payer = excluded.payer where false`,
  ),
  /** Remembered where it can be; see buyers.ts. */
  buyersByDay: select(
    'buyers_by_day',
    { day: { ...spendTotals.fields.day, sql: 'day' }, buyers: expression<number>('buyers', 'integer') },
    `from (
       select each.day, coalesce(kept.buyers, ${buyersOf('each.day')}) as buyers
       from ${daysUntil('(select max(day) from spend_totals where day < @until)')}
     ) as days where buyers > 0 order by day`,
  ),
  uncountedDays: select('uncounted_days', { day: expression<number>('each.day', 'integer') }, UNCOUNTED),
  countDays: statement(
    'count_days',
    { day: expression<number>('day', 'integer') },
    `insert into buyers_by_day
       select ${NAMES}, uncounted.day, ${buyersOf('uncounted.day')} from (select each.day ${UNCOUNTED}) as uncounted
     returning day`,
  ),
  /** Of many calls that are asked for at the same time. */
  callsAmong: select('calls_among', callFields, 'from calls where id = any(@ids::text[])'),
  callsOfAmong: select(
    'calls_of_among',
    { key: authorizations.fields.key, ...callFields },
    'from authorizations join calls on calls.id = authorizations.call where authorizations.key = any(@keys::text[])',
  ),
  recordsAmong: select(
    'records_among',
    records.fields,
    'from unnest(@kinds::text[], @ids::text[]) as wanted(kind, id) join records using (kind, id)',
  ),
}

/** Parts of a step that writes only if the rows are as they were last seen. */
export const seen = {
  call: statement('call_seen', {}, `${isSame(changing)} and (${nameOf(receipt)} is null) = @hasNoReceipt`),
  record: statement('record_seen', {}, isSame(ofRecord)),
  setStatus: run(
    'mark_seen',
    'update authorizations set status = @status where key = @key and call = @call and status = @before',
  ),
  unbind: run('unbind_seen', 'delete from authorizations where key = @key and call = @call and status = @before'),
  moveRecord: run(
    'move_record',
    'update records set owner = @owner, expires_at = @expiresAt, data = @data where kind = @kind and id = @id',
  ),
}
