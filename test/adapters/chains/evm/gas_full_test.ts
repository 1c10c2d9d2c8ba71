/** Gas on a real chain: a key that runs dry stops selling, another one takes over, and what was sold is not lost. */
import { afterAll, expect, test } from 'bun:test'
import { type Hex, toHex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { evmChain, type EvmConfig } from '../../../../adapters/chains/evm/mod.ts'
import { type LeasedChain, leasedChain } from '../../../../adapters/chains/evm/relayer_lease.ts'
import { memoryStorage } from '../../../../adapters/storage/memory/mod.ts'
import type { Payment } from '../../../../core/x402/protocol.ts'
import { kit } from '../../../kit.ts'
import { type EvmHarness, evmHarness, instead, isSend, type World, world } from './evm_kit.ts'

const chainWorld: World = await world()
afterAll(() => chainWorld.close())

const ETHER = 10n ** 18n
const MINUTE = 60_000
const parseAddress = (key: string): Hex => privateKeyToAccount(key as Hex).address
const give = (address: string, wei: bigint) => chainWorld.ask('anvil_setBalance', address, toHex(wei))
const signal = () => AbortSignal.timeout(10_000)
const payment = async (h: EvmHarness): Promise<Payment> => h.sign(await h.payer(), h.offer)
const settle = (h: EvmHarness, chain: Pick<LeasedChain, 'settle'>, paid: Payment, now = h.now()) =>
  chain.settle(paid, h.offer, { now, signal: signal() })

async function withChain(work: (h: EvmHarness) => Promise<void>, change: Partial<EvmConfig> = {}): Promise<void> {
  const h = await evmHarness(chainWorld, change)
  try {
    await work(h)
  } finally {
    h.chain.close()
  }
}

/** A replica with these keys over a shared storage, checked and holding one where it can. */
async function replicas(h: EvmHarness, count: number, storage = memoryStorage()) {
  const keys = Array.from({ length: count }, () => chainWorld.key())
  const opened: LeasedChain[] = []
  const open = (owner: string, change: Partial<EvmConfig> = {}) => {
    const chain = leasedChain({
      keys: keys.map((key) => ({ name: `relayer:${parseAddress(key)}`, key, address: parseAddress(key) })),
      build: (relayerKey, role) => evmChain({ ...h.config, ...change, relayerKey, watchesGas: role === 'sender' }),
      takeLease: (name, at) => storage.lease(name, owner, at),
      leaseMs: 30_000,
    })
    opened.push(chain)
    return chain
  }
  return { keys, addresses: keys.map(parseAddress), open, close: () => opened.forEach((chain) => chain.close()) }
}

test('a relayer below its floor sells no more from the next reading on, and again once it is topped up', () =>
  withChain(async (h) => {
    const { chain } = h
    const address = parseAddress(h.config.relayerKey)
    const now = h.now()
    await chain.refresh({ now })
    expect([chain.terms(now).length, chain.closed?.(now)]).toEqual([1, undefined])
    await give(address, ETHER / 1_000_000n)
    await chain.refresh({ now: now + MINUTE - 1 })
    expect(chain.terms(now)).toHaveLength(1)
    await chain.refresh({ now: now + MINUTE })
    expect(chain.terms(now)).toEqual([])
    expect(chain.closed?.(now)).toEqual({
      code: 'no_gas',
      reason: expect.stringMatching(
        new RegExp(`^relayer_key: account ${address} holds 0.000001 ether for gas, below the floor of 0\\.\\d+ ether`),
      ),
    })
    await give(address, ETHER)
    await chain.refresh({ now: now + 2 * MINUTE })
    expect([chain.terms(now).length, chain.closed?.(now)]).toEqual([1, undefined])
  }))

test('the floor is what fifty settlements cost now, and never less than the fixed least; both can be set', () =>
  withChain(async (h) => {
    const floors = async (gasFloor: EvmConfig['gasFloor']) => {
      const chain = evmChain({ ...h.config, ...(gasFloor && { gasFloor }) })
      await chain.check({ now: h.now() })
      const { floor } = chain.gas()
      chain.close()
      return floor
    }
    const { max } = await (async () => {
      const block = await chainWorld.ask<{ baseFeePerGas: Hex }>('eth_getBlockByNumber', 'latest', false)
      const tip = BigInt(await chainWorld.ask<Hex>('eth_maxPriorityFeePerGas'))
      return { max: BigInt(block.baseFeePerGas) * 2n + tip }
    })()
    expect(await floors({ wei: 0n })).toBe(50n * 120_000n * max)
    expect(await floors({ wei: 0n, settlements: 7 })).toBe(7n * 120_000n * max)
    expect(await floors({ settlements: 0 })).toBe(50_000_000_000_000n)
    expect(await floors({ settlements: 0, wei: 7n })).toBe(7n)
  }))

test('what is spent is counted between two readings, so that a burst is noticed before it runs dry', () =>
  withChain(
    async (h) => {
      const address = parseAddress(h.config.relayerKey)
      const now = h.now()
      await h.chain.check({ now })
      const before = h.chain.gas().balance ?? 0n
      expect((await settle(h, h.chain, await payment(h))).kind).toBe('settled')
      const left = BigInt(await chainWorld.ask<Hex>('eth_getBalance', address, 'latest'))
      expect(h.chain.gas().balance).toBe(left)
      expect(left).toBeLessThan(before)
      await h.chain.refresh({ now: now + 1 })
      expect(h.chain.terms(now)).toEqual([])
    },
    { gasFloor: { wei: 100n * ETHER, settlements: 0 } },
  ))

test('a node that refuses for want of gas sends nothing, loses nothing, and stops the sale at once', () =>
  withChain(async (h) => {
    const address = parseAddress(h.config.relayerKey)
    await h.chain.check({ now: h.now() })
    const paid = await payment(h)
    await give(address, 1n)
    const now = h.now()
    expect(h.chain.terms(now)).toHaveLength(1)
    expect(await settle(h, h.chain, paid, now)).toMatchObject({
      kind: 'unavailable',
      reason: expect.stringMatching(/nothing was sent.*insufficient funds/i),
    })
    expect(h.chain.terms(now)).toEqual([])
    expect(h.chain.closed?.(now)).toMatchObject({ code: 'no_gas' })
    expect(await h.chain.fate(paid, h.offer, { now, signal: signal() })).toEqual({ kind: 'open' })
    // The gas price may have risen by what other tests have sent.
    await give(address, 1_000n * ETHER)
    await h.chain.refresh({ now: now + MINUTE })
    expect(h.chain.terms(now)).toHaveLength(1)
    expect(await settle(h, h.chain, paid)).toMatchObject({ kind: 'settled' })
  }))

test('of a crowd as many are settled as the account can pay, and none is lost', () =>
  withChain(
    async (h) => {
      const address = parseAddress(h.config.relayerKey)
      await settle(h, h.chain, await payment(h))
      const load = await Promise.all(Array.from({ length: 12 }, () => payment(h)))
      await h.chain.refresh({ now: h.now() + 2 * MINUTE })
      // so much gas that four transfers may be sent together, at the price that is offered
      const price = h.chain.gas().floor / 120_000n
      await give(address, price * (60_000n + 4n * 120_000n) + price * 60_000n)
      const all = await Promise.all(load.map((each) => settle(h, h.chain, each)))
      const settled = all.filter(({ kind }) => kind === 'settled').length
      expect(settled).toBeGreaterThanOrEqual(1)
      expect(all.filter(({ kind }) => kind === 'unavailable')).toHaveLength(12 - settled)
      await give(address, ETHER)
      const again = await Promise.all(load.map((each) => settle(h, h.chain, each)))
      expect(again.map(({ kind }) => kind)).toEqual(Array(12).fill('settled'))
      expect(await h.balanceOf(h.offer.payTo)).toBe(130_000n)
    },
    { gasFloor: { wei: 0n, settlements: 1 }, maxInFlight: 1 },
  ))

test('a replica whose key runs dry moves to one that is funded and free, and settles at once with it', () =>
  withChain(async (h) => {
    const { addresses, open, close } = await replicas(h, 4)
    const [first, empty, taken, spare] = addresses as [Hex, Hex, Hex, Hex]
    for (const address of [first, taken, spare]) await give(address, ETHER)
    await give(empty, 1n)
    const [one, two] = [open('one'), open('two')]
    const now = h.now()
    const checked = await one.check({ now })
    expect(checked).toMatchObject({ kind: 'ready', warnings: [expect.stringContaining(`account ${empty} holds`)] })
    await two.check({ now })
    expect([await one.renew(now), await two.renew(now)]).toEqual([true, true])
    const states = (chain: LeasedChain) => chain.keys().map(({ kind }) => kind)
    expect([states(one)[0], states(two)[2]]).toEqual(['serving', 'serving'])
    await give(first, 1n)
    const paid = await payment(h)
    expect(await settle(h, one, paid, now + 1)).toMatchObject({ kind: 'settled' })
    expect(states(one)).toEqual(['low', 'low', 'elsewhere', 'serving'])
    expect([one.terms(now).length, one.closed?.(now)]).toEqual([1, undefined])
    close()
  }))

test('and by itself at the reading of a minute, before a buyer notices', () =>
  withChain(async (h) => {
    const { addresses, open, close } = await replicas(h, 2)
    for (const address of addresses) await give(address, ETHER)
    const chain = open('one')
    const now = h.now()
    await chain.check({ now })
    await chain.renew(now)
    await give(addresses[0] as Hex, 1n)
    await chain.refresh({ now: now + 1_000 })
    for (let later = now + 10_000; later <= now + MINUTE; later += 10_000) await chain.renew(later)
    await chain.refresh({ now: now + MINUTE + 1 })
    expect(chain.keys().map(({ kind }) => kind)).toEqual(['low', 'serving'])
    expect(chain.terms(now + MINUTE + 1)).toHaveLength(1)
    close()
  }))

test('without a funded key it says of each why it does not serve', () =>
  withChain(async (h) => {
    const { addresses, open, close } = await replicas(h, 3)
    const [balance, poor, coded] = addresses as [Hex, Hex, Hex]
    await give(balance, ETHER)
    await give(poor, 1n)
    await give(coded, ETHER)
    await chainWorld.ask('anvil_setCode', coded, '0x00')
    const [one, two] = [open('one'), open('two')]
    const now = h.now()
    for (const chain of [one, two]) expect(await chain.check({ now })).toMatchObject({ kind: 'ready' })
    expect([await one.renew(now), await two.renew(now)]).toEqual([true, false])
    expect(two.keys().map(({ kind }) => kind)).toEqual(['elsewhere', 'low', 'wrong'])
    const closed = two.closed?.(now)
    expect(closed?.code).toBe('no_gas')
    for (const text of [
      `${balance}: another replica holds it`,
      `${poor}: account ${poor} holds 0.000000000000000001 ether`,
      `${coded}: account ${coded} has code`,
    ])
      expect(closed?.reason).toContain(text)
    expect(two.terms(now)).toEqual([])
    close()
  }))

test('keys of which none can ever pay are a mistake of the configuration', () =>
  withChain(async (h) => {
    const { open, close } = await replicas(h, 2)
    expect(await open('one').check({ now: h.now() })).toMatchObject({
      kind: 'wrong',
      problems: [expect.stringContaining('relayer_key'), expect.stringContaining('0 ether')],
    })
    close()
  }))

test('a key whose balance the node does not tell is unreadable, and not called empty', () =>
  withChain(async (h) => {
    const { addresses, open, close } = await replicas(h, 2)
    for (const address of addresses) await give(address, ETHER)
    const chain = open('one')
    const now = h.now()
    await chain.check({ now })
    h.line.judge = () =>
      instead(({ method }) => method === 'eth_getBalance', { error: { code: -32000, message: 'no state' } })
    expect(await chain.renew(now)).toBe(false)
    expect(chain.keys().map(({ kind }) => kind)).toEqual(['unreadable', 'unreadable'])
    expect(chain.closed?.(now)).toMatchObject({ code: 'no_key', reason: expect.stringContaining('it cannot be read') })
    h.recover()
    expect(await chain.renew(now)).toBe(true)
    close()
  }))

test('a gateway without gas answers 503 with Retry-After before any 402, and tells only the operator why', () =>
  withChain(async (h) => {
    const { addresses, open, close } = await replicas(h, 1)
    const [address] = addresses as [Hex]
    await give(address, ETHER)
    const chain = open('one')
    const now = h.now()
    await chain.check({ now })
    await chain.renew(now)
    const { buyer, gateway, clock } = kit({ ports: { chain }, operatorToken: '0123456789abcdef' })
    await chain.renew(clock.now())
    expect((await buyer().ask()).status).toBe(402)
    await give(address, 1n)
    await chain.refresh({ now: clock.now() + MINUTE })
    const { status, body, headers } = await buyer().ask()
    expect([status, body.error, headers.get('retry-after'), headers.get('payment-required')]).toEqual([
      503,
      'Not ready',
      '60',
      null,
    ])
    expect(JSON.stringify(body)).not.toContain(address)
    const health = async (path: string, init: RequestInit = {}) =>
      (await gateway.fetch(new Request(`http://localhost${path}`, init))).json()
    expect(await health('/api/health')).toMatchObject({ ready: false })
    const seen = await health('/api/v1/health/chain')
    expect(seen).toMatchObject({ status: 'degraded', reason: 'no_gas', networks: [] })
    expect(JSON.stringify(seen)).not.toContain(address)
    const reported = await health('/api/v1/health/chain', { headers: { authorization: 'Bearer 0123456789abcdef' } })
    expect(reported).toMatchObject({ detail: expect.stringContaining(`account ${address} holds`) })
    close()
  }))

test('a transaction under way with a key that is left keeps its lease until it is over', () =>
  withChain(async (h) => {
    const storage = memoryStorage()
    const { addresses, open, close } = await replicas(h, 2, storage)
    const [first] = addresses as [Hex]
    for (const address of addresses) await give(address, ETHER)
    const chain = open('one')
    const now = h.now()
    await chain.check({ now })
    await chain.renew(now)
    let arrived: () => void = () => {}
    const isOut = new Promise<void>((resolve) => (arrived = resolve))
    let go: () => void = () => {}
    const balance = new Promise<void>((resolve) => (go = resolve))
    h.line.judge = (messages) => {
      if (!messages.some((message) => isSend(message) && message.params[0] !== '0x')) return 'fine' // a check sends nothing
      return async (_, forward) => {
        arrived()
        await balance
        await give(first, ETHER)
        return forward()
      }
    }
    const settling = settle(h, chain, await payment(h))
    await isOut
    await give(first, 1n)
    for (const later of [20_000, 40_000]) await chain.renew(now + later)
    const end = now + MINUTE
    await chain.refresh({ now: end })
    await chain.renew(end)
    expect(chain.keys().map(({ kind }) => kind)).toEqual(['low', 'serving'])
    const isFree = (at: number) => storage.lease(`relayer:${first}`, 'other', { now: at, until: at + 1 })
    expect(await isFree(end + 1)).toBe(false)
    go()
    expect(await settling).toMatchObject({ kind: 'settled' })
    await chain.renew(end + 2)
    expect(await isFree(end + 3)).toBe(true)
    close()
  }))
