/** The payment side of a stream: what was delivered is recorded, settled and stored (decision 113). */
import type { Engine } from '../../engine.ts'
import type { Answer, AnswerStream, Stored, Streamed, Used } from '../../endpoint/mod.ts'
import { errorEvent } from '../../http/error_formats.ts'
import { ApiError, vendorErrorOf } from '../../http/errors.ts'
import { concatBytes } from '../../lib/bytes.ts'
import type { Json } from '../../lib/json.ts'
import { fail } from '../../payment/settlement/fail.ts'
import { tokensOf } from '../../payment/reports/spend_report.ts'
import { chargesUse } from '../../x402/offer.ts'
import { lastMoment, noteAbandoned } from './ask_model.ts'
import { EVENT_STREAM } from './event_stream.ts'
import { failureText } from '../work/failure.ts'
import type { OpenedCall } from '../work/opened_call.ts'
import { repeatWhileValid, settleAnswer } from './settle_answer.ts'
import type { StreamPayment } from './open_stream.ts'
import type { AnswerPayment } from './payment_report.ts'
import { storedAnswer } from './stored_answer.ts'

type Streaming = Extract<Answer, { kind: 'stream' }>

/** Between two questions to a chain that is away. */
const RETRY_MS = 1_000
/** Longer streams are not stored for replays, so that many streams cannot fill the memory. */
const MAX_RECORDED = 131_072

export function streamPayment(engine: Engine, opened: OpenedCall<Streamed>, answer: Streaming): StreamPayment {
  const { endpoint, call, authorization } = opened
  const { active } = engine.calls
  const isByUse = endpoint.cost !== undefined && chargesUse(authorization.offer)
  const recording: Recording = { events: [], size: 0, first: [], firstSize: 0, isByUse }
  const state: State = { engine, opened, answer, recording, settled: undefined }
  return {
    settleBy: lastMoment(engine, authorization),
    settlesEarly: opened.settlesEarly ?? false,
    chargesUse: isByUse,
    record: (bytes) => recordEvent(recording, bytes),
    settle: (how) => settleStream(state, how),
    isLeased: () => active.isLeased(call.id),
    renewLease: (signal) => renewLease(state, signal),
    fail: (apiError, isAbandoned = false) => failStream(state, { apiError, isAbandoned }),
  }
}

/** A refund does not wait for a call whose lease has ended, so the payment is verified again. */
async function renewLease({ engine, opened, settled }: State, signal: AbortSignal): Promise<boolean> {
  const { call, authorization, isRefundable } = opened
  if (!(await engine.calls.active.renewLease(call.id, signal))) return false
  if (!isRefundable || settled) return true
  while (!signal.aborted) {
    const { kind } = await engine.offers.verify(authorization.payment, authorization.offer)
    if (kind !== 'unavailable') return kind === 'valid'
    await engine.ports.clock.wait(RETRY_MS, signal)
  }
  return false
}

type State = {
  readonly engine: Engine
  readonly opened: OpenedCall<Streamed>
  readonly answer: Streaming
  readonly recording: Recording
  /** The settlement, from when it has begun. */
  settled: Promise<AnswerPayment> | undefined
}

/** The delivered events. `first` are the first ones of a stream that is charged by use. */
type Recording = {
  readonly events: Uint8Array[]
  size: number
  readonly first: Uint8Array[]
  firstSize: number
  readonly isByUse: boolean
}

function recordEvent(recording: Recording, bytes: Uint8Array): void {
  const { events, first, isByUse } = recording
  recording.size += bytes.length
  if (isByUse && recording.firstSize < MAX_RECORDED) {
    first.push(bytes)
    recording.firstSize += bytes.length
  }
  if (recording.size <= MAX_RECORDED) events.push(bytes)
  if (recording.size > MAX_RECORDED) events.length = 0
}

/**
 * The answer as it is stored. A partial stream is stored with an error at its end, so that it cannot be mistaken for
 * the whole answer.
 */
function storedStream({ engine, opened, answer, recording }: State, isWhole: boolean): Stored {
  const { stream, headers } = answer
  const { errorFormat } = opened.endpoint
  const { events, size } = recording
  const end = (apiError: ApiError) => errorEvent(apiError, errorFormat, stream.nextSequence?.())
  const whole = () => new TextDecoder().decode(concatBytes(events, size))
  const body = size > MAX_RECORDED ? end(TOO_LONG) : whole() + (isWhole ? stream.closing() : end(NOT_WHOLE))
  const made = { headers: { ...headers, 'content-type': EVENT_STREAM['content-type'] }, usage: stream.usage() }
  return storedAnswer(made, body, engine.ports.clock.now())
}

function usedBy(stream: AnswerStream, { first, firstSize, size }: Recording, isWhole: boolean): Used {
  const usage = stream.usage()
  if (isWhole || firstSize === 0) return { usage }
  return { usage, read: { events: concatBytes(first, firstSize), times: size / firstSize } }
}

async function settleStream(
  state: State,
  { isWhole, goesOn = false }: Parameters<StreamPayment['settle']>[0],
): ReturnType<StreamPayment['settle']> {
  const { engine, opened, answer, recording } = state
  const isFirst = state.settled === undefined
  state.settled ??= settleAnswer(engine, opened, {
    stored: storedStream(state, isWhole),
    delivered: 'streamed',
    used: goesOn ? undefined : usedBy(answer.stream, recording, isWhole),
  })
  const { headers, isRefused, charge } = await state.settled
  if (!isFirst) await storeRest(state, isWhole)
  const { origin, path } = opened.requestContext
  const signed = (await engine.signing?.headers(headers, `${origin}${path}`, origin)) ?? headers
  return { receipt: signed, isRefused, charge }
}

/** The stream was settled on the way, so the rest has to be added. */
async function storeRest(state: State, isWhole: boolean): Promise<void> {
  const { engine, opened, answer } = state
  const { storage, clock, log } = engine.ports
  const patch = {
    result: storedStream(state, isWhole) as unknown as Json,
    usage: tokensOf(answer.stream.usage()),
    endedAt: clock.now(),
  }
  await storage
    .moveCall(opened.call.id, { workStatus: ['completed'] }, patch)
    .catch((error: Error) =>
      log.warn('could not store the rest of a stream that was settled before its end', { error: error.message }),
    )
}

async function failStream(
  { engine, opened, settled }: State,
  { apiError, isAbandoned }: { readonly apiError: ApiError; readonly isAbandoned: boolean },
): Promise<void> {
  if (settled !== undefined) return
  const { storage, clock, background } = engine.ports
  const { call, authorization } = opened
  if (isAbandoned) await noteAbandoned(engine, call)
  const failure = { error: failureText(apiError), vendorError: vendorErrorOf(apiError) }
  const failing = () => fail(storage, call, failure, clock.now())
  const what = 'the end of a stream that broke off'
  await failing().catch(() => background(repeatWhileValid(engine, { call, authorization, what }, failing)))
}

const NOT_WHOLE = new ApiError('MODEL_UNAVAILABLE', {
  message:
    'Only this part of the stream was stored, because its reader disconnected before the end. It was charged once.',
})
const TOO_LONG = new ApiError('MODEL_UNAVAILABLE', {
  message: 'The stream was delivered once and was too long to be stored. It was charged once.',
})
