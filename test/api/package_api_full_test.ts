/** The public API of the package, door by door, is the one that is checked in. */
import { expect, test } from 'bun:test'
import { checkedIn, currentReports } from './report.ts'

test('the public API is what test/api says; a change of it is written by: bun test/api/report.ts --write', async () => {
  for (const [path, text] of await currentReports()) expect([path, await checkedIn(path)]).toEqual([path, text])
}, 120_000)
