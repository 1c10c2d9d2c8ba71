import { afterAll, describe, expect, test } from 'bun:test'
import { LLMock } from '@copilotkit/aimock'
import { geminiImages } from '../../../../adapters/providers/gemini/images.ts'
import { PIXEL } from '../../../fakes/images.ts'
import { runLaws } from '../../../conformance/law.ts'
import { imageVendorLaws } from '../../../conformance/vendors.ts'
import {
  before,
  calm,
  FOX,
  GIF,
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

const PROTOCOL = 'gemini_images'
const PRO = { ...FOX, model: 'gemini-3-pro-image' }
const good = () => replay(recorded(PROTOCOL, 'generated'))

const vendorOn = imageVendors(geminiImages)

describe('requests of geminiImages()', () => {
  test('to generate: the prompt, an image wanted, its ratio and size, the key in a header and not in the URL', async () => {
    const { server, vendor } = vendorOn(good)
    expect(await vendor.generate(PRO, calm())).toEqual([{ url: PIXEL }])
    const [{ path, headers, json }] = server.seen as [Seen]
    expect([path, headers.get('x-goog-api-key'), headers.has('authorization')]).toEqual([
      '/v1beta/models/gemini-3-pro-image:generateContent',
      KEY,
      false,
    ])
    expect(json).toEqual({
      contents: [{ role: 'user', parts: [{ text: FOX.prompt }] }],
      generationConfig: { responseModalities: ['IMAGE'], imageConfig: { aspectRatio: '1:1', imageSize: '1K' } },
    })
  })

  test.each([
    [512, 512, '1:1', '512'],
    [1024, 1024, '1:1', '1K'],
    [1536, 1024, '3:2', '1K'],
    [1344, 768, '16:9', '1K'],
    [2048, 2048, '1:1', '2K'],
    [4096, 4096, '1:1', '4K'],
  ])('%dx%d as %s at %s', async (width, height, aspectRatio, imageSize) => {
    const { server, vendor } = vendorOn(good)
    await vendor.generate({ ...PRO, width, height }, calm())
    expect(server.seen[0]?.json.generationConfig.imageConfig).toEqual({ aspectRatio, imageSize })
  })

  test('no imageSize to the 2.5 generation, and nothing at all for a size that fits no ratio', async () => {
    const { server, vendor, log } = vendorOn(good)
    await vendor.generate({ ...FOX, model: 'gemini-2.5-flash-image' }, calm())
    expect(server.seen[0]?.json.generationConfig.imageConfig).toEqual({ aspectRatio: '1:1' })
    expect(await outcome(vendor.generate({ ...PRO, width: 4096, height: 1500 }, calm()), log)).toBe('failure')
    expect(server.seen).toHaveLength(1)
  })

  test('to edit: the images first, then the words; HEIC as it is (contract 5.38)', async () => {
    const { server, vendor } = vendorOn(good)
    await vendor.edit?.({ ...PRO, images: [PIXEL, HEIC.replace('image/heic', 'image/png')] }, calm())
    expect(server.seen[0]?.json.contents[0].parts).toEqual([
      { inlineData: { mimeType: 'image/png', data: PNG } },
      { inlineData: { mimeType: 'image/heic', data: HEIC.split(',')[1] } },
      { text: FOX.prompt },
    ])
  })

  test("the operator's parameters reach into generationConfig, but not over the order", async () => {
    const parameters = {
      safetySettings: [{ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'BLOCK_NONE' }],
      generationConfig: { temperature: 1, imageConfig: { imageSize: '4K', personGeneration: 'ALLOW_ADULT' } },
    }
    const { server, vendor } = vendorOn(good, { parameters })
    await vendor.generate(PRO, calm())
    expect(server.seen[0]?.json).toMatchObject({
      safetySettings: parameters.safetySettings,
      generationConfig: {
        temperature: 1,
        responseModalities: ['IMAGE'],
        imageConfig: { aspectRatio: '1:1', imageSize: '1K', personGeneration: 'ALLOW_ADULT' },
      },
    })
  })

  test('one call for each image, at most four at a time', async () => {
    let now = 0
    let most = 0
    const { server, vendor } = vendorOn(async () => {
      most = Math.max(most, ++now)
      await new Promise((resolve) => setImmediate(resolve))
      now--
      return good()
    })
    expect(await vendor.generate({ ...PRO, n: 10 }, calm())).toHaveLength(10)
    expect([server.seen.length, most <= 4]).toEqual([10, true])
  })

  unsentEdits(vendorOn, {
    'a GIF': { images: [GIF] },
    'a mask': { mask: PIXEL },
  })
})

describe('replies to geminiImages()', () => {
  test('the picture, not those of a thought', async () => {
    const { vendor } = vendorOn(() => replay(recorded(PROTOCOL, 'generated_with_thoughts')))
    expect(await vendor.generate(PRO, calm())).toEqual([
      { url: expect.stringMatching(/^data:image\/jpeg;base64,\/9j\//) },
    ])
  })

  test.each(['no_image', 'text_only'])('%s once, and an image when asked again', async (name) => {
    const { server, vendor } = vendorOn(() => (server.seen.length === 1 ? replay(recorded(PROTOCOL, name)) : good()))
    expect(await vendor.generate(PRO, calm())).toEqual([{ url: PIXEL }])
    expect(server.seen).toHaveLength(2)
  })

  test('a refusal once: it is not asked again', async () => {
    const { server, vendor, log } = vendorOn(() => replay(recorded(PROTOCOL, 'image_safety')))
    expect(await outcome(vendor.generate(PRO, calm()), log)).toBe('CONTENT_POLICY')
    expect(server.seen).toHaveLength(1)
  })
})

runLaws(
  'geminiImages()',
  imageVendorLaws,
  before(geminiImages, () => replay(recorded(PROTOCOL, 'generated_with_thoughts'))),
)

refusals(PROTOCOL, geminiImages, {
  read: ['generated', 'generated_with_thoughts'],
  generate: {
    prompt_blocked: 'CONTENT_POLICY',
    image_safety: 'CONTENT_POLICY',
    recitation: 'CONTENT_POLICY',
    no_image: 'failure',
    text_only: 'failure',
    rate_limited: 'RATE_LIMITED 37',
    exhausted: 'RATE_LIMITED 30',
    invalid_image: 'operator',
    invalid_config: 'operator',
    wrong_key: 'operator',
    failed_precondition: 'operator',
    permission_denied: 'operator',
    not_found: 'operator',
    too_long: 'INVALID_BODY',
    internal: 'failure',
    unavailable: 'failure',
    deadline: 'UPSTREAM_TIMEOUT',
  },
  edit: {
    invalid_image: 'INVALID_IMAGE',
    invalid_config: 'operator',
    wrong_key: 'operator',
    image_safety: 'CONTENT_POLICY',
  },
})

/** A stand-in that this project did not write. It makes no Gemini images, but texts and errors. */
describe('against aimock', async () => {
  const mock = new LLMock({ port: 0 })
  mock.on({ userMessage: /fox/ }, { content: 'A fox, in words.' })
  mock.on(
    { userMessage: /slow/ },
    { error: { message: 'slow', type: 'RESOURCE_EXHAUSTED' }, status: 429, retryAfter: 17 },
  )
  await mock.start()
  afterAll(() => mock.stop())
  const { config, log } = setup(mock.url)
  const vendor = geminiImages(config)

  test('words in place of an image are a failure, after a second try', async () => {
    expect(await outcome(vendor.generate(PRO, calm()), log)).toBe('failure')
    expect(mock.getRequests().map(({ path }) => path)).toEqual(
      Array(2).fill('/v1beta/models/gemini-3-pro-image:generateContent'),
    )
  })

  test('its rate limit is read', async () => {
    expect(await outcome(vendor.generate({ ...PRO, prompt: 'slow' }, calm()), log)).toBe('RATE_LIMITED 17')
  })
})
