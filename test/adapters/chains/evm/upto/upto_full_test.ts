/** The scheme `upto` on a real node: the laws, and what only a chain with several keys can get wrong. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type Hex, toHex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { evmChain, type EvmConfig } from '../../../../../adapters/chains/evm/mod.ts'
import { leasedChain } from '../../../../../adapters/chains/evm/relayer_lease.ts'
import { memoryStorage } from '../../../../../adapters/storage/memory/mod.ts'
import { usdc } from '../../../../../core/x402/money.ts'
import { runLaws } from '../../../../conformance/law.ts'
import { uptoLaws } from '../../../../conformance/upto.ts'
import { type World, world } from '../evm_kit.ts'
import { type UptoHarness, uptoHarness } from './upto_kit.ts'

let chainWorld: World
beforeAll(async () => void (chainWorld = await world()), 60_000)
afterAll(() => chainWorld.close())

type Harness = UptoHarness
const harness = (change: Partial<EvmConfig> = {}) => uptoHarness(chainWorld, change)

runLaws('evm by upto', uptoLaws, async () => {
  const made = await harness()
  return { open: async () => made, close: async () => made.chain.close() }
})

describe('several keys', () => {
  const at = (h: Harness) => ({ now: h.now(), signal: AbortSignal.timeout(10_000), charge: usdc(1_234n) })

  test('a replica with another key verifies the payment, sends nothing, and sees what the right one has settled', async () => {
    const h = await harness()
    const facilitators = [privateKeyToAccount(h.config.relayerKey as Hex).address]
    const other = await harness({ payTo: h.config.payTo, facilitators })
    const payer = await h.payer()
    const payment = await h.sign(payer)
    expect(await other.chain.identify(payment, other.offer, at(h))).toMatchObject({ kind: 'known', payer })
    expect(await other.chain.verify(payment, other.offer, at(h))).toMatchObject({ kind: 'valid' })
    expect(await other.chain.settle(payment, other.offer, at(h))).toMatchObject({ kind: 'unavailable' })
    expect(await h.balanceOf(payer)).toBe(1_000_000n)
    const settled = await h.chain.settle(payment, h.offer, at(h))
    expect(settled).toMatchObject({ kind: 'settled' })
    expect(await other.chain.fate(payment, other.offer, at(h))).toEqual({
      kind: 'paid',
      receipt: settled.kind === 'settled' ? settled.receipt : undefined,
    } as never)
    h.chain.close()
    other.chain.close()
  })

  test('what a dead replica has offered is sent with its key by a living one, which leases it (contract 1.91)', async () => {
    const h = await harness()
    const spare = chainWorld.key()
    await chainWorld.ask('anvil_setBalance', privateKeyToAccount(spare).address, toHex(10n ** 20n))
    const keys = [h.config.relayerKey, spare].map((key) => {
      const { address } = privateKeyToAccount(key as Hex)
      return { name: address, key, address }
    })
    const facilitators = keys.map(({ address }) => address)
    const storage = memoryStorage()
    const leaseMs = 30_000
    const replica = (owner: string) =>
      leasedChain({
        keys,
        build: (relayerKey, role) => evmChain({ ...h.config, relayerKey, facilitators, watchesGas: role === 'sender' }),
        takeLease: (name, when) => storage.lease(name, owner, when),
        leaseMs,
      })
    const [dead, living] = [replica('dead'), replica('living')]
    const now = h.now()
    for (const each of [dead, living])
      expect([(await each.check({ now })).kind, await each.renew(now)]).toEqual(['ready', true])
    const payer = await h.payer()
    const payment = await h.sign(payer)
    expect(await living.settle(payment, h.offer, { ...at(h), now })).toMatchObject({ kind: 'unavailable' })
    expect(await h.balanceOf(payer)).toBe(1_000_000n)
    const later = { ...at(h), now: now + leaseMs }
    expect(await living.settle(payment, h.offer, later)).toMatchObject({ kind: 'settled' })
    expect(await h.balanceOf(payer)).toBe(1_000_000n - 1_234n)
    for (const each of [dead, living, h.chain]) each.close()
  })

  test('a stranger’s key is refused', async () => {
    const [h, other] = [await harness(), await harness()]
    const payment = await h.sign(await h.payer())
    expect(await other.chain.identify(payment, other.offer, at(h))).toMatchObject({
      kind: 'refused',
      reason: expect.stringContaining('invalid_permit2_recipient_mismatch'),
    })
    h.chain.close()
    other.chain.close()
  })
})

describe('a process that has not seen the settlement', () => {
  const at = (h: Harness) => ({ now: h.now(), signal: AbortSignal.timeout(10_000), charge: usdc(1_234n) })

  test('never refuses a used nonce before all blocks were searched, and finds the transfer in the end', async () => {
    const h = await harness()
    const payment = await h.sign(await h.payer())
    expect(await h.chain.settle(payment, h.offer, at(h))).toMatchObject({ kind: 'settled' })
    await chainWorld.ask('anvil_mine', toHex(150), '0x1')
    const restarted = evmChain({ ...h.config, logWindow: 1 })
    const ends: string[] = []
    for (let i = 0; i < 3; i++) ends.push((await restarted.settle(payment, h.offer, at(h))).kind)
    expect(ends).toEqual(['unknown', 'unknown', 'settled'])
    for (const each of [restarted, h.chain]) each.close()
  })
})

describe('the funds of a wallet', () => {
  const at = (h: Harness) => ({ now: h.now(), signal: AbortSignal.timeout(10_000) })

  test('are no more than Permit2 may move, so that open calls together are covered', async () => {
    const h = await harness()
    const payer = await h.payer(1_000_000n, 15_000n)
    expect(await h.chain.verify(await h.sign(payer), h.offer, at(h))).toMatchObject({ kind: 'valid', balance: 15_000n })
    const poor = await h.payer(1_000_000n, 9_999n)
    const verdict = await h.chain.verify(await h.sign(poor), h.offer, at(h))
    expect(verdict).toMatchObject({ kind: 'refused', code: 'PAYMENT_UNFUNDED' })
    expect(verdict.kind === 'refused' && verdict.reason).toContain('invalid_permit2_allowance_required')
    h.chain.close()
  })
})

describe('what the payer does between verification and settlement', () => {
  const at = (h: Harness) => ({ now: h.now(), signal: AbortSignal.timeout(10_000), charge: usdc(1_234n) })

  test('an emptied wallet, a taken allowance or a burnt nonce is refused, and costs no gas', async () => {
    const h = await harness()
    const relayer = privateKeyToAccount(h.config.relayerKey as Hex).address
    const before = await chainWorld.ask<Hex>('eth_getBalance', relayer, 'latest')
    for (const act of ['empty', 'burn'] as const) {
      const payer = await h.payer()
      const payment = await h.sign(payer)
      expect(await h.chain.verify(payment, h.offer, at(h))).toMatchObject({ kind: 'valid' })
      if (act === 'empty') await chainWorld.setBalance(payer, 0n)
      if (act === 'burn') await h.cancel(payment)
      expect(await h.chain.settle(payment, h.offer, at(h))).toMatchObject({ kind: 'refused' })
    }
    expect(await chainWorld.ask<Hex>('eth_getBalance', relayer, 'latest')).toBe(before)
    h.chain.close()
  })
})
