/** `solana/charge` at a whole gateway on a local Solana: which credentials pay, and what a stranger can do. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type Challenge, decodeUrl, readChallenges } from '../../../core/mpp/mod.ts'
import type { SolanaNode } from '../../../server/devnet/solana/node.ts'
import { scriptedChat, wholeAnswer } from '../../fakes/chat.ts'
import { referenceSolanaDesk, facilitatorHarness } from '../../adapters/chains/solana/facilitator_kit.ts'
import {
  base64,
  chatFormatOf,
  type Draft,
  draftOf,
  type Key,
  memo,
  solanaHarness,
  solanaWorld,
} from '../../adapters/chains/solana/solana_kit.ts'
import { encodePayment, FOX, GENERATIONS, kit, ORIGIN, testClock } from '../../kit.ts'
import { headerOf } from '../mpp/mpp_kit.ts'

let node: SolanaNode
beforeAll(async () => {
  node = await solanaWorld()
})
afterAll(() => node.stop())

type Sending = { readonly headers?: Record<string, string>; readonly body?: object; readonly ip?: string }

async function world() {
  const h = await solanaHarness(node)
  const clock = testClock(node.now())
  const chatVendor = scriptedChat(async () => wholeAnswer())
  const { gateway } = kit({ ports: { clock }, chatVendor, wrap: (ports) => ({ ...ports, chain: h.chain }) })
  const alice = await h.payer()
  const send = async ({ headers = {}, body = FOX, ip = '192.0.2.1' }: Sending = {}) => {
    const made = new Request(ORIGIN + GENERATIONS, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    })
    const response = await gateway.fetch(made, { ip })
    return { status: response.status, headers: response.headers, body: (await response.json()) as any }
  }
  const fetched = (path: string, headers: Record<string, string>) =>
    gateway.fetch(new Request(ORIGIN + path, { headers }), { ip: '192.0.2.1' })
  const challengesIn = (headers: Headers) =>
    readChallenges(headers.get('www-authenticate') ?? '') as unknown as readonly Challenge[]
  const quote = async (sending?: Sending) => {
    const [challenge] = challengesIn((await send(sending)).headers)
    if (!challenge) throw new Error('no challenge')
    return challenge
  }
  const offerIn = ({ request }: Challenge) => {
    const { amount, externalId } = decodeUrl(request) as Record<string, any>
    return { ...h.offer, amount, extra: { ...h.offer.extra, memo: externalId } }
  }
  type Bend = (draft: Draft) => Draft
  const transaction = async (challenge: Challenge, bend: Bend = (same) => same, by: Key = h.key(alice)) =>
    base64(await chatFormatOf(bend(await draftOf(node, by, offerIn(challenge)))))
  const credential = (challenge: Challenge, signed: string) => ({
    authorization: headerOf({ challenge, payload: { type: 'transaction', transaction: signed } }),
  })
  const pay = async (challenge: Challenge, bend?: Bend) => credential(challenge, await transaction(challenge, bend))
  const received = () => node.balanceOf(h.offer.payTo)
  return { ...h, alice, clock, send, fetched, quote, pay, credential, transaction, challengesIn, received, offerIn }
}

const typeOf = (body: { readonly type?: string }) => body.type?.replace('https://paymentauth.org/problems/', '')
const without = (draft: Draft, at: number): Draft => ({
  ...draft,
  instructions: draft.instructions.filter((_each, index) => index !== at),
})
const MEMO_AT = 3

describe('a challenge solana/charge', () => {
  test('asks what the exact offer asks, pulled, with our fee payer and a memo that no other one has (contract 24.14)', async () => {
    const { send, challengesIn, offer, config } = await world()
    const { headers, body } = await send()
    const [challenge, ...more] = challengesIn(headers)
    expect([more, challenge?.method, challenge?.intent]).toEqual([[], 'solana', 'charge'])
    const request = decodeUrl(challenge?.request ?? '') as any
    expect(request).toMatchObject({ amount: body.accepts[0].amount, currency: offer.asset, recipient: offer.payTo })
    expect(request.methodDetails).toMatchObject({ decimals: 6, feePayer: true, network: 'devnet' })
    expect(request.methodDetails.feePayerKey).toBe(body.accepts[0].extra.feePayer)
    expect(config.payTo).toBe(request.recipient)
    const all = await Promise.all(Array.from({ length: 20 }, async () => challengesIn((await send()).headers)[0]))
    expect(new Set(all.map((each) => (decodeUrl(each?.request ?? '') as any).externalId)).size).toBe(20)
  })

  test('is made for a client that accepts it alone, and for none that refuses it (contract 24.4)', async () => {
    const { send, challengesIn } = await world()
    const accepting = async (header: string) => (await send({ headers: { 'accept-payment': header } })).headers
    expect(challengesIn(await accepting('solana/charge, tempo/*')).map(({ method }) => method)).toEqual(['solana'])
    expect((await accepting('solana/charge;q=0')).has('www-authenticate')).toBe(false)
    expect(challengesIn(await accepting('evm/charge')).map(({ method }) => method)).toEqual(['solana'])
  })

  test('is not made where a facilitator settles, which wants another order of instructions (contract 24.14)', async () => {
    const desk = await referenceSolanaDesk(node)
    const { chain } = await facilitatorHarness(node, [desk])
    try {
      const { gateway } = kit({ ports: { clock: testClock(node.now()) }, wrap: (ports) => ({ ...ports, chain }) })
      const unpaid = await gateway.fetch(
        new Request(ORIGIN + GENERATIONS, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(FOX),
        }),
        { ip: '192.0.2.1' },
      )
      expect([unpaid.status, unpaid.headers.get('www-authenticate')]).toEqual([402, expect.stringMatching(/^X402 /)])
    } finally {
      chain.close()
      await desk.close()
    }
  })
})

describe('a credential', () => {
  test('buys once, and its receipt names the challenge and the transaction (contract 24.6, 24.9)', async () => {
    const { send, fetched, quote, pay, received } = await world()
    const challenge = await quote()
    const headers = await pay(challenge)
    const bought = await send({ headers })
    expect([bought.status, decodeUrl(bought.headers.get('payment-receipt') ?? '')]).toEqual([
      200,
      {
        status: 'success',
        method: 'solana',
        timestamp: expect.any(String),
        reference: bought.headers.get('x-payment-receipt'),
        challengeId: challenge.id,
      },
    ])
    const paid = await received()
    const again = await send({ headers })
    expect([again.status, again.body.code, again.headers.has('www-authenticate')]).toEqual([
      402,
      'PAYMENT_REPLAY',
      false,
    ])
    const polled = await fetched(again.body.poll_url, headers)
    const receipt = decodeUrl(polled.headers.get('payment-receipt') ?? '')
    expect([polled.status, receipt?.challengeId, await received()]).toEqual([200, challenge.id, paid])
  })

  test('whose challenge has ended buys nothing, however fresh its transaction is, and still reads what it bought', async () => {
    const { send, quote, pay, received, clock, alice, balanceOf } = await world()
    const [used, spare] = [await quote(), await quote()]
    const headers = await pay(used)
    expect((await send({ headers })).status).toBe(200)
    const [paid, before] = [await received(), await balanceOf(alice.address)]
    const end = Date.parse(spare.expires ?? '') - 5_000
    await clock.advance(end - clock.now())
    const late = await send({ headers: await pay(spare) })
    expect([late.status, typeOf(late.body), late.body.code]).toEqual([402, 'payment-expired', 'PAYMENT_UNFUNDED'])
    const read = await send({ headers })
    expect([read.status === 200 || read.body.code === 'PAYMENT_REPLAY', await received()]).toEqual([true, paid])
    expect(await balanceOf(alice.address)).toBe(before)
  })

  const bends: Readonly<Record<string, (draft: Draft) => Draft>> = {
    'has no memo': (draft) => without(draft, MEMO_AT),
    'has another memo': (draft) => ({ ...draft, instructions: [...draft.instructions.slice(0, 3), memo('another')] }),
    'has a byte order mark before its memo': (draft) => {
      const [prescribed] = draft.instructions.slice(MEMO_AT)
      const data = Uint8Array.from([0xef, 0xbb, 0xbf, ...(prescribed?.data ?? [])])
      return { ...draft, instructions: [...draft.instructions.slice(0, MEMO_AT), { ...prescribed, data } as never] }
    },
    'has a second memo': (draft) => ({ ...draft, instructions: [...draft.instructions, memo('another')] }),
    'has no compute price': (draft) => without(draft, 0),
    'offers a priority fee above its price': (draft) => {
      const [price, ...rest] = draft.instructions
      const data = Uint8Array.from(price?.data ?? [])
      data.set([0, 0, 0, 1], 5)
      return { ...draft, instructions: [{ ...price, data } as never, ...rest] }
    },
  }
  test.each(Object.entries(bends))(
    'that %s is 402 with a fresh challenge, and nothing is sent (contract 24.7)',
    async (_, bend) => {
      const { send, quote, pay, received, challengesIn } = await world()
      const challenge = await quote()
      const before = await received()
      const { status, headers, body } = await send({ headers: await pay(challenge, bend) })
      expect([status, typeOf(body), await received()]).toEqual([402, 'verification-failed', before])
      expect(challengesIn(headers).map(({ id }) => id)).not.toContain(challenge.id)
      expect((await send({ headers: await pay(challengesIn(headers)[0] as Challenge) })).status).toBe(200)
    },
  )

  test('of a cheaper quote, or a changed one, buys nothing (contract 24.7)', async () => {
    const { send, quote, pay, received } = await world()
    const [challenge, before] = [await quote(), await received()]
    const dearer = await send({ body: { ...FOX, n: 2 }, headers: await pay(challenge) })
    expect([dearer.status, typeOf(dearer.body)]).toEqual([402, 'payment-insufficient'])
    const request = decodeUrl(challenge.request) as any
    const cheap = Buffer.from(JSON.stringify({ ...request, amount: '1' })).toString('base64url')
    const changed = await send({ headers: await pay({ ...challenge, request: cheap }) })
    expect([changed.status, typeOf(changed.body), await received()]).toEqual([402, 'invalid-challenge', before])
  })

  test('with an Idempotency-Key buys once, whatever is signed for the second request (contract 24.10)', async () => {
    const { send, quote, pay, received } = await world()
    const named = { 'idempotency-key': 'stainless-node-retry-0123456789' }
    const first = await send({ headers: { ...named, ...(await pay(await quote())) } })
    const paid = await received()
    const second = await send({ headers: { ...named, ...(await pay(await quote())) } })
    expect([first.status, second.status, second.body.data, await received()]).toEqual([200, 200, first.body.data, paid])
  })
})

describe('a stranger with all that the chain shows', () => {
  test('buys and reads nothing with a mined transaction, under the challenge of the buyer or its own (contract 24.6)', async () => {
    const { send, quote, transaction, credential, received, offerIn } = await world()
    const challenge = await quote()
    const signed = await transaction(challenge)
    const named = { 'idempotency-key': 'order-0000000000001' }
    const bought = await send({ headers: { ...named, ...credential(challenge, signed) } })
    expect(bought.status).toBe(200)
    const paid = await received()
    const ip = '198.51.100.66'
    const own = await quote({ ip })
    const payment = {
      x402Version: 2 as const,
      accepted: offerIn(challenge),
      payload: { transaction: signed },
      extensions: { 'payment-identifier': { info: { id: named['idempotency-key'] } } },
    }
    const tries = [
      { ...named, ...credential(own, signed) },
      { ...named, ...credential({ ...challenge, id: own.id }, signed) },
      { 'payment-signature': encodePayment(payment) },
    ]
    for (const headers of tries) {
      const { status, body } = await send({ ip, headers })
      expect([status, body.data, await received()]).toEqual([402, undefined, paid])
    }
  })

  test('cannot use an unsent transaction of x402 for a challenge: it does not write its memo', async () => {
    const { send, quote, key, alice, offer, credential, received } = await world()
    const challenge = await quote()
    const price = (decodeUrl(challenge.request) as any).amount
    const signed = base64(await chatFormatOf(await draftOf(node, key(alice), { ...offer, amount: price })))
    const before = await received()
    const { status, body } = await send({ headers: credential(challenge, signed) })
    expect([status, typeOf(body), await received()]).toEqual([402, 'verification-failed', before])
  })
})
