/** The promises, written once: each is tried on a whole gateway over a way to pay. */
import { expect } from 'bun:test'
import { MAX_ACCOUNT_REVERTS } from '../../../adapters/chains/lib/revert_limiter.ts'
import type { LedgerEntry, Payment } from '../../../core/mod.ts'
import { decodeHeader } from '../../kit.ts'
import { COMPLETIONS } from '../../core/call/stream_kit.ts'
import { expectNothingRead, strangerHears } from '../public_payment.ts'
import { type Answer, chat, isWhole, type LawGateway } from './law_gateway.ts'
import type { Buyer, PromiseName } from './scheme.ts'

type Check = (law: LawGateway) => Promise<void>

/** Promises that a test can try on any way to pay. */
export type RunName = Extract<
  PromiseName,
  | 'identity'
  | 'published'
  | 'drained'
  | 'drained_stream'
  | 'parallel'
  | 'nonces'
  | 'lists'
  | 'limits'
  | 'metering'
  | 'reports'
  | 'receipts'
  | 'new_wallets'
  | 'gas'
  | 'kill'
  | 'pause'
  | 'unreadable_balance'
  | 'no_gas'
>

const STREAMED = { stream: true }
const STRANGER = { ip: '198.51.100.66' }
/** How many a new wallet may have open, and what they may be worth in base units, by the usual settings. */
const NEW_WALLET = { calls: 2, worth: 50_000n }

const buyerOf = async (law: LawGateway, calls: number): Promise<Buyer> =>
  law.scheme.buyer(calls, BigInt((await law.offer(chat(0))).amount))

type Sale = Answer & { readonly payment: Payment }

const receiptIn = (answer: Answer | undefined): any => {
  const header = answer?.headers.get('payment-response')
  return header ? decodeHeader(header) : undefined
}

/** Orders as a client does that has bought before, where it has. */
async function buy(
  law: LawGateway,
  buyer: Buyer,
  { number, after }: { readonly number: number; readonly after?: Answer | undefined },
): Promise<Sale> {
  const body = chat(number)
  const offer = await law.offer(body)
  const payment = await (buyer.payNext ? buyer.payNext(offer, receiptIn(after)) : buyer.pay(offer))
  return { ...(await law.order(body, payment)), payment }
}

async function ledgerOf({ storage }: LawGateway, payer?: string): Promise<readonly LedgerEntry[]> {
  const at = { since: 0, until: Number.MAX_SAFE_INTEGER, limit: 1_000 }
  return await storage.listCalls({ ...at, ...(payer !== undefined && { payer }) })
}

/** The seller has the amount that the ledger says was paid, and nothing else. */
async function expectPaid(law: LawGateway, calls: number): Promise<void> {
  const settled = (await ledgerOf(law)).filter(({ paymentStatus }) => paymentStatus === 'settled')
  expect(settled.length).toBe(calls)
  const due = settled.reduce((sum, { receipt }) => sum + BigInt(receipt?.amount ?? 0), 0n)
  expect(await law.scheme.received()).toBeGreaterThanOrEqual(due)
}

async function bought(law: LawGateway, calls = 1) {
  const buyer = await buyerOf(law, calls)
  const sold: Sale[] = []
  for (let number = 1; number <= calls; number++) {
    const answer = await buy(law, buyer, { number, after: sold.at(-1) })
    expect([answer.status, isWhole(answer)]).toEqual([200, true])
    sold.push(answer)
  }
  await law.idle()
  return { buyer, sold }
}

async function statusesOf(law: LawGateway, buyer: Buyer): Promise<readonly number[]> {
  const sold: Sale[] = []
  for (const number of [11, 12, 13]) {
    sold.push(await buy(law, buyer, { number, after: sold.at(-1) }))
    await law.idle()
  }
  return sold.map(({ status }) => status)
}

/** One order of one buyer, and the same request again. */
async function oneOrder(law: LawGateway) {
  const buyer = await buyerOf(law, 1)
  const body = chat(1)
  const payment = await buyer.pay(await law.offer(body))
  return { buyer, order: () => law.order(body, payment) }
}

/** Six at once of one wallet, which is emptied while the vendor works on the first. */
async function emptied(law: LawGateway, more: object) {
  const calls = 6
  const buyer = await buyerOf(law, calls)
  const vendor = law.hold()
  const bodies = Array.from({ length: calls }, (_, i) => chat(i + 1, more))
  const payments: Payment[] = []
  for (const body of bodies) payments.push(await buyer.pay(await law.offer(body)))
  const ordering = bodies.map((body, i) => law.order(body, payments[i]))
  await Promise.race([vendor.requested, Promise.all(ordering)])
  await buyer.drain()
  vendor.open()
  const answers = await Promise.all(ordering)
  await law.idle()
  const settled = (await ledgerOf(law)).filter(({ paymentStatus }) => paymentStatus === 'settled')
  return { answers, unpaid: answers.filter(isWhole).length - settled.length, settled: settled.length }
}

export const promises: Readonly<Record<RunName, Check>> = {
  async identity(law) {
    const { buyer } = await bought(law)
    const before = (await ledgerOf(law, buyer.address)).length
    const body = chat(2)
    for (const forged of await law.scheme.forged(buyer.address, await law.offers(body))) {
      const answer = await law.order(body, forged, STRANGER)
      expect(receiptIn(answer)?.payer).not.toBe(buyer.address)
    }
    await law.idle()
    expect((await ledgerOf(law, buyer.address)).length).toBe(before)
  },

  async published(law) {
    const { buyer, sold } = await bought(law)
    const [sale] = sold
    const [call] = await ledgerOf(law, buyer.address)
    if (!sale || !call) throw new Error('nothing was sold')
    const polls = [`/api/v1/calls/${call.id}`]
    const order = { method: 'POST', path: COMPLETIONS, body: chat(1) }
    expectNothingRead(await strangerHears(law.gateway, { payment: sale.payment, orders: [order], polls }))
    for (const forged of await law.scheme.forged(buyer.address, await law.offers(chat(1))))
      for (const poll of polls) expect((await law.get(poll, forged)).status).not.toBe(200)
  },

  async drained(law) {
    const { unpaid, settled } = await emptied(law, {})
    expect(unpaid).toBeLessThanOrEqual(0)
    await expectPaid(law, settled)
  },

  async drained_stream(law) {
    const { unpaid, settled } = await emptied(law, STREAMED)
    const price = BigInt((await law.offer(chat(0, STREAMED))).amount)
    expect(BigInt(unpaid) * price).toBeLessThanOrEqual(NEW_WALLET.worth)
    expect(unpaid).toBeLessThanOrEqual(NEW_WALLET.calls)
    await expectPaid(law, settled)
  },

  async parallel(law) {
    const buyer = await buyerOf(law, 1)
    const bodies = Array.from({ length: 5 }, (_, i) => chat(i + 1))
    const payments: Payment[] = []
    for (const body of bodies) payments.push(await buyer.pay(await law.offer(body)))
    const answers = await Promise.all(bodies.map((body, i) => law.order(body, payments[i])))
    await law.idle()
    expect([answers.filter(isWhole).length, law.answers()]).toEqual([1, 1])
    await expectPaid(law, 1)
  },

  async nonces(law) {
    const { sold } = await bought(law)
    const [sale] = sold
    const again = await Promise.all([1, 2, 3, 4].map((number) => law.order(chat(number), sale?.payment, STRANGER)))
    expect(again.filter(isWhole)).toEqual([])
    expect(law.answers()).toBe(1)
    await expectPaid(law, 1)
  },

  async lists(law) {
    const [blocked, listed] = [await buyerOf(law, 1), await buyerOf(law, 2)]
    await law.rule({ blocked: { [blocked.address.toLowerCase()]: {} } })
    expect((await buy(law, blocked, { number: 1 })).status).toBe(403)
    const first = await buy(law, listed, { number: 2 })
    expect(first.status).toBe(200)
    await law.rule({ blocked: {}, allowed: { [listed.address.toLowerCase()]: {} } })
    const body = chat(3)
    for (const forged of await law.scheme.forged(listed.address, await law.offers(body)))
      expect((await law.order(body, forged, STRANGER)).status).toBeGreaterThanOrEqual(400)
    expect((await buy(law, await buyerOf(law, 1), { number: 4 })).status).toBe(403)
    expect((await buy(law, listed, { number: 5, after: first })).status).toBe(200)
    await law.idle()
    await expectPaid(law, 2)
  },

  async limits(law) {
    const victim = await buyerOf(law, 3)
    await law.rule({ wallet_limits: { [victim.address.toLowerCase()]: { requests_per_day: 2 } } })
    const body = chat(1)
    for (const forged of await law.scheme.forged(victim.address, await law.offers(body)))
      await law.order(body, forged, STRANGER)
    expect(await statusesOf(law, victim)).toEqual([200, 200, 429])
    // The purchases above are two thirds of what the gateway may sell in a day.
    const sold = (await ledgerOf(law)).reduce((sum, { receipt }) => sum + BigInt(receipt?.amount ?? 0), 0n)
    const price = BigInt((await law.offer(body)).amount)
    const usd = Number(sold + price * 2n) / 1e6
    await law.rule({ wallet_limits: {}, gateway_limits: { '*': { usdc_per_day: usd.toFixed(6) } } })
    expect(await statusesOf(law, await buyerOf(law, 3))).toEqual([200, 200, 429])
  },

  async metering(law) {
    await bought(law, 3)
    const { opened, completed, settled } = law.counted
    expect({ opened, completed, settled }).toEqual({ opened: 3, completed: 3, settled: 3 })
  },

  async reports(law) {
    const { buyer } = await bought(law, 2)
    const rows = await law.storage.spendByModel(buyer.address, 0)
    const entries = await ledgerOf(law, buyer.address)
    const paid = entries.reduce((sum, { receipt }) => sum + BigInt(receipt?.amount ?? 0), 0n)
    expect([entries.length, paid > 0n]).toEqual([2, true])
    expect(rows.reduce((sum, each) => sum + each.spent, 0n)).toBe(paid)
  },

  async receipts(law) {
    const { buyer, sold } = await bought(law)
    const [call] = await ledgerOf(law, buyer.address)
    const receipt = receiptIn(sold[0])
    expect([receipt.success, receipt.payer, call?.payer]).toEqual([true, buyer.address, buyer.address])
    expect(call?.receipt?.payer).toBe(buyer.address)
    await expectPaid(law, 1)
  },

  async new_wallets(law) {
    const calls = 4
    const buyer = await buyerOf(law, calls)
    const vendor = law.hold()
    const bodies = Array.from({ length: calls }, (_, i) => chat(i + 1))
    const payments: Payment[] = []
    for (const body of bodies) payments.push(await buyer.pay(await law.offer(body)))
    const ordering = bodies.map((body, i) => law.order(body, payments[i]))
    const refused = Promise.all(ordering.map(async (each) => (await each).status === 402))
    await Promise.race([vendor.requested, refused])
    vendor.open()
    expect((await refused).filter(Boolean).length).toBe(calls - NEW_WALLET.calls)
    await law.idle()
    await expectPaid(law, NEW_WALLET.calls)
  },

  async gas(law) {
    const { gas } = law.scheme
    if (!gas) throw new Error('this chain charges no gas')
    const buyer = await buyerOf(law, 1)
    const wallet = gas.emptyBeforeSends(buyer.address)
    for (let number = 1; number <= MAX_ACCOUNT_REVERTS + 3; number++) {
      await wallet.fill()
      const body = chat(number)
      await law.order(body, await buyer.pay(await law.offer(body)))
      await law.idle()
    }
    const reverted = await gas.reverted()
    expect(reverted).toBeGreaterThan(0)
    expect(reverted).toBeLessThanOrEqual(MAX_ACCOUNT_REVERTS)
  },

  async kill(law) {
    const { order } = await oneOrder(law)
    const settled = Promise.withResolvers<void>()
    law.faults.settle = async (settle, ...given) => {
      await settle(...given)
      settled.resolve()
      return await new Promise(() => {})
    }
    void order()
    await settled.promise
    await law.later(150_000, true)
    const answer = await order()
    expect([answer.status, isWhole(answer), law.answers()]).toEqual([200, true, 1])
    await expectPaid(law, 1)
  },

  async pause(law) {
    const { order } = await oneOrder(law)
    law.faults.settle = async (settle, ...given) => {
      law.scheme.outage(true)
      setImmediate(() => law.scheme.outage(false))
      return await settle(...given)
    }
    const first = await order()
    law.scheme.outage(false)
    for (let i = 0; i < 3; i++) await law.later(20_000)
    const answer = isWhole(first) ? first : await order()
    expect([answer.status, isWhole(answer), law.answers()]).toEqual([200, true, 1])
    await law.idle()
    await expectPaid(law, 1)
  },

  async unreadable_balance(law) {
    law.faults.hidesBalance = true
    const buyer = await buyerOf(law, 3)
    const vendor = law.hold()
    const bodies = [1, 2, 3].map((number) => chat(number))
    const payments: Payment[] = []
    for (const body of bodies) payments.push(await buyer.pay(await law.offer(body)))
    const first = law.order(bodies[0] as object, payments[0])
    await vendor.requested
    const others = Promise.all([1, 2].map((i) => law.order(bodies[i] as object, payments[i])))
    await Promise.race([others, vendor.again])
    vendor.open()
    expect((await others).map(({ status }) => status)).toEqual([402, 402])
    expect(isWhole(await first)).toBe(true)
    await law.idle()
    expect((await law.order(bodies[1] as object, payments[1])).status).toBe(200)
  },

  async no_gas(law) {
    const { order } = await oneOrder(law)
    law.faults.closed = { code: 'no_gas', reason: 'the account holds nothing' }
    const refused = await law.order(chat(2))
    expect([refused.status, refused.headers.has('payment-required')]).toEqual([503, false])
    law.faults.closed = undefined
    law.faults.settle = async () => ({ kind: 'unavailable', reason: 'nothing was sent: insufficient funds' })
    const first = await order()
    await law.later(10_000)
    const answer = isWhole(first) ? first : await order()
    expect([answer.status, isWhole(answer), law.answers()]).toEqual([200, true, 1])
    await law.idle()
    await expectPaid(law, 1)
  },
}
