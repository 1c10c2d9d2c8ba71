import { afterAll, expect, test } from 'bun:test'
import { crc32 } from 'node:zlib'
import { sketchVendor } from '../../../../adapters/providers/demo/images.ts'
import { readPrompt } from '../../../../adapters/providers/demo/sketch/brief.ts'
import { sceneOf } from '../../../../adapters/providers/demo/sketch/scene.ts'

const vendor = sketchVendor()
afterAll(() => vendor.close())

const never = new AbortController().signal
const job = (prompt: string, size = '256x256', n = 1) => {
  const [width, height] = size.split('x').map(Number) as [number, number]
  return { model: 'sketch', prompt, width, height, n }
}
const draw = async (prompt: string, size?: string, n?: number) => {
  const images = await vendor.generate(job(prompt, size, n), { signal: never })
  return images.map(({ url }) => url)
}

/** A vendor whose threads run this text instead of the drawing program; `sketch` and `answer` are in scope. */
const acting = (body: string, threads = 1) => {
  const program = `import { parentPort, threadId, isMainThread } from 'node:worker_threads'
    parentPort.on('message', (sketch) => { const answer = (url) => parentPort.postMessage({ url }); ${body} })`
  return sketchVendor({ threads, program: new URL(`data:text/javascript,${encodeURIComponent(program)}`) })
}

/** The chunks of a PNG in a data URI, each with its checksum verified. */
function chunksOf(url: string): { type: string; data: Buffer }[] {
  expect(url).toStartWith('data:image/png;base64,')
  const png = Buffer.from(url.slice(url.indexOf(',') + 1), 'base64')
  expect(png.subarray(0, 8).toString('hex')).toBe('89504e470d0a1a0a')
  const chunks: { type: string; data: Buffer }[] = []
  for (let at = 8; at < png.length;) {
    const end = at + 8 + png.readUInt32BE(at)
    expect(crc32(png.subarray(at + 4, end))).toBe(png.readUInt32BE(end))
    chunks.push({ type: png.toString('latin1', at + 4, at + 8), data: png.subarray(at + 8, end) })
    at = end + 4
  }
  return chunks
}
const sizeOf = (url: string) => {
  const [header] = chunksOf(url)
  return `${header?.data.readUInt32BE(0)}x${header?.data.readUInt32BE(4)}`
}

const hostile = [
  '',
  '   ',
  '<script>alert(1)</script>',
  ']]></svg><image href="file:///etc/passwd"/>',
  '&amp;&#0;&bogus;',
  '"><rect fill="red"',
  '\u0000\u0001\u001b[31m\u007f',
  '\ud800 lone \udfff',
  '🦊❄️👩‍🚀',
  '東京の夜景',
  'مرحبا بالعالم',
  '\u202eright to left',
  'e\u0301'.repeat(400),
  '\ufdfa'.repeat(500),
  '__proto__ constructor toString hasOwnProperty valueOf',
  'a '.repeat(300),
  'x'.repeat(1_000_000),
  'red fox '.repeat(125_000),
]

const sizes = ['64x64', '512x512', '1024x1024', '1536x1024', '1024x1792', '2848x1600', '4096x512']
test.each(sizes)(
  'sketch draws a PNG of exactly the asked size, %s',
  async (size) => {
    const [url] = await draw('a red fox in the snow', size)
    expect(sizeOf(url as string)).toBe(size)
  },
  20_000,
)

test('sketch says in its metadata that it is procedural, and from which words it drew', async () => {
  const [url] = await draw('a café at night ☾')
  const chunks = chunksOf(url as string).filter(({ type }) => type === 'tEXt' || type === 'iTXt')
  const text = chunks.map(({ data }) => data.toString().replaceAll('\u0000', ' '))
  expect(text).toContain('Description Procedural sketch by Farebox - not a model')
  expect(text.at(-1)).toEndWith('a café at night ☾')
})

test('sketch claims no revised prompt', async () => {
  const [image] = await vendor.generate(job('a boat'), { signal: never })
  expect(Object.keys(image ?? {})).toEqual(['url'])
})

test('sketch draws the same picture for the same words, and another for others', async () => {
  const [first, again, other, odd] = await Promise.all(
    ['a blue bird', 'a blue bird', 'a blue bird!', 'a whale'].map((prompt) => draw(prompt)),
  )
  expect(again).toEqual(first as string[])
  expect(new Set([first?.[0], other?.[0], odd?.[0]]).size).toBe(3)
})

test('sketch draws n different pictures of one prompt, in an order that stays', async () => {
  const urls = await draw('a castle', '128x128', 5)
  expect(new Set(urls).size).toBe(5)
  expect(await draw('a castle', '128x128', 2)).toEqual(urls.slice(0, 2))
})

test('sketch survives every hostile prompt', async () => {
  const pictures = await Promise.all(hostile.map((prompt) => draw(prompt, '64x64')))
  expect(pictures.map(([url]) => sizeOf(url as string))).toEqual(hostile.map(() => '64x64'))
})

test('no character of a prompt enters the markup', () => {
  for (const prompt of hostile) {
    const drawing = sceneOf({ prompt, width: 512, height: 512, variant: 0 })
    const shape = /<\/?(svg|defs|g|path|rect|circle|ellipse|linearGradient|stop)( [a-zA-Z0-9:-]+="[^"<>&]*")*\/?>/g
    expect(drawing.replace(shape, '')).toBe('')
    expect(drawing).not.toMatch(/href|script|image/)
  }
})

test('every subject draws in every place, hour and weather without a broken number', async () => {
  const rows = await Bun.file(new URL('../../../../adapters/providers/demo/sketch/subjects.ts', import.meta.url)).text()
  const subjects = [...rows.matchAll(/'([a-z]+)[a-z ]*'\],/g)].map(([, name]) => name as string)
  const scenes = [
    'meadow rainbow',
    'snowy forest night aurora',
    'mountain lake dawn',
    'desert sunset',
    'ocean fog',
    'neon city rain',
    'space',
    'underwater',
    'autumn hills',
  ]
  expect(subjects.length).toBeGreaterThan(50)
  for (const [at, subject] of subjects.entries()) {
    const prompt = `two ${subject} ${scenes[at % scenes.length]}`
    const drawing = sceneOf({ prompt, width: at % 2 ? 2848 : 512, height: at % 3 ? 1600 : 4096, variant: at })
    expect(drawing).not.toMatch(/NaN|undefined|Infinity|e[+-]\d/)
  }
})

test.each([
  ['a red fox in the snow', 'fox', '#d3402f', 'snow'],
  ['an orange cat at night', 'cat', '#ef8330', undefined],
  ['a woman in a red dress, autumn', 'person', '#d3402f', 'autumn'],
  ['pirate ship in the rain', 'boat', undefined, 'rain'],
] as const)('the brief of "%s" names its subject, colour and weather', (prompt, name, color, extra) => {
  const { actors, extras } = readPrompt(prompt, 'seed')
  expect(actors.map(({ subject }) => subject.name)).toEqual([name])
  expect(actors[0]?.color).toBe(color as string)
  if (extra) expect(extras).toContain(extra)
})

test('the brief keeps a list apart and a compound together', () => {
  const cast = (prompt: string) => readPrompt(prompt, 'seed').actors.map(({ subject }) => subject.name)
  expect(cast('a cat, dog, and robin')).toEqual(['cat', 'dog', 'bird'])
  expect(cast('a teddy bear by a palm tree')).toEqual(['bear', 'palm'])
})

test('the brief counts, and takes the colour of the sky for the sky', () => {
  const { actors, wash, place, hour } = readPrompt(
    'Two foxes and a dog by the ocean at sunset, under a green sky',
    'seed',
  )
  expect(actors.map(({ subject, count }) => [subject.name, count])).toEqual([
    ['fox', 2],
    ['dog', 1],
  ])
  expect([wash, place, hour]).toEqual(['#4f9d5b', 'ocean', 'sunset'])
})

test('sketch draws on other threads, each of them again and again', async () => {
  const stub = acting('answer(isMainThread + ":" + threadId)', 2)
  const urls = (await stub.generate(job('a', '64x64', 16), { signal: never })).map(({ url }) => url)
  await stub.close()
  expect(urls.filter((url) => !url.startsWith('false:'))).toEqual([])
  expect(new Set(urls).size).toBeLessThanOrEqual(2)
})

test('an abort rejects at once, drops what waits and frees the thread', async () => {
  const stub = acting('if (sketch.prompt === "hang") for (;;); answer(sketch.prompt)')
  const stopped = new AbortController()
  const hanging = stub.generate(job('hang', '64x64', 3), { signal: stopped.signal }).catch((cause) => cause)
  const next = stub.generate(job('next'), { signal: never })
  stopped.abort(new Error('enough'))
  expect((await hanging).message).toBe('enough')
  expect(await next).toEqual([{ url: 'next' }])
  await stub.close()
})

test('an aborted signal draws nothing', async () => {
  await expect(vendor.generate(job('a fox'), { signal: AbortSignal.abort(new Error('gone')) })).rejects.toThrow('gone')
})

const crashes = [
  ['throws', 'throw new Error("boom")', 'boom'],
  ['exits', 'process.exit(3)', 'no answer'],
] as const
test.each(crashes)('a thread that %s fails its picture and is replaced', async (_, crash, reason) => {
  const stub = acting(`if (sketch.prompt === 'crash') { ${crash} } answer(sketch.prompt)`)
  const [lost, kept] = await Promise.allSettled(
    ['crash', 'after'].map((prompt) => stub.generate(job(prompt), { signal: never })),
  )
  expect(lost).toMatchObject({ status: 'rejected', reason: { message: `the sketch thread died: ${reason}` } })
  expect(kept).toMatchObject({ status: 'fulfilled', value: [{ url: 'after' }] })
  await stub.close()
})

test('a drawing that fails is an Error that says why, and the thread goes on', async () => {
  const stub = acting('sketch.prompt === "bad" ? parentPort.postMessage({ error: "no ink" }) : answer("fine")')
  await expect(stub.generate(job('bad'), { signal: never })).rejects.toThrow('sketch could not draw: no ink')
  expect(await stub.generate(job('good'), { signal: never })).toEqual([{ url: 'fine' }])
  await stub.close()
})

test('a full queue refuses, and close() rejects what is left', async () => {
  const stub = sketchVendor({
    threads: 1,
    waiting: 2,
    program: new URL('data:text/javascript,setInterval(() => {}, 1000)'),
  })
  const left = stub.generate(job('a', '64x64', 2), { signal: never }).catch((cause) => cause)
  await expect(stub.generate(job('b', '64x64', 2), { signal: never })).rejects.toThrow('too many sketches are waiting')
  await stub.close()
  expect((await left).message).toBe('the sketch vendor is closed')
  await expect(stub.generate(job('c'), { signal: never })).rejects.toThrow('closed')
})

test.each([['63x512'], ['512x4097'], ['512.5x512'], ['NaNx512']])(
  'sketch refuses a size that it does not draw, %s',
  async (size) => {
    await expect(vendor.generate(job('a fox', size), { signal: never })).rejects.toThrow('64 to 4096')
  },
)

test('idle threads let the process end', async () => {
  const door = new URL('../../../../adapters/providers/demo/images.ts', import.meta.url).href
  const code = `const { sketchVendor } = await import(${JSON.stringify(door)})
    const [{ url }] = await sketchVendor().generate(${JSON.stringify(job('a fox', '64x64'))}, { signal: new AbortController().signal })
    console.log(url.slice(0, 15))`
  const child = Bun.spawn([process.execPath, '-e', code], { stdout: 'pipe', timeout: 4000 })
  expect(await new Response(child.stdout).text()).toBe('data:image/png;\n')
  expect(await child.exited).toBe(0)
})
