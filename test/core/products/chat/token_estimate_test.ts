import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { ImageTokens } from '../../../../core/ports/vendors/chat.ts'
import { estimatePrompt, memoized, upperBound } from '../../../../core/products/chat/token_estimate.ts'
import type { Json } from '../../../../core/mod.ts'
import { dataUri, pictures, png } from '../../../samples.ts'
import { scaled } from '../../../scope.ts'

/** A token for each byte: what `upperBound()` assumes at worst. */
const bytes = async (text: string) => new TextEncoder().encode(text).length
const words = async (text: string) => text.split(/\s+/).filter(Boolean).length
const RULES: readonly (ImageTokens | undefined)[] = ['tiles_512', 'area_750', 'tiles_768', 'tiles_448', undefined]

const rowOf = (images?: ImageTokens) => (images ? { images } : {})
const estimate = (body: { [name: string]: Json }, images?: ImageTokens) =>
  estimatePrompt(body, { row: rowOf(images), countTokens: words })
const saying = (...content: Json[]) => ({ messages: [{ role: 'user', content }] })
const image = (url: string, more: { [name: string]: Json } = {}) => ({ type: 'image_url', image_url: { url, ...more } })

/** A PNG's first bytes, which alone say its size. */
function sized(width: number, height: number): string {
  const bytes = png()
  new DataView(bytes.buffer).setUint32(16, width)
  new DataView(bytes.buffer).setUint32(20, height)
  return dataUri(bytes)
}

describe('estimatePrompt()', () => {
  test('a message costs its text and 4, the reply 3', async () => {
    expect(await estimate({ messages: [{ role: 'user', content: 'one two three' }] })).toEqual({
      total: 10,
      text: 10,
      images: 0,
      tools: 0,
      messages: [7],
    })
    const both = [
      { role: 'system', content: 'be brief' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'one two' },
          { type: 'text', text: 'three' },
        ],
      },
    ]
    expect(await estimate({ messages: both })).toEqual({ total: 16, text: 16, images: 0, tools: 0, messages: [6, 7] })
    expect(await estimate({ messages: [] })).toMatchObject({ total: 3, messages: [] })
  })

  test('the text of a message is its parts, reasoning, name and tool calls, a line each', async () => {
    const seen: string[] = []
    const call = { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"city":"Oslo"}' } }
    const content = [
      { type: 'text', text: 'first', cache_control: { type: 'ephemeral' } },
      { type: 'text', text: 'second' },
    ]
    const message = {
      role: 'assistant',
      content,
      reasoning_content: 'because',
      name: 'ann',
      tool_calls: [call],
      tool_call_id: 'call_0',
    }
    const spelled = async (text: string) => seen.push(text)
    await estimatePrompt({ messages: [message], stop: 'never' }, { row: {}, countTokens: spelled })
    expect(seen).toEqual(['first\nsecond\nbecause\nann\nweather\n{"city":"Oslo"}'])
  })

  test('tools and a schema cost the tokens of their JSON', async () => {
    const tools = [{ type: 'function', function: { name: 'weather', parameters: {} } }]
    const format = { type: 'json_schema', json_schema: { name: 'reply', schema: { type: 'object' } } }
    const reported = await estimatePrompt(
      { messages: [], tools, response_format: format },
      { row: {}, countTokens: bytes },
    )
    const [ofTools, ofSchema] = [JSON.stringify(tools).length, JSON.stringify(format.json_schema).length]
    expect(reported).toEqual({
      total: 3 + ofTools + ofSchema,
      text: 3 + ofSchema,
      images: 0,
      tools: ofTools,
      messages: [],
    })
    expect(await estimate({ messages: [], tools: [], response_format: { type: 'json_object' } })).toMatchObject({
      total: 3,
      tools: 0,
    })
    expect(await estimate({ messages: [], functions: [{ name: 'weather' }] })).toMatchObject({ tools: 1 })
  })

  test('pictures count by the rule of their row, as computed by hand', async () => {
    const sizes: readonly (readonly [number, number])[] = [
      [1, 1],
      [384, 384],
      [385, 100],
      [448, 448],
      [512, 513],
      [768, 768],
      [1024, 1024],
      [896, 449],
      [2048, 4096],
      [3000, 8000],
      [4000, 100],
      [10_000, 10_000],
    ]
    const expected: Readonly<Record<ImageTokens, readonly number[]>> = {
      // 85 + 170 for each tile:  1    1    1    1    2    4    4    2     6     8   4 (2048x51)  4
      tiles_512: [255, 255, 255, 255, 425, 765, 765, 425, 1105, 1445, 765, 765],
      // 1, 147456, 38500, 200704, 262656, 589824, 1048576, 402304, 784x1568, 588x1568, 1568x39, 1568x1568 by 750
      area_750: [1, 197, 52, 268, 351, 787, 1399, 537, 1640, 1230, 82, 3279],
      // tiles:    -    -    1    1    1    1     4    2   2x4 (1536x3072) 2x4 (1152x3072) 4 (3072x77) 4x4
      tiles_768: [258, 258, 258, 258, 258, 258, 1032, 516, 2064, 2064, 1032, 4128],
      // tiles and one:  1    1    1    1    4     4     6    4     6     6     6     6
      tiles_448: [512, 512, 512, 512, 1280, 1280, 1792, 1280, 1792, 1792, 1792, 1792],
    }
    for (const [rule, costs] of Object.entries(expected) as [ImageTokens, readonly number[]][]) {
      const counted: number[] = []
      for (const [width, height] of sizes)
        counted.push((await estimate(saying(image(sized(width, height))), rule)).images)
      expect([rule, counted]).toEqual([rule, [...costs]])
    }
  })

  test('low detail is 85 where the rule knows it', async () => {
    const low = saying(image(sized(1024, 1024), { detail: 'low' }))
    expect(await estimate(low, 'tiles_512')).toEqual({ total: 92, text: 7, images: 85, tools: 0, messages: [89] })
    expect(await estimate(low, 'tiles_768')).toMatchObject({ images: 1032 })
  })

  test('a picture that nobody can see counts as 1024x1024, and none of its base64 as text', async () => {
    const junk = `data:image/png;base64,${'A'.repeat(100_000)}`
    for (const url of ['https://example.com/cat.png', junk, 'data:image/png;base64,***', 'data:text/plain,hello', '']) {
      expect(await estimate(saying(image(url), { type: 'text', text: 'what is it' }), 'tiles_512')).toEqual({
        total: 775,
        text: 10,
        images: 765,
        tools: 0,
        messages: [772],
      })
    }
    expect(await estimate(saying({ type: 'image_url', image_url: sized(4, 4) }))).toMatchObject({
      images: 255,
      text: 7,
    })
  })

  test('every format is read, and a large picture by its head', async () => {
    for (const [type, bytes] of Object.entries(pictures))
      expect(await estimate(saying(image(dataUri(bytes, type))), 'area_750')).toMatchObject({ images: 2 })
    const large = `${sized(512, 513).replace(/=*$/, '')}${'A'.repeat(4_000_000)}`
    expect(await estimate(saying(image(large)), 'tiles_512')).toMatchObject({ images: 425 })
  })

  test('audio and files count by their bytes', async () => {
    const mp3 = { type: 'input_audio', input_audio: { data: 'AAAA'.repeat(1_000), format: 'mp3' } }
    const wav = { type: 'input_audio', input_audio: { data: `UklGRgAA${'AAAA'.repeat(998)}`, format: 'wav' } }
    const pdf = {
      type: 'file',
      file: { filename: 'a.pdf', file_data: `data:application/pdf;base64,${'AAAA'.repeat(1_000)}` },
    }
    expect(await estimate(saying(mp3))).toEqual({ total: 31, text: 31, images: 0, tools: 0, messages: [28] })
    expect(await estimate(saying(wav))).toMatchObject({ messages: [7] })
    expect(await estimate(saying(pdf))).toMatchObject({ messages: [754] })
    expect(await estimate(saying({ type: 'file', file: { file_id: 'file_1' } }))).toMatchObject({ messages: [5] })
  })

  test('counts the JSON of parts without a rule, whatever their shape', async () => {
    const counted = async (message: Json) =>
      (await estimatePrompt({ messages: [message] }, { row: {}, countTokens: bytes })).messages[0]
    expect(await counted(null)).toBe(4 + 4)
    expect(await counted('hello')).toBe(4 + 7)
    expect(await counted([1, 2])).toBe(4 + 5)
    expect(await counted({})).toBe(4)
    expect(await counted({ role: 'assistant', content: null })).toBe(4)
    expect(await counted({ content: 12 })).toBe(4 + 2)
    expect(await counted({ content: { a: 1 } })).toBe(4 + 7)
    expect(await counted({ content: [null, 1, 'x', []] })).toBe(4 + '[null]\n1\n"x"\n'.length)
    expect(await counted({ content: [{ type: 'text' }] })).toBe(4 + '{"type":"text"}'.length)
    expect(await counted({ content: [{ type: 'image_url', image_url: { url: 1 } }] })).toBe(
      4 + '{"type":"image_url","image_url":{"url":1}}'.length,
    )
    expect(await counted({ tool_calls: [null, { function: { name: null, arguments: { a: 1 } } }] })).toBe(
      4 + 'null\n\n{"a":1}'.length,
    )
    for (const messages of [null, 'hello', 7, { 0: 'x' }] as Json[])
      expect(await estimate({ messages })).toMatchObject({ total: 3, messages: [] })
    expect(await estimate({})).toMatchObject({ total: 3, messages: [] })
  })

  test('JSON nested deeper than 200 levels counts for about its length', async () => {
    const nested = (levels: number) => JSON.parse(`${'['.repeat(levels)}${']'.repeat(levels)}`) as Json
    const counted = async (value: Json) =>
      await estimatePrompt({ messages: [{ content: [value] }], tools: [value] }, { row: {}, countTokens: bytes })
    expect(await counted(nested(200))).toMatchObject({ tools: 603, messages: [404] })
    expect(await counted(nested(201))).toMatchObject({ tools: 606, messages: [607] })
    expect(await counted(nested(100_000))).toMatchObject({ tools: 300_003, messages: [300_004] })
    expect(upperBound({ messages: [], tools: [nested(100_000)] }, {})).toBe(300_006)
    const named = { key: 'value', list: [1, null, nested(300)] }
    const { tools } = await estimatePrompt(
      { messages: [], tools: [named] },
      {
        row: {},
        countTokens: async (text) => Number(text.includes('key') && text.includes('value') && text.includes('list')),
      },
    )
    expect(tools).toBe(1)
  })
})

const part = fc.oneof(
  fc.jsonValue(),
  fc.record({ type: fc.constant('text'), text: fc.oneof(fc.string({ unit: 'binary' }), fc.jsonValue()) }),
  fc.record({
    type: fc.constant('image_url'),
    image_url: fc.oneof(
      fc.jsonValue(),
      fc.record({
        url: fc.oneof(
          fc.webUrl(),
          fc.tuple(fc.nat(), fc.nat()).map(([width, height]) => sized(width, height)),
        ),
        detail: fc.constantFrom('low', 'high'),
      }),
    ),
  }),
  fc.record({
    type: fc.constantFrom('input_audio', 'file'),
    input_audio: fc.oneof(fc.jsonValue(), fc.record({ data: fc.base64String() })),
    file: fc.oneof(fc.jsonValue(), fc.record({ file_data: fc.base64String() })),
  }),
)
const message = fc.oneof(
  fc.jsonValue(),
  fc.record(
    {
      content: fc.oneof(fc.string({ unit: 'binary' }), fc.jsonValue(), fc.array(part)),
      reasoning_content: fc.jsonValue(),
      name: fc.jsonValue(),
      tool_calls: fc.oneof(fc.jsonValue(), fc.array(fc.record({ function: fc.jsonValue() }))),
    },
    { requiredKeys: [] },
  ),
)
const body = fc.oneof(
  fc.dictionary(fc.string(), fc.jsonValue()),
  fc.record({
    messages: fc.oneof(fc.array(message), fc.jsonValue()),
    tools: fc.jsonValue(),
    functions: fc.jsonValue(),
    response_format: fc.oneof(
      fc.jsonValue(),
      fc.record({ type: fc.constant('json_schema'), json_schema: fc.jsonValue() }),
    ),
  }),
)

describe('any body', () => {
  test('is estimated, never above its upper bound, and the parts are the whole', async () => {
    await fc.assert(
      fc.asyncProperty(body, fc.constantFrom(...RULES), async (any, images) => {
        const request = any as { [name: string]: Json }
        const estimate = await estimatePrompt(request, { row: rowOf(images), countTokens: bytes })
        expect(estimate.total).toBe(estimate.text + estimate.images + estimate.tools)
        expect(estimate.messages.reduce((sum, tokens) => sum + tokens, 0)).toBeLessThanOrEqual(estimate.total)
        expect(
          Object.values(estimate)
            .flat()
            .every((number) => Number.isSafeInteger(number) && number >= 0),
        ).toBe(true)
        expect(upperBound(request, rowOf(images))).toBeGreaterThanOrEqual(estimate.total)
      }),
      { seed: 7, numRuns: scaled(60, 300) },
    )
  })
})

describe('upperBound()', () => {
  test('is literal', () => {
    expect(upperBound({ messages: [{ role: 'user', content: 'hello' }] }, {})).toBe(12)
    expect(upperBound({ messages: [{ role: 'user', content: 'é€😀' }] }, {})).toBe(3 + 4 + 2 + 3 + 4)
    expect(upperBound({ messages: [], tools: [{ a: 1 }] }, {})).toBe(12)
  })

  test('takes every picture for the largest of its rule, unseen', () => {
    const bounds = RULES.map(
      (rule) => upperBound(saying(image(sized(1, 1)), image('https://example.com/a')), rowOf(rule)) - 7,
    )
    expect(bounds).toEqual([2 * 1445, 2 * 3279, 2 * 4128, 2 * 1792, 2 * 1445])
  })
})

describe('memoized()', () => {
  const LONG = 'x'.repeat(2_001)

  function counter() {
    const requests: string[] = []
    const count = async (text: string) => {
      requests.push(text)
      return text.length
    }
    return { requests, count }
  }

  test('counts a long text once, a short one each time', async () => {
    const { requests, count } = counter()
    const counted = memoized(count)
    expect([await counted(LONG), await counted(LONG), await counted('short'), await counted('short')]).toEqual([
      2_001, 2_001, 5, 5,
    ])
    expect(requests).toEqual([LONG, 'short', 'short'])
  })

  test('counts a short one once as well where that is asked for', async () => {
    const { requests, count } = counter()
    const counted = memoized(count, { shortest: 0 })
    expect([await counted('short'), await counted('short'), await counted('shor')]).toEqual([5, 5, 4])
    expect(requests).toEqual(['short', 'shor'])
  })

  test('tells texts apart that differ in one character', async () => {
    const { requests, count } = counter()
    const counted = memoized(count)
    for (const end of ['a', 'b', 'é', '']) expect(await counted(LONG + end)).toBe(2_001 + end.length)
    expect(requests).toHaveLength(4)
  })

  test('counts that are under way are shared', async () => {
    const { requests, count } = counter()
    const counted = memoized(count)
    expect(await Promise.all([counted(LONG), counted(LONG), counted(LONG)])).toEqual([2_001, 2_001, 2_001])
    expect(requests).toHaveLength(1)
  })

  test('keeps so many entries, the ones used last', async () => {
    const { requests, count } = counter()
    const counted = memoized(count, { entries: 2 })
    for (const end of ['a', 'b', 'a', 'c', 'a', 'b']) await counted(LONG + end)
    expect(requests.map((text) => text.slice(-1))).toEqual(['a', 'b', 'c', 'b'])
  })

  test('a failed count is forgotten', async () => {
    let calls = 0
    const counted = memoized(async (text) => {
      calls += 1
      if (calls === 1) throw new Error('no tokenizer')
      return text.length
    })
    await expect(async () => await counted(LONG)).toThrow('no tokenizer')
    expect(await counted(LONG)).toBe(2_001)
    expect(calls).toBe(2)
  })

  test('what is remembered is answered at once, and not by a promise', async () => {
    const counted = memoized(async (text) => text.length)
    await counted(LONG)
    expect(counted(LONG)).toBe(2_001)
  })
})
