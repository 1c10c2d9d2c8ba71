import { afterAll, describe, expect, test } from 'bun:test'
import { connect } from 'node:net'
import type { ChatAnswer } from '../../core/mod.ts'
import { timeouts } from '../../core/payment/timeouts.ts'
import { chatPieces, DONE } from '../fakes/chat.ts'
import { app } from '../../server/app.ts'
import { COMPLETIONS, reading, deltaChunk, STREAM, table, USED } from '../core/call/stream_kit.ts'
import { door, encodePayment, type KitOptions } from '../kit.ts'

const main = await Bun.file(new URL('../../server/listen.ts', import.meta.url)).text()
const IDLE_S = Number(/idleTimeout: (\d+)/.exec(main)?.[1])

const servers: ReturnType<typeof Bun.serve>[] = []
afterAll(async () => {
  await Promise.all(servers.map((server) => server.stop(true)))
})

/** A gateway behind a real port, whose vendor's stream is this one. */
async function served(answer: ChatAnswer, options: KitOptions = {}) {
  const cancelled = door()
  if (answer.kind !== 'stream') throw new TypeError('a stream is served here')
  const { stream } = answer
  const watched: ChatAnswer = {
    kind: 'stream',
    stream: { next: stream.next, cancel: () => (stream.cancel(), cancelled.open()) },
  }
  const subject = await table(undefined, { chatVendor: { format: 'chat', ask: async () => watched }, ...options })
  const elysia = app({
    gateways: [{ gateway: subject.gateway, hosts: [] }],
    log: { ...subject.log, access() {}, flush() {} },
  })
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: IDLE_S,
    fetch: (request) => elysia.fetch(request),
  })
  servers.push(server)
  const payment = await subject.signed()
  const headers = { 'content-type': 'application/json', 'payment-signature': encodePayment(payment) }
  const ask = (signal?: AbortSignal) =>
    fetch(new URL(COMPLETIONS, server.url), {
      method: 'POST',
      headers,
      body: JSON.stringify(STREAM),
      ...(signal && { signal }),
    })
  return { ...subject, server, headers, ask, cancelled: cancelled.passed }
}

describe('over a real connection', () => {
  test('the first event arrives before the second is made, and the receipt before [DONE]', async () => {
    const pieces = chatPieces(deltaChunk({ role: 'assistant', content: 'zero' }))
    const { ask, chain } = await served(pieces.answer)
    const response = await ask()
    expect([response.status, response.headers.get('content-type'), response.headers.get('transfer-encoding')]).toEqual([
      200,
      'text/event-stream; charset=utf-8',
      'chunked',
    ])
    const reader = reading(response)
    expect(await reader.next()).toBe(deltaChunk({ role: 'assistant', content: 'zero' }))
    for (const word of ['one', 'two', 'three']) {
      await pieces.requested()
      pieces.push(deltaChunk({ content: word }))
      expect(await reader.next()).toBe(deltaChunk({ content: word }))
    }
    pieces.push(deltaChunk({}, { finish: 'stop' }), USED, DONE)
    expect(await reader.rest()).toMatch(/\n\n: payment-response \S+\n: x-payment-receipt \S+\n\ndata: \[DONE\]\n\n$/)
    expect(chain.transfers).toHaveLength(1)
  })

  test('a client that disconnects after content ends the upstream, and is charged', async () => {
    const pieces = chatPieces(deltaChunk({ content: 'Hi' }))
    const { ask, chain, cancelled, idle } = await served(pieces.answer)
    const leaving = new AbortController()
    const reader = reading(await ask(leaving.signal))
    await reader.next()
    await pieces.requested()
    leaving.abort()
    await cancelled
    await idle()
    expect([pieces.isCancelled(), chain.transfers.length]).toEqual([true, 1])
  })

  test('a client that disconnects before content ends the upstream, and is not charged', async () => {
    const pieces = chatPieces(deltaChunk({ role: 'assistant', content: '' }))
    const { ask, chain, cancelled, idle } = await served(pieces.answer)
    const leaving = new AbortController()
    const answer = ask(leaving.signal).catch((error: Error) => error.name)
    await pieces.requested()
    leaving.abort()
    await cancelled
    await idle()
    expect([await answer, pieces.isCancelled(), chain.transfers.length]).toEqual(['AbortError', true, 0])
  })

  test('a client that disconnects while its answer is awaited ends the upstream call, and is not charged', async () => {
    const [send, aborted] = [door(), door()]
    const ask = (_: unknown, { signal }: { signal: AbortSignal }) => {
      signal.addEventListener('abort', () => aborted.open())
      send.open()
      return new Promise<never>(() => {})
    }
    const subject = await served(chatPieces().answer, { chatVendor: { format: 'chat', ask } })
    const leaving = new AbortController()
    const answer = subject.ask(leaving.signal).catch((error: Error) => error.name)
    await send.passed
    leaving.abort()
    await aborted.passed
    expect([await answer, subject.chain.transfers.length]).toEqual(['AbortError', 0])
  })

  test('a client that does not read holds its upstream back', async () => {
    let reads = 0
    const piece = new TextEncoder().encode(deltaChunk({ content: 'x'.repeat(65_536) }))
    const { server, headers, cancelled, idle, chain } = await served({
      kind: 'stream',
      stream: { next: async () => (reads++, piece), cancel() {} },
    })
    const socket = connect({ host: '127.0.0.1', port: server.port as number })
    socket.pause()
    const body = JSON.stringify(STREAM)
    const lines = [
      `POST ${COMPLETIONS} HTTP/1.1`,
      'host: 127.0.0.1',
      ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
      `content-length: ${body.length}`,
    ]
    socket.write(`${lines.join('\r\n')}\r\n\r\n${body}`)
    const still = await settled(() => reads)
    expect([still > 0, still < 1_000]).toEqual([true, true])
    let bytes = 0
    socket.on('data', (data) => void (bytes += data.length))
    socket.resume()
    while (reads < still + 100) await new Promise((resolve) => setImmediate(resolve))
    socket.destroy()
    await cancelled
    await idle()
    expect([bytes > 0, chain.transfers.length]).toEqual([true, 1])
  })

  test('the longest silence of a stream is shorter than what the server takes for a dead connection', () => {
    expect([IDLE_S * 1000 > timeouts.answerMs, IDLE_S <= 255]).toEqual([true, true])
  })
})

/** A count that has begun, and has not changed for a thousand turns of the event loop. */
async function settled(count: () => number): Promise<number> {
  let seen = 0
  for (let turns = 0; turns < 1_000; turns++) {
    await new Promise((resolve) => setImmediate(resolve))
    if (count() === seen && seen > 0) continue
    seen = count()
    turns = 0
  }
  return seen
}
