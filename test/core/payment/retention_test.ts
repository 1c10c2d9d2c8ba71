import { describe, expect, test } from 'bun:test'
import { memoryObjects } from '../../../adapters/objects/memory.ts'
import { PIXEL, scriptedVendor } from '../../fakes/images.ts'
import { endpoints, pruneExpired, type Retention, retention } from '../../../core/mod.ts'
import { isSold } from '../../../core/endpoint/mod.ts'
import { retentionOf } from '../../../core/payment/retention.ts'
import { FOX, type KitOptions, kit } from '../../kit.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR

/** A gateway with these lifetimes; `sweep` is what maintenance does once an hour. */
function fixture(wanted: Partial<Retention> = {}, options: KitOptions = {}) {
  const stored = memoryObjects()
  const keys = new Set<string>()
  const objects = {
    ...stored,
    put: (key: string, bytes: Uint8Array, type: string) => (keys.add(key), stored.put(key, bytes, type)),
  }
  const subject = kit({ retention: wanted, ...options, ports: { objects, ...options.ports } })
  const sweep = () => pruneExpired(subject.ports, { ...retention, ...wanted })
  const present = async () => {
    const found = await Promise.all([...keys].map((key) => subject.ports.objects.get(key)))
    return found.filter(Boolean).length
  }
  /** Time passes, and maintenance with it. */
  const pass = async (ms: number) => {
    for (let left = ms; left > 0; left -= 12 * HOUR) {
      await subject.clock.advance(Math.min(left, 12 * HOUR))
      await sweep()
    }
  }
  return { ...subject, keys, sweep, present, pass }
}

const SLOW = { model: 'vendor-e/image-pro', prompt: 'a red fox in the snow' }

/** A job whose result waits to be paid for. */
async function uncollected(subject: ReturnType<typeof fixture>) {
  const alice = subject.buyer()
  const payment = alice.sign(await alice.ask(SLOW))
  const { body } = await alice.buy(SLOW, { payment })
  await subject.idle()
  return { alice, payment, pollUrl: body.poll_url as string }
}

describe('lifetimes', () => {
  test('of unclaimed and settled results are the settings of the gateway (contract 2.29)', async () => {
    const subject = fixture({ unclaimedMs: 5 * HOUR, settledMs: 3 * DAY })
    const first = await uncollected(subject)
    await subject.clock.advance(5 * HOUR - 1)
    const collected = await first.alice.poll(first.pollUrl, first.alice.sign(await first.alice.ask(SLOW)))
    expect([collected.status, collected.body.payment.status]).toEqual([200, 'settled'])
    await subject.pass(3 * DAY - HOUR)
    expect((await first.alice.poll(first.pollUrl, first.payment)).status).toBe(200)
    await subject.pass(HOUR)
    expect((await first.alice.poll(first.pollUrl, first.payment)).status).toBe(404)
    const second = await uncollected(subject)
    await subject.clock.advance(5 * HOUR)
    const late = await second.alice.poll(second.pollUrl, second.alice.sign(await second.alice.ask(SLOW)))
    expect(late.status).toBe(404)
  })

  test('that an endpoint has of its own are kept where they are shorter', () => {
    const wanted = { ...retention, unclaimedMs: 72 * HOUR, settledMs: 90 * DAY, backgroundMs: DAY }
    const own = (settledMs: number, unclaimedMs = 48 * HOUR) =>
      retentionOf({ retention: { unclaimedMs, settledMs } }, wanted)
    expect(own(30 * DAY)).toEqual({ unclaimedMs: 72 * HOUR, settledMs: 90 * DAY, backgroundMs: DAY })
    expect(own(HOUR, 5 * HOUR)).toEqual({ unclaimedMs: 5 * HOUR, settledMs: HOUR, backgroundMs: DAY })
    for (const endpoint of endpoints) {
      if (!isSold(endpoint)) continue
      const usual = retentionOf(endpoint, retention)
      expect([endpoint.name, usual]).toEqual([endpoint.name, { ...endpoint.retention, backgroundMs: DAY }])
      const short = retentionOf(endpoint, { ...retention, unclaimedMs: HOUR, settledMs: HOUR })
      expect([endpoint.name, short.unclaimedMs <= HOUR && short.settledMs <= HOUR]).toEqual([endpoint.name, true])
    }
  })

  test('of ledger rows are for ever unless set; then settled calls go, and a statement of spend with them', async () => {
    const { buyer, gateway, pass, ports, chain } = fixture({ ledgerMs: 60 * DAY })
    const forever = fixture()
    for (const subject of [{ buyer, pass, ports }, forever]) {
      const { body } = await subject.buyer().buy(FOX)
      await subject.pass(59 * DAY)
      expect(await subject.ports.storage.getCall(body.id)).toMatchObject({ paymentStatus: 'settled', result: null })
      await subject.pass(2 * DAY)
      const isRetained = subject === forever
      expect((await subject.ports.storage.getCall(body.id)) !== undefined).toBe(isRetained)
      const spent = await subject.ports.storage.spendByModel(subject.buyer().wallet, 0)
      expect(spent.length).toBe(isRetained ? 1 : 0)
    }
    expect([chain.transfers.length, gateway.name]).toEqual([1, 'default'])
  })
})

describe('media', () => {
  test('of a settled result is kept for ever unless a lifetime is set (contract 2.30)', async () => {
    const subject = fixture()
    await subject.buyer().buy(FOX)
    await subject.pass(400 * DAY)
    expect([subject.keys.size, await subject.present()]).toEqual([1, 1])
  })

  test('of a settled call outlives its ledger row, also when no process ran in between (contract 2.30)', async () => {
    const subject = fixture({ ledgerMs: 60 * DAY })
    await subject.sweep()
    const { body } = await subject.buyer().buy(FOX)
    await subject.clock.advance(70 * DAY)
    await subject.pass(3 * DAY)
    expect([await subject.ports.storage.getCall(body.id), await subject.present()]).toEqual([undefined, 1])
  })

  test('is deleted when its lifetime is over, and not while its result can be read (contract 2.30)', async () => {
    const subject = fixture({ settledMs: 10 * DAY, mediaMs: 20 * DAY })
    const alice = subject.buyer()
    const { body } = await alice.buy(FOX)
    await subject.pass(20 * DAY - HOUR)
    expect([await subject.present(), (await alice.poll(await subject.keyed(body.id))).status]).toEqual([1, 404])
    await subject.pass(2 * DAY)
    expect(await subject.present()).toBe(0)
  })

  test('of a call that nobody paid for is deleted with it, and never before (contract 2.30)', async () => {
    const subject = fixture({ mediaMs: 30 * DAY })
    const { alice, pollUrl } = await uncollected(subject)
    await subject.pass(48 * HOUR - 1)
    expect(await subject.present()).toBe(1)
    expect((await alice.poll(pollUrl)).status).toBe(402)
    await subject.pass(3 * DAY)
    expect([await subject.present(), subject.chain.transfers]).toEqual([0, []])
  })

  test('of a call whose payment is in doubt stays', async () => {
    const subject = fixture({ settledMs: 2 * DAY, mediaMs: 2 * DAY })
    const { body } = await subject.buyer().buy(FOX)
    const { storage } = subject.ports
    const call = await storage.getCall(body.id)
    const doubtful = {
      ...storage,
      getCall: async () => call && { ...call, settledAt: null, paymentStatus: 'settling' },
    }
    for (let day = 0; day < 30; day++) {
      await subject.clock.advance(DAY)
      await pruneExpired({ ...subject.ports, storage: doubtful as typeof storage }, { ...retention, mediaMs: 2 * DAY })
    }
    expect(await subject.present()).toBe(1)
    await subject.pass(3 * DAY)
    expect(await subject.present()).toBe(0)
  })

  test('that could not be deleted is tried again the next day, and a person is told', async () => {
    const objects = memoryObjects()
    let isBroken = true
    const failing = { ...objects, delete: async (key: string) => (isBroken ? denied() : objects.delete(key)) }
    const denied = () => Promise.reject(new Error('AccessDenied'))
    const subject = fixture({ settledMs: DAY, mediaMs: DAY }, { ports: { objects: failing } })
    const { body } = await subject.buyer().buy(FOX)
    const [, key = ''] = (body.data[0].url as string).split('/api/media/')
    const isThere = async () => (await objects.get(key)) !== undefined
    await subject.pass(6 * DAY)
    const alerts = () => subject.log.lines.filter(({ level }) => level === 'alert')
    expect([await isThere(), alerts().length > 1]).toEqual([true, true])
    expect(alerts()[0]).toMatchObject({
      message: 'expired media could not be deleted; the next attempt is tomorrow',
      fields: { count: 1, error: 'AccessDenied' },
    })
    isBroken = false
    await subject.pass(2 * DAY)
    expect(await isThere()).toBe(false)
  })

  test('of hundreds of calls is deleted in one sweep, also after a long time without any', async () => {
    const vendor = scriptedVendor(async ({ n }) => Array.from({ length: n }, () => ({ url: PIXEL })))
    const subject = fixture({ settledMs: DAY, mediaMs: DAY }, { vendor })
    const alice = subject.buyer()
    for (let count = 0; count < 120; count++) await alice.buy({ ...FOX, n: 2 })
    expect(await subject.present()).toBe(240)
    await subject.sweep()
    await subject.clock.advance(200 * DAY)
    await subject.sweep()
    await subject.pass(2 * DAY)
    expect(await subject.present()).toBe(0)
  })
})
