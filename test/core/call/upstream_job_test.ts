import { describe, expect, test } from 'bun:test'
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { sqliteStorage } from '../../../adapters/storage/sqlite/mod.ts'
import { CLIP_BYTES, clipOf } from '../../fakes/videos.ts'
import type { OpenMedia } from '../../../core/endpoint/mod.ts'
import { ApiError, rateLimited } from '../../../core/http/errors.ts'
import { NoMedia, type Payment, type Storage, type StoredRecord, type Vendors } from '../../../core/mod.ts'
import { decodeHeader, door, type KitOptions, START } from '../../kit.ts'
import { cinema, CLIP, DONE, FILM, FILMS, order, type Shoot, shoot, signed } from '../products/video/film.ts'

const QUOTE = 400_000n
const never = new Promise<never>(() => {})

describe('an order whose work goes on elsewhere', () => {
  test('is answered 202 when its vendor has taken it: a signed, relative poll_url, what it is, and nothing that is kept for ourselves', async () => {
    const { envelope, chain, studio, ports, id } = await shoot()
    const { status, headers, body } = envelope
    expect([status, body]).toEqual([
      202,
      {
        id: expect.stringMatching(/^job_[0-9a-f]{32}$/),
        object: 'film.job',
        status: 'queued',
        model: 'studio/film-1',
        duration_seconds: 8,
        price: { amount: '0.400000', currency: 'USD' },
        payment_status: 'verified',
        created: START / 1000,
        poll_url: expect.stringMatching(
          new RegExp(
            `^${FILMS}/${body.id}\\?model=studio%2Ffilm-1&duration=8&exp=\\d+&sig=[0-9a-f]{64}&key=[0-9a-f]{32}$`,
          ),
        ),
        poll_instructions: 'GET poll_url as it is.',
      },
    ])
    expect([headers.get('location'), headers.get('retry-after'), headers.get('payment-response')]).toEqual([
      body.poll_url,
      '3',
      null,
    ])
    expect([chain.transfers, studio.submitted, studio.polled]).toEqual([[], 1, []])
    expect(await ports.storage.getCall(id)).toMatchObject({
      workStatus: 'in_progress',
      paymentStatus: 'verified',
      startedAt: START,
      request: { _ours: 'secret' },
    })
  })

  test('that is not taken within 20 seconds is 504, uncharged, its vendor told to stop, and its authorization free', async () => {
    const subject = cinema()
    const alice = subject.buyer()
    const payment = await signed(alice)
    let signal: AbortSignal | undefined
    subject.studio.submit = (order) => ((signal = order.signal), never)
    let isAnswered = false
    const answer = order(alice, payment).finally(() => (isAnswered = true))
    await subject.clock.advance(19_999)
    expect([isAnswered, signal?.aborted]).toEqual([false, false])
    await subject.clock.advance(1)
    const { status, body } = await answer
    expect([status, body.error, signal?.aborted, subject.clock.waiting]).toEqual([504, 'The model timed out', true, 0])
    subject.studio.submit = () => {}
    expect((await order(alice, payment)).status).toBe(202)
    expect([subject.chain.transfers, subject.studio.submitted]).toEqual([[], 2])
  })

  test('that finds the largest ones on their way to the vendor is 503, uncharged, and taken when they have arrived (contract 3.22)', async () => {
    const arrived = door()
    const subject = cinema({ maxUpload: 100 })
    subject.studio.submit = () => arrived.passed
    const alice = subject.buyer()
    const large = { ...FILM, prompt: 'a'.repeat(100) }
    const sent = async () => order(alice, await signed(alice), { body: large })
    const under = Array.from({ length: 4 }, sent)
    await subject.clock.advance(0)
    const payment = await signed(alice)
    const refused = await order(alice, payment, { body: large })
    expect([refused.status, refused.body.error, refused.headers.get('retry-after'), subject.studio.submitted]).toEqual([
      503,
      'Busy',
      '2',
      4,
    ])
    arrived.open()
    expect((await Promise.all(under)).map(({ status }) => status)).toEqual([202, 202, 202, 202])
    expect((await order(alice, payment, { body: large })).status).toBe(202)
    expect(subject.chain.transfers).toEqual([])
  })

  test('that its vendor refuses is told so at once, uncharged; the same authorization buys again', async () => {
    const refusals = [
      [new ApiError('CONTENT_POLICY', { message: 'No foxes.' }), 400, 'Content policy violation', null],
      [rateLimited('studio', 7), 429, 'Rate limit exceeded', '7'],
      [new Error('socket closed: key=secret'), 500, 'Film generation failed', null],
    ] as const
    for (const [error, expected, message, wait] of refusals) {
      const subject = cinema()
      const alice = subject.buyer()
      const payment = await signed(alice)
      subject.studio.submit = () => Promise.reject(error)
      const { status, headers, body } = await order(alice, payment)
      expect([status, body.error, headers.get('retry-after')]).toEqual([expected, message, wait])
      expect(JSON.stringify(body)).not.toContain('secret')
      subject.studio.submit = () => {}
      expect((await order(alice, payment)).status).toBe(202)
      expect(subject.chain.transfers).toEqual([])
    }
  })

  /** Never ends, except for the record that counts a new wallet's order. */
  const handing = (storage: Storage, step: 'putRecord' | 'moveCall') => (first: unknown, now: number) =>
    step === 'putRecord' && (first as StoredRecord).kind === 'new_wallet_call'
      ? storage.putRecord(first as StoredRecord, now)
      : never

  for (const step of ['putRecord', 'moveCall'] as const) {
    test(`whose process dies before ${step} has handed it over frees its authorization when the lease ends`, async () => {
      const { studio, clock, chain, ports, restart, buyer } = cinema()
      const alice = buyer()
      const payment = await signed(alice)
      const dying = restart({
        workerId: 'dying',
        pollKeys: ['ab'.repeat(32)],
        ports: { ...ports, background: () => {}, storage: { ...ports.storage, [step]: handing(ports.storage, step) } },
      })
      void order(alice, payment, { gateway: dying })
      await clock.advance(29_999)
      expect((await order(alice, payment)).body.code).toBe('PAYMENT_REPLAY')
      await clock.advance(1)
      expect((await order(alice, payment)).status).toBe(202)
      expect([chain.transfers, studio.submitted]).toEqual([[], 2])
    })
  }

  test('that is taken after its process was given up for dead is not its own any more: failed, and the authorization pays for the other', async () => {
    const subject = cinema({ timeouts: { submitMs: 60_000 } })
    const alice = subject.buyer()
    const payment = await signed(alice)
    const taken = door()
    subject.studio.submit = () => taken.passed
    const late = order(alice, payment)
    await subject.clock.advance(30_000)
    subject.studio.submit = () => {}
    const other = await order(alice, payment, { gateway: subject.restart() })
    taken.open()
    const { status } = await late
    expect([status, other.status]).toEqual([500, 202])
    subject.studio.status = () => DONE
    expect((await alice.poll(other.body.poll_url, payment)).body.payment.status).toBe('settled')
  })

  test('goes on when its caller hangs up, who finds it by the authorization', async () => {
    const subject = cinema()
    const alice = subject.buyer()
    const payment = await signed(alice)
    const taken = door()
    subject.studio.submit = () => taken.passed
    const gone = new AbortController()
    void order(alice, payment, { gone: gone.signal })
    await subject.clock.settle()
    gone.abort()
    let isIdle = false
    const idle = subject.idle().then(() => (isIdle = true))
    await subject.clock.settle()
    expect(isIdle).toBe(false)
    taken.open()
    await idle
    const { body } = await order(alice, payment)
    subject.studio.status = () => DONE
    expect((await alice.poll(body.poll_url, payment)).body.payment.status).toBe('settled')
  })

  test('sent again is PAYMENT_REPLAY with the job and its signed poll_url', async () => {
    const { alice, payment, id, pollUrl, studio } = await shoot()
    const { status, body } = await order(alice, payment)
    expect([status, body.code, body.job_id, body.poll_url, body.recoverable, studio.submitted]).toEqual([
      402,
      'PAYMENT_REPLAY',
      id,
      pollUrl,
      true,
      1,
    ])
    expect((await alice.poll(body.poll_url, payment)).status).toBe(202)
  })

  test('under a payment identifier is answered again: as it runs, though its vendor is away, and when it is done', async () => {
    const subject = cinema()
    const alice = subject.buyer()
    const named = async (): Promise<Payment> => ({
      ...(await signed(alice)),
      extensions: { 'payment-identifier': { info: { required: false, id: 'a_film_of_a_fox_01' } } },
    })
    const payment = await named()
    const first = await order(alice, payment)
    for (const status of [
      () => ({ kind: 'running' }) as const,
      () => Promise.reject(rateLimited('studio', 7)),
      () => Promise.reject(new Error('away')),
    ]) {
      subject.studio.status = status
      await subject.clock.advance(2_000)
      const again = await order(alice, await named())
      expect([again.status, again.body]).toEqual([202, { ...first.body, status: 'in_progress' }])
    }
    subject.studio.status = () => DONE
    await subject.clock.advance(2_000)
    const { status, body } = await order(alice, payment)
    expect([status, body.id, body.payment.status, subject.studio.submitted, subject.chain.transfers.length]).toEqual([
      200,
      first.body.id,
      'settled',
      1,
      1,
    ])
  })

  test('counts against what its wallet holds, whichever process is alive', async () => {
    const subject = await shoot()
    const { alice, chain, clock, restart } = subject
    await clock.advance(60_000)
    await restart().maintain()
    chain.drain(alice.wallet)
    chain.fund(alice.wallet, 2n * QUOTE - 1n)
    const { status, body } = await order(alice, await signed(alice))
    expect([status, body.code]).toEqual([402, 'PAYMENT_UNFUNDED'])
    chain.fund(alice.wallet, 1n)
    expect((await order(alice, await signed(alice))).status).toBe(202)
  })
})

describe('a poll', () => {
  test('while it runs is 202 with the progress of its vendor and the time that has passed (contract 12.44)', async () => {
    const { alice, payment, pollUrl, id, clock, chain } = await shoot()
    await clock.advance(61_500)
    const { status, headers, body } = await alice.poll(pollUrl, payment)
    expect([status, headers.get('retry-after'), body]).toEqual([
      202,
      '3',
      {
        id,
        object: 'film.job',
        status: 'in_progress',
        model: 'studio/film-1',
        payment_status: 'verified',
        elapsed_seconds: 61,
        progress: 40,
        note: 'Still filming.',
      },
    ])
    expect(chain.transfers).toEqual([])
  })

  test('of a film that failed says why and what to do, uncharged, and its authorization is free', async () => {
    const { alice, payment, pollUrl, id, studio, chain } = await shoot()
    const fields = { error_code: 'output_audio_moderation', retry_with: { generate_audio: false } }
    studio.status = () => ({ kind: 'failed', error: 'The soundtrack was refused.', fields })
    const failed = await alice.poll(pollUrl, payment)
    const expected = {
      id,
      object: 'film.job',
      status: 'failed',
      model: 'studio/film-1',
      error: 'The soundtrack was refused.',
      ...fields,
      payment_status: 'not_charged',
      note: 'Nothing was charged.',
    }
    expect([failed.status, failed.body]).toEqual([200, expected])
    studio.status = () => DONE
    expect((await alice.poll(pollUrl, payment)).body).toEqual(expected)
    expect([studio.polled.length, chain.transfers]).toEqual([1, []])
    expect((await order(alice, payment)).status).toBe(202)
  })

  test('whose vendor cannot be asked is 202; 504 where it does not answer in 10 seconds; 429 where it has no room; and the film goes on (contract 2.15)', async () => {
    const { alice, payment, pollUrl, studio, clock, chain } = await shoot()
    studio.status = () => Promise.reject(new Error('socket closed'))
    const away = await alice.poll(pollUrl, payment)
    expect([away.status, away.body.status]).toEqual([202, 'in_progress'])

    await clock.advance(2_000)
    let signal: AbortSignal | undefined
    studio.status = (_handle, looking) => ((signal = looking.signal), never)
    const hanging = alice.poll(pollUrl, payment)
    await clock.advance(9_999)
    expect(signal?.aborted).toBe(false)
    await clock.advance(1)
    expect([(await hanging).status, signal?.aborted, clock.waiting]).toEqual([504, true, 0])

    await clock.advance(2_000)
    studio.status = () => Promise.reject(new ApiError('UPSTREAM_TIMEOUT'))
    expect((await alice.poll(pollUrl, payment)).status).toBe(504)

    await clock.advance(2_000)
    studio.status = () => Promise.reject(rateLimited('studio', 9))
    const limited = await alice.poll(pollUrl, payment)
    expect([
      limited.status,
      limited.body.code,
      limited.headers.get('retry-after'),
      limited.body.retry_after_seconds,
    ]).toEqual([429, 'RATE_LIMITED', '9', 9])

    await clock.advance(2_000)
    studio.status = () => DONE
    expect([(await alice.poll(pollUrl, payment)).body.payment.status, chain.transfers.length]).toEqual(['settled', 1])
  })

  test('by another wallet is 403 and asks nobody; without a payment it is a challenge that can be signed', async () => {
    const { alice, pollUrl, id, studio, buyer } = await shoot()
    const bob = buyer('bob')
    const theirs = await bob.poll(pollUrl, await signed(bob))
    expect([theirs.status, theirs.body.error, studio.polled]).toEqual([403, 'Payment payer mismatch', []])
    const challenge = await alice.poll(pollUrl)
    expect([challenge.status, challenge.body.job_id, challenge.body.accepts[0].amount, studio.polled]).toEqual([
      402,
      id,
      '400000',
      [],
    ])
    studio.status = () => DONE
    expect((await alice.poll(pollUrl, alice.sign(challenge))).body.payment.status).toBe('settled')
  })

  test('asks the vendor at most once in 2 seconds for a film, however many poll at however many replicas', async () => {
    const { alice, payment, pollUrl, studio, clock, gateway, restart } = await shoot()
    const gateways = [gateway, restart()]
    const load = () =>
      Promise.all(Array.from({ length: 40 }, (_, n) => alice.poll(pollUrl, payment, { gateway: gateways[n % 2]! })))
    for (const [ms, polls] of [
      [0, 1],
      [1_999, 1],
      [1, 2],
      [2_000, 3],
    ] as const) {
      await clock.advance(ms)
      const statuses = new Set((await load()).map(({ status }) => status))
      expect([...statuses, studio.polled.length]).toEqual([202, polls])
    }
  })
})

describe('a film that is done', () => {
  /** A film in the making, whose mirroring, completion and settlement are written down. */
  async function watched(options: KitOptions = {}): Promise<Shoot & { events: string[] }> {
    const events: string[] = []
    const chain = memoryChain({ before: (question) => void (question === 'settle' && events.push('settled')) })
    const wrap: KitOptions['wrap'] = (ports) => ({
      ...ports,
      objects: { ...ports.objects, put: (...given) => (events.push('mirrored'), ports.objects.put(...given)) },
      storage: {
        ...ports.storage,
        moveCall: (id, from, patch) => (
          patch.workStatus === 'completed' && events.push('completed'),
          ports.storage.moveCall(id, from, patch)
        ),
      },
    })
    return { ...(await shoot(cinema({ chain, wrap, ...options }))), events }
  }

  test('is mirrored, then completed, then settled by the first poll; the next one reads the same, already settled', async () => {
    const { alice, payment, pollUrl, id, studio, events, chain, clock } = await watched()
    studio.status = () => DONE
    const first = await alice.poll(pollUrl, payment)
    expect([first.status, first.body]).toEqual([
      200,
      {
        id,
        status: 'completed',
        created: START / 1000,
        data: [
          {
            url: expect.stringContaining('/api/media/films/'),
            source_url: CLIP,
            backed_up: true,
            made: { seconds: 8 },
          },
        ],
        price: { amount: '0.400000', currency: 'USD' },
        payment: { status: 'settled', tx_hash: chain.transfers[0]!.transaction, network: 'base-sepolia' },
      },
    ])
    expect(decodeHeader(first.headers.get('payment-response'))).toMatchObject({ success: true, payer: alice.wallet })
    expect(events).toEqual(['mirrored', 'completed', 'settled'])
    await clock.advance(10_000)
    const second = await alice.poll(pollUrl, payment)
    expect(second.body).toEqual({ ...first.body, payment: { ...first.body.payment, status: 'already_settled' } })
    expect([events.length, studio.polled.length, alice.balance()]).toEqual([3, 1, 100_000_000n - QUOTE])
  })

  for (const [kind, open] of [
    ['memory', memoryStorage],
    ['SQLite', () => sqliteStorage(':memory:')],
  ] as const) {
    test(`is one mirror, one transfer and one URL to 50 pollers at once at two gateways over ${kind}`, async () => {
      const storage = open()
      const { alice, payment, pollUrl, studio, events, gateway, restart, clock } = await watched({ ports: { storage } })
      studio.status = () => DONE
      const gateways = [gateway, restart()]
      const insist = async (n: number): Promise<{ url: string; status: string }> => {
        for (;;) {
          const { status, body } = await alice.poll(pollUrl, payment, { gateway: gateways[n % 2]! })
          if (status === 200) return { url: body.data[0].url, status: body.payment.status }
          expect(status).toBe(202)
          await clock.wait(3_000)
        }
      }
      const all = Promise.all(Array.from({ length: 50 }, (_, n) => insist(n)))
      for (let round = 0; round < 20; round++) await clock.advance(1_000)
      const got = await all
      expect([
        new Set(got.map(({ url }) => url)).size,
        got.filter(({ status }) => status === 'settled').length,
      ]).toEqual([1, 1])
      expect([events, studio.fetched, studio.polled.length]).toEqual([['mirrored', 'completed', 'settled'], 1, 1])
      await storage.close()
    })
  }

  test('is mirrored once, however long that takes; its poller is told to come back after 20 seconds', async () => {
    const fetched = door()
    let fetches = 0
    const media = async () => (fetches++, await fetched.passed, { bytes: new Uint8Array([1]), type: 'image/png' })
    const { alice, payment, pollUrl, studio, clock, restart, idle } = await shoot(
      cinema({ ports: { vendors: { media } } }),
    )
    studio.status = () => DONE
    const slow = alice.poll(pollUrl, payment)
    let isAnswered = false
    void slow.then(() => (isAnswered = true))
    await clock.advance(10_000)
    await clock.advance(9_999)
    expect(isAnswered).toBe(false)
    await clock.advance(1)
    expect([(await slow).status, (await slow).body.status]).toEqual([202, 'in_progress'])
    for (let waited = 0; waited < 30_000; waited += 10_000) {
      await clock.advance(10_000)
      expect((await alice.poll(pollUrl, payment, { gateway: restart() })).status).toBe(202)
    }
    fetched.open()
    await idle()
    expect([
      (await alice.poll(pollUrl, payment)).body.payment.status,
      fetches,
      studio.polled.length,
      clock.waiting,
    ]).toEqual(['settled', 1, 1, 0])
  })

  test('whose end cannot be written down is not lost: that is said, and the next look collects it', async () => {
    let isAway = true
    const fetched = door()
    const wrap: KitOptions['wrap'] = (ports) => ({
      ...ports,
      objects: { ...ports.objects, put: async (...given) => (await fetched.passed, await ports.objects.put(...given)) },
      storage: {
        ...ports.storage,
        moveCall: (id, from, patch) =>
          patch.workStatus === 'completed' && isAway
            ? Promise.reject(new Error('connection reset'))
            : ports.storage.moveCall(id, from, patch),
      },
    })
    const { alice, payment, pollUrl, studio, clock, idle, log } = await shoot(cinema({ wrap }))
    studio.status = () => DONE
    const slow = alice.poll(pollUrl, payment)
    await clock.advance(20_000)
    expect((await slow).status).toBe(202)
    fetched.open()
    await idle()
    expect(log.lines.map(({ message }) => message)).toEqual([
      'storage fails; nothing is sold until it answers',
      'storage answers again',
      'a job could not be collected',
    ])
    isAway = false
    await clock.advance(2_000)
    expect((await alice.poll(pollUrl, payment)).body.payment.status).toBe('settled')
  })

  /**
   * A film that is done, and what becomes of it when its clip cannot be fetched at first, or ever; minutes pass in
   * quarters.
   */
  async function missed(media: (times: number) => ReturnType<Vendors['media']>) {
    let times = 0
    const film = await shoot(cinema({ ports: { vendors: { media: () => media(++times) } } }))
    const { alice, payment, pollUrl, studio, clock } = film
    studio.status = () => DONE
    const reported: unknown[] = []
    for (let quarter = 0; quarter < 5; quarter++) {
      for (let polls = 0; polls < 3; polls++) {
        const { status, body } = await alice.poll(pollUrl, payment)
        if (polls === 0) reported.push([status, body.status])
        await clock.advance(5_000)
      }
    }
    return { ...film, reported, times, last: (await alice.poll(pollUrl, payment)).body }
  }
  const RUNS = [202, 'in_progress']
  const SOLD = [200, 'completed']

  test('that cannot be mirrored just now is tried again, four times a minute however many poll', async () => {
    const { reported, times, last, chain } = await missed(async (nth) => {
      if (nth < 3) throw new Error('connection reset')
      return { bytes: new Uint8Array([1]), type: 'image/png' }
    })
    expect([reported, times]).toEqual([[RUNS, RUNS, SOLD, SOLD, SOLD], 3])
    expect([last.data[0].backed_up, chain.transfers.length]).toEqual([true, 1])
  })

  test('that could not be mirrored for a minute is served from its vendor, and charged', async () => {
    const { reported, times, last, chain } = await missed(() => Promise.reject(new Error('connection reset')))
    expect([reported, times]).toEqual([[RUNS, RUNS, RUNS, RUNS, SOLD], 5])
    expect([last.data[0].url, last.data[0].backed_up, chain.transfers.length]).toEqual([CLIP, false, 1])
  })

  test('that nobody can have has failed after a minute, uncharged, its authorization free', async () => {
    const { reported, last, chain, alice, payment } = await missed(() =>
      Promise.reject(new NoMedia('the media host answered 404')),
    )
    expect(reported).toEqual([RUNS, RUNS, RUNS, RUNS, [200, 'failed']])
    expect([last.payment_status, chain.transfers]).toEqual(['not_charged', []])
    expect((await order(alice, payment)).status).toBe(202)
  })

  test('that only our key leads to is looked for beyond the minute: there is no link to sell', async () => {
    const { alice, payment, pollUrl, studio, clock, chain } = await shoot(cinema())
    const streams: OpenMedia[] = [() => Promise.reject(new Error('connection reset'))]
    studio.status = () => ({
      kind: 'done',
      made: { result: { seconds: 8 }, media: { folder: 'films', urls: [''], streams, kinds: ['video'] } },
    })
    for (let minute = 0; minute < 3; minute++) {
      expect((await alice.poll(pollUrl, payment)).status).toBe(202)
      await clock.advance(60_000)
    }
    streams[0] = async () => ({ body: clipOf([CLIP_BYTES]).body, type: 'video/mp4' })
    const { status, body } = await alice.poll(pollUrl, payment)
    expect([status, body.data[0].backed_up, chain.transfers.length]).toEqual([200, true, 1])
  })

  test('stays done: what its vendor says afterwards changes nothing, to a poll that comes late either (contract 2.1)', async () => {
    const { alice, payment, pollUrl, id, studio, ports, clock, restart, gateway } = await shoot()
    const before = (await ports.storage.getCall(id))!
    studio.status = () => DONE
    await gateway.maintain()
    await clock.advance(15_000)
    const stale = { ...ports, storage: { ...ports.storage, getCall: late(ports.storage.getCall, before) } }
    for (const summary of [
      () => ({ kind: 'running' }) as const,
      () => DONE,
      () => ({ kind: 'failed', error: 'lost' }) as const,
      () => Promise.reject(new Error('404')),
    ]) {
      studio.status = summary
      const { status, body } = await alice.poll(pollUrl, payment, { gateway: restart({ ports: stale }) })
      expect([status, body.status]).toEqual([200, 'completed'])
      await clock.advance(15_000)
      await gateway.maintain()
    }
    expect([studio.polled.length, studio.fetched]).toEqual([1, 1])
  })

  test('while another answer was under way is completed by one of them', async () => {
    const { alice, payment, pollUrl, id, studio, ports, clock } = await shoot()
    const end = door()
    studio.status = async () => (await end.passed, DONE)
    const slow = alice.poll(pollUrl, payment)
    await clock.settle()
    const other = { made: { other: true }, media: [], created: 1 }
    await ports.storage.moveCall(
      id,
      { workStatus: ['in_progress'] },
      { workStatus: 'completed', result: other, endedAt: clock.now() },
    )
    end.open()
    const { status, body } = await slow
    expect([status, body.created, body.data]).toEqual([200, 1, []])
  })

  test('and whose settlement is refused is 402 with a fresh challenge, and collected later', async () => {
    const { alice, payment, pollUrl, id, studio, chain } = await shoot()
    studio.status = () => DONE
    chain.simulate('refused')
    const refused = await alice.poll(pollUrl, payment)
    expect([refused.status, refused.body.error, refused.body.job_id, chain.transfers]).toEqual([
      402,
      'Payment settlement failed',
      id,
      [],
    ])
    expect([decodeHeader(refused.headers.get('payment-response')).success, refused.body.accepts[0].amount]).toEqual([
      false,
      '400000',
    ])
    expect([
      (await alice.poll(pollUrl, alice.sign(refused))).body.payment.status,
      chain.transfers.length,
      studio.fetched,
    ]).toEqual(['settled', 1, 1])
  })

  test('is collected with a fresh signature of the same wallet when the first has expired', async () => {
    const { alice, payment, pollUrl, studio, clock, chain } = await shoot()
    studio.status = () => DONE
    await clock.advance(600_000)
    const late = await alice.poll(pollUrl, payment)
    expect([late.status, late.body.error, chain.transfers]).toEqual([402, 'Payment settlement failed', []])
    expect((await alice.poll(pollUrl, alice.sign(late))).body.payment.status).toBe('settled')
  })
})

/** Answers with what was there before, to the first who asks after each film. */
function late<Found>(now: (id: string) => Promise<Found>, before: Found): (id: string) => Promise<Found> {
  let order = 0
  return (id) => (order++ % 2 === 0 ? Promise.resolve(before) : now(id))
}
