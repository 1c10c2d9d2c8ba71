import { describe, expect, test } from 'bun:test'
import {
  type Answer,
  type Buyer,
  decodeHeader,
  encodePayment,
  FOX,
  GENERATIONS,
  type Kit,
  kit,
  ORIGIN,
  read,
  START,
  x402Scheme,
} from '../../kit.ts'
import type { Payment } from '../../../core/mod.ts'

const NOW = BigInt(START / 1000)

/** A header that is not to be accepted, made by a buyer who holds a challenge. */
type Bad = {
  readonly name: string
  readonly code: string
  readonly reason: RegExp
  make(buyer: Buyer, challenge: Answer, kit: Kit): Payment | string
}

const changed = (payment: Payment, more: object): Payment => ({ ...payment, ...more }) as Payment
const accepting = (more: object) => (buyer: Buyer, challenge: Answer) => {
  const payment = buyer.sign(challenge)
  return changed(payment, { accepted: { ...payment.accepted, ...more } })
}
const signed = (how: NonNullable<Parameters<Buyer['sign']>[1]>) => (buyer: Buyer, challenge: Answer) =>
  buyer.sign(challenge, how)
const withPayload = (more: object) => (buyer: Buyer, challenge: Answer) => {
  const payment = buyer.sign(challenge)
  return changed(payment, { payload: { ...payment.payload, ...more } })
}

const strangers: readonly Bad[] = [
  { name: 'not base64', code: 'PAYMENT_INVALID', reason: /is not base64$/, make: () => '{"x402Version":2}' },
  { name: 'empty', code: 'PAYMENT_INVALID', reason: /is not base64$/, make: () => '' },
  { name: 'not JSON', code: 'PAYMENT_INVALID', reason: /not base64 of JSON/, make: () => btoa('pay me') },
  {
    name: 'of the wrong version',
    code: 'PAYMENT_INVALID',
    reason: /x402Version must be 2, got 3/,
    make: (buyer, challenge) => changed(buyer.sign(challenge), { x402Version: 3 }),
  },
  {
    name: 'of the shape of version 1 (contract 21.10)',
    code: 'PAYMENT_INVALID',
    reason: /x402Version must be 2, got 1/,
    make: (buyer, challenge) =>
      btoa(
        JSON.stringify({
          x402Version: 1,
          scheme: 'exact',
          network: 'base-sepolia',
          payload: buyer.sign(challenge).payload,
        }),
      ),
  },
  {
    name: 'of another scheme',
    code: 'PAYMENT_INVALID',
    reason: /accepts upto on .* but this gateway offers exact/,
    make: accepting({ scheme: 'upto' }),
  },
  {
    name: 'of another scheme in another script',
    code: 'PAYMENT_INVALID',
    reason: /^the payment accepts \? on/,
    make: accepting({ scheme: '狐' }),
  },
  {
    name: 'on another network',
    code: 'PAYMENT_INVALID',
    reason: /eip155:8453/,
    make: accepting({ network: 'eip155:8453' }),
  },
  {
    name: 'in another asset',
    code: 'PAYMENT_INVALID',
    reason: /0x0{39}1/,
    make: accepting({ asset: `0x${'0'.repeat(39)}1` }),
  },
  {
    name: 'to another recipient',
    code: 'PAYMENT_INVALID',
    reason: /recipient_mismatch/,
    make: signed({ to: `0x${'1'.repeat(40)}` }),
  },
  {
    name: 'signed with another key',
    code: 'PAYMENT_INVALID',
    reason: /signature/,
    make: (buyer, challenge, { chain }) => buyer.sign(challenge, { by: chain.wallet('mallory') }),
  },
  {
    name: 'signed for another domain name',
    code: 'PAYMENT_INVALID',
    reason: /signature/,
    make: signed({ name: 'USD Coin' }),
  },
  {
    name: 'with a signature of a wrong length',
    code: 'PAYMENT_INVALID',
    reason: /signature/,
    make: withPayload({ signature: '0x1234' }),
  },
  {
    name: 'with a signature that is no hex',
    code: 'PAYMENT_INVALID',
    reason: /payload\/signature is malformed: expected 0x and the hex digits of 1 to 4096 bytes; got "signed"$/,
    make: withPayload({ signature: 'signed' }),
  },
  {
    name: 'without an authorization',
    code: 'PAYMENT_INVALID',
    reason: /payload\/authorization is malformed: .*; it is missing$/,
    make: withPayload({ authorization: undefined }),
  },
  {
    name: 'with a value that was changed after signing',
    code: 'PAYMENT_INVALID',
    reason: /signature/,
    make: (buyer, challenge) =>
      withPayload({ authorization: { ...(buyer.sign(challenge).payload.authorization as object), value: '1' } })(
        buyer,
        challenge,
      ),
  },
]

const unspendable: readonly Bad[] = [
  {
    name: 'one unit too low',
    code: 'PAYMENT_INVALID',
    reason: /value is 21999 base units; the price is exactly 22000/,
    make: signed({ value: 21_999n }),
  },
  {
    name: 'one unit too high',
    code: 'PAYMENT_INVALID',
    reason: /value is 22001 base units; the price is exactly 22000/,
    make: signed({ value: 22_001n }),
  },
  { name: 'expired', code: 'PAYMENT_UNFUNDED', reason: /valid_before/, make: signed({ validBefore: NOW - 1n }) },
  {
    name: 'with less than six seconds to live',
    code: 'PAYMENT_UNFUNDED',
    reason: /valid_before.*at least 6 seconds/,
    make: signed({ validBefore: NOW + 5n }),
  },
  { name: 'not yet valid', code: 'PAYMENT_UNFUNDED', reason: /valid_after/, make: signed({ validAfter: NOW + 1n }) },
  {
    name: 'from an empty wallet',
    code: 'PAYMENT_UNFUNDED',
    reason: /balance is 0 base units; the price is 22000/,
    make(buyer, challenge, { chain }) {
      chain.drain(buyer.wallet)
      return buyer.sign(challenge)
    },
  },
  {
    name: 'with a nonce that was used on chain',
    code: 'PAYMENT_REPLAY',
    reason: /used or canceled/,
    make(buyer, challenge, { chain }) {
      const payment = buyer.sign(challenge)
      chain.submit(payment)
      return payment
    },
  },
  {
    name: 'with a nonce that was cancelled on chain',
    code: 'PAYMENT_REPLAY',
    reason: /used or canceled/,
    make(buyer, challenge, { chain }) {
      const payment = buyer.sign(challenge)
      chain.cancel(payment)
      return payment
    },
  },
]

const encoded = (bad: Payment | string): string =>
  typeof bad === 'string' ? bad : Buffer.from(JSON.stringify(bad)).toString('base64')

function expectRejection({ status, headers, body }: Answer, { code, reason }: Bad): void {
  expect([status, body.error, body.code, typeof body.message]).toEqual([
    402,
    'Payment verification failed',
    code,
    'string',
  ])
  expect(body.details).toMatch(reason)
  const required = headers.get('payment-required') ?? ''
  expect([headers.get('x-payment-required'), x402Scheme(headers)]).toEqual([required, `X402 requirements=${required}`])
  expect(decodeHeader(required)).toMatchObject({
    x402Version: 2,
    error: 'Payment verification failed',
    accepts: body.accepts,
  })
  expect(atob(required) + JSON.stringify(body)).toMatch(/^[ -~]+$/)
  expect(body.price.amount).toBe('0.022000')
}

describe('on a sale, a payment', () => {
  for (const bad of [...strangers, ...unspendable]) {
    test(`${bad.name} is ${bad.code} with a fresh challenge, starts nothing and costs nothing (contract 1.17, 1.19, 1.20, 1.21, 1.22)`, async () => {
      const subject = kit()
      const { gateway, chain, vendor, ports, log } = subject
      const alice = subject.buyer()
      const header = encoded(bad.make(alice, await alice.ask(), subject))
      const before = [alice.balance(), chain.transfers.length]
      for (const name of ['payment-signature', 'x-payment']) {
        const request = new Request(ORIGIN + GENERATIONS, {
          method: 'POST',
          headers: { 'content-type': 'application/json', [name]: header },
          body: JSON.stringify(FOX),
        })
        const answer = await read(await gateway.fetch(request))
        expectRejection(answer, bad)
        expect(answer.body.job_id).toBeUndefined()
      }
      expect([alice.balance(), chain.transfers.length]).toEqual(before)
      expect([vendor.jobs.length, await ports.storage.lostCalls(Number.MAX_SAFE_INTEGER, 10), log.lines]).toEqual([
        0,
        [],
        [],
      ])
    })
  }

  test('rejected once does not stop its wallet: the fresh challenge is signed and bought', async () => {
    const alice = kit().buyer()
    const rejected = await alice.buy(FOX, { payment: alice.sign(await alice.ask(), { value: 1n }) })
    expect((await alice.buy(FOX, { payment: alice.sign(rejected) })).status).toBe(200)
  })

  test('of the quote of yesterday is rejected with the quote of today (contract 1.17)', async () => {
    const alice = kit().buyer()
    const stale = alice.sign(await alice.ask(FOX))
    const { status, body } = await alice.buy({ ...FOX, n: 2 }, { payment: stale })
    expect([status, body.code, body.price.amount]).toEqual([402, 'PAYMENT_INVALID', '0.043000'])
  })

  test('with exactly six seconds to live is accepted', async () => {
    const alice = kit().buyer()
    expect((await alice.buy(FOX, { payment: alice.sign(await alice.ask(), { validBefore: NOW + 6n }) })).status).toBe(
      200,
    )
  })

  test('with unknown extensions, another timeout, another resource, no extra or another spelling of the asset is accepted (contract 1.18)', async () => {
    const variants: readonly ((payment: Payment) => object)[] = [
      () => ({ extensions: { 'builder-code': { info: { s: ['service'] } }, bazaar: null } }),
      () => ({ resource: { url: 'https://other.example/v1/chat/completions' } }),
      ({ accepted }) => ({ accepted: { ...accepted, maxTimeoutSeconds: 900 } }),
      ({ accepted: { extra: _, ...accepted } }) => ({ accepted }),
      ({ accepted }) => ({
        accepted: { ...accepted, asset: accepted.asset.toLowerCase(), amount: '1', payTo: 'anybody' },
      }),
    ]
    for (const variant of variants) {
      const alice = kit().buyer()
      const payment = alice.sign(await alice.ask())
      expect((await alice.buy(FOX, { payment: changed(payment, variant(payment)) })).status).toBe(200)
    }
  })

  test('in a header of 15,000 bytes is judged like any other', async () => {
    const alice = kit().buyer()
    const padded = (payment: Payment) => changed(payment, { extensions: { pad: 'x'.repeat(10_600) } })
    const good = padded(alice.sign(await alice.ask()))
    expect(encodePayment(good).length).toBeGreaterThan(15_000)
    expect((await alice.buy(FOX, { payment: padded(alice.sign(await alice.ask(), { value: 1n })) })).body.code).toBe(
      'PAYMENT_INVALID',
    )
    expect((await alice.buy(FOX, { payment: good })).status).toBe(200)
  })

  test('that is random bytes is never a 5xx', async () => {
    const { gateway, log } = kit()
    let state = 7
    const random = () => (state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0)
    for (let i = 0; i < 300; i++) {
      const text = String.fromCharCode(...Array.from({ length: random() % 90 }, () => 33 + (random() % 94)))
      const headers = { 'content-type': 'application/json', 'x-payment': i % 2 === 0 ? text : btoa(text) }
      expect(
        (await gateway.fetch(new Request(ORIGIN + GENERATIONS, { method: 'POST', headers, body: JSON.stringify(FOX) })))
          .status,
      ).toBe(402)
    }
    expect(log.lines).toEqual([])
  })
})

describe('on a poll, a payment', () => {
  for (const bad of strangers) {
    test(`${bad.name} is ${bad.code} with a fresh challenge for this job`, async () => {
      const subject = kit()
      const alice = subject.buyer()
      const challenge = await alice.ask()
      const { body: bought } = await alice.buy(FOX, { payment: alice.sign(challenge) })
      const header = encoded(bad.make(alice, challenge, subject))
      const request = new Request(`${ORIGIN}${GENERATIONS}/${bought.id}`, { headers: { 'payment-signature': header } })
      const answer = await read(await subject.gateway.fetch(request))
      expectRejection(answer, bad)
      expect([answer.body.job_id, answer.body.model]).toEqual([bought.id, FOX.model])
      expect(subject.chain.transfers).toHaveLength(1)
    })
  }
})

test('the chain that cannot be asked is 503 with Retry-After; nothing is opened, and the same payment buys later (contract 1.27)', async () => {
  const { buyer, chain, vendor, ports } = kit()
  const alice = buyer()
  const payment = alice.sign(await alice.ask())
  chain.outage(true)
  const { status, headers, body } = await alice.buy(FOX, { payment })
  expect([status, headers.get('retry-after'), body.error, body.code]).toEqual([
    503,
    '5',
    'Payment verification unavailable',
    'PAYMENT_VERIFICATION_UNAVAILABLE',
  ])
  expect([vendor.jobs.length, await ports.storage.lostCalls(Number.MAX_SAFE_INTEGER, 1)]).toEqual([0, []])
  chain.outage(false)
  expect((await alice.buy(FOX, { payment })).status).toBe(200)
})

test('a chain that throws, or does not answer in time, cannot be asked either', async () => {
  const { chain } = kit()
  const never = () => new Promise<never>(() => {})
  const broken = { throws: () => Promise.reject(new Error('socket closed')), hangs: never }
  for (const question of ['identify', 'verify'] as const) {
    for (const answer of ['throws', 'hangs'] as const) {
      const { buyer, clock } = kit({ ports: { chain: { ...chain, [question]: broken[answer] } } })
      const alice = buyer()
      const bought = alice.buy(FOX, {
        payment: chain.sign((await alice.ask()).body.accepts[0], { from: chain.wallet('alice'), now: START }),
      })
      await clock.advance(8_000)
      expect([question, answer, (await bought).status]).toEqual([question, answer, 503])
    }
  }
})
