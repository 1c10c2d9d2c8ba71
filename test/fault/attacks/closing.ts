/** Closing a key: while it buys without a pause, among everything that it can have open, and for who may not buy. */
import { setTimeout as pause } from 'node:timers/promises'
import { encodeFunctionData } from 'viem'
import { BATCH_SETTLEMENT, batchSettlementAbi } from '../../../adapters/chains/evm/node/x402_contracts.ts'
import type { Attack, Outcome } from './attack.ts'
import {
  type Answer,
  balanceOf,
  channelBalance,
  isWhole,
  newAccount,
  offerFor,
  ORDERS,
  send,
  spentBy,
  variant,
  walletWith,
} from './caller.ts'
import { ask, channelFor, deposit, depositAlone, funded, type Key, KEYS, newKey, usageOf } from './key_caller.ts'
import type { Target } from './target.ts'

const CLOSE = `${KEYS}/close`
const BUYERS = 4
/** Balance of a wallet of `funded` before its deposit. */
const MONEY = 4_000_000n

const buy = (target: Target, key: Key, number: number): Promise<Answer> =>
  ask(target, { path: ORDERS.chat.path, key, body: variant(ORDERS.chat, number).body })

/** A thief orders all the time, so that what is charged is another sum whenever the owner's close looks. */
async function whileBuying(target: Target): Promise<Outcome> {
  const offer = await offerFor(target, ORDERS.chat, 'batch-settlement')
  const { wallet, key } = await funded(target, offer)
  for (let i = 0; i < 12; i++) await buy(target, key, i)
  let [isOpen, bought, tries] = [true, 12, 0]
  const thieves = Array.from({ length: BUYERS }, async () => {
    while (isOpen) {
      const { status } = await buy(target, key, ++bought)
      if (status !== 200) await pause(20)
    }
  })
  let closed: Answer | undefined
  for (; tries < 3 && closed?.status !== 200; tries++) closed = await ask(target, { path: CLOSE, key, body: {} })
  isOpen = false
  await Promise.all(thieves)
  const back = await balanceOf(target, wallet.address)
  const isSound = closed?.status === 200 && back > MONEY / 2n
  return { tried: 1, refused: isSound ? 1 : 0, note: `closed by request ${tries}: ${closed?.text.slice(0, 120)}` }
}

/** Everything that a key can have open, closed again and again meanwhile. Nothing may be lost, nor given away. */
async function amongCalls(target: Target): Promise<Outcome> {
  const ROUNDS = 3
  const offer = await offerFor(target, ORDERS.chat, 'batch-settlement')
  let lost = 0
  const notes: string[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const { wallet, key } = await funded(target, offer)
    const { config, id } = channelFor(offer, wallet, key)
    const { body: child } = await ask(target, { path: KEYS, key, body: { name: 'child', cap: '0.1' } })
    const lent: Key = { ...key, text: child.key }
    const before = []
    for (let i = 10; i < 20; i++) before.push(await buy(target, key, 100 * round + i))
    const later = async <T>(i: number, run: () => Promise<T>): Promise<T> => {
      await pause(i * 60)
      return await run()
    }
    const calls = [
      ...[1, 2, 3, 4].map((i) => later(i, () => buy(target, key, 100 * round + i))),
      ...[5, 6].map((i) => later(i, () => buy(target, lent, 100 * round + i))),
      later(7, () => ask(target, { path: ORDERS.image.path, key, body: variant(ORDERS.image, round).body })),
      later(8, () => ask(target, { path: ORDERS.image.path, key, body: variant(ORDERS.image, 50 + round).body })),
    ]
    const closes = [3, 5, 7, 9, 11].map((i) => later(i, () => ask(target, { path: CLOSE, key, body: {} })))
    const withdrawal = encodeFunctionData({
      abi: batchSettlementAbi,
      functionName: 'initiateWithdraw',
      args: [config, 300_000n],
    })
    const meanwhile = later(3, async () => {
      // It reverts where a refund has come before it.
      if (round === 1) await send(target, wallet, { to: BATCH_SETTLEMENT, data: withdrawal }).catch(() => {})
      if (round === 2) await depositAlone(target, await deposit(offer, { wallet, key, price: '0' }))
    })
    const answers = [...before, ...(await Promise.all(calls))]
    const closed = (await Promise.all(closes)).filter(({ status }) => status === 200).length
    await meanwhile
    await pause(1_000)
    await ask(target, { path: CLOSE, key, body: {} })
    const { body: statement } = await ask(target, { path: `${KEYS}/statement`, key })
    const whole = answers.filter(isWhole).length
    const money = (await balanceOf(target, wallet.address)) + (await channelBalance(target, id))
    const isSound = whole === statement.calls && statement.charged === statement.calls_charged && money === MONEY
    if (!isSound) lost++
    notes.push(`${whole} answers and ${statement.calls} calls, ${statement.charged} charged, ${closed} closes`)
  }
  return { tried: ROUNDS, refused: ROUNDS - lost, note: notes.join('; ') }
}

/** Deposits whose gas the gateway would pay for wallets that it does not sell to. */
async function ofUnlisted(target: Target): Promise<Outcome> {
  const offer = await offerFor(target, ORDERS.chat, 'batch-settlement')
  const [blocked, unlisted, listed] = [
    await walletWith(target, MONEY),
    await walletWith(target, MONEY),
    newAccount().address,
  ]
  const { sent } = await spentBy(target)
  await target.operator('PUT', `/controls/blocked/${blocked.address}`, {})
  const statuses: number[] = []
  const pay = async (wallet: typeof blocked) => {
    for (let i = 0; i < 3; i++) {
      const payment = await deposit(offer, { wallet, key: newKey(), price: '0' })
      statuses.push((await depositAlone(target, payment)).status)
    }
  }
  await pay(blocked)
  await target.operator('PUT', `/controls/allowed/${listed}`, {})
  await pay(unlisted)
  const lost = (await spentBy(target)).sent - sent
  return { tried: 6, refused: 6 - lost, note: `${lost} deposits were sent, answered ${statuses.join(', ')}` }
}

/** A blocked key, and a child by its own address. Both still show what they have; the key is closed. */
async function blockedKeys(target: Target): Promise<Outcome> {
  const offer = await offerFor(target, ORDERS.chat, 'batch-settlement')
  const { key } = await funded(target, offer)
  const { body: child } = await ask(target, { path: KEYS, key, body: { name: 'child', cap: '0.2' } })
  const lent: Key = { ...key, text: child.key }
  for (let i = 0; i < 12; i++) await buy(target, key, i)
  const usage = await usageOf(target, key)
  let taken = 0
  await target.operator('PUT', `/controls/blocked/${child.address}`, {})
  if ((await buy(target, lent, 50)).status === 200) taken++
  await target.operator('PUT', `/controls/blocked/${key.account.address}`, {})
  for (const each of [key, lent]) if ((await buy(target, each, 60)).status === 200) taken++
  if ((await usageOf(target, key)) !== usage) taken++
  const { status } = await ask(target, { path: CLOSE, key, body: {} })
  if (status !== 200) taken++
  return { tried: 5, refused: 5 - taken, note: `${taken} of 5 went wrong; the close was answered ${status}` }
}

export const attacks: readonly Attack[] = [
  { family: 'stall', name: 'keeping a leaked key from being closed by buying', run: whileBuying },
  { family: 'keys', name: 'closes among calls, children, a deposit and a withdrawal', run: amongCalls },
  { family: 'burn', name: 'deposits of wallets that may not buy', run: ofUnlisted },
  { family: 'keys', name: 'a blocked key, and a blocked child', run: blockedKeys },
]
