import { expression } from '../sql/schema.ts'
import { statementsIn } from '../sql/statement.ts'
import { patchesOf, statementsOf } from '../sql/statements.ts'
import { postgresDialect } from './dialect.ts'

export const patchOf = patchesOf(postgresDialect)

/** The statements of the storage. */
export const ask = {
  ...statementsOf(postgresDialect),
  now: statementsIn(postgresDialect).select(
    'now',
    { now: expression<number>('floor(extract(epoch from clock_timestamp()) * 1000)::bigint', 'integer') },
    '',
  ),
}
