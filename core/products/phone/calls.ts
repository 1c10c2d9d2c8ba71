/**
 * Phone calls by a voice agent that follows a task, from a number leased by the paying wallet (contract 17.7; decision
 * 61).
 */
import { type Static, Type } from '@sinclair/typebox'
import { within } from '../../lib/timers.ts'
import { isPremiumRate, isEmergency } from './blocked_numbers.ts'
import { free, type Order, paid } from '../../endpoint/mod.ts'
import { json } from '../../http/reply.ts'
import { ApiError } from '../../http/errors.ts'
import { forbidden, type CallContext, callContextIn } from '../../endpoint/call_context.ts'
import { quoted } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'
import { failedAs } from '../lib/passthrough_path.ts'
import type { Json } from '../../lib/json.ts'
import { recordKind } from '../../endpoint/record_kind.ts'
import { flatPrice } from '../../x402/pricing.ts'
import { fingerprint } from '../../lib/ids.ts'
import type { Ringing, VoiceVendor } from '../../ports/vendors/phone.ts'
import { clientRecord } from './call_record.ts'
import { activeOf, E164, ownedBy } from './numbers.ts'

/** US dollars before the fee. */
const PRICE_USD = '0.54'
const VOICES = ['nat', 'josh', 'maya', 'june', 'paige', 'derek', 'florian'] as const
const MINUTE_MS = 60_000
/** How long the record of a call is available. */
const RETENTION_MS = 90 * 24 * 60 * MINUTE_MS
/** After a call with unknown outcome, the wallet cannot call the same number again for this long. */
const REDIAL_DELAY_MS = 10 * MINUTE_MS
/** Retention of an order's call, longer than the lifetime of its authorization. */
const ORDER_RETENTION_MS = 48 * 60 * MINUTE_MS
/** Timeout of vendor calls in free requests. */
const VENDOR_TIMEOUT_MS = 10_000

/** A call: our id and the vendor's. */
const CALL = recordKind({
  kind: 'voice_call',
  version: 1,
  schema: Type.Object({
    handle: Type.String(),
    to: Type.String(),
    from: Type.String(),
    maxMinutes: Type.Number(),
    at: Type.Number(),
  }),
})
/** A number that a wallet is currently calling. */
const DIALING = recordKind({ kind: 'voice_dialing', version: 1, schema: Type.Object({ order: Type.String() }) })
/** The number that an order has called, or may have called if there is no handle. */
const ORDERED = recordKind({
  kind: 'voice_order',
  version: 1,
  schema: Type.Object({ to: Type.String(), handle: Type.Union([Type.String(), Type.Null()]) }),
})

const oneOf = <const Words extends readonly string[]>(...words: Words) =>
  Type.Union(words.map((word: Words[number]) => Type.Literal(word)))
const input = Type.Object({
  to: Type.String({
    minLength: 1,
    maxLength: 40,
    description: 'Whom to call, in E.164. Emergency numbers are never called.',
  }),
  task: Type.String({ minLength: 10, maxLength: 4_000, description: 'What the voice is to do, in words.' }),
  from: Type.Optional(
    Type.String({ pattern: E164, description: 'A number that the paying wallet rents; its only one unless told.' }),
  ),
  voice: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9_-]{1,64}$',
      description: `${VOICES.join(', ')}, or the id of a voice; ${VOICES[0]} unless told.`,
    }),
  ),
  language: Type.Optional(
    Type.String({ pattern: '^[a-z]{2,3}(-[A-Za-z0-9]{2,8})?$', description: 'en-US unless told.' }),
  ),
  max_duration: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 30, description: 'Minutes after which it is ended, 5 unless told.' }),
  ),
  first_sentence: Type.Optional(Type.String({ minLength: 1, maxLength: 500 })),
  wait_for_greeting: Type.Optional(Type.Boolean()),
  interruption_threshold: Type.Optional(
    Type.Integer({ minimum: 50, maximum: 500, description: 'Milliseconds of speech that interrupt the voice.' }),
  ),
  model: Type.Optional(oneOf('base', 'enhanced', 'turbo')),
  voicemail_action: Type.Optional(oneOf('hangup', 'leave_message', 'ignore')),
  voicemail_message: Type.Optional(
    Type.String({ minLength: 1, maxLength: 1_000, description: 'Required with leave_message.' }),
  ),
})
type CallInput = Static<typeof input>

const call = paid({
  name: 'voice.call',
  path: '/api/v1/voice/call',
  summary: 'Call a person',
  description:
    'A voice calls the number and follows the task. Paid for when the call is accepted for dialing; poll_url then tells how it goes, free, and has what was said. The caller is a number of /api/v1/phone/numbers/buy.',
  tag: 'voice',
  delivery: 'inline',
  unknownFields: 'refused',
  failure: 'Call initiation failed',
  input,
  output: Type.Object({
    call_id: Type.String(),
    status: Type.Literal('queued'),
    poll_url: Type.String(),
    message: Type.String(),
  }),
  example: { to: '+14155550123', task: 'Ask whether a table for two is free tonight at eight, and book it for Ada.' },
  errors: ['NOT_ALLOWED', 'BUSY', 'AUTHORIZATION_USED', 'UPSTREAM_FAILED'],
  effects: { costsOperator: true },
  price: (_input, { prices }) => ({ amount: flatPrice(PRICE_USD, prices), maxTimeoutSeconds: 300, publicPrice: {} }),
  isAvailable: (_input, { vendors }) => vendors.voice !== undefined,

  check(given) {
    const { to, voicemail_action: action, voicemail_message: message } = given
    if (isEmergency(to))
      throw forbidden(
        'emergency_number',
        `${quoted(to)} is, or may reach, an emergency service; no program may call it. Nothing was charged.`,
      )
    if (!new RegExp(E164).test(to))
      throw refused('to', `must be a number in E.164, for example +14155550123; got ${quoted(to)}`)
    if (isPremiumRate(to))
      throw refused('to', `is at a premium rate, by satellite or of no country, and is not called; got ${quoted(to)}`)
    if (given.task.trim().length < 10) throw refused('task', 'must have at least 10 characters')
    if (action === 'leave_message' && !message?.trim())
      throw refused('voicemail_message', 'is required where voicemail_action is leave_message')
    if (action !== 'leave_message' && message !== undefined)
      throw refused(
        'voicemail_message',
        `has a meaning only where voicemail_action is leave_message; it is ${quoted(action ?? 'hangup')}`,
      )
    return given
  },

  async run(order) {
    const input = order.input as CallInput
    const { origin, records, secretName } = callContextIn(order)
    const from = await callerNumberOf(order.payer, input.from, { records, now: order.clock.now() })
    const handle = await ringOnce(order, ringing(input, from))
    const id = await secretName('call_')
    const data = { handle, to: input.to, from, maxMinutes: input.max_duration ?? 5, at: order.now }
    return {
      result: { call_id: id, poll_url: `${origin}/api/v1/voice/call/${id}` },
      recordsToStore: () => [CALL.stored({ id, data, expiresAt: order.now + RETENTION_MS })],
    }
  },

  show: ({ made }) => ({
    ...(made as Record<string, Json>),
    status: 'queued',
    message: 'Accepted for dialing. GET poll_url every few seconds, free, until its status is completed or error.',
  }),
})

/** The caller's number. Throws a 403 or 400 that lists the wallet's numbers. */
async function callerNumberOf(
  payer: string,
  from: string | undefined,
  at: { records: CallContext['records']; now: number },
): Promise<string> {
  const active = await activeOf(payer, at)
  if (from !== undefined && active.includes(from)) return from
  const yours = { your_active_numbers: active }
  if (from !== undefined) {
    await ownedBy(payer, from, at).catch((error: unknown) => {
      if (error instanceof ApiError)
        throw new ApiError(error.code, { ...error.parts, fields: { ...error.parts.fields, ...yours } })
      throw error
    })
  }
  const [only, ...others] = active
  const buy = { buy_endpoint: '/api/v1/phone/numbers/buy' }
  if (only === undefined)
    throw new ApiError('NOT_ALLOWED', {
      error: 'no_active_number',
      message: 'This wallet rents no number to call from. Nothing was charged.',
      fields: buy,
    })
  if (others.length > 0)
    throw new ApiError('INVALID_BODY', {
      error: 'ambiguous_from',
      message: `from: this wallet rents ${active.length} numbers; name one of them. Nothing was charged.`,
      details: [{ path: 'from', message: 'name one of your_active_numbers' }],
      fields: yours,
    })
  return only
}

function ringing(input: CallInput, from: string): Ringing {
  const { to, task, voice = VOICES[0], language = 'en-US', max_duration: maxMinutes = 5, model = 'base' } = input
  const {
    first_sentence: firstSentence,
    wait_for_greeting: waitForGreeting,
    interruption_threshold: interruptionMs,
    voicemail_action: action,
    voicemail_message: message,
  } = input
  return {
    to,
    from,
    task,
    voice,
    language,
    maxMinutes,
    model,
    ...(firstSentence !== undefined && { firstSentence }),
    ...(waitForGreeting !== undefined && { waitForGreeting }),
    ...(interruptionMs !== undefined && { interruptionMs }),
    ...(action && { voicemail: { action, ...(message !== undefined && { message }) } }),
  }
}

// ── at most one call per payment ────────────────────────────────────────────────────────────────────────────────────

function voiceIn({ vendors }: Pick<Order<unknown>, 'vendors'>): VoiceVendor {
  if (vendors.voice) return vendors.voice
  throw new ApiError('NOT_CONFIGURED', { message: 'voice: the operator has not configured it. Nothing was charged.' })
}

/**
 * Places the call, unless this order already has: the same signed request, repeated after a crash, finds its call. If
 * it is unknown whether the call was placed, the order never calls again, and the wallet cannot call the same number
 * for a while.
 */
async function ringOnce(order: Order<unknown>, callRequest: Ringing): Promise<string> {
  const { records, order: name } = callContextIn(order)
  const { clock, payer, signal } = order
  const { to } = callRequest
  const now = clock.now()
  const known = (await ORDERED.get(records, name, now))?.data
  if (known?.handle && known.to === to) return known.handle
  if (known) throw alreadyCalled(known.to)
  const lineId = fingerprint(payer, to, '').slice(0, 32)
  const dialing = await DIALING.put(
    records,
    { id: lineId, owner: payer, data: { order: name }, expiresAt: now + REDIAL_DELAY_MS },
    now,
  )
  if (!dialing) throw callInProgress(to, ((await DIALING.get(records, lineId, now))?.expiresAt ?? now) - now)
  const orderRecord = await ORDERED.put(
    records,
    { id: name, owner: payer, data: { to, handle: null }, expiresAt: now + ORDER_RETENTION_MS },
    now,
  )
  if (!orderRecord) throw alreadyCalled(to)
  const free = () => DIALING.move(records, dialing, { expiresAt: clock.now() }, clock.now())
  try {
    const { handle } = await voiceIn(order).ring(callRequest, { signal }).catch(failedAs('Call initiation failed'))
    await ORDERED.move(records, orderRecord, { data: { to, handle } }, clock.now())
    await free()
    return handle
  } catch (error) {
    const wasNotDialed =
      error instanceof ApiError && error.code !== 'UPSTREAM_FAILED' && error.code !== 'UPSTREAM_TIMEOUT'
    if (wasNotDialed)
      await Promise.all([ORDERED.move(records, orderRecord, { expiresAt: clock.now() }, clock.now()), free()])
    throw error
  }
}

function callInProgress(to: string, ms: number): ApiError {
  const seconds = String(Math.max(1, Math.ceil(ms / 1000)))
  return new ApiError('BUSY', {
    message: `This wallet may already be calling ${to}. Nothing was charged. Retry the same request in ${seconds} s.`,
    headers: { 'retry-after': seconds },
  })
}

/** This payment is no longer charged. Another signature is another order. */
function alreadyCalled(to: string): ApiError {
  return new ApiError('AUTHORIZATION_USED', {
    error: 'Call may have been made',
    message: `This payment may already have placed a call to ${to}. Nothing was charged. Sign a new payment to call again.`,
    fields: { code: 'PAYMENT_REPLAY' },
  })
}

// ── status ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const text = Type.Union([Type.String(), Type.Null()])
const utterance = Type.Object({ role: Type.String(), text: Type.String() }, { additionalProperties: true })

const status = free({
  name: 'voice.status',
  path: '/api/v1/voice/call/{callId}',
  summary: 'How a call goes, and what was said',
  description:
    'The record of the call as its vendor keeps it, for everybody who has its call_id, which only the reply to the paid request tells: of calls that were made here alone. Free.',
  tag: 'voice',
  isOffered: ({ vendors }) => vendors.voice !== undefined,
  limit: { requests: 120, windowMs: MINUTE_MS },
  follows: true,
  errors: ['NOT_FOUND', 'NOT_CONFIGURED', 'UPSTREAM_FAILED'],
  output: Type.Object(
    {
      call_id: Type.String(),
      to: Type.String(),
      from: Type.String(),
      status: oneOf('queued', 'started', 'ringing', 'in-progress', 'completed', 'error'),
      answered_by: text,
      call_length: Type.Union([Type.Number({ description: 'Minutes.' }), Type.Null()]),
      call_ended_by: text,
      summary: text,
      transcript: Type.Array(utterance),
      transcripts: Type.Array(Type.Unknown(), { description: 'The same as the vendor writes it.' }),
      concatenated_transcript: text,
      recording_url: text,
      started_at: text,
      ended_at: text,
      ended_by: oneOf('USER', 'ASSISTANT', 'TIMEOUT', 'NO_ANSWER', 'BUSY', 'VOICEMAIL', 'ERROR', 'IN_PROGRESS'),
      ended_by_reason: text,
    },
    { additionalProperties: true },
  ),
  async answer({ params }, { vendors, records, clock }) {
    const { callId: id = '' } = params
    // Indexers request the documented path, including its braces.
    if (/^[{:]/.test(id)) return json(402, DISCOVERY, { 'cache-control': 'no-store' })
    const unknown = () =>
      new ApiError('NOT_FOUND', {
        error: 'Call not found',
        message: 'No call has this id, or it was made more than 90 days ago.',
      })
    const stored = /^call_[0-9a-f]{32}$/.test(id) ? await CALL.get(records, id, clock.now()) : undefined
    if (!stored) throw unknown()
    const { handle, ...callData } = stored.data
    const record = await within(clock, VENDOR_TIMEOUT_MS, (signal) =>
      voiceIn({ vendors }).callStatus(handle, { signal }),
    ).catch((error: unknown) => {
      if ((error as Error).name === 'TimeoutError')
        throw new ApiError('UPSTREAM_FAILED', {
          message: 'The record of the call could not be had in time; ask again.',
        })
      throw error
    })
    return json(200, clientRecord(record ?? {}, { id, ...callData }), { 'cache-control': 'no-store' })
  },
})

const DISCOVERY = {
  x402Version: 2,
  accepts: [],
  error: 'Payment Required (discovery)',
  message: 'How a call goes. This is free: GET it with the call_id of a call, without payment.',
  price: { amount: '0.000000', currency: 'USD', free: true },
}

export const voice = [call, status]
