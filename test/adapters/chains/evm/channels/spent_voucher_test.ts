/** Vouchers that have paid are public: claims publish them. What they allow above the charge buys nothing. */
import { expect, test } from 'bun:test'
import { memoryStorage } from '../../../../../adapters/storage/memory/mod.ts'
import { usdc } from '../../../../../core/x402/money.ts'
import { offerOf } from '../../../../../core/x402/offer.ts'
import { voucherBuyer, voucherChain } from './vouchers.ts'

const T = 1_795_132_800_000

function setup() {
  const chain = voucherChain(memoryStorage())
  const [terms] = chain.terms(T)
  if (!terms) throw new Error('it sells nothing')
  const at = { now: T, signal: new AbortController().signal }
  const offerFor = (amount: bigint) => offerOf(terms, { amount: usdc(amount), maxTimeoutSeconds: 600 })
  const { sign } = voucherBuyer('alice')
  /** A purchase that is quoted at `quote` and charged `charge`. */
  async function buy(base: bigint, { quote, charge }: { quote: bigint; charge: bigint }) {
    const offer = offerFor(quote)
    return await chain.settle(await sign(offer, base), offer, { ...at, charge: usdc(charge) })
  }
  async function verify(base: bigint, quote: bigint) {
    const offer = offerFor(quote)
    return await chain.verify(await sign(offer, base), offer, at)
  }
  async function fate(base: bigint, quote: bigint) {
    const offer = offerFor(quote)
    return await chain.fate(await sign(offer, base), offer, at)
  }
  return { buy, verify, fate }
}

test('a voucher that has paid buys nothing more with what it allows above the charge (contract 1.97)', async () => {
  const { buy, verify } = setup()
  expect(await buy(0n, { quote: 8_700n, charge: 700n })).toMatchObject({ kind: 'settled' })
  // Whoever has read the voucher of 8,700 orders at 8,000.
  expect(await verify(700n, 8_000n)).toMatchObject({ kind: 'refused', code: 'PAYMENT_REPLAY' })
  expect(await verify(700n, 2_000n)).toMatchObject({ kind: 'valid' })
  expect(await buy(700n, { quote: 2_000n, charge: 2_000n })).toMatchObject({ kind: 'settled' })
  expect(await verify(2_700n, 6_000n)).toMatchObject({ kind: 'refused', code: 'PAYMENT_REPLAY' })
  expect(await verify(2_700n, 6_001n)).toMatchObject({ kind: 'valid' })
})

test('of a channel with many such vouchers, the lowest of them still buys nothing', async () => {
  const { buy, verify } = setup()
  for (let base = 0n; base < 70n; base++)
    expect(await buy(base, { quote: 9_000n, charge: 1n })).toMatchObject({ kind: 'settled' })
  expect(await verify(70n, 8_930n)).toMatchObject({ kind: 'refused', code: 'PAYMENT_REPLAY' })
  expect(await verify(70n, 9_000n)).toMatchObject({ kind: 'valid' })
})

test('a voucher that has paid proves no wallet to a poll at the price that it would still allow (contract 1.97)', async () => {
  const { buy, fate } = setup()
  expect(await buy(0n, { quote: 8_700n, charge: 700n })).toMatchObject({ kind: 'settled' })
  expect(await fate(700n, 8_000n)).toEqual({ kind: 'dead', code: 'PAYMENT_REPLAY' })
  expect(await fate(700n, 2_000n)).toEqual({ kind: 'open' })
  expect(await fate(0n, 8_700n)).toMatchObject({ kind: 'paid' })
})
