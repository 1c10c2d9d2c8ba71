/**
 * The nano rail as its buyers see it: the vendor's public client, unchanged, and a plain one that must not be misled.
 */
import { evmFamily } from '../../../adapters/chains/evm/family.ts'
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { BatchEvmScheme, GatewayClient } from '@circle-fin/x402-batching/client'
import { ExactEvmScheme } from '@x402/evm'
import { decodePaymentResponseHeader, wrapFetchWithPaymentFromConfig } from '@x402/fetch'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { type BatchedChain, batchedChain } from '../../../adapters/chains/evm/batched/mod.ts'
import { evmIdentity } from '../../../adapters/chains/evm/exact/identity.ts'
import { multiChain } from '../../../adapters/chains/multi_chain.ts'
import { localPorts, systemClock } from '../../../adapters/local.ts'
import { type ScriptedVendor, scriptedVendor } from '../../fakes/images.ts'
import { scriptedChat } from '../../fakes/chat.ts'
import { type Chain, gateway, type Gateway, type Offer, type Payment, type Setup, usdc } from '../../../core/mod.ts'
import { type BatchedStandIn, startBatchedApi } from '../../../server/devnet/batched_api.ts'
import { FOX, GENERATIONS, slowVendor, testLog } from '../../kit.ts'
import { decodeHeader, encodePayment } from './payer.ts'

const NETWORK = 'eip155:84532'
const ASSET = '0x036CbD53842c5426634e7929541eC2318f3dCF7e'
const SELLER = '0x209693Bc6afc0C5328bA36FaF03C514EF312287C'
const QUESTION = {
  model: 'vendor-d/chat-5.3',
  messages: [{ role: 'user', content: 'Why is the sky blue?' }],
  max_tokens: 100,
}
/** At this size the image costs 22,000 base units. */
const QUOTE = 22_000n

const log = testLog()
let api: BatchedStandIn
let batched: BatchedChain
beforeAll(async () => {
  api = startBatchedApi({ clock: systemClock, network: NETWORK, asset: ASSET })
  batched = batchedChain({ apiUrl: api.url, networks: [], payTo: SELLER, alert: log.alert })
  expect(await batched.check({ now: Date.now() })).toMatchObject({ kind: 'ready', warnings: [] })
})
afterAll(async () => {
  batched.close()
  await api.stop()
})

/** Words are tokens here: the real tokenizer takes a second to load. */
function gatewayOf(
  chain: Chain,
  { vendor = scriptedVendor(), ...setup }: Partial<Setup> & { vendor?: ScriptedVendor } = {},
): Gateway {
  const countTokens = async (text: string) => text.split(/\s+/).length
  return gateway({
    ports: { ...localPorts({ chain, images: () => vendor, chat: () => scriptedChat(), log }), countTokens },
    label: 'base-sepolia',
    ...setup,
  })
}

/** The shop on loopback while `work` runs. */
async function serving<T>(chain: Chain, work: (url: string) => Promise<T>): Promise<T> {
  const gateway = gatewayOf(chain)
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: (request) => gateway.fetch(request) })
  try {
    return await work(`http://127.0.0.1:${server.port}`)
  } finally {
    await server.stop(true)
  }
}

function buyer(deposit: bigint) {
  const privateKey = generatePrivateKey()
  const { address } = privateKeyToAccount(privateKey)
  if (deposit > 0n) api.deposit(address, deposit)
  return { address, client: new GatewayClient({ chain: 'baseSepolia', privateKey }) }
}

describe("GatewayClient.pay(), the vendor's public client", () => {
  test('buys an image: the deposit is less by the quote, and the transfer is named', () =>
    serving(batched, async (url) => {
      const { address, client } = buyer(100_000n)
      const bought = await client.pay<any>(url + GENERATIONS, { method: 'POST', body: FOX })
      expect(bought).toMatchObject({
        status: 200,
        amount: QUOTE,
        data: { payment: { status: 'settled', network: 'base-sepolia', tx_hash: bought.transaction } },
      })
      const [transfer, ...others] = api.transfers.filter(({ fromAddress }) => fromAddress === address)
      expect(transfer).toMatchObject({
        id: bought.transaction,
        status: 'received',
        toAddress: SELLER,
        amount: String(QUOTE),
      })
      expect(others).toEqual([])
      expect(api.balanceOf(address)).toBe(100_000n - QUOTE)
    }))

  test('buys an answer, settled before its headers', () =>
    serving(batched, async (url) => {
      const { address, client } = buyer(1_000_000n)
      const { data, amount, transaction } = await client.pay<any>(`${url}/api/v1/chat/completions`, {
        method: 'POST',
        body: QUESTION,
      })
      expect(data.choices[0].message).toEqual({ role: 'assistant', content: 'Hello' })
      expect(api.balanceOf(address)).toBe(1_000_000n - amount)
      expect(api.transfers.at(-1)).toMatchObject({ id: transaction, amount: String(amount) })
    }))

  test('without a deposit reads why, and nothing is taken', () =>
    serving(batched, async (url) => {
      const before = api.transfers.length
      const { client } = buyer(QUOTE - 1n)
      await expect(client.pay(url + GENERATIONS, { method: 'POST', body: FOX })).rejects.toThrow(
        'Payment verification failed',
      )
      expect(api.transfers).toHaveLength(before)
    }))

  test('finds its offer behind others of the same network', () =>
    serving(multiChain([plainChain([]), batched]), async (url) => {
      const { client } = buyer(100_000n)
      expect(await client.supports(`${url}${GENERATIONS}`)).toMatchObject({ supported: true })
      const { transaction } = await client.pay(url + GENERATIONS, { method: 'POST', body: FOX })
      expect(api.transfers.at(-1)?.id).toBe(transaction)
    }))
})

test('an offer asks for the life that the API wants to be left, and for the time of the work on top', async () => {
  const challenge = await gatewayOf(multiChain([plainChain([]), batched])).fetch(order(FOX))
  const { accepts } = decodeHeader(challenge.headers.get('payment-required')) as { accepts: readonly Offer[] }
  expect(accepts.map(({ maxTimeoutSeconds, extra }) => [extra?.name, maxTimeoutSeconds])).toEqual([
    ['USDC', 600],
    ['GatewayWalletBatched', 605_400],
  ])
})

test('a poll asks for the same life as the order did, on every rail', async () => {
  const { vendor, ready } = slowVendor()
  const { address, client } = buyer(100_000n)
  const gateway = gatewayOf(multiChain([plainChain([]), batched]), { vendor, inlineMs: 0 })
  const posted = await gateway.fetch(order(FOX, encodePayment(await signed(client, gateway))))
  const { poll_url } = (await posted.json()) as { poll_url: string }
  const polled = await gateway.fetch(new Request(`http://farebox.test${poll_url}`))
  const { accepts } = decodeHeader(polled.headers.get('payment-required')) as { accepts: readonly Offer[] }
  ready()
  expect([posted.status, polled.status]).toEqual([202, 402])
  expect(accepts.map(({ maxTimeoutSeconds }) => maxTimeoutSeconds)).toEqual([600, 605_400])
  expect(api.balanceOf(address)).toBe(100_000n)
})

test('five hundred calls at once of a wallet with the price of one start exactly one (contract 21.4)', async () => {
  const { vendor, ready } = slowVendor()
  const gateway = gatewayOf(batched, { vendor })
  const { address, client } = buyer(QUOTE)
  const [offer, resource] = await offerOf(gateway)
  const payments = await Promise.all(Array.from({ length: 500 }, () => sign(client, offer, resource)))
  const answers = payments.map(async (payment) => {
    const response = await gateway.fetch(order(FOX, encodePayment(payment)))
    const { status, headers } = response
    if (status === 402) refused.push(((await response.json()) as { code: string }).code)
    if (status === 402 && refused.length === 499) {
      expect(settled()).toEqual([])
      ready()
    }
    return { status, receipt: headers.get('payment-response') }
  })
  const refused: string[] = []
  const settled = () => api.transfers.filter(({ fromAddress }) => fromAddress === address)
  const won = (await Promise.all(answers)).filter(({ status }) => status === 200)
  expect([won.length, refused.length, vendor.jobs.length]).toEqual([1, 499, 1])
  expect(new Set(refused)).toEqual(new Set(['PAYMENT_UNFUNDED']))
  expect(settled().map(({ id }) => id)).toEqual([decodePaymentResponseHeader(won[0]?.receipt ?? '').transaction])
  expect(api.balanceOf(address)).toBe(0n)
}, 300_000)

test('@x402/fetch with the plain scheme picks the plain offer, which comes first, and pays by it', () => {
  const seen: Payment[] = []
  return serving(multiChain([plainChain(seen), batched]), async (url) => {
    const account = privateKeyToAccount(generatePrivateKey())
    const before = api.transfers.length
    const pay = wrapFetchWithPaymentFromConfig(fetch, {
      schemes: [{ network: 'eip155:*', client: new ExactEvmScheme(account) }],
    })
    const response = await pay(url + GENERATIONS, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(FOX),
    })
    expect(response.status).toBe(200)
    expect(decodePaymentResponseHeader(response.headers.get('payment-response') ?? '')).toMatchObject({
      transaction: PAID,
      payer: account.address,
    })
    expect(seen.map(({ accepted }) => accepted.extra)).toEqual([{ name: 'USDC', version: '2' }])
    expect(api.transfers).toHaveLength(before)
  })
})

// ── hands ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const PAID = `0x${'ab'.repeat(32)}`

/**
 * Knows who signed over the token itself, by the real adapter and no node; everybody can pay. What it settles goes to
 * `seen`.
 */
function plainChain(seen: Payment[]): Chain {
  const nobody = () => Promise.reject(new Error('no node is asked'))
  const { identify } = evmIdentity(
    { rpc: { ask: nobody } as never, reads: { view: nobody } as never },
    { network: NETWORK, lagSeconds: 4 },
  )
  return {
    families: [evmFamily],
    terms: () => [
      { scheme: 'exact', network: NETWORK, asset: ASSET, payTo: SELLER, extra: { name: 'USDC', version: '2' } },
    ],
    identify,
    verify: async (_, __, { now }) => ({ kind: 'valid', balance: usdc(10n ** 9n), asOf: now }),
    async settle(payment, { amount, network }) {
      seen.push(payment)
      const { from } = payment.payload.authorization as { from: string }
      return { kind: 'settled', receipt: { transaction: PAID, network, payer: from, amount } }
    },
    fate: async () => ({ kind: 'open' }),
  }
}

function order(body: object, payment?: string): Request {
  const headers = { 'content-type': 'application/json', ...(payment && { 'payment-signature': payment }) }
  return new Request(`http://farebox.test${GENERATIONS}`, { method: 'POST', headers, body: JSON.stringify(body) })
}

/** The batched offer of an image. */
async function offerOf(gateway: Gateway): Promise<[Offer, unknown]> {
  const { headers } = await gateway.fetch(order(FOX))
  const { accepts, resource } = decodeHeader(headers.get('payment-required')) as {
    accepts: readonly Offer[]
    resource: unknown
  }
  return [accepts.find(({ extra }) => extra?.name === 'GatewayWalletBatched') as Offer, resource]
}

async function sign({ account }: GatewayClient, offer: Offer, resource: unknown): Promise<unknown> {
  const scheme = new BatchEvmScheme({
    address: account.address,
    signTypedData: (data) => account.signTypedData(data as never),
  })
  return { ...(await scheme.createPaymentPayload(2, offer as never)), resource, accepted: offer }
}

async function signed(client: GatewayClient, gateway: Gateway): Promise<unknown> {
  return sign(client, ...(await offerOf(gateway)))
}
