/** Spending the operator's gas: deposits that revert, and money that goes in and out of channels. */
import { setTimeout as pause } from 'node:timers/promises'
import { depositCall } from '../../../adapters/chains/evm/channels/contract.ts'
import { parseChanneled } from '../../../adapters/chains/evm/channels/payload.ts'
import { channelDigests } from '../../../adapters/chains/evm/channels/digests.ts'
import { MAX_ACCOUNT_REVERTS } from '../../../adapters/chains/revert_limiter.ts'
import { channelOf, signDeposit, signRefund } from '../../conformance/schemes/signers.ts'
import { type Attack, type Outcome, usdc } from './attack.ts'
import { offerFor, ORDERS, post, send, setBalance, spentBy, variant, walletWith } from './caller.ts'
import type { Target } from './target.ts'

const DEPOSIT = 2_000_000n
/** Cycles of one wallet in an hour that may cost more gas than they pay for. */
const CYCLES = 1

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
  const { sent, reverted, gas } = await spentBy(target)
  const lost = Math.max(0, reverted - MAX_ACCOUNT_REVERTS)
  return {
    tried,
    refused: tried - lost,
    note: `${reverted} of ${sent} transactions reverted, ${gas} gas of the operator`,
  }
}

/** Money goes into a channel by the gateway's gas, buys one call, and comes back by the gateway's gas. */
async function cycles(target: Target): Promise<Outcome> {
  const thief = await walletWith(target, DEPOSIT)
  const offer = await offerFor(target, ORDERS.chat, 'batch-settlement')
  const tried = 10
  let [refunded, charged] = [0, 0n]
  for (let i = 0; i < tried; i++) {
    const channel = channelOf(offer, { payer: thief.address, salt: BigInt(i + 1) })
    const deposit = await signDeposit(thief, { offer, channel, amount: DEPOSIT, by: thief })
    const bought = await post(target, variant(ORDERS.chat, i), deposit)
    const spent = bought.status === 200 ? BigInt(offer.amount) : 0n
    const back = await post(target, ORDERS.chat, await signRefund(thief, { offer, channel, base: spent }))
    charged += spent
    if (back.status === 200) refunded++
    await setBalance(target, thief.address, DEPOSIT)
  }
  const { gas, wei } = await spentBy(target)
  const note = `${refunded} refunds, ${usdc(charged)} USDC charged, ${gas} gas (${Number(wei) / 1e18} ETH) of the operator`
  return { tried, refused: tried - Math.max(0, refunded - CYCLES), note }
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
  const { sent, gas } = await spentBy(target)
  return { tried, refused: tried - sent, note: `${refunded} refunds of a few base units, ${gas} gas of the operator` }
}

export const attacks: readonly Attack[] = [
  { family: 'drain', name: 'sixty deposits whose money is gone when they are sent', run: reverting },
  { family: 'drain', name: 'a deposit, a cheap call and a refund, again and again', run: cycles },
  { family: 'drain', name: 'refunds from a channel that has bought nothing', run: refundsOfNothing },
]
