/** Every gate of the video request, as data: each request is judged before the 402, charges nothing and asks no vendor. */
import { describe, expect, test } from 'bun:test'
import { videoRows } from '../../../../core/products/video/catalog.ts'
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
  readonly says?: readonly string[]
  readonly price?: Readonly<Record<string, unknown>>
  readonly inferred?: string
  readonly switch?: string
}
const gates = vectors.gates as readonly Gate[]

/** A shop of videos whose vendor, storage and chain write down what they are asked. */
function shopOf(setup: KitOptions = {}) {
  const asked: string[] = []
  const ask = (what: string) => (): Promise<never> => (asked.push(what), Promise.reject(new Error('not to be asked')))
  const vendor: VideoVendor = { submit: ask('submit'), pollUpstream: ask('pollUpstream') }
  const storage = (real: object) =>
    new Proxy(real, { get: (target, verb: string) => (asked.push(verb), target[verb as keyof typeof target]) })
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
  asked.length = 0
  return { ...subject, asked, alice: subject.buyer() }
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

const shops = { on: shopOf(), off: shopOf({ endpoints: off }) }

async function judged({ path = GENERATIONS, body, ...gate }: Gate): Promise<Answer> {
  const { alice, asked, chain } = shops[gate.switch === 'off' ? 'off' : 'on']
  const answer = await alice.ask(body, { path })
  expect(asked).toEqual([])
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
      for (const fragment of gate.says ?? []) expect(body.message).toContain(fragment)
      expect(body.inferred_input_type).toBe(gate.inferred)
    })
  }
})

describe('videos and sounds to refer to, while they are switched off', () => {
  for (const gate of gates.filter(({ status }) => status === 503)) {
    test(`${gate.rule}: ${short(gate.body)}`, async () => {
      const { status, body, headers } = await judged(gate)
      expect([status, headers.get('retry-after'), headers.get('payment-required')]).toEqual([503, '300', null])
      for (const fragment of gate.says ?? []) expect(body.message).toContain(fragment)
    })
  }
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
    const { alice } = shopOf({ catalog: catalog({ video: rows }) })
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
    const { alice } = shopOf({ ports: { vendors: { video: () => undefined } } })
    expect((await alice.ask({ prompt: 'a red fox' }, { path: GENERATIONS })).status).toBe(503)
    expect((await alice.ask({ prompt: 'a red fox', resolution: '4K' }, { path: GENERATIONS })).status).toBe(400)
  })

  test('a body larger than a mebibyte is read, for it may bring pictures', async () => {
    const picture = `data:image/png;base64,${'A'.repeat(2 << 20)}`
    const { status, body } = await shops.on.alice.ask(
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
            const { status, body } = await shops.on.alice.ask(order, { path })
            statuses.add(status)
            if (JSON.stringify(body).length > 4096) expect([field, value, path]).toEqual([])
          }
        }
      }
    }
    expect([...statuses].sort()).toEqual([400, 402])
    expect(shops.on.asked).toEqual([])
  })

  test('what is signed after the gates is checked again: a paid bad request is as free', async () => {
    const { alice, asked, chain } = shopOf()
    const payment = alice.sign(await alice.ask({ prompt: 'a red fox' }, { path: GENERATIONS }))
    const { status } = await alice.buy({ prompt: 'a red fox', resolution: '4K' }, { path: GENERATIONS, payment })
    expect([status, asked, chain.transfers]).toEqual([400, [], []])
  })
})
