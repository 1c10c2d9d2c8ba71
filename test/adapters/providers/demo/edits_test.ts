import { afterAll, expect, test } from 'bun:test'
import { crc32, deflateSync } from 'node:zlib'
import { sketchVendor } from '../../../../adapters/providers/demo/images.ts'
import {
  labelIn,
  layer,
  scenery,
  skyArt,
  frontArt,
  stageOver,
} from '../../../../adapters/providers/demo/sketch/overlay.ts'
import { readPrompt } from '../../../../adapters/providers/demo/sketch/brief.ts'
import { decodePng, encodePng, type Raster } from '../../../../adapters/providers/demo/sketch/png.ts'
import { ApiError, type ImageEdit } from '../../../../core/mod.ts'

const vendor = sketchVendor()
afterAll(() => vendor.close())

const never = new AbortController().signal
const NIGHT = 'make it night with stars'
const uri = (bytes: Uint8Array, type = 'png') => `data:image/${type};base64,${Buffer.from(bytes).toString('base64')}`

type Pixel = readonly [r: number, g: number, b: number, a: number]
const RED: Pixel = [210, 30, 30, 255]
const GREEN: Pixel = [30, 190, 40, 255]
const BLUE: Pixel = [30, 50, 210, 255]
const GOLD: Pixel = [230, 190, 20, 255]

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
  look: { type?: 2 | 6; claims?: readonly [number, number] } = {},
): Buffer {
  const type = look.type ?? 6
  const header = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 8, type, 0, 0, 0])
  header.writeUInt32BE(look.claims?.[0] ?? width, 0)
  header.writeUInt32BE(look.claims?.[1] ?? height, 4)
  const rows = Array.from({ length: height }, (_, y) => [
    0,
    ...Array.from({ length: width }, (_, x) => pixel(x, y).slice(0, type === 6 ? 4 : 3)).flat(),
  ])
  const body = deflateSync(Buffer.from(rows.flat()))
  return Buffer.concat([
    Buffer.from('89504e470d0a1a0a', 'hex'),
    chunk('IHDR', header),
    chunk('IDAT', body),
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

const job = (prompt: string, images: readonly string[], more: Partial<ImageEdit> = {}): ImageEdit => ({
  model: 'sketch',
  prompt,
  width: 64,
  height: 64,
  n: 1,
  images,
  ...more,
})
const edit = async (prompt: string, images: readonly string[], more?: Partial<ImageEdit>) => {
  const made = (await vendor.edit?.(job(prompt, images, more), { signal: never })) ?? []
  return made.map(({ url }) => url)
}
const read = (url: string | undefined): Raster =>
  decodePng(Buffer.from((url as string).slice('data:image/png;base64,'.length), 'base64'))
const at = ({ width, data }: Raster, x: number, y: number) => [
  ...data.subarray((y * width + x) * 4, (y * width + x) * 4 + 4),
]
const refusal = async (images: readonly string[], more?: Partial<ImageEdit>) => {
  const cause = await edit('a fox', images, more).then(
    () => undefined,
    (error: unknown) => error,
  )
  return cause instanceof ApiError && cause.code === 'INVALID_IMAGE' ? String(cause.parts.details) : cause
}

/** The mean difference of red, green and blue from one colour. */
function distance({ data }: Raster, color: Pixel): number {
  let sum = 0
  for (let i = 0; i < data.length; i++) if (i % 4 !== 3) sum += Math.abs((data[i] as number) - (color[i % 4] as number))
  return sum / ((data.length * 3) / 4)
}

test.each(['64x64', '96x64', '128x300', '512x96'])('an edit is a PNG of exactly the asked size, %s', async (size) => {
  const [width, height] = size.split('x').map(Number) as [number, number]
  const { width: wide, height: tall } = read((await edit('at sunset', [flat(GREEN, 40, 30)], { width, height }))[0])
  expect(`${wide}x${tall}`).toBe(size)
})

const wishes = [
  NIGHT,
  'a sunny day',
  'black and white',
  'make it blue',
  'pixel art',
  'negative',
  'pencil sketch',
  'poster',
  'snow',
  'improve it',
  '',
]
test.each(wishes)('an edit can be seen, of any colour: "%s"', async (prompt) => {
  const colors: Pixel[] = [RED, BLUE, [0, 0, 0, 255], [255, 255, 255, 255], [128, 128, 128, 255]]
  const made = await Promise.all(colors.map((color) => edit(prompt, [flat(color)])))
  expect(made.map(([url], order) => distance(read(url), colors[order] as Pixel)).filter((far) => far < 10)).toEqual([])
})

test('the same edit is the same picture; its variants, other words and other sources make others', async () => {
  const source = [flat(GOLD)]
  const [three, two, other, blue] = await Promise.all([
    edit(NIGHT, source, { n: 3 }),
    edit(NIGHT, source, { n: 2 }),
    edit('dawn', source),
    edit(NIGHT, [flat(BLUE)]),
  ])
  expect(two).toEqual(three.slice(0, 2))
  expect(new Set([...three, ...other, ...blue]).size).toBe(5)
})

test('what a mask keeps is the source byte for byte, half transparent pixels too, and what it opens is changed', async () => {
  const source = png(96, 64, noisy)
  const hole = (x: number, y: number) => x >= 20 && x < 80 && y >= 10
  const [url] = await edit(`${NIGHT} and a fox`, [uri(source)], {
    width: 96,
    mask: mask(96, 64, (x, y) => (hole(x, y) ? 0 : 255)),
  })
  const picture = read(url)
  let changed = 0
  for (let y = 0; y < 64; y++) {
    for (let x = 0; x < 96; x++) {
      if (!hole(x, y)) expect(at(picture, x, y)).toEqual([...noisy(x, y)])
      else if (`${at(picture, x, y)}` !== `${noisy(x, y)}`) changed++
    }
  }
  expect(changed).toBeGreaterThan(60 * 54 * 0.98)
})

test('a mask is scaled with its source', async () => {
  const picture = read(
    (
      await edit(NIGHT, [flat(GOLD, 16, 16)], { width: 128, height: 128, mask: mask(16, 16, (x) => (x < 8 ? 255 : 0)) })
    )[0],
  )
  const row = Array.from({ length: 128 }, (_, x) => `${at(picture, x, 70)}` === `${GOLD}`)
  expect([row.lastIndexOf(true), row.indexOf(false)]).toEqual([63, 64])
})

test('a half transparent mask mixes', async () => {
  const [open, half] = await Promise.all(
    [0, 128].map(async (alpha) => read((await edit(NIGHT, [flat(GOLD)], { mask: mask(64, 64, () => alpha) }))[0])),
  )
  const [all, some] = [distance(open as Raster, GOLD), distance(half as Raster, GOLD)]
  expect(some / all).toBeCloseTo(0.5, 1)
})

test('a mask that opens nothing changes nothing; one without an alpha channel is refused', async () => {
  const picture = read((await edit(NIGHT, [uri(png(64, 64, noisy))], { mask: mask(64, 64, () => 255) }))[0])
  expect(picture.data.every((value, i) => value === noisy((i >> 2) % 64, Math.floor(i / 256))[i % 4])).toBe(true)
  expect(await refusal([flat(RED)], { mask: uri(png(64, 64, () => RED, { type: 2 })) })).toContain('no alpha channel')
})

const fusions = [
  [2, 128, 128],
  [2, 96, 160],
  [3, 192, 128],
  [4, 128, 128],
  [5, 160, 160],
] as const
test.each(fusions)('%i sources are all in the fused picture, %ix%i', async (count, width, height) => {
  const colors = [RED, GREEN, BLUE, GOLD, [150, 40, 160, 255] as Pixel].slice(0, count)
  const picture = read(
    (
      await edit(
        'put these together',
        colors.map((color) => flat(color, 50, 50)),
        { width, height },
      )
    )[0],
  )
  const seen = new Map<number, number>()
  for (let i = 0; i < picture.data.length; i += 4) {
    const off = colors.map((color) =>
      [0, 1, 2].reduce((sum, part) => sum + Math.abs((picture.data[i + part] as number) - (color[part] as number)), 0),
    )
    const nearest = off.indexOf(Math.min(...off))
    if ((off[nearest] as number) < 190) seen.set(nearest, (seen.get(nearest) ?? 0) + 4 / picture.data.length)
  }
  for (const order of colors.keys()) expect(seen.get(order) ?? 0).toBeGreaterThan(0.4 / count)
})

test('a source of one pixel is enough, even an invisible one', async () => {
  const pictures = await Promise.all(
    [[RED], [[0, 0, 0, 0] as Pixel], [RED, BLUE]].map((colors) =>
      edit(
        'a cat',
        colors.map((color) => flat(color, 1, 1)),
      ),
    ),
  )
  expect(pictures.map(([url]) => read(url).data.every((value, i) => i % 4 !== 3 || value === 255))).toEqual([
    true,
    true,
    true,
  ])
})

/** A JPEG whose EXIF says that it lies on its side: its left edge is the upper one. */
function onItsSide(jpeg: Uint8Array): Uint8Array {
  const tiff = Buffer.from('4d4d002a000000080001011200030000000100060000000000000000', 'hex')
  const exif = Buffer.concat([Buffer.from('Exif\u0000\u0000'), tiff])
  return Buffer.concat([jpeg.subarray(0, 2), Buffer.from([0xff, 0xe1, 0, exif.length + 2]), exif, jpeg.subarray(2)])
}

test('a photo that lies on its side is looked at upright', async () => {
  const jpeg = await new Bun.Image(png(64, 32, (x) => (x < 32 ? RED : BLUE))).jpeg({ quality: 95 }).bytes()
  const picture = read((await edit('a day', [uri(onItsSide(jpeg), 'jpeg')], { height: 128 }))[0])
  const [top, low] = [at(picture, 32, 20), at(picture, 32, 100)] as [number[], number[]]
  expect([(top[0] as number) > (top[2] as number), (low[2] as number) > (low[0] as number)]).toEqual([true, true])
})

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

test('JPEG, GIF, WEBP and PNG without alpha are edited, whatever their media type says', async () => {
  const source = png(64, 64, () => RED, { type: 2 })
  const kinds = [source, await new Bun.Image(source).jpeg().bytes(), await new Bun.Image(source).webp().bytes(), gif()]
  const pictures = await Promise.all(kinds.map((bytes) => edit(NIGHT, [uri(bytes, 'x-unknown')])))
  expect(pictures.map(([url]) => read(url).width)).toEqual([64, 64, 64, 64])
})

const strangers: Readonly<Record<string, string>> = {
  BMP: uri(Buffer.from('BM'.padEnd(80, '\u0000')), 'bmp'),
  HEIC: uri(Buffer.from('\u0000\u0000\u0000\u0018ftypheic\u0000\u0000\u0000\u0000mif1heic'), 'heic'),
  AVIF: uri(Buffer.from('\u0000\u0000\u0000\u0018ftypavif\u0000\u0000\u0000\u0000mif1avif'), 'avif'),
  SVG: uri(Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>'), 'svg+xml'),
  nothing: uri(Buffer.alloc(0)),
  'a URL': 'https://example.com/fox.png',
  'a PNG in name only': uri(Buffer.from('89504e470d0a1a0a', 'hex')),
  'a JPEG in name only': uri(Buffer.from('ffd8ffe0', 'hex'), 'jpeg'),
}
test.each(Object.keys(strangers))('%s is refused with what is accepted, before a thread starts', async (name) => {
  const stub = sketchVendor({ program: new URL('data:text/javascript,throw new Error("started")') })
  const cause = await stub.edit?.(job('a fox', [flat(RED), strangers[name] as string]), { signal: never }).then(
    () => undefined,
    (error: unknown) => error,
  )
  expect(cause).toBeInstanceOf(ApiError)
  expect((cause as ApiError).code).toBe('INVALID_IMAGE')
  expect(String((cause as ApiError).parts.details)).toMatch(
    /^Image 2 (is not a PNG, JPEG, GIF, WEBP file|does not say how large)/,
  )
  await stub.close()
})

test('a header that promises too many pixels is refused before anything is decoded', async () => {
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

test('a damaged file is refused by name of the fault, not as a failure of ours', async () => {
  const whole = png(64, 64, noisy)
  const short = png(64, 64, noisy, { claims: [512, 512] })
  for (const bytes of [whole.subarray(0, 60), whole.subarray(0, whole.length - 900), short])
    expect(await refusal([uri(bytes)])).toContain('could not be decoded')
  expect(await refusal([])).toContain('1 to 16 images')
  expect(await refusal([flat(RED)], { mask: uri(gif(), 'gif') })).toContain('The mask is not a PNG file')
})

test('an edit says that it is procedural: in its metadata, in its picture and in its revised prompt', async () => {
  const prompt = `${NIGHT} ☾ ${'🦊'.repeat(300)}`
  const [made] = (await vendor.edit?.(job(prompt, [flat(BLUE)], { width: 512, height: 512 }), { signal: never })) ?? []
  const bytes = Buffer.from(made?.url.split(',')[1] ?? '', 'base64').toString()
  expect(bytes).toContain('Description\u0000Procedural edit by Farebox - not a model')
  expect(bytes).toContain(`Title\u0000\u0000\u0000\u0000\u0000${NIGHT} ☾ 🦊`)
  const [label, words] = (made?.revisedPrompt ?? '').split(': ') as [string, string]
  expect(label).toBe('Procedural edit by Farebox - not a model')
  expect([words.startsWith(`${NIGHT} ☾`), Array.from(words).length, words.endsWith('🦊')]).toEqual([true, 200, true])
  const { data } = read(made?.url)
  const white = Array.from({ length: 512 * 40 }, (_, i) => i + 512 * 472).filter(
    (i) => Math.min(data[i * 4] as number, data[i * 4 + 1] as number, data[i * 4 + 2] as number) > 235,
  )
  expect(white.length).toBeGreaterThan(200)
})

test('the label of a masked edit lies where everything may change, or nowhere', () => {
  const whole = { x: 0, y: 0, width: 800, height: 600 }
  const spots: { x: number; y: number; width: number; height: number }[] = []
  const area = { x: 200, y: 100, width: 500, height: 300 }
  expect(labelIn(area, whole, (spot) => spots.push(spot) > 3)).toStartWith('<g opacity="0.8">')
  for (const { x, y, width, height } of spots)
    expect([x >= 200, y >= 100, x + width <= 700, y + height <= 400]).toEqual([true, true, true, true])
  expect(labelIn(area, whole, () => false)).toBeUndefined()
  expect(labelIn({ ...area, width: 60 }, whole, () => true)).toBeUndefined()
})

test('no character of a prompt enters the markup of a layer', () => {
  for (const prompt of [
    'add a red fox ]]></svg><image href="file:///etc/passwd"/>',
    'replace it with rain, fog, snow, stars, a moon, a rainbow & aurora at night "><script>',
  ]) {
    const area = { x: 3, y: 5, width: 70, height: 300 }
    const stage = () => stageOver(readPrompt(prompt, 'seed'), area, { seed: 'seed', horizon: 0.5 })
    for (const art of [
      scenery(stage()),
      skyArt(stage(), { found: true, empty: true }),
      frontArt(stage(), prompt, { seed: 'seed', empty: false }),
    ]) {
      const shape = /<\/?(svg|defs|g|path|rect|circle|ellipse|linearGradient|stop)( [a-zA-Z0-9:-]+="[^"<>&]*")*\/?>/g
      const drawing = layer({ width: 200, height: 400 }, area, { stage: art })
      expect(drawing.replace(shape, '')).toBe('')
      expect(drawing).not.toMatch(/href|script|image|NaN|undefined|Infinity/)
    }
  }
})

test('encodePng() and decodePng() agree with another program about every byte', async () => {
  const data = Uint8Array.from(
    { length: 33 * 17 * 4 },
    (_, i) => noisy((i >> 2) % 33, Math.floor(i / 132))[i % 4] as number,
  )
  const written = await encodePng({ width: 33, height: 17, data })
  expect(decodePng(written)).toEqual({ width: 33, height: 17, data })
  for (const compressionLevel of [0, 6])
    expect(decodePng(await new Bun.Image(written).png({ compressionLevel }).bytes()).data).toEqual(data)
  expect(() => decodePng(png(2, 2, () => RED, { type: 2 }))).toThrow('8-bit RGBA')
})

test('an abort ends an edit at once and frees its thread, again and again', async () => {
  const one = sketchVendor({ threads: 1 })
  const large = job(NIGHT, [flat(RED, 200, 200)], { width: 1024, height: 1024, n: 2 })
  for (let times = 0; times < 3; times++) {
    const stopped = new AbortController()
    const work = one.edit?.(large, { signal: stopped.signal }).catch((cause: unknown) => cause)
    await new Promise((resolve) => setImmediate(resolve))
    stopped.abort(new Error('enough'))
    expect(await work).toMatchObject({ message: 'enough' })
  }
  expect(await one.edit?.(job('a fox', [flat(RED)]), { signal: never })).toHaveLength(1)
  await one.close()
  await expect(one.edit?.(job('a fox', [flat(RED)]), { signal: never })).rejects.toThrow('closed')
})
