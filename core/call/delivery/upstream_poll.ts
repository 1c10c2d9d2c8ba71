/** Polls the vendor of an upstream job, for its callers and for the maintenance sweep, and collects its result once. */
import type { Engine } from '../../engine.ts'
import type { Paid, Stored, UpstreamJob, UpstreamStatus } from '../../endpoint/mod.ts'
import type { ReadRecord } from '../../endpoint/record_kind.ts'
import { newSecret } from '../../lib/ids.ts'
import type { Json } from '../../lib/json.ts'
import { within } from '../../lib/timers.ts'
import { UPSTREAM_JOB } from '../../payment/ledger/mod.ts'
import { fail } from '../../payment/settlement/fail.ts'
import type { Call, CallStorage, Ports, RecordStorage } from '../../ports/mod.ts'
import { isWhole } from '../work/media_mirror.ts'
import { HANDLE, type Handle } from './upstream_handle.ts'

type Seen = { readonly call: Call; readonly progress?: number; readonly elapsedSeconds: number }

/** Minimum interval between two polls of the vendor for one call, whatever the number of callers. */
const POLL_EVERY_MS = 2_000
const POLL_TIMEOUT_MS = 10_000
/** Lease for polling and collecting a call, renewed while the work goes on. After a crash the others wait this long. */
const ALONE_MS = 30_000
/**
 * How long, and how often, a missing result is fetched again: a media host may lag behind, and a store may fail for a
 * moment.
 */
const MISSING_MS = 60_000
const MISSED_EVERY_MS = 15_000
const GONE = 'The model finished, but its result could not be fetched.'
/**
 * How long a caller waits for the mirroring of a result. With the settlement this stays under the 60 seconds of public
 * clients.
 */
const WAIT_MS = 20_000

/**
 * Polls the vendor of a running call, and completes or fails the call when the vendor is done. An ApiError that it
 * throws is meant for the caller.
 */
export async function pollUpstream(engine: Engine, endpoint: Paid, known: Call): Promise<Seen> {
  const { storage, clock, log, background } = engine.ports
  if (endpoint.delivery !== 'upstream_job' || !isRunningUpstream(known)) return seen(engine, known)
  const asking = alone(engine.ports, known.id, async () => {
    // It may have ended since it was read. Do not poll the vendor for an ended call.
    const call = (await storage.getCall(known.id)) ?? known
    return isRunningUpstream(call) ? await ask(engine, endpoint, call) : seen(engine, call)
  })
  const answered = new AbortController()
  const logUnlessAnswered = (error: Error): void => {
    if (answered.signal.aborted) log.warn('a job could not be collected', { call: known.id, error: error.message })
  }
  background(asking.catch(logUnlessAnswered))
  const outcome = await Promise.race([asking, clock.wait(WAIT_MS, answered.signal)]).finally(() => answered.abort())
  return outcome || seen(engine, known)
}

async function ask(engine: Engine, endpoint: UpstreamJob, call: Call): Promise<Seen> {
  const { storage, clock, vendors } = engine.ports
  const { catalog } = engine.products
  const record = await HANDLE.get(storage, call.id, clock.now())
  if (!record) return seen(engine, call)
  const { handle, missed } = record.data
  if (missed && clock.now() - missed.last < MISSED_EVERY_MS) return seen(engine, call)
  const asking = { request: call.request, catalog, vendors }
  const state = await within(clock, POLL_TIMEOUT_MS, (signal) => endpoint.pollUpstream(handle, { ...asking, signal }))
  if (state.kind === 'running') return seen(engine, call, state.progress)
  if (state.kind === 'failed') {
    await HANDLE.move(storage, record, { data: { handle, failure: state.fields ?? {} } }, clock.now())
    await fail(storage, call, state.error, clock.now())
  }
  if (state.kind === 'done') await collect(engine, call, { ...state, endpoint, record })
  return seen(engine, (await storage.getCall(call.id)) ?? call)
}

function seen({ ports: { clock } }: Engine, call: Call, progress?: number): Seen {
  const elapsedMs = clock.now() - (call.startedAt ?? call.createdAt)
  return {
    call,
    elapsedSeconds: Math.max(0, Math.floor(elapsedMs / 1000)),
    ...(progress !== undefined && { progress }),
  }
}

/**
 * Runs the work under a lease that all replicas share; undefined when another replica holds it or has just released it.
 */
async function alone<T>(
  { storage, clock, random }: Pick<Ports, 'storage' | 'clock' | 'random'>,
  id: string,
  work: () => Promise<T>,
): Promise<T | undefined> {
  const [name, by] = [`${HANDLE.kind}:${id}`, newSecret(random)]
  const hold = (ms: number): Promise<boolean> => {
    const now = clock.now()
    return storage.lease(name, by, { now, until: now + ms })
  }
  if (!(await hold(ALONE_MS))) return undefined
  const over = new AbortController()
  const renewed = (async () => {
    for (;;) {
      await clock.wait(ALONE_MS / 3, over.signal)
      if (over.signal.aborted) return
      await hold(ALONE_MS)
    }
  })()
  // Losing the lease only lets others in; the call is still completed once.
  renewed.catch(() => {})
  try {
    return await work()
  } finally {
    over.abort()
    await hold(POLL_EVERY_MS).catch(() => {})
  }
}

type Collected = Extract<UpstreamStatus, { kind: 'done' }> & {
  readonly endpoint: Paid
  readonly record: ReadRecord<Handle>
}

/** Mirrors the result, then completes the call: a result is stored before it is settled. */
async function collect({ ports, mirror }: Engine, call: Call, { made, endpoint, record }: Collected): Promise<void> {
  const { storage, clock, log } = ports
  const media = await mirror(call.id, made.media)
  const now = clock.now()
  // The first file is the product. A file that only our key can fetch is retried for as long as the job may run, a file
  // with a link for a minute.
  const [main] = media
  if (main?.url === '') throw new Error('the result could neither be hosted nor linked')
  if (main?.key === null && (await isAwaited(storage, record, now))) return
  if (!isWhole(media)) return void (await fail(storage, call, GONE, now))
  const stored: Stored = { made: made.result, media, created: Math.floor(now / 1000) }
  const isWon = await storage.moveCall(
    call.id,
    { workStatus: ['in_progress'], workerId: UPSTREAM_JOB, paymentStatus: 'verified' },
    {
      workStatus: 'completed',
      result: stored as unknown as Json,
      expiresAt: now + endpoint.retention.unclaimedMs,
      endedAt: now,
    },
  )
  if (!isWon) log.warn('a result came too late: its call had already ended', { call: call.id })
}

/** Records that the result could not be fetched. Returns whether to try again. */
async function isAwaited(
  storage: CallStorage & RecordStorage,
  record: ReadRecord<Handle>,
  now: number,
): Promise<boolean> {
  const { missed = { since: now }, ...data } = record.data
  if (now - missed.since >= MISSING_MS) return false
  await HANDLE.move(storage, record, { data: { ...data, missed: { since: missed.since, last: now } } }, now)
  return true
}

const isRunningUpstream = ({ workerId, workStatus }: Call): boolean =>
  workerId === UPSTREAM_JOB && workStatus === 'in_progress'
