/** Spending the operator's gas: deposits that revert, and money that goes in and out of channels. */
import { setTimeout as pause } from 'node:timers/promises'
import { depositCall } from '../../../adapters/chains/evm/channels/contract.ts'
import { DEPOSIT_GAS } from '../../../adapters/chains/evm/channels/costs.ts'
import { parseChanneled } from '../../../adapters/chains/evm/channels/payload.ts'
import { channelDigests } from '../../../adapters/chains/evm/channels/digests.ts'
import { MAX_ACCOUNT_REVERTS } from '../../../adapters/chains/lib/revert_limiter.ts'
import type { Offer } from '../../../core/x402/protocol.ts'
import {
  base64,
  chatFormatOf,
  draftOf,
  newKey,
  paymentOf,
  unitLimit,
  unitPrice,
} from '../../adapters/chains/solana/solana_kit.ts'
import { channelOf, signDeposit, signRefund, signVoucher } from '../../conformance/schemes/signers.ts'
import { type Attack, type Outcome, usdc } from './attack.ts'
import {
  ATTACKER,
  channelBalance,
  CUSTOMER,
  offerFor,
  ORDERS,
  post,
  send,
  setBalance,
  spentBy,
  variant,
  walletWith,
} from './caller.ts'
import { COIN_PRICE, ON_SOLANA, type Target } from './target.ts'

const DEPOSIT = 2_000_000n
const worthOf = (wei: bigint): bigint => (wei * BigInt(COIN_PRICE) * 1_000_000n) / 10n ** 18n
/** Gas that the operator has paid, less its charges: the loss of an hour, since budgets are of an hour. */
const lossOf = (wei: bigint, charged = 0n): string =>
  `${usdc(worthOf(wei) > charged ? worthOf(wei) - charged : 0n)} USDC lost an hour`
/** Gas that a gateway pays in an hour for one wallet, by the usual settings (`channel_gas_per_wallet`). */
const GAS_PER_WALLET = 2_000_000n

/** Deposits that are good when they are looked at, and whose money is gone when they are sent. */
async function reverting(target: Target): Promise<Outcome> {
  const thief = await walletWith(target, 0n)
  const offer = await offerFor(target, ORDERS.stream, 'batch-settlement')
  const tried = 60
  for (let i = 0; i < tried;) {
    await setBalance(target, thief.address, DEPOSIT)
    const together = await Promise.all(
      Array.from({ length: 20 }, () => {
        const channel = channelOf(offer, { payer: thief.address, salt: BigInt(++i) })
        return signDeposit(thief, { offer, channel, amount: DEPOSIT, by: thief })
      }),
    )
    const requested = target.vendor.answers()
    const ordering = together.map((payment, at) => post(target, variant(ORDERS.stream, i + at), payment))
    for (let wait = 0; wait < 200 && target.vendor.answers() === requested; wait++) await pause(5)
    await setBalance(target, thief.address, 0n)
    await Promise.all(ordering)
  }
  await pause(2_000)
  const { sent, reverted, gas, wei } = await spentBy(target)
  const lost = Math.max(0, reverted - MAX_ACCOUNT_REVERTS)
  return {
    tried,
    refused: tried - lost,
    note: `${reverted} of ${sent} transactions reverted, ${gas} gas of the operator: ${lossOf(wei)}`,
  }
}

/** The least that an operator can set, and the deposits of new wallets that may revert by it, over all of them. */
const LEAST_GAS_PER_WALLET = 540_000n
const FIRST_REVERTS = Number((5n * LEAST_GAS_PER_WALLET) / DEPOSIT_GAS)

/** The same by wallets that nobody knows, one deposit each: a wallet costs nothing. */
async function revertingAnew(target: Target): Promise<Outcome> {
  const offer = await offerFor(target, ORDERS.stream, 'batch-settlement')
  let tried = 0
  for (let round = 0; round < 5; round++) {
    const thieves = await Promise.all(Array.from({ length: 20 }, () => walletWith(target, DEPOSIT)))
    const payments = await Promise.all(
      thieves.map((by) =>
        signDeposit(by, { offer, channel: channelOf(offer, { payer: by.address }), amount: DEPOSIT, by }),
      ),
    )
    const requested = target.vendor.answers()
    const ordering = payments.map((payment) => {
      const ip = `203.0.113.${++tried}`
      return post(target, { ...variant(ORDERS.stream, tried), ip }, payment)
    })
    for (let wait = 0; wait < 200 && target.vendor.answers() === requested; wait++) await pause(5)
    await Promise.all(thieves.map(({ address }) => setBalance(target, address, 0n)))
    await Promise.all(ordering)
  }
  await pause(2_000)
  const { sent, reverted, gas, wei } = await spentBy(target)
  const lost = Math.max(0, reverted - FIRST_REVERTS)
  const note = `${reverted} of ${sent} transactions reverted, at most ${FIRST_REVERTS} may; ${gas} gas of the operator: ${lossOf(wei)}`
  return { tried, refused: tried - lost, note }
}

/**
 * Money goes into a channel by the gateway's gas, buys one call, and comes back by the gateway's gas. Lost is a refund
 * that its purchases do not pay for, and a deposit beyond the gas of an hour.
 */
async function cycles(target: Target): Promise<Outcome> {
  const thief = await walletWith(target, DEPOSIT)
  const offer = await offerFor(target, ORDERS.chat, 'batch-settlement')
  const tried = 30
  let [refunded, deposited, charged] = [0, 0, 0n]
  for (let i = 0; i < tried; i++) {
    const channel = channelOf(offer, { payer: thief.address, salt: BigInt(i + 1) })
    const deposit = await signDeposit(thief, { offer, channel, amount: DEPOSIT, by: thief })
    const bought = await post(target, variant(ORDERS.chat, i), deposit)
    const spent = bought.status === 200 ? BigInt(offer.amount) : 0n
    const back = await post(target, ORDERS.chat, await signRefund(thief, { offer, channel, base: spent }))
    charged += spent
    if (bought.status === 200) deposited++
    if (back.status === 200) refunded++
    await setBalance(target, thief.address, DEPOSIT)
  }
  const { sent, gas, wei } = await spentBy(target)
  const loss = worthOf(wei) - charged
  const beyond = gas <= GAS_PER_WALLET ? 0 : Number(((gas - GAS_PER_WALLET) * BigInt(sent)) / gas) + 1
  const lost = loss > 0n ? Math.max(refunded, beyond) : 0
  const note = `${deposited} deposits, ${refunded} refunds, ${usdc(charged)} USDC charged, ${gas} gas worth ${usdc(worthOf(wei))} USDC of the operator: ${lossOf(wei, charged)}`
  return { tried, refused: tried - Math.min(tried, lost), note }
}

/** Money that its owner put into a channel itself, without buying anything, comes back unit by unit. */
async function refundsOfNothing(target: Target): Promise<Outcome> {
  const thief = await walletWith(target, DEPOSIT)
  const offer = await offerFor(target, ORDERS.chat, 'batch-settlement')
  const channel = channelOf(offer, { payer: thief.address })
  const signed = await signDeposit(thief, { offer, channel, amount: DEPOSIT, by: thief })
  const parsed = parseChanneled(signed, offer, channelDigests(84_532))
  if (parsed.kind !== 'channeled' || !parsed.deposit) throw new Error('a deposit cannot be parsed')
  await send(target, thief, depositCall(channel.config, parsed.deposit))
  const tried = 10
  let refunded = 0
  for (let i = 0; i < tried; i++) {
    const back = await post(target, ORDERS.chat, await signRefund(thief, { offer, channel, amount: BigInt(i + 1) }))
    if (back.status === 200) refunded++
  }
  const { sent, gas, wei } = await spentBy(target)
  const note = `${refunded} refunds of a few base units, ${gas} gas of the operator: ${lossOf(wei)}`
  return { tried, refused: tried - sent, note }
}

const CHANNELS = 5

/**
 * Customers buy pictures at a fixed price, from channels. A voucher that is charged in full is a refund, byte for byte,
 * and a claim publishes it: whoever reads it empties the channel at the operator's gas.
 */
async function refundsOfOthers(target: Target): Promise<Outcome> {
  const offer = await offerFor(target, ORDERS.image, 'batch-settlement')
  const price = BigInt(offer.amount)
  const channels: Awaited<ReturnType<typeof customersChannel>>[] = []
  while (channels.length < CHANNELS) channels.push(await customersChannel(target, offer))
  const before = await spentBy(target)
  let refunded = 0
  for (const { read } of channels) {
    const stolen = { ...read, payload: { ...read.payload, type: 'refund' } }
    const part = { ...stolen, payload: { ...stolen.payload, amount: '1' } }
    for (const ip of [ATTACKER, '203.0.113.67'])
      for (const payment of [stolen, part])
        if ((await post(target, { ...ORDERS.image, ip }, payment)).status === 200) refunded++
  }
  const after = await spentBy(target)
  const sent = after.sent - before.sent
  const left = await Promise.all(channels.map(({ channel }) => channelBalance(target, channel.id)))
  const emptied = left.filter((balance) => balance < DEPOSIT).length
  const [first] = channels
  if (!first) throw new Error('no customer bought anything')
  const own = await signRefund(first.customer, { offer, channel: first.channel, base: first.bought * price })
  const back = await post(target, { ...ORDERS.image, ip: CUSTOMER }, own)
  if (back.status !== 200) throw new Error(`a customer got no refund: ${back.status} ${back.text}`)
  const note = `${refunded} refunds, ${emptied} of ${CHANNELS} channels emptied: ${lossOf(after.wei - before.wei)}; a customer got its own`
  return { tried: CHANNELS, refused: CHANNELS - Math.max(emptied, Math.min(sent, CHANNELS)), note }
}

/** A channel that has bought for more than its gas; with its last payment, as anybody may have read it. */
async function customersChannel(target: Target, offer: Offer) {
  const customer = await walletWith(target, DEPOSIT)
  const channel = channelOf(offer, { payer: customer.address })
  const least = BigInt(String((offer.extra as { refundableFrom?: string }).refundableFrom ?? 0))
  let read = await signDeposit(customer, { offer, channel, amount: DEPOSIT, by: customer })
  for (let bought = 1n; ; bought++) {
    const answer = await post(target, { ...variant(ORDERS.image, Number(bought)), ip: CUSTOMER }, read)
    if (answer.status !== 200) throw new Error(`a customer bought nothing: ${answer.status} ${answer.text}`)
    if (bought * BigInt(offer.amount) > 2n * least) return { customer, channel, read, bought }
    read = await signVoucher(customer, { offer, channel, base: bought * BigInt(offer.amount) })
  }
}

/** Lamports that the fee payer's share of a payment may cost by the usual settings, at this price. */
const lamportsFor = (units: bigint): bigint => 1_000n + (500_000n * units) / 1_000_000n
const SIGNATURES = 10_000n

/** The buyer of a cheap answer sets the priority fee, which the operator's fee payer pays. */
async function priorityFees(target: Target): Promise<Outcome> {
  const { node, feePayer } = target.solana ?? {}
  if (!node || !feePayer) throw new Error('the target has no Solana')
  const order = { ...ORDERS.chat, host: ON_SOLANA }
  const offer = await offerFor(target, order, 'exact')
  const thief = await newKey()
  await node.fund(thief.address, 100n * BigInt(offer.amount))
  const units = 20_000n
  const allowed = lamportsFor(BigInt(offer.amount)) + SIGNATURES
  const tried = 12
  let [over, spent] = [0, 0n]
  for (let i = 0; i < tried; i++) {
    const lamports = i < tried - 2 ? 20_000n << BigInt(i % 10) : 1_000n
    const draft = await draftOf(node, thief, offer)
    const price = unitPrice((lamports * 1_000_000n) / units)
    const [limit, , ...rest] = draft.instructions
    const instructions = [limit ?? unitLimit(20_000), price, ...rest]
    const payment = paymentOf(offer, base64(await chatFormatOf({ ...draft, instructions })))
    const before = node.lamportsOf(feePayer)
    const answer = await post(target, { ...variant(order, i), host: ON_SOLANA }, payment)
    const cost = before - node.lamportsOf(feePayer)
    if (lamports === 1_000n && answer.status !== 200) throw new Error(`an honest fee: ${answer.status} ${answer.text}`)
    spent += cost
    if (cost > allowed) over++
  }
  const note = `${spent} lamports of the fee payer in all; ${allowed} are the most for a price of ${usdc(BigInt(offer.amount))}`
  return { tried, refused: tried - over, note }
}

export const attacks: readonly Attack[] = [
  { family: 'drain', name: 'sixty deposits whose money is gone when they are sent', run: reverting },
  {
    family: 'drain',
    name: 'deposits of a hundred new wallets, whose money is gone when they are sent',
    at: { row: `channel_gas_per_wallet = ${LEAST_GAS_PER_WALLET}` },
    run: revertingAnew,
  },
  { family: 'drain', name: 'a deposit, a cheap call and a refund, again and again', run: cycles },
  { family: 'drain', name: 'refunds from a channel that has bought nothing', run: refundsOfNothing },
  { family: 'drain', name: "refunds of customers' channels with vouchers that were read", run: refundsOfOthers },
  { family: 'drain', name: 'priority fees on Solana', at: { hasSolana: true }, run: priorityFees },
]
