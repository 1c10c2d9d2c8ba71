import { describe, expect, test } from 'bun:test'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { rateLimited } from '../../../core/http/errors.ts'
import type { Call } from '../../../core/ports/mod.ts'
import { START } from '../../kit.ts'
import { cinema, DONE, order, shoot, signed } from '../products/video/film.ts'

const HOUR = 3_600_000
const never = new Promise<never>(() => {})

describe('nobody polls:', () => {
  test('the sweep collects and mirrors, charges nothing, and the film can be claimed for 48 hours (contract 2.23)', async () => {
    for (const [ms, status] of [
      [48 * HOUR - 1, 200],
      [48 * HOUR, 400],
    ] as const) {
      const subject = await shoot()
      const { alice, pollUrl, studio, gateway, clock, chain, ports, id, idle } = subject
      await clock.advance(50 * 60_000)
      studio.status = () => DONE
      await gateway.maintain()
      await idle()
      expect([await ports.storage.getCall(id), chain.transfers, studio.fetched]).toMatchObject([
        { workStatus: 'completed', paymentStatus: 'verified' },
        [],
        1,
      ])
      studio.status = () => Promise.reject(new Error('the vendor has forgotten it'))
      await clock.advance(ms)
      const answer = await alice.poll(pollUrl, await signed(alice))
      expect([ms, answer.status, chain.transfers.length]).toEqual([ms, status, status === 200 ? 1 : 0])
      await gateway.maintain()
      await ports.storage.prune(clock.now())
      expect([(await ports.storage.getCall(id)) === undefined, studio.polled.length]).toEqual([status === 400, 1])
    }
  })

  test('the sweep asks after 50 films at a time, and comes to all of them although the first never end', async () => {
    const subject = cinema()
    const alice = subject.buyer()
    for (let n = 0; n < 70; n++) await order(alice, await signed(alice))
    for (const [polls, films] of [
      [50, 50],
      [100, 70],
      [150, 70],
    ] as const) {
      await subject.gateway.maintain()
      await subject.idle()
      expect([subject.studio.polled.length, new Set(subject.studio.polled).size]).toEqual([polls, films])
      await subject.gateway.maintain()
      await subject.clock.advance(15_000)
    }
  })

  test('the sweep comes to a film that stands behind 5,000 calls of other work', async () => {
    const { studio, gateway, ports, id, idle } = await shoot()
    const film = (await ports.storage.getCall(id)) as Call
    for (let n = 0; n < 5_000; n++) {
      const other = { ...film, id: `a queue ${n}`, endpoint: 'images', workerId: 'another' }
      const authorization = {
        key: `key ${n}`,
        payer: film.payer,
        payment: { x402Version: 2 as const, accepted: film.offer, payload: {} },
        offer: film.offer,
        expiresAt: START + HOUR,
      }
      await ports.storage.openCall(other, authorization, { now: START, until: START + 1_000 })
    }
    await gateway.maintain()
    await idle()
    expect(studio.polled.length).toBe(1)
  })

  test('the sweep goes on where a vendor fails, and leaves films of other gateways to them', async () => {
    const { studio, gateway, clock, restart, log, ports, id, idle } = await shoot()
    await restart({ name: 'solana' }).maintain()
    await idle()
    expect(studio.polled).toEqual([])
    studio.status = () => Promise.reject(rateLimited('studio', 9))
    await gateway.maintain()
    await idle()
    expect(log.lines.filter(({ level }) => level === 'alert')).toEqual([])
    studio.status = () => DONE
    await clock.advance(15_000)
    await gateway.maintain()
    await idle()
    expect((await ports.storage.getCall(id))?.workStatus).toBe('completed')
  })

  for (const by of ['a poll', 'the sweep'] as const) {
    test(`a film over one hour fails as stalled, uncharged, whatever its vendor says then: seen by ${by}`, async () => {
      const { alice, payment, pollUrl, studio, gateway, clock, chain, ports, id, idle } = await shoot()
      await clock.advance(HOUR)
      const nearly = await alice.poll(pollUrl, payment)
      expect([nearly.status, nearly.body.elapsed_seconds]).toEqual([202, 3600])
      studio.status = () => DONE
      await clock.advance(1)
      if (by === 'the sweep') await gateway.maintain()
      await idle()
      if (by === 'the sweep') expect((await ports.storage.getCall(id))?.workStatus).toBe('failed')
      const { status, body } = await alice.poll(pollUrl, payment)
      expect([status, body.status, body.payment_status, chain.transfers]).toEqual([200, 'failed', 'not_charged', []])
      expect(body.error).toStartWith('Job stalled')
    })
  }
})

describe('processes that come and go', () => {
  test('leave films alone: no lease of theirs, no start and no sweep ends one', async () => {
    const { alice, payment, pollUrl, studio, clock, restart, ports, id } = await shoot()
    const second = restart()
    expect(await second.takeOver()).toBe(0)
    for (let minute = 0; minute < 30; minute++) {
      await clock.advance(60_000)
      await second.maintain()
    }
    expect(await ports.storage.getCall(id)).toMatchObject({
      workStatus: 'in_progress',
      leaseExpiresAt: START + HOUR + 1,
    })
    studio.status = () => DONE
    await clock.advance(2_000)
    const { body } = await alice.poll(pollUrl, alice.sign(await alice.poll(pollUrl)), { gateway: second })
    expect(body.payment.status).toBe('settled')
    expect((await alice.poll(pollUrl, payment, { gateway: second })).body.payment.status).toBe('already_settled')
  })

  test('a replica that dies between mirror and completion is made up for by another when its turn ends', async () => {
    const subject = await shoot()
    const { alice, payment, pollUrl, studio, clock, ports, restart, chain } = subject
    studio.status = () => DONE
    const dying = restart({
      workerId: 'dying',
      ports: {
        ...ports,
        background: () => {},
        storage: { ...ports.storage, moveCall: () => never, lease: once(ports.storage.lease) },
      },
    })
    void alice.poll(pollUrl, payment, { gateway: dying })
    await clock.settle()
    expect(studio.fetched).toBe(1)
    await clock.advance(29_999)
    expect((await alice.poll(pollUrl, payment)).status).toBe(202)
    await clock.advance(1)
    const { status, body } = await alice.poll(pollUrl, payment)
    expect([status, body.payment.status, chain.transfers.length, studio.fetched]).toEqual([200, 'settled', 1, 2])
  })

  test('a replica that dies between completion and settlement leaves a film that another settles', async () => {
    const subject = await shoot()
    const { alice, payment, pollUrl, studio, clock, ports, restart, chain } = subject
    studio.status = () => DONE
    const dying = restart({
      workerId: 'dying',
      ports: { ...ports, background: () => {}, storage: { ...ports.storage, claimSettlement: () => never } },
    })
    void alice.poll(pollUrl, payment, { gateway: dying })
    await clock.settle()
    const { body } = await alice.poll(pollUrl, payment, { gateway: restart() })
    expect([body.payment.status, chain.transfers.length, studio.fetched]).toEqual(['settled', 1, 1])
  })

  test('share one storage: any of them takes the polls of any other', async () => {
    const storage = memoryStorage()
    const subject = await shoot(cinema({ ports: { storage } }))
    for (const owner of ['second', 'third'])
      expect(
        (await subject.alice.poll(subject.pollUrl, subject.payment, { gateway: subject.restart({ workerId: owner }) }))
          .status,
      ).toBe(202)
  })
})

/** Answers the first question, and never again. */
function once<Args extends unknown[], Answered>(
  ask: (...args: Args) => Promise<Answered>,
): (...rest: Args) => Promise<Answered> {
  let requestCount = 0
  return (...question) => (requestCount++ === 0 ? ask(...question) : never)
}
