/** Calls that are paid from a deposit: in memory while they are worked on, and stored once, done and paid. */
import { describe, expect, test } from 'bun:test'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { streamAnswer, wholeAnswer } from '../../fakes/chat.ts'
import type { Offer, Payment, Storage } from '../../../core/mod.ts'
import { voucherBuyer, voucherChain } from '../../adapters/chains/evm/channels/vouchers.ts'
import { decodeHeader, door, encodePayment, FOX, GENERATIONS, ORIGIN } from '../../kit.ts'
import { HELLO, SKY, STREAM, table } from './stream_kit.ts'

const QUOTE = 2_000n
/** 10 tokens in, 2 out, and the fee. */
const CHARGE = 1_017n
const WRITES = ['openCall', 'recordPaid', 'moveCall', 'claimSettlement', 'finishSettlement', 'putRecord', 'moveRecord']

/** A gateway that sells by vouchers, and a buyer whose channel has been charged once. */
async function seller(
  script?: Parameters<typeof table>[0],
  change: (good: Storage) => Partial<Storage> = () => ({}),
  chainOf: (storage: Storage) => ReturnType<typeof voucherChain> = voucherChain,
) {
  const good = memoryStorage()
  const written: string[] = []
  const spied = WRITES.map((verb) => {
    const run = good[verb as 'openCall'].bind(good) as (...given: unknown[]) => unknown
    return [verb, (...given: unknown[]) => (written.push(verb), run(...given))]
  })
  const storage: Storage = { ...good, ...Object.fromEntries(spied) }
  Object.assign(storage, change({ ...storage }))
  const subject = await table(script, { ports: { storage, chain: chainOf(storage) } })
  const buyer = voucherBuyer('alice')
  const challenge = decodeHeader((await subject.post(SKY)).headers.get('payment-required'))
  const offer = challenge.accepts[0] as Offer
  const voucher = (base: bigint): Promise<Payment> => buyer.sign(offer, base)
  return { ...subject, storage, written, buyer, voucher, offer }
}

const calls = ({ storage }: { storage: Storage }) =>
  storage.listCalls({ since: 0, until: Number.MAX_SAFE_INTEGER, limit: 99 })
const chargedTo = ({ headers }: Response) => BigInt(decodeHeader(headers.get('payment-response')).extra.chargedAmount)

describe('a call that is paid by a voucher', () => {
  test('is written once, done and paid, after the first of its channel (contract 1.85)', async () => {
    const subject = await seller()
    expect((await subject.post(SKY, { payment: await subject.voucher(0n) })).status).toBe(200)
    expect(subject.written).toEqual(['openCall', 'claimSettlement', 'putRecord', 'finishSettlement'])
    subject.written.length = 0
    const response = await subject.post(SKY, { payment: await subject.voucher(CHARGE) })
    expect([response.status, chargedTo(response)]).toEqual([200, CHARGE])
    expect(subject.written).toEqual(['recordPaid'])
    const [entry] = await calls(subject)
    expect(entry).toMatchObject({ workStatus: 'completed', paymentStatus: 'settled', quote: QUOTE, charge: CHARGE })
    expect(subject.log.lines.filter(({ message }) => message === 'a payment was settled')).toHaveLength(2)
  })

  test('is written once as a stream too, whose charge is known at its end (contract 1.85)', async () => {
    const subject = await seller(async () => streamAnswer(HELLO))
    await (await subject.post(STREAM, { payment: await subject.voucher(0n) })).text()
    subject.written.length = 0
    const text = await (await subject.post(STREAM, { payment: await subject.voucher(CHARGE) })).text()
    expect(text).toContain(': x-payment-charged 0.001017\n')
    expect(subject.written).toEqual(['recordPaid'])
  })

  test('takes the usual steps where other processes use the storage, which have to see it (contract 1.85)', async () => {
    const subject = await seller(undefined, () => ({ isShared: true }))
    for (const base of [0n, CHARGE])
      expect((await subject.post(SKY, { payment: await subject.voucher(base) })).status).toBe(200)
    expect(subject.written.filter((verb) => verb === 'openCall')).toHaveLength(2)
    expect(subject.written).not.toContain('recordPaid')
  })

  test('sent twice at once is worked on once, and charged once (contract 1.39, 1.83)', async () => {
    const ready = door()
    let answered = 0
    const subject = await seller(async () => {
      if (++answered === 2) await ready.passed
      return wholeAnswer()
    })
    await subject.post(SKY, { payment: await subject.voucher(0n) })
    const payment = await subject.voucher(CHARGE)
    const first = subject.post(SKY, { payment })
    await subject.clock.settle()
    const second = subject.post({ ...SKY, max_tokens: 99 }, { payment })
    // It waits for the first for a while.
    for (let turn = 0; turn < 40; turn++) await subject.clock.advance(200)
    expect((await second).status).toBe(402)
    ready.open()
    expect((await first).status).toBe(200)
    expect(answered).toBe(2)
    const again = await subject.post(SKY, { payment })
    expect([again.status, answered]).toEqual([200, 2])
    expect((await calls(subject)).map(({ charge }) => charge as bigint)).toEqual([CHARGE, CHARGE])
  })

  test('is not told to whoever orders with what an earlier, public voucher still allows (contract 1.23, 1.42, 1.97)', async () => {
    const ready = door()
    let answered = 0
    const subject = await seller(async () => {
      if (++answered === 2) await ready.passed
      return wholeAnswer()
    })
    const { post, buyer, offer } = subject
    const offerFor = async (max_tokens: number): Promise<Offer> =>
      decodeHeader((await post({ ...SKY, max_tokens })).headers.get('payment-required')).accepts[0]
    const first = await buyer.sign(await offerFor(4_461), 0n)
    expect(first.accepted.amount).toBe(String(CHARGE + QUOTE))
    expect((await post({ ...SKY, max_tokens: 4_461 }, { payment: first })).status).toBe(200)
    const payment = await buyer.sign(await offerFor(2_203), CHARGE)
    const own = post({ ...SKY, max_tokens: 2_203 }, { payment })
    await subject.clock.settle()
    // Whoever has read the first voucher presents it on the next base, at the price that it leaves.
    const answer = post(SKY, { payment: { ...first, accepted: offer }, ip: '198.51.100.66' })
    for (let turn = 0; turn < 40; turn++) await subject.clock.advance(200)
    const text = await (await answer).text()
    expect([(await answer).status, /[?&]key=|job_/.test(text), text.includes('Hello')]).toEqual([402, false, false])
    ready.open()
    expect((await own).status).toBe(200)
  })

  const OTHER = { ...SKY, temperature: 0.5 }
  const CODE = 'invalid_batch_settlement_evm_cumulative_amount_mismatch'

  test('by a voucher of an earlier call is 503 while the channel cannot be read, and names no call (contract 1.27, 1.84)', async () => {
    let isAway = false
    const away = { kind: 'unavailable', reason: 'storage is away' } as const
    const { post, voucher } = await seller(undefined, undefined, (storage) => {
      const chain = voucherChain(storage)
      return { ...chain, verify: async (...given) => (isAway ? away : await chain.verify(...given)) }
    })
    const payment = await voucher(0n)
    expect((await post(SKY, { payment })).status).toBe(200)
    isAway = true
    const early = await post(OTHER, { payment })
    expect([early.status, /job_/.test(await early.text())]).toEqual([503, false])
    isAway = false
    const corrected = await post(OTHER, { payment })
    expect(decodeHeader(corrected.headers.get('payment-required'))).toMatchObject({
      error: CODE,
      accepts: [{ extra: { channelState: { chargedCumulativeAmount: String(CHARGE) } } }],
    })
  })

  test('is collected by whoever knows only the voucher that paid for it: a poll corrects that (contract 1.84, 1.88)', async () => {
    const subject = await seller()
    const { post, gateway, voucher, buyer } = subject
    const payment = await voucher(0n)
    await post(SKY, { payment })
    const [entry] = await calls(subject)
    const poll = async (proof: Payment) =>
      await gateway.fetch(
        new Request(`${ORIGIN}/api/v1/calls/${entry?.id}`, { headers: { 'payment-signature': encodePayment(proof) } }),
        { ip: '192.0.2.1' },
      )
    const refused = decodeHeader((await poll(payment)).headers.get('payment-required'))
    expect(refused).toMatchObject({
      error: CODE,
      accepts: [{ extra: { channelState: { chargedCumulativeAmount: String(CHARGE) } } }],
    })
    const found = await poll(await buyer.sign(refused.accepts[0], CHARGE))
    expect([found.status, (await found.text()).includes('Hello')]).toEqual([200, true])
  })

  test('is written as failed when its work fails, and its voucher is good for another (contract 1.83)', async () => {
    let answered = 0
    const subject = await seller(async () => {
      if (++answered === 2) throw new Error('no paint')
      return wholeAnswer()
    })
    await subject.post(SKY, { payment: await subject.voucher(0n) })
    const payment = await subject.voucher(CHARGE)
    expect((await subject.post(SKY, { payment })).status).toBeGreaterThanOrEqual(500)
    const [failed] = await calls(subject)
    expect(failed).toMatchObject({ workStatus: 'failed', paymentStatus: 'verified' })
    const response = await subject.post(SKY, { payment })
    expect([response.status, chargedTo(response)]).toEqual([200, CHARGE])
  })

  test('whose process dies leaves nothing behind, and its voucher is good for another (contract 1.83)', async () => {
    const ready = door()
    let answered = 0
    const subject = await seller(async () => {
      if (++answered === 2) await ready.passed
      return wholeAnswer()
    })
    await subject.post(SKY, { payment: await subject.voucher(0n) })
    const payment = await subject.voucher(CHARGE)
    void subject.post(SKY, { payment })
    await subject.clock.settle()
    // Another process opens the same database: what the first one had in memory is gone.
    const storage = { ...subject.storage }
    const random = (bytes: number) => crypto.getRandomValues(new Uint8Array(bytes))
    const next = await table(undefined, { ports: { storage, chain: voucherChain(storage), random } })
    const response = await next.post(SKY, { payment })
    expect([response.status, chargedTo(response)]).toEqual([200, CHARGE])
    expect(await calls(subject)).toHaveLength(2)
  })

  test('that storage does not take is neither served nor charged, and can be sent again (contract 1.83)', async () => {
    let fails = 0
    const subject = await seller(undefined, (good) => ({
      recordPaid: (...given) =>
        fails-- > 0 ? Promise.reject(new Error('the disk is full')) : good.recordPaid(...given),
    }))
    await subject.post(SKY, { payment: await subject.voucher(0n) })
    const payment = await subject.voucher(CHARGE)
    fails = 1
    expect((await subject.post(SKY, { payment })).status).toBeGreaterThanOrEqual(500)
    const response = await subject.post(SKY, { payment })
    expect([response.status, chargedTo(response)]).toEqual([200, CHARGE])
    const settled = (await calls(subject)).filter(({ paymentStatus }) => paymentStatus === 'settled')
    expect(settled).toHaveLength(2)
  })

  test('whose storage took it without an answer is charged once, and its result is sent again (contract 1.39, 1.83)', async () => {
    let isDeaf = false
    const subject = await seller(undefined, (good) => ({
      async recordPaid(...given) {
        const answer = await good.recordPaid(...given)
        if (isDeaf) throw new Error('the connection was reset')
        return answer
      },
    }))
    await subject.post(SKY, { payment: await subject.voucher(0n) })
    const payment = await subject.voucher(CHARGE)
    isDeaf = true
    await subject.post(SKY, { payment })
    isDeaf = false
    expect((await subject.post(SKY, { payment })).status).toBe(200)
    const next = await subject.post(SKY, { payment: await subject.voucher(2n * CHARGE) })
    expect([next.status, chargedTo(next)]).toEqual([200, CHARGE])
    expect(await calls(subject)).toHaveLength(3)
  })

  test('that begins while another one is bound to its voucher is not worked on (contract 1.83)', async () => {
    const [stored, isStored] = [door(), door()]
    let isSlow = false
    let answered = 0
    const subject = await seller(
      async () => (answered++, wholeAnswer()),
      (good) => ({
        async openCall(...given) {
          if (!isSlow) return await good.openCall(...given)
          isStored.open()
          await stored.passed
          return await good.openCall(...given)
        },
      }),
    )
    await subject.post(SKY, { payment: await subject.voucher(0n) })
    const challenge = decodeHeader((await subject.post(FOX, { path: GENERATIONS })).headers.get('payment-required'))
    isSlow = true
    // A picture is a job: its call is stored before the work.
    const painting = await subject.buyer.sign(challenge.accepts[0], CHARGE)
    const picture = subject.post(FOX, { path: GENERATIONS, payment: painting })
    await isStored.passed
    const chat = subject.post(SKY, { payment: await subject.voucher(CHARGE) })
    await subject.clock.settle()
    stored.open()
    for (let turn = 0; turn < 40; turn++) await subject.clock.advance(200)
    expect([(await picture).status, (await chat).status, answered]).toEqual([200, 402, 1])
  })

  test('sent many times at once is opened once, and leaves alone what another call is bound to (contract 1.83)', async () => {
    const ready = door()
    let isSlow = false
    let answered = 0
    const subject = await seller(
      async () => (answered++, wholeAnswer()),
      (good) => ({
        async callOf(...given) {
          const found = await good.callOf(...given)
          if (isSlow) await ready.passed
          return found
        },
      }),
    )
    await subject.post(SKY, { payment: await subject.voucher(0n) })
    const payment = await subject.voucher(CHARGE)
    isSlow = true
    const all = Array.from({ length: 5 }, () => subject.post(SKY, { payment }))
    await subject.clock.settle()
    ready.open()
    for (let turn = 0; turn < 60; turn++) await subject.clock.advance(200)
    const statuses = (await Promise.all(all)).map(({ status }) => status)
    expect([answered, statuses.includes(200)]).toEqual([2, true])
    const settled = (await calls(subject)).filter(({ paymentStatus }) => paymentStatus === 'settled')
    expect(settled).toHaveLength(2)
  })
})
