import { authorizations, type Column, expression, records } from '../sql/schema.ts'
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
