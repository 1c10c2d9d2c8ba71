/** Processes of several versions on one database, which is as empty as a new one before each run. */
import type { Migration } from '../../../adapters/storage/migration.ts'
import { migrations as ofPostgres } from '../../../adapters/storage/postgres/migrations.ts'
import { migrations as ofSqlite } from '../../../adapters/storage/sqlite/migrations.ts'
import type { Storage } from '../../../core/ports/mod.ts'
import { postgresServer } from '../../adapters/storage/postgres/postgres_server.ts'
import { standing, standingStorage } from '../standing.ts'
import type { Renewal } from './fleet_worker.ts'
import { type FleetLocation, type Start, type Started, type Version, VERSIONS } from './versions.ts'

export type Fleet = {
  /** Data for the laws: the database as the version that started last sees it. */
  readonly storage: Storage
  /** One process at a time, as on SQLite. */
  readonly isSingle: boolean
  /** The newest version that has begun to migrate. */
  newest: Version
  start(start: Start): Started
  /** `wrote` is told of each verb that has changed the ledger. */
  storageOf(by: number, wrote: (verb: string) => void): Storage
  /** Whether the database takes a newer version than that of this process. */
  isPast(by: number): boolean
  /** A copy from before an upgrade, to which an operator may return while nothing was written since. */
  mayReturn(): boolean
  giveBack(): void
}

/** A rule of upgrades, switched off. */
export type Migrating = {
  readonly migrations?: (steps: readonly Migration[]) => readonly Migration[]
  /** Effect of the next version's step. */
  readonly next?: string
  /** Migrations are not undone where their process is killed. */
  readonly isTorn?: boolean
  /** Opens the storage of a version; called for each run. */
  readonly storages?: () => (storage: Storage, version: Version) => Storage
}

export type Fleets = {
  /** How often each happened in all runs. */
  readonly counts: Record<Started['kind'] | 'returned', number>
  fresh(rule: Migrating): Fleet
  close(): Promise<void>
}

export async function openFleets(kind: FleetLocation['kind']): Promise<Fleets> {
  if (kind === 'sqlite') return fleetsAt({ kind })
  const server = await postgresServer()
  const fleets = fleetsAt({ kind, url: await server.fresh() })
  return {
    ...fleets,
    async close() {
      await fleets.close()
      await server.stop()
    },
  }
}

/** A step that older versions cannot use, whatever it does. */
const NEXT: Migration = { name: 'a meaning that older versions do not know', sql: 'SELECT 1' }

function fleetsAt(location: FleetLocation): Fleets {
  const { ask, close } = standing(new URL('fleet_worker.ts', import.meta.url), location)
  const isSingle = location.kind === 'sqlite'
  const counts: Fleets['counts'] = { started: 0, refused: 0, crashed: 0, returned: 0 }

  /** On Postgres the last release and this version run side by side; no other two do. */
  const isRefusedAfter = (newer: Version, version: Version) =>
    isOlder(version, isSingle || newer === 'next' ? newer : version)

  function fresh({ migrations: change = (same) => same, next, isTorn = false, storages }: Migrating): Fleet {
    const known = change(isSingle ? ofSqlite : ofPostgres)
    const renewal: Renewal = {
      schemas: { this: known, next: [...known, { ...NEXT, ...(next !== undefined && { sql: next }) }] },
      isAtomic: !isTorn,
    }
    ask({ verb: 'renewed', given: [renewal] })
    const versions = new Map<number, Version>()
    const over = storages?.()
    /** The newest version that has started. */
    let started: Version = 'last'
    let hasCopy = false
    let before: Version = 'last'

    return {
      storage: standingStorage((verb, given) => ask({ verb, given })),
      isSingle,
      newest: 'last',
      start(start) {
        const isUpgrade = isOlder(this.newest, start.version)
        if (isUpgrade && isSingle) ask({ verb: 'backUp', given: [] })
        if (isUpgrade) {
          hasCopy = isSingle
          before = this.newest
          this.newest = start.version
        }
        const answer = ask({ verb: 'start', given: [start] }) as Started
        counts[answer.kind]++
        if (answer.kind !== 'started') return answer
        versions.set(start.by, start.version)
        if (isOlder(started, start.version)) started = start.version
        return answer
      },
      storageOf(by, wrote) {
        const version = versions.get(by) ?? 'last'
        const own = standingStorage((verb, given) => {
          const value = ask({ verb, given, by })
          if (!hasWritten(verb, value)) return value
          hasCopy = false
          wrote(verb)
          return value
        })
        return over ? over(own, version) : own
      },
      isPast: (by) => isRefusedAfter(started, versions.get(by) ?? 'last'),
      mayReturn: () => hasCopy,
      giveBack() {
        ask({ verb: 'restore', given: [before] })
        counts.returned++
        hasCopy = false
        started = before
        this.newest = before
      },
    }
  }
  return { counts, fresh, close }
}

const isOlder = (version: Version, other: Version): boolean => VERSIONS.indexOf(version) < VERSIONS.indexOf(other)

/** Whether a verb has changed the ledger. */
function hasWritten(verb: string, value: unknown): boolean {
  const kind = (value as { readonly kind?: unknown } | undefined)?.kind
  if (verb === 'openCall') return kind === 'opened'
  if (verb === 'recordPaid') return kind === 'recorded'
  if (verb === 'claimSettlement') return kind === 'yours' || kind === 'retry'
  if (/^(?:move|finish|put|renew|lease|hit|prune|archive)/.test(verb)) return value !== false
  return false
}
