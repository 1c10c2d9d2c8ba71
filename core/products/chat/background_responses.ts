/** Responses in the background: poll, attach and cancel (contract 7.16 to 7.19; decision 98). */
import { Type } from '@sinclair/typebox'
import type { GatewayFacts } from '../../endpoint/gateway_info.ts'
import { free, type FreeCalls, type FreeRequest, type Stored } from '../../endpoint/mod.ts'
import { anyCallUrl, type StoredAnswer } from '../../endpoint/replies.ts'
import { ApiError } from '../../http/errors.ts'
import { json, type Reply } from '../../http/reply.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Fields } from '../../lib/json.ts'
import type { Call } from '../../ports/mod.ts'
import { receiptHeaders } from '../../x402/protocol.ts'
import { responseEvents } from './formats/responses/events.ts'
import { responseOf } from './formats/responses/reply.ts'
import { tryJson } from './formats/sse.ts'
import { isChatOffered } from './offered_rows.ts'
import { invalidParameter } from './request.ts'

/** The endpoint whose calls these are. */
export const RESPONSES = 'responses'

/** The schema of a response. */
export const responseOutput = Type.Object({
  id: Type.String(),
  object: Type.Literal('response'),
  status: Type.String({ description: 'queued, in_progress, completed, incomplete, failed or cancelled.' }),
  model: Type.String(),
  output: Type.Array(Type.Object({ type: Type.String() })),
  usage: Type.Optional(
    Type.Union([Type.Object({}), Type.Null()], { description: 'Null until the response has ended.' }),
  ),
})

/** The id of a response, derived from its call. */
export const responseId = (callId: string): string => `resp_${callId.replace(/^job_/, '')}`
/**
 * The id of a background response includes the poll key of its call: clients send nothing else, and the key alone reads
 * the output (contract 2.4).
 */
export const backgroundId = (callId: string, key: string): string => `${responseId(callId)}_${key}`
export const backgroundMembers = (id: string) => ({ id, background: true, store: false })
const BACKGROUND_ID = /^resp_([0-9a-f]{32})_([0-9a-f]{32})$/

export const QUEUED_OUTCOME = { status: 'queued', incomplete_details: null, output: [], usage: null }

function callOfResponse(id: string): { readonly callId: string; readonly key: string } | undefined {
  const [, hex, key] = BACKGROUND_ID.exec(id) ?? []
  return hex === undefined || key === undefined ? undefined : { callId: `job_${hex}`, key }
}

/** Members of the request that a response repeats. */
const ECHOED = [
  'instructions',
  'max_output_tokens',
  'max_tool_calls',
  'metadata',
  'temperature',
  'top_p',
  'top_logprobs',
  'presence_penalty',
  'frequency_penalty',
  'reasoning',
  'text',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'truncation',
  'service_tier',
  'user',
  'safety_identifier',
  'prompt_cache_key',
] as const

/** Most characters of JSON of a repeated member: it is stored with every call. */
const MAX_ECHO = 2_000

export function echoedRequest(own: Fields): Fields {
  return Object.fromEntries(
    ECHOED.flatMap((name) => {
      const value = own[name]
      return value === undefined || JSON.stringify(value).length >= MAX_ECHO ? [] : [[name, value]]
    }),
  )
}

const CANCELLED = 'cancelled'

const getResponse = free({
  name: 'responses.get',
  follows: true,
  isOffered: isChatOffered(),
  path: '/api/v1/responses/{id}',
  summary: 'Poll a background response, or attach to it',
  description:
    'Free. The id, as the create answered it, is the key: anyone who has it can read the output, so keep it secret. With stream=true the events, after `starting_after`: output follows when the response is completed and settled.',
  tag: 'chat',
  errorFormat: 'responses',
  output: responseOutput,
  async answer({ params, query }, { calls, clock, gateway }) {
    const id = params.id ?? ''
    const call = await findResponse(id, calls)
    if (query.get('stream') !== 'true')
      return json(200, publicResponse(call, id, gateway), { 'cache-control': 'no-store', ...receiptOf(call) })
    const after = Number(query.get('starting_after') ?? -1)
    if (!Number.isInteger(after) || after < -1)
      throw invalidParameter('starting_after', 'must be a sequence number, from 0.')
    return eventStream(call, { id, after, calls, clock, gateway })
  },
})

const cancelResponse = free({
  name: 'responses.cancel',
  follows: true,
  isOffered: isChatOffered(),
  method: 'POST',
  path: '/api/v1/responses/{id}/cancel',
  summary: 'Cancel a background response',
  description: 'Free, and a cancelled response costs nothing.',
  tag: 'chat',
  errorFormat: 'responses',
  output: responseOutput,
  async answer({ params }: FreeRequest, { calls, gateway }) {
    const id = params.id ?? ''
    const call = await findResponse(id, calls)
    if (call.workStatus === 'completed')
      throw new ApiError('INVALID_PARAMETER', {
        message: 'The response is already completed and cannot be cancelled.',
        param: 'id',
      })
    await calls.cancel(call.id, CANCELLED)
    return json(200, publicResponse(await findResponse(id, calls), id, gateway), { 'cache-control': 'no-store' })
  },
})

/** Its endpoints, which are sold with the create. */
export const backgroundEndpoints = { getResponse, cancelResponse }

async function findResponse(id: string, calls: FreeCalls): Promise<Call> {
  const ref = callOfResponse(id)
  const call = ref && (await calls.find(ref.callId, ref.key))
  // Only background responses can be polled or cancelled: another one would be free.
  if (call?.endpoint === RESPONSES && (call.request as Fields)._background === true) return call
  throw new ApiError('JOB_NOT_FOUND', { message: 'No such response: it never existed or has expired.' })
}

/** The public view of a response: without output until it is settled. */
function publicResponse(call: Call, id: string, { basePath }: Pick<GatewayFacts, 'basePath'>): Fields {
  const facts = {
    model: call.model ?? '',
    id,
    createdAt: Math.floor(call.createdAt / 1000),
    request: call.request as Fields,
  }
  const empty = { ...responseOf(facts, QUEUED_OUTCOME), background: true }
  if (call.workStatus === 'failed')
    return call.error === CANCELLED
      ? { ...empty, status: 'cancelled' }
      : { ...empty, status: 'failed', error: { code: 'server_error', message: call.error } }
  if (call.workStatus !== 'completed') return { ...empty, status: call.workStatus }
  if (call.paymentStatus === 'refused')
    return {
      ...empty,
      status: 'failed',
      error: {
        code: 'payment_failed',
        message: `The payment was refused. The result is stored: GET ${anyCallUrl(call.id, { key: callOfResponse(id)?.key, basePath })} with a new payment from the same wallet.`,
      },
    }
  if (call.paymentStatus !== 'settled' && call.paymentStatus !== 'unresolved')
    return { ...empty, status: 'in_progress' }
  const { body } = (call.result as unknown as Stored).made as unknown as StoredAnswer
  return { ...tryJson(body), ...backgroundMembers(id) }
}

/** Receipt headers of a settled response. */
const receiptOf = ({ receipt }: Call): Readonly<Record<string, string>> => (receipt ? receiptHeaders(receipt) : {})

const isPending = ({ status }: Fields): boolean => status === 'queued' || status === 'in_progress'

const POLL_INTERVAL_MS = 1_000
const MAX_POLLS = 500

type Attached = {
  readonly id: string
  readonly after: number
  readonly calls: FreeCalls
  readonly clock: Clock
  readonly gateway: Pick<GatewayFacts, 'basePath'>
}

/** Streams the events of a response: the first ones at once, the output when it is settled. */
function eventStream(call: Call, { id, after, calls, clock, gateway }: Attached): Reply {
  const encoder = new TextEncoder()
  const aborted = new AbortController()
  let lastSent = after
  let polls = 0

  /** The events that have not been sent, and whether they are the last. */
  function unsentEvents(response: Fields): { text: string; isLast: boolean } {
    const isLast = !isPending(response)
    const events = responseEvents(response).map((text, number) => ({ text, number }))
    const ready = events.filter(({ number }) => number > lastSent && (isLast || number < 2))
    lastSent = ready.at(-1)?.number ?? lastSent
    return { text: ready.map(({ text }) => text).join(''), isLast }
  }

  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        for (;;) {
          const now = polls === 0 ? call : await findResponse(id, calls).catch(() => undefined)
          const { text, isLast } = now ? unsentEvents(publicResponse(now, id, gateway)) : { text: '', isLast: true }
          polls += 1
          if (text !== '') controller.enqueue(encoder.encode(text))
          if (isLast || aborted.signal.aborted || polls > MAX_POLLS) return controller.close()
          if (text !== '') return
          await clock.wait(POLL_INTERVAL_MS, aborted.signal)
        }
      },
      cancel: () => aborted.abort(),
    },
    { highWaterMark: 0 },
  )
  return {
    status: 200,
    headers: { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-store', ...receiptOf(call) },
    body,
  }
}
