/**
 * Payers who would burn the relayer's gas: what passes rehearsal and reverts on chain ends, and takes nobody else with
 * it.
 */
import { afterAll, expect, test } from 'bun:test'
import { type Hex, pad, toHex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { payerRevertLimiter } from '../../../../adapters/chains/lib/revert_limiter.ts'
import { word } from '../../../../adapters/chains/lib/hex.ts'
import type { Payment } from '../../../../core/x402/protocol.ts'
import { type EvmHarness, evmHarness, isSend, signPayment, type World, world } from './evm_kit.ts'
import wallets from './moody_wallet.json' with { type: 'json' }

const chainWorld: World = await world()
afterAll(() => chainWorld.close())

const HOUR = 3_600_000
const [FREE_ONLY, YES, NO] = [0n, 1n, 2n]
const BLOCKED = {
  kind: 'refused',
  reason: expect.stringContaining('passed simulation and reverted on chain; nothing is sent for it until'),
}
const settle = (h: EvmHarness, payment: Payment, now = h.now()) =>
  h.chain.settle(payment, h.offer, { now, signal: AbortSignal.timeout(10_000) })

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

/** How many transactions the relayer has paid for. */
async function sent(h: EvmHarness): Promise<number> {
  const { address } = privateKeyToAccount(h.config.relayerKey as Hex)
  return Number(await chainWorld.ask<Hex>('eth_getTransactionCount', address, 'latest'))
}

/** A wallet of the attacker's in this mood, with payments that it may or may not recognize. */
async function moody(h: EvmHarness, mood: bigint) {
  const { contractAddress } = await chainWorld.act(null, wallets.MoodyWallet.creation as Hex)
  const address = contractAddress as Hex
  await chainWorld.setBalance(address, 1_000_000n)
  const feel = (it: bigint) => chainWorld.ask('anvil_setStorageAt', address, pad('0x0'), pad(toHex(it)))
  await feel(mood)
  const owner = privateKeyToAccount(chainWorld.key())
  const sign = async () => {
    const validBefore = BigInt(Math.floor(h.now() / 1000) + 7_200)
    const payment = await signPayment(owner, h.offer, { now: h.now(), from: address, validBefore })
    return {
      ...payment,
      payload: { ...payment.payload, signature: `0x00${String(payment.payload.signature).slice(2)}` },
    }
  }
  return { address, feel, sign }
}

/** Events between a rehearsal and the block. */
function beforeSends(h: EvmHarness, act: () => Promise<unknown>): void {
  h.line.judge = (messages) => {
    if (!messages.some(isSend)) return 'fine'
    return async (_, forward) => {
      await act()
      return forward()
    }
  }
}

test('a wallet that says yes only where gas is free is seen through in rehearsal', () =>
  withChain(async (h) => {
    const wallet = await moody(h, FREE_ONLY)
    const payment = await wallet.sign()
    expect(
      await h.chain.identify(payment, h.offer, { now: h.now(), signal: AbortSignal.timeout(10_000) }),
    ).toMatchObject({ kind: 'known' })
    for (let i = 0; i < 5; i++)
      expect(await settle(h, await wallet.sign())).toMatchObject({
        kind: 'refused',
        reason: 'transaction simulation failed',
      })
    expect(await sent(h)).toBe(0)
  }))

test('what goes alone is rehearsed as it is sent: caller, gas and price', () =>
  withChain(async (h) => {
    const wallet = await moody(h, YES)
    const calls: Record<string, string>[] = []
    h.line.judge = (messages) => {
      for (const { method, params } of messages)
        if (method === 'eth_call') calls.push(params[0] as Record<string, string>)
      return 'fine'
    }
    expect(await settle(h, await wallet.sign())).toMatchObject({ kind: 'settled' })
    const { address } = privateKeyToAccount(h.config.relayerKey as Hex)
    const [rehearsal] = calls
    expect(rehearsal).toMatchObject({ from: address, to: h.offer.asset.toLowerCase(), gas: toHex(500_000n) })
    expect(BigInt(rehearsal?.maxFeePerGas ?? 0)).toBeGreaterThan(0n)
  }))

test('a wallet that turns bad in the block burns gas twice in an hour, whatever it signs and however often it is asked', () =>
  withChain(async (h) => {
    const wallet = await moody(h, YES)
    beforeSends(h, () => wallet.feel(NO))
    const attack = async () => {
      await wallet.feel(YES)
      return settle(h, await wallet.sign())
    }
    for (let i = 0; i < 2; i++)
      expect(await attack()).toMatchObject({ kind: 'refused', reason: expect.stringContaining('reverted') })
    const now = h.now()
    for (let i = 0; i < 6; i++) expect(await attack()).toMatchObject(BLOCKED)
    expect(await sent(h)).toBe(2)

    const other = await h.payer()
    expect(await settle(h, await h.sign(other, h.offer))).toMatchObject({ kind: 'settled' })
    h.recover()
    await wallet.feel(YES)
    const payment = await wallet.sign()
    expect(await settle(h, payment, now + HOUR - 60_000)).toMatchObject(BLOCKED)
    expect(await settle(h, payment, now + HOUR)).toMatchObject({ kind: 'settled' })
  }))

test('and no more often with many payments at once', () =>
  withChain(async (h) => {
    const wallet = await moody(h, YES)
    const all = await Promise.all(Array.from({ length: 12 }, wallet.sign))
    beforeSends(h, () => wallet.feel(NO))
    const others = await Promise.all(Array.from({ length: 3 }, async () => h.sign(await h.payer(), h.offer)))
    const settlements = await Promise.all([...all, ...others].map((payment) => settle(h, payment)))
    expect(settlements.map(({ kind }) => kind)).toEqual([...Array(12).fill('refused'), ...Array(3).fill('settled')])
    const reverted = settlements.filter(
      (each) => each.kind === 'refused' && each.reason.includes('the transfer reverted'),
    )
    expect(reverted.length).toBeLessThanOrEqual(2)
    expect(await sent(h)).toBeLessThanOrEqual(2 + 3)
  }))

test('a good wallet with many payments at once is served', () =>
  withChain(async (h) => {
    const wallet = await moody(h, YES)
    const all = await Promise.all(Array.from({ length: 9 }, wallet.sign))
    const settlements = await Promise.all(all.map((payment) => settle(h, payment)))
    expect(settlements.map(({ kind }) => kind)).toEqual(Array(9).fill('settled'))
  }))

test('a payment that a third party made of a blocked wallet is settled all the same', () =>
  withChain(async (h) => {
    const wallet = await moody(h, YES)
    beforeSends(h, () => wallet.feel(NO))
    for (let i = 0; i < 2; i++) {
      await wallet.feel(YES)
      await settle(h, await wallet.sign())
    }
    h.recover()
    await wallet.feel(YES)
    const payment = await wallet.sign()
    expect(await settle(h, payment)).toMatchObject(BLOCKED)
    await h.submit(payment)
    expect(await settle(h, payment)).toMatchObject({ kind: 'settled' })
  }))

test('a plain account may be emptied in between four times, and still pays; the fifth time it waits an hour', () =>
  withChain(async (h) => {
    const payer = await h.payer()
    const drained = async () => {
      await h.fund(payer, 1_000_000n)
      beforeSends(h, () => h.fund(payer, 0n))
      const settlement = await settle(h, await h.sign(payer, h.offer))
      h.recover()
      await h.fund(payer, 1_000_000n)
      return settlement
    }
    for (let i = 0; i < 4; i++)
      expect(await drained()).toMatchObject({ kind: 'refused', reason: expect.stringContaining('reverted') })
    expect(await settle(h, await h.sign(payer, h.offer))).toMatchObject({ kind: 'settled' })
    expect(await drained()).toMatchObject({ kind: 'refused', reason: expect.stringContaining('the transfer reverted') })
    const before = await sent(h)
    expect(await settle(h, await h.sign(payer, h.offer))).toMatchObject(BLOCKED)
    expect(await sent(h)).toBe(before)
  }))

test('among others, only the account at fault is counted', () =>
  withChain(async (h) => {
    const [bad, good] = [await h.payer(), await h.payer()]
    for (let i = 0; i < 6; i++) {
      await h.fund(bad, 1_000_000n)
      const [first, second] = [await h.sign(bad, h.offer), await h.sign(good, h.offer)]
      beforeSends(h, () => h.fund(bad, 0n))
      const both = await Promise.all([settle(h, first), settle(h, second)])
      h.recover()
      expect(both).toMatchObject([i < 5 ? { kind: 'refused' } : BLOCKED, { kind: 'settled' }])
    }
  }))

test('strikes are forgotten an hour after the last, and the payer asked about least recently first', () => {
  const revertLimiter = payerRevertLimiter()
  const payer = (i: number): Hex => `0x${word(BigInt(i)).slice(24)}`
  const [now, first] = [1_000_000, payer(0)]
  revertLimiter.recordRevert(first, now)
  expect(revertLimiter.blockedUntil(first, true, now)).toBeUndefined()
  revertLimiter.recordRevert(first, now + 1_000)
  expect([revertLimiter.blockedUntil(first, true, now), revertLimiter.blockedUntil(first, false, now)]).toEqual([
    now + 1_000 + HOUR,
    undefined,
  ])
  expect(revertLimiter.blockedUntil(first, true, now + 999 + HOUR)).toBe(now + 1_000 + HOUR)
  expect(revertLimiter.blockedUntil(first, true, now + 1_000 + HOUR)).toBeUndefined()
  for (let i = 1; i < 10_000; i++) revertLimiter.recordRevert(payer(i), now)
  expect(revertLimiter.count(first, now)).toBe(2)
  for (let i = 10_000; i < 20_000; i++) revertLimiter.recordRevert(payer(i), now)
  expect(revertLimiter.count(first, now)).toBe(0)
})
