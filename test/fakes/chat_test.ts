import { describe, expect, test } from 'bun:test'
import { chatPieces, chunk, DONE, scriptedChat, streamAnswer, USAGE, usageChunk, wholeAnswer } from './chat.ts'
import type { ChatAnswer, ChatOrder, ChatStream } from '../../core/mod.ts'
import { brokenChatVendors, dutifulChat } from '../conformance/broken_chat_vendors.ts'
import { chatVendorLaws } from '../conformance/chat_vendors.ts'
import { runBroken, runLaws } from '../conformance/law.ts'

runLaws('scripted chat', chatVendorLaws, async () => {
  const harness = dutifulChat()
  return { open: async () => harness, close: async () => {} }
})

runBroken('chat vendors', chatVendorLaws, brokenChatVendors)

const order = (stream: boolean): ChatOrder => ({
  format: 'chat',
  model: 'm',
  body: { messages: [{ role: 'user', content: 'hi' }] },
  stream,
  headers: {},
})
const calm = () => ({ signal: new AbortController().signal })
const text = (bytes: Uint8Array | undefined) => bytes && new TextDecoder().decode(bytes)

function streamOf(answer: ChatAnswer): ChatStream {
  if (answer.kind !== 'stream') throw new Error('not a stream')
  return answer.stream
}

describe('scriptedChat()', () => {
  test('says Hello, whole and in pieces, under the model that was asked', async () => {
    const vendor = scriptedChat()
    expect(await vendor.ask(order(false), calm())).toEqual(wholeAnswer({ model: 'm' }))
    const stream = streamOf(await vendor.ask(order(true), calm()))
    const pieces = []
    for (let piece = await stream.next(); piece; piece = await stream.next()) pieces.push(text(piece))
    expect(pieces.slice(1, 3)).toEqual([
      chunk({ content: 'Hel' }, { model: 'm' }),
      chunk({ content: 'lo' }, { model: 'm' }),
    ])
    expect(pieces.slice(3)).toEqual([
      chunk({}, { finish: 'stop', model: 'm' }),
      usageChunk(USAGE, { model: 'm' }),
      DONE,
    ])
  })

  test('records its orders, and tells the script which one it is', async () => {
    const attempts: number[] = []
    const vendor = scriptedChat(
      async (_, { attempt }) => {
        attempts.push(attempt)
        return wholeAnswer()
      },
      { format: 'messages' },
    )
    await vendor.ask(order(false), calm())
    await vendor.ask(order(true), calm())
    expect([vendor.format, vendor.orders, attempts]).toEqual(['messages', [order(false), order(true)], [1, 2]])
  })

  test('an abort ends a script that never answers, with its reason', async () => {
    const controller = new AbortController()
    const pending = scriptedChat(() => new Promise(() => {}))
      .ask(order(false), controller)
      .catch((error: unknown) => error)
    controller.abort('enough')
    expect(await pending).toBe('enough')
  })
})

describe('answers', () => {
  test('wholeAnswer() writes what it is told: calls, reasoning, how it ended', () => {
    const { body } = wholeAnswer({ toolCalls: [{ name: 'f', arguments: { a: 1 } }], reasoning: 'hm' })
    const calls = [{ id: 'call_1', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }]
    expect(body.choices).toEqual([
      {
        index: 0,
        message: { role: 'assistant', content: '', reasoning_content: 'hm', tool_calls: calls },
        finish_reason: 'tool_calls',
      },
    ])
    expect(wholeAnswer({ content: null, finish: 'content_filter' }).body.choices).toEqual([
      { index: 0, message: { role: 'assistant', content: null }, finish_reason: 'content_filter' },
    ])
  })

  test('streamAnswer() holds pieces behind its gate, and rejects with the error among them', async () => {
    const gate = Promise.withResolvers<void>()
    const apiError = new Error('gone')
    const { stream } = streamAnswer([chunk({ content: 'a' }), chunk({ content: 'b' }), apiError], {
      gate: (index) => (index === 1 ? gate.promise : undefined),
    })
    expect(text(await stream.next())).toBe(chunk({ content: 'a' }))
    let isThere = false
    const second = stream.next().then((piece) => {
      isThere = true
      return text(piece)
    })
    await new Promise((resolve) => setImmediate(resolve))
    expect(isThere).toBe(false)
    gate.resolve()
    expect(await second).toBe(chunk({ content: 'b' }))
    expect(stream.next()).rejects.toBe(apiError)
  })

  test('onCancel comes once: at a cancel or at an abort, and not after the end', async () => {
    let cancels = 0
    const vendor = scriptedChat(async () => streamAnswer([DONE], { onCancel: () => void cancels++ }))
    const controller = new AbortController()
    const open = async (at = calm()) => streamOf(await vendor.ask(order(true), at))
    const cancelled = await open(controller)
    cancelled.cancel()
    cancelled.cancel()
    expect(cancels).toBe(1)
    const aborted = await open(controller)
    controller.abort()
    aborted.cancel()
    expect(cancels).toBe(2)
    const ended = await open()
    while (await ended.next()) continue
    ended.cancel()
    expect(cancels).toBe(2)
  })

  test('chatPieces() gives what is pushed, tells when its reader waits, and ends as it is told', async () => {
    const pieces = chatPieces('a')
    const stream = streamOf(await scriptedChat(async () => pieces.answer).ask(order(true), calm()))
    expect(text(await stream.next())).toBe('a')
    const waiting = stream.next()
    await pieces.requested()
    pieces.push('b', 'c')
    expect([text(await waiting), text(await stream.next())]).toEqual(['b', 'c'])
    pieces.end(new Error('gone'))
    expect(stream.next()).rejects.toThrow('gone')
    pieces.end()
    expect(await stream.next()).toBeUndefined()
  })

  test('chatPieces() knows when it was cancelled', async () => {
    const pieces = chatPieces()
    const stream = streamOf(await scriptedChat(async () => pieces.answer).ask(order(true), calm()))
    const waiting = stream.next()
    await pieces.requested()
    expect(pieces.isCancelled()).toBe(false)
    stream.cancel()
    expect([await waiting, pieces.isCancelled()]).toEqual([undefined, true])
  })
})
