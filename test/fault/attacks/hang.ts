/** Buyers whose gateway is killed while their money moves, and who send the same request again. */
import { setTimeout as pause } from 'node:timers/promises'
import type { Payment } from '../../../core/x402/protocol.ts'
import type { Attack, Outcome } from './attack.ts'
import { CUSTOMER, isWhole, offerFor, type Order, ORDERS, post, variant, walletWith } from './caller.ts'
import { pay } from './take.ts'
import type { Target } from './target.ts'

const BUYERS = 6
/** Longest time of a request that is sent again, whatever happened before (contract 1.90). */
const ANSWER_MS = 10_000
/** Time that common clients wait for the answer that they have paid for. */
const CLIENT_MS = 30_000
/** A settlement that another replica had begun is left to it for 45 seconds, since that one may live. */
const REPLICAS_MS = 60_000

type Buying = { readonly order: Order; readonly payment: Payment }

/** Half of them pay by `exact`, half with the deposit of a new channel. */
async function buying(target: Target, number: number): Promise<Buying> {
  const scheme = number % 2 === 0 ? 'exact' : 'batch-settlement'
  const buyer = await walletWith(target, 10_000_000n)
  const payment = await pay(buyer, await offerFor(target, ORDERS.chat, scheme), BigInt(number + 1))
  return { order: { ...variant(ORDERS.chat, number), ip: CUSTOMER }, payment }
}

/** The chain takes transactions and says nothing of them; the process dies with them in flight. */
async function killedInFlight(target: Target): Promise<Outcome> {
  const all = await Promise.all(Array.from({ length: BUYERS }, (_, i) => buying(target, i)))
  const firstSent = target.hold()
  const first = all.map(({ order, payment }) => post(target, order, payment).catch(() => undefined))
  await firstSent
  await target.crash()
  await Promise.all(first)
  await target.restart()
  const results = await Promise.all(all.map((each) => answered(target, each)))
  const inTime = results.filter(({ firstMs, wholeMs }) => firstMs <= ANSWER_MS && wholeMs <= waitMs(target))
  const slowest = (times: readonly number[]) => (Math.max(...times) / 1000).toFixed(1)
  const note = `first answer after ${slowest(results.map(({ firstMs }) => firstMs))} s, paid answer after ${slowest(results.map(({ wholeMs }) => wholeMs))} s at most`
  return { tried: BUYERS, refused: inTime.length, note }
}

const waitMs = ({ replicas }: Target): number => (replicas > 1 ? REPLICAS_MS : CLIENT_MS)

/** Until the identical request has the whole answer, or its client has given up. */
async function answered(target: Target, { order, payment }: Buying): Promise<{ firstMs: number; wholeMs: number }> {
  const startedAt = performance.now()
  const since = () => performance.now() - startedAt
  let firstMs: number | undefined
  while (since() < waitMs(target)) {
    const answer = await post(target, order, payment)
    firstMs ??= since()
    if (isWhole(answer)) return { firstMs, wholeMs: since() }
    await pause(200)
  }
  return { firstMs: firstMs ?? Infinity, wholeMs: Infinity }
}

export const attacks: readonly Attack[] = [
  { family: 'hang', name: 'the same request again after a kill with payments in flight', run: killedInFlight },
]
