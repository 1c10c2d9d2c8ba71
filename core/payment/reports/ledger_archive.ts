/**
 * The archive of the ledger: settled calls that are older than its hot life move into files, a month in each folder.
 * Payments of a wallet stay in the sums. A crash at any point loses and doubles nothing: which file is written is known
 * before it is, and only calls that are read back from it are deleted.
 */
import { Type } from '@sinclair/typebox'
import { sha256 } from '@noble/hashes/sha256'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils'
import { recordKind } from '../../endpoint/record_kind.ts'
import type { Call, Objects, Ports, RecordStorage } from '../../ports/mod.ts'
import { parseAtomic } from '../../x402/money.ts'

/** Calls in one file: about 60 KB. They are read in one turn of the event loop. */
const SEGMENT = 500
/** Calls deleted in one transaction: bounds how long it holds the event loop. */
const BATCH = 16
/** From one file to the next, at least, and the rest after each, in milliseconds: 1,100 calls a second. */
const PACE_MS = 450
const REST_MS = 50
/** Files of a month that are listed: 50 million calls. */
const MAX_FILES = 100_000
const DAY_MS = 86_400_000
/** The records outlive every duty to keep books. */
const FOREVER_MS = 36_500 * DAY_MS
const OWNER = 'ledger'
const TYPE = 'application/gzip'

/** The file that is being written. */
const WRITING = recordKind({
  kind: 'archive_writing',
  version: 1,
  schema: Type.Object({ month: Type.String(), segment: Type.Integer() }),
})
/** The files of a month, and the hash of the last one. */
const MONTH = recordKind({
  kind: 'archive_month',
  version: 1,
  schema: Type.Object({ segments: Type.Integer(), calls: Type.Integer(), sha256: Type.String() }),
})
/** One file of a month: what it must be as long as it is kept. A record of its own, so that a month may be long. */
const FILE = recordKind({
  kind: 'archive_file',
  version: 1,
  schema: Type.Object({ segment: Type.Integer(), calls: Type.Integer(), sha256: Type.String() }),
})

export type ArchiveStore = Pick<Objects, 'put' | 'get'>

/** A settled call as the archive keeps it: everything but its request and its result. Amounts are in base units. */
type ArchivedCall = Omit<
  Call,
  | 'request'
  | 'result'
  | 'quote'
  | 'charge'
  | 'workerId'
  | 'leaseExpiresAt'
  | 'expiresAt'
  | 'workStatus'
  | 'paymentStatus'
  | 'error'
> & { readonly quote: string; readonly spent: string }

type Archiving = Pick<Ports, 'storage' | 'clock'> & { readonly store: ArchiveStore }

type Pacing = {
  readonly archiveMs: number
  readonly mayGoOn?: () => Promise<boolean>
  /** Rests after each file, so that buyers are served meanwhile. */
  readonly isPaced?: boolean
  readonly signal?: AbortSignal | undefined
}

/**
 * Moves settled calls that settled more than `archiveMs` ago into the store, oldest first, until none is left.
 * `mayGoOn` is asked before each file. Returns how many calls were moved.
 */
export async function archiveLedger(
  ports: Archiving,
  { archiveMs, mayGoOn = async () => true, isPaced = false, signal }: Pacing,
): Promise<number> {
  const { clock } = ports
  if (!(await isDue(ports, archiveMs))) return 0
  let moved = 0
  while (!signal?.aborted && (await mayGoOn())) {
    const startedAt = clock.now()
    const calls = await writeSegment(ports, archiveMs)
    if (calls === 0) break
    moved += calls
    if (isPaced) await clock.wait(Math.max(REST_MS, PACE_MS - (clock.now() - startedAt)), signal)
  }
  return moved
}

/** Asked before anything that is written: mostly nothing is due. */
async function isDue({ storage, clock }: Archiving, archiveMs: number): Promise<boolean> {
  const now = clock.now()
  if (await WRITING.get(storage, OWNER, now)) return true
  return (await storage.ledgerRows(now - archiveMs, now, 1)).length > 0
}

/** The key of a file of a month, from 1. */
function archiveKey(month: string, segment: number): string {
  return `ledger/${month}/${String(segment).padStart(6, '0')}.jsonl.gz`
}

async function writeSegment({ storage, store, clock }: Archiving, archiveMs: number): Promise<number> {
  const now = clock.now()
  const unfinished = await WRITING.get(storage, OWNER, now)
  const before = now - archiveMs
  const found = unfinished ? undefined : await storage.ledgerRows(before, now, 1)
  const month = unfinished?.data.month ?? monthOf(found?.[0])
  if (month === undefined) return 0
  const stored = await MONTH.get(storage, month, now)
  const segment = unfinished?.data.segment ?? (stored?.data.segments ?? 0) + 1
  const writing = { id: OWNER, owner: OWNER, data: { month, segment }, expiresAt: now + FOREVER_MS }
  if (!unfinished) await WRITING.put(storage, writing, now)

  const key = archiveKey(month, segment)
  let file = await readSegment(store, key)
  if (file) {
    // The attempt that wrote it was interrupted before it was known to be on disk.
    await store.put(key, file.bytes, TYPE)
  } else {
    const calls = (await storage.ledgerRows(before, now, SEGMENT)).filter((call) => monthOf(call) === month)
    if (calls.length > 0) await store.put(key, await written(calls), TYPE)
    file = await readSegment(store, key)
    if (calls.length > 0 && file?.calls.length !== calls.length)
      throw new Error(`the archive did not keep ${key}: nothing was deleted`)
  }
  // Only rows that the store gives back may leave the ledger.
  const ids = file?.calls.map(({ id }) => id) ?? []
  if (file) {
    const data = { segment, calls: ids.length, sha256: file.sha256 }
    await FILE.put(storage, { id: key, owner: month, data, expiresAt: now + FOREVER_MS }, now)
  }
  const day = Date.parse(`${month}-01T00:00:00Z`) / DAY_MS
  for (let at = 0; at < ids.length; at += BATCH) await storage.archiveCalls(ids.slice(at, at + BATCH), day)

  if (file && (stored?.data.segments ?? 0) < segment) {
    const data = { segments: segment, calls: (stored?.data.calls ?? 0) + ids.length, sha256: file.sha256 }
    const isMoved = stored && (await MONTH.move(storage, stored, { data, expiresAt: now + FOREVER_MS }, now))
    if (!isMoved) await MONTH.put(storage, { id: month, owner: OWNER, data, expiresAt: now + FOREVER_MS }, now)
  }
  const current = await WRITING.get(storage, OWNER, now)
  if (current) await WRITING.move(storage, current, { expiresAt: now }, now)
  return ids.length
}

/** The calls of one archived month, oldest first. */
export async function* readArchive(store: ArchiveStore, month: string): AsyncGenerator<ArchivedCall> {
  for (let segment = 1; ; segment++) {
    const file = await readSegment(store, archiveKey(month, segment))
    if (!file) return
    yield* file.calls
  }
}

/** The files of a month with their hashes, by number. Files from before hashes were kept of each are not listed. */
export async function archivedFiles(
  storage: Pick<RecordStorage, 'listRecords'>,
  month: string,
  now: number,
): Promise<readonly { readonly key: string; readonly calls: number; readonly sha256: string }[]> {
  const found = await FILE.list(storage, month, { now, limit: MAX_FILES })
  return found
    .toSorted((one, other) => one.data.segment - other.data.segment)
    .map(({ id, data: { calls, sha256 } }) => ({ key: id, calls, sha256 }))
}

async function readSegment(
  store: ArchiveStore,
  key: string,
): Promise<
  { readonly calls: readonly ArchivedCall[]; readonly bytes: Uint8Array; readonly sha256: string } | undefined
> {
  const found = await store.get(key)
  if (!found) return undefined
  const bytes = new Uint8Array(await new Response(found.body as BodyInit).arrayBuffer())
  const text = await new Response(
    new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip')) as ReadableStream,
  ).text()
  const calls = text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as ArchivedCall]))
  return { calls, bytes, sha256: bytesToHex(sha256(bytes)) }
}

async function written(calls: readonly Call[]): Promise<Uint8Array> {
  const lines = calls.map((call) => `${JSON.stringify(archived(call))}\n`).join('')
  const squeezed = new Blob([utf8ToBytes(lines) as BlobPart]).stream().pipeThrough(new CompressionStream('gzip'))
  return new Uint8Array(await new Response(squeezed as ReadableStream).arrayBuffer())
}

function archived(call: Call): ArchivedCall {
  const { request, result, workerId, leaseExpiresAt, expiresAt, workStatus, paymentStatus, error, charge, ...rest } =
    call
  const spent = (call.receipt && parseAtomic(call.receipt.amount)) ?? charge ?? call.quote
  return { ...rest, quote: String(call.quote), spent: String(spent) }
}

const monthOf = (call: Pick<Call, 'settledAt'> | undefined): string | undefined =>
  typeof call?.settledAt === 'number' ? new Date(call.settledAt).toISOString().slice(0, 7) : undefined
