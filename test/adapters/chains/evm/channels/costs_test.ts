/** Gas that the gateway pays for deposits and refunds of channels, and its price in return. */
import { describe, expect, test } from 'bun:test'
import { channelCosts, DEPOSIT_GAS, REFUND_GAS } from '../../../../../adapters/chains/evm/channels/costs.ts'
import { memoryStorage } from '../../../../../adapters/storage/memory/mod.ts'
import { usdc } from '../../../../../core/x402/money.ts'
import { offerOf } from '../../../../../core/x402/offer.ts'
import { voucherBuyer, voucherChain } from './vouchers.ts'

const PRICE = 1_000n
const NOW = 1_795_132_800_000
const at = { now: NOW, signal: new AbortController().signal }
/** A busy hour of a rollup, in wei, and a high price of ether: 270,000 gas cost 0.0216 USDC. */
const priced = (gasPerWallet = 2_000_000n, gasPrice = 20_000_000n) =>
  channelCosts({ gasPrice: () => gasPrice, coinPrice: 4_000, minDeposit: 100_000n, gasPerWallet })

type End = 'mined' | 'reverted' | 'used up' | 'lost'

function seller(gasPerWallet?: bigint, gasPrice?: bigint, end: End | (() => End) = 'mined') {
  const refunded: bigint[] = []
  const sent: string[] = []
  const sending = (nonce: string) => (sent.push(nonce), typeof end === 'string' ? end : end())
  const alerts: string[] = []
  const alert = (message: string) => void alerts.push(message)
  const costs = priced(gasPerWallet, gasPrice)
  const chain = voucherChain(memoryStorage(), refunded, undefined, sending, costs, false, alert)
  const [terms] = chain.terms(NOW)
  if (!terms) throw new Error('it sells nothing')
  const offer = offerOf(terms, { amount: usdc(PRICE), maxTimeoutSeconds: 60 })
  return { chain, offer, terms, refunded, sent, alerts }
}

describe('gas of channels', () => {
  test('the offer asks for deposits worth ten lives of a channel, and says when a refund pays (contract 1.98)', () => {
    expect(seller().terms.extra).toMatchObject({ minDeposit: '500000', refundableFrom: '50000' })
    const free = channelCosts({ gasPrice: () => 20_000_000n, coinPrice: 0, minDeposit: 100_000n, gasPerWallet: 1n })
    expect([free.minDeposit(), free.refundableFrom()]).toEqual([100_000n, 0n])
  })

  test('deposit, buy for 0.001, refund: the refund waits for purchases that pay for its gas (contract 1.98)', async () => {
    const { chain, offer, refunded } = seller()
    const buyer = voucherBuyer('alice')
    expect(await chain.secure?.(await buyer.open(offer, 500_000n), offer, at)).toMatchObject({ kind: 'secured' })
    const refund = async (charged: bigint) =>
      chain.refund?.(await buyer.refund(offer, charged), offer, {
        ...at,
        isFree: async () => true,
        isFrom: async () => true,
      })
    const refusal = { kind: 'refused', reason: expect.stringContaining('refund_not_covered') }
    expect(await refund(0n)).toMatchObject(refusal)
    let charged = 0n
    for (; charged < 22_000n; charged += PRICE)
      expect(await chain.settle(await buyer.sign(offer, charged), offer, at)).toMatchObject({ kind: 'settled' })
    expect(await refund(charged)).toMatchObject(refusal)
    expect(refunded).toEqual([])
    await chain.settle(await buyer.sign(offer, charged), offer, at)
    expect(await refund(charged + PRICE)).toMatchObject({ kind: 'refunded' })
    expect(refunded).toHaveLength(1)
  })

  test('an hour of deposits of one wallet costs at most what the setting says (contract 1.98)', async () => {
    const { chain, offer, sent } = seller()
    for (let salt = 1n; salt <= 60n; salt++) {
      const buyer = voucherBuyer('alice', { ...offer, extra: offer.extra ?? {}, salt })
      await chain.secure?.(await buyer.open(offer, 500_000n), offer, at)
    }
    expect(sent).toHaveLength(16)
    expect(BigInt(sent.length) * DEPOSIT_GAS).toBeLessThanOrEqual(2_000_000n)
    const later = { ...at, now: NOW + 3_600_001 }
    const buyer = voucherBuyer('alice', { ...offer, extra: offer.extra ?? {}, salt: 61n })
    expect(await chain.secure?.(await buyer.open(offer, 500_000n), offer, later)).toMatchObject({ kind: 'secured' })
    expect(DEPOSIT_GAS + REFUND_GAS).toBe(280_000n)
  })

  test('an hour of first deposits that revert costs at most five times what the setting says, of however many wallets (contract 1.98)', async () => {
    let end: End = 'mined'
    const { chain, offer, sent, alerts } = seller(540_000n, 0n, () => end)
    const buyers = Array.from({ length: 60 }, (_, i) => voucherBuyer(`buyer ${i}`))
    const open = async (all: typeof buyers, now = NOW) =>
      await Promise.all(
        all.map(async (buyer) => chain.secure?.(await buyer.open(offer, 500_000n), offer, { ...at, now })),
      )
    const known = voucherBuyer('alice')
    expect((await open([known, ...buyers.slice(0, 20)])).map((each) => each?.kind)).toEqual(Array(21).fill('secured'))
    end = 'reverted'
    const before = sent.length
    await open(buyers.slice(20))
    expect([sent.length - before, alerts]).toEqual([22, ['deposits revert on chain: new channels wait']])
    const [refused] = await open([voucherBuyer('bob')])
    expect(refused).toMatchObject({ kind: 'refused', reason: expect.stringContaining('reverted on chain too often') })
    end = 'mined'
    const more = await known.open(offer, 500_000n, { number: 2n })
    expect(await chain.secure?.(more, offer, at)).toMatchObject({ kind: 'secured' })
    expect(await open([voucherBuyer('bob')], NOW + 3_600_001)).toMatchObject([{ kind: 'secured' }])
  })

  test('more first deposits at once than may revert in an hour wait for those before them, and are taken then', async () => {
    const { chain, offer, sent, alerts } = seller(540_000n, 0n)
    const payments = await Promise.all(
      Array.from({ length: 30 }, (_, i) => voucherBuyer(`buyer ${i}`).open(offer, 500_000n)),
    )
    const open = async () =>
      await Promise.all(payments.map(async (payment) => (await chain.secure?.(payment, offer, at))?.kind))
    const kinds = await open()
    expect(
      [kinds.filter((kind) => kind === 'secured'), kinds.filter((kind) => kind === 'unavailable')].map(
        ({ length }) => length,
      ),
    ).toEqual([22, 8])
    expect([await open(), sent.length, alerts]).toEqual([Array(30).fill('secured'), 30, []])
  })

  test('a deposit whose payer has used up its nonce counts as one that reverts, into new and known channels (contract 1.98)', async () => {
    let end: End = 'used up'
    const { chain, offer, sent, alerts } = seller(540_000n, 0n, () => end)
    const open = async (buyer: ReturnType<typeof voucherBuyer>, number = 1n) =>
      await chain.secure?.(await buyer.open(offer, 500_000n, { number }), offer, at)
    const buyers = Array.from({ length: 30 }, (_, i) => voucherBuyer(`buyer ${i}`))
    for (const buyer of buyers) await open(buyer)
    expect(sent).toHaveLength(22)
    const known = buyers.slice(0, 22)
    for (const number of [2n, 3n]) for (const buyer of known) await open(buyer, number)
    expect([sent.length, alerts.length]).toEqual([44, 2])
    end = 'mined'
    expect(await open(voucherBuyer('bob'))).toMatchObject({ kind: 'refused' })
  })

  test('a deposit that reverts while many others are under way alerts nobody', async () => {
    let sent = 0
    const { chain, offer, alerts } = seller(540_000n, 0n, () => (sent++ === 0 ? 'reverted' : 'mined'))
    const buyers = Array.from({ length: 22 }, (_, i) => voucherBuyer(`buyer ${i}`))
    const payments = await Promise.all(buyers.map((buyer) => buyer.open(offer, 500_000n)))
    await Promise.all(payments.map(async (payment) => await chain.secure?.(payment, offer, at)))
    expect([sent, alerts]).toEqual([22, []])
  })

  test('deposits into known channels that revert have a bound over all wallets too (contract 1.98)', async () => {
    let end: End = 'mined'
    const { chain, offer, sent, alerts } = seller(540_000n, 0n, () => end)
    const buyers = Array.from({ length: 20 }, (_, i) => voucherBuyer(`buyer ${i}`))
    for (const buyer of buyers) await chain.secure?.(await buyer.open(offer, 500_000n), offer, at)
    end = 'reverted'
    for (const number of [2n, 3n])
      for (const buyer of buyers) await chain.secure?.(await buyer.open(offer, 500_000n, { number }), offer, at)
    expect([sent.length - buyers.length, alerts]).toEqual([
      22,
      ['deposits revert on chain: deposits into known channels wait'],
    ])
    end = 'mined'
    expect(await chain.secure?.(await voucherBuyer('bob').open(offer, 500_000n), offer, at)).toMatchObject({
      kind: 'secured',
    })
  })

  test('refunds and deposits of one wallet in parallel stay within its budget together (contract 1.98)', async () => {
    const { chain, offer, sent, refunded } = seller(2_800_000n, 0n)
    const channel = (salt: bigint) => voucherBuyer('alice', { ...offer, extra: offer.extra ?? {}, salt })
    const old = Array.from({ length: 8 }, (_, i) => channel(BigInt(i)))
    for (const buyer of old) {
      await chain.secure?.(await buyer.open(offer, 500_000n), offer, at)
      expect(await chain.settle(await buyer.sign(offer, 0n), offer, at)).toMatchObject({ kind: 'settled' })
    }
    const given = { ...at, isFree: async () => true, isFrom: async () => true }
    const refunds = old.map(async (buyer) => await chain.refund?.(await buyer.refund(offer, PRICE), offer, given))
    const deposits = Array.from({ length: 30 }, async (_, i) =>
      chain.secure?.(await channel(100n + BigInt(i)).open(offer, 500_000n), offer, at),
    )
    const ends = await Promise.all([...refunds, ...deposits])
    const spent = BigInt(sent.length) * DEPOSIT_GAS + BigInt(refunded.length) * REFUND_GAS
    expect(spent).toBeGreaterThan(2_800_000n - DEPOSIT_GAS)
    expect(spent).toBeLessThanOrEqual(2_800_000n)
    expect(refunded).toHaveLength(2)
    const refused = ends.filter((end) => end?.kind === 'refused' && end.reason.includes('as much gas for'))
    expect(refused).toHaveLength(38 - refunded.length - (sent.length - 8))
  })

  test('gas that was reserved and not sent is given back (contract 1.98)', () => {
    const costs = priced(REFUND_GAS * 2n)
    const first = costs.reserveRefund('0xAbCd', NOW)
    expect([first, costs.reserveRefund('0xabcd', NOW)]).toMatchObject([{ kind: 'reserved' }, { kind: 'limited' }])
    if (first.kind === 'reserved') first.release()
    expect(costs.reserveRefund('0xabcd', NOW)).toMatchObject({ kind: 'reserved' })
    if (first.kind === 'reserved') first.release()
    expect(costs.reserveRefund('0xabcd', NOW)).toEqual({ kind: 'limited', until: NOW + 3_600_000 })
  })

  test('a deposit that landed without its process is paid for by purchases before a refund (contract 1.98)', async () => {
    const { chain, offer, refunded } = seller(undefined, undefined, 'lost')
    const buyer = voucherBuyer('alice')
    const opening = await buyer.open(offer, 500_000n)
    // Twice: the second finds it landed and noted.
    for (let times = 0; times < 2; times++)
      expect(await chain.secure?.(opening, offer, at)).toMatchObject({ kind: 'secured' })
    const given = { ...at, isFree: async () => true, isFrom: async () => true }
    let charged = 0n
    for (; charged < 22_000n; charged += PRICE)
      expect(await chain.settle(await buyer.sign(offer, charged), offer, at)).toMatchObject({ kind: 'settled' })
    const refusal = { kind: 'refused', reason: expect.stringContaining('refund_not_covered') }
    expect(await chain.refund?.(await buyer.refund(offer, charged), offer, given)).toMatchObject(refusal)
    await chain.settle(await buyer.sign(offer, charged), offer, at)
    expect(await chain.refund?.(await buyer.refund(offer, charged + PRICE), offer, given)).toMatchObject({
      kind: 'refunded',
    })
    expect(refunded).toHaveLength(1)
  })

  test('deposits and refunds share one budget of a wallet, and refunds leave half of it (contract 1.98)', () => {
    const costs = priced(1_040_000n)
    const wallet = '0xAbCd'
    for (let n = 0; n < 3; n++) costs.reserveDeposit(wallet.toLowerCase(), NOW)
    expect(costs.reserveRefund(wallet, NOW)).toMatchObject({ kind: 'reserved' })
    expect(costs.reserveRefund(wallet, NOW)).toEqual({ kind: 'limited', until: NOW + 3_600_000 })
    for (let n = 0; n < 4; n++) expect(costs.reserveDeposit(wallet, NOW)).toMatchObject({ kind: 'reserved' })
    expect(costs.reserveDeposit(wallet, NOW)).toEqual({ kind: 'limited', until: NOW + 3_600_000 })
    expect(costs.depositsLimitedUntil(wallet.toLowerCase(), NOW)).toBe(NOW + 3_600_000)
  })
})
