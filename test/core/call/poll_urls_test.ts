import { describe, expect, test } from 'bun:test'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { pollUrls } from '../../../core/identity/poll_urls.ts'
import { polled } from '../../../core/endpoint/mod.ts'
import type { Storage } from '../../../core/mod.ts'
import { kit, ORIGIN, START, testClock } from '../../kit.ts'
import { cinema, DONE, FILMS, order, shoot, signed } from '../products/video/film.ts'

const DAY = 86_400_000
const [OLD, NEW, OTHER] = ['01'.repeat(32), '02'.repeat(32), '03'.repeat(32)] as const

/** The URL with its query changed. */
function changed(url: string, change: (query: URLSearchParams) => unknown): string {
  const [path, request] = url.split('?') as [string, string]
  const query = new URLSearchParams(request)
  change(query)
  return `${path}?${query}`
}

const random = (fill: number) => (bytes: number) => new Uint8Array(bytes).fill(fill)

describe('a signed poll URL', () => {
  test('is taken as it was given, and in no other way: hand-built, changed, cut or extended it is 400 Invalid job id, and asks nobody (contract 2.12)', async () => {
    const { alice, payment, pollUrl, id, studio, chain } = await shoot()
    studio.status = () => DONE
    const [path] = pollUrl.split('?') as [string]
    const bad = {
      'without a query': path,
      'by hand': `${path}?model=studio%2Ffilm-1&duration=8`,
      'by hand, with a signature': `${path}?model=studio%2Ffilm-1&duration=8&exp=9999999999&sig=${'0'.repeat(64)}`,
      'without a signature': changed(pollUrl, (query) => query.delete('sig')),
      'with another duration': changed(pollUrl, (query) => query.set('duration', '1')),
      'with a later end': changed(pollUrl, (query) => query.set('exp', '9999999999')),
      'without an end': changed(pollUrl, (query) => query.delete('exp')),
      'with more': changed(pollUrl, (query) => query.set('note', 'x')),
      'with something twice': changed(pollUrl, (query) => query.append('duration', '8')),
      'with half a signature': changed(pollUrl, (query) => query.set('sig', (query.get('sig') ?? '').slice(0, 32))),
      'with a signature in capitals': changed(pollUrl, (query) => query.set('sig', 'A'.repeat(64))),
      'of another job': pollUrl.replace(id, `job_${'a'.repeat(32)}`),
      'of a path that cannot be': `${FILMS}/%2F${pollUrl.slice(path.length)}`,
    }
    for (const [how, url] of Object.entries(bad)) {
      for (const paying of [payment, undefined]) {
        const { status, body } = await alice.poll(url, paying)
        expect([how, status, body.error]).toEqual([how, 400, 'Invalid job id'])
      }
    }
    expect([studio.polled, chain.transfers]).toEqual([[], []])
    expect((await alice.poll(pollUrl, payment)).status).toBe(200)
  })

  test('is not taken for another job of the same kind', async () => {
    const first = await shoot()
    const second = await order(first.alice, await signed(first.alice))
    const crossed = first.pollUrl.replace(first.id, second.body.id)
    expect((await first.alice.poll(crossed, first.payment)).status).toBe(400)
  })

  test('is not taken by another gateway of the same storage', async () => {
    const { alice, payment, pollUrl, restart } = await shoot()
    expect((await alice.poll(pollUrl, payment, { gateway: restart({ name: 'solana' }) })).status).toBe(400)
  })

  test('polls under another path as well, with the query that it was given', async () => {
    const alias = polled({
      name: 'films.short',
      path: '/api/v1/films/{id}',
      summary: 'Collect a film',
      tag: 'films',
      of: ['films.generations'],
      signedQuery: true,
    })
    const { alice, payment, pollUrl, gateway, restart } = await shoot()
    const wider = restart({ endpoints: [...gateway.endpoints, alias] })
    const short = pollUrl.replace('/generations/', '/')
    expect((await alice.poll(short, payment, { gateway: wider })).status).toBe(202)
    expect((await alice.poll(short.split('?')[0] as string, payment, { gateway: wider })).status).toBe(400)
  })

  test('is not needed where any call is collected by its id', async () => {
    const { alice, payment, id } = await shoot()
    expect((await alice.poll(`/api/v1/calls/${id}`, payment)).status).toBe(202)
  })

  test('lives as long as what it may collect: 30 days where that is paid, and is 400 after its end', async () => {
    const { alice, payment, pollUrl, studio, clock, chain } = await shoot()
    studio.status = () => DONE
    await alice.poll(pollUrl, payment)
    await clock.advance(30 * DAY - 1)
    expect((await alice.poll(pollUrl, payment)).body.payment.status).toBe('already_settled')
    const end = Number(new URL(pollUrl, ORIGIN).searchParams.get('exp')) * 1000
    expect(end).toBe(START + 30 * DAY + 3_600_000)
    await clock.advance(end - clock.now() - 1)
    expect((await alice.poll(pollUrl, payment)).status).toBe(200)
    await clock.advance(1)
    const { status, body } = await alice.poll(pollUrl, payment)
    expect([status, body.error, chain.transfers.length]).toEqual([400, 'Invalid job id', 1])
  })
})

describe('poll keys', () => {
  test('rotate: the newest signs, all of them are taken, and one that was dropped is not', async () => {
    const { alice, payment, pollUrl, restart } = await shoot(cinema({ pollKeys: [OLD] }))
    const rotated = restart({ pollKeys: [NEW, OLD] })
    expect((await alice.poll(pollUrl, payment, { gateway: rotated })).status).toBe(202)
    const next = await signed(alice)
    const { body } = await order(alice, next, { gateway: rotated })
    const dropped = restart({ pollKeys: [NEW] })
    const statuses = async (url: string, by: typeof payment) => [
      (await alice.poll(url, by, { gateway: dropped })).status,
      (await alice.poll(url, by, { gateway: restart({ pollKeys: [OLD] }) })).status,
    ]
    expect([await statuses(body.poll_url, next), await statuses(pollUrl, payment)]).toEqual([
      [202, 400],
      [400, 202],
    ])
    expect((await alice.poll(pollUrl, payment, { gateway: restart({ pollKeys: [OTHER] }) })).status).toBe(400)
  })

  test('that are no keys are refused at the start, and not repeated in what is said', () => {
    for (const bad of ['', 'secret', 'ab'.repeat(15), `${'ab'.repeat(16)}a`, 'zz'.repeat(32)]) {
      const { ports } = kit()
      const create = () => pollUrls(ports, [OLD, bad])
      expect(create).toThrow('poll key 2 must be at least 16 bytes in hex')
    }
    expect(() => cinema({ pollKeys: ['x'] })).toThrow(RangeError)
  })

  test('where none is given are one key that all replicas of a storage share, whoever made it first', async () => {
    const subject = cinema({ pollKeys: [] })
    const { ports, restart, buyer } = subject
    const gateways = [subject.gateway, restart({ ports: { ...ports, random: random(9) } })]
    const alice = buyer()
    const payments = [await signed(alice), await signed(alice)]
    const envelopes = await Promise.all(payments.map((payment, n) => order(alice, payment, { gateway: gateways[n]! })))
    for (const [n, { body }] of envelopes.entries()) {
      for (const gateway of [...gateways, restart()])
        expect((await alice.poll(body.poll_url, payments[n]!, { gateway })).status).toBe(202)
    }
  })

  test('outlive every sweep', async () => {
    const { alice, payment, pollUrl, clock, ports, restart } = await shoot(cinema({ pollKeys: [] }))
    await clock.advance(60_000)
    await ports.storage.prune(START + 1_000 * 365 * DAY)
    expect((await alice.poll(pollUrl, payment, { gateway: restart() })).status).toBe(202)
  })

  test('that could not be read are asked for again; until then nothing is sold', async () => {
    const good = memoryStorage()
    let isAway = true
    const storage: Storage = {
      ...good,
      getRecord: (...args) =>
        isAway && args[0] === 'poll_secret' ? Promise.reject(new Error('connection reset')) : good.getRecord(...args),
    }
    const subject = cinema({ pollKeys: [], ports: { storage } })
    const alice = subject.buyer()
    const payment = await signed(alice)
    expect([(await order(alice, payment)).status, subject.studio.submitted]).toEqual([503, 0])
    isAway = false
    expect((await order(alice, payment)).status).toBe(202)
  })

  test('are asked of storage once, not for each poll', async () => {
    const storage = memoryStorage()
    let requestCount = 0
    const counted: Storage = {
      ...storage,
      getRecord: (...question) => (
        (requestCount += Number(question[0] === 'poll_secret')),
        storage.getRecord(...question)
      ),
    }
    const sealing = pollUrls({ storage: counted, clock: testClock(), random: random(1) })
    const { gateway } = cinema()
    const film = gateway.endpoints.find(({ name }) => name === 'films.generations') as Parameters<
      typeof sealing.signed
    >[0]
    const urls = await Promise.all(
      [1, 2, 3].map(
        async (n) =>
          (await sealing.signed(film, { duration_seconds: n }, { id: `job_${n}`, expiresAt: START + 1 }))
            ._poll as string,
      ),
    )
    expect([requestCount, new Set(urls).size]).toEqual([1, 3])
  })
})
