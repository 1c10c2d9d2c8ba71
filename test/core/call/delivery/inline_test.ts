import { expect, test } from 'bun:test'
import { memoryChain } from '../../../../adapters/chains/evm/memory.ts'
import { deliverInline } from '../../../../core/call/delivery/inline.ts'
import type { OpenedCall } from '../../../../core/call/work/opened_call.ts'
import type { Inline } from '../../../../core/endpoint/mod.ts'
import { ApiError } from '../../../../core/http/errors.ts'
import type { Settlement } from '../../../../core/ports/mod.ts'
import { endpointOf, engineKit, jsonOf } from './engine_kit.ts'

const WORK = endpointOf({ delivery: 'inline' })
const COSTLY = endpointOf({ delivery: 'inline', effects: { costsOperator: true } })

/** A call of this endpoint on a chain that settles like this. */
async function opened(
  settlement?: Settlement,
  { endpoint = WORK, gone }: { readonly endpoint?: typeof WORK; readonly gone?: AbortSignal } = {},
) {
  const chain = memoryChain()
  const kit = engineKit({ chain: settlement ? { ...chain, settle: async () => settlement } : chain })
  return { ...kit, call: (await kit.open(endpoint, { ...(gone && { gone }) })) as OpenedCall<Inline> }
}

test('serves a settled result with its receipt, and notes nothing', async () => {
  const { engine, call, stored, isNoted } = await opened()
  const reply = await deliverInline(engine, call)
  expect([reply.status, jsonOf(reply).made]).toEqual([200, true])
  expect(reply.headers['payment-response']).toBeString()
  expect([(await stored()).paymentStatus, await isNoted(call)]).toEqual(['settled', false])
})

test('withholds a result whose payment is refused, and says where it is kept', async () => {
  const { engine, call, stored, isNoted } = await opened({ kind: 'refused', reason: 'no money' })
  const reply = await deliverInline(engine, call)
  expect([reply.status, jsonOf(reply).details, jsonOf(reply).job_id]).toEqual([402, 'no money', 'call-1'])
  expect(jsonOf(reply)).not.toHaveProperty('made')
  expect([(await stored()).workStatus, await isNoted(call)]).toEqual(['completed', false])
})

test('notes a refused payment of work that has cost the operator', async () => {
  const { engine, call, isNoted } = await opened({ kind: 'refused', reason: 'no money' }, { endpoint: COSTLY })
  expect((await deliverInline(engine, call)).status).toBe(402)
  expect(await isNoted(call)).toBe(true)
})

test.each(['unknown', 'unavailable'] as const)('serves a result whose settlement is %s, and notes it', async (kind) => {
  const { engine, call, isNoted } = await opened({ kind, reason: 'the node is slow' })
  const reply = await deliverInline(engine, call)
  expect([reply.status, jsonOf(reply).made]).toEqual([200, true])
  expect(reply.headers).toMatchObject({ 'x-payment-settled': 'false', 'x-payment-settle-error-class': kind })
  expect(await isNoted(call)).toBe(true)
})

test('withholds a result whose authorization expired before it could be sent', async () => {
  const slow = endpointOf({
    delivery: 'inline',
    run: async ({ clock }) => {
      await clock.wait(61_000)
      return { result: { made: true } }
    },
  })
  const { engine, call, clock, chain, isNoted } = await opened(undefined, { endpoint: slow })
  chain.outage(true)
  const replying = deliverInline(engine, call)
  await clock.advance(61_000)
  expect([(await replying).status, await isNoted(call)]).toEqual([402, false])
})

test('keeps the result for a poll when its caller has left', async () => {
  const { engine, call, stored, chain, isNoted } = await opened(undefined, { gone: AbortSignal.abort() })
  const reply = await deliverInline(engine, call)
  expect([reply.status, (await stored()).workStatus, (await stored()).paymentStatus]).toEqual([
    202,
    'completed',
    'verified',
  ])
  expect([chain.transfers.length, await isNoted(call)]).toEqual([0, true])
})

test('fails the call of work that fails, and charges nothing', async () => {
  const endpoint = endpointOf({
    delivery: 'inline',
    run: async () => {
      throw new ApiError('MODEL_UNAVAILABLE', { message: 'Nobody answers.' })
    },
  })
  const { engine, call, stored, chain } = await opened(undefined, { endpoint })
  const reply = await deliverInline(engine, call)
  expect([reply.status, (await stored()).workStatus, (await stored()).error]).toEqual([
    503,
    'failed',
    'Nobody answers.',
  ])
  expect(chain.transfers).toEqual([])
})
