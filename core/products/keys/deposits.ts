/** Money into the channel of a key without a call, and back to its payer (contract 23.9, 23.11). */
import { type Static, Type } from '@sinclair/typebox'
import { free } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { json } from '../../http/reply.ts'
import { unknownKey } from '../../identity/presented_key.ts'
import { within } from '../../lib/timers.ts'
import type { KeyChannel, KeyDeposit, Refunding } from '../../ports/mod.ts'
import { parseAtomic, print, type Usdc } from '../../x402/money.ts'
import { decodePayment } from '../../x402/protocol.ts'
import { keysOf, PRIVATE, SETTLE_MS, withKey } from './presented.ts'

const Amount = Type.String({ description: 'In USDC, six decimals.' })
const Channel = {
  network: Type.String({ description: 'CAIP-2.' }),
  channel_id: Type.String(),
  payer: Type.String({ description: 'The wallet that gets every refund.' }),
  deposited: Amount,
  charged: Amount,
  reserved: Amount,
  withdrawing: Amount,
  available: Amount,
}
const Deposit = Type.Object({
  payment: Type.String({
    minLength: 1,
    maxLength: 32_768,
    description:
      'Base64 of an x402 v2 payment by batch-settlement whose payload is of type deposit: the payer has signed the deposit, and the key a voucher of zero.',
  }),
})

const deposit = free({
  name: 'keys.deposit',
  method: 'POST',
  path: '/api/v1/keys/deposit',
  summary: 'Deposit into the channel of an API key',
  description:
    'Buys nothing. The key itself is not sent: its address is payerAuthorizer, and salt is keccak256("farebox key v1" and the 20 bytes of that address). The same request may be sent again, and deposits once.',
  tag: 'keys',
  limit: { requests: 20, windowMs: 60_000, bucket: 'keys.deposit' },
  errors: ['INVALID_BODY', 'INVALID_PARAMETER', 'INSUFFICIENT_BALANCE', 'NOT_FOUND', 'NOT_READY'],
  input: Deposit,
  hidden: true,
  output: Type.Object({
    object: Type.Literal('key.deposit'),
    transaction: Type.String({ description: 'Empty for one that was made before.' }),
    channel: Type.Object(Channel),
  }),
  async answer(request, context) {
    const keys = keysOf(context)
    const { clock } = context
    const { payment } = (await request.json()) as Partial<Static<typeof Deposit>>
    const decoded = decodePayment(typeof payment === 'string' ? payment : '')
    if (!decoded.ok) throw new ApiError('INVALID_PARAMETER', { message: decoded.reason, param: 'payment' })
    const outcome = await within(clock, SETTLE_MS, (signal) =>
      keys.deposit(decoded.payment, { now: clock.now(), signal }),
    ).catch((error: Error): KeyDeposit => ({ kind: 'unknown', reason: error.message }))
    if (outcome.kind !== 'deposited') throw notDone(outcome)
    const { channel, transaction } = outcome
    return json(200, { object: 'key.deposit', transaction, channel: publicChannel(channel) }, PRIVATE)
  },
})

const close = free({
  name: 'keys.close',
  method: 'POST',
  path: '/api/v1/keys/close',
  summary: 'Send what is left of an API key back to its payer',
  description: 'By the key alone, once none of its calls is open. The key answers 402 afterwards.',
  tag: 'keys',
  limit: { requests: 20, windowMs: 60_000, bucket: 'keys.deposit' },
  errors: ['INVALID_API_KEY', 'INVALID_PARAMETER', 'INSUFFICIENT_BALANCE', 'NOT_FOUND', 'NOT_READY'],
  hidden: true,
  output: Type.Object({
    object: Type.Literal('key.refund'),
    transaction: Type.String(),
    payer: Type.String(),
    network: Type.String(),
    amount: Amount,
  }),
  async answer(request, context) {
    const { clock } = context
    const refunding = await withKey(request, context, (key, keys) =>
      within(clock, SETTLE_MS, (signal) => keys.close(key, undefined, { now: clock.now(), signal })).catch(
        (error: Error): Refunding => ({ kind: 'unknown', reason: error.message }),
      ),
    )
    if (!refunding) throw unknownKey()
    if (refunding.kind !== 'refunded') throw notDone(refunding)
    const { transaction, payer = '', network, amount } = refunding.receipt
    const paidBack = print(parseAtomic(amount) ?? (0n as Usdc))
    return json(200, { object: 'key.refund', transaction, payer, network, amount: paidBack }, PRIVATE)
  },
})

function publicChannel({ network, channelId, payer, ...amounts }: KeyChannel) {
  const { deposited, charged, reserved, withdrawing, available } = amounts
  return {
    network,
    channel_id: channelId,
    payer,
    deposited: print(deposited),
    charged: print(charged),
    reserved: print(reserved),
    withdrawing: print(withdrawing),
    available: print(available),
  }
}

type NotDone = Exclude<KeyDeposit, { kind: 'deposited' }> | Exclude<Refunding, { kind: 'refunded' }>

function notDone(outcome: NotDone): ApiError {
  if (outcome.kind === 'refused' && outcome.code === 'PAYMENT_VERIFICATION_UNAVAILABLE')
    return new ApiError('NOT_READY', { message: outcome.reason, headers: { 'retry-after': '5' } })
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

export const keyDeposits = [deposit, close]
