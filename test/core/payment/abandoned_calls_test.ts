/** Calls that their buyer leaves after the vendor was asked (contract 1.62). */
import { describe, expect, test } from 'bun:test'
import { chatPieces, streamAnswer, wholeAnswer } from '../../fakes/chat.ts'
import { type Abandoned, judgeAbandoned } from '../../../core/payment/unpaid/abandoned_calls.ts'
import { usdc } from '../../../core/x402/money.ts'
import type { Payment } from '../../../core/mod.ts'
import { FOX, type KitOptions, read } from '../../kit.ts'
import { COMPLETIONS, HELLO, deltaChunk, SKY, STREAM, table } from '../call/stream_kit.ts'

const DAY = 86_400_000
const DEAR = { ...SKY, max_tokens: 100_000 }
const BACKGROUND = { model: SKY.model, input: 'Why is the sky blue?', background: true, max_output_tokens: 20 }
const RESPONSES = '/api/v1/responses'

/** A model that answers nothing while `state.isSlow`; `leave` orders and hangs up while it works. */
async function leaving(options: KitOptions = {}) {
  const state = { isSlow: true }
  const subject = await table(async ({ stream }, { signal }) => {
    if (state.isSlow) await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    return stream ? streamAnswer(HELLO) : wholeAnswer()
  }, options)
  const { post, signed, clock } = subject
  async function leave(body: object = DEAR, payment?: Payment) {
    const gone = new AbortController()
    const answer = post(body, { payment: payment ?? (await signed(body)), gone: gone.signal })
    await clock.settle()
    gone.abort()
    return await read(await answer)
  }
  const order = async (body: object = SKY) => await read(await post(body, { payment: await signed(body) }))
  return { ...subject, state, leave, order }
}

describe('a wallet that leaves its calls while the model works', () => {
  test('may do so three times where they are dear and it never paid: then 402 says what is the matter, and no vendor is asked (contract 1.62)', async () => {
    const { leave, chat, chain } = await leaving()
    const statuses = []
    for (let call = 0; call < 25; call++) statuses.push((await leave()).status)
    expect([statuses.filter((status) => status === 503).length, chat.orders.length]).toEqual([3, 3])
    const { status, body } = await leave()
    expect([status, body.code, body.retryAfterSeconds, chain.transfers.length]).toEqual([
      402,
      'PAYMENT_UNFUNDED',
      86_400,
      0,
    ])
    expect(body.details ?? body.message).toMatch(
      /abandoned or cancelled 3 unpaid calls .* worth 0\.\d+ USDC in total.*wait 1440 minutes/,
    )
  })

  test('may do so five times where they are cheap, whole and streamed, with one authorization or with many (contract 1.62)', async () => {
    for (const body of [SKY, STREAM])
      for (const isOne of [false, true]) {
        const { leave, signed, chat } = await leaving()
        const payment = isOne ? await signed(body) : undefined
        for (let call = 0; call < 9; call++) await leave(body, payment)
        expect(chat.orders).toHaveLength(5)
      }
  })

  test('by a reader who leaves a stream before its first word', async () => {
    const { post, signed, chat, idle } = await table(
      async () => chatPieces(deltaChunk({ role: 'assistant' }), deltaChunk({ content: 'Hi' })).answer,
    )
    for (let call = 0; call < 9; call++) {
      const response = await post(STREAM, { payment: await signed() })
      await response.body?.cancel()
      await idle()
    }
    expect(chat.orders).toHaveLength(5)
  })

  test('by an authorization that ends before the answer can be there (contract 1.62)', async () => {
    const { chat, alice, post, clock } = await leaving()
    for (let call = 0; call < 9; call++) {
      const ends = BigInt(Math.floor(clock.now() / 1000) + 40)
      const answer = post(SKY, {
        payment: alice.sign(await alice.ask(SKY, { path: COMPLETIONS }), { validBefore: ends }),
      })
      await clock.advance(20_000)
      expect((await answer).status).toBe(call < 5 ? 504 : 402)
    }
    expect(chat.orders).toHaveLength(5)
  })

  test('by cancelling what works in the background (contract 1.62)', async () => {
    const { post, signed, chat, clock, gateway } = await leaving()
    for (let call = 0; call < 9; call++) {
      const payment = await signed(BACKGROUND, { path: RESPONSES })
      const { status, body } = await read(await post(BACKGROUND, { payment, path: RESPONSES }))
      expect(status).toBe(call < 5 ? 200 : 402)
      await clock.settle()
      if (status !== 200) continue
      const cancel = new Request(`https://farebox.test${RESPONSES}/${body.id}/cancel`, { method: 'POST' })
      await (await gateway.fetch(cancel, { ip: '192.0.2.1' })).text()
    }
    expect(chat.orders).toHaveLength(5)
  })

  test('is served again after a day, and other wallets and other products are served all the time (contract 1.62)', async () => {
    const { leave, order, alice, signed, post, buyer, clock, state } = await leaving()
    for (let call = 0; call < 5; call++) await leave(SKY)
    state.isSlow = false
    expect((await order()).body.code).toBe('PAYMENT_UNFUNDED')
    expect((await post(SKY, { payment: await signed(SKY, { by: buyer('bob') }) })).status).toBe(200)
    await clock.advance(DAY)
    expect((await order()).status).toBe(200)
    expect((await alice.buy(FOX)).status).toBe(200)
  })

  test('is forgiven as much as it pays: a client that tries again after a broken connection is never refused (contract 1.62)', async () => {
    const { leave, signed, post, chat, state } = await leaving()
    for (let round = 0; round < 9; round++) {
      const payment = await signed(DEAR)
      state.isSlow = true
      for (let attempt = 0; attempt < 2; attempt++) expect((await leave(DEAR, payment)).status).toBe(503)
      state.isSlow = false
      expect((await post(DEAR, { payment })).status).toBe(200)
      // Pays for the second one that it left.
      expect((await post(DEAR, { payment: await signed(DEAR) })).status).toBe(200)
    }
    expect(chat.orders).toHaveLength(9 * 4)
  })

  test('is served again once it has paid for something that settles before its reply', async () => {
    const { leave, order, alice, state } = await leaving()
    for (let call = 0; call < 5; call++) await leave(SKY)
    state.isSlow = false
    expect((await order()).status).toBe(402)
    expect((await alice.buy(FOX)).status).toBe(200)
    expect((await order()).status).toBe(200)
  })
})

describe('what a wallet has abandoned', () => {
  const judged = (worths: readonly bigint[], spent: bigint): Abandoned | undefined =>
    judgeAbandoned(
      worths.map((worth, n) => ({ worth: usdc(worth), until: n + 1 })),
      { spent: usdc(spent), newWorth: usdc(50n) },
    )

  test('is covered by what it spent, the oldest first, and the rest is counted', () => {
    expect(judged([10n, 10n, 10n, 10n, 10n], 9n)).toEqual({ calls: 5, worth: usdc(50n), until: 1 })
    expect(judged([10n, 10n, 10n, 10n, 10n], 10n)).toBeUndefined()
    expect(judged([10n, 10n, 10n, 10n, 10n, 10n], 10n)).toEqual({ calls: 5, worth: usdc(50n), until: 2 })
    expect(
      judged(
        Array.from({ length: 100 }, () => 10n),
        960n,
      ),
    ).toBeUndefined()
  })

  test('is worth a bounded sum where it spent nothing, from three calls on (contract 1.62)', () => {
    expect(judged([1_000n, 1_000n], 0n)).toBeUndefined()
    expect(judged([10n, 20n, 20n], 0n)).toBeUndefined()
    expect(judged([10n, 20n, 21n], 0n)).toEqual({ calls: 3, worth: usdc(51n), until: 1 })
    expect(judged([10n, 20n, 21n], 1n)).toBeUndefined()
  })
})
