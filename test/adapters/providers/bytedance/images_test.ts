import { afterAll, describe, expect, test } from 'bun:test'
import { LLMock } from '@copilotkit/aimock'
import { PIXEL } from '../../../fakes/images.ts'
import { seedream } from '../../../../adapters/providers/bytedance/images.ts'
import { runLaws } from '../../../conformance/law.ts'
import { imageVendorLaws } from '../../../conformance/vendors.ts'
import {
  before,
  calm,
  FOX,
  greyImages,
  HEIC,
  KEY,
  imageVendors,
  outcome,
  recorded,
  refusals,
  replay,
  type Seen,
  setup,
  unsentEdits,
} from '../lib/provider_kit.ts'

const PROTOCOL = 'seedream'
const PRO = { ...FOX, model: 'dola-seedream-5-0-pro-260628', width: 2848, height: 1600 }
const AVIF = `data:image/avif;base64,${Buffer.from('\0\0\0\x1cftypavif\0\0\0\0mif1avif', 'latin1').toString('base64')}`
const good = () => replay(recorded(PROTOCOL, 'generated'))

const vendorOn = imageVendors(seedream, '/api/v3')

describe('requests of seedream()', () => {
  test('model, prompt, size, a URL wanted and no watermark', async () => {
    const { server, vendor } = vendorOn(good)
    await vendor.generate(PRO, calm())
    const [{ method, path, headers, json }] = server.seen as [Seen]
    expect([method, path, headers.get('authorization')]).toEqual([
      'POST',
      '/api/v3/images/generations',
      `Bearer ${KEY}`,
    ])
    expect(json).toEqual({
      model: PRO.model,
      prompt: FOX.prompt,
      size: '2848x1600',
      response_format: 'url',
      watermark: false,
    })
  })

  test("the operator's format and prompt optimizer", async () => {
    const { server, vendor } = vendorOn(good, {
      parameters: { output_format: 'png', optimize_prompt_options: { mode: 'fast' }, size: '1K' },
    })
    await vendor.generate(PRO, calm())
    expect(server.seen[0]?.json).toMatchObject({
      output_format: 'png',
      optimize_prompt_options: { mode: 'fast' },
      size: '2848x1600',
    })
  })

  test('to edit: the same path with `image`, one or a list; HEIC as it is', async () => {
    const { server, vendor } = vendorOn(good)
    await vendor.edit?.({ ...PRO, images: [PIXEL] }, calm())
    await vendor.edit?.({ ...PRO, images: [PIXEL, HEIC] }, calm())
    expect(server.seen.map(({ path, json }) => [path, json.image])).toEqual([
      ['/api/v3/images/generations', PIXEL],
      ['/api/v3/images/generations', [PIXEL, HEIC]],
    ])
  })

  test('one call for each image', async () => {
    const { server, vendor } = vendorOn(good)
    expect(await vendor.generate({ ...PRO, n: 5 }, calm())).toHaveLength(5)
    expect(server.seen).toHaveLength(5)
  })

  unsentEdits(vendorOn, {
    AVIF: { images: [AVIF] },
    'a mask': { mask: PIXEL },
    'eleven images': { images: Array(11).fill(PIXEL) },
  })
})

describe('replies to seedream()', () => {
  test.each([
    [
      'generated',
      'https://ark-content-generation-v2-ap-southeast-1.tos-ap-southeast-1.bytepluses.com/seedream-5-0/021768/image.png',
    ],
    ['generated_base64', expect.stringMatching(/^data:image\/jpeg;base64,\/9j\//)],
  ])('%s', async (name, url) => {
    expect(await vendorOn(() => replay(recorded(PROTOCOL, name))).vendor.generate(PRO, calm())).toEqual([{ url }])
  })
})

runLaws(
  'seedream()',
  imageVendorLaws,
  before(seedream, ({ json }) => Response.json({ data: greyImages(json.size).map((b64_json) => ({ b64_json })) })),
)

refusals(PROTOCOL, seedream, {
  read: ['generated', 'generated_base64'],
  generate: {
    image_failed: 'failure',
    image_sensitive: 'CONTENT_POLICY',
    prompt_sensitive: 'CONTENT_POLICY',
    wrong_key: 'operator',
    overdue: 'operator',
    not_open: 'operator',
    no_model: 'operator',
    rate_limited: 'RATE_LIMITED 30',
    overloaded: 'RATE_LIMITED 30',
    quota: 'operator',
    queue_full: 'RATE_LIMITED 30',
    bad_size: 'operator',
    prompt_too_long: 'INVALID_BODY',
    internal: 'failure',
  },
  edit: { source_sensitive: 'CONTENT_POLICY', bad_source: 'INVALID_IMAGE', bad_size: 'operator' },
})

/** A stand-in that this project did not write. */
describe('against aimock', async () => {
  const mock = new LLMock({ port: 0 })
  mock.on({ endpoint: 'image', userMessage: /fox/ }, { image: { url: 'https://cdn.example.com/1.png' } })
  mock.on(
    { endpoint: 'image', userMessage: /person/ },
    { error: { code: 'InputImageSensitiveContentDetected.PrivacyInformation', message: 'real person' }, status: 400 },
  )
  await mock.start()
  afterAll(() => mock.stop())
  const { config, log } = setup(`${mock.url}/api/v3`)
  const vendor = seedream(config)

  test('it generates, and its refusal is read', async () => {
    expect(await vendor.generate(PRO, calm())).toEqual([{ url: 'https://cdn.example.com/1.png' }])
    expect(await outcome(vendor.generate({ ...PRO, prompt: 'a person' }, calm()), log)).toBe('CONTENT_POLICY')
  })
})
