/** Laws of server-sent events as text. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { eventSplitter, MAX_EVENT } from '../../../../../core/lib/event_splitter.ts'
import { parseEvent, sseJson, sseText, tryJson } from '../../../../../core/products/chat/formats/sse.ts'

const bytes = (text: string) => new TextEncoder().encode(text)

/** Events of `text` when it comes in chunks that end at `cuts`. */
function split(text: string, cuts: readonly number[] = []): string[] {
  const splitter = eventSplitter()
  const all = bytes(text)
  const ends = [...new Set(cuts.map((cut) => cut % (all.length + 1)))].sort((a, b) => a - b)
  const edges = [0, ...ends, all.length]
  const events = edges.slice(1).flatMap((end, at) => splitter.push(all.subarray(edges[at], end)))
  const rest = splitter.flush()
  return rest === '' ? events : [...events, rest]
}

test('sseText() writes one space after the colon and a blank line at the end', () => {
  expect(sseText({ data: '{"a":1}' })).toBe('data: {"a":1}\n\n')
  expect(sseText({ event: 'ping', data: '{}' })).toBe('event: ping\ndata: {}\n\n')
  expect(sseText({ data: 'a\nb\r\nc' })).toBe('data: a\ndata: b\ndata: c\n\n')
  expect(sseJson({ a: 'x\ny' }, 'tick')).toBe('event: tick\ndata: {"a":"x\\ny"}\n\n')
  expect(sseJson([1])).toBe('data: [1]\n\n')
})

test('parseEvent() joins data lines, drops one leading space, and knows no event without data', () => {
  expect(parseEvent('event: x\ndata: a\ndata:  b\ndata:c')).toEqual({ event: 'x', data: 'a\n b\nc' })
  expect(parseEvent('data')).toEqual({ data: '' })
  expect(parseEvent('id: 7\r\ndata: [DONE]')).toEqual({ data: '[DONE]' })
  expect(parseEvent(': keep-alive')).toBeUndefined()
  expect(parseEvent(': note\ndata: 1')).toEqual({ data: '1' })
  expect(parseEvent('event: lonely')).toBeUndefined()
  expect(parseEvent('')).toBeUndefined()
})

test('parseEvent() reads back what sseText() wrote', () => {
  const line = fc.string({ unit: 'binary' }).map((text) => text.replace(/[\r\n]/g, ''))
  fc.assert(
    fc.property(fc.option(line, { nil: undefined }), fc.array(line, { minLength: 1, maxLength: 4 }), (event, lines) => {
      const data = lines.join('\n')
      expect(parseEvent(sseText(event === undefined ? { data } : { event, data }).slice(0, -2))).toEqual(
        event === undefined ? { data } : { event, data },
      )
    }),
  )
})

test('eventSplitter() gives the same events wherever the chunks break', () => {
  const texts = [
    'event: a\ndata: {"t":"été 🎈"}\n\n: ping\n\ndata: 2\ndata: 3\n\n\n\ndata: [DONE]\n\n',
    'data: 1\r\n\r\nevent: b\r\ndata: ü\r\n\r\n',
    'data: 1\r\rdata: 2\r\r',
  ]
  for (const text of texts) {
    const whole = split(text)
    for (let cut = 0; cut <= bytes(text).length; cut++) expect(split(text, [cut])).toEqual(whole)
    expect(split(text, [...bytes(text).keys()])).toEqual(whole)
    fc.assert(
      fc.property(fc.array(fc.nat(200)), (cuts) => expect(split(text, cuts)).toEqual(whole)),
      { numRuns: 50 },
    )
  }
  expect(split(texts[0] ?? '')).toEqual([
    'event: a\ndata: {"t":"été 🎈"}',
    ': ping',
    'data: 2\ndata: 3',
    'data: [DONE]',
  ])
  expect(split(texts[1] ?? '')).toEqual(['data: 1', 'event: b\ndata: ü'])
  expect(split(texts[2] ?? '')).toEqual(['data: 1', 'data: 2'])
})

test('eventSplitter() gives an event with its last byte, not later', () => {
  for (const text of ['data: 1\n\n', 'data: 1\r\r']) expect(eventSplitter().push(bytes(text))).toEqual(['data: 1'])
  const crlf = eventSplitter()
  expect(crlf.push(bytes('data: 1\r\n\r'))).toEqual(['data: 1'])
  expect(crlf.push(bytes('\ndata: 2\r\n\r\n'))).toEqual(['data: 2'])
})

test('eventSplitter() drops a byte order mark, and keeps what never ended', () => {
  const splitter = eventSplitter()
  expect(splitter.push(Uint8Array.of(0xef, 0xbb))).toEqual([])
  expect(splitter.push(Uint8Array.of(0xbf, ...bytes('data: 1\n\ndata: 2\n')))).toEqual(['data: 1'])
  expect(splitter.flush()).toBe('data: 2')
  expect(eventSplitter().flush()).toBe('')
})

test('eventSplitter() refuses an event longer than its limit, and only such', () => {
  const whole = `data: ${'x'.repeat(MAX_EVENT - 6)}`
  expect(eventSplitter().push(bytes(`${whole}\n\n`))).toEqual([whole])
  expect(() => eventSplitter().push(bytes(`${whole}x\n\n`))).toThrow(RangeError)
  const splitter = eventSplitter()
  const chunk = new Uint8Array(64 * 1024).fill(120)
  expect(() => {
    for (let sent = 0; sent <= MAX_EVENT; sent += chunk.length) splitter.push(chunk)
  }).toThrow(RangeError)
})

test('tryJson() reads objects alone', () => {
  expect(tryJson('{"a":[1]}')).toEqual({ a: [1] })
  for (const text of ['', '[DONE]', '[1]', '1', 'null', '"a"', '{"a":']) expect(tryJson(text)).toBeUndefined()
})
