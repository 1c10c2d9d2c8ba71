/** Attacks on API keys and accidents, on a real node: withdrawals, old backups, rotation, deposits not mined. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { encodeFunctionData, toHex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import type { ChannelConfig } from '../../../../../../adapters/chains/evm/channels/digests.ts'
import { batchSettlementAbi as abi } from '../../../../../../adapters/chains/evm/node/x402_contracts.ts'
import { lower } from '../../../../../../adapters/chains/lib/hex.ts'
import { memoryStorage } from '../../../../../../adapters/storage/memory/mod.ts'
import type { Storage } from '../../../../../../core/mod.ts'
import { COLLECTOR, COLLECTOR_CODE } from '../../../../../conformance/schemes/signers.ts'
import { NETWORK, world, type World } from '../../evm_kit.ts'
import { DEPOSIT, PRICE } from '../channel_kit.ts'
import { nodeKeys } from './key_kit.ts'

let node: World
const { keySeller, keyBuyer, buyWith, channelsOf, sendAs, at } = nodeKeys(() => node)

beforeAll(async () => void (node = await world()), 60_000)
afterAll(async () => await node.close())

type Sold = Awaited<ReturnType<typeof keySeller>>
type Buyer = Awaited<ReturnType<typeof keyBuyer>>

async function funded(sold: Sold): Promise<Buyer> {
  const buyer = await keyBuyer(sold.offer)
  expect(await sold.keys.deposit(await buyer.deposit(), at())).toMatchObject({ kind: 'deposited' })
  return buyer
}

const buy = async (sold: Pick<Sold, 'chain' | 'keys' | 'offer'>, { seed }: Buyer, charge: bigint) =>
  await (await buyWith(sold, { seed, charge })).settle()

async function close({ keys }: Pick<Sold, 'keys'>, { seed }: Buyer) {
  const opened = await keys.open(seed)
  opened.end()
  return await keys.close(opened, { ...at(), settleFinished: async () => {} })
}

/** A storage with the records of a channel and of the index of its key as they are now. */
async function backup(storage: Storage, { channelId, key }: Buyer, authorizer: string): Promise<Storage> {
  const restored = memoryStorage()
  for (const [kind, id] of [
    ['channel', `${NETWORK}/${channelId}`],
    ['channel_key', `${NETWORK}/${lower(authorizer)}/${lower(key.address)}`],
  ] as const) {
    const record = await storage.getRecord(kind, id, node.now())
    if (!record) throw new Error(`there is no ${kind} ${id}`)
    await restored.putRecord(structuredClone(record), node.now())
  }
  return restored
}

const authorizerOf = ({ offer }: Sold) => String((offer.extra as { receiverAuthorizer: string }).receiverAuthorizer)

test('after the restore of an old backup a key pays on, and is charged again for nothing that was claimed', async () => {
  const storage = memoryStorage()
  const sold = await keySeller(storage)
  const buyer = await funded(sold)
  expect(await buy(sold, buyer, 200n)).toMatchObject({ kind: 'settled' })
  const restored = await backup(storage, buyer, authorizerOf(sold))
  // Charged and claimed since the backup; the last charge is not claimed, and so is lost to the seller alone.
  expect(await buy(sold, buyer, 300n)).toMatchObject({ kind: 'settled' })
  await sold.chain.claimChannels?.({ now: node.now() })
  expect(await buy(sold, buyer, 50n)).toMatchObject({ kind: 'settled' })
  sold.chain.close()
  const chain = await sold.open(restored)
  if (!chain.apiKeys) throw new Error('keys are off')
  const again = { ...sold, chain, keys: chain.apiKeys }
  // The chain's total counts, once it is read: what the backup says of the charges is older.
  await chain.claimChannels?.({ now: node.now() })
  expect(await buy(again, buyer, 100n)).toMatchObject({ kind: 'settled' })
  await chain.claimChannels?.({ now: node.now() })
  const [channel] = await channelsOf(again.keys, buyer.seed)
  expect(channel).toMatchObject({ charged: 600n, claimed: 600n, available: DEPOSIT - 600n })
  expect(await close(again, buyer)).toMatchObject({ kind: 'refunded' })
  expect(await node.balanceOf(buyer.payer.address)).toBe(DEPOSIT * 2n - 600n)
  expect(await node.balanceOf(sold.payTo)).toBe(600n)
  chain.close()
})

test('withdrawals that are asked for again and again stop new calls and take nothing that is charged', async () => {
  const sold = await keySeller()
  const buyer = await funded(sold)
  await node.ask('anvil_setBalance', buyer.key.address, toHex(10n ** 20n))
  const { settle } = await buyWith(sold, { seed: buyer.seed, charge: 400n })
  const withdraw = () =>
    // By whoever has the key: the money goes to the payer all the same.
    sendAs(buyer.key, encodeFunctionData({ abi, functionName: 'initiateWithdraw', args: [buyer.config, DEPOSIT] }))
  for (let again = 0; again < 3; again++) {
    await withdraw().catch(() => {})
    await sold.chain.claimChannels?.({ now: node.now() })
  }
  expect(await settle()).toMatchObject({ kind: 'settled' })
  await sold.chain.claimChannels?.({ now: node.now() })
  expect(await node.balanceOf(sold.payTo)).toBe(400n)
  expect(await channelsOf(sold.keys, buyer.seed)).toMatchObject([{ available: 0n }])
  const opened = await sold.keys.open(buyer.seed)
  const order = { offers: [sold.offer], name: 'while withdrawing', isLate: true, until: node.now() + 600_000 }
  const paying = await sold.keys.pay(opened, order, at())
  if (!paying) throw new Error('the key has a channel')
  expect(await sold.chain.verify(paying.payment, sold.offer, at())).toMatchObject({
    kind: 'refused',
    code: 'PAYMENT_UNFUNDED',
    reason: expect.stringContaining('being withdrawn'),
  })
  opened.end()
  // A refund ends the withdrawal.
  expect(await close(sold, buyer)).toMatchObject({ kind: 'refunded', receipt: { amount: String(DEPOSIT - 400n) } })
  expect(await node.balanceOf(buyer.payer.address)).toBe(DEPOSIT * 2n - 400n)
  sold.chain.close()
})

test('a deposit that is not mined is no credit, and counts once when it is', async () => {
  const sold = await keySeller()
  const buyer = await keyBuyer(sold.offer)
  const payment = await buyer.deposit()
  await node.ask('evm_setAutomine', false)
  await node.ask('evm_setIntervalMining', 0)
  const waiting = new AbortController()
  const depositing = sold.keys.deposit(payment, { now: node.now(), signal: waiting.signal })
  let pending = 0
  while (pending === 0) pending = Number((await node.ask<{ pending: string }>('txpool_status')).pending)
  expect(await channelsOf(sold.keys, buyer.seed)).toEqual([])
  const opened = await sold.keys.open(buyer.seed)
  const order = { offers: [sold.offer], name: 'too early', isLate: true, until: node.now() + 600_000 }
  expect(await sold.keys.pay(opened, order, at())).toBeUndefined()
  opened.end()
  waiting.abort()
  expect(await depositing).toMatchObject({ kind: 'unknown' })
  await node.ask('evm_setAutomine', true)
  await node.ask('evm_mine')
  const later = { now: node.now() + 60_000, signal: at().signal }
  expect(await sold.keys.deposit(payment, later)).toMatchObject({
    kind: 'deposited',
    channel: { deposited: DEPOSIT, available: DEPOSIT },
  })
  expect(await sold.keys.deposit(payment, later)).toMatchObject({ kind: 'deposited', channel: { available: DEPOSIT } })
  expect(await node.balanceOf(buyer.payer.address)).toBe(DEPOSIT)
  sold.chain.close()
})

test('a deposit below the smallest is refused and stores nothing', async () => {
  const sold = await keySeller(memoryStorage(), { minDeposit: DEPOSIT + 1n })
  const buyer = await keyBuyer(sold.offer)
  expect(await sold.keys.deposit(await buyer.deposit(), at())).toMatchObject({
    kind: 'refused',
    reason: expect.stringContaining(`deposit.amount is ${DEPOSIT}; it must be at least`),
  })
  expect(await channelsOf(sold.keys, buyer.seed)).toEqual([])
  expect(await node.balanceOf(buyer.payer.address)).toBe(DEPOSIT * 2n)
  sold.chain.close()
})

test('dust that strangers put into channels with the address of a key changes nothing for it', async () => {
  const sold = await keySeller()
  const [owner, stranger] = [await funded(sold), await keyBuyer(sold.offer)]
  await node.ask('anvil_setCode', COLLECTOR, COLLECTOR_CODE)
  await node.setBalance(COLLECTOR, 6n)
  await node.ask('anvil_setBalance', stranger.payer.address, toHex(10n ** 20n))
  for (let i = 0; i < 6; i++) {
    const config: ChannelConfig = { ...owner.config, payer: lower(privateKeyToAccount(node.key()).address) }
    await sendAs(
      stranger.payer,
      encodeFunctionData({ abi, functionName: 'deposit', args: [config, 1n, COLLECTOR, '0x'] }),
    )
  }
  expect(await channelsOf(sold.keys, owner.seed)).toMatchObject([{ channelId: owner.channelId, available: DEPOSIT }])
  expect(await buy(sold, owner, 100n)).toMatchObject({ kind: 'settled' })
  sold.chain.close()
})

test('a key of one gateway is unknown at another one, which signs and stores nothing for it', async () => {
  const [home, other] = [await keySeller(), await keySeller()]
  const buyer = await funded(home)
  expect(await channelsOf(other.keys, buyer.seed)).toEqual([])
  const opened = await other.keys.open(buyer.seed)
  const order = { offers: [other.offer], name: 'elsewhere', isLate: true, until: node.now() + 600_000 }
  expect(await other.keys.pay(opened, order, at())).toBeUndefined()
  expect(await other.keys.close(opened, { ...at(), settleFinished: async () => {} })).toBeUndefined()
  opened.end()
  expect(await buy(home, buyer, 100n)).toMatchObject({ kind: 'settled' })
  for (const { chain } of [home, other]) chain.close()
})

test('after a rotation of the payee an old key pays on, and its claims go to the payee that its deposit named', async () => {
  const storage = memoryStorage()
  const sold = await keySeller(storage)
  const buyer = await funded(sold)
  expect(await buy(sold, buyer, 200n)).toMatchObject({ kind: 'settled' })
  sold.chain.close()
  const next = await keySeller(storage, { authorizerKey: sold.authorizerKey })
  expect(next.payTo).not.toBe(sold.payTo)
  expect(await buy(next, buyer, 300n)).toMatchObject({ kind: 'settled' })
  await next.chain.claimChannels?.({ now: node.now() })
  expect([await node.balanceOf(sold.payTo), await node.balanceOf(next.payTo)]).toEqual([500n, 0n])
  expect(await close(next, buyer)).toMatchObject({ kind: 'refunded', receipt: { amount: String(DEPOSIT - 500n) } })
  // A new deposit names the new payee.
  const newer = await funded(next)
  expect(await buy(next, newer, PRICE)).toMatchObject({ kind: 'settled' })
  await next.chain.claimChannels?.({ now: node.now() })
  expect(await node.balanceOf(next.payTo)).toBe(PRICE)
  next.chain.close()
})

test('after a rotation of the claim key an old key is unknown, and the old claim key still claims and refunds it', async () => {
  const storage = memoryStorage()
  const sold = await keySeller(storage)
  const buyer = await funded(sold)
  expect(await buy(sold, buyer, 200n)).toMatchObject({ kind: 'settled' })
  const rotated = await keySeller(storage)
  expect(await channelsOf(rotated.keys, buyer.seed)).toEqual([])
  await rotated.chain.claimChannels?.({ now: node.now() })
  expect(await node.balanceOf(sold.payTo)).toBe(0n)
  const old = await sold.open(storage)
  if (!old.apiKeys) throw new Error('keys are off')
  expect(await close({ keys: old.apiKeys }, buyer)).toMatchObject({ kind: 'refunded' })
  expect(await node.balanceOf(sold.payTo)).toBe(200n)
  expect(await node.balanceOf(buyer.payer.address)).toBe(DEPOSIT * 2n - 200n)
  for (const chain of [sold.chain, rotated.chain, old]) chain.close()
})
