/** Orders for models whose vendors have as many requests as they take. */
import { describe, expect, test } from 'bun:test'
import { scriptedChat } from '../../../fakes/chat.ts'
import { type ChatRow, chatRows } from '../../../../core/mod.ts'
import { kit, read } from '../../../kit.ts'
import { COMPLETIONS, SKY, STREAM, table } from '../../call/stream_kit.ts'

const MESSAGES = { path: '/api/v1/messages' } as const

describe('a model whose vendor is full (contract 6.66)', () => {
  async function busy() {
    const state = { isFull: false }
    const made = await table()
    const vendor = { ...made.chat, isFull: () => state.isFull }
    const subject = await table(undefined, { ports: { vendors: { chat: () => vendor } } })
    return { ...subject, state, chat: made.chat }
  }

  test('is 503 with Retry-After in place of the 402', async () => {
    const { state, post } = await busy()
    for (const body of [SKY, STREAM]) {
      state.isFull = false
      expect((await post(body)).status).toBe(402)
      state.isFull = true
      const full = await read(await post(body))
      expect([full.status, full.body.code, full.headers.get('retry-after')]).toEqual([503, 'MODEL_UNAVAILABLE', '5'])
    }
  })

  test('leaves a signed payment alone, which buys the same request later', async () => {
    const { state, post, signed, chat, chain } = await busy()
    const payment = await signed(SKY)
    state.isFull = true
    expect((await post(SKY, { payment })).status).toBe(503)
    expect([chat.orders.length, chain.transfers.length]).toEqual([0, 0])
    state.isFull = false
    expect((await post(SKY, { payment })).status).toBe(200)
    expect([chat.orders.length, chain.transfers.length]).toEqual([1, 1])
  })

  test('serves what was paid for, however full it is by then', async () => {
    const { state, post, signed, ports, chain, gateway } = await busy()
    const payment = await signed(SKY)
    const openCall = ports.storage.openCall
    Object.assign(ports.storage, {
      openCall: (...given: Parameters<typeof openCall>) => ((state.isFull = true), openCall(...given)),
    })
    expect([gateway.name, (await post(SKY, { payment })).status, chain.transfers.length]).toEqual(['default', 200, 1])
  })

  test('is answered by a fallback that is not', async () => {
    const [{ id, fallbacks = [] }] = chatRows.filter((row) => row.fallbacks && row.billing.mode === 'free') as [ChatRow]
    const [own, other] = [scriptedChat(), scriptedChat()]
    const full = { ...own, isFull: () => true }
    const { buyer } = kit({ ports: { vendors: { chat: (row) => (row.id === id ? full : other) } } })
    const { status, headers } = await buyer().ask({ ...SKY, model: id }, { path: COMPLETIONS })
    expect([status, fallbacks.includes(headers.get('x-fallback-model') ?? ''), own.orders.length]).toEqual([
      200,
      true,
      0,
    ])
  })

  test('is told in the words of each format', async () => {
    const { state, gateway } = await busy()
    state.isFull = true
    const request = new Request(`http://farebox.test${MESSAGES.path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(SKY),
    })
    const { status, body } = await read(await gateway.fetch(request, { ip: '192.0.2.1' }))
    expect([status, body.type]).toEqual([503, 'error'])
  })
})
