/** Serves orders that cost nothing: without a call, and without the ledger. */
import type { Engine } from '../../engine.ts'
import type { Paid, Stored, Streamed } from '../../endpoint/mod.ts'
import * as replies from '../../endpoint/replies.ts'
import type { RequestContext } from '../../endpoint/request_context.ts'
import { ApiError } from '../../http/errors.ts'
import { json, type Reply } from '../../http/reply.ts'
import { newId, newSecret } from '../../lib/ids.ts'
import { within } from '../../lib/timers.ts'
import { askModel } from '../answer/ask_model.ts'
import { eventStream } from '../answer/event_stream.ts'
import { usdc } from '../../x402/money.ts'
import { asApiError } from '../work/failure.ts'
import { hrefOn } from '../work/result_replies.ts'
import { orderOf } from '../work/run_work.ts'

type FreeOrder<Endpoint> = {
  readonly endpoint: Endpoint
  readonly input: unknown
  readonly requestContext: RequestContext
}

/** Throws an ApiError when the work fails. */
export async function serveFreeWork(
  engine: Engine,
  { endpoint, input, requestContext }: FreeOrder<Paid>,
): Promise<Reply> {
  const { clock, random, log } = engine.ports
  if (endpoint.delivery === 'upstream_job') throw new RangeError(`${endpoint.name}: an upstream job cannot be free`)
  const order = orderOf(engine, { call: { id: newId(random, clock.now()), payer: '' }, input })
  try {
    const { result: made } = await within(clock, engine.settings.timeouts.answerMs, (signal) =>
      endpoint.run({ ...order, signal }),
    )
    const stored: Stored = { made, media: [], created: Math.floor(clock.now() / 1000) }
    return replies.bare(
      endpoint,
      { request: {}, quote: usdc(0n) },
      { stored, href: hrefOn(engine, requestContext), headers: {} },
    )
  } catch (error) {
    if (!(error instanceof ApiError))
      log.warn('work that costs nothing failed', { endpoint: endpoint.name, error: (error as Error).message })
    throw asApiError(endpoint, error)
  }
}

/** Uses neither a call nor the database. */
export async function serveFreeAnswer(
  engine: Engine,
  { endpoint, input, requestContext }: FreeOrder<Streamed>,
): Promise<Reply> {
  const { clock, meter, random } = engine.ports
  const startedAt = clock.now()
  let id: string | undefined
  const order = {
    get id() {
      return (id ??= newSecret(random))
    },
    input,
    payer: null,
    signal: requestContext.gone,
  }
  const answer = await askModel(engine, endpoint, { order })
  if (answer.kind === 'whole') return json(200, answer.body, { 'cache-control': 'no-store', ...answer.headers })
  meter?.streamBegan?.(endpoint.name, clock.now() - startedAt)
  const { stream, headers } = answer
  return eventStream(engine, { stream, headers, errorFormat: endpoint.errorFormat })
}
