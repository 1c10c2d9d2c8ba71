/** A payment with a deposit: the deposit is on chain before any work begins. */
import { describe, expect, test } from 'bun:test'
import type { Hex } from '../../../adapters/chains/lib/hex.ts'
import { wholeAnswer } from '../../fakes/chat.ts'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import type { Offer } from '../../../core/mod.ts'
import { voucherBuyer, voucherChain } from '../../adapters/chains/evm/channels/vouchers.ts'
import { decodeHeader } from '../../kit.ts'
import { SKY, table } from '../call/stream_kit.ts'

const DEPOSIT = 10_000n

type Sending = (nonce: Hex) => 'mined' | 'reverted' | 'lost'

/** A seller whose channels have what was deposited by mined transactions, and the order in which things happened. */
async function seller({
  sending = () => 'mined',
  answer = wholeAnswer,
}: { sending?: Sending; answer?: () => any } = {}) {
  const storage = memoryStorage()
  const events: string[] = []
  let balance = 0n
  const chain = voucherChain(
    storage,
    [],
    () => [[balance, 0n], [0n, 0n], [0n]],
    (nonce) => {
      const end = sending(nonce)
      events.push(`deposit ${end}`)
      if (end !== 'reverted') balance = DEPOSIT
      return end
    },
  )
  const subject = await table(
    async () => {
      events.push('work')
      return answer()
    },
    { ports: { storage, chain } },
  )
  const offer: Offer = decodeHeader((await subject.post(SKY)).headers.get('payment-required')).accepts[0]
  const calls = () => storage.listCalls({ since: 0, until: Number.MAX_SAFE_INTEGER, limit: 99 })
  const opening = (salt: number) =>
    voucherBuyer('alice', {
      payTo: offer.payTo,
      asset: offer.asset,
      extra: offer.extra ?? {},
      salt: BigInt(salt),
    }).open(offer, DEPOSIT)
  return { ...subject, events, offer, calls, opening }
}

describe('a payment with a deposit', () => {
  test('is worked on once its deposit is mined (contract 1.94)', async () => {
    const subject = await seller()
    expect((await subject.post(SKY, { payment: await subject.opening(1) })).status).toBe(200)
    expect(subject.events).toEqual(['deposit mined', 'work'])
  })

  test('has money for one call in twenty channels: one is answered, and no more is worked on (contract 1.94)', async () => {
    let sent = 0
    const subject = await seller({ sending: () => (sent++ === 0 ? 'mined' : 'reverted') })
    const payments = await Promise.all(Array.from({ length: 20 }, (_, salt) => subject.opening(salt)))
    const replies = await Promise.all(payments.map((payment) => subject.post(SKY, { payment })))
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(1)
    expect(subject.events.filter((event) => event === 'work')).toHaveLength(1)
    const calls = await subject.calls()
    expect(calls.filter(({ workStatus }) => workStatus === 'failed')).toHaveLength(19)
  })

  test('that reverts is refused with the reason, unpaid, and five of sixty are sent (contract 1.94)', async () => {
    const subject = await seller({ sending: () => 'reverted' })
    for (let salt = 0; salt < 60; salt++) {
      const response = await subject.post(SKY, { payment: await subject.opening(salt) })
      expect([response.status, await response.json()]).toMatchObject([
        402,
        { code: 'PAYMENT_UNFUNDED', debug: expect.stringContaining('deposit_transaction_failed') },
      ])
    }
    expect(subject.events).toEqual(Array.from({ length: 5 }, () => 'deposit reverted'))
    for (const call of await subject.calls())
      expect(call).toMatchObject({ workStatus: 'failed', paymentStatus: 'verified' })
  })

  test('owes nothing where the work fails, and learns what its channel has; the next voucher pays (contract 1.94)', async () => {
    let answers = 0
    const subject = await seller({
      answer() {
        if (answers++ === 0) throw new Error('no answer')
        return wholeAnswer()
      },
    })
    const failed = await subject.post(SKY, { payment: await subject.opening(1) })
    expect(failed.status).toBeGreaterThanOrEqual(500)
    expect(decodeHeader(failed.headers.get('payment-response'))).toMatchObject({
      success: false,
      extra: { channelState: { balance: String(DEPOSIT), chargedCumulativeAmount: '0' } },
    })
    const { payTo, asset, extra = {} } = subject.offer
    const voucher = await voucherBuyer('alice', { payTo, asset, extra, salt: 1n }).sign(subject.offer, 0n)
    expect((await subject.post(SKY, { payment: voucher })).status).toBe(200)
    expect(subject.events).toEqual(['deposit mined', 'work', 'work'])
  })

  test('whose deposit is lost from sight is found by the same request, and not sent again (contract 1.94)', async () => {
    const subject = await seller({ sending: () => 'lost' })
    const payment = await subject.opening(1)
    for (let time = 0; time < 2; time++) await subject.post(SKY, { payment })
    expect(subject.events.filter((event) => event === 'deposit lost')).toHaveLength(1)
    expect((await subject.calls()).map(({ paymentStatus }) => paymentStatus)).toEqual(['settled'])
  })
})
