/**
 * The nano rail: the laws on a stand-in of the API, what a doubtful reply means, what is offered, and who is called
 * when a batch fails.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { CHAIN_CONFIGS } from '@circle-fin/x402-batching/client'
import type { Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { type BatchedChain, batchedChain } from '../../../../../adapters/chains/evm/batched/mod.ts'
import { type BatchedConfig, MAX_NETWORKS } from '../../../../../adapters/chains/evm/batched/scheme.ts'
import { BATCHED, DOMAINS, PAID_STATUSES } from '../../../../../adapters/chains/evm/batched/api.ts'
import { parseExact } from '../../../../../adapters/chains/evm/exact/payload.ts'
import { usdc } from '../../../../../core/x402/money.ts'
import { offerOf } from '../../../../../core/x402/offer.ts'
import { challenge } from '../../../../../core/x402/challenge.ts'
import { type Offer, type Payment } from '../../../../../core/x402/protocol.ts'
import { everyChainLaw } from '../../../../conformance/chain_histories.ts'
import { runLaws } from '../../../../conformance/law.ts'
import { FOX, GENERATIONS, kit, START, testLog } from '../../../../kit.ts'
import { batchedSubject, type Harness, harness, key, RESERVE, WALLET } from './batched_kit.ts'
import { ASSET, NETWORK, signPayment } from '../evm_kit.ts'
import { type Answer, type ApiRequest, type Desk, desk } from '../../facilitator/facilitator_kit.ts'

runLaws('batched', everyChainLaw, batchedSubject, {
  except: {
    'verify() refuses an authorization that outlives the log search, and accepts one that ends with it (contract 1.50)':
      'no log is searched: a transfer is found by its nonce, however old',
  },
})

const own = await harness()
const logged = desk()
afterAll(() => Promise.all([own.close(), logged.close()]))

const at = (now = START) => ({ now, signal: AbortSignal.timeout(10_000) })
const DAY_MS = 86_400_000

async function using(change: Partial<BatchedConfig>, work: (h: Harness) => Promise<void>): Promise<void> {
  const made = await harness(change)
  try {
    await work(made)
  } finally {
    await made.close()
  }
}

// ── who signed ──────────────────────────────────────────────────────────────────────────────────────────────────────

describe('identify()', () => {
  const base = {
    network: 'eip155:8453',
    asset: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913',
    wallet: '0x77777777Dcc4d5A8B6E418Fd04D8997ef11000eE',
  }
  const sepolia = { network: NETWORK, asset: ASSET, wallet: WALLET }
  const [fromBase, fromSepolia]: readonly Hex[] = [
    '0x2f90a629a69a10248ebee5306d8551f27f4b45b1bf8588a8c046f76764666522516f86a8804840eeb328a1267e14878ed7ad46479379cec47cb24b66a9f1519c1b',
    '0xebbafd51586b4da1c10c9224184db6c13488ef682bca3092d9f892c65f04dfc458965444df72e6627ad83c2a97ad3462117a4c06ad2bfcef6d8c6998820082431c',
  ]
  const nonce = `0x${'ab'.repeat(32)}`
  /** EIP-3009, signed by 32 times 0x11. */
  function golden({ network, asset, wallet }: typeof base, signature: unknown): [Payment, Offer] {
    const payTo = '0x209693Bc6afc0C5328bA36FaF03C514EF312287C'
    const offer = {
      scheme: 'exact',
      network,
      asset,
      payTo,
      amount: '10000',
      maxTimeoutSeconds: 605_100,
      extra: { ...BATCHED, verifyingContract: wallet },
    }
    const authorization = {
      from: '0x19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A',
      to: payTo,
      value: '10000',
      validAfter: '0',
      validBefore: '4102444800',
      nonce,
    }
    return [{ x402Version: 2, accepted: offer, payload: { signature, authorization } }, offer]
  }

  test.each([
    ['Base', base, fromBase],
    ['Base Sepolia', sepolia, fromSepolia],
  ] as const)('knows the golden signature of %s, whatever is on offer today', async (_, wallet, signature) => {
    const [payment, offer] = golden(wallet, signature)
    expect(await own.chain.identify(payment, offer, at())).toEqual({
      kind: 'known',
      payer: '0x19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A',
      key: `${wallet.network}/${wallet.wallet.toLowerCase()}/0x19e7e376e7c213b7e7e7e46cc70a5dd086daff2a/${nonce}`,
      fundedBy: wallet.wallet.toLowerCase(),
      expiresAt: (4_102_444_800 - Number(RESERVE)) * 1000,
    })
  })

  test('refuses the golden signature of one network on the other', async () => {
    expect(await own.chain.identify(...golden(base, fromSepolia), at())).toMatchObject({
      kind: 'refused',
      code: 'PAYMENT_INVALID',
      reason: expect.stringContaining('invalid_signature'),
    })
  })

  test('gives another key than the same nonce has as an authorization of the token', async () => {
    const [payment, offer] = golden(sepolia, fromSepolia)
    const exact = parseExact(payment, offer)
    const identity = await own.chain.identify(payment, offer, at())
    expect(exact.kind === 'exact' && identity.kind === 'known' && identity.key !== exact.key).toBe(true)
  })

  test('refuses what a plain client makes of the offer: a signature over the token', async () => {
    const account = privateKeyToAccount(key())
    const mistaken = { ...own.offer, extra: { ...BATCHED } }
    const payment = await signPayment(account, mistaken, { now: START })
    expect(await own.chain.identify(payment, own.offer, at())).toMatchObject({
      kind: 'refused',
      code: 'PAYMENT_INVALID',
    })
  })

  test('refuses an offer of another kind, and the signature of a contract wallet, and asks nobody', async () => {
    const payer = await own.payer()
    const payment = await own.sign(payer, own.offer)
    const before = own.api.reads()
    const plain = { ...own.offer, extra: { name: 'USDC', version: '2' } }
    expect(await own.chain.identify(payment, plain, at())).toMatchObject({
      kind: 'refused',
      reason: expect.stringContaining('unsupported_domain'),
    })
    const long = { ...payment, payload: { ...payment.payload, signature: `0x${'12'.repeat(200)}` } }
    expect(await own.chain.identify(long, own.offer, at())).toMatchObject({
      kind: 'refused',
      reason: expect.stringContaining('contract wallets cannot pay here'),
    })
    expect(own.api.reads()).toBe(before)
  })
})

// ── what is offered ─────────────────────────────────────────────────────────────────────────────────────────────────

describe('what is offered', () => {
  const kindOf = (network: string, extra: object = {}) => {
    const assets = [
      { symbol: 'EURC', address: `0x${'e'.repeat(40)}`, decimals: 6 },
      { symbol: 'USDC', address: ASSET, decimals: 6 },
    ]
    return {
      x402Version: 2,
      scheme: 'exact',
      network,
      extra: { ...BATCHED, verifyingContract: WALLET, assets, ...extra },
    }
  }
  const supporting =
    (...kinds: unknown[]): Answer =>
    () =>
      Response.json({ kinds, extensions: [], signers: {} })
  const all = Object.keys(DOMAINS)

  async function checking(supported: Answer, change: Partial<BatchedConfig> = {}) {
    logged.supported = supported
    const chain = batchedChain({
      apiUrl: logged.url,
      networks: [],
      payTo: own.config.payTo,
      alert: () => {},
      ...change,
    })
    const checked = await chain.check({ now: START })
    return { chain, checked, networks: chain.terms(START).map(({ network }) => network) }
  }

  test('is what the API supports: its USDC, its wallet contract, and the life that it wants to be left (contract 21.4)', async () => {
    const { chain, checked } = await checking(
      supporting({ scheme: 'upto' }, 7, kindOf('eip155:8453', { minValiditySeconds: 700_000 }), kindOf(NETWORK)),
    )
    expect(checked).toMatchObject({ kind: 'ready', warnings: [] })
    const terms = {
      scheme: 'exact',
      asset: ASSET,
      payTo: own.config.payTo,
      extra: { ...BATCHED, verifyingContract: WALLET },
    }
    const expected = [
      { ...terms, network: 'eip155:8453', minValiditySeconds: 700_000 },
      { ...terms, network: NETWORK, minValiditySeconds: 604_800 },
    ]
    expect(chain.terms(START)).toEqual(expected)
  })

  test('is in the order of the operator, where he names networks', async () => {
    const { networks } = await checking(supporting(kindOf('eip155:1'), kindOf('eip155:8453'), kindOf(NETWORK)), {
      networks: [NETWORK, 'eip155:1'],
    })
    expect(networks).toEqual([NETWORK, 'eip155:1'])
  })

  test('leaves out other schemes, versions, tokens and networks, and what it cannot ask deposits of', async () => {
    const odd = [
      kindOf('eip155:8453', { version: '2' }),
      kindOf('eip155:8453', { verifyingContract: ASSET }),
      kindOf('eip155:8453', { assets: [] }),
      kindOf('eip155:8453', { verifyingContract: 'x' }),
      kindOf('eip155:8453', { assets: [{ symbol: 'USDC', address: ASSET, decimals: 18 }] }),
      { ...kindOf('eip155:8453'), x402Version: 1 },
      kindOf('solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp'),
    ]
    const { checked, networks } = await checking(supporting(...odd, kindOf('eip155:777'), kindOf(NETWORK)))
    expect(networks).toEqual([NETWORK])
    expect(checked).toMatchObject({ kind: 'ready', warnings: [expect.stringContaining('eip155:777')] })
    const numbered = await checking(supporting(kindOf('eip155:777')), { domains: { 'eip155:777': 31 } })
    expect(numbered.networks).toEqual(['eip155:777'])
  })

  test('is so little that a 402 with three headers passes through every client', async () => {
    const { chain, checked } = await checking(supporting(...all.map((network) => kindOf(network))))
    expect(checked).toMatchObject({ kind: 'ready', warnings: [expect.stringContaining(all.at(-1) ?? '')] })
    const offers = chain
      .terms(START)
      .map((terms) => offerOf(terms, { amount: usdc(10n ** 9n), maxTimeoutSeconds: 600 }))
    expect(offers).toHaveLength(MAX_NETWORKS)
    const resource = {
      url: `https://farebox.example/${'x'.repeat(100)}`,
      description: 'y'.repeat(100),
      mimeType: 'application/json',
    }
    const { headers } = challenge(offers, resource, { error: 'Payment Required' })
    expect(Object.entries(headers).join('\r\n').length).toBeLessThan(16_000)
    expect(() => batchedChain({ ...own.config, networks: all })).toThrow(RangeError)
  })

  const problems: readonly [string, Answer, Partial<BatchedConfig>, string][] = [
    ['a payTo that is no address', supporting(kindOf(NETWORK)), { payTo: '0x12' }, 'pay_to: '],
    [
      'a payTo that is the wallet contract',
      supporting(kindOf(NETWORK)),
      { payTo: WALLET },
      'pay_to: must not be a contract',
    ],
    [
      'a network that the API does not support',
      supporting(kindOf(NETWORK)),
      { networks: ['eip155:1'] },
      'networks: eip155:1 is not supported',
    ],
    [
      'a network without a number',
      supporting(kindOf('eip155:777')),
      { networks: ['eip155:777'] },
      'networks: eip155:777 needs its domain number in domains',
    ],
    ['an API without batches', supporting(), {}, 'api_url: the API supports no network'],
    [
      'a URL where nothing is',
      () => new Response('nothing here', { status: 404 }),
      {},
      'api_url: its reply is inconclusive (HTTP status 404)',
    ],
    [
      'a URL that has moved',
      () => new Response(null, { status: 308, headers: { location: '/x402/v1/x402/supported/' } }),
      {},
      'api_url: it redirects',
    ],
  ]

  test.each(problems)('check() finds %s, and nothing is offered', async (_, supported, change, problem) => {
    const { checked, networks } = await checking(supported, change)
    expect(checked).toEqual({ kind: 'wrong', problems: [expect.stringContaining(problem)] })
    expect(networks).toEqual([])
  })

  test('check() of an API that does not answer is unavailable, and names no URL', async () => {
    const { checked, networks } = await checking(() => new Response('<html>', { status: 503 }), {
      apiUrl: `${logged.url}/secret-of-mine?key=hush`,
    })
    expect(checked).toMatchObject({ kind: 'unavailable' })
    expect(JSON.stringify(checked)).not.toMatch(/secret|hush|127\.0\.0\.1/)
    expect(networks).toEqual([])
    expect(() => batchedChain({ ...own.config, apiUrl: 'hush' })).toThrow(/^api_url must be/)
    expect(() => batchedChain({ ...own.config, networks: ['solana:x'] })).toThrow(RangeError)
  })

  test('is asked for again by refresh(), every five minutes, and kept while the API is away', async () => {
    const { chain } = await checking(supporting(kindOf(NETWORK)))
    logged.answer = () => Response.json({ transfers: [] })
    const walletAt = async (now: number) => (await chain.refresh({ now }), chain.terms(now)[0]?.extra.verifyingContract)
    const moved = `0x${'7'.repeat(40)}`
    logged.supported = supporting(kindOf(NETWORK, { verifyingContract: moved }))
    expect(await walletAt(START + 299_999)).toBe(WALLET)
    expect(await walletAt(START + 300_000)).toBe(moved)
    logged.supported = () => new Response('<html>', { status: 503 })
    expect(await walletAt(START + 600_000)).toBe(moved)
  })

  test('the numbers of networks are those of the public client', () => {
    const theirs = Object.values(CHAIN_CONFIGS).map(({ chain, domain }) => [`eip155:${chain.id}`, domain] as const)
    expect(DOMAINS).toEqual(Object.fromEntries(theirs))
  })
})

// ── would it pay ────────────────────────────────────────────────────────────────────────────────────────────────────

describe('verify()', () => {
  const verify = (h: Harness, payment: Payment, now = START) => h.chain.verify(payment, h.offer, at(now))

  test('refuses what would pay itself', async () => {
    const account = privateKeyToAccount(key())
    own.api.setBalance(account.address, 1_000_000n)
    const offer = { ...own.offer, payTo: account.address }
    const verdict = await own.chain.verify(await signPayment(account, offer, { now: START }), offer, at())
    expect(verdict).toMatchObject({
      kind: 'refused',
      code: 'PAYMENT_INVALID',
      reason: expect.stringContaining('self_transfer'),
    })
  })

  test('refuses seven days of life less a second, which the public client would sign for a plain offer, and names the time to sign', async () => {
    const payer = await own.payer()
    const payment = await own.sign(payer, { ...own.offer, maxTimeoutSeconds: 604_799 })
    const verdict = await verify(own, payment)
    expect(verdict).toMatchObject({ kind: 'refused', code: 'PAYMENT_UNFUNDED' })
    if (verdict.kind === 'refused')
      for (const text of ['authorization_validity_too_short', '604799', String(own.offer.maxTimeoutSeconds)])
        expect(verdict.reason).toContain(text)
  })

  test('refuses an authorization that outlives its offer by more than a month, and takes one of a month', async () => {
    const payer = await own.payer()
    const latest = BigInt(START / 1000 + own.offer.maxTimeoutSeconds + 31 * 86_400) - RESERVE
    expect(await verify(own, await own.sign(payer, own.offer, { validBefore: latest }))).toMatchObject({
      kind: 'valid',
    })
    for (const validBefore of [latest + 1n, 2n ** 256n - 1n]) {
      expect(await verify(own, await own.sign(payer, own.offer, { validBefore }))).toMatchObject({
        kind: 'refused',
        code: 'PAYMENT_INVALID',
      })
    }
  })

  test('tells what is free: money that another payment has locked is not', async () => {
    const payer = await own.payer(25_000n)
    await own.submit(await own.sign(payer, own.offer))
    expect(await verify(own, await own.sign(payer, own.offer))).toMatchObject({ kind: 'valid', balance: usdc(15_000n) })
  })

  test('asks for deposits and for the nonce, and never has the API judge or settle', async () => {
    const paths: string[] = []
    const listening = (async (url: string, init?: RequestInit) => (
      paths.push(new URL(url).pathname + new URL(url).search),
      await fetch(url, init)
    )) as typeof fetch
    await using({ fetch: listening }, async (h) => {
      const payer = await h.payer()
      const payment = await h.sign(payer, h.offer)
      const { nonce } = payment.payload.authorization as { nonce: string }
      paths.length = 0
      expect(await verify(h, payment)).toMatchObject({ kind: 'valid' })
      expect(paths.toSorted()).toEqual([
        '/v1/balances',
        `/v1/x402/transfers?from=${payer.address.toLowerCase()}&nonce=${nonce}&network=${NETWORK}`,
      ])
    })
  })
})

// ── doubtful replies ────────────────────────────────────────────────────────────────────────────────────────────────

describe('a doubtful reply', () => {
  const ID = '3c90c3cc-0d44-4b50-8888-8dd25736052a'
  type Say = Partial<Record<'settle' | 'transfers' | 'balances', Answer>>
  const tired: Answer = () => new Response('<html>', { status: 503 })
  const none: Answer = () => Response.json({ transfers: [] })
  const rich: Answer = ({ json }) =>
    Response.json({
      token: 'USDC',
      balances: json.sources.map((source: object) => ({ ...source, balance: '1.000000' })),
    })

  /** A chain before a desk that says what it is told, and one signed payment. */
  async function asking(say: Say, change: Partial<BatchedConfig> = {}) {
    logged.supported = () => Response.json(own.api.supported)
    const chain = batchedChain({
      ...own.config,
      apiUrl: logged.url,
      fetch: fetch as typeof globalThis.fetch,
      ...change,
    })
    await chain.check({ now: START })
    const payer = await own.payer()
    const payment = await own.sign(payer, own.offer)
    const saying = (next: Say) => {
      logged.answer = (order, request) => (next[order.path.split('/').at(-1) as keyof Say] ?? tired)(order, request)
    }
    saying({ transfers: none, balances: rich, ...say })
    logged.requests.length = 0
    const { authorization } = payment.payload as { authorization: Record<'from' | 'to' | 'value' | 'nonce', string> }
    const { from, to, value, nonce } = authorization
    const transfer = {
      id: ID,
      status: 'received',
      sendingNetwork: NETWORK,
      fromAddress: from,
      toAddress: to,
      amount: value,
      nonce,
      createdAt: new Date(START).toISOString(),
    }
    const showing =
      (change: object, more: readonly object[] = []): Answer =>
      () =>
        Response.json({ transfers: [{ ...transfer, ...change }, ...more] })
    return {
      chain,
      payment,
      payer,
      showing,
      saying,
      settle: () => chain.settle(payment, own.offer, at()),
      fate: (now?: number) => chain.fate(payment, own.offer, at(now)),
      verify: () => chain.verify(payment, own.offer, at()),
    }
  }
  const saying =
    (body: object, status = 200): Answer =>
    () =>
      Response.json(body, { status })
  const receipt = { transaction: ID, network: NETWORK, amount: '10000' }
  const settles = (desk: Desk): ApiRequest[] => desk.requests.filter(({ path }) => path.endsWith('/settle'))

  test('a settlement sends our offer and the bare authorization, whatever the buyer sent beside them', async () => {
    const { chain, payment } = await asking({ settle: saying({ success: true, transaction: ID, network: NETWORK }) })
    const { authorization, signature } = payment.payload as { authorization: object; signature: string }
    const accepted = { ...payment.accepted, amount: '1', extra: { name: 'Gold' } }
    await chain.settle(
      {
        ...payment,
        accepted,
        payload: { signature, authorization: { ...authorization, note: 'x' }, also: 'y' },
        resource: 7,
      } as never,
      own.offer,
      at(),
    )
    const paymentPayload = {
      x402Version: 2,
      resource: expect.objectContaining({ url: expect.any(String) }),
      accepted: own.offer,
      payload: { signature, authorization },
    }
    expect(settles(logged).map(({ json }) => json)).toEqual([{ paymentPayload, paymentRequirements: own.offer }])
  })

  const outcomes: readonly [string, Answer, string][] = [
    ['a yes that names its transfer', saying({ success: true, transaction: ID }), 'settled'],
    ['a yes that names none', saying({ success: true, transaction: '' }), 'unknown'],
    ['a yes with a bad status', saying({ success: true, transaction: ID }, 500), 'unknown'],
    ['a refusal', saying({ success: false, errorReason: 'insufficient_balance', transaction: '' }), 'refused'],
    ['a refusal with a bad status', saying({ success: false, errorReason: 'invalid_signature' }, 400), 'refused'],
    ['a word that nobody knows', saying({ success: false, errorReason: 'full_moon' }), 'unknown'],
    ['its own failure', saying({ success: false, errorReason: 'unexpected_error', transaction: '' }, 500), 'unknown'],
    ['no reason', saying({ success: false }), 'unknown'],
    ['a used nonce that no transfer shows', saying({ success: false, errorReason: 'nonce_already_used' }), 'unknown'],
    ['an error of another form', saying({ message: 'Invalid request' }, 400), 'unknown'],
    ['HTML', tired, 'unknown'],
    [
      'a redirect, which is not followed',
      () => new Response(null, { status: 307, headers: { location: '/x402/v1/x402/settle' } }),
      'unknown',
    ],
    ['more than is read', saying({ success: true, transaction: ID, padding: 'x'.repeat(70_000) }), 'unknown'],
  ]

  test.each(outcomes)('settle() takes %s for what it is', async (_, settle, kind) => {
    const made = await asking({ settle })
    expect((await made.settle()).kind).toBe(kind as never)
    expect(settles(logged)).toHaveLength(1)
  })

  test('settle() of a used nonce is settled by a transfer of ours, refused by one of somebody else', async () => {
    const used = saying({ success: false, errorReason: 'nonce_already_used' })
    const mine = await asking({ settle: used })
    mine.saying({ settle: used, transfers: mine.showing({ status: 'batched' }) })
    expect(await mine.settle()).toEqual({ kind: 'settled', receipt: { ...receipt, payer: mine.payer.address } })
    for (const change of [{ toAddress: `0x${'d'.repeat(40)}` }, { amount: '9999' }, { status: 'failed' }]) {
      const other = await asking({ settle: used })
      other.saying({ settle: used, transfers: other.showing(change) })
      expect(await other.settle()).toMatchObject({ kind: 'refused' })
    }
  })

  test('settle() does not believe a refusal of what may have been taken before, until the transfer shows', async () => {
    const made = await asking({ settle: tired })
    expect(await made.settle()).toMatchObject({ kind: 'unknown' })
    const poor = saying({ success: false, errorReason: 'insufficient_balance' })
    made.saying({ settle: poor, transfers: none })
    expect(await made.settle()).toMatchObject({
      kind: 'unknown',
      reason: expect.stringContaining('may have been taken before'),
    })
    made.saying({ settle: poor, transfers: made.showing({}) })
    expect(await made.settle()).toMatchObject({ kind: 'settled' })
    made.saying({ transfers: none })
    expect([(await made.settle()).kind, (await made.fate()).kind]).toEqual(['settled', 'paid'])
    expect(settles(logged)).toHaveLength(3)
  })

  test('settle() by twenty at once is one request, and what could not be sent says so', async () => {
    const made = await asking({ settle: tired })
    const all = await Promise.all(Array.from({ length: 20 }, made.settle))
    expect([new Set(all.map(({ kind }) => kind)), settles(logged).length]).toEqual([new Set(['unknown']), 1])
    const gone = desk()
    await gone.close()
    const away = batchedChain({ ...own.config, apiUrl: gone.url })
    expect(await away.settle(made.payment, own.offer, at())).toMatchObject({
      kind: 'unknown',
      reason: expect.stringContaining('nothing was sent'),
    })
  })

  test('settle() ends at its deadline and with its caller, and when closed, as unknown', async () => {
    const hangs: Answer = () => new Promise(() => {})
    const slow = await asking({ settle: hangs }, { settleMs: 10 })
    expect(await slow.settle()).toMatchObject({ kind: 'unknown', reason: expect.stringContaining('no reply in 10 ms') })
    const closing = await asking({ settle: hangs })
    const settling = closing.settle()
    closing.chain.close()
    expect([(await settling).kind, (await closing.settle()).kind]).toEqual(['unknown', 'unknown'])
  })

  test('fate() is paid in every living status, dead when the transfer failed, and unknown in one that nobody knows', async () => {
    for (const status of [...PAID_STATUSES, 'failed', 'on_hold']) {
      const made = await asking({})
      made.saying({ transfers: made.showing({ status }) })
      const fate = await made.fate()
      const expected = PAID_STATUSES.includes(status)
        ? { kind: 'paid', receipt: { ...receipt, payer: made.payer.address } }
        : { kind: status === 'failed' ? 'dead' : 'unknown' }
      expect(fate).toMatchObject(expected as never)
    }
  })

  test('fate() and verify() believe no list that was not filtered', async () => {
    const made = await asking({})
    for (const change of [
      { nonce: `0x${'1'.repeat(64)}` },
      { fromAddress: `0x${'d'.repeat(40)}` },
      { sendingNetwork: 'eip155:1' },
    ]) {
      made.saying({ balances: rich, transfers: made.showing(change) })
      expect([(await made.fate()).kind, (await made.verify()).kind]).toEqual(['unknown', 'unavailable'])
    }
  })

  test('fate() is not dead before the end by the clock of the API too', async () => {
    const made = await asking({})
    const end = START + 300_000
    const dated =
      (ms: number): Answer =>
      () =>
        Response.json({ transfers: [] }, { headers: { date: new Date(ms).toUTCString() } })
    made.saying({ transfers: dated(end - 1_000) })
    expect(await made.fate(end + 60_000)).toEqual({ kind: 'open' })
    made.saying({ transfers: dated(end) })
    expect([await made.fate(end - 1_000), await made.fate(end)]).toEqual([{ kind: 'open' }, { kind: 'dead' }])
  })

  const balances: readonly [string, Answer, string][] = [
    ['no word of the wallet', saying({ token: 'USDC', balances: [] }), 'refused'],
    [
      'deposits on other networks only',
      ({ json }) => Response.json({ balances: [{ depositor: json.sources[0].depositor, domain: 7, balance: '5' }] }),
      'refused',
    ],
    [
      'a fraction too little',
      ({ json }) => Response.json({ balances: [{ ...json.sources[0], balance: '0.0099999' }] }),
      'refused',
    ],
    ['just enough', ({ json }) => Response.json({ balances: [{ ...json.sources[0], balance: '0.01' }] }), 'valid'],
    [
      'what is no amount',
      ({ json }) => Response.json({ balances: [{ ...json.sources[0], balance: '1e6' }] }),
      'unavailable',
    ],
    ['an error', saying({ message: 'no' }, 400), 'unavailable'],
  ]

  test.each(balances)('verify() takes %s for what it is', async (_, balances, kind) => {
    const made = await asking({ balances })
    const verdict = await made.verify()
    expect(verdict).toMatchObject(kind === 'refused' ? { kind, code: 'PAYMENT_UNFUNDED' } : { kind: kind as never })
  })

  test('an API that fails ten times is left alone for half a minute', async () => {
    const made = await asking({ transfers: tired, balances: tired })
    for (let i = 0; i < 5; i++) expect(await made.verify()).toMatchObject({ kind: 'unavailable' })
    expect(await made.verify()).toMatchObject({ kind: 'unavailable', reason: expect.stringContaining('is paused') })
    expect(logged.requests).toHaveLength(10)
    made.saying({ transfers: none, balances: rich })
    const later = at(START + 30_000)
    await made.chain.fate(made.payment, own.offer, later)
    expect(await made.chain.verify(made.payment, own.offer, later)).toMatchObject({ kind: 'valid' })
  })
})

// ── until it is completed ───────────────────────────────────────────────────────────────────────────────────────────

describe('refresh()', () => {
  async function sold(h: Harness): Promise<{ payment: Payment; transfer: string }> {
    const payment = await h.sign(await h.payer(), h.offer)
    const settlement = await h.chain.settle(payment, h.offer, at(h.now()))
    if (settlement.kind !== 'settled') throw new Error(JSON.stringify(settlement))
    return { payment, transfer: settlement.receipt.transaction }
  }
  const alerts = ({ log }: Pick<Harness, 'log'>) =>
    log.lines.filter(({ level }) => level === 'alert').map(({ fields }) => fields)
  const poll = (h: { chain: BatchedChain }, now: number) => h.chain.refresh({ now })

  test('calls a person once for a payment that has failed, and paid stays paid', () =>
    using({}, async (h) => {
      const [failing, fine] = [await sold(h), await sold(h)]
      await poll(h, START)
      expect(alerts(h)).toEqual([])
      h.api.advance(failing.transfer, 'failed')
      h.api.advance(fine.transfer, 'completed')
      await poll(h, START + 60_000)
      await poll(h, START + 120_000)
      const { from: payer } = failing.payment.payload.authorization as { from: string }
      expect(alerts(h)).toEqual([
        { transfer: failing.transfer, status: 'failed', payer, amount: '0.010000', network: NETWORK },
      ])
      expect(await h.chain.fate(failing.payment, h.offer, at())).toMatchObject({ kind: 'paid' })
      expect(await h.chain.settle(failing.payment, h.offer, at())).toMatchObject({ kind: 'settled' })
    }))

  test('finds after a restart what has failed meanwhile, whoever sold it', () =>
    using({}, async (h) => {
      h.api.advance((await sold(h)).transfer, 'failed')
      const log = testLog()
      const chain = batchedChain({ ...h.config, alert: log.alert })
      await poll({ chain }, START)
      expect(alerts({ log })).toHaveLength(1)
    }))

  test('calls a person for what is not completed after a day, in each status', () =>
    using({}, async (h) => {
      for (const status of ['received', 'batched', 'confirmed', 'completed'] as const)
        h.api.advance((await sold(h)).transfer, status)
      await poll(h, START + DAY_MS - 1)
      expect(alerts(h)).toEqual([])
      await poll(h, START + DAY_MS + 60_000)
      expect(alerts(h).map(({ status }) => status)).toEqual(['received', 'batched', 'confirmed'])
    }))

  test('asks once a minute, about us alone, and bears an API that is away', () =>
    using({}, async (h) => {
      const before = h.api.reads()
      for (const ms of [0, 1_000, 59_999]) await poll(h, START + ms)
      expect(h.api.reads() - before).toBe(4)
      h.outage(true)
      await poll(h, START + 60_000)
      h.outage(false)
      h.api.advance((await sold(h)).transfer, 'failed')
      await poll(h, START + 120_000)
      expect(alerts(h)).toHaveLength(1)
    }))

  test('believes no list that was not filtered: by status, by date, by recipient', () =>
    using({}, async (h) => {
      h.api.advance((await sold(h)).transfer, 'completed')
      const young = (await sold(h)).transfer
      h.api.advance((await sold(h)).transfer, 'failed')
      const log = testLog()
      logged.supported = () => Response.json(h.api.supported)
      logged.answer = () => Response.json({ transfers: h.api.transfers })
      await poll({ chain: batchedChain({ ...h.config, apiUrl: logged.url, alert: log.alert }) }, START)
      expect(alerts({ log }).map(({ status }) => status)).toEqual(['failed'])
      await poll({ chain: batchedChain({ ...h.config, apiUrl: logged.url, payTo: WALLET, alert: log.alert }) }, START)
      await poll({ chain: batchedChain({ ...h.config, apiUrl: logged.url, alert: log.alert }) }, START + DAY_MS)
      expect(alerts({ log }).map(({ transfer, status }) => (transfer === young ? 'young' : status))).toEqual([
        'failed',
        'failed',
        'young',
      ])
    }))

  test('calls a person once when for an hour nobody could ask', () =>
    using({}, async (h) => {
      for (const [minutes, isDown] of [
        [0, true],
        [40, false],
        [50, true],
        [109, true],
      ] as const) {
        h.outage(isDown)
        await poll(h, START + minutes * 60_000)
      }
      expect(alerts(h)).toEqual([])
      for (const minutes of [110, 111, 200]) await poll(h, START + minutes * 60_000)
      expect(alerts(h)).toEqual([{ reason: expect.any(String) }])
    }))
})

// ── a sale ──────────────────────────────────────────────────────────────────────────────────────────────────────────

test('a job that was not collected in time is paid by a fresh signature, once, and the first can no more', () =>
  using({}, async (h) => {
    const { gateway, idle, clock } = kit({ ports: { chain: h.chain }, inlineMs: 0 })
    const payer = await h.payer()
    const asking = async (path: string, payment?: Payment, body?: object) => {
      const headers = {
        'content-type': 'application/json',
        ...(payment && { 'payment-signature': btoa(JSON.stringify(payment)) }),
      }
      const response = await gateway.fetch(
        new Request(`http://farebox.test${path}`, {
          method: body ? 'POST' : 'GET',
          headers,
          ...(body && { body: JSON.stringify(body) }),
        }),
      )
      return {
        status: response.status,
        body: (await response.json()) as { poll_url: string; accepts: [Offer]; payment: { tx_hash: string } },
      }
    }
    const quoted = await asking(GENERATIONS, undefined, FOX)
    const first = await h.sign(payer, quoted.body.accepts[0])
    const { status, body: job } = await asking(GENERATIONS, first, FOX)
    expect(status).toBe(202)
    await idle()
    await h.mineAt(START / 1000 + 601)
    await clock.advance(601_000)
    const late = await asking(job.poll_url, first)
    expect([late.status, late.body.accepts]).toEqual([402, quoted.body.accepts])
    const paid = await asking(job.poll_url, await h.sign(payer, late.body.accepts[0]))
    expect(paid.status).toBe(200)
    expect((await asking(job.poll_url, first)).status).toBe(200)
    expect(h.api.transfers.map(({ id, amount }) => [id, amount])).toEqual([
      [paid.body.payment.tx_hash, quoted.body.accepts[0].amount],
    ])
  }))
