/** Refunds of deposits through a gateway, and the calls that they meet. */
import { describe, expect, test } from 'bun:test'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { chatPieces, DONE, wholeAnswer } from '../../fakes/chat.ts'
import { type Chain, type Offer, type Payment, type Storage, timeouts } from '../../../core/mod.ts'
import { encodeHeader } from '../../../core/x402/protocol.ts'
import { voucherBuyer, voucherChain } from '../../adapters/chains/evm/channels/vouchers.ts'
import { decodeHeader, door, FOX, GENERATIONS } from '../../kit.ts'
import { deltaChunk, reading, SKY, STREAM, table, USED } from './stream_kit.ts'

/** 10 tokens in, 2 out, and the fee. */
const CHARGE = 1_017n
const LEFT = 1_000_000_000_000n - CHARGE
const PATH = '/api/v1/chat/completions'

/** A gateway that sells by vouchers, and a buyer whose channel has been charged once. */
async function seller(
  script?: Parameters<typeof table>[0],
  { isShared = false, wrap = (chain) => chain }: { isShared?: boolean; wrap?: (chain: Chain) => Chain } = {},
) {
  const storage: Storage = { ...memoryStorage(), ...(isShared && { isShared }) }
  const refunded: bigint[] = []
  const subject = await table(script, { ports: { storage, chain: wrap(voucherChain(storage, refunded)) } })
  const buyer = voucherBuyer('alice')
  const offer = decodeHeader((await subject.post(SKY)).headers.get('payment-required')).accepts[0] as Offer
  expect((await subject.post(SKY, { payment: await buyer.sign(offer, 0n) })).status).toBe(200)
  const refund = async (charged = CHARGE, method = 'GET') => {
    const headers = { 'payment-signature': encodeHeader(await buyer.refund(offer, charged)) }
    return await subject.gateway.fetch(new Request(`https://shop.example${PATH}`, { method, headers }))
  }
  return { ...subject, storage, refunded, refund, voucher: (base: bigint) => buyer.sign(offer, base) }
}

const errorIn = ({ headers }: Response): string => decodeHeader(headers.get('payment-required')).error
const settledIn = ({ headers }: Response) => decodeHeader(headers.get('payment-response'))
const calls = async ({ storage }: { storage: Storage }) =>
  await storage.listCalls({ since: 0, until: Number.MAX_SAFE_INTEGER, limit: 99 })

describe.each([
  ['one process owns', false],
  ['several processes share', true],
])('a refund where %s the storage', (_, isShared) => {
  test('answers with the receipt of the transaction, by GET or POST without a body, and is in no ledger (contract 1.86)', async () => {
    for (const method of ['GET', 'POST']) {
      const subject = await seller(undefined, { isShared })
      const response = await subject.refund(CHARGE, method)
      expect([response.status, subject.refunded]).toEqual([200, [LEFT]])
      expect(settledIn(response)).toMatchObject({
        success: true,
        transaction: expect.stringMatching(/^0x[0-9a-f]{64}$/),
        amount: String(LEFT),
        extra: { channelState: { balance: String(CHARGE), refundNonce: '1' } },
      })
      expect(await response.json()).toMatchObject({ object: 'refund', amount: '999999.998983', currency: 'USDC' })
      expect(await calls(subject)).toHaveLength(1)
      const again = await subject.refund(CHARGE, method)
      expect([settledIn(again), subject.refunded]).toEqual([settledIn(response), [LEFT]])
      expect(subject.log.lines.filter(({ message }) => message === 'a deposit was refunded')).toHaveLength(1)
    }
  })

  test('is refused while a call of the channel is under way, which is charged (contract 1.87)', async () => {
    const ready = door()
    let answered = 0
    const script = async () => {
      if (++answered === 2) await ready.passed
      return wholeAnswer()
    }
    const subject = await seller(script, { isShared })
    const bought = subject.post(SKY, { payment: await subject.voucher(CHARGE) })
    await subject.clock.settle()
    const refused = await subject.refund()
    expect([refused.status, errorIn(refused)]).toEqual([402, 'invalid_batch_settlement_evm_channel_busy'])
    expect(refused.headers.get('payment-response')).toBeNull()
    ready.open()
    expect((await bought).status).toBe(200)
    expect(errorIn(await subject.refund())).toBe('invalid_batch_settlement_evm_cumulative_amount_mismatch')
    expect(subject.refunded).toEqual([])
    expect((await subject.refund(2n * CHARGE)).status).toBe(200)
    expect(subject.refunded).toEqual([LEFT - CHARGE])
  })

  test('that overtakes a verified payment leaves it unserved and uncharged (contract 1.87)', async () => {
    let answered = 0
    let overtake = async (): Promise<unknown> => undefined
    const wrap = (chain: Chain): Chain => ({
      ...chain,
      async verify(payment, offer, at) {
        const verdict = await chain.verify(payment, offer, at)
        const run = overtake
        overtake = async () => undefined
        await run()
        return verdict
      },
    })
    const script = async () => {
      answered++
      return wholeAnswer()
    }
    const subject = await seller(script, { isShared, wrap })
    overtake = () => subject.refund()
    const bought = await subject.post(SKY, { payment: await subject.voucher(CHARGE) })
    expect([bought.status, answered, subject.refunded]).toEqual([402, 1, [LEFT]])
    expect(await bought.text()).toContain('cumulative_exceeds_balance')
    const all = await calls(subject)
    expect(all.filter(({ paymentStatus }) => paymentStatus === 'settled')).toHaveLength(1)
    expect(all.filter(({ workStatus }) => workStatus !== 'completed' && workStatus !== 'failed')).toEqual([])
  })
})

/** A stream of which its reader has the first piece when its process wakes after a lease, without renewing it. */
async function woken(wrap?: (chain: Chain) => Chain) {
  const first = deltaChunk({ content: 'Hi' })
  const pieces = chatPieces(first)
  let answers = 0
  const script = async () => (answers++ === 0 ? wholeAnswer() : pieces.answer)
  const subject = await seller(script, { isShared: true, ...(wrap && { wrap }) })
  const offer = decodeHeader((await subject.post(STREAM)).headers.get('payment-required')).accepts[0] as Offer
  const reader = reading(await subject.post(STREAM, { payment: await voucherBuyer('alice').sign(offer, CHARGE) }))
  expect(await reader.next()).toBe(first)
  await subject.clock.advance(timeouts.workLeaseMs)
  const goOn = () => pieces.push(deltaChunk({ content: ' there' }), deltaChunk({}, { finish: 'stop' }), USED, DONE)
  return { ...subject, reader, goOn }
}

test('a stream gives nothing more once its deposit went back while its process stood still (contract 1.87)', async () => {
  const subject = await woken()
  expect((await subject.refund()).status).toBe(200)
  subject.goOn()
  const read = await subject.reader.rest()
  await subject.idle()
  expect([read.includes('there'), read.includes('was refunded'), subject.refunded]).toEqual([false, true, [LEFT]])
})

test('a stream whose process stood still goes on once the chain answers again, whole and charged', async () => {
  let isAway = false
  const subject = await woken((chain) => ({
    ...chain,
    verify: async (...given) =>
      isAway ? { kind: 'unavailable', reason: 'connection refused' } : await chain.verify(...given),
  }))
  isAway = true
  subject.goOn()
  const rest = subject.reader.rest()
  await subject.clock.advance(3_000)
  isAway = false
  await subject.clock.advance(2_000)
  const read = await rest
  await subject.idle()
  expect([read.includes('there'), read.endsWith(DONE), subject.refunded]).toEqual([true, true, []])
  expect((await calls(subject)).map(({ paymentStatus }) => paymentStatus)).toEqual(['settled', 'settled'])
})

/** A channel that has bought a picture at its fixed price: what its voucher allows is charged. */
async function boughtPicture() {
  const storage = memoryStorage()
  const refunded: bigint[] = []
  const subject = await table(undefined, { ports: { storage, chain: voucherChain(storage, refunded) } })
  const buyer = voucherBuyer('alice')
  const offer = decodeHeader((await subject.post(FOX, { path: GENERATIONS })).headers.get('payment-required'))
    .accepts[0] as Offer
  const buy = async (base: bigint, ip: string) =>
    await subject.post(FOX, { path: GENERATIONS, payment: await buyer.sign(offer, base), ip })
  const price = BigInt(offer.amount)
  const { payload } = await buyer.sign(offer, 0n)
  /** Nothing is signed for it: a claim on chain has the voucher, and a correction tells the last one. */
  const stolen: Payment = { x402Version: 2, accepted: offer, payload: { ...payload, type: 'refund' } }
  const refund = async (payment: Payment, ip: string) =>
    await subject.post(undefined, { path: GENERATIONS, payment, ip })
  return { ...subject, buyer, offer, price, refunded, stolen, buy, refund }
}

const UNPROVEN = 'invalid_batch_settlement_evm_refund_owner_unproven'

describe('a refund of a channel whose last voucher is charged in full', () => {
  test('is refused to a stranger who has read the voucher, and costs no gas (contract 1.100)', async () => {
    const subject = await boughtPicture()
    expect((await subject.buy(0n, '192.0.2.1')).status).toBe(200)
    const own = await subject.buyer.refund(subject.offer, subject.price)
    expect(subject.stolen).toEqual(own)
    const part = { ...own, payload: { ...own.payload, amount: '1' } }
    for (const ip of ['198.51.100.9', '192.0.2.2', '2001:db8::1', ''])
      for (const payment of [subject.stolen, part]) {
        const refused = await subject.refund(payment, ip)
        expect([refused.status, errorIn(refused)]).toEqual([402, UNPROVEN])
        expect(await refused.json()).toMatchObject({
          code: 'PAYMENT_REPLAY',
          details: expect.stringMatching(/initiateWithdraw, and finalizeWithdraw 900 seconds later/),
        })
      }
    expect(subject.refunded).toEqual([])
  })

  test('is sent to its owner, from the address of the last purchase (contract 1.100)', async () => {
    const subject = await boughtPicture()
    expect((await subject.buy(0n, '2001:db8:1:2::1')).status).toBe(200)
    const own = await subject.buyer.refund(subject.offer, subject.price)
    expect(errorIn(await subject.refund(own, '2001:db8:1:3::1'))).toBe(UNPROVEN)
    expect((await subject.refund(own, '2001:db8:1:2:a:b:c:d')).status).toBe(200)
    expect(subject.refunded).toEqual([LEFT + CHARGE - subject.price])
  })

  test('is sent to whoever buys from a new address first: only the owner can sign that (contract 1.100)', async () => {
    const subject = await boughtPicture()
    expect((await subject.buy(0n, '192.0.2.1')).status).toBe(200)
    expect((await subject.buy(subject.price, '203.0.113.5')).status).toBe(200)
    const own = await subject.buyer.refund(subject.offer, 2n * subject.price)
    expect(errorIn(await subject.refund(own, '192.0.2.1'))).toBe(UNPROVEN)
    expect((await subject.refund(own, '203.0.113.5')).status).toBe(200)
  })
})
