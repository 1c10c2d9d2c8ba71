import { describe, expect, test } from 'bun:test'
import { Type } from '@sinclair/typebox'
import { ApiError } from '../../../core/http/errors.ts'
import { budget, holdOn, readBody, readRaw } from '../../../core/http/body_bytes.ts'
import { inputParser, parseJson } from '../../../core/http/request_body.ts'
import { decodeDataUri } from '../../../core/lib/base64.ts'
import { clip, isWebUrl, quoted } from '../../../core/lib/text.ts'
import { testClock } from '../../kit.ts'

const post = (body: BodyInit | null, headers: Record<string, string> = {}) =>
  new Request('http://farebox.test/', { method: 'POST', headers, body })

/** A body without a declared length, in these chunks; `pulled` counts how many were asked for. */
function streamed(...chunks: readonly (string | Uint8Array)[]) {
  const state = { pulled: 0 }
  const stream = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const chunk = chunks[state.pulled++]
        if (chunk === undefined) return controller.close()
        controller.enqueue(typeof chunk === 'string' ? new TextEncoder().encode(chunk) : chunk)
      },
    },
    { highWaterMark: 0 },
  )
  return { state, request: post(stream) }
}

async function apiErrorOf(work: () => unknown): Promise<ApiError> {
  try {
    await work()
  } catch (error) {
    if (error instanceof ApiError) return error
    throw error
  }
  throw new Error('nothing was thrown')
}

describe('reading a body', () => {
  test('no body reads as empty', async () => {
    expect(await readBody(post(null), 10)).toBe('')
  })

  test('a body of exactly the limit passes, declared or not', async () => {
    expect(await readBody(post('0123456789', { 'content-length': '10' }), 10)).toBe('0123456789')
    expect(await readBody(streamed('01234', '56789').request, 10)).toBe('0123456789')
  })

  test('one byte more is TOO_LARGE, declared or not', async () => {
    const declared = await apiErrorOf(() => readBody(post('0123456789a', { 'content-length': '11' }), 10))
    const counted = await apiErrorOf(() => readBody(streamed('01234', '56789', 'a').request, 10))
    for (const { code, parts } of [declared, counted]) {
      expect(code).toBe('TOO_LARGE')
      expect(parts).toEqual({ message: 'The request body may be at most 10 bytes.', fields: { max_bytes: 10 } })
    }
  })

  test('a body that is declared too large is refused unread (contract 3.5)', async () => {
    const { state, request } = streamed('x')
    request.headers.set('content-length', '1000000')
    expect((await apiErrorOf(() => readBody(request, 10))).code).toBe('TOO_LARGE')
    expect(state.pulled).toBe(0)
  })

  test('an endless body is read no further than the limit', async () => {
    const { state, request } = streamed(...Array.from({ length: 100 }, () => 'x'.repeat(10)))
    expect((await apiErrorOf(() => readBody(request, 25))).code).toBe('TOO_LARGE')
    expect(state.pulled).toBeLessThanOrEqual(4)
  })

  test('a wrong or malformed Content-Length does not lift the limit', async () => {
    for (const length of ['5', '-1', 'many', '']) {
      const { request } = streamed('0123456789', 'a')
      request.headers.set('content-length', length)
      expect((await apiErrorOf(() => readBody(request, 10))).code).toBe('TOO_LARGE')
    }
  })

  test('a character split over chunks stays whole, and a byte order mark is dropped (contract 4.1)', async () => {
    const bytes = new TextEncoder().encode('\ufeff{"a":"狐"}')
    for (let first = 0; first <= bytes.length; first++)
      for (let second = first; second <= bytes.length; second++) {
        const chunks = [bytes.slice(0, first), bytes.slice(first, second), bytes.slice(second)]
        expect(await readBody(streamed(...chunks).request, 100)).toBe('{"a":"狐"}')
      }
  })
})

const clock = testClock()

describe('parsing JSON', () => {
  test('takes any JSON type, with parameters, in any case, or none at all', async () => {
    for (const type of [
      'application/json',
      'Application/JSON; charset=utf-8',
      'application/problem+json',
      ' application/json ;x=1',
      '',
      null,
    ]) {
      expect(await parseJson('{"a":1}', type, clock)).toEqual({ a: 1 })
    }
  })

  test('refuses every other type, and repeats it', async () => {
    for (const type of [
      'text/plain',
      'text/plain;charset=UTF-8',
      'multipart/form-data; boundary=x',
      'application/x-www-form-urlencoded',
      'application/jsonp',
      'json',
    ]) {
      const { code, message } = await apiErrorOf(() => parseJson('{}', type, clock))
      expect(code).toBe('INVALID_CONTENT_TYPE')
      expect(message).toBe(`The content type must be application/json, got ${type.split(';')[0]}.`)
    }
  })

  test('tells an empty body from a broken one', async () => {
    expect((await apiErrorOf(() => parseJson(' \n', null, clock))).message).toBe(
      'The request body is empty; a JSON object is expected.',
    )
    for (const text of ['{', "{'a':1}", '{"a":1,}', '{"a":NaN}', 'undefined', '{"a":1}{"b":2}', '\u0000']) {
      const { code, message } = await apiErrorOf(() => parseJson(text, 'application/json', clock))
      expect([code, message]).toEqual(['INVALID_JSON', 'The request body is not valid JSON.'])
    }
  })
})

describe('checking fields', () => {
  const check = inputParser(
    Type.Object({
      name: Type.String({ minLength: 1, maxLength: 5 }),
      count: Type.Optional(Type.Integer({ minimum: 1, maximum: 10 })),
      tags: Type.Optional(Type.Array(Type.String(), { maxItems: 2 })),
      kind: Type.Optional(Type.Union([Type.Literal('a'), Type.Literal('b')])),
      from: Type.Optional(Type.Union([Type.String(), Type.Array(Type.String(), { minItems: 1 })])),
    }),
  )
  const problems = async (value: unknown) => {
    const { code, message, parts } = await apiErrorOf(() => check(value))
    expect(code).toBe('INVALID_BODY')
    const details = parts.details as { path: string; message: string }[]
    expect(message).toBe(details.map((detail) => detail.message).join('. '))
    return details
  }

  test('known fields pass, unknown ones are dropped', () => {
    expect(check({ name: 'fox', count: 10, quality: 'high', response_format: { deep: [1] } })).toEqual({
      name: 'fox',
      count: 10,
    })
  })

  test('an optional null reads as absent; a required one does not', async () => {
    expect(check({ name: 'fox', count: null, tags: null, kind: null })).toEqual({ name: 'fox' })
    expect(await problems({ name: null })).toEqual([{ path: 'name', message: 'name: Expected string; got null' }])
  })

  test('every wrong field is named, with what it got and what it may be (contract 3.3)', async () => {
    expect(await problems({ count: 11, tags: ['a', 5, 'c'] })).toEqual([
      { path: 'name', message: 'name: Expected required property; it is missing' },
      { path: 'count', message: 'count: Expected integer to be less or equal to 10; got 11' },
      { path: 'tags', message: 'tags: Expected array length to be less or equal to 2; got an array' },
      { path: 'tags.1', message: 'tags.1: Expected string; got 5' },
    ])
    expect(await problems({ name: '' })).toEqual([
      { path: 'name', message: 'name: Expected string length greater or equal to 1; got ""' },
    ])
    expect(await problems({ name: 'fox', count: 0 })).toEqual([
      { path: 'count', message: 'count: Expected integer to be greater or equal to 1; got 0' },
    ])
  })

  test('a field of several forms says which they are (contract 3.3)', async () => {
    expect(await problems({ name: 'fox', kind: 'c', from: [] })).toEqual([
      { path: 'kind', message: 'kind: Expected "a" or "b"; got "c"' },
      { path: 'from', message: 'from: Expected string or array of at least 1 string; got an array' },
    ])
  })

  test('numbers that are not counts are refused, however large', async () => {
    for (const [text, printed] of [
      ['1.5', '1.5'],
      ['1e999', 'Infinity'],
      ['-1e999', '-Infinity'],
      ['9007199254740993', '9007199254740992'],
      ['"1"', '"1"'],
      ['true', 'true'],
    ] as const) {
      const [problem] = await problems(JSON.parse(`{"name":"fox","count":${text}}`))
      expect(problem?.message).toEndWith(`; got ${printed}`)
    }
  })

  test('anything but an object is refused as a whole', async () => {
    for (const [value, printed] of [
      [null, 'null'],
      [[], 'an array'],
      ['fox', '"fox"'],
      [5, '5'],
      [true, 'true'],
    ] as const) {
      expect(await problems(value)).toEqual([{ path: '', message: `Expected a JSON object, got ${printed}` }])
    }
  })

  test('names of Object.prototype are fields like any others', async () => {
    const value = JSON.parse('{"__proto__":{"name":"fox"},"constructor":1,"toString":null}')
    expect(await problems(value)).toEqual([
      { path: 'name', message: 'name: Expected required property; it is missing' },
    ])
    const polluted = check(JSON.parse('{"name":"fox","__proto__":{"count":5}}'))
    expect(polluted).toEqual({ name: 'fox' })
    expect(Object.getPrototypeOf(polluted)).toBe(Object.prototype)
    expect(check(Object.create({ name: 'inherited' }, { name: { value: 'own', enumerable: true } }))).toEqual({
      name: 'own',
    })
  })

  test('deep nesting is an error text like any other, not a crash', async () => {
    const deep = JSON.parse(`${'['.repeat(200_000)}${']'.repeat(200_000)}`)
    expect(await problems(deep)).toEqual([{ path: '', message: 'Expected a JSON object, got an array' }])
    expect(await problems({ name: deep })).toEqual([{ path: 'name', message: 'name: Expected string; got an array' }])
    expect(await problems({ name: { deep } })).toEqual([
      { path: 'name', message: 'name: Expected string; got an object' },
    ])
  })

  test('at most ten problems are listed', async () => {
    const many = inputParser(
      Type.Object(Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`f${i}`, Type.String()]))),
    )
    const { parts } = await apiErrorOf(() => many({}))
    expect((parts.details as unknown[]).length).toBe(10)
  })

  test('a value of the caller is repeated shortened, in any script', () => {
    expect(quoted('狐'.repeat(500))).toBe(`"${'狐'.repeat(56)}...`)
    expect(quoted('a "b"')).toBe('"a \\"b\\""')
    expect(quoted(undefined)).toBe('undefined')
    expect(clip('x'.repeat(61))).toHaveLength(60)
    expect(clip('x'.repeat(60))).toBe('x'.repeat(60))
  })
})

describe('data URIs', () => {
  const text = (uri: string) => {
    const decoded = decodeDataUri(uri)
    return decoded && [decoded.type, new TextDecoder().decode(decoded.bytes)]
  }

  test('decode as base64 or percent-encoded, with parameters, in any case', () => {
    expect(text('data:image/png;base64,aGk=')).toEqual(['image/png', 'hi'])
    expect(text('DATA:Image/PNG;charset=utf-8;BASE64,aGk=')).toEqual(['image/png', 'hi'])
    expect(text('data:image/svg+xml,%3Csvg/%3E')).toEqual(['image/svg+xml', '<svg/>'])
    expect(text('data:image/png;base64,')).toEqual(['image/png', ''])
  })

  test('that are broken do not decode', () => {
    for (const uri of [
      '',
      'data:',
      'data:,x',
      'data:image/png',
      'data:image/png;base64',
      'data:png;base64,aGk=',
      'data:image/png;base64,a',
      'data:image/png;base64,%%%',
      'data:image/png,%zz',
      'https://x.test/a.png',
    ]) {
      expect(text(uri)).toBeUndefined()
    }
  })

  test('decode the same on a runtime without Uint8Array.fromBase64', () => {
    const native = Uint8Array as unknown as { fromBase64: unknown }
    const { fromBase64 } = native
    native.fromBase64 = undefined
    try {
      expect(text('data:image/png;base64,aGk=')).toEqual(['image/png', 'hi'])
      expect(text('data:image/png;base64,%%%')).toBeUndefined()
    } finally {
      native.fromBase64 = fromBase64
    }
  })
})

test('a schema that keeps unknown fields keeps a thousand, not a million; one that drops them has no limit', () => {
  const schema = Type.Object({ model: Type.String() })
  const load = (count: number) => ({
    model: 'm',
    ...Object.fromEntries(Array.from({ length: count - 1 }, (_, index) => [`k${index}`, 1])),
  })
  expect(Object.keys(inputParser(schema, 'kept')(load(1_000)))).toHaveLength(1_000)
  expect(() => inputParser(schema, 'kept')(load(1_001))).toThrow(
    'The body may have at most 1000 top-level fields; it has 1001, and the first over the limit is k999',
  )
  expect(inputParser(schema)(load(1_001))).toEqual({ model: 'm' })
})

test('a field named __proto__ does not change the price alone', () => {
  const schema = Type.Object({ model: Type.String(), max_tokens: Type.Optional(Type.Number()) })
  const input = inputParser(schema, 'kept')(JSON.parse('{"model":"m","__proto__":{"max_tokens":1}}'))
  expect([input.max_tokens, Object.getPrototypeOf(input) === Object.prototype]).toEqual([undefined, true])
  expect(() => inputParser(schema, 'kept')(JSON.parse('{"__proto__":{"model":"m"}}'))).toThrow('model')
})

describe('a web address', () => {
  test.each([
    'https://a.example',
    'HTTP://a.example:8080/x?y#z',
    'https://a.example?x=1',
    'https://user:word@a.example/x',
    'https://f\u00fcchse.example/\u72d0.png',
    'https://[::1]/x',
    `https://a.example/${'x'.repeat(1 << 20)}`,
  ])('%p is one', (text) => expect(isWebUrl(text)).toBe(true))

  test.each([
    '',
    'https://',
    'https:///x',
    'https://?x',
    'https:// a/',
    'https://a b/',
    'ftp://a.example/',
    'javascript:alert(1)',
    ' https://a.example',
    'https://a.example:99999/',
    'data:image/png;base64,',
  ])('%p is none', (text) => expect(isWebUrl(text)).toBe(false))

  test('with a host of megabytes is refused at once', () => {
    for (const mark of ['\u0301\u0323', '%CC%81%CC%A3', '\u00e4.'])
      for (const end of ['', '/', '?']) expect(isWebUrl(`https://a${mark.repeat(1 << 20)}${end}`)).toBe(false)
  })
})

/** A body that arrives as the test says. */
function arriving(headers: Record<string, string> = {}) {
  let send!: ReadableStreamDefaultController<Uint8Array>
  const body = new ReadableStream<Uint8Array>({ start: (controller) => void (send = controller) })
  return {
    request: new Request('http://x.test', { method: 'POST', body, headers }),
    send: (count: number) => send.enqueue(new Uint8Array(count).fill(0x61)),
    end: () => send.close(),
  }
}

describe('a budget', () => {
  const MB = 1 << 20

  test('counts what has arrived and not what is promised, turns away what comes on top, and has room again afterwards (contract 3.22)', async () => {
    const clock = testClock()
    const shared = budget(4 * MB, clock)
    const idle = Array.from({ length: 20 }, () => arriving({ 'content-length': String(30 * MB) }))
    for (const { request } of idle) readBody(request, 32 * MB, shared).catch(() => {})
    const first = arriving()
    const reading = readBody(first.request, 8 * MB, shared)
    first.send(3 * MB)
    await clock.settle()
    const second = arriving()
    const refused = readBody(second.request, 8 * MB, shared).catch((error: unknown) => error)
    second.send(2 * MB)
    expect(await refused).toMatchObject({ code: 'BUSY', parts: { headers: { 'retry-after': '2' } } })
    first.end()
    expect((await reading).length).toBe(3 * MB)
    const third = arriving()
    third.send(2 * MB)
    third.end()
    expect((await readBody(third.request, 8 * MB, shared)).length).toBe(2 * MB)
  })

  test('lets small bodies pass whatever else is under way', async () => {
    const shared = budget(0, testClock())
    expect(
      await readBody(
        new Request('http://x.test', { method: 'POST', body: '{}', headers: { 'content-length': '2' } }),
        MB,
        shared,
      ),
    ).toBe('{}')
  })

  test('ends a body that does not arrive in time, and gives back what it held (contract 4.14)', async () => {
    const clock = testClock()
    const shared = budget(2 * MB, clock)
    const slow = arriving()
    const reading = readRaw(slow.request, 8 * MB, shared)
    slow.send(2 * MB)
    const refused = reading.catch((error: unknown) => error)
    await clock.advance(120_000)
    expect(await refused).toMatchObject({ code: 'TOO_SLOW' })
    const next = arriving()
    next.send(2 * MB)
    next.end()
    expect((await readRaw(next.request, 8 * MB, shared)).length).toBe(2 * MB)
  })
})

describe('uploads of one address', () => {
  const MB = 1 << 20

  test('may hold their share of the memory; others upload meanwhile (contract 4.20)', async () => {
    const shared = budget(13 * MB, testClock(), { share: 3 * MB })
    const bodyOf = (bytes: number) => {
      const upload = arriving()
      upload.send(bytes)
      upload.end()
      return upload.request
    }
    const one = holdOn(shared, '192.0.2.1')
    expect((await readRaw(bodyOf(MB), 8 * MB, one)).length).toBe(MB)
    const second = holdOn(shared, '192.0.2.1')
    const refused = await readRaw(bodyOf(MB), 8 * MB, second).catch((error: unknown) => error)
    second.release()
    expect(refused).toMatchObject({ code: 'BUSY' })
    expect((await readRaw(bodyOf(MB), 8 * MB, holdOn(shared, '192.0.2.2'))).length).toBe(MB)
    expect((await readRaw(bodyOf(MB), 8 * MB, holdOn(shared, ''))).length).toBe(MB)
    one.release()
    // One alone may need more than the share: the largest upload fits.
    const large = holdOn(shared, '192.0.2.3')
    expect((await readRaw(bodyOf(2 * MB), 8 * MB, large)).length).toBe(2 * MB)
    large.release()
    expect((await readRaw(bodyOf(MB), 8 * MB, holdOn(shared, '192.0.2.1'))).length).toBe(MB)
  })

  test('that arrive at less than 16 KiB a second for two times ten seconds are ended (contract 4.20)', async () => {
    for (const [bytes, isEnded] of [
      [163_839, true],
      [163_840, false],
    ] as const) {
      const clock = testClock()
      const slow = arriving()
      const reading = readRaw(slow.request, 8 * MB, budget(16 * MB, clock))
      let outcome: unknown
      reading.then(
        () => (outcome = 'read'),
        (error: unknown) => (outcome = error),
      )
      slow.send(MB)
      for (let window = 0; window < 4; window++) {
        await clock.settle()
        await clock.advance(10_000)
        if (outcome === undefined) slow.send(bytes)
      }
      await clock.settle()
      if (isEnded) expect(outcome).toMatchObject({ code: 'TOO_SLOW' })
      else expect(outcome).toBeUndefined()
      if (!isEnded) slow.end()
      await reading.catch(() => {})
    }
  })

  test('may pause once: this process may have been the one that slept', async () => {
    const clock = testClock()
    const upload = arriving()
    const reading = readRaw(upload.request, 8 * MB, budget(16 * MB, clock))
    for (let window = 0; window < 3; window++) {
      await clock.settle()
      await clock.advance(10_000)
      upload.send(MB)
      await clock.settle()
      await clock.advance(10_000)
    }
    upload.end()
    expect((await reading).length).toBe(3 * MB)
  })
})

describe('the bytes of a request in the budget', () => {
  const MB = 1 << 20
  const deadline = () => () => {}

  /** A budget that says what is held. */
  function scale() {
    const state = { buffered: 0 }
    return {
      state,
      shared: {
        take: (bytes: number) => void (state.buffered += bytes),
        give: (bytes: number) => void (state.buffered -= bytes),
        deadline,
        smallDeadline: () => () => {},
      },
    }
  }
  const bodyOf = (body: string | Uint8Array<ArrayBuffer>) =>
    new Request('http://x.test', {
      method: 'POST',
      body,
      headers: { 'content-length': String(Buffer.byteLength(body)) },
    })

  test('is three times a body, from its arrival until the request is answered; twice that where characters take two bytes', async () => {
    for (const [text, buffered] of [
      ['a'.repeat(MB), 3 * MB],
      [`${'a'.repeat(MB - 3)}狐`, 6 * MB],
      ['é'.repeat(MB / 2), 3 * MB],
    ] as const) {
      const { state, shared } = scale()
      const hold = holdOn(shared, '')
      expect(await readBody(bodyOf(text), 2 * MB, hold)).toBe(text)
      expect(state.buffered).toBe(buffered)
      hold.release()
      hold.release()
      expect(state.buffered).toBe(0)
    }
  })

  test('is twice that for bytes that are no UTF-8: the replacement character takes two as well', async () => {
    const bytes = new Uint8Array(MB).fill(0x61)
    bytes[MB / 2] = 0xff
    const { state, shared } = scale()
    expect((await readBody(bodyOf(bytes), 2 * MB, holdOn(shared, ''))).indexOf('\ufffd')).toBe(MB / 2)
    expect(state.buffered).toBe(6 * MB)
  })

  test('is nothing for a small body', async () => {
    const { state, shared } = scale()
    await readBody(bodyOf('狐'.repeat(20_000)), MB, holdOn(shared, ''))
    expect(state.buffered).toBe(0)
  })

  test('a form is held like any other body', async () => {
    const { state, shared } = scale()
    const hold = holdOn(shared, '')
    await readRaw(bodyOf('a'.repeat(MB)), 2 * MB, hold)
    expect(state.buffered).toBe(3 * MB)
  })

  test('are reported when they are given back, once for each 32 MiB, so that garbage is collected', () => {
    let reported = 0
    const shared = budget(64 * MB, testClock(), { onFreed: () => void (reported += 1) })
    for (let at = 0; at < 10; at++) {
      shared.take(8 * MB)
      shared.give(8 * MB)
    }
    expect(reported).toBe(2)
  })

  test('a small body has a deadline, too (contract 4.14)', async () => {
    const clock = testClock()
    const shared = budget(MB, clock)
    const body = new ReadableStream<Uint8Array>({ start: (controller) => controller.enqueue(new Uint8Array([123])) })
    const reading = readBody(
      new Request('http://x.test', { method: 'POST', body, headers: { 'content-length': '10' } }),
      MB,
      shared,
    ).catch((error: unknown) => error)
    await clock.advance(30_000)
    expect(await reading).toMatchObject({ code: 'TOO_SLOW' })
    expect(clock.waiting).toBe(0)
  })
})

describe('the shape of a body', () => {
  const refusal = async (text: string) => await apiErrorOf(() => parseJson(text, null, clock))
  const fields = (count: number) => Array.from({ length: count }, (_, index) => `"k${index}":1`).join(',')

  test('has a limit for fields, values and depth, and what is at the limit passes (contract 3.5)', async () => {
    expect(Object.keys((await parseJson(`{${fields(50_000)}}`, null, clock)) as object)).toHaveLength(50_000)
    expect(await parseJson(`[${'1,'.repeat(199_998)}1]`, null, clock)).toHaveLength(199_999)
    const deep = `${'['.repeat(200)}${']'.repeat(200)}`
    expect(await parseJson(deep, null, clock)).toBeArrayOfSize(1)
    for (const [text, allowed] of [
      [`{${fields(50_001)}}`, '50000 object fields'],
      [`[${`{${fields(100)}},`.repeat(501)}{}]`, '50000 object fields'],
      [`[${'1,'.repeat(200_000)}1]`, '200000 values'],
      [`[${'{},'.repeat(2_000_000)}{}]`, '200000 values'],
      ['"'.repeat(2_000_000), '200000 values'],
    ] as const) {
      const { code, message } = await refusal(text)
      expect([code, message]).toEqual(['TOO_LARGE', expect.stringContaining(`at most ${allowed}`)])
      expect(message).toMatch(/is exceeded at character \d+\. Nothing was charged\.$/)
    }
    for (const text of [`[${deep}]`, '['.repeat(4_000_000), '{"a":'.repeat(4_000_000)]) {
      const { code, message } = await refusal(text)
      expect([code, message]).toEqual([
        'INVALID_BODY',
        expect.stringContaining('at most 200 levels of nesting; the limit is exceeded at'),
      ])
    }
  })

  test('is not what stands in a text: prompts of commas, quotes, colons and brackets pass', async () => {
    for (const text of [
      'word, '.repeat(300_000),
      '{":["\\'.repeat(200_000),
      '\\'.repeat(999_999),
      `${'x'.repeat(100)}"`.repeat(20_000),
    ])
      expect(await parseJson(JSON.stringify({ text }), null, clock)).toEqual({ text })
  })

  test('is checked in every slice, even if a string crosses its end', async () => {
    const long = 'a'.repeat(9 << 20)
    expect(await parseJson(JSON.stringify([long, 1]), null, clock)).toHaveLength(2)
    expect((await refusal(`[${JSON.stringify(long)},${'['.repeat(300)}`)).code).toBe('INVALID_BODY')
    expect((await refusal(`${' '.repeat(9 << 20)}${'['.repeat(300)}`)).code).toBe('INVALID_BODY')
  })
})
