import { describe, expect, test } from 'bun:test'
import { limitVendors, vendorSlots } from '../../../adapters/http/vendor_slots.ts'
import { vendorHttp } from '../../../adapters/http/fetch.ts'
import { testClock, testLog } from '../../kit.ts'

const never = () => new AbortController().signal

describe('slots at vendors', () => {
  test('are counted by host: a full one takes none of another', async () => {
    const slots = vendorSlots({ each: 2, all: 10 })
    const first = await slots.take('slow', never())
    await slots.take('slow', never())
    expect([slots.isFull('slow'), slots.isFull('quick')]).toEqual([true, false])
    first()
    first() // twice is once
    expect(slots.isFull('slow')).toBe(false)
    await slots.take('slow', never())
    expect(slots.isFull('slow')).toBe(true)
  })

  test('are waited for in order, also for those of all hosts together', async () => {
    const slots = vendorSlots({ each: 2, all: 3 })
    const order: string[] = []
    const take = async (host: string, name: string) => {
      const leave = await slots.take(host, never())
      order.push(name)
      return leave
    }
    const leaves = await Promise.all([take('a', 'a1'), take('a', 'a2'), take('b', 'b1')])
    const later = [take('a', 'a3'), take('b', 'b2'), take('c', 'c1')]
    expect(slots.isFull('c')).toBe(true)
    leaves[2]?.()
    await later[1]
    expect(order).toEqual(['a1', 'a2', 'b1', 'b2'])
    leaves[0]?.()
    await later[0]
    leaves[1]?.()
    await later[2]
    expect(order.slice(4)).toEqual(['a3', 'c1'])
  })

  test('are left by whoever stops waiting', async () => {
    const slots = vendorSlots({ each: 1, all: 1 })
    const leave = await slots.take('a', never())
    const stop = new AbortController()
    const waiting = Promise.resolve(slots.take('a', stop.signal))
    stop.abort(new Error('late'))
    await expect(waiting).rejects.toThrow('late')
    leave()
    expect(slots.isFull('a')).toBe(false)
  })
})

describe('a vendor client', () => {
  const URL_A = 'http://a.test/v1'

  function client(fetch: (url: string, init: RequestInit) => Promise<Response>) {
    const clock = testClock()
    const slots = limitVendors(clock, { each: 1, all: 1 })
    const http = vendorHttp({ name: 'a', maker: 'a', timeoutMs: 1_000, clock, log: testLog(), fetch })
    return { clock, slots, http, isFull: () => slots.isFull('a.test') }
  }

  test('takes a slot for each request, and gives it back when it has answered, failed or timed out', async () => {
    for (const answer of [
      async () => Response.json({}),
      async () => new Response('no', { status: 400 }),
      async () => Promise.reject(new Error('broken')),
    ]) {
      const { http, isFull } = client(answer)
      await http.postJson(URL_A, {}, { signal: never(), once: true }).catch(() => {})
      expect(isFull()).toBe(false)
    }
    const { http, isFull, clock } = client(
      (_, { signal }) =>
        new Promise((_resolve, reject) => signal?.addEventListener('abort', () => reject(signal.reason))),
    )
    const late = http.postJson(URL_A, {}, { signal: never() }).catch((error: Error) => error)
    expect(isFull()).toBe(true)
    const waiting = http.postJson(URL_A, {}, { signal: never() }).catch((error: Error) => error)
    await clock.advance(1_000)
    expect([await late, await waiting].map((each) => each instanceof Error)).toEqual([true, true])
    expect(isFull()).toBe(false)
  })

  test('keeps the slot of a stream until its end', async () => {
    const body = () => new Response('data: {"choices":[]}\n\n', { headers: { 'content-type': 'text/event-stream' } })
    for (const end of ['read', 'cancel', 'finish'] as const) {
      const { http, isFull } = client(async () => body())
      const reply = await http.postStream(URL_A, {}, { signal: never() })
      if (reply.kind !== 'stream') throw new Error('no stream')
      expect(isFull()).toBe(true)
      if (end === 'cancel') reply.stream.cancel()
      if (end === 'finish') reply.stream.finish?.()
      while (end === 'read' && (await reply.stream.next()));
      expect(isFull()).toBe(false)
    }
  })
})
