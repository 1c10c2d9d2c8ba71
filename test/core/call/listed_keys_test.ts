/** API keys and the operator's lists: whose deposit is taken, whose order, and what a blocked key may still do. */
import { expect, test } from 'bun:test'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { controls } from '../../../core/payment/control/controls.ts'
import type { Rules } from '../../../core/payment/control/rules.ts'
import type { Offer, Payment } from '../../../core/mod.ts'
import { lower } from '../../../adapters/chains/lib/hex.ts'
import { keyBuyer } from '../../adapters/chains/evm/channels/vouchers.ts'
import { decodeHeader, encodePayment, START } from '../../kit.ts'
import { selling } from './keys_kit.ts'
import { SKY } from './stream_kit.ts'

const REASON = { reason: 'abuse' }

async function listing() {
  const storage = memoryStorage()
  const rules = controls({ storage, clock: { now: () => START } })
  const subject = await selling(undefined, { storage, controls: rules })
  const offer = decodeHeader((await subject.post(SKY)).headers.get('payment-required')).accepts[0] as Offer
  const change = async (more: Partial<Rules>) => void (await rules.change((before) => ({ ...before, ...more })))
  const answer = async (response: Response) => ({ status: response.status, body: await response.json() })
  const deposit = async (payment: Payment) =>
    await answer(await subject.ask({ payment: encodePayment(payment) }, { path: '/api/v1/keys/deposit', headers: {} }))
  return { ...subject, offer, change, deposit }
}

test('a deposit of a blocked wallet or key, or of one that is not listed, is not sent (contract 23.9)', async () => {
  const subject = await listing()
  const other = keyBuyer(new Uint8Array(32).fill(0x35), subject.offer)
  const payment = await other.deposit(100_000n)
  const blocked = { status: 403, body: { error: 'Not allowed', message: expect.stringContaining('blocked') } }
  for (const address of [other.payer.address, other.key.address]) {
    await subject.change({ blocked: { [lower(address)]: REASON } })
    expect(await subject.deposit(payment)).toMatchObject(blocked)
  }
  await subject.change({ blocked: {}, allowed: { [lower(subject.buyer.payer.address)]: {} } })
  expect(await subject.deposit(payment)).toMatchObject({ status: 403, body: { error: 'Not allowed' } })
  await subject.change({ allowed: { [lower(other.payer.address)]: {} } })
  expect(await subject.deposit(payment)).toMatchObject({ status: 200, body: { object: 'key.deposit' } })
})

test('whether a wallet is blocked is told to whoever has its signature alone (contract 23.9)', async () => {
  const subject = await listing()
  const victim = keyBuyer(new Uint8Array(32).fill(0x36), subject.offer)
  await subject.change({ blocked: { [lower(victim.payer.address)]: REASON } })
  const forged = await victim.open({ ...subject.offer, amount: '0' }, 5_000n, { by: victim.key })
  const { status, body } = await subject.deposit(forged)
  expect([status, JSON.stringify(body)]).toEqual([400, expect.not.stringContaining('abuse')])
})

test('the address of a child in the list of blocked wallets blocks the child alone (contract 23.15)', async () => {
  const subject = await listing()
  const { key, address } = await (await subject.ask({ name: 'Ada', cap: '0.01' }, { path: '/api/v1/keys' })).json()
  const headers = { authorization: `Bearer ${key}` }
  await subject.change({ blocked: { [lower(address)]: REASON } })
  const refused = await subject.ask(SKY, { headers })
  expect([refused.status, (await refused.json()).error.message]).toEqual([403, expect.stringContaining('abuse')])
  expect((await subject.ask(SKY)).status).toBe(200)
})

test('a blocked key still shows its balance and is closed (contract 1.67)', async () => {
  const subject = await listing()
  expect((await subject.ask(SKY)).status).toBe(200)
  await subject.change({ blocked: { [lower(subject.buyer.key.address)]: REASON } })
  expect((await subject.ask(SKY)).status).toBe(403)
  expect((await subject.ask(undefined, { path: '/api/v1/key' })).status).toBe(200)
  expect((await subject.ask({}, { path: '/api/v1/keys/close' })).status).toBe(200)
})
