/**
 * Upstream job delivery: 202 when the vendor has taken the job, which runs there (decision 49). No process owns such a
 * call, so a crash loses none.
 */
import type { Engine } from '../../engine.ts'
import type { Paid, UpstreamJob } from '../../endpoint/mod.ts'
import { ApiError, vendorErrorOf } from '../../http/errors.ts'
import type { Reply } from '../../http/reply.ts'
import { within } from '../../lib/timers.ts'
import { UPSTREAM_JOB } from '../../payment/ledger/mod.ts'
import { fail } from '../../payment/settlement/fail.ts'
import type { Call } from '../../ports/mod.ts'
import { accepted } from './job.ts'
import type { OpenedCall } from '../work/opened_call.ts'
import { HANDLE } from './upstream_handle.ts'

export async function deliverUpstreamJob(engine: Engine, opened: OpenedCall<UpstreamJob>): Promise<Reply> {
  const call = await submit(engine, opened)
  return await accepted(engine, { ...opened, call })
}

/**
 * Submits the job to the vendor. Throws an ApiError, and fails the call, when the vendor does not accept it in time.
 * Continues without its caller, who finds the job by the authorization.
 */
function submit(engine: Engine, opened: OpenedCall<UpstreamJob>): Promise<Call> {
  const submitting = handOver(engine, opened)
  engine.ports.background(submitting.catch(() => {}))
  return submitting
}

async function handOver(engine: Engine, opened: OpenedCall<UpstreamJob>): Promise<Call> {
  const { endpoint, input, call } = opened
  const { storage, clock, log } = engine.ports
  const { submissions } = engine.deliveries
  const weight = lengthOf(input)
  let counted = 0
  try {
    submissions.take(weight)
    counted = weight
    const handle = await handleOf(engine, opened)
    return await started(engine, opened, handle)
  } catch (error) {
    const apiError = apiErrorOf(endpoint, error, engine.settings.timeouts.submitMs)
    if (!(error instanceof ApiError))
      log.warn('a job was not started', {
        call: call.id,
        endpoint: endpoint.name,
        error: (error as Error).message,
      })
    await fail(storage, call, { error: apiError.message, vendorError: vendorErrorOf(error) }, clock.now())
    throw apiError
  } finally {
    submissions.give(counted)
  }
}

/** The vendor's name for the job. */
async function handleOf(
  { ports, products: { catalog }, settings }: Engine,
  { endpoint, input, call }: OpenedCall<UpstreamJob>,
): Promise<string> {
  const { storage, clock, vendors } = ports
  const { id, payer } = call
  const order = { id, input, payer, catalog, vendors, clock, now: clock.now(), records: storage }
  const { handle } = await within(clock, settings.timeouts.submitMs, (signal) => endpoint.submit({ ...order, signal }))
  return handle
}

/** Records the handle, then hands the call to whoever polls it. */
async function started(
  { ports: { storage, clock }, settings: { timeouts }, gateway: { workerId } }: Engine,
  { endpoint, call }: OpenedCall<UpstreamJob>,
  handle: string,
): Promise<Call> {
  const startedAt = clock.now()
  const expiresAt = startedAt + timeouts.maxJobMs + endpoint.retention.unclaimedMs
  await HANDLE.put(storage, { id: call.id, owner: call.payer, data: { handle }, expiresAt }, startedAt)
  // One millisecond past the hour, so that it ends as stalled and never as lost.
  const change = {
    workStatus: 'in_progress',
    workerId: UPSTREAM_JOB,
    startedAt,
    leaseExpiresAt: startedAt + timeouts.maxJobMs + 1,
  } as const
  const isOurs = await storage.moveCall(call.id, { workStatus: ['queued'], workerId }, change)
  if (!isOurs) throw new Error('the call ended before its vendor took it')
  return { ...call, ...change }
}

function apiErrorOf({ failure }: Paid, error: unknown, submitMs: number): ApiError {
  if (error instanceof ApiError) return error
  if ((error as Error).name === 'TimeoutError') {
    return new ApiError('UPSTREAM_TIMEOUT', {
      message: `The model did not take the job within ${submitMs / 1000} seconds. Nothing was charged; submit it again.`,
    })
  }
  return new ApiError('WORK_FAILED', {
    error: failure,
    details: 'The job could not be started. Nothing was charged.',
  })
}

/** Total length of all texts in an order. */
function lengthOf(value: unknown): number {
  if (typeof value === 'string') return value.length
  return typeof value === 'object' && value !== null
    ? Object.values(value).reduce((sum: number, each) => sum + lengthOf(each), 0)
    : 0
}
