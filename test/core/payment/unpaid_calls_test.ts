import { describe, expect, test } from 'bun:test'
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { streamAnswer } from '../../fakes/chat.ts'
import { recordUnpaidCall, unpaidCallOf } from '../../../core/payment/unpaid/unpaid_calls.ts'
import type { Call, Json, Offer } from '../../../core/mod.ts'
import { voucherBuyer, voucherChain } from '../../adapters/chains/evm/channels/vouchers.ts'
import { decodeHeader, FOX, kit, read, type KitOptions } from '../../kit.ts'
import { COMPLETIONS, HELLO, SKY, STREAM, table } from '../call/stream_kit.ts'

const HOUR = 3_600_000
const BACKGROUND = { model: 'vendor-a/chat-5.4-mini', input: 'Why is the sky blue?', background: true }

/** Alice has an answer whose payment was refused. */
async function blocked(options: KitOptions = {}) {
  const subject = await table(undefined, options)
  const payment = await subject.signed(SKY)
  subject.chain.simulate('refused')
  const response = await subject.post(SKY, { payment })
  const again = async (body: unknown = SKY, path = COMPLETIONS) =>
    await read(await subject.post(body, { payment: await subject.signed(body, { path }), path }))
  return { ...subject, payment, response, again }
}

describe('an answer whose payment is refused', () => {
  test('is withheld: 402 says why, and where it can be collected (contract 6.47)', async () => {
    const { response, chain, log, alice } = await blocked()
    const { status, headers, body } = await read(response)
    expect([status, body.error, body.details, body.recoverable, headers.get('x-payment-settled')]).toEqual([
      402,
      'Payment settlement failed',
      'refused by simulation',
      true,
      null,
    ])
    expect(body.poll_url).toStartWith(`/api/v1/calls/${body.job_id}`)
    expect(decodeHeader(headers.get('payment-response'))).toEqual({
      success: false,
      errorReason: 'refused by simulation',
      transaction: '',
      network: 'eip155:84532',
      payer: alice.wallet,
    })
    expect([JSON.stringify(body).includes('Hello'), chain.transfers.length]).toEqual([false, 0])
    expect(log.lines.map(({ level, message }) => [level, message])).toEqual([
      ['warn', 'an answer was made, and its payment refused; its wallet gets no more until it is paid'],
    ])
  })

  test('is withheld in the words of the surface that was called', async () => {
    const replies: Record<string, unknown> = {}
    const bodies = {
      '/api/v1/messages': { model: SKY.model, max_tokens: 10, messages: SKY.messages },
      '/api/v1/responses': { model: SKY.model, input: 'Hello', max_output_tokens: 20 },
      [COMPLETIONS]: SKY,
    }
    for (const [path, body] of Object.entries(bodies)) {
      const { post, signed, chain } = await table()
      const payment = await signed(body, { path })
      chain.simulate('refused')
      const refused = await read(await post(body, { payment, path }))
      expect([refused.status, typeof refused.body.job_id, typeof refused.body.poll_url]).toEqual([
        402,
        'string',
        'string',
      ])
      replies[path] = refused.body.type ?? refused.body.error.type ?? refused.body.error
    }
    expect(replies).toEqual({
      '/api/v1/messages': 'error',
      '/api/v1/responses': 'payment_required',
      [COMPLETIONS]: 'Payment settlement failed',
    })
  })

  test('keeps its wallet from further answers: 402 PAYMENT_UNFUNDED names the call, and no vendor is asked (contract 1.48)', async () => {
    const { again, chat, chain, keyed } = await blocked()
    for (const body of [SKY, { ...SKY, max_tokens: 7 }, STREAM]) {
      const refused = await again(body)
      expect([refused.status, refused.body.code, refused.body.recoverable, refused.body.poll_url]).toEqual([
        402,
        'PAYMENT_UNFUNDED',
        true,
        await keyed(refused.body.job_id),
      ])
      expect(refused.headers.has('payment-required')).toBe(true)
    }
    const messages = await again({ model: SKY.model, max_tokens: 10, messages: SKY.messages }, '/api/v1/messages')
    expect([messages.status, messages.body.type, chat.orders.length, chain.transfers.length]).toEqual([
      402,
      'error',
      1,
      0,
    ])
  })

  test('keeps its wallet in every channel that it opens (contract 1.96)', async () => {
    const storage = memoryStorage()
    const channels = voucherChain(storage)
    const chain = {
      ...channels,
      settle: async () => ({ kind: 'refused' as const, reason: 'the channel is empty' }),
      fate: async () => ({ kind: 'open' as const }),
    }
    const { post, chat, idle } = await table(async () => streamAnswer(HELLO), { ports: { storage, chain } })
    const offer = decodeHeader((await post(SKY)).headers.get('payment-required')).accepts[0]
    const statuses: number[] = []
    for (let salt = 1n; salt <= 20n; salt++) {
      const response = await post(STREAM, { payment: await voucherBuyer('alice', { ...offer, salt }).sign(offer, 0n) })
      statuses.push(response.status)
      await response.text()
      await idle()
    }
    expect(statuses).toEqual([200, ...Array.from({ length: 19 }, () => 402)])
    expect(chat.orders).toHaveLength(1)
  })

  test('keeps no other wallet, and none from what it pays for before it has it', async () => {
    const { alice, buyer, signed, post, chain } = await blocked()
    const bob = buyer('bob')
    expect((await post(SKY, { payment: await signed(SKY, { by: bob }) })).status).toBe(200)
    expect((await alice.buy(FOX)).status).toBe(200)
    expect(chain.transfers).toHaveLength(2)
  })

  test('is paid by a poll, with its own authorization or a fresh one, and the wallet buys again (contract 1.48)', async () => {
    for (const isFresh of [false, true]) {
      const { again, alice, payment, chain, clock } = await blocked()
      const { body } = await again()
      if (isFresh) await clock.advance(300_000)
      const challenge = await alice.poll(body.poll_url)
      const paid = await alice.poll(body.poll_url, isFresh ? alice.sign(challenge) : payment)
      expect([paid.status, paid.body.choices[0].message.content, paid.headers.get('x-payment-status')]).toEqual([
        200,
        'Hello',
        'settled',
      ])
      expect([(await again()).status, (await again()).status, chain.transfers.length]).toEqual([200, 200, 3])
    }
  })

  test('is paid by the same request, sent again', async () => {
    const { again, post, payment, chain } = await blocked()
    const paid = await read(await post(SKY, { payment }))
    expect([paid.status, paid.headers.get('x-payment-status'), (await again()).status, chain.transfers.length]).toEqual(
      [200, 'settled', 200, 2],
    )
  })

  test('is forgiven after a day (contract 1.48)', async () => {
    const { again, clock } = await blocked()
    await clock.advance(24 * HOUR - 1)
    expect((await again()).status).toBe(402)
    await clock.advance(1)
    expect((await again()).status).toBe(200)
  })

  test('of several at once each is owed: one is paid after the other', async () => {
    const { post, alice, signed, chain } = await table(undefined, { newWallet: { calls: 3 } })
    const bodies = [7, 8, 9].map((max_tokens) => ({ ...SKY, max_tokens }))
    const payments = [await signed(bodies[0]), await signed(bodies[1]), await signed(bodies[2])] as const
    chain.simulate('refused', 'refused', 'refused')
    const answers = await Promise.all(payments.map((payment, index) => post(bodies[index], { payment })))
    expect(answers.map(({ status, headers }) => [status, headers.has('payment-response')])).toEqual([
      [402, true],
      [402, true],
      [402, true],
    ])
    const paid = new Set<string>()
    for (let unpaidRecord = 0; unpaidRecord < 3; unpaidRecord++) {
      const { status, body } = await read(await post(SKY, { payment: await signed(SKY) }))
      expect([unpaidRecord, status, body.code]).toEqual([unpaidRecord, 402, 'PAYMENT_UNFUNDED'])
      expect((await alice.poll(body.poll_url, alice.sign(await alice.poll(body.poll_url)))).status).toBe(200)
      paid.add(body.job_id)
    }
    expect([paid.size, (await post(SKY, { payment: await signed(SKY) })).status, chain.transfers.length]).toEqual([
      3, 200, 4,
    ])
  })

  test('of a stream that its reader left is owed as well', async () => {
    const { post, signed, chain, idle } = await table(async (order) =>
      order.stream ? streamAnswer(HELLO) : Promise.reject(new Error('not asked')),
    )
    chain.simulate('refused')
    const reader = ((await post(STREAM, { payment: await signed() })).body as ReadableStream<Uint8Array>).getReader()
    for (let piece = 0; piece < 2; piece++) await reader.read()
    await reader.cancel()
    await idle()
    expect((await read(await post(SKY, { payment: await signed(SKY) }))).body.code).toBe('PAYMENT_UNFUNDED')
  })

  test('in the background is no debt: its output was never readable', async () => {
    const { post, signed, chain, idle } = await table()
    chain.simulate('refused')
    const path = '/api/v1/responses'
    const { body } = await read(await post(BACKGROUND, { path, payment: await signed(BACKGROUND, { path }) }))
    await idle()
    expect(body.status).toBe('queued')
    expect((await post(SKY, { payment: await signed(SKY) })).status).toBe(200)
    expect(chain.transfers).toHaveLength(1)
  })
})

describe('a settlement in doubt that tend() finds dead', () => {
  test('becomes a debt, also where the process that answered has died', async () => {
    for (const isKilled of [false, true]) {
      const never = new Promise<never>(() => {})
      let isHung = isKilled
      const chain = memoryChain({ before: (question) => (question === 'settle' && isHung ? never : undefined) })
      const { post, signed, alice, clock, restart, gateway } = await table(undefined, { chain })
      const payment = await signed(SKY)
      if (!isKilled) chain.simulate('dropped')
      const answer = post(SKY, { payment })
      await clock.settle()
      isHung = false
      chain.cancel(payment)
      if (isKilled) await clock.advance(45_000)
      else await answer
      const next = isKilled ? restart() : gateway
      await next.maintain()
      const refused = await read(await post(SKY, { payment: await signed(SKY), gateway: next }))
      expect([isKilled, refused.status, refused.body.code, typeof refused.body.job_id]).toEqual([
        isKilled,
        402,
        'PAYMENT_UNFUNDED',
        'string',
      ])
      expect(
        (await alice.poll(refused.body.poll_url, alice.sign(await alice.poll(refused.body.poll_url)))).status,
      ).toBe(200)
      expect([(await post(SKY, { payment: await signed(SKY), gateway: next })).status, chain.transfers.length]).toEqual(
        [200, 2],
      )
    }
  })

  test('or a poll finds dead becomes a debt', async () => {
    const { post, signed, alice, chain, ports, keyed } = await table()
    const payment = await signed(SKY)
    chain.simulate('dropped')
    await post(SKY, { payment })
    chain.cancel(payment)
    const [call] = await ports.storage.unsettled(Number.MAX_SAFE_INTEGER, 1)
    expect((await alice.poll(await keyed(call?.id ?? ''), payment)).body.error).toBe('Payment settlement failed')
    expect((await read(await post(SKY, { payment: await signed(SKY) }))).body.code).toBe('PAYMENT_UNFUNDED')
  })

  test('is no debt while it is in doubt, and none when it is paid', async () => {
    for (const weather of ['landed', 'late', 'dropped'] as const) {
      const { post, signed, chain, gateway } = await table()
      chain.simulate(weather)
      await post(SKY, { payment: await signed(SKY) })
      expect((await post(SKY, { payment: await signed(SKY) })).status).toBe(200)
      await gateway.maintain()
      expect([(await post(SKY, { payment: await signed(SKY) })).status, chain.transfers.length]).toEqual([200, 3])
    }
  })
})

describe('jobs that a wallet leaves behind', () => {
  /** A wallet that signs for six seconds at a time, and collects nothing. */
  async function forgetful(dollars: bigint) {
    const subject = kit({ inlineMs: 0 })
    const alice = subject.buyer()
    subject.chain.drain(alice.wallet)
    subject.chain.fund(alice.wallet, dollars)
    const order = async () => {
      const validBefore = BigInt(Math.ceil(subject.clock.now() / 1000) + 7)
      const payment = alice.sign(await alice.ask(), { validBefore })
      const ordered = await alice.buy(FOX, { payment })
      await subject.idle()
      await subject.clock.advance(8_000)
      return ordered
    }
    return { ...subject, alice, order }
  }

  test('are a few, where it holds no more than the price of one; then it collects one first (contract 1.49)', async () => {
    const { order, alice, vendor } = await forgetful(22_000n)
    for (let n = 0; n < 5; n++) expect((await order()).status).toBe(202)
    const refused = await order()
    expect([refused.status, refused.body.code, typeof refused.body.poll_url, vendor.jobs.length]).toEqual([
      402,
      'PAYMENT_UNFUNDED',
      'string',
      5,
    ])
    expect((await alice.poll(refused.body.poll_url, alice.sign(await alice.poll(refused.body.poll_url)))).status).toBe(
      200,
    )
  })

  test('are as many as it can pay for, and none that was collected (contract 1.49)', async () => {
    const { order, alice } = await forgetful(7n * 22_000n)
    const orders = [
      await order(),
      await order(),
      await order(),
      await order(),
      await order(),
      await order(),
      await order(),
    ]
    expect([...orders.map(({ status }) => status), (await order()).body.code]).toEqual([
      ...Array(7).fill(202),
      'PAYMENT_UNFUNDED',
    ])
    for (const { body } of orders)
      expect((await alice.poll(body.poll_url, alice.sign(await alice.poll(body.poll_url)))).status).toBe(200)
    expect((await order()).body.message).not.toContain('collect one first')
  })
})

const USDC = { network: 'base', asset: 'usdc' } as Offer

describe('owe() and owedBy()', () => {
  const call = (id: string, money: Call['paymentStatus'] = 'refused') =>
    ({ id, payer: '0xalice', offer: USDC, paymentStatus: money, workStatus: 'completed' }) as Call
  const at = { now: 0, until: 100 }

  /** A storage of records that knows these calls. */
  function remembering(...calls: readonly Call[]) {
    const storage = memoryStorage()
    const known = new Map(calls.map((each) => [each.id, each]))
    return {
      ...storage,
      getCall: async (id: string) => known.get(id),
      set: (changed: Call) => void known.set(changed.id, changed),
    }
  }

  test('twenty at once are all kept, each once', async () => {
    const calls = Array.from({ length: 20 }, (_, index) => call(`call ${index}`))
    const storage = remembering(...calls)
    await Promise.all([...calls, ...calls].map((each) => recordUnpaidCall(storage, each, at)))
    const found = new Set<string>()
    for (let round = 0; round < 20; round++) {
      const unpaid = await unpaidCallOf(storage, call(''), 1)
      if (!unpaid) break
      found.add(unpaid.id)
      storage.set({ ...unpaid, paymentStatus: 'settled' })
    }
    expect([found.size, await unpaidCallOf(storage, call(''), 1)]).toEqual([20, undefined])
  })

  test('each ends at its own time', async () => {
    const storage = remembering(call('a'), call('b'))
    await recordUnpaidCall(storage, call('a'), { now: 0, until: 100 })
    await recordUnpaidCall(storage, call('b'), { now: 50, until: 150 })
    const unpaid = async (now: number) => (await unpaidCallOf(storage, call(''), now))?.id
    expect([await unpaid(99), await unpaid(100), await unpaid(149), await unpaid(150)]).toEqual([
      'a',
      'b',
      'b',
      undefined,
    ])
  })

  test('what is paid, failed or forgotten is dropped; what is in doubt is kept, and counts when it is refused', async () => {
    const storage = remembering(call('paid', 'settled'), call('doubtful', 'settling'), {
      ...call('failed', 'verified'),
      workStatus: 'failed',
    })
    for (const id of ['paid', 'doubtful', 'failed', 'forgotten']) await recordUnpaidCall(storage, call(id), at)
    expect(await unpaidCallOf(storage, call(''), 1)).toBeUndefined()
    storage.set(call('doubtful'))
    expect((await unpaidCallOf(storage, call(''), 1))?.id).toBe('doubtful')
  })

  test('are of one wallet and token', async () => {
    const storage = remembering(call('a'))
    await recordUnpaidCall(storage, call('a'), at)
    expect(await unpaidCallOf(storage, { payer: '0xbob', offer: USDC }, 1)).toBeUndefined()
    expect(await unpaidCallOf(storage, { payer: '0xalice', offer: { ...USDC, network: 'solana' } }, 1)).toBeUndefined()
    expect((await unpaidCallOf(storage, call(''), 1))?.id).toBe('a')
  })

  test('of more than a hundred the newest are kept', async () => {
    const calls = Array.from({ length: 120 }, (_, index) => call(`call ${index}`))
    const storage = remembering(...calls)
    const written: Json[] = []
    const counting = {
      ...storage,
      moveRecord: async (...args: Parameters<typeof storage.moveRecord>) => (
        written.push(args[0].data),
        await storage.moveRecord(...args)
      ),
    }
    for (const each of calls) await recordUnpaidCall(counting, each, at)
    expect((written.at(-1) as { data: { calls: Json[] } }).data.calls).toHaveLength(100)
    expect((await unpaidCallOf(storage, call(''), 1))?.id).toBe('call 20')
  })
})
