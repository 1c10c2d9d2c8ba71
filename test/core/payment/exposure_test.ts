/**
 * Limits of one wallet's open amount: while its balance cannot be read, right after a purchase, and before it has ever
 * paid (contract 1.47, 1.46).
 */
import { describe, expect, test } from 'bun:test'
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import { chatPieces, streamAnswer, wholeAnswer } from '../../fakes/chat.ts'
import { print, usdc } from '../../../core/x402/money.ts'
import { door, FOX, kit, type KitOptions, read } from '../../kit.ts'
import { HELLO, reading, deltaChunk, SKY, slowChain, STREAM, streaming, table } from '../call/stream_kit.ts'

const CALLS = 30

/**
 * Thirty chats at once of one wallet that is emptied while the model works. Answers that say something count as given
 * away where nothing was paid for them; `worth` is what they were quoted at.
 */
async function emptied(body: typeof SKY, options: KitOptions = {}) {
  const gate = door()
  let requestCount = 0
  const subject = await table(async ({ stream }) => {
    requestCount++
    await gate.passed
    return stream ? streamAnswer(HELLO) : wholeAnswer()
  }, options)
  const { chain, alice, clock, signed, post } = subject
  const payments = []
  for (let call = 0; call < CALLS; call++) payments.push(await signed(body))
  const replies = payments.map(async (payment) => {
    const response = await post(body, { payment })
    return { status: response.status, text: await response.text() }
  })
  await clock.settle()
  chain.drain(alice.wallet)
  gate.open()
  const answers = await Promise.all(replies)
  const given = answers.filter(({ status, text }) => status === 200 && /Hel|Hello/.test(text)).length
  return {
    ...subject,
    requestCount,
    answers,
    given,
    paid: chain.transfers.length,
    worth: BigInt(payments[0]?.accepted.amount ?? 0) * BigInt(given),
  }
}

describe('thirty chats at once of a wallet that never paid, and is emptied while the model works', () => {
  test('give no whole answer away: two are worked on and withheld, the others refused before any work (contract 1.47)', async () => {
    const { requestCount, answers, given, paid, worth } = await emptied(SKY)
    expect({ requestCount, given, paid, worth: print(usdc(worth)) }).toEqual({
      requestCount: 2,
      given: 0,
      paid: 0,
      worth: '0.000000',
    })
    const bodies = answers.map(({ text }) => JSON.parse(text))
    expect(bodies.filter(({ error }) => error === 'Payment settlement failed')).toHaveLength(2)
    const refused = bodies.filter(({ code }) => code === 'PAYMENT_UNFUNDED')
    expect(refused).toHaveLength(28)
    expect(refused[0].details).toBe(
      'a wallet that has not paid here yet may have 2 open calls of this kind, worth 0.050000 USDC in total, and with this one the total would be 0.006000 USDC; wait until one of them is paid, then send the same signed request again',
    )
  })

  test('give one stream away, which is worth less than the cap: the second is settled before it says anything, and ends there (contract 6.48)', async () => {
    const { requestCount, answers, given, paid, worth } = await emptied(STREAM)
    expect({ requestCount, given, paid, worth: print(usdc(worth)) }).toEqual({
      requestCount: 2,
      given: 1,
      paid: 0,
      worth: '0.002000',
    })
    expect(answers.filter(({ text }) => text.includes('The payment of this stream was refused'))).toHaveLength(1)
  })

  test('give nothing away where one call is all that such a wallet may have open (contract 1.47)', async () => {
    for (const body of [SKY, STREAM]) {
      const { requestCount, given, paid } = await emptied(body, { newWallet: { calls: 1 } })
      expect({ requestCount, given, paid }).toEqual({ requestCount: 1, given: 0, paid: 0 })
    }
  })
})

describe('a wallet that never paid', () => {
  test('is new until its first payment: then as many as it likes are open at once (contract 1.47)', async () => {
    const { post, signed, chain } = await table()
    const payments = []
    for (let call = 0; call < 9; call++) payments.push(await signed(SKY))
    const [first, ...rest] = payments
    expect((await post(SKY, { payment: first! })).status).toBe(200)
    const answers = await Promise.all(rest.map((payment) => post(SKY, { payment })))
    expect([answers.filter(({ status }) => status === 200).length, chain.transfers.length]).toEqual([8, 9])
  })

  test('may begin with a call that is dearer than its cap: alone, and settled before a stream of it says anything (contract 1.59)', async () => {
    const pieces = chatPieces(deltaChunk({ role: 'assistant', content: '' }), deltaChunk({ content: 'Hel' }))
    const { post, signed, chain, clock } = await table(streaming(pieces.answer), { newWallet: { worth: usdc(1n) } })
    const payments = [await signed(STREAM), await signed(SKY)] as const
    const reader = reading(await post(STREAM, { payment: payments[0] }))
    expect((await read(await post(SKY, { payment: payments[1] }))).body.code).toBe('PAYMENT_UNFUNDED')
    expect(await reader.next()).toBe(deltaChunk({ role: 'assistant', content: '' }))
    await clock.settle()
    expect(chain.transfers).toHaveLength(0)
    expect(await reader.next()).toBe(deltaChunk({ content: 'Hel' }))
    expect(chain.transfers).toHaveLength(1)
    pieces.push(deltaChunk({ content: 'lo' }, {}), deltaChunk({}, { finish: 'stop' }), 'data: [DONE]\n\n')
    pieces.end()
    const rest = await reader.rest()
    expect([rest.includes('lo'), rest.includes(': payment-response '), chain.transfers.length]).toEqual([true, true, 1])
  })

  test('is not kept waiting by a chain that does not answer: its stream goes on after ten seconds', async () => {
    const { chain, open } = slowChain()
    const { post, signed, clock, idle } = await table(streaming(streamAnswer(HELLO)), {
      chain,
      newWallet: { calls: 1 },
    })
    const text = post(STREAM, { payment: await signed() }).then((response) => response.text())
    await clock.advance(10_000)
    expect(await text).toContain(': x-payment-settled false')
    open()
    await idle()
    expect(chain.transfers).toHaveLength(1)
  })
})

describe('twenty streams of a wallet that has paid once, and is emptied while the model works', () => {
  test('give away no more than it has paid or a new one may have: the others are settled before they say anything (contract 1.47)', async () => {
    const gate = door()
    let isFirst = true
    const { post, signed, chain, alice, clock } = await table(async ({ stream }) => {
      if (!isFirst) await gate.passed
      isFirst = false
      return stream ? streamAnswer(HELLO) : wholeAnswer()
    })
    expect((await post(SKY, { payment: await signed(SKY) })).status).toBe(200)
    const payments = []
    for (let call = 0; call < 20; call++) payments.push(await signed({ ...STREAM, max_tokens: 8_000 }))
    const quote = BigInt(payments[0]?.accepted.amount ?? 0)
    const texts = Promise.all(
      payments.map(async (payment) => await (await post({ ...STREAM, max_tokens: 8_000 }, { payment })).text()),
    )
    await clock.settle()
    chain.drain(alice.wallet)
    gate.open()
    const given = (await texts).filter((text) => text.includes('lo')).length
    expect([given, chain.transfers.length]).toEqual([Number(50_000n / quote), 1])
  })

  test('are all read and paid where it stays as rich as it was', async () => {
    const options = { newWallet: { worth: usdc(1n) } }
    const { post, signed, chain } = await table(async () => streamAnswer(HELLO), options)
    await (await post(STREAM, { payment: await signed() })).text()
    const payments = []
    for (let call = 0; call < 20; call++) payments.push(await signed())
    const texts = await Promise.all(payments.map(async (payment) => await (await post(STREAM, { payment })).text()))
    expect([texts.filter((text) => text.includes('lo')).length, chain.transfers.length]).toEqual([20, 21])
  })
})

describe('a whole answer whose settlement', () => {
  test('is not known in time is served, and says so', async () => {
    const { chain, open } = slowChain()
    const { post, signed, clock, idle } = await table(undefined, { chain })
    const answer = post(SKY, { payment: await signed(SKY) })
    await clock.advance(10_000)
    const { status, headers } = await answer
    expect([status, headers.get('x-payment-settled'), headers.get('x-payment-settle-error-class')]).toEqual([
      200,
      'false',
      'unknown',
    ])
    open()
    await idle()
  })
})

describe('exposure', () => {
  test('where no balance can be read is one open call, and the next when that has ended (contract 1.46)', async () => {
    const chain = memoryChain()
    const blind = {
      ...chain,
      verify: async (...args: Parameters<typeof chain.verify>) => {
        const verdict = await chain.verify(...args)
        return verdict.kind === 'valid' ? { kind: verdict.kind, asOf: verdict.asOf } : verdict
      },
    }
    const { buyer, idle, vendor } = kit({ chain: blind, inlineMs: 0 })
    const alice = buyer()
    const challenge = await alice.ask()
    const answers = await Promise.all(
      Array.from({ length: 300 }, () => alice.buy(FOX, { payment: alice.sign(challenge) })),
    )
    const started = answers.filter(({ status }) => status === 202)
    expect([
      started.length,
      answers.filter(({ body }) => body.code === 'PAYMENT_UNFUNDED').length,
      vendor.jobs.length,
    ]).toEqual([1, 299, 1])
    await idle()
    const pollUrl = started[0]?.body.poll_url
    expect((await alice.poll(pollUrl, alice.sign(await alice.poll(pollUrl)))).status).toBe(200)
    expect((await alice.buy()).status).toBe(202)
  })

  test('lets a wallet that holds the price of two buy the second one at once: its balance shows the first', async () => {
    const { buyer, chain } = kit()
    const alice = buyer()
    chain.drain(alice.wallet)
    chain.fund(alice.wallet, 44_000n)
    expect([(await alice.buy()).status, (await alice.buy()).status, alice.balance()]).toEqual([200, 200, 0n])
    expect((await alice.buy()).body.code).toBe('PAYMENT_UNFUNDED')
  })

  test('counts what was settled after the block that its node shows (contract 1.45)', async () => {
    const base = memoryChain()
    const node: { shows?: number } = {}
    const late = {
      ...base,
      verify: async (...args: Parameters<typeof base.verify>) => {
        const verdict = await base.verify(...args)
        return verdict.kind === 'valid' && node.shows !== undefined
          ? { ...verdict, balance: usdc(44_000n), block: node.shows }
          : verdict
      },
    }
    const { buyer, chain, vendor } = kit({ chain: late })
    const alice = buyer()
    chain.drain(alice.wallet)
    chain.fund(alice.wallet, 66_000n)
    const before = base.height()
    expect([(await alice.buy()).status, (await alice.buy()).status]).toEqual([200, 200])
    node.shows = before
    expect([(await alice.buy()).body.code, vendor.jobs.length]).toEqual(['PAYMENT_UNFUNDED', 2])
  })
})
