/** Payments by MPP at a whole gateway: what its 402s offer, which credentials pay, and what a stranger can do. */
import { describe, expect, test } from 'bun:test'
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import { nonceOf } from '../../../adapters/chains/evm/charge.ts'
import { readChallenges } from '../../../core/mpp/challenge.ts'
import { canonicalJson, decodeUrl, encodeUrl } from '../../../core/mpp/codec.ts'
import type { Challenge, Credential } from '../../../core/mpp/method.ts'
import { scriptedChat, wholeAnswer } from '../../fakes/chat.ts'
import { encodePayment, FOX, GENERATIONS, kit, type KitOptions, ORIGIN, x402Scheme } from '../../kit.ts'
import { challengeIn, credentialOf, headerOf, offerIn, payCharge } from '../mpp/mpp_kit.ts'
import { COMPLETIONS, SKY } from './stream_kit.ts'

type Sending = {
  readonly headers?: Record<string, string>
  readonly body?: object | null
  readonly path?: string
  readonly ip?: string
  readonly origin?: string
}

function world(options: KitOptions = {}) {
  const chain = options.chain ?? memoryChain()
  const subject = kit({ chain, chatVendor: scriptedChat(async () => wholeAnswer()), ...options })
  const alice = chain.wallet('alice')
  chain.fund(alice, 1_000_000n)
  async function send({
    headers = {},
    body = FOX,
    path = GENERATIONS,
    ip = '192.0.2.1',
    origin = ORIGIN,
  }: Sending = {}) {
    const made = new Request(origin + path, {
      method: body ? 'POST' : 'GET',
      headers: { ...(body && { 'content-type': 'application/json' }), ...headers },
      ...(body && { body: JSON.stringify(body) }),
    })
    const response = await subject.gateway.fetch(made, { ip })
    const text = await response.text()
    return { status: response.status, headers: response.headers, body: text.startsWith('{') ? JSON.parse(text) : text }
  }
  const quote = async (sending?: Sending) => challengeIn((await send(sending)).headers)
  const pay = (challenge: Challenge, signing: object = {}) => payCharge(chain, challenge, { from: alice, ...signing })
  /** A quote and its credential, as a client sends it. */
  async function buy(sending: Sending = {}) {
    const credential = pay(await quote(sending))
    const headers = { ...sending.headers, authorization: headerOf(credential) }
    return { credential, ...(await send({ ...sending, headers })), sent: headers }
  }
  return { ...subject, chain, alice, send, quote, pay, buy }
}

const typeOf = (body: { readonly type?: string }) => body.type?.replace('https://paymentauth.org/problems/', '')
const receiptIn = (headers: Headers) => decodeUrl(headers.get('payment-receipt') ?? '') as any

describe('a 402 of a gateway that takes exact on EVM', () => {
  test('has one challenge evm/charge for what the exact offer asks, before the scheme X402 (contract 24.1, 24.5)', async () => {
    const { send, clock } = world()
    const { status, headers, body } = await send()
    const challenge = challengeIn(headers)
    const [offer] = body.accepts
    expect(status).toBe(402)
    expect(decodeUrl(challenge.request)).toEqual({
      amount: offer.amount,
      currency: offer.asset,
      methodDetails: { chainId: 84_532, credentialTypes: ['authorization'], decimals: 6 },
      recipient: offer.payTo,
    })
    expect([challenge.realm, challenge.method, challenge.intent]).toEqual(['farebox.test', 'evm', 'charge'])
    expect(Date.parse(challenge.expires ?? '')).toBe(
      Math.floor(clock.now() / 1000) * 1000 + offer.maxTimeoutSeconds * 1000,
    )
    expect(headers.get('www-authenticate')).toEndWith(`, X402 requirements=${headers.get('x-payment-required')}`)
    expect(headers.get('www-authenticate')).toStartWith('Payment id="')
    expect(body).toMatchObject({ status: 402, title: 'Payment Required', detail: body.message })
    expect(typeOf(body)).toBe('payment-required')
  })

  test('never prescribes the nonce of another one, however alike the quotes are (contract 24.2)', async () => {
    const { quote } = world()
    const challenges = await Promise.all(Array.from({ length: 20 }, () => quote()))
    expect(new Set(challenges.map(nonceOf)).size).toBe(20)
    expect(new Set(challenges.map(({ expires, request }) => `${expires} ${request}`)).size).toBe(1)
  })

  test('names another header for the credential where the request has an Authorization of its own (contract 24.3)', async () => {
    const { quote, send, pay } = world()
    const bearer = { authorization: 'Bearer unused' }
    const challenge = await quote({ headers: bearer })
    expect(challenge.header).toBe('Payment-Authorization')
    const credential = headerOf(pay(challenge))
    const paid = await send({ headers: { ...bearer, 'payment-authorization': credential } })
    expect(paid.status).toBe(200)
    expect((await quote()).header).toBeUndefined()
  })

  test('speaks MPP alone to a client that accepts it, and not at all to one that refuses it (contract 24.4)', async () => {
    const { send } = world()
    const accepting = async (header: string) => (await send({ headers: { 'accept-payment': header } })).headers
    const accepted = await accepting('tempo/*, evm/charge')
    expect([readChallenges(accepted.get('www-authenticate') ?? '').length, x402Scheme(accepted)]).toEqual([
      1,
      undefined,
    ])
    const refused = await accepting('evm/charge;q=0')
    expect([refused.has('www-authenticate'), refused.has('payment-required')]).toEqual([false, true])
    const other = await accepting('tempo/charge')
    expect([readChallenges(other.get('www-authenticate') ?? '').length, x402Scheme(other)]).toEqual([
      1,
      `X402 requirements=${other.get('x-payment-required')}`,
    ])
  })

  test('has no challenge where MPP is off; a client of MPP then gets no WWW-Authenticate, and can pay by x402 (contract 24.1, 24.5)', async () => {
    const { send } = world({ mpp: false })
    const { headers, body } = await send()
    expect([headers.get('www-authenticate'), typeOf(body)]).toEqual([
      `X402 requirements=${headers.get('x-payment-required')}`,
      undefined,
    ])
    const accepting = await send({ headers: { 'accept-payment': 'evm/charge' } })
    expect([accepting.headers.has('www-authenticate'), accepting.headers.has('payment-required')]).toEqual([
      false,
      true,
    ])
  })

  test('keeps the error shape of Anthropic, whose type is another one (contract 24.7)', async () => {
    const { send } = world()
    const body = { model: SKY.model, max_tokens: 16, messages: [{ role: 'user', content: 'Why?' }] }
    const answer = await send({ path: '/api/v1/messages', body })
    expect([
      answer.status,
      answer.body.type,
      readChallenges(answer.headers.get('www-authenticate') ?? '').length,
    ]).toEqual([402, 'error', 1])
  })
})

describe('a credential', () => {
  test('buys what its challenge was for, and its receipt names the challenge (contract 24.6, 24.9)', async () => {
    const { buy, chain, alice } = world()
    const { status, headers, credential } = await buy()
    expect([status, chain.transfers.length, chain.transfers[0]?.from]).toEqual([200, 1, alice])
    expect(headers.get('cache-control')).toContain('private')
    expect(receiptIn(headers)).toEqual({
      status: 'success',
      method: 'evm',
      timestamp: expect.any(String),
      reference: headers.get('x-payment-receipt'),
      challengeId: credential.challenge.id,
      chainId: 84_532,
    })
  })

  test('buys a whole chat answer with a receipt (contract 24.9)', async () => {
    const { buy } = world()
    const { status, headers, credential } = await buy({ path: COMPLETIONS, body: SKY })
    expect([status, receiptIn(headers).challengeId]).toEqual([200, credential.challenge.id])
  })

  test('collects its job by the poll URL, and one of the challenge of a poll collects it too (contract 24.1, 24.9)', async () => {
    const { buy, send, quote, pay, idle, chain } = world({ inlineMs: 0 })
    const { status, body, sent, headers } = await buy()
    expect([status, headers.has('payment-receipt')]).toEqual([202, false])
    await idle()
    const path = body.poll_url
    const demanded = await quote({ path: path.split('?')[0], body: null })
    const fresh = { authorization: headerOf(pay(demanded)) }
    const collected = await send({ path: path.split('?')[0], body: null, headers: fresh })
    expect([collected.status, receiptIn(collected.headers).reference]).toEqual([200, chain.transfers[0]?.transaction])
    const again = await send({ path, body: null, headers: sent })
    expect([again.status, again.body.payment.status, chain.transfers.length]).toEqual([200, 'already_settled', 1])
  })

  test('is answered again when it is resent, after its end too, and charged once (contract 24.6)', async () => {
    const { buy, send, clock, chain } = world()
    const { sent, headers } = await buy()
    await clock.advance(601_000)
    const late = await send({ headers: sent })
    expect([late.status === 200 || late.body.code === 'PAYMENT_REPLAY', chain.transfers.length]).toEqual([true, 1])
    if (late.status === 200) expect(receiptIn(late.headers).reference).toBe(headers.get('x-payment-receipt') ?? 'none')
  })

  test('with an Idempotency-Key buys once, whatever is signed for the second request (contract 24.10)', async () => {
    const { buy, chain } = world()
    const headers = { 'idempotency-key': 'stainless-node-retry-0123456789' }
    const first = await buy({ headers })
    const second = await buy({ headers })
    expect([second.status, second.body.data, chain.transfers.length]).toEqual([200, first.body.data, 1])
    const other = await buy({ headers, body: { ...FOX, prompt: 'a blue fox' } })
    expect([other.status, other.body.code ?? other.body.error, chain.transfers.length]).toEqual([
      409,
      expect.any(String),
      1,
    ])
    const bad = await buy({ headers: { 'idempotency-key': 'short' } })
    expect([bad.status, chain.transfers.length]).toEqual([400, 1])
  })

  test('beside a payment of x402, or beside another credential, is 400 (contract 24.11)', async () => {
    const { quote, pay, send, chain, alice, clock } = world()
    const authorization = headerOf(pay(await quote()))
    const payment = encodePayment(chain.sign(chain.offer(22_000n), { from: alice, now: clock.now() }))
    const another = headerOf(pay(await quote()))
    for (const headers of [
      { authorization, 'payment-signature': payment },
      { authorization, 'x-payment': payment },
      { authorization, 'payment-authorization': another },
      { authorization: `${authorization}, ${another}` },
    ]) {
      const { status, body } = await send({ headers })
      expect([status, body.message]).toEqual([400, expect.stringContaining('two payments')])
    }
    expect(chain.transfers).toEqual([])
    expect((await send({ headers: { authorization, 'payment-authorization': authorization } })).status).toBe(200)
  })
})

describe('a credential that does not pay', () => {
  type Changed = (credential: Credential) => unknown
  const withChallenge =
    (more: object): Changed =>
    (credential) => ({
      ...credential,
      challenge: { ...credential.challenge, ...more },
    })
  const withPayload =
    (more: object): Changed =>
    (credential) => ({
      ...credential,
      payload: { ...credential.payload, ...more },
    })
  const STRANGER = `0x${'11'.repeat(20)}`
  const cases: Readonly<Record<string, readonly [problem: string, Changed]>> = {
    'is not base64url': ['malformed-credential', () => 'Payment ***'],
    'is empty': ['malformed-credential', () => 'Payment'],
    'is no JSON': ['malformed-credential', () => `Payment ${encodeUrl('hello')}`],
    'has no challenge': ['malformed-credential', ({ payload }) => ({ payload })],
    'is of another type': ['invalid-payload', withPayload({ type: 'transaction', transaction: '0x00' })],
    'has no payload': ['invalid-payload', ({ challenge }) => ({ challenge })],
    'is of another realm': ['invalid-challenge', withChallenge({ realm: 'other.example' })],
    'has a forged id': ['invalid-challenge', withChallenge({ id: 'A'.repeat(43) })],
    'is for a lower price than was quoted': [
      'invalid-challenge',
      ({ challenge, ...rest }) => {
        const request = encodeUrl(canonicalJson({ ...decodeUrl(challenge.request), amount: '1' }))
        return { ...rest, challenge: { ...challenge, request } }
      },
    ],
    'lives longer than its challenge': ['invalid-challenge', withChallenge({ expires: '2099-01-01T00:00:00Z' })],
    'has no end': ['invalid-challenge', withChallenge({ expires: undefined })],
    'is of another method': ['invalid-challenge', withChallenge({ method: 'tempo' })],
    'pays somebody else': ['invalid-payload', withPayload({ to: STRANGER })],
    'pays less': ['invalid-payload', withPayload({ value: '1' })],
    'outlives its challenge': ['invalid-payload', withPayload({ validBefore: '99999999999' })],
    'has a nonce of its own': ['invalid-payload', withPayload({ nonce: `0x${'22'.repeat(32)}` })],
    'names another source': ['invalid-payload', (each) => ({ ...each, source: `did:pkh:eip155:84532:${STRANGER}` })],
    'is of another payer': ['verification-failed', ({ source: _, ...each }) => withPayload({ from: STRANGER })(each)],
    'has a bad signature': ['verification-failed', withPayload({ signature: `0x${'33'.repeat(65)}` })],
    'is longer than sixteen kilobytes': ['malformed-credential', () => `Payment ${'A'.repeat(16_400)}`],
  }

  test.each(Object.entries(cases))(
    'because it %s is 402 with its problem and a fresh challenge (contract 24.7)',
    async (_, [problem, change]) => {
      const { quote, pay, send, chain } = world()
      const challenge = await quote()
      const made = change(pay(challenge))
      const authorization = typeof made === 'string' ? made : headerOf(made as object)
      const { status, headers, body } = await send({ headers: { authorization } })
      expect([status, typeOf(body), body.code]).toEqual([402, problem, 'PAYMENT_INVALID'])
      expect([headers.get('cache-control'), body.status]).toEqual([expect.stringContaining('no-store'), 402])
      expect(challengeIn(headers).id).not.toBe(challenge.id)
      expect(chain.transfers).toEqual([])
      const again = await send({ headers: { authorization: headerOf(pay(challengeIn(headers))) } })
      expect([again.status, chain.transfers.length]).toEqual([200, 1])
    },
  )

  test('because it has expired is payment-expired (contract 24.7)', async () => {
    const { quote, pay, send, clock, chain } = world()
    const authorization = headerOf(pay(await quote()))
    await clock.advance(601_000)
    const { status, headers, body } = await send({ headers: { authorization } })
    expect([status, typeOf(body), body.code]).toEqual([402, 'payment-expired', 'PAYMENT_UNFUNDED'])
    expect([readChallenges(headers.get('www-authenticate') ?? '').length, chain.transfers.length]).toEqual([1, 0])
  })

  test('because its quote was for less, or for more, buys nothing (contract 24.7)', async () => {
    const { quote, pay, send, chain } = world()
    const [one, two] = [await quote(), await quote({ body: { ...FOX, n: 2 } })]
    const dearer = await send({ body: { ...FOX, n: 2 }, headers: { authorization: headerOf(pay(one)) } })
    expect([dearer.status, typeOf(dearer.body)]).toEqual([402, 'payment-insufficient'])
    const cheaper = await send({ headers: { authorization: headerOf(pay(two)) } })
    expect([cheaper.status, typeOf(cheaper.body), chain.transfers.length]).toEqual([402, 'invalid-challenge', 0])
  })

  test('because its wallet is empty is verification-failed (contract 24.7)', async () => {
    const { quote, pay, send, chain, alice } = world()
    const credential = pay(await quote())
    chain.drain(alice)
    const { status, body } = await send({ headers: { authorization: headerOf(credential) } })
    expect([status, typeOf(body), body.code]).toEqual([402, 'verification-failed', 'PAYMENT_UNFUNDED'])
  })

  test('of four kilobytes is read, as the signature of a contract wallet may be (contract 24.7)', async () => {
    const { quote, pay, send } = world()
    const credential = pay(await quote())
    const long = { ...credential, payload: { ...credential.payload, signature: `0x${'44'.repeat(1_200)}` } }
    const { status, body } = await send({ headers: { authorization: headerOf(long) } })
    expect(headerOf(long).length).toBeGreaterThan(4_000)
    expect([status, typeOf(body)]).toEqual([402, 'verification-failed'])
  })
})

describe('a stranger with all that the chain shows', () => {
  test('buys and reads nothing with a mined credential, for any body, route or address (contract 24.6, 24.8)', async () => {
    const { buy, send, chain } = world()
    const { sent } = await buy()
    const stranger = { ip: '198.51.100.66' }
    const tries: readonly Sending[] = [
      { ...stranger },
      { ...stranger, body: { ...FOX, prompt: 'a blue fox' } },
      { ...stranger, path: '/api/v1/images/image2image', body: { ...FOX, image: 'https://pictures.example/1.png' } },
      { body: { ...FOX, prompt: 'a blue fox' } },
    ]
    for (const each of tries) {
      const { status, headers, body } = await send({ ...each, headers: { authorization: sent.authorization } })
      expect(status).toBeGreaterThanOrEqual(400)
      expect([body.data, headers.get('payment-receipt')]).toEqual([undefined, null])
    }
    expect(chain.transfers.length).toBe(1)
  })

  test('reads nothing with a mined authorization and a guessed Idempotency-Key, sent by x402 (contract 1.41, 24.10)', async () => {
    const { quote, pay, send } = world()
    const [first, again] = [await quote(), await quote()]
    const credential = pay(first)
    const named = { 'idempotency-key': 'order-0000000000001' }
    const paid = await send({ headers: { ...named, authorization: headerOf(credential) } })
    expect(paid.status).toBe(200)
    const { signature, type: _, ...authorization } = credential.payload
    const extensions = { 'payment-identifier': { info: { id: named['idempotency-key'] } } }
    const payment = {
      x402Version: 2 as const,
      accepted: offerIn(first),
      payload: { signature, authorization },
      extensions,
    }
    const stranger = { ip: '198.51.100.66' }
    const taken = await send({ ...stranger, headers: { 'payment-signature': encodePayment(payment) } })
    expect([taken.status, taken.body.code, taken.body.data]).toEqual([402, 'PAYMENT_REPLAY', undefined])
    // No chain shows the id of a challenge, which is the rest of a credential: whoever has it is its buyer (1.40).
    const own = await send({ ...stranger, headers: { ...named, authorization: headerOf(credential) } })
    expect([own.status, own.body.data]).toEqual([200, paid.body.data])
    // The wallet itself signs afresh, from wherever it is.
    const fresh = await send({ ip: '198.51.100.66', headers: { ...named, authorization: headerOf(pay(again)) } })
    expect([fresh.status, fresh.body.data]).toEqual([200, paid.body.data])
  })

  test('gets no challenge after money has moved: clients would pay it by themselves (contract 24.8)', async () => {
    const { buy, send } = world()
    const { sent } = await buy()
    const { status, headers, body } = await send({ body: { ...FOX, prompt: 'a blue fox' }, headers: sent })
    expect([status, body.code, typeOf(body)]).toEqual([402, 'PAYMENT_REPLAY', 'verification-failed'])
    for (const name of ['www-authenticate', 'payment-required', 'x-payment-required'])
      expect([name, headers.get(name)]).toEqual([name, null])
    expect(body.accepts).toBeUndefined()
  })

  test('cannot make the authorization of a call into a credential of a challenge of its own (contract 24.6)', async () => {
    const { buy, quote, send, chain } = world()
    const { credential } = await buy()
    const own = await quote({ ip: '198.51.100.66' })
    const { signature, type: _, ...authorization } = credential.payload
    const payment = { x402Version: 2 as const, accepted: offerIn(own), payload: { signature, authorization } }
    const forged = credentialOf(own, payment)
    const answer = await send({ ip: '198.51.100.66', headers: { authorization: headerOf(forged) } })
    expect([answer.status, typeOf(answer.body)]).toEqual([402, 'invalid-payload'])
    const plain = await send({ ip: '198.51.100.66', headers: { 'payment-signature': encodePayment(payment) } })
    expect([plain.status, plain.body.code, chain.transfers.length]).toEqual([402, 'PAYMENT_REPLAY', 1])
  })

  test('pays one gateway alone: neither another name nor another gateway knows its challenge (contract 24.2)', async () => {
    const [one, two] = [world({ name: 'one' }), world({ name: 'two' })]
    const credential = one.pay(await one.quote())
    const headers = { authorization: headerOf(credential) }
    const elsewhere = await two.send({ headers })
    expect([elsewhere.status, typeOf(elsewhere.body)]).toEqual([402, 'invalid-challenge'])
    const renamed = await one.send({ headers, origin: 'http://other.test' })
    expect([renamed.status, typeOf(renamed.body)]).toEqual([402, 'invalid-challenge'])
    const replica = one.restart()
    const paid = await replica.fetch(
      new Request(ORIGIN + GENERATIONS, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify(FOX),
      }),
    )
    expect(paid.status).toBe(200)
  })
})
