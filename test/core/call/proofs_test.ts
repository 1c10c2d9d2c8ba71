/** An authorization of nothing proves a wallet: it is verified, claimed and never sent. */
import { describe, expect, test } from 'bun:test'
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import { endpoints } from '../../../core/mod.ts'
import { type Actors, actors, failing, LINE, rentTo } from '../../actors.ts'
import { type Answer, type Buyer, kit, type Kit, type KitOptions, START } from '../../kit.ts'
import vectors from '../../vectors/effects_prices.json'

const ONRAMP = '/api/v1/onramp/token'
const RELEASE = '/api/v1/phone/numbers/release'

type Desk = Kit & { readonly acts: Actors; readonly alice: Buyer }

async function desk(options: KitOptions = {}): Promise<Desk> {
  const acts = actors()
  const { voice, phone, onramp, bridge } = acts
  const subject = kit({ ...options, ports: { vendors: { voice, phone, onramp, bridge, ...options.ports?.vendors } } })
  const alice = subject.buyer()
  await rentTo(subject.ports.storage, alice.wallet, START)
  return { ...subject, acts, alice }
}

const bodies = ({ alice }: Desk): Readonly<Record<string, Record<string, string>>> => ({
  [ONRAMP]: { address: alice.wallet },
  [RELEASE]: { phoneNumber: LINE },
})

for (const path of [ONRAMP, RELEASE]) {
  describe(`POST ${path}`, () => {
    test('quotes nothing, as text, in every place (contract 1.38, 17.5, 18.7)', async () => {
      const subject = await desk()
      const { status, body } = await subject.alice.ask(bodies(subject)[path], { path })
      expect([status, body.accepts[0].amount, body.price.amount]).toEqual([402, '0', '0.000000'])
    })

    test('verifies the signature, claims its nonce and settles nothing (contract 1.37, 1.38, 17.5, 18.4)', async () => {
      const questions: string[] = []
      const subject = await desk({ chain: memoryChain({ before: (question) => void questions.push(question) }) })
      const { alice, chain, ports } = subject
      const payment = alice.sign(await alice.ask(bodies(subject)[path], { path }))
      const { status, headers } = await alice.buy(bodies(subject)[path], { path, payment })
      expect([
        status,
        headers.get('x-payment-status'),
        headers.has('payment-response'),
        headers.has('x-payment-receipt'),
      ]).toEqual([200, 'not_charged', false, false])
      expect([questions, chain.transfers, await ports.storage.unsettled(Number.MAX_SAFE_INTEGER, 9)]).toEqual([
        ['verify'],
        [],
        [],
      ])
      const other = await alice.buy({ address: alice.wallet, asset: 'USDC' }, { path: ONRAMP, payment })
      expect([other.status, other.body.code]).toEqual([402, 'PAYMENT_REPLAY'])
    })

    test('is not done for a signature that does not hold (contract 1.38)', async () => {
      const subject = await desk()
      const { alice, acts, chain, buyer } = subject
      const challenge = await alice.ask(bodies(subject)[path], { path })
      for (const payment of [
        alice.sign(challenge, { by: buyer('bob').wallet }),
        alice.sign(challenge, { value: 1n }),
        alice.sign(challenge, { validBefore: 1n }),
      ]) {
        const { status, body } = await alice.buy(bodies(subject)[path], { path, payment })
        expect([status, body.error]).toEqual([402, 'Payment verification failed'])
      }
      expect([acts.links, acts.released, chain.transfers]).toEqual([[], [], []])
    })

    test('is done once for many of the same signed request', async () => {
      const subject = await desk()
      const { alice, acts } = subject
      const payment = alice.sign(await alice.ask(bodies(subject)[path], { path }))
      const answers = await Promise.all(
        Array.from({ length: 10 }, () => alice.buy(bodies(subject)[path], { path, payment })),
      )
      expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThan(0)
      expect(acts.links.length + acts.released.length).toBe(1)
    })

    test('of a wallet without a cent works as well', async () => {
      const subject = await desk()
      subject.chain.drain(subject.alice.wallet)
      expect((await subject.alice.buy(bodies(subject)[path], { path })).status).toBe(200)
    })

    test('is 502 where its vendor is away, and the same signed request works afterwards', async () => {
      const { phone, onramp } = actors()
      let isAway = true
      const subject = await desk({
        ports: {
          vendors: {
            phone: { ...phone, release: (...args) => (isAway ? failing() : phone.release(...args)) },
            onramp: { link: (...args) => (isAway ? failing() : onramp.link(...args)) },
          },
        },
      })
      const { alice } = subject
      const payment = alice.sign(await alice.ask(bodies(subject)[path], { path }))
      expect((await alice.buy(bodies(subject)[path], { path, payment })).status).toBe(502)
      isAway = false
      expect((await alice.buy(bodies(subject)[path], { path, payment })).status).toBe(200)
    })
  })
}

describe('what costs nothing', () => {
  test('is never owed: a caller who leaves again and again is still served', async () => {
    const { alice } = await desk()
    for (let n = 0; n < 6; n++)
      expect((await alice.buy({ address: alice.wallet }, { path: ONRAMP, gone: AbortSignal.abort() })).status).toBe(202)
    expect((await alice.buy({ address: alice.wallet }, { path: ONRAMP })).status).toBe(200)
  })

  test('is given to a wallet that owes, and has nothing: it may be what fills it', async () => {
    const { alice, chain } = await desk()
    chain.simulate('refused')
    expect((await alice.buy({}, { path: '/api/v1/phone/numbers/buy' })).status).toBe(402)
    chain.drain(alice.wallet)
    expect((await alice.buy({}, { path: '/api/v1/phone/numbers/buy' })).body.code).toBe('PAYMENT_UNFUNDED')
    expect((await alice.buy({ address: alice.wallet }, { path: ONRAMP })).status).toBe(200)
  })
})

describe('a link to fill a wallet', () => {
  const link = (who: Buyer, address = who.wallet) =>
    who.buy({ address, network: 'base', asset: 'USDC' }, { path: ONRAMP })

  test('is the vendor’s, for the wallet that signs (contract 18.4, 18.5)', async () => {
    const { alice, acts } = await desk()
    const { body } = await link(alice)
    expect([body, acts.links]).toEqual([
      { url: 'https://pay.coinbase.com/buy/select-asset?sessionToken=1' },
      [{ address: alice.wallet, ip: '192.0.2.1' }],
    ])
    expect((await link(alice, alice.wallet.toUpperCase().replace('0X', '0x'))).status).toBe(200)
  })

  test('is one for one signed request, however often that comes (contract 18.5)', async () => {
    const { alice, acts, clock } = await desk()
    const order = { address: alice.wallet }
    const payment = alice.sign(await alice.ask(order, { path: ONRAMP }))
    const { body } = await alice.buy(order, { path: ONRAMP, payment })
    await clock.advance(60_000)
    expect((await alice.buy(order, { path: ONRAMP, payment })).body).toEqual(body)
    expect(acts.links.length).toBe(1)
  })

  test('for another wallet is 403, after verification and uncharged (contract 18.4)', async () => {
    const { alice, buyer, acts, chain } = await desk()
    const { status, body } = await link(alice, buyer('bob').wallet)
    expect([status, body.reason, body.payer_wallet, acts.links, chain.transfers]).toEqual([
      403,
      'wrong_wallet',
      alice.wallet,
      [],
      [],
    ])
  })

  test('is made ten times an hour for a wallet, and thirty times from an address (contract 18.6)', async () => {
    const { alice, acts, buyer, clock } = await desk()
    const statuses = async (who: Buyer, times: number) => {
      const answers: Answer[] = []
      for (let n = 0; n < times; n++) answers.push(await link(who))
      return answers
    }
    const first = await statuses(alice, 11)
    expect([
      first.filter(({ status }) => status === 200).length,
      first.at(-1)?.status,
      first.at(-1)?.headers.has('retry-after'),
    ]).toEqual([10, 429, true])
    for (const name of ['bob', 'carol']) await statuses(buyer(name), 10)
    expect([acts.links.length <= 30, (await link(buyer('dave'))).status]).toEqual([true, 429])
    await clock.advance(3_600_000)
    expect((await link(alice)).status).toBe(200)
  })

  test('is made exactly thirty times an hour from an address, whoever asks (contract 18.6)', async () => {
    const { acts, buyer } = await desk()
    for (const name of ['bob', 'carol', 'dave'])
      for (let n = 0; n < 10; n++) expect((await link(buyer(name))).status).toBe(200)
    expect([(await link(buyer('eve'))).status, acts.links.length]).toEqual([429, 30])
  })

  test('is for a wallet on Base: any other address is 400, and a gateway that is paid on Solana alone sells none (contract 18.4)', async () => {
    const { alice, restart, ports } = await desk()
    for (const address of ['7xKXtg2CW87d97TXJSDpbD5jBkheTqA83TZRuJosgAsU', '0x1', `${alice.wallet}\n`])
      expect((await alice.ask({ address }, { path: ONRAMP })).status).toBe(400)
    const network = 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp'
    const gateway = restart({ networks: [network], ports: { ...ports, chain: memoryChain({ network }) } })
    expect((await alice.ask({ address: alice.wallet }, { path: ONRAMP, gateway })).status).toBe(503)
  })

  test('that leads anywhere else is not handed out (contract 18.5)', async () => {
    const { alice } = await desk({
      ports: { vendors: { onramp: { link: async () => 'https://evil.example/pay.coinbase.com/' } } },
    })
    const { status, body } = await link(alice)
    expect([status, JSON.stringify(body).includes('evil')]).toEqual([502, false])
  })
})

describe('the price of', () => {
  test.each(vectors)(
    '$path is what line $line of the specification says (contract 17.1, 17.2, 17.3, 17.4, 17.7, 18.7, 18.8)',
    async ({ path, amount, body }) => {
      const { alice } = await desk()
      const { status, body: reply } = await alice.ask(body, { path })
      expect([status, reply.price.amount, reply.accepts[0].amount]).toEqual([
        402,
        amount,
        String(Math.round(Number(amount) * 1e6)),
      ])
    },
  )

  test('everything that acts upon the world is here', () => {
    const acting = endpoints.filter(
      ({ kind, path }) => kind === 'sold' && /\/(voice|phone|onramp|polymarket-funding)\//.test(path),
    )
    expect(acting.map(({ path }) => path).sort()).toEqual(
      [...new Set(vectors.map(({ path }) => path).filter((path) => path !== '/api/v1/polymarket/fund'))].sort(),
    )
  })
})

test('nothing of it is sold where nobody is named, with a message for the buyer (contract 1.57)', async () => {
  const { buyer } = kit()
  for (const { path, body } of vectors) {
    const { status, body: reply, headers } = await buyer().ask(body, { path })
    expect([path, status, headers.has('payment-required'), reply.message]).toEqual([
      path,
      503,
      false,
      expect.stringContaining('Nothing was charged'),
    ])
  }
})
