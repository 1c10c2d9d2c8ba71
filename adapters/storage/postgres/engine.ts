/** Databases that speak the protocol of Postgres and are not Postgres: none has been tried. */
import { DatabaseError } from '../database_error.ts'

export const ENGINE = `SELECT version() AS version,
  EXISTS (SELECT 1 FROM pg_catalog.pg_extension WHERE extname = 'citus') AS is_citus`

const OTHERS: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/-YB-|Yugabyte/i, 'YugabyteDB'],
  [/CockroachDB/i, 'CockroachDB'],
  [/Redshift/i, 'Amazon Redshift'],
  [/Greenplum/i, 'Greenplum'],
  [/Materialize/i, 'Materialize'],
  [/openGauss|GaussDB/i, 'openGauss'],
]

/** The name of a database that is not Postgres, by its `version()`; undefined for Postgres. */
export function otherEngine(version: string, isCitus: boolean): string | undefined {
  if (isCitus) return 'Citus'
  const known = OTHERS.find(([pattern]) => pattern.test(version))?.[1]
  if (known !== undefined) return known
  return /^PostgreSQL \d/.test(version) ? undefined : `a database that calls itself "${version.slice(0, 40)}"`
}

/** Throws for a database that is not Postgres. Whether it locks as Postgres does decides whether money is safe. */
export function refuseUntested(version: string, isCitus: boolean): void {
  const name = otherEngine(version, isCitus)
  if (name === undefined) return
  throw new DatabaseError(
    'failed',
    '',
    `This database is ${name}, which Farebox was never tried on. Use Postgres, or add allow_untested_database=yes to ` +
      'the URL of a database without real money.',
  )
}
