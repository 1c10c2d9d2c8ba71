/** Calls to people: whom nobody may call, from which number, that nobody is rung twice, and how a call is told. */
import { describe, expect, test } from 'bun:test'
import { ApiError, type Fields, type Ports, type VoiceVendor } from '../../../../core/mod.ts'
import { type Actors, actors, LINE, rentTo } from '../../../actors.ts'
import { type Answer, type Buyer, kit, type Kit, type KitOptions, ORIGIN, read, START } from '../../../kit.ts'

const CALL = '/api/v1/voice/call'
const ORDER = { to: '+14155550123', task: 'Ask whether a table for two is free.' }
const MINUTE = 60_000

type Booth = Kit & { readonly acts: Actors; readonly alice: Buyer; get(path: string): Promise<Answer> }

/** Alice rents `LINE`, unless told. */
async function booth(
  change: (voice: VoiceVendor, acts: Actors) => Partial<VoiceVendor> = () => ({}),
  { rents = true, ...options }: KitOptions & { rents?: boolean } = {},
): Promise<Booth> {
  const acts = actors()
  const subject = kit({
    ...options,
    ports: { ...options.ports, vendors: { phone: acts.phone, voice: { ...acts.voice, ...change(acts.voice, acts) } } },
  })
  const alice = subject.buyer()
  if (rents) await rentTo(subject.ports.storage, alice.wallet, START)
  const get = async (path: string) =>
    await read(
      await subject.gateway.fetch(new Request(path.startsWith('http') ? path : ORIGIN + path), { ip: '192.0.2.1' }),
    )
  return { ...subject, acts, alice, get }
}

const call = (who: Buyer, more: Record<string, unknown> = {}, at: Parameters<Buyer['buy']>[1] = {}) =>
  who.buy({ ...ORDER, ...more }, { path: CALL, ...at })

describe('a call', () => {
  test('is paid for when it is accepted for dialing, and is followed for free (contract 17.7, 17.8, 17.9, 17.14)', async () => {
    const { alice, acts, chain, get } = await booth()
    const { status, body } = await call(alice)
    expect([status, body.status, chain.transfers.map(({ value }) => value)]).toEqual([200, 'queued', [541_000n]])
    expect(body).toEqual({
      call_id: expect.any(String),
      status: 'queued',
      poll_url: `${ORIGIN}/api/v1/voice/call/${body.call_id}`,
      message: expect.any(String),
    })
    expect(acts.rung).toEqual([
      { to: ORDER.to, from: LINE, task: ORDER.task, voice: 'nat', language: 'en-US', maxMinutes: 5, model: 'base' },
    ])
    const polled = await get(body.poll_url)
    expect([polled.status, polled.body.call_id, polled.body.status, polled.body.ended_by]).toEqual([
      200,
      body.call_id,
      'queued',
      'IN_PROGRESS',
    ])
  })

  test('hands every word of its order on (contract 17.8)', async () => {
    const { alice, acts } = await booth()
    await call(alice, {
      from: LINE,
      voice: 'june',
      language: 'de-DE',
      max_duration: 30,
      first_sentence: 'Hallo!',
      wait_for_greeting: true,
      interruption_threshold: 500,
      model: 'turbo',
      voicemail_action: 'leave_message',
      voicemail_message: 'Please call back.',
    })
    expect(acts.rung).toEqual([
      {
        to: ORDER.to,
        from: LINE,
        task: ORDER.task,
        voice: 'june',
        language: 'de-DE',
        maxMinutes: 30,
        model: 'turbo',
        firstSentence: 'Hallo!',
        waitForGreeting: true,
        interruptionMs: 500,
        voicemail: { action: 'leave_message', message: 'Please call back.' },
      },
    ])
  })

  test.each([
    { task: 'x'.repeat(10) },
    { task: 'x'.repeat(4_000) },
    { max_duration: 1 },
    { max_duration: 30 },
    { interruption_threshold: 50 },
    { interruption_threshold: 500 },
    { first_sentence: 'x'.repeat(500) },
    { model: 'enhanced' },
    { voicemail_action: 'leave_message', voicemail_message: 'x'.repeat(1_000) },
  ])('at a bound is quoted: %j (contract 17.7, 17.8)', async (more) => {
    const { alice } = await booth()
    expect((await alice.ask({ ...ORDER, ...more }, { path: CALL })).status).toBe(402)
  })

  test.each([
    [{ to: '4155550123' }, 'to'],
    [{ to: '+19005550123' }, 'to'],
    [{ to: '+881600000000' }, 'to'],
    [{ task: 'too short' }, 'task'],
    [{ task: ' '.repeat(20) }, 'task'],
    [{ task: 'x'.repeat(4_001) }, 'task'],
    [{ from: 'me' }, 'from'],
    [{ max_duration: 31 }, 'max_duration'],
    [{ max_duration: 0 }, 'max_duration'],
    [{ interruption_threshold: 49 }, 'interruption_threshold'],
    [{ interruption_threshold: 501 }, 'interruption_threshold'],
    [{ first_sentence: 'x'.repeat(501) }, 'first_sentence'],
    [{ model: 'best' }, 'model'],
    [{ voicemail_action: 'shout' }, 'voicemail_action'],
    [{ voicemail_action: 'leave_message' }, 'voicemail_message'],
    [{ voicemail_action: 'leave_message', voicemail_message: ' ' }, 'voicemail_message'],
    [{ voicemail_action: 'hangup', voicemail_message: 'Hello.' }, 'voicemail_message'],
    [{ voicemail_message: 'Hello.' }, 'voicemail_message'],
    [{ voicemail_action: 'leave_message', voicemail_message: 'x'.repeat(1_001) }, 'voicemail_message'],
    [{ webhook: 'https://x.example' }, 'webhook'],
    [{ phone_number: ORDER.to }, 'phone_number'],
  ] as readonly (readonly [Record<string, unknown>, string])[])(
    'with %j is 400 before the quote (contract 17.7, 17.8)',
    async (more, field) => {
      const { alice, acts } = await booth()
      const { status, body, headers } = await alice.ask({ ...ORDER, ...more }, { path: CALL })
      expect([headers.has('payment-required'), acts.rung]).toEqual([false, []])
      expect([status, body.details.map((each: any) => each.path).includes(field)]).toEqual([400, true])
    },
  )

  test.each([
    '+1911',
    '911',
    '+44999',
    '+112',
    '112',
    '+49112',
    '+1 (911)',
    '+61000',
    '+27 10111',
    '+4418000',
    '0011911',
    '+1988',
    '+19115550100',
    '+44116123',
  ])('to %s is 403 before the quote, with a payment as without (contract 17.10)', async (to) => {
    const { alice, acts, chain } = await booth()
    const payment = alice.sign(await alice.ask(ORDER, { path: CALL }))
    for (const answer of [await alice.ask({ ...ORDER, to }, { path: CALL }), await call(alice, { to }, { payment })]) {
      expect([answer.status, answer.body.error, answer.body.reason, answer.headers.has('payment-required')]).toEqual([
        403,
        'Forbidden',
        'emergency_number',
        false,
      ])
    }
    expect([acts.rung, chain.transfers]).toEqual([[], []])
  })
})

describe('the number that is called from', () => {
  const refusal = ({ status, body }: Answer) => [status, body.error, body.reason, body.your_active_numbers]

  test('has to be rented: without one, 403 says where (contract 17.11)', async () => {
    const { alice, chain } = await booth(undefined, { rents: false })
    const { status, body } = await call(alice)
    expect([status, body.error, body.buy_endpoint, chain.transfers]).toEqual([
      403,
      'no_active_number',
      '/api/v1/phone/numbers/buy',
      [],
    ])
  })

  test('is the wallet’s only one, or named: 400 says which there are (contract 17.11)', async () => {
    const { alice, acts, ports } = await booth()
    const second = '+14155550101'
    await rentTo(ports.storage, alice.wallet, START, second)
    expect(refusal(await call(alice))).toEqual([400, 'ambiguous_from', undefined, [LINE, second]])
    expect([(await call(alice, { from: second })).status, acts.rung.map(({ from }) => from)]).toEqual([200, [second]])
  })

  test('is never another wallet’s, one that has expired, or nobody’s (contract 17.11)', async () => {
    const { alice, buyer, acts, ports, clock, chain } = await booth()
    const bobs = '+14155550101'
    await rentTo(ports.storage, buyer('bob').wallet, START, bobs)
    expect(refusal(await call(alice, { from: bobs }))).toEqual([403, 'Forbidden', 'wrong_wallet', [LINE]])
    expect(refusal(await call(alice, { from: '+14155559999' }))).toEqual([403, 'Forbidden', 'not_found', [LINE]])
    await clock.advance(30 * 24 * 60 * MINUTE)
    expect(refusal(await call(alice, { from: LINE }))).toEqual([403, 'Forbidden', 'expired', []])
    expect((await call(alice)).body.error).toBe('no_active_number')
    expect([acts.rung, chain.transfers]).toEqual([[], []])
  })
})

const never = () => new Promise<never>(() => {})

describe('nobody is called twice', () => {
  test('by a wallet that calls the same number at the same moment', async () => {
    const { alice, acts, chain } = await booth()
    const answers = await Promise.all(Array.from({ length: 5 }, () => call(alice)))
    expect([answers.filter(({ status }) => status === 200).length, acts.rung.length]).toEqual([
      chain.transfers.length,
      chain.transfers.length,
    ])
    const { acts: slow, alice: bob, clock } = await booth(() => ({ ring: never }))
    void call(bob)
    await clock.settle()
    const { status, headers } = await call(bob)
    expect([status, headers.get('retry-after'), slow.rung]).toEqual([503, '600', []])
  })

  test('by the same signed request, after a crash between the dialing and the settlement (contract 17.12)', async () => {
    let isDead = true
    const wrap = (ports: Ports): Ports => ({
      ...ports,
      storage: {
        ...ports.storage,
        claimSettlement: (...args) => (isDead ? never() : ports.storage.claimSettlement(...args)),
      },
    })
    const { alice, acts, restart, clock, chain, ports } = await booth(undefined, { wrap, rents: false })
    await rentTo(ports.storage, alice.wallet, START)
    const payment = alice.sign(await alice.ask(ORDER, { path: CALL }))
    void call(alice, {}, { payment })
    await clock.settle()
    isDead = false
    const gateway = restart()
    await gateway.takeOver()
    const { status } = await call(alice, {}, { payment, gateway })
    expect([status, acts.rung.length, chain.transfers.length]).toEqual([200, 1, 1])
  })

  test('within ten minutes if the outcome of the first call is unknown, whatever is signed (contract 17.13)', async () => {
    const { alice, acts, clock } = await booth((voice, { rung }) => ({
      ring: (...args) =>
        rung.length === 0
          ? (voice.ring(...args), Promise.reject(new ApiError('UPSTREAM_FAILED')))
          : voice.ring(...args),
    }))
    const lost = await call(alice)
    expect([lost.status, lost.body.error]).toEqual([502, 'Call initiation failed'])
    expect([
      (await call(alice)).status,
      (await call(alice, { task: 'Something else entirely.' })).status,
      acts.rung.length,
    ]).toEqual([503, 503, 1])
    expect((await call(alice, { to: '+14155550124' })).status).toBe(200)
    await clock.advance(10 * MINUTE)
    expect([(await call(alice)).status, acts.rung.length]).toEqual([200, 3])
  })

  test('for one order, however late it is resent and whatever was called meanwhile (contract 17.12)', async () => {
    let weather: 'lost' | 'fair' = 'lost'
    const { alice, acts, chain, clock } = await booth((voice) => ({
      ring: async (...args) =>
        weather === 'lost'
          ? (await voice.ring(...args), Promise.reject(new ApiError('UPSTREAM_FAILED')))
          : voice.ring(...args),
    }))
    const payment = alice.sign(await alice.ask(ORDER, { path: CALL }), { validBefore: BigInt(START / 1000 + 7_200) })
    await call(alice, {}, { payment })
    weather = 'fair'
    await clock.advance(11 * MINUTE)
    expect((await call(alice)).status).toBe(200)
    for (const to of [ORDER.to, '+14155550124']) {
      const { status, body } = await call(alice, { to }, { payment })
      expect([status, body.code]).toEqual([409, 'PAYMENT_REPLAY'])
    }
    expect([acts.rung.length, chain.transfers.length]).toEqual([2, 1])
  })

  test('one that was certainly not rung can be rung at once', async () => {
    let isRefused = true
    const { alice, chain } = await booth((voice) => ({
      ring: (...args) =>
        isRefused ? Promise.reject(new ApiError('PASSED_ON', { message: 'No such voice.' })) : voice.ring(...args),
    }))
    expect([(await call(alice)).status, chain.transfers]).toEqual([400, []])
    isRefused = false
    expect((await call(alice)).status).toBe(200)
  })

  test('unpaid: a wallet whose payment was refused places no call before it has paid', async () => {
    const { alice, acts, chain } = await booth()
    chain.simulate('refused')
    const withheld = await call(alice)
    const second = await call(alice, { to: '+14155550124' })
    expect([withheld.status, second.status, second.body.code, acts.rung.length]).toEqual([
      402,
      402,
      'PAYMENT_UNFUNDED',
      1,
    ])
  })
})

describe('GET /api/v1/voice/call/{callId}', () => {
  const ended: Fields = {
    completed: true,
    status: 'completed',
    answered_by: 'human',
    call_length: 1.5,
    call_ended_by: 'USER',
    transcripts: [{ id: 1, user: 'assistant', text: 'Hello' }],
    concatenated_transcript: 'assistant: Hello',
    price: 0.135,
    variables: { secret: 1 },
    created_at: '2026-11-20T00:00:00Z',
    end_at: '2026-11-20T00:01:30Z',
  }

  test('has what was said under both names, and nothing of what it cost the operator (contract 17.15)', async () => {
    const { alice, get } = await booth(() => ({ callStatus: async () => ended }))
    const { body } = await get((await call(alice)).body.poll_url)
    expect(body).toMatchObject({
      status: 'completed',
      to: ORDER.to,
      from: LINE,
      call_length: 1.5,
      transcript: [{ role: 'assistant', text: 'Hello' }],
      transcripts: ended.transcripts,
      concatenated_transcript: 'assistant: Hello',
      ended_by: 'USER',
      started_at: '2026-11-20T00:00:00Z',
      ended_at: '2026-11-20T00:01:30Z',
    })
    expect(['price', 'variables'].filter((name) => name in body)).toEqual([])
  })

  const ends: readonly (readonly [Fields, string, string])[] = [
    [{}, 'queued', 'IN_PROGRESS'],
    [{ queue_status: 'queued' }, 'queued', 'IN_PROGRESS'],
    [{ status: 'started' }, 'started', 'IN_PROGRESS'],
    [{ status: 'ringing' }, 'ringing', 'IN_PROGRESS'],
    [{ status: 'in-progress' }, 'in-progress', 'IN_PROGRESS'],
    [{ completed: true, call_ended_by: 'ASSISTANT', call_length: 1 }, 'completed', 'ASSISTANT'],
    [{ completed: true, answered_by: 'voicemail', call_length: 1 }, 'completed', 'VOICEMAIL'],
    [{ completed: true, status: 'busy' }, 'completed', 'BUSY'],
    [{ completed: true, answered_by: 'no-answer' }, 'completed', 'NO_ANSWER'],
    [{ completed: true, call_length: 5, call_ended_by: 'ASSISTANT' }, 'completed', 'TIMEOUT'],
    [{ completed: true, error_message: 'Invalid number' }, 'error', 'ERROR'],
    [{ queue_status: 'pre_queue_error' }, 'error', 'ERROR'],
    [{ transcripts: [null, 7, 'hello'], queue_status: {} }, 'queued', 'IN_PROGRESS'],
  ]
  test.each(ends)('reads %j as %s, ended by %s (contract 17.14)', async (record, status, endedBy) => {
    const { alice, get } = await booth(() => ({ callStatus: async () => record }))
    const { body } = await get((await call(alice)).body.poll_url)
    expect([body.status, body.ended_by]).toEqual([status, endedBy])
  })

  test('is 404 for a call that was not made here, by the vendor’s own id too (contract 17.14)', async () => {
    const { alice, get, acts } = await booth()
    await call(alice)
    for (const id of ['call_00000000000000000000000000000000', 'vendor-call-1', 'x', 'CALL_1']) {
      const { status, body } = await get(`${CALL}/${id}`)
      expect([id, status, body.error]).toEqual([id, 404, 'Call not found'])
    }
    expect(acts.rung.length).toBe(1)
  })

  test('with a literal placeholder as its id is a 402 that asks for nothing', async () => {
    const { get } = await booth()
    for (const id of ['{call_id}', '%7Bcall_id%7D', '{callId}']) {
      const { status, body } = await get(`${CALL}/${id}`)
      expect([status, body.x402Version, body.price.free]).toEqual([402, 2, true])
    }
  })

  test('is answered 120 times a minute (contract 17.14)', async () => {
    const { alice, get } = await booth()
    const { poll_url } = (await call(alice)).body
    for (let times = 0; times < 120; times++) expect((await get(poll_url)).status).toBe(200)
    expect((await get(poll_url)).status).toBe(429)
  })

  test('is 502 while the vendor is away', async () => {
    const { alice, get } = await booth(() => ({ callStatus: () => Promise.reject(new ApiError('UPSTREAM_FAILED')) }))
    expect((await get((await call(alice)).body.poll_url)).status).toBe(502)
  })
})
