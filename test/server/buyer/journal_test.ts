/** The cap per day of a local wallet: over restarts, processes, midnight and damaged files. */
import { afterAll, expect, test } from 'bun:test'
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { usdc } from '../../../core/mod.ts'
import { journalPath, openJournal, type Reservation } from '../../../server/buyer/journal.ts'

const dir = mkdtempSync(join(tmpdir(), 'farebox-spending-'))
afterAll(() => rmSync(dir, { recursive: true }))
const NOON = Date.UTC(2026, 10, 20, 12)
const [CAP, PRICE] = [usdc(100n), usdc(60n)]

const BOUND = { cap: CAP, validSeconds: 600 }

test('a day has its cap, over restarts; what was never sent is given back to its own day', () => {
  const path = join(dir, 'restarts.db')
  let now = NOON
  const open = () => openJournal(path, () => now)
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
  const spending = openJournal(join(dir, 'midnight.db'), () => now)
  spending.reserve(PRICE, BOUND)
  now += 120_000
  expect(spending.reserve(PRICE, BOUND)).toEqual({ left: usdc(40n) })
  now += (600 + 120) * 1000
  expect(spending.reserve(PRICE, BOUND)).toMatchObject({ day: '2026-11-21' })
  spending.close()
})

test('what was sent is listed when its time is over, and not before', () => {
  let now = NOON
  const spending = openJournal(join(dir, 'ended.db'), () => now)
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
  const [one, other] = [openJournal(path, () => NOON), openJournal(path, () => NOON)]
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
    expect(() => openJournal(path, () => NOON)).toThrow('is no record of what was spent')
  },
)

test('a signature that was spent for less counts for what was spent, once', () => {
  const journal = openJournal(join(dir, 'spent.db'), () => NOON)
  const reserved = journal.reserve(PRICE, BOUND) as Reservation
  journal.spent(reserved, usdc(10n))
  journal.spent(reserved, usdc(10n))
  journal.release(reserved)
  expect(journal.today()).toBe(usdc(10n))
  const other = journal.reserve(PRICE, BOUND) as Reservation
  journal.spent(other, usdc(1_000n))
  expect(journal.today()).toBe(usdc(70n))
  journal.close()
})

test('vouchers of a channel count by how far they raise its highest ceiling, over processes and the cap of the day', () => {
  const path = join(dir, 'vouchers.db')
  const [one, other] = [openJournal(path, () => NOON), openJournal(path, () => NOON)]
  const to = (amount: bigint) => ({ channel: '0xc1', amount: usdc(amount) })
  expect(one.reserveVoucher(to(60n), CAP)).toMatchObject({ amount: 60n })
  expect(other.reserveVoucher(to(65n), CAP)).toMatchObject({ amount: 5n })
  expect(one.reserveVoucher(to(65n), CAP)).toMatchObject({ amount: 0n })
  expect(one.reserveVoucher(to(101n), CAP)).toEqual({ left: usdc(35n) })
  expect(one.reserveVoucher({ channel: '0xc2', amount: usdc(36n) }, CAP)).toEqual({ left: usdc(35n) })
  expect(one.today()).toBe(usdc(65n))
  one.close()
  other.close()
})

test('a voucher that was never sent is taken back, unless a higher one was signed', () => {
  const journal = openJournal(join(dir, 'unsent.db'), () => NOON)
  const to = (amount: bigint) => ({ channel: '0xc1', amount: usdc(amount) })
  journal.reserveVoucher(to(40n), CAP)
  const unsent = journal.reserveVoucher(to(60n), CAP) as Reservation
  journal.releaseVoucher(to(60n), unsent)
  journal.releaseVoucher(to(60n), unsent)
  expect(journal.today()).toBe(usdc(40n))
  const again = journal.reserveVoucher(to(60n), CAP) as Reservation
  journal.reserveVoucher(to(70n), CAP)
  journal.releaseVoucher(to(60n), again)
  expect(journal.today()).toBe(usdc(70n))
  journal.close()
})

test('the journal that farebox mcp had alone becomes the one of all commands, with what was spent', () => {
  const home = join(dir, 'home')
  const former = join(home, '.farebox/mcp_spending.db')
  mkdirSync(join(home, '.farebox'), { recursive: true })
  const before = openJournal(former, () => NOON)
  before.reserve(PRICE, BOUND)
  before.close()
  const journal = openJournal(journalPath(home), () => NOON)
  expect([existsSync(former), journal.reserve(PRICE, BOUND)]).toEqual([false, { left: usdc(40n) }])
  journal.close()
  expect(journalPath(home)).toBe(join(home, '.farebox/spending.db'))
})
