/** The relayer and its line to the node, when things go wrong: every payment still moves exactly once. */
import { afterAll, describe, expect, test } from 'bun:test'
import { type Hex, parseTransaction } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { evmChain } from '../../../../adapters/chains/evm/mod.ts'
import type { Settlement } from '../../../../core/ports/mod.ts'
import type { Payment } from '../../../../core/x402/protocol.ts'
import {
  ASSET,
  DOMAIN,
  type EvmHarness,
  evmHarness,
  type ApiError,
  instead,
  isReceipt,
  isSend,
  type Line,
  type Message,
  MULTICALL,
  NETWORK,
  type World,
  world,
} from './evm_kit.ts'

const chainWorld: World = await world()
afterAll(() => chainWorld.close())

const timeouts = () => AbortSignal.timeout(10_000)
const at = (h: EvmHarness) => ({ now: h.now(), signal: timeouts() })
const settle = (h: EvmHarness, payment: Payment) => h.chain.settle(payment, h.offer, at(h))
const relayerOf = (h: EvmHarness) => privateKeyToAccount(h.config.relayerKey as Hex)

async function withChain(
  work: (h: EvmHarness) => Promise<void>,
  change: Parameters<typeof evmHarness>[1] = {},
): Promise<void> {
  const h = await evmHarness(chainWorld, change)
  try {
    await work(h)
  } finally {
    h.chain.close()
  }
}

async function payments(h: EvmHarness, count: number): Promise<readonly Payment[]> {
  const payers = await Promise.all(Array.from({ length: count }, () => h.payer()))
  return Promise.all(payers.map((payer) => h.sign(payer, h.offer)))
}

async function onePayment(h: EvmHarness): Promise<Payment> {
  const [payment] = await payments(h, 1)
  return payment as Payment
}

async function expectOnePaid(h: EvmHarness, settlement: Settlement): Promise<void> {
  expect(settlement).toMatchObject({ kind: 'settled' })
  expect(await h.balanceOf(h.offer.payTo)).toBe(10_000n)
}

/** A node that does not know eth_sendRawTransactionSync, as most do. */
const noSync = () =>
  instead(({ method }) => method === 'eth_sendRawTransactionSync', {
    error: { code: -32601, message: 'the method does not exist' },
  })

/** Refuses the first send with these words, without passing it on. */
function refusingOnce(message: string): Line['judge'] {
  let isFirst = true
  return (messages) => {
    if (!isFirst || !messages.some(isSend)) return 'fine'
    isFirst = false
    return async () => messages.map(({ id }) => ({ id, error: { code: -32000, message } }))
  }
}

/** The first of these requests meets the fault; the rest pass. */
function once(apiError: ApiError, isIt: (message: Message) => boolean): Line['judge'] {
  let isFirst = true
  return (messages) => {
    if (!isFirst || !messages.some(isIt)) return 'fine'
    isFirst = false
    return apiError
  }
}

describe('a send', () => {
  for (const apiError of ['lost', 'deaf', 'busy', 'garbage'] as const) {
    test(`whose request is ${apiError} goes through, once`, () =>
      withChain(async (h) => {
        h.line.judge = once(apiError, isSend)
        await expectOnePaid(h, await settle(h, await onePayment(h)))
      }))
  }

  test('goes through on a node that hands out no receipts with it', () =>
    withChain(
      async (h) => {
        const all = await Promise.all((await payments(h, 9)).map((payment) => settle(h, payment)))
        expect(all.map((each) => each.kind)).toEqual(Array(9).fill('settled'))
        expect(await h.balanceOf(h.offer.payTo)).toBe(90_000n)
      },
      { judge: noSync },
    ))

  const words = [
    'already known',
    'nonce too low',
    'replacement transaction underpriced',
    'max fee per gas less than block base fee',
    'internal error',
  ]
  for (const text of words) {
    test(`that is answered with "${text}" goes through, once`, () =>
      withChain(async (h) => {
        h.line.judge = refusingOnce(text)
        await expectOnePaid(h, await settle(h, await onePayment(h)))
      }))
  }

  test('offers more until the node takes it', () =>
    withChain(async (h) => {
      const prices: bigint[] = []
      h.line.judge = (messages) => {
        if (!messages.some(isSend)) return 'fine'
        prices.push(parseTransaction(String(messages.find(isSend)?.params[0]) as Hex).maxFeePerGas ?? 0n)
        if (prices.length > 3) return 'fine'
        return async () =>
          messages.map(({ id }) => ({ id, error: { code: -32000, message: 'replacement transaction underpriced' } }))
      }
      await expectOnePaid(h, await settle(h, await onePayment(h)))
      for (const [i, price] of prices.slice(1).entries())
        expect(price * 10n).toBeGreaterThanOrEqual((prices[i] as bigint) * 11n)
    }))

  test('stops waiting for receipts with a node that no longer hands them out', () =>
    withChain(async (h) => {
      let requestCount = 0
      h.line.judge = (messages) => {
        if (messages.some(({ method }) => method === 'eth_sendRawTransactionSync')) requestCount++
        return noSync()
      }
      for (const payment of await payments(h, 3)) expect(await settle(h, payment)).toMatchObject({ kind: 'settled' })
      expect(requestCount).toBe(1)
    }))

  test('whose nonce somebody else takes each time is unknown after the third, and nothing moves', () =>
    withChain(
      async (h) => {
        const relayer = relayerOf(h)
        const payment = await onePayment(h)
        h.line.judge = (messages) => {
          const raw = messages.find(isSend)?.params[0]
          if (!raw) return 'fine'
          return async () => {
            const { nonce } = parseTransaction(raw as Hex)
            const fees = { gas: 21_000n, maxFeePerGas: 10n ** 11n, maxPriorityFeePerGas: 0n }
            const other = await relayer.signTransaction({
              chainId: 84532,
              nonce: nonce ?? 0,
              to: relayer.address,
              ...fees,
            })
            await chainWorld.ask('eth_sendRawTransactionSync', other).catch(() => {})
            throw new TypeError('connection reset')
          }
        }
        expect(await settle(h, payment)).toMatchObject({
          kind: 'unknown',
          reason: expect.stringContaining('may still be mined'),
        })
        h.recover()
        await expectOnePaid(h, await settle(h, payment))
      },
      { judge: noSync, resendMs: 16 },
    ))

  test('that hangs does not hold the queue: it is sent again', () =>
    withChain(
      async (h) => {
        h.line.judge = once(() => new Promise(() => {}), isSend)
        await expectOnePaid(h, await settle(h, await onePayment(h)))
      },
      { judge: noSync, timeoutMs: 40 },
    ))

  test('is not begun for a caller who has left the queue', () =>
    withChain(
      async (h) => {
        const [one, two] = (await payments(h, 2)) as [Payment, Payment]
        const stop = new AbortController()
        const lost = h.drop('sends').then(async () => {
          const second = h.chain.settle(two, h.offer, { now: h.now(), signal: stop.signal })
          stop.abort()
          expect(await second).toMatchObject({ kind: 'unknown' })
          h.recover()
        })
        expect(await settle(h, one)).toMatchObject({ kind: 'settled' })
        await lost
        expect(await settle(h, await onePayment(h))).toMatchObject({ kind: 'settled' })
        expect(await h.chain.fate(two, h.offer, at(h))).toEqual({ kind: 'open' })
      },
      { maxInFlight: 1 },
    ))

  test('that the node refuses for good sent nothing, and leaves its nonce to the next', () =>
    withChain(async (h) => {
      const [one, two] = (await payments(h, 2)) as [Payment, Payment]
      h.line.judge = refusingOnce('insufficient funds for gas * price + value')
      expect(await settle(h, one)).toMatchObject({
        kind: 'unavailable',
        reason: expect.stringContaining('nothing was sent'),
      })
      expect(await h.chain.fate(one, h.offer, at(h))).toEqual({ kind: 'open' })
      await expectOnePaid(h, await settle(h, two))
      expect(await settle(h, one)).toMatchObject({ kind: 'settled' })
      expect(await chainWorld.ask<string>('eth_getTransactionCount', relayerOf(h).address, 'latest')).toBe('0x2')
    }))

  test('finds its nonce when somebody else has used the key', () =>
    withChain(async (h) => {
      expect(await settle(h, await onePayment(h))).toMatchObject({ kind: 'settled' })
      const relayer = relayerOf(h)
      for (const nonce of [1, 2, 3]) {
        const fees = { gas: 21_000n, maxFeePerGas: 10n ** 11n, maxPriorityFeePerGas: 0n }
        await chainWorld.ask(
          'eth_sendRawTransactionSync',
          await relayer.signTransaction({ chainId: 84532, nonce, to: relayer.address, ...fees }),
        )
      }
      const more = await Promise.all((await payments(h, 4)).map((payment) => settle(h, payment)))
      expect(more.map((each) => each.kind)).toEqual(Array(4).fill('settled'))
    }))

  test('outlives a node that has forgotten the last blocks', () =>
    withChain(
      async (h) => {
        for (const payment of await payments(h, 3)) expect(await settle(h, payment)).toMatchObject({ kind: 'settled' })
        await chainWorld.ask('anvil_setNonce', relayerOf(h).address, '0x1')
        const more = await Promise.all((await payments(h, 3)).map((payment) => settle(h, payment)))
        expect(more.map((each) => each.kind)).toEqual(Array(3).fill('settled'))
      },
      { judge: noSync },
    ))
})

describe('a transaction that waits in the mempool', () => {
  type Pending = Record<string, Record<string, { hash: Hex; maxFeePerGas: Hex }>>
  const waiting = async (h: EvmHarness) => {
    const { pending, queued } = await chainWorld.ask<{ pending: Pending; queued: Pending }>('txpool_content')
    const own = (pool: Pending) =>
      Object.values(pool[relayerOf(h).address.toLowerCase()] ?? pool[relayerOf(h).address] ?? {})
    return [...own(pending), ...own(queued)]
  }

  /** Work while nothing is mined, watching the pool: `until` is asked at each request that the chain makes. */
  async function unmined(
    h: EvmHarness,
    payment: Payment,
    until: (count: number) => Promise<boolean>,
  ): Promise<Settlement> {
    await chainWorld.ask('evm_setIntervalMining', 0)
    let polls = 0
    let isOver = false
    h.line.judge = (messages) => {
      if (!messages.some(isReceipt) && !messages.some(isSend)) return 'fine'
      return async (_, forward) => {
        const replies = await forward()
        if (!isOver && (await until(++polls))) {
          isOver = true
          await chainWorld.ask('evm_setAutomine', true)
          await chainWorld.ask('evm_mine')
        }
        return replies
      }
    }
    return settle(h, payment)
  }

  test('and is dropped there is sent again', () =>
    withChain(
      async (h) => {
        h.line.judge = undefined
        let dropped = 0
        const settlement = await unmined(h, await onePayment(h), async () => {
          const [first] = await waiting(h)
          if (first && dropped < 2) {
            dropped++
            await chainWorld.ask('anvil_dropTransaction', first.hash)
          }
          return dropped === 2 && (await waiting(h)).length === 1
        })
        await expectOnePaid(h, settlement)
      },
      { judge: noSync, resendMs: 16 },
    ))

  test('for long is replaced at a higher price, and paid once', () =>
    withChain(
      async (h) => {
        const prices = new Set<bigint>()
        const settlement = await unmined(h, await onePayment(h), async () => {
          for (const { maxFeePerGas } of await waiting(h)) prices.add(BigInt(maxFeePerGas))
          return prices.size >= 3
        })
        await expectOnePaid(h, settlement)
        const [first, second, third] = [...prices] as [bigint, bigint, bigint]
        expect(second * 10n).toBeGreaterThanOrEqual(first * 11n)
        expect(third * 10n).toBeGreaterThanOrEqual(second * 11n)
      },
      { judge: noSync, resendMs: 8 },
    ))

  test('does not keep its caller: out of time it reads unknown, and settled when asked again', () =>
    withChain(
      async (h) => {
        h.line.judge = undefined
        const payment = await onePayment(h)
        await chainWorld.ask('evm_setIntervalMining', 0)
        const stop = new AbortController()
        h.line.judge = (messages) => {
          if (messages.some(isReceipt)) stop.abort()
          return 'fine'
        }
        expect(await h.chain.settle(payment, h.offer, { now: h.now(), signal: stop.signal })).toMatchObject({
          kind: 'unknown',
        })
        expect(await h.chain.fate(payment, h.offer, at(h))).toEqual({ kind: 'open' })
        await chainWorld.ask('evm_setAutomine', true)
        await chainWorld.ask('evm_mine')
        await expectOnePaid(h, await settle(h, payment))
      },
      { judge: noSync },
    ))
})

describe('many at once', () => {
  test('forty settlements over a line that fails half of the time are each paid once', () =>
    withChain(async (h) => {
      const all = await payments(h, 40)
      let seed = 20_261_120
      const apiErrors: readonly ApiError[] = ['fine', 'lost', 'deaf', 'busy', 'garbage', 'fine', 'fine', 'fine']
      h.line.judge = () => {
        seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0
        return apiErrors[(seed >>> 16) % apiErrors.length] ?? 'fine'
      }
      const insist = async (payment: Payment): Promise<Settlement> => {
        for (let i = 0; i < 100; i++) {
          const settlement = await settle(h, payment)
          if (settlement.kind !== 'unknown') return settlement
        }
        return { kind: 'unknown', reason: 'a hundred times' }
      }
      const settlements = await Promise.all(all.map(insist))
      expect(settlements.filter((each) => each.kind !== 'settled')).toEqual([])
      expect(await h.balanceOf(h.offer.payTo)).toBe(400_000n)
    }))

  test('one that turns bad between rehearsal and block spoils only itself', () =>
    withChain(async (h) => {
      const payers = await Promise.all(Array.from({ length: 6 }, () => h.payer()))
      const all = await Promise.all(payers.map((payer) => h.sign(payer, h.offer)))
      let isDone = false
      h.line.judge = (messages) => {
        if (isDone || !messages.some(isSend)) return 'fine'
        isDone = true
        return async (_, forward) => {
          await h.cancel(payers[1]!, all[1]!)
          await h.fund(payers[4]!, 0n)
          return forward()
        }
      }
      const settlements = await Promise.all(all.map((payment) => settle(h, payment)))
      expect(settlements.map((each) => each.kind)).toEqual([
        'settled',
        'refused',
        'settled',
        'settled',
        'refused',
        'settled',
      ])
      const used = settlements.flatMap((each) => (each.kind === 'settled' ? [each.receipt.transaction] : []))
      expect(new Set(used).size).toBe(1)
      expect(await h.balanceOf(h.offer.payTo)).toBe(40_000n)
    }))

  test('no gas is spent on the dead', () =>
    withChain(async (h) => {
      const payers = await Promise.all(Array.from({ length: 4 }, () => h.payer(9_999n)))
      const all = await Promise.all(payers.map((payer) => h.sign(payer, h.offer)))
      const settlements = await Promise.all(all.map((payment) => settle(h, payment)))
      expect(settlements).toEqual(Array(4).fill({ kind: 'refused', reason: expect.stringContaining('9999') }))
      expect(await chainWorld.ask<string>('eth_getTransactionCount', relayerOf(h).address, 'latest')).toBe('0x0')
    }))

  test('without Multicall3 they settle one by one, and everything else holds', () =>
    withChain(
      async (h) => {
        h.line.judge = undefined
        const all = await payments(h, 5)
        expect(await h.chain.verify(all[0]!, h.offer, at(h))).toMatchObject({ kind: 'valid', balance: 1_000_000n })
        const settlements = await Promise.all(all.map((payment) => settle(h, payment)))
        const used = settlements.flatMap((each) => (each.kind === 'settled' ? [each.receipt.transaction] : []))
        expect(new Set(used).size).toBe(5)
        expect(await h.chain.verify(all[0]!, h.offer, at(h))).toMatchObject({ kind: 'refused', code: 'PAYMENT_REPLAY' })
        expect(await h.chain.fate(all[0]!, h.offer, at(h))).toMatchObject({ kind: 'paid' })
      },
      {
        judge: () =>
          instead(({ method, params: [address] }) => method === 'eth_getCode' && address === MULTICALL.toLowerCase(), {
            result: '0x',
          }),
      },
    ))
})

describe('a bad node', () => {
  const words: readonly unknown[] = [
    null,
    '',
    '0x',
    '0x0',
    '0xzz',
    `0x${'0'.repeat(64)}`,
    `0x${'f'.repeat(64)}`,
    'x'.repeat(5_000),
  ]
  const junk: readonly unknown[] = [
    ...words,
    7,
    -1,
    true,
    [],
    {},
    [null],
    { logs: [] },
    { number: '0x', timestamp: '0x' },
  ]

  for (const method of [
    'everything',
    'eth_call',
    'eth_getCode',
    'eth_getLogs',
    'eth_getTransactionReceipt',
    'eth_getBlockByNumber',
  ]) {
    test(`that answers ${method} with junk is never believed`, () =>
      withChain(async (h) => {
        const used = await onePayment(h)
        await h.submit(used)
        const fresh = await onePayment(h)
        const chain = evmChain(h.config) // has not seen the payment made
        await chain.check()
        for (const value of junk) {
          h.line.judge = () =>
            instead((message) => method === 'everything' || message.method === method, { result: value })
          const verdict = await h.chain.verify(fresh, h.offer, at(h))
          if (method !== 'everything' && !['eth_call', 'eth_getCode'].includes(method))
            expect(verdict.kind).toBe('valid')
          else if (method !== 'eth_getCode') expect(verdict.kind).toBe('unavailable')
          const fate = await chain.fate(used, h.offer, at(h))
          expect(['unknown', 'paid']).toContain(fate.kind)
          if (method === 'everything') expect((await settle(h, fresh)).kind).toBe('unknown')
          if (method === 'everything') expect((await h.chain.check()).kind).not.toBe('ready')
        }
        h.line.judge = undefined
        expect(await settle(h, fresh)).toMatchObject({ kind: 'settled' })
        chain.close()
      }))
  }

  test('that never answers costs a caller no more than its time', () =>
    withChain(async (h) => {
      const payment = await onePayment(h)
      h.line.judge = () => () => new Promise(() => {})
      const signal = () => AbortSignal.timeout(20)
      const [verdict, settlement, fate] = await Promise.all([
        h.chain.verify(payment, h.offer, { now: h.now(), signal: signal() }),
        h.chain.settle(payment, h.offer, { now: h.now(), signal: signal() }),
        h.chain.fate(payment, h.offer, { now: h.now(), signal: signal() }),
      ])
      expect([verdict.kind, settlement.kind, fate.kind]).toEqual(['unavailable', 'unknown', 'unknown'])
    }))

  test('that answers with too much is not read', () =>
    withChain(
      async (h) => {
        const payment = await onePayment(h)
        h.line.judge = () => async (messages) => messages.map(({ id }) => ({ id, result: `0x${'00'.repeat(100_000)}` }))
        expect(await h.chain.verify(payment, h.offer, at(h))).toMatchObject({ kind: 'unavailable' })
        const reason = expect.stringContaining('longer than 50000 bytes')
        expect(await h.chain.fate(payment, h.offer, at(h))).toMatchObject({ kind: 'unknown', reason })
      },
      { maxBytes: 50_000 },
    ))

  test('that is behind by more than a few seconds is not asked for a verdict', () =>
    withChain(async (h) => {
      const payment = await onePayment(h)
      h.mark()
      expect(await h.chain.verify(payment, h.offer, at(h))).toMatchObject({ kind: 'valid' })
      await h.mineAt(Math.ceil(h.now() / 1000) + 60)
      expect(await h.chain.fate(await onePayment(h), h.offer, at(h))).toEqual({ kind: 'open' })
      h.rewind(true)
      expect(await h.chain.verify(payment, h.offer, at(h))).toMatchObject({
        kind: 'unavailable',
        reason: expect.stringContaining('behind'),
      })
    }))
})

describe('a secret', () => {
  test('in the RPC URL is in no answer, whatever the node says', () =>
    withChain(async (h) => {
      const payment = await onePayment(h)
      const secrets = ['pass+word!', 'k3y-of-the-path', 'query-k3y-123', 'alice-user']
      const rpcUrl = `http://alice-user:${encodeURIComponent('pass+word!')}@node.example/v2/k3y-of-the-path?apikey=query-k3y-123`
      const leaked = (outcome: unknown) =>
        secrets.filter((secret) =>
          [secret, encodeURIComponent(secret)].some((form) => JSON.stringify(outcome).includes(form)),
        )
      const answers: readonly (() => Response)[] = [
        () => Response.json({ message: rpcUrl }, { status: 401 }),
        () => new Response(rpcUrl),
        () => {
          throw new TypeError(`cannot connect to ${rpcUrl}`)
        },
      ]
      const echo = (async (_: unknown, init?: RequestInit) => {
        const requests = JSON.parse(String(init?.body)) as Message | Message[]
        const message = `bad key k3y-of-the-path (query-k3y-123) at ${rpcUrl}`
        const replies = (Array.isArray(requests) ? requests : [requests]).map(({ id }) => ({
          id,
          error: { code: -32000, message },
        }))
        return Response.json(Array.isArray(requests) ? replies : replies[0])
      }) as typeof fetch
      for (const answer of [...answers.map((say) => (async () => say()) as unknown as typeof fetch), echo]) {
        const chain = evmChain({ ...h.config, rpcUrl, fetch: answer })
        const outcomes = [
          await chain.check(),
          await chain.verify(payment, h.offer, at(h)),
          await chain.settle(payment, h.offer, at(h)),
          await chain.fate(payment, h.offer, at(h)),
        ]
        expect(leaked(outcomes)).toEqual([])
        expect(outcomes.map((each) => each.kind)).toEqual(['unavailable', 'unavailable', 'unknown', 'unknown'])
        chain.close()
      }
    }))

  test('that is malformed is not quoted', () => {
    const base = {
      network: NETWORK,
      rpcUrl: 'http://127.0.0.1:1',
      asset: ASSET,
      payTo: MULTICALL,
      domain: DOMAIN,
      relayerKey: `0x${'11'.repeat(32)}`,
    }
    const errorOf = (change: object) => {
      try {
        evmChain({ ...base, ...change }).close()
        return 'fine'
      } catch (error) {
        return String(error)
      }
    }
    expect(errorOf({})).toBe('fine')
    for (const relayerKey of ['hunter2', `0x${'ff'.repeat(32)}`, `0x${'00'.repeat(32)}`, '']) {
      expect(errorOf({ relayerKey })).toBe('RangeError: relayerKey must be 0x and 64 hex digits of a valid private key')
    }
    for (const rpcUrl of ['hunter2', 'ftp://hunter2', 'http://'])
      expect(errorOf({ rpcUrl })).toBe('RangeError: rpcUrl must be an http or https URL')
    expect(errorOf({ network: 'base' })).toContain('eip155:<chain id>')
  })
})

describe('a payload of anything', () => {
  test('is refused or known, and never throws', () =>
    withChain(async (h) => {
      const good = await onePayment(h)
      let seed = 7
      const random = (below: number) => {
        seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0
        return (seed >>> 16) % below
      }
      const long = [
        '9'.repeat(77),
        '9'.repeat(78),
        `0x${'ab'.repeat(4_096)}`,
        `0x${'ab'.repeat(4_097)}`,
        'x'.repeat(20_000),
      ]
      const words = ['', '0', '00', '0x', `0x${'f'.repeat(40)}`, `0x${'f'.repeat(64)}`, '1e5', ' 1', '\u0000', '💸']
      const values: readonly unknown[] = [
        ...words,
        ...long,
        null,
        undefined,
        0,
        -1,
        Number.NaN,
        {},
        [],
        [[]],
        true,
        { toString: 'no' },
      ]
      const paths = ['', 'signature', 'authorization', 'from', 'to', 'value', 'validAfter', 'validBefore', 'nonce']
      for (let i = 0; i < 400; i++) {
        const authorization: Record<string, unknown> = { ...(good.payload.authorization as object) }
        let payload: Record<string, unknown> = { ...good.payload, authorization }
        for (let changes = 0; changes <= random(3); changes++) {
          const path = paths[random(paths.length)] ?? ''
          const value = values[random(values.length)]
          if (path === '') payload = { odd: value }
          else if (path === 'signature' || path === 'authorization') payload[path] = value
          else authorization[path] = value
        }
        const payment = { ...good, payload } as Payment
        expect(['known', 'refused']).toContain((await h.chain.identify(payment, h.offer, at(h))).kind)
        expect(['valid', 'refused']).toContain((await h.chain.verify(payment, h.offer, at(h))).kind)
        expect(['open', 'dead', 'unknown']).toContain((await h.chain.fate(payment, h.offer, at(h))).kind)
      }
      expect(await h.balanceOf(h.offer.payTo)).toBe(0n)
    }))
})

test('a payment to somebody else goes where its offer says, and is no payment to us', () =>
  withChain(async (h) => {
    const theirs = { ...h.offer, payTo: '0x00000000000000000000000000000000000000aa' }
    const before = await h.balanceOf(theirs.payTo)
    const payment = await h.sign(await h.payer(), theirs)
    expect(await h.chain.identify(payment, h.offer, at(h))).toMatchObject({ kind: 'refused' })
    expect(await h.chain.verify(payment, theirs, at(h))).toMatchObject({ kind: 'valid' })
    expect(await h.chain.settle(payment, theirs, at(h))).toMatchObject({ kind: 'settled' })
    expect([await h.chain.fate(payment, theirs, at(h)), (await h.balanceOf(theirs.payTo)) - before]).toMatchObject([
      { kind: 'paid' },
      10_000n,
    ])
    expect((await h.chain.fate(payment, h.offer, at(h))).kind).not.toBe('paid')
  }))
