import { describe, expect, test } from 'bun:test'
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import { memoryObjects } from '../../../adapters/objects/memory.ts'
import { PIXEL, scriptedVendor } from '../../fakes/images.ts'
import { endpoints, polled } from '../../../core/mod.ts'
import { decodeHeader, door, encodePayment, FOX, GENERATIONS, kit, ORIGIN, START, slowVendor } from '../../kit.ts'

const HOUR = 3_600_000
const SLOW = { model: 'vendor-e/image-pro', prompt: 'a red fox in the snow' }
const RUNNING = {
  object: 'image.generation.job',
  model: FOX.model,
  payment_status: 'verified',
  note: expect.any(String),
}

/** A call whose inline window has passed while its vendor still works. */
async function slowCall(options: Parameters<typeof kit>[0] = {}) {
  const { vendor, ready } = slowVendor()
  const subject = kit({ vendor, ...options })
  const alice = subject.buyer()
  const payment = alice.sign(await alice.ask())
  const answer = alice.buy(FOX, { payment })
  await subject.streamed(30_000)
  const envelope = await answer
  return {
    ...subject,
    alice,
    payment,
    envelope,
    pollUrl: envelope.body.poll_url as string,
    ready,
    finish: () => (ready(), subject.idle()),
  }
}

describe('the inline window', () => {
  test('is 30 seconds: a millisecond before its end the buyer still waits, then 202 with an envelope, and nothing charged (contract 2.2, 2.3, 5.18, 5.19, 5.21)', async () => {
    const { vendor } = slowVendor()
    const { buyer, clock, chain } = kit({ vendor })
    const alice = buyer()
    let isAnswered = false
    const answer = alice.buy(FOX).finally(() => (isAnswered = true))
    await clock.advance(29_999)
    expect(isAnswered).toBe(false)
    await clock.advance(1)
    const { status, headers, body } = await answer
    expect(status).toBe(202)
    expect(body).toEqual({
      id: expect.stringMatching(/^job_[0-9a-f]{32}$/),
      object: 'image.generation.job',
      status: 'queued',
      model: FOX.model,
      size: '1024x1024',
      n: 1,
      price: { amount: '0.022000', currency: 'USD' },
      payment_status: 'verified',
      created: START / 1000,
      poll_url: expect.stringMatching(new RegExp(`^${GENERATIONS}/${body.id}\\?key=[0-9a-f]{32}$`)),
      poll_instructions: expect.any(String),
    })
    expect([headers.get('location'), headers.get('retry-after'), headers.get('cache-control')]).toEqual([
      body.poll_url,
      '3',
      'no-store',
    ])
    expect([headers.get('payment-response'), chain.transfers.length]).toEqual([null, 0])
  })

  test('passes, and the work goes on: a poll collects and pays', async () => {
    const { alice, payment, pollUrl, finish, chain, vendor } = await slowCall()
    await finish()
    expect(chain.transfers).toEqual([])
    const { status, body } = await alice.poll(pollUrl, payment)
    expect([status, body.payment.status, body.data[0].backed_up]).toEqual([200, 'settled', true])
    expect([chain.transfers.length, vendor.jobs.length]).toEqual([1, 1])
  })

  test('is configuration: 0 makes every call a job, and a long one waits for a slow vendor', async () => {
    expect((await kit({ inlineMs: 0 }).buyer().buy()).status).toBe(202)
    const { vendor, ready } = slowVendor()
    const { buyer, clock } = kit({ vendor, inlineMs: 600_000 })
    const answer = buyer().buy()
    await clock.advance(599_999)
    ready()
    expect((await answer).status).toBe(200)
  })

  test('that ends during the settlement waits for it: the buyer is charged and served in one answer', async () => {
    const gate = door()
    const chain = memoryChain({ before: (question) => (question === 'settle' ? gate.passed : undefined) })
    const { vendor, ready } = slowVendor()
    const { buyer, clock } = kit({ vendor, chain })
    const answer = buyer().buy(FOX)
    await clock.advance(29_999)
    ready()
    await clock.advance(1_000)
    gate.open()
    const { status, body } = await answer
    expect([status, body.payment.status, chain.transfers.length]).toEqual([200, 'settled', 1])
  })

  test('is exceeded by at most 3 seconds for a settlement that hangs: 202 in_progress, and a poll collects (contract 2.28)', async () => {
    for (const madeAfterMs of [0, 29_999]) {
      const gate = door()
      const chain = memoryChain({ before: (question) => (question === 'settle' ? gate.passed : undefined) })
      const { vendor, ready } = slowVendor()
      const { buyer, clock, idle } = kit({ vendor, chain, timeouts: { settleMs: 120_000, settleLeaseMs: 180_000 } })
      const alice = buyer()
      const payment = alice.sign(await alice.ask())
      let isAnswered = false
      const answer = alice.buy(FOX, { payment }).finally(() => (isAnswered = true))
      await clock.advance(madeAfterMs)
      ready()
      await clock.advance(30_000 - madeAfterMs)
      await clock.advance(2_999)
      expect([madeAfterMs, isAnswered]).toEqual([madeAfterMs, false])
      await clock.advance(1)
      const { status, headers, body } = await answer
      expect([status, body.status, headers.get('payment-response')]).toEqual([202, 'in_progress', null])
      gate.open()
      await idle()
      const collected = await alice.poll(body.poll_url, payment)
      expect([collected.status, collected.body.payment.status, chain.transfers.length]).toEqual([
        200,
        'already_settled',
        1,
      ])
    }
  })

  test('does not exist for vendor-e/image-pro: always 202, however fast (contract 5.22)', async () => {
    const { buyer, idle, chain, clock } = kit()
    const alice = buyer()
    const challenge = await alice.ask(SLOW)
    expect(challenge.body.generation_info.generation_time).toBe('about 2 minutes')
    const payment = alice.sign(challenge)
    const { status, body } = await alice.buy(SLOW, { payment })
    await idle()
    expect([status, body.status, chain.transfers.length, clock.waiting]).toEqual([202, 'queued', 0, 0])
    expect((await alice.poll(body.poll_url, payment)).body.payment.status).toBe('settled')
  })
})

describe('a poll', () => {
  test('of a running job is 202, queued and then in_progress (contract 2.1, 2.8, 2.16, 2.27)', async () => {
    const { alice, payment, pollUrl, ports, envelope } = await slowCall()
    const running = await alice.poll(pollUrl, payment)
    const { status, headers } = running
    expect([status, headers.get('retry-after'), headers.get('cache-control')]).toEqual([202, '3', 'no-store'])
    expect(running.body).toEqual({ id: envelope.body.id, status: 'in_progress', ...RUNNING })
    const early = kit({ vendor: slowVendor().vendor })
    const bob = early.buyer()
    const signed = bob.sign(await bob.ask())
    void bob.buy(FOX, { payment: signed })
    await early.clock.settle()
    const [call] = await early.ports.storage.lostCalls(Number.MAX_SAFE_INTEGER, 1)
    const url = (await early.keyed(call?.id ?? '')).replace('/api/v1/calls', GENERATIONS)
    expect((await bob.poll(`${GENERATIONS}/${call?.id}`, signed)).body).toEqual({
      id: call?.id ?? '',
      status: 'queued',
      ...RUNNING,
      poll_url: url,
    })
    expect((await bob.poll(url, signed)).body).toEqual({ id: call?.id ?? '', status: 'queued', ...RUNNING })
    expect((await ports.storage.getCall(envelope.body.id))?.startedAt).toBe(START + 30_000)
  })

  test('nothing that is said before payment leads to the media: they lie under a secret of their own', async () => {
    const { buyer, idle, ports } = kit()
    const alice = buyer()
    const envelope = await alice.buy(SLOW)
    await idle()
    const unpaid = await alice.poll(envelope.body.poll_url)
    const call = await ports.storage.getCall(envelope.body.id)
    const media = (call?.result as unknown as { media: readonly { key: string }[] } | undefined)?.media ?? []
    expect(media).toHaveLength(1)
    const replies = JSON.stringify([envelope.body, unpaid.body, [...envelope.headers], [...unpaid.headers]])
    const secrets = media.map(({ key }) => /([0-9a-f]{32})-/.exec(key)?.[1] ?? '')
    expect(secrets.filter((secret) => secret.length !== 32 || replies.includes(secret))).toEqual([])
    expect(media.filter(({ key }) => key.includes(envelope.body.id))).toEqual([])
  })

  test('that first sees it completed charges it: 200 with the result and receipt headers (contract 2.9)', async () => {
    const { alice, payment, pollUrl, finish, chain, envelope } = await slowCall()
    await finish()
    const before = alice.balance()
    const { status, headers, body } = await alice.poll(pollUrl, payment)
    const [transfer] = chain.transfers
    expect(status).toBe(200)
    expect(body).toEqual({
      id: envelope.body.id,
      created: (START + 30_000) / 1000,
      data: [
        {
          url: `${ORIGIN}/api/media/images/2026-11-20/00000000000000000000000000000002-0.png`,
          source_url: 'data:image/png',
          backed_up: true,
        },
      ],
      price: { amount: '0.022000', currency: 'USD' },
      payment: { status: 'settled', tx_hash: transfer?.transaction, network: 'base-sepolia' },
    })
    expect(headers.get('x-payment-receipt')).toBe(transfer?.transaction ?? '')
    expect(decodeHeader(headers.get('payment-response'))).toMatchObject({
      success: true,
      transaction: transfer?.transaction,
      payer: alice.wallet,
    })
    expect(before - alice.balance()).toBe(22_000n)
  })

  test('of a settled job is already_settled, with the same body and receipt, and charges nothing (contract 1.37, 2.10)', async () => {
    const { alice, payment, pollUrl, finish, chain } = await slowCall()
    await finish()
    const first = await alice.poll(pollUrl, payment)
    const later = await alice.poll(pollUrl, payment)
    expect(later.body).toEqual({ ...first.body, payment: { ...first.body.payment, status: 'already_settled' } })
    expect(later.headers.get('payment-response')).toBe(first.headers.get('payment-response'))
    expect(chain.transfers).toHaveLength(1)
  })

  test('of a settled job works with an authorization that expired long ago, an emptied wallet and a silent chain', async () => {
    const { alice, payment, pollUrl, finish, chain, clock } = await slowCall()
    await finish()
    await alice.poll(pollUrl, payment)
    chain.drain(alice.wallet)
    chain.outage(true)
    await clock.advance(29 * 24 * HOUR)
    const { status, body } = await alice.poll(pollUrl, payment)
    expect([status, body.payment.status]).toEqual([200, 'already_settled'])
  })

  test('of a failed job is 200, failed, not charged (contract 2.11)', async () => {
    const { alice, payment, pollUrl, envelope, chain } = await slowCall({
      vendor: scriptedVendor(() => Promise.reject(new Error('no'))),
      inlineMs: 0,
    })
    const { status, body } = await alice.poll(pollUrl, payment)
    expect(status).toBe(200)
    expect(body).toEqual({
      id: envelope.body.id,
      object: 'image.generation.job',
      status: 'failed',
      model: FOX.model,
      error: 'Image generation failed: The model did not deliver a result. Nothing was charged.',
      payment_status: 'not_charged',
      note: expect.any(String),
    })
    expect(chain.transfers).toEqual([])
  })

  test('that finds its process dead, or an hour gone, reads failed at once, before any sweep', async () => {
    const dead = await slowCall()
    const other = { gateway: dead.restart() }
    await dead.clock.advance(19_999)
    expect((await dead.alice.poll(dead.pollUrl, dead.payment, other)).status).toBe(202)
    await dead.clock.advance(1)
    expect((await dead.alice.poll(dead.pollUrl, dead.payment)).body.status).toBe('in_progress')
    const { body } = await dead.alice.poll(dead.pollUrl, dead.payment, other)
    expect([body.status, body.payment_status, body.error]).toEqual([
      'failed',
      'not_charged',
      'The work was lost when the server stopped. Nothing was charged.',
    ])
    expect((await dead.alice.buy(FOX, { payment: dead.payment, gateway: dead.restart({ inlineMs: 0 }) })).status).toBe(
      202,
    )
    const stuck = await slowCall()
    await stuck.ports.storage.renew('first', [stuck.envelope.body.id], START + 2 * HOUR)
    const gateway = stuck.restart({ timeouts: { maxJobMs: HOUR / 2 } })
    await stuck.clock.advance(HOUR / 2 + 1)
    expect((await stuck.alice.poll(stuck.pollUrl, stuck.payment, { gateway })).body.error).toStartWith('Job stalled')
  })

  test('without a payment is a fresh, signable challenge for this job (contract 2.6, 2.7)', async () => {
    const { alice, pollUrl, finish, envelope } = await slowCall()
    for (const isFinished of [false, true]) {
      if (isFinished) await finish()
      const { status, headers, body } = await alice.poll(pollUrl)
      expect([status, body.error, body.job_id, body.model, body.price]).toEqual([
        402,
        'Payment Required',
        envelope.body.id,
        FOX.model,
        { amount: '0.022000', currency: 'USD' },
      ])
      expect(decodeHeader(headers.get('payment-required'))).toMatchObject({
        accepts: body.accepts,
        resource: { url: ORIGIN + pollUrl.split('?')[0] },
      })
      expect([body.accepts[0].amount, body.accepts[0].maxTimeoutSeconds]).toEqual(['22000', 600])
    }
    const challenge = await alice.poll(pollUrl)
    expect((await alice.poll(pollUrl, alice.sign(challenge))).body.payment.status).toBe('settled')
  })

  test('takes either header name (contract 1.2)', async () => {
    for (const header of ['x-payment', 'PAYMENT-SIGNATURE']) {
      const { alice, payment, pollUrl, finish } = await slowCall()
      await finish()
      expect((await alice.poll(pollUrl, payment, { header })).status).toBe(200)
    }
  })

  test('by another wallet is 403 in every state, and charges neither (contract 5.2)', async () => {
    const { alice, payment, pollUrl, finish, buyer, chain } = await slowCall()
    const bob = buyer('bob')
    const theirs = bob.sign(await bob.ask())
    const expectMismatch = async () => {
      const { status, body } = await bob.poll(pollUrl, theirs)
      expect([status, body.error]).toEqual([403, 'Payment payer mismatch'])
    }
    await expectMismatch()
    await finish()
    await expectMismatch()
    expect(chain.transfers).toEqual([])
    await alice.poll(pollUrl, payment)
    await expectMismatch()
    expect(bob.balance()).toBe(100_000_000n)
    expect((await bob.buy(FOX, { payment: theirs })).status).toBe(200)
  })

  test('of what never was, of another product or of another gateway is 404 (contract 2.12)', async () => {
    const { alice, payment, pollUrl, restart } = await slowCall()
    for (const path of [`${GENERATIONS}/job_none`, `${GENERATIONS}/%2F`, `${GENERATIONS}/${'x'.repeat(5000)}`]) {
      const { status, body } = await alice.poll(path, payment)
      expect([status, body.error]).toEqual([404, 'Job not found'])
    }
    expect((await alice.poll(pollUrl, payment, { gateway: restart({ name: 'solana' }) })).status).toBe(404)
    expect((await alice.poll(pollUrl, payment, { gateway: restart() })).status).toBe(202)
  })

  test('of a path for other products is 404', async () => {
    const others = polled({
      name: 'others',
      path: '/api/v1/others/{id}',
      summary: 'Others',
      tag: 'test',
      of: ['others.make'],
    })
    const { alice, payment, envelope } = await slowCall({ endpoints: [...endpoints, others] })
    expect((await alice.poll(`/api/v1/others/${envelope.body.id}`, payment)).status).toBe(404)
    expect((await alice.poll(`/api/v1/calls/${envelope.body.id}`, payment)).status).toBe(202)
  })

  test('with HEAD never pays: it is the challenge without its body', async () => {
    const { payment, pollUrl, finish, gateway, chain } = await slowCall()
    await finish()
    for (const headers of [{}, { 'payment-signature': encodePayment(payment) }, { 'x-payment': 'garbage' }]) {
      const response = await gateway.fetch(new Request(ORIGIN + pollUrl, { method: 'HEAD', headers }))
      expect([response.status, response.headers.has('payment-required'), await response.text()]).toEqual([
        402,
        true,
        '',
      ])
    }
    expect(chain.transfers).toEqual([])
  })

  test('whose wallet cannot be recognised just now is 202 in every state, and charges nothing: clients end a job on 503', async () => {
    const silent = () => Promise.resolve({ kind: 'unavailable' as const, reason: 'the node does not answer' })
    const broken = () => Promise.reject(new Error('socket closed'))
    const { alice, payment, pollUrl, finish, restart, ports, chain } = await slowCall()
    for (const isFinished of [false, true]) {
      if (isFinished) await finish()
      for (const identify of [silent, broken]) {
        const { status, headers, body } = await alice.poll(pollUrl, payment, {
          gateway: restart({ ports: { ...ports, chain: { ...chain, identify } } }),
        })
        expect([status, headers.get('retry-after'), body.status, body.payment_status]).toEqual([
          202,
          '3',
          'in_progress',
          'verified',
        ])
        expect(body.note).toContain('temporarily unreachable')
      }
    }
    expect(chain.transfers).toEqual([])
    expect((await alice.poll(pollUrl, payment)).body.payment.status).toBe('settled')
  })

  test('on a gateway that is not ready asks for and takes the offer that its call was sold under', async () => {
    const { alice, payment, pollUrl, finish, restart, ports, chain } = await slowCall()
    await finish()
    const gateway = restart({ ports: { ...ports, chain: { ...chain, terms: () => [] } } })
    const challenge = await alice.poll(pollUrl, undefined, { gateway })
    expect([challenge.status, challenge.body.accepts]).toEqual([402, [payment.accepted]])
    expect((await alice.poll(pollUrl, payment, { gateway })).body.payment.status).toBe('settled')
  })

  test('names hosted media where their store is public, else under the origin that was called', async () => {
    const objects = memoryObjects()
    const cdn = {
      ...objects,
      url: (key: string) => (key.endsWith('-1.png') ? undefined : `https://cdn.example/${key}`),
    }
    const { buyer } = kit({ ports: { objects: cdn } })
    const { body } = await buyer().buy({ ...FOX, n: 2 })
    expect(body.data.map(({ url }: { url: string }) => new URL(url).origin)).toEqual(['https://cdn.example', ORIGIN])
  })

  test('under /api/v1/calls collects any call (contract 1.24)', async () => {
    const { alice, payment, envelope, finish } = await slowCall()
    await finish()
    const { status, body } = await alice.poll(`/api/v1/calls/${envelope.body.id}`, payment)
    expect([status, body.payment.status]).toEqual([200, 'settled'])
  })
})

describe('the life of a job', () => {
  test('stalls after one hour: failed, never charged, whether or not somebody polls (contract 2.20)', async () => {
    const { alice, payment, pollUrl, streamed, chain, finish } = await slowCall()
    await streamed(HOUR)
    const { status, body } = await alice.poll(pollUrl, payment)
    expect([status, body.status, body.payment_status]).toEqual([200, 'failed', 'not_charged'])
    expect(body.error).toStartWith('Job stalled')
    await finish()
    expect((await alice.poll(pollUrl, payment)).body.status).toBe('failed')
    expect(chain.transfers).toEqual([])
  })

  test('a vendor that ignores its deadline cannot complete a stalled job (contract 2.1)', async () => {
    const vendor = { ...scriptedVendor(), generate: () => new Promise<never>(() => {}) }
    const { alice, payment, pollUrl, streamed } = await slowCall({ vendor })
    await streamed(HOUR + 1)
    expect((await alice.poll(pollUrl, payment)).body.error).toStartWith('Job stalled')
  })

  test('the vendor’s signal aborts at the stall, not when the buyer hangs up or the window ends', async () => {
    let signal: AbortSignal | undefined
    const vendor = {
      ...scriptedVendor(),
      generate: (_job: unknown, at: { signal: AbortSignal }) => ((signal = at.signal), new Promise<never>(() => {})),
    }
    const gone = new AbortController()
    const { buyer, clock } = kit({ vendor })
    const answer = buyer().buy(FOX, { gone: gone.signal })
    await clock.settle()
    gone.abort()
    await answer
    await clock.advance(HOUR - 1)
    expect(signal?.aborted).toBe(false)
    await clock.advance(1)
    expect(signal?.aborted).toBe(true)
  })

  test('an uncollected result can be claimed for 48 hours, and is then 404 (contract 2.23)', async () => {
    for (const [ms, status] of [
      [48 * HOUR - 1, 200],
      [48 * HOUR, 404],
    ] as const) {
      const { alice, pollUrl, finish, clock } = await slowCall()
      await finish()
      await clock.advance(ms)
      const fresh = alice.sign(await alice.ask())
      expect([ms, (await alice.poll(pollUrl, fresh)).status]).toEqual([ms, status])
    }
  })

  test('an inline result is kept for 30 days, for those who lost the answer', async () => {
    const { buyer, clock, ports, keyed } = kit()
    const alice = buyer()
    const payment = alice.sign(await alice.ask())
    const { body } = await alice.buy(FOX, { payment })
    for (const [ms, status] of [
      [30 * 24 * HOUR - 1, 200],
      [1, 404],
    ] as const) {
      await clock.advance(ms)
      await ports.storage.prune(clock.now())
      expect((await alice.poll(await keyed(body.id), payment)).status).toBe(status)
    }
  })

  test('a settled result is kept for 30 days, and is then 404 after a sweep (contract 2.23)', async () => {
    const { alice, payment, pollUrl, finish, clock, ports } = await slowCall()
    await finish()
    await alice.poll(pollUrl, payment)
    await clock.advance(30 * 24 * HOUR - 1)
    await ports.storage.prune(clock.now())
    expect((await alice.poll(pollUrl, payment)).status).toBe(200)
    await clock.advance(1)
    await ports.storage.prune(clock.now())
    expect((await alice.poll(pollUrl, payment)).status).toBe(404)
  })

  test('a job that is never polled never charges (contract 2.21)', async () => {
    const { finish, gateway, clock, chain, alice, ports } = await slowCall()
    await finish()
    for (let hour = 0; hour < 50; hour++) {
      await clock.advance(HOUR)
      await gateway.maintain()
      await ports.storage.prune(clock.now())
    }
    expect([chain.transfers.length, alice.balance()]).toEqual([0, 100_000_000n])
  })

  test('a changed price or recipient does not change what a job was sold for (contract 2.19)', async () => {
    const { alice, payment, pollUrl, finish, chain, ports, restart } = await slowCall()
    await finish()
    const moved = {
      ...ports,
      chain: {
        ...chain,
        terms: () => [{ ...chain.offer(1n), payTo: `0x${'2'.repeat(40)}`, extra: { name: 'USDC', version: '2' } }],
      },
    }
    const { status, body } = await alice.poll(pollUrl, payment, { gateway: restart({ ports: moved }) })
    expect([status, body.price.amount, chain.transfers[0]?.to]).toEqual([
      200,
      '0.022000',
      '0x209693bc6afc0c5328ba36faf03c514ef312287c',
    ])
  })
})

describe('a buyer who hangs up', () => {
  test('during the work is not charged; the result waits for a poll (contract 2.22)', async () => {
    const { vendor, ready } = slowVendor()
    const { buyer, clock, chain, idle } = kit({ vendor })
    const alice = buyer()
    const payment = alice.sign(await alice.ask())
    const gone = new AbortController()
    const answer = alice.buy(FOX, { payment, gone: gone.signal })
    await clock.advance(5_000)
    gone.abort()
    await answer
    ready()
    await idle()
    expect([chain.transfers.length, clock.waiting]).toEqual([0, 0])
    const replay = await alice.buy(FOX, { payment })
    expect([replay.status, replay.body.code, replay.body.recoverable]).toEqual([402, 'PAYMENT_REPLAY', true])
    const { status, body } = await alice.poll(replay.body.poll_url, payment)
    expect([status, body.payment.status, chain.transfers.length, vendor.jobs.length]).toEqual([200, 'settled', 1, 1])
  })

  test('between the result and its settlement is not charged', async () => {
    const gone = new AbortController()
    const vendor = scriptedVendor(async () => {
      gone.abort()
      return [{ url: PIXEL }]
    })
    const { buyer, chain, idle } = kit({ vendor })
    const alice = buyer()
    const payment = alice.sign(await alice.ask())
    await alice.buy(FOX, { payment, gone: gone.signal })
    await idle()
    expect(chain.transfers).toEqual([])
    const { body } = await alice.buy(FOX, { payment })
    expect((await alice.poll(body.poll_url, payment)).body.payment.status).toBe('settled')
  })

  test('before the work began is not charged either', async () => {
    const { buyer, chain, idle } = kit()
    const alice = buyer()
    const payment = alice.sign(await alice.ask())
    await alice.buy(FOX, { payment, gone: AbortSignal.abort() })
    await idle()
    expect(chain.transfers).toEqual([])
    const { body } = await alice.buy(FOX, { payment })
    expect((await alice.poll(body.poll_url, payment)).status).toBe(200)
  })

  test('during the settlement is charged once, and finds the result already settled', async () => {
    const gone = new AbortController()
    const chain = memoryChain({ before: (question) => (question === 'settle' ? gone.abort() : undefined) })
    const { buyer, idle } = kit({ chain })
    const alice = buyer()
    const payment = alice.sign(await alice.ask())
    await alice.buy(FOX, { payment, gone: gone.signal })
    await idle()
    expect(chain.transfers).toHaveLength(1)
    const { body } = await alice.buy(FOX, { payment })
    expect((await alice.poll(body.poll_url, payment)).body.payment.status).toBe('already_settled')
  })
})
