import { afterAll, describe, expect, test } from 'bun:test'
import { LLMock } from '@copilotkit/aimock'
import { openaiImages } from '../../../../adapters/providers/openai/images.ts'
import { PIXEL } from '../../../fakes/images.ts'
import { runLaws } from '../../../conformance/law.ts'
import { imageVendorLaws } from '../../../conformance/vendors.ts'
import {
  before,
  calm,
  FOX,
  FOX_EDIT,
  GIF,
  greyImages,
  HEIC,
  KEY,
  imageVendors,
  outcome,
  PNG,
  readGrey,
  recorded,
  refusals,
  replay,
  type Seen,
  setup,
  unsentEdits,
} from '../lib/provider_kit.ts'

const PROTOCOL = 'openai_images'
const made = (count: number) =>
  Response.json({ created: 1, data: Array.from({ length: count }, () => ({ b64_json: PNG })) })
const count = ({ json, form }: Seen) => Number(json?.n ?? form?.get('n'))

const vendorOn = imageVendors(openaiImages, '/v1')

describe('requests of openaiImages()', () => {
  test('to generate: model, prompt, n and size as JSON, with the key, and nothing else', async () => {
    const { server, vendor } = vendorOn((seen) => made(count(seen)))
    expect(await vendor.generate({ ...FOX, width: 1536, n: 3 }, calm())).toEqual(
      Array.from({ length: 3 }, () => ({ url: PIXEL })),
    )
    const [{ method, path, headers, json }] = server.seen as [Seen]
    expect([method, path, headers.get('authorization'), headers.get('content-type')]).toEqual([
      'POST',
      '/v1/images/generations',
      `Bearer ${KEY}`,
      'application/json',
    ])
    expect(json).toEqual({ model: 'model-x', prompt: FOX.prompt, n: 3, size: '1536x1024' })
    expect(server.seen).toHaveLength(1)
  })

  test('without a key, no authorization; under a base URL that ends with a slash, the same path', async () => {
    const { server, config } = vendorOn(() => made(1))
    await openaiImages({ ...config, key: undefined, baseUrl: `${config.baseUrl}/` }).generate(FOX, calm())
    expect([server.seen[0]?.headers.has('authorization'), server.seen[0]?.path]).toEqual([
      false,
      '/v1/images/generations',
    ])
  })

  test("the operator's parameters stand under the order, overrides above it, and a null leaves a field out", async () => {
    const parameters = { quality: 'low', moderation: 'low', prompt: 'mine', n: 9, size: 'auto', model: 'mine' }
    const { server, vendor } = vendorOn(() => made(1), { parameters, overrides: { size: 'auto', n: null } })
    await vendor.generate(FOX, calm())
    expect(server.seen[0]?.json).toEqual({
      quality: 'low',
      moderation: 'low',
      model: 'model-x',
      prompt: FOX.prompt,
      size: 'auto',
    })
  })

  test('to edit one image: multipart with `image` and `mask` as typed files', async () => {
    const { server, vendor } = vendorOn((seen) => made(count(seen)))
    expect(await vendor.edit?.({ ...FOX_EDIT, mask: PIXEL, n: 2 }, calm())).toEqual([{ url: PIXEL }, { url: PIXEL }])
    const { path, headers, form } = server.seen[0] as Seen
    expect([path, headers.get('authorization'), headers.get('content-type')?.split(';')[0]]).toEqual([
      '/v1/images/edits',
      `Bearer ${KEY}`,
      'multipart/form-data',
    ])
    expect([...(form?.keys() ?? [])].sort()).toEqual(['image', 'mask', 'model', 'n', 'prompt', 'size'])
    expect(['model', 'prompt', 'n', 'size'].map((name) => form?.get(name))).toEqual([
      'model-x',
      FOX.prompt,
      '2',
      '1024x1024',
    ])
    for (const name of ['image', 'mask']) {
      const file = form?.get(name) as unknown as File
      expect([file.type, Buffer.from(await file.arrayBuffer()).toString('base64')]).toEqual(['image/png', PNG])
    }
  })

  test('to fuse images: `image[]`, once for each, in order', async () => {
    const { server, vendor } = vendorOn(() => made(1))
    const jpeg = `data:image/jpeg;base64,${Buffer.from('\xff\xd8\xff\xe0', 'latin1').toString('base64')}`
    await vendor.edit?.({ ...FOX_EDIT, images: [PIXEL, jpeg.replace('image/jpeg', 'image/png'), PIXEL] }, calm())
    const files = server.seen[0]?.form?.getAll('image[]') as unknown as File[]
    expect(files.map(({ type, name }) => [type, name])).toEqual([
      ['image/png', 'image_0.png'],
      ['image/jpeg', 'image_1.jpeg'],
      ['image/png', 'image_2.png'],
    ])
    expect(server.seen[0]?.form?.has('image')).toBe(false)
  })

  test('a mask for a server that takes white for the edited part is turned into one', async () => {
    const { server, vendor } = vendorOn(() => made(1), { maskMarks: 'white' })
    await vendor.edit?.({ ...FOX_EDIT, mask: PIXEL }, calm())
    const mask = server.seen[0]?.form?.get('mask') as unknown as File
    expect(readGrey(Buffer.from(await mask.arrayBuffer()))).toEqual({
      width: 1,
      height: 1,
      color: 0,
      pixels: [255 - 127],
    })
  })

  test('more images than one call makes are spread over calls', async () => {
    const { server, vendor } = vendorOn((seen) => made(count(seen)), { perCall: 4 })
    expect(await vendor.generate({ ...FOX, n: 10 }, calm())).toHaveLength(10)
    expect(server.seen.map(count).sort()).toEqual([2, 4, 4])
  })

  test("a prompt cannot carry stable-diffusion.cpp's settings in", async () => {
    const { server, vendor } = vendorOn(() => made(1))
    await vendor.generate({ ...FOX, prompt: 'a fox <sd_cpp_extra_args>{"width":8192}</sd_cpp_extra_args>' }, calm())
    expect(server.seen[0]?.json.prompt).not.toContain('sd_cpp_extra_args')
  })

  unsentEdits(
    vendorOn,
    {
      HEIC: { images: [PIXEL, HEIC] },
      GIF: { images: [PIXEL, GIF] },
      'no image at all': { images: [PIXEL, 'data:image/png;base64,PGh0bWw+'] },
    },
    ' (contract 5.38)',
  )
})

describe('replies to openaiImages()', () => {
  const jpeg = /^data:image\/jpeg;base64,\/9j\//
  test.each([
    ['generated', 1, [{ url: PIXEL }]],
    ['generated_two', 2, [{ url: PIXEL }, { url: expect.stringMatching(jpeg), revisedPrompt: 'a red fox, at dawn' }]],
    ['generated_url', 1, [{ url: 'http://localhost:8080/generated-images/b642201111111.png' }]],
    ['generated_sd_server', 1, [{ url: PIXEL }]],
  ])('%s', async (name, n, images) => {
    const { vendor } = vendorOn(() => replay(recorded(PROTOCOL, name)))
    expect(await vendor.generate({ ...FOX, n }, calm())).toEqual(images)
  })

  test('fewer images than were ordered are a failure, and more are cut', async () => {
    const short = vendorOn(() => replay(recorded(PROTOCOL, 'generated_two')))
    expect(await outcome(short.vendor.generate({ ...FOX, n: 3 }, calm()), short.log)).toBe('failure')
    expect(await short.vendor.generate({ ...FOX, n: 1 }, calm())).toEqual([{ url: PIXEL }])
  })
})

runLaws(
  'openaiImages()',
  imageVendorLaws,
  before(openaiImages, ({ json }) =>
    Response.json({ data: greyImages(json.size, json.n).map((b64_json) => ({ b64_json })) }),
  ),
)

refusals(PROTOCOL, openaiImages, {
  read: ['generated', 'generated_two', 'generated_url', 'generated_sd_server'],
  generate: {
    empty: 'failure',
    not_an_image: 'failure',
    moderation_blocked: 'CONTENT_POLICY',
    rate_limited: 'RATE_LIMITED 12',
    insufficient_quota: 'operator',
    billing_limit: 'operator',
    wrong_key: 'operator',
    model_not_found: 'operator',
    prompt_too_long: 'INVALID_BODY',
    unknown_parameter: 'operator',
    server_error: 'failure',
    sd_server_invalid: 'operator',
    sd_server_failed: 'failure',
  },
  edit: {
    moderation_blocked: 'CONTENT_POLICY',
    invalid_image_file: 'INVALID_IMAGE',
    unsupported_mimetype: 'INVALID_IMAGE',
    image_parse_error: 'INVALID_IMAGE',
  },
})

/** A stand-in that this project did not write. */
describe('against aimock', async () => {
  const mock = new LLMock({ port: 0 })
  mock.on({ endpoint: 'image', userMessage: /fox/ }, { image: { b64Json: PNG, revisedPrompt: 'a fox' } })
  mock.on(
    { endpoint: 'image', userMessage: /link/ },
    { images: [{ url: 'https://cdn.example.com/1.png' }, { url: 'https://cdn.example.com/2.png' }] },
  )
  mock.on(
    { endpoint: 'image', userMessage: /slow/ },
    { error: { message: 'slow', type: 'rate_limit_error', code: 'rate_limit_exceeded' }, status: 429, retryAfter: 17 },
  )
  mock.on(
    { endpoint: 'image', userMessage: /blocked/ },
    { error: { message: 'rejected', type: 'image_generation_user_error', code: 'moderation_blocked' }, status: 400 },
  )
  await mock.start()
  afterAll(() => mock.stop())
  const { config, log } = setup(`${mock.url}/v1`)
  const vendor = openaiImages(config)

  test('it generates, with a revised prompt', async () => {
    expect(await vendor.generate(FOX, calm())).toEqual([{ url: PIXEL, revisedPrompt: 'a fox' }])
    expect(await vendor.generate({ ...FOX, prompt: 'a link', n: 2 }, calm())).toEqual([
      { url: 'https://cdn.example.com/1.png' },
      { url: 'https://cdn.example.com/2.png' },
    ])
  })

  test('it edits', async () => {
    expect(await vendor.edit?.({ ...FOX_EDIT, mask: PIXEL }, calm())).toEqual([{ url: PIXEL, revisedPrompt: 'a fox' }])
    expect(mock.getRequests().at(-1)).toMatchObject({ path: '/v1/images/edits', body: { model: 'model-x' } })
  })

  test('its rate limit and its moderation are told apart', async () => {
    expect(await outcome(vendor.generate({ ...FOX, prompt: 'slow' }, calm()), log)).toBe('RATE_LIMITED 17')
    expect(await outcome(vendor.generate({ ...FOX, prompt: 'blocked' }, calm()), log)).toBe('CONTENT_POLICY')
  })
})
