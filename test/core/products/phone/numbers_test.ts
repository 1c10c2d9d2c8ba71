/** Rented numbers: whose they are, for how long, and that none is bought twice, lost by the operator or given away. */
import { describe, expect, test } from 'bun:test'
import { ApiError, type PhoneVendor, type Ports } from '../../../../core/mod.ts'
import { usdc } from '../../../../core/x402/money.ts'
import { TERM_MS } from '../../../../core/products/phone/number_leases.ts'
import { type Actors, actors, LINE, rentTo } from '../../../actors.ts'
import {
  type Answer,
  type Buyer,
  door,
  encodePayment,
  kit,
  type Kit,
  type KitOptions,
  ORIGIN,
  START,
} from '../../../kit.ts'

const BUY = '/api/v1/phone/numbers/buy'
const RENEW = '/api/v1/phone/numbers/renew'
const LIST = '/api/v1/phone/numbers/list'
const RELEASE = '/api/v1/phone/numbers/release'
const HOUR = 3_600_000
const DAY = 24 * HOUR
const TERM = 30 * DAY
const iso = (ms: number) => new Date(ms).toISOString()

type Gateway = Kit & {
  readonly acts: Actors
  readonly alice: Buyer
  readonly bob: Buyer
  numbers(of?: Buyer): Promise<readonly [string, string, boolean][]>
  sweep(): Promise<void>
}

function farebox(
  change: (phone: PhoneVendor, acts: Actors) => Partial<PhoneVendor> = () => ({}),
  options: KitOptions = {},
): Gateway {
  const acts = actors()
  acts.lines.length = 0
  const phone = { ...acts.phone, ...change(acts.phone, acts) }
  const subject = kit({
    ...options,
    ports: { ...options.ports, vendors: { phone, voice: acts.voice, ...options.ports?.vendors } },
  })
  const [alice, bob] = [subject.buyer(), subject.buyer('bob')]
  /** Nothing, for a wallet that has to pay for something else first. */
  const numbers: Gateway['numbers'] = async (of = alice) =>
    ((await of.buy({}, { path: LIST })).body.numbers ?? []).map((each: any) => [
      each.phone_number,
      each.expires_at,
      each.active,
    ])
  /** The chore's turn. */
  async function sweep(): Promise<void> {
    await subject.clock.advance(11 * 60_000)
    await subject.gateway.maintain()
    await subject.clock.settle()
  }
  return { ...subject, acts, alice, bob, numbers, sweep }
}

const buy = (who: Buyer, at: Parameters<Buyer['buy']>[1] = {}) => who.buy({}, { path: BUY, ...at })
const renew = (who: Buyer, phoneNumber: string) => who.buy({ phoneNumber }, { path: RENEW })
const release = (who: Buyer, phoneNumber: string, at: Parameters<Buyer['buy']>[1] = {}) =>
  who.buy({ phoneNumber }, { path: RELEASE, ...at })
const values = ({ chain }: Kit) => chain.transfers.map(({ value }) => value)
const reason = ({ status, body }: Answer) => [status, body.error, body.reason]

describe('a number', () => {
  test('is rented for 30 days by the wallet that pays, and is on its list alone (contract 17.2, 17.4)', async () => {
    const subject = farebox()
    const { status, body } = await buy(subject.alice)
    expect([status, body]).toEqual([
      200,
      {
        phone_number: '+14155550200',
        expires_at: iso(START + TERM),
        chain: 'base-sepolia',
        message: expect.any(String),
      },
    ])
    expect(await subject.numbers()).toEqual([['+14155550200', iso(START + TERM), true]])
    expect([await subject.numbers(subject.bob), values(subject)]).toEqual([[], [5_001_000n, 2_000n, 2_000n]])
    const list = await subject.alice.buy({}, { path: LIST })
    expect(list.body).toEqual({
      numbers: [{ phone_number: '+14155550200', chain: 'base-sepolia', expires_at: iso(START + TERM), active: true }],
      count: 1,
    })
  })

  test('is of the country and the area that are named, of the US where none is (contract 17.2)', async () => {
    const wanted: unknown[] = []
    const subject = farebox((phone) => ({
      buy: (order, at) => (wanted.push([order.country, order.areaCode]), phone.buy(order, at)),
    }))
    for (const body of [{}, { country: 'GB' }, { areaCode: '415' }]) await subject.alice.buy(body, { path: BUY })
    expect(wanted).toEqual([
      ['US', undefined],
      ['GB', undefined],
      ['US', '415'],
    ])
  })

  test('is renewed from the end of its term, by nobody but its wallet (contract 17.3)', async () => {
    const subject = farebox()
    const { phone_number } = (await buy(subject.alice)).body
    await subject.clock.advance(10 * DAY)
    expect((await renew(subject.alice, phone_number)).body).toEqual({ phone_number, expires_at: iso(START + 2 * TERM) })
    expect((await renew(subject.alice, phone_number)).body).toEqual({ phone_number, expires_at: iso(START + 3 * TERM) })
    const wrong = await renew(subject.bob, phone_number)
    expect([reason(wrong), wrong.body.payer_wallet]).toEqual([[403, 'Forbidden', 'wrong_wallet'], subject.bob.wallet])
    expect(reason(await renew(subject.alice, '+14155559999'))).toEqual([403, 'Forbidden', 'not_found'])
    expect(values(subject)).toEqual([5_001_000n, 5_001_000n, 5_001_000n])
  })

  test('ends to the millisecond, is given back by the chore, and cannot be renewed before or after that (contract 17.3)', async () => {
    const subject = farebox()
    const { phone_number } = (await buy(subject.alice)).body
    await subject.clock.advance(TERM - 1)
    expect((await subject.numbers())[0]?.[2]).toBe(true)
    await subject.clock.advance(1)
    expect(await subject.numbers()).toEqual([[phone_number, iso(START + TERM), false]])
    expect(reason(await renew(subject.alice, phone_number))).toEqual([403, 'Forbidden', 'expired'])
    await subject.sweep()
    expect(subject.acts.released).toEqual([phone_number])
    expect(reason(await renew(subject.alice, phone_number))).toEqual([403, 'Forbidden', 'expired'])
    expect(await subject.numbers()).toEqual([[phone_number, iso(START + TERM), false]])
    await subject.sweep()
    expect(subject.acts.released).toEqual([phone_number])
  })

  test('that was given back can be rented by another wallet', async () => {
    let next = 0
    const subject = farebox((_, acts) => ({
      buy: async ({ order }) => (acts.lines.push({ number: LINE, id: `PN-${++next}`, order }), acts.lines.at(-1)),
    }))
    await buy(subject.alice)
    expect((await release(subject.alice, LINE)).body).toEqual({ released: true, phone_number: LINE })
    expect((await buy(subject.bob)).body.phone_number).toBe(LINE)
    expect([(await subject.numbers(subject.bob))[0]?.[2], (await subject.numbers())[0]?.[2]]).toEqual([true, false])
    expect(reason(await renew(subject.alice, LINE))).toEqual([403, 'Forbidden', 'wrong_wallet'])
  })

  test('that its carrier has taken back is not renewed', async () => {
    const subject = farebox(() => ({ has: async () => false }))
    const { phone_number } = (await buy(subject.alice)).body
    expect([reason(await renew(subject.alice, phone_number)), values(subject)]).toEqual([
      [403, 'Forbidden', 'not_found'],
      [5_001_000n],
    ])
  })

  test('that is not available is 404, and a failing carrier 502, uncharged (contract 17.2)', async () => {
    for (const [answer, status, error] of [
      [async () => undefined, 404, 'No numbers available'],
      [async () => Promise.reject(new ApiError('UPSTREAM_FAILED')), 502, 'Purchase failed'],
    ] as const) {
      const subject = farebox(() => ({ buy: answer }))
      const bought = await buy(subject.alice)
      expect([bought.status, bought.body.error, values(subject)]).toEqual([status, error, []])
    }
  })

  test.each([
    [BUY, { country: 'us' }, 'country'],
    [BUY, { areaCode: '41' }, 'areaCode'],
    [BUY, { areaCode: 415 }, 'areaCode'],
    [BUY, { country: 'DE' }, 'country'],
    [BUY, { areaCode: '415', country: 'GB' }, 'areaCode'],
    [BUY, { area_code: '415' }, 'area_code'],
    [RENEW, { phoneNumber: '4155550100' }, 'phoneNumber'],
    [RENEW, { phoneNumber: LINE, months: 2 }, 'months'],
    [RELEASE, { phone_number: LINE }, 'phoneNumber'],
    [LIST, { limit: 1 }, 'limit'],
    ['/api/v1/phone/lookup', { phoneNumber: '+0155550100' }, 'phoneNumber'],
  ])('%s with %j is 400 before the quote', async (path, body, field) => {
    const { status, body: reply, headers } = await farebox().alice.ask(body, { path })
    expect([
      status,
      reply.details.map((each: any) => each.path).includes(field),
      headers.has('payment-required'),
    ]).toEqual([400, true, false])
  })
})

test('a lookup answers with the record of the carrier, letter by letter (contract 17.1)', async () => {
  const requests: unknown[] = []
  const record = '{"phone_number":"+14155550100",  "valid":true,"score":1.10,"id":12345678901234567890}'
  const subject = farebox(() => ({ lookup: async (...given) => (requests.push(given.slice(0, 2)), record) }))
  for (const [path, value] of [
    ['/api/v1/phone/lookup', 11_000n],
    ['/api/v1/phone/lookup/fraud', 51_000n],
  ] as const) {
    const payment = subject.alice.sign(await subject.alice.ask({ phoneNumber: LINE }, { path }))
    const response = await subject.gateway.fetch(
      new Request(ORIGIN + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'payment-signature': encodePayment(payment) },
        body: JSON.stringify({ phoneNumber: LINE }),
      }),
    )
    expect([path, response.status, await response.text(), values(subject).at(-1)]).toEqual([path, 200, record, value])
  }
  expect(requests).toHaveLength(2)
})

describe('giving back', () => {
  test('costs nothing, twice at once as well, and happens once (contract 17.5)', async () => {
    const subject = farebox()
    const { phone_number } = (await buy(subject.alice)).body
    const answers = await Promise.all(Array.from({ length: 5 }, () => release(subject.alice, phone_number)))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 404, 404, 404, 404])
    expect([subject.acts.released, values(subject), (await subject.numbers())[0]?.[2]]).toEqual([
      [phone_number],
      [5_001_000n],
      false,
    ])
  })

  test('of another wallet’s number is 404', async () => {
    const subject = farebox()
    const { phone_number } = (await buy(subject.alice)).body
    const { status, body } = await release(subject.bob, phone_number)
    expect([status, body.payer_wallet, subject.acts.released]).toEqual([404, subject.bob.wallet, []])
  })

  test('that fails leaves the number to its wallet; maintenance finishes one that a crash interrupted', async () => {
    let way: () => Promise<void> = () => Promise.reject(new ApiError('UPSTREAM_FAILED'))
    const subject = farebox((phone) => ({ release: (id, at) => way().then(() => phone.release(id, at)) }))
    const { phone_number } = (await buy(subject.alice)).body
    expect([(await release(subject.alice, phone_number)).status, (await subject.numbers())[0]?.[2]]).toEqual([
      502,
      true,
    ])
    way = () => new Promise(() => {})
    void release(subject.alice, phone_number)
    await subject.clock.settle()
    way = async () => {}
    expect(await subject.numbers()).toEqual([])
    await subject.sweep()
    expect([subject.acts.released, (await subject.numbers())[0]?.[2]]).toEqual([[phone_number], false])
  })
})

const never = () => new Promise<never>(() => {})
function crashing(where: (storage: Ports['storage']) => Partial<Ports['storage']>): NonNullable<KitOptions['wrap']> {
  return (ports) => ({ ...ports, storage: { ...ports.storage, ...where(ports.storage) } })
}

describe('a number that was bought for a call', () => {
  test('whose purchase a crash interrupted before settlement is found by the same signed request, not bought again', async () => {
    let isDead = true
    const subject = farebox(undefined, {
      wrap: crashing((storage) => ({
        claimSettlement: (...args) => (isDead ? never() : storage.claimSettlement(...args)),
      })),
    })
    const payment = subject.alice.sign(await subject.alice.ask({}, { path: BUY }))
    void buy(subject.alice, { payment })
    await subject.clock.settle()
    isDead = false
    const other = subject.restart()
    await other.takeOver()
    expect(await subject.numbers()).toEqual([])
    const { status, body } = await buy(subject.alice, { payment, gateway: other })
    expect([status, subject.acts.bought]).toEqual([200, [body.phone_number]])
    await subject.sweep()
    expect([(await subject.numbers())[0]?.[2], subject.acts.released]).toEqual([true, []])
  })

  test('whose purchase a crash interrupted is given back within two hours unless it is resent', async () => {
    const subject = farebox((phone) => ({ buy: async (...args) => (await phone.buy(...args), never()) }))
    void buy(subject.alice)
    await subject.clock.settle()
    await subject.restart().takeOver()
    await subject.sweep()
    expect(subject.acts.released).toEqual([])
    await subject.clock.advance(HOUR)
    await subject.sweep()
    expect([subject.acts.released, subject.acts.bought.length, values(subject)]).toEqual([subject.acts.bought, 1, []])
  })

  test('whose payment is refused is reserved for its wallet’s poll, and given back if the poll does not come (contract 17.6)', async () => {
    for (const isCollected of [true, false]) {
      const subject = farebox()
      subject.chain.simulate('refused')
      const withheld = await buy(subject.alice)
      expect([withheld.status, JSON.stringify(withheld.body).includes('+1415'), await subject.numbers()]).toEqual([
        402,
        false,
        [],
      ])
      await rentTo(subject.ports.storage, subject.bob.wallet, subject.clock.now())
      const call = await subject.bob.buy(
        { to: '+14155550123', task: 'Say hello to Ada.', from: subject.acts.bought[0] },
        { path: '/api/v1/voice/call' },
      )
      expect(reason(call)).toEqual([403, 'Forbidden', 'not_found'])
      await subject.sweep()
      expect(subject.acts.released).toEqual([])
      if (isCollected)
        await subject.alice.poll(withheld.body.poll_url, subject.alice.sign(await subject.alice.ask({}, { path: BUY })))
      await subject.clock.advance(50 * HOUR)
      await subject.sweep()
      expect([subject.acts.released.length, (await subject.numbers()).map(([, , isActive]) => isActive)]).toEqual(
        isCollected ? [0, [true]] : [1, []],
      )
    }
  })

  test('whose payment is refused has to be paid before the wallet gets another', async () => {
    const subject = farebox()
    subject.chain.simulate('refused')
    const withheld = await buy(subject.alice)
    const second = await buy(subject.alice)
    expect([second.status, second.body.code, second.body.poll_url, subject.acts.bought.length]).toEqual([
      402,
      'PAYMENT_UNFUNDED',
      withheld.body.poll_url,
      1,
    ])
  })

  test('is never sold to two wallets at the same moment', async () => {
    const most = usdc(100_000_000n)
    const subject = farebox(undefined, { newWallets: { gateway: most, address: most } })
    const bought = await Promise.all(
      [...Array(4)].map((_, index) => buy(index % 2 === 0 ? subject.alice : subject.bob)),
    )
    expect(new Set(bought.map(({ body }) => body.phone_number)).size).toBe(4)
  })

  test('that another wallet rents at the same moment is not sold again, and the second purchase is not charged', async () => {
    const subject = farebox(() => ({ buy: async ({ order }) => ({ number: LINE, id: 'PN-9', order }) }))
    await rentTo(subject.ports.storage, subject.bob.wallet, subject.clock.now())
    expect([(await buy(subject.alice)).status, values(subject)]).toEqual([503, []])
    expect((await subject.numbers(subject.bob))[0]?.slice(0, 1)).toEqual([LINE])
  })

  test('of the account that this database does not know is left alone', async () => {
    const subject = farebox()
    subject.acts.lines.push({ number: LINE, id: 'PN-7', order: 'of another deployment' })
    await subject.sweep()
    expect([subject.acts.released, subject.log.lines.some(({ message }) => message.includes('does not know'))]).toEqual(
      [[], true],
    )
  })
})

describe('a renewal', () => {
  test('counts once it is paid, and only one at a time (contract 17.6)', async () => {
    const subject = farebox()
    const { phone_number } = (await buy(subject.alice)).body
    subject.chain.simulate('refused')
    const withheld = await renew(subject.alice, phone_number)
    expect([withheld.status, (await subject.numbers())[0]?.[1]]).toEqual([402, iso(START + TERM)])
    const second = await renew(subject.alice, phone_number)
    expect([reason(second), second.body.poll_url]).toEqual([
      [403, 'Forbidden', 'unpaid'],
      await subject.keyed(withheld.body.job_id),
    ])
    const collected = await subject.alice.poll(
      withheld.body.poll_url,
      subject.alice.sign(await subject.alice.ask({ phoneNumber: phone_number }, { path: RENEW })),
    )
    expect([collected.body.expires_at, (await subject.numbers())[0]?.[1]]).toEqual([
      iso(START + 2 * TERM),
      iso(START + 2 * TERM),
    ])
  })

  test('twice at once adds one term, or two that are both paid', async () => {
    const subject = farebox()
    const { phone_number } = (await buy(subject.alice)).body
    const answers = await Promise.all(Array.from({ length: 4 }, () => renew(subject.alice, phone_number)))
    const paid = answers.filter(({ status }) => status === 200).length
    expect([(await subject.numbers())[0]?.[1], values(subject).filter((value) => value === 5_001_000n).length]).toEqual(
      [iso(START + (1 + paid) * TERM), 1 + paid],
    )
  })

  test('that is being paid for keeps the number from being given back, so that nobody pays for a number that is gone', async () => {
    const { alice, chain, clock, acts, gateway } = farebox()
    const { phone_number: phoneNumber } = (await buy(alice)).body
    chain.simulate('late')
    expect((await renew(alice, phoneNumber)).status).toBe(200)
    const release = () => alice.buy({ phoneNumber }, { path: RELEASE })
    expect([(await release()).status, acts.released]).toEqual([503, []])
    chain.deliver()
    await clock.advance(50_000)
    await gateway.maintain()
    expect([(await release()).status, acts.released]).toEqual([200, [phoneNumber]])
  })

  test('keeps the number from the chore while it is worked on', async () => {
    const ready = door()
    const subject = farebox(() => ({ has: async () => (await ready.passed, true) }))
    const { phone_number } = (await buy(subject.alice)).body
    await subject.clock.advance(TERM - 60_000)
    const renewing = renew(subject.alice, phone_number)
    await subject.clock.settle()
    ready.open()
    expect((await renewing).body.expires_at).toBe(iso(START + 2 * TERM))
    await subject.clock.advance(120_000)
    await subject.sweep()
    expect([subject.acts.released, TERM_MS]).toEqual([[], TERM])
  })
})

test('a gateway that rents no numbers leaves the chore to those that do', async () => {
  const requests: string[] = []
  const wrap = (ports: Ports): Ports => ({
    ...ports,
    storage: { ...ports.storage, lease: (name, ...more) => (requests.push(name), ports.storage.lease(name, ...more)) },
  })
  await kit({ wrap }).gateway.maintain()
  expect(requests).toEqual([])
  await farebox(undefined, { wrap }).gateway.maintain()
  expect(requests).toEqual(['task:phone.numbers.buy'])
})
