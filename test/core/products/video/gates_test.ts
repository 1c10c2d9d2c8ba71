/**
 * Every gate of the video request, as data: each request is judged before the 402, charges nothing and asks no vendor.
 */
import { describe, expect, test } from 'bun:test'
import { videoRows } from '../../../../core/products/video/catalog.ts'
import { PIXEL } from '../../../fakes/images.ts'
import { video } from '../../../../core/products/video/generations.ts'
import type { Offering } from '../../../../core/endpoint/mod.ts'
import { catalog, type Endpoint, type VideoVendor } from '../../../../core/mod.ts'
import { type Answer, kit, type KitOptions } from '../../../kit.ts'
import vectors from '../../../vectors/video_gates.json'

const GENERATIONS = '/api/v1/videos/generations'

type Gate = {
  readonly rule: string
  readonly path?: string
  readonly body: unknown
  readonly status: number
  readonly messages?: readonly string[]
  readonly price?: Readonly<Record<string, unknown>>
  readonly inferred?: string
  readonly switch?: string
}
const gates = vectors.gates as readonly Gate[]

/** A shop of videos whose vendor, storage and chain write down what they are asked. */
function gatewayOf(setup: KitOptions = {}) {
  const requests: string[] = []
  const ask = (what: string) => (): Promise<never> => (
    requests.push(what),
    Promise.reject(new Error('not to be asked'))
  )
  const vendor: VideoVendor = { submit: ask('submit'), pollUpstream: ask('pollUpstream') }
  const storage = (real: object) =>
    new Proxy(real, { get: (target, verb: string) => (requests.push(verb), target[verb as keyof typeof target]) })
  const subject = kit({
    endpoints: video,
    ports: { vendors: { video: () => vendor } },
    wrap: (ports) => ({
      ...ports,
      storage: storage(ports.storage) as typeof ports.storage,
      chain: { ...ports.chain, verify: ask('verify'), settle: ask('settle') },
    }),
    ...setup,
  })
  requests.length = 0
  return { ...subject, requests, alice: subject.buyer() }
}

/** The operator has switched videos and sounds to refer to off. */
const off: readonly Endpoint[] = video.map((endpoint) => {
  if (endpoint.kind !== 'sold') return endpoint
  return {
    ...endpoint,
    check: (input: unknown, offering: Offering) =>
      endpoint.check(input, { ...offering, featureFlags: { referenceMedia: false } }),
  }
})

const gateways = { on: gatewayOf(), off: gatewayOf({ endpoints: off }) }

async function judged({ path = GENERATIONS, body, ...gate }: Gate): Promise<Answer> {
  const { alice, requests, chain } = gateways[gate.switch === 'off' ? 'off' : 'on']
  const answer = await alice.ask(body, { path })
  expect(requests).toEqual([])
  expect(chain.transfers).toEqual([])
  return answer
}

const short = (body: unknown): string =>
  JSON.stringify(body, (_, value) =>
    typeof value === 'string' && value.length > 60 ? `${value.slice(0, 57)}...` : value,
  )

describe('a request that its gates let through', () => {
  for (const gate of gates.filter(({ status }) => status === 402)) {
    test(`${gate.rule}: ${short(gate.body)}`, async () => {
      const { status, body, headers } = await judged(gate)
      expect([status, body.message]).toEqual([402, expect.stringContaining('This request costs')])
      expect(headers.get('payment-required')).toBeString()
      if (gate.price) expect(body.price).toMatchObject(gate.price)
    })
  }
})

describe('a request that is refused before its 402', () => {
  for (const gate of gates.filter(({ status }) => status === 400)) {
    test(`${gate.rule}: ${short(gate.body)}`, async () => {
      const { status, body, headers } = await judged(gate)
      expect([status, headers.get('payment-required'), body.accepts]).toEqual([400, null, undefined])
      for (const fragment of gate.messages ?? []) expect(body.message).toContain(fragment)
      expect(body.inferred_input_type).toBe(gate.inferred)
    })
  }
})

describe('videos and sounds to refer to, while they are switched off', () => {
  for (const gate of gates.filter(({ status }) => status === 503)) {
    test(`${gate.rule}: ${short(gate.body)}`, async () => {
      const { status, body, headers } = await judged(gate)
      expect([status, headers.get('retry-after'), headers.get('payment-required')]).toEqual([503, '300', null])
      for (const fragment of gate.messages ?? []) expect(body.message).toContain(fragment)
    })
  }
})

test('a vendor that is full is 429 before a call is opened, and the same payment is good later (contract 12.54)', async () => {
  let isFull = true
  const vendor: VideoVendor = {
    isFull: () => isFull,
    submit: async () => ({ handle: 'film' }),
    pollUpstream: async () => ({ kind: 'running', status: 'queued' }),
  }
  const subject = kit({ endpoints: video, ports: { vendors: { video: () => vendor } } })
  for (const [path, body] of [
    [GENERATIONS, { model: 'vendor-c/video-1', prompt: 'a red fox' }],
    ['/api/v1/videos', { model: 'vendor-c/video-1', content: [{ type: 'text', text: 'a red fox' }] }],
  ] as const) {
    isFull = true
    const buyer = subject.buyer()
    const payment = buyer.sign(await buyer.ask(body, { path }))
    const full = await buyer.buy(body, { path, payment })
    expect([full.status, full.headers.get('retry-after')]).toEqual([429, '10'])
    expect(full.body).toMatchObject({ code: 'RATE_LIMITED', source: 'vendor-c', retry_after_seconds: 10 })
    isFull = false
    expect((await buyer.buy(body, { path, payment })).status).toBe(202)
  }
  expect(subject.chain.transfers).toEqual([])
})

const IMAGE = 'https://pictures.example/fox.png'
const CLIP = 'https://clips.example/run.mp4'
const TEXT = { type: 'text', text: 'a red fox' }
const PICTURE = { type: 'image_url', image_url: { url: IMAGE } }
const SEVEN = ['16:9', '9:16', '1:1', '4:3', '3:4', '3:2', '2:3']
const [F, C, C15, E15] = ['vendor-f/video-1', 'vendor-c/video-1', 'vendor-c/video-1.5', 'vendor-e/video-1.5-pro']
const [E2, MINI, FAST, E25] = ['video-2.0', 'video-2.0-mini', 'video-2.0-fast', 'video-2.5'].map(
  (id) => `vendor-e/${id}`,
)
const REFERRING = [E2, FAST, MINI]

type Body = Readonly<Record<string, unknown>>
type Price = Readonly<Record<string, unknown>>
/**
 * The cases of a statement: requests that are quoted, each with members of its price, and requests that are 400, each
 * with words of its message.
 */
type Statement = readonly [
  law: string,
  quoted: readonly (readonly [Body, Price])[],
  refused: readonly (readonly [Body, ...string[]])[],
]

const lengths = (model: string | undefined, seconds: readonly number[]) =>
  seconds.map((durationSeconds) => [{ model, duration_seconds: durationSeconds }, { durationSeconds }] as const)
const notLengths = (model: string | undefined, seconds: readonly number[], ...messages: readonly string[]) =>
  seconds.map((duration_seconds) => [{ model, duration_seconds }, 'duration_seconds', ...messages] as const)
const sizes = (model: string | undefined, resolutions: readonly string[]) =>
  resolutions.map((resolution) => [{ model, resolution }, { resolution }] as const)
const notSizes = (model: string | undefined, resolutions: readonly string[]) =>
  resolutions.map((resolution) => [{ model, resolution }, 'resolution', `got "${resolution}"`] as const)

const statements: readonly Statement[] = [
  [
    'content parts say more than text and one image only in fields of their own (contract 12.5)',
    [[{ content: [TEXT, PICTURE] }, {}]],
    [
      [{ content: [TEXT, PICTURE, PICTURE] }, 'one image_url part'],
      [{ content: [TEXT, { type: 'video_url', video_url: { url: CLIP } }] }, 'video_url'],
      [{ content: [TEXT, { type: 'audio_url', audio_url: { url: CLIP } }] }, 'audio_url'],
      [{ content: [TEXT, { ...PICTURE, role: 'first_frame' }] }, 'first_frame'],
      [{ content: [TEXT, { ...PICTURE, role: 'last_frame' }] }, 'last_frame'],
    ],
  ],
  [
    'a model is one of the list, vendor-c/video-1 by default; among content parts vendor-e needs no prefix (contract 12.8)',
    [
      [{}, { amount: '0.402000', resolution: '480p', durationSeconds: 8 }],
      [
        { content: [TEXT], model: 'video-2.5', duration: 30 },
        { durationSeconds: 30, resolution: '720p' },
      ],
    ],
    [
      [{ model: 'nobody/nothing' }, 'Unknown model: nobody/nothing', ...videoRows.map(({ id }) => id)],
      [{ model: 'video-2.5' }, 'Unknown model'],
      [{ content: [TEXT], model: 'video-1' }, 'Unknown model'],
    ],
  ],
  [
    'vendor-f/video-1 makes 4, 8 or 12 seconds at 720p, and ignores what it has no use for (contract 12.9)',
    [
      [{ model: F }, { durationSeconds: 4, resolution: '720p' }],
      ...lengths(F, [4, 8, 12]),
      [
        {
          model: F,
          resolution: '4K',
          aspect_ratio: '21:9',
          seed: 1,
          generate_audio: false,
          watermark: true,
          return_last_frame: true,
        },
        { resolution: '720p', amount: '0.421000' },
      ],
    ],
    notLengths(F, [3, 5, 7, 9, 11, 13], 'only 4, 8, 12 seconds'),
  ],
  [
    'vendor-c/video-1 makes 1 to 15 seconds at 480p or 720p (contract 12.10)',
    [[{ model: C }, { durationSeconds: 8, resolution: '480p' }], ...lengths(C, [1, 15]), ...sizes(C, ['480p', '720p'])],
    [...notLengths(C, [0, 16]), ...notSizes(C, ['1080p', '4K'])],
  ],
  [
    'vendor-c/video-1.5 makes 1 to 15 seconds at 480p, 720p or 1080p (contract 12.11)',
    [
      [{ model: C15 }, { durationSeconds: 8, resolution: '480p' }],
      ...lengths(C15, [1, 15]),
      ...sizes(C15, ['480p', '720p', '1080p']),
    ],
    [...notLengths(C15, [0, 16]), ...notSizes(C15, ['4K'])],
  ],
  [
    'vendor-e/video-1.5-pro makes 4 to 12 seconds at 480p, 720p or 1080p (contract 12.12)',
    [
      [{ model: E15 }, { durationSeconds: 5, resolution: '720p' }],
      ...lengths(E15, [4, 12]),
      ...sizes(E15, ['480p', '720p', '1080p']),
    ],
    [...notLengths(E15, [3, 13]), ...notSizes(E15, ['4K'])],
  ],
  [
    'vendor-e/video-2.0 makes 4 to 15 seconds at 480p, 720p, 1080p or 4K (contract 12.13)',
    [
      [{ model: E2 }, { durationSeconds: 5, resolution: '720p' }],
      ...lengths(E2, [4, 15]),
      ...sizes(E2, ['480p', '720p', '1080p', '4K']),
    ],
    notLengths(E2, [3, 16]),
  ],
  [
    'vendor-e/video-2.0-mini and vendor-e/video-2.0-fast make 4 to 15 seconds at 480p or 720p (contract 12.14)',
    [MINI, FAST].flatMap((model) => [
      [{ model }, { durationSeconds: 5, resolution: '720p' }] as const,
      ...lengths(model, [4, 15]),
      ...sizes(model, ['480p', '720p']),
    ]),
    [...notLengths(MINI, [3, 16]), ...notLengths(FAST, [3, 16]), ...notSizes(FAST, ['1080p', '4K'])],
  ],
  [
    'vendor-e/video-2.5 makes 4 to 30 seconds at 480p or 720p, of text and image alone (contract 12.15)',
    [
      [{ model: E25 }, { durationSeconds: 5, resolution: '720p' }],
      ...lengths(E25, [4, 30]),
      ...sizes(E25, ['480p', '720p']),
      [{ model: E25, image_url: IMAGE }, {}],
    ],
    [
      ...notLengths(E25, [3, 31]),
      ...notSizes(E25, ['1080p', '4K']),
      [{ model: E25, reference_image_urls: [IMAGE] }, 'reference_image_urls'],
      [{ model: E25, real_face_asset_id: 'ta_1' }, 'real_face_asset_id'],
      [{ model: E25, image_url: IMAGE, last_frame_url: IMAGE }, 'last_frame_url'],
    ],
  ],
  [
    'vendor-e/video-2.0-mini takes more than 720p, and bills 720p (contract 12.16)',
    ['1080p', '4K'].map((resolution) => [
      { model: MINI, resolution },
      { resolution: '720p', amount: '0.399554' },
    ]),
    [],
  ],
  [
    'each family takes seven aspect ratios of its own (contract 12.17)',
    [
      ...SEVEN.map((aspect_ratio) => [{ model: C, aspect_ratio }, {}] as const),
      ...['adaptive', '16:9', '9:16', '1:1', '4:3', '3:4', '21:9'].map(
        (aspect_ratio) => [{ model: E2, aspect_ratio }, {}] as const,
      ),
    ],
    [
      ...['adaptive', '21:9', '5:4'].map(
        (aspect_ratio) => [{ model: C, aspect_ratio }, 'aspect_ratio', '3:2'] as const,
      ),
      ...['3:2', '2:3', '5:4'].map((aspect_ratio) => [{ model: E2, aspect_ratio }, 'aspect_ratio', '21:9'] as const),
    ],
  ],
  [
    'a length, resolution or ratio that a model does not make is refused with those that it makes (contract 12.18)',
    [],
    [
      [{ model: C, duration_seconds: 16 }, 'duration_seconds', '1 to 15 seconds'],
      [{ model: C, resolution: '1080p' }, 'resolution', '480p', '720p'],
      [{ model: C, aspect_ratio: '21:9' }, 'aspect_ratio', ...SEVEN],
      ...[C, C15, E15, E2, FAST, E25].flatMap((model) => notSizes(model, ['360p', '540p', '1K', '2K'])),
    ],
  ],
  [
    'a prompt is needed (contract 12.19)',
    [],
    [
      [{ prompt: undefined }, 'prompt', 'missing'],
      [{ prompt: ' ' }, 'prompt', 'blank'],
    ],
  ],
  [
    'an image is an http(s) URL, which nobody fetches, or bytes that are one (contract 12.20)',
    [
      [{ image_url: 'https://pictures.example/is-not-there.png' }, {}],
      [{ image_url: 'http://pictures.example/fox.png' }, {}],
      [{ image_url: PIXEL }, {}],
    ],
    [
      [{ image_url: 'ftp://pictures.example/fox.png' }, 'image_url'],
      [{ image_url: 'data:image/png;base64,AAAA' }, 'image_url'],
      [{ image_url: 'data:image/png;base64,%' }, 'image_url'],
      [{ image_url: 'fox.png' }, 'image_url'],
    ],
  ],
  [
    'an enrolled character is taken by three models, and never beside a frame (contract 12.21)',
    REFERRING.map((model) => [{ model, real_face_asset_id: 'ta_1' }, {}]),
    [
      ...[F, C, C15, E15, E25].map((model) => [{ model, real_face_asset_id: 'ta_1' }, 'real_face_asset_id'] as const),
      [{ model: E2, real_face_asset_id: 'fox' }, 'real_face_asset_id'],
      [{ model: E2, real_face_asset_id: 'ta_1', image_url: IMAGE }, 'real_face_asset_id'],
      [{ model: E2, real_face_asset_id: 'ta_1', image_url: IMAGE, last_frame_url: IMAGE }, 'real_face_asset_id'],
    ],
  ],
  [
    'a last frame needs a first one, and one of four models (contract 12.23)',
    [E15, MINI, FAST, E2].map((model) => [{ model, image_url: IMAGE, last_frame_url: IMAGE }, {}]),
    [
      [{ model: E2, last_frame_url: IMAGE }, 'last_frame_url', 'alone'],
      ...[F, C, C15, E25].map(
        (model) => [{ model, image_url: IMAGE, last_frame_url: IMAGE }, 'last_frame_url'] as const,
      ),
    ],
  ],
  [
    'reference images are 1 to 9 for three models, cost nothing, and stand alone (contract 12.24)',
    [
      [{ model: E2, reference_image_urls: [IMAGE] }, { amount: '1.136480' }],
      [{ model: E2, reference_image_urls: Array(9).fill(IMAGE) }, { amount: '1.136480' }],
      [{ model: FAST, reference_image_urls: [IMAGE] }, {}],
      [{ model: MINI, reference_image_urls: [IMAGE] }, {}],
    ],
    [
      [{ model: E2, reference_image_urls: [] }, 'reference_image_urls'],
      [{ model: E2, reference_image_urls: Array(10).fill(IMAGE) }, 'reference_image_urls'],
      ...[F, C, C15, E15].map((model) => [{ model, reference_image_urls: [IMAGE] }, 'reference_image_urls'] as const),
      [{ model: E2, reference_image_urls: [IMAGE], image_url: IMAGE }, 'image_url'],
      [{ model: E2, reference_image_urls: [IMAGE], last_frame_url: IMAGE }, 'last_frame_url'],
      [{ model: E2, reference_image_urls: [IMAGE], real_face_asset_id: 'ta_1' }, 'real_face_asset_id'],
    ],
  ],
  [
    'reference videos and audios are 1 to 3 each, by URL and role; flat fields point there (contract 12.25)',
    [
      ...REFERRING.map((model) => [{ model, reference_videos: [{ url: CLIP }] }, {}] as const),
      [{ model: E2, reference_videos: Array(3).fill({ url: CLIP }) }, {}],
      [{ model: E2, reference_audios: Array(3).fill({ url: CLIP, role: 'reference' }) }, {}],
    ],
    [
      ...[F, C, C15, E15, E25].map(
        (model) => [{ model, reference_videos: [{ url: CLIP }] }, 'reference_videos'] as const,
      ),
      ...['reference_videos', 'reference_audios'].flatMap((field) => [
        [{ model: E2, [field]: [] }, field] as const,
        [{ model: E2, [field]: Array(4).fill({ url: CLIP }) }, field] as const,
        [{ model: E2, [field]: [{ url: `https://clips.example/${'x'.repeat(2_027)}` }] }, field] as const,
        [{ model: E2, [field]: [{ url: CLIP, role: 'style' }] }, field] as const,
      ]),
      [{ model: E2, video_url: CLIP }, 'video_url', 'reference_videos'],
      [{ model: E2, audio_url: CLIP }, 'audio_url', 'reference_audios'],
    ],
  ],
  [
    'frames and references do not mix (contract 12.26)',
    [],
    ['reference_videos', 'reference_audios'].flatMap((field) => [
      [{ model: E2, image_url: IMAGE, [field]: [{ url: CLIP }] }, field] as const,
      [{ model: E2, last_frame_url: IMAGE, [field]: [{ url: CLIP }] }, 'last_frame_url'] as const,
    ]),
  ],
  [
    'a model ignores four fields that it has no use for, and refuses media that it does not know (contract 12.31)',
    [F, C, C15].map((model) => [
      { model, seed: 1, generate_audio: true, watermark: true, return_last_frame: true },
      {},
    ]),
    [F, C, C15].flatMap((model) => [
      [{ model, real_face_asset_id: 'ta_1' }, 'real_face_asset_id'] as const,
      [{ model, image_url: IMAGE, last_frame_url: IMAGE }, 'last_frame_url'] as const,
      [{ model, reference_image_urls: [IMAGE] }, 'reference_image_urls'] as const,
      [{ model, reference_videos: [{ url: CLIP }] }, 'reference_videos'] as const,
      [{ model, reference_audios: [{ url: CLIP }] }, 'reference_audios'] as const,
    ]),
  ],
]

describe('the statements of the contract', () => {
  const asking = ({ content, ...body }: Body): Gate =>
    content
      ? { rule: '', path: '/api/v1/videos', body: { content, ...body }, status: 0 }
      : { rule: '', body: { prompt: 'a red fox', ...body }, status: 0 }

  test.each(statements)('%s', async (_, quoted, refused) => {
    for (const [request, price] of quoted) {
      const { status, body } = await judged(asking(request))
      expect([request, status]).toEqual([request, 402])
      expect(body.price).toMatchObject(price)
    }
    for (const [request, ...messages] of refused) {
      const { status, body } = await judged(asking(request))
      expect([request, status]).toEqual([request, 400])
      for (const words of messages) expect([request, body.message]).toEqual([request, expect.stringContaining(words)])
    }
  })

  test('an input_type that is not what was sent is 400 with what was sent (contract 12.29)', async () => {
    const sent: readonly (readonly [string, Body])[] = [
      ['text', {}],
      ['image', { image_url: IMAGE }],
      ['first_last_frame', { image_url: IMAGE, last_frame_url: IMAGE }],
      ['reference', { reference_image_urls: [IMAGE] }],
    ]
    for (const [kind, media] of sent)
      for (const [input_type] of sent) {
        const { status, body } = await judged(asking({ model: E2, ...media, input_type }))
        expect([kind, input_type, status]).toEqual([kind, input_type, kind === input_type ? 402 : 400])
        if (kind !== input_type) expect(body.inferred_input_type).toBe(kind)
      }
  })

  test('while reference media are switched off they are 503 after the shape and the model are checked (contract 12.28)', async () => {
    const ask = async (body: Body) => await judged({ ...asking(body), switch: 'off' })
    for (const field of ['reference_videos', 'reference_audios']) {
      const { status, headers } = await ask({ model: E2, [field]: [{ url: CLIP }] })
      expect([field, status, headers.get('retry-after')]).toEqual([field, 503, '300'])
      expect((await ask({ model: E2, [field]: [{ url: 'fox' }] })).status).toBe(400)
      expect((await ask({ model: C, [field]: [{ url: CLIP }] })).status).toBe(400)
    }
  })
})

describe('the gates', () => {
  test('are at least three hundred, and every model meets some that close and some that open', () => {
    expect(gates.length).toBeGreaterThan(300)
    for (const { id } of videoRows) {
      const statuses = gates
        .filter(({ body }) => (body as { model?: unknown } | null)?.model === id)
        .map(({ status }) => status)
      expect([id, statuses.includes(400), statuses.includes(402)]).toEqual([id, true, true])
    }
  })

  test('a refusal says which models there are, with neither hidden nor retired ones', async () => {
    const rows = videoRows.map((row) => ({
      ...row,
      ...(row.family === 'f' && { hidden: true }),
      ...(row.id === 'vendor-e/video-1.5-pro' && { retired: true }),
    }))
    const { alice } = gatewayOf({ catalog: catalog({ video: rows }) })
    const unknown = await alice.ask({ model: 'nobody', prompt: 'x' }, { path: GENERATIONS })
    expect(unknown.body.available_models).toEqual(
      videoRows.filter(({ id, family }) => family !== 'f' && id !== 'vendor-e/video-1.5-pro').map(({ id }) => id),
    )
    const retired = await alice.ask({ model: 'vendor-e/video-1.5-pro', prompt: 'x' }, { path: GENERATIONS })
    expect([retired.status, retired.body.error]).toEqual([400, 'Invalid model'])
    expect(retired.body.message).toContain('vendor-e/video-1.5-pro is no longer available')
    expect((await alice.ask({ model: 'vendor-f/video-1', prompt: 'x' }, { path: GENERATIONS })).status).toBe(402)
    const able = await alice.ask(
      { model: 'vendor-c/video-1', prompt: 'x', image_url: 'https://a.example', last_frame_url: 'https://a.example' },
      { path: GENERATIONS },
    )
    expect(able.body.available_models).toEqual([
      'vendor-e/video-2.0-mini',
      'vendor-e/video-2.0-fast',
      'vendor-e/video-2.0',
    ])
  })

  test('a model that nobody here makes is 503 in place of the 402, but what is wrong with the request is told first', async () => {
    const { alice } = gatewayOf({ ports: { vendors: { video: () => undefined } } })
    expect((await alice.ask({ prompt: 'a red fox' }, { path: GENERATIONS })).status).toBe(503)
    expect((await alice.ask({ prompt: 'a red fox', resolution: '4K' }, { path: GENERATIONS })).status).toBe(400)
  })

  test('a body larger than a mebibyte is read, for it may bring pictures', async () => {
    const picture = `data:image/png;base64,${'A'.repeat(2 << 20)}`
    const { status, body } = await gateways.on.alice.ask(
      { prompt: 'a red fox', image_url: picture },
      { path: GENERATIONS },
    )
    expect([status, body.details[0].path, body.message.length < 400]).toEqual([400, 'image_url', true])
  })

  test('whatever stands in a field, the answer is a short 400 or 402, never a failure', async () => {
    const fields = [
      'model',
      'prompt',
      'image_url',
      'real_face_asset_id',
      'last_frame_url',
      'reference_image_urls',
      'reference_videos',
      'reference_audios',
      'video_url',
      'audio_url',
      'input_type',
      'duration_seconds',
      'resolution',
      'aspect_ratio',
      'generate_audio',
      'seed',
      'watermark',
      'return_last_frame',
      'content',
      'ratio',
      'duration',
    ]
    const odd = [
      null,
      0,
      -1,
      1e308,
      true,
      '',
      ' ',
      'x'.repeat(100_000),
      '\u0000',
      '\ud800',
      'https://',
      'data:',
      'data:image/png;base64,' + '='.repeat(9),
      [],
      [null],
      [[]],
      [{}],
      [{ url: null }],
      [{ type: 'text', text: {} }],
      [{ type: 'image_url', image_url: [] }],
      {},
      { url: {} },
      '__proto__',
      'constructor',
    ]
    const statuses = new Set<number>()
    for (const field of fields) {
      for (const value of odd) {
        for (const model of ['vendor-f/video-1', 'vendor-c/video-1', 'vendor-e/video-2.0']) {
          const order = { model, prompt: 'a red fox', content: [{ type: 'text', text: 'a red fox' }], [field]: value }
          for (const path of [GENERATIONS, '/api/v1/videos']) {
            const { status, body } = await gateways.on.alice.ask(order, { path })
            statuses.add(status)
            if (JSON.stringify(body).length > 4096) expect([field, value, path]).toEqual([])
          }
        }
      }
    }
    expect([...statuses].sort()).toEqual([400, 402])
    expect(gateways.on.requests).toEqual([])
  })

  test('input is checked again after payment: a paid bad request is not charged', async () => {
    const { alice, requests, chain } = gatewayOf()
    const payment = alice.sign(await alice.ask({ prompt: 'a red fox' }, { path: GENERATIONS }))
    const { status } = await alice.buy({ prompt: 'a red fox', resolution: '4K' }, { path: GENERATIONS, payment })
    expect([status, requests, chain.transfers]).toEqual([400, [], []])
  })
})
