/**
 * Loss of an operator in an hour to fresh wallets that take whole streams and move their money away meanwhile.
 * `bun test/fault/sybils.ts [--minutes=60] [--wallets=10] [--addresses=1000]` prints it with no limit on new wallets
 * together, as it was, with limits on refusals alone, and with the usual ones.
 */
import { parseArgs } from 'node:util'
import { memoryChain } from '../../adapters/chains/evm/memory.ts'
import { streamAnswer } from '../fakes/chat.ts'
import { newWalletsLimit, type NewWalletsLimit } from '../../core/payment/unpaid/new_wallets.ts'
import { print, usdc } from '../../core/x402/money.ts'
import { HELLO, STREAM, table } from '../core/call/stream_kit.ts'

/** A quote of 0.024589 for an answer that may cost the operator 0.235809. */
const LONG_ANSWER = { ...STREAM, max_tokens: 52_400 }
const WORST_COST = 235_809n

export const NO_LIMIT: NewWalletsLimit = {
  gateway: usdc(10n ** 15n),
  address: usdc(10n ** 15n),
  streamed: usdc(10n ** 15n),
}

type Sybils = {
  readonly minutes: number
  /** Fresh wallets that try it in a minute, each from the next of so many addresses. */
  readonly wallets: number
  readonly addresses: number
}

type SybilLoss = {
  readonly tried: number
  readonly taken: number
  /** Quotes of the taken answers, and the most that they may have cost. */
  readonly quoted: bigint
  readonly cost: bigint
  readonly alerts: number
}

/** Runs the attack on a gateway in memory, whose clock is the test's. */
export async function sybilLoss(limit: NewWalletsLimit, { minutes, wallets, addresses }: Sybils): Promise<SybilLoss> {
  let thief = ''
  const chain = memoryChain()
  const subject = await table(
    async () => {
      chain.drain(thief)
      return streamAnswer(HELLO)
    },
    { chain, newWallets: limit },
  )
  let [tried, taken, quoted] = [0, 0, 0n]
  for (let minute = 0; minute < minutes; minute++) {
    for (let wallet = 0; wallet < wallets; wallet++) {
      const by = subject.buyer(`fresh ${tried}`)
      thief = by.wallet
      const payment = await subject.signed(LONG_ANSWER, { by })
      const at = tried++ % addresses
      const response = await subject.post(LONG_ANSWER, { payment, ip: `10.${at >> 16}.${(at >> 8) & 255}.${at & 255}` })
      const isTaken = (await response.text()).includes('lo"')
      await subject.idle()
      if (!isTaken) continue
      taken++
      quoted += BigInt(payment.accepted.amount)
    }
    await subject.clock.advance(60_000)
  }
  const paid = chain.transfers.reduce((sum, { value }) => sum + value, 0n)
  const alerts = subject.log.lines.filter(
    ({ level, message }) => level === 'alert' && message.startsWith('new wallets'),
  ).length
  return { tried, taken, quoted: quoted - paid, cost: BigInt(taken) * WORST_COST - paid, alerts }
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      minutes: { type: 'string', default: '60' },
      wallets: { type: 'string', default: '10' },
      addresses: { type: 'string', default: '1000' },
    },
  })
  const sybils = {
    minutes: Number(values.minutes),
    wallets: Number(values.wallets),
    addresses: Number(values.addresses),
  }
  for (const [name, limit] of [
    ['without a limit', NO_LIMIT],
    ['where streams are not settled early', { ...newWalletsLimit(), streamed: NO_LIMIT.streamed }],
    ['with the usual limits', newWalletsLimit()],
  ] as const) {
    const { tried, taken, quoted, cost, alerts } = await sybilLoss(limit, sybils)
    console.log(
      `${name}: ${taken} of ${tried} fresh wallets took a whole stream unpaid in ${sybils.minutes} minutes; ` +
        `${print(usdc(quoted))} USDC in quotes, ${print(usdc(cost))} at most upstream, ${alerts} alerts`,
    )
  }
}
