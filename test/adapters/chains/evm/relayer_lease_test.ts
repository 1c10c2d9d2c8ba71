/**
 * Relayer keys that replicas share: one key per replica at a time, and none of them sends with a key that another one
 * holds.
 */
import { describe, expect, test } from 'bun:test'
import { type MemoryChain, memoryChain } from '../../../../adapters/chains/evm/memory.ts'
import type { EvmChain } from '../../../../adapters/chains/evm/mod.ts'
import type { GasState, KeyStatus } from '../../../../adapters/chains/evm/node/gas.ts'
import { type LeasedChain, leasedChain } from '../../../../adapters/chains/evm/relayer_lease.ts'
import { memoryStorage } from '../../../../adapters/storage/memory/mod.ts'
import { cashHarness, cashSubject } from '../../../conformance/cash_harness.ts'
import { everyChainLaw } from '../../../conformance/chain_histories.ts'
import { runLaws } from '../../../conformance/law.ts'
import { FOX, kit, START, testClock } from '../../../kit.ts'

const LEASE = 30_000
const FLOOR = 10n
const READY = { kind: 'ready', warnings: [], multicall: true, sync: true } as const

type Checking = () => ReturnType<EvmChain['check']>
type Sender = { readonly key: string; isClosed: boolean; settled: number }

/** Replicas over one chain and one storage. Every chain that one of them builds is noted, with what became of it. */
function fleet(keys: readonly string[] = ['one'], cash: MemoryChain = memoryChain()) {
  const storage = memoryStorage()
  /** Balances of the keys; a key that is not named has enough. */
  const balances = new Map<string, bigint>()
  const gasOf = (key: string): GasState => {
    const balance = balances.get(key) ?? 100n
    const low = balance < FLOOR ? `account ${key} holds ${balance}, below the floor of ${FLOOR}` : undefined
    return { address: `0x${key}`, balance, floor: FLOOR, low }
  }
  const readingOf = (key: string): KeyStatus => {
    const { address, balance = 0n, low } = gasOf(key)
    return { address, balance, kind: low === undefined ? 'funded' : 'low', reason: low ?? '' }
  }
  const state = { check: (async () => READY) as Checking }
  const lost = new Set<string>()

  function replica(owner: string) {
    const built: Sender[] = []
    const build = (key: string): EvmChain => {
      const sender: Sender = { key, isClosed: false, settled: 0 }
      built.push(sender)
      return {
        ...cash,
        check: () => state.check(),
        settle: (...args) => (sender.settled++, cash.settle(...args)),
        refund: async () => ({ kind: 'unknown', reason: `sent with ${key}` }),
        refresh: async () => {},
        gas: () => gasOf(key),
        keyStatus: async (other) => readingOf(other),
        isIdle: () => true,
        close: () => void (sender.isClosed = true),
      }
    }
    const chain = leasedChain({
      keys: keys.map((key) => ({ name: `relayer:${key}`, key })),
      build,
      takeLease: (name, at) =>
        lost.has(owner) ? Promise.reject(new Error('storage is away')) : storage.lease(name, owner, at),
      leaseMs: LEASE,
    })
    const [reader] = built
    if (!reader) throw new Error('nothing was built')
    /** The keys that it can send with, in the order of taking. */
    const senders = () => built.slice(1)
    return {
      chain,
      reader,
      senders,
      holding: () =>
        senders()
          .filter(({ isClosed }) => !isClosed)
          .map(({ key }) => key),
    }
  }
  return {
    cash,
    storage,
    replica,
    state,
    balances,
    away: (owner: string) => lost.add(owner),
    back: (owner: string) => lost.delete(owner),
  }
}

describe('payments that name the key that sends them', () => {
  const FACADE = '0x00000000000000000000000000000000facade00'
  const at = { now: START, signal: AbortSignal.timeout(10_000) }

  /** Two keys; test money by `upto` is signed for the first. */
  function twoKeys(balances: Map<string, bigint>) {
    const cash = memoryChain({ schemes: ['upto'] })
    cash.advance(START)
    const storage = memoryStorage()
    const low = (key: string) => ((balances.get(key) ?? 100n) < FLOOR ? 'too little' : undefined)
    const build = (key: string): EvmChain => ({
      ...cash,
      terms: (now) => cash.terms(now).map((terms) => ({ ...terms, extra: { ...terms.extra, key } })),
      check: async () => READY,
      refresh: async () => {},
      gas: () => ({ address: `0x${key}`, balance: 100n, floor: FLOOR, low: low(key) }),
      keyStatus: async (other) =>
        low(other) === undefined
          ? { address: '0x', balance: 100n, kind: 'funded', reason: '' }
          : { address: '0x', balance: 1n, kind: 'low', reason: 'too little' },
      isIdle: () => false,
      close: () => {},
    })
    const chain = leasedChain({
      keys: [
        { name: 'one', key: 'one', address: FACADE },
        { name: 'two', key: 'two', address: '0x02' },
      ],
      build,
      takeLease: (name, when) => storage.lease(name, 'replica', when),
      leaseMs: LEASE,
    })
    const payer = cash.wallet('payer')
    cash.fund(payer, 1_000_000n)
    const offer = cash.offerUpTo(10_000n)
    return { chain, offer, payment: cash.sign(offer, { from: payer, now: START }) }
  }
  const keysIn = (chain: LeasedChain) => chain.terms(START).map(({ extra }) => extra.key)

  test('are offered for the key that this replica leases', async () => {
    const balances = new Map<string, bigint>()
    const { chain } = twoKeys(balances)
    await chain.check()
    await chain.renew(START)
    expect(keysIn(chain)).toEqual(['one'])
    balances.set('one', 1n)
    await chain.renew(START)
    expect(keysIn(chain)).toEqual(['two'])
  })

  test('are verified for every key but one without gas', async () => {
    const balances = new Map([['two', 1n]])
    const { chain, offer, payment } = twoKeys(balances)
    await chain.check({ now: START })
    await chain.renew(START)
    expect(await chain.verify(payment, offer, at)).toMatchObject({ kind: 'valid' })
    balances.set('one', 1n)
    await chain.refresh({ now: START + 1 })
    const verdict = await chain.verify(payment, offer, at)
    expect(verdict).toMatchObject({ kind: 'refused', code: 'PAYMENT_INVALID' })
    expect(verdict.kind === 'refused' && verdict.reason).toContain('invalid_upto_facilitator_mismatch')
  })

  test('are settled by a key that is about to be released', async () => {
    const balances = new Map<string, bigint>()
    const { chain, offer, payment } = twoKeys(balances)
    await chain.check()
    await chain.renew(START)
    balances.set('one', 1n)
    await chain.renew(START)
    expect(await chain.settle(payment, offer, at)).toMatchObject({ kind: 'settled' })
  })
})

describe('a payment that names a key which this replica does not lease (contract 1.91)', () => {
  const ONE = '0x00000000000000000000000000000000facade00'

  /** Replicas with two keys. Buyers sign for the first one, which is the facilitator of the chain in memory. */
  function replicas() {
    const cash = memoryChain({ schemes: ['upto'] })
    cash.advance(START)
    const storage = memoryStorage()
    const state = { check: (async () => READY) as Checking }
    /** Settlements under way, by key. */
    const active = new Map<string, number>()
    /** The keys that payments were sent with, and how many senders of each key are open. */
    const sent: string[] = []
    const open = new Map<string, number>()
    let gate: Promise<void> | undefined
    const count = (of: Map<string, number>, key: string, by: number) => of.set(key, (of.get(key) ?? 0) + by)
    const build = (key: string, role: 'reader' | 'sender'): EvmChain => {
      if (role === 'sender') count(open, key, 1)
      return {
        ...cash,
        check: () => state.check(),
        refresh: async () => {},
        gas: () => ({ address: `0x${key}`, balance: 100n, floor: FLOOR, low: undefined }),
        keyStatus: async () => ({ address: '0x', balance: 100n, kind: 'funded', reason: '' }),
        async settle(...args) {
          sent.push(key)
          count(active, key, 1)
          await gate
          return await cash.settle(...args).finally(() => count(active, key, -1))
        },
        isIdle: () => (active.get(key) ?? 0) === 0,
        close: () => void count(open, key, -1),
      }
    }
    const replica = (owner: string) =>
      leasedChain({
        keys: [
          { name: 'one', key: 'one', address: ONE },
          { name: 'two', key: 'two', address: '0x02' },
        ],
        build,
        takeLease: (name, when) => storage.lease(name, owner, when),
        leaseMs: LEASE,
      })
    const payer = cash.wallet('payer')
    cash.fund(payer, 1_000_000n)
    const offer = cash.offerUpTo(10_000n)
    const sign = () => cash.sign(offer, { from: payer, now: START })
    const settle = (chain: LeasedChain, now: number, payment = sign()) =>
      chain.settle(payment, offer, { now, signal: AbortSignal.timeout(10_000) })
    return { cash, storage, state, replica, settle, sent, open, hold: (until: Promise<void>) => void (gate = until) }
  }

  /** The state after a restart: the new replica leases the spare, while the key of the killed one is leased still. */
  async function restarted() {
    const made = replicas()
    const [killed, next] = [made.replica('killed'), made.replica('next')]
    await killed.renew(START)
    await next.check({ now: START })
    for (const now of [START, START + LEASE / 2]) await next.renew(now)
    return { ...made, killed, next }
  }

  test('is sent with that key as soon as nobody leases it, and the key is given back', async () => {
    const { next, settle, sent, cash, storage } = await restarted()
    expect([(await settle(next, START + LEASE - 1)).kind, cash.transfers.length]).toEqual(['unavailable', 0])
    expect(await settle(next, START + LEASE)).toMatchObject({ kind: 'settled' })
    expect([sent, cash.transfers.length]).toEqual([['one'], 1])
    await next.renew(START + LEASE + 1)
    expect(await storage.lease('one', 'another', { now: START + LEASE + 2, until: START + 2 * LEASE })).toBe(true)
  })

  test('is sent by a replica that has no key of its own', async () => {
    const { replica, settle, killed, sent } = await restarted()
    const idle = replica('idle')
    expect(await idle.renew(START + 1)).toBe(false)
    expect(await settle(idle, START + LEASE)).toMatchObject({ kind: 'settled' })
    expect(sent).toEqual(['one'])
    killed.close()
  })

  test('keeps the key leased until it is settled', async () => {
    const { next, settle, storage, hold } = await restarted()
    const { promise, resolve } = Promise.withResolvers<void>()
    hold(promise)
    const settling = settle(next, START + LEASE)
    for (let now = START + LEASE; now < START + 4 * LEASE; now += LEASE / 3) {
      await next.renew(now)
      expect(await storage.lease('one', 'another', { now, until: now + LEASE })).toBe(false)
    }
    resolve()
    expect(await settling).toMatchObject({ kind: 'settled' })
    const now = START + 4 * LEASE
    await next.renew(now)
    expect(await storage.lease('one', 'another', { now: now + 1, until: now + LEASE })).toBe(true)
  })

  test('shares one sender with others that name the same key, and with a lease of that key', async () => {
    const { next, settle, sent, open } = await restarted()
    const now = START + LEASE
    await next.renew(now - 1)
    const both = await Promise.all([settle(next, now), settle(next, now), next.renew(now), settle(next, now)])
    expect(both.map((each) => typeof each === 'object' && each.kind)).toEqual(['settled', 'settled', false, 'settled'])
    expect([sent, (open.get('one') ?? 0) <= 2]).toEqual([['one', 'one', 'one'], true])
  })

  test('is not sent while the node cannot be asked, and the key is left to the others', async () => {
    const { next, settle, cash, storage, state } = await restarted()
    state.check = async () => ({ kind: 'unavailable', reason: 'the node is away' })
    const settlement = await settle(next, START + LEASE)
    expect(settlement).toMatchObject({ kind: 'unavailable', reason: expect.stringContaining('the node is away') })
    expect(cash.transfers).toEqual([])
    await next.renew(START + LEASE)
    expect(await storage.lease('one', 'another', { now: START + LEASE + 1, until: START + 2 * LEASE })).toBe(true)
  })

  test('is unavailable where no key of this gateway is named', async () => {
    const { cash, replica } = replicas()
    const chain = replica('only')
    await chain.renew(START)
    const offer = cash.offerUpTo(10_000n)
    const payment = cash.sign(offer, { from: cash.wallet('payer'), now: START })
    const witness = (payment.payload.permit2Authorization as { witness: { facilitator: string } }).witness
    witness.facilitator = '0x00000000000000000000000000000000000000ff'
    const at = { now: START, signal: AbortSignal.timeout(1_000) }
    expect(await chain.settle(payment, offer, at)).toMatchObject({ kind: 'unavailable' })
    expect(cash.transfers).toEqual([])
  })
})

const offers = (chain: LeasedChain, now: number) => chain.terms(now).length

async function settleOn(cash: MemoryChain, chain: LeasedChain, now = START): Promise<string> {
  const offer = cash.offer(10_000n)
  const from = cash.wallet('alice')
  cash.fund(from, 10_000n)
  return (await chain.settle(cash.sign(offer, { from, now }), offer, { now, signal: AbortSignal.timeout(1_000) })).kind
}

runLaws('leased', everyChainLaw, async () => {
  const harness = cashHarness()
  const { replica } = fleet(['one'], harness.chain as MemoryChain)
  const { chain } = replica('only')
  await chain.renew(Number.MAX_SAFE_INTEGER / 2)
  return await cashSubject({ ...harness, chain })
})

describe('a relayer key', () => {
  test('is held by one replica at a time: two replicas hold two', async () => {
    const { replica } = fleet(['one', 'two'])
    const [first, second, third] = [replica('first'), replica('second'), replica('third')]
    expect([await first.chain.renew(START), await second.chain.renew(START), await third.chain.renew(START)]).toEqual([
      true,
      true,
      false,
    ])
    expect([first.holding(), second.holding(), third.holding()]).toEqual([['one'], ['two'], []])
  })

  test('is kept as long as it is renewed, with the same sender', async () => {
    const { replica } = fleet(['one', 'two'])
    const [first, second] = [replica('first'), replica('second')]
    for (let now = START; now < START + 10 * LEASE; now += LEASE / 3) {
      expect([await first.chain.renew(now), await second.chain.renew(now)]).toEqual([true, true])
    }
    expect([first.senders().length, second.senders().length, first.holding(), second.holding()]).toEqual([
      1,
      1,
      ['one'],
      ['two'],
    ])
  })

  test('goes to another replica when its holder has not renewed it for a lease, not a millisecond before', async () => {
    const { replica, cash } = fleet()
    const [first, second] = [replica('first'), replica('second')]
    await first.chain.renew(START)
    expect(await second.chain.renew(START + LEASE - 1)).toBe(false)
    expect([offers(first.chain, START + LEASE - 1), offers(second.chain, START + LEASE - 1)]).toEqual([1, 0])
    expect(await second.chain.renew(START + LEASE)).toBe(true)
    expect([offers(first.chain, START + LEASE), offers(second.chain, START + LEASE)]).toEqual([0, 1])
    expect([
      await settleOn(cash, first.chain, START + LEASE),
      await settleOn(cash, second.chain, START + LEASE),
    ]).toEqual(['unknown', 'settled'])
  })

  test('goes at once when it is released', async () => {
    const { replica } = fleet()
    const [first, second] = [replica('first'), replica('second')]
    await first.chain.renew(START)
    await first.chain.release(START + 1)
    expect([first.holding(), offers(first.chain, START + 1), await second.chain.renew(START + 1)]).toEqual([
      [],
      0,
      true,
    ])
    await first.chain.release(START + 2)
    expect(await second.chain.renew(START + 3)).toBe(true)
  })

  test('must be there', () => {
    expect(() =>
      leasedChain({
        keys: [],
        build: () => {
          throw new Error('nothing to build')
        },
        takeLease: async () => true,
        leaseMs: LEASE,
      }),
    ).toThrow('at least one relayer key is required')
  })
})

describe('losing the lease', () => {
  test('closes the sender, and takes another key where one is free', async () => {
    const { replica, storage } = fleet(['one', 'two'])
    const { chain, senders, holding } = replica('first')
    await chain.renew(START)
    await storage.lease('relayer:one', 'first', { now: START, until: START })
    await storage.lease('relayer:one', 'thief', { now: START, until: START + LEASE })
    expect(await chain.renew(START + 1)).toBe(true)
    expect([senders().map(({ isClosed }) => isClosed), holding()]).toEqual([[true, false], ['two']])
  })

  test('closes the sender even while storage cannot be asked, as soon as the lease is over', async () => {
    const { replica, away, back } = fleet()
    const { chain, holding } = replica('first')
    await chain.renew(START)
    away('first')
    await expect(chain.renew(START + LEASE - 1)).rejects.toThrow('storage is away')
    expect([holding(), offers(chain, START + LEASE - 1)]).toEqual([['one'], 1])
    await expect(chain.renew(START + LEASE)).rejects.toThrow('storage is away')
    expect([holding(), offers(chain, START + LEASE)]).toEqual([[], 0])
    back('first')
    expect([await chain.renew(START + LEASE), holding()]).toEqual([true, ['one']])
  })

  test('for a while builds a new sender: what the old one knew of nonces may be another replica’s by now', async () => {
    const { replica } = fleet()
    const { chain, senders } = replica('first')
    await chain.renew(START)
    await chain.renew(START + LEASE)
    expect(senders().map(({ isClosed }) => isClosed)).toEqual([true, false])
  })
})

describe('without a key', () => {
  test('nothing is offered, and a settlement is unknown: another replica will send it', async () => {
    const { replica, cash } = fleet()
    const [first, second] = [replica('first'), replica('second')]
    await first.chain.renew(START)
    await second.chain.renew(START)
    expect([offers(second.chain, START), await settleOn(cash, second.chain), cash.transfers.length]).toEqual([
      0,
      'unknown',
      0,
    ])
    expect([first, second].flatMap(({ senders }) => senders()).every(({ settled }) => settled === 0)).toBe(true)
  })

  test('no refund is sent; the replica with the key sends it', async () => {
    const { replica, cash } = fleet()
    const [first, second] = [replica('first'), replica('second')]
    await first.chain.renew(START)
    await second.chain.renew(START)
    const offer = cash.offer(10_000n)
    const payment = cash.sign(offer, { from: cash.wallet('alice'), now: START })
    const at = { now: START, signal: AbortSignal.timeout(1_000), isFree: async () => true, isFrom: async () => true }
    expect(await first.chain.refund?.(payment, offer, at)).toEqual({ kind: 'unknown', reason: 'sent with one' })
    expect(await second.chain.refund?.(payment, offer, at)).toMatchObject({ kind: 'unavailable' })
  })

  test('a payment is still recognised, and its fate known', async () => {
    const { replica, cash } = fleet()
    const { chain, reader } = replica('idle')
    const offer = cash.offer(10_000n)
    const payment = cash.sign(offer, { from: cash.wallet('alice'), now: START })
    const at = { now: START, signal: AbortSignal.timeout(1_000) }
    expect([
      (await chain.identify(payment, offer, at)).kind,
      (await chain.verify(payment, offer, at)).kind,
      (await chain.fate(payment, offer, at)).kind,
    ]).toEqual(['known', 'refused', 'open'])
    chain.close()
    expect(reader.isClosed).toBe(true)
  })

  test('a replica that cannot ask its node takes no key from the others', async () => {
    const { replica, state, storage } = fleet(['one', 'two'])
    const { chain, senders, holding } = replica('blind')
    state.check = async () => ({ kind: 'unavailable', reason: 'the node is away' })
    expect([await chain.check(), await chain.renew(START)]).toEqual([
      { kind: 'unavailable', reason: 'the node is away' },
      false,
    ])
    expect([senders().length, holding()]).toEqual([2, []])
    for (const key of ['one', 'two'])
      expect(await storage.lease(`relayer:${key}`, 'other', { now: START, until: START + 1 })).toBe(true)
  })

  test('of a key that does not fit the chain, the next one is taken', async () => {
    const { replica, state } = fleet(['poor', 'rich'])
    const { chain, senders, holding } = replica('first')
    state.check = async () =>
      senders().at(-1)?.key === 'poor' ? { kind: 'wrong', problems: ['relayer_key: nothing to pay gas with'] } : READY
    expect([await chain.renew(START), holding()]).toEqual([true, ['rich']])
  })
})

test('close() closes the sender and the reader', async () => {
  const { replica } = fleet()
  const { chain, reader, holding } = replica('first')
  await chain.renew(START)
  chain.close()
  expect([reader.isClosed, holding(), offers(chain, START)]).toEqual([true, [], 0])
})

describe('two gateways over one key', () => {
  async function gateways() {
    const { cash, storage, replica } = fleet()
    const clock = testClock()
    const open = (owner: string) => {
      const { chain } = replica(owner)
      return { ...kit({ workerId: owner, chain: cash, inlineMs: 0, ports: { storage, clock, chain } }), leased: chain }
    }
    const [first, second] = [open('first'), open('second')]
    await first.leased.renew(clock.now())
    await second.leased.renew(clock.now())
    return { first, second, clock, cash }
  }

  test('the one without it answers 503 before any 402, until the lease of the other ends', async () => {
    const { first, second, clock } = await gateways()
    const ask = async () => [await first.buyer().ask(), await second.buyer().ask()].map(({ status }) => status)
    expect(await ask()).toEqual([402, 503])
    const closed = await second.buyer().ask()
    expect([closed.body.error, closed.headers.get('retry-after'), closed.headers.get('payment-required')]).toEqual([
      'Not ready',
      '5',
      null,
    ])
    await clock.advance(LEASE)
    await second.leased.renew(clock.now())
    expect(await ask()).toEqual([503, 402])
  })

  test('a poll on the one without it takes the payment and answers 202; the other one settles it', async () => {
    const { first, second, cash, clock } = await gateways()
    const alice = first.buyer()
    const payment = alice.sign(await alice.ask())
    const { body } = await alice.buy(FOX, { payment })
    await first.idle()
    const reply = await alice.poll(body.poll_url, undefined, { gateway: second.gateway })
    expect([reply.status, reply.body.accepts.length]).toEqual([402, 1])
    const waiting = await alice.poll(body.poll_url, payment, { gateway: second.gateway })
    expect([waiting.status, cash.transfers.length]).toEqual([202, 0])
    await clock.advance(1_000)
    await first.gateway.maintain()
    const { status, body: collected } = await alice.poll(body.poll_url, payment, { gateway: second.gateway })
    expect([status, collected.payment.status, cash.transfers.length]).toEqual([200, 'already_settled', 1])
  })
})
