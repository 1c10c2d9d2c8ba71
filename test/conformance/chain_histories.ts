/**
 * Random histories of a chain: payments are settled, sent by others, canceled and emptied, while sends and answers are
 * lost. Laws of every chain, whatever it settles with.
 */
import { expect } from 'bun:test'
import type { Fate, Settlement } from '../../core/ports/mod.ts'
import type { Payment, Receipt } from '../../core/x402/protocol.ts'
import { scaled } from '../scope.ts'
import { type Chance, chance, seedOf } from '../simulation/chance.ts'
import { type ChainHarness, chainLaws, type Payer } from './chains.ts'
import { type Law, law } from './law.ts'

const SEED = 11
const HISTORIES = scaled(5, 20)
const STEPS = 9
const CENT = 10_000n

type Sale = {
  readonly payer: Payer
  readonly payment: Payment
  isCanceled: boolean
  receipt: Receipt | undefined
  isDead: boolean
}
type History = { readonly h: ChainHarness; readonly dice: Chance; readonly sales: readonly Sale[] }

export const chainHistories: readonly Law<ChainHarness>[] = [
  law('random payments, lost answers and takers move money once, and each receipt is real', async (subject) => {
    const h = await subject.open()
    for (let history = 0; history < HISTORIES; history++) await play(h, chance(seedOf(SEED, history)))
  }),
]

/** Promises of a chain, its histories included. */
export const everyChainLaw: readonly Law<ChainHarness>[] = [...chainLaws, ...chainHistories]

async function play(h: ChainHarness, dice: Chance): Promise<void> {
  const before = await h.balanceOf(h.offer.payTo)
  const sales: Sale[] = []
  for (let payers = 2; payers > 0; payers--) {
    const payer = await h.payer(2n * CENT)
    for (let payments = 1 + dice.below(2); payments > 0; payments--)
      sales.push({ payer, payment: await h.sign(payer, h.offer), isCanceled: false, receipt: undefined, isDead: false })
  }
  const history = { h, dice, sales }
  for (let step = 0; step < STEPS; step++) await happen(history)

  for (const { payer } of sales) await h.fund(payer, 2n * CENT)
  for (const sale of sales) {
    let settlement = await settle(history, sale)
    // A loss that no settlement has suffered yet may still be queued.
    for (let tries = 0; tries < STEPS && settlement.kind === 'unknown'; tries++)
      settlement = await settle(history, sale)
    judge(sale, settlement)
    expect({ settlement, isCanceled: sale.isCanceled }).toMatchObject(sale.receipt ? {} : { isCanceled: true })
  }
  await h.arrive?.()
  const paid = sales.filter(({ receipt }) => receipt)
  expect(await h.balanceOf(h.offer.payTo)).toBe(before + BigInt(paid.length) * CENT)
  for (const { receipt, payer } of paid) await expectReal(h, payer, { receipt, sales })
}

async function happen(history: History): Promise<void> {
  const { h, dice, sales } = history
  const sale = dice.pick(sales)
  const draw = dice.next()
  if (draw < 0.3) return judge(sale, await settle(history, sale))
  if (draw < 0.45) return judge(sale, await settleWhileLosing(history, sale))
  if (draw < 0.55) return await settleAll(history)
  if (draw < 0.65) return judge(sale, await h.chain.fate(sale.payment, h.offer, now(h)))
  if (draw < 0.75) return await h.submit(sale.payment).catch(() => {})
  if (draw < 0.85) return await cancel(history, sale)
  if (draw < 0.95) return await h.fund(sale.payer, dice.pick([0n, CENT, 2n * CENT]))
  h.outage(true)
  judge(sale, await settle(history, sale))
  h.outage(false)
}

const now = (h: ChainHarness) => ({ now: h.now(), signal: AbortSignal.timeout(10_000) })

const settle = ({ h }: History, { payment }: Sale): Promise<Settlement> => h.chain.settle(payment, h.offer, now(h))

async function settleAll(history: History): Promise<void> {
  const answers = await Promise.all(history.sales.map((sale) => settle(history, sale)))
  for (const [index, answer] of answers.entries()) judge(history.sales[index] as Sale, answer)
}

/** The caller leaves as soon as something was lost; a payment of which nothing is sent loses nothing. */
async function settleWhileLosing({ h, dice }: History, { payment }: Sale): Promise<Settlement> {
  const stop = new AbortController()
  void h.drop(dice.pick(['sends', 'answers'])).then(() => stop.abort())
  const settlement = await h.chain.settle(payment, h.offer, { now: h.now(), signal: stop.signal })
  h.recover()
  return settlement
}

async function cancel({ h }: History, sale: Sale): Promise<void> {
  await h.cancel(sale.payer, sale.payment).catch(() => {})
  sale.isCanceled = true
}

/** An answer stays true. */
function judge(sale: Sale, answer: Settlement | Fate): void {
  const receipt = answer.kind === 'settled' || answer.kind === 'paid' ? answer.receipt : undefined
  if (sale.receipt) {
    // A node that does not answer knows nothing, and says so.
    if (answer.kind !== 'unknown') expect(receipt).toEqual(sale.receipt)
    return
  }
  if (sale.isDead) expect(receipt).toBeUndefined()
  if (receipt) sale.receipt = receipt
  if (answer.kind === 'dead') sale.isDead = true
}

/** The transaction has a transfer of its price for each receipt that names it. */
async function expectReal(
  h: ChainHarness,
  payer: Payer,
  { receipt, sales }: { receipt: Receipt | undefined; sales: readonly Sale[] },
): Promise<void> {
  const transaction = receipt?.transaction ?? ''
  const named = sales.filter((sale) => sale.receipt?.transaction === transaction && sale.payer === payer)
  const moved = { from: payer.address.toLowerCase(), to: h.offer.payTo.toLowerCase(), value: CENT }
  const real = (await h.transfersIn(transaction)).filter((each) => Bun.deepEquals(each, moved))
  expect(real).toHaveLength(named.length)
}
