/** Asks a Postgres server for its time, without touching the schema. */
import { Client } from 'pg'
import { sanitized } from '../database_error.ts'
import { databaseUrl } from './database_url.ts'

/** The server's time in milliseconds. Rejects, in words and without the URL's password, when it does not answer. */
export async function postgresTime(url: string, { timeoutMs = 5_000 } = {}): Promise<number> {
  try {
    const client = new Client({
      connectionString: databaseUrl(url).url,
      connectionTimeoutMillis: timeoutMs,
      query_timeout: timeoutMs,
    })
    client.on('error', () => {})
    await client.connect()
    try {
      const { rows } = await client.query<{ now: string }>(
        'select extract(epoch from clock_timestamp())::float8 * 1000 as now',
      )
      return Number(rows[0]?.now)
    } finally {
      await client.end()
    }
  } catch (error) {
    throw sanitized(error)
  }
}
