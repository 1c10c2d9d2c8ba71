import { expect, test } from 'bun:test'
import { outages, REPEAT_MS } from '../../../core/lib/outages.ts'
import { testClock, testLog } from '../../kit.ts'

const FAILURE = { reason: '401', message: 'refused', fields: { status: 401 } }

function world() {
  const [log, clock] = [testLog(), testClock()]
  const alerts = () => log.lines.splice(0).map(({ level, message }) => `${level} ${message}`)
  return { clock, alerts, log, ...outages({ log, clock, over: 'over' }) }
}

test('an outage is an alert at its beginning and a line at its end', async () => {
  const { failed, worked, alerts, log, clock } = world()
  worked('a')
  for (let times = 0; times < 100; times++) failed('a', FAILURE)
  expect(alerts()).toEqual(['alert refused'])
  await clock.advance(90_000)
  worked('a')
  expect(log.lines[0]?.fields).toEqual({ subject: 'a', reason: '401', seconds: 90, failures: 100 })
  expect(alerts()).toEqual(['info over'])
  worked('a')
  expect(alerts()).toEqual([])
})

test('subjects and reasons are outages of their own', () => {
  const { failed, alerts } = world()
  failed('a', FAILURE)
  failed('b', FAILURE)
  failed('a', { ...FAILURE, reason: '404' })
  expect(alerts()).toEqual(['alert refused', 'alert refused', 'alert refused'])
})

test('failures that alternate with successes alert once in ten minutes', async () => {
  const { failed, worked, alerts, clock } = world()
  for (let times = 0; times < 50; times++) {
    failed('a', FAILURE)
    worked('a')
  }
  expect(alerts()).toEqual(['alert refused', 'info over'])
  await clock.advance(REPEAT_MS)
  failed('a', FAILURE)
  expect(alerts()).toEqual(['alert refused'])
})

test('reasons that come from outside are bounded', () => {
  const { failed, alerts } = world()
  for (let times = 0; times < 1000; times++) failed('a', { ...FAILURE, reason: String(times) })
  expect(alerts().length).toBeLessThan(20)
})
