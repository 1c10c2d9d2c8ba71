/**
 * Differences between gateways are rows: hidden endpoints, how an absent chain reads, who proves himself
 * without paying.
 */
import { describe, expect, test } from 'bun:test'
import { type MemoryChain, memoryChain } from '../../adapters/chains/evm/memory.ts'
import { Type } from '@sinclair/typebox'
import {
  catalog,
  type Endpoint,
  endpoints,
  hasModel,
  narrowed,
  paid,
  retiredGateway,
  SMALL,
  usdc,
} from '../../core/mod.ts'
import { FOX, GENERATIONS, kit, type KitOptions, ORIGIN, read, readyJob, START } from '../kit.ts'

const get = (path: string) => new Request(ORIGIN + path)

describe('a hidden endpoint', () => {
  test('is nowhere: not served, not documented, not discovered; the rest stands', async () => {
    const { gateway } = kit({ hidden: ['images.image2image', 'videos', 'video'] })
    expect((await gateway.fetch(get('/api/v1/images/image2image'))).status).toBe(404)
    expect((await gateway.fetch(get('/api/v1/videos/generations'))).status).toBe(404)
    expect((await gateway.fetch(get(GENERATIONS))).status).toBe(402)
    const { paths } = (await (await gateway.fetch(get('/openapi.json'))).json()) as { paths: object }
    // The poll of all images answers under the path of edits as well.
    const described = Object.keys(paths).filter((path) => path !== '/api/v1/images/image2image/{id}')
    expect(described.filter((path) => path.includes('video') || path.includes('image2image'))).toEqual([])
    expect(await (await gateway.fetch(get('/.well-known/x402'))).text()).not.toContain('image2image')
  })

  test('that does not exist is a mistake of who hides it', () => {
    expect(() => kit({ hidden: ['teleport'] })).toThrow('hidden: there is no endpoint teleport')
  })
})

test('a small catalog sells a few models of each kind, under the same prices (contract 21.5)', () => {
  const whole = catalog()
  const small = narrowed(whole, SMALL)
  for (const kind of ['images', 'chat', 'video', 'audio'] as const) {
    expect(small[kind].all.length).toBeGreaterThan(0)
    expect(small[kind].all.length).toBeLessThanOrEqual(whole[kind].all.length / 2)
    for (const row of small[kind].all) expect(row).toBe(whole[kind].get(row.id) as typeof row)
  }
  for (const id of SMALL) expect([id, hasModel(whole, id)]).toEqual([id, true])
})

test('documents speak of the gateway that was asked: its label, its offers without what is good for seconds, a wallet of its network (contract 21.8)', async () => {
  const network = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1'
  const chain = memoryChain({ network })
  let slot = 0
  const hinting: MemoryChain = {
    ...chain,
    terms: (now) =>
      chain.terms(now).map((terms) => ({
        ...terms,
        extra: { ...terms.extra, recentBlockhash: `hash ${slot++}`, lastValidBlockHeight: slot },
      })),
  }
  const { gateway, buyer } = kit({ name: 'solana', label: 'solana-devnet', networks: [network], chain: hinting })
  const described = async () => await (await gateway.fetch(get('/openapi.json'))).text()
  const first = await described()
  expect([
    first.includes('solana-devnet'),
    first.includes('recentBlockhash'),
    first.includes('7xKXtg2CW87d97TXJSDpbD5jBkheTqA83TZRuJosgAsU'),
  ]).toEqual([true, false, true])
  expect(await described()).toBe(first)
  expect((await buyer().ask()).body.accepts[0].extra.recentBlockhash).toStartWith('hash ')
})

test('gateways of two networks serve the same paths, and each names its own network and asset in its 402 (contract 21.1)', async () => {
  const solana = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1'
  const rows = [kit(), kit({ networks: [solana], chain: memoryChain({ network: solana }) })]
  const described = await Promise.all(
    rows.map(async ({ gateway, buyer, chain }) => {
      const { paths } = (await (await gateway.fetch(get('/openapi.json'))).json()) as { paths: object }
      const { body } = await buyer().ask()
      const [terms] = chain.terms(START)
      expect([body.accepts[0].network, body.accepts[0].asset]).toEqual([terms?.network, terms?.asset])
      return { paths: Object.keys(paths), network: body.accepts[0].network as string }
    }),
  )
  expect(described[1]?.paths).toEqual(described[0]?.paths ?? [])
  expect(described.map(({ network }) => network)).toEqual(['eip155:84532', solana])
})

test('a retired gateway answers 404 to everything, in JSON (contract 21.6)', async () => {
  const { fetch } = retiredGateway('ledger')
  for (const path of ['/', GENERATIONS, '/api/health', '/openapi.json'])
    for (const method of ['GET', 'POST', 'OPTIONS']) {
      const { status, body } = await read(await fetch(new Request(ORIGIN + path, { method })))
      expect([status, body.error]).toEqual([404, 'Not found'])
    }
})

describe('while the chain cannot be asked', () => {
  test('a gateway whose row says so answers 402 with a code and a fresh challenge, and the same payment is good once it can (contract 1.27)', async () => {
    const { buyer, chain, vendor } = kit({ unverifiable: 402 })
    const alice = buyer()
    const payment = alice.sign(await alice.ask())
    chain.outage(true)
    const { status, body, headers } = await alice.buy(FOX, { payment })
    expect([status, body.error, body.code]).toEqual([
      402,
      'Payment verification failed',
      'PAYMENT_VERIFICATION_UNAVAILABLE',
    ])
    expect(headers.get('payment-required')).not.toBeNull()
    chain.outage(false)
    expect((await alice.buy(FOX, { payment })).status).toBe(200)
    expect([vendor.jobs.length, chain.transfers.length]).toEqual([1, 1])
  })
})

/** A product that costs nothing, for a wallet that proves itself. */
const badge = paid({
  name: 'badge',
  path: '/api/v1/badge',
  summary: 'A badge with the name of a wallet',
  tag: 'test',
  input: Type.Object({}),
  output: Type.Object({ wallet: Type.String() }),
  example: {},
  delivery: 'inline',
  price: () => ({ amount: usdc(0n), maxTimeoutSeconds: 300, publicPrice: {} }),
  run: async ({ payer }) => ({ result: { wallet: payer } }),
  show: ({ made }) => made as { wallet: string },
})
const BADGE = { path: badge.path }

describe('a quote of nothing', () => {
  const fixture = (more: KitOptions = {}) => kit({ endpoints: [...endpoints, badge as Endpoint], ...more })

  test('asks for a signature over "0", proves the wallet, and settles nothing', async () => {
    const { buyer, chain } = fixture()
    const alice = buyer()
    const challenge = await alice.ask({}, BADGE)
    expect([challenge.status, challenge.body.accepts[0].amount]).toEqual([402, '0'])
    const { status, headers, body } = await alice.buy({}, { ...BADGE, payment: alice.sign(challenge) })
    expect([status, body, headers.get('x-payment-status'), headers.get('payment-response')]).toEqual([
      200,
      { wallet: alice.wallet },
      'not_charged',
      null,
    ])
    expect(chain.transfers).toEqual([])
  })

  test('claims its authorization: sent with another body it is a replay, sent again it gets the same reply', async () => {
    const { buyer } = fixture()
    const alice = buyer()
    const payment = alice.sign(await alice.ask({}, BADGE))
    const bought = await alice.buy({}, { ...BADGE, payment })
    expect((await alice.buy({}, { ...BADGE, payment })).body).toEqual(bought.body)
    expect((await alice.buy({ more: 1 }, { ...BADGE, payment })).body).toMatchObject({ code: 'PAYMENT_REPLAY' })
  })

  test('needs no money, and is refused for the signature of another', async () => {
    const { buyer, chain } = fixture()
    const alice = buyer()
    chain.drain(alice.wallet)
    const challenge = await alice.ask({}, BADGE)
    expect(
      (await alice.buy({}, { ...BADGE, payment: alice.sign(challenge, { by: chain.wallet('mallory') }) })).status,
    ).toBe(402)
    expect((await alice.buy({}, { ...BADGE, payment: alice.sign(challenge) })).status).toBe(200)
  })

  test('an authorization of nothing never pays for what costs something', async () => {
    const { buyer, vendor, chain } = fixture()
    const alice = buyer()
    const payment = alice.sign(await alice.ask({}, BADGE))
    expect((await alice.buy(FOX, { payment })).status).toBe(402)
    expect([vendor.jobs, chain.transfers]).toEqual([[], []])
  })
})

/** A chain on which wallets sign texts: the signature is the wallet and the text. */
function proving(chain: MemoryChain = memoryChain()): MemoryChain {
  return { ...chain, proves: async ({ wallet, message, signature }) => signature === `${wallet} says ${message}` }
}

describe('a poll that proves itself by signed headers (contract 2.17)', () => {
  const fixture = (more: KitOptions = {}) => readyJob(kit({ inlineMs: 0, chain: proving(), ...more }))
  type Fixture = Awaited<ReturnType<typeof fixture>>

  async function proved(
    { gateway, pollUrl, id, clock, alice }: Fixture,
    {
      wallet = alice.wallet as string,
      seconds = Math.floor(clock.now() / 1000),
      kind = 'image',
      job = id,
      signed = '',
    } = {},
  ) {
    const message = `poll:v1:${kind}:${job}:${seconds}`
    const headers = {
      'x-poll-wallet': wallet,
      'x-poll-timestamp': String(seconds),
      'x-poll-signature': signed || `${wallet} says ${message}`,
    }
    // Without the key of the URL: the signature is the proof (2.5).
    return await read(await gateway.fetch(new Request(ORIGIN + pollUrl.split('?')[0], { headers })))
  }

  test('is told that its result waits for a payment, never the result; once that is paid it is shown it (contract 2.5)', async () => {
    const subject = await fixture()
    const unpaid = await proved(subject)
    expect([unpaid.status, unpaid.body.error, unpaid.body.job_id]).toEqual([402, 'Payment Required', subject.id])
    expect(unpaid.headers.get('payment-required')).not.toBeNull()
    expect(subject.chain.transfers).toEqual([])
    expect((await subject.alice.poll(subject.pollUrl, subject.payment)).status).toBe(200)
    const paid = await proved(subject)
    expect([paid.status, paid.body.payment.status]).toEqual([200, 'already_settled'])
    expect(subject.chain.transfers).toHaveLength(1)
  })

  test('is refused like an unknown job when it is another wallet, another job, another kind, too old, too new, or badly signed (contract 2.17, 2.18)', async () => {
    const subject = await fixture()
    const now = Math.floor(START / 1000)
    const unknown = { status: 404, error: 'Job not found' }
    for (const fakeReply of [
      { wallet: subject.chain.wallet('mallory') },
      { job: 'f'.repeat(32) },
      { kind: 'video' },
      { seconds: now - 301 },
      { seconds: now + 301 },
      { seconds: Number.NaN },
      { signed: 'nonsense' },
    ]) {
      const { status, body } = await proved(subject, fakeReply)
      expect([fakeReply, { status, error: body.error }]).toEqual([fakeReply, unknown])
    }
    expect((await proved(subject, { seconds: now - 300 })).status).toBe(402)
  })

  test('is not looked at on a chain that knows no such proof', async () => {
    const subject = await fixture({ chain: memoryChain() })
    expect((await proved(subject, { signed: 'nonsense' })).status).toBe(402)
  })
})

describe('a payment that died while its work was done', () => {
  /** Refuses to settle as a chain does on which the signed transaction has expired. */
  const dying = (): MemoryChain => {
    const chain = memoryChain()
    let isDead = true
    return {
      ...chain,
      settle: async (...args) =>
        isDead ? { kind: 'refused', reason: 'its blockhash has expired' } : await chain.settle(...args),
      async fate(...args) {
        if (!isDead) return await chain.fate(...args)
        isDead = false
        return { kind: 'dead', code: 'PAYMENT_BLOCKHASH_STALE' }
      },
    }
  }

  test('reads on its poll as one that does not verify, with its code and a challenge; a fresh signature collects the result (contract 2.14)', async () => {
    const { alice, payment, pollUrl, chain } = await readyJob(kit({ inlineMs: 0, chain: dying() }))
    const stale = await alice.poll(pollUrl, payment)
    expect([stale.status, stale.body.error, stale.body.code]).toEqual([
      402,
      'Payment verification failed',
      'PAYMENT_BLOCKHASH_STALE',
    ])
    expect((await alice.poll(pollUrl, alice.sign(stale))).status).toBe(200)
    expect(chain.transfers).toHaveLength(1)
  })
})

test('a job that waits for its payment outlives the fee payer that its offer named: the next one is offered, and taken (contract 2.19)', async () => {
  const chain = memoryChain()
  const offered = { feePayer: 'old' }
  const rotating: MemoryChain = {
    ...chain,
    terms: (now) => chain.terms(now).map((terms) => ({ ...terms, extra: { ...terms.extra, ...offered } })),
    async identify(payment, offer, ...args) {
      const isIts = payment.accepted.extra?.feePayer === offer.extra?.feePayer
      return isIts
        ? await chain.identify(payment, offer, ...args)
        : { kind: 'refused', code: 'PAYMENT_INVALID', reason: 'its fee payer is another one' }
    },
    settle: async (payment, offer, ...args) =>
      offer.extra?.feePayer === offered.feePayer
        ? await chain.settle(payment, offer, ...args)
        : { kind: 'refused', reason: 'nobody signs for it' },
    fate: async (payment, offer, ...args) =>
      offer.extra?.feePayer === offered.feePayer
        ? await chain.fate(payment, offer, ...args)
        : { kind: 'dead', code: 'PAYMENT_BLOCKHASH_STALE' },
  }
  const { alice, payment, pollUrl } = await readyJob(kit({ inlineMs: 0, chain: rotating }))
  offered.feePayer = 'new'
  const stale = await alice.poll(pollUrl, payment)
  expect([stale.status, stale.body.code, stale.body.accepts[0].extra.feePayer]).toEqual([
    402,
    'PAYMENT_BLOCKHASH_STALE',
    'new',
  ])
  const fresh = alice.sign(stale)
  expect((await alice.poll(pollUrl, fresh)).body.payment.status).toBe('settled')
  for (const proof of [payment, fresh])
    expect((await alice.poll(pollUrl, proof)).body.payment.status).toBe('already_settled')
  expect(chain.transfers).toHaveLength(1)
})

describe('what a wallet may have open', () => {
  test('is summed over the purse that its authorizations are paid from', async () => {
    const chain = memoryChain()
    const purses: MemoryChain = {
      ...chain,
      async identify(...args) {
        const identity = await chain.identify(...args)
        return identity.kind === 'known' ? { ...identity, fundedBy: 'DEPOSIT' } : identity
      },
    }
    const { alice, ports, id } = await readyJob(kit({ inlineMs: 0, chain: purses }))
    expect(await ports.storage.getCall(id)).toMatchObject({ payer: alice.wallet, asset: 'eip155:84532/deposit' })
  })
})
