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

const BOUND = { cap: CAP, validSeconds: 600 }

test('a day has its cap, over restarts; what was never sent is given back to its own day', () => {
  const path = join(dir, 'restarts.db')
  let now = NOON
  const open = () => spendingIn(path, () => now)
  const first = open()
  const reserved = first.reserve(PRICE, BOUND) as Reservation
  expect(reserved).toEqual({ id: 1, day: '2026-11-20', amount: PRICE })
  expect(first.reserve(PRICE, BOUND)).toEqual({ left: usdc(40n) })
  first.close()
  const second = open()
  expect(second.reserve(PRICE, BOUND)).toEqual({ left: usdc(40n) })
  now += 24 * 3_600_000
  const other = second.reserve(PRICE, BOUND) as Reservation
  expect(other).toMatchObject({ day: '2026-11-21', amount: PRICE })
  second.release(other)
  second.release(other)
  expect(second.reserve(PRICE, BOUND)).toMatchObject({ day: '2026-11-21' })
  expect(second.reserve(PRICE, BOUND)).toEqual({ left: usdc(40n) })
  second.close()
})

test('a signature of yesterday counts today until its time is over: the seller can spend it then', () => {
  let now = Date.UTC(2026, 10, 20, 23, 59)
  const spending = spendingIn(join(dir, 'midnight.db'), () => now)
  spending.reserve(PRICE, BOUND)
  now += 120_000
  expect(spending.reserve(PRICE, BOUND)).toEqual({ left: usdc(40n) })
  now += (600 + 120) * 1000
  expect(spending.reserve(PRICE, BOUND)).toMatchObject({ day: '2026-11-21' })
  spending.close()
})

test('what was sent is listed when its time is over, and not before', () => {
  let now = NOON
  const spending = spendingIn(join(dir, 'ended.db'), () => now)
  const signature = { network: 'eip155:8453', asset: '0xa', payer: '0xb', nonce: '0xc', validBefore: NOON / 1000 + 600 }
  const reserved = spending.reserve(PRICE, BOUND) as Reservation
  spending.reserve(usdc(1n), BOUND)
  spending.signed(reserved, signature)
  expect(spending.ended()).toEqual([])
  now += (600 + 120) * 1000
  expect(spending.ended()).toEqual([{ reservation: reserved, signature }])
  spending.release(reserved)
  expect([spending.ended(), spending.reserve(usdc(100n), BOUND)]).toEqual([[], { left: usdc(99n) }])
  spending.close()
})

test('two that share a file share its cap', () => {
  const path = join(dir, 'shared.db')
  const [one, other] = [spendingIn(path, () => NOON), spendingIn(path, () => NOON)]
  const granted = Array.from({ length: 20 }, (_, turn) => (turn % 2 === 0 ? one : other).reserve(usdc(10n), BOUND))
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
