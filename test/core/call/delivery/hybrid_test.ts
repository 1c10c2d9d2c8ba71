import { expect, test } from 'bun:test'
import { memoryChain } from '../../../../adapters/chains/evm/memory.ts'
import { deliverHybrid } from '../../../../core/call/delivery/hybrid.ts'
import type { OpenedCall } from '../../../../core/call/work/opened_call.ts'
import type { Hybrid } from '../../../../core/endpoint/mod.ts'
import { door } from '../../../kit.ts'
import { endpointOf, engineKit, jsonOf } from './engine_kit.ts'

const WINDOW_MS = 10_000

async function opened(options: Parameters<typeof engineKit>[0] = {}) {
  const kit = engineKit(options)
  const ready = door()
  const endpoint = endpointOf({
    delivery: 'hybrid',
    windowMs: WINDOW_MS,
    run: async () => {
      await ready.passed
      return { result: { made: true } }
    },
  })
  return { ...kit, ready: ready.open, call: (await kit.open(endpoint)) as OpenedCall<Hybrid> }
}

test('answers in the reply while its window is open', async () => {
  const { engine, call, ready, chain } = await opened()
  ready()
  const reply = await deliverHybrid(engine, call)
  expect([reply.status, jsonOf(reply).made, chain.transfers.length]).toEqual([200, true, 1])
})

test('becomes a job when its window closes, and leaves the result to a poll', async () => {
  const { engine, call, ready, clock, stored, chain, idle } = await opened()
  const replying = deliverHybrid(engine, call)
  await clock.advance(WINDOW_MS)
  expect((await replying).status).toBe(202)
  expect((await stored()).workStatus).toBe('in_progress')
  ready()
  await idle()
  expect([(await stored()).workStatus, chain.transfers.length]).toEqual(['completed', 0])
})

test('waits a moment for a settlement that its window has closed upon', async () => {
  const settling = door()
  const chain = memoryChain({ before: (question) => (question === 'settle' ? settling.passed : undefined) })
  const { engine, call, ready, clock } = await opened({ chain })
  ready()
  const replying = deliverHybrid(engine, call)
  await clock.advance(WINDOW_MS)
  settling.open()
  const reply = await replying
  expect([reply.status, jsonOf(reply).made]).toEqual([200, true])
})

test('withholds a result whose payment is refused, and tells a caller whose payment is in doubt to ask again', async () => {
  const refused = { ...memoryChain(), settle: async () => ({ kind: 'refused', reason: 'no money' }) as const }
  const unknown = { ...memoryChain(), settle: async () => ({ kind: 'unknown', reason: 'slow' }) as const }
  const replies = []
  for (const chain of [refused, unknown]) {
    const { engine, call, ready, isNoted } = await opened({ chain })
    ready()
    const { status } = await deliverHybrid(engine, call)
    replies.push([status, await isNoted(call)])
  }
  expect(replies).toEqual([
    [402, false],
    [202, false],
  ])
})

test('is a job from the start where the gateway has no window', async () => {
  const { engine, call, stored } = await opened({ inlineMs: 0 })
  expect((await deliverHybrid(engine, call)).status).toBe(202)
  expect((await stored()).workStatus).toBe('in_progress')
})
