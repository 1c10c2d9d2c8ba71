/** Runs the work of a call in this process, and stores its result or its failure. */
import type { Engine } from '../../engine.ts'
import type { Hybrid, Inline, Job, Order, Stored } from '../../endpoint/mod.ts'
import { storeRecords } from '../../endpoint/records.ts'
import { ApiError, vendorErrorOf } from '../../http/errors.ts'
import type { Json } from '../../lib/json.ts'
import { within } from '../../lib/timers.ts'
import { complete } from '../../payment/settlement/complete.ts'
import type { Completion } from '../../payment/settlement/context.ts'
import { abandon, fail, STALLED } from '../../payment/settlement/fail.ts'
import type { Call } from '../../ports/mod.ts'
import { callContext } from './call_context.ts'
import { asApiError, failureText } from './failure.ts'
import { isWhole } from './media_mirror.ts'
import type { OpenedCall } from './opened_call.ts'
import { isVerbatim } from './result_replies.ts'

/** Deliveries whose work runs in this process. */
type Worked = Inline | Hybrid | Job

/** `raw` are the URLs of its media at the vendor. */
type Made = {
  readonly kind: 'made'
  readonly stored: Stored
  readonly raw: readonly string[]
  readonly completion: Completion
}
type Done = Made | { readonly kind: 'failed'; readonly apiError: ApiError }

/** Runs the work under its deadline and mirrors its media. Records a failure, which frees the authorization. */
export async function runWork(
  engine: Engine,
  opened: OpenedCall<Worked>,
  deadlineMs = engine.settings.timeouts.maxJobMs,
): Promise<Done> {
  const { endpoint, call } = opened
  const { storage, clock, log } = engine.ports
  const timesOutAt = clock.now() + engine.settings.timeouts.maxJobMs
  try {
    return await made(engine, opened, deadlineMs)
  } catch (error) {
    const apiError = asApiError(endpoint, error)
    if (!(error instanceof ApiError))
      log.warn('work failed', { call: call.id, endpoint: endpoint.name, error: (error as Error).message })
    const now = clock.now()
    const text = now < timesOutAt ? failureText(apiError) : STALLED
    await fail(storage, call, { error: text, vendorError: vendorErrorOf(error) }, now)
    return { kind: 'failed', apiError }
  }
}

async function made(engine: Engine, opened: OpenedCall<Worked>, deadlineMs: number): Promise<Made> {
  const { endpoint, call } = opened
  const { storage, clock } = engine.ports
  const order = orderOf(engine, opened)
  const {
    media: files,
    result,
    until,
    recordsToStore,
  } = await within(clock, deadlineMs, (signal) =>
    endpoint.run({ ...order, call: callContext(engine, opened, signal), signal }),
  )
  const media = await engine.mirror(call.id, files)
  if (!isWhole(media)) throw new Error('the result could neither be hosted nor linked')
  for (const record of recordsToStore?.(media) ?? [])
    await storeRecords(storage, { ...record, owner: call.payer }, clock.now())
  const now = clock.now()
  const stored: Stored = { made: result, media, created: Math.floor(now / 1000) }
  // Verbatim results may be megabytes.
  const gzipped = isVerbatim(endpoint) ? { ...stored, made: await engine.deliveries.compress(stored.made) } : stored
  return {
    kind: 'made',
    stored,
    raw: files?.urls ?? [],
    completion: {
      result: gzipped as unknown as Json,
      expiresAt: Math.min(now + endpoint.retention.unclaimedMs, until ?? Infinity),
    },
  }
}

/** The order that the work of a call is given, without its signal. */
export function orderOf(
  { ports, products: { catalog }, gateway: { networks } }: Engine,
  { call, input }: { readonly call: Pick<Call, 'id' | 'payer'>; readonly input: unknown },
): Omit<Order<unknown>, 'signal'> {
  const { vendors, clock, storage } = ports
  const { id, payer } = call
  return { id, input, payer, catalog, vendors, networks, clock, now: clock.now(), records: storage }
}

/** Stores a result that a poll is to pay. */
export async function storeResult(engine: Engine, call: Call, completion: Completion): Promise<undefined> {
  const isWon = await complete(engine.money, call, completion)
  if (!isWon) engine.ports.log.warn('a result came too late: its call had already ended', { call: call.id })
}

/** Fails a call whose work cannot go on because storage failed. Throws `error`. */
export function release({ ports: { storage, clock } }: Engine, call: Call, error: unknown): Promise<never> {
  return abandon(storage, call, { error, now: clock.now() })
}
