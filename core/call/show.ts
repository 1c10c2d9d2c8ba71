/** The state of a call, for a caller who has shown that it is theirs. */
import { upstreamFailure } from './delivery/upstream_handle.ts'
import type { Engine } from '../engine.ts'
import type { Sold, Stored, UpstreamJob } from '../endpoint/mod.ts'
import * as replies from '../endpoint/replies.ts'
import { ApiError } from '../http/errors.ts'
import type { Reply } from '../http/reply.ts'
import { within } from '../lib/timers.ts'
import { failIfOverdue } from '../payment/settlement/fail.ts'
import type { Call } from '../ports/mod.ts'
import { type Collection, type RunningFields, runningReply } from './poll_payment_required.ts'
import { paidReply, storedOf } from './work/result_replies.ts'

/** How long a poll waits to learn whether its result is still available. */
const STANDS_MS = 10_000

/** Returns the call itself when only its payment is missing. */
export async function show(engine: Engine, collection: Collection): Promise<Reply | { readonly call: Call }> {
  const { endpoint, found, requestContext, now, isOrder = false } = collection
  const { storage } = engine.ports
  const { timeouts } = engine.settings
  const known = await failIfOverdue(storage, found, { now, timeouts, activeCalls: engine.calls.active })
  const { call, ...seen } =
    endpoint.delivery === 'upstream_job' ? await pollOnce(engine, endpoint, { known, isOrder }) : { call: known }
  if (call.workStatus === 'failed') {
    const fields = endpoint.delivery === 'upstream_job' ? await upstreamFailure(storage, call, now) : {}
    return replies.failed(endpoint, call, fields)
  }
  if (call.workStatus !== 'completed') return runningReply(collection, call, seen)
  if (!call.receipt) return { call }
  const paid = { kind: 'settled', receipt: call.receipt, now: false } as const
  return paidReply(engine, { endpoint, call, requestContext }, { stored: await storedOf(endpoint, call), paid })
}

/**
 * Polls the vendor. When it cannot be reached, a poll is told to wait and the job continues; an order gets no such
 * error.
 */
async function pollOnce(
  engine: Engine,
  endpoint: UpstreamJob,
  { known, isOrder }: { readonly known: Call; readonly isOrder: boolean },
): Promise<{ call: Call } & RunningFields> {
  try {
    const { pollUpstream } = await import('./delivery/upstream_poll.ts')
    const { call, progress, elapsedSeconds } = await pollUpstream(engine, endpoint, known)
    return { call, elapsed_seconds: elapsedSeconds, ...(progress !== undefined && { progress }) }
  } catch (error) {
    if (!isOrder && error instanceof ApiError && (error.code === 'RATE_LIMITED' || error.code === 'UPSTREAM_TIMEOUT'))
      throw error
    if (!isOrder && (error as Error).name === 'TimeoutError')
      throw new ApiError('UPSTREAM_TIMEOUT', {
        message: 'The model did not answer in time. The job continues; poll again in a few seconds.',
      })
    engine.ports.log.warn('an upstream job could not be polled', { call: known.id, error: (error as Error).message })
    return { call: known }
  }
}

/** Whether the result is still available. Always true once it may have been paid for. */
export async function isStillThere({ ports }: Engine, endpoint: Sold, call: Call): Promise<boolean> {
  const { storage, clock, log, vendors } = ports
  if (
    endpoint.delivery === 'stream' ||
    !endpoint.isStillValid ||
    (call.paymentStatus !== 'verified' && call.paymentStatus !== 'refused')
  )
    return true
  const { made } = call.result as unknown as Stored
  const asking = within(
    clock,
    STANDS_MS,
    async (signal) => await endpoint.isStillValid?.(made, { vendors, signal, records: storage, now: clock.now() }),
  )
  return (
    (await asking.catch(
      (error: Error) =>
        void log.warn('could not check whether a result is still available', { call: call.id, error: error.message }),
    )) ?? true
  )
}
