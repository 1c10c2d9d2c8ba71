import { describe, expect, test } from 'bun:test'
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { scriptedVendor } from '../../fakes/images.ts'
import { door, FOX, GENERATIONS, kit, slowVendor } from '../../kit.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE

type Subject = ReturnType<typeof kit>

/** A purchase whose settlement goes as forecast, and the job that it became. */
async function doubtful(weather: 'landed' | 'late' | 'dropped', subject: Subject = kit()) {
  const alice = subject.buyer()
  const payment = alice.sign(await alice.ask())
  subject.chain.simulate(weather)
  const answer = await alice.buy(FOX, { payment })
  return { ...subject, alice, payment, answer, pollUrl: answer.body.poll_url as string }
}

describe('a settlement of unknown outcome', () => {
  test('is 202, never a new challenge (contract 1.35)', async () => {
    for (const weather of ['landed', 'late', 'dropped'] as const) {
      const { answer, log } = await doubtful(weather)
      expect([answer.status, answer.body.status, answer.headers.get('payment-required')]).toEqual([
        202,
        'in_progress',
        null,
      ])
      expect(log.lines).toMatchObject([{ level: 'warn', message: 'a settlement has an unknown outcome' }])
    }
  })

  test('is found out by tend() with the same authorization: one transfer, whatever became of the first', async () => {
    for (const weather of ['landed', 'late', 'dropped'] as const) {
      const { alice, payment, pollUrl, gateway, chain, ports, answer } = await doubtful(weather)
      if (weather === 'late') chain.deliver()
      await gateway.maintain()
      expect((await ports.storage.getCall(answer.body.id))?.paymentStatus).toBe('settled')
      const { status, body } = await alice.poll(pollUrl, payment)
      expect([weather, status, body.payment.status, chain.transfers.length]).toEqual([
        weather,
        200,
        'already_settled',
        1,
      ])
      await gateway.maintain()
      expect(alice.balance()).toBe(99_978_000n)
    }
  })

  test('that arrives after it was sent again moves money once', async () => {
    const { alice, payment, pollUrl, gateway, chain } = await doubtful('late')
    await gateway.maintain()
    chain.deliver()
    await gateway.maintain()
    expect([chain.transfers.length, (await alice.poll(pollUrl, payment)).body.payment.status]).toEqual([
      1,
      'already_settled',
    ])
  })

  test('is asked about before it is sent again', async () => {
    const requests: string[] = []
    const { gateway } = await doubtful(
      'landed',
      kit({ chain: memoryChain({ before: (question) => void requests.push(question) }) }),
    )
    requests.length = 0
    await gateway.maintain()
    expect(requests).toEqual(['fate'])
  })

  test('is asked about with the end of its life as it was told first, whatever is told later', async () => {
    const chain = memoryChain()
    const ends: (number | undefined)[] = []
    const { gateway, clock, ports, answer } = await doubtful(
      'dropped',
      kit({
        chain: { ...chain, fate: (payment, offer, at) => (ends.push(at.expiresAt), chain.fate(payment, offer, at)) },
      }),
    )
    const call = await ports.storage.getCall(answer.body.id)
    await clock.advance(MINUTE)
    await gateway.maintain()
    expect(ends).toEqual([(call?.createdAt ?? 0) + (call?.offer.maxTimeoutSeconds ?? 0) * 1_000])
  })

  test('is kept for 30 days from when it was found out', async () => {
    const { alice, payment, pollUrl, gateway, clock, ports } = await doubtful('landed')
    await clock.advance(HOUR)
    await gateway.maintain()
    await clock.advance(30 * 24 * HOUR - 1)
    await ports.storage.prune(clock.now())
    expect((await alice.poll(pollUrl, payment)).status).toBe(200)
    await clock.advance(1)
    await ports.storage.prune(clock.now())
    expect((await alice.poll(pollUrl, payment)).status).toBe(404)
  })

  test('is found out by a poll as well', async () => {
    const { alice, payment, pollUrl, chain } = await doubtful('landed')
    const { status, body } = await alice.poll(pollUrl, payment)
    expect([status, body.payment.status, body.payment.tx_hash]).toEqual([
      200,
      'settled',
      chain.transfers[0]?.transaction,
    ])
  })

  test('on a poll is 202 with a note, until it is known', async () => {
    const { alice, payment, pollUrl, chain } = await doubtful('landed')
    chain.outage(true)
    const waiting = await alice.poll(pollUrl, payment)
    expect([waiting.status, waiting.body.status, waiting.body.note]).toEqual([
      202,
      'in_progress',
      'The result is ready; its settlement is being confirmed. Poll again with the same authorization.',
    ])
    chain.outage(false)
    expect((await alice.poll(pollUrl, payment)).status).toBe(200)
  })

  test('of a node that hangs or breaks ends at the deadline, in 202', async () => {
    for (const how of [() => new Promise<never>(() => {}), () => Promise.reject(new Error('socket closed'))]) {
      let isBroken = true
      const chain = memoryChain({ before: (question) => (question === 'settle' && isBroken ? how() : undefined) })
      const { buyer, clock, gateway } = kit({ chain })
      const alice = buyer()
      const payment = alice.sign(await alice.ask())
      const bought = alice.buy(FOX, { payment })
      await clock.advance(30_000)
      const { status, body } = await bought
      expect(status).toBe(202)
      isBroken = false
      await gateway.maintain()
      expect((await alice.poll(body.poll_url, payment)).body.payment.status).toBe('already_settled')
      expect(chain.transfers).toHaveLength(1)
    }
  })

  test('that the chain refuses to repeat stays in doubt until it is paid or dead', async () => {
    const { alice, payment, pollUrl, gateway, chain, clock, ports, answer } = await doubtful('dropped')
    chain.simulate('refused')
    await gateway.maintain()
    expect((await ports.storage.getCall(answer.body.id))?.paymentStatus).toBe('settling')
    expect((await alice.buy(FOX, { payment })).body.code).toBe('PAYMENT_REPLAY')
    chain.drain(alice.wallet)
    await clock.advance(11 * MINUTE)
    await gateway.maintain()
    expect((await ports.storage.getCall(answer.body.id))?.paymentStatus).toBe('refused')
    chain.fund(alice.wallet, 22_000n)
    expect((await alice.poll(pollUrl, alice.sign(await alice.poll(pollUrl)))).body.payment.status).toBe('settled')
    expect(chain.transfers).toHaveLength(1)
  })

  test('that dies on the chain ends as refused, and a fresh authorization collects', async () => {
    const { alice, payment, pollUrl, gateway, chain } = await doubtful('dropped')
    chain.cancel(payment)
    await gateway.maintain()
    const { status, body } = await alice.poll(pollUrl, payment)
    expect([status, body.error]).toEqual([402, 'Payment settlement failed'])
    expect((await alice.poll(pollUrl, alice.sign(await alice.poll(pollUrl)))).body.payment.status).toBe('settled')
  })
})

describe('a fate that stays unknown', () => {
  test('ten minutes past validBefore alerts a person once; the row is unresolved, and the buyer has the result (contract 1.36)', async () => {
    const { alice, payment, pollUrl, gateway, chain, clock, ports, answer, log } = await doubtful('late')
    chain.outage(true)
    await clock.advance(20 * MINUTE)
    await gateway.maintain()
    expect((await ports.storage.getCall(answer.body.id))?.paymentStatus).toBe('settling')
    await clock.advance(1)
    await gateway.maintain()
    expect((await ports.storage.getCall(answer.body.id))?.paymentStatus).toBe('unresolved')
    for (let i = 0; i < 3; i++) {
      const { status, headers, body } = await alice.poll(pollUrl, payment)
      expect([status, body.payment, headers.get('x-payment-settled'), headers.get('payment-response')]).toEqual([
        200,
        { status: 'unresolved', tx_hash: '', network: 'base-sepolia' },
        'false',
        null,
      ])
      expect(body.data).toHaveLength(1)
      await gateway.maintain()
    }
    expect(log.lines.filter(({ level }) => level === 'alert').map(({ message }) => message)).toEqual([
      'the outcome of a payment is unknown; look it up on the chain',
    ])
  })

  test('is asked again where the process stood still in the middle of its attempt, past every limit', async () => {
    const ready = door()
    const subject = kit({
      chain: memoryChain({ before: (question) => (question === 'settle' ? ready.passed : undefined) }),
    })
    const alice = subject.buyer()
    const payment = alice.sign(await alice.ask())
    const buying = alice.buy(FOX, { payment })
    await subject.clock.settle()
    await subject.clock.advance(HOUR)
    ready.open()
    const answer = await buying
    await subject.clock.settle()
    expect((await subject.ports.storage.getCall(answer.body.id))?.paymentStatus).toBe('settling')
    await subject.gateway.maintain()
    // Nothing was sent in time, which the chain tells, and which is our fault.
    expect((await subject.ports.storage.getCall(answer.body.id))?.paymentStatus).toBe('refused')
    expect(subject.log.lines.filter(({ level }) => level === 'alert').map(({ message }) => message)).toEqual([
      'a payment could not be sent before its authorization ended; its buyer owes nothing',
    ])
  })

  test('is known in the end when the chain comes back: a poll reads settled, or asks for another signature', async () => {
    for (const weather of ['landed', 'late'] as const) {
      const { alice, payment, pollUrl, gateway, chain, clock } = await doubtful(weather)
      chain.outage(true)
      await clock.advance(HOUR)
      await gateway.maintain()
      chain.outage(false)
      const { status } = await alice.poll(pollUrl, payment)
      expect([weather, status, chain.transfers.length]).toEqual([
        weather,
        weather === 'landed' ? 200 : 402,
        weather === 'landed' ? 1 : 0,
      ])
    }
  })
})

describe('tend()', () => {
  test('fails what a dead process lost, uncharged, and frees its authorization', async () => {
    const { vendor, ready } = slowVendor()
    const { buyer, clock, restart, chain, ports, idle } = kit({ vendor })
    const alice = buyer()
    const payment = alice.sign(await alice.ask())
    void alice.buy(FOX, { payment })
    await clock.advance(29_999)
    const second = restart()
    await second.maintain()
    const { body } = await alice.buy(FOX, { payment, gateway: second })
    expect(body.code).toBe('PAYMENT_REPLAY')
    await clock.advance(1)
    await second.maintain()
    expect(await ports.storage.getCall(body.job_id)).toMatchObject({
      workStatus: 'failed',
      paymentStatus: 'verified',
      error: 'The work was lost when the server stopped. Nothing was charged.',
    })
    const again = alice.buy(FOX, { payment, gateway: second })
    await clock.settle()
    ready()
    expect((await again).status).toBe(200)
    await idle()
    expect(chain.transfers).toHaveLength(1)
  })

  test('leaves alone the money of other gateways', async () => {
    const { gateway, restart, ports, answer } = await doubtful('landed')
    await restart({ name: 'other' }).maintain()
    expect((await ports.storage.getCall(answer.body.id))?.paymentStatus).toBe('settling')
    await gateway.maintain()
    expect((await ports.storage.getCall(answer.body.id))?.paymentStatus).toBe('settled')
  })

  test('of a product that is sold no longer still finds out about its money', async () => {
    const { restart, ports, answer } = await doubtful('landed')
    await restart({ endpoints: [] }).maintain()
    expect((await ports.storage.getCall(answer.body.id))?.paymentStatus).toBe('settled')
  })

  test('of two processes at once settles once, and a call that is settled meanwhile is left alone', async () => {
    const gate = door()
    let requestCount = 0
    const hold = () => (requestCount++, gate.passed)
    const chain = memoryChain({ before: (question) => (question === 'fate' ? hold() : undefined) })
    const { gateway, restart, clock, ports, answer } = await doubtful('landed', kit({ chain }))
    const both = [gateway.maintain(), restart().maintain()]
    await clock.settle()
    gate.open()
    await Promise.all(both)
    expect([
      (await ports.storage.getCall(answer.body.id))?.paymentStatus,
      chain.transfers.length,
      requestCount,
    ]).toEqual(['settled', 1, 1])
    const stale = await ports.storage.getCall(answer.body.id)
    const behind = { ...ports.storage, unsettled: async () => (stale ? [stale] : []) }
    await restart({ ports: { ...ports, storage: behind } }).maintain()
    expect(chain.transfers).toHaveLength(1)
  })
})

describe('takeOver()', () => {
  test('fails every unfinished call of other owners at once, and none of its own', async () => {
    const { vendor } = slowVendor()
    const { buyer, clock, restart, gateway, ports } = kit({ vendor })
    const [alice, bob] = [buyer('alice'), buyer('bob')]
    const second = restart()
    const payment = alice.sign(await alice.ask())
    void alice.buy(FOX, { payment })
    void bob.buy(FOX, { gateway: second })
    await clock.settle()
    expect(await second.takeOver()).toBe(1)
    expect(await gateway.takeOver()).toBe(1)
    expect(await gateway.takeOver()).toBe(0)
    expect(await ports.storage.lostCalls(Number.MAX_SAFE_INTEGER, 10)).toEqual([])
  })

  test('the work that goes on regardless takes its call back, unless another call has its authorization: then it charges nothing (contract 2.1)', async () => {
    for (const isTaken of [false, true]) {
      const { vendor, ready } = slowVendor()
      const { buyer, clock, restart, idle, chain, log, ports } = kit({ vendor, inlineMs: 0 })
      const alice = buyer()
      const payment = alice.sign(await alice.ask())
      const { body } = await alice.buy(FOX, { payment })
      const second = restart()
      await second.takeOver()
      if (isTaken) expect((await alice.buy(FOX, { payment, gateway: second })).status).toBe(202)
      await clock.settle()
      ready()
      await idle()
      const late = { level: 'warn' as const, message: 'a result came too late: its call had already ended' }
      expect(log.lines.map(({ level, message }) => ({ level, message }))).toEqual(isTaken ? [late] : [])
      expect([isTaken, (await ports.storage.getCall(body.id))?.workStatus, chain.transfers]).toEqual([
        isTaken,
        isTaken ? 'failed' : 'completed',
        [],
      ])
    }
    const inline = kit({ vendor: scriptedVendor(async () => (await inline.restart().takeOver(), [{ url: 'data:,' }])) })
    expect([(await inline.buyer().buy()).status, inline.chain.transfers.length]).toEqual([200, 1])
  })
})

describe('a storage that fails', () => {
  const failing = (
    verb: 'openCall' | 'moveCall' | 'claimSettlement' | 'finishSettlement',
    { after }: { after: boolean },
  ) => {
    const storage = memoryStorage()
    let isBroken = true
    const broken = async (...args: never[]): Promise<never> => {
      if (after) await (storage[verb] as (...args: never[]) => Promise<unknown>)(...args)
      throw new Error('disk full')
    }
    const once = (...args: never[]) => {
      if (!isBroken) return (storage[verb] as (...args: never[]) => Promise<unknown>)(...args)
      isBroken = false
      return broken(...args)
    }
    return { ...storage, [verb]: once } as typeof storage
  }

  for (const after of [false, true]) {
    for (const verb of ['openCall', 'claimSettlement', 'finishSettlement'] as const) {
      test(`${after ? 'after' : 'before'} ${verb} took effect neither charges twice nor holds the authorization`, async () => {
        const { buyer, chain, clock, gateway, log, idle } = kit({ ports: { storage: failing(verb, { after }) } })
        const alice = buyer()
        const payment = alice.sign(await alice.ask())
        const first = await alice.buy(FOX, { payment })
        expect([verb, first.status]).toEqual([verb, verb === 'finishSettlement' ? 200 : 503])
        expect(log.lines.some(({ level }) => level === 'alert')).toBe(true)
        await idle()
        await clock.advance(45_000)
        await gateway.maintain()
        const again = await alice.buy(FOX, { payment })
        const collected = again.status === 402 ? await alice.poll(again.body.poll_url, payment) : again
        expect([collected.status, collected.body.data?.length, chain.transfers.length]).toEqual([200, 1, 1])
      })
    }
  }

  test('to record a refusal knows nothing for sure: 202, and the authorization stays the call’s', async () => {
    const { buyer, chain, gateway } = kit({ ports: { storage: failing('finishSettlement', { after: false }) } })
    const alice = buyer()
    chain.simulate('refused')
    const { status, body } = await alice.buy()
    expect([status, body.status]).toEqual([202, 'in_progress'])
    await gateway.maintain()
    expect(chain.transfers).toEqual([])
  })

  test('while a job completes fails it, and frees its authorization', async () => {
    for (const after of [false, true]) {
      const { buyer, chain, idle } = kit({ ports: { storage: failing('moveCall', { after }) }, inlineMs: 0 })
      const alice = buyer()
      const payment = alice.sign(await alice.ask())
      const { body } = await alice.buy(FOX, { payment })
      await idle()
      expect((await alice.poll(body.poll_url, payment)).body.status).toBe('failed')
      expect((await alice.buy(FOX, { payment })).status).toBe(202)
      await idle()
      expect(chain.transfers).toEqual([])
    }
  })

  test('altogether is 503 with Retry-After, one alert for all requests, and no secret in the answer', async () => {
    const storage = { ...memoryStorage(), callOf: () => Promise.reject(new Error('password of db')) }
    const { buyer, log } = kit({ ports: { storage } })
    const alice = buyer()
    for (let n = 0; n < 3; n++) {
      const { status, headers, body } = await alice.buy()
      expect([status, headers.get('retry-after'), body.error]).toEqual([503, '5', 'Not ready'])
      expect(JSON.stringify(body)).not.toContain('password')
    }
    expect(log.lines).toMatchObject([
      {
        level: 'alert',
        message: 'storage fails; nothing is sold until it answers',
        fields: { verb: 'callOf', error: 'password of db' },
      },
    ])
  })
})

test('a second gateway that never saw the sale collects, with a poll path of the contract', async () => {
  const { buyer, restart, idle } = kit({ inlineMs: 0 })
  const alice = buyer()
  const payment = alice.sign(await alice.ask())
  const { body } = await alice.buy(FOX, { payment })
  await idle()
  const { status } = await alice.poll(`${GENERATIONS}/${body.id}`, payment, { gateway: restart() })
  expect(status).toBe(200)
})
