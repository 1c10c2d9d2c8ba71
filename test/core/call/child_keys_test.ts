/** Child keys: what they may spend and buy, and that the deposit covers all of them together. */
import { describe, expect, test } from 'bun:test'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { KEY_PATTERN } from '../../../core/x402/api_key.ts'
import { streamAnswer, wholeAnswer } from '../../fakes/chat.ts'
import { door, FOX, GENERATIONS } from '../../kit.ts'
import { CHARGE, KEY, QUOTE, selling } from './keys_kit.ts'
import { HELLO, SKY, STREAM } from './stream_kit.ts'

const KEYS = '/api/v1/keys'
const as = (key: string) => ({ headers: { authorization: `Bearer ${key}` } })
type Subject = Awaited<ReturnType<typeof selling>>

async function lend({ ask }: Pick<Subject, 'ask'>, order: object, key = KEY) {
  const response = await ask({ name: 'Ada', ...order }, { path: KEYS, ...as(key) })
  const body = (await response.json()) as Record<string, unknown>
  return { status: response.status, body, key: String(body.key) }
}

describe('a child key', () => {
  test('spends its cap and no more, and what it is not charged stays in its cap (contract 23.14)', async () => {
    const subject = await selling()
    const { status, body, key } = await lend(subject, { cap: '0.003' })
    expect([status, body]).toMatchObject([200, { object: 'key.child', name: 'Ada', status: 'active', cap: '0.003000' }])
    expect(key).toMatch(KEY_PATTERN)
    expect(key.startsWith('sk-fbx-c1')).toBe(true)
    expect(await subject.channel()).toMatchObject({ reserved: 3_000n, available: 97_000n })
    const first = await subject.ask(SKY, as(key))
    expect([first.status, first.headers.get('x-payment-charged')]).toEqual([200, '0.001017'])
    // Not what its parent has.
    expect(first.headers.get('x-payment-balance')).toBe('0.001983')
    const second = await subject.ask(SKY, as(key))
    expect([second.status, (await second.json()).error.message]).toEqual([
      402,
      expect.stringContaining('the child key has 0.001983 USDC left of its cap, and the call may cost 0.002000 USDC'),
    ])
    expect(await subject.channel()).toMatchObject({ charged: CHARGE, reserved: 1_983n, available: 97_000n })
  })

  test('streams, buys pictures, polls by itself, and not what its parent or another child bought (contract 23.14)', async () => {
    const subject = await selling(async () => streamAnswer(HELLO))
    const [one, other] = [await lend(subject, { cap: '0.04' }), await lend(subject, { cap: '0.01' })]
    expect(await (await subject.ask(STREAM, as(one.key))).text()).toContain(': x-payment-charged 0.001017\n')
    expect((await subject.ask(FOX, { path: GENERATIONS, ...as(one.key) })).status).toBe(200)
    const call = (await subject.calls()).find(({ endpoint }) => endpoint.startsWith('images'))
    const poll = (key: string) => subject.ask(undefined, { path: `${GENERATIONS}/${call?.id}`, ...as(key) })
    expect((await poll(one.key)).status).toBe(200)
    expect((await poll(other.key)).status).toBe(403)
    expect((await poll(KEY)).status).toBe(403)
  })

  test('buys nothing while a restored record has no voucher over its cap, and goes on after a call of its parent (contract 23.14)', async () => {
    let [claimed, answers] = [0n, 0]
    const answer = async () => {
      answers++
      return streamAnswer(HELLO)
    }
    const subject = await selling(answer, { views: (balance) => [[balance, claimed], [0n, 0n], [0n]] })
    const { key } = await lend(subject, { cap: '0.02' })
    // The chain shows claims that the record of an older backup does not know.
    claimed = 30_000n
    await subject.clock.advance(600_000)
    const refused = await subject.ask(STREAM, as(key))
    expect([refused.status, (await refused.json()).error.message, answers]).toEqual([
      402,
      expect.stringContaining('once its parent has made a call'),
      0,
    ])
    expect(await (await subject.ask(STREAM)).text()).toContain(': x-payment-charged 0.001017\n')
    expect(await (await subject.ask(STREAM, as(key))).text()).toContain(': x-payment-charged 0.001017\n')
    expect(await subject.channel()).toMatchObject({ charged: claimed + CHARGE * 2n, reserved: 20_000n - CHARGE })
  })

  test('of a call whose process was killed gets its price back when the reservation ends (contract 23.14)', async () => {
    const memory = memoryStorage()
    const dead = await selling(async () => await new Promise<never>(() => {}), { storage: { ...memory } })
    const { key } = await lend(dead, { cap: '0.004' })
    void dead.ask(SKY, as(key))
    await dead.clock.settle()
    expect(await dead.channel()).toMatchObject({ reserved: 4_000n, available: 96_000n })
    const next = await selling(undefined, { storage: { ...memory } })
    await next.clock.advance(3_600_001)
    await next.gateway.takeOver()
    expect(await next.channel()).toMatchObject({ reserved: 4_000n, available: 96_000n })
    for (let call = 0; call < 2; call++) expect((await next.ask(SKY, as(key))).status).toBe(200)
    expect(await next.channel()).toMatchObject({ charged: CHARGE * 2n, reserved: 4_000n - CHARGE * 2n })
  })

  test('of a failed call gets its price back (contract 23.14)', async () => {
    const subject = await selling(async () => {
      throw new Error('the vendor is down')
    })
    const { key } = await lend(subject, { cap: '0.002' })
    expect((await subject.ask(SKY, as(key))).status).toBeGreaterThanOrEqual(500)
    const { data } = (await (await subject.ask(undefined, { path: '/v1/key', ...as(key) })).json()) as any
    expect(data).toMatchObject({ limit: 0.002, limit_remaining: 0.002, usage: 0 })
  })

  test('and its parent and siblings never spend more than the deposit together (contract 23.14)', async () => {
    const ready = door()
    const script = async () => (await ready.passed, wholeAnswer())
    const subject = await selling(script, { balance: QUOTE * 12n })
    const [one, other] = [await lend(subject, { cap: '0.006' }), await lend(subject, { cap: '0.006' })]
    expect((await lend(subject, { cap: '0.0121' })).status).toBe(402)
    let refused = 0
    const keys = [KEY, one.key, other.key]
    const all = Array.from({ length: 48 }, async (_, i) => {
      const response = await subject.ask(SKY, as(keys[i % 3] ?? ''))
      if (response.status === 402 && ++refused === 36) ready.open()
      return response.status
    })
    expect((await Promise.all(all)).filter((status) => status === 200)).toHaveLength(12)
    const channel = await subject.channel()
    expect(channel).toMatchObject({ charged: CHARGE * 12n, reserved: 12_000n - CHARGE * 6n })
    expect((await subject.calls()).reduce((sum, { charge }) => sum + (charge ?? 0n), 0n)).toBe(CHARGE * 12n)
  })

  test('spends no more than its cap over two replicas, and every charge is kept (contract 23.14)', async () => {
    const memory = memoryStorage()
    const ready = door()
    const script = async () => (await ready.passed, wholeAnswer())
    const at = { balance: QUOTE * 20n }
    const first = await selling(script, { ...at, storage: { ...memory, isShared: true } })
    const second = await selling(script, { ...at, storage: { ...memory, isShared: true } })
    const { key } = await lend(first, { cap: '0.02' })
    let refused = 0
    const all = Array.from({ length: 32 }, async (_, i) => {
      const response = await (i % 2 ? first : second).ask(SKY, as(key))
      if (response.status === 402 && ++refused === 22) ready.open()
      return response.status
    })
    expect((await Promise.all(all)).filter((status) => status === 200)).toHaveLength(10)
    expect(await second.channel()).toMatchObject({ charged: CHARGE * 10n, reserved: 20_000n - CHARGE * 10n })
    expect((await first.calls()).reduce((sum, { charge }) => sum + (charge ?? 0n), 0n)).toBe(CHARGE * 10n)
  })

  test('buys the models of its list, as often a minute as its parent says, until it ends (contract 23.15)', async () => {
    const subject = await selling()
    const { key } = await lend(subject, { cap: '0.05', models: [SKY.model], per_minute: 2 })
    const other = await subject.ask({ ...SKY, model: 'vendor-a/chat-5.4-nano' }, as(key))
    expect([other.status, (await other.json()).error.message]).toEqual([
      403,
      expect.stringContaining(`${SKY.model} only`),
    ])
    expect((await subject.ask(SKY, as(key))).status).toBe(200)
    expect((await subject.ask(SKY, as(key))).status).toBe(200)
    const third = await subject.ask(SKY, as(key))
    expect([third.status, Number(third.headers.get('retry-after')) > 0]).toEqual([429, true])
    await subject.clock.advance(31 * 86_400_000)
    expect((await subject.ask(SKY, as(key))).status).toBe(401)
  })

  test('is revoked by its parent, whose money is free again; a stranger revokes nothing (contract 23.16)', async () => {
    const subject = await selling()
    const { key, body } = await lend(subject, { cap: '0.05' })
    const revoke = (by: string) => subject.ask({}, { path: `${KEYS}/${body.address}/revoke`, ...as(by) })
    expect((await revoke(key)).status).toBe(403)
    expect((await revoke(KEY)).status).toBe(200)
    expect((await revoke(KEY)).status).toBe(404)
    expect((await subject.ask(SKY, as(key))).status).toBe(401)
    expect(await subject.channel()).toMatchObject({ reserved: 0n, available: 100_000n })
    const { data } = (await (await subject.ask(undefined, { path: KEYS })).json()) as any
    expect(data).toMatchObject([{ address: body.address, name: 'Ada', status: 'revoked', charged: null }])
  })

  test('lends nothing on, closes nothing, and ends when its parent is closed (contract 23.16)', async () => {
    const subject = await selling()
    const { key } = await lend(subject, { cap: '0.05' })
    expect((await lend(subject, { cap: '0.01' }, key)).status).toBe(403)
    expect((await subject.ask(undefined, { path: KEYS, ...as(key) })).status).toBe(403)
    expect((await subject.ask({}, { path: `${KEYS}/close`, ...as(key) })).status).toBe(401)
    expect((await subject.ask({}, { path: `${KEYS}/close` })).status).toBe(200)
    expect(subject.refunded).toEqual([100_000n])
    expect((await subject.ask(SKY, as(key))).status).toBe(401)
  })

  test('goes on when a refund of its parent is refused (contract 23.16)', async () => {
    const ready = door()
    const subject = await selling(
      async () => {
        await ready.passed
        return wholeAnswer()
      },
      { balance: QUOTE },
    )
    const { key } = await lend(subject, { cap: '0.002' })
    const open = subject.ask(SKY, as(key))
    await subject.clock.settle()
    const refused = await subject.ask({}, { path: `${KEYS}/close` })
    expect([refused.status, subject.refunded]).toEqual([402, []])
    ready.open()
    expect((await open).status).toBe(200)
    expect((await subject.ask(undefined, { path: '/api/v1/key', ...as(key) })).status).toBe(200)
    expect(await subject.channel()).toMatchObject({ charged: CHARGE, reserved: QUOTE - CHARGE })
  })

  test('is asked for within limits that name the field (contract 23.14)', async () => {
    const subject = await selling()
    const wrong = [
      { cap: '0' },
      { cap: 'all' },
      { cap: '1', expires_at: 1 },
      { cap: '1', per_minute: 0 },
      { name: '', cap: '1' },
    ]
    for (const order of wrong) expect((await lend(subject, order)).status).toBe(400)
    for (let child = 0; child < 16; child++) expect((await lend(subject, { cap: '0.000001' })).status).toBe(200)
    expect(await lend(subject, { cap: '0.000001' })).toMatchObject({
      status: 400,
      body: { message: expect.stringContaining('at most 16 children') },
    })
  })

  test('that is refused leaves no record, however many are asked for at once (contract 23.14)', async () => {
    const kinds: string[] = []
    const memory = memoryStorage()
    const subject = await selling(undefined, { storage: memory })
    const both = await Promise.all(Array.from({ length: 24 }, () => lend(subject, { cap: '0.001' })))
    const late = await Promise.all(Array.from({ length: 24 }, () => lend(subject, { cap: '0.09' })))
    for (const { status } of [...both, ...late]) kinds.push(String(status))
    expect(kinds.filter((status) => status === '200')).toHaveLength(16)
    const { data } = (await (await subject.ask(undefined, { path: KEYS })).json()) as any
    expect(data.map(({ status }: { status: string }) => status)).toEqual(Array(16).fill('active'))
  })

  test('is listed before those that have ended (contract 23.16)', async () => {
    const subject = await selling()
    const addresses: unknown[] = []
    for (let child = 0; child < 20; child++) {
      const { body } = await lend(subject, { cap: '0.001' })
      if (child % 2) addresses.push(body.address)
      else await subject.ask({}, { path: `${KEYS}/${body.address}/revoke` })
    }
    const { data } = (await (await subject.ask(undefined, { path: KEYS })).json()) as any
    expect(data).toHaveLength(20)
    expect(data.slice(0, 10).map(({ address }: { address: string }) => address)).toEqual(addresses)
  })
})
