import { describe, expect, test } from 'bun:test'
import { type End, ENDS, isPaid, meaningOf, type Moment, type Paying, reasonOf } from '../../../core/payment/outcome.ts'
import type { Call } from '../../../core/ports/mod.ts'
import { newCall } from '../../conformance/storage_questions.ts'

const reason = 'because of the chain'
const OTHER = newCall('other') as unknown as Call
const RECEIPT = { success: true, transaction: '0xt', network: 'eip155:8453', payer: '0xp', amount: '1000' }

const PAYING: Readonly<Record<End, Paying>> = {
  settled: { kind: 'settled', receipt: RECEIPT as never, now: true },
  free: { kind: 'free' },
  refused: { kind: 'refused', reason },
  rejected: { kind: 'rejected', code: 'PAYMENT_INVALID', reason },
  replayed: { kind: 'replayed', call: OTHER },
  unavailable: { kind: 'unavailable', reason },
  expired: { kind: 'unavailable', reason },
  unknown: { kind: 'unknown', reason },
  elsewhere: { kind: 'unknown', reason, isElsewhere: true },
  unresolved: { kind: 'unresolved', reason },
}

/**
 * `+` is noted as unpaid; `?` only where the authorization has expired or the work has cost the operator. Every cell
 * was read off the code that decided it before there was a table.
 */
const CELLS = `
                inline     hybrid    answer     background  poll      resend    second_payment
  settled       serve      serve     serve      serve       serve     serve     serve+
  free          serve      serve     serve      serve       serve     serve     pending
  refused       withhold?  withhold  withhold+  pending     withhold  withhold  withhold
  rejected      withhold?  withhold  withhold+  pending     withhold  withhold  withhold
  replayed      withhold?  withhold  withhold+  pending     withhold  withhold  withhold
  unavailable   serve+     pending   serve+     pending     pending   pending   withhold
  expired       withhold   pending   withhold+  pending     pending   pending   withhold
  unknown       serve+     pending   serve+     pending     pending   serve     pending
  elsewhere     serve+     pending   serve+     pending     pending   pending   pending
  unresolved    serve+     pending   serve+     pending     serve     serve     pending`

const [header = '', ...lines] = CELLS.trim().split('\n')
const moments = header.trim().split(/\s+/) as readonly Moment[]
const cells = lines.flatMap((line) => {
  const [end, ...row] = line.trim().split(/\s+/)
  return moments.map((moment, at) => [moment, end as End, row[at] ?? ''] as const)
})

const replyIn = (cell: string) => cell.replace(/[+?]$/, '')

describe('what the end of a settlement means', () => {
  test('is known for each of ten ends at each of seven moments', () => {
    expect(cells.length).toBe(70)
    expect(lines.map((line) => line.trim().split(/\s+/)[0])).toEqual([...ENDS])
  })

  test.each(cells)('%s, %s: %s', (moment, end, cell) => {
    const isExpired = end === 'expired'
    const note = cell.endsWith('+') ? 'unpaid' : 'none'
    expect(meaningOf(PAYING[end], { moment, isExpired }) as unknown).toEqual({ reply: replyIn(cell), note })
  })

  const others = cells.filter(([, end]) => end !== 'expired' && end !== 'unavailable')
  test.each(others)('%s, %s, of an authorization that has expired: %s', (moment, end, cell) => {
    const note = /[+?]$/.test(cell) ? 'unpaid' : 'none'
    expect(meaningOf(PAYING[end], { moment, isExpired: true }) as unknown).toEqual({ reply: replyIn(cell), note })
  })

  test.each(cells)('%s, %s, of work that has cost the operator: %s', (moment, end, cell) => {
    const note = /[+?]$/.test(cell) ? 'unpaid' : 'none'
    const at = { moment, isExpired: end === 'expired', costsOperator: true }
    expect(meaningOf(PAYING[end], at) as unknown).toEqual({ reply: replyIn(cell), note })
  })
})

test('nothing is left to pay once a call is settled or free', () => {
  expect(ENDS.filter((end) => isPaid(PAYING[end]))).toEqual(['settled', 'free'])
})

test('the buyer reads why it was not paid, and nothing of another call', () => {
  const unpaid = ENDS.map((end) => PAYING[end]).filter((paying) => !isPaid(paying))
  const reasons = new Set(unpaid.map((paying) => reasonOf(paying as Parameters<typeof reasonOf>[0])))
  expect([...reasons]).toEqual([reason, 'the authorization serves another call'])
})
