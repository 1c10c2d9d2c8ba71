/**
 * Two authorizations in one request: the deposit moves first, the fee only then; neither is lost, repeated or given
 * away, whatever breaks in between.
 */
import { describe, expect, test } from 'bun:test'
import type { Payment, Ports } from '../../../../core/mod.ts'
import { actors, BRIDGE, failing } from '../../../actors.ts'
import { type Answer, type Buyer, encodePayment, kit, type Kit, type KitOptions } from '../../../kit.ts'

const FUND = '/api/v1/polymarket-funding/fund'
const ALIAS = '/api/v1/polymarket/fund'
const ACCOUNT = '0x56687bf447db6ffa42ffe2204a05edaa20f55839'
const AMOUNT = 25_000_000n
const FEE = 11_000n

type Counter = Kit & {
  readonly alice: Buyer
  /** A signed request: its fee, and a body with its deposit. */
  order(how?: {
    deposit?: Payment
    amount?: bigint
    recipient?: string
    by?: Buyer
  }): Promise<{ payment: Payment; body: Record<string, unknown> }>
  deposit(how?: { by?: Buyer; amount?: bigint; to?: string; value?: bigint }): Payment
  send(order: { payment: Payment; body: unknown }, gateway?: Kit['gateway']): Promise<Answer>
}

function counter(options: KitOptions = {}): Counter {
  const { ports: { vendors, ...ports } = {}, ...more } = options
  const subject = kit({ ports: { ...ports, vendors: { bridge: actors().bridge, ...vendors } }, ...more })
  const alice = subject.buyer()
  const deposit: Counter['deposit'] = ({ by = alice, amount = AMOUNT, to = BRIDGE, ...how } = {}) =>
    subject.chain.sign(
      { ...subject.chain.offer(amount, 600), payTo: to },
      { from: by.wallet, now: subject.clock.now(), ...how },
    )
  const order: Counter['order'] = async ({ deposit: signed, amount = AMOUNT, recipient = BRIDGE, by = alice } = {}) => {
    const body = {
      depositWallet: ACCOUNT,
      recipient,
      amountMicro: String(amount),
      depositAuthorization: encodePayment(signed ?? deposit({ by, amount, to: recipient })),
    }
    return { body, payment: by.sign(await by.ask(body, { path: FUND })) }
  }
  const send: Counter['send'] = ({ payment, body }, gateway = subject.gateway) =>
    alice.buy(body, { path: FUND, payment, gateway })
  return { ...subject, alice, order, deposit, send }
}

const moved = ({ chain }: Pick<Kit, 'chain'>) =>
  chain.transfers.map(({ to, value }) => [to === BRIDGE ? 'bridge' : 'us', value])
const BOTH = [
  ['bridge', AMOUNT],
  ['us', FEE],
]

describe('a deposit', () => {
  test('is settled first, and only then its fee; the answer has both transactions (contract 18.8, 18.10, 18.11)', async () => {
    const subject = counter()
    const { status, body, headers } = await subject.send(await subject.order())
    expect(moved(subject)).toEqual(BOTH)
    const [deposit, fee] = subject.chain.transfers.map(({ transaction }) => transaction)
    expect([status, headers.get('x-deposit-tx'), headers.get('x-payment-receipt')]).toEqual([
      200,
      deposit ?? '',
      fee ?? '',
    ])
    expect(body).toMatchObject({
      success: true,
      funded: false,
      creditPending: true,
      status: 'deposit_submitted',
      deposit: { txHash: deposit, amountUsd: 25, recipient: BRIDGE, network: 'eip155:84532' },
      fee: { amountUsd: 0.011, txHash: fee, settled: true },
    })
  })

  test('is quoted at its fee alone, under both paths, and says which fields it takes (contract 18.8, 18.9)', async () => {
    const { alice, order } = counter()
    const { body: request } = await order()
    for (const path of [FUND, ALIAS]) {
      const { status, body } = await alice.ask(request, { path })
      expect([status, body.price.amount, body.accepts[0].amount, Object.keys(body.body_fields)]).toEqual([
        402,
        '0.011000',
        '11000',
        ['depositWallet', 'recipient', 'amountMicro', 'depositAuthorization'],
      ])
    }
  })

  test('is in the ledger of its wallet, beside the fee', async () => {
    const { send, order, ports, alice } = counter()
    await send(await order())
    const spent = await ports.storage.spendByModel(alice.wallet, 0)
    expect(spent.map(({ endpoint, spent: sum }) => [endpoint, sum as bigint])).toEqual([
      ['polymarket.deposit', AMOUNT],
      ['polymarket.fund', FEE],
    ])
  })

  test.each([
    [{ amountMicro: '1999999' }, 'amountMicro'],
    [{ amountMicro: '10000000001' }, 'amountMicro'],
    [{ amountMicro: '025000000' }, 'amountMicro'],
    [{ amountMicro: '25.0' }, 'amountMicro'],
    [{ amountMicro: 25_000_000 }, 'amountMicro'],
    [{ depositWallet: '0x1' }, 'depositWallet'],
    [{ recipient: 'bridge' }, 'recipient'],
    [{ depositAuthorization: 'not base64 of anything' }, 'depositAuthorization'],
    [{ depositAuthorization: btoa('{"x402Version":1}') }, 'depositAuthorization'],
  ])('with %j is 400 before the quote (contract 18.9)', async (wrong, path) => {
    const { alice, order } = counter()
    const { status, body, headers } = await alice.ask({ ...(await order()).body, ...wrong }, { path: FUND })
    expect([status, body.details[0].path, headers.has('payment-required')]).toEqual([400, path, false])
  })

  test('of exactly the minimum and of the maximum is taken (contract 18.9)', async () => {
    for (const amount of [2_000_000n, 10_000_000_000n]) {
      const { alice, send, order, chain } = counter()
      chain.fund(alice.wallet, 20_000_000_000n)
      expect((await send(await order({ amount }))).status).toBe(200)
      expect(chain.balanceOf(BRIDGE)).toBe(amount)
    }
  })

  test('signed by another wallet, to another recipient, or with another amount is 400, uncharged (contract 18.12)', async () => {
    const subject = counter()
    const bob = subject.buyer('bob')
    for (const deposit of [
      subject.deposit({ by: bob }),
      subject.deposit({ to: '0x00000000000000000000000000000000000000aa' }),
      subject.deposit({ value: AMOUNT - 1n }),
    ]) {
      const { status, body } = await subject.send(await subject.order({ deposit }))
      expect([status, body.error, body.details[0].path]).toEqual([
        400,
        'Deposit authorization invalid',
        'depositAuthorization',
      ])
    }
    expect(subject.chain.transfers).toEqual([])
  })

  test('above what the wallet holds beside the fee charges nothing', async () => {
    const subject = counter()
    const { status, body } = await subject.send(await subject.order({ amount: 99_999_999n }))
    expect([status, body.error, moved(subject)]).toEqual([400, 'Deposit authorization invalid', []])
  })

  test('that the bridge does not accept is 403, and a resend buys nothing (contract 18.10, 18.12)', async () => {
    const subject = counter()
    const order = await subject.order({ recipient: '0x00000000000000000000000000000000000000aa' })
    for (let n = 0; n < 2; n++) {
      const { status, body } = await subject.send(order)
      expect([status, body.error, body.reason]).toEqual([403, 'Forbidden', 'recipient'])
    }
    expect(subject.chain.transfers).toEqual([])
  })

  test('while the bridge is away is 503, and the same signed request deposits afterwards (contract 18.12)', async () => {
    const { bridge } = actors()
    let isAway = true
    const subject = counter({
      ports: {
        vendors: {
          bridge: {
            ...bridge,
            depositAddress: (account, at) => (isAway ? failing() : bridge.depositAddress(account, at)),
          },
        },
      },
    })
    const order = await subject.order()
    const away = await subject.send(order)
    expect([away.status, away.body.error, moved(subject)]).toEqual([503, 'Bridge unavailable', []])
    isAway = false
    expect([(await subject.send(order)).status, moved(subject)]).toEqual([200, BOTH])
  })

  test('on a gateway whose network the bridge does not serve is 503', async () => {
    const { alice } = counter({ networks: ['eip155:84531'] })
    expect(
      (
        await alice.ask(
          {
            depositWallet: ACCOUNT,
            recipient: BRIDGE,
            amountMicro: '25000000',
            depositAuthorization: btoa(
              '{"x402Version":2,"accepted":{"scheme":"exact","network":"x","amount":"1","asset":"x","payTo":"x","maxTimeoutSeconds":1},"payload":{}}',
            ),
          },
          { path: FUND },
        )
      ).status,
    ).toBe(503)
  })
})

describe('a deposit authorization', () => {
  test('that serves one request serves no other, at the same time or later: 409 (contract 18.12)', async () => {
    const subject = counter()
    const deposit = subject.deposit()
    const orders = await Promise.all(Array.from({ length: 6 }, () => subject.order({ deposit })))
    const answers = await Promise.all(orders.map((order) => subject.send(order)))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409, 409, 409])
    const { status, body } = await subject.send(await subject.order({ deposit }))
    expect([status, body.code, body.deposit]).toEqual([
      409,
      'PAYMENT_REPLAY',
      { txHash: subject.chain.transfers[0]?.transaction },
    ])
    expect(moved(subject)).toEqual(BOTH)
  })

  test('that was used or canceled on chain is 409, and the fee is not charged', async () => {
    const subject = counter()
    const deposit = subject.deposit()
    subject.chain.cancel(deposit)
    const { status, body } = await subject.send(await subject.order({ deposit }))
    expect([status, body.code, moved(subject)]).toEqual([409, 'PAYMENT_REPLAY', []])
  })

  test('is of the asset itself: what a batching service keeps is never sent to somebody who does not use it', async () => {
    const wrap = (ports: Ports): Ports => ({
      ...ports,
      chain: {
        ...ports.chain,
        terms: (now) =>
          ports.chain.terms(now).map((each) => ({
            ...each,
            extra: {
              name: 'GatewayWalletBatched',
              version: '1',
              verifyingContract: '0x77777777dcc4d5a8b6e418fd04d8997ef11000ee',
            },
          })),
      },
    })
    const subject = counter({ wrap })
    const { status, body } = await subject.send(await subject.order())
    expect([status, body.message, moved(subject)]).toEqual([503, expect.stringContaining('no plain transfers'), []])
  })

  test('that is the payment of the request itself is refused', async () => {
    const subject = counter()
    const { payment, body } = await subject.order()
    const { status } = await subject.send({ payment, body: { ...body, depositAuthorization: encodePayment(payment) } })
    expect([status, moved(subject)]).toEqual([400, []])
  })
})

describe('a deposit whose settlement', () => {
  test('is done while its fee is refused says that it may have been made, not that nothing was charged; the poll pays the fee alone', async () => {
    const subject = counter()
    subject.chain.simulate('normal', 'refused')
    const order = await subject.order()
    const { status, body } = await subject.send(order)
    expect([status, moved(subject)]).toEqual([402, BOTH.slice(0, 1)])
    expect([body.note.includes('Nothing was charged'), body.note.includes('Do not sign another deposit')]).toEqual([
      false,
      true,
    ])
    const collected = await subject.alice.poll(body.poll_url, order.payment)
    expect([collected.status, collected.body.deposit.txHash, moved(subject)]).toEqual([
      200,
      subject.chain.transfers[0]?.transaction,
      BOTH,
    ])
  })

  test('is refused is 502, charges no fee, and the same signed request deposits once', async () => {
    const subject = counter()
    const order = await subject.order()
    subject.chain.simulate('refused')
    const { status, body } = await subject.send(order)
    expect([status, body.error, moved(subject)]).toEqual([502, 'Deposit settlement failed', []])
    expect([(await subject.send(order)).status, moved(subject)]).toEqual([200, BOTH])
  })

  test.each(['landed', 'dropped', 'late'] as const)(
    'is of unknown outcome (%s) is looked at until it is known, and never sent twice (contract 18.13)',
    async (weather) => {
      const subject = counter()
      subject.chain.simulate(weather)
      const sending = subject.send(await subject.order())
      await subject.clock.advance(1_000)
      subject.chain.deliver()
      await subject.streamed(4_000)
      await subject.streamed(4_000)
      expect([(await sending).status, moved(subject)]).toEqual([200, BOTH])
    },
  )

  test('stays unknown becomes a job, which says not to sign again; its poll pays the fee once the deposit is known (contract 18.13)', async () => {
    const subject = counter()
    const { alice, chain, clock } = subject
    const order = await subject.order()
    chain.simulate('late')
    const sending = subject.send(order)
    await clock.settle()
    chain.outage(true)
    await subject.streamed(60_000)
    const { status, body } = await sending
    expect([status, body.payment_status, moved(subject)]).toEqual([202, 'verified', []])
    expect(body.poll_instructions).toContain('Do not sign another deposit')
    expect((await subject.send(order)).body).toMatchObject({ code: 'PAYMENT_REPLAY', poll_url: body.poll_url })
    chain.deliver()
    chain.outage(false)
    await subject.streamed(10_000)
    const collected = await alice.poll(body.poll_url, order.payment)
    expect([collected.status, collected.body.deposit.txHash, moved(subject)]).toEqual([
      200,
      chain.transfers[0]?.transaction,
      BOTH,
    ])
    expect(collected.headers.get('x-deposit-tx')).toBe(chain.transfers[0]?.transaction ?? '')
  })
})

/** A storage that breaks, as a crash does, where a test says. */
function crashing(where: (storage: Ports['storage']) => Partial<Ports['storage']>): NonNullable<KitOptions['wrap']> {
  return (ports) => ({ ...ports, storage: { ...ports.storage, ...where(ports.storage) } })
}
const never = () => new Promise<never>(() => {})

describe('a process that dies', () => {
  test('between the deposit and the fee: the same signed request finds the deposit, repeats nothing, and pays the fee', async () => {
    let isDead = false
    const subject = counter({
      wrap: crashing((storage) => ({
        putRecord: (record, now) =>
          isDead && record.kind === 'unpaid_call' ? never() : storage.putRecord(record, now),
      })),
    })
    const order = await subject.order()
    isDead = true
    void subject.send(order)
    await subject.clock.settle()
    expect(moved(subject)).toEqual([['bridge', AMOUNT]])
    isDead = false
    const gateway = subject.restart()
    await gateway.takeOver()
    const { status, body } = await subject.send(order, gateway)
    expect([status, body.deposit.txHash, moved(subject)]).toEqual([200, subject.chain.transfers[0]?.transaction, BOTH])
  })

  test('there: a fresh signature of the fee finds the deposit as well, and only one of many (contract 18.13)', async () => {
    let isDead = false
    const subject = counter({
      wrap: crashing((storage) => ({
        putRecord: (record, now) =>
          isDead && record.kind === 'unpaid_call' ? never() : storage.putRecord(record, now),
      })),
    })
    const deposit = subject.deposit()
    const order = await subject.order({ deposit })
    isDead = true
    void subject.send(order)
    await subject.clock.settle()
    isDead = false
    const gateway = subject.restart()
    await gateway.takeOver()
    const again = await Promise.all(Array.from({ length: 4 }, () => subject.order({ deposit })))
    const answers = await Promise.all(again.map((each) => subject.send(each, gateway)))
    expect([answers.map(({ status }) => status).sort(), moved(subject)]).toEqual([[200, 409, 409, 409], BOTH])
  })

  test('between them: the deposit serves no request of another amount (contract 18.12)', async () => {
    let isDead = false
    const subject = counter({
      wrap: crashing((storage) => ({
        putRecord: (record, now) =>
          isDead && record.kind === 'unpaid_call' ? never() : storage.putRecord(record, now),
      })),
    })
    const deposit = subject.deposit()
    const [order, larger] = [await subject.order({ deposit }), 2n * AMOUNT]
    isDead = true
    void subject.send(order)
    await subject.clock.settle()
    isDead = false
    const gateway = subject.restart()
    await gateway.takeOver()
    const claimed = { ...deposit, accepted: { ...deposit.accepted, amount: String(larger) } }
    const { status } = await subject.send(await subject.order({ deposit: claimed, amount: larger }), gateway)
    expect([status, moved(subject)]).toEqual([409, [['bridge', AMOUNT]]])
  })

  test('while the outcome is unknown: the reconciler sends the same deposit, and the request finds it', async () => {
    let isDead = false
    const subject = counter({
      wrap: crashing((storage) => ({
        claimSettlement: (...args) => (isDead ? never() : storage.claimSettlement(...args)),
      })),
    })
    const order = await subject.order()
    subject.chain.simulate('dropped')
    void subject.send(order)
    await subject.clock.settle()
    const gateway = subject.restart()
    await gateway.takeOver()
    isDead = true
    await subject.clock.advance(50_000)
    isDead = false
    await gateway.maintain()
    await subject.clock.settle()
    const { status } = await subject.send(order, gateway)
    expect([status, moved(subject)]).toEqual([200, BOTH])
  })

  test('with the deposit in doubt: what the reconciler finds outlives the sweep, and the request finds it', async () => {
    let isDead = true
    const subject = counter({
      wrap: crashing((storage) => ({
        finishSettlement: (...args) => (isDead ? never() : storage.finishSettlement(...args)),
      })),
    })
    const order = await subject.order()
    void subject.send(order)
    await subject.clock.settle()
    isDead = false
    const gateway = subject.restart()
    await gateway.takeOver()
    await subject.clock.advance(50_000)
    await gateway.maintain()
    await subject.clock.advance(1_000)
    await subject.ports.storage.prune(subject.clock.now())
    const { status, body } = await subject.send(order, gateway)
    expect([status, body.deposit?.txHash, moved(subject)]).toEqual([200, subject.chain.transfers[0]?.transaction, BOTH])
  })

  test('before the deposit was sent: nothing has moved, and the same signed request deposits', async () => {
    let isDead = true
    const subject = counter({
      wrap: crashing((storage) => ({
        claimSettlement: (...args) => (isDead ? never() : storage.claimSettlement(...args)),
      })),
    })
    const order = await subject.order()
    void subject.send(order)
    await subject.clock.settle()
    isDead = false
    const gateway = subject.restart()
    await gateway.takeOver()
    expect([(await subject.send(order, gateway)).status, moved(subject)]).toEqual([200, BOTH])
  })

  test('tells a poll of the lost request that the deposit may have been made', async () => {
    const subject = counter({
      inlineMs: 0,
      ports: { vendors: { bridge: { networks: ['eip155:84532'], depositAddress: never } } },
    })
    const order = await subject.order()
    const { body } = await subject.send(order)
    await subject.restart().takeOver()
    const lost = await subject.alice.poll(body.poll_url, order.payment)
    expect([lost.status, lost.body.status, lost.body.note]).toEqual([
      200,
      'failed',
      expect.stringContaining('same signed request'),
    ])
  })
})

describe('a fee that is refused after its deposit', () => {
  test('is owed: the answer is withheld, no further deposit is sent for that wallet, and a poll pays', async () => {
    const subject = counter()
    const order = await subject.order()
    subject.chain.simulate('normal', 'refused')
    const withheld = await subject.send(order)
    expect([withheld.status, withheld.body.error, moved(subject)]).toEqual([
      402,
      'Payment settlement failed',
      [['bridge', AMOUNT]],
    ])
    const next = await subject.send(await subject.order())
    expect([next.status, next.body.reason, next.body.job_id]).toEqual([403, 'unpaid', withheld.body.job_id])
    expect((await subject.alice.poll(withheld.body.poll_url, order.payment)).body.deposit.txHash).toBe(
      subject.chain.transfers[0]?.transaction,
    )
    expect([moved(subject), (await subject.send(await subject.order())).status]).toEqual([BOTH, 200])
  })

  test('a vendor’s own words are never told', async () => {
    const subject = counter({
      ports: {
        vendors: { bridge: { networks: ['eip155:84532'], depositAddress: () => Promise.reject(new Error('secret')) } },
      },
    })
    const { status, body } = await subject.send(await subject.order())
    expect([status, JSON.stringify(body).includes('secret')]).toEqual([502, false])
  })
})
