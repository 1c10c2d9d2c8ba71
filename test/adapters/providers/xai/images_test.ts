import { afterAll, describe, expect, test } from 'bun:test'
import { LLMock } from '@copilotkit/aimock'
import { PIXEL } from '../../../fakes/images.ts'
import { xaiImages } from '../../../../adapters/providers/xai/images.ts'
import { runLaws } from '../../../conformance/law.ts'
import { imageVendorLaws } from '../../../conformance/vendors.ts'
import {
  before,
  calm,
  FOX,
  HEIC,
  KEY,
  imageVendors,
  outcome,
  PNG,
  recorded,
  refusals,
  replay,
  type Seen,
  setup,
  unsentEdits,
} from '../lib/provider_kit.ts'

const PROTOCOL = 'xai_images'
const ONE = { ...FOX, model: 'grok-imagine-image' }
const TWO = { ...FOX, model: 'grok-imagine-image-2.0' }
const made = ({ json }: Seen) =>
  Response.json({ data: Array.from({ length: json.n }, () => ({ b64_json: PNG, respect_moderation: true })) })

const vendorOn = imageVendors(xaiImages, '/v1')

describe('requests of xaiImages()', () => {
  test('to generate: ratio and resolution in place of a size, base64 wanted, all images in one call', async () => {
    const { server, vendor } = vendorOn(made)
    expect(await vendor.generate({ ...ONE, n: 10 }, calm())).toHaveLength(10)
    const [{ path, headers, json }] = server.seen as [Seen]
    expect([path, headers.get('authorization')]).toEqual(['/v1/images/generations', `Bearer ${KEY}`])
    expect(json).toEqual({
      model: 'grok-imagine-image',
      prompt: FOX.prompt,
      n: 10,
      aspect_ratio: '1:1',
      resolution: '1k',
      response_format: 'b64_json',
    })
  })

  test('the 2.0 model at low quality unless the operator pins another', async () => {
    const low = vendorOn(made)
    await low.vendor.generate(TWO, calm())
    const medium = vendorOn(made, { parameters: { quality: 'medium' } })
    await medium.vendor.generate(TWO, calm())
    expect([low, medium].map(({ server }) => server.seen[0]?.json.quality)).toEqual(['low', 'medium'])
  })

  test.each([
    [1344, 768, '16:9', '1k'],
    [2048, 2048, '1:1', '2k'],
    [768, 1536, '1:2', '1k'],
  ])('%dx%d as %s at %s', async (width, height, aspect_ratio, resolution) => {
    const { server, vendor } = vendorOn(made)
    await vendor.generate({ ...ONE, width, height }, calm())
    expect(server.seen[0]?.json).toMatchObject({ aspect_ratio, resolution })
  })

  test('to edit: JSON with one `image`, or several `images`', async () => {
    const { server, vendor } = vendorOn(made)
    await vendor.edit?.({ ...TWO, images: [PIXEL] }, calm())
    await vendor.edit?.({ ...TWO, images: [PIXEL, PIXEL] }, calm())
    const image = { url: PIXEL, type: 'image_url' }
    expect(server.seen.map(({ path, json }) => [path, json.image, json.images])).toEqual([
      ['/v1/images/edits', image, undefined],
      ['/v1/images/edits', undefined, [image, image]],
    ])
  })

  test('at most `perCall` images in a call', async () => {
    const { server, vendor } = vendorOn(made, { perCall: 3 })
    expect(await vendor.generate({ ...ONE, n: 7 }, calm())).toHaveLength(7)
    expect(server.seen.map(({ json }) => json.n).sort()).toEqual([1, 3, 3])
  })

  unsentEdits(vendorOn, {
    HEIC: { images: [HEIC] },
    'a mask': { mask: PIXEL },
    'six images': { images: Array(6).fill(PIXEL) },
  })
})

test('xaiImages() reads the image and its revised prompt', async () => {
  const { vendor } = vendorOn(() => replay(recorded(PROTOCOL, 'generated')))
  expect(await vendor.generate(TWO, calm())).toEqual([
    { url: expect.stringMatching(/^data:image\/jpeg;base64,\/9j\//), revisedPrompt: 'a red fox in deep snow' },
  ])
})

runLaws(
  'xaiImages()',
  imageVendorLaws,
  before(xaiImages, ({ json }) =>
    Response.json({ data: Array(json.n).fill((recorded(PROTOCOL, 'generated').body as { data: unknown[] }).data[0]) }),
  ),
)

refusals(PROTOCOL, xaiImages, {
  read: ['generated'],
  generate: {
    moderated: 'CONTENT_POLICY',
    moderated_all: 'CONTENT_POLICY',
    safety_check: 'CONTENT_POLICY',
    usage_guidelines: 'CONTENT_POLICY',
    no_access: 'operator',
    wrong_key: 'operator',
    rate_limited: 'RATE_LIMITED 45',
    no_credits: 'operator',
    bad_image: 'operator',
    unknown_field: 'operator',
    internal: 'failure',
  },
  edit: { bad_image: 'INVALID_IMAGE', wrong_key: 'operator', safety_check: 'CONTENT_POLICY' },
})

/** A stand-in that this project did not write; it serves this path as OpenAI's. */
describe('against aimock', async () => {
  const mock = new LLMock({ port: 0 })
  mock.on({ endpoint: 'image', userMessage: /fox/ }, { image: { b64Json: PNG, revisedPrompt: 'a fox' } })
  mock.on({ endpoint: 'image', userMessage: /slow/ }, { error: { message: 'slow' }, status: 429, retryAfter: 17 })
  await mock.start()
  afterAll(() => mock.stop())
  const { config, log } = setup(`${mock.url}/v1`)
  const vendor = xaiImages(config)

  test('it generates, and its rate limit is read', async () => {
    expect(await vendor.generate(TWO, calm())).toEqual([{ url: PIXEL, revisedPrompt: 'a fox' }])
    expect(await outcome(vendor.generate({ ...TWO, prompt: 'slow' }, calm()), log)).toBe('RATE_LIMITED 17')
  })
})
