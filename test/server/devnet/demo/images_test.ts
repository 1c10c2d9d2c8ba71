import { describe, expect, test } from 'bun:test'
import { crc32, deflateSync } from 'node:zlib'
import { demoImages } from '../../../../server/devnet/demo/images.ts'
import { decodePng, encodePng, type Raster } from '../../../../adapters/providers/lib/png.ts'
import { ApiError, type ImageEdit } from '../../../../core/mod.ts'

const vendor = demoImages()

const never = new AbortController().signal
const job = (prompt: string, width = 64, height = 64, n = 1) => ({ model: 'demo', prompt, width, height, n })
const bytesOf = (url = '') => Buffer.from(url.slice('data:image/png;base64,'.length), 'base64')
const read = (url?: string): Promise<Raster> => decodePng(bytesOf(url))
const draw = async (...of: Parameters<typeof job>) =>
  (await vendor.generate(job(...of), { signal: never })).map(({ url }) => url)
const at = ({ width, data }: Raster, x: number, y: number) => [
  ...data.subarray((y * width + x) * 4, (y * width + x) * 4 + 4),
]

const reason = (work: Promise<unknown> | undefined) =>
  work?.then(
    () => 'made',
    (error: Error) => error.message,
  )

describe('a picture', () => {
  test.each([
    [64, 64],
    [1024, 1792],
    [4096, 512],
  ])('is a PNG of exactly the asked size, %ix%i', async (width, height) => {
    const picture = await read((await draw('a red fox in the snow', width, height))[0])
    expect([picture.width, picture.height, picture.data.every((value, i) => i % 4 !== 3 || value === 255)]).toEqual([
      width,
      height,
      true,
    ])
  })

  test('says in its picture and in its file that no model made it, and from which words', async () => {
    const [url] = await draw('a café at night ☾', 512, 512)
    const [file, picture] = [bytesOf(url).toString(), await read(url)]
    for (const words of ['Demo picture by Farebox - not a model', 'a café at night ☾']) expect(file).toContain(words)
    expect([at(picture, 1, 511), at(picture, 1, 490)]).toEqual([
      [246, 237, 218, 255],
      [246, 237, 218, 255],
    ])
    const ink = Array.from({ length: 512 * 60 }, (_, i) => at(picture, i % 512, 452 + Math.floor(i / 512))).filter(
      ([red]) => red === 59,
    )
    expect(ink.length).toBeGreaterThan(500)
  })

  test('is the same for the same words, another for others, and n different ones of one prompt', async () => {
    const [first, again, other] = [
      await draw('a bird', 64, 64, 3),
      await draw('a bird', 64, 64, 2),
      await draw('a bird!'),
    ]
    expect([again, new Set([...first, ...other]).size]).toEqual([first.slice(0, 2), 4])
  })

  const hostile = [
    '',
    '\u0000\u001b[31m\u007f',
    '\ud800 lone',
    '🦊👩‍🚀',
    '東京',
    '\u202eright',
    'e\u0301'.repeat(400),
    '\ufdfa'.repeat(500),
    'x'.repeat(1_000_000),
  ]
  test('is drawn of every hostile prompt, many at once', async () => {
    const pictures = await Promise.all(hostile.map((prompt) => draw(prompt)))
    expect([
      await Promise.all(pictures.map(async ([url]) => (await read(url)).width)),
      new Set(pictures.flat()).size,
    ]).toEqual([hostile.map(() => 64), hostile.length])
  })

  test.each([
    [63, 512],
    [512, 4097],
  ])('of %p by %p pixels is refused', async (width, height) => {
    expect(await reason(vendor.generate(job('a fox', width, height), { signal: never }))).toStartWith(
      'the demo draws 64 to 4096',
    )
  })
})

describe('the queue of the demo', () => {
  test('an abort rejects at once and leaves the queue', async () => {
    const demo = demoImages()
    const stopped = new AbortController()
    const [first, waiting] = [demo.generate(job('a'), { signal: never }), reason(demo.generate(job('b'), stopped))]
    stopped.abort(new Error('enough'))
    expect([await waiting, (await first).length]).toEqual(['enough', 1])
    expect(await reason(demo.generate(job('gone'), stopped))).toBe('enough')
  })

  test('a full queue is BUSY, and says when to retry', async () => {
    const demo = demoImages({ waiting: 1 })
    const accepted = ['a', 'b'].map((prompt) => demo.generate(job(prompt), { signal: never }))
    const error = await demo.generate(job('c'), { signal: never }).catch((cause: unknown) => cause)
    expect([(error as ApiError).code, (error as ApiError).parts.headers]).toEqual(['BUSY', { 'retry-after': '10' }])
    expect((await Promise.all(accepted)).flat()).toHaveLength(2)
  })
})

// ── edits ───────────────────────────────────────────────────────────────────────────────────────────────────────────

type Pixel = readonly [r: number, g: number, b: number, a: number]
const RED: Pixel = [210, 30, 30, 255]
const BLUE: Pixel = [30, 50, 210, 255]
const uri = (bytes: Uint8Array, type = 'png') => `data:image/${type};base64,${Buffer.from(bytes).toString('base64')}`

function chunk(type: string, data: Uint8Array): Buffer {
  const framed = Buffer.concat([Buffer.alloc(4), Buffer.from(type), data, Buffer.alloc(4)])
  framed.writeUInt32BE(data.length, 0)
  framed.writeUInt32BE(crc32(framed.subarray(4, -4)), framed.length - 4)
  return framed
}

/** A PNG as other programs write it: `type` 6 is RGBA, 2 is RGB. `claims` is what its header says of its size. */
function png(
  width: number,
  height: number,
  pixel: (x: number, y: number) => Pixel,
  options: { type?: 2 | 6; claims?: readonly [number, number] } = {},
): Buffer {
  const type = options.type ?? 6
  const header = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 8, type, 0, 0, 0])
  header.writeUInt32BE(options.claims?.[0] ?? width, 0)
  header.writeUInt32BE(options.claims?.[1] ?? height, 4)
  const rows = Array.from({ length: height }, (_, y) => [
    0,
    ...Array.from({ length: width }, (_, x) => pixel(x, y).slice(0, type === 6 ? 4 : 3)).flat(),
  ])
  return Buffer.concat([
    Buffer.from('89504e470d0a1a0a', 'hex'),
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(Buffer.from(rows.flat()))),
    chunk('IEND', Buffer.alloc(0)),
  ])
}
const flat = (color: Pixel, width = 64, height = 64) => uri(png(width, height, () => color))
const mask = (width: number, height: number, alpha: (x: number, y: number) => number) =>
  uri(png(width, height, (x, y) => [9, 9, 9, alpha(x, y)]))
/** Every pixel differs from its neighbours, and some are half or wholly transparent. */
const noisy = (x: number, y: number): Pixel => [
  (x * 37 + y * 11) % 256,
  (x * y) % 256,
  (x * 5 + y * 91) % 256,
  [255, 255, 128, 1, 0][(x + y) % 5] as number,
]

const edit = (prompt: string, images: readonly string[], more: Partial<ImageEdit> = {}) =>
  vendor.edit?.({ ...job(prompt), images, ...more }, { signal: never })
const editUrl = async (...of: Parameters<typeof edit>) => ((await edit(...of)) ?? [])[0]?.url
const refusal = async (images: readonly string[], more?: Partial<ImageEdit>) => {
  const cause = await edit('a fox', images, more)?.then(
    () => undefined,
    (error: unknown) => error,
  )
  return cause instanceof ApiError && cause.code === 'INVALID_IMAGE' ? String(cause.parts.details) : cause
}

describe('an edit', () => {
  test('is a PNG of exactly the asked size that differs from its source, and from other edits', async () => {
    const made = [
      await editUrl('make it blue', [flat(RED, 40, 30)], { width: 128, height: 300 }),
      await editUrl('night', [flat(RED)]),
      await editUrl('dawn', [flat(RED)]),
    ]
    expect([(await read(made[0])).width, (await read(made[0])).height, new Set(made).size]).toEqual([128, 300, 3])
    for (const color of [RED, BLUE, [0, 0, 0, 255], [255, 255, 255, 255]] as Pixel[])
      expect(at(await read(await editUrl('improve it', [flat(color)])), 20, 20)).not.toEqual([...color])
  })

  test('says that no model made it: in its picture, in its file and in its revised prompt', async () => {
    const [made] = (await edit(`night ${'🦊'.repeat(300)}`, [flat(BLUE)], { width: 512, height: 512 })) ?? []
    expect(bytesOf(made?.url).toString()).toContain('Demo edit by Farebox - not a model')
    expect([
      made?.revisedPrompt?.startsWith('Demo edit by Farebox - not a model: night 🦊'),
      made?.revisedPrompt?.endsWith('🦊'),
    ]).toEqual([true, true])
    expect(at(await read(made?.url), 1, 511)).toEqual([246, 237, 218, 255])
  })

  test('shows every source', async () => {
    const picture = await read(
      await editUrl('put together', [flat(RED), flat(BLUE), flat(RED)], { width: 192, height: 96 }),
    )
    const [left, middle, right] = [32, 96, 160].map((x) => at(picture, x, 30)) as [number[], number[], number[]]
    expect([(left[0] as number) > (middle[0] as number), (middle[2] as number) > (left[2] as number), left]).toEqual([
      true,
      true,
      right,
    ])
  })

  test('keeps what a mask keeps byte for byte, half transparent pixels too, and changes what it opens (contract 5.39)', async () => {
    const hole = (x: number, y: number) => x >= 20 && x < 80 && y >= 10
    const picture = await read(
      await editUrl('night', [uri(png(96, 64, noisy))], {
        width: 96,
        mask: mask(96, 64, (x, y) => (hole(x, y) ? 0 : 255)),
      }),
    )
    let changed = 0
    for (let i = 0; i < 96 * 64; i++) {
      const [x, y] = [i % 96, Math.floor(i / 96)]
      if (!hole(x, y)) expect(at(picture, x, y)).toEqual([...noisy(x, y)])
      else if (`${at(picture, x, y)}` !== `${noisy(x, y)}`) changed++
    }
    expect(changed).toBeGreaterThan(60 * 54 * 0.97)
  })

  test('scales a mask with its source, and changes nothing where it opens nothing', async () => {
    const picture = await read(
      await editUrl('blue', [flat(RED, 16, 16)], {
        width: 128,
        height: 128,
        mask: mask(16, 16, (x) => (x < 8 ? 255 : 0)),
      }),
    )
    const unchanged = Array.from({ length: 128 }, (_, x) => `${at(picture, x, 70)}` === `${RED}`)
    expect([unchanged.lastIndexOf(true), unchanged.indexOf(false)]).toEqual([63, 64])
    const whole = await read(await editUrl('blue', [uri(png(64, 64, noisy))], { mask: mask(64, 64, () => 255) }))
    expect(whole.data.every((value, i) => value === noisy((i >> 2) % 64, Math.floor(i / 256))[i % 4])).toBe(true)
  })
})

// ── sources ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A JPEG whose EXIF says that it lies on its side: its left edge is the upper one. */
function onItsSide(jpeg: Uint8Array): Uint8Array {
  const exif = Buffer.concat([
    Buffer.from('Exif\u0000\u0000'),
    Buffer.from('4d4d002a000000080001011200030000000100060000000000000000', 'hex'),
  ])
  return Buffer.concat([jpeg.subarray(0, 2), Buffer.from([0xff, 0xe1, 0, exif.length + 2]), exif, jpeg.subarray(2)])
}

/** One colour, in the simplest LZW there is; `frame` is how large the only frame says it is. */
function gif(frame: readonly [number, number] = [1, 1]): Buffer {
  const size = ([w, h]: readonly [number, number]) => [w & 255, w >> 8, h & 255, h >> 8]
  return Buffer.from([
    ...Buffer.from('GIF89a'),
    ...size([1, 1]),
    0x80,
    0,
    0,
    210,
    30,
    30,
    0,
    0,
    0,
    0x2c,
    0,
    0,
    0,
    0,
    ...size(frame),
    0,
    2,
    2,
    0x44,
    1,
    0,
    0x3b,
  ])
}

describe('a source', () => {
  test('is rotated by its EXIF orientation', async () => {
    const jpeg = await new Bun.Image(png(64, 32, (x) => (x < 32 ? RED : BLUE))).jpeg({ quality: 95 }).bytes()
    const picture = await read(await editUrl('green', [uri(onItsSide(jpeg), 'jpeg')], { height: 128 }))
    const [top, low] = [at(picture, 32, 20), at(picture, 32, 90)] as [number[], number[]]
    expect([(top[0] as number) > (low[0] as number), (low[2] as number) > (top[2] as number)]).toEqual([true, true])
  })

  test('may be JPEG, GIF, WEBP or PNG without alpha, whatever its media type says', async () => {
    const source = png(64, 64, () => RED, { type: 2 })
    for (const bytes of [
      source,
      await new Bun.Image(source).jpeg().bytes(),
      await new Bun.Image(source).webp().bytes(),
      gif(),
    ]) {
      expect((await read(await editUrl('night', [uri(bytes, 'x-unknown')]))).width).toBe(64)
    }
  })

  const strangers: Readonly<Record<string, string>> = {
    BMP: uri(Buffer.from('BM'.padEnd(80, '\u0000')), 'bmp'),
    HEIC: uri(Buffer.from('\u0000\u0000\u0000\u0018ftypheic\u0000\u0000\u0000\u0000mif1heic'), 'heic'),
    SVG: uri(
      Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>'),
      'svg+xml',
    ),
    'a URL': 'https://example.com/fox.png',
    'a PNG in name only': uri(Buffer.from('89504e470d0a1a0a', 'hex')),
  }
  test.each(Object.keys(strangers))('that is %s is refused with what is accepted', async (name) => {
    expect(await refusal([flat(RED), strangers[name] as string])).toMatch(
      /^Image 2 (is not a PNG, JPEG, GIF, WEBP file|has a damaged header)/,
    )
  })

  test('whose header declares too many pixels is refused before it is decoded', async () => {
    const bomb = (...claims: readonly [number, number]) => uri(png(1, 1, () => RED, { claims }))
    for (const [width, height] of [
      [60_000, 60_000],
      [8193, 8],
      [8192, 8192],
      [0, 64],
    ] as const)
      expect(await refusal([bomb(width, height)])).toContain(`is ${width}x${height};`)
    expect(await refusal([flat(RED)], { mask: bomb(30_000, 1) })).toContain('The mask is 30000x1')
    expect(await refusal([uri(gif([60_000, 60_000]), 'gif')])).toContain('could not be decoded')
  })

  test('that is damaged, or a mask without an alpha channel, is the buyer’s error', async () => {
    const whole = png(64, 64, noisy)
    for (const bytes of [
      whole.subarray(0, 60),
      whole.subarray(0, whole.length - 900),
      png(64, 64, noisy, { claims: [512, 512] }),
    ])
      expect(await refusal([uri(bytes)])).toContain('could not be decoded')
    expect(await refusal([flat(RED)], { mask: uri(gif(), 'gif') })).toContain('The mask is not a PNG file')
    expect(await refusal([flat(RED)], { mask: uri(png(64, 64, () => RED, { type: 2 })) })).toContain('no alpha channel')
  })
})

test('a PNG of ours is read by others, and one of theirs by us', async () => {
  const data = Uint8Array.from({ length: 33 * 17 * 4 }, (_, i) => (i * 89) % 256)
  const written = await encodePng({ width: 33, height: 17, data })
  expect(await decodePng(written)).toEqual({ width: 33, height: 17, data })
  for (const compressionLevel of [0, 6])
    expect((await decodePng(await new Bun.Image(written).png({ compressionLevel }).bytes())).data).toEqual(data)
  await expect(decodePng(png(2, 2, () => RED, { type: 2 }))).rejects.toThrow('8-bit RGBA')
})
