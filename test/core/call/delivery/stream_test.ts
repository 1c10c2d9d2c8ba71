import { expect, test } from 'bun:test'
import { memoryChain } from '../../../../adapters/chains/evm/memory.ts'
import { drainStreams } from '../../../../core/call/delivery/deliveries.ts'
import { deliverStream } from '../../../../core/call/delivery/stream.ts'
import type { Settlement } from '../../../../core/ports/mod.ts'
import { door } from '../../../kit.ts'
import { answering, engineKit, jsonOf, textOf, texts, whole } from './engine_kit.ts'

const chainOf = (settlement: Settlement) => ({ ...memoryChain(), settle: async () => settlement })

test('serves a whole answer with its receipt', async () => {
  const { engine, open, stored } = engineKit()
  const reply = await deliverStream(engine, await open(answering(async () => whole)))
  expect([reply.status, jsonOf(reply).text]).toEqual([200, 'Hello'])
  expect(reply.headers['payment-response']).toBeString()
  expect((await stored()).paymentStatus).toBe('settled')
})

test('withholds a whole answer whose payment is refused, and notes it', async () => {
  const { engine, open, isNoted } = engineKit({ chain: chainOf({ kind: 'refused', reason: 'no money' }) })
  const call = await open(answering(async () => whole))
  const reply = await deliverStream(engine, call)
  expect([reply.status, await isNoted(call)]).toEqual([402, true])
  expect(reply.body).not.toContain('Hello')
})

test('serves a whole answer whose settlement is in doubt, and notes it', async () => {
  const { engine, open, isNoted } = engineKit({ chain: chainOf({ kind: 'unavailable', reason: 'no gas' }) })
  const call = await open(answering(async () => whole))
  const reply = await deliverStream(engine, call)
  expect([reply.status, reply.headers['x-payment-settle-error-class'], await isNoted(call)]).toEqual([
    200,
    'unavailable',
    true,
  ])
})

test('settles a stream at its end, with the receipt as its last comment', async () => {
  const { engine, open, chain, stored, idle } = engineKit()
  const reply = await deliverStream(engine, await open(answering(async () => texts('data: 1\n\n', 'data: 2\n\n'))))
  expect(engine.deliveries.streams.size).toBe(1)
  const text = await textOf(reply)
  expect(text).toStartWith('data: 1\n\ndata: 2\n\n: ')
  expect(text).toContain(': PAYMENT-RESPONSE '.toLowerCase())
  expect(text).toEndWith('data: [DONE]\n\n')
  await idle()
  expect([chain.transfers.length, (await stored()).workStatus, engine.deliveries.streams.size]).toEqual([
    1,
    'completed',
    0,
  ])
})

test('charges nothing when its reader leaves before content, and remembers the wallet', async () => {
  const { engine, open, chain, stored, idle } = engineKit()
  const reply = await deliverStream(engine, await open(answering(async () => texts('data: 1\n\n'))))
  await (reply.body as ReadableStream<Uint8Array>).cancel()
  await idle()
  expect([chain.transfers.length, (await stored()).workStatus]).toEqual([0, 'failed'])
})

test('ends every stream that is open, and settles what was delivered', async () => {
  const { engine, open, chain, idle } = engineKit()
  const later = door()
  const answer = texts('data: 1\n\n', 'data: 2\n\n')
  const { next } = answer.stream
  let reads = 0
  const stream = {
    ...answer.stream,
    next: async () => (reads++ > 0 ? (await later.passed, await next()) : await next()),
  }
  const reply = await deliverStream(engine, await open(answering(async () => ({ ...answer, stream }))))
  const reader = (reply.body as ReadableStream<Uint8Array>).getReader()
  expect(new TextDecoder().decode((await reader.read()).value)).toBe('data: 1\n\n')
  expect(drainStreams(engine)).toBe(1)
  await idle()
  later.open()
  expect(chain.transfers.length).toBe(1)
  expect(new TextDecoder().decode((await reader.read()).value)).toContain('The gateway is stopping')
})
