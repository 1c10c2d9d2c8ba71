/** Drops the indexes that only replicas of an older version use, once none of them is connected. */
import type { PoolClient } from 'pg'
import { SUPERSEDED } from './lookups.ts'

/** How many migrations a replica knows that uses none of these indexes. */
const SINCE = 5

/** The name of the sessions of a replica that knows so many migrations. The first release names them `farebox`. */
export const sessionName = (known: number): string => `farebox ${known}`

/** True of both, or nothing is dropped: some indexes are there, and nobody connected uses them. */
const DROPPABLE = `SELECT (SELECT count(*) FROM unnest($1::text[]) AS each WHERE to_regclass(each) IS NOT NULL) > 0
    AND NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND (application_name = 'farebox'
      OR substring(application_name from '^farebox (\\d+)$')::bigint < ${SINCE})) AS yes`

/** Milliseconds that a lock of the tables is waited for: whoever wants them meanwhile waits behind it. */
const LOCK_MS = 500

/**
 * Nothing depends on it but speed: an older replica that starts afterwards finds its calls without an index. So errors
 * are not told, and it is tried again.
 */
export async function dropSuperseded(client: PoolClient, known: number): Promise<void> {
  if (known < SINCE) return
  const { rows } = await client.query<{ yes: boolean }>(DROPPABLE, [SUPERSEDED])
  if (!rows[0]?.yes) return
  await client.query(
    `BEGIN; SET LOCAL lock_timeout = ${LOCK_MS}; DROP INDEX IF EXISTS ${SUPERSEDED.join(', ')}; COMMIT`,
  )
}
