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
import { type Target, TOKEN } from './target.ts'

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

/** Where a token opens something of the operator's, and what the right one is answered. */
const DOORS: readonly { path: string; right: number; open(token: string): RequestInit }[] = [
  {
    path: '/console/session',
    right: 204,
    open: (token) => ({
      method: 'POST',
      body: JSON.stringify({ token }),
      headers: { 'sec-fetch-site': 'same-origin' },
    }),
  },
  ...['/operator/payments', '/metrics'].map((path) => ({
    path,
    right: 200,
    open: (token: string) => ({ headers: { authorization: `Bearer ${token}` } }),
  })),
]

/** Seventy wrong tokens at each door of a replica, from seven addresses; then the owner comes, and one goes on. */
async function lockedOut(target: Target): Promise<Outcome> {
  const statusAt = async (door: (typeof DOORS)[number], ip: string, token: string) => {
    const { headers, ...init } = door.open(token)
    return (await fetch(target.origin + door.path, { ...init, headers: { ...headers, 'x-forwarded-for': ip } })).status
  }
  let [locked, unlimited] = [0, 0]
  for (const [number, door] of DOORS.entries()) {
    for (let i = 0; i < 70 * target.replicas; i++)
      await statusAt(door, `192.0.2.${10 * number + (i % 7)}`, `a guess ${i}`)
    if ((await statusAt(door, `198.51.100.${number}`, TOKEN)) !== door.right) locked++
    if ((await statusAt(door, `192.0.2.${10 * number}`, 'one more guess')) !== 429) unlimited++
  }
  return {
    tried: 2 * DOORS.length,
    refused: 2 * DOORS.length - locked - unlimited,
    note: `the owner is locked out at ${locked} of ${DOORS.length} doors; ${unlimited} let an address guess without end`,
  }
}

export const attacks: readonly Attack[] = [
  { family: 'impersonate', name: 'buying as the one wallet that is allowed', run: allowedOnly },
  { family: 'impersonate', name: 'buying while blocked, as another wallet', run: blockedPays },
  { family: 'impersonate', name: 'receipts and reports in the name of another wallet', run: receipts },
  { family: 'burn', name: "using up another wallet's limit of requests", run: limitUsedUp },
  { family: 'burn', name: 'having another wallet barred for what it did not buy', run: barred },
  { family: 'burn', name: 'keeping the owner out of the console, the API and the metrics', run: lockedOut },
]
