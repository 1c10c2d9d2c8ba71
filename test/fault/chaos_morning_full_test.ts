/** A bad morning, once: the commands and the alerts tell an operator what is wrong, and nobody pays for nothing. */
import { expect, test } from 'bun:test'
import { chaosMorning } from './chaos_morning.ts'

test('a lost payment, a dead vendor, a full disk and an empty gas key are found by commands and alerts, and nobody pays for nothing', async () => {
  const { violations, transcript } = await chaosMorning()
  expect(violations).toEqual([])
  expect(transcript.length).toBeGreaterThan(10)
}, 590_000)
