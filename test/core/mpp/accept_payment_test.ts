import { expect, test } from 'bun:test'
import { acceptanceOf } from '../../../core/mpp/accept_payment.ts'

test.each([
  [null, 'unasked'],
  ['evm/charge', 'accepted'],
  ['EVM/charge', 'accepted'],
  ['tempo/*, evm/*;q=0.5', 'accepted'],
  ['*/*', 'accepted'],
  ['evm/charge;q=0', 'refused'],
  ['*/*, evm/charge;q=0', 'refused'],
  ['evm/charge;q=0.001, */*;q=0', 'accepted'],
  ['*/charge;q=0, evm/*', 'accepted'],
  ['tempo/charge', 'unasked'],
  ['evm/session', 'unasked'],
  ['evm', 'unasked'],
  ['evm/charge;q=2', 'unasked'],
  ['', 'unasked'],
] as const)('Accept-Payment %p says of evm/charge: %s; the most specific range decides', (header, acceptance) => {
  expect(acceptanceOf(header, 'evm')).toBe(acceptance)
})

test('an Accept-Payment of more than four kilobytes counts as absent', () => {
  expect(acceptanceOf(`${'evm/charge, '.repeat(500)}evm/charge`, 'evm')).toBe('unasked')
})
