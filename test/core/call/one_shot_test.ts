import { describe, expect, test } from 'bun:test'
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import type { Ports } from '../../../core/mod.ts'
import {
  type Answer,
  decodeHeader,
  door,
  embedded,
  type Kit,
  kit,
  type KitOptions,
  ORIGIN,
  read,
  testClock,
} from '../../kit.ts'

const QUESTION = { query: 'what is x402?' }
const SEARCH = { path: '/api/v1/search' } as const
const PRICE = { path: '/api/v1/stocks/{market}/price/{symbol}', method: 'GET' } as const
const APPLE = { market: 'us', symbol: 'AAPL' }

/** A gateway that searches its sample corpus, each time after `before`. */
function world({ before = async () => {}, ...options }: KitOptions & { before?: () => Promise<void> } = {}): Kit {
  const clock = testClock()
  const { search, market } = embedded(clock)
  const patient = {
    search: async (...args: Parameters<NonNullable<typeof search>['search']>) => (
      await before(),
      (await search?.search(...args)) as never
    ),
  }
  return kit({ ...options, ports: { clock, vendors: { search: patient, ...(market && { market }) } } })
}

async function signed(subject: Kit, { seconds = 300 } = {}) {
  const alice = subject.buyer()
  const challenge = await alice.ask(QUESTION, SEARCH)
  const payment = alice.sign(challenge, { validBefore: BigInt(Math.floor(subject.clock.now() / 1000) + seconds) })
  return {
    alice,
    challenge,
    payment,
    buy: (more: object = {}): Promise<Answer> => alice.buy(QUESTION, { ...SEARCH, payment, ...more }),
  }
}

const statusOf = ({ headers }: Answer) => headers.get('x-payment-status')

describe('a one-shot sale under a storage that fails', () => {
  const failingOnce = (verb: 'claimSettlement' | 'moveCall') => {
    let isDown = true
    return ({ storage, ...ports }: Ports): Ports => ({
      ...ports,
      storage: {
        ...storage,
        [verb]: (...args: never[]) =>
          isDown
            ? ((isDown = false), Promise.reject(new Error('disk full')))
            : (storage[verb] as (...rest: never[]) => unknown)(...args),
      },
    })
  }

  test('when its settlement is claimed frees the authorization: the same signed request buys', async () => {
    const subject = world({ wrap: failingOnce('claimSettlement') })
    const { buy } = await signed(subject)
    const { status, body } = await buy()
    expect([status, JSON.stringify(body).includes('disk'), subject.chain.transfers]).toEqual([503, false, []])
    expect([statusOf(await buy()), subject.chain.transfers.length]).toEqual(['settled', 1])
  })

  test('when a deserted result is stored frees the authorization as well', async () => {
    const ready = door()
    const subject = world({ before: () => ready.passed, wrap: failingOnce('moveCall') })
    const { buy } = await signed(subject)
    const gone = new AbortController()
    const answer = buy({ gone: gone.signal })
    await subject.clock.settle()
    gone.abort()
    ready.open()
    await answer
    expect(subject.chain.transfers).toEqual([])
    expect([statusOf(await buy()), subject.chain.transfers.length]).toEqual(['settled', 1])
  })
})

describe('a one-shot result', () => {
  test('that comes after its call was given up is sold all the same, and sold once', async () => {
    const ready = door()
    const subject = world({ before: () => ready.passed })
    const { buy } = await signed(subject)
    const late = buy()
    await subject.clock.settle()
    await subject.restart().takeOver()
    ready.open()
    expect([statusOf(await late), subject.chain.transfers.length]).toEqual(['settled', 1])
    expect([statusOf(await buy()), subject.chain.transfers.length]).toEqual(['already_settled', 1])
  })

  test('that comes after its authorization went to another call is withheld, and charges nothing', async () => {
    const [ready, second] = [door(), door()]
    let requestCount = 0
    const subject = world({ before: () => (requestCount++ === 0 ? ready.passed : second.passed) })
    const { buy } = await signed(subject)
    const late = buy()
    await subject.clock.settle()
    const other = subject.restart()
    await other.takeOver()
    const again = buy({ gateway: other })
    await subject.clock.settle()
    ready.open()
    const { status, body } = await late
    expect([status, body.error, subject.chain.transfers]).toEqual([402, 'Payment settlement failed', []])
    second.open()
    expect([statusOf(await again), subject.chain.transfers.length]).toEqual(['settled', 1])
  })

  test('that is still being made is a replay for a resend, and 202 for a poll', async () => {
    const ready = door()
    const subject = world({ before: () => ready.passed })
    const { alice, payment, buy } = await signed(subject)
    const first = buy()
    await subject.clock.settle()
    const { status, body } = await buy()
    expect([status, body.code, body.recoverable, (await alice.poll(body.poll_url, payment)).status]).toEqual([
      402,
      'PAYMENT_REPLAY',
      true,
      202,
    ])
    ready.open()
    const { body: sold } = await first
    const polled = await alice.poll(body.poll_url, payment)
    expect([statusOf(polled), polled.body, subject.chain.transfers.length]).toEqual(['already_settled', sold, 1])
  })

  test('is no more to be had by a resend once it is paid by a poll and ten minutes old, and by polls for a day', async () => {
    const subject = world()
    const { alice, payment, buy } = await signed(subject)
    subject.chain.simulate('refused')
    const {
      body: { poll_url },
    } = await buy()
    expect(statusOf(await alice.poll(poll_url, payment))).toBe('settled')
    await subject.clock.advance(600_001)
    expect((await buy()).body.code).toBe('PAYMENT_REPLAY')
    await subject.clock.advance(80_000_000)
    expect(statusOf(await alice.poll(poll_url, payment))).toBe('already_settled')
  })

  test('whose settlement hangs is served after thirty seconds, and paid once', async () => {
    const hung = door()
    let isHung = true
    const subject = world({
      chain: memoryChain({ before: (question) => (question === 'settle' && isHung ? hung.passed : undefined) }),
    })
    const { buy } = await signed(subject)
    const buying = buy()
    await subject.clock.advance(30_000)
    const { status, headers } = await buying
    expect([status, headers.get('x-payment-settled'), headers.get('x-payment-settle-error-class')]).toEqual([
      200,
      'false',
      'unknown',
    ])
    isHung = false
    await subject.gateway.maintain()
    hung.open()
    await subject.clock.settle()
    expect([subject.chain.transfers.length, statusOf(await buy())]).toEqual([1, 'already_settled'])
  })

  test('whose authorization ended before it could be sent, on a chain that is away, is withheld and never charged', async () => {
    const ready = door()
    const subject = world({ before: () => ready.passed })
    const { buy } = await signed(subject, { seconds: 20 })
    const buying = buy()
    await subject.streamed(21_000)
    subject.chain.outage(true)
    ready.open()
    const { status, body } = await buying
    expect([status, body.error, body.recoverable]).toEqual([402, 'Payment settlement failed', true])
    subject.chain.outage(false)
    await subject.gateway.maintain()
    expect([subject.chain.transfers, await subject.ports.storage.unsettled(Number.MAX_SAFE_INTEGER, 9)]).toEqual([
      [],
      [],
    ])
  })

  test('whose authorization ended before it could be sent is withheld where the chain says so', async () => {
    const ready = door()
    const subject = world({ before: () => ready.passed })
    const { alice, challenge, buy } = await signed(subject, { seconds: 20 })
    const buying = buy()
    await subject.streamed(21_000)
    ready.open()
    const { status, headers, body } = await buying
    expect([status, body.error, decodeHeader(headers.get('payment-response')).success, 'summary' in body]).toEqual([
      402,
      'Payment settlement failed',
      false,
      false,
    ])
    expect(statusOf(await alice.poll(body.poll_url, alice.sign(challenge)))).toBe('settled')
  })
})

describe('the authorization of a one-shot sale', () => {
  test('is free for another order after a 404, which costs nothing', async () => {
    const subject = world()
    const alice = subject.buyer()
    const payment = alice.sign(await alice.ask(APPLE, PRICE))
    const missing = await alice.buy({ market: 'us', symbol: 'NOSUCH' }, { ...PRICE, payment })
    expect([missing.status, missing.body.error, subject.chain.transfers]).toEqual([404, 'Symbol not found', []])
    const { status, body } = await alice.buy(APPLE, { ...PRICE, payment })
    expect([status, body.symbol, subject.chain.transfers.length]).toEqual([200, 'AAPL', 1])
  })

  test('buys one order: the same words by another method are another', async () => {
    const subject = world()
    const alice = subject.buyer()
    const payment = alice.sign(await alice.ask(APPLE, PRICE))
    await alice.buy(APPLE, { ...PRICE, payment })
    const { status, body } = await alice.buy(APPLE, { ...PRICE, method: 'POST', payment })
    expect([status, body.error, 'code' in body, subject.chain.transfers.length]).toEqual([
      402,
      'Payment verification failed',
      false,
      1,
    ])
  })

  test('is not taken for a market that is not on the list: 404 with it as without, and to a HEAD', async () => {
    const subject = world()
    const alice = subject.buyer()
    const payment = alice.sign(await alice.ask(APPLE, PRICE))
    const nowhere = { ...APPLE, market: 'atlantis' }
    expect(
      (
        await read(
          await subject.gateway.fetch(new Request(`${ORIGIN}/api/v1/stocks/atlantis/price/AAPL`, { method: 'HEAD' })),
        )
      ).status,
    ).toBe(404)
    expect([
      (await alice.ask(nowhere, PRICE)).status,
      (await alice.buy(nowhere, { ...PRICE, payment })).status,
    ]).toEqual([404, 404])
    expect(statusOf(await alice.buy(APPLE, { ...PRICE, payment }))).toBe('settled')
  })
})

test('an order that is repeated under its payment identifier, with a fresh signature, is answered again and charged once', async () => {
  const subject = world()
  const { alice, challenge } = await signed(subject)
  const extensions = { 'payment-identifier': { info: { required: false, id: 'pay_0123456789abcdef' } } }
  const buying = () => alice.buy(QUESTION, { ...SEARCH, payment: { ...alice.sign(challenge), extensions } })
  const [first, second] = [await buying(), await buying()]
  expect([statusOf(first), statusOf(second), second.body, subject.chain.transfers.length]).toEqual([
    'settled',
    'already_settled',
    first.body,
    1,
  ])
})
