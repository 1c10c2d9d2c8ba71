/** Limits of the open and the unpaid amounts of all wallets that have not paid yet. */
import { describe, expect, test } from 'bun:test'
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { streamAnswer } from '../../fakes/chat.ts'
import { type Buyer, decodeHeader, type KitOptions } from '../../kit.ts'
import { judgeUnproven } from '../../../core/payment/unpaid/new_wallets.ts'
import { usdc } from '../../../core/x402/money.ts'
import { voucherBuyer, voucherChain } from '../../adapters/chains/evm/channels/vouchers.ts'
import { HELLO, SKY, STREAM, table } from '../call/stream_kit.ts'
import { cinema, FILM, FILMS } from '../products/video/film.ts'

const HOUR = 3_600_000
/** A quote of 0.0246 for an answer that may cost 0.236. */
const LONG = { ...STREAM, max_tokens: 52_400 }

/** Nothing is settled early: refusals alone hold the bound. */
const REFUSALS = { newWallets: { streamed: usdc(10n ** 12n) } }

/** A gateway whose fresh wallets move their money away while their answer is on its way. */
async function drained(options: KitOptions = REFUSALS) {
  let thief: string | undefined
  const chain = memoryChain()
  const subject = await table(
    async () => {
      if (thief) chain.drain(thief)
      return streamAnswer(HELLO)
    },
    { chain, ...options },
  )
  return {
    ...subject,
    /** Whether a fresh wallet gets a whole stream, and leaves it unpaid. */
    async takes(
      name: string,
      {
        ip = '192.0.2.1',
        body = LONG,
        how = {},
      }: { ip?: string; body?: unknown; how?: Parameters<Buyer['sign']>[1] } = {},
    ) {
      const by = subject.buyer(name)
      const payment = by.sign(await by.ask(body, { path: '/api/v1/chat/completions' }), how)
      thief = by.wallet
      const response = await subject.post(body, { payment, ip })
      const text = await response.text()
      thief = undefined
      await subject.idle()
      return { status: response.status, headers: response.headers, text, isTaken: text.includes('lo"') }
    },
    async pays(name: string, { ip = '192.0.2.1', body = LONG }: { ip?: string; body?: unknown } = {}) {
      const payment = await subject.signed(body, { by: subject.buyer(name) })
      const response = await subject.post(body, { payment, ip })
      await response.text()
      await subject.idle()
      await subject.clock.advance(1_000)
      return response.status
    },
  }
}

const names = (count: number, prefix = 'fresh') => Array.from({ length: count }, (_, at) => `${prefix} ${at}`)

describe('wallets that have not paid, together', () => {
  test('of ten fresh wallets six take a whole stream, whose upstream may cost 0.24, and the rest are told to wait (contract 1.95)', async () => {
    const { takes, chain, alice } = await drained()
    expect((await alice.ask(LONG, { path: '/api/v1/chat/completions' })).body.accepts[0].amount).toBe('24589')
    const answers = []
    for (const name of names(10)) answers.push(await takes(name))
    expect(answers.map(({ status }) => status)).toEqual([...Array.from({ length: 6 }, () => 200), 402, 402, 402, 402])
    expect(answers.filter(({ isTaken }) => isTaken)).toHaveLength(6)
    expect(chain.transfers).toHaveLength(0)
    const { headers, text } = answers.at(-1)!
    expect(JSON.parse(text)).toMatchObject({ code: 'PAYMENT_UNFUNDED', retryAfterSeconds: 60 })
    expect([headers.get('retry-after'), text.includes('wait 60 seconds')]).toEqual(['60', true])
  })

  test('from many addresses they take what the gateway allows, and the operator hears of it once (contract 1.95)', async () => {
    const { takes, log } = await drained()
    const answers = []
    for (const [at, name] of names(40).entries()) answers.push(await takes(name, { ip: `198.51.100.${at}` }))
    expect(answers.filter(({ isTaken }) => isTaken)).toHaveLength(16)
    expect(log.lines.filter(({ level, message }) => level === 'alert' && message.startsWith('new wallets'))).toEqual([
      expect.objectContaining({
        fields: { gateway: 'default', calls: 16, unpaid: '3.772944', limit: '4.000000' },
      }),
    ])
  })

  test('addresses of one IPv6 /64 are one (contract 1.95)', async () => {
    const { takes } = await drained()
    const answers = []
    for (const [at, name] of names(9).entries()) answers.push(await takes(name, { ip: `2001:db8:0:1::${at + 1}` }))
    expect(answers.filter(({ isTaken }) => isTaken)).toHaveLength(6)
  })

  test('what they pay makes room, and so does an hour (contract 1.95)', async () => {
    const { takes, pays, clock } = await drained()
    for (const name of names(30, 'honest')) expect(await pays(name)).toBe(200)
    for (const name of names(6)) expect((await takes(name)).isTaken).toBe(true)
    expect(await pays('late')).toBe(402)
    await clock.advance(HOUR - 10_000)
    expect(await pays('late')).toBe(402)
    await clock.advance(311_000)
    expect(await pays('late')).toBe(200)
  })

  test('signed for almost a day, their orders keep no others waiting for longer than usual (contract 1.95)', async () => {
    const { takes, pays, clock } = await drained()
    const how = { validBefore: BigInt(Math.floor(clock.now() / 1_000) + 85_000) }
    for (const [at, name] of names(16).entries())
      expect((await takes(name, { ip: `198.51.100.${at}`, how })).isTaken).toBe(true)
    expect(await pays('honest')).toBe(402)
    await clock.advance(HOUR + 301_000)
    expect(await pays('honest')).toBe(200)
  })

  test('a wallet that has paid is not among them, nor asks storage about them (contract 1.95)', async () => {
    const storage = memoryStorage()
    const lists: string[] = []
    const spied = {
      ...storage,
      listRecords: (...given: Parameters<typeof storage.listRecords>) => {
        lists.push(given[0])
        return storage.listRecords(...given)
      },
    }
    const { takes, pays } = await drained({ ...REFUSALS, ports: { storage: spied } })
    expect(await pays('regular')).toBe(200)
    for (const name of names(8)) await takes(name)
    expect(await pays('another')).toBe(402)
    lists.length = 0
    for (let call = 0; call < 5; call++) expect(await pays('regular')).toBe(200)
    expect(lists).toEqual([])
  })

  test('to pay a little is not enough to take more than that (contract 1.95)', async () => {
    const { takes, pays } = await drained()
    for (const name of names(12)) expect(await pays(name, { body: STREAM })).toBe(200)
    const answers = []
    for (const name of names(12)) answers.push(await takes(name))
    expect(answers.filter(({ isTaken }) => isTaken)).toHaveLength(6)
  })

  test('work that fails without cost does not count; an answer that its buyer abandons does (contract 1.95)', async () => {
    const open = async (isAbandoned: boolean) => {
      let gone = new AbortController()
      const { post, signed, buyer, idle, clock } = await table(async () => {
        if (!isAbandoned) throw new Error('no model today')
        gone.abort()
        return await new Promise<never>(() => {})
      })
      const statuses: number[] = []
      for (const name of names(8)) {
        const payment = await signed(LONG, { by: buyer(name) })
        gone = new AbortController()
        const response = await post(LONG, { payment, ...(isAbandoned && { gone: gone.signal }) }).catch(() => undefined)
        statuses.push(response?.status ?? 0)
        await idle()
        await clock.advance(2_000)
      }
      return statuses.filter((status) => status === 402).length
    }
    expect([await open(false), await open(true)]).toEqual([0, 2])
  })

  test('two replicas do not let through more than one would (contract 1.95)', async () => {
    const { gateway, restart, signed, post, buyer, chain } = await drained()
    const replicas = [gateway, restart()]
    const payments = await Promise.all(names(20).map((name) => signed(LONG, { by: buyer(name) })))
    for (const name of names(20)) chain.fund(chain.wallet(name), 1n)
    const answers = await Promise.all(
      payments.map((payment, at) => post(LONG, { payment, gateway: replicas[at % 2] as typeof gateway })),
    )
    const opened = answers.filter(({ status }) => status === 200)
    expect(opened.length).toBeLessThanOrEqual(6)
    await Promise.all(answers.map((answer) => answer.text()))
  })

  test('a channel is money that has been deposited: its calls are not among them (contract 1.95)', async () => {
    const storage = memoryStorage()
    const limits = { gateway: usdc(0n), address: usdc(0n), streamed: usdc(0n) }
    const subject = await table(undefined, {
      newWallets: limits,
      ports: { storage, chain: voucherChain(storage) },
    })
    const offer = decodeHeader((await subject.post(SKY)).headers.get('payment-required')).accepts[0]
    const buyer = voucherBuyer('alice')
    expect((await subject.post(SKY, { payment: await buyer.sign(offer, 0n) })).status).toBe(200)
    expect((await subject.post(SKY, { payment: await buyer.sign(offer, 1_017n) })).status).toBe(200)
  })
})

describe('streams of wallets that have not paid', () => {
  test('above 1 USDC together they are settled before any content is sent, and refused no earlier (contract 1.95)', async () => {
    const { takes, pays } = await drained({})
    const answers = []
    for (const [at, name] of names(14).entries()) answers.push(await takes(name, { ip: `198.51.100.${at}` }))
    expect(answers.map(({ status, isTaken }) => [status, isTaken])).toEqual([
      ...Array.from({ length: 4 }, () => [200, true]),
      ...Array.from({ length: 10 }, () => [200, false]),
    ])
    expect(await pays('honest', { ip: '203.0.113.1' })).toBe(200)
  })

  test('ordered at the same time, on two replicas, no more of them leave content unpaid (contract 1.95)', async () => {
    const chain = memoryChain()
    const { gateway, restart, signed, post, buyer } = await table(
      async () => {
        for (const name of names(16)) chain.drain(chain.wallet(name))
        return streamAnswer(HELLO)
      },
      { chain },
    )
    const replicas = [gateway, restart()]
    const payments = await Promise.all(names(16).map((name) => signed(LONG, { by: buyer(name) })))
    const answers = await Promise.all(
      payments.map((payment, at) =>
        post(LONG, { payment, ip: `198.51.100.${at}`, gateway: replicas[at % 2] as typeof gateway }),
      ),
    )
    const texts = await Promise.all(answers.map((answer) => answer.text()))
    expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThan(4)
    expect(texts.filter((text) => text.includes('lo"')).length).toBeLessThanOrEqual(4)
  })

  test('an honest new buyer reads the whole answer of a stream that was settled early (contract 1.95)', async () => {
    const { takes, signed, post, buyer, idle, chain } = await drained({ newWallets: { streamed: usdc(0n) } })
    expect(await takes('thief')).toMatchObject({ status: 200, isTaken: false })
    const response = await post(LONG, { payment: await signed(LONG, { by: buyer('honest') }) })
    const text = await response.text()
    await idle()
    expect([response.status, text.includes('lo"'), chain.transfers.length]).toEqual([200, true, 1])
  })

  test('what new wallets have paid lets streams begin before settlement again (contract 1.95)', async () => {
    const { takes, pays } = await drained({})
    for (const name of names(30, 'honest')) expect(await pays(name)).toBe(200)
    const answers = []
    for (const name of names(6)) answers.push((await takes(name)).isTaken)
    expect(answers).toEqual([true, true, true, true, false, false])
  })
})

describe('orders that are worked on before they are paid', () => {
  /** Films of 3.15 USDC, ordered by wallets that hand 3.16 USDC on to the next one. */
  const film = { ...FILM, seconds: 15 }

  async function hop(subject: ReturnType<typeof cinema>, wallets: readonly Buyer[]): Promise<readonly number[]> {
    const statuses: number[] = []
    for (const each of wallets) {
      for (const other of wallets) subject.chain.drain(other.wallet)
      subject.chain.fund(each.wallet, 760_000n)
      statuses.push((await each.buy(film, { path: FILMS })).status)
    }
    return statuses
  }

  test('money that hops through eight wallets orders one dear film, and not eight (contract 1.95)', async () => {
    const subject = cinema({ newWallets: { address: usdc(100_000n), gateway: usdc(100_000n) } })
    const statuses = await hop(subject, names(8).map(subject.buyer))
    expect(statuses).toEqual([202, ...Array.from({ length: 7 }, () => 402)])
    expect(subject.studio.submitted).toBe(1)
  })

  test('to have paid a little is not enough for a dear order, and to have paid as much is (contract 1.95)', async () => {
    const subject = cinema({ newWallets: { address: usdc(100_000n), gateway: usdc(100_000n) } })
    const wallets = names(3).map(subject.buyer)
    const [first, second] = wallets as [Buyer, Buyer]
    for (const each of wallets) expect((await each.buy()).status).toBe(200)
    expect((await first.buy(film, { path: FILMS })).status).toBe(202)
    expect((await second.buy(film, { path: FILMS })).status).toBe(402)
    for (let at = 0; at < 40; at++) await second.buy({ model: 'vendor-a/image-1', prompt: `fox ${at}` })
    expect((await second.buy(film, { path: FILMS })).status).toBe(202)
  })
})

test('a dear order keeps nobody from a cheap one, and no second dear one has room beside it (contract 1.95)', () => {
  const limit = { gateway: usdc(500n), address: usdc(100n), streamed: usdc(300n) }
  const other = (worth: bigint, address = 'a', id = 'x') => ({ id, worth, address })
  const judged = (worth: bigint, ...others: readonly ReturnType<typeof other>[]) =>
    judgeUnproven({ worth, address: 'a' }, others, limit)
  expect([judged(100n), judged(101n), judged(99n, other(1n)), judged(99n, other(2n))]).toEqual([
    undefined,
    undefined,
    undefined,
    'address',
  ])
  expect([judged(100n, other(900n)), judged(900n, other(900n)), judged(900n, other(100n))]).toEqual([
    undefined,
    'address',
    undefined,
  ])
  expect([judged(1n, other(499n, 'b')), judged(1n, other(500n, 'b'))]).toEqual([undefined, 'gateway'])
  expect(judged(1n, ...Array.from({ length: 1_000 }, (_, at) => other(0n, 'b', String(at))))).toBe('gateway')
})
