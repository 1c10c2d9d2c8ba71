/**
 * Public x402 clients, unmodified, and every bad payment, against one devnet gateway: a real node, real transactions.
 */
import { beforeAll, describe, expect, test } from 'bun:test'
import { wrapAxiosWithPaymentFromConfig } from '@x402/axios'
import { createKeyPairSignerFromBytes, getBase58Encoder } from '@solana/kit'
import { ExactEvmScheme } from '@x402/evm'
import { decodePaymentResponseHeader, wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { ExactSvmScheme } from '@x402/svm'
import axios from 'axios'
import { type Hex, toHex } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { rpc } from '../../../server/devnet/anvil.ts'
import type { Running } from '../../../server/main.ts'
import { expectNothingRead, strangerHears } from '../../conformance/public_payment.ts'
import {
  type Answer,
  decodeHeader,
  encodePayment,
  GENERATIONS,
  type Payer,
  payerAt,
  type Payment,
  pngSize,
  type Twist,
} from './payer.ts'
import { startedGateways } from '../started_gateway.ts'

const FOX = { model: 'vendor-a/image-1', prompt: 'a red fox in the snow' }
/** The smallest picture on the menu, for what is not about pictures. */
const SMALL = { model: 'vendor-d/image-cv4', prompt: 'a lighthouse at dusk', size: '512x512' }
const SLOW = { model: 'vendor-e/image-pro', prompt: 'a harbour in the morning', size: '1280x720' }
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n

const { onDisk, startWith } = startedGateways()
let running: Running
let payer: Payer

beforeAll(async () => {
  running = await startWith(onDisk)
  payer = await payerAt(running.url)
})

/** `fetch` as @x402/fetch makes it, without a single option. */
const official = () =>
  wrapFetchWithPaymentFromConfig(fetch, {
    schemes: [{ network: 'eip155:*', client: new ExactEvmScheme(payer.account) }],
  })
/**
 * The payment as the calldata of its settlement tells it: nine words behind the selector of
 * `transferWithAuthorization`.
 */
async function publishedIn(transaction: Hex, accepted: Payment['accepted']): Promise<Payment> {
  const { input } = (await rpc(payer.devnet.rpc_url, 'eth_getTransactionByHash', [transaction])) as { input: Hex }
  const words = input.slice(input.indexOf('e3ee160e') + 8).match(/.{64}/g) ?? []
  const [from, to, value, validAfter, validBefore, nonce, v, r, s] = words as [
    string,
    string,
    string,
    string,
    string,
    string,
    string,
    string,
    string,
  ]
  const [address, number] = [
    (word: string): Hex => `0x${word.slice(24)}`,
    (word: string) => String(BigInt(`0x${word}`)),
  ]
  const authorization = {
    from: address(from),
    to: address(to),
    value: number(value),
    validAfter: number(validAfter),
    validBefore: number(validBefore),
    nonce: `0x${nonce}` as Hex,
  }
  return {
    x402Version: 2,
    resource: undefined,
    accepted,
    payload: { signature: `0x${r}${s}${v.slice(62)}`, authorization },
  }
}

const order = (body: unknown) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
})

/** Amount that left the buyer while `work` ran, and its result. */
async function watched<T>(work: () => Promise<T>): Promise<{ answer: T; spent: bigint }> {
  const before = await payer.balance()
  const answer = await work()
  return { answer, spent: before - (await payer.balance()) }
}

/** Money moved by this transaction: from the buyer, to the seller, exactly the quote, and nothing else. */
async function expectTransfer(transaction: string, value: bigint): Promise<void> {
  expect(transaction).toMatch(/^0x[0-9a-f]{64}$/)
  const { account, payTo } = payer
  expect(await payer.transfersIn(transaction)).toEqual([
    { from: account.address.toLowerCase() as Hex, to: payTo.toLowerCase() as Hex, value },
  ])
}

async function expectPng(url: string, size: string): Promise<void> {
  const media = await fetch(url)
  expect(media.status).toBe(200)
  expect(media.headers.get('content-type')).toBe('image/png')
  expect(media.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
  const bytes = await media.bytes()
  expect(pngSize(bytes)).toBe(size)
  expect(Number(media.headers.get('content-length'))).toBe(bytes.length)
}

describe('public clients', () => {
  test('@x402/fetch 2.27 buys an image unchanged: the chain shows the quote, moved once, and the URL shows the picture', async () => {
    const quote = BigInt((await payer.sign(FOX)).accepted.amount)
    expect(quote).toBe(22_000n)
    const { answer: response, spent } = await watched(() => official()(running.url + GENERATIONS, order(FOX)))
    expect(response.status).toBe(200)
    const body = (await response.json()) as Answer['body']
    expect(body).toMatchObject({
      price: { amount: '0.022000', currency: 'USD' },
      payment: { status: 'settled', network: 'base-sepolia' },
    })
    const receipt = decodePaymentResponseHeader(response.headers.get('payment-response') ?? '')
    expect(receipt).toMatchObject({
      success: true,
      transaction: body.payment.tx_hash,
      network: 'eip155:84532',
      payer: payer.account.address,
    })
    expect(response.headers.get('x-payment-receipt')).toBe(receipt.transaction)
    expect(spent).toBe(quote)
    await expectTransfer(receipt.transaction, quote)
    expect(body.data[0]).toMatchObject({ backed_up: true, source_url: 'data:image/png' })
    await expectPng(body.data[0].url, '1024x1024')
  })

  test('@x402/axios 2.11 buys two images of another size unchanged', async () => {
    const api = wrapAxiosWithPaymentFromConfig(axios.create(), {
      schemes: [{ network: 'eip155:*', client: new ExactEvmScheme(payer.account) as never }],
    })
    const wide = { model: 'vendor-d/image-cv4', prompt: 'a sailing boat', size: '1344x768', n: 2 }
    const { answer, spent } = await watched(() => api.post(running.url + GENERATIONS, wide))
    expect(answer.status).toBe(200)
    expect(spent).toBe(32_500n)
    await expectTransfer(answer.data.payment.tx_hash, spent)
    expect(answer.headers['payment-response']).toBeDefined()
    expect(answer.data.data).toHaveLength(2)
    for (const { url } of answer.data.data) await expectPng(url, '1344x768')
  })

  test('a slow model answers 202; the client signs each poll afresh, and is charged once', async () => {
    const pay = official()
    const before = await payer.balance()
    const { answer: last, spent } = await watched(async () => {
      const posted = await pay(running.url + GENERATIONS, order(SLOW))
      expect(posted.status).toBe(202)
      const job = (await posted.json()) as Answer['body']
      expect(job).toMatchObject({ status: 'queued', payment_status: 'verified', price: { amount: '0.048250' } })
      expect(await running.wired.drain(10_000)).toBe(0)
      expect(await payer.balance()).toBe(before)
      return { job, responses: await Promise.all([1, 2, 3].map(() => pay(running.url + job.poll_url))) }
    })
    const bodies = (await Promise.all(last.responses.map((response) => response.json()))) as Answer['body'][]
    expect(last.responses.map(({ status }) => status)).toEqual([200, 200, 200])
    expect(bodies.map(({ payment }) => payment.status).toSorted()).toEqual([
      'already_settled',
      'already_settled',
      'settled',
    ])
    expect(new Set(bodies.map(({ payment }) => payment.tx_hash)).size).toBe(1)
    expect(bodies[0].id).toBe(last.job.id)
    expect(spent).toBe(48_250n)
    await expectTransfer(bodies[0].payment.tx_hash, spent)
    await expectPng(bodies[0].data[0].url, '1280x720')
  })
})

describe('payment headers', () => {
  test.each([
    ['payment-signature', 'x-payment'],
    ['x-payment', 'payment-signature'],
  ])('%s pays on the POST, and %s collects the same result from the poll, free', async (first, second) => {
    const payment = encodePayment(await payer.sign(SMALL))
    const { answer: bought, spent } = await watched(() => payer.post(SMALL, { [first]: payment }))
    expect(bought).toMatchObject({ status: 200, body: { payment: { status: 'settled' } } })
    expect(spent).toBe(16_750n)
    const { poll_url } = (await payer.post(SMALL, { [second]: payment })).body
    const { answer: polled, spent: again } = await watched(() => payer.get(poll_url, { [second]: payment }))
    expect(polled).toMatchObject({
      status: 200,
      body: { payment: { status: 'already_settled', tx_hash: bought.body.payment.tx_hash } },
    })
    expect(polled.body.data).toEqual(bought.body.data)
    expect(again).toBe(0n)
  })

  test.each(['payment-signature', 'x-payment'])('%s pays on the poll of a slow job', async (header) => {
    const payment = encodePayment(await payer.sign(SLOW))
    const { answer: polled, spent } = await watched(async () => {
      const job = await payer.post(SLOW, { [header]: payment })
      expect(job.status).toBe(202)
      await running.wired.drain(10_000)
      return payer.get(job.body.poll_url, { [header]: payment })
    })
    expect(polled).toMatchObject({ status: 200, body: { payment: { status: 'settled' } } })
    await expectTransfer(polled.body.payment.tx_hash, spent)
  })

  test('another wallet may not collect', async () => {
    const bought = await payer.post(SMALL, { 'payment-signature': encodePayment(await payer.sign(SMALL)) })
    const stranger = await payerAt(running.url, generatePrivateKey())
    const polled = await payer.get(`${GENERATIONS}/${bought.body.id}`, {
      'payment-signature': encodePayment(await stranger.sign(SMALL)),
    })
    expect(polled).toMatchObject({ status: 403, body: { error: 'Payment payer mismatch' } })
  })
})

describe('replays', () => {
  test('a used authorization is refused under both names and for any body, and names its job', async () => {
    const payment = encodePayment(await payer.sign(SMALL))
    const bought = await payer.post(SMALL, { 'payment-signature': payment })
    expect(bought.status).toBe(200)
    const { answer, spent } = await watched(() =>
      Promise.all([
        payer.post(SMALL, { 'payment-signature': payment }),
        payer.post(SMALL, { 'x-payment': payment }),
        payer.post({ ...SMALL, prompt: 'another picture' }, { 'payment-signature': payment }),
      ]),
    )
    const keyed = new RegExp(`^${GENERATIONS}/${bought.body.id}\\?key=[0-9a-f]{32}$`)
    for (const replay of answer) {
      expectRefused(replay, 'PAYMENT_REPLAY')
      expect([replay.body.job_id, replay.body.recoverable]).toEqual([bought.body.id, true])
    }
    expect(answer.map(({ body }) => keyed.test(body.poll_url))).toEqual([true, true, false])
    expect(answer[2]?.body.poll_url).toBe(`${GENERATIONS}/${bought.body.id}`)
    expect(spent).toBe(0n)
  })

  test('whoever reads the calldata of a settlement rebuilds the payment, and reads nothing with it', async () => {
    const bought = await payer.post(SMALL, { 'payment-signature': encodePayment(await payer.sign(SMALL)) })
    expect(bought.status).toBe(200)
    const payment = await publishedIn(bought.body.payment.tx_hash, (await payer.post(SMALL)).body.accepts[0])
    const gateway = {
      fetch(request: Request) {
        const { pathname, search } = new URL(request.url)
        return fetch(new Request(running.url + pathname + search, request))
      },
    }
    // The test and the buyer have one address, by which the identical order would be known.
    const orders = ['what have they bought?', 'and the others?'].map((prompt) => ({
      method: 'POST',
      path: GENERATIONS,
      body: { ...SMALL, prompt },
    }))
    expectNothingRead(await strangerHears(gateway, { payment, orders, polls: [`${GENERATIONS}/${bought.body.id}`] }))
    const fresh = encodePayment(await payer.sign(SMALL))
    const before = await payer.balance()
    const read = await payer.get(`${GENERATIONS}/${bought.body.id}`, { 'payment-signature': fresh })
    expect([read.status, read.body.payment?.status, await payer.balance()]).toEqual([200, 'already_settled', before])
  })

  test('one hundred identical POSTs at once make one job and one transfer', async () => {
    const payment = await payer.sign(SMALL)
    const header = { 'payment-signature': encodePayment(payment) }
    const { answer: answers, spent } = await watched(() =>
      Promise.all(Array.from({ length: 100 }, () => payer.post(SMALL, header))),
    )
    const [won, ...others] = answers.filter(({ status }) => status === 200)
    expect(others).toEqual([])
    expect(new Set(answers.map(({ body }) => body.job_id ?? body.id))).toEqual(new Set([won?.body.id]))
    const lost = answers.filter(({ status }) => status !== 200)
    expect(lost).toHaveLength(99)
    for (const answer of lost) expectRefused(answer, 'PAYMENT_REPLAY')
    expect(spent).toBe(16_750n)
    expect(await payer.usesOf(payment)).toEqual([won?.body.payment.tx_hash])
    await expectTransfer(won?.body.payment.tx_hash, spent)
  })
})

/** 402 with this code and a fresh, complete challenge that could be signed at once. */
function expectRefused(answer: Answer, code: string): void {
  expect({ status: answer.status, code: answer.body?.code, why: answer.body?.details }).toEqual({
    status: 402,
    code,
    why: expect.any(String),
  })
  const { headers, body } = answer
  const required = headers.get('payment-required')
  const exact = headers.get('x-payment-required')
  expect(headers.get('www-authenticate')).toEndWith(`, X402 requirements=${exact}`)
  expect(headers.get('cache-control')).toContain('no-store')
  const challenge = decodeHeader(required)
  expect(challenge).toMatchObject({ x402Version: 2, resource: { url: running.url + GENERATIONS } })
  expect(body).toMatchObject({ x402Version: 2, accepts: challenge.accepts, error: 'Payment verification failed' })
  const { asset, network } = payer.devnet
  const byPermit2 = {
    name: 'USDC',
    version: '2',
    facilitatorAddress: expect.stringMatching(/^0x[0-9a-fA-F]{40}$/),
    assetTransferMethod: 'permit2',
  }
  const offer = {
    scheme: 'exact',
    network,
    amount: '16750',
    asset,
    payTo: payer.payTo,
    maxTimeoutSeconds: 600,
    extra: { name: 'USDC', version: '2' },
  }
  expect(decodeHeader(exact).accepts).toEqual([offer])
  const byVoucher = {
    ...offer.extra,
    receiverAuthorizer: expect.stringMatching(/^0x[0-9a-fA-F]{40}$/),
    withdrawDelay: 86_400,
    minDeposit: '2000000',
  }
  expect(challenge.accepts).toEqual([
    offer,
    { ...offer, scheme: 'upto', extra: byPermit2 },
    { ...offer, scheme: 'batch-settlement', extra: byVoucher },
  ])
}

describe('bad payments: a 402 with a code and a fresh challenge, and no money moves', () => {
  const now = () => Math.floor(Date.now() / 1000)
  const signed = (twist: Twist | (() => Twist)) => async () =>
    encodePayment(await payer.sign(SMALL, typeof twist === 'function' ? twist() : twist))
  const changed = (change: (payment: Payment) => unknown) => async () => encodePayment(change(await payer.sign(SMALL)))
  const accepting = (accepted: object) =>
    changed((payment) => ({ ...payment, accepted: { ...payment.accepted, ...accepted } }))
  const resigned = (change: (signature: Hex) => string) =>
    changed((payment) => ({
      ...payment,
      payload: { ...payment.payload, signature: change(payment.payload.signature) },
    }))
  const otherSeller = '0x000000000000000000000000000000000000dEaD'

  const bad: readonly [string, string, string, () => Promise<string>][] = [
    ['not base64', 'PAYMENT_INVALID', 'is not base64', async () => 'not base64, surely!'],
    ['not JSON', 'PAYMENT_INVALID', 'is not base64 of JSON', async () => btoa('{"x402Version":')],
    ['JSON, but no object', 'PAYMENT_INVALID', 'x402Version must be 2', async () => encodePayment(null)],
    [
      'wrong version',
      'PAYMENT_INVALID',
      'x402Version must be 2, got 3',
      changed((payment) => ({ ...payment, x402Version: 3 })),
    ],
    [
      'a v1-shaped payload',
      'PAYMENT_INVALID',
      'x402Version must be 2, got 1',
      changed(({ payload }) => ({ x402Version: 1, scheme: 'exact', network: 'base-sepolia', payload })),
    ],
    ['no payload', 'PAYMENT_INVALID', 'malformed at /payload', changed(({ payload: _, ...rest }) => rest)],
    ['wrong scheme', 'PAYMENT_INVALID', 'accepts batched', accepting({ scheme: 'batched' })],
    ['a payload of another scheme', 'PAYMENT_INVALID', 'invalid_upto_evm_payload', accepting({ scheme: 'upto' })],
    ['wrong network', 'PAYMENT_INVALID', 'accepts exact on eip155:8453 ', accepting({ network: 'eip155:8453' })],
    [
      'another asset',
      'PAYMENT_INVALID',
      'in 0x000000000000000000000000000000000000dEaD, but this gateway offers',
      accepting({ asset: otherSeller }),
    ],
    ['another recipient', 'PAYMENT_INVALID', 'recipient_mismatch', signed({ authorization: { to: otherSeller } })],
    ['value one unit too low', 'PAYMENT_INVALID', 'value is 16749', signed({ authorization: { value: '16749' } })],
    ['value one unit too high', 'PAYMENT_INVALID', 'value is 16751', signed({ authorization: { value: '16751' } })],
    [
      'expired',
      'PAYMENT_UNFUNDED',
      'valid_before',
      signed(() => ({ authorization: { validBefore: String(now() - 1) } })),
    ],
    [
      'not yet valid',
      'PAYMENT_UNFUNDED',
      'valid_after',
      signed(() => ({ authorization: { validAfter: String(now() + 60) } })),
    ],
    [
      'under six seconds of life',
      'PAYMENT_UNFUNDED',
      'at least 6 seconds after now',
      signed(() => ({ authorization: { validBefore: String(now() + 5) } })),
    ],
    [
      'signature of another key',
      'PAYMENT_INVALID',
      'it was signed by 0x',
      signed({ as: privateKeyToAccount(generatePrivateKey()) }),
    ],
    [
      'signature of another domain name',
      'PAYMENT_INVALID',
      'in the offered EIP-712 domain it was signed by 0x',
      signed({ domain: 'USD Coin' }),
    ],
    ['high s', 'PAYMENT_INVALID', 'upper half of the curve order', resigned(mirrored)],
    ['signature one byte short', 'PAYMENT_INVALID', 'has 64 bytes', resigned((signature) => signature.slice(0, -2))],
    ['signature one byte long', 'PAYMENT_INVALID', 'has 66 bytes', resigned((signature) => `${signature}00`)],
    ['signature that is no hex', 'PAYMENT_INVALID', 'signature is malformed', resigned(() => 'signed, the buyer')],
    [
      'a header of 15,000 bytes that mean nothing',
      'PAYMENT_INVALID',
      'is not base64 of JSON',
      async () => 'A'.repeat(15_000),
    ],
  ]

  test.each(bad)('%s: %s, %s', async (_, code, reason, header) => {
    const sent = await header()
    const { answer, spent } = await watched(() => payer.post(SMALL, { 'payment-signature': sent }))
    expectRefused(answer, code)
    expect(answer.body.details).toContain(reason)
    expect(answer.body.job_id).toBeUndefined()
    expect(spent).toBe(0n)
  })

  test('an empty wallet: PAYMENT_UNFUNDED', async () => {
    const pauper = await payerAt(running.url, generatePrivateKey())
    expectRefused(
      await pauper.post(SMALL, { 'payment-signature': encodePayment(await pauper.sign(SMALL)) }),
      'PAYMENT_UNFUNDED',
    )
  })

  test('a nonce used on chain: PAYMENT_REPLAY, without a job', async () => {
    const payment = await payer.sign(SMALL)
    await payer.spend(payment)
    const { answer, spent } = await watched(() => payer.post(SMALL, { 'payment-signature': encodePayment(payment) }))
    expectRefused(answer, 'PAYMENT_REPLAY')
    expect(answer.body.job_id).toBeUndefined()
    expect(spent).toBe(0n)
  })

  test('a nonce canceled on chain: PAYMENT_REPLAY, without a job', async () => {
    const payment = await payer.sign(SMALL)
    await payer.cancel(payment)
    const { answer, spent } = await watched(() => payer.post(SMALL, { 'payment-signature': encodePayment(payment) }))
    expectRefused(answer, 'PAYMENT_REPLAY')
    expect(answer.body.job_id).toBeUndefined()
    expect(spent).toBe(0n)
  })

  test('unknown extensions are tolerated, up to a header of 15,000 bytes', async () => {
    const payment = await payer.sign(SMALL)
    const extended = (filler: string) =>
      encodePayment({ ...payment, extensions: { 'from-the-future': { info: { filler }, schema: {} } } })
    const header = extended('x'.repeat(Math.floor(((15_000 - extended('').length) * 3) / 4)))
    expect(header.length).toBeWithin(14_990, 15_001)
    const { answer, spent } = await watched(() => payer.post(SMALL, { 'payment-signature': header }))
    expect(answer.status).toBe(200)
    expect(spent).toBe(16_750n)
  })
})

/** The twin of a signature: n - s and the other parity, valid to plain ECDSA and refused by the token (EIP-2). */
function mirrored(signature: Hex): Hex {
  const s = BigInt(`0x${signature.slice(66, 130)}`)
  const v = signature.slice(130) === '1b' ? '1c' : '1b'
  return `${signature.slice(0, 66)}${toHex(ORDER - s, { size: 32 }).slice(2)}${v}` as Hex
}

describe('four gateways in one process', () => {
  type Listed = {
    readonly name: string
    readonly base_url: string
    readonly network: string
    readonly label: string
    readonly buyer: { readonly address: string; readonly private_key: string }
  }
  const listed = async (url = running.url) =>
    ((await (await fetch(`${url}/devnet`)).json()) as { gateways: readonly Listed[] }).gateways
  /** Of the body: where a gateway makes many offers its headers have those that fit (contract 1.4). */
  const offersAt = async (url: string) =>
    ((await (await fetch(url + GENERATIONS, order(FOX))).json()) as { accepts: readonly Payment['accepted'][] }).accepts

  test('are listed at /devnet with an origin each, the same whichever of them is asked', async () => {
    const gateways = await listed()
    expect(gateways.map(({ name, label }) => [name, label])).toEqual([
      ['devnet', 'base-sepolia'],
      ['solana', 'solana-devnet'],
      ['nano', 'base-sepolia'],
      ['testnet', 'base-sepolia'],
    ])
    expect(new Set(gateways.map(({ base_url }) => base_url)).size).toBe(4)
    expect(gateways[0]?.base_url).toBe(running.url)
    for (const { base_url } of gateways) expect(await listed(base_url)).toEqual(gateways)
  })

  test('sell the same at the same price, each for its own money and under its own origin', async () => {
    const gateways = await listed()
    const lines = await Promise.all(
      gateways.map(async ({ base_url, name }) => [
        name,
        (await offersAt(base_url)).map(({ scheme, network, amount, extra }) => [
          scheme,
          network,
          amount,
          extra?.name ?? 'transaction',
        ]),
      ]),
    )
    const evm = ['exact', 'eip155:84532', '22000', 'USDC']
    const upto = ['upto', 'eip155:84532', '22000', 'USDC']
    const channels = ['batch-settlement', 'eip155:84532', '22000', 'USDC']
    expect(lines).toEqual([
      ['devnet', [evm, upto, channels]],
      ['solana', [['exact', 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1', '22000', 'transaction']]],
      ['nano', [evm, upto, channels, ['exact', 'eip155:84532', '22000', 'GatewayWalletBatched']]],
      ['testnet', [evm, upto, channels]],
    ])
    for (const { base_url, network } of gateways) {
      const { resource } = decodeHeader(
        (await fetch(base_url + GENERATIONS, order(FOX))).headers.get('payment-required'),
      )
      const health = (await (await fetch(`${base_url}/api/v1/health/chain`)).json()) as {
        networks: readonly { network: string }[]
      }
      expect([resource.url, health.networks[0]?.network]).toEqual([base_url + GENERATIONS, network])
    }
  })

  test('the test network lists fewer models', async () => {
    const [first, , , testnet] = await listed()
    const count = async (url = '') =>
      ((await (await fetch(`${url}/api/v1/models`)).json()) as { data: readonly unknown[] }).data.length
    expect(await count(testnet?.base_url)).toBeLessThan(await count(first?.base_url))
  })

  test('show the wallet of their own network what it holds', async () => {
    const { base_url, buyer } = (await listed())[1] as Listed
    const balance = (await (await fetch(`${base_url}/api/v1/balance?address=${buyer.address}`)).json()) as {
      balance: string
      chain: string
    }
    expect([Number(balance.balance) > 0, balance.chain]).toEqual([true, 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1'])
    expect((await fetch(`${base_url}/api/v1/balance?address=${payer.account.address}`)).status).toBe(400)
  })

  test('@x402/svm pays with nothing but the gateway: what it reads before is free there, and what it then asks a node is sold', async () => {
    const { base_url, buyer } = (await listed())[1] as Listed
    const signer = await createKeyPairSignerFromBytes(new Uint8Array(getBase58Encoder().encode(buyer.private_key)))
    const pay = wrapFetchWithPaymentFromConfig(fetch, {
      schemes: [
        { network: 'solana:*', client: new ExactSvmScheme(signer, { rpcUrl: `${base_url}/api/v1/solana/rpc` }) },
      ],
    })
    const reply = await pay(
      `${base_url}/api/v1/solana/rpc`,
      order({ jsonrpc: '2.0', id: 7, method: 'getSlot', params: [] }),
    )
    expect([
      reply.status,
      reply.headers.get('x-network'),
      ((await reply.json()) as { result: unknown }).result,
    ]).toEqual([200, 'solana-devnet', expect.any(Number)])
    expect(decodePaymentResponseHeader(reply.headers.get('payment-response') ?? '')).toMatchObject({
      success: true,
      payer: signer.address,
      amount: '1500',
    })
  })

  test('tell a wallet what it has spent there, in whichever case it is asked about', async () => {
    const [first] = await listed()
    const spentBy = async (wallet: string) =>
      (
        (await (await fetch(`${first?.base_url}/api/v1/wallet/${wallet}/reconciliation`)).json()) as {
          totals: { calls: number }
        }
      ).totals
    const { address } = payer.account
    const spent = await spentBy(address)
    expect([spent.calls > 0, await spentBy(address.toLowerCase())]).toEqual([true, spent])
  })

  test('a payment that is good at one is good nowhere else, whatever it says that it accepts', async () => {
    const [, solana, nano] = await listed()
    const payment = await payer.sign(FOX)
    const send = (url: string, sent: Payment) =>
      fetch(url + GENERATIONS, {
        ...order(FOX),
        headers: { 'content-type': 'application/json', 'payment-signature': encodePayment(sent) },
      })
    const foreign = (await offersAt(solana?.base_url ?? ''))[0] as Payment['accepted']
    const batched = (await offersAt(nano?.base_url ?? '')).find(
      ({ extra }) => extra.name === 'GatewayWalletBatched',
    ) as Payment['accepted']
    const fakeReplies = [
      await send(solana?.base_url ?? '', payment),
      await send(solana?.base_url ?? '', { ...payment, accepted: foreign }),
      await send(running.url, { ...payment, accepted: foreign }),
    ]
    for (const response of fakeReplies)
      expect([response.status, ((await response.json()) as { code: string }).code]).toEqual([402, 'PAYMENT_INVALID'])
    // Of the two offers of nano it fits the one that it was signed for, and it pays once: at one of the gateways that
    // share the asset.
    expect((await send(nano?.base_url ?? '', { ...payment, accepted: batched })).status).toBe(200)
    expect(((await (await send(running.url, payment)).json()) as { code: string }).code).toBe('PAYMENT_REPLAY')
  })
})
