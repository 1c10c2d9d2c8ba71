/** Channels whose payer takes the money back while a call of it is worked on, or lies there uncollected. */
import { expect, test } from 'bun:test'
import { memoryStorage } from '../../../../../adapters/storage/memory/mod.ts'
import { usdc } from '../../../../../core/x402/money.ts'
import { offerOf } from '../../../../../core/x402/offer.ts'
import { voucherBuyer, voucherChain } from './vouchers.ts'

const T = 1_795_132_800_000
const DELAY_MS = 900_000

async function bought() {
  let views = [[50_000n, 0n], [0n, 0n], [0n]]
  const storage = memoryStorage()
  const chain = voucherChain(storage, [], () => views)
  const [terms] = chain.terms(T)
  if (!terms) throw new Error('it sells nothing')
  const offer = offerOf(terms, { amount: usdc(10_000n), maxTimeoutSeconds: 600 })
  const { sign } = voucherBuyer('bob')
  const at = (now: number) => ({ now, signal: new AbortController().signal, charge: usdc(10_000n) })
  expect(await chain.settle(await sign(offer, 0n), offer, at(T))).toMatchObject({ kind: 'settled' })
  const second = await sign(offer, 10_000n)
  const settle = (now: number) => chain.settle(second, offer, at(now))
  return { chain, storage, offer, second, at, settle, show: (next: bigint[][]) => (views = next) }
}

test('who settles by what was read before finds that the payment was declared dead, and charges nothing', async () => {
  const { storage, second, offer, at } = await bought()
  let declare = async () => {}
  // Another replica, whose write comes late.
  const slow = voucherChain({
    ...storage,
    isShared: true,
    async moveRecord(...given) {
      await declare()
      return await storage.moveRecord(...given)
    },
  })
  const other = voucherChain({ ...storage, isShared: true }, [], () => [[10_000n, 10_000n], [0n, 0n], [0n]])
  declare = async () => {
    declare = async () => {}
    expect(await other.fate(second, offer, at(T + 400_000))).toEqual({ kind: 'dead' })
  }
  await slow.settle(second, offer, at(T + 1_000))
  expect(await other.fate(second, offer, at(T + 400_000))).not.toMatchObject({ kind: 'paid' })
})

test('a settlement that nobody waits for any more charges nothing', async () => {
  const { chain, offer, second, at } = await bought()
  const late = { ...at(T), signal: AbortSignal.abort() }
  expect(await chain.settle(second, offer, late)).toMatchObject({ kind: 'unknown' })
  expect(await chain.fate(second, offer, at(T))).toEqual({ kind: 'open' })
})

test('what was taken back is not charged any more, however long the result has waited (contract 1.89)', async () => {
  const { chain, offer, second, at, settle, show } = await bought()
  show([[10_000n, 10_000n], [0n, 0n], [0n]])
  const late = T + DELAY_MS + 1_000
  expect(await chain.drawDown?.(second, offer, at(late))).toBeUndefined()
  expect(await settle(late)).toMatchObject({ kind: 'refused', reason: expect.stringContaining('insufficient_balance') })
  expect(await chain.fate(second, offer, at(late))).toEqual({ kind: 'dead' })
  show([[50_000n, 10_000n], [0n, 0n], [0n]])
  expect(await settle(late)).toMatchObject({ kind: 'settled', receipt: { amount: '10000' } })
})

test('a withdrawal under way counts from five minutes before its end; until then claims are in time', async () => {
  for (const [age, kind] of [
    [DELAY_MS - 300_001, 'settled'],
    [DELAY_MS - 299_000, 'refused'],
  ] as const) {
    const { settle, show } = await bought()
    show([[50_000n, 0n], [40_000n, BigInt(T / 1000)], [0n]])
    expect(await settle(T + age)).toMatchObject({ kind })
  }
})
