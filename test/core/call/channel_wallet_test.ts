/** Who the wallet of a channel's payment is: whoever has signed this payload, and nobody whom it merely names. */
import { describe, expect, test } from 'bun:test'
import { keccak256, toHex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { lower } from '../../../adapters/chains/lib/hex.ts'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { controls } from '../../../core/payment/control/controls.ts'
import type { Rules } from '../../../core/payment/control/rules.ts'
import type { Offer, Payment } from '../../../core/mod.ts'
import { voucherBuyer, voucherChain } from '../../adapters/chains/evm/channels/vouchers.ts'
import { decodeHeader, encodePayment, FOX, GENERATIONS, ORIGIN, START } from '../../kit.ts'
import { SKY, table } from './stream_kit.ts'

const victim = privateKeyToAccount(keccak256(toHex('victim')))
const thief = privateKeyToAccount(keccak256(toHex('thief')))

async function selling() {
  const storage = memoryStorage()
  const rules = controls({ storage, clock: { now: () => START } })
  const subject = await table(undefined, { ports: { storage, chain: voucherChain(storage) }, controls: rules })
  const offerFor = async (body: unknown, path?: string): Promise<Offer> => {
    const response = await subject.post(body, path === undefined ? {} : { path })
    return decodeHeader(response.headers.get('payment-required')).accepts[0]
  }
  const poll = async (url: string, payment: Payment) =>
    await subject.gateway.fetch(
      new Request(ORIGIN + url, { headers: { 'payment-signature': encodePayment(payment) } }),
      {
        ip: '198.51.100.9',
      },
    )
  const limit = async (more: Partial<Rules>) => void (await rules.change((before) => ({ ...before, ...more })))
  const calls = () => storage.listCalls({ since: 0, until: Number.MAX_SAFE_INTEGER, limit: 9 })
  return { ...subject, calls, limit, offerFor, poll }
}

/** A channel that names the victim as its payer, whose vouchers the thief signs. */
const forged = (name = 'thief') => voucherBuyer(name, undefined, lower(victim.address))

describe('the wallet of a channel', () => {
  test('is not whom the payload names: a forged deposit reads no result of that wallet (contract 1.93)', async () => {
    const subject = await selling()
    const offer = await subject.offerFor(FOX, GENERATIONS)
    const payment = await voucherBuyer('victim').sign(offer, 0n)
    expect((await subject.post(FOX, { path: GENERATIONS, payment })).status).toBe(200)
    const [call] = await subject.calls()
    expect(call?.payer).toBe(victim.address)
    const url = `/api/v1/images/generations/${call?.id}`
    const junk = await subject.poll(url, await forged().open(offer, 10_000n, { by: thief }))
    expect([junk.status, await junk.json()]).toMatchObject([
      402,
      { details: expect.stringMatching(/authorization_signature/) },
    ])
    const voucher = await subject.poll(url, await forged().sign(offer, 0n))
    expect([voucher.status, await voucher.json()]).toMatchObject([403, { error: 'Payment payer mismatch' }])
  })

  test('is the key that signs its vouchers, in calls, receipts and limits (contract 1.93)', async () => {
    const subject = await selling()
    await subject.limit({ wallet_limits: { [lower(victim.address)]: { usdc_per_day: '0.0025' } } })
    const offer = await subject.offerFor(SKY)
    const response = await subject.post(SKY, { payment: await forged().sign(offer, 0n) })
    expect([response.status, decodeHeader(response.headers.get('payment-response')).payer]).toEqual([
      200,
      thief.address,
    ])
    const [call] = await subject.calls()
    expect([call?.payer, call?.receipt?.payer]).toEqual([thief.address, thief.address])
    const own = await subject.post(SKY, { payment: await voucherBuyer('victim').sign(offer, 0n) })
    expect(own.status).toBe(200)
  })

  test('is blocked by either address, and allowed only as proven (contract 1.93)', async () => {
    for (const rule of [
      { blocked: { [lower(victim.address)]: {} } },
      { blocked: { [lower(thief.address)]: {} } },
      { allowed: { [lower(victim.address)]: {} } },
    ]) {
      const subject = await selling()
      await subject.limit(rule)
      const response = await subject.post(SKY, { payment: await forged().sign(await subject.offerFor(SKY), 0n) })
      expect([response.status, await response.json()]).toMatchObject([403, { code: 'NOT_ALLOWED' }])
      expect(await subject.calls()).toEqual([])
    }
  })

  test('is its payer once a deposit is signed by that wallet, and stays so (contract 1.93)', async () => {
    const subject = await selling()
    const offer = await subject.offerFor(SKY)
    const first = await subject.post(SKY, { payment: await forged('session key').open(offer, 10_000n, { by: victim }) })
    expect([first.status, decodeHeader(first.headers.get('payment-response')).payer]).toEqual([200, victim.address])
    const { chargedAmount } = decodeHeader(first.headers.get('payment-response')).extra
    const next = await subject.post(SKY, { payment: await forged('session key').sign(offer, BigInt(chargedAmount)) })
    expect(next.status).toBe(200)
    expect((await subject.calls()).map(({ payer }) => payer)).toEqual([victim.address, victim.address])
  })

  test('that has signed an order collects it, though the payer of its channel signs a deposit later (contract 1.99)', async () => {
    const subject = await selling()
    const offer = await subject.offerFor(FOX, GENERATIONS)
    const key = forged('session key')
    const ordered = await subject.post(FOX, { path: GENERATIONS, payment: await key.sign(offer, 0n) })
    expect(ordered.status).toBe(200)
    const [call] = await subject.calls()
    const price = BigInt(offer.amount)
    const again = await subject.post(
      { ...FOX, prompt: 'another' },
      { path: GENERATIONS, payment: await later(key, offer) },
    )
    expect([again.status, decodeHeader(again.headers.get('payment-response')).payer]).toEqual([200, victim.address])
    const url = `/api/v1/images/generations/${call?.id}`
    expect((await subject.poll(url, await key.sign(offer, 2n * price))).status).toBe(200)
    const stranger = await subject.poll(url, await forged('another key').sign(offer, 0n))
    expect([stranger.status, await stranger.json()]).toMatchObject([403, { error: 'Payment payer mismatch' }])
    expect(await subject.calls()).toHaveLength(2)
  })

  test('pays once under a payment identifier, though the repeat brings the first deposit that the payer signs (contract 1.99)', async () => {
    const subject = await selling()
    const offer = await subject.offerFor(FOX, GENERATIONS)
    const key = forged('session key')
    const named = (payment: Payment): Payment =>
      ({ ...payment, extensions: { 'payment-identifier': { info: { id: 'order_0000000000001' } } } }) as Payment
    const post = async (payment: Payment) => await subject.post(FOX, { path: GENERATIONS, payment: named(payment) })
    const first = await post(await key.sign(offer, 0n))
    const again = await post(await later(key, offer))
    expect([first.status, again.status]).toEqual([200, 200])
    expect(await again.json()).toMatchObject({ data: (await first.json()).data })
    expect(await subject.calls()).toHaveLength(1)
  })
})

/** The second payment of a channel, with a deposit that its payer has signed. */
async function later(key: ReturnType<typeof forged>, offer: Offer): Promise<Payment> {
  const { payload, ...payment } = await key.open(offer, 10_000n, { by: victim })
  const { voucher } = (await key.sign(offer, BigInt(offer.amount))).payload
  return { ...payment, payload: { ...payload, voucher } } as Payment
}
