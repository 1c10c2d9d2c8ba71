import { expect, test } from 'bun:test'
import { newWalletsLimit } from '../../core/payment/unpaid/new_wallets.ts'
import { NO_LIMIT, sybilLoss } from './sybils.ts'

const MINUTES = { minutes: 15, wallets: 4, addresses: 1_000 }

test('fresh wallets from a thousand addresses take no more than the limit within an hour (contract 1.95)', async () => {
  const before = await sybilLoss(NO_LIMIT, MINUTES)
  expect([before.tried, before.taken, before.cost]).toEqual([60, 60, 14_148_540n])
  const late = { ...newWalletsLimit(), streamed: NO_LIMIT.streamed }
  const refused = await sybilLoss(late, MINUTES)
  expect([refused.taken, refused.cost, refused.alerts]).toEqual([16, 3_772_944n, 1])
  const after = await sybilLoss(newWalletsLimit(), MINUTES)
  expect([after.taken, after.quoted, after.cost, after.alerts]).toEqual([4, 98_356n, 943_236n, 1])
  const atOne = await sybilLoss(late, { ...MINUTES, addresses: 1 })
  expect([atOne.taken, atOne.cost]).toEqual([6, 1_414_854n])
})
