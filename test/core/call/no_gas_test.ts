/** A chain that cannot pay for a settlement: it says that nothing was sent, and nobody's payment is lost by it. */
import { silent } from '../../../core/ports/meter.ts'
import { expect, test } from 'bun:test'
import type { Settlement } from '../../../core/ports/mod.ts'
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import { FOX, kit, type KitOptions, testClock } from '../../kit.ts'
import { SKY, table } from './stream_kit.ts'

const NO_GAS: Settlement = { kind: 'unavailable', reason: 'nothing was sent: insufficient funds' }

/** A chain without gas until it is topped up. */
function dry() {
  const clock = testClock()
  const cash = memoryChain()
  const state = { isDry: true, requestCount: 0 }
  const chain = {
    ...cash,
    settle: async (...given: Parameters<typeof cash.settle>) => {
      state.requestCount++
      return state.isDry ? NO_GAS : await cash.settle(...given)
    },
  }
  const options: KitOptions = { chain: cash, ports: { clock, chain } }
  return { options, clock, cash, state }
}

test('a picture that could not be settled is withheld, and the same payment collects it later', async () => {
  const { options, clock, cash, state } = dry()
  const { buyer } = kit(options)
  const alice = buyer()
  const payment = alice.sign(await alice.ask())
  const { status, body } = await alice.buy(FOX, { payment })
  expect([status, body.data, cash.transfers.length]).toEqual([202, undefined, 0])
  const waiting = await alice.poll(body.poll_url, payment)
  expect([waiting.status, waiting.body.data]).toEqual([202, undefined])
  state.isDry = false
  await clock.advance(1_000)
  const { status: collected } = await alice.poll(body.poll_url, payment)
  expect([collected, cash.transfers.length]).toEqual([200, 1])
})

test('retries of a settlement that cannot be sent are rare, logged once, and no unknown outcomes', async () => {
  const { options, clock, state, cash } = dry()
  const outcomes: string[] = []
  const meter = { ...silent, attempted: (_: string, outcome: string) => void outcomes.push(outcome) }
  const { post, signed, gateway, idle, log } = await table(undefined, {
    ...options,
    ports: { ...options.ports, meter },
  })
  await post(SKY, { payment: await signed(SKY) })
  await idle()
  for (let second = 0; second < 120; second++) {
    await clock.advance(1_000)
    await gateway.maintain()
  }
  expect(log.lines.filter(({ message }) => message.includes('unknown outcome')).length).toBeLessThanOrEqual(1)
  expect([outcomes.length < 12, outcomes.includes('unknown')]).toEqual([true, false])
  state.isDry = false
  await clock.advance(60_000)
  await gateway.maintain()
  expect(cash.transfers).toHaveLength(1)
})

test('an answer of a chat that was served is settled by the sweep once there is gas, and its buyer owes nothing', async () => {
  const { options, clock, cash, state } = dry()
  const { post, signed, gateway, idle } = await table(undefined, options)
  const sold = await post(SKY, { payment: await signed(SKY) })
  expect([sold.status, sold.headers.get('x-payment-settled'), cash.transfers.length]).toEqual([200, 'false', 0])
  await idle()
  expect((await post(SKY, { payment: await signed(SKY) })).status).toBe(200)
  state.isDry = false
  await clock.advance(60_000)
  await gateway.maintain()
  expect(cash.transfers).toHaveLength(2)
})
