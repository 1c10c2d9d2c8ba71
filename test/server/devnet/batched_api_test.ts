/**
 * The stand-in of the batched payments' API, asked by the vendor's own client: it words things as the real one does.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { BatchEvmScheme } from '@circle-fin/x402-batching/client'
import { BatchFacilitatorClient } from '@circle-fin/x402-batching/server'
import { type Hex, keccak256, toHex } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { startBatchedApi } from '../../../server/devnet/batched_api.ts'

const ASSET = '0x036CbD53842c5426634e7929541eC2318f3dCF7e'
const WALLET = '0x0077777d7EBA4688BDeF3E311b846F25870A19B9'
const SELLER = '0x209693Bc6afc0C5328bA36FaF03C514EF312287C'
const DAY = 86_400

/** The client dates its signatures itself. */
const clock = { ahead: 0, now: () => Date.now() + clock.ahead }
const api = startBatchedApi({ clock, network: 'eip155:84532', asset: ASSET })
afterAll(() => api.stop())
const client = new BatchFacilitatorClient({ url: api.url })

type Requirements = Parameters<BatchFacilitatorClient['settle']>[1]
type Payload = Parameters<BatchFacilitatorClient['settle']>[0]

const wanted: Requirements = {
  scheme: 'exact',
  network: 'eip155:84532',
  asset: ASSET,
  amount: '10000',
  payTo: SELLER,
  maxTimeoutSeconds: 604_900,
  extra: { name: 'GatewayWalletBatched', version: '1', verifyingContract: WALLET },
}

let made = 0
function payer(deposit?: bigint): PrivateKeyAccount {
  const account = privateKeyToAccount(keccak256(toHex(`depositor ${made++}`)))
  if (deposit !== undefined) api.deposit(account.address, deposit)
  return account
}

async function sign(account: PrivateKeyAccount, requirements = wanted): Promise<Payload> {
  const scheme = new BatchEvmScheme({
    address: account.address,
    signTypedData: (data) => account.signTypedData(data as never),
  })
  const created = await scheme.createPaymentPayload(2, requirements)
  return {
    ...created,
    payload: { ...created.payload },
    resource: { url: 'http://127.0.0.1/', description: 'd', mimeType: 'application/json' },
    accepted: { ...requirements },
  }
}

const balanceOf = async (address: string) =>
  (await (await post('balances', { token: 'USDC', sources: [{ depositor: address, domain: 6 }] })).json()).balances
const post = (path: string, body: object) =>
  fetch(`${api.url}/v1/${path}`, { method: 'POST', body: JSON.stringify(body) })
const search = async (query: string) => (await (await fetch(`${api.url}/v1/x402/transfers?${query}`)).json()).transfers

test('/supported names the wallet contract and the USDC of the network', async () => {
  const { kinds } = await client.getSupported()
  expect(kinds).toEqual([
    {
      x402Version: 2,
      scheme: 'exact',
      network: 'eip155:84532',
      extra: expect.objectContaining({
        verifyingContract: WALLET,
        assets: [{ symbol: 'USDC', address: ASSET, decimals: 6 }],
      }),
    },
  ])
})

test('/settle takes the money at once, and the seller has it when the batch is completed', async () => {
  const account = payer(25_000n)
  const settled = await client.settle(await sign(account), wanted)
  expect(settled).toEqual({
    success: true,
    transaction: expect.stringMatching(/^[0-9a-f-]{36}$/),
    network: 'eip155:84532',
    payer: account.address,
  })
  expect(await balanceOf(account.address)).toEqual([{ domain: 6, depositor: account.address, balance: '0.015' }])
  const before = api.balanceOf(SELLER)
  for (const status of ['received', 'batched', 'confirmed', 'completed']) {
    const [transfer] = await search(`from=${account.address}`)
    expect(transfer).toMatchObject({
      id: settled.transaction,
      status,
      token: 'USDC',
      amount: '10000',
      toAddress: SELLER,
      txHash: status === 'received' || status === 'batched' ? null : expect.any(String),
    })
    expect(api.balanceOf(SELLER)).toBe(before + (status === 'completed' ? 10_000n : 0n))
    expect(api.balanceOf(SELLER, 'with_incoming')).toBe(before + 10_000n)
    api.advance(settled.transaction)
  }
})

test('a transfer that fails gives the money back, and its nonce stays used', async () => {
  const account = payer(10_000n)
  const payment = await sign(account)
  const { transaction } = await client.settle(payment, wanted)
  api.advance(transaction, 'failed')
  expect(api.balanceOf(account.address)).toBe(10_000n)
  expect(await client.settle(payment, wanted)).toMatchObject({
    success: false,
    errorReason: 'nonce_already_used',
    transaction: '',
  })
})

test('/verify looks at neither balance nor nonce', async () => {
  const account = payer(10_000n)
  const payment = await sign(account)
  for (const before of ['unused', 'used']) {
    expect([before, await client.verify(payment, wanted)]).toEqual([before, { isValid: true, payer: account.address }])
    await client.settle(payment, wanted)
  }
})

test('of twenty settlements at once with the money for one, one is taken', async () => {
  const account = payer(10_000n)
  const payments = await Promise.all(Array.from({ length: 20 }, () => sign(account)))
  const all = await Promise.all(payments.map((payment) => client.settle(payment, wanted)))
  expect(all.filter(({ success }) => success)).toHaveLength(1)
  expect(new Set(all.map(({ errorReason }) => errorReason))).toEqual(new Set([undefined, 'insufficient_balance']))
})

describe('refusals', () => {
  const other = '0x000000000000000000000000000000000000dEaD'
  const requiring = (change: Partial<Requirements>) => async (): Promise<[Payload, Requirements]> => {
    const changed = { ...wanted, ...change }
    return [await sign(payer(10_000n), { ...wanted, payTo: wanted.payTo }), changed]
  }
  const offered = (change: Partial<Requirements>) => async (): Promise<[Payload, Requirements]> => {
    const payment = await sign(payer(10_000n))
    return [
      { ...payment, accepted: { ...wanted, ...change } as never },
      { ...wanted, ...change },
    ]
  }
  const paying =
    (change: (payload: { authorization: Record<string, string>; signature: Hex }) => object) =>
    async (): Promise<[Payload, Requirements]> => {
      const payment = await sign(payer(10_000n))
      return [{ ...payment, payload: { ...payment.payload, ...change(payment.payload as never) } }, wanted]
    }

  const refusals: readonly [string, () => Promise<[Payload, Requirements]>, number?][] = [
    ['unsupported_scheme', offered({ scheme: 'upto' })],
    ['unsupported_network', offered({ network: 'eip155:1' })],
    ['unsupported_asset', offered({ asset: other })],
    ['unsupported_domain', requiring({ extra: { ...wanted.extra, verifyingContract: other } })],
    ['invalid_payload', paying(({ authorization }) => ({ authorization: { ...authorization, nonce: '0x12' } }))],
    ['address_mismatch', requiring({ payTo: other })],
    ['amount_mismatch', requiring({ amount: '9999' })],
    ['invalid_signature', paying(({ authorization }) => ({ authorization: { ...authorization, validAfter: '0' } }))],
    ['authorization_not_yet_valid', requiring({}), -DAY],
    ['authorization_expired', requiring({}), 8 * DAY],
    ['authorization_validity_too_short', requiring({}), 200],
    [
      'self_transfer',
      async () => {
        const account = payer(10_000n)
        const self = { ...wanted, payTo: account.address }
        return [await sign(account, self), self]
      },
    ],
    ['wallet_not_found', async () => [await sign(payer()), wanted]],
    ['insufficient_balance', async () => [await sign(payer(9_999n)), wanted]],
  ]

  test.each(refusals)('%s, with status 200, and nothing is taken', async (reason, making, seconds = 0) => {
    const [payment, requirements] = await making()
    clock.ahead = seconds * 1000
    const before = api.transfers.length
    const refused = await client.settle(payment, requirements)
    clock.ahead = 0
    expect(refused).toMatchObject({ success: false, errorReason: reason, transaction: '' })
    expect(api.transfers).toHaveLength(before)
  })

  test('a request without resource is an error of another form, as is a search for a status alone', async () => {
    const { resource: _, ...payment } = await sign(payer(10_000n))
    const errors = [
      await post('x402/settle', { paymentPayload: payment, paymentRequirements: wanted }),
      await fetch(`${api.url}/v1/x402/transfers?status=failed`),
    ]
    expect(errors.map(({ status }) => status)).toEqual([400, 400])
    expect(await errors[0]?.json()).toEqual({ message: expect.stringContaining('paymentPayload.resource: Required') })
  })
})

test('transfers are found by nonce, ends, status and date, newest first, a page at a time', async () => {
  const account = payer(50_000n)
  const payments = [await sign(account), await sign(account), await sign(account)]
  for (const payment of payments) await client.settle(payment, wanted)
  const ids = api.transfers.slice(-3).map(({ id }) => id)
  const found = async (query: string) =>
    (await search(`from=${account.address}&${query}`)).map(({ id }: { id: string }) => id)
  const [, second] = payments.map(({ payload }) => payload as { authorization: { nonce: string } })
  const nonce = String(second?.authorization.nonce)
  expect(await found('pageSize=50')).toEqual(ids.toReversed())
  expect(await found('pageSize=2')).toEqual(ids.toReversed().slice(0, 2))
  expect(await found(`nonce=${nonce.toUpperCase().replace('X', 'x')}`)).toEqual([ids[1]])
  api.advance(ids[0], 'failed')
  expect(await found(`status=failed&to=${SELLER}`)).toEqual([ids[0]])
  expect(await found(`network=eip155:1`)).toEqual([])
  expect(await found(`endDate=${new Date(clock.now() - 60_000).toISOString()}`)).toEqual([])
  expect(await found(`startDate=${new Date(clock.now() - 60_000).toISOString()}`)).toHaveLength(3)
})

test('transfers go on by themselves, where a time is given', async () => {
  let now = Date.UTC(2026, 10, 20)
  const going = startBatchedApi({ clock: { now: () => now }, network: 'eip155:84532', asset: ASSET, stepMs: 1_000 })
  const account = payer()
  going.deposit(account.address, 10_000n)
  now = Date.now()
  const [{ transaction }] = [await new BatchFacilitatorClient({ url: going.url }).settle(await sign(account), wanted)]
  const seen: string[] = []
  for (let second = 0; second < 5; second++, now += 1_000)
    seen.push((await (await fetch(`${going.url}/v1/x402/transfers/${transaction}`)).json()).status)
  await going.stop()
  expect(seen).toEqual(['received', 'batched', 'confirmed', 'completed', 'completed'])
})

test('an outage is HTML, and a settlement is lost before or after it is taken', async () => {
  const account = payer(20_000n)
  const payment = await sign(account)
  const settle = () => post('x402/settle', { paymentPayload: payment, paymentRequirements: wanted })
  api.outage(true)
  expect((await settle()).status).toBe(503)
  api.outage(false)
  for (const [what, left] of [
    ['sends', 20_000n],
    ['answers', 10_000n],
  ] as const) {
    const lost = api.drop(what)
    expect((await settle()).status).toBe(503)
    await lost
    api.recover()
    expect(api.balanceOf(account.address)).toBe(left)
  }
})
