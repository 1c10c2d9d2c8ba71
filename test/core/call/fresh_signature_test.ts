import { describe, expect, test } from 'bun:test'
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import { type Answer, FOX, kit, readyJob, slowVendor } from '../../kit.ts'

const HOUR = 3_600_000

const statuses = (answers: readonly Answer[]) =>
  answers.map(({ body }) => body.payment?.status ?? body.code ?? body.status).sort()

describe('an authorization that ends before it is spent', () => {
  /** A chain that counts what it is asked. */
  function counting() {
    const requests: string[] = []
    return { requests, chain: memoryChain({ before: (question) => void requests.push(question) }) }
  }

  test('during the work is refused inline without being sent; a fresh one collects', async () => {
    const { vendor, ready } = slowVendor()
    const { requests, chain } = counting()
    const { buyer, clock } = kit({ vendor, chain })
    const alice = buyer()
    const payment = alice.sign(await alice.ask(), { validBefore: BigInt(clock.now() / 1000 + 6) })
    const answer = alice.buy(FOX, { payment })
    await clock.advance(6_000)
    ready()
    const { status, body } = await answer
    expect([status, body.error, body.recoverable, requests]).toEqual([
      402,
      'Payment settlement failed',
      true,
      ['verify', 'fate'],
    ])
    expect((await alice.poll(body.poll_url, alice.sign(await alice.poll(body.poll_url)))).body.payment.status).toBe(
      'settled',
    )
    expect(chain.transfers).toHaveLength(1)
  })

  test('while its chain is silent is 202 inline and on a poll: nobody knows yet, and nothing was sent', async () => {
    const { vendor, ready } = slowVendor()
    const { requests, chain } = counting()
    const { buyer, clock, gateway, ports } = kit({ vendor, chain })
    const alice = buyer()
    const payment = alice.sign(await alice.ask(), { validBefore: BigInt(clock.now() / 1000 + 6) })
    const answer = alice.buy(FOX, { payment })
    await clock.advance(6_000)
    chain.outage(true)
    ready()
    const { status, body } = await answer
    expect([status, body.status]).toEqual([202, 'in_progress'])
    expect((await alice.poll(body.poll_url, payment)).status).toBe(202)
    await clock.advance(HOUR)
    await gateway.maintain()
    expect((await ports.storage.getCall(body.id))?.paymentStatus).not.toBe('unresolved')
    chain.outage(false)
    expect((await alice.poll(body.poll_url, payment)).body.error).toBe('Payment settlement failed')
    expect(requests).not.toContain('settle')
  })

  test('is dead at its very end: a millisecond before, it still pays', async () => {
    for (const [ms, status] of [
      [599_999, 200],
      [600_000, 402],
    ] as const) {
      const { alice, payment, pollUrl, clock } = await readyJob()
      await clock.advance(ms)
      expect([ms, (await alice.poll(pollUrl, payment)).status]).toEqual([ms, status])
    }
  })
})

describe('one fresh authorization', () => {
  /** Two jobs whose original authorizations have expired. */
  async function twoExpiredJobs() {
    const one = await readyJob()
    const { body } = await one.alice.buy(FOX)
    await one.idle()
    await one.clock.advance(HOUR)
    const fresh = one.alice.sign(await one.alice.poll(one.pollUrl))
    return { ...one, fresh, other: body as { id: string; poll_url: string } }
  }

  test('on the polls of two jobs pays for one, and names it to the other', async () => {
    const { alice, pollUrl, fresh, other, id, chain } = await twoExpiredJobs()
    expect((await alice.poll(pollUrl, fresh)).body.payment.status).toBe('settled')
    const { status, headers, body } = await alice.poll(other.poll_url, fresh)
    expect([status, body.error, body.code, body.job_id, body.recoverable]).toEqual([
      402,
      'Payment verification failed',
      'PAYMENT_REPLAY',
      id,
      true,
    ])
    expect(headers.get('payment-required')).not.toBeNull()
    expect(chain.transfers).toHaveLength(1)
    const another = alice.sign(await alice.poll(other.poll_url))
    expect((await alice.poll(other.poll_url, another)).body.payment.status).toBe('settled')
  })

  test('on the polls of two jobs at once pays for one', async () => {
    const { alice, pollUrl, fresh, other, chain } = await twoExpiredJobs()
    const answers = await Promise.all([alice.poll(pollUrl, fresh), alice.poll(other.poll_url, fresh)])
    expect(statuses(answers)).toEqual(['PAYMENT_REPLAY', 'settled'])
    expect(chain.transfers).toHaveLength(1)
  })

  test('on a poll and then a POST pays for the polled job', async () => {
    const { alice, pollUrl, fresh, id, chain } = await twoExpiredJobs()
    expect((await alice.poll(pollUrl, fresh)).body.payment.status).toBe('settled')
    expect((await alice.buy(FOX, { payment: fresh })).body).toMatchObject({ code: 'PAYMENT_REPLAY', job_id: id })
    expect(chain.transfers).toHaveLength(1)
  })

  test('on a POST and then a poll belongs to the new job', async () => {
    const { alice, pollUrl, fresh, chain } = await twoExpiredJobs()
    const { body } = await alice.buy(FOX, { payment: fresh })
    expect((await alice.poll(pollUrl, fresh)).body).toMatchObject({
      code: 'PAYMENT_REPLAY',
      job_id: body.id,
      poll_url: body.poll_url,
    })
    expect(chain.transfers).toEqual([])
  })

  test('on a poll and a POST at once serves one of them', async () => {
    const { alice, pollUrl, fresh, chain, idle } = await twoExpiredJobs()
    const answers = await Promise.all([alice.poll(pollUrl, fresh), alice.buy(FOX, { payment: fresh })])
    await idle()
    expect(answers.filter(({ body }) => body.code === 'PAYMENT_REPLAY')).toHaveLength(1)
    expect(chain.transfers.length).toBeLessThanOrEqual(1)
  })

  test('is spent only when the original is dead: while that lives, it pays', async () => {
    const { alice, payment, pollUrl, chain } = await readyJob()
    const fresh = alice.sign(await alice.poll(pollUrl))
    expect((await alice.poll(pollUrl, fresh)).body.payment.status).toBe('settled')
    expect(chain.submit(payment)).toBe(false)
    expect((await alice.buy(FOX, { payment: fresh })).status).toBe(202)
    expect(chain.transfers).toHaveLength(1)
  })

  test('does not make an original suspect that was never sent: it is sent at once, and refused as such', async () => {
    const requests: string[] = []
    const { alice, pollUrl, chain } = await readyJob(
      kit({ inlineMs: 0, chain: memoryChain({ before: (question) => void requests.push(question) }) }),
    )
    const fresh = alice.sign(await alice.poll(pollUrl))
    requests.length = 0
    chain.simulate('refused')
    expect((await alice.poll(pollUrl, fresh)).body.error).toBe('Payment settlement failed')
    expect(requests).toEqual(['settle', 'fate'])
  })

  test('may be signed for a recipient that has changed since: the fresh challenge is what counts', async () => {
    const { alice, pollUrl, chain, clock, ports, restart } = await readyJob()
    await clock.advance(HOUR)
    const [terms] = chain.terms(0)
    if (!terms) throw new Error('no terms')
    const payTo = `0x${'2'.repeat(40)}`
    const gateway = restart({ ports: { ...ports, chain: { ...chain, terms: () => [{ ...terms, payTo }] } } })
    const challenge = await alice.poll(pollUrl, undefined, { gateway })
    expect(challenge.body.accepts[0].payTo).toBe(payTo)
    expect((await alice.poll(pollUrl, alice.sign(challenge), { gateway })).body.payment.status).toBe('settled')
    expect(chain.transfers).toMatchObject([{ to: payTo }])
  })

  test('is not spent while the fate of the original is unknown', async () => {
    const { alice, pollUrl, payment, chain, clock } = await readyJob()
    chain.simulate('late')
    expect((await alice.poll(pollUrl, payment)).status).toBe(202)
    const fresh = alice.sign(await alice.poll(pollUrl))
    chain.simulate('dropped')
    expect((await alice.poll(pollUrl, fresh)).status).toBe(202)
    chain.deliver()
    expect((await alice.poll(pollUrl, fresh)).body.payment.status).toBe('settled')
    await clock.advance(HOUR)
    expect(chain.transfers).toHaveLength(1)
    expect(alice.balance()).toBe(99_978_000n)
  })

  test('that does not verify is refused with its code, and is free for another purchase', async () => {
    const { alice, pollUrl, chain, clock } = await readyJob()
    await clock.advance(HOUR)
    const challenge = await alice.poll(pollUrl)
    const cheap = await alice.poll(pollUrl, alice.sign(challenge, { value: 1n }))
    expect([cheap.status, cheap.body.error, cheap.body.code]).toEqual([
      402,
      'Payment verification failed',
      'PAYMENT_INVALID',
    ])
    const fresh = alice.sign(challenge)
    chain.drain(alice.wallet)
    const poor = await alice.poll(pollUrl, fresh)
    expect([poor.status, poor.body.code]).toEqual([402, 'PAYMENT_UNFUNDED'])
    chain.fund(alice.wallet, 1_000_000n)
    expect((await alice.buy(FOX, { payment: fresh })).status).toBe(202)
    expect((await alice.poll(pollUrl, alice.sign(challenge))).body.payment.status).toBe('settled')
  })

  test('whose settlement is refused pays for its own call later, and buys nothing else: it was handed out', async () => {
    const { alice, pollUrl, chain, clock } = await readyJob()
    await clock.advance(HOUR)
    const fresh = alice.sign(await alice.poll(pollUrl))
    chain.simulate('refused')
    expect((await alice.poll(pollUrl, fresh)).body.error).toBe('Payment settlement failed')
    const { status, body } = await alice.buy(FOX, { payment: fresh })
    expect([status, body.code, 'job_id' in body]).toEqual([402, 'PAYMENT_REPLAY', false])
    expect((await alice.poll(pollUrl, fresh)).body.payment.status).toBe('settled')
  })

  test('that cannot be verified is 202, for clients end a job on 503; nothing is sent, and the poll can be repeated', async () => {
    for (const fails of ['outage', 'throw'] as const) {
      const chain = memoryChain({
        before: (question) =>
          question === 'verify' && isBroken ? Promise.reject(new Error('socket closed')) : undefined,
      })
      let isBroken = false
      const { alice, pollUrl, clock } = await readyJob(kit({ chain, inlineMs: 0 }))
      await clock.advance(HOUR)
      const fresh = alice.sign(await alice.poll(pollUrl))
      await alice.poll(pollUrl, alice.sign(await alice.poll(pollUrl), { value: 1n }))
      isBroken = fails === 'throw'
      chain.outage(fails === 'outage')
      const { status, headers, body } = await alice.poll(pollUrl, fresh)
      expect([status, headers.get('retry-after'), body.status, body.note]).toEqual([
        202,
        '3',
        'in_progress',
        expect.stringContaining('chain is temporarily unreachable'),
      ])
      expect(chain.transfers).toEqual([])
      isBroken = false
      chain.outage(false)
      expect((await alice.poll(pollUrl, fresh)).body.payment.status).toBe('settled')
    }
  })
})
