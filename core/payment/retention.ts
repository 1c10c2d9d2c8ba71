/**
 * How long results, ledger rows and media are kept (contract 2.29). prune.ts deletes what has expired.
 */
import { Type } from '@sinclair/typebox'
import { recordKind } from '../endpoint/record_kind.ts'
import { JOB_RETENTION } from '../endpoint/sale.ts'
import type { Sold } from '../endpoint/mod.ts'
import type { Call, RecordStorage } from '../ports/mod.ts'

/** Lifetimes in milliseconds. Without one, data is kept forever. */
export type Retention = {
  /** How long an unpaid result can be claimed. */
  readonly unclaimedMs: number
  /** How long a settled result can be read. Endpoints whose own retention is under 30 days keep no more than this. */
  readonly settledMs: number
  /** How long a settled background response can be read. */
  readonly backgroundMs: number
  /** How long the ledger row of a settled call is kept; must be longer than its result. */
  readonly ledgerMs?: number
  /** After how long the ledger row of a settled call moves to the archive. */
  readonly archiveMs?: number
  /** How long the media of a settled call is kept; must not be shorter than its result. */
  readonly mediaMs?: number
}

const DAY_MS = 86_400_000

/** Retention of the row of a second authorization. The request that brought it finds it by this row. */
export const SECONDARY_RETENTION_MS = 30 * DAY_MS

/**
 * How long things are kept where a gateway says nothing else.
 *
 * @example
 * const settled = retention.settledMs
 */
export const retention: Retention = { ...JOB_RETENTION, backgroundMs: DAY_MS }

/**
 * The lifetimes of an endpoint's results. Its own values apply when they are shorter than both the default and the
 * setting.
 */
export function retentionOf({ retention: own }: Pick<Sold, 'retention'>, wanted: Retention): Sold['retention'] {
  const lifetime = (name: keyof typeof JOB_RETENTION) =>
    own[name] >= JOB_RETENTION[name] ? wanted[name] : Math.min(own[name], wanted[name])
  return { unclaimedMs: lifetime('unclaimedMs'), settledMs: lifetime('settledMs'), backgroundMs: wanted.backgroundMs }
}

/** How long the result of this call is kept after settlement. */
export function settledMsOf(
  { request }: Pick<Call, 'request'>,
  { settledMs, backgroundMs = settledMs }: Sold['retention'],
): number {
  return (request as { readonly _background?: unknown } | null)?._background === true ? backgroundMs : settledMs
}

// ── media ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * The objects of one call, filed under the day on which they are next checked. `settledAt` is set once the call has
 * settled.
 */
export const STORED = recordKind({
  kind: 'stored_media',
  version: 1,
  schema: Type.Object({
    call: Type.String(),
    keys: Type.Array(Type.String()),
    settledAt: Type.Optional(Type.Integer()),
  }),
})

export type StoredMedia = { readonly call: string; readonly keys: readonly string[]; readonly settledAt?: number }

/** Records outlive every check day, however long no process runs. */
export const RECORD_MS = 3_650 * DAY_MS

export const dayOf = (ms: number): number => Math.floor(ms / DAY_MS)
export const ownerOf = (day: number): string => `day:${day}`

/** Records where the media of a call is stored, so that it can be deleted; it is checked from `due` on. */
export async function noteStoredMedia(
  storage: Pick<RecordStorage, 'putRecord'>,
  { due, ...data }: StoredMedia & { readonly due: number },
  now: number,
): Promise<void> {
  const day = Math.max(dayOf(due), dayOf(now)) + 1
  const [first] = data.keys
  if (first === undefined) return
  const record = { id: `${day}/${first}`, owner: ownerOf(day), expiresAt: day * DAY_MS + RECORD_MS }
  await STORED.put(storage, { ...record, data: { ...data, keys: [...data.keys] } }, now)
}
