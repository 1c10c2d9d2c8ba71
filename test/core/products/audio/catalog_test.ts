/**
 * Speech, sound effects and music: prices, what is refused before the quote, what is delivered, and what is never
 * charged.
 */
import { describe, expect, test } from 'bun:test'
import { scriptedAudio, TONE } from '../../../fakes/audio.ts'
import {
  type AudioRow,
  catalog,
  ApiError,
  type MadeAudio,
  NoMedia,
  overrideAudio,
  audioRows,
  rateLimited,
} from '../../../../core/mod.ts'
import { type Answer, door, kit, type KitOptions, ORIGIN, read } from '../../../kit.ts'
import vectors from '../../../vectors/audio_prices.json'

const SPEECH = { path: '/api/v1/audio/speech' } as const
const SOUNDS = { path: '/api/v1/audio/sound-effects' } as const
const MUSIC = { path: '/api/v1/audio/generations' } as const
const HELLO = { input: 'Hello there.' }
const RAIN = { text: 'rain' }
const CALM = { prompt: 'calm piano', instrumental: true }

const fixture = (options: KitOptions = {}) => kit({ audio: scriptedAudio(), ...options })
const making = (made: Partial<MadeAudio>) => fixture({ audio: scriptedAudio(async () => ({ url: TONE, ...made })) })
const get = async (subject: ReturnType<typeof kit>, path: string): Promise<Answer> =>
  await read(await subject.gateway.fetch(new Request(ORIGIN + path), { ip: '192.0.2.1' }))

describe('a price of audio', () => {
  test.each(vectors)(
    '$path $body is $amount (contract 14.1, 14.2, 14.3, 14.7, 14.8)',
    async ({ path, body, amount }) => {
      const { input } = body as { input?: { repeat: number } }
      const challenge = await fixture()
        .buyer()
        .ask({ ...body, ...(input && { input: 'x'.repeat(input.repeat) }) }, { path })
      expect([challenge.status, challenge.body.price.amount, challenge.body.accepts[0].amount]).toEqual([
        402,
        amount,
        amount.replace('.', '').replace(/^0+/, ''),
      ])
    },
  )

  test('of speech states its unit: characters as people count them, or seconds (contract 14.2, 14.3, 14.6, 14.14)', async () => {
    const alice = fixture().buyer()
    const info = async (body: object) => (await alice.ask(body, SPEECH)).body.generation_info
    expect(await info({ input: '🦊'.repeat(7) })).toMatchObject({ characters: 7, model: 'elevenlabs/flash-v2.5' })
    expect(await info({ model: 'bytedance/seed-audio-1.0', input: 'x'.repeat(31) })).toMatchObject({
      estimated_seconds: 3,
    })
    expect(await info({ model: 'bytedance/seed-audio-1.0', input: '雪'.repeat(10) })).toMatchObject({
      estimated_seconds: 2,
    })
  })
})

describe('bad input is 400 before the quote, naming the field and what is allowed', () => {
  const rows: readonly [{ path: string }, object, string][] = [
    [SPEECH, { input: ' \n' }, 'input: must not be blank'],
    [SPEECH, { input: '\u200b\u3164\u2800' }, 'input: must contain a letter, a digit or a symbol'],
    [SPEECH, { input: '...!? \u0301' }, 'input: must contain a letter, a digit or a symbol'],
    [SPEECH, { input: 'a\ud83e' }, 'input: must be valid Unicode, but has an unpaired surrogate'],
    [SOUNDS, { text: '\u2060' }, 'text: must contain a letter'],
    [MUSIC, { prompt: 'song', lyrics: '\u200d' }, 'lyrics: must contain a letter'],
    [
      SPEECH,
      { model: 'elevenlabs/v3', input: 'x'.repeat(5_001) },
      'input: may have at most 5000 characters with elevenlabs/v3, got 5001',
    ],
    [
      SPEECH,
      { ...HELLO, voice: 'nobody' },
      'voice: must be one of sarah, george, or a voice_id of /api/v1/audio/voices, got "nobody"',
    ],
    [SPEECH, { ...HELLO, voice: '__proto__' }, 'voice: must be one of'],
    [SPEECH, { ...HELLO, response_format: 'flac' }, 'response_format: must be one of wav, mp3, pcm here, got "flac"'],
    [SPEECH, { ...HELLO, speed: 3 }, 'speed: Expected number to be less or equal to 1.2; got 3'],
    [SPEECH, { ...HELLO, model: 'nobody' }, 'Available models: elevenlabs/flash-v2.5, elevenlabs/turbo-v2.5'],
    [SPEECH, { ...HELLO, model: 'minimax/music-2.5+' }, 'minimax/music-2.5+ makes music, not speech.'],
    [SOUNDS, { text: 'x'.repeat(1_001) }, 'text: may have at most 1000 characters'],
    [SOUNDS, { ...RAIN, duration_seconds: 23 }, 'duration_seconds: Expected number to be less or equal to 22; got 23'],
    [
      SOUNDS,
      { ...RAIN, prompt_influence: -1 },
      'prompt_influence: Expected number to be greater or equal to 0; got -1',
    ],
    [SOUNDS, { ...RAIN, response_format: 'opus' }, 'response_format: must be one of wav, mp3 here, got "opus"'],
    [MUSIC, { prompt: 'x'.repeat(2_001) }, 'prompt: may have at most 2000 characters'],
    [MUSIC, { ...CALM, lyrics: 'la la' }, 'lyrics: cannot be combined with instrumental: true, got "la la"'],
    [MUSIC, { prompt: 'song', lyrics: 'x'.repeat(3_501) }, 'lyrics: may have at most 3500 characters'],
    [MUSIC, { ...CALM, duration_seconds: 4 }, 'duration_seconds: Expected number to be greater or equal to 5; got 4'],
  ]
  test.each(rows)('%p %p', async (at, body, words) => {
    const subject = fixture()
    const { status, headers, body: mistakes } = await subject.buyer().ask(body, at)
    expect([status, headers.has('payment-required'), mistakes.message.includes(words)]).toEqual([400, false, true])
  })

  test('a text, a length and a number may be at their bounds, and not beyond (contract 14.2, 14.4, 14.7, 14.8)', async () => {
    const alice = fixture().buyer()
    const bounds: readonly (readonly [{ path: string }, object, ...(readonly object[])])[] = [
      ...Object.entries({
        'elevenlabs/flash-v2.5': 40_000,
        'elevenlabs/turbo-v2.5': 40_000,
        'elevenlabs/multilingual-v2': 10_000,
        'elevenlabs/v3': 5_000,
        'bytedance/seed-audio-1.0': 3_000,
      }).map(
        ([model, most]) =>
          [SPEECH, { model, input: 'x'.repeat(most) }, { model, input: 'x'.repeat(most + 1) }] as const,
      ),
      [SPEECH, { input: 'x'.repeat(40_000) }, { input: 'x'.repeat(40_001) }, { voice: 'sarah' }],
      [SPEECH, { ...HELLO, speed: 0.7 }, { ...HELLO, speed: 0.69 }],
      [SPEECH, { ...HELLO, speed: 1.2 }, { ...HELLO, speed: 1.21 }],
      [SOUNDS, { text: 'x' }, { text: '' }, {}],
      [SOUNDS, { text: 'x'.repeat(1_000) }, { text: 'x'.repeat(1_001) }],
      [SOUNDS, { ...RAIN, duration_seconds: 0.5 }, { ...RAIN, duration_seconds: 0.4 }],
      [SOUNDS, { ...RAIN, duration_seconds: 22 }, { ...RAIN, duration_seconds: 22.1 }],
      [SOUNDS, { ...RAIN, prompt_influence: 0 }, { ...RAIN, prompt_influence: -0.1 }],
      [SOUNDS, { ...RAIN, prompt_influence: 1 }, { ...RAIN, prompt_influence: 1.1 }],
      [SOUNDS, { ...RAIN, response_format: 'mp3' }, { ...RAIN, response_format: 'flac' }],
      [MUSIC, { ...CALM, duration_seconds: 5 }, { ...CALM, duration_seconds: 4 }],
      [MUSIC, { ...CALM, duration_seconds: 240 }, { ...CALM, duration_seconds: 241 }],
      [MUSIC, { prompt: 'song', lyrics: 'la la', instrumental: false }, { ...CALM, lyrics: 'la la' }, {}],
    ]
    for (const [at, taken, ...refused] of bounds) {
      expect([JSON.stringify(taken).slice(0, 80), (await alice.ask(taken, at)).status]).toEqual([
        JSON.stringify(taken).slice(0, 80),
        402,
      ])
      for (const body of refused)
        expect([JSON.stringify(body).slice(0, 80), (await alice.ask(body, at)).status]).toEqual([
          JSON.stringify(body).slice(0, 80),
          400,
        ])
    }
  })

  test('speech is made as mp3, opus, pcm or wav, by what its vendor makes (contract 14.4)', async () => {
    const audio = { ...scriptedAudio(), makes: { speech: ['mp3', 'opus', 'pcm', 'wav'] as const } }
    const alice = kit({ ports: { vendors: { audio: () => audio } } }).buyer()
    for (const [response_format, status] of [
      ['mp3', 402],
      ['opus', 402],
      ['pcm', 402],
      ['wav', 402],
      ['flac', 400],
    ] as const)
      expect([response_format, (await alice.ask({ ...HELLO, response_format }, SPEECH)).status]).toEqual([
        response_format,
        status,
      ])
  })

  test('a vendor that takes less than its row says so before the quote, and in every list (contract 14.15)', async () => {
    const short = { ...scriptedAudio(), maxCharacters: 10 }
    const { buyer, gateway } = kit({ ports: { vendors: { audio: () => short } } })
    const listed = async (path: string) => {
      const { data } = (await (await gateway.fetch(new Request(`${ORIGIN}${path}`))).json()) as { data: any[] }
      return data.filter(({ id }) => id === 'elevenlabs/flash-v2.5' || id === 'minimax/music-2.5+')
    }
    expect((await listed('/api/v1/audio/models')).map(({ max_input_chars }) => max_input_chars)).toEqual([10, 2_000])
    expect((await listed('/api/v1/models')).map(({ pricing }) => pricing.max_input_chars)).toEqual([10, undefined])
    const document = await (await gateway.fetch(new Request(`${ORIGIN}/openapi.json`))).text()
    expect(document).not.toContain('40,000')
    const { status, body } = await buyer().ask(HELLO, SPEECH)
    expect([status, body.message]).toEqual([
      400,
      'input: may have at most 10 characters with elevenlabs/flash-v2.5, got 12.',
    ])
  })
})

describe('speech', () => {
  test('is answered with a hosted URL and what was made, not with bytes (contract 14.5)', async () => {
    const subject = making({ seconds: 1.5, credits: 12, note: 'spoken by a test' })
    const { status, headers, body } = await subject.buyer().buy(HELLO, SPEECH)
    const [{ url }] = body.data
    expect([status, headers.get('x-payment-status'), body]).toEqual([
      200,
      'settled',
      {
        created: expect.any(Number),
        model: 'elevenlabs/flash-v2.5',
        data: [{ url, format: 'wav', characters: 12, credits: 12, duration_seconds: 1.5, note: 'spoken by a test' }],
      },
    ])
    expect(url).toMatch(/^http:\/\/farebox\.test\/api\/media\/audios\/2026-11-20\/[\w-]+-0\.wav$/)
    const file = await subject.gateway.fetch(new Request(url))
    expect([
      file.headers.get('content-type'),
      `data:audio/wav;base64,${Buffer.from(await file.arrayBuffer()).toString('base64')}`,
    ]).toEqual(['audio/wav', TONE])
  })

  test('reaches its vendor as it was ordered: upstream model, voice by alias in any case or by id, the usual one, format and speed (contract 14.4)', async () => {
    const audio = scriptedAudio()
    const alice = fixture({ audio }).buyer()
    for (const more of [
      {},
      { voice: 'GEORGE', model: 'elevenlabs/v3', speed: 0.7 },
      { voice: 'voice-9', response_format: 'MP3' },
    ])
      await alice.buy({ ...HELLO, ...more }, SPEECH)
    expect(audio.jobs).toEqual([
      { model: 'eleven_flash_v2_5', text: HELLO.input, voice: 'voice-1', format: 'wav', speed: 1 },
      { model: 'eleven_v3', text: HELLO.input, voice: 'voice-2', format: 'wav', speed: 0.7 },
      { model: 'eleven_flash_v2_5', text: HELLO.input, voice: 'voice-9', format: 'mp3', speed: 1 },
    ])
  })

  test('that cannot be stored fails, and nothing is charged; the same signed request buys later (contract 14.10)', async () => {
    let isFull = true
    const subject = fixture({
      wrap: (ports) => ({
        ...ports,
        objects: {
          ...ports.objects,
          put: (...args) => (isFull ? Promise.reject(new Error('disk full')) : ports.objects.put(...args)),
        },
      }),
    })
    for (const [order, at] of [
      [HELLO, SPEECH],
      [RAIN, SOUNDS],
    ] as const) {
      isFull = true
      const alice = subject.buyer()
      const payment = alice.sign(await alice.ask(order, at))
      const { status, body } = await alice.buy(order, { ...at, payment })
      expect([status, body.error, JSON.stringify(body).includes('disk')]).toEqual([
        500,
        'Audio could not be stored',
        false,
      ])
      expect(subject.chain.transfers).toHaveLength(at === SPEECH ? 0 : 1)
      isFull = false
      expect((await alice.buy(order, { ...at, payment })).headers.get('x-payment-status')).toBe('settled')
    }
  })

  test.each([
    ['breaks off', new Error('socket hang up'), 502, 'Upstream provider error'],
    ['is late', Object.assign(new Error('late'), { name: 'TimeoutError' }), 504, 'The model timed out'],
    ['says that it is late', new ApiError('UPSTREAM_TIMEOUT'), 504, 'The model timed out'],
    ['refuses the words', new ApiError('CONTENT_POLICY'), 400, 'Content policy violation'],
    ['is at its limit', rateLimited('elevenlabs', 9), 429, 'Rate limit exceeded'],
  ])('whose vendor %s is not charged (contract 14.13)', async (_, error, expected, label) => {
    const subject = fixture({ audio: scriptedAudio(() => Promise.reject(error)) })
    const { status, headers, body } = await subject.buyer().buy(HELLO, SPEECH)
    expect([status, body.error, JSON.stringify(body).includes('socket'), subject.chain.transfers]).toEqual([
      expected,
      label,
      false,
      [],
    ])
    expect(headers.get('retry-after')).toBe(status === 429 ? '9' : null)
  })
})

describe('music', () => {
  test('is answered within its window of 60 seconds, and as a job after it (contract 14.9)', async () => {
    const ready = door()
    const audio = scriptedAudio(async () => (await ready.passed, { url: TONE, seconds: 92 }))
    const subject = fixture({ audio })
    const alice = subject.buyer()
    const challenge = await alice.ask(CALM, MUSIC)
    expect(challenge.body).toMatchObject({ price: { pricePerTrack: 0.15 }, accepts: [{ maxTimeoutSeconds: 600 }] })
    const payment = alice.sign(challenge)
    const buying = alice.buy(CALM, { ...MUSIC, payment })
    await subject.streamed(59_999)
    expect(await Promise.race([buying, 'waiting'])).toBe('waiting')
    await subject.clock.advance(1)
    const { status, body } = await buying
    expect([status, body.object, body.payment_status, body.poll_url]).toEqual([
      202,
      'audio.generation.job',
      'verified',
      (await subject.keyed(body.id)).replace('/api/v1/calls', '/api/v1/audio/generations'),
    ])
    expect((await alice.poll(body.poll_url, payment)).status).toBe(202)
    ready.open()
    await subject.idle()
    const polled = await alice.poll(body.poll_url, payment)
    expect(polled.body).toMatchObject({
      id: body.id,
      object: 'audio.generation.job',
      status: 'completed',
      model: 'minimax/music-2.5+',
      data: [{ duration_seconds: 92, backed_up: true }],
      payment: { status: 'settled' },
    })
    expect((await alice.poll(body.poll_url, payment)).body.payment.status).toBe('already_settled')
    expect((await alice.poll(body.poll_url)).status).toBe(402)
  })

  test('shows what is sung: what the maker says, else what was sent, and nothing of an instrumental', async () => {
    const lyricsOf = async (made: Partial<MadeAudio>, order: object) =>
      (await making(made).buyer().buy(order, MUSIC)).body.data[0].lyrics
    expect(await lyricsOf({ lyrics: 'oh' }, { prompt: 'song' })).toBe('oh')
    expect(await lyricsOf({}, { prompt: 'song', lyrics: 'la la' })).toBe('la la')
    expect(await lyricsOf({ lyrics: 'oh' }, CALM)).toBeUndefined()
  })

  test('that cannot be stored is sold by the URL of its maker (contract 14.10)', async () => {
    const track = 'https://tracks.example/1.mp3'
    const media = async () => ({ bytes: Buffer.from(TONE.split(',')[1] ?? '', 'base64'), type: 'audio/wav' })
    const subject = fixture({
      audio: scriptedAudio(async () => ({ url: track })),
      ports: { vendors: { media } },
      wrap: (ports) => ({
        ...ports,
        objects: { ...ports.objects, put: () => Promise.reject(new Error('disk full')) },
      }),
    })
    const { status, body } = await subject.buyer().buy(CALM, MUSIC)
    expect([status, body.data[0].url, body.data[0].backed_up, subject.chain.transfers.length]).toEqual([
      200,
      track,
      false,
      1,
    ])
  })

  test('whose URL leads to a page or to nothing is not charged', async () => {
    for (const problem of [undefined, new NoMedia('the media host answered 404')]) {
      const media = async () =>
        problem ? Promise.reject(problem) : { bytes: new TextEncoder().encode('<html>'), type: 'text/html' }
      const subject = fixture({
        audio: scriptedAudio(async () => ({ url: 'https://tracks.example/1.mp3' })),
        ports: { vendors: { media } },
      })
      expect([(await subject.buyer().buy(CALM, MUSIC)).status, subject.chain.transfers]).toEqual([500, []])
    }
  })

  test('is sung unless told, and remapped from its older id (contract 14.8)', async () => {
    const audio = scriptedAudio()
    await fixture({ audio }).buyer().buy({ model: 'minimax/music-2.5', prompt: 'song', duration_seconds: 30 }, MUSIC)
    expect(audio.jobs).toEqual([{ model: 'music-2.5+', prompt: 'song', instrumental: false, seconds: 30 }])
  })
})

describe('GET /api/v1/audio/models', () => {
  test('answers one address a hundred times an hour (contract 14.11)', async () => {
    const subject = fixture()
    for (let count = 0; count < 100; count++) expect((await get(subject, '/api/v1/audio/models')).status).toBe(200)
    expect((await get(subject, '/api/v1/audio/models')).status).toBe(429)
    await subject.clock.advance(3_600_000)
    expect((await get(subject, '/api/v1/audio/models')).status).toBe(200)
  })

  test('lists what is made here, with catalog rates (contract 14.11)', async () => {
    const { status, body } = await get(fixture(), '/api/v1/audio/models')
    expect([status, body.data.map(({ id }: { id: string }) => id)]).toEqual([200, audioRows.map(({ id }) => id)])
    expect(body.data.at(-1)).toEqual({
      id: 'minimax/music-2.5+',
      object: 'model',
      name: 'Music 2.5+',
      owned_by: 'minimax',
      kind: 'music',
      billing_mode: 'per_track',
      pricing: { per_track: 0.15, transaction_fee: 0.001 },
      max_input_chars: 2_000,
      response_formats: ['wav'],
      supports_lyrics: true,
      supports_instrumental: true,
    })
    const speaking = { ...scriptedAudio(), makes: { speech: ['mp3'] as const } }
    const only = await get(
      kit({ ports: { vendors: { audio: ({ id }: AudioRow) => (id === 'elevenlabs/v3' ? speaking : undefined) } } }),
      '/api/v1/audio/models',
    )
    expect(only.body.data.map(({ id }: { id: string }) => id)).toEqual(['elevenlabs/v3'])
  })
})

describe('GET /api/v1/audio/voices', () => {
  const PATH = '/api/v1/audio/voices'

  test('lists voices with their aliases, and asks their vendor once in five minutes (contract 14.12)', async () => {
    let requestCount = 0
    const audio = scriptedAudio()
    const counted = { ...audio, voices: (at: { signal: AbortSignal }) => (requestCount++, audio.voices(at)) }
    const subject = kit({ ports: { vendors: { audio: () => counted } } })
    const answers = await Promise.all([1, 2, 3].map(() => get(subject, PATH)))
    expect(answers.map(({ body }) => body.data)).toEqual(
      Array(3).fill([
        {
          voice_id: 'voice-1',
          name: 'Sarah',
          category: 'premade',
          labels: { gender: 'female' },
          preview_url: null,
          alias: 'sarah',
        },
        {
          voice_id: 'voice-3',
          name: 'Nobody',
          category: 'cloned',
          labels: {},
          preview_url: 'https://voices.example/3.mp3',
        },
      ]),
    )
    expect(requestCount).toBe(1)
    await subject.clock.advance(300_001)
    await get(subject, PATH)
    expect(requestCount).toBe(2)
  })

  test('is 502 where the vendor cannot be asked, and asks again the next time', async () => {
    let isAway = true
    const audio = scriptedAudio()
    const flaky = {
      ...audio,
      voices: (at: { signal: AbortSignal }) =>
        isAway ? Promise.reject(new Error('secret of the vendor')) : audio.voices(at),
    }
    const subject = kit({ ports: { vendors: { audio: () => flaky } } })
    const { status, body } = await get(subject, PATH)
    expect([status, JSON.stringify(body).includes('secret')]).toEqual([502, false])
    isAway = false
    expect((await get(subject, PATH)).status).toBe(200)
  })

  test('is 503 where nobody speaks, and 429 for the 61st request of a minute (contract 14.12)', async () => {
    expect((await get(kit(), PATH)).status).toBe(503)
    const subject = fixture()
    for (let count = 0; count < 60; count++) await get(subject, PATH)
    const { status, headers } = await get(subject, PATH)
    expect([status, headers.has('retry-after')]).toEqual([429, true])
  })
})

describe('overrideAudio()', () => {
  const FLASH = 'elevenlabs/flash-v2.5'

  test('edits a row, adds one, hides one', async () => {
    const { rows, mistakes } = overrideAudio(audioRows, [
      { id: FLASH, rate: '0.07', aliases: ['flash'] },
      { id: 'local/kokoro', kind: 'speech', vendor: 'speech', upstream: 'kokoro', rate: '0.01' },
      { id: 'elevenlabs/v3', hidden: true },
    ])
    expect(mistakes).toEqual([])
    const subject = fixture({ catalog: catalog({ audio: rows }) })
    const alice = subject.buyer()
    expect((await alice.ask({ model: 'flash', input: 'x'.repeat(1000) }, SPEECH)).body.price.amount).toBe('0.074500')
    expect((await alice.ask({ model: 'local/kokoro', input: 'x'.repeat(1000) }, SPEECH)).body.price.amount).toBe(
      '0.011500',
    )
    expect((await get(subject, '/api/v1/audio/models')).body.data.map(({ id }: { id: string }) => id)).not.toContain(
      'elevenlabs/v3',
    )
    expect((await alice.ask({ ...HELLO, model: 'elevenlabs/v3' }, SPEECH)).status).toBe(402)
  })

  test('says which row and what is wrong with it', () => {
    const mistakes = (...overrides: Parameters<typeof overrideAudio>[1]) => overrideAudio(audioRows, overrides).mistakes
    expect(mistakes({ id: 'house/voice' })).toEqual([
      'audio house/voice: not in the built-in catalog, so kind, vendor, upstream and rate are required',
    ])
    expect(mistakes({ id: FLASH }, { id: FLASH })).toEqual([`audio: two entries change ${FLASH}`])
    expect(mistakes({ id: FLASH, aliases: ['elevenlabs/v3'] })).toEqual(['audio: two rows are called elevenlabs/v3'])
  })

  test('bills a row of another kind as that kind is', () => {
    const row = overrideAudio(audioRows, [{ id: 'elevenlabs/sound-effects', kind: 'music' }]).rows.find(
      ({ id }) => id === 'elevenlabs/sound-effects',
    )
    expect(row?.billing.mode).toBe('per_track')
  })
})
