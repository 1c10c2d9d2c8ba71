import { afterAll, describe, expect, test } from 'bun:test'
import { LLMock } from '@copilotkit/aimock'
import { cogview } from '../../../../adapters/providers/zai/images.ts'
import { runLaws } from '../../../conformance/law.ts'
import { imageVendorLaws } from '../../../conformance/vendors.ts'
import {
  before,
  calm,
  FOX,
  KEY,
  imageVendors,
  outcome,
  recorded,
  refusals,
  replay,
  type Seen,
  setup,
} from '../lib/provider_kit.ts'

const PROTOCOL = 'cogview'
const COG = { ...FOX, model: 'cogview-4-250304' }
const good = () => replay(recorded(PROTOCOL, 'generated'))

const vendorOn = imageVendors(cogview, '/api/paas/v4')

describe('requests of cogview()', () => {
  test('model, prompt, size and a quality; no n and no response_format', async () => {
    const { server, vendor } = vendorOn(good)
    await vendor.generate({ ...COG, width: 768, height: 1344 }, calm())
    const [{ method, path, headers, json }] = server.seen as [Seen]
    expect([method, path, headers.get('authorization')]).toEqual([
      'POST',
      '/api/paas/v4/images/generations',
      `Bearer ${KEY}`,
    ])
    expect(json).toEqual({ model: 'cogview-4-250304', prompt: FOX.prompt, size: '768x1344', quality: 'standard' })
  })

  test("the operator's quality and watermark", async () => {
    const { server, vendor } = vendorOn(good, { parameters: { quality: 'hd', watermark_enabled: false } })
    await vendor.generate(COG, calm())
    expect(server.seen[0]?.json).toMatchObject({ quality: 'hd', watermark_enabled: false })
  })

  test('one call for each image', async () => {
    const { server, vendor } = vendorOn(good)
    expect(await vendor.generate({ ...COG, n: 6 }, calm())).toHaveLength(6)
    expect(server.seen).toHaveLength(6)
  })

  test('nothing to edit with', () => {
    expect(vendorOn(good).vendor.edit).toBeUndefined()
  })
})

describe('replies to cogview()', () => {
  test.each([
    ['generated', 'https://mfile.z.ai/1760335349-0b6a.png?ufileattname=0b6a.png'],
    ['generated_mild', 'https://mfile.z.ai/1760335349-1c7b.png'],
  ])('%s', async (name, url) => {
    expect(await vendorOn(() => replay(recorded(PROTOCOL, name))).vendor.generate(COG, calm())).toEqual([{ url }])
  })
})

runLaws('cogview()', imageVendorLaws, before(cogview, good))

refusals(PROTOCOL, cogview, {
  read: ['generated', 'generated_mild'],
  generate: {
    filtered: 'CONTENT_POLICY',
    unsafe: 'CONTENT_POLICY',
    busy: 'RATE_LIMITED 30',
    model_busy: 'RATE_LIMITED 30',
    arrears: 'operator',
    daily_limit: 'operator',
    plan_expired: 'operator',
    wrong_key: 'operator',
    no_model: 'operator',
    bad_parameter: 'INVALID_BODY',
    prompt_too_long: 'INVALID_BODY',
    network: 'failure',
  },
})

test.each([
  [
    'operator',
    [
      1000, 1001, 1002, 1003, 1004, 1110, 1111, 1112, 1113, 1120, 1121, 1211, 1220, 1221, 1222, 1304, 1308, 1309, 1310,
      1311, 1313,
    ],
  ],
  ['INVALID_BODY', [1210, 1213, 1214, 1215, 1261]],
  ['CONTENT_POLICY', [1301]],
  ['RATE_LIMITED 30', [1302, 1303, 1305, 1312]],
])('every code that reads as %s', async (expected, codes) => {
  for (const code of codes) {
    const { vendor, log } = vendorOn(() =>
      Response.json({ error: { code: String(code), message: 'm' } }, { status: 429 }),
    )
    expect([code, await outcome(vendor.generate(COG, calm()), log)]).toEqual([code, expected])
  }
})

/** A stand-in that this project did not write; it takes this path for OpenAI's. */
describe('against aimock', async () => {
  const mock = new LLMock({ port: 0 })
  mock.on({ endpoint: 'image', userMessage: /fox/ }, { image: { url: 'https://cdn.example.com/1.png' } })
  mock.on({ endpoint: 'image', userMessage: /unsafe/ }, { error: { message: 'unsafe', code: '1301' }, status: 400 })
  await mock.start()
  afterAll(() => mock.stop())
  const { config, log } = setup(`${mock.url}/api/paas/v4`)
  const vendor = cogview(config)

  test('it generates, and its refusal is read', async () => {
    expect(await vendor.generate({ ...COG, n: 2 }, calm())).toEqual([
      { url: 'https://cdn.example.com/1.png' },
      { url: 'https://cdn.example.com/1.png' },
    ])
    expect(await outcome(vendor.generate({ ...COG, prompt: 'unsafe' }, calm()), log)).toBe('CONTENT_POLICY')
  })
})
