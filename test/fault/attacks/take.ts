/** Taking answers that are never paid: wallets that empty themselves, many salts, many wallets. */
import { setTimeout as pause } from 'node:timers/promises'
import type { PrivateKeyAccount } from 'viem/accounts'
import type { Offer, Payment } from '../../../core/x402/protocol.ts'
import { NEW_WALLET_LIMIT, NEW_WALLETS_USDC } from '../../../core/payment/unpaid/new_wallets.ts'
import { dollars, roundUp } from '../../../core/x402/money.ts'
import { channelOf, signDeposit, signExact, signUpto, signVoucher } from '../../conformance/schemes/signers.ts'
import { type Attack, type Outcome, usdc } from './attack.ts'
import {
  ATTACKER,
  isWhole,
  offerFor,
  type Order,
  ORDERS,
  post,
  type Scheme,
  SCHEMES,
  setBalance,
  spentBy,
  variant,
  walletWith,
} from './caller.ts'
import type { Target } from './target.ts'

/**
 * Limit of the amounts that new wallets together may have open and leave unpaid in an hour: half a dollar, a quarter
 * from one address.
 */
const NEW_WALLETS = { gateway: 500_000n, address: 250_000n }
const NEW_WALLETS_SETTINGS = `
new_wallets_usdc = "0.5"
new_wallets_usdc_per_address = "0.25"
new_wallets_streamed_usdc = "0.2"
`
/** Limit of one wallet, before it has paid anything. */
const UNPAID_OF_ONE = NEW_WALLET_LIMIT.worth
const DEPOSIT = 2_000_000n

/** A payment for the offer; by a new channel where it takes one, with a deposit of all that the wallet had. */
export async function pay(account: PrivateKeyAccount, offer: Offer, salt: bigint): Promise<Payment> {
  const now = Date.now()
  if (offer.scheme === 'exact') return await signExact(account, { offer, now })
  if (offer.scheme === 'upto') return await signUpto(account, { offer, now })
  const channel = channelOf(offer, { payer: account.address, salt })
  return await signDeposit(account, { offer, channel, amount: DEPOSIT, by: account })
}

type Raid = { readonly order: Order; readonly scheme: Scheme; readonly rounds: number; readonly together: number }

/**
 * One wallet with the money for one deposit orders many times at once, and empties itself as soon as the gateway has
 * requested its vendor. Then it does so again.
 */
async function raid(target: Target, { order, scheme, rounds, together }: Raid): Promise<Outcome> {
  const thief = await walletWith(target, DEPOSIT)
  let [tried, whole] = [0, 0]
  const offer = await offerFor(target, order, scheme)
  for (let round = 0; round < rounds; round++) {
    await setBalance(target, thief.address, DEPOSIT)
    const payments = await Promise.all(
      Array.from({ length: together }, (_, i) => pay(thief, offer, BigInt(round * together + i + 1))),
    )
    const requested = target.vendor.answers()
    const ordering = payments.map((payment) => post(target, variant(order, ++tried), payment))
    await Promise.race([vendorRequested(target, requested), Promise.all(ordering)])
    await setBalance(target, thief.address, 0n)
    whole += (await Promise.all(ordering)).filter((answer) => isWhole(answer)).length
  }
  return await judged(target, { tried, whole, price: BigInt(offer.amount), bound: UNPAID_OF_ONE })
}

/** A wallet with the money for one orders many at once, and keeps its money. */
async function moneyForOne(target: Target, scheme: Scheme): Promise<Outcome> {
  const offer = await offerFor(target, ORDERS.image, scheme)
  const price = BigInt(offer.amount)
  const thief = await walletWith(target, scheme === 'batch-settlement' ? DEPOSIT : price)
  const payments = await Promise.all(Array.from({ length: 20 }, (_, i) => pay(thief, offer, BigInt(i + 1))))
  const answers = await Promise.all(payments.map((payment, i) => post(target, variant(ORDERS.image, i), payment)))
  const whole = answers.filter((answer) => isWhole(answer)).length
  return await judged(target, { tried: answers.length, whole, price, bound: 0n })
}

/** Resolves when the vendor was requested once more, or nothing came of it in two seconds. */
async function vendorRequested(target: Target, since: number): Promise<void> {
  for (let i = 0; i < 400 && target.vendor.answers() === since; i++) await pause(5)
}

type Loot = { readonly tried: number; readonly whole: number; readonly price: bigint; readonly bound: bigint }

const UNPAID = ['uncollected', 'refused', 'unresolved', 'settling', 'working']

/** The work that was done and is not paid after a few seconds, beyond what a gateway risks by its settings. */
async function judged(target: Target, { tried, whole, price, bound }: Loot): Promise<Outcome> {
  await pause(3_000)
  const { payments } = (await target.operator('GET', '/payments?limit=1000')) as {
    payments: readonly { status: string }[]
  }
  const statuses = payments.map(({ status }) => status).filter((status) => UNPAID.includes(status))
  const unpaid = statuses.length
  const allowed = Number(bound / price)
  const lost = Math.max(0, unpaid - allowed)
  const { sent, reverted } = await spentBy(target)
  const note =
    `${whole} whole answers; ${unpaid} of ${payments.length} calls were made and not paid (${[...new Set(statuses)].join(', ')}), ` +
    `${usdc(BigInt(unpaid) * price)} USDC (allowed ${usdc(bound)}); ${reverted} of ${sent} transactions reverted`
  return { tried, refused: tried - lost, note }
}

/** Wallets that nobody knows order one stream each, and empty themselves. Each has an address of its own, or none. */
async function freshWallets(
  target: Target,
  { scheme, bound, ipOf }: { scheme: Scheme; bound: bigint; ipOf: (i: number) => string },
): Promise<Outcome> {
  const offer = await offerFor(target, ORDERS.stream, scheme)
  let [tried, whole] = [0, 0]
  for (let round = 0; round < 4; round++) {
    const thieves = await Promise.all(Array.from({ length: 20 }, () => walletWith(target, DEPOSIT)))
    const payments = await Promise.all(thieves.map((thief) => pay(thief, offer, 1n)))
    const requested = target.vendor.answers()
    const ordering = payments.map((payment) => {
      const order = variant(ORDERS.stream, ++tried)
      return post(target, { ...order, ip: ipOf(tried) }, payment)
    })
    await Promise.race([vendorRequested(target, requested), Promise.all(ordering)])
    await Promise.all(thieves.map(({ address }) => setBalance(target, address, 0n)))
    whole += (await Promise.all(ordering)).filter((answer) => isWhole(answer)).length
  }
  return await judged(target, { tried, whole, price: BigInt(offer.amount), bound })
}

const PER_DAY = { usdc: '0.005', units: 5_000n }
const ORDERS_OF_A_DAY = 20
/** Replicas read each other's sales every two seconds. */
const FOLLOWED_MS = 4_000

/** Orders in quick succession, for more than the operator lets a gateway sell in a day. Each uses up its quote. */
async function beyondTheDay(target: Target, scheme: Scheme): Promise<Outcome> {
  const buyer = await walletWith(target, DEPOSIT)
  await target.operator('PUT', '/controls/gateway_limits/one', { usdc_per_day: PER_DAY.usdc })
  const orderOf = (number: number): Order => {
    const messages = [{ role: 'user', content: `Tell me what costs money: number ${10 + number}.` }]
    return { ...ORDERS.byUse, body: { ...ORDERS.byUse.body, messages } }
  }
  const offer = await offerFor(target, orderOf(0), scheme)
  const price = BigInt(offer.amount)
  const statuses: number[] = []
  let served = 0n
  for (let i = 0; i < ORDERS_OF_A_DAY; i++) {
    const isVoucher = scheme === 'batch-settlement' && served > 0n
    const payment = isVoucher
      ? await signVoucher(buyer, { offer, channel: channelOf(offer, { payer: buyer.address }), base: served * price })
      : await pay(buyer, offer, 1n)
    const { status } = await post(target, orderOf(i), payment)
    statuses.push(status)
    if (status !== 200) continue
    served++
    // Replicas together may exceed the limit by what they sell until each has read what the others did.
    if (target.replicas > 1) await pause(FOLLOWED_MS)
  }
  if (served === 0n) throw new Error(`nothing was sold: ${statuses.join(', ')}`)
  const allowed = PER_DAY.units / price
  const lost = served > allowed ? Number(served - allowed) : 0
  const note = `${statuses.slice(0, 4).join(', ')} ...: ${usdc(served * price)} USDC of ${PER_DAY.usdc} a day`
  return { tried: ORDERS_OF_A_DAY, refused: ORDERS_OF_A_DAY - lost, note }
}

/** The same money in one wallet after the other, each of which orders videos with it. */
async function hopping(target: Target): Promise<Outcome> {
  const offer = await offerFor(target, ORDERS.video, 'exact')
  const price = BigInt(offer.amount)
  let tried = 0
  for (let hop = 0; hop < 8; hop++) {
    const thief = await walletWith(target, price * 2n)
    const payments = await Promise.all([pay(thief, offer, 1n), pay(thief, offer, 2n)])
    await Promise.all(payments.map((payment) => post(target, variant(ORDERS.video, tried++), payment)))
    await setBalance(target, thief.address, 0n)
  }
  const { payments } = (await target.operator('GET', '/payments?limit=1000')) as {
    payments: readonly { status: string }[]
  }
  // A call that failed at once has cost nothing: it was opened beside another, and neither replica had counted it.
  const spent = BigInt(payments.filter(({ status }) => status !== 'failed').length) * price
  const limit = roundUp(dollars(NEW_WALLETS_USDC.address))
  const bound = limit > price ? limit : price
  const lost = spent > bound ? Number((spent - bound + price - 1n) / price) : 0
  return { tried, refused: tried - lost, note: `videos of ${usdc(spent)} USDC ordered with ${usdc(price * 2n)} USDC` }
}

const perScheme = (make: (scheme: Scheme) => Attack): readonly Attack[] => SCHEMES.map(make)

export const attacks: readonly Attack[] = [
  ...perScheme((scheme) => ({
    family: 'take',
    name: `streams by one wallet that empties itself: ${scheme}`,
    run: (target) => raid(target, { order: ORDERS.stream, scheme, rounds: 4, together: 20 }),
  })),
  ...perScheme((scheme) => ({
    family: 'take',
    name: `whole answers by one wallet that empties itself: ${scheme}`,
    run: (target) => raid(target, { order: ORDERS.chat, scheme, rounds: 2, together: 20 }),
  })),
  ...perScheme((scheme) => ({
    family: 'take',
    name: `twenty images at once with the money for one: ${scheme}`,
    run: (target) => moneyForOne(target, scheme),
  })),
  ...perScheme((scheme) => ({
    family: 'take',
    name: `one stream by each of eighty new wallets, from one address: ${scheme}`,
    at: { settings: NEW_WALLETS_SETTINGS },
    run: (target) => freshWallets(target, { scheme, bound: NEW_WALLETS.address, ipOf: () => ATTACKER }),
  })),
  ...perScheme((scheme) => ({
    family: 'take',
    name: `one stream by each of eighty new wallets, each from its own address: ${scheme}`,
    at: { settings: NEW_WALLETS_SETTINGS },
    run: (target) => freshWallets(target, { scheme, bound: NEW_WALLETS.gateway, ipOf: (i) => `203.0.113.${i}` }),
  })),
  ...perScheme((scheme) => ({
    family: 'take',
    name: `more than an operator lets a gateway sell in a day: ${scheme}`,
    run: (target) => beyondTheDay(target, scheme),
  })),
  { family: 'take', name: 'videos, the money hopping through eight wallets', run: hopping },
]
