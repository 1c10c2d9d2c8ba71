/** Fee payers on a local Solana: one that runs low is not offered, and the next one is. */
import { afterAll, expect, test } from 'bun:test'
import { FEE_PAYER_FLOOR } from '../../../../adapters/chains/solana/node/gas.ts'
import { solanaChain } from '../../../../adapters/chains/solana/mod.ts'
import type { SolanaNode } from '../../../../server/devnet/solana/node.ts'
import { newKey, solanaHarness, solanaWorld } from './solana_kit.ts'

const node: SolanaNode = await solanaWorld()
afterAll(() => node.stop())

const MINUTE = 60_000
const enough = BigInt(FEE_PAYER_FLOOR)

async function twoFeePayers(lamports: readonly [bigint, bigint]) {
  const h = await solanaHarness(node)
  const keys = [await newKey(), await newKey()] as const
  for (const [i, key] of keys.entries()) if (lamports[i]) node.airdropSol(key.address, lamports[i])
  const chain = solanaChain({ ...h.config, feePayerKeys: keys.map(({ secret }) => secret) })
  const checked = await chain.check({ now: node.now() })
  const offered = () => chain.terms(node.now()).map(({ extra }) => extra.feePayer)
  const close = () => {
    chain.close()
    h.chain.close()
  }
  return { h, keys, chain, checked, offered, close }
}

test('the first fee payer that holds enough is offered, also from the start (contract 21.3)', async () => {
  const { keys, checked, offered, close, chain } = await twoFeePayers([0n, enough])
  expect(checked.kind).toBe('ready')
  expect(offered()).toEqual([keys[1].address])
  expect(chain.closed?.(0)).toBeUndefined()
  close()
})

test('one that runs low gives way to the next at the reading of a minute, and comes back when it is topped up', async () => {
  const { keys, chain, offered, close } = await twoFeePayers([enough, enough])
  const now = node.now()
  expect(offered()).toEqual([keys[0].address])
  node.airdropSol(keys[0].address, -1n)
  await chain.refresh({ now: now + MINUTE - 1 })
  expect(offered()).toEqual([keys[0].address])
  await chain.refresh({ now: now + MINUTE })
  expect(offered()).toEqual([keys[1].address])
  node.airdropSol(keys[1].address, -1n)
  await chain.refresh({ now: now + 2 * MINUTE })
  expect(offered()).toEqual([])
  const low = `account ${keys[0].address} holds ${enough - 1n} lamports for fees, below the floor of ${enough}`
  expect(chain.closed?.(now)).toMatchObject({
    code: 'no_gas',
    reason: expect.stringContaining(`fee_payer_keys.0: ${low}`),
  })
  node.airdropSol(keys[0].address, 1n)
  await chain.refresh({ now: now + 3 * MINUTE })
  expect(offered()).toEqual([keys[0].address])
  close()
})

test('what is spent is counted between two readings', async () => {
  const h = await solanaHarness(node, { feePayerFloor: 1_000_000_000 })
  const at = { now: node.now(), signal: AbortSignal.timeout(10_000) }
  const payment = await h.sign(await h.payer(), h.offer)
  expect(h.chain.terms(at.now)).toHaveLength(1)
  expect(await h.chain.settle(payment, h.offer, at)).toMatchObject({ kind: 'settled' })
  expect(h.chain.feePayers()[0]?.balance).toBe(Number(node.lamportsOf(h.feePayer.address)))
  expect(h.chain.terms(at.now)).toEqual([])
  h.chain.close()
})

test('a fee that cannot be paid sends nothing, loses nothing, and ends the offer until the balance was read', async () => {
  const h = await solanaHarness(node)
  const at = { now: node.now(), signal: AbortSignal.timeout(10_000) }
  const payment = await h.sign(await h.payer(), h.offer)
  const all = node.lamportsOf(h.feePayer.address)
  node.airdropSol(h.feePayer.address, -all)
  expect(await h.chain.settle(payment, h.offer, at)).toMatchObject({
    kind: 'unavailable',
    reason: expect.stringContaining('nothing was sent'),
  })
  expect(h.chain.terms(at.now)).toEqual([])
  await h.chain.refresh({ now: at.now + 1 })
  expect(h.chain.closed?.(at.now)).toMatchObject({
    code: 'no_gas',
    reason: expect.stringContaining('holds 0 lamports'),
  })
  node.airdropSol(h.feePayer.address, all)
  await h.chain.refresh({ now: at.now + MINUTE + 1 })
  expect(h.chain.terms(at.now)).toHaveLength(1)
  expect(await h.chain.settle(payment, h.offer, at)).toMatchObject({ kind: 'settled' })
  h.chain.close()
})
