/** The cap per day of a local wallet: over restarts, processes, midnight and damaged files. */
import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { usdc } from '../../../core/mod.ts'
import type { Reservation } from '../../../server/wiring/spending.ts'
import { spendingIn } from '../../../server/wiring/spending.ts'

const dir = mkdtempSync(join(tmpdir(), 'farebox-spending-'))
afterAll(() => rmSync(dir, { recursive: true }))
const NOON = Date.UTC(2026, 10, 20, 12)
const [CAP, PRICE] = [usdc(100n), usdc(60n)]

test('a day has its cap, over restarts; what was not charged is given back to its own day', () => {
  const path = join(dir, 'restarts.db')
  let now = NOON
  const open = () => spendingIn(path, () => now)
  const first = open()
  const reserved = first.reserve(PRICE, CAP) as Reservation
  expect(reserved).toEqual({ day: '2026-11-20', amount: PRICE })
  expect(first.reserve(PRICE, CAP)).toEqual({ left: usdc(40n) })
  first.close()
  const second = open()
  expect(second.reserve(PRICE, CAP)).toEqual({ left: usdc(40n) })
  now += 24 * 3_600_000
  expect(second.reserve(PRICE, CAP)).toEqual({ day: '2026-11-21', amount: PRICE })
  second.release(reserved)
  expect(second.reserve(PRICE, CAP)).toEqual({ left: usdc(40n) })
  now = NOON
  expect(second.reserve(PRICE, CAP)).toEqual({ day: '2026-11-20', amount: PRICE })
  second.close()
})

test('two that share a file share its cap', () => {
  const path = join(dir, 'shared.db')
  const [one, other] = [spendingIn(path, () => NOON), spendingIn(path, () => NOON)]
  const granted = Array.from({ length: 20 }, (_, turn) => (turn % 2 === 0 ? one : other).reserve(usdc(10n), CAP))
  expect(granted.filter((each) => 'day' in each).length).toBe(10)
  expect(statSync(path).mode & 0o077).toBe(0)
  one.close()
  other.close()
})

test.each(['{}', 'not a database, but a text of some length that SQLite would read as its header'])(
  'a file that is no record stops every payment: %s',
  (text) => {
    const path = join(dir, `broken-${text.length}.db`)
    writeFileSync(path, text)
    expect(() => spendingIn(path, () => NOON)).toThrow('is no record of what was spent')
  },
)
