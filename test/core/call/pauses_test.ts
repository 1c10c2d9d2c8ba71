/**
 * A process that stands still, and a storage that is away, for longer than a lease: nothing is lost, and nothing is
 * given away.
 */
import { describe, expect, test } from 'bun:test'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { chatPieces, DONE } from '../../fakes/chat.ts'
import type { Call, Gateway, Storage } from '../../../core/mod.ts'
import { FOX, kit, slowVendor } from '../../kit.ts'
import { reading, deltaChunk, STREAM, table, USED } from './stream_kit.ts'

const LEASE = 5_000
const PAUSE = 8_000
const HI = deltaChunk({ content: 'Hi' })
const END = [deltaChunk({ content: ' there' }), deltaChunk({}, { finish: 'stop' }), USED, DONE]

/** A storage in memory that answers nobody while it is away. */
function shaky() {
  const inner = memoryStorage()
  let isAway = false
  const away =
    (ask: (...args: never[]) => unknown) =>
    (...args: never[]) =>
      isAway ? Promise.reject(new Error('connection refused')) : ask(...args)
  const storage = Object.fromEntries(
    Object.entries(inner).map(([verb, ask]) => [verb, away(ask as never)]),
  ) as unknown as Storage
  return { storage, inner, go: () => void (isAway = true), comeBack: () => void (isAway = false) }
}

/** Streams under way, each of a wallet of its own, of which each reader has had the first piece. */
async function streams(count: number, storage: Storage = memoryStorage()) {
  const feeds: ReturnType<typeof chatPieces>[] = []
  const script = async () => {
    const pieces = chatPieces(HI)
    feeds.push(pieces)
    return pieces.answer
  }
  const subject = await table(script, { timeouts: { workLeaseMs: LEASE }, ports: { storage } })
  const readers = []
  for (let n = 0; n < count; n++) {
    const wallet = subject.buyer(`wallet ${n}`)
    const payment = await subject.signed(STREAM, { by: wallet })
    const reader = reading(await subject.post(STREAM, { payment }))
    expect(await reader.next()).toBe(HI)
    readers.push({ reader, payment, feed: feeds[n] as (typeof feeds)[number] })
  }
  /** Another process that is alive all the while. */
  const other = subject.restart({ workerId: 'other' })
  const round = async (gateway: Gateway) => {
    for (const step of [gateway.renew, gateway.maintain]) await step().catch(() => {})
  }
  return { ...subject, readers, other, round }
}

describe('a process that stood still for longer than its lease', () => {
  test('ends the streams that others took for lost, whole and paid: 8 of 8', async () => {
    const { readers, other, round, clock, chain, idle, log } = await streams(8)
    await round(other)
    // In steps for the other, which is alive, and of one piece for the one that stands still.
    for (let left = PAUSE; left > 0; left -= 1_000) {
      await clock.advance(1_000)
      await round(other)
    }
    let whole = 0
    for (const { reader, feed } of readers) {
      feed.push(...END)
      whole += Number((await reader.rest()).endsWith(DONE))
    }
    await idle()
    expect([whole, chain.transfers.length, log.lines.filter(({ level }) => level !== 'info')]).toEqual([8, 8, []])
  })

  test('gives nothing more of a stream whose payment now serves another call: one answer, one transfer', async () => {
    const { readers, other, round, clock, chain, post, idle } = await streams(8)
    await clock.advance(PAUSE)
    await round(other)
    let pairs = 0
    for (const [n, { reader, payment, feed }] of readers.entries()) {
      const again = reading(await post(STREAM, { payment, gateway: other }))
      expect(await again.next()).toBe(HI)
      feed.push(...END)
      const rest = await reader.rest()
      expect([rest.includes('there'), rest.includes('now serves another call')]).toEqual([false, true])
      expect(n).toBe(pairs++)
      await again.leave()
    }
    await idle()
    expect(chain.transfers.length).toBe(8)
  })

  test('completes the jobs that others took for lost', async () => {
    const { vendor, ready } = slowVendor()
    const { buyer, clock, restart, idle, ports } = kit({ vendor, inlineMs: 0, timeouts: { workLeaseMs: LEASE } })
    const alice = buyer()
    const payment = alice.sign(await alice.ask())
    const { body } = await alice.buy(FOX, { payment })
    await clock.advance(PAUSE)
    await restart().maintain()
    expect((await ports.storage.getCall(body.id))?.workStatus).toBe('failed')
    ready()
    await idle()
    expect((await alice.poll(body.poll_url, payment)).body.payment.status).toBe('settled')
  })
})

describe('a storage that was away for longer than a lease', () => {
  test('holds streams back until it is known whose they are: 8 of 8 are then delivered and paid', async () => {
    const { storage, go, comeBack } = shaky()
    const { readers, other, round, clock, chain, gateway, idle, log } = await streams(8, storage)
    for (const each of [gateway, other]) await round(each)
    go()
    for (let second = 1; second <= 10; second++) {
      await clock.advance(1_000)
      for (const each of [gateway, other]) await round(each)
    }
    let heard = 0
    const rests = readers.map(async ({ reader, feed }) => {
      feed.push(...END)
      const piece = await reader.next()
      heard++
      return `${piece}${await reader.rest()}`
    })
    await clock.settle()
    expect(heard).toBe(0)
    comeBack()
    // The other one comes first, and fails nobody: nobody could say that he is alive.
    await round(other)
    await clock.advance(1_000)
    expect((await Promise.all(rests)).filter((text) => text.endsWith(DONE)).length).toBe(8)
    await idle()
    expect(chain.transfers.length).toBe(8)
    // Both share one storage object here, as gateways of one process do: one outage, one alert.
    expect(log.lines.filter(({ level }) => level === 'alert').map(({ message }) => message)).toEqual([
      'storage fails; nothing is sold until it answers',
    ])
  })

  test('answers the same request as one that is being worked on, for another lease, and then as lost', async () => {
    const { storage, go, comeBack } = shaky()
    const { readers, other, round, clock, post } = await streams(1, storage)
    await round(other)
    go()
    await clock.advance(10_000)
    await round(other)
    comeBack()
    await round(other)
    const [{ payment } = { payment: undefined }] = readers
    const ask = async () => (await post(STREAM, { gateway: other, ...(payment && { payment }) })).status
    expect(await ask()).toBe(402)
    await clock.advance(LEASE - 1)
    await round(other)
    expect(await ask()).toBe(402)
    await clock.advance(1)
    await round(other)
    expect(await ask()).toBe(200)
  })

  for (const [end, work] of [
    ['is done', 'completed'],
    ['fails', 'failed'],
  ] as const) {
    test(`learns how work ended that ${end} meanwhile: no call is renewed for ever`, async () => {
      const { storage, inner, go, comeBack } = shaky()
      const { vendor, ready } = slowVendor()
      const failing = {
        ...vendor,
        generate: async (...job: Parameters<typeof vendor.generate>) => (
          await vendor.generate(...job),
          Promise.reject(new Error('upstream'))
        ),
      }
      const { buyer, gateway, clock, idle, chain } = kit({
        vendor: end === 'fails' ? failing : vendor,
        inlineMs: 0,
        timeouts: { workLeaseMs: LEASE },
        ports: { storage },
      })
      const alice = buyer()
      const payment = alice.sign(await alice.ask())
      const { body } = await alice.buy(FOX, { payment })
      await clock.settle()
      go()
      ready()
      await idle()
      expect((await alice.poll(body.poll_url, payment)).status).toBe(503)
      await clock.advance(2_000)
      comeBack()
      await gateway.renew()
      const { leaseExpiresAt, ...call } = (await inner.getCall(body.id)) as Call
      expect(call.workStatus).toBe(work)
      await clock.advance(2_000)
      await gateway.renew()
      expect((await inner.getCall(body.id))?.leaseExpiresAt).toBe(leaseExpiresAt)
      const polled = await alice.poll(body.poll_url, payment)
      expect(end === 'fails' ? polled.body.status : polled.body.payment.status).toBe(
        end === 'fails' ? 'failed' : 'settled',
      )
      expect(chain.transfers.length).toBe(end === 'fails' ? 0 : 1)
    })
  }

  test('is asked to renew the calls of living work, and no others', async () => {
    const storage = memoryStorage()
    const renewed: (readonly string[])[] = []
    const { vendor, ready } = slowVendor()
    const { buyer, gateway, idle } = kit({
      vendor,
      inlineMs: 0,
      ports: {
        storage: { ...storage, renew: (owner, ids, until) => (renewed.push(ids), storage.renew(owner, ids, until)) },
      },
    })
    const { body } = await buyer().buy()
    await gateway.renew()
    ready()
    await idle()
    await gateway.renew()
    expect(renewed).toEqual([[body.id], []])
  })
})
