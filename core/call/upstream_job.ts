/**
 * Jobs that run at the vendor: submitted with the order, polled by callers and by the maintenance sweep, collected
 * once. No process owns such a call, so a crash loses none.
 */
import { fail } from '../payment/settlement/fail.ts'
import type { Completion } from '../payment/settlement/paying.ts'
import { within } from '../lib/timers.ts'
import type { Paid, Stored, UpstreamJob, UpstreamStatus } from '../endpoint/mod.ts'
import { ApiError, vendorErrorOf } from '../http/errors.ts'
import type { Engine } from '../engine.ts'
import type { OpenedCall } from './order.ts'
import { budget } from '../http/request_body.ts'
import { Type } from '@sinclair/typebox'
import { type ReadRecord, recordKind } from '../endpoint/record_kind.ts'
import { UPSTREAM_JOB } from '../payment/ledger.ts'
import { isWhole } from './media_mirror.ts'
import type { Call } from '../ports/mod.ts'
import type { Json } from '../lib/json.ts'
import { newSecret } from '../lib/ids.ts'

export type UpstreamJobs = {
  /**
   * Submits the job to the vendor. Throws an ApiError, and fails the call, when the vendor does not accept it in time.
   */
  submit(working: OpenedCall<UpstreamJob>): Promise<Call>
  /**
   * Polls the vendor of a running call, and completes or fails the call when the vendor is done. An ApiError that it
   * throws is meant for the caller.
   */
  pollUpstream(endpoint: Paid, call: Call): Promise<Seen>
  /** Fields that a failed call adds to its reply. */
  failure(call: Call, now: number): Promise<Readonly<Record<string, Json>>>
}

export type Seen = { readonly call: Call; readonly progress?: number; readonly elapsedSeconds: number }

/** `missed`: when fetching the result first and last failed. */
const HANDLE = recordKind({
  kind: 'upstream_job',
  version: 1,
  schema: Type.Object({
    handle: Type.String(),
    failure: Type.Optional(Type.Unsafe<Readonly<Record<string, Json>>>(Type.Object({}))),
    missed: Type.Optional(Type.Object({ since: Type.Number(), last: Type.Number() })),
  }),
})
type Handle = Parameters<typeof HANDLE.put>[1]['data']

/**
 * Concurrent submissions of the largest orders. Each is held four times over: 125 MB for an order of 28 MB (Bun 1.4.4).
 */
const ORDERS_AT_ONCE = 4
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

export function upstreamJobs({ gateway, ports, settings, products, mirror }: Engine): UpstreamJobs {
  const { workerId } = gateway
  const { timeouts, maxUpload } = settings
  const { catalog } = products
  const { storage, clock, log, vendors } = ports
  const sending = budget(ORDERS_AT_ONCE * maxUpload, clock)

  return { submit, pollUpstream: pollUpstream, failure }

  /** Continues without its caller, who finds the job by the authorization. */
  function submit(working: OpenedCall<UpstreamJob>): Promise<Call> {
    const submitting = handOver(working)
    ports.background(submitting.catch(() => {}))
    return submitting
  }

  async function handOver({ endpoint, input, call }: OpenedCall<UpstreamJob>): Promise<Call> {
    const now = clock.now()
    const weight = lengthOf(input)
    let counted = 0
    try {
      sending.take(weight)
      counted = weight
      const order = {
        id: call.id,
        input,
        payer: call.payer,
        catalog,
        vendors,
        clock,
        now,
        records: storage,
      }
      const { handle } = await within(clock, timeouts.submitMs, (signal) => endpoint.submit({ ...order, signal }))
      const data: Handle = { handle }
      const startedAt = clock.now()
      const expiresAt = startedAt + timeouts.maxJobMs + endpoint.retention.unclaimedMs
      await HANDLE.put(storage, { id: call.id, owner: call.payer, data, expiresAt }, startedAt)
      // One millisecond past the hour, so that it ends as stalled and never as lost.
      const started = {
        workStatus: 'in_progress',
        workerId: UPSTREAM_JOB,
        startedAt,
        leaseExpiresAt: startedAt + timeouts.maxJobMs + 1,
      } as const
      const isOurs = await storage.moveCall(call.id, { workStatus: ['queued'], workerId }, started)
      if (!isOurs) throw new Error('the call ended before its vendor took it')
      return { ...call, ...started }
    } catch (error) {
      const apiError = apiErrorOf(endpoint, error)
      if (!(error instanceof ApiError))
        log.warn('a vendor did not accept a job', {
          call: call.id,
          endpoint: endpoint.name,
          error: (error as Error).message,
        })
      await fail(storage, call, { error: apiError.message, vendorError: vendorErrorOf(error) }, clock.now())
      throw apiError
    } finally {
      sending.give(counted)
    }
  }

  function apiErrorOf({ failure }: Paid, error: unknown): ApiError {
    if (error instanceof ApiError) return error
    if ((error as Error).name === 'TimeoutError') {
      return new ApiError('UPSTREAM_TIMEOUT', {
        message: `The model did not take the job within ${timeouts.submitMs / 1000} seconds. Nothing was charged; submit it again.`,
      })
    }
    return new ApiError('WORK_FAILED', {
      error: failure,
      details: 'The model did not take the job. Nothing was charged.',
    })
  }

  async function pollUpstream(endpoint: Paid, known: Call): Promise<Seen> {
    if (endpoint.delivery !== 'upstream_job' || !isRunningUpstream(known)) return seen(known)
    const asking = alone(known.id, async () => {
      // It may have ended since it was read. Do not poll the vendor for an ended call.
      const call = (await storage.getCall(known.id)) ?? known
      return isRunningUpstream(call) ? await ask(endpoint, call) : seen(call)
    })
    const answered = new AbortController()
    const logUnlessAnswered = (error: Error): void => {
      if (answered.signal.aborted) log.warn('a job could not be collected', { call: known.id, error: error.message })
    }
    ports.background(asking.catch(logUnlessAnswered))
    const outcome = await Promise.race([asking, clock.wait(WAIT_MS, answered.signal)]).finally(() => answered.abort())
    return outcome || seen(known)
  }

  async function ask(endpoint: UpstreamJob, call: Call): Promise<Seen> {
    const record = await HANDLE.get(storage, call.id, clock.now())
    if (!record) return seen(call)
    const { handle, missed } = record.data
    if (missed && clock.now() - missed.last < MISSED_EVERY_MS) return seen(call)
    const asking = { request: call.request, catalog, vendors }
    const state = await within(clock, POLL_TIMEOUT_MS, (signal) => endpoint.pollUpstream(handle, { ...asking, signal }))
    if (state.kind === 'running') return seen(call, state.progress)
    if (state.kind === 'failed') {
      await HANDLE.move(storage, record, { data: { handle, failure: state.fields ?? {} } }, clock.now())
      await fail(storage, call, state.error, clock.now())
    }
    if (state.kind === 'done') await collect(endpoint, call, { ...state, record })
    return seen((await storage.getCall(call.id)) ?? call)
  }

  function seen(call: Call, progress?: number): Seen {
    const elapsedMs = clock.now() - (call.startedAt ?? call.createdAt)
    return {
      call,
      elapsedSeconds: Math.max(0, Math.floor(elapsedMs / 1000)),
      ...(progress !== undefined && { progress }),
    }
  }

  /**
   * Runs the work under a lease that all replicas share; undefined when another replica holds it or has just released
   * it.
   */
  async function alone<T>(id: string, work: () => Promise<T>): Promise<T | undefined> {
    const [name, by] = [`${HANDLE.kind}:${id}`, newSecret(ports.random)]
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

  /** Mirrors the result, then completes the call: a result is stored before it is settled. */
  async function collect(
    endpoint: Paid,
    call: Call,
    { made, record }: Extract<UpstreamStatus, { kind: 'done' }> & { record: ReadRecord<Handle> },
  ): Promise<void> {
    const media = await mirror(call.id, made.media)
    const now = clock.now()
    // The first file is the product. A file that only our key can fetch is retried for as long as the job may run, a
    // file with a link for a minute.
    const [main] = media
    if (main?.url === '') throw new Error('the result could neither be hosted nor linked')
    if (main?.key === null && (await isAwaited(record, now))) return
    if (!isWhole(media)) return void (await fail(storage, call, GONE, now))
    const stored: Stored = { made: made.result, media, created: Math.floor(now / 1000) }
    const { result, expiresAt }: Completion = {
      result: stored as unknown as Json,
      expiresAt: now + endpoint.retention.unclaimedMs,
    }
    const from = { workStatus: ['in_progress'], workerId: UPSTREAM_JOB, paymentStatus: 'verified' } as const
    const isWon = await storage.moveCall(call.id, from, { workStatus: 'completed', result, expiresAt, endedAt: now })
    if (!isWon) log.warn('a result came too late: its call had already ended', { call: call.id })
  }

  /** Records that the result could not be fetched. Returns whether to try again. */
  async function isAwaited(record: ReadRecord<Handle>, now: number): Promise<boolean> {
    const { missed = { since: now }, ...data } = record.data
    if (now - missed.since >= MISSING_MS) return false
    await HANDLE.move(storage, record, { data: { ...data, missed: { since: missed.since, last: now } } }, now)
    return true
  }

  async function failure({ id }: Call, now: number): Promise<Readonly<Record<string, Json>>> {
    const record = await HANDLE.get(storage, id, now)
    return record?.data.failure ?? {}
  }
}

/** Total length of all texts in an order. */
function lengthOf(value: unknown): number {
  if (typeof value === 'string') return value.length
  return typeof value === 'object' && value !== null
    ? Object.values(value).reduce((sum: number, each) => sum + lengthOf(each), 0)
    : 0
}

const isRunningUpstream = ({ workerId, workStatus }: Call): boolean =>
  workerId === UPSTREAM_JOB && workStatus === 'in_progress'
