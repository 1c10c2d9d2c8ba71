import { expect, test } from 'bun:test'
import { settledCache } from '../../../adapters/storage/sqlite/settled_cache.ts'
import { BALANCE_LAG_MS, type ExposedCall, SETTLED_LOOKBACK_MS } from '../../../core/payment/mod.ts'
import { usdc } from '../../../core/x402/money.ts'

const T = 1_800_000_000_000
const WALLET = { payer: '0xa', asset: 'usdc' }
const NO_CALLS = { hasPaid: false, calls: [] }

const settled = (id: string, settledAt: number, block: number | null = null): ExposedCall => ({
  id,
  endpoint: 'e',
  quote: usdc(5n),
  charge: null,
  workStatus: 'completed',
  paymentStatus: 'settled',
  startedAt: null,
  settledAt,
  bindingStatus: null,
  bindingExpiresAt: null,
  block,
})

const idsOf = ({ calls }: { readonly calls: readonly ExposedCall[] }) => calls.map(({ id }) => id)

test('settlements of a wallet are read once, and later ones are added to them', () => {
  let loads = 0
  const cache = settledCache(() => ({ ...NO_CALLS, calls: loads++ === 0 ? [settled('first', T)] : [] }))
  expect(idsOf(cache.of(WALLET, { asOf: T }))).toEqual(['first'])
  cache.note(WALLET, settled('second', T + 1))
  const { hasPaid, calls } = cache.of(WALLET, { asOf: T + 2 })
  expect([hasPaid, idsOf({ calls }), loads]).toEqual([true, ['first', 'second'], 1])
  cache.note({ ...WALLET, payer: '0xb' }, settled('other', T))
  expect(idsOf(cache.of(WALLET, { asOf: T + 2 }))).toEqual(['first', 'second'])
})

test('what was answered does not change with what is noted later', () => {
  const loaded = [settled('first', T)]
  const cache = settledCache(() => ({ hasPaid: true, calls: loaded }))
  const answered = cache.of(WALLET, { asOf: T })
  cache.note(WALLET, settled('second', T))
  expect([idsOf(answered), loaded.length]).toEqual([['first'], 1])
})

test('a settlement is left out to the millisecond once it is too old', () => {
  const cache = settledCache(() => ({ hasPaid: true, calls: [settled('old', T, 9), settled('new', T + 500, 9)] }))
  const at = (asOf: number) => idsOf(cache.of(WALLET, { asOf, block: 8 }))
  const end = T + SETTLED_LOOKBACK_MS
  expect([at(T), at(end), at(end + 1)]).toEqual([['old', 'new'], ['old', 'new'], ['new']])
  expect([at(end + 500), at(end + 501), at(end + 5_000)]).toEqual([['new'], [], []])
})

test('without a block a settlement counts for as long as a balance may lag behind', () => {
  const cache = settledCache(() => ({ hasPaid: true, calls: [settled('one', T)] }))
  const at = (asOf: number) => idsOf(cache.of(WALLET, { asOf }))
  expect([at(T + BALANCE_LAG_MS), at(T + BALANCE_LAG_MS + 1)]).toEqual([['one'], []])
})

test('an earlier balance than what is remembered reads the settlements again', () => {
  const starts: number[] = []
  const cache = settledCache((_, since) => (starts.push(since), NO_CALLS))
  for (const asOf of [T, T - 1, T + 5_000, T + 4_000, T + 5_001]) cache.of(WALLET, { asOf })
  expect(starts).toEqual([T, T - 1, T + 4_000].map((asOf) => asOf - SETTLED_LOOKBACK_MS))
})
