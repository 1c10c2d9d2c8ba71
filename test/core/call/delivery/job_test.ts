import { expect, test } from 'bun:test'
import { deliverJob } from '../../../../core/call/delivery/job.ts'
import type { OpenedCall } from '../../../../core/call/work/opened_call.ts'
import type { Job } from '../../../../core/endpoint/mod.ts'
import { endpointOf, engineKit, jsonOf } from './engine_kit.ts'

test('replies at once, and stores the result for a poll to pay', async () => {
  const { engine, open, stored, chain, idle } = engineKit()
  const call = (await open(endpointOf({ delivery: 'job' }))) as OpenedCall<Job>
  const reply = await deliverJob(engine, call)
  expect([reply.status, jsonOf(reply).id]).toEqual([202, 'call-1'])
  await idle()
  expect((await stored()).result).toMatchObject({ made: { made: true } })
  expect([(await stored()).paymentStatus, chain.transfers.length]).toEqual(['verified', 0])
})

test('fails the call of work that fails, and charges nothing', async () => {
  const { engine, open, stored, idle } = engineKit()
  const run = () => Promise.reject(new Error('the vendor is away'))
  const call = (await open(endpointOf({ delivery: 'job', run }))) as OpenedCall<Job>
  expect((await deliverJob(engine, call)).status).toBe(202)
  await idle()
  expect([(await stored()).workStatus, (await stored()).error]).toEqual([
    'failed',
    'Internal server error: The model did not deliver a result. Nothing was charged.',
  ])
})
