/** The errors of deposits, refunds and children that were not made. */
import { expect, test } from 'bun:test'
import { errorReply } from '../../../../core/http/error_formats.ts'
import { notDone } from '../../../../core/products/keys/presented.ts'

test('a refund beside calls that change the channel is 402 with Retry-After, and one of nothing has none (contract 23.11)', () => {
  const answer = (code: 'PAYMENT_INVALID' | 'PAYMENT_UNFUNDED', problem: string) => {
    const corrected = { error: `invalid_batch_settlement_evm_${problem}`, extra: {} }
    const { status, headers } = errorReply(notDone({ kind: 'refused', code, reason: problem, corrected }), 'plain')
    return [status, headers['retry-after']]
  }
  expect(answer('PAYMENT_INVALID', 'cumulative_amount_mismatch')).toEqual([402, '3'])
  expect(answer('PAYMENT_UNFUNDED', 'channel_busy')).toEqual([402, '3'])
  expect(answer('PAYMENT_UNFUNDED', 'refund_no_balance')).toEqual([402, undefined])
})
