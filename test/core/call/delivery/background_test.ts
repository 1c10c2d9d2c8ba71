import { expect, test } from 'bun:test'
import { memoryChain } from '../../../../adapters/chains/evm/memory.ts'
import { cancelCall } from '../../../../core/call/delivery/background.ts'
import { deliverStream } from '../../../../core/call/delivery/stream.ts'
import { door } from '../../../kit.ts'
import { answering, engineKit, jsonOf, whole } from './engine_kit.ts'

const queued = { deferred: () => ({ id: 'resp_1', status: 'queued' }) }

test('replies at once, and settles the answer before anybody reads it', async () => {
  const { engine, open, stored, chain, idle } = engineKit()
  const call = await open(answering(async () => whole, queued))
  const reply = await deliverStream(engine, call)
  expect([reply.status, jsonOf(reply).status]).toEqual([200, 'queued'])
  await idle()
  expect([(await stored()).paymentStatus, chain.transfers.length]).toEqual(['settled', 1])
  expect(engine.deliveries.background.size).toBe(0)
})

test('keeps an answer whose payment is refused for a poll, and notes nothing', async () => {
  const chain = { ...memoryChain(), settle: async () => ({ kind: 'refused', reason: 'no money' }) as const }
  const { engine, open, stored, isNoted, idle } = engineKit({ chain })
  const call = await open(answering(async () => whole, queued))
  await deliverStream(engine, call)
  await idle()
  expect([(await stored()).workStatus, (await stored()).paymentStatus, await isNoted(call)]).toEqual([
    'completed',
    'refused',
    false,
  ])
})

test('is cancelled once, and then costs nothing', async () => {
  const { engine, open, stored, chain, clock, idle } = engineKit()
  const never = door()
  const call = await open(answering(() => never.passed.then(() => whole), queued))
  await deliverStream(engine, call)
  await clock.settle()
  expect([...engine.deliveries.background.keys()]).toEqual(['call-1'])
  expect(await cancelCall(engine, 'call-1', 'Cancelled.')).toBe(true)
  expect(await cancelCall(engine, 'call-1', 'Cancelled.')).toBe(false)
  await idle()
  expect([(await stored()).error, chain.transfers.length]).toEqual(['Cancelled.', 0])
})
