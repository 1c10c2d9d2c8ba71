import { describe, expect, test } from 'bun:test'
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import { type Answer, decodeHeader, door, FOX, GENERATIONS, kit, readyJob } from '../../kit.ts'

const statuses = (answers: readonly Answer[]) =>
  answers.map(({ body }) => body.payment?.status ?? body.code ?? body.status).sort()

describe('a used authorization', () => {
  test('is PAYMENT_REPLAY under both header names, with job_id, poll_url and recoverable, and buys nothing more (contract 1.22, 1.23, 1.42, 5.23)', async () => {
    const { buyer, chain, vendor, keyed } = kit()
    const alice = buyer()
    const payment = alice.sign(await alice.ask())
    const bought = await alice.buy(FOX, { payment })
    for (const header of ['payment-signature', 'x-payment']) {
      const { status, headers, body } = await alice.buy(FOX, { payment, header })
      expect([status, body.error, body.code]).toEqual([402, 'Payment verification failed', 'PAYMENT_REPLAY'])
      expect(body).toMatchObject({
        job_id: bought.body.id,
        poll_url: (await keyed(bought.body.id)).replace('/api/v1/calls', GENERATIONS),
        recoverable: true,
      })
      expect(decodeHeader(headers.get('payment-required')).accepts).toEqual(body.accepts)
      const collected = await alice.poll(body.poll_url, payment)
      expect(collected.body).toEqual({ ...bought.body, payment: { ...bought.body.payment, status: 'already_settled' } })
    }
    expect([chain.transfers.length, vendor.jobs.length]).toEqual([1, 1])
  })

  test('is PAYMENT_REPLAY for another body as well (contract 1.25)', async () => {
    const { buyer, vendor } = kit()
    const alice = buyer()
    const payment = alice.sign(await alice.ask())
    const { body: bought } = await alice.buy(FOX, { payment })
    const { status, body } = await alice.buy({ ...FOX, prompt: 'another fox', n: 3 }, { payment })
    expect([status, body.code, body.job_id, vendor.jobs.length]).toEqual([402, 'PAYMENT_REPLAY', bought.id, 1])
  })

  test('names its running job, whose buyer has lost the answer', async () => {
    const { alice, payment, id } = await readyJob()
    expect((await alice.buy(FOX, { payment })).body).toMatchObject({
      code: 'PAYMENT_REPLAY',
      job_id: id,
      recoverable: true,
    })
  })

  test('is PAYMENT_REPLAY on another gateway of the same storage, which does not name the job (contract 1.23)', async () => {
    const { buyer, restart } = kit()
    const alice = buyer()
    const payment = alice.sign(await alice.ask())
    await alice.buy(FOX, { payment })
    const { status, body } = await alice.buy(FOX, { payment, gateway: restart({ name: 'other' }) })
    expect([status, body.code, 'job_id' in body]).toEqual([402, 'PAYMENT_REPLAY', false])
  })

  test('sent a hundred times at once makes one job and one transfer, and every loser finds it (contract 1.22, 1.28)', async () => {
    const { buyer, chain, vendor } = kit()
    const alice = buyer()
    const payment = alice.sign(await alice.ask())
    const answers = await Promise.all(Array.from({ length: 100 }, () => alice.buy(FOX, { payment })))
    const winners = answers.filter(({ status }) => status === 200)
    expect([winners.length, chain.transfers.length, vendor.jobs.length, alice.balance()]).toEqual([
      1,
      1,
      1,
      99_978_000n,
    ])
    for (const { status, body } of answers.filter((answer) => answer.status !== 200)) {
      expect([status, body.code, body.job_id]).toEqual([402, 'PAYMENT_REPLAY', winners[0]?.body.id])
    }
  })

  test('that settles between look-up and verification is still a replay with its job', async () => {
    const gate = door()
    let verifies = 0
    const chain = memoryChain({
      before: (question) => (question === 'verify' && ++verifies === 2 ? gate.passed : undefined),
    })
    const { buyer, clock } = kit({ chain })
    const alice = buyer()
    const payment = alice.sign(await alice.ask())
    const first = alice.buy(FOX, { payment })
    const second = alice.buy(FOX, { payment })
    await clock.settle()
    gate.open()
    expect([(await first).status, (await second).body.code, (await second).body.job_id]).toEqual([
      200,
      'PAYMENT_REPLAY',
      (await first).body.id,
    ])
  })
})

describe('concurrent polls', () => {
  test('settle once: one reads settled, the others already_settled', async () => {
    const { alice, payment, pollUrl, chain, clock } = await readyJob()
    const polls = Array.from({ length: 10 }, () => alice.poll(pollUrl, payment))
    await clock.advance(1_000)
    expect(statuses(await Promise.all(polls))).toEqual([...Array(9).fill('already_settled'), 'settled'])
    expect(chain.transfers).toHaveLength(1)
  })

  test('and an inline settlement settle once (contract 1.31)', async () => {
    const gate = door()
    const chain = memoryChain({ before: (question) => (question === 'settle' ? gate.passed : undefined) })
    const { buyer, clock, ports } = kit({ chain })
    const alice = buyer()
    const payment = alice.sign(await alice.ask())
    const inline = alice.buy(FOX, { payment })
    await clock.settle()
    const { job_id, poll_url } = (await alice.buy(FOX, { payment })).body
    expect((await ports.storage.getCall(job_id))?.paymentStatus).toBe('settling')
    const poll = alice.poll(poll_url, payment)
    await clock.settle()
    gate.open()
    await clock.advance(100)
    expect(statuses([await inline, await poll])).toEqual(['already_settled', 'settled'])
    expect(chain.transfers).toHaveLength(1)
  })

  test('whose winner takes long answer 202 in the end, and find it settled later', async () => {
    const gate = door()
    const chain = memoryChain({ before: (question) => (question === 'settle' ? gate.passed : undefined) })
    const { alice, payment, pollUrl, clock } = await readyJob(
      kit({ chain, inlineMs: 0, timeouts: { settleMs: 60_000, settleLeaseMs: 90_000 } }),
    )
    const first = alice.poll(pollUrl, payment)
    const second = alice.poll(pollUrl, payment)
    for (let i = 0; i < 90; i++) await clock.advance(500)
    expect([(await second).status, (await second).body.status]).toEqual([202, 'in_progress'])
    gate.open()
    expect((await first).body.payment.status).toBe('settled')
    expect((await alice.poll(pollUrl, payment)).body.payment.status).toBe('already_settled')
  })
})

describe('a refused settlement', () => {
  test('inline withholds the result, and a later poll collects it once the wallet is funded (contract 1.33, 1.34)', async () => {
    const gate: { drain(): void } = { drain: () => {} }
    const chain = memoryChain({ before: (question) => (question === 'settle' ? gate.drain() : undefined) })
    const { buyer } = kit({ chain })
    const alice = buyer()
    const payment = alice.sign(await alice.ask())
    gate.drain = () => chain.drain(alice.wallet)
    const { status, headers, body } = await alice.buy(FOX, { payment })
    expect([status, body.error, 'data' in body]).toEqual([402, 'Payment settlement failed', false])
    expect(body).toMatchObject({
      details: expect.stringContaining('balance is 0'),
      note: expect.any(String),
      recoverable: true,
    })
    expect(body.poll_url).toMatch(new RegExp(`^${GENERATIONS}/${body.job_id}\\?key=[0-9a-f]{32}$`))
    expect(decodeHeader(headers.get('payment-response'))).toEqual({
      success: false,
      errorReason: body.details,
      transaction: '',
      network: 'eip155:84532',
      payer: alice.wallet,
    })
    expect([headers.get('payment-required'), headers.get('x-payment-receipt')]).toEqual([null, null])
    gate.drain = () => {}
    chain.fund(alice.wallet, 22_000n)
    const collected = await alice.poll(body.poll_url, payment)
    expect([collected.status, collected.body.payment.status, collected.body.data.length]).toEqual([200, 'settled', 1])
    expect([chain.transfers.length, alice.balance()]).toEqual([1, 0n])
  })

  test('on a poll is 402 with PAYMENT-RESPONSE and a fresh challenge; the poll can be repeated (contract 1.34, 2.13)', async () => {
    const { alice, payment, pollUrl, chain, id } = await readyJob()
    chain.simulate('refused')
    const { status, headers, body } = await alice.poll(pollUrl, payment)
    expect([status, body.error, body.job_id, body.details]).toEqual([
      402,
      'Payment settlement failed',
      id,
      'refused by simulation',
    ])
    expect(body.note).toEqual(expect.any(String))
    expect(decodeHeader(headers.get('payment-response'))).toMatchObject({
      success: false,
      errorReason: 'refused by simulation',
      payer: alice.wallet,
    })
    expect(decodeHeader(headers.get('payment-required')).accepts).toEqual(body.accepts)
    expect((await alice.poll(pollUrl, payment)).body.payment.status).toBe('settled')
    expect(chain.transfers).toHaveLength(1)
  })

  test('of an authorization that the payer cancelled says so; a fresh one collects', async () => {
    const gate: { cancel(): void } = { cancel: () => {} }
    const chain = memoryChain({ before: (question) => (question === 'settle' ? gate.cancel() : undefined) })
    const { buyer } = kit({ chain })
    const alice = buyer()
    const payment = alice.sign(await alice.ask())
    gate.cancel = () => chain.cancel(payment)
    const refused = await alice.buy(FOX, { payment })
    expect([refused.status, refused.body.error]).toEqual([402, 'Payment settlement failed'])
    gate.cancel = () => {}
    const again = await alice.poll(refused.body.poll_url, payment)
    expect([again.status, again.body.error, again.body.details]).toEqual([
      402,
      'Payment settlement failed',
      'the authorization can no longer move money',
    ])
    expect((await alice.poll(refused.body.poll_url, alice.sign(again))).body.payment.status).toBe('settled')
    expect(chain.transfers).toHaveLength(1)
  })

  test('of an expired original is 402; a fresh one collects, in the same poll even (contract 2.13)', async () => {
    const { alice, payment, pollUrl, clock, chain } = await readyJob()
    await clock.advance(600_000)
    const expired = await alice.poll(pollUrl, payment)
    expect([expired.status, expired.body.error]).toEqual([402, 'Payment settlement failed'])
    expect((await alice.poll(pollUrl, alice.sign(expired))).body.payment.status).toBe('settled')
    const other = await readyJob()
    await other.clock.advance(600_000)
    expect(
      (await other.alice.poll(other.pollUrl, other.alice.sign(await other.alice.poll(other.pollUrl)))).body.payment
        .status,
    ).toBe('settled')
    expect([chain.transfers.length, other.chain.transfers.length]).toEqual([1, 1])
  })

  test('that turns out to have been paid by somebody else’s hand is settled', async () => {
    const { alice, payment, pollUrl, chain } = await readyJob()
    chain.submit(payment)
    const { status, body } = await alice.poll(pollUrl, payment)
    expect([status, body.payment.status, body.payment.tx_hash, chain.transfers.length]).toEqual([
      200,
      'settled',
      chain.transfers[0]?.transaction,
      1,
    ])
  })
})

describe('exposure', () => {
  test('of a wallet that holds the price of one call: of ten at once, one starts (contract 1.21, 1.45)', async () => {
    const { buyer, chain, vendor } = kit()
    const alice = buyer()
    chain.drain(alice.wallet)
    chain.fund(alice.wallet, 22_000n)
    const challenge = await alice.ask()
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => alice.buy(FOX, { payment: alice.sign(challenge) })),
    )
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    for (const { body } of answers.filter(({ status }) => status !== 200)) {
      expect(body).toMatchObject({
        error: 'Payment verification failed',
        code: 'PAYMENT_UNFUNDED',
        details: 'the open calls of this wallet would total 0.044000 USDC, more than its balance',
      })
    }
    expect([vendor.jobs.length, chain.transfers.length]).toEqual([1, 1])
  })

  test('counts jobs that are not yet paid, until they failed or their authorization has expired', async () => {
    const { buyer, chain, clock, idle, restart } = kit({ inlineMs: 0 })
    const alice = buyer()
    chain.drain(alice.wallet)
    chain.fund(alice.wallet, 22_000n)
    expect((await alice.buy()).status).toBe(202)
    await idle()
    expect((await alice.buy()).body.code).toBe('PAYMENT_UNFUNDED')
    await clock.advance(600_000)
    expect((await alice.buy(FOX, { gateway: restart() })).status).toBe(202)
  })
})
