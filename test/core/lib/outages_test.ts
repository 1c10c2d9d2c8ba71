import { expect, test } from 'bun:test'
import { outages, REPEAT_MS } from '../../../core/lib/outages.ts'
import { testClock, testLog } from '../../kit.ts'

const FAILURE = { reason: '401', message: 'refused', fields: { status: 401 } }

function world() {
  const [log, clock] = [testLog(), testClock()]
  const told = () => log.lines.splice(0).map(({ level, message }) => `${level} ${message}`)
  return { clock, told, log, ...outages({ log, clock, over: 'over' }) }
}

test('an outage is an alert at its beginning and a line at its end', async () => {
  const { failed, worked, told, log, clock } = world()
  worked('a')
  for (let times = 0; times < 100; times++) failed('a', FAILURE)
  expect(told()).toEqual(['alert refused'])
  await clock.advance(90_000)
  worked('a')
  expect(log.lines[0]?.fields).toEqual({ subject: 'a', reason: '401', seconds: 90, failures: 100 })
  expect(told()).toEqual(['info over'])
  worked('a')
  expect(told()).toEqual([])
})

test('subjects and reasons are outages of their own', () => {
  const { failed, told } = world()
  failed('a', FAILURE)
  failed('b', FAILURE)
  failed('a', { ...FAILURE, reason: '404' })
  expect(told()).toEqual(['alert refused', 'alert refused', 'alert refused'])
})

test('failures that alternate with successes alert once in ten minutes', async () => {
  const { failed, worked, told, clock } = world()
  for (let times = 0; times < 50; times++) {
    failed('a', FAILURE)
    worked('a')
  }
  expect(told()).toEqual(['alert refused', 'info over'])
  await clock.advance(REPEAT_MS)
  failed('a', FAILURE)
  expect(told()).toEqual(['alert refused'])
})

test('reasons that come from outside are bounded', () => {
  const { failed, told } = world()
  for (let times = 0; times < 1000; times++) failed('a', { ...FAILURE, reason: String(times) })
  expect(told().length).toBeLessThan(20)
})
