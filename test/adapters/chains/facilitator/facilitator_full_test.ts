/**
 * Payments through facilitators: the laws on the reference one, which of several is asked what, and what is found
 * before anything is sold.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { concatHex, type Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { facilitatorChain, type FacilitatorConfig } from '../../../../adapters/chains/evm/facilitator.ts'
import { lower, word } from '../../../../adapters/chains/lib/hex.ts'
import type { Payment } from '../../../../core/x402/protocol.ts'
import { everyChainLaw } from '../../../conformance/chain_histories.ts'
import { runLaws } from '../../../conformance/law.ts'
import { encodePayment, FOX, GENERATIONS, type Kit, kit, ORIGIN, read, testClock } from '../../../kit.ts'
import wallets from '../evm/contract_wallet.json' with { type: 'json' }
import { ASSET, DOMAIN, instead, MULTICALL, signPayment, world } from '../evm/evm_kit.ts'
import {
  type Answer,
  type Desk,
  desk,
  facilitatorSubject,
  HANGS,
  type Harness,
  harness,
  land,
  referenceDesk,
  SUPPORTED,
  VALID,
} from './facilitator_kit.ts'

const chainWorld = await world()
const reference = await referenceDesk(chainWorld)
const logged = desk()
const other = desk()
const h = await harness(chainWorld, [logged])
afterAll(async () => {
  h.chain.close()
  await Promise.all([reference, logged, other].map((each) => each.close()))
  await chainWorld.close()
})

runLaws('facilitator', everyChainLaw, () => facilitatorSubject(chainWorld, [reference]))

const at = (on: Harness) => ({ now: on.now(), signal: AbortSignal.timeout(10_000) })
const verify = (on: Harness, payment: Payment) => on.chain.verify(payment, on.offer, at(on))
const settle = (on: Harness, payment: Payment) => on.chain.settle(payment, on.offer, at(on))
const signed = async (on: Harness, balance?: bigint) => on.sign(await on.payer(balance), on.offer)

async function using(
  desks: readonly Desk[],
  work: (h: Harness) => Promise<void>,
  change: Partial<FacilitatorConfig> = {},
): Promise<void> {
  const made = await harness(chainWorld, desks, change)
  for (const each of desks) each.requests.length = 0
  try {
    await work(made)
  } finally {
    made.chain.close()
  }
}

/** Sends an image order to the gateway of a kit. */
const ordering =
  ({ gateway }: Kit) =>
  async (payment?: Payment) => {
    const headers = {
      'content-type': 'application/json',
      ...(payment && { 'payment-signature': encodePayment(payment) }),
    }
    return await read(
      await gateway.fetch(new Request(ORIGIN + GENERATIONS, { method: 'POST', headers, body: JSON.stringify(FOX) }), {
        ip: '192.0.2.1',
      }),
    )
  }

test('a wallet that holds the price of two buys the second one at once: its balance shows the first', () =>
  using([reference], async (own) => {
    const subject = kit({ ports: { clock: testClock(own.now()) }, wrap: (ports) => ({ ...ports, chain: own.chain }) })
    const ask = ordering(subject)
    const [offer] = (await ask()).body.accepts
    const buyer = await own.payer(2n * BigInt(offer.amount))
    const statuses: number[] = []
    for (let purchase = 0; purchase < 3; purchase++) statuses.push((await ask(await own.sign(buyer, offer))).status)
    expect([statuses, await own.balanceOf(buyer.address)]).toEqual([[200, 200, 402], 0n])
  }))

describe('of 50 calls at once of a wallet with the price of one, one starts', () => {
  const away: Readonly<Record<string, () => Promise<Response>>> = {
    'answers 429': async () =>
      new Response('{"jsonrpc":"2.0","error":{"code":429,"message":"Too many requests"},"id":null}', { status: 429 }),
    'does not answer in time': () => new Promise<Response>(() => {}),
  }
  for (const [what, answer] of Object.entries(away)) {
    test(`where our own node ${what}`, async () => {
      let isAway = false
      // The facilitator answers from memory: only the node may be late.
      const through = async (input: Parameters<typeof fetch>[0], init?: RequestInit) => {
        if (!isAway) return await fetch(input, init)
        return String(input).startsWith(chainWorld.url) ? await answer() : VALID()
      }
      await using(
        [logged],
        async (own) => {
          const subject = kit({
            ports: { clock: testClock(own.now()) },
            inlineMs: 0,
            wrap: (ports) => ({ ...ports, chain: own.chain }),
          })
          const { vendor, idle } = subject
          const ask = ordering(subject)
          const [offer] = (await ask()).body.accepts
          const poor = await own.payer(BigInt(offer.amount))
          const payments: Payment[] = []
          for (let call = 0; call < 50; call++) payments.push(await own.sign(poor, offer))
          isAway = true
          const answers = await Promise.all(payments.map((payment) => ask(payment)))
          await idle()
          const counts = (code: string) => answers.filter(({ body }) => body.code === code).length
          expect([
            answers.filter(({ status }) => status === 202).length,
            counts('PAYMENT_UNFUNDED'),
            vendor.jobs.length,
          ]).toEqual([1, 49, 1])
        },
        { fetch: through as typeof fetch, verifyMs: 1_000 },
      )
    })
  }
})

// ── what is asked, and of whom ──────────────────────────────────────────────────────────────────────────────────────

test('a request holds our offer and the bare authorization, whatever the buyer sent beside them', () =>
  using([logged], async (own) => {
    logged.answer = VALID
    const payment = await signed(own)
    const { authorization, signature } = payment.payload as { authorization: object; signature: string }
    const accepted = { ...payment.accepted, asset: lower(ASSET), amount: '1', extra: { name: 'Gold' } }
    const payload = { signature, authorization: { ...authorization, note: 'x' }, also: ['y'] }
    await verify(own, {
      ...payment,
      accepted,
      payload,
      resource: 7,
      extensions: { bazaar: 'z'.repeat(1_000) },
    } as never)
    const [request] = logged.requests
    expect(request).toMatchObject({ method: 'POST', path: '/x402/verify' })
    expect(request?.json).toEqual({
      x402Version: 2,
      paymentPayload: { x402Version: 2, accepted: own.offer, payload: { signature, authorization } },
      paymentRequirements: own.offer,
    })
    expect(request?.headers.get('content-type')).toBe('application/json')
    expect(request?.headers.has('authorization')).toBe(false)
  }))

describe('a second facilitator', () => {
  const [good, failing] = [logged, other]
  const pays = (payment: Payment) => async () =>
    Response.json({ success: true, transaction: await land(chainWorld, payment) })
  const closed = async () => {
    const gone = desk()
    await gone.close()
    return gone
  }

  /** Only what hangs is cut off by the deadline, which both share: the second must never need that long. */
  const deadline = (answer: Answer): number => (answer === HANGS ? 3_000 : 60_000)
  const ways: readonly [string, Answer][] = [
    ['hangs', HANGS],
    ['answers 503', () => new Response('<html>', { status: 503 })],
    ['answers garbage', () => new Response('ok')],
    [
      'answers without end',
      () => new Response(new ReadableStream({ pull: (it) => it.enqueue(new Uint8Array(65_536).fill(32)) })),
    ],
  ]

  test.each(ways)('gives the verdict when the first %s', async (_, answer) => {
    failing.answer = answer
    good.answer = VALID
    await using(
      [failing, good],
      async (own) => expect(await verify(own, await signed(own))).toMatchObject({ kind: 'valid' }),
      { verifyMs: deadline(answer) },
    )
  })

  test('is not asked when the first has refused', () =>
    using([failing, good], async (own) => {
      failing.answer = () => Response.json({ isValid: false, invalidReason: 'invalid_exact_evm_signature' })
      expect(await verify(own, await signed(own))).toMatchObject({ kind: 'refused', code: 'PAYMENT_INVALID' })
      expect(good.requests).toEqual([])
    }))

  test.each(ways)('is not sent a settlement when the first %s', async (_, answer) => {
    failing.answer = answer
    await using(
      [failing, good],
      async (own) => {
        const payment = await signed(own)
        good.answer = pays(payment)
        expect(await settle(own, payment)).toMatchObject({
          kind: 'unknown',
          reason: expect.stringContaining('may have been sent'),
        })
        expect(good.requests).toEqual([])
      },
      { settleMs: deadline(answer) },
    )
  })

  test('settles when the first cannot be reached', async () => {
    const gone = await closed()
    await using([gone, good], async (own) => {
      const payment = await signed(own)
      good.answer = pays(payment)
      expect(await settle(own, payment)).toMatchObject({ kind: 'settled' })
    })
  })

  test('settles when the first sends us elsewhere', () =>
    using([failing, good], async (own) => {
      failing.answer = () =>
        new Response(null, { status: 308, headers: { location: 'https://www.example.com/settle' } })
      const payment = await signed(own)
      good.answer = pays(payment)
      expect(await settle(own, payment)).toMatchObject({ kind: 'settled' })
    }))

  test('that cannot be reached either leaves it unknown, and unsent', async () => {
    const chain = await harness(chainWorld, [good])
    const gone = await closed()
    const requestAlone = facilitatorChain({ ...chain.config, facilitators: [{ url: gone.url }, { url: gone.url }] })
    const payment = await signed(chain)
    expect(await requestAlone.settle(payment, chain.offer, at(chain))).toMatchObject({
      kind: 'unknown',
      reason: expect.stringContaining('nothing was sent'),
    })
    expect(await requestAlone.verify(payment, chain.offer, at(chain))).toMatchObject({ kind: 'unavailable' })
    for (const each of [requestAlone, chain.chain]) each.close()
  })
})

test('twenty who settle at once are one request, and one that comes after the reply sends again', () =>
  using([logged], async (own) => {
    const payment = await signed(own)
    logged.answer = () => Response.json({ success: false, errorReason: 'settlement_pending' })
    const all = await Promise.all(Array.from({ length: 20 }, () => settle(own, payment)))
    expect([new Set(all.map(({ kind }) => kind)), logged.requests.length]).toEqual([new Set(['unknown']), 1])
    logged.answer = async () => Response.json({ success: true, transaction: await land(chainWorld, payment) })
    expect(await settle(own, payment)).toMatchObject({ kind: 'settled' })
    expect(logged.requests).toHaveLength(2)
  }))

test('a payment of another price is not even shown to a facilitator', () =>
  using([logged], async (own) => {
    const payment = await own.sign(await own.payer(), own.offer, { value: 10_001n })
    logged.answer = async () =>
      Response.json({ isValid: true, success: true, transaction: await land(chainWorld, payment) })
    const refusal = { kind: 'refused', reason: expect.stringContaining('10001') }
    expect([await verify(own, payment), await settle(own, payment)]).toEqual([
      expect.objectContaining(refusal),
      expect.objectContaining(refusal),
    ])
    expect(logged.requests).toEqual([])
  }))

test('a facilitator that fails is left alone by the time that callers tell', () =>
  using(
    [logged],
    async (own) => {
      const [payment, now] = [await signed(own), own.now()]
      const verdictAt = async (ms: number) =>
        (await own.chain.verify(payment, own.offer, { ...at(own), now: now + ms })).kind
      logged.answer = () => new Response('<html>', { status: 502 })
      expect([await verdictAt(0), await verdictAt(1)]).toEqual(['unavailable', 'unavailable'])
      logged.answer = VALID
      expect([await verdictAt(9_999), logged.requests.length, await verdictAt(10_001), logged.requests.length]).toEqual(
        ['unavailable', 2, 'valid', 3],
      )
    },
    { failures: 2, openMs: 10_000 },
  ))

test('a settlement that nobody waits for is not sent on to the next facilitator', () =>
  using([logged, other], async (own) => {
    const stop = new AbortController()
    const reached = Promise.withResolvers<void>()
    logged.answer = () => {
      stop.abort()
      reached.resolve()
      return new Response(null, { status: 308, headers: { location: 'https://www.example.com/settle' } })
    }
    const payment = await signed(own)
    const settlement = await own.chain.settle(payment, own.offer, { now: own.now(), signal: stop.signal })
    await reached.promise
    expect(settlement).toMatchObject({ kind: 'unknown' })
    expect(await own.chain.fate(payment, own.offer, at(own))).toEqual({ kind: 'open' })
    expect(other.requests).toEqual([])
  }))

describe('an authorization that is used, nobody knows on what,', () => {
  /** Somebody has sent it, and the node shows no logs. */
  const hidden = async (own: Harness) => {
    const payment = await signed(own)
    await own.submit(payment)
    own.line.judge = () => instead(({ method }) => method === 'eth_getLogs', { result: [] })
    return payment
  }
  const refusing = (errorReason: string) => () => Response.json({ success: false, errorReason })

  test('is refused when the facilitator did nothing', () =>
    using([logged], async (own) => {
      const payment = await hidden(own)
      logged.answer = refusing('invalid_exact_evm_signature')
      expect(await settle(own, payment)).toMatchObject({
        kind: 'refused',
        reason: expect.stringContaining('nothing was sent'),
      })
      const late = { now: own.now() + 3_600_000, signal: AbortSignal.timeout(10_000) }
      expect(await own.chain.settle(payment, own.offer, late)).toMatchObject({
        kind: 'refused',
        reason: expect.stringContaining('nothing was sent'),
      })
      own.recover()
      expect(await settle(own, payment)).toMatchObject({ kind: 'settled' })
    }))

  test('is unknown from when the facilitator may have sent it', () =>
    using([logged], async (own) => {
      const payment = await hidden(own)
      logged.answer = refusing('settlement_pending')
      expect(await settle(own, payment)).toMatchObject({ kind: 'unknown' })
      logged.answer = refusing('invalid_exact_evm_signature')
      expect(await settle(own, payment)).toMatchObject({ kind: 'unknown' })
    }))
})

test('a contract wallet (ERC-1271) is known by our own node, and pays through the reference facilitator', () =>
  using([reference], async (own) => {
    const owner = privateKeyToAccount(chainWorld.key())
    const init = wallets.ContractWallet.creation as Hex
    const { contractAddress } = await chainWorld.act(null, concatHex([init, `0x${word(owner.address)}`]))
    await chainWorld.setBalance(contractAddress as Hex, 1_000_000n)
    const bare = await signPayment(owner, own.offer, { now: own.now(), from: contractAddress as Hex })
    const payment = {
      ...bare,
      payload: { ...bare.payload, signature: `0x00${String(bare.payload.signature).slice(2)}` },
    }
    expect(await own.chain.identify(payment, own.offer, at(own))).toMatchObject({ kind: 'known' })
    expect(await verify(own, payment)).toMatchObject({ kind: 'valid', balance: 1_000_000n })
    expect(await settle(own, payment)).toMatchObject({ kind: 'settled' })
    expect(await own.chain.identify(bare, own.offer, at(own))).toMatchObject({
      kind: 'refused',
      code: 'PAYMENT_INVALID',
    })
  }))

// ── before anything is sold ─────────────────────────────────────────────────────────────────────────────────────────

describe('check()', () => {
  const checked = async (change: Partial<FacilitatorConfig>) => {
    const chain = facilitatorChain({ ...h.config, ...change })
    const result = await chain.check({ now: h.now() })
    const open = chain.terms(0).length > 0
    chain.close()
    return {
      result,
      open,
      named: result.kind === 'wrong' ? result.problems.map((problem) => problem.split(':')[0]) : [],
    }
  }

  const kind = SUPPORTED.kinds[0]
  const unfit: readonly [string, Answer][] = [
    ['supports another network', () => Response.json({ kinds: [{ ...kind, network: 'eip155:8453' }] })],
    ['supports another scheme', () => Response.json({ kinds: [{ ...kind, scheme: 'upto' }] })],
    [
      'speaks version 1 only',
      () =>
        Response.json({
          kinds: [
            { ...kind, x402Version: 1 },
            { ...kind, x402Version: 1, network: 'base-sepolia' },
          ],
        }),
    ],
    [
      'signs for a batching wallet',
      () =>
        Response.json({
          kinds: [{ ...kind, extra: { verifyingContract: '0x0077777d7EBA4688BDeF3E311b846F25870A19B9' } }],
        }),
    ],
    ['takes another token', () => Response.json({ kinds: [{ ...kind, extra: { name: 'EURC', version: '2' } }] })],
    ['wants a key', () => new Response(null, { status: 401 })],
    ['is not there', () => new Response('not found', { status: 404 })],
    [
      'has moved',
      () => new Response(null, { status: 308, headers: { location: 'https://www.example.com/facilitator/supported' } }),
    ],
  ]
  test.each(unfit)('names the URL of a facilitator that %s', async (_, supported) => {
    other.supported = supported
    const { named, open } = await checked({ facilitators: [{ url: logged.url }, { url: other.url }] })
    expect({ named, open }).toEqual({ named: ['facilitators.1.url'], open: false })
    other.supported = () => Response.json(SUPPORTED)
  })

  test('says where a facilitator has moved', async () => {
    other.supported = () =>
      new Response(null, {
        status: 308,
        headers: { location: 'https://www.example.com/facilitator/supported?key=12345678' },
      })
    const { result } = await checked({ facilitators: [{ url: other.url }] })
    expect(result).toEqual({
      kind: 'wrong',
      problems: [
        'facilitators.0.url: it redirects to another origin (HTTP status 308); configure its new origin https://www.example.com',
      ],
    })
    other.supported = () => Response.json(SUPPORTED)
  })

  test.each([
    [{ kinds: [kind, { ...kind, network: 'solana:x' }, null, 'odd'] }],
    [{ kinds: [{ ...kind, network: 'eip155:*' }] }],
    [{ kinds: [{ ...kind, extra: null }] }],
    [
      {
        kinds: [
          { ...kind, extra: { name: 'EURC' } },
          { ...kind, extra: { ...DOMAIN, assetTransferMethod: 'eip3009' } },
        ],
      },
    ],
  ])('opens on %j', async (supported) => {
    other.supported = () => Response.json(supported)
    expect(await checked({ facilitators: [{ url: other.url }] })).toMatchObject({
      result: { kind: 'ready', warnings: [] },
      open: true,
    })
    other.supported = () => Response.json(SUPPORTED)
  })

  test('warns of one facilitator that is away, and waits while all are', async () => {
    other.supported = () => new Response('<html>', { status: 502 })
    const facilitators = [{ url: other.url }, { url: logged.url }]
    const [some, none] = [await checked({ facilitators }), await checked({ facilitators: facilitators.slice(0, 1) })]
    expect(some).toMatchObject({
      result: { kind: 'ready', warnings: [expect.stringContaining('facilitators.0.url')] },
      open: true,
    })
    expect(none).toMatchObject({ result: { kind: 'unavailable' }, open: false })
    other.supported = () => Response.json(SUPPORTED)
  })

  test('names what does not fit the chain and what does not fit the facilitator, at once', async () => {
    other.supported = () => Response.json({ kinds: [] })
    const { named } = await checked({
      facilitators: [{ url: other.url }],
      domain: { name: 'USD Coin', version: '2' },
      payTo: ASSET,
    })
    expect(named).toEqual(['domain.name', 'pay_to', 'facilitators.0.url'])
    other.supported = () => Response.json(SUPPORTED)
  })

  test('asks for no relayer, and for no gas', async () => {
    const sent: string[] = []
    h.line.judge = (messages) => {
      sent.push(...messages.map(({ method }) => method))
      return 'fine'
    }
    expect(await checked({})).toMatchObject({ result: { kind: 'ready', warnings: [] } })
    h.line.judge = undefined
    expect(sent.filter((method) => method.startsWith('eth_send'))).toEqual([])
    expect(await checked({ asset: MULTICALL })).toMatchObject({ named: ['asset', 'asset'] })
  })
})
