/** Reading what others paid for, with what the chain publishes and a key of one's own. */
import { setTimeout as pause } from 'node:timers/promises'
import type { PrivateKeyAccount } from 'viem/accounts'
import type { Offer, Payment } from '../../../core/x402/protocol.ts'
import { channelOf, signDeposit, signExact, signUpto, signVoucher } from '../../conformance/schemes/signers.ts'
import type { Attack, Outcome } from './attack.ts'
import {
  type Answer,
  atSecond,
  CUSTOMER,
  get,
  isWhole,
  newAccount,
  offerFor,
  type Order,
  ORDERS,
  post,
  publishedExact,
  type Scheme,
  walletWith,
} from './caller.ts'
import type { Target } from './target.ts'

type Sale = { readonly order: Order; readonly payment: Payment; readonly id: string }

const GOODS: readonly Order[] = [ORDERS.chat, ORDERS.image].flatMap((order) => [order, atSecond(order)])

/** A customer's purchases, whole and paid. Only the operator knows their ids. */
async function sales(target: Target, scheme: Scheme): Promise<{ victim: PrivateKeyAccount; sold: readonly Sale[] }> {
  const victim = await walletWith(target, 100_000_000n)
  const bought: Omit<Sale, 'id'>[] = []
  for (const order of GOODS) {
    const payment = await pay(victim, await offerFor(target, order, scheme), BigInt(bought.length + 1))
    const first = await post(target, { ...order, ip: CUSTOMER }, payment)
    const answer = first.status === 202 ? await collected(target, { order, payment, url: first.body.poll_url }) : first
    if (!isWhole(answer)) throw new Error(`a customer did not get what it paid: ${answer.status} ${answer.text}`)
    bought.push({ order, payment })
  }
  const { payments } = await target.operator('GET', `/payments?payer=${victim.address}`)
  const ids = payments.map((each: unknown) => /job_[0-9a-f]{32}/.exec(JSON.stringify(each))?.[0] as string).toReversed()
  return { victim, sold: bought.map((sale, i) => ({ ...sale, id: ids[i] })) }
}

async function pay(account: PrivateKeyAccount, offer: Offer, salt: bigint): Promise<Payment> {
  const now = Date.now()
  if (offer.scheme === 'exact') return await signExact(account, { offer, now })
  if (offer.scheme === 'upto') return await signUpto(account, { offer, now })
  const channel = channelOf(offer, { payer: account.address, salt })
  return await signDeposit(account, { offer, channel, amount: 2_000_000n, by: account })
}

async function collected(
  target: Target,
  { order, payment, url }: { order: Order; payment: Payment; url: string },
): Promise<Answer> {
  for (let attempt = 0; attempt < 100; attempt++) {
    const answer = await get(target, url, { ...order, ip: CUSTOMER, payment })
    if (answer.status !== 202) return answer
    await pause(100)
  }
  throw new Error('a customer waits for its result')
}

type Forge = (target: Target, sale: Sale & { readonly victim: PrivateKeyAccount }) => Promise<readonly Payment[]>

/** A stranger tries each payment that it made up on every URL of a result: known by chance, or reply by the gateway. */
async function polled(
  target: Target,
  { scheme, forge, isPayable = false }: { scheme: Scheme; forge: Forge; isPayable?: boolean },
): Promise<Outcome> {
  const { victim, sold } = await sales(target, scheme)
  let [tried, read] = [0, 0]
  for (const sale of sold) {
    for (const payment of await forge(target, { ...sale, victim })) {
      const urls = [`/api/v1/calls/${sale.id}`, `/api/v1/calls/${sale.id}?key=${'0'.repeat(32)}`]
      const answers: Answer[] = []
      // A payment that is still good would buy an answer of its own.
      const reply = isPayable ? undefined : await post(target, sale.order, payment)
      if (reply) answers.push(reply)
      if (typeof reply?.body?.poll_url === 'string') urls.push(reply.body.poll_url)
      for (const url of urls) answers.push(await get(target, url, { ...atOf(sale.order), payment }))
      tried++
      if (answers.some((answer) => isWhole(answer))) read++
    }
  }
  return {
    tried,
    refused: tried - read,
    note: `${sold.length} paid results of a customer, chat and images of two gateways`,
  }
}

const atOf = ({ host }: Order) => (host === undefined ? {} : { host })

/** Fields that calldata and claims publish of a payment: everything that was signed. */
const published: Forge = async (_, { payment: { x402Version, accepted, payload } }) => [
  structuredClone({ x402Version, accepted, payload }),
]

/** A deposit in the victim's name that nobody signed, with a voucher by a key of the attacker's. */
const forgedDeposit: Forge = async (target, { victim, order }) => {
  const thief = newAccount()
  const offer = await offerFor(target, order, 'batch-settlement')
  const channel = channelOf(offer, { payer: victim.address, authorizer: thief.address })
  return [await signDeposit(thief, { offer, channel, amount: 2_000_000n, by: undefined })]
}

/** The same with a signature of the thief's, and a voucher without a deposit. */
const forgedVoucher: Forge = async (target, { victim, order }) => {
  const thief = newAccount()
  const offer = await offerFor(target, order, 'batch-settlement')
  const channel = channelOf(offer, { payer: victim.address, authorizer: thief.address })
  return [
    await signDeposit(thief, { offer, channel, amount: 2_000_000n, by: thief }),
    await signVoucher(thief, { offer, channel }),
  ]
}

/** Signed by the attacker in the victim's name. */
const forgedSignature: Forge = async (target, { victim, order }) => {
  const [by, now] = [newAccount(), Date.now()]
  return [
    await signExact(victim, { offer: await offerFor(target, order, 'exact'), now, by }),
    await signUpto(victim, { offer: await offerFor(target, order, 'upto'), now, by }),
  ]
}

/** A wallet of the attacker's own. */
const ownWallet: Forge = async (target, { order }) => {
  const thief = await walletWith(target, 10_000_000n)
  const now = Date.now()
  return [await signExact(thief, { offer: await offerFor(target, order, 'exact'), now })]
}

const attack = (name: string, scheme: Scheme, forge: Forge): Attack => ({
  family: 'read',
  name,
  run: (target) => polled(target, { scheme, forge }),
})

export const attacks: readonly Attack[] = [
  {
    family: 'read',
    name: 'authorizations of exact, as the calldata of settlements has them',
    async run(target) {
      const { sold } = await sales(target, 'exact')
      let [tried, read, named] = [0, 0, 0]
      for (const { order, id } of sold) {
        for (const payment of await publishedExact(target, await offerFor(target, order, 'exact'))) {
          const reply = await post(target, order, payment)
          const urls = [`/api/v1/calls/${id}`, reply.body?.poll_url].filter((url) => typeof url === 'string')
          const answers = [reply]
          for (const url of urls) answers.push(await get(target, url, { ...atOf(order), payment }))
          tried++
          if (answers.some((answer) => isWhole(answer))) read++
          else if (reply.text.includes(id)) named++
        }
      }
      return {
        tried,
        refused: tried - read - named,
        note: `decoded from the transactions of every block; ${named} replies name the call`,
      }
    },
  },
  attack('payments of upto, as published', 'upto', published),
  attack('deposits of channels, as published', 'batch-settlement', published),
  attack('a deposit that nobody signed, in the name of a customer of exact', 'exact', forgedDeposit),
  attack('a deposit that nobody signed, in the name of a customer of upto', 'upto', forgedDeposit),
  attack('a deposit that nobody signed, in the name of a customer of channels', 'batch-settlement', forgedDeposit),
  attack('deposits and vouchers signed by the thief', 'exact', forgedVoucher),
  attack('signatures of another key', 'exact', forgedSignature),
  {
    family: 'read',
    name: "another wallet's own, good payment",
    run: (target) => polled(target, { scheme: 'exact', forge: ownWallet, isPayable: true }),
  },
]
