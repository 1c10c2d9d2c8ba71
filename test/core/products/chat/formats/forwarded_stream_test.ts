import { describe, expect, test } from 'bun:test'
import { chunk, DONE, streamAnswer, usageChunk } from '../../../../fakes/chat.ts'
import type { AnswerStream } from '../../../../../core/endpoint/mod.ts'
import { messagesFromChatStream } from '../../../../../core/products/chat/formats/messages/events.ts'
import { forwardedStream } from '../../../../../core/products/chat/formats/forwarded_stream.ts'
import { translated } from '../../../../../core/products/chat/formats/translated_stream.ts'
import type { ChatFormat } from '../../../../../core/ports/vendors/chat.ts'

const utf8 = (text: string) => new TextEncoder().encode(text)

/** A vendor's stream of these pieces, cut nowhere else. */
const upstream = (...pieces: readonly (string | Error)[]) => streamAnswer(pieces).stream

/** The same text, cut into pieces of this size after the first `at` bytes. */
function cutAt(text: string, at: number, size = Number.POSITIVE_INFINITY) {
  const bytes = utf8(text)
  const pieces: Uint8Array[] = at > 0 ? [bytes.subarray(0, at)] : []
  for (let from = at; from < bytes.length; from += size)
    pieces.push(bytes.subarray(from, Math.min(bytes.length, from + size)))
  return { next: async () => pieces.shift(), cancel: () => void pieces.splice(0) }
}

type Heard = {
  readonly text: string
  readonly closing: string
  readonly error: string | undefined
  readonly pieces: readonly string[]
}

async function heard(stream: AnswerStream): Promise<Heard> {
  const pieces: string[] = []
  let error: string | undefined
  try {
    for (let bytes = await stream.next(); bytes; bytes = await stream.next())
      pieces.push(new TextDecoder().decode(bytes))
  } catch (thrown) {
    error = (thrown as Error).message
  }
  return { text: pieces.join(''), closing: stream.closing(), error, pieces }
}

const BROKEN = 'The model ended its answer early.'
const events = (...all: readonly [event: string, data: unknown][]) =>
  all.map(([event, data]) => `event: ${event}\ndata: ${JSON.stringify({ type: event, ...(data as object) })}\n\n`)

const CHAT = [
  chunk({ role: 'assistant', content: '' }),
  chunk({ content: 'Grüße, 狐' }),
  chunk({ content: ' "usage": {} [DONE] event: error' }),
  chunk({}, { finish: 'stop' }),
  usageChunk(),
  DONE,
]
const MESSAGES = events(
  ['message_start', { message: { id: 'msg_1', usage: { input_tokens: 3, output_tokens: 1 } } }],
  ['content_block_start', { index: 0, content_block: { type: 'text', text: '' } }],
  ['content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'event: error\n"type": "error" 狐' } }],
  ['content_block_stop', { index: 0 }],
  ['message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 9 } }],
  ['message_stop', {}],
)
const RESPONSES = events(
  ['response.created', { response: { id: 'resp_1' } }],
  ['response.output_text.delta', { delta: 'hello' }],
  ['response.completed', { response: { id: 'resp_1', usage: { input_tokens: 3, output_tokens: 2 } } }],
)
const CONTENTS = [
  { candidates: [{ content: { parts: [{ text: 'hel' }] } }], usageMetadata: { promptTokenCount: 3 } },
  {
    candidates: [
      { content: { parts: [{ functionCall: { name: 'f', args: { error: 'none' } } }] }, finishReason: 'STOP' },
    ],
    usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 2 },
  },
].map((data) => `data: ${JSON.stringify(data)}\n\n`)

const native: readonly (readonly [ChatFormat, readonly string[], last: number, usage: unknown])[] = [
  ['chat', CHAT, 1, { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 }],
  ['messages', MESSAGES, 1, { input_tokens: 3, output_tokens: 9 }],
  ['responses', RESPONSES, 1, { input_tokens: 3, output_tokens: 2 }],
  ['generate_content', CONTENTS, 1, { promptTokenCount: 3, candidatesTokenCount: 2 }],
]

describe('content that a reader pays for', () => {
  const choices = (...deltas: readonly object[]) =>
    `data: ${JSON.stringify({ choices: deltas.map((delta, index) => ({ index, delta, finish_reason: null })) })}\n\n`
  test.each([
    ['chat', choices({ role: 'assistant', content: '' }, { content: 'hello' }), true],
    ['chat', choices({}, { reasoning_content: 'hm' }), true],
    ['chat', choices({ role: 'assistant', content: '' }, { role: 'assistant' }), false],
    ['responses', events(['response.output_text.done', { text: 'hello' }]).join(''), true],
    ['responses', events(['response.function_call_arguments.done', { arguments: '{}' }]).join(''), true],
    [
      'responses',
      events(
        ['response.created', { response: {} }],
        ['response.output_item.done', { item: { type: 'reasoning', summary: [] } }],
      ).join(''),
      false,
    ],
  ] as const)('in %s of %p is there: %p', async (format, piece, isThere) => {
    const stream = forwardedStream(upstream(piece), { format })
    await stream.next()
    expect(stream.hasContent()).toBe(isThere)
  })
})

describe('watched()', () => {
  for (const [format, reported, last, usage] of native) {
    const body = reported.slice(0, reported.length - last).join('')
    const closing = reported.slice(reported.length - last).join('')

    test(`${format}: passes the bytes of its vendor, holds the last event back, and knows the usage`, async () => {
      const stream = forwardedStream(upstream(...reported), { format })
      const { text, closing: stored, error, pieces } = await heard(stream)
      expect([error, text, stored]).toEqual([undefined, body, closing])
      expect([pieces.length, stream.hasContent(), stream.usage()]).toEqual([
        reported.length - last,
        true,
        usage as never,
      ])
    })

    test(`${format}: cut at any byte, or into single ones, the same bytes go out`, async () => {
      const whole = reported.join('')
      for (let at = 1; at < utf8(whole).length; at++) {
        const { text, closing, error } = await heard(forwardedStream(cutAt(whole, at), { format }))
        expect([at, error, text + closing]).toEqual([at, undefined, whole])
      }
      for (const size of [1, 2, 3, 7])
        expect(await heard(forwardedStream(cutAt(whole, 0, size), { format }))).toMatchObject({
          text: body,
          error: undefined,
        })
    })

    test(`${format}: a vendor that writes no space, or other line ends, is written down as the contract says, cut anywhere`, async () => {
      const plain = reported.join('')
      const tight = plain.replace(/^(data|event): /gm, '$1:')
      const returned = (text: string) => text.replaceAll('\n', '\r\n')
      for (const odd of [tight, returned(plain), returned(tight), plain.replaceAll('\n', '\r')]) {
        for (let at = 0; at < utf8(odd).length; at += 3) {
          const { text, closing, error } = await heard(forwardedStream(cutAt(odd, at), { format }))
          expect([at, error, text + closing]).toEqual([at, undefined, plain])
        }
        expect(await heard(forwardedStream(cutAt(odd, 0, 1), { format }))).toMatchObject({
          text: body,
          error: undefined,
        })
      }
    })

    test(`${format}: comments and pings before, between and after break nothing`, async () => {
      const pinged = [
        ': warming up\n\n',
        ...reported.flatMap((event) => [event, ':\n\n', 'event: ping\ndata: {"type": "ping"}\n\n']),
      ]
      const stream = forwardedStream(upstream(...pinged), { format })
      const { text, closing: stored, error } = await heard(stream)
      expect([error, text.replace(/^:.*\n\n|^event: ping\n.*\n\n/gm, ''), stored]).toEqual([undefined, body, closing])
      expect(stream.usage()).toEqual(usage as never)
    })

    test(`${format}: one that ends without its end is broken, and what came before is out`, async () => {
      const cut = reported.slice(0, format === 'generate_content' || format === 'responses' ? 1 : 2)
      expect(await heard(forwardedStream(upstream(...cut), { format }))).toMatchObject({
        text: cut.join(''),
        error: BROKEN,
      })
      expect(await heard(forwardedStream(upstream(cut.join(''), 'data: {"half'), { format }))).toMatchObject({
        text: cut.join(''),
        error: BROKEN,
      })
    })

    test(`${format}: an error among the events is thrown in our words, after what came before it, cut anywhere`, async () => {
      const [first = '', second = ''] = reported
      const errors = [
        'data: {"error": {"message": "secret of the vendor"}}\n\n',
        'event: error\ndata: {"type": "error", "error": {"message": "secret of the vendor"}}\n\n',
        ...(format === 'chat'
          ? [
              'event: error\ndata: secret of the vendor\n\n',
              'data: {"object":"error","message":"secret of the vendor"}\n\n',
              chunk({ content: 'secret' }, { finish: 'error' }),
            ]
          : []),
        ...(format === 'messages' ? ['data: {"type":"error","error":{"message":"secret of the vendor"}}\n\n'] : []),
        ...(format === 'responses'
          ? [
              'event: response.failed\ndata: {"type": "response.failed", "response": {"error": "secret of the vendor"}}\n\n',
            ]
          : []),
      ].slice(format === 'messages' || format === 'responses' ? 1 : 0)
      for (const error of errors) {
        const whole = first + (format === 'chat' ? second : '') + error + DONE
        for (const size of [1, 5, 1_000]) {
          expect([error, await heard(forwardedStream(cutAt(whole, 0, size), { format }))]).toMatchObject([
            error,
            { text: whole.slice(0, -error.length - DONE.length), error: BROKEN, closing: '' },
          ])
        }
      }
    })

    test(`${format}: a broken connection is thrown as it is`, async () => {
      expect(await heard(forwardedStream(upstream(reported[0] ?? '', new Error('reset')), { format }))).toMatchObject({
        text: reported[0] ?? '',
        error: 'reset',
      })
    })
  }

  test('is over with its last event: a vendor that keeps the line open, or goes on, is not waited for', async () => {
    for (const [format, reported] of native) {
      // Its last event is known by the end of the stream alone.
      if (format === 'generate_content') continue
      let requestCount = 0
      const open = {
        next: () =>
          requestCount++ < reported.length
            ? Promise.resolve(utf8(reported[requestCount - 1] ?? ''))
            : new Promise<undefined>(() => {}),
        cancel() {},
      }
      expect((await heard(forwardedStream(open, { format }))).error).toBeUndefined()
      const goingOn = [...reported.slice(0, -1), `${reported.at(-1)}data: more\n\n`]
      expect(await heard(forwardedStream(upstream(...goingOn), { format }))).toMatchObject({
        closing: reported.at(-1) ?? '',
        error: undefined,
      })
    }
  })

  test('generate_content: an event with a finish reason is held back until another one follows (contract 7.36)', async () => {
    const event = (text: string, more = {}) =>
      `data: ${JSON.stringify({ candidates: [{ content: { parts: [{ text }] }, ...more }] })}\n\n`
    const finish = { finishReason: 'STOP' }
    const [one, two, last] = [event('a', finish), event('b'), event('c', finish)]
    for (const sent of [[one, two, last], [`${one}${two}${last}`]]) {
      const stream = forwardedStream(upstream(...sent), { format: 'generate_content' })
      expect(await heard(stream)).toMatchObject({ text: one + two, closing: last, error: undefined })
    }
    const alone = forwardedStream(upstream(one), { format: 'generate_content' })
    expect(await heard(alone)).toMatchObject({ text: '', closing: one })
    expect([alone.hasContent(), alone.hasStarted()]).toEqual([true, true])
    const broken = forwardedStream(upstream(one, 'data: {"error":{"message":"secret"}}\n\n'), {
      format: 'generate_content',
    })
    expect(await heard(broken)).toMatchObject({ text: one, closing: '', error: BROKEN })
  })

  test('generate_content: nothing but single lines of data goes out (contract 7.36)', async () => {
    const events = [
      ': working\n\n',
      'event: ping\ndata: {}\n\n',
      ': why\nevent: message\ndata: {"candidates":\ndata: [{"content":{"parts":[{"text":"hi"}]}}]}\n\n',
      ...CONTENTS,
      ': bye\n\n',
      'data: [DONE]\n\n',
    ]
    for (const size of [1, 7, 10_000]) {
      const { text, closing } = await heard(
        forwardedStream(cutAt(events.join(''), 0, size), { format: 'generate_content' }),
      )
      expect(text + closing).toBe(
        [`data: {"candidates":[{"content":{"parts":[{"text":"hi"}]}}]}\n\n`, ...CONTENTS].join(''),
      )
    }
  })

  test('reads its vendor once at a time, and only when it is asked', async () => {
    let reads = 0
    const inner = upstream(...CHAT)
    const stream = forwardedStream({ ...inner, next: () => (reads++, inner.next()) }, { format: 'chat' })
    expect(reads).toBe(0)
    await stream.next()
    expect(reads).toBe(1)
  })

  test('cancelled while it waits ends without an error', async () => {
    let release = (_: undefined) => {}
    const stream = forwardedStream(
      { next: () => new Promise((resolve) => void (release = resolve)), cancel: () => release(undefined) },
      { format: 'chat' },
    )
    const waiting = stream.next()
    stream.cancel()
    expect(await waiting).toBeUndefined()
    expect([await stream.next(), stream.closing()]).toEqual([undefined, ''])
  })

  test('an event without end is broken, not held in memory', async () => {
    let sent = 0
    const piece = utf8('x'.repeat(1 << 20))
    const stream = forwardedStream({ next: async () => (sent++, piece), cancel() {} }, { format: 'chat' })
    expect((await heard(stream)).error).toBe(BROKEN)
    expect(sent).toBeLessThan(7)
  })
})

describe('watched() in chat', () => {
  const chat = (...pieces: readonly string[]) => forwardedStream(upstream(...pieces), { format: 'chat' })
  const deltas = ({ text }: Heard) =>
    text
      .split('\n\n')
      .filter((event) => event.startsWith('data: {'))
      .map((event) => JSON.parse(event.slice(6)).choices[0]?.delta)

  test('gives the model our name, in both spellings, and leaves alone what others said', async () => {
    const model = { upstream: 'gpt-x', publicId: 'vendor-a/chat' }
    const texts = [
      chunk({ content: 'I am "model":"gpt-x"' }, { model: 'gpt-x' }),
      chunk({}, { finish: 'stop', model: 'gpt-x' }),
    ]
    for (const spell of [(text: string) => text, (text: string) => text.replaceAll('"model":"', '"model": "')]) {
      const { text } = await heard(forwardedStream(upstream(...texts.map(spell), DONE), { format: 'chat', model }))
      const chunks = text
        .split('\n\n')
        .filter(Boolean)
        .map((event) => JSON.parse(event.slice(6)))
      expect(chunks.map((each) => each.model)).toEqual(['vendor-a/chat', 'vendor-a/chat'])
      expect(chunks[0].choices[0].delta.content).toBe('I am "model":"gpt-x"')
    }
  })

  test('gives a model that calls itself otherwise our name as well', async () => {
    const model = { upstream: 'gpt-x', publicId: 'vendor-a/chat' }
    const chunks = [
      chunk({ role: 'assistant' }, { model: 'gpt-x-2026-11-20' }),
      chunk({ content: 'hi' }, { model: 'gpt-x-2026-11-20' }),
      chunk({ content: 'ho' }, { model: 'gpt-x-2026-11-20' }),
      chunk({}, { finish: 'stop', model: 'gpt-x-2026-11-20' }),
      DONE,
    ]
    const { text } = await heard(forwardedStream(upstream(...chunks), { format: 'chat', model }))
    expect([text.includes('gpt-x'), text.split('"model":"vendor-a/chat"').length]).toEqual([false, 5])
  })

  test('usage in any spelling of a vendor becomes that of the contract', async () => {
    const usage = {
      prompt_tokens: 10,
      completion_tokens: 2,
      total_tokens: 20,
      prompt_tokens_details: { cached_tokens: 4 },
    }
    const stream = chat(chunk({ content: 'hi' }), chunk({}, { finish: 'stop' }), usageChunk(usage), DONE)
    const { text } = await heard(stream)
    const reported = JSON.parse(text.split('\n\n')[2]?.slice(6) ?? '').usage
    expect(reported).toEqual({
      prompt_tokens: 10,
      completion_tokens: 10,
      total_tokens: 20,
      prompt_tokens_details: { cached_tokens: 4 },
      cache_read_input_tokens: 4,
    })
    expect(stream.usage()).toEqual(reported)
  })

  test('an answer of reasoning alone gets it as its text, before the finish', async () => {
    const stream = chat(
      chunk({ role: 'assistant', content: '' }),
      chunk({ reasoning_content: 'Let me ' }),
      chunk({ reasoning_content: 'see.' }),
      chunk({}, { finish: 'stop' }),
      DONE,
    )
    const chunks = await heard(stream)
    expect(deltas(chunks).map((delta) => [delta.reasoning_content, delta.content])).toEqual([
      [undefined, ''],
      ['Let me ', undefined],
      ['see.', undefined],
      [undefined, 'Let me see.'],
      [undefined, undefined],
    ])
    expect(stream.hasContent()).toBe(true)
  })

  test('reasoning before a text, a tool call or a refusal stays reasoning', async () => {
    for (const answer of [
      { content: 'Blue.' },
      { tool_calls: [{ index: 0, function: { name: 'f', arguments: '' } }] },
      { refusal: 'no' },
      { function_call: { name: 'f' } },
    ]) {
      const chunks = await heard(
        chat(chunk({ reasoning_content: 'Hm.' }), chunk(answer), chunk({}, { finish: 'stop' }), DONE),
      )
      expect(deltas(chunks)).toEqual([{ reasoning_content: 'Hm.' }, answer, {}])
    }
  })

  test('reasoning under another name gets the name of the contract, also late', async () => {
    const chunks = await heard(
      chat(
        chunk({ reasoning: 'Hm.' }),
        chunk({ content: 'Blue.' }),
        chunk({ reasoning: 'Sure.' }),
        chunk({}, { finish: 'stop' }),
        DONE,
      ),
    )
    expect(deltas(chunks)).toEqual([
      { reasoning_content: 'Hm.' },
      { content: 'Blue.' },
      { reasoning_content: 'Sure.' },
      {},
    ])
  })

  test('a role or an empty text is not content; a finish reason or [DONE] alone is an end', async () => {
    const silent = chat(chunk({ role: 'assistant', content: '' }), chunk({ content: null }), DONE)
    expect([(await heard(silent)).closing, silent.hasContent()]).toEqual([DONE, false])
    expect(await heard(chat(chunk({ content: 'hi' }), chunk({}, { finish: 'stop' })))).toMatchObject({
      closing: DONE,
      error: undefined,
    })
    expect(await heard(chat(chunk({ content: 'hi' }), 'data: [DONE]'))).toMatchObject({
      closing: DONE,
      error: undefined,
    })
  })

  test('the first piece leaves before the second is there', async () => {
    const stream = forwardedStream({ next: once(utf8(CHAT[0] ?? '')), cancel() {} }, { format: 'chat' })
    expect(new TextDecoder().decode(await stream.next())).toBe(CHAT[0] ?? '')
  })
})

/** One piece, and then nothing for ever. */
function once(bytes: Uint8Array): () => Promise<Uint8Array | undefined> {
  let isSent = false
  return () => (isSent ? new Promise(() => {}) : ((isSent = true), Promise.resolve(bytes)))
}

describe('rewritten()', () => {
  const run = (...pieces: readonly (string | Error)[]) =>
    translated(upstream(...pieces), messagesFromChatStream({ model: 'm', id: 'msg_1' }))

  test('tells the events of the reader’s format, the last of them as closing, cut anywhere', async () => {
    const { text, closing, error } = await heard(run(...CHAT))
    expect([
      error,
      text.startsWith('event: message_start'),
      text.includes('message_stop'),
      closing.endsWith('event: message_stop\ndata: {"type":"message_stop"}\n\n'),
    ]).toEqual([undefined, true, false, true])
    const whole = CHAT.join('')
    for (let at = 1; at < utf8(whole).length; at++) {
      const cut = await heard(translated(cutAt(whole, at), messagesFromChatStream({ model: 'm', id: 'msg_1' })))
      expect([at, cut.text + cut.closing]).toEqual([at, text + closing])
    }
  })

  test('an error is thrown, and closes nothing', async () => {
    const { text, closing, error } = await heard(run(CHAT[0] ?? '', CHAT[1] ?? '', 'data: {"error": "secret"}\n\n'))
    expect([error, closing, text.includes('secret')]).toEqual([BROKEN, '', false])
    expect(await heard(run(CHAT[0] ?? '', new Error('reset')))).toMatchObject({ error: 'reset', closing: '' })
  })
})
