/**
 * Deposits USDC into a prediction-market account: submits the wallet's own deposit to the bridge, then charges the fee
 * (contract 18.8).
 */
import { type Static, Type } from '@sinclair/typebox'
import { type Order, paid } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { forbidden, callContextIn } from '../../endpoint/call_context.ts'
import { quoted } from '../../lib/text.ts'
import { refused } from '../../http/request_body.ts'
import { print, type Usdc } from '../../x402/money.ts'
import { failedAs } from '../lib/passthrough_path.ts'
import type { Json } from '../../lib/json.ts'
import { flatPrice } from '../../x402/pricing.ts'
import type { BridgeVendor } from '../../ports/vendors/wallet.ts'
import { decodePayment, type Payment } from '../../x402/protocol.ts'

/** US dollars before the fee. */
const PRICE_USD = '0.01'
/** Limits in millionths of a dollar. The bridge does not credit smaller deposits. */
const MIN_AMOUNT = 2_000_000n
const MAX_AMOUNT = 10_000_000_000n
/** The reply waits this long for both settlements; then the caller polls. */
const WINDOW_MS = 50_000
const SECONDS = 600

const Address = Type.String({ pattern: '^0x[0-9a-fA-F]{40}$' })
const fields = {
  depositWallet: 'The account at the prediction market that is to be credited.',
  recipient: "Where the bridge takes this account's deposits: the evm address that it answers with.",
  amountMicro: 'Millionths of a US dollar, as text: from 2000000 to 10000000000.',
  depositAuthorization:
    'Base64 of an x402 v2 payment whose authorization transfers amountMicro of USDC from the paying wallet to recipient.',
}
const input = Type.Object({
  depositWallet: { ...Address, description: fields.depositWallet },
  recipient: { ...Address, description: fields.recipient },
  amountMicro: Type.String({ pattern: '^[1-9][0-9]{0,15}$', description: fields.amountMicro }),
  depositAuthorization: Type.String({ minLength: 1, maxLength: 32_768, description: fields.depositAuthorization }),
})
type FundInput = Static<typeof input>

const txHash = Type.String()
const RETRY_NOTE =
  'If in doubt send the same signed request again: it finds the deposit, and never repeats it. Do not sign another deposit before.'

const fund = paid({
  name: 'polymarket.fund',
  path: '/api/v1/polymarket-funding/fund',
  aliases: ['/api/v1/polymarket/fund'],
  summary: 'Deposit USDC into a prediction-market account',
  description: `The payment of the request is the fee; the deposit is a second authorization, in the body, from the same wallet to the bridge. The deposit is settled first, and the fee only then. The account is credited by the bridge, minutes later. ${RETRY_NOTE}`,
  tag: 'data',
  failure: 'Funding failed',
  input,
  output: Type.Object({
    id: Type.String(),
    success: Type.Literal(true),
    funded: Type.Literal(false, { description: 'The bridge has not credited it yet.' }),
    creditPending: Type.Literal(true),
    status: Type.Literal('deposit_submitted'),
    deposit: Type.Object({ txHash, amountUsd: Type.Number(), recipient: Type.String(), network: Type.String() }),
    fee: Type.Object({ amountUsd: Type.Number(), txHash, settled: Type.Boolean() }),
    note: Type.String(),
  }),
  example: {
    depositWallet: '0x56687bf447db6ffa42ffe2204a05edaa20f55839',
    recipient: '0x23566f8b2e82adfcf01846e54899d110e97ac053',
    amountMicro: '25000000',
    depositAuthorization: btoa(
      '{"x402Version":2,"accepted":{"scheme":"exact","network":"eip155:8453","amount":"25000000","asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913","payTo":"0x23566f8b2e82adfcf01846e54899d110e97ac053","maxTimeoutSeconds":600},"payload":{}}',
    ),
  },
  errors: ['NOT_ALLOWED', 'AUTHORIZATION_USED', 'UPSTREAM_FAILED'],
  price: (_input, { prices }) => ({
    amount: flatPrice(PRICE_USD, prices),
    maxTimeoutSeconds: SECONDS,
    publicPrice: {},
    also: { body_fields: fields },
  }),
  isAvailable: (_input, { vendors, networks = [] }) =>
    vendors.bridge !== undefined &&
    (networks.length === 0 || networks.some((network) => vendors.bridge?.networks.includes(network))),
  delivery: 'hybrid',
  windowMs: WINDOW_MS,
  job: {
    object: 'polymarket.fund.job',
    poll: '/api/v1/calls/{id}',
    instructions: `The deposit may be on its way. GET poll_url, as it is, every 2 to 5 seconds with a payment header of the same wallet; its key is for you alone. The fee is charged once, by the first poll after the deposit has settled. ${RETRY_NOTE}`,
    running:
      'The deposit may be on its way; the fee has not been charged. Poll again in 2 to 5 seconds, and do not sign another deposit.',
  },
  effects: {
    headers: (made) => ({ 'x-deposit-tx': (made as Deposited).txHash }),
    failed: `The fee was not charged. ${RETRY_NOTE}`,
  },

  check(given) {
    const amount = BigInt(given.amountMicro)
    if (amount < MIN_AMOUNT || amount > MAX_AMOUNT)
      throw refused(
        'amountMicro',
        `must be from ${MIN_AMOUNT} to ${MAX_AMOUNT}, 2 to 10000 US dollars; got ${quoted(given.amountMicro)}`,
      )
    paymentIn(given)
    return given
  },

  async run(order) {
    const { recipient, amountMicro, ...request } = order.input as FundInput
    const bridge = bridgeIn(order)
    const amount = BigInt(amountMicro) as Usdc
    const payment = paymentIn(request)
    if (!bridge.networks.includes(payment.accepted.network))
      throw invalid(
        `the bridge takes no deposits on ${quoted(payment.accepted.network)}; it takes them on ${bridge.networks.join(', ')}`,
      )
    const deposit = await callContextIn(order).secondaryPayment(payment, {
      name: 'polymarket.deposit',
      payTo: recipient,
      amount,
      maxTimeoutSeconds: SECONDS,
    })
    if (deposit.kind === 'used') throw used(deposit.transaction)
    if (deposit.kind === 'refused') throw invalid(deposit.reason)
    const expected = await bridge
      .depositAddress(request.depositWallet, { signal: order.signal })
      .catch(failedAs('Bridge unavailable', 503))
    if (expected.toLowerCase() !== recipient.toLowerCase())
      throw forbidden(
        'recipient',
        `recipient: the bridge takes deposits for ${request.depositWallet} at ${expected}, not at ${recipient}. Nothing was charged.`,
      )
    const settled = await deposit.settle()
    if (settled.kind === 'used') throw used(settled.transaction)
    if (settled.kind === 'refused' && settled.code === 'PAYMENT_UNFUNDED') throw invalid(settled.reason)
    if (settled.kind === 'refused')
      throw new ApiError('UPSTREAM_FAILED', {
        error: 'Deposit settlement failed',
        message: `The deposit was not sent: ${settled.reason}. Neither it nor the fee was charged.`,
      })
    const { transaction, network } = settled.receipt
    const deposited: Deposited = { txHash: transaction, amountUsd: dollarsOf(amount), recipient, network }
    return { result: deposited }
  },

  show: ({ made }, { quote, settlement }) => ({
    success: true,
    funded: false,
    creditPending: true,
    status: 'deposit_submitted',
    deposit: made,
    fee: {
      amountUsd: dollarsOf(quote),
      txHash: settlement?.tx_hash ?? '',
      settled: settlement?.success ?? false,
    },
    note: 'The deposit is on chain. The bridge credits the account, usually within minutes.',
  }),
})

export const funding = [fund]

type Deposited = {
  readonly txHash: string
  readonly amountUsd: number
  readonly recipient: string
  readonly network: string
} & { readonly [key: string]: Json }

const dollarsOf = (amount: Usdc): number => Number(print(amount))

function bridgeIn({ vendors }: Pick<Order<unknown>, 'vendors'>): BridgeVendor {
  if (vendors.bridge) return vendors.bridge
  throw new ApiError('NOT_CONFIGURED', {
    message: 'polymarket-funding: the operator has not configured it. Nothing was charged.',
  })
}

function paymentIn({ depositAuthorization }: Pick<FundInput, 'depositAuthorization'>): Payment {
  const decoded = decodePayment(depositAuthorization)
  if (decoded.ok) return decoded.payment
  throw invalid(decoded.reason)
}

/** Rewords errors of the payment header for the body field. */
function invalid(reason: string): ApiError {
  const message = `depositAuthorization: ${reason.replace('the payment header', 'it')}`
  return new ApiError('INVALID_BODY', {
    error: 'Deposit authorization invalid',
    message: `${message}. Nothing was charged.`,
    details: [{ path: 'depositAuthorization', message }],
  })
}

/** 409 instead of 402, because another fee payment would not help. */
function used(transaction: string | null): ApiError {
  const where = transaction === null ? '' : ' It is on chain: do not sign it again.'
  return new ApiError('AUTHORIZATION_USED', {
    error: 'Deposit authorization already used',
    message: `This deposit serves another request, or its authorization was used or canceled on chain.${where} The fee was NOT charged.`,
    fields: { code: 'PAYMENT_REPLAY', deposit: { txHash: transaction } },
  })
}
