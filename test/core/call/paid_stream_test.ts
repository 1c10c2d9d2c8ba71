import { describe, expect, test } from 'bun:test'
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { chatPieces, DONE, streamAnswer } from '../../fakes/chat.ts'
import { ApiError, endpoints } from '../../../core/mod.ts'
import { decodeHeader, door, type KitOptions, read } from '../../kit.ts'
import { HELLO, MODEL, reading, deltaChunk, slowChain, STREAM, streaming, table, USED } from './stream_kit.ts'

const HI = deltaChunk({ content: 'Hi' })
const RECEIPT = /^: payment-response (\S+)$/im

const lastMessage = (text: string): string => JSON.parse(text.slice(text.lastIndexOf('data: ') + 6)).error.message

/** A paid stream of alice's that the test feeds. */
async function fed(first: readonly string[] = [HI], options: KitOptions = {}) {
  const pieces = chatPieces(...first)
  const subject = await table(streaming(pieces.answer), options)
  const payment = await subject.signed()
  const response = await subject.post(STREAM, { payment })
  expect(response.status).toBe(200)
  const callOf = async () => {
    const identity = await subject.chain.identify(payment, payment.accepted, {
      now: subject.clock.now(),
      signal: new AbortController().signal,
    })
    return identity.kind === 'known' ? await subject.ports.storage.callOf(identity.key, subject.clock.now()) : undefined
  }
  return { ...subject, pieces, payment, response, reader: reading(response), callOf }
}

describe('a stream', () => {
  test('leaves as it comes: each piece before the next one is made, and headers that no proxy holds back', async () => {
    const { reader, pieces, response } = await fed([deltaChunk({ role: 'assistant', content: '' }), HI])
    expect([response.headers.get('content-type'), response.headers.get('x-accel-buffering')]).toEqual([
      'text/event-stream; charset=utf-8',
      'no',
    ])
    expect(await reader.next()).toBe(deltaChunk({ role: 'assistant', content: '' }))
    expect(await reader.next()).toBe(HI)
    for (const piece of [deltaChunk({ content: ' there' }), HI]) {
      pieces.push(piece)
      expect(await reader.next()).toBe(piece)
    }
  })

  test('is settled at its end, once, and its receipt is a comment before [DONE] (contract 6.20, 6.48, 6.50)', async () => {
    const { post, signed, chain, alice, ports } = await table(streaming(streamAnswer(HELLO)))
    const payment = await signed()
    const before = alice.balance()
    const text = await (await post(STREAM, { payment })).text()
    const [transfer] = chain.transfers
    expect([chain.transfers.length, before - alice.balance()]).toEqual([1, BigInt(payment.accepted.amount)])
    expect(text.startsWith(HELLO.slice(0, -2).join(''))).toBe(true)
    const tail = text.slice(text.indexOf('\n: ') + 1)
    expect([tail.endsWith(`\n\n${DONE}`), tail.split('\n\n').length]).toEqual([true, 3])
    expect(decodeHeader(RECEIPT.exec(tail)?.[1] ?? '')).toMatchObject({
      success: true,
      transaction: transfer?.transaction,
      payer: alice.wallet,
    })
    expect(tail).toContain(`: x-payment-receipt ${transfer?.transaction}`)
    expect(await ports.storage.unsettled(Number.MAX_SAFE_INTEGER, 9)).toEqual([])
  })

  test('is read up to its first word, and then when its reader asks, one piece at a time', async () => {
    let reads = 0
    const { post, signed, clock } = await table(streaming(streamAnswer(HELLO, { gate: () => void reads++ })))
    const reader = reading(await post(STREAM, { payment: await signed() }))
    for (const requestCount of [2, 2, 2, 3]) {
      await clock.settle()
      expect(reads).toBe(requestCount)
      await reader.next()
    }
  })

  test('whose settlement is slow ends after ten seconds all the same, and says so; the ledger ends settled', async () => {
    const { chain, open } = slowChain()
    const { post, signed, clock, idle, ports } = await table(streaming(streamAnswer(HELLO)), { chain })
    let text = ''
    const read = post(STREAM, { payment: await signed() }).then(async (response) => (text = await response.text()))
    await clock.advance(10_000)
    await read
    expect(text).toEndWith(`\n\n: x-payment-settled false\n: x-payment-settle-error-class unknown\n\n${DONE}`)
    open()
    await idle()
    expect([chain.transfers.length, await ports.storage.unsettled(Number.MAX_SAFE_INTEGER, 9)]).toEqual([1, []])
  })

  test('of 500 seconds outlives an authorization of 300, is settled when that has 30 seconds left, and ended at its limit (contract 6.48, 6.52)', async () => {
    const { reader, pieces, chain, streamed, clock, callOf } = await fed()
    const seconds = async (from: number, to: number) => {
      for (let at = from; at < to; at += 10) {
        await reader.next()
        pieces.push(HI)
        await streamed(10_000)
      }
    }
    await seconds(0, 260)
    await clock.advance(9_999)
    expect(chain.transfers).toEqual([])
    await clock.advance(1)
    expect([chain.transfers.length, (await callOf())?.paymentStatus]).toEqual([1, 'settled'])
    await seconds(270, 490)
    await reader.next()
    const rest = reader.rest()
    await streamed(10_000)
    const text = await rest
    expect(decodeHeader(RECEIPT.exec(text)?.[1] ?? '')).toMatchObject({ success: true })
    expect(text.slice(text.lastIndexOf('data: '))).toContain('500 seconds')
    expect([chain.transfers.length, pieces.isCancelled()]).toEqual([1, true])
  })

  test('whose payment is refused 30 seconds before the end of its authorization is cut there, with an error', async () => {
    const { reader, pieces, chain, alice, streamed, callOf } = await fed()
    await reader.next()
    chain.drain(alice.wallet)
    const rest = reader.rest()
    for (let at = 0; at < 270; at += 90) {
      await streamed(90_000)
      pieces.push(HI)
    }
    await streamed(1_000)
    const text = await rest
    expect(text.slice(text.lastIndexOf('data: '))).toContain('The payment of this stream was refused')
    expect([pieces.isCancelled(), chain.transfers.length, (await callOf())?.paymentStatus]).toEqual([
      true,
      0,
      'refused',
    ])
  })

  test('that an upstream error ends is not settled: an error event in our words, and the authorization is free (contract 6.51)', async () => {
    for (const end of [
      new Error('secret of the vendor'),
      'data: {"error":{"message":"secret of the vendor"}}\n\n',
      'end',
    ]) {
      const { reader, pieces, chain, callOf } = await fed([HI])
      if (end instanceof Error) pieces.end(end)
      else if (end === 'end') pieces.end()
      else pieces.push(end)
      const text = await reader.rest()
      expect([text.startsWith(HI), text.includes('secret'), text.includes('[DONE]'), chain.transfers.length]).toEqual([
        true,
        false,
        false,
        0,
      ])
      expect(JSON.parse(text.slice(HI.length + 6))).toMatchObject({
        error: { type: 'api_error', code: 'MODEL_UNAVAILABLE' },
      })
      expect(await callOf()).toBeUndefined()
    }
  })

  test('ends with an error event that says what was charged, whatever ended it (contract 3.24)', async () => {
    const NONE = 'Nothing was charged.'
    const broken = await fed()
    broken.pieces.end(new Error('secret'))
    expect(lastMessage(await broken.reader.rest())).toBe(`The model ended its answer early. ${NONE}`)

    const long = await fed()
    const payer = long.alice.balance()
    for (let at = 0; at < 500; at += 50) {
      await long.reader.next()
      long.pieces.push(HI)
      await long.streamed(50_000)
    }
    expect(lastMessage(await long.reader.rest())).toBe(
      'The stream reached its limit of 500 seconds. The signed price was charged.',
    )
    expect([long.chain.transfers.length, long.alice.balance() < payer]).toEqual([1, true])

    const stopped = await fed()
    await stopped.reader.next()
    stopped.gateway.drain()
    expect(lastMessage(await stopped.reader.rest())).toBe(
      'The gateway is stopping; the stream ends here. The signed price was charged.',
    )

    const early = await fed()
    await early.reader.next()
    await early.streamed(100_000)
    early.pieces.push(HI)
    await early.reader.next()
    await early.streamed(100_000)
    early.pieces.push(HI)
    await early.reader.next()
    await early.streamed(75_000)
    early.pieces.end(new Error('secret'))
    expect(early.chain.transfers).toHaveLength(1)
    expect(lastMessage(await early.reader.rest())).toBe(
      'The model ended its answer early. The signed price was charged.',
    )

    const { chain, open } = slowChain()
    const unknown = await fed([HI], { chain })
    await unknown.reader.next()
    unknown.gateway.drain()
    const rest = unknown.reader.rest()
    await unknown.clock.advance(10_000)
    expect(lastMessage(await rest)).toBe(
      'The gateway is stopping; the stream ends here. The signed price is charged once its settlement is confirmed, which it was not yet.',
    )
    open()
  })

  test('that stalls for 120 seconds while its reader asks is not settled, and the authorization is free (contract 6.51, 6.52)', async () => {
    const { reader, pieces, chain, clock, streamed, callOf, log } = await fed()
    await reader.next()
    await streamed(110_000)
    const waiting = reader.rest()
    await streamed(119_000)
    expect(pieces.isCancelled()).toBe(false)
    await clock.advance(1_000)
    expect(await waiting).toContain('"code":"TIMEOUT"')
    expect([pieces.isCancelled(), chain.transfers.length, await callOf(), log.lines]).toEqual([true, 0, undefined, []])
  })

  test('that sends nothing but comments is no answer: 504 after the time that an answer has, however many there are (contract 6.52, 6.58)', async () => {
    const pieces = chatPieces(': ping\n\n')
    const { post, signed, chain, streamed, ports } = await table(streaming(pieces.answer))
    const pending = post(STREAM, { payment: await signed() }).then(read)
    for (let at = 0; at < 120; at += 10) {
      pieces.push(': ping\n\n')
      await streamed(10_000)
    }
    const { status, body } = await pending
    expect([
      status,
      body.code,
      pieces.isCancelled(),
      chain.transfers.length,
      await ports.storage.lostCalls(Number.MAX_SAFE_INTEGER, 9),
    ]).toEqual([504, 'TIMEOUT', true, 0, []])
  })

  test('whose reader stalls on purpose is settled when its authorization has 30 seconds left, and ended at its limit', async () => {
    for (const pulls of [0, 1]) {
      const { reader, pieces, chain, streamed, callOf } = await fed([HI, HI])
      for (let pull = 0; pull < pulls; pull++) await reader.next()
      await streamed(269_000)
      expect(chain.transfers).toEqual([])
      await streamed(1_000)
      expect([chain.transfers.length, (await callOf())?.paymentStatus]).toEqual([1, 'settled'])
      await streamed(230_000)
      expect(pieces.isCancelled()).toBe(true)
      await reader.rest()
      expect(chain.transfers).toHaveLength(1)
    }
  })

  test('whose reader stalls on purpose with an authorization that outlives it is settled at the limit of the stream (contract 6.48)', async () => {
    const pieces = chatPieces(HI)
    const { post, alice, clock, chain, streamed } = await table(streaming(pieces.answer))
    const payment = alice.sign(await alice.ask(STREAM, { path: '/api/v1/chat/completions' }), {
      validBefore: BigInt(clock.now() / 1000 + 560),
    })
    expect((await post(STREAM, { payment })).status).toBe(200)
    await streamed(499_000)
    expect(chain.transfers).toEqual([])
    await streamed(1_000)
    expect([chain.transfers.length, pieces.isCancelled()]).toEqual([1, true])
  })

  test('with an authorization of 20 seconds is settled halfway', async () => {
    const pieces = chatPieces(HI)
    const { post, alice, clock, chain } = await table(streaming(pieces.answer))
    const payment = alice.sign(await alice.ask(STREAM, { path: '/api/v1/chat/completions' }), {
      validBefore: BigInt(clock.now() / 1000 + 20),
    })
    const reader = reading(await post(STREAM, { payment }))
    await reader.next()
    await clock.advance(9_999)
    expect(chain.transfers).toEqual([])
    await clock.advance(1)
    expect(chain.transfers).toHaveLength(1)
  })

  test('that wakes after its deadline hands out nothing more before its settlement has answered (contract 1.64)', async () => {
    for (const isFunded of [true, false]) {
      const gate = door()
      const chain = memoryChain({ before: (question) => (question === 'settle' ? gate.passed : undefined) })
      const { reader, pieces, clock, alice } = await fed([HI], { chain })
      expect(await reader.next()).toBe(HI)
      if (!isFunded) chain.drain(alice.wallet)
      await clock.advance(280_000)
      pieces.push(deltaChunk({ content: ' there' }), deltaChunk({}, { finish: 'stop' }), USED, DONE)
      pieces.end()
      let text = ''
      const rest = reader.rest().then((all) => (text = all))
      await clock.settle()
      expect(text).toBe('')
      gate.open()
      await rest
      expect([text.includes('there'), text.includes('payment of this stream was refused')]).toEqual([
        isFunded,
        !isFunded,
      ])
    }
  })

  test('that wakes after its authorization has ended unsent ends there, also where the chain cannot say so (contract 1.64)', async () => {
    const chain = memoryChain({
      before(question) {
        if (question === 'fate') throw new Error('the node is away')
      },
    })
    const { reader, pieces, clock, idle } = await fed([HI], { chain })
    expect(await reader.next()).toBe(HI)
    pieces.push(deltaChunk({ content: ' there' }), deltaChunk({}, { finish: 'stop' }), USED, DONE)
    pieces.end()
    await clock.advance(400_000)
    const text = await reader.rest()
    await idle()
    expect([text.includes('there'), text.includes('payment of this stream was refused')]).toEqual([false, true])
    expect(chain.transfers).toEqual([])
  })

  test('is not begun where its authorization ends within 20 seconds: 402, and no vendor is asked (contract 1.63)', async () => {
    for (const [seconds, status] of [
      [19, 402],
      [20, 200],
    ] as const) {
      const { post, alice, clock, chat } = await table(streaming(streamAnswer(HELLO)))
      const payment = alice.sign(await alice.ask(STREAM, { path: '/api/v1/chat/completions' }), {
        validBefore: BigInt(clock.now() / 1000 + seconds),
      })
      const response = await post(STREAM, { payment })
      expect([response.status, chat.orders.length]).toEqual([status, status === 200 ? 1 : 0])
      if (status === 402)
        expect((await read(response)).body).toMatchObject({
          code: 'PAYMENT_UNFUNDED',
          details:
            'the authorization ends in 19 seconds; a call of this kind needs at least 20 seconds. Sign now + maxTimeoutSeconds',
        })
    }
  })

  test('of an offer that lasts less than 40 seconds needs half of that alone (contract 1.63)', async () => {
    for (const [seconds, status] of [
      [9, 402],
      [10, 200],
    ] as const) {
      const { post, alice, clock, restart } = await table(streaming(streamAnswer(HELLO)))
      const sold = endpoints.map((endpoint) =>
        endpoint.kind === 'sold' && endpoint.delivery === 'stream'
          ? {
              ...endpoint,
              price: (...input: Parameters<typeof endpoint.price>) => {
                const price = endpoint.price(...input)
                return price === 'free' ? price : { ...price, maxTimeoutSeconds: 20 }
              },
            }
          : endpoint,
      )
      const gateway = restart({ endpoints: sold })
      const challenge = await alice.ask(STREAM, { path: '/api/v1/chat/completions', gateway })
      expect(challenge.body.accepts[0].maxTimeoutSeconds).toBe(20)
      const payment = alice.sign(challenge, { validBefore: BigInt(clock.now() / 1000 + seconds) })
      expect([seconds, (await post(STREAM, { payment, gateway })).status]).toEqual([seconds, status])
    }
  })

  test('whose reader leaves before content aborts its vendor at once, costs nothing, and leaves the authorization free', async () => {
    for (const reads of [0, 1]) {
      const { reader, pieces, chain, idle, callOf } = await fed([deltaChunk({ role: 'assistant', content: '' }), HI])
      for (let read = 0; read < reads; read++) await reader.next()
      await reader.leave()
      expect(pieces.isCancelled()).toBe(true)
      await idle()
      expect([chain.transfers.length, await callOf()]).toEqual([0, undefined])
    }
  })

  test('whose reader leaves after content aborts its vendor at once, and is settled (contract 6.48)', async () => {
    for (const isReading of [false, true]) {
      const { reader, pieces, chain, idle, callOf } = await fed()
      await reader.next()
      const pending = isReading ? reader.next() : undefined
      await reader.leave()
      expect(pieces.isCancelled()).toBe(true)
      await idle()
      await pending
      expect([chain.transfers.length, (await callOf())?.paymentStatus]).toEqual([1, 'settled'])
    }
  })

  test('whose reader leaves while it is settled is settled once', async () => {
    const { chain, open, settlements } = slowChain()
    const { reader, clock, idle, log } = await fed([...HELLO], { chain })
    for (let piece = 0; piece < 5; piece++) await reader.next()
    const last = reader.next()
    await clock.settle()
    expect(settlements()).toBe(1)
    await reader.leave()
    open()
    await idle()
    await last
    expect([chain.transfers.length, settlements(), log.lines]).toEqual([1, 1, []])
  })

  test('leaves no timer behind, however it ends', async () => {
    const ends = [
      async ({ reader, pieces }: Awaited<ReturnType<typeof fed>>) => (pieces.push(...HELLO), await reader.rest()),
      async ({ reader }: Awaited<ReturnType<typeof fed>>) => await reader.leave(),
      async ({ reader, pieces }: Awaited<ReturnType<typeof fed>>) => (pieces.end(), await reader.rest()),
    ]
    for (const end of ends) {
      const subject = await fed()
      await end(subject)
      await subject.idle()
      await subject.clock.settle()
      expect(subject.clock.waiting).toBe(0)
    }
  })

  test('that the vendor refuses before its first event is an answer like any other: status, no charge, a free authorization (contract 6.58)', async () => {
    const { post, signed, chain } = await table(async (_, { attempt }) =>
      attempt === 1 ? Promise.reject(new ApiError('RATE_LIMITED')) : streamAnswer(HELLO),
    )
    const payment = await signed()
    const { status, body } = await read(await post(STREAM, { payment }))
    expect([status, body.code, chain.transfers.length]).toEqual([429, 'RATE_LIMITED', 0])
    expect((await (await post(STREAM, { payment })).text()).endsWith(DONE)).toBe(true)
  })

  test('whose caller has gone when it begins is not begun', async () => {
    let isCancelled = false
    const gone = new AbortController()
    const ask = async () => (gone.abort(), streamAnswer(HELLO, { onCancel: () => void (isCancelled = true) }))
    const { post, signed, chain } = await table(undefined, { chatVendor: { format: 'chat', ask } })
    expect((await post(STREAM, { payment: await signed(), gone: gone.signal })).status).toBe(503)
    expect([isCancelled, chain.transfers.length]).toEqual([true, 0])
  })
})

describe('a stream of a vendor that speaks the format of its reader', () => {
  const events = (...all: readonly (readonly [string, object])[]) =>
    all.map(([event, data]) => `event: ${event}\ndata: ${JSON.stringify({ type: event, ...data })}\n\n`)
  const MESSAGES = events(
    ['message_start', { message: { usage: { input_tokens: 3 } } }],
    ['content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'Hi' } }],
    ['message_delta', { delta: { stop_reason: 'end_turn' } }],
    ['message_stop', {}],
  )
  const RESPONSES = events(
    ['response.created', { response: {} }],
    ['response.output_text.delta', { delta: 'Hi' }],
    ['response.completed', { response: { usage: { input_tokens: 3 } } }],
  )
  const CONTENTS = [
    { candidates: [{ content: { parts: [{ text: 'Hi' }] } }] },
    { candidates: [{ content: { parts: [{ text: '!' }] }, finishReason: 'STOP' }] },
  ].map((data) => `data: ${JSON.stringify(data)}\n\n`)
  const requests = [{ role: 'user', content: 'Hi?' }]
  const surfaces = [
    [
      'messages',
      MESSAGES,
      1,
      '/api/v1/messages',
      { model: 'vendor-g/chat-5.1-flagship', max_tokens: 100, messages: requests, stream: true },
    ],
    [
      'responses',
      RESPONSES,
      1,
      '/api/v1/responses',
      { model: MODEL, input: 'Hi?', max_output_tokens: 100, stream: true },
    ],
    [
      'generate_content',
      CONTENTS,
      1,
      '/api/v1beta/models/vendor-b/chat-3.1-pro:streamGenerateContent',
      { contents: [{ role: 'user', parts: [{ text: 'Hi?' }] }] },
    ],
  ] as const
  for (const [format, lines, buffered, path, body] of surfaces) {
    const openedBy = async (pieces: readonly (string | Error)[], { drains = false } = {}) => {
      const subject = await table(undefined, {
        chatVendor: {
          format,
          async ask() {
            if (drains) subject.chain.drain(subject.alice.wallet)
            return streamAnswer(pieces)
          },
        },
        allowlists: { generate_content: [memoryChain().wallet('alice')] },
        ...(drains && { newWallet: { calls: 1 } }),
      })
      const payment = await subject.signed(body, { path })
      return { table: subject, text: await (await subject.post(body, { path, payment })).text() }
    }
    const open = async (...pieces: readonly (string | Error)[]) => {
      const { table: subject, text } = await openedBy(pieces)
      return { ...subject, text }
    }

    test(`${format}: passes as it came, with the receipt before or in its last event`, async () => {
      const { text: sent, chain } = await open(...lines)
      // The receipt is a member of the last event (contract 7.36).
      const text =
        format === 'generate_content' ? sent.replace(/,"payment":\{[^}]*"payment-response"[^}]*\}/, '') : sent
      expect([text === sent, sent.includes('\n: ')]).toEqual(
        format === 'generate_content' ? [false, false] : [true, true],
      )
      const last = lines.slice(lines.length - buffered).join('')
      expect([
        text.startsWith(lines.slice(0, lines.length - buffered).join('')),
        text.endsWith(`\n\n${last}`),
        chain.transfers.length,
      ]).toEqual([true, true, 1])
      expect(text.replace(/^: .*\n: .*\n\n/m, '')).toBe(lines.join(''))
    })

    test(`${format}: all of its answer in the last event is withheld from a new wallet that cannot pay (contract 6.48)`, async () => {
      const payload = JSON.parse(/^data: (.*)$/m.exec(lines.at(-1) ?? '')?.[1] ?? '')
      const output = [{ type: 'message', content: [{ type: 'output_text', text: 'hello' }] }]
      const whole = format === 'responses' ? { ...payload, response: { ...payload.response, output } } : payload
      const last = lines.at(-1)?.replace(/^data: .*$/m, `data: ${JSON.stringify(whole)}`) ?? ''
      const pieces = format === 'messages' ? lines : [last]
      const { table: opened, text } = await openedBy(pieces, { drains: true })
      expect([text.includes('The payment of this stream was refused'), text.includes('STOP')]).toEqual([true, false])
      expect([text.includes('hello'), opened.chain.transfers.length]).toEqual([false, 0])
    })

    test(`${format}: one that breaks off is not charged, and ends with an error of its surface`, async () => {
      for (const end of [[], [new Error('secret')], ['event: error\ndata: {"error":{"message":"secret"}}\n\n']]) {
        const first = lines.slice(0, format === 'generate_content' ? 1 : 2)
        const { text, chain } = await open(...first, ...end)
        expect([text.startsWith(first.join('')), text.includes('secret'), chain.transfers.length]).toEqual([
          true,
          false,
          0,
        ])
        expect(text.slice(first.join('').length)).toMatch(
          format === 'generate_content' ? /^data: \{"error":\{"code":503/ : /^event: error\ndata: \{"type":"error"/,
        )
      }
    })
  }
})

describe('two hundred streams at once', () => {
  test('each get their pieces in turn, and each are settled once', async () => {
    const each = Array.from({ length: 200 }, () => chatPieces(deltaChunk({ content: 'round' })))
    let at = 0
    const { post, buyer, signed, chain, idle } = await table(async () => (each[at++] as (typeof each)[number]).answer)
    const readers = []
    for (let who = 0; who < 200; who++) {
      const by = buyer(`buyer ${who}`)
      readers.push(reading(await post(STREAM, { payment: await signed(STREAM, { by }), ip: `198.51.100.${who}` })))
    }
    for (const reader of readers) await reader.next()
    for (let round = 0; round < 5; round++) {
      const piece = deltaChunk({ content: `round ${round}` })
      for (const pieces of each) pieces.push(piece)
      expect(new Set(await Promise.all(readers.map((reader) => reader.next())))).toEqual(new Set([piece]))
    }
    for (const pieces of each) pieces.push(deltaChunk({}, { finish: 'stop' }), USED, DONE)
    const ends = await Promise.all(readers.map((reader) => reader.rest()))
    await idle()
    expect([
      ends.every((text) => text.endsWith(DONE)),
      chain.transfers.length,
      new Set(chain.transfers.map(({ from }) => from)).size,
    ]).toEqual([true, 200, 200])
  })
})

describe('a storage that fails under a stream', () => {
  const failing = (
    verb: 'claimSettlement' | 'finishSettlement' | 'moveCall' | 'putRecord',
    { after, times = 1 }: { after: boolean; times?: number },
  ) => {
    const storage = memoryStorage()
    let left = times
    const broken = async (...args: never[]): Promise<unknown> => {
      const ask = storage[verb] as (...args: never[]) => Promise<unknown>
      if (left-- <= 0) return await ask(...args)
      if (after) await ask(...args)
      throw new Error('disk full')
    }
    return { ...storage, [verb]: broken } as typeof storage
  }

  for (const after of [false, true]) {
    for (const verb of ['claimSettlement', 'finishSettlement'] as const) {
      test(`${after ? 'after' : 'before'} ${verb} took effect is alerted, and the stream is settled once`, async () => {
        const { post, signed, chain, streamed, gateway, log, idle, clock } = await table(
          streaming(streamAnswer(HELLO)),
          {
            ports: { storage: failing(verb, { after }) },
          },
        )
        const reader = reading(await post(STREAM, { payment: await signed() }))
        const rest = reader.rest()
        await clock.settle()
        for (const ms of [10_000, 40_000]) await streamed(ms)
        expect((await rest).endsWith(DONE)).toBe(true)
        await idle()
        expect(log.lines.some(({ level }) => level === 'alert')).toBe(true)
        await streamed(50_000)
        await gateway.maintain()
        expect([chain.transfers.length, log.lines.some(({ message }) => message === 'background work failed')]).toEqual(
          [1, false],
        )
      })
    }
  }

  test('until its authorization has ended has given it away: alerted, and nothing is left open', async () => {
    const { post, signed, chain, streamed, log, idle, ports } = await table(streaming(streamAnswer(HELLO)), {
      ports: { storage: failing('claimSettlement', { after: false, times: 1_000 }) },
    })
    const rest = reading(await post(STREAM, { payment: await signed() })).rest()
    await streamed(400_000)
    expect(await rest).toContain(': x-payment-settled false')
    await idle()
    expect([
      chain.transfers.length,
      log.lines.filter(({ level, fields }) => level === 'alert' && fields.isLast === true).length,
    ]).toEqual([0, 1])
    expect(await ports.storage.lostCalls(Number.MAX_SAFE_INTEGER, 9)).toEqual([])
  })

  test('while it records that a stream broke off is told once more: the authorization becomes free', async () => {
    const { reader, pieces, chain, streamed, callOf, log } = await fed([HI], {
      ports: { storage: failing('moveCall', { after: false, times: 2 }) },
    })
    pieces.end()
    expect(await reader.rest()).toContain('MODEL_UNAVAILABLE')
    await streamed(10_000)
    expect([chain.transfers.length, await callOf(), log.lines.some(({ level }) => level === 'alert')]).toEqual([
      0,
      undefined,
      true,
    ])
  })
})
