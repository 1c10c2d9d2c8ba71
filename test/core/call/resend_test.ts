import { describe, expect, test } from 'bun:test'
import { chatPieces, DONE, scriptedChat, streamAnswer, wholeAnswer } from '../../fakes/chat.ts'
import type { Gateway, Payment } from '../../../core/mod.ts'
import { encodePayment, kit, type Kit, ORIGIN, read } from '../../kit.ts'
import { COMPLETIONS, HELLO, reading, deltaChunk, SKY, STREAM, streaming, table, USED } from './stream_kit.ts'
import { type Blow, injected } from '../fault_injection.ts'

const MINUTE = 60_000
const HI = deltaChunk({ content: 'Hi' })

describe('the same signed request, sent again', () => {
  test('while it runs is PAYMENT_REPLAY and names its call, whole and streamed (contract 1.42)', async () => {
    for (const body of [SKY, STREAM]) {
      const pieces = chatPieces(HI)
      const { post, signed, clock, chain, chat, keyed } = await table(async () =>
        body === SKY ? await new Promise<never>(() => {}) : pieces.answer,
      )
      const payment = await signed(body)
      void post(body, { payment })
      await clock.settle()
      const again = await read(await post(body, { payment }))
      expect([again.status, again.body.code, again.body.recoverable, again.body.poll_url]).toEqual([
        402,
        'PAYMENT_REPLAY',
        true,
        await keyed(again.body.job_id),
      ])
      expect([chat.orders.length, chain.transfers.length]).toEqual([1, 0])
    }
  })

  test('after it was settled gets the stored answer and its receipt for ten minutes, then PAYMENT_REPLAY', async () => {
    const { post, signed, clock, chain, chat } = await table()
    const payment = await signed(SKY)
    const first = await post(SKY, { payment })
    const text = await first.text()
    await clock.advance(10 * MINUTE)
    const again = await post(SKY, { payment })
    expect([again.status, await again.text(), again.headers.get('content-type')]).toEqual([
      200,
      text,
      'application/json',
    ])
    expect([
      again.headers.get('payment-response'),
      again.headers.get('x-payment-receipt'),
      again.headers.get('x-payment-status'),
    ]).toEqual([first.headers.get('payment-response'), first.headers.get('x-payment-receipt'), 'already_settled'])
    await clock.advance(1)
    const late = await read(await post(SKY, { payment }))
    expect([late.status, late.body.code, chat.orders.length, chain.transfers.length]).toEqual([
      402,
      'PAYMENT_REPLAY',
      1,
      1,
    ])
  })

  test('of a stream gets its events as one text, without the receipt among them', async () => {
    const { post, signed, chain, chat } = await table(streaming(streamAnswer(HELLO)))
    const payment = await signed()
    await (await post(STREAM, { payment })).text()
    const again = await post(STREAM, { payment })
    expect([
      again.status,
      again.headers.get('content-type'),
      again.headers.get('x-payment-status'),
      again.headers.has('payment-response'),
    ]).toEqual([200, 'text/event-stream; charset=utf-8', 'already_settled', true])
    expect(await again.text()).toBe(HELLO.join(''))
    expect([chat.orders.length, chain.transfers.length]).toEqual([1, 1])
  })

  test('of a stream that its reader left gets what was made, and an error in place of the rest', async () => {
    const { post, signed, idle, chain } = await table(streaming(streamAnswer(HELLO)))
    const payment = await signed()
    const reader = reading(await post(STREAM, { payment }))
    const read = [await reader.next(), await reader.next()]
    await reader.leave()
    await idle()
    const text = await (await post(STREAM, { payment })).text()
    expect([
      text.startsWith(read.join('')),
      text.includes('[DONE]'),
      text.includes('"error"'),
      chain.transfers.length,
    ]).toEqual([true, false, true, 1])
  })

  test('of a stream that was settled on its way gets the whole of it when it is over, and ten minutes count from there', async () => {
    const pieces = chatPieces(HI)
    const { post, signed, streamed, clock, chain, ports } = await table(streaming(pieces.answer))
    const payment = await signed()
    const reader = reading(await post(STREAM, { payment }))
    await reader.next()
    await streamed(270_000)
    expect(chain.transfers).toHaveLength(1)
    const early = await (await post(STREAM, { payment })).text()
    expect([early.startsWith(HI), early.includes('[DONE]'), early.includes('"error"')]).toEqual([true, false, true])
    pieces.push(deltaChunk({ content: ' there' }), deltaChunk({}, { finish: 'stop' }), USED, DONE)
    await reader.rest()
    const identity = await chain.identify(payment, payment.accepted, {
      now: clock.now(),
      signal: new AbortController().signal,
    })
    const call = identity.kind === 'known' ? await ports.storage.callOf(identity.key, clock.now()) : undefined
    expect(call?.usage).toMatchObject({ output: 2 })
    await clock.advance(10 * MINUTE)
    const late = await (await post(STREAM, { payment })).text()
    expect([late.includes(' there'), late.endsWith(DONE), late.includes('"error"'), chain.transfers.length]).toEqual([
      true,
      true,
      false,
      1,
    ])
  })

  test('of a stream too long to be stored says so in an event, and never gets an empty answer', async () => {
    const long = deltaChunk({ content: 'x'.repeat(50_000) })
    const { post, signed } = await table(
      streaming(streamAnswer([long, long, long, deltaChunk({}, { finish: 'stop' }), DONE])),
    )
    const payment = await signed()
    expect((await (await post(STREAM, { payment })).text()).length).toBeGreaterThan(150_000)
    const again = await post(STREAM, { payment })
    expect([
      again.status,
      again.headers.get('content-type'),
      (await again.text()).includes('too long to be stored'),
    ]).toEqual([200, 'text/event-stream; charset=utf-8', true])
  })

  test('with another body is PAYMENT_REPLAY at once', async () => {
    const { post, signed, chat } = await table()
    const payment = await signed(SKY)
    await post(SKY, { payment })
    for (const body of [{ ...SKY, max_tokens: 99 }, STREAM]) {
      const { status, body: refused } = await read(await post(body, { payment }))
      expect([status, refused.code, typeof refused.job_id]).toEqual([402, 'PAYMENT_REPLAY', 'string'])
    }
    expect(chat.orders).toHaveLength(1)
  })

  test('of a call that is completed and unpaid pays for it', async () => {
    for (const weather of ['refused', 'dropped', 'landed'] as const) {
      const { post, signed, chain, chat } = await table()
      const payment = await signed(SKY)
      chain.simulate(weather)
      const { status, headers } = await post(SKY, { payment })
      expect([status, headers.get('x-payment-settled')]).toEqual(weather === 'refused' ? [402, null] : [200, 'false'])
      const again = await read(await post(SKY, { payment }))
      expect([
        weather,
        again.status,
        again.headers.get('x-payment-status'),
        again.body.choices[0].message.content,
      ]).toEqual([weather, 200, 'settled', 'Hello'])
      expect([chat.orders.length, chain.transfers.length]).toEqual([1, 1])
    }
  })

  test('after it was settled is answered to the address of the first alone, or under its payment identifier from any (contract 1.23, 1.40, 1.42)', async () => {
    const ELSEWHERE = '198.51.100.66'
    const named = (payment: Payment): Payment =>
      ({ ...payment, extensions: { 'payment-identifier': { info: { id: 'order_0000000000001' } } } }) as Payment
    for (const isNamed of [false, true]) {
      const { post, signed, chain, chat } = await table()
      const payment = isNamed ? named(await signed(SKY)) : await signed(SKY)
      const first = await (await post(SKY, { payment })).text()
      const [home, away] = [await post(SKY, { payment }), await post(SKY, { payment, ip: ELSEWHERE })]
      expect([isNamed, home.status, await home.text(), away.status]).toEqual([isNamed, 200, first, isNamed ? 200 : 402])
      const reported = await away.text()
      if (isNamed) expect(reported).toBe(first)
      else
        expect([
          reported.includes('PAYMENT_REPLAY'),
          /[?&]key=|job_/.test(reported),
          reported.includes('Hello'),
        ]).toEqual([true, false, false])
      expect([chat.orders.length, chain.transfers.length]).toEqual([1, 1])
    }
  })

  test('many times at once asks one vendor once, and settles once', async () => {
    for (const body of [SKY, STREAM]) {
      const { post, signed, chain, chat } = await table()
      const payment = await signed(body)
      const answers = await Promise.all(
        Array.from({ length: 20 }, async () => await (await post(body, { payment })).text()),
      )
      expect([
        answers.filter((text) => text.includes('PAYMENT_REPLAY')).length,
        chat.orders.length,
        chain.transfers.length,
      ]).toEqual([19, 1, 1])
    }
  })

  test('after it failed starts afresh', async () => {
    const { post, signed, chain } = await table(async (_, { attempt }) =>
      attempt === 1 ? Promise.reject(new Error('down')) : streamAnswer(HELLO),
    )
    const payment = await signed()
    expect((await post(STREAM, { payment })).status).toBe(503)
    expect([(await (await post(STREAM, { payment })).text()).endsWith(DONE), chain.transfers.length]).toEqual([true, 1])
  })
})

describe('a payment identifier', () => {
  const named = (payment: Payment, id = 'order_0000000000001'): Payment =>
    ({ ...payment, extensions: { 'payment-identifier': { info: { id } } } }) as Payment

  test('gives a repetition the stored answer without another payment, whole and streamed', async () => {
    for (const body of [SKY, STREAM]) {
      const { post, signed, chain, chat, clock } = await table()
      const first = await (await post(body, { payment: named(await signed(body)) })).text()
      await clock.advance(30 * MINUTE)
      const again = await post(body, { payment: named(await signed(body)) })
      expect([again.status, again.headers.get('x-payment-status'), chat.orders.length, chain.transfers.length]).toEqual(
        [200, 'already_settled', 1, 1],
      )
      expect((await again.text()).replace(/^:.*\n/gm, '')).toBe(first.replace(/^:.*\n(?:\n)?/gm, ''))
    }
  })

  test('with another request is 409', async () => {
    const { post, signed } = await table()
    await post(SKY, { payment: named(await signed(SKY)) })
    expect((await post(STREAM, { payment: named(await signed()) })).status).toBe(409)
  })

  test('of a call that runs reads 202', async () => {
    const { post, signed, clock } = await table(() => new Promise<never>(() => {}))
    void post(SKY, { payment: named(await signed(SKY)) })
    await clock.settle()
    const { status, body } = await read(await post(SKY, { payment: named(await signed(SKY)) }))
    expect([status, body.payment_status]).toEqual([202, 'verified'])
  })
})

// ── kill -9 ─────────────────────────────────────────────────────────────────────────────────────────────────────────

type Recovery = 'takeOver' | 'leases' | 'survival'

/** A purchase by a process that is struck, and what its buyer gets in the end who insists on the same request. */
async function play(body: object, { at, after }: Omit<Blow, 'kills'>, recovery: Recovery) {
  const chat = scriptedChat(async (order) => (order.stream ? streamAnswer(HELLO) : wholeAnswer()))
  const subject: Kit = kit({ chatVendor: chat })
  const { ports, chain, restart, clock } = subject
  const alice = subject.buyer()
  const payment = alice.sign(await alice.ask(body, { path: COMPLETIONS }))
  const doomed = injected(ports, { at, after, kills: recovery !== 'survival' })
  const old = restart({ workerId: 'first', ports: doomed.ports })
  const send = async (gateway: Gateway) => {
    const response = await gateway.fetch(
      new Request(ORIGIN + COMPLETIONS, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'payment-signature': encodePayment(payment) },
        body: JSON.stringify(body),
      }),
      { ip: '192.0.2.1' },
    )
    return { status: response.status, text: await response.text() }
  }
  const first = send(old).catch(() => undefined)
  await clock.settle()
  const gateway = recovery === 'survival' ? old : restart({ workerId: 'second' })
  if (recovery === 'takeOver') await gateway.takeOver()
  for (const ms of [10_000, 19_000, 1_000, 29_000, 16_000]) {
    await clock.advance(ms)
    for (const step of recovery === 'survival' ? [gateway.renew, gateway.maintain] : [gateway.maintain])
      await step().catch(() => {})
  }
  const heard = await Promise.race([first, clock.settle().then(() => undefined)])
  const [isFaultInjected, requests] = [doomed.isFaultInjected(), [...doomed.requests]]
  const paid = chain.transfers.length
  let last = await send(gateway)
  // One that survives may be struck only now.
  if (last.status >= 500) last = await send(gateway)
  await clock.settle()
  const isPoll = last.status === 402
  if (isPoll)
    last = {
      ...last,
      status: (
        await gateway.fetch(
          new Request(`${ORIGIN}${JSON.parse(last.text).poll_url}`, {
            headers: { 'payment-signature': encodePayment(payment) },
          }),
        )
      ).status,
    }
  await gateway.maintain()
  const point = isFaultInjected ? `${after ? 'after' : 'before'} ${requests[at - 1]} (${at})` : 'unhurt'
  const label = `${recovery}: ${point}, heard ${heard?.status}, last ${last.status} ${last.text.slice(0, 200)}`
  expect([label, last.status, paid <= 1, chain.transfers.length]).toEqual([label, 200, true, 1])
  const left = [
    await ports.storage.unsettled(Number.MAX_SAFE_INTEGER, 10),
    await ports.storage.lostCalls(Number.MAX_SAFE_INTEGER, 10),
  ]
  expect([label, left]).toEqual([label, [[], []]])
  const isOut = heard?.status === 200 && (heard.text.includes('[DONE]') || body === SKY)
  if (isOut && isFaultInjected && recovery === 'survival' && paid === 0)
    throw new Error(`${label}: delivered, and not settled by itself`)
  return { requests, isFaultInjected }
}

describe('kill -9, or one failing answer, at any moment leaves at most one transfer and no authorization stuck', () => {
  for (const body of [SKY, STREAM]) {
    for (const recovery of ['takeOver', 'leases', 'survival'] as const) {
      test(`in a ${body === STREAM ? 'streamed' : 'whole'} answer: ${recovery}`, async () => {
        for (const after of [false, true]) {
          for (let at = 1; ; at++) {
            const { isFaultInjected, requests } = await play(body, { at, after }, recovery)
            if (isFaultInjected) continue
            expect([requests, requests.length >= 8]).toEqual([requests, true])
            break
          }
        }
      })
    }
  }
})
