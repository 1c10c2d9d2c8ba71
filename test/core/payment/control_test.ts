/** Controls of an operator at run time: who may buy, how much, at what margin, and whether anything is sold. */
import { describe, expect, test } from 'bun:test'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { scriptedVendor } from '../../fakes/images.ts'
import { controls } from '../../../core/payment/control/controls.ts'
import { changedMargin, marginAt, marginsSince } from '../../../core/payment/control/margin.ts'
import { NO_RULES, type Rules } from '../../../core/payment/control/rules.ts'
import type { Storage } from '../../../core/ports/mod.ts'
import { FOX, kit, type KitOptions, START, testClock } from '../../kit.ts'

const DAY = 86_400_000

/** A gateway with controls; `set` changes the rules as another replica would, and this one reads them. */
function controlled(options: KitOptions = {}) {
  const clock = testClock()
  const outage = { isOn: false }
  const storage = failing(memoryStorage(), outage)
  const control = controls({ storage, clock })
  const made = kit({ ...options, controls: control, ports: { clock, storage } })
  const replica = controls({ storage, clock })
  return {
    ...made,
    outage,
    control,
    async set(rules: Partial<Rules>) {
      await replica.change((before) => ({ ...before, ...rules }))
      await control.refresh()
    },
  }
}

describe('lists of wallets', () => {
  test('a blocked wallet hears why, after verification and uncharged, and goes on collecting (contract 1.67)', async () => {
    const { set, buyer, chain } = controlled()
    const alice = buyer()
    await set({ blocked: { [alice.wallet.toLowerCase()]: { reason: 'charged back elsewhere' } } })
    const { status, body } = await alice.buy()
    expect([status, body.error, chain.transfers.length]).toEqual([403, 'Not allowed', 0])
    expect(body.message).toContain(`blocked the wallet ${alice.wallet}: charged back elsewhere. Nothing was charged.`)
    expect((await buyer('bob').buy()).status).toBe(200)
    await set({ blocked: {} })
    expect((await alice.buy()).status).toBe(200)
  })

  test('while wallets are allowed by name, no other one buys (contract 1.67)', async () => {
    const { set, buyer } = controlled()
    await set({ allowed: { [buyer('bob').wallet.toLowerCase()]: {} } })
    const { status, body } = await buyer().buy()
    expect([status, body.message]).toEqual([403, expect.stringContaining('sells to listed wallets only')])
    expect((await buyer('bob').buy()).status).toBe(200)
  })
})

describe('the maintenance switch', () => {
  test('answers 503 with words and Retry-After before any payment; what was ordered before is collected (contract 1.68)', async () => {
    const { set, buyer, chain, clock, gateway } = controlled({ inlineMs: 0 })
    const alice = buyer()
    const payment = alice.sign(await alice.ask())
    const { body: job } = await alice.buy(FOX, { payment })
    const late = alice.sign(await alice.ask({ ...FOX, prompt: 'another' }))
    await set({ maintenance: { message: 'Moving house.', retry_after_seconds: 120 } })
    for (const refused of [await alice.ask(), await alice.buy({ ...FOX, prompt: 'another' }, { payment: late })]) {
      expect([refused.status, refused.headers.get('retry-after'), refused.body.code]).toEqual([
        503,
        '120',
        'MAINTENANCE',
      ])
      expect(refused.body.message).toStartWith('Moving house. Nothing was charged.')
    }
    await clock.settle()
    expect((await alice.poll(job.poll_url, payment)).status).toBe(200)
    expect(chain.transfers.length).toBe(1)
    expect((await gateway.fetch(new Request('http://x/api/v1/images/models'))).status).toBe(200)
    await set({ maintenance: undefined as never })
    expect((await alice.ask()).status).toBe(402)
  })
})

describe('a margin', () => {
  test('is in quotes from its time on, and an earlier quote is honoured while it can be paid (contract 1.69)', async () => {
    const { set, buyer, clock, chain } = controlled()
    const alice = buyer()
    const before = await alice.ask()
    const payments = [alice.sign(before), alice.sign(before)]
    const now = clock.now()
    await set({ margins: { images: [...changedMargin([], '10', { now, quoteMs: 0 })] } })
    expect((await alice.ask()).body.price.amount).toBe('0.022000')
    await clock.advance(10_000)
    const quote = await alice.ask()
    expect([quote.body.price.amount, quote.body.accepts[0].amount]).toEqual(['0.024200', '24200'])
    expect((await alice.buy(FOX, { payment: payments[0]! })).status).toBe(200)
    expect((await alice.buy(FOX, { payment: alice.sign(quote) })).status).toBe(200)
    expect(chain.transfers.map(({ value }) => value)).toEqual([22_000n, 24_200n])
    await clock.advance(DAY)
    const { status, body } = await alice.buy(FOX, { payment: payments[1]! })
    expect([status, body.accepts[0].amount]).toEqual([402, '24200'])
  })

  test('of an endpoint comes before that of its tag; what costs nothing still does', async () => {
    const { control, set } = controlled()
    const price = { amount: 1_001n as never, maxTimeoutSeconds: 300, publicPrice: { amount: '0.0010' } }
    await set({ margins: { chat: [{ percent: '100', from: 0 }], 'chat.completions': [{ percent: '0.5', from: 0 }] } })
    expect(control.marked({ name: 'chat.completions', tag: 'chat' }, price)).toMatchObject({
      amount: 1_007n,
      publicPrice: { amount: '0.001007' },
    })
    expect(control.marked({ name: 'messages', tag: 'chat' }, price).amount).toBe(2_002n as never)
    expect(control.marked({ name: 'search', tag: 'search' }, price)).toBe(price)
    const free = { ...price, amount: 0n as never }
    expect(control.marked({ name: 'messages', tag: 'chat' }, free)).toBe(free)
  })

  test('changes are forgotten once no quote has them', () => {
    const first = changedMargin([], '5', { now: 0, quoteMs: 100 })
    const second = changedMargin(first, '7', { now: 20_000, quoteMs: 100 })
    expect([marginAt(second, 9_999), marginAt(second, 10_000), marginAt(second, 30_000)]).toEqual(['0', '5', '7'])
    expect(marginsSince(second, 29_000, 31_000)).toEqual(['7', '5'])
    expect(marginsSince(second, 0, 10_001)).toEqual(['5', '0'])
    expect(changedMargin(second, '9', { now: 60_000, quoteMs: 100 }).map(({ percent }) => percent)).toEqual(['7', '9'])
  })
})

describe('limits', () => {
  test('a wallet spends no more in a day than it may, and hears when the day ends (contract 1.70)', async () => {
    const { set, buyer, clock, chain } = controlled()
    const alice = buyer()
    await set({ wallet_limits: { '*': { usdc_per_day: '0.05' } } })
    await clock.advance(DAY / 2)
    for (const expected of [200, 200, 429]) expect((await alice.buy()).status).toBe(expected)
    const { headers, body } = await alice.buy()
    expect([headers.get('retry-after'), body.code, body.retryAfterSeconds]).toEqual(['43200', 'SPENDING_LIMIT', 43_200])
    expect(body.message).toStartWith(
      `The wallet ${alice.wallet} may spend 0.050000 USDC a day here: 0.044000 are spent or under way, and this request costs 0.022000.`,
    )
    expect([(await buyer('bob').buy()).status, chain.transfers.length]).toEqual([200, 3])
    await clock.advance(DAY / 2)
    expect((await alice.buy()).status).toBe(200)
  })

  test('what is under way counts, and what has failed does not (contract 1.70)', async () => {
    let fails = true
    const vendor = scriptedVendor(async ({ n }) => {
      if (fails) throw new Error('out of paint')
      return Array.from({ length: n }, () => ({ url: 'data:image/png;base64,iVBORw0KGgo=' }))
    })
    const { set, buyer } = controlled({ vendor, inlineMs: 0 })
    const alice = buyer()
    await set({ wallet_limits: { [alice.wallet.toLowerCase()]: { usdc_per_month: '0.03' } } })
    expect((await alice.buy()).status).toBe(202)
    await new Promise((resolve) => setImmediate(resolve))
    fails = false
    expect((await alice.buy()).status).toBe(202)
    expect((await alice.buy()).status).toBe(429)
  })

  test('a payment that was refused does not count (contract 1.70)', async () => {
    const { set, buyer, chain } = controlled()
    const alice = buyer()
    await set({ wallet_limits: { '*': { usdc_per_day: '0.03' } } })
    chain.simulate('refused')
    expect((await alice.buy()).status).toBe(402)
    expect((await alice.buy()).status).toBe(200)
    expect((await alice.buy()).status).toBe(429)
  })

  test('of orders at the same time, each counts those before it (contract 1.70)', async () => {
    const { set, buyer, chain } = controlled()
    await set({ wallet_limits: { '*': { usdc_per_day: '0.05' } } })
    const alice = buyer()
    const prompts = Array.from({ length: 6 }, (_, at) => ({ ...FOX, prompt: `fox ${at}` }))
    const answers = await Promise.all(prompts.map((order) => alice.buy(order)))
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 200, 429, 429, 429, 429])
    expect(chain.transfers.length).toBe(2)
  })

  test('a gateway earns no more in a month than it may, over all wallets and replicas (contract 1.70)', async () => {
    const { set, buyer, control, clock } = controlled({ name: 'base' })
    await buyer().buy()
    await set({ gateway_limits: { base: { usdc_per_month: '0.05' } } })
    await control.refresh()
    expect((await buyer('bob').buy()).status).toBe(200)
    const { status, body } = await buyer('carol').buy()
    expect([status, body.message]).toEqual([
      429,
      expect.stringContaining('The gateway may spend 0.050000 USDC a month'),
    ])
    await control.refresh()
    await control.refresh()
    expect((await buyer('carol').buy()).status).toBe(429)
    await clock.advance(Date.UTC(2026, 11, 1) - START)
    await control.refresh()
    expect((await buyer('carol').buy()).status).toBe(200)
  })

  test('a wallet sends no more paid requests in a minute than it may (contract 1.71)', async () => {
    const { set, buyer, clock } = controlled()
    await set({ wallet_limits: { '*': { requests_per_minute: 2 } } })
    for (const expected of [200, 200, 429]) expect((await buyer().buy()).status).toBe(expected)
    const { headers, body } = await buyer().buy()
    expect([headers.get('retry-after'), body.code]).toEqual(['60', 'SPENDING_LIMIT'])
    expect((await buyer('bob').buy()).status).toBe(200)
    await clock.advance(60_000)
    expect((await buyer().buy()).status).toBe(200)
  })
})

test('a quote asks nothing of the storage, and rules outlive an outage of it', async () => {
  const { set, buyer, outage, control } = controlled()
  const margins = { images: [{ percent: '50', from: 0 }] }
  await set({ ...NO_RULES, margins, gateway_limits: { '*': { usdc_per_day: '9' } } })
  outage.isOn = true
  expect((await buyer().ask()).body.price.amount).toBe('0.033000')
  await expect(control.refresh()).rejects.toThrow('getRecord during an outage')
  expect((await buyer().ask()).body.price.amount).toBe('0.033000')
})

/** A storage whose every verb rejects during the outage. */
function failing(storage: Storage, outage: { readonly isOn: boolean }): Storage {
  const verbs = Object.entries(storage).map(([name, verb]) => [
    name,
    typeof verb === 'function'
      ? (...given: readonly unknown[]) =>
          outage.isOn ? Promise.reject(new Error(`${name} during an outage`)) : verb(...given)
      : verb,
  ])
  return Object.fromEntries(verbs)
}
