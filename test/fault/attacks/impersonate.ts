/** Buying in the name of another wallet: lists, limits and receipts, by channels that anybody fills. */
import { encodeFunctionData, type Hex } from 'viem'
import type { PrivateKeyAccount } from 'viem/accounts'
import { BATCH_SETTLEMENT, batchSettlementAbi } from '../../../adapters/chains/evm/node/x402_contracts.ts'
import type { Payment } from '../../../core/x402/protocol.ts'
import {
  channelOf,
  COLLECTOR,
  COLLECTOR_CODE,
  signDeposit,
  signExact,
  signUpto,
  signVoucher,
} from '../../conformance/schemes/signers.ts'
import type { Attack, Outcome } from './attack.ts'
import { CUSTOMER, isWhole, offerFor, ORDERS, post, send, setBalance, variant, walletWith } from './caller.ts'
import type { Target } from './target.ts'

const MONEY = 2_000_000n

/** Everything that a thief with money of its own can sign as if it were another wallet. */
async function forged(target: Target, thief: PrivateKeyAccount, victim: Hex): Promise<readonly Payment[]> {
  const [named, now] = [{ ...thief, address: victim }, Date.now()]
  const offer = await offerFor(target, ORDERS.chat, 'batch-settlement')
  const channelWith = (salt: bigint) => channelOf(offer, { payer: victim, authorizer: thief.address, salt })
  const [empty, filled] = [channelWith(1n), channelWith(2n)]
  await target.chain('anvil_setCode', [COLLECTOR, COLLECTOR_CODE])
  await setBalance(target, COLLECTOR, MONEY)
  const args = [filled.config, MONEY, COLLECTOR, '0x'] as const
  await send(target, thief, {
    to: BATCH_SETTLEMENT,
    data: encodeFunctionData({ abi: batchSettlementAbi, functionName: 'deposit', args }),
  })
  return [
    await signVoucher(thief, { offer, channel: filled }),
    await signDeposit(thief, { offer, channel: filled, amount: MONEY, by: undefined }),
    await signDeposit(thief, { offer, channel: empty, amount: MONEY, by: thief }),
    await signExact(named, { offer: await offerFor(target, ORDERS.chat, 'exact'), now, by: thief }),
    await signUpto(named, { offer: await offerFor(target, ORDERS.chat, 'upto'), now, by: thief }),
  ]
}

/** How many answers a stranger gets that are sold to one listed wallet. */
async function allowedOnly(target: Target): Promise<Outcome> {
  const [victim, thief] = [await walletWith(target, MONEY), await walletWith(target, MONEY)]
  const payments = await forged(target, thief, victim.address)
  await target.operator('PUT', `/controls/allowed/${victim.address}`, {})
  let taken = 0
  for (const [i, payment] of payments.entries())
    if (isWhole(await post(target, variant(ORDERS.chat, i), payment))) taken++
  return { tried: payments.length, refused: payments.length - taken, note: `${taken} answers of a list of one wallet` }
}

/** A blocked wallet pays by a channel whose payer is another one. */
async function blockedPays(target: Target): Promise<Outcome> {
  const [victim, thief] = [await walletWith(target, MONEY), await walletWith(target, MONEY)]
  const payments = await forged(target, thief, victim.address)
  await target.operator('PUT', `/controls/blocked/${thief.address}`, {})
  let taken = 0
  for (const [i, payment] of payments.entries())
    if (isWhole(await post(target, variant(ORDERS.chat, i), payment))) taken++
  return { tried: payments.length, refused: payments.length - taken, note: `${taken} answers to a blocked wallet` }
}

/** Receipts and rows of the ledger that say that a wallet paid which has signed nothing. */
async function receipts(target: Target): Promise<Outcome> {
  const [victim, thief] = [await walletWith(target, MONEY), await walletWith(target, MONEY)]
  const payments = await forged(target, thief, victim.address)
  let named = 0
  for (const [i, payment] of payments.entries()) {
    const { headers } = await post(target, variant(ORDERS.chat, i), payment)
    const receipt = Buffer.from(headers.get('payment-response') ?? '', 'base64').toString()
    if (receipt.includes('"success":true') && receipt.toLowerCase().includes(victim.address.toLowerCase())) named++
  }
  const { payments: rows } = await target.operator('GET', `/payments?payer=${victim.address}`)
  const lost = Math.max(named, rows.length)
  const note = `${named} receipts and ${rows.length} rows of the ledger name a wallet that has signed nothing`
  return { tried: payments.length, refused: payments.length - Math.min(payments.length, lost), note }
}

/** A wallet's own limit is used up by others, so that it cannot buy. */
async function limitUsedUp(target: Target): Promise<Outcome> {
  const [victim, thief] = [await walletWith(target, MONEY), await walletWith(target, MONEY)]
  const payments = await forged(target, thief, victim.address)
  await target.operator('PUT', `/controls/wallet_limits/${victim.address}`, { requests_per_day: 2 })
  for (const [i, payment] of payments.entries()) await post(target, variant(ORDERS.chat, i), payment)
  let refused = 0
  for (let i = 0; i < 2; i++) {
    const payment = await signExact(victim, { offer: await offerFor(target, ORDERS.chat, 'exact'), now: Date.now() })
    const answer = await post(target, { ...variant(ORDERS.chat, 100 + i), ip: CUSTOMER }, payment)
    if (!isWhole(answer)) refused++
  }
  return { tried: 2, refused: 2 - refused, note: `${refused} of 2 orders of the wallet itself were refused` }
}

/** Streams in the name of a wallet that are never paid, so that it is barred for what it has not bought. */
async function barred(target: Target): Promise<Outcome> {
  const [victim, thief] = [await walletWith(target, MONEY), await walletWith(target, MONEY)]
  const payments = await forged(target, thief, victim.address)
  for (const payment of payments) await post(target, ORDERS.stream, payment)
  const offer = await offerFor(target, ORDERS.chat, 'exact')
  const answer = await post(
    target,
    { ...ORDERS.chat, ip: CUSTOMER },
    await signExact(victim, { offer, now: Date.now() }),
  )
  const isServed = isWhole(answer)
  return {
    tried: 1,
    refused: isServed ? 1 : 0,
    note: `the wallet itself is ${isServed ? 'served' : answer.text.slice(0, 80)}`,
  }
}

export const attacks: readonly Attack[] = [
  { family: 'impersonate', name: 'buying as the one wallet that is allowed', run: allowedOnly },
  { family: 'impersonate', name: 'buying while blocked, as another wallet', run: blockedPays },
  { family: 'impersonate', name: 'receipts and reports in the name of another wallet', run: receipts },
  { family: 'burn', name: "using up another wallet's limit of requests", run: limitUsedUp },
  { family: 'burn', name: 'having another wallet barred for what it did not buy', run: barred },
]
