/** Orders with an API key that are sent again under the same `Idempotency-Key`. */
import { describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { usdc } from '../../../core/x402/money.ts'
import { NETWORK } from '../../adapters/chains/evm/channels/vouchers.ts'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import type { ChatAnswer, StoredRecord } from '../../../core/mod.ts'
import { streamAnswer, wholeAnswer } from '../../fakes/chat.ts'
import { scriptedVideo } from '../../fakes/videos.ts'
import { door, FOX, GENERATIONS } from '../../kit.ts'
import { unlessDead } from '../fault_injection.ts'
import { ending } from './dying_storage.ts'
import { CHARGE, HTTPS, KEY, QUOTE, selling } from './keys_kit.ts'
import { HELLO, reading, SKY, STREAM } from './stream_kit.ts'

const DAY = 86_400_000
type Subject = Awaited<ReturnType<typeof selling>>

const named = (id: string, key = KEY) => ({ headers: { authorization: `Bearer ${key}`, 'idempotency-key': id } })
const ID = named('order-1')

async function childOf({ ask }: Subject): Promise<string> {
  const response = await ask({ name: 'Ada', cap: '0.01' }, { path: '/api/v1/keys' })
  return String(((await response.json()) as { key: string }).key)
}

/** Counts what the vendor was asked. */
function counting(answer: () => Promise<ChatAnswer> = async () => wholeAnswer()) {
  let orders = 0
  return { script: async () => (orders++, await answer()), orders: () => orders }
}

describe('an order with a key and an Idempotency-Key that is sent again', () => {
  test('gets the same answer and is charged once (contract 23.20)', async () => {
    const vendor = counting()
    const subject = await selling(vendor.script)
    const first = await subject.ask(SKY, ID)
    const again = await subject.ask(SKY, ID)
    expect([first.status, again.status, await again.json()]).toEqual([200, 200, await first.json()])
    expect(again.headers.get('x-payment-charged')).toBe('0.001017')
    expect(again.headers.get('x-payment-status')).toBe('already_settled')
    expect(again.headers.get('cache-control')).toContain('no-store')
    expect(await subject.channel()).toMatchObject({ charged: CHARGE, reserved: 0n })
    // Some clients write a quoted string.
    expect((await subject.ask(SKY, named('"order-1"'))).status).toBe(200)
    expect([vendor.orders(), (await subject.calls()).length]).toEqual([1, 1])
    expect((await subject.ask(SKY, named('order-2'))).headers.get('x-payment-status')).toBeNull()
    expect(await subject.channel()).toMatchObject({ charged: CHARGE * 2n })
  })

  test('is 409 with another body or on another route, and the error names the header (contract 23.20)', async () => {
    const subject = await selling()
    await subject.ask(SKY, ID)
    const others = [
      await subject.ask({ ...SKY, max_tokens: 99 }, ID),
      await subject.ask(SKY, { path: '/api/v1/messages', ...ID }),
    ]
    for (const other of others) {
      expect([other.status, other.headers.get('x-should-retry')]).toEqual([409, 'false'])
      expect((await other.json()).error.message).toContain('Idempotency-Key was already used with another request')
    }
    expect(await subject.channel()).toMatchObject({ charged: CHARGE, reserved: 0n })
  })

  test('is another purchase of another key, of a child too, which reads nothing (contract 23.20)', async () => {
    const vendor = counting()
    const subject = await selling(vendor.script)
    const child = await childOf(subject)
    await subject.ask(SKY, ID)
    const own = await subject.ask(SKY, named('order-1', child))
    expect([own.headers.get('x-payment-status'), vendor.orders()]).toEqual([null, 2])
    // Nor does another body of theirs learn that the id is taken.
    expect((await subject.ask({ ...SKY, max_tokens: 99 }, named('order-1', await childOf(subject)))).status).toBe(200)
    expect((await subject.calls()).map(({ charge }) => Number(charge))).toEqual(Array(3).fill(Number(CHARGE)))
  })

  test('of which 32 arrive at once, over two replicas, is worked on once and charged once (contract 23.20)', async () => {
    const memory = memoryStorage()
    const ready = door()
    const vendor = counting(async () => (await ready.passed, wholeAnswer()))
    const first = await selling(vendor.script, { storage: { ...memory, isShared: true } })
    const second = await selling(vendor.script, { storage: { ...memory, isShared: true } })
    const all = Array.from({ length: 32 }, (_, i) => (i % 2 ? first : second).ask(SKY, ID))
    await first.clock.settle()
    ready.open()
    for (let passed = 0; passed < 20; passed++) for (const { clock } of [first, second]) await clock.advance(1_000)
    expect((await Promise.all(all)).map(({ status }) => status)).toEqual(Array(32).fill(200))
    expect([vendor.orders(), (await first.calls()).length]).toEqual([1, 1])
    expect(await first.channel()).toMatchObject({ charged: CHARGE, reserved: 0n })
  })

  test('of which three arrive at once and the first is not stored: another one is, and is charged once (contract 23.20)', async () => {
    for (const isShared of [false, true]) {
      const memory = { ...memoryStorage(), ...(isShared && { isShared: true as const }) }
      const [isRead, isOpen] = [door(), door()]
      let [opened, read] = [0, 0]
      const openCall: typeof memory.openCall = async (...given) => {
        if (++opened === 1) throw new Error('connection reset')
        await isRead.passed
        return await memory.openCall(...given).finally(() => isOpen.open())
      }
      // The first reads twice whether it is stored: that it failed may be an outage, or an id that is taken.
      const getCall: typeof memory.getCall = async (...given) => {
        const call = await memory.getCall(...given)
        if (opened > 0 && ++read === 2) isRead.open()
        return call
      }
      const moveCall: typeof memory.moveCall = async (...given) => (
        await isOpen.passed,
        await memory.moveCall(...given)
      )
      const vendor = counting()
      const subject = await selling(vendor.script, { storage: { ...memory, openCall, getCall, moveCall } })
      const all = Promise.all(Array.from({ length: 3 }, () => subject.ask(SKY, ID)))
      await subject.clock.settle()
      for (let passed = 0; passed < 5; passed++) await subject.clock.advance(1_000)
      expect((await all).map(({ status }) => status)).toEqual([503, 200, 200])
      expect((await subject.ask(SKY, ID)).status).toBe(200)
      expect([vendor.orders(), (await subject.calls()).map((call) => call.paymentStatus)]).toEqual([1, ['settled']])
      expect(await subject.channel()).toMatchObject({ charged: CHARGE, reserved: 0n })
    }
  })

  test('waits for the first one; after 30 seconds it is 409 and may be sent again (contract 23.20)', async () => {
    const ready = door()
    const subject = await selling(async () => (await ready.passed, wholeAnswer()))
    const first = subject.ask(SKY, ID)
    await subject.clock.settle()
    const early = subject.ask(SKY, ID)
    await subject.clock.advance(31_000)
    const { status, headers } = await early
    expect([status, headers.get('retry-after'), headers.get('x-should-retry')]).toEqual([409, '5', 'true'])
    const late = subject.ask(SKY, ID)
    await subject.clock.settle()
    ready.open()
    expect((await first).status).toBe(200)
    await subject.clock.advance(1_000)
    expect([(await late).status, (await late).headers.get('x-payment-status')]).toEqual([200, 'already_settled'])
    expect(await subject.channel()).toMatchObject({ charged: CHARGE, reserved: 0n })
  })

  test('waits beside at most 31 others; the next one is 409 at once (contract 23.20)', async () => {
    const ready = door()
    const subject = await selling(async () => (await ready.passed, wholeAnswer()))
    const first = subject.ask(SKY, ID)
    await subject.clock.settle()
    const waiting = Array.from({ length: 32 }, () => subject.ask(SKY, ID))
    await subject.clock.settle()
    const { status, headers } = await subject.ask(SKY, ID)
    expect([status, headers.get('x-should-retry')]).toEqual([409, 'true'])
    ready.open()
    expect((await first).status).toBe(200)
    await subject.clock.advance(1_000)
    expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual(Array(32).fill(200))
    expect((await subject.ask(SKY, ID)).status).toBe(200)
    expect(await subject.channel()).toMatchObject({ charged: CHARGE, reserved: 0n })
  })

  test('after a failure is worked on anew, and charged once (contract 23.20)', async () => {
    let turn = 0
    const subject = await selling(async () => {
      if (turn++ === 0) throw new Error('the vendor is down')
      return wholeAnswer()
    })
    expect((await subject.ask(SKY, ID)).status).toBeGreaterThanOrEqual(500)
    expect(await subject.channel()).toMatchObject({ charged: 0n, reserved: 0n })
    for (const status of [null, 'already_settled']) {
      const answer = await subject.ask(SKY, ID)
      expect([answer.status, answer.headers.get('x-payment-status')]).toEqual([200, status])
    }
    expect(await subject.channel()).toMatchObject({ charged: CHARGE, reserved: 0n })
  })

  test('streams again what was streamed, uncharged; a broken stream ends with an error that says so (contract 23.20)', async () => {
    const vendor = counting(async () => streamAnswer(HELLO))
    const subject = await selling(vendor.script)
    const first = await (await subject.ask(STREAM, ID)).text()
    const again = await subject.ask(STREAM, ID)
    const text = await again.text()
    const events = (of: string) => of.split('\n').filter((line) => line.startsWith('data:'))
    expect([again.headers.get('content-type'), events(text)]).toEqual([
      'text/event-stream; charset=utf-8',
      events(first),
    ])
    expect(again.headers.get('x-payment-charged')).toBe('0.001017')
    const left = reading(await subject.ask(STREAM, named('order-2')))
    for (let pieces = 0; pieces < 3; pieces++) await left.next()
    await left.leave()
    await subject.clock.settle()
    const charged = (await subject.channel())?.charged
    expect(await (await subject.ask(STREAM, named('order-2'))).text()).toContain('Only this part of the stream')
    expect([vendor.orders(), (await subject.channel())?.charged === charged]).toEqual([2, true])
  })

  test('finds its picture and its job, and is charged once for each (contract 23.20)', async () => {
    const subject = await selling(undefined, { balance: 2_000_000n, video: scriptedVideo() })
    const picture = await subject.ask(FOX, { path: GENERATIONS, ...ID })
    const same = await subject.ask(FOX, { path: GENERATIONS, ...ID })
    expect((await same.json()).data).toEqual((await picture.json()).data)
    const [call] = await subject.calls()
    expect(await subject.channel()).toMatchObject({ charged: call?.quote, reserved: 0n })
    const clip = { model: 'vendor-c/video-1', prompt: 'a fox' }
    const video = { path: '/api/v1/videos/generations', ...named('clip-1') }
    const [one, other] = [await subject.ask(clip, video), await subject.ask(clip, video)]
    expect([one.status, other.status, (await one.json()).id]).toEqual([202, 202, (await other.json()).id])
    expect(await subject.calls()).toHaveLength(2)
  })

  test('reads its answer when the key is used up or closed, and a day later buys another (contract 23.20)', async () => {
    const subject = await selling(undefined, { balance: QUOTE })
    expect((await subject.ask(SKY, ID)).status).toBe(200)
    expect((await subject.ask(SKY)).status).toBe(402)
    expect((await subject.ask(SKY, ID)).status).toBe(200)
    expect((await subject.ask({}, { path: '/api/v1/keys/close' })).status).toBe(200)
    expect((await subject.ask(SKY, ID)).status).toBe(200)
    await subject.clock.advance(DAY + 1)
    expect((await subject.ask(SKY, ID)).status).toBe(402)
  })

  test('is 400 under an id that is no text of 1 to 255 visible characters, before any work (contract 23.20)', async () => {
    const vendor = counting()
    const subject = await selling(vendor.script)
    for (const id of ['', 'a b', 'x'.repeat(256), 'é']) {
      const response = await subject.ask(SKY, named(id))
      expect([id, response.status, (await response.json()).error.message]).toEqual([
        id,
        400,
        expect.stringContaining('Idempotency-Key must be 1 to 255'),
      ])
    }
    expect(vendor.orders()).toBe(0)
    expect(await subject.channel()).toMatchObject({ charged: 0n, reserved: 0n })
    for (const id of ['x', 'x'.repeat(255), 'order/1:a,b']) expect((await subject.ask(SKY, named(id))).status).toBe(200)
  })

  test('whenever the process ends, is answered by the next one and charged once (contract 23.20)', async () => {
    for (const isShared of [false, true])
      for (const isDone of [false, true]) for (let at = 1; ; at++) if (!(await endsAt({ at, isDone, isShared }))) break
  })
})

/** False for a call that has fewer writes. */
async function endsAt({ at, isDone, isShared }: { at: number; isDone: boolean; isShared: boolean }): Promise<boolean> {
  const where = `${isShared ? 'with replicas' : 'alone'}, ${isDone ? 'after' : 'before'} write ${at}`
  const memory = { ...memoryStorage(), ...(isShared && { isShared: true as const }) }
  const dying = ending({ ...memory }, { at, isDone })
  const victim = await selling(undefined, { storage: dying.storage })
  dying.arm()
  await unlessDead(victim.clock, victim.ask(SKY, ID))
  if (!dying.isDead()) return false
  const next = await selling(undefined, { storage: { ...memory } })
  await next.gateway.takeOver()
  await next.clock.advance(60_000)
  await next.gateway.maintain()
  for (let turn = 0; turn < 2; turn++) {
    const answer = next.ask(SKY, ID)
    await next.clock.settle()
    for (let passed = 0; passed < 31; passed++) await next.clock.advance(1_000)
    expect([where, turn, (await answer).status]).toEqual([where, turn, 200])
  }
  await next.clock.advance(3_600_000)
  await next.gateway.maintain()
  const charged = (await next.calls()).reduce((sum, { receipt }) => sum + BigInt(receipt?.amount ?? 0), 0n)
  expect([where, charged, await next.channel()]).toMatchObject([where, CHARGE, { charged: CHARGE, reserved: 0n }])
  expect([where, (await next.ask(SKY)).status]).toEqual([where, 200])
  return true
}

test('the public SDK that resends after a lost answer is charged once (contract 23.20)', async () => {
  const subject = await selling()
  let sent = 0
  const losing = async (url: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const answer = await subject.gateway.fetch(new Request(url as string, init), { ip: '192.0.2.1' })
    if (++sent === 1) throw new TypeError('the connection was closed')
    return answer
  }
  const client = new OpenAI({ apiKey: KEY, baseURL: `${HTTPS}/api/v1`, fetch: losing as typeof fetch })
  const headers = { 'Idempotency-Key': 'order-1' }
  const answer = await client.chat.completions.create(SKY as never, { headers })
  expect([sent, answer.object, await subject.channel()]).toMatchObject([2, 'chat.completion', { charged: CHARGE }])
})

test('a charge is remembered until the ledger has it, however many others follow (contract 23.5)', async () => {
  const memory = memoryStorage()
  let isAway = false
  const finishSettlement: typeof memory.finishSettlement = async (...given) => {
    if (isAway) throw new Error('the storage is away')
    return await memory.finishSettlement(...given)
  }
  const subject = await selling(undefined, { storage: { ...memory, finishSettlement }, balance: 10_000_000n })
  const buy = async (prompt: string) => await subject.ask({ ...FOX, prompt }, { path: GENERATIONS })
  isAway = true
  await buy('the first')
  isAway = false
  const [first] = await subject.calls()
  expect(first?.paymentStatus).toBe('settling')
  for (let number = 0; number < 70; number++) expect((await buy(`number ${number}`)).status).toBe(200)
  // Those that the ledger has are forgotten.
  const channel = await memory.getRecord('channel', `${NETWORK}/${subject.buyer.channelId}`, subject.clock.now())
  const { data } = (channel as StoredRecord).data as unknown as { data: { charges: object } }
  expect(Object.keys(data.charges).length).toBeLessThan(5)
  await subject.clock.advance(120_000)
  await subject.gateway.maintain()
  const poll = await subject.ask(undefined, { path: `${GENERATIONS}/${first?.id}` })
  expect([poll.status, (await subject.channel())?.charged]).toEqual([200, usdc(71n * (first?.quote ?? 0n))])
})
