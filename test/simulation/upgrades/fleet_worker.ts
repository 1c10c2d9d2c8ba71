/** The other end of `fleet.ts`: one database, and the storages of several versions that work on it. */
import { Database } from 'bun:sqlite'
import { Client } from 'pg'
import type { Migration } from '../../../adapters/storage/migration.ts'
import { migrate } from '../../../adapters/storage/postgres/migrations.ts'
import { type PostgresStorage, postgresStorage } from '../../../adapters/storage/postgres/mod.ts'
import { overBun, type SqliteDriver } from '../../../adapters/storage/sqlite/driver.ts'
import { sqliteStorage } from '../../../adapters/storage/sqlite/mod.ts'
import type { Storage } from '../../../core/ports/mod.ts'
import { RELEASES, storagesOf } from '../../adapters/storage/releases.ts'
import { locationOf, serve } from '../standing.ts'
import { type FleetLocation, READER, type Start, type Started, type Version, VERSIONS } from './versions.ts'

/** Migrations that this version and the next one know; the last one has its own. */
type Schemas = Readonly<Record<Exclude<Version, 'last'>, readonly Migration[]>>
export type Renewal = { readonly schemas: Schemas; readonly isAtomic: boolean }

type Served = {
  renewed(renewal: Renewal): Promise<void>
  start(start: Start): Promise<Started>
  /** A copy of the database, and the database as it was copied. */
  backUp(): void
  restore(version: Version): void
  storageOf(by: number): Storage | undefined
  close(): Promise<void>
}

class Crash extends Error {}

const isOfNewer = (error: unknown): boolean => /newer Farebox/.test(String(error))

const released = await storagesOf(RELEASES.at(-1) as (typeof RELEASES)[number])

// ── SQLite: one process after another ───────────────────────────────────────────────────────────────────────────────

function onSqlite(): Served {
  let database = new Database(':memory:')
  released.sqliteStorage(overBun(database))
  const first = database.serialize()
  let copy = first
  let renewal: Renewal | undefined
  const open = new Map<number, Storage>()

  return {
    async renewed(given) {
      renewal = given
      open.clear()
      database.close()
      database = Database.deserialize(first)
    },
    async start({ by, version, crashAt }) {
      const { isAtomic = true } = renewal ?? {}
      const calls = { left: crashAt ?? Number.POSITIVE_INFINITY }
      const driver = crashing(overBun(database), { calls, isAtomic })
      try {
        const storage = storageAt(version, driver)
        open.set(by, storage)
        open.set(READER, storage)
        return { kind: 'started' }
      } catch (error) {
        if (error instanceof Crash) return { kind: 'crashed' }
        if (isOfNewer(error)) return { kind: 'refused' }
        throw error
      } finally {
        calls.left = Number.POSITIVE_INFINITY
      }
    },
    backUp: () => void (copy = database.serialize()),
    restore(version) {
      open.clear()
      database.close()
      database = Database.deserialize(copy)
      open.set(READER, storageAt(version, overBun(database)))
    },
    storageOf: (by) => open.get(by),
    close: async () => database.close(),
  }

  function storageAt(version: Version, driver: SqliteDriver): Storage {
    if (version === 'last') return released.sqliteStorage(driver)
    return sqliteStorage(driver, { ...(renewal && { schema: renewal.schemas[version] }) })
  }
}

type Crashing = { readonly calls: { left: number }; readonly isAtomic: boolean }

/** A process that is killed before so many more statements. What it had not committed is undone, if that `isAtomic`. */
function crashing(driver: SqliteDriver, { calls, isAtomic }: Crashing): SqliteDriver {
  const count = () => {
    if (calls.left-- <= 0) throw new Crash('the process is killed')
  }
  return {
    ...driver,
    exec(sql) {
      count()
      return driver.exec(sql)
    },
    prepare(sql) {
      const statement = driver.prepare(sql)
      return {
        run(...values) {
          count()
          return statement.run(...values)
        },
        values: (...values) => statement.values(...values),
      }
    },
    transaction(step) {
      if (isAtomic) return driver.transaction(step)
      return step()
    },
  }
}

// ── Postgres: replicas of several versions ──────────────────────────────────────────────────────────────────────────

function onPostgres(url: string): Served {
  const cleaner = new Client({ connectionString: url })
  const connected = cleaner.connect()
  const opened: PostgresStorage[] = []
  const open = new Map<number, PostgresStorage>()
  let renewal: Renewal | undefined
  let newest = 0

  async function closeAll(): Promise<void> {
    open.clear()
    await Promise.all(opened.splice(0).map((storage) => storage.close()))
  }

  function storageAt(version: Version): PostgresStorage {
    const limits = { connections: 2, ...(version !== 'last' && renewal && { schema: renewal.schemas[version] }) }
    const storage = version === 'last' ? released.postgresStorage(url, limits) : postgresStorage(url, limits)
    opened.push(storage)
    return storage
  }

  return {
    async renewed(given) {
      renewal = given
      newest = 0
      await connected
      await closeAll()
      const { rows } = await cleaner.query<{ name: string }>('SELECT current_schema() AS name')
      const name = rows[0]?.name ?? given
      await cleaner.query(`DROP SCHEMA ${name} CASCADE; CREATE SCHEMA ${name}`)
    },
    async start({ by, version, crashAt }) {
      if (crashAt !== undefined && version !== 'last' && renewal)
        if (!(await migratesUpTo(url, renewal.schemas[version], crashAt))) return { kind: 'crashed' }
      const storage = storageAt(version)
      try {
        await storage.ready()
      } catch (error) {
        if (isOfNewer(error)) return { kind: 'refused' }
        throw error
      }
      open.set(by, storage)
      // The reader of the laws belongs to no replica: a replica remembers the rows that it has seen.
      if (VERSIONS.indexOf(version) >= newest) open.set(READER, storageAt(version))
      newest = Math.max(newest, VERSIONS.indexOf(version))
      return { kind: 'started' }
    },
    backUp() {},
    restore() {},
    storageOf: (by) => open.get(by),
    async close() {
      await closeAll()
      await cleaner.end()
    },
  }
}

/** False where it was killed before so many statements. What it had not committed is undone by the server. */
async function migratesUpTo(url: string, schema: readonly Migration[], statements: number): Promise<boolean> {
  const client = new Client({ connectionString: url })
  await client.connect()
  const query = client.query.bind(client) as (...given: unknown[]) => Promise<never>
  let left = statements
  client.query = ((...given: unknown[]) => {
    if (left-- <= 0) throw new Crash('the process is killed')
    return query(...given)
  }) as never
  try {
    await migrate(client, schema)
    return true
  } catch (error) {
    if (error instanceof Crash || isOfNewer(error)) return isOfNewer(error)
    throw error
  } finally {
    await client.end()
  }
}

const location = locationOf<FleetLocation>()
const fleet = location.kind === 'sqlite' ? onSqlite() : onPostgres(location.url)

serve(async ({ verb, given, by = READER }) => {
  const [first] = given
  if (verb === 'close') return await fleet.close()
  if (verb === 'renewed') return await fleet.renewed(first as Renewal)
  if (verb === 'start') return await fleet.start(first as Start)
  if (verb === 'backUp') return fleet.backUp()
  if (verb === 'restore') return fleet.restore(first as Version)
  const storage = fleet.storageOf(by)
  const ask = storage?.[verb as keyof Storage] as ((...given: readonly unknown[]) => Promise<unknown>) | undefined
  if (!ask) throw new Error(`there is no ${verb} of ${by}`)
  return await ask(...given)
})
