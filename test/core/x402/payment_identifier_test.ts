import { describe, expect, test } from 'bun:test'
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { scriptedVendor } from '../../fakes/images.ts'
import type { Gateway, Payment, Storage } from '../../../core/mod.ts'
import { type Answer, type Buyer, decodeHeader, FOX, kit, type Kit, slowVendor } from '../../kit.ts'
import {
  expectNothingLeft,
  injected,
  labelOf,
  type Played,
  type Recovery,
  recover,
  injectEverywhere,
  unlessDead,
} from '../fault_injection.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR
const NAME = 'purchase_0123-4567'

/** The payment under an identifier, as the official client writes it into the echoed declaration. */
const named = (payment: Payment, id: unknown = NAME): Payment => ({
  ...payment,
  extensions: { 'payment-identifier': { info: { required: false, id } } },
})
const fresh = async (alice: Buyer, id: unknown = NAME, body: unknown = FOX): Promise<Payment> =>
  named(alice.sign(await alice.ask(body)), id)

/** A gateway, a buyer, and a first purchase under an identifier. */
async function bought(subject: Kit = kit()) {
  const alice = subject.buyer()
  const payment = await fresh(alice)
  const first = await alice.buy(FOX, { payment })
  await subject.idle()
  return { ...subject, alice, payment, first }
}

/** Another authorization of the wallet, which nothing has spent. */
const isUnspent = ({ chain }: Pick<Kit, 'chain'>, payment: Payment): boolean => chain.submit(payment)

describe('a challenge', () => {
  test('declares the identifier as optional, in under 6 KB, and official clients that echo it without an id pay as ever (contract 1.44)', async () => {
    const { buyer } = kit()
    const alice = buyer()
    const challenge = await alice.ask()
    const { extensions } = decodeHeader(challenge.headers.get('payment-required'))
    const declared = { info: { required: false } }
    const schema = { properties: { id: { minLength: 16, maxLength: 128 } }, required: ['required'] }
    expect(extensions['payment-identifier']).toMatchObject(declared)
    expect(challenge.body.extensions['payment-identifier']).toMatchObject({ ...declared, schema })
    expect(JSON.stringify([...challenge.headers]).length).toBeLessThan(6_000)
    expect((await alice.buy(FOX, { payment: { ...alice.sign(challenge), extensions } })).status).toBe(200)
  })

  test('takes any identifier of 16 to 128 allowed characters; another one is 400, naming the field, before anything is asked (contract 1.43, 1.44)', async () => {
    const requests: string[] = []
    const { buyer, vendor } = kit({ chain: memoryChain({ before: (question) => void requests.push(question) }) })
    const alice = buyer()
    for (const id of [
      'x'.repeat(15),
      'x'.repeat(129),
      'sixteen letters!',
      `${'x'.repeat(16)}\n`,
      '',
      1234567890123456,
      null,
      ['x'.repeat(16)],
    ]) {
      const { status, body } = await alice.buy(FOX, { payment: await fresh(alice, id) })
      expect([id, status, body.code, body.details[0].path]).toEqual([
        id,
        400,
        'INVALID_PAYMENT_IDENTIFIER',
        'extensions.payment-identifier.info.id',
      ])
      expect(body.message).toContain('16 to 128 characters')
    }
    expect([requests, vendor.jobs.length]).toEqual([[], 0])
    for (const id of ['x'.repeat(16), 'Z'.repeat(128), '_-_-_-_-_-_-_-_-'])
      expect((await alice.buy(FOX, { payment: await fresh(alice, id) })).status).toBe(200)
  })

  test('is answered without an identifier by extensions of any shape', async () => {
    const { buyer } = kit()
    const alice = buyer()
    for (const extensions of [
      null,
      1,
      'x',
      [],
      {},
      { 'payment-identifier': null },
      { 'payment-identifier': { info: 'x' } },
      { 'payment-identifier': { info: {} } },
    ]) {
      expect((await alice.buy(FOX, { payment: { ...alice.sign(await alice.ask()), extensions } })).status).toBe(200)
    }
  })
})

describe('the same identifier with the same request', () => {
  test('gets the same result and the same receipt, with the same authorization and with a fresh one, which stays unspent (contract 1.43)', async () => {
    const subject = await bought()
    const { alice, payment, first, chain, vendor } = subject
    const other = await fresh(alice)
    for (const again of [payment, other]) {
      const { status, headers, body } = await alice.buy(FOX, { payment: again })
      expect([status, body]).toEqual([
        200,
        { ...first.body, payment: { ...first.body.payment, status: 'already_settled' } },
      ])
      expect(headers.get('payment-response')).toBe(first.headers.get('payment-response'))
    }
    expect([first.status, chain.transfers.length, vendor.jobs.length, isUnspent(subject, other)]).toEqual([
      200,
      1,
      1,
      true,
    ])
  })

  test('is looked up before verification: a wallet that is empty by now, or a chain that is away, changes nothing', async () => {
    const { alice, payment, chain } = await bought()
    chain.drain(alice.wallet)
    expect((await alice.buy(FOX, { payment: await fresh(alice) })).status).toBe(200)
    chain.outage(true)
    expect((await alice.buy(FOX, { payment })).status).toBe(200)
  })

  test('is 202 with the job while it runs, and the other authorization stays unspent', async () => {
    const { vendor, ready } = slowVendor()
    const subject = kit({ vendor })
    const alice = subject.buyer()
    const payment = await fresh(alice)
    const first = alice.buy(FOX, { payment })
    await subject.clock.settle()
    const other = await fresh(alice)
    for (const again of [payment, other]) {
      const { status, headers, body } = await alice.buy(FOX, { payment: again })
      expect([status, body.status, body.payment_status, headers.get('location')]).toEqual([
        202,
        'queued',
        'verified',
        body.poll_url,
      ])
    }
    await subject.streamed(30_000)
    const { body: job } = await first
    expect((await alice.buy(FOX, { payment: other })).body).toMatchObject({ id: job.id, status: 'in_progress' })
    ready()
    await subject.idle()
    expect((await alice.poll(job.poll_url, payment)).body.payment.status).toBe('settled')
    expect([vendor.jobs.length, subject.chain.transfers.length, isUnspent(subject, other)]).toEqual([1, 1, true])
  })

  test('twenty times at once, with twenty authorizations, is one execution and one transfer', async () => {
    const subject = kit()
    const alice = subject.buyer()
    const payments = await Promise.all(Array.from({ length: 20 }, () => fresh(alice)))
    const answers = await Promise.all(payments.map((payment) => alice.buy(FOX, { payment })))
    await subject.idle()
    expect(answers.filter(({ body }) => body.payment?.status === 'settled')).toHaveLength(1)
    expect(new Set(answers.map(({ status, body }) => `${status < 300} ${body.id}`)).size).toBe(1)
    expect([subject.chain.transfers.length, subject.vendor.jobs.length, alice.balance()]).toEqual([1, 1, 99_978_000n])
    expect(payments.filter((payment) => isUnspent(subject, payment))).toHaveLength(19)
  })

  test('sent concurrently from a wallet with money for one refuses no request', async () => {
    const subject = kit()
    const alice = subject.buyer()
    subject.chain.drain(alice.wallet)
    subject.chain.fund(alice.wallet, 22_000n)
    const payments = await Promise.all(Array.from({ length: 5 }, () => fresh(alice)))
    const answers = await Promise.all([...payments, ...payments].map((payment) => alice.buy(FOX, { payment })))
    expect([answers.filter(({ status }) => status >= 300), subject.vendor.jobs.length]).toEqual([[], 1])
  })

  test('executes again after a failure, which was free', async () => {
    let isBroken = true
    const vendor = scriptedVendor(async ({ n }) => {
      if (isBroken) throw new Error('out of order')
      return Array.from({ length: n }, () => ({ url: 'data:image/png;base64,iVBORw0KGgo=' }))
    })
    const { alice, payment, first, chain } = await bought(kit({ vendor }))
    expect(first.status).toBe(500)
    isBroken = false
    const answers = await Promise.all([alice.buy(FOX, { payment }), alice.buy(FOX, { payment: await fresh(alice) })])
    expect(answers.map(({ status }) => status < 300)).toEqual([true, true])
    expect([vendor.jobs.length, chain.transfers.length]).toEqual([2, 1])
    expect((await alice.buy(FOX, { payment })).body.payment.status).toBe('already_settled')
  })

  test('executes again after its process has died, once its lease has run out', async () => {
    const subject = await bought(kit({ vendor: slowVendor().vendor, inlineMs: 0, ports: { background: () => {} } }))
    const { alice, payment, first, clock, restart } = subject
    const gateway = restart()
    expect((await alice.buy(FOX, { payment, gateway })).body.id).toBe(first.body.id)
    await clock.advance(30_000)
    const again = await alice.buy(FOX, { payment, gateway })
    expect([again.status, again.body.id === first.body.id]).toEqual([202, false])
  })

  test('pays for a result that is ready, with whichever authorization still can', async () => {
    for (const isExpired of [false, true]) {
      const { alice, first, chain, clock } = await bought(kit({ inlineMs: 0 }))
      if (isExpired) await clock.advance(HOUR)
      const again = await alice.buy(FOX, { payment: await fresh(alice) })
      expect([first.status, again.status, again.body.id, again.body.payment.status, chain.transfers.length]).toEqual([
        202,
        200,
        first.body.id,
        'settled',
        1,
      ])
    }
  })

  test('is 402 with its job where the result is ready and this authorization cannot pay for it', async () => {
    const { alice, payment, first, chain, clock } = await bought(kit({ inlineMs: 0 }))
    await clock.advance(HOUR)
    const { status, headers, body } = await alice.buy(FOX, { payment })
    expect([status, body.job_id, body.poll_url, body.recoverable]).toEqual([
      402,
      first.body.id,
      first.body.poll_url,
      true,
    ])
    expect(decodeHeader(headers.get('payment-required')).accepts).toEqual(body.accepts)
    chain.outage(true)
    expect((await alice.buy(FOX, { payment: await fresh(alice) })).body).toMatchObject({
      id: first.body.id,
      status: 'in_progress',
      poll_url: first.body.poll_url,
    })
    expect(chain.transfers).toEqual([])
  })

  test('begins afresh when its time is over, and is forgotten with it', async () => {
    const { alice, first, clock, chain, ports } = await bought()
    await clock.advance(2 * DAY - 1)
    expect((await alice.buy(FOX, { payment: await fresh(alice) })).body.id).toBe(first.body.id)
    // The order of a new wallet, which counted for an hour.
    expect(await ports.storage.prune(clock.now())).toBe(1)
    await clock.advance(1)
    expect(await ports.storage.prune(clock.now())).toBe(1)
    expect((await alice.buy(FOX, { payment: await fresh(alice) })).body.payment.status).toBe('settled')
    expect(chain.transfers).toHaveLength(2)
  })

  test('begins afresh when nothing is left of its call, however long the identifier was to live', async () => {
    const long = memoryStorage()
    const storage: Storage = {
      ...long,
      putRecord: (record, now) => long.putRecord({ ...record, expiresAt: now + 90 * DAY }, now),
    }
    const { alice, clock, chain } = await bought(kit({ ports: { storage } }))
    await clock.advance(31 * DAY)
    await storage.prune(clock.now())
    expect((await alice.buy(FOX, { payment: await fresh(alice) })).body.payment.status).toBe('settled')
    expect(chain.transfers).toHaveLength(2)
  })
})

describe('the same identifier', () => {
  test('with another request is 409, and moves nothing (contract 1.44)', async () => {
    const { alice, payment, chain, vendor } = await bought()
    const other = { ...FOX, prompt: 'a blue fox' }
    for (const again of [payment, await fresh(alice)]) {
      const { status, body } = await alice.buy(other, { payment: again })
      expect([status, body.error, body.code]).toEqual([
        409,
        'Payment identifier conflict',
        'PAYMENT_IDENTIFIER_CONFLICT',
      ])
      expect(body.message).toContain('another request')
    }
    expect([chain.transfers.length, vendor.jobs.length]).toEqual([1, 1])
  })

  test('with two requests at once serves one of them', async () => {
    const { buyer, chain, vendor } = kit()
    const alice = buyer()
    const pending = [FOX, { ...FOX, prompt: 'a blue fox' }].map(async (body) =>
      alice.buy(body, { payment: await fresh(alice) }),
    )
    expect((await Promise.all(pending)).map(({ status }) => status).sort()).toEqual([200, 409])
    expect([chain.transfers.length, vendor.jobs.length]).toEqual([1, 1])
  })

  test('is another one for another wallet, and at another gateway', async () => {
    const { buyer, alice, gateway, restart, first, chain } = await bought()
    const elsewhere: readonly [Buyer, Gateway][] = [
      [buyer('bob'), gateway],
      [alice, restart({ name: 'other' })],
    ]
    for (const [who, at] of elsewhere) {
      const { status, body } = await who.buy(FOX, { payment: await fresh(who), gateway: at })
      expect([status, body.payment.status, body.id === first.body.id]).toEqual([200, 'settled', false])
    }
    expect(chain.transfers).toHaveLength(3)
  })

  test('does not let one authorization buy twice: that of another purchase is PAYMENT_REPLAY', async () => {
    const { alice, payment, first, vendor } = await bought()
    const { status, body } = await alice.buy(FOX, { payment: named(payment, 'another-identifier') })
    expect([status, body.code, body.job_id, vendor.jobs.length]).toEqual([402, 'PAYMENT_REPLAY', first.body.id, 1])
    expect(
      (await alice.buy(FOX, { payment: named(await fresh(alice), 'another-identifier') })).body.payment.status,
    ).toBe('settled')
  })

  test('of a payment that was refused may be used again at once', async () => {
    const { buyer, chain } = kit()
    const alice = buyer()
    const payment = await fresh(alice)
    chain.drain(alice.wallet)
    expect((await alice.buy(FOX, { payment })).body.code).toBe('PAYMENT_UNFUNDED')
    chain.fund(alice.wallet, 1_000_000n)
    expect((await alice.buy(FOX, { payment })).body.payment.status).toBe('settled')
  })

  test('of a form matches whatever its boundary', async () => {
    const { buyer, gateway, chain } = kit()
    const alice = buyer()
    const path = '/api/v1/images/image2image'
    const pixel = Uint8Array.from(
      atob('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=='),
      (char) => char.charCodeAt(0),
    )
    const send = async (prompt: string, payment?: Payment) => {
      const form = new FormData()
      form.set('prompt', prompt)
      form.set('image', new Blob([pixel], { type: 'image/png' }), 'pixel.png')
      const headers = payment && { 'payment-signature': btoa(JSON.stringify(payment)) }
      const response = await gateway.fetch(
        new Request(`http://farebox.test${path}`, { method: 'POST', body: form, ...(headers && { headers }) }),
      )
      return { status: response.status, headers: response.headers, body: await response.json() } satisfies Answer
    }
    const payment = named(alice.sign(await send('a fox')))
    expect([(await send('a fox', payment)).status, (await send('a fox', payment)).body.payment?.status]).toEqual([
      200,
      'already_settled',
    ])
    expect([(await send('a hare', payment)).status, chain.transfers.length]).toEqual([409, 1])
  })
})

describe('a race for an identifier', () => {
  /** A storage in which somebody else comes first, once, whenever `verb` is asked. */
  function raced(verb: 'putRecord' | 'moveRecord' | 'openCall', rival: () => Promise<unknown>): Storage {
    const good = memoryStorage()
    let isOver = false
    const first = async () => {
      if (isOver) return
      isOver = true
      await rival()
    }
    const { putRecord, moveRecord, openCall } = good
    if (verb === 'putRecord') return { ...good, putRecord: (...given) => first().then(() => putRecord(...given)) }
    if (verb === 'moveRecord') return { ...good, moveRecord: (...given) => first().then(() => moveRecord(...given)) }
    return { ...good, openCall: (...given) => first().then(() => openCall(...given)) }
  }

  test('is lost before each of its steps to one who has the whole result by then, and to nobody else', async () => {
    for (const verb of ['putRecord', 'openCall'] as const) {
      let rival: Promise<Answer> | undefined
      const subject: Kit = kit({ ports: { storage: raced(verb, () => (rival = alice.buy(FOX, { payment: mine }))) } })
      const alice = subject.buyer()
      const [mine, other] = [await fresh(alice), await fresh(alice)]
      const { status, body } = await alice.buy(FOX, { payment: other })
      expect([verb, status, body.payment.status, body.id === (await rival)?.body.id]).toEqual([
        verb,
        200,
        'already_settled',
        true,
      ])
      expect([subject.vendor.jobs.length, subject.chain.transfers.length, isUnspent(subject, other)]).toEqual([
        1,
        1,
        true,
      ])
    }
  })

  test('to replace a failed call has one winner', async () => {
    let isBroken = true
    const vendor = scriptedVendor(async () => {
      if (isBroken) throw new Error('out of order')
      return [{ url: 'data:image/png;base64,iVBORw0KGgo=' }]
    })
    const subject: Kit = kit({
      vendor,
      ports: { storage: raced('moveRecord', async () => alice.buy(FOX, { payment: await fresh(alice) })) },
    })
    const alice = subject.buyer()
    await alice.buy(FOX, { payment: await fresh(alice) })
    isBroken = false
    expect((await alice.buy(FOX, { payment: await fresh(alice) })).body.payment.status).toBe('already_settled')
    expect([vendor.jobs.length, subject.chain.transfers.length]).toEqual([2, 1])
  })

  test('goes on when the record that stood in its way is pruned', async () => {
    const good = memoryStorage()
    let refusals = 1
    const storage: Storage = {
      ...good,
      putRecord: async (...given) => refusals-- <= 0 && (await good.putRecord(...given)),
    }
    expect((await bought(kit({ ports: { storage } }))).first.body.payment.status).toBe('settled')
  })
})

describe('kill -9, or one failing answer, at any moment of a purchase under an identifier leaves one result for one transfer', () => {
  /**
   * Buys under one identifier from a process that is struck, then again with fresh authorizations until there is a
   * result.
   */
  async function play(
    story: { inlineMs?: number; isDuplicate: boolean; least: number },
    blow: { at: number; after: boolean },
    recovery: Recovery,
  ): Promise<Played> {
    const { inlineMs, isDuplicate } = story
    const subject = kit(inlineMs === undefined ? {} : { inlineMs })
    const { ports, chain, vendor, clock, restart } = subject
    const alice = subject.buyer()
    const doomed = injected(ports, { ...blow, kills: recovery !== 'survival' })
    const old = restart({ workerId: 'first', ports: doomed.ports })
    const buy = async (gateway: Gateway) => alice.buy(FOX, { payment: await fresh(alice), gateway })
    await unlessDead(clock, Promise.all([buy(old), ...(isDuplicate ? [buy(old)] : [])]))
    const played = { isFaultInjected: doomed.isFaultInjected(), requests: [...doomed.requests] }
    if (!played.isFaultInjected) expect(played.requests).toContain('putRecord')
    const label = `${labelOf(played, blow)}, ${recovery}`

    const gateway = recovery === 'survival' ? old : restart({ workerId: 'second' })
    await recover({ clock }, gateway, recovery)
    const before = [chain.transfers.length, vendor.jobs.length]
    let answer = await buy(gateway)
    await clock.settle()
    if (!answer.body.data) answer = await buy(gateway)
    expect([label, answer.status, answer.body.data?.length, chain.transfers.length, alice.balance()]).toEqual([
      label,
      200,
      1,
      1,
      99_978_000n,
    ])
    if (before[0] === 1) expect([label, vendor.jobs.length]).toEqual([label, before[1] as number])
    expect([label, (await buy(gateway)).body.id]).toEqual([label, answer.body.id])
    await gateway.maintain()
    await expectNothingLeft(ports, label)
    return played
  }

  injectEverywhere(
    {
      'an inline purchase': { isDuplicate: false, least: 11 },
      'two at once, with two authorizations': { isDuplicate: true, least: 17 },
      'a job': { inlineMs: 0, isDuplicate: false, least: 10 },
    },
    play,
  )
})
