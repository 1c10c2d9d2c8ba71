/** Money into the channel of a key without a call, and back to its payer (contract 23.9, 23.11; decision 156). */
import { Type } from '@sinclair/typebox'
import { free, type FreeContext } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { json } from '../../http/reply.ts'
import { unknownKey } from '../../identity/presented_key.ts'
import { fieldsOf, textOf } from '../../lib/json.ts'
import { within } from '../../lib/timers.ts'
import type { ChainKeys, KeyChannel, KeyClosingOptions, KeyDeposit, Refunding } from '../../ports/mod.ts'
import { parseAtomic, print, usdc } from '../../x402/money.ts'
import { decodePayment } from '../../x402/protocol.ts'
import { signedIn } from '../lib/signed_in.ts'
import { keysOf, notDone, PRIVATE, READ_MS, SETTLE_MS, withKey } from './presented.ts'

const LIMIT = { requests: 20, windowMs: 60_000, bucket: 'keys.deposit' }

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

const Refund = Type.Object({
  object: Type.Literal('key.refund'),
  transaction: Type.String(),
  payer: Type.String(),
  network: Type.String(),
  amount: Amount,
  reserved: Type.String({
    description: 'What open calls may still cost, in USDC. What they leave goes back by itself once they have ended.',
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
  limit: LIMIT,
  errors: ['INVALID_BODY', 'INVALID_PARAMETER', 'INSUFFICIENT_BALANCE', 'NOT_ALLOWED', 'NOT_FOUND', 'NOT_READY'],
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
    const decoded = decodePayment(textOf(fieldsOf(await request.json()).payment))
    if (!decoded.ok) throw new ApiError('INVALID_PARAMETER', { message: decoded.reason, param: 'payment' })
    const outcome = await within(clock, SETTLE_MS, (signal) =>
      keys.deposit(decoded.payment, { now: clock.now(), signal, requireListed: context.requireListed }),
    ).catch((error: Error): KeyDeposit => {
      if (error instanceof ApiError) throw error
      return { kind: 'unknown', reason: error.message }
    })
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
  description:
    'By the key alone. Results that wait to be collected are charged; what calls that are open may cost stays, and goes back once they have ended if the refund is worth its gas, or sooner if it is asked again. The key answers 402 afterwards.',
  tag: 'keys',
  limit: LIMIT,
  errors: ['INVALID_API_KEY', 'INVALID_PARAMETER', 'INSUFFICIENT_BALANCE', 'NOT_FOUND', 'NOT_READY'],
  hidden: true,
  output: Refund,
  async answer(request, context) {
    return await withKey(request, context, async (key, keys) => {
      const { address } = key
      const refunding = await refunded(context, (at) => keys.close({ address, key }, at))
      if (!refunding) throw unknownKey()
      return await refundReply(context, refunding, { keys, address })
    })
  },
})

/** For a key that is lost or leaked: its wallet needs no key to get the rest back. */
const closeByWallet = free({
  name: 'keys.close_by_wallet',
  method: 'POST',
  path: '/api/v1/keys/{address}/close',
  summary: 'Send what is left of an API key back, asked for by its payer',
  description:
    'Without the key: its payer signs in, which is a signature for this address and this gateway. Without a sign-in it answers 402 with nothing to pay and a challenge. The key answers 402 afterwards.',
  tag: 'keys',
  limit: LIMIT,
  signsIn: true,
  errors: ['INVALID_PARAMETER', 'INSUFFICIENT_BALANCE', 'NOT_FOUND', 'NOT_READY', 'NOT_CONFIGURED'],
  hidden: true,
  output: Refund,
  async answer(request, context) {
    const keys = keysOf(context)
    const address = request.params.address ?? ''
    if (!/^0x[0-9a-fA-F]{40}$/.test(address))
      throw new ApiError('INVALID_PARAMETER', {
        message: `address must be 0x and 40 hex digits, the address of a key; got ${JSON.stringify(address.slice(0, 60))}`,
        param: 'address',
      })
    const signed = await signedIn(request, context, {
      name: 'keys.close_by_wallet',
      description: 'Sends what is left of an API key back to its wallet',
      message: 'Sign the challenge with the wallet that made the deposit. It pays nothing.',
    })
    if ('reply' in signed) return signed.reply
    const closing = { address: address.toLowerCase(), payer: signed.wallet }
    const refunding = await refunded(context, (at) => keys.close(closing, at))
    if (!refunding) throw new ApiError('NOT_FOUND', { message: 'This wallet has no key of this address here.' })
    return await refundReply(context, refunding, { keys, address: closing.address })
  },
})

/** How long a close waits for vendors, in milliseconds. A job without an answer by then stays reserved. */
const FINISHED_MS = 20_000

async function refunded(
  { clock, log, calls }: Pick<FreeContext, 'clock' | 'log' | 'calls'>,
  ask: (at: KeyClosingOptions) => Promise<Refunding | undefined>,
): Promise<Refunding | undefined> {
  const deadline = clock.now() + FINISHED_MS
  const settleFinished: KeyClosingOptions['settleFinished'] = async (authorization, payFor) => {
    const left = deadline - clock.now()
    if (left <= 0) return
    await within(clock, left, () => calls.settleFinished(authorization, payFor)).catch((error: Error) =>
      log.warn('a close goes on without a call of its key', { authorization, error: error.message }),
    )
  }
  return await within(clock, SETTLE_MS, (signal) => ask({ now: clock.now(), signal, settleFinished })).catch(
    (error: Error): Refunding => ({ kind: 'unknown', reason: error.message }),
  )
}

async function refundReply(
  { clock }: Pick<FreeContext, 'clock'>,
  refunding: Refunding,
  { keys, address }: { readonly keys: ChainKeys; readonly address: string },
) {
  if (refunding.kind !== 'refunded') throw notDone(refunding)
  const { transaction, payer = '', network, amount } = refunding.receipt
  const channels = await within(clock, READ_MS, (signal) => keys.channels(address, { now: clock.now(), signal }))
  const reserved = channels.reduce((sum, each) => sum + (each.payer === payer ? each.reserved : 0n), 0n)
  const sums = { amount: print(parseAtomic(amount) ?? usdc(0n)), reserved: print(usdc(reserved)) }
  return json(200, { object: 'key.refund', transaction, payer, network, ...sums }, PRIVATE)
}

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

export const keyDeposits = [deposit, close, closeByWallet]
