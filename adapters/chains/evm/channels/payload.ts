/** Payloads of the scheme `batch-settlement` on EVM: vouchers, and deposits that carry one. */
import { type Static, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { PaymentCode, Refused } from '../../../../core/ports/mod.ts'
import { type Offer, parseAtomic, type Payment, wrongField } from '../../../../core/x402/mod.ts'
import { Address, LAST_MS, Signature, Uint } from '../exact/payload.ts'
import { type Hex, lower } from '../../lib/hex.ts'
import { BATCH_SETTLEMENT } from '../node/x402_contracts.ts'
import type { ChannelConfig, ChannelDigests } from './digests.ts'
import { type ChannelState, channelStateOf } from './state.ts'

/** The contract accepts no other delays, in seconds: 15 minutes to 30 days. */
const MIN_WITHDRAW_DELAY = 900
const MAX_WITHDRAW_DELAY = 2_592_000

const Bytes32 = Type.String({ pattern: '^0x[0-9a-fA-F]{64}$', description: '32 bytes: 0x and 64 hex digits' })
const Amount = Type.String({
  pattern: '^(0|[1-9][0-9]{0,37})$',
  description: 'an amount in base units: decimal digits, as text, without a sign or leading zeros',
})

const Config = Type.Object({
  payer: Address,
  payerAuthorizer: Address,
  receiver: Address,
  receiverAuthorizer: Address,
  token: Address,
  withdrawDelay: Type.Integer({
    minimum: MIN_WITHDRAW_DELAY,
    maximum: MAX_WITHDRAW_DELAY,
    description: `a whole number of seconds from ${MIN_WITHDRAW_DELAY} to ${MAX_WITHDRAW_DELAY}`,
  }),
  salt: Bytes32,
})

const common = {
  channelConfig: Config,
  voucher: Type.Object({ channelId: Bytes32, maxClaimableAmount: Amount, signature: Signature }),
}

const VoucherPayload = Type.Object({ type: Type.Literal('voucher'), ...common })
const DepositPayload = Type.Object({
  type: Type.Literal('deposit'),
  ...common,
  deposit: Type.Object({
    amount: Amount,
    authorization: Type.Object({
      erc3009Authorization: Type.Object({ validAfter: Uint, validBefore: Uint, salt: Bytes32, signature: Signature }),
    }),
  }),
})
const RefundPayload = Type.Object({ type: Type.Literal('refund'), ...common, amount: Type.Optional(Amount) })
const isVoucher = TypeCompiler.Compile(VoucherPayload)
const isDeposit = TypeCompiler.Compile(DepositPayload)
const isRefund = TypeCompiler.Compile(RefundPayload)

/** A signed transfer of tokens into the channel. Times are in seconds. */
export type Deposit = {
  readonly amount: bigint
  readonly validAfter: bigint
  readonly validBefore: bigint
  readonly salt: Hex
  readonly signature: Hex
  /** The nonce under which the token knows it. */
  readonly nonce: Hex
}

/** A well-formed payload that answers the offer. Hex is lower case. */
export type Channeled = {
  readonly kind: 'channeled'
  readonly config: ChannelConfig
  readonly channelId: Hex
  /** The most that may be claimed of the channel in all, this purchase included. */
  readonly ceiling: bigint
  /** The total that the buyer takes as charged so far: the ceiling without the price. */
  readonly base: bigint
  readonly signature: Hex
  readonly deposit: Deposit | undefined
  /** Unique on its chain: one call for each base of a channel. */
  readonly key: string
  /** The balance that pays. */
  readonly fundedBy: string
}

/** Everything, or a part, of what is left of a channel shall go back to its payer. */
export type RefundRequest = Pick<Channeled, 'config' | 'channelId' | 'ceiling' | 'signature' | 'key' | 'fundedBy'> & {
  readonly kind: 'refund'
  /** In base units; undefined for everything that is left. */
  readonly amount: bigint | undefined
}

/** Parses a payload for this offer. No storage is read, and no signature checked. */
export function parseChanneled(payment: Payment, offer: Offer, digests: ChannelDigests): Channeled | Refused {
  const { payload } = payment
  const common = parseCommon(payment, { offer, digests, shape: payload.type === 'deposit' ? isDeposit : isVoucher })
  if (common.kind === 'refused') return common
  const { config, channelId, ceiling, signature, channel } = common
  const price = parseAtomic(offer.amount)
  if (price === undefined || price <= 0n || ceiling < price || ceiling >= 2n ** 128n) {
    const text = `voucher.maxClaimableAmount is ${ceiling}; it must be what was charged before plus the price, ${offer.amount}`
    return refusedChannel('PAYMENT_INVALID', 'cumulative_amount_mismatch', text)
  }
  const base = ceiling - price
  return {
    kind: 'channeled',
    config,
    channelId,
    ceiling,
    base,
    signature,
    deposit: payload.type === 'deposit' ? depositIn(payload as Static<typeof DepositPayload>, digests) : undefined,
    key: `${channel}/${base}`,
    fundedBy: channel,
  }
}

/** A deposit without a purchase: its voucher, of zero, proves that its maker has the key. */
export function parseDeposit(
  payment: Payment,
  offer: Offer,
  digests: ChannelDigests,
): (Pick<Channeled, 'config' | 'channelId' | 'ceiling' | 'signature'> & { readonly deposit: Deposit }) | Refused {
  const common = parseCommon(payment, { offer, digests, shape: isDeposit })
  if (common.kind === 'refused') return common
  const { config, channelId, ceiling, signature } = common
  const deposit = depositIn(payment.payload as Static<typeof DepositPayload>, digests)
  return { config, channelId, ceiling, signature, deposit }
}

/** The same for a refund, whose voucher adds nothing to what was charged. */
export function parseRefund(payment: Payment, offer: Offer, digests: ChannelDigests): RefundRequest | Refused {
  const common = parseCommon(payment, { offer, digests, shape: isRefund })
  if (common.kind === 'refused') return common
  const { config, channelId, ceiling, signature, channel } = common
  const { amount } = payment.payload as Static<typeof RefundPayload>
  const key = `${channel}/${ceiling}`
  return {
    kind: 'refund',
    config,
    channelId,
    ceiling,
    signature,
    key,
    fundedBy: channel,
    amount: amount === undefined ? undefined : BigInt(amount),
  }
}

type Common = Pick<Channeled, 'config' | 'channelId' | 'ceiling' | 'signature'> & {
  readonly kind: 'common'
  readonly channel: string
}

function parseCommon(
  { accepted, payload }: Payment,
  {
    offer,
    digests,
    shape,
  }: { offer: Offer; digests: ChannelDigests; shape: typeof isVoucher | typeof isDeposit | typeof isRefund },
): Common | Refused {
  for (const field of ['scheme', 'network', 'asset'] as const)
    if (lower(accepted[field]) !== lower(offer[field]))
      return mismatch(`${field}_mismatch`, `accepted.${field}`, { got: accepted[field], want: offer[field] })
  if (!shape.Check(payload)) {
    const first = shape.Errors(payload).First()
    const isDelay = first?.path === '/channelConfig/withdrawDelay'
    const text = `payload${first?.path ?? ''} is malformed: ${first ? wrongField(first) : 'unknown shape'}`
    return refusedChannel('PAYMENT_INVALID', isDelay ? 'withdraw_delay_out_of_range' : 'payload', text)
  }
  const { voucher } = payload as Static<typeof VoucherPayload>
  const config = configIn((payload as Static<typeof VoucherPayload>).channelConfig)
  const channelId = digests.channelId(config)
  if (lower(voucher.channelId) !== channelId)
    return mismatch('channel_id_mismatch', 'voucher.channelId', { got: voucher.channelId, want: channelId })
  const wrong = wrongConfig(config, offer)
  if (wrong) return wrong
  return {
    kind: 'common',
    config,
    channelId,
    ceiling: BigInt(voucher.maxClaimableAmount),
    signature: lower(voucher.signature),
    channel: `${offer.network}/${lower(BATCH_SETTLEMENT)}/${channelId}`,
  }
}

function depositIn({ deposit, voucher }: Static<typeof DepositPayload>, digests: ChannelDigests): Deposit {
  const { validAfter, validBefore, salt, signature } = deposit.authorization.erc3009Authorization
  return {
    amount: BigInt(deposit.amount),
    validAfter: BigInt(validAfter),
    validBefore: BigInt(validBefore),
    salt: lower(salt),
    signature: lower(signature),
    nonce: digests.depositNonce(lower(voucher.channelId), lower(salt)),
  }
}

const configIn = (config: Static<typeof Config>): ChannelConfig => ({
  payer: lower(config.payer),
  payerAuthorizer: lower(config.payerAuthorizer),
  receiver: lower(config.receiver),
  receiverAuthorizer: lower(config.receiverAuthorizer),
  token: lower(config.token),
  withdrawDelay: config.withdrawDelay,
  salt: lower(config.salt),
})

const ZERO = `0x${'0'.repeat(40)}`

function wrongConfig(config: ChannelConfig, { payTo, asset, extra }: Offer): Refused | undefined {
  const wanted = [
    ['receiver', payTo, 'receiver_mismatch'],
    ['receiverAuthorizer', String(extra?.receiverAuthorizer), 'receiver_authorizer_mismatch'],
    ['token', asset, 'token_mismatch'],
  ] as const
  for (const [field, want, problem] of wanted)
    if (config[field] !== lower(want)) return mismatch(problem, `channelConfig.${field}`, { got: config[field], want })
  if (config.withdrawDelay !== extra?.withdrawDelay)
    return mismatch('withdraw_delay_mismatch', 'channelConfig.withdrawDelay', {
      got: String(config.withdrawDelay),
      want: String(extra?.withdrawDelay),
    })
  if (config.payerAuthorizer !== ZERO) return undefined
  const text = 'channelConfig.payerAuthorizer is zero; it must be the address of the key that signs vouchers'
  return refusedChannel('PAYMENT_INVALID', 'voucher_signature', text)
}

/** Amount that a purchase moves the channel by, at least one: a base that does not move would pay for two calls. */
export function dueOf(offer: Offer, charge: bigint | undefined): bigint {
  const price = parseAtomic(offer.amount) ?? 0n
  const due = charge ?? price
  if (due < 1n) return 1n
  return due > price ? price : due
}

/** `validBefore` in milliseconds, capped at what a Date can hold. */
export const endOf = ({ validBefore }: Deposit): number =>
  Number(validBefore * 1000n < LAST_MS ? validBefore * 1000n : LAST_MS)

/** A refusal whose reason starts with the scheme's error code. */
export function refusedChannel(code: PaymentCode, problem: string, text: string): Refused {
  return { kind: 'refused', code, reason: `${PREFIX}${problem}: ${text}` }
}

/** The gateway pays for no more transactions of this wallet in this hour. */
export function overBudget(problem: string, wallet: string, until: number): Refused {
  const pause = `deposit more at a time, or ask again after ${new Date(until).toISOString()}`
  const text = `the gateway has paid as much gas for ${wallet} in an hour as it does; ${pause}`
  return refusedChannel('PAYMENT_UNFUNDED', problem, text)
}

/** With what the buyer needs to sign again. Without a voucher of ours, the chain is where it starts from. */
export function outOfStep(ceiling: bigint, state: ChannelState): Refused {
  const text = `voucher.maxClaimableAmount is ${ceiling}; ${state.charged} was charged so far, to which a purchase adds the price and a refund nothing`
  const refused = refusedChannel('PAYMENT_INVALID', 'cumulative_amount_mismatch', text)
  const voucherState = state.ceiling > 0n && { signedMaxClaimable: String(state.ceiling), signature: state.signature }
  return {
    ...refused,
    corrected: {
      error: `${PREFIX}cumulative_amount_mismatch`,
      extra: { channelState: channelStateOf(state), ...(voucherState && { voucherState }) },
    },
  }
}

/** Claims publish vouchers: one that has paid is nobody's proof. */
export function spentVoucher(ceiling: bigint): Refused {
  const text = `a voucher of ${ceiling} has paid before, and others may have read it; order at another price, for example with another max_tokens`
  return refusedChannel('PAYMENT_REPLAY', 'voucher_spent', text)
}

export function notCovered(
  ceiling: bigint,
  { balance, withdrawing }: Pick<ChannelState, 'balance' | 'withdrawing'>,
): Refused {
  const text = `voucher.maxClaimableAmount is ${ceiling}; the channel covers ${balance - withdrawing}, ${withdrawing} of it are being withdrawn: deposit more`
  return refusedChannel('PAYMENT_UNFUNDED', 'cumulative_exceeds_balance', text)
}

export const PREFIX = 'invalid_batch_settlement_evm_'

function mismatch(problem: string, field: string, { got, want }: { got: string; want: string }): Refused {
  const text = `${field} is ${JSON.stringify(got.slice(0, 80))}; it must be ${JSON.stringify(want)}`
  return refusedChannel('PAYMENT_INVALID', problem, text)
}
