import { expect, test } from 'bun:test'
import { deliverUpstreamJob } from '../../../../core/call/delivery/upstream_job.ts'
import { pollUpstream } from '../../../../core/call/delivery/upstream_poll.ts'
import type { OpenedCall } from '../../../../core/call/work/opened_call.ts'
import type { UpstreamJob, UpstreamStatus } from '../../../../core/endpoint/mod.ts'
import { endpointOf, engineKit, jsonOf } from './engine_kit.ts'

/** A vendor that takes a job and answers its polls in this order. */
async function opened(states: readonly UpstreamStatus[], submit = async () => ({ handle: 'vendor-7' })) {
  const kit = engineKit()
  const left = [...states]
  const requests: string[] = []
  const endpoint = endpointOf({
    delivery: 'upstream_job',
    submit,
    async pollUpstream(handle: string) {
      requests.push(handle)
      return left.shift() as UpstreamStatus
    },
  } as never)
  return { ...kit, requests, call: (await kit.open(endpoint)) as OpenedCall<UpstreamJob> }
}

test('hands the call to its vendor, and collects the result once', async () => {
  const done: UpstreamStatus = { kind: 'done', made: { result: { made: true } } }
  const { engine, call, stored, requests, clock, idle } = await opened([{ kind: 'running', progress: 40 }, done])
  const reply = await deliverUpstreamJob(engine, call)
  expect([reply.status, jsonOf(reply).id]).toEqual([202, 'call-1'])
  expect([(await stored()).workStatus, (await stored()).workerId]).toEqual(['in_progress', 'upstream'])

  expect(await pollUpstream(engine, call.endpoint, await stored())).toMatchObject({ progress: 40 })
  await clock.advance(2_000)
  const seen = await pollUpstream(engine, call.endpoint, await stored())
  expect([seen.call.workStatus, requests]).toEqual(['completed', ['vendor-7', 'vendor-7']])
  await pollUpstream(engine, call.endpoint, await stored())
  await idle()
  expect(requests.length).toBe(2)
})

test('asks the vendor once for any number of callers at a time', async () => {
  const { engine, call, stored, requests, idle } = await opened([{ kind: 'running' }])
  await deliverUpstreamJob(engine, call)
  const running = await stored()
  await Promise.all([1, 2, 3].map(() => pollUpstream(engine, call.endpoint, running)))
  await idle()
  expect(requests).toEqual(['vendor-7'])
})

test('fails the call when its vendor does not take the job, and gives back the memory of the order', async () => {
  const { engine, call, stored } = await opened([], () => Promise.reject(new Error('no capacity')))
  await expect(deliverUpstreamJob(engine, call)).rejects.toThrow('Internal server error')
  expect((await stored()).workStatus).toBe('failed')
  expect(() => engine.deliveries.submissions.take(4 << 20)).not.toThrow()
})
