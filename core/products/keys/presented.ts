/** The API key of a request to a route that costs nothing. */
import type { FreeContext, FreeRequest } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { invalidKey, openPresented, presentedKey, refuseKeyInQuery, unknownKey } from '../../identity/presented_key.ts'
import { within } from '../../lib/timers.ts'
import type { ChainKeys, KeyChannel, KeyDeposit, Lent, OpenedKey, Refunding } from '../../ports/mod.ts'

/** Errors of every route that reads an API key. */
export const KEY_ERRORS = ['INVALID_API_KEY', 'INVALID_PARAMETER', 'NOT_FOUND'] as const
/** A deposit and a refund wait for a block. */
export const SETTLE_MS = 60_000
export const READ_MS = 8_000

export function keysOf({ chain }: Pick<FreeContext, 'chain'>): ChainKeys {
  if (chain.apiKeys) return chain.apiKeys
  throw new ApiError('NOT_FOUND', { message: 'This gateway takes no API keys.' })
}

/** Opens the key of the request while `work` runs. Throws ApiError without one. */
export async function withKey<Answer>(
  request: FreeRequest,
  context: Pick<FreeContext, 'chain'>,
  work: (key: OpenedKey, keys: ChainKeys) => Promise<Answer>,
): Promise<Answer> {
  const keys = keysOf(context)
  refuseKeyInQuery(request.query)
  const presented = presentedKey({ headers: { get: request.header } }, request.origin)
  if (!presented) throw invalidKey('Send the API key as Authorization: Bearer.')
  const key = await openPresented(keys, presented)
  try {
    return await work(key, keys)
  } finally {
    key.end()
  }
}

/** A key and the channel that it pays from. Throws the same ApiError for an unfunded key and an unknown one. */
export async function channelOf(
  request: FreeRequest,
  context: Pick<FreeContext, 'chain' | 'clock'>,
): Promise<KeyChannel & { readonly address: string; readonly isChild: boolean }> {
  const { clock } = context
  return await withKey(request, context, async ({ address, isChild }, keys) => {
    const [channel] = await within(clock, READ_MS, (signal) => keys.channels(address, { now: clock.now(), signal }))
    if (!channel) throw unknownKey()
    return { ...channel, address, isChild }
  })
}

/** Shown in place of a key, of which nothing is ever shown. */
export const labelOf = (address: string): string => `${address.slice(0, 6)}…${address.slice(-4)}`

export const PRIVATE = { 'cache-control': 'private, no-store' }

type NotDone =
  | Exclude<KeyDeposit, { kind: 'deposited' }>
  | Exclude<Refunding, { kind: 'refunded' }>
  | Exclude<Lent, { kind: 'lent' }>

/** Codes of the scheme for a channel that other calls are changing just now. */
const PASSING = /_(?:channel_busy|cumulative_amount_mismatch)$/

/** The error of a deposit, a refund or a child that was not made. */
export function notDone(outcome: NotDone): ApiError {
  if (outcome.kind === 'refused' && outcome.code === 'PAYMENT_VERIFICATION_UNAVAILABLE')
    return new ApiError('NOT_READY', { message: outcome.reason, headers: { 'retry-after': '5' } })
  if (outcome.kind === 'refused' && PASSING.test(outcome.corrected?.error ?? ''))
    return new ApiError('INSUFFICIENT_BALANCE', {
      message: `${outcome.reason}. Nothing moved.`,
      headers: { 'retry-after': '3' },
    })
  if (outcome.kind === 'refused')
    return new ApiError(outcome.code === 'PAYMENT_UNFUNDED' ? 'INSUFFICIENT_BALANCE' : 'INVALID_PARAMETER', {
      message: `${outcome.reason}. Nothing moved.`,
    })
  const text =
    outcome.kind === 'unknown' ? 'It may be under way, and is not confirmed yet' : 'The chain cannot be asked just now'
  return new ApiError('NOT_READY', {
    message: `${text}. Send the same request again for its outcome.`,
    details: outcome.reason,
    headers: { 'retry-after': '5' },
  })
}
