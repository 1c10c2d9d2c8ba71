/**
 * The headers of a 402 as proxies count them: nginx forwards 4,096 bytes unless it is told otherwise, contract 1.5
 * leaves it 4,000.
 */
import { describe, expect, test } from 'bun:test'
import { memoryChain } from '../../adapters/chains/evm/memory.ts'
import { scriptedAudio } from '../fakes/audio.ts'
import { scriptedChat } from '../fakes/chat.ts'
import { scriptedVideo } from '../fakes/videos.ts'
import { endpoints } from '../../core/products/mod.ts'
import { isSold } from '../../core/endpoint/mod.ts'
import { catalog, type Gateway } from '../../core/mod.ts'
import type { Terms } from '../../core/x402/offer.ts'
import { pricedTrial } from '../../core/endpoint/samples.ts'
import { pathOf } from '../core/trial_path.ts'
import { families } from '../../adapters/chains/families.ts'
import { readChallenges } from '../../core/mpp/challenge.ts'
import { challenge } from '../../core/x402/challenge.ts'
import { refusalHeaders } from '../../core/x402/protocol.ts'
import { app } from '../../server/app.ts'
import { decodeHeader, embedded, encodePayment, kit, testClock, x402Scheme } from '../kit.ts'

const MAX = 4_000

const EVM: Terms = {
  scheme: 'exact',
  network: 'eip155:84532',
  asset: '0x036CbD53842c5426634e7929541eC2318f3dCF7e',
  payTo: '0x209693Bc6afc0C5328bA36FaF03C514EF312287C',
  extra: { name: 'USDC', version: '2' },
}
const BASE: Terms = {
  ...EVM,
  network: 'eip155:8453',
  asset: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913',
  extra: { name: 'USD Coin', version: '2' },
}
const BATCHED: Terms = {
  ...BASE,
  extra: {
    name: 'GatewayWalletBatched',
    version: '1',
    verifyingContract: '0x0077777d7EBA4688BDeF3E311b846F25870A19B9',
  },
  minValiditySeconds: 259_200,
}
const SOLANA: Terms = {
  scheme: 'exact',
  network: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp',
  asset: 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v',
  payTo: '2wKupLR9q6wXYppw8Gr2NvWxKBUqm4PPJKkQfoxHDBg4',
  extra: {
    feePayer: 'EwWqGE4ZFKLofuestmU4LDdK7XM1N4ALgdZccwYugwGd',
    recentBlockhash: 'EETubP5AKHgjPAhzPAFcb8BAY1hMH639CWCFTqi3hq1k',
    lastValidBlockHeight: '312345678',
  },
}

/** Possible offers of a gateway: each rail alone, and every order in which several are configured. */
const METHODS: Readonly<Record<string, readonly Terms[]>> = {
  'an EVM chain': [EVM],
  Solana: [SOLANA],
  'batched payments': [BATCHED],
  'an EVM chain and Solana': [EVM, SOLANA],
  'Solana and an EVM chain': [SOLANA, EVM],
  'an EVM chain and batched payments': [BASE, BATCHED],
  'two EVM chains': [BASE, EVM],
  'an EVM chain, Solana and batched payments': [BASE, SOLANA, BATCHED],
  'Solana, two EVM chains and batched payments': [SOLANA, BASE, EVM, BATCHED],
}

const ORIGINS = ['http://127.0.0.1:8402', 'https://payments-gateway.production.eu-central-1.example-company.com']
const PAGE = { accept: 'text/html,application/xhtml+xml', 'user-agent': 'Mozilla/5.0' }
const BROWSER = { origin: 'https://studio.production.example-company.com' }
const TRACED = { 'x-request-id': 'a'.repeat(64) }

/** Status line and headers as a server writes them, with those that it adds itself. */
function sizeOf({ status, headers }: Response, body: string): number {
  const added = {
    date: 'Sun, 22 Nov 2026 12:00:00 GMT',
    'content-length': String(Buffer.byteLength(body)),
    connection: 'keep-alive',
  }
  const lines = [
    `HTTP/1.1 ${status} Payment Required`,
    ...[...headers, ...Object.entries(added)].map(([name, value]) => `${name}: ${value}`),
    '',
  ]
  return lines.reduce((sum, line) => sum + Buffer.byteLength(line) + 2, 0)
}

function gatewayOf(terms: readonly Terms[], chain = memoryChain()) {
  const clock = testClock()
  return kit({
    chatVendor: scriptedChat(),
    video: scriptedVideo(),
    audio: scriptedAudio(),
    ports: { clock, vendors: { ...embedded(clock) }, chain: { ...chain, families, terms: () => terms } },
  })
}

/** The gateway behind its HTTP side, under a public name. */
function served(gateway: Gateway, publicOrigin: string) {
  const { fetch } = app({
    gateways: [{ gateway, hosts: [] }],
    log: { info() {}, warn() {}, alert() {}, access() {}, flush() {} } as never,
    publicOrigin,
  })
  return async (path: string, init?: RequestInit) => {
    const response = await fetch(new Request(publicOrigin + path, init))
    const text = await response.text()
    return { status: response.status, headers: response.headers, text, size: sizeOf(response, text) }
  }
}

/** A path as a caller may write it: names that are long, and longer than any. */
const stretched = (path: string) =>
  path.includes('/stocks/') || path.includes('/price/')
    ? path.replace(/[^/]+$/, (last) => last + 'X'.repeat(200))
    : path

async function challengesOf(terms: readonly Terms[], origin: string) {
  const { gateway, ports } = gatewayOf(terms)
  const get = served(gateway, origin)
  const found: { name: string; size: number; text: string; headers: Headers }[] = []
  for (const endpoint of endpoints.filter(isSold)) {
    const trial = await pricedTrial(endpoint, {
      catalog: catalog(),
      vendors: ports.vendors,
      countTokens: ports.countTokens,
    })
    const path = pathOf(endpoint, trial)
    const ways: readonly (readonly [string, RequestInit])[] = [
      [path, { headers: { ...BROWSER, ...TRACED } }],
      [path, { headers: { ...BROWSER, ...TRACED, ...PAGE } }],
      [stretched(path), { headers: { ...BROWSER, ...TRACED } }],
      [path, { headers: { ...BROWSER, ...TRACED, 'payment-signature': 'bm90aGluZw==' } }],
    ]
    for (const [at, init] of ways) {
      const { status, ...answer } = await get(at, init)
      if (status === 402) found.push({ name: `${endpoint.name} ${at}`, ...answer })
    }
  }
  return found
}

describe.each(Object.entries(METHODS))('a gateway paid by %s', (_, terms) => {
  test.each(ORIGINS)(
    `asks in less than ${MAX} bytes of headers at every endpoint, to a browser and to a program, as %s (contract 1.5)`,
    async (origin) => {
      const found = await challengesOf(terms, origin)
      expect(found.length).toBeGreaterThan(2 * endpoints.filter(isSold).length)
      expect(found.filter(({ size }) => size >= MAX).map(({ name, size }) => `${name}: ${size}`)).toEqual([])
    },
  )

  test('lists every offer in PAYMENT-REQUIRED and in the body; the two other headers carry the first (contract 1.4)', async () => {
    for (const { headers, text } of await challengesOf(terms, ORIGINS[0] as string)) {
      const [all, one] = ['payment-required', 'x-payment-required'].map((name) => decodeHeader(headers.get(name)))
      expect(x402Scheme(headers)).toBe(`X402 requirements=${headers.get('x-payment-required')}`)
      // Of four rails that begin with Solana only two fit beside a challenge of MPP: the body has the others.
      const listed = terms.length > 3 ? terms.slice(0, Math.max(2, all.accepts.length)) : terms
      const challenges = readChallenges(headers.get('www-authenticate') ?? '')
      const charged = listed.flatMap((each) => families.find(({ charge }) => charge?.isFor(each))?.charge?.name ?? [])
      // A challenge of Solana takes 700 bytes: beside other offers it may be left out, and the first one never is.
      const needed = charged.length === terms.length && !charged.includes('solana') ? charged.length : 1
      expect(challenges.map(({ method }) => method)).toEqual(charged.slice(0, Math.max(needed, challenges.length)))
      expect(all.accepts.map(({ network, extra }: Terms) => [network, extra.name])).toEqual(
        listed.map(({ network, extra }) => [network, extra.name]),
      )
      expect([one.accepts, one.error]).toEqual([[all.accepts[0]], all.error])
      // Only the copies of bazaar are left out of the second header, where a challenge leaves no room for them.
      if (terms.length === 1) expect(one).toEqual({ ...all, extensions: one.extensions })
      if (terms.length === 1 && charged[0] !== 'solana') expect(one).toEqual(all)
      if (text.startsWith('{')) expect(JSON.parse(text).accepts.slice(0, listed.length)).toMatchObject(all.accepts)
      if (text.startsWith('{')) expect(JSON.parse(text).accepts.length).toBe(terms.length)
    }
  })
})

describe('a 402', () => {
  const resource = {
    url: `${ORIGINS[1]}/api/v1/videos/generations/0123456789abcdef0123456789abcdef`,
    description: 'Generate a video from words, pictures or another video',
    mimeType: 'application/json',
  }
  const offerOf = ({ minValiditySeconds: _, ...terms }: Terms) => ({
    ...terms,
    amount: '1000000000',
    maxTimeoutSeconds: 259_800,
  })
  const bytes = (headers: Readonly<Record<string, string>>) =>
    sizeOf(new Response(null, { status: 402, headers: { ...BESIDE, ...headers } }), 'x'.repeat(99_999))
  const CORS = 150
  const BESIDE = {
    ...TRACED,
    vary: 'Accept, Origin',
    'access-control-allow-origin': '*',
    'access-control-expose-headers':
      'PAYMENT-REQUIRED, PAYMENT-RESPONSE, X-Payment-Required, WWW-Authenticate, X-Request-Id',
  }

  test('of a refused settlement has room for its reason as well, whatever a node says', () => {
    for (const terms of Object.values(METHODS)) {
      const refusal = refusalHeaders({
        reason: 'execution reverted: '.repeat(90),
        network: SOLANA.network,
        payer: SOLANA.payTo,
      })
      const beside = Object.entries(refusal).reduce((sum, [name, value]) => sum + name.length + value.length + 4, 0)
      const { headers } = challenge(
        terms.map(offerOf),
        resource,
        { error: 'Payment settlement failed' },
        { beside: beside + CORS },
      )
      expect(bytes({ ...headers, ...refusal })).toBeLessThan(MAX)
      expect(decodeHeader(headers['payment-required'] ?? null).accepts.length).toBeGreaterThanOrEqual(
        Math.min(terms.length, 2),
      )
    }
  })

  test('keeps the size whatever a gateway offers; the first offer is never left out, and the body has them all (contract 1.60)', () => {
    for (let count = 1; count <= 12; count++) {
      const offers = Array.from({ length: count }, (_, at) =>
        offerOf(at % 2 ? SOLANA : { ...BATCHED, network: `eip155:${at}` }),
      )
      const { headers, body } = challenge(
        offers,
        { ...resource, url: `${resource.url}?${'q'.repeat(4_000)}` },
        { error: 'Payment verification failed' },
        { beside: CORS },
      )
      expect(bytes(headers)).toBeLessThan(MAX)
      expect(decodeHeader(headers['payment-required'] ?? null).accepts[0]).toMatchObject({ network: 'eip155:0' })
      expect(JSON.parse(body).accepts).toEqual(offers)
    }
  })

  test('that asks for a sign-in has room for it, whatever the gateway offers besides (contract 2.31)', () => {
    const offers = [EVM, BASE, BATCHED, SOLANA].map((terms) => ({ ...terms, amount: '22000', maxTimeoutSeconds: 600 }))
    const info = {
      domain: 'payments-gateway.production.eu-central-1.example-company.com',
      uri: `${ORIGINS[1]}/api/v1/images/generations/job_00000000000000000000000000000000`,
      statement: 'Show which wallet you are. This pays nothing and allows no payment.',
      version: '1',
      nonce: 'a'.repeat(32),
      issuedAt: '2026-11-22T12:00:00.000Z',
      requestId: 'b'.repeat(16),
    } as const
    const signIn = { info, supportedChains: [{ chainId: EVM.network, type: 'eip191' }], schema: {} } as const
    const resource = { url: info.uri, description: 'Collect a slow image job', mimeType: 'application/json', signIn }
    const { headers } = challenge(offers, resource, { error: 'Payment Required' })
    const { accepts, extensions } = decodeHeader(headers['payment-required'] ?? null)
    expect([extensions['sign-in-with-x'].info, accepts[0].network]).toEqual([info, EVM.network])
  })

  test('of several offers names the first exact one where a client reads one only (contract 1.4)', () => {
    const other = { ...offerOf(EVM), scheme: 'upto' }
    const { headers } = challenge([other, offerOf(BASE), offerOf(EVM)], resource, {})
    expect(decodeHeader(headers['x-payment-required'] ?? null).accepts).toEqual([offerOf(BASE)])
    expect(
      decodeHeader(challenge([other, { ...other, amount: '2' }], resource, {}).headers['x-payment-required'] ?? null)
        .accepts,
    ).toEqual([other])
  })

  test('of a poll, unpaid and refused', async () => {
    const chain = memoryChain()
    const { buyer, gateway, idle } = kit({ inlineMs: 0, chain })
    const alice = buyer()
    const { body } = await alice.buy()
    await idle()
    const get = served(gateway, ORIGINS[1] as string)
    const headers = { ...BROWSER, ...TRACED }
    const path = new URL(body.poll_url, ORIGINS[1]).pathname + new URL(body.poll_url, ORIGINS[1]).search
    chain.simulate('refused')
    const payment = alice.sign(await alice.ask())
    const sizes = [
      await get(path, { headers }),
      await get(path, { headers: { ...headers, 'payment-signature': encodePayment(payment) } }),
    ]
    expect(sizes.map(({ status, size }) => [status, size < MAX])).toEqual([
      [402, true],
      [402, true],
    ])
  })
})
