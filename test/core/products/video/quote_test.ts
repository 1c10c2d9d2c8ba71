/** How a video is sold once it is paid for: what its vendor is asked, what a poll URL says, and how its end reads. */
import { memoryStorage } from '../../../../adapters/storage/memory/mod.ts'
import { CHARACTER, type Character, FOREVER } from '../../../../core/products/video/owned_characters.ts'
import { describe, expect, test } from 'bun:test'
import { usdc } from '../../../../core/x402/money.ts'
import { CLIP, CLIP_BYTES, clipOf, inTurn, scriptedVideo, type VideoScript } from '../../../fakes/videos.ts'
import { PIXEL } from '../../../fakes/images.ts'
import { video } from '../../../../core/products/video/generations.ts'
import { ApiError, NoMedia, rateLimited, type VideoJob, type Vendors } from '../../../../core/mod.ts'
import { checkVideo, type VideoRequest } from '../../../../core/products/video/request.ts'
import { videoResponse } from '../../../../core/products/video/replies.ts'
import { pollQuery, requestRecord } from '../../../../core/products/video/stored_request.ts'
import { pollUpstream, submit } from '../../../../core/products/video/vendor_jobs.ts'
import { catalog as contract } from '../../../../core/products/catalog.ts'
import { type Answer, kit, ORIGIN } from '../../../kit.ts'

const GENERATIONS = '/api/v1/videos/generations'
const PARTS = '/api/v1/videos'
const IMAGE = 'https://pictures.example/fox.png'
const CLIP_URL = 'https://clips.example/run.mp4'
const E2 = 'vendor-e/video-2.0'

function studio(script: VideoScript = {}, media: Partial<Vendors> = {}) {
  const vendor = scriptedVideo(script)
  const subject = kit({ label: 'base', endpoints: video, ports: { vendors: { video: () => vendor, ...media } } })
  return { ...subject, vendor, alice: subject.buyer() }
}

/** The vendor's order for a request that was paid for. */
async function jobOf(body: Record<string, unknown>, path = GENERATIONS): Promise<VideoJob | undefined> {
  const { alice, vendor } = studio()
  const { status } = await alice.buy({ prompt: 'a red fox', ...body }, { path })
  expect(status).toBe(202)
  return vendor.jobs[0]
}

describe('a paid order', () => {
  test('is handed to its vendor with everything filled in, and nothing that its model ignores (contract 12.31)', async () => {
    const extras = { seed: 7, generate_audio: true, watermark: true, return_last_frame: true }
    const c = { model: 'grok-imagine-video', prompt: 'a red fox', seconds: 8, resolution: '480p' }
    expect(await jobOf({})).toEqual(c)
    expect(await jobOf({ ...extras, aspect_ratio: '3:2', resolution: '720p', image_url: PIXEL })).toEqual({
      ...c,
      resolution: '720p',
      aspectRatio: '3:2',
      image: PIXEL,
    })
    expect(
      await jobOf({ ...extras, model: 'vendor-f/video-1', aspect_ratio: '3:2', resolution: '8K', image_url: IMAGE }),
    ).toEqual({ model: 'sora-2', prompt: 'a red fox', seconds: 4, resolution: '720p', image: IMAGE })
    const e = { model: 'dreamina-seedance-2-0-260128', prompt: 'a red fox', seconds: 5, resolution: '720p' }
    expect(await jobOf({ model: E2 })).toEqual({ ...e, generateAudio: true, watermark: false, returnLastFrame: false })
    expect(
      await jobOf({ ...extras, model: E2, generate_audio: false, resolution: '4K', duration_seconds: 15 }),
    ).toEqual({
      ...e,
      seconds: 15,
      resolution: '4K',
      generateAudio: false,
      seed: 7,
      watermark: true,
      returnLastFrame: true,
    })
  })

  test('has sound where it is made from text alone, else not, unless told (contract 12.30)', async () => {
    const made = async (body: Record<string, unknown>) => (await jobOf({ model: E2, ...body }))?.generateAudio
    expect(await made({})).toBe(true)
    for (const seeds of [
      { image_url: IMAGE },
      { reference_image_urls: [IMAGE] },
      { reference_videos: [{ url: CLIP_URL }] },
      { reference_audios: [{ url: CLIP_URL }] },
    ]) {
      expect([seeds, await made(seeds), await made({ ...seeds, generate_audio: true })]).toEqual([seeds, false, true])
    }
  })

  test('carries frames and references as they were sent', async () => {
    expect(await jobOf({ model: E2, image_url: IMAGE, last_frame_url: PIXEL })).toMatchObject({
      image: IMAGE,
      lastFrame: PIXEL,
    })
    const references = {
      reference_image_urls: [IMAGE, PIXEL],
      reference_videos: [{ url: CLIP_URL, role: 'reference' }],
      reference_audios: [{ url: CLIP_URL }],
    }
    expect(await jobOf({ model: E2, ...references })).toMatchObject({
      referenceImages: [IMAGE, PIXEL],
      referenceVideos: [CLIP_URL],
      referenceAudios: [CLIP_URL],
    })
  })

  test('above 720p is made at 720p where the model goes no higher and says so of nothing (contract 12.16)', async () => {
    expect(await jobOf({ model: 'vendor-e/video-2.0-mini', resolution: '4K' })).toMatchObject({
      model: 'dreamina-seedance-2-0-mini-260615',
      resolution: '720p',
    })
  })

  test('in content parts is the same job (contract 12.3, 12.4)', async () => {
    const content = [
      { type: 'text', text: 'a red fox' },
      { type: 'image_url', image_url: { url: IMAGE } },
      { type: 'text', text: 'in snow' },
    ]
    const job = await jobOf({ prompt: undefined, model: 'video-2.0', content, ratio: '21:9', duration: 6 }, PARTS)
    expect(job).toEqual({
      model: 'dreamina-seedance-2-0-260128',
      prompt: 'a red fox\nin snow',
      seconds: 6,
      resolution: '720p',
      aspectRatio: '21:9',
      image: IMAGE,
      generateAudio: false,
      watermark: false,
      returnLastFrame: false,
    })
    expect(await jobOf({ prompt: undefined, content, seed: 7, watermark: true }, PARTS)).toEqual({
      model: 'grok-imagine-video',
      prompt: 'a red fox\nin snow',
      seconds: 8,
      resolution: '480p',
      image: IMAGE,
    })
  })

  test('for a character that the wallet has not enrolled is 400 after verification, and free', async () => {
    const { alice, vendor, chain } = studio()
    const { status, body } = await alice.buy(
      { model: E2, prompt: 'she runs', real_face_asset_id: 'ta_fox' },
      { path: GENERATIONS },
    )
    expect([status, body.details[0].path, vendor.jobs, chain.transfers]).toEqual([400, 'real_face_asset_id', [], []])
  })

  test('for one that it has enrolled is handed over by the vendor’s own id (contract 12.30)', async () => {
    const vendor = scriptedVideo()
    const catalog = contract()
    const input = checkVideo({ model: E2, prompt: 'she runs', real_face_asset_id: 'ta_fox' }, { catalog })
    const storage = memoryStorage()
    const character: Character = {
      vendorAsset: 'asset-2026',
      type: 'portrait',
      group: 'vp_fox',
      name: 'Ada',
      source: IMAGE,
      mediaKey: null,
      createdAt: 0,
      call: 'job_0',
    }
    await CHARACTER.put(storage, { id: 'ta_fox', owner: '0x1', data: character, expiresAt: FOREVER }, 0)
    const records = {
      getRecord: storage.getRecord,
      getCall: async () => ({ paymentStatus: 'settled' }),
    }
    const order = {
      id: 'job',
      input,
      payer: '0x1',
      catalog,
      vendors: { video: () => vendor },
      signal: new AbortController().signal,
      records,
      now: 0,
    }
    await submit(order as unknown as Parameters<typeof submit>[0])
    expect(vendor.jobs).toMatchObject([{ asset: 'asset-2026', generateAudio: false }])
  })
})

describe('the envelope', () => {
  test('says what the contract says, and nothing that is ours (contract 12.1, 12.41, 12.51)', async () => {
    const { status, body, headers } = await studio().alice.buy(
      { prompt: 'a red fox', image_url: IMAGE },
      { path: GENERATIONS },
    )
    expect(status).toBe(202)
    expect(body).toEqual({
      id: expect.any(String),
      object: 'video.generation.job',
      status: 'queued',
      model: 'vendor-c/video-1',
      duration_seconds: 8,
      price: { amount: '0.402000', currency: 'USD' },
      payment_status: 'verified',
      created: expect.any(Number),
      poll_url: expect.stringMatching(new RegExp(`^${GENERATIONS}/[\\w-]+\\?`)),
      poll_instructions: expect.any(String),
    })
    expect(body.poll_instructions).toContain('every 5 to 10 seconds')
    expect(body.poll_instructions).toContain('up to 60 seconds')
    expect(headers.get('location')).toBe(body.poll_url)
  })

  test('of content parts polls under its own path (contract 12.3)', async () => {
    const { body } = await studio().alice.buy({ content: [{ type: 'text', text: 'a red fox' }] }, { path: PARTS })
    expect(body.poll_url).toMatch(/^\/api\/v1\/videos\/[\w-]+\?model=vendor-c/)
  })

  test('signs model, length, image-to-video flag, resolution and counts of references into the poll URL (contract 12.42)', async () => {
    const wordsOf = async (body: object) => {
      const { body: envelope } = await studio().alice.buy({ prompt: 'a red fox', ...body }, { path: GENERATIONS })
      const { exp: _, key, sig, ...words } = Object.fromEntries(new URL(envelope.poll_url, ORIGIN).searchParams)
      expect([sig, key]).toEqual([expect.stringMatching(/^[0-9a-f]{64}$/), expect.stringMatching(/^[0-9a-f]{32}$/)])
      return words
    }
    expect(await wordsOf({})).toEqual({ model: 'vendor-c/video-1', duration: '8', i2v: '0', resolution: '480p' })
    expect(await wordsOf({ image_url: IMAGE, duration_seconds: 3 })).toEqual({
      model: 'vendor-c/video-1',
      duration: '3',
      i2v: '1',
      resolution: '480p',
    })
    const references = {
      reference_videos: [{ url: CLIP_URL }, { url: CLIP_URL }],
      reference_audios: [{ url: CLIP_URL }],
    }
    expect(await wordsOf({ model: E2, ...references })).toEqual({
      model: E2,
      duration: '5',
      i2v: '0',
      resolution: '720p',
      rv: '2',
      ra: '1',
    })
    const request = requestRecord({
      model: E2,
      duration_seconds: 5,
      resolution: '720p',
      real_face_asset_id: 'ta_1',
    }).request
    expect(pollQuery(request)).toMatchObject({ i2v: '1' })
  })
})

/** The poll that finds a job done, or whatever its vendor says of it first. */
async function polled(
  body: object,
  script: VideoScript,
  path = GENERATIONS,
  vendors: Partial<Vendors> = {},
): Promise<
  Answer & {
    subject: ReturnType<typeof studio>
    payment: ReturnType<ReturnType<typeof studio>['alice']['sign']>
    url: string
  }
> {
  const subject = studio(script, vendors)
  const { alice } = subject
  const order = path === PARTS ? body : { prompt: 'a red fox', ...body }
  const payment = alice.sign(await alice.ask(order, { path }))
  const { body: envelope } = await alice.buy(order, { path, payment })
  return { ...(await alice.poll(envelope.poll_url, payment)), subject, payment, url: envelope.poll_url }
}

const done = inTurn({ kind: 'done', url: CLIP, seconds: 7.96, requestId: 'r-1' })

describe('a poll', () => {
  test('of a running job reports its progress (contract 12.44)', async () => {
    const { status, body } = await polled(
      {},
      { pollUpstream: inTurn({ kind: 'running', status: 'in_progress', progress: 40 }) },
    )
    expect([status, body]).toMatchObject([
      202,
      {
        object: 'video.generation.job',
        status: 'in_progress',
        model: 'vendor-c/video-1',
        payment_status: 'verified',
        progress: 40,
        note: expect.any(String),
      },
    ])
  })

  test('that finds the clip has every field of the contract, and charges once (contract 12.1, 12.45)', async () => {
    const { status, body, subject, payment, url } = await polled({}, { pollUpstream: done })
    expect(status).toBe(200)
    expect(body).toEqual({
      id: expect.any(String),
      object: 'video.generation.job',
      status: 'completed',
      model: 'vendor-c/video-1',
      created: expect.any(Number),
      data: [
        {
          url: expect.stringMatching(/^http:\/\/farebox\.test\/api\/media\/videos\/2026-11-20\/.+\.mp4$/),
          source_url: 'data:video/mp4',
          duration_seconds: 8,
          request_id: 'r-1',
          backed_up: true,
        },
      ],
      price: { amount: '0.402000', currency: 'USD' },
      payment: { status: 'settled', tx_hash: expect.any(String), network: 'base' },
    })
    const again = await subject.alice.poll(url, payment)
    expect([again.status, again.body.payment.status, again.body.data]).toEqual([200, 'already_settled', body.data])
    expect(subject.chain.transfers.map(({ value }) => value)).toEqual([402_000n])
  })

  test('of family E reports its tokens: the maker’s count, otherwise that of the formula (contract 12.45, 12.46)', async () => {
    expect(
      (await polled({ model: E2 }, { pollUpstream: inTurn({ kind: 'done', url: CLIP, tokens: 108_900 }) })).body.usage,
    ).toEqual({ total_tokens: 108_900, token_source: 'upstream' })
    expect(
      (await polled({ model: E2 }, { pollUpstream: inTurn({ kind: 'done', url: CLIP, tokens: 0 }) })).body.usage,
    ).toEqual({
      total_tokens: 108_450,
      token_source: 'estimated',
    })
    const referring = { model: E2, reference_videos: [{ url: CLIP_URL }], reference_audios: [{ url: CLIP_URL }] }
    expect((await polled(referring, { pollUpstream: done })).body.usage).toEqual({
      total_tokens: 249_435,
      token_source: 'estimated',
    })
    expect(
      (await polled({}, { pollUpstream: inTurn({ kind: 'done', url: CLIP, tokens: 5 }) })).body.usage,
    ).toBeUndefined()
  })

  test('gives the last frame where the maker sent one, and the billed length where it says none (contract 12.32)', async () => {
    const { body } = await polled(
      { model: E2, return_last_frame: true },
      { pollUpstream: inTurn({ kind: 'done', url: CLIP, lastFrameUrl: PIXEL }) },
    )
    expect(body.data).toEqual([
      expect.objectContaining({
        duration_seconds: 5,
        last_frame_url: expect.stringMatching(/\/api\/media\/videos\/.+\.png$/),
      }),
    ])
  })

  test('fetches a clip that has no URL of its own; its source says its type (contract 12.53)', async () => {
    const { body } = await polled(
      { model: 'vendor-f/video-1' },
      { pollUpstream: inTurn({ kind: 'done' }), clip: async () => clipOf() },
    )
    expect(body.data).toEqual([
      {
        url: expect.stringMatching(/\/api\/media\/videos\/.+\.mp4$/),
        source_url: 'data:video/mp4',
        duration_seconds: 4,
        backed_up: true,
      },
    ])
  })

  test('of a clip that could not be mirrored gives the URL of its maker', async () => {
    const { subject, url, payment } = await polled(
      {},
      { pollUpstream: inTurn({ kind: 'done', url: 'https://maker.example/1.mp4' }) },
    )
    await subject.clock.advance(60_000)
    const { body } = await subject.alice.poll(url, payment)
    expect(body.data).toEqual([
      {
        url: 'https://maker.example/1.mp4',
        source_url: 'https://maker.example/1.mp4',
        duration_seconds: 8,
        backed_up: false,
      },
    ])
  })

  test.each([
    ['a link to nothing', () => Promise.reject(new NoMedia('the media host answered 404'))],
    ['a picture', async () => ({ bytes: new Uint8Array(1), type: 'image/png' })],
    ['a page', async () => ({ bytes: new Uint8Array(1), type: 'text/html' })],
  ])(
    'never sells %s for a clip: it is looked for again, and the job has failed where there is none for a minute',
    async (_, media) => {
      const answers = [media, async () => ({ bytes: CLIP_BYTES, type: 'video/mp4' })]
      const script = { pollUpstream: inTurn({ kind: 'done', url: 'https://maker.example/1.mp4' }) } as const
      const { subject, status, body, payment, url } = await polled({}, script, GENERATIONS, {
        media: () => (answers.shift() ?? media)(),
      })
      expect([status, body.status, JSON.stringify(body).includes('maker.example'), subject.chain.transfers]).toEqual([
        202,
        'in_progress',
        false,
        [],
      ])
      await subject.clock.advance(15_000)
      expect((await subject.alice.poll(url, payment)).body.data).toEqual([expect.objectContaining({ backed_up: true })])
      expect(subject.chain.transfers).toHaveLength(1)
      const never = await polled({}, script, GENERATIONS, { media })
      await never.subject.clock.advance(60_000)
      expect((await never.subject.alice.poll(never.url, never.payment)).body).toMatchObject({
        status: 'failed',
        payment_status: 'not_charged',
      })
      expect(never.subject.chain.transfers).toEqual([])
    },
  )

  test('of a failed job charges nothing and says why', async () => {
    const { status, body, subject } = await polled(
      {},
      { pollUpstream: inTurn({ kind: 'failed', reason: 'The model gave up.', code: 'output_audio_moderation' }) },
    )
    expect([status, body]).toEqual([
      200,
      {
        id: expect.any(String),
        object: 'video.generation.job',
        status: 'failed',
        model: 'vendor-c/video-1',
        error: 'The model gave up.',
        payment_status: 'not_charged',
        note: expect.any(String),
      },
    ])
    expect(subject.chain.transfers).toEqual([])
  })

  test('of a family E clip of which only the sound was refused says how to try again (contract 12.48)', async () => {
    const { body } = await polled(
      { model: E2 },
      { pollUpstream: inTurn({ kind: 'failed', reason: 'The sound was refused.', code: 'output_audio_moderation' }) },
    )
    expect(body).toMatchObject({
      status: 'failed',
      error: 'The sound was refused.',
      error_code: 'output_audio_moderation',
      retry_with: { generate_audio: false },
    })
  })

  test('takes poll_url as it was given and no other query, under either path (contract 12.2, 12.3, 12.42)', async () => {
    const { subject, payment, url } = await polled({}, { pollUpstream: done })
    for (const wrong of [
      url.replace('duration=8', 'duration=1'),
      url.replace(/&sig=.*/, ''),
      url.replace(/\?.*/, ''),
      url.replace('i2v=0', 'i2v=1'),
    ]) {
      const { status, body } = await subject.alice.poll(wrong, payment)
      expect([wrong, status, body.error]).toEqual([wrong, 400, 'Invalid job id'])
    }
    expect((await subject.alice.poll(url.replace(GENERATIONS, PARTS), payment)).status).toBe(200)
    const parts = await polled({ content: [{ type: 'text', text: 'a red fox' }] }, { pollUpstream: done }, PARTS)
    expect([parts.status, parts.url.startsWith(`${PARTS}/`)]).toEqual([200, true])
  })
})

describe('a submit', () => {
  const order = { model: E2, prompt: 'a red fox' }
  const refusals: readonly (readonly [law: string, body: object, error: ApiError, status: number, input: object])[] = [
    [
      'with a reference audio that is too long for the vendor is 400 INVALID_VIDEO_REQUEST (contract 12.27)',
      { ...order, reference_audios: [{ url: CLIP_URL }] },
      new ApiError('INVALID_VIDEO_REQUEST'),
      400,
      { code: 'INVALID_VIDEO_REQUEST' },
    ],
    [
      'with the face of a real person is 400 INPUT_IMAGE_REAL_PERSON (contract 12.49)',
      { ...order, image_url: IMAGE },
      new ApiError('INPUT_IMAGE_REAL_PERSON'),
      400,
      { code: 'INPUT_IMAGE_REAL_PERSON' },
    ],
    [
      'that the vendor finds against its policy is 400 Content policy violation (contract 12.50)',
      order,
      new ApiError('CONTENT_POLICY'),
      400,
      { error: 'Content policy violation' },
    ],
    [
      'that the vendor finds wrong is 400 INVALID_VIDEO_REQUEST (contract 12.50)',
      order,
      new ApiError('INVALID_VIDEO_REQUEST'),
      400,
      { code: 'INVALID_VIDEO_REQUEST' },
    ],
    [
      'that finds the vendor at its limit is 429 with how long to wait (contract 12.52)',
      order,
      rateLimited('vendor-e', 9),
      429,
      { code: 'RATE_LIMITED', retry_after_seconds: 9 },
    ],
  ]
  test.each(refusals)('%s', async (_, body, error, status, order) => {
    const { alice, chain } = studio({ submit: () => Promise.reject(error) })
    const answer = await alice.buy(body, { path: GENERATIONS })
    expect([answer.status, answer.headers.get('retry-after'), chain.transfers]).toEqual([
      status,
      status === 429 ? '9' : null,
      [],
    ])
    expect(answer.body).toMatchObject(order)
  })

  test('that the vendor does not take within 20 seconds is 504, uncharged (contract 12.41)', async () => {
    const { alice, clock, chain } = studio({ submit: () => new Promise(() => {}) })
    const payment = alice.sign(await alice.ask(order, { path: GENERATIONS }))
    let isAnswered = false
    const answer = alice.buy(order, { path: GENERATIONS, payment }).finally(() => (isAnswered = true))
    await clock.advance(19_999)
    expect(isAnswered).toBe(false)
    await clock.advance(1)
    expect([(await answer).status, chain.transfers]).toEqual([504, []])
  })
})

describe('a video', () => {
  const order = { prompt: 'a red fox' }

  test('is collected by its wallet alone, by an id that is its own and as long as that lasts (contract 12.43)', async () => {
    const { alice, buyer, clock } = studio()
    const { body } = await alice.buy(order, { path: GENERATIONS })
    const bob = buyer('bob')
    const poll = async (who: typeof alice, url: string) => {
      const payment = who.sign(await who.ask(order, { path: GENERATIONS }))
      const answer = await who.poll(url, payment)
      return [answer.status, answer.body.error]
    }
    expect(await poll(bob, body.poll_url)).toEqual([403, 'Payment payer mismatch'])
    for (const name of ['model', 'duration', 'sig']) {
      const [path = '', query] = body.poll_url.split('?')
      const words = new URLSearchParams(query)
      words.delete(name)
      expect([name, ...(await poll(alice, `${path}?${words}`))]).toEqual([name, 400, 'Invalid job id'])
    }
    expect(await poll(alice, body.poll_url.replace(body.id, 'job_1'))).toEqual([400, 'Invalid job id'])
    await clock.advance(Number(new URL(body.poll_url, ORIGIN).searchParams.get('exp')) * 1000 - clock.now())
    expect(await poll(alice, body.poll_url)).toEqual([400, 'Invalid job id'])
  })

  test('that takes more than an hour has failed, uncharged (contract 12.51)', async () => {
    const { alice, clock, chain } = studio({ pollUpstream: inTurn({ kind: 'running', status: 'in_progress' }) })
    const challenge = await alice.ask(order, { path: GENERATIONS })
    const { body } = await alice.buy(order, { path: GENERATIONS, payment: alice.sign(challenge) })
    await clock.advance(3_600_000)
    expect((await alice.poll(body.poll_url, alice.sign(challenge))).status).toBe(202)
    await clock.advance(1)
    const late = await alice.poll(body.poll_url, alice.sign(challenge))
    expect([late.body.status, late.body.payment_status, chain.transfers]).toEqual(['failed', 'not_charged', []])
  })

  test('is mirrored before it is settled (contract 12.47)', async () => {
    const steps: string[] = []
    const vendor = scriptedVideo({ pollUpstream: done })
    const subject = kit({
      endpoints: video,
      ports: { vendors: { video: () => vendor } },
      wrap: (ports) => ({
        ...ports,
        objects: { ...ports.objects, put: (...args) => (steps.push('mirrored'), ports.objects.put(...args)) },
        chain: { ...ports.chain, settle: (...args) => (steps.push('settled'), ports.chain.settle(...args)) },
      }),
    })
    const alice = subject.buyer()
    const payment = alice.sign(await alice.ask(order, { path: GENERATIONS }))
    const { body } = await alice.buy(order, { path: GENERATIONS, payment })
    expect((await alice.poll(body.poll_url, payment)).status).toBe(200)
    expect(steps).toEqual(['mirrored', 'settled'])
  })
})

describe('a job', () => {
  test('stays with the vendor that took it, whatever an operator makes of its row meanwhile', async () => {
    const first = scriptedVideo({ pollUpstream: done })
    const other = scriptedVideo()
    const vendors = { vendors: { video: ({ vendor }: { vendor: string }) => (vendor === 'vendor-c' ? first : other) } }
    const before = kit({ endpoints: video, ports: vendors })
    const alice = before.buyer()
    const payment = alice.sign(await alice.ask({ prompt: 'a red fox' }, { path: GENERATIONS }))
    const { body } = await alice.buy({ prompt: 'a red fox' }, { path: GENERATIONS, payment })
    const moved = contract({ video: contract().video.all.map((row) => ({ ...row, vendor: 'elsewhere' })) })
    const { status } = await alice.poll(body.poll_url, payment, { gateway: before.restart({ catalog: moved }) })
    expect([status, first.polls, other.polls]).toEqual([200, ['job-1'], []])
  })
})

describe('stored fields', () => {
  test('survives JSON, and is all that looking and showing need', async () => {
    const catalog = contract()
    const order: VideoRequest = checkVideo(
      { model: E2, prompt: 'x', image_url: IMAGE, resolution: '1080p' },
      { catalog },
    )
    const { model, request } = JSON.parse(JSON.stringify(requestRecord(order)))
    expect([model, Object.keys(request).sort()]).toEqual([E2, ['_', 'duration_seconds', 'model']])
    const vendor = scriptedVideo({ pollUpstream: done })
    const vendors = { video: () => vendor } as never
    const status = await pollUpstream(JSON.stringify(['vendor-e', 'job-1']), {
      request,
      catalog,
      vendors,
      signal: new AbortController().signal,
    })
    if (status.kind !== 'done') return expect.unreachable()
    expect(status.made.media).toEqual({ folder: 'videos', urls: [CLIP], kinds: ['video'] })
    const stored = {
      made: JSON.parse(JSON.stringify(status.made.result)),
      media: [{ key: 'k', url: null, source: CLIP_URL }],
      created: 5,
    }
    expect(videoResponse(stored, { request, quote: usdc(0n), href: (key) => `https://here/${key}` })).toEqual({
      object: 'video.generation.job',
      status: 'completed',
      model: E2,
      created: 5,
      data: [{ url: 'https://here/k', source_url: CLIP_URL, duration_seconds: 8, request_id: 'r-1', backed_up: true }],
      usage: { total_tokens: 244_013, token_source: 'estimated' },
    })
  })
})
