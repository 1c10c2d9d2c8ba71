/** Keys that nobody uses for thirty days. */
import { expect, test } from 'bun:test'
import { channelCosts } from '../../../../../../adapters/chains/evm/channels/costs.ts'
import { wholeAnswer } from '../../../../../fakes/chat.ts'
import { door } from '../../../../../kit.ts'
import { CHARGE, selling } from '../../../../../core/call/keys_kit.ts'
import { SKY } from '../../../../../core/call/stream_kit.ts'
import { IDLE_MS } from '../vouchers.ts'

const DAY_MS = 86_400_000

test('a key that nobody uses is closed with its children', async () => {
  const subject = await selling()
  const { chain, clock } = subject
  expect((await subject.ask(SKY)).status).toBe(200)
  await subject.ask(
    { name: 'Ada', cap: '0.01', expires_at: clock.now() / 1000 + 90 * 86_400 },
    { path: '/api/v1/keys' },
  )
  const used = clock.now()
  await chain.closeIdle(used + IDLE_MS - DAY_MS)
  expect(subject.refunded).toEqual([])
  await chain.closeIdle(used + IDLE_MS + 1)
  expect(subject.refunded).toEqual([100_000n - CHARGE])
  expect(await subject.channel()).toMatchObject({ charged: CHARGE, reserved: 0n, available: 0n })
  expect((await subject.ask(SKY)).status).toBe(402)
  await chain.closeIdle(used + IDLE_MS + 2)
  expect(subject.refunded).toHaveLength(1)
})

test('a key whose call is open is not closed, however old its last charge is', async () => {
  const ready = door()
  const subject = await selling(async () => {
    await ready.passed
    return wholeAnswer()
  })
  const open = subject.ask(SKY)
  await subject.clock.settle()
  await subject.chain.closeIdle(subject.clock.now() + IDLE_MS + 1)
  ready.open()
  expect([(await open).status, subject.refunded]).toEqual([200, []])
})

test('a key that has not bought the gas of its refund, or has less than that left, is not closed', async () => {
  const gas = { gasPrice: () => 2_000_000n, coinPrice: 4_000, gasPerWallet: 10n ** 12n, minDeposit: 1n }
  const costs = channelCosts(gas)
  // A refund costs 1,280, and a deposit 960.
  const balance = CHARGE * 49n + 1_000n
  for (const [calls, refunds] of [
    [0, 0],
    [5, 1],
    [49, 0],
  ] as const) {
    const subject = await selling(undefined, { balance, costs })
    for (let call = 0; call < calls; call++) expect((await subject.ask(SKY)).status).toBe(200)
    await subject.chain.closeIdle(subject.clock.now() + IDLE_MS + 1)
    expect([calls, subject.refunded.length]).toEqual([calls, refunds])
  }
})
