/**
 * Rows and media that maintenance deletes, or moves into the archive (contract 2.29; decision 115). Media is deleted
 * last: never while an unsettled call may still be paid, nor while a settled result refers to it. Loaded by the first
 * round of maintenance.
 */
import { Type } from '@sinclair/typebox'
import { type ReadRecord, recordKind } from '../endpoint/record_kind.ts'
import type { Ports } from '../ports/mod.ts'
import type { ArchiveStore } from './reports/ledger_archive.ts'
import { dayOf, noteStoredMedia, ownerOf, RECORD_MS, type Retention, STORED, type StoredMedia } from './retention.ts'

/** The first day that has not been swept. */
const SWEEP = recordKind({ kind: 'media_sweep', version: 1, schema: Type.Object({ day: Type.Integer() }) })
const CURSOR = 'cursor'
/** How many past days are swept when no earlier sweep is recorded. */
const FIRST_DAYS = 30
/** How often media without a lifetime is checked, in case the setting changes. */
const RECHECK_MS = 30 * 86_400_000
const BATCH = 100

type Pruning = Pick<Ports, 'storage' | 'objects' | 'clock' | 'log'>

/**
 * Deletes what has expired: results and unpaid calls, ledger rows where they have a lifetime, and media. To be called
 * now and then by one process at a time. `isArchived`: rows that are not in the archive yet, but should be, stay.
 *
 * @example
 * await pruneExpired({ storage, objects, clock, log }, { ...retention, mediaMs: 90 * 86_400_000 })
 */
export async function pruneExpired(
  ports: Pruning,
  { ledgerMs, archiveMs, mediaMs }: Retention,
  { isArchived = false }: { readonly isArchived?: boolean } = {},
): Promise<void> {
  const { storage, clock } = ports
  await storage.prune(clock.now())
  // Before the ledger: its rows say which media is paid for.
  await sweepMedia(ports, mediaMs)
  if (ledgerMs === undefined) return
  const before = clock.now() - ledgerMs
  const isBehind = isArchived && archiveMs !== undefined && archiveMs <= ledgerMs
  if (isBehind && (await storage.ledgerRows(before, clock.now(), 1)).length > 0) return
  await storage.pruneLedger(before, clock.now())
}

type Archiving = Pick<Ports, 'storage' | 'clock'> & {
  /** Where archived calls go. Never a store that is served to anybody. */
  readonly archive: ArchiveStore
  /** Whether this process may go on; asked before each file. */
  mayGoOn(): Promise<boolean>
}

/**
 * Moves settled calls that are older than `archiveMs` into the archive, until none is left or `signal` aborts: 500 at a
 * time, and at most 1,100 a second, so that buyers are served meanwhile. By one process at a time.
 *
 * @example
 * const mayGoOn = () => storage.lease('archive', 'worker 1', { now: Date.now(), until: Date.now() + 60_000 })
 * await archiveExpired({ storage, clock, archive: objects, mayGoOn }, { ...retention, archiveMs: 400 * 86_400_000 })
 */
export async function archiveExpired(
  { storage, clock, archive, mayGoOn }: Archiving,
  { archiveMs }: Retention,
  signal?: AbortSignal,
): Promise<void> {
  if (archiveMs === undefined) return
  const { archiveLedger } = await import('./reports/ledger_archive.ts')
  await archiveLedger({ storage, clock, store: archive }, { archiveMs, mayGoOn, isPaced: true, signal })
}

/** Checks the media whose day has come: deletes it, or files it under a later day. */
async function sweepMedia(ports: Pruning, mediaMs: number | undefined): Promise<void> {
  const { storage, clock, log } = ports
  const today = dayOf(clock.now())
  const known = await SWEEP.get(storage, CURSOR, clock.now())
  const failures: string[] = []
  for (let day = known?.data.day ?? today - FIRST_DAYS; day <= today; day++) {
    for (;;) {
      const found = await STORED.list(storage, ownerOf(day), { now: clock.now(), limit: BATCH })
      if (found.length === 0) break
      for (const media of found) {
        const due = await whenDue(ports, media, mediaMs).catch((error: Error) => {
          failures.push(error.message)
          return { ...media.data, due: clock.now() }
        })
        if (due) await noteStoredMedia(storage, due, clock.now())
        await STORED.move(storage, media, { expiresAt: clock.now() }, clock.now())
      }
    }
  }
  const data = { day: today + 1 }
  const expiresAt = clock.now() + RECORD_MS
  const isMoved = known && (await SWEEP.move(storage, known, { data, expiresAt }, clock.now()))
  if (!isMoved) await SWEEP.put(storage, { id: CURSOR, owner: CURSOR, data, expiresAt }, clock.now())
  if (failures.length > 0)
    log.alert('expired media could not be deleted; the next attempt is tomorrow', {
      count: failures.length,
      error: failures[0],
    })
}

/** When to check this media again; undefined once it is deleted. */
async function whenDue(
  { storage, objects, clock }: Pruning,
  { data }: ReadRecord<StoredMedia>,
  mediaMs: number | undefined,
): Promise<(StoredMedia & { readonly due: number }) | undefined> {
  const call = await storage.getCall(data.call)
  const settledAt = call?.settledAt ?? data.settledAt
  const isNamed = call !== undefined && (settledAt === undefined || call.result !== null)
  const isPermanent = settledAt !== undefined && mediaMs === undefined
  const endsAt = settledAt === undefined || mediaMs === undefined ? 0 : settledAt + mediaMs
  if (isNamed || isPermanent || endsAt > clock.now()) {
    const due = isPermanent ? clock.now() + RECHECK_MS : endsAt
    return { ...data, ...(settledAt !== undefined && { settledAt }), due }
  }
  for (const key of data.keys) await objects.delete(key)
  return undefined
}
