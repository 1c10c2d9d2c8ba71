import { describe, expect, test } from 'bun:test'
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import { DONE, streamAnswer, wholeAnswer } from '../../fakes/chat.ts'
import { withMargin } from '../../../core/endpoint/prices.ts'
import { chargeOf } from '../../../core/payment/control/margin.ts'
import { usdc } from '../../../core/x402/money.ts'
import { type Fields, gateway } from '../../../core/mod.ts'
import { decodeHeader, read } from '../../kit.ts'
import { COMPLETIONS, deltaChunk, HELLO, reading, SKY, STREAM, streaming, table } from './stream_kit.ts'

/** 100 tokens of output at most, of a model that costs 0.75 and 4.5 USDC per million tokens. */
const QUOTE = 2_000n
/** 10 tokens in, 2 out, and the fee: 7.5 + 9 + 1,000 base units. */
const CHARGE = 1_017n

const metered = (...schemes: ('exact' | 'upto')[]) => memoryChain({ schemes: schemes.length ? schemes : ['upto'] })
const using = (usage: Fields | undefined) => async () => {
  const { body } = wholeAnswer()
  const { usage: _, ...bare } = body
  return { kind: 'whole', body: usage ? { ...bare, usage } : bare } as const
}
const amounts = ({ headers }: Response) => [headers.get('x-payment-quoted'), headers.get('x-payment-charged')]

describe('a buyer whose scheme charges by use', () => {
  test('is charged what the answer used, and told both figures (contract 1.72, 1.73)', async () => {
    const chain = metered()
    const { post, signed, alice, ports } = await table(undefined, { chain })
    const before = alice.balance()
    const response = await post(SKY, { payment: await signed(SKY) })
    expect([response.status, ...amounts(response)]).toEqual([200, '0.002000', '0.001017'])
    expect(decodeHeader(response.headers.get('payment-response') as string)).toMatchObject({
      success: true,
      amount: String(CHARGE),
    })
    expect(before - alice.balance()).toBe(CHARGE)
    const [entry] = await ports.storage.listCalls({ since: 0, until: Number.MAX_SAFE_INTEGER, limit: 1 })
    expect([entry?.quote, entry?.charge]).toEqual([QUOTE, CHARGE] as never)
    const [spend] = await ports.storage.spendByModel(alice.wallet, 0)
    expect(spend?.spent as bigint).toBe(CHARGE)
  })

  test('pays for cached input at its own rate', async () => {
    const usage = {
      prompt_tokens: 110,
      completion_tokens: 2,
      total_tokens: 112,
      prompt_tokens_details: { cached_tokens: 100 },
    }
    const { post, signed } = await table(using(usage), { chain: metered() })
    // 7.5 + 100 x 0.075 + 9 + 1,000
    expect(amounts(await post(SKY, { payment: await signed(SKY) }))).toEqual(['0.002000', '0.001024'])
  })

  test('pays the quote where no usage was reported, and never more than it (contract 1.72)', async () => {
    const much = { prompt_tokens: 1_000_000, completion_tokens: 100, total_tokens: 1_000_100 }
    for (const usage of [undefined, much]) {
      const chain = metered()
      const { post, signed } = await table(using(usage), { chain })
      expect(amounts(await post(SKY, { payment: await signed(SKY) }))).toEqual(['0.002000', '0.002000'])
      expect(chain.transfers.map(({ value }) => value)).toEqual([QUOTE])
    }
  })

  test('is told in the last comment of a stream (contract 1.73)', async () => {
    const chain = metered()
    const { post, signed } = await table(streaming(streamAnswer(HELLO)), { chain })
    const text = await (await post(STREAM, { payment: await signed() })).text()
    expect(text).toContain(': x-payment-quoted 0.002000\n: x-payment-charged 0.001017\n')
    expect(chain.transfers.map(({ value }) => value)).toEqual([CHARGE])
  })

  test('pays for what was read of a stream that they leave (contract 1.74)', async () => {
    const chain = metered()
    const words = ['one two three', ' four five six', ' seven eight nine', ' ten']
    const events = [...words.map((content) => deltaChunk({ content })), DONE]
    const { post, signed, idle } = await table(streaming(streamAnswer(events)), { chain })
    const reader = reading(await post(STREAM, { payment: await signed() }))
    await reader.next()
    await reader.next()
    await reader.leave()
    await idle()
    // The prompt as it was counted for the quote, 6 words read, and the fee.
    const [{ value = 0n } = {}] = chain.transfers
    expect(value).toBeGreaterThan(1_000n + 27n)
    expect(value).toBeLessThan(1_000n + 27n + 20n)
  })

  test('pays the quote of a stream that is settled before its end, as that of a new wallet is (contract 1.74)', async () => {
    const chain = metered()
    const long = { ...STREAM, max_tokens: 100_000 }
    const { post, signed } = await table(streaming(streamAnswer(HELLO)), { chain })
    const payment = await signed(long)
    const text = await (await post(long, { payment })).text()
    const [transfer] = chain.transfers
    expect(transfer?.value).toBe(BigInt(payment.accepted.amount))
    expect(transfer?.value).toBeGreaterThan(40_000n)
    expect(/x-payment-quoted (\S+)/.exec(text)?.[1]).toBe(/x-payment-charged (\S+)/.exec(text)?.[1] as string)
  })

  test('pays nothing for an answer that is empty, or that failed (contract 1.72)', async () => {
    const chain = metered()
    const { post, signed } = await table(async () => wholeAnswer({ content: '' }), { chain })
    const response = await post(SKY, { payment: await signed(SKY) })
    expect([response.status >= 500, chain.transfers.length]).toEqual([true, 0])
  })

  test('pays the same at every attempt, also of another process (contract 1.75)', async () => {
    const chain = metered()
    const { post, signed, restart, clock, alice } = await table(undefined, { chain })
    const before = alice.balance()
    chain.simulate('dropped')
    const response = await post(SKY, { payment: await signed(SKY) })
    expect([response.status, response.headers.get('x-payment-settled')]).toEqual([200, 'false'])
    await clock.advance(60_000)
    await restart().maintain()
    expect(before - alice.balance()).toBe(CHARGE)
  })

  test('is charged by the replica that may send it, where another one has answered (contract 1.75)', async () => {
    const chain = metered()
    const elsewhere = async () => ({ kind: 'unavailable', reason: 'another replica has the key' }) as const
    const { post, signed, alice, clock, ports, idle } = await table(undefined, {
      chain: { ...chain, settle: elsewhere },
    })
    const before = alice.balance()
    const response = await post(SKY, { payment: await signed(SKY) })
    expect([response.status, response.headers.get('x-payment-settled')]).toEqual([200, 'false'])
    await idle()
    const right = gateway({ ports: { ...ports, chain }, label: 'base-sepolia', workerId: 'right' })
    await clock.advance(60_000)
    await right.maintain()
    expect(before - alice.balance()).toBe(CHARGE)
  })

  test('collects a result whose payment was refused for its charge, also by another scheme', async () => {
    const chain = metered('upto', 'exact')
    const { post, signed, alice, clock } = await table(undefined, { chain })
    chain.simulate('refused')
    const refused = await read(await post(SKY, { payment: await signed(SKY) }))
    expect([refused.status, chain.transfers.length]).toEqual([402, 0])
    const challenge = await alice.ask(undefined, { method: 'GET', path: refused.body.poll_url })
    expect(challenge.body.price.amount).toBe('0.001017')
    const offers = challenge.body.accepts.map(({ scheme, amount }: Fields) => [scheme, amount])
    expect(offers).toEqual([
      ['upto', '1017'],
      ['exact', '1017'],
    ])
    const exact = chain.sign(challenge.body.accepts[1], { from: alice.wallet, now: clock.now() })
    const collected = await alice.poll(refused.body.poll_url, exact)
    expect([collected.status, chain.transfers.map(({ value }) => value)]).toEqual([200, [CHARGE]])
  })
})

test('a refusal that corrects the offer puts it first, and its code is the error of the 402 (contract 1.78)', async () => {
  const extra = { channelState: { chargedCumulativeAmount: '7' } }
  const corrected = { extra, error: 'invalid_batch_settlement_evm_cumulative_amount_mismatch' }
  const chain = metered('exact', 'upto')
  const verify = async () => ({ kind: 'refused', code: 'PAYMENT_INVALID', reason: 'the base is 7', corrected }) as const
  const { post, alice, clock } = await table(undefined, { chain: { ...chain, verify } })
  const challenge = await alice.ask(SKY, { path: COMPLETIONS })
  const payment = chain.sign(challenge.body.accepts[1], { from: alice.wallet, now: clock.now() })
  const refused = await read(await post(SKY, { payment }))
  expect([refused.status, refused.headers.has('payment-response')]).toEqual([402, false])
  const header = decodeHeader(refused.headers.get('payment-required') as string)
  expect([header.error, refused.body.error]).toEqual([corrected.error, corrected.error])
  expect(header.accepts.map(({ scheme }: Fields) => scheme)).toEqual(['upto', 'exact'])
  expect(header.accepts[0].extra).toEqual({ ...challenge.body.accepts[1].extra, ...extra })
  expect(header.accepts[1]).toEqual(challenge.body.accepts[0])
})

test('a payment by `exact` is charged its quote, whatever was used', async () => {
  const chain = metered('exact', 'upto')
  const { post, signed } = await table(undefined, { chain })
  const response = await post(SKY, { payment: await signed(SKY) })
  expect([response.status, ...amounts(response), chain.transfers[0]?.value]).toEqual([200, null, null, QUOTE] as never)
})

test('the margin of the quote is in the charge', () => {
  const price = withMargin({ amount: usdc(QUOTE), maxTimeoutSeconds: 300, publicPrice: {} }, '10')
  expect(price).toMatchObject({ amount: 2_200n, margin: '10' })
  expect(chargeOf(usdc(1_017n), { margin: '10', quote: price.amount })).toBe(usdc(1_119n))
  expect(chargeOf(usdc(9_999n), { margin: '10', quote: price.amount })).toBe(price.amount)
})
