import { describe, expect, test } from 'bun:test'
import { whiteMask } from '../../../../adapters/providers/lib/image_mask.ts'
import { encodePng } from '../../../../adapters/providers/lib/png.ts'
import { PIXEL } from '../../../fakes/images.ts'
import { sdapi } from '../../../../adapters/providers/sdapi/images.ts'
import { runLaws } from '../../../conformance/law.ts'
import { imageVendorLaws } from '../../../conformance/vendors.ts'
import {
  before,
  calm,
  FOX,
  FOX_EDIT,
  greyImages,
  HEIC,
  imageVendors,
  KEY,
  PNG,
  readGrey,
  recorded,
  refusals,
  replay,
  type Seen,
  unsentEdits,
} from '../lib/provider_kit.ts'

const PROTOCOL = 'sdapi'
const SETTINGS = { override_settings: { sd_model_checkpoint: 'model-x' }, override_settings_restore_afterwards: false }
const good = () => replay(recorded(PROTOCOL, 'generated'))

const vendorOn = imageVendors(sdapi)

describe('requests of sdapi()', () => {
  test('to generate: txt2img with size, batch and checkpoint', async () => {
    const { server, vendor } = vendorOn(good)
    await vendor.generate({ ...FOX, width: 768, height: 512 }, calm())
    const [{ method, path, json }] = server.seen as [Seen]
    expect([method, path]).toEqual(['POST', '/sdapi/v1/txt2img'])
    expect(json).toEqual({ prompt: FOX.prompt, width: 768, height: 512, batch_size: 1, ...SETTINGS })
  })

  test('no key, a bearer key, and user:password as Basic', async () => {
    const sent = async (key: string | undefined) => {
      const { server, vendor } = vendorOn(good, { key })
      await vendor.generate(FOX, calm())
      return server.seen[0]?.headers.get('authorization')
    }
    expect([await sent(undefined), await sent(KEY), await sent('ann:secret')]).toEqual([
      null,
      `Bearer ${KEY}`,
      `Basic ${btoa('ann:secret')}`,
    ])
  })

  test('to edit: img2img with the bare base64 of the image', async () => {
    const { server, vendor } = vendorOn(good, { parameters: { denoising_strength: 0.6, steps: 30 } })
    await vendor.edit?.(FOX_EDIT, calm())
    expect(server.seen[0]?.path).toBe('/sdapi/v1/img2img')
    expect(server.seen[0]?.json).toEqual({
      denoising_strength: 0.6,
      steps: 30,
      prompt: FOX.prompt,
      width: 1024,
      height: 1024,
      batch_size: 1,
      init_images: [PNG],
      ...SETTINGS,
    })
  })

  test('a mask with the edited part in white, drawn from what is there', async () => {
    const { server, vendor } = vendorOn(good)
    await vendor.edit?.({ ...FOX_EDIT, mask: PIXEL }, calm())
    const { json } = server.seen[0] as Seen
    expect([json.inpainting_fill, json.inpainting_mask_invert]).toEqual([1, 0])
    expect(readGrey(Buffer.from(json.mask, 'base64'))).toEqual({ width: 1, height: 1, color: 0, pixels: [255 - 127] })
  })

  test("a prompt cannot carry stable-diffusion.cpp's settings in", async () => {
    const { server, vendor } = vendorOn(good)
    await vendor.generate({ ...FOX, prompt: 'a fox <sd_cpp_extra_args>{"width":8192}</sd_cpp_extra_args>' }, calm())
    expect(server.seen[0]?.json.prompt).not.toContain('sd_cpp_extra_args')
  })

  unsentEdits(vendorOn, {
    HEIC: { images: [HEIC] },
    'a second image': { images: [PIXEL, PIXEL] },
    'a mask that is no PNG': { mask: HEIC },
  })
})

describe('replies to sdapi()', () => {
  test.each([
    ['generated', 1, [{ url: PIXEL }]],
    ['generated_sd_server', 1, [{ url: PIXEL }]],
    [
      'generated_two_and_a_grid',
      2,
      [{ url: PIXEL }, { url: expect.stringMatching(/^data:image\/jpeg;base64,\/9j\//) }],
    ],
  ])('%s', async (name, n, images) => {
    expect(await vendorOn(() => replay(recorded(PROTOCOL, name))).vendor.generate({ ...FOX, n }, calm())).toEqual(
      images,
    )
  })
})

runLaws(
  'sdapi()',
  imageVendorLaws,
  before(sdapi, ({ json }) => Response.json({ images: greyImages(`${json.width}x${json.height}`, json.batch_size) })),
)

refusals(PROTOCOL, sdapi, {
  read: ['generated', 'generated_sd_server', 'generated_two_and_a_grid'],
  generate: {
    interrupted: 'failure',
    no_checkpoint: 'operator',
    wrong_password: 'operator',
    out_of_memory: 'failure',
    unprocessable: 'operator',
    sd_server_invalid: 'operator',
  },
  edit: { invalid_source: 'INVALID_IMAGE', out_of_memory: 'failure' },
})

describe('whiteMask()', () => {
  test('turns the transparent part of a PNG by another hand white, and the rest black', async () => {
    const data = Uint8Array.from(
      { length: 40 * 30 * 4 },
      (_, at) => (Math.floor(at / 4) % 40 < 10 && at < 40 * 20 * 4 ? 0 : [200, 130, 68, 255][at % 4]) as number,
    )
    const png = await new Bun.Image(await encodePng({ width: 40, height: 30, data })).png().bytes()
    const { width, height, pixels } = readGrey(Buffer.from(whiteMask(png)))
    const expected = Array.from({ length: 40 * 30 }, (_, index) =>
      index % 40 < 10 && Math.floor(index / 40) < 20 ? 255 : 0,
    )
    expect([width, height, pixels]).toEqual([40, 30, expected])
  })

  test.each([
    ['no PNG', Buffer.from('GIF89a')],
    ['a PNG without data', Buffer.from(PNG, 'base64').subarray(0, 33)],
    ['a PNG cut short', Buffer.from(PNG, 'base64').subarray(0, 50)],
    ['a PNG that says it is huge', huge()],
  ])('refuses %s', (_, bytes) => {
    expect(() => whiteMask(bytes)).toThrow(expect.objectContaining({ code: 'INVALID_IMAGE' }))
  })
})

function huge(): Buffer {
  const png = Buffer.from(PNG, 'base64')
  png.writeUInt32BE(65_535, 16)
  png.writeUInt32BE(65_535, 20)
  return png
}
