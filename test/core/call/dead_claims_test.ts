/** Settlements that a process had in flight when it was killed, and whoever asks for their results meanwhile. */
import { describe, expect, test } from 'bun:test'
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import type { Gateway, Payment } from '../../../core/mod.ts'
import { embedded, FOX, kit, read, testClock } from '../../kit.ts'
import { SKY, STREAM, table } from './stream_kit.ts'

const SECOND = 1_000

/** A chain whose first settlement never returns, as in a process that is killed meanwhile. */
function chainOfTheDead() {
  let settlements = 0
  return memoryChain({
    before: (question) => (question === 'settle' && ++settlements === 1 ? new Promise<never>(() => {}) : undefined),
  })
}

describe('a settlement in flight in a process that was killed', () => {
  test('is claimed again as soon as the next process takes over, and the resend is answered at once', async () => {
    for (const body of [SKY, STREAM]) {
      const { post, signed, clock, chain, restart } = await table(undefined, { chain: chainOfTheDead() })
      const payment = await signed(body)
      void post(body, { payment }).then(async (answer) => await answer.text())
      await clock.settle()
      const next = restart()
      await next.takeOver()
      const before = clock.now()
      const again = await post(body, { payment, gateway: next })
      expect([
        again.status,
        again.headers.get('x-payment-status'),
        clock.now() - before,
        chain.transfers.length,
      ]).toEqual([200, 'settled', 0, 1])
    }
  })

  test('of a job is settled by the next process without any caller', async () => {
    const subject = kit({ chain: chainOfTheDead() })
    const alice = subject.buyer()
    void alice.buy()
    await subject.clock.settle()
    const next = subject.restart()
    await next.takeOver()
    await next.maintain()
    expect([
      subject.chain.transfers.length,
      await subject.ports.storage.unsettled(Number.MAX_SAFE_INTEGER, 10),
    ]).toEqual([1, []])
  })

  test('keeps its claim where it is under way in a gateway of the same process', async () => {
    const subject = kit({ chain: chainOfTheDead() })
    const alice = subject.buyer()
    void alice.buy()
    await subject.clock.settle()
    const same = subject.restart({ workerId: 'first', name: 'default' })
    await same.takeOver()
    await same.maintain()
    expect(subject.chain.transfers).toEqual([])
  })
})

describe('a resend while another process settles its call (contract 1.90)', () => {
  /** How long `ask` takes on the clock of the test, in milliseconds, and what it resolves to. */
  async function timed<T>(clock: ReturnType<typeof kit>['clock'], ask: Promise<T>): Promise<{ ms: number; answer: T }> {
    const before = clock.now()
    let done = false
    void ask.finally(() => (done = true))
    await clock.settle()
    while (!done && clock.now() - before < 60 * SECOND) await clock.advance(50)
    return { ms: clock.now() - before, answer: await ask }
  }

  test('is 202 with its poll after three seconds at most, whole and streamed', async () => {
    for (const body of [SKY, STREAM]) {
      const { post, signed, clock, keyed, restart } = await table(undefined, { chain: chainOfTheDead() })
      const payment = await signed(body)
      void post(body, { payment }).then(async (answer) => await answer.text())
      await clock.settle()
      const { ms, answer } = await timed(clock, post(body, { payment, gateway: restart() }).then(read))
      expect([answer.status, answer.body.poll_url, ms <= 3 * SECOND]).toEqual([202, await keyed(answer.body.id), true])
    }
  })

  test('of a one-shot call is 202 as well, and not the unpaid answer', async () => {
    const clock = testClock()
    const { search } = embedded(clock)
    const subject = kit({ chain: chainOfTheDead(), ports: { clock, vendors: { ...(search && { search }) } } })
    const alice = subject.buyer()
    const [question, at] = [{ query: 'what is x402?' }, { path: '/api/v1/search' }]
    const payment = alice.sign(await alice.ask(question, at))
    void alice.buy(question, { ...at, payment })
    await clock.settle()
    const resent = alice.buy(question, { ...at, payment, gateway: subject.restart() })
    const { ms, answer } = await timed(clock, resent)
    expect([answer.status, answer.body.status, typeof answer.body.poll_url, ms <= 3 * SECOND]).toEqual([
      202,
      'in_progress',
      'string',
      true,
    ])
  })

  test('a poll is 202 after three seconds at most', async () => {
    const { clock, buyer, idle, restart, chain } = kit({ chain: chainOfTheDead(), inlineMs: 0 })
    const alice = buyer()
    const payment: Payment = alice.sign(await alice.ask())
    const { body } = await alice.buy(FOX, { payment })
    await idle()
    const poll = (gateway?: Gateway) => alice.poll(body.poll_url, payment, gateway && { gateway })
    void poll()
    await clock.settle()
    const { ms, answer } = await timed(clock, poll(restart()))
    expect([answer.status, ms <= 3 * SECOND, chain.transfers.length]).toEqual([202, true, 0])
  })

  test('that finds the claim free and the chain silent is 202 within ten seconds, and settles on', async () => {
    let isSilent = true
    const chain = memoryChain({
      before: (question) => (question === 'settle' && isSilent ? new Promise<never>(() => {}) : undefined),
    })
    const { post, signed, clock, restart } = await table(undefined, { chain })
    const payment = await signed(SKY)
    void post(SKY, { payment }).then(async (answer) => await answer.text())
    await clock.settle()
    const next = restart()
    await next.takeOver()
    const { ms, answer } = await timed(clock, post(SKY, { payment, gateway: next }).then(read))
    expect([answer.status, ms <= 10 * SECOND]).toEqual([202, true])
    isSilent = false
    await clock.advance(60 * SECOND)
    await next.maintain()
    expect(chain.transfers).toHaveLength(1)
  })
})
